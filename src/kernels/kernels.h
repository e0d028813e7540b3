/* kernels.h: the few inner loops everything else is made of, and the table that holds one build of
 * them per instruction set.
 *
 * Shapes. Keys are handled in tiles of 64 that lie on a fixed grid of key positions; a row of a
 * tile of scores has 64 cells. Columns c0 and c1 are multiples of 16. A tile of packed keys holds
 * 64 keys x d channels in panels of the set's own width; only pack_keys, store_key, widen_keys and
 * scores know its layout. A group is up to 6 query rows (`mr`). Packed rows (values, running
 * outputs) have a width that is a multiple of 16 and no alignment beyond the element.
 *
 * Order of arithmetic, the same in all kernels of a set, whatever the shape (it is what makes an
 * output row independent of its neighbours):
 *
 * - a score is one chain over channels 0..d-1 from +0, one step per channel;
 * - a row sum is 16 partial sums by key position mod 16, each ascending, added up as pairs (i,
 *   i+8), then (i, i+4), (i, i+2), (0, 1);
 * - an output is one chain over ascending keys.
 *
 * A step is one fused multiply-add in every set but scalar, which rounds product and sum.
 *
 * Pointers do not alias unless said so. `type` is f32, f16, bf16 or, where rows are loaded and keys
 * are stored, i8 in the f32 table and f64 in the f64 table. Strides count elements.
 */
#ifndef ATTN_KERNELS_KERNELS_H
#define ATTN_KERNELS_KERNELS_H

#include "include/attn/attn.h"
#include "src/kernels/gemm_kernels.h"
#include "src/kernels/gradient_kernels.h"
#include "src/kernels/train_kernels.h"
#include "src/kernels/nn_kernels.h"
#include "src/kernels/stats_kernels.h"

enum { attn__tile = 64, attn__group = 6 };

/* ret, name, arguments; once for float and once for double. */
/* clang-format off */
#define ATTN__KERNEL_LIST(X, real)                                                                 \
    /* Puts n key rows into lanes lane..lane+n-1 of a packed tile of 64 x d, widened. */           \
    X(void, pack_keys,                                                                             \
      (real * tile, size_t lane, size_t n, attn_type type, const void *src, ptrdiff_t row_stride,  \
       ptrdiff_t col_stride, size_t d))                                                            \
    /* Puts channels c .. c+n-1 of one key into a tile kept in `type`, rounded to nearest even. */ \
    X(void, store_key,                                                                             \
      (void *tile, attn_type type, size_t lane, size_t d, size_t c, size_t n, const real *src))    \
    /* A tile of store_key in f16, bf16 or i8 (then each key times its scale) as one of pack_keys. \
     * In the f32 table only. */                                                                   \
    X(void, widen_keys,                                                                            \
      (real * tile, attn_type type, const void *src, const float *scale, size_t d))                \
    /* dst[r][c] = factor * src[r][c], widened; cells cols..padded-1 become 0. */                  \
    X(void, load_rows,                                                                             \
      (real * dst, ptrdiff_t dst_stride, size_t rows, attn_type type, const void *src,             \
       ptrdiff_t row_stride, ptrdiff_t col_stride, size_t cols, size_t padded, real factor))       \
    /* dst[r][c] = factor * src[r][c] + 0 (so -0 becomes +0), rounded to nearest even; half        \
     * types from double by way of float. */                                                       \
    X(void, store_row,                                                                             \
      (void *dst, attn_type type, ptrdiff_t col_stride, const real *src, size_t cols,              \
       real factor))                                                                               \
    /* s[r][c] = q[r] . key c for the columns c0..c1-1 (of half types, whole panels). The tile     \
     * is one of pack_keys (REAL) or store_key (any type, widened as it is read; i8: times         \
     * scale[c], the scale of key c, which other types leave NULL). `fresh`: the tile comes from   \
     * memory, and what follows it there will be wanted next and is asked for. */                  \
    X(void, scores,                                                                                \
      (real * s, size_t mr, const real *q, ptrdiff_t q_stride, attn_type type, const void *tile,   \
       const float *scale, size_t d, size_t c0, size_t c1, bool fresh))                            \
    /* s = cap * tanh(s / cap), relative error of a few ulp over the whole range. */               \
    X(void, softcap, (real * s, size_t mr, size_t c0, size_t c1, real cap))                        \
    /* s[c] += b[c] for one row; returns the bits of the columns whose b is not -inf. */           \
    X(uint64_t, add_bias, (real * s, const real *b, size_t c0, size_t c1))                         \
    /* s[c] -= slope * |distance - c| for one row. */                                              \
    X(void, add_alibi, (real * s, size_t c0, size_t c1, real slope, real distance))                \
    /* Bits of the columns whose score is -inf, one row. */                                        \
    X(uint64_t, find_minus_inf, (const real *s, size_t c0, size_t c1))                             \
    /* One step of the online softmax: scores become weights e^(s - max[r]); columns that          \
     * allow[r] does not have (NULL: has all; else none outside c0..c1) become +0 whatever they    \
     * held. max[r] moves only when a score exceeds it by more than 8 in base 2; then sum[r]       \
     * and out[r] are scaled down. A row with max = -inf has seen no finite score; sum > 0 then    \
     * says that it has seen -inf. */                                                              \
    X(void, softmax,                                                                               \
      (real * s, size_t mr, size_t c0, size_t c1, const uint64_t *allow, real *max,                \
       real(*sum)[16], real *out, ptrdiff_t out_stride, size_t width))                             \
    /* p[c] = bit c of keep ? p[c] * factor : 0, one row. */                                       \
    X(void, drop, (real * p, size_t c0, size_t c1, uint64_t keep, real factor))                    \
    /* out[r] += sum over keys k0 <= k < k1 of p[r][k] * v[k - k0]; width a multiple of 16. The    \
     * values are widened as they are read (i8: times scale[k - k0]). */                           \
    X(void, values,                                                                                \
      (real * out, ptrdiff_t out_stride, size_t mr, const real *p, size_t k0, size_t k1,           \
       attn_type type, const void *v, ptrdiff_t v_stride, const float *scale, size_t width,        \
       bool fresh))                                                                                \
    /* Bits of the rows of v that hold NaN or an infinity. */                                      \
    X(uint64_t, nonfinite_rows, (const real *v, ptrdiff_t v_stride, size_t rows, size_t width))    \
    /* Adds up the 16 partial sums of a row. */                                                    \
    X(real, row_sum, (const real *sum))                                                            \
    /* Record (out, max, sum) of one row, merged with that of the keys that follow. out2 NULL      \
     * is all zeros. sum 0 is an empty record, its out zeros, and changes no bit. */               \
    X(void, merge,                                                                                 \
      (real * out, real * max, real * sum, const real *out2, real max2, real sum2, size_t width))  \
    /* p = allowed ? e^(s - max) * factor : 0, one row, in place. */                               \
    X(void, weights, (real * s, size_t c0, size_t c1, uint64_t allow, real max, real factor))
/* clang-format on */

#define ATTN__KERNEL_MEMBER(ret, name, args) ret(*name) args;

typedef struct attn__kernels_f32 {
    ATTN__KERNEL_LIST(ATTN__KERNEL_MEMBER, float)
} attn__kernels_f32;

typedef struct attn__kernels_f64 {
    ATTN__KERNEL_LIST(ATTN__KERNEL_MEMBER, double)
} attn__kernels_f64;

typedef struct attn__kernels {
    attn_kernel_set set;
    attn__kernels_f32 f32;
    attn__kernels_f64 f64;
    attn__gemm_f32 gemm_f32;
    attn__gemm_f64 gemm_f64;
    attn__gradient_f32 gradient_f32;
    attn__gradient_f64 gradient_f64;
    attn__train_f32 train_f32;
    attn__train_f64 train_f64;
    attn__nn_f32 nn_f32;
    attn__nn_f64 nn_f64;
    attn__drop_bits_fn drop_bits;
    attn__stats_f32 stats_f32;
    attn__stats_f64 stats_f64;
    /* Bits of bytes that are not zero, n <= 64. */
    uint64_t (*keep_bits)(const uint8_t *bytes, size_t n);
    /* a * b + c as the compiler made it from that expression: the self-test looks at its rounding.
     */
    float (*plain_multiply_add)(float a, float b, float c);
} attn__kernels;

/* The table of a set, or NULL if this build lacks it or this machine cannot run it. AUTO: the best.
 */
const attn__kernels *attn__kernels_for(attn_kernel_set set);

#endif
