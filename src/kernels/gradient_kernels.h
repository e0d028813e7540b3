/* gradient_kernels.h: the inner loops of the backward pass, part of the kernel table. Shapes, tiles
 * and groups are those of kernels.h; a block is any number of query rows whose tiles of 64 cells
 * lie one after the other.
 *
 * Order of arithmetic: gradients of keys and values are one chain over ascending query rows, those
 * of queries (kernel `values`) one over ascending keys, a fused multiply-add each (scalar: two
 * roundings). Sums over a row are 16 partial sums by index mod 16, added up as row_sum does. */
#ifndef ATTN_KERNELS_GRADIENT_KERNELS_H
#define ATTN_KERNELS_GRADIENT_KERNELS_H

#include "include/attn/attn.h"

/* ret, name, arguments; once for float and once for double. */
/* clang-format off */
#define ATTN__GRADIENT_LIST(X, real)                                                               \
    /* Of mr rows, columns c0..c1-1: s becomes the weight e^(s - lse[r]), dp becomes that times    \
     * (dp - delta[r]); both +0 where allow[r] (NULL: has all) lacks the column. */                \
    X(void, gradients,                                                                             \
      (real * s, real *dp, size_t mr, size_t c0, size_t c1, const uint64_t *allow,                 \
       const real *lse, const real *delta))                                                        \
    /* dt[c] *= 1 - (s[c] / cap)^2 for one row, +0 where allow lacks the column. */                \
    X(void, softcap_slope,                                                                         \
      (real * dt, const real *s, size_t c0, size_t c1, uint64_t allow, real cap))                  \
    /* out[j] += sum over the rows i of a block of p[i][j] * x[i], for n columns j of the tile,    \
     * p pointing at the first; width a multiple of 16. */                                         \
    X(void, across,                                                                                \
      (real * out, ptrdiff_t out_stride, size_t n, const real *p, size_t rows, const real *x,      \
       ptrdiff_t x_stride, size_t width))                                                          \
    /* to[i] += from[i] */                                                                         \
    X(void, add, (real * to, const real *from, size_t n))                                          \
    /* sum of a[i] b[i], n a multiple of 16 */                                                     \
    X(real, dot, (const real *a, const real *b, size_t n))                                         \
    /* sum of dt[c] over columns, and that of dt[c] |distance - c| */                              \
    X(real, cell_sum, (const real *dt, size_t c0, size_t c1))                                      \
    X(real, distance_sum, (const real *dt, size_t c0, size_t c1, real distance))
/* clang-format on */

#define ATTN__GRADIENT_MEMBER(ret, name, args) ret(*name) args;

typedef struct attn__gradient_f32 {
    ATTN__GRADIENT_LIST(ATTN__GRADIENT_MEMBER, float)
} attn__gradient_f32;

typedef struct attn__gradient_f64 {
    ATTN__GRADIENT_LIST(ATTN__GRADIENT_MEMBER, double)
} attn__gradient_f64;

#endif
