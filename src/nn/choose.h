/* choose.h: next tokens of one row of logits: the most probable ones, drawn ones, given ones. */
#ifndef ATTN_NN_CHOOSE_H
#define ATTN_NN_CHOOSE_H

#include "include/attn/attn.h"

#include <stdbool.h>

typedef struct attn__candidate {
    double log_probability; /* the model's */
    int32_t token;
} attn__candidate;

/* A row that has room for n rounded up to a multiple of 64; it is without meaning afterwards. */
typedef struct attn__row {
    const attn_ctx *ctx;
    bool f64;
    void *x;
    size_t n;
    /* Tokens that may not be chosen, of probabilities like any other; `saved` has as much room. */
    const int32_t *masked;
    double *saved;
    size_t masked_count;
} attn__row;

/* How tokens are drawn; see attn_generate_options. */
typedef struct attn__drawing {
    double temperature, top_p;
    size_t top_k;          /* 0: all */
    attn__candidate *list; /* n of them */
} attn__drawing;

/* The k most probable tokens, best first, of equals the lower; fewer if there are fewer. *count is
 * their number. False if a logit is NaN or +inf. */
bool attn__choose_best(const attn__row *r, size_t k, attn__candidate *best, size_t *count);

/* Tokens by *count uniform numbers in [0, 1), each by itself. *count becomes 0 if none is left. */
bool attn__choose_drawn(const attn__row *r, const attn__drawing *d, const double *uniform,
                        attn__candidate *drawn, size_t *count);

/* Log-probability of a token. */
bool attn__choose_given(const attn__row *r, int32_t token, double *log_probability);

#endif
