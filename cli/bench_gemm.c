/* bench_gemm.c: times the matrix product of a linear layer: A [m, k], weights [n, k]. */
#include "cli/bench.h"

#include "cli/console.h"

typedef struct gemm_call {
    const attn_ctx *ctx;
    attn_gemm_args args;
} gemm_call;

static attn_status call_gemm(const void *call, attn_error *err)
{
    const gemm_call *c = call;

    return attn_gemm(c->ctx, &c->args, err);
}

static attn_view make_matrix(attn_type type, int64_t rows, int64_t cols, uint64_t seed)
{
    const int64_t size[2] = {rows, cols};
    size_t bytes, element = attn_type_size(type);
    void *data = cli_bytes(size, 2, element, &bytes) ? cli_try(bytes) : NULL;

    if (data)
        bench_fill(data, type, bytes / element, seed);
    return attn_view_bhsd(data, type, 1, 1, rows, cols);
}

/* Gives the call its workspace and times it. */
static attn_status time_one(gemm_call *c, const bench_settings *set, bench_result *result,
                            attn_error *err)
{
    attn_plan plan = ATTN_PLAN_INIT;
    attn_status status = attn_gemm_plan(c->ctx, &c->args, &plan, err);

    if (status != ATTN_OK)
        return status;
    c->args.workspace = cli_try(plan.workspace_size + 1);
    c->args.workspace_size = plan.workspace_size;
    if (!c->args.workspace)
        return bench_fail(err, ATTN_E_MEMORY, "out of memory for the workspace");
    result->plan = plan;
    return bench_measure(call_gemm, c, set, &result->ms_median, &result->ms_min, err);
}

attn_status bench_time_gemm(const bench_shape *s, const bench_settings *set, bench_result *result,
                            attn_error *err)
{
    attn_gemm_args args = ATTN_GEMM_ARGS_INIT;
    const attn_view none = {0};
    gemm_call call = {set->ctx, args};
    bench_result packing = {0};
    attn_packed *packed = NULL;
    attn_status status;

    call.args.a = make_matrix(s->type, s->m, s->k, 1);
    call.args.w = make_matrix(s->type, s->n, s->k, 2);
    call.args.out = make_matrix(s->type, s->m, s->n, 3);
    if (!call.args.a.data || !call.args.w.data || !call.args.out.data)
        return bench_fail(err, ATTN_E_MEMORY, "out of memory for the inputs");
    status = time_one(&call, set, &packing, err);
    if (status == ATTN_OK)
        status = attn_gemm_pack(set->ctx, &call.args.w, &packed, err);
    call.args.w = none;
    call.args.packed = packed;
    if (status == ATTN_OK)
        status = time_one(&call, set, result, err);
    result->ms_packing = packing.ms_median;
    attn_packed_destroy(packed);
    return status;
}
