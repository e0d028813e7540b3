/* gemm_call.h: making and calling matrix products, for test_gemm.c and test_gemm_edges.c. */
#ifndef ATTN_TESTS_GEMM_CALL_H
#define ATTN_TESTS_GEMM_CALL_H

#include "tests/expect.h"

static inline attn_gemm_args args_of(const attn_view *a, const attn_view *w, const attn_view *out)
{
    attn_gemm_args g = ATTN_GEMM_ARGS_INIT;

    g.a = *a;
    if (w)
        g.w = *w;
    g.out = *out;
    return g;
}

static inline void run(const attn_ctx *ctx, const attn_gemm_args *g)
{
    attn_error err = {ATTN_OK, 0, ""};

    CHECK_MSG(attn_gemm(ctx, g, &err) == ATTN_OK, "attn_gemm: %s", err.text);
}

static inline attn_packed *pack(const attn_ctx *ctx, const attn_view *w)
{
    attn_error err = {ATTN_OK, 0, ""};
    attn_packed *packed = NULL;

    CHECK_MSG(attn_gemm_pack(ctx, w, &packed, &err) == ATTN_OK, "attn_gemm_pack: %s", err.text);
    return packed;
}

static inline double read_weight(const attn_view *w, int64_t n, int64_t k)
{
    if (w->type == ATTN_I8)
        return (double)((const int8_t *)w->data)[n * w->stride[2] + k * w->stride[3]];
    return view_get(w, 0, 0, n, k);
}

/* i8 weights are made here: the views of support.h know floats only. */
static inline attn_view weights_new(arena *mem, rng *r, attn_type type, int64_t n, int64_t k,
                                    layout kind)
{
    attn_view w;

    if (type != ATTN_I8) {
        w = view_new(mem, r, type, 1, 1, n, k, kind);
        view_uniform(&w, r, -1.5, 1.5);
        return w;
    }
    w = attn_view_bhsd(arena_get(mem, (size_t)(n * k) + 1), ATTN_I8, 1, 1, n, k);
    for (int64_t i = 0; i < n * k; i++)
        ((int8_t *)w.data)[i] = (int8_t)rng_int(r, -128, 127);
    if (kind != LAYOUT_BHSD) { /* columns first */
        w.stride[2] = 1;
        w.stride[3] = n;
    }
    return w;
}

static inline attn_view matrix_new(arena *mem, rng *r, attn_type type, int64_t m, int64_t n,
                                   layout kind)
{
    attn_view v = view_new(mem, r, type, 1, 1, m, n, kind);

    view_uniform(&v, r, -1.5, 1.5);
    return v;
}

#endif
