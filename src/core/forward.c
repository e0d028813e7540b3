/* forward.c: attn_forward and attn_decode: check, lay out, compute. */
#include "src/base/ctx.h"
#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/base/pool.h"
#include "src/core/engine.h"
#include "src/kernels/cpu.h"

#include <stdio.h>
#include <string.h>

static attn_status prepare(attn__problem *p, attn__layout *l, const attn_ctx *ctx,
                           const attn_cache *cache, const attn_forward_args *args, attn_error *err)
{
    attn_status st = attn__problem_init(p, ctx, cache, args, err);

    if (st != ATTN_OK)
        return st;
    if (!attn__layout_init(l, p))
        return attn__fail(err, ATTN_E_MEMORY, 0, "workspace: its size exceeds the address space");
    return ATTN_OK;
}

/* Items of a head: (sequence, key head). */
static size_t items_of(const void *job, size_t head)
{
    const attn__job *j = job;
    const attn__problem *p = j->problem;
    attn__sequence s;
    size_t rows, splits;

    attn__get_sequence(p, head / p->key_heads, &s);
    rows = (size_t)s.rows * p->group;
    if (!j->layout->split_key || rows == 0)
        return (rows + j->layout->block_rows - 1) / j->layout->block_rows;
    splits = (size_t)((s.k_pos % attn__split + s.keys + attn__split - 1) / attn__split);
    return splits > 0 ? splits : 1;
}

/* Weights are zero wherever the sweep finds nothing allowed. */
static void clear(const attn_view *view)
{
    size_t size = attn_type_size(view->type);

    for (int64_t b = 0; b < view->size[0]; b++)
        for (int64_t h = 0; h < view->size[1]; h++)
            for (int64_t i = 0; i < view->size[2]; i++) {
                char *row = attn__cell(view, b, h, i);
                if (view->stride[3] == 1) {
                    memset(row, 0, (size_t)view->size[3] * size);
                    continue;
                }
                for (int64_t j = 0; j < view->size[3]; j++)
                    memset(row + j * view->stride[3] * (int64_t)size, 0, size);
            }
}

static void work(void *arg, size_t worker)
{
    attn__job *job = arg;
    uint64_t word = attn__fp_default();

    if (job->problem->f64)
        attn__engine_f64(job, worker);
    else
        attn__engine_f32(job, worker);
    attn__fp_restore(word);
}

/* Checks done, all memory at hand: nothing below can fail but by the progress callback. */
static attn_status compute(const attn__problem *p, const attn__layout *l, char *memory)
{
    attn__slot slot[attn__max_threads];
    attn__job job = {.problem = p, .layout = l, .scratch = memory};

    job.schedule.ctx = p->ctx;
    job.schedule.items_of = items_of;
    job.schedule.open_slot = attn__open_slot;
    job.schedule.job = &job;
    job.schedule.heads = p->rows > 0 && p->heads > 0 ? p->sequences * p->key_heads : 0;
    job.schedule.slot = slot;
    job.schedule.slot_count = l->slots;
    for (size_t i = 0; i < l->slots; i++)
        slot[i].memory = memory + l->threads * l->scratch_size + i * l->slot_size;
    attn__schedule_init(&job.schedule);
    if (p->has_weights)
        clear(&p->args.weights);
    attn__parallel(p->ctx, l->threads, work, &job);
    return atomic_load(&job.schedule.cancelled) ? ATTN_E_CANCELLED : ATTN_OK;
}

static attn_status forward(const attn_ctx *ctx, const attn_cache *cache,
                           const attn_forward_args *args, attn_error *err)
{
    attn__problem p;
    attn__layout l;
    void *own = NULL;
    attn_status st = prepare(&p, &l, ctx, cache, args, err);

    if (st != ATTN_OK)
        return st;
    if (p.args.workspace) {
        if ((uintptr_t)p.args.workspace % 64 != 0)
            return attn__fail(err, ATTN_E_ARGUMENT, 0, "workspace: not aligned to 64 bytes");
        if (p.args.workspace_size < l.workspace_size)
            return attn__fail(err, ATTN_E_ARGUMENT, 0,
                              "workspace_size: %zu, expected at least %zu (see attn_forward_plan)",
                              p.args.workspace_size, l.workspace_size);
    } else {
        own = attn__alloc(ctx, l.workspace_size);
        if (!own)
            return attn__fail(err, ATTN_E_MEMORY, 0, "workspace: no memory for %zu bytes",
                              l.workspace_size);
    }
    st = compute(&p, &l, own ? own : p.args.workspace);
    attn__free(ctx, own);
    if (st == ATTN_E_CANCELLED)
        return attn__fail(err, st, 0, "progress: the callback asked to stop");
    return st;
}

static attn_status make_plan(const attn_ctx *ctx, const attn_cache *cache,
                             const attn_forward_args *args, attn_plan *plan, attn_error *err)
{
    attn__problem p;
    attn__layout l;
    attn_plan full = {.struct_size = sizeof full};
    attn_status st;

    if (!plan || plan->struct_size < sizeof plan->struct_size)
        return attn__fail(err, ATTN_E_ARGUMENT, 0,
                          "plan: NULL or struct_size not set (use ATTN_PLAN_INIT)");
    st = prepare(&p, &l, ctx, cache, args, err);
    if (st != ATTN_OK)
        return st;
    full.workspace_size = l.workspace_size;
    full.kernels = ctx->kernels->set;
    full.threads = (int)l.threads;
    full.path = l.split_key ? "split-key" : "tiled";
    snprintf(full.why, sizeof full.why, "%s", l.why);
    if (plan->struct_size < sizeof full)
        full.struct_size = plan->struct_size;
    memcpy(plan, &full, full.struct_size);
    return ATTN_OK;
}

/* The public functions compute under the default floating-point environment, so that a host's
 * rounding mode, flushing or traps reach no result, and put the host's own back. */
attn_status attn_forward(const attn_ctx *ctx, const attn_forward_args *args, attn_error *err)
{
    uint64_t word = attn__fp_default();
    attn_status st = forward(ctx, NULL, args, err);

    attn__fp_restore(word);
    return st;
}

attn_status attn_forward_plan(const attn_ctx *ctx, const attn_forward_args *args, attn_plan *plan,
                              attn_error *err)
{
    uint64_t word = attn__fp_default();
    attn_status st = make_plan(ctx, NULL, args, plan, err);

    attn__fp_restore(word);
    return st;
}

attn_status attn_decode(const attn_ctx *ctx, const attn_cache *cache, const attn_forward_args *args,
                        attn_error *err)
{
    uint64_t word = attn__fp_default();
    attn_status st =
        cache ? forward(ctx, cache, args, err) : attn__fail(err, ATTN_E_ARGUMENT, 0, "cache: NULL");

    attn__fp_restore(word);
    return st;
}

attn_status attn_decode_plan(const attn_ctx *ctx, const attn_cache *cache,
                             const attn_forward_args *args, attn_plan *plan, attn_error *err)
{
    uint64_t word = attn__fp_default();
    attn_status st = cache ? make_plan(ctx, cache, args, plan, err)
                           : attn__fail(err, ATTN_E_ARGUMENT, 0, "cache: NULL");

    attn__fp_restore(word);
    return st;
}
