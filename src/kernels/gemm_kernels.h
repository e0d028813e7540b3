/* gemm_kernels.h: the inner loops of the matrix product, part of the kernel table.
 *
 * The right operand is handled in tiles of 64 columns. A packed tile of `steps` steps is 64 / PANEL
 * panels, one after the other, each with PANEL columns side by side, step by step:
 *
 *     tile[(column / PANEL) * PANEL * steps + step * PANEL + column % PANEL]
 *
 * with PANEL the set's own width; only the functions here know it. A tile may hold fewer columns;
 * those up to the next multiple of a vector are 0, the rest is never touched. A narrow tile is the
 * same with elements of another type (f16, bf16, i8) as they came; in it whole panels are filled
 * up.
 *
 * Order of arithmetic: every element is one chain over ascending steps, one fused multiply-add each
 * (scalar: two roundings), whatever the number of rows, columns and steps in a call.
 *
 * `type` is f32, f16, bf16 or i8 in the f32 table and f64 in the f64 table. Strides count elements.
 */
#ifndef ATTN_KERNELS_GEMM_KERNELS_H
#define ATTN_KERNELS_GEMM_KERNELS_H

#include "include/attn/attn.h"

#include <stdbool.h>

/* What happens to the sums of a call, and where the results go. */
typedef struct attn__epilogue {
    attn_activation activation;
    attn_type out_type, residual_type;
    ptrdiff_t out_row, out_col; /* strides */
    ptrdiff_t residual_row, residual_col;
} attn__epilogue;

/* ret, name, arguments; once for float and once for double. */
/* clang-format off */
#define ATTN__GEMM_LIST(X, real)                                                                   \
    /* Packs n columns of `steps` steps into a tile, widened. */                                   \
    X(void, pack,                                                                                  \
      (real * tile, size_t n, size_t steps, attn_type type, const void *src, ptrdiff_t n_stride,   \
       ptrdiff_t step_stride))                                                                     \
    /* The same into a narrow tile. */                                                             \
    X(void, pack_narrow,                                                                           \
      (void *tile, size_t n, size_t steps, attn_type type, const void *src, ptrdiff_t n_stride,    \
       ptrdiff_t step_stride))                                                                     \
    /* Steps first..first+steps-1 of a narrow tile of `narrow_steps`, as a tile of `steps`. */     \
    X(void, widen,                                                                                 \
      (real * tile, size_t n, size_t steps, attn_type type, const void *narrow,                    \
       size_t narrow_steps, size_t first))                                                         \
    /* dst[r][c] = src[r + c * col_stride], widened (not i8): rows that lie side by side. */       \
    X(void, load_columns,                                                                          \
      (real * dst, ptrdiff_t dst_stride, size_t rows, size_t cols, attn_type type,                 \
       const void *src, ptrdiff_t col_stride))                                                     \
    /* acc[r][c] = (resume ? acc[r][c] : +0) continued by a[r][i] * tile(first + i, c) for i =     \
     * 0, 1, ..., steps - 1; rows <= 6. acc has whole vectors: columns up to the next multiple     \
     * of one are written. tile_steps: all the tile holds. */                                      \
    X(void, tile,                                                                                  \
      (real * acc, ptrdiff_t acc_stride, size_t rows, size_t n, const real *a, ptrdiff_t a_stride, \
       const real *tile, size_t tile_steps, size_t first, size_t steps, bool resume))              \
    /* acc[r][c] as tile has it, from +0, for weights src[c * n_stride + i] that were not          \
     * packed; rows <= 6. */                                                                       \
    X(void, thin,                                                                                  \
      (real * acc, ptrdiff_t acc_stride, size_t rows, size_t n, const real *a, ptrdiff_t a_stride, \
       attn_type type, const void *src, ptrdiff_t n_stride, size_t steps))                         \
    /* out[r][c] = act(acc[r][c] * scale[c] + bias[c]) + residual[r][c], each operation            \
     * rounded, then once more to the type of out. scale, bias and residual may be NULL; scale     \
     * and bias are padded to whole vectors. acc and residual may be out. */                       \
    X(void, finish,                                                                                \
      (const attn__epilogue *e, void *out, const void *residual, const real *scale,                \
       const real *bias, const real *acc, ptrdiff_t acc_stride, size_t rows, size_t n))
/* clang-format on */

#define ATTN__GEMM_MEMBER(ret, name, args) ret(*name) args;

typedef struct attn__gemm_f32 {
    ATTN__GEMM_LIST(ATTN__GEMM_MEMBER, float)
} attn__gemm_f32;

typedef struct attn__gemm_f64 {
    ATTN__GEMM_LIST(ATTN__GEMM_MEMBER, double)
} attn__gemm_f64;

#endif
