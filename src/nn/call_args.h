/* call_args.h: checking what callers of nn.h give: versioned structs, and views as plain rows. */
#ifndef ATTN_NN_CALL_ARGS_H
#define ATTN_NN_CALL_ARGS_H

#include "src/nn/layers.h"

/* Copies a versioned struct of `known` bytes, called `what`; see attn.h. */
attn_status attn__take_struct(void *to, size_t known, const void *from, const char *what,
                              attn_error *err);

/* The same for the arguments of a layer. */
attn_status attn__take_args(void *to, size_t known, const void *from, const attn_ctx *ctx,
                            attn_error *err);

bool attn__is_there(const attn_view *v);

/* A call's type, rows and columns, from a view that decides them, called `what`. */
attn_status attn__open_shape(attn__shape *s, const attn_ctx *ctx, const attn_view *x,
                             const char *what, attn_error *err);

/* A matrix [1, 1, rows, cols] of a call's type. An absent one gives no data, if it may. */
attn_status attn__take_rows(const attn__shape *s, const attn_view *v, size_t rows, size_t cols,
                            bool optional, const char *what, attn__rows *to, attn_error *err);
attn_status attn__take_vector(const attn__shape *s, const attn_view *v, size_t n, bool optional,
                              const char *what, void **to, attn_error *err);

/* A view [1, heads, rows, width] with adjacent columns. */
attn_status attn__check_heads(const attn__shape *s, const attn_view *v, int64_t heads, int64_t rows,
                              int64_t width, const char *what, attn_error *err);

/* starts[0] = 0 <= starts[1] <= ... <= starts[segments] = rows. */
attn_status attn__check_starts(const int64_t *starts, int64_t segments, int64_t rows,
                               const char *what, attn_error *err);

#endif
