/* nn_kernels.h: the inner loops of layers: norms, activations, dropout, positions; part of the
 * kernel table. Rows have any length n and no alignment beyond the element; nothing past it is
 * touched.
 *
 * Order of arithmetic: sums over a row are 16 partial sums by column mod 16, added up as row_sum
 * does; sums over rows are made for 64 rows at a time, ascending, each such sum then added to what
 * is there: neither depends on how columns or whole 64s of rows are divided among calls. */
#ifndef ATTN_KERNELS_NN_KERNELS_H
#define ATTN_KERNELS_NN_KERNELS_H

#include "include/attn/attn.h"

#include <stdbool.h>

enum { attn__row_chunk = 64 };

/* ret, name, arguments; once for float and once for double. */
/* clang-format off */
#define ATTN__NN_LIST(X, real)                                                                     \
    /* m = centre ? sum x / n : 0; v = sum (x - m)^2 / divisor + eps; r = v > 0 ? 1 / sqrt v : v;  \
     * out = (x - m) r (w + plus) + b. w, b may be NULL (factor 1, 0), out may be x. */            \
    X(void, norm,                                                                                  \
      (real * out, const real *x, size_t n, bool centre, real divisor, real eps, const real *w,    \
       real plus, const real *b, real *mean, real *rstd))                                          \
    /* The derivative by x, of a row: g = dy (w + plus), y = (x - m) r;                            \
     * dx = add + r (g - (centre ? sum g / n : 0) - y sum(g y) / divisor). add may be NULL (0),    \
     * dx may be dy or add. */                                                                     \
    X(void, norm_back,                                                                             \
      (real * dx, const real *dy, const real *x, const real *add, size_t n, bool centre,           \
       real divisor, const real *w, real plus, real mean, real rstd))                              \
    /* dw[c] += sum over rows of dy (x - m[row]) r[row]; db[c] += sum dy; either may be NULL. */   \
    X(void, norm_columns,                                                                          \
      (real * dw, real *db, const real *dy, ptrdiff_t dy_stride, const real *x,                    \
       ptrdiff_t x_stride, const real *mean, const real *rstd, size_t rows, size_t n))             \
    /* out = act(x), times `times` unless NULL; out may be x. */                                   \
    X(void, activation,                                                                            \
      (real * out, const real *x, const real *times, attn_activation activation, size_t n))        \
    /* dx = dy act'(x), times `times` unless NULL, and then dtimes = dy act(x). dx may be dy or x, \
     * dtimes may be dy or times. The slope of relu at 0 is 0. */                                  \
    X(void, activation_back,                                                                       \
      (real * dx, real *dtimes, const real *dy, const real *x, const real *times,                  \
       attn_activation activation, size_t n))                                                      \
    /* out = add + (bit set ? x * factor : 0). add NULL: 0; bits NULL: all set. out may be x or    \
     * add. */                                                                                     \
    X(void, add_scaled,                                                                            \
      (real * out, const real *add, const real *x, real factor, const uint64_t *bits, size_t n))   \
    /* Pairs (x[i], x[i + n]), or (x[2i], x[2i + 1]) if adjacent, become                           \
     * (x0 cos - x1 sin, x1 cos + x0 sin). */                                                      \
    X(void, rotate, (real * x, const real *cosine, const real *sine, size_t n, bool adjacent))     \
    /* sum w tanh(q + k); and for it: t = tanh(q + k), dw += ds t, dz = ds w (1 - t^2),            \
     * dq += dz, dk += dz. */                                                                      \
    X(real, additive, (const real *q, const real *k, const real *w, size_t n))                     \
    X(void, additive_back,                                                                         \
      (real * dq, real *dk, real *dw, const real *q, const real *k, const real *w, real ds,        \
       size_t n))
/* clang-format on */

#define ATTN__NN_MEMBER(ret, name, args) ret(*name) args;

typedef struct attn__nn_f32 {
    ATTN__NN_LIST(ATTN__NN_MEMBER, float)
} attn__nn_f32;

typedef struct attn__nn_f64 {
    ATTN__NN_LIST(ATTN__NN_MEMBER, double)
} attn__nn_f64;

/* Dropout of a row of n elements: bit c % 64 of bits[c / 64] is set (kept) if the upper 24 bits of
 * a word are not below `below`. That word is word c % 64 / 16 of the Philox4x32-10 block with
 * counter (c / 64 * 16 + c % 16, at[0], at[1], at[2]) and key `seed`. Bits past n are made too. */
typedef void (*attn__drop_bits_fn)(uint64_t *bits, size_t n, const uint32_t at[3], uint64_t seed,
                                   uint32_t below);

#endif
