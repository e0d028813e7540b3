/* example.h: what the examples share: giving up with a message, and numbers to compute with. */
#ifndef ATTN_EXAMPLES_EXAMPLE_H
#define ATTN_EXAMPLES_EXAMPLE_H

#include <attn/attn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* Every call of attn returns a status and, on failure, says in `err` what was wrong with which
 * argument. */
static inline void must(attn_status status, const attn_error *err)
{
    if (status == ATTN_OK)
        return;
    fprintf(stderr, "%s: %s\n", attn_status_text(status), err->text);
    exit(1);
}

/* n numbers between -1 and 1, always the same for the same seed. */
static inline float *numbers(size_t n, uint64_t seed)
{
    float *x = malloc((n ? n : 1) * sizeof *x);
    if (!x) {
        fprintf(stderr, "out of memory\n");
        exit(1);
    }
    for (size_t i = 0; i < n; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u; /* Knuth's MMIX generator */
        x[i] = (float)((double)(seed >> 40) / (1 << 23) - 1);
    }
    return x;
}

#endif
