/* train_kernels.h: the inner loops of training, part of the kernel table: cross entropy of a row of
 * logits, and what optimisers do to flat memory.
 *
 * Sums over a row are, for each block of 512 columns, 16 partial sums by column mod 16, added up as
 * row_sum does; the blocks are added up in double, in order. */
#ifndef ATTN_KERNELS_TRAIN_KERNELS_H
#define ATTN_KERNELS_TRAIN_KERNELS_H

#include "include/attn/attn.h"

#include <stdbool.h>

/* The distribution a row is held to, and what its gradient is times. */
typedef struct attn__row_goal {
    double on, off; /* weight of the target, and of every other class */
    double factor;
} attn__row_goal;

/* Of a row x with maximum m and y = x - m. */
typedef struct attn__row_loss {
    double sum;    /* of e^y */
    double target; /* y of the target */
    double all;    /* sum of y */
    bool right;    /* the target is the first of the largest */
} attn__row_loss;

/* One step of Adam at time t (from 1). */
typedef struct attn__adam {
    double scale;        /* of gradients */
    double beta1, beta2; /* averages forget by */
    double rate;         /* rate / (1 - beta1^t) */
    double root;         /* 1 / sqrt(1 - beta2^t) */
    double epsilon;
    double keep; /* 1 - rate * decay */
} attn__adam;

/* ret, name, arguments; once for float and once for double. */
/* clang-format off */
#define ATTN__TRAIN_LIST(X, real)                                                                  \
    /* Cross entropy of n >= 1 logits. x has room for n rounded up to a multiple of 16; what lies  \
     * past n is written. With a gradient, x becomes factor * (e^y / sum - weight), and 0 past n;  \
     * else x is without meaning. */                                                               \
    X(void, cross_entropy,                                                                         \
      (real * x, size_t n, size_t target, const attn__row_goal *goal, bool gradient,               \
       attn__row_loss *loss))                                                                      \
    /* to[c] += sum over r of rows[r][c], r ascending. */                                          \
    X(void, add_rows, (real * to, const real *rows, ptrdiff_t stride, size_t count, size_t n))     \
    /* g = scale * gradient; m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g^2;           \
     * w = keep * w - rate * m / (root * sqrt(v) + epsilon). */                                    \
    X(void, adam,                                                                                  \
      (real * w, const real *gradient, real *m, real *v, size_t n, const attn__adam *step))        \
    /* The sum of squares, in double: 16 partial sums by index mod 16, added up in order. */       \
    X(double, square_sum, (const real *x, size_t n))                                               \
    /* to[i] += rate * (from[i] - to[i]) */                                                        \
    X(void, blend, (real * to, const real *from, size_t n, double rate))
/* clang-format on */

#define ATTN__TRAIN_MEMBER(ret, name, args) ret(*name) args;

typedef struct attn__train_f32 {
    ATTN__TRAIN_LIST(ATTN__TRAIN_MEMBER, float)
} attn__train_f32;

typedef struct attn__train_f64 {
    ATTN__TRAIN_LIST(ATTN__TRAIN_MEMBER, double)
} attn__train_f64;

#endif
