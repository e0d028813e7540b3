/* stats_kernels.h: the inner loops of attn_stats, part of the kernel table. Shapes, tiles and
 * groups are those of kernels.h.
 *
 * softmax_stats is the softmax of kernels.h, with its bits, which gathers more as it goes: the
 * moment, sum of e^(s - max) (s - max), in 16 partial sums like those of the weights and rescaled
 * with them; and the largest score so far with its place. What the entropy of a row is made of is
 * thus summed relative to the reference of the weights, and nothing large cancels. */
#ifndef ATTN_KERNELS_STATS_KERNELS_H
#define ATTN_KERNELS_STATS_KERNELS_H

#include "include/attn/attn.h"

/* ret, name, arguments; once for float and once for double. */
/* clang-format off */
#define ATTN__STATS_LIST(X, real)                                                                  \
    /* As softmax. A score above peak[r] becomes it, the first of its tile, and place[r] becomes   \
     * at + its column. */                                                                         \
    X(void, softmax_stats,                                                                         \
      (real * s, size_t mr, size_t c0, size_t c1, const uint64_t *allow, real *max,                \
       real(*sum)[16], real *out, ptrdiff_t out_stride, size_t width, real(*moment)[16],           \
       real *peak, int64_t *place, int64_t at))                                                    \
    /* Moment and sum of weights, relative to `from`, become relative to `to`: (moment + sum x)    \
     * e^x and sum e^x with x = from - to. Both 0 if from is -inf or e^x vanishes. */              \
    X(void, move_moment, (real * moment, real * sum, real from, real to))                          \
    /* Bits of the columns of `allow` whose score is above `floor`, one row. */                    \
    X(uint64_t, find_above,                                                                        \
      (const real *s, size_t c0, size_t c1, uint64_t allow, real floor))                           \
    /* to[c] += sum over mr rows of factor[r] p[r][c], in double, one step a row. */               \
    X(void, add_columns,                                                                           \
      (double *to, const real *p, size_t mr, size_t c0, size_t c1, const double *factor))          \
    /* to[c] = largest of to[c] and p[r][c] of mr rows; NaN in p is passed over. */                \
    X(void, max_columns, (real * to, const real *p, size_t mr, size_t c0, size_t c1))
/* clang-format on */

#define ATTN__STATS_MEMBER(ret, name, args) ret(*name) args;

typedef struct attn__stats_f32 {
    ATTN__STATS_LIST(ATTN__STATS_MEMBER, float)
} attn__stats_f32;

typedef struct attn__stats_f64 {
    ATTN__STATS_LIST(ATTN__STATS_MEMBER, double)
} attn__stats_f64;

#endif
