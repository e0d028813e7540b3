/* cut.h: one memory cut into pieces; the same code counts first and cuts then. */
#ifndef ATTN_NN_CUT_H
#define ATTN_NN_CUT_H

#include "src/base/mem.h"

typedef struct attn__cursor {
    char *base; /* NULL: only counts */
    size_t at;  /* SIZE_MAX: too far */
} attn__cursor;

/* rows * cols * unit bytes at the next cache line; NULL while counting. */
static inline void *attn__take(attn__cursor *c, size_t rows, size_t cols, size_t unit)
{
    size_t n, from = c->at;

    if (!attn__mul(rows, cols, &n) || !attn__mul(n, unit, &n) || !attn__add(n, 63, &n) ||
        !attn__add(c->at, n / 64 * 64, &c->at)) {
        c->at = SIZE_MAX;
        return NULL;
    }
    return c->base ? c->base + from : NULL;
}

#endif
