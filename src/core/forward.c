/* forward.c: attn_forward and attn_decode: check, lay out, compute. */
#include "src/base/ctx.h"
#include "src/base/error.h"
#include "src/base/pool.h"
#include "src/core/call.h"
#include "src/core/engine.h"
#include "src/core/stats.h"
#include "src/kernels/cpu.h"

static attn_status prepare(attn__problem *p, attn__layout *l, const attn_ctx *ctx,
                           const attn_cache *cache, const attn_forward_args *args, attn_error *err)
{
    TRY(attn__problem_init(p, ctx, cache, args, err));
    if (!p->has_out && !p->has_delta && !p->args.partial)
        p->width = 0; /* no product with the values */
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

static void sweep_again(void *arg, size_t worker)
{
    attn__stats *s = arg;
    uint64_t word = attn__fp_default();

    if (s->problem->f64)
        attn__stats_sweep_f64(s, worker);
    else
        attn__stats_sweep_f32(s, worker);
    attn__fp_restore(word);
}

/* The second sweep as far as it is known before the first. */
static void prepare_stats(attn__stats *s, const attn__problem *p, const attn__layout *l,
                          char *memory)
{
    size_t rows = (size_t)p->args.q.size[0] * (size_t)p->args.q.size[2] * p->heads, at = 0;
    size_t real = p->f64 ? sizeof(double) : sizeof(float), heads = p->sequences * p->heads;

    *s = (attn__stats){.problem = p, .layout = l};
    s->max = attn__cut(memory, &at, rows * real);
    s->factor = attn__cut(memory, &at, rows * real);
    s->turn = attn__cut(memory, &at, heads * sizeof *s->turn);
    s->scratch = memory + at;
    s->schedule.ctx = p->ctx;
    s->schedule.items_of = attn__stats_items;
    s->schedule.job = s;
    s->schedule.heads = p->rows > 0 ? heads : 0;
    for (size_t i = 0; i < heads; i++)
        atomic_init(&s->turn[i], 0);
    attn__stats_begin(p);
}

/* Runs it, after a first sweep of `before` items. */
static attn_status second_sweep(attn__stats *s, uint64_t before)
{
    s->schedule.before = before;
    attn__schedule_init(&s->schedule);
    attn__parallel(s->problem->ctx, s->layout->stats_threads, sweep_again, s);
    attn__stats_end(s->problem);
    return atomic_load(&s->schedule.cancelled) ? ATTN_E_CANCELLED : ATTN_OK;
}

/* Checks done, all memory at hand: nothing below can fail but by the progress callback. */
static attn_status compute(const attn__problem *p, const attn__layout *l, char *memory)
{
    attn__slot slot[attn__max_threads];
    attn__job job = {.problem = p, .layout = l};
    attn__stats stats;

    if (p->second_sweep) {
        prepare_stats(&stats, p, l, memory);
        job.kept_max = stats.max;
        job.kept_factor = stats.factor;
        memory = stats.scratch;
        job.schedule.after = p->ctx->progress ? attn__schedule_items(&stats.schedule) : 0;
    }
    job.scratch = memory;
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
    /* Weights are zero wherever the sweep finds nothing allowed. */
    for (int64_t b = 0; p->has_weights && b < p->args.weights.size[0]; b++)
        for (int64_t h = 0; h < p->args.weights.size[1]; h++)
            attn__clear(&p->args.weights, b, h, 0, p->args.weights.size[2]);
    attn__parallel(p->ctx, l->threads, work, &job);
    if (atomic_load(&job.schedule.cancelled))
        return ATTN_E_CANCELLED;
    return p->second_sweep ? second_sweep(&stats, attn__schedule_items(&job.schedule)) : ATTN_OK;
}

static attn_status forward(const attn_ctx *ctx, const attn_cache *cache,
                           const attn_forward_args *args, attn_error *err)
{
    attn__problem p;
    attn__layout l;
    attn__workspace w;
    attn_status st;

    TRY(prepare(&p, &l, ctx, cache, args, err));
    TRY(attn__begin_workspace(&w, ctx, p.args.workspace, p.args.workspace_size, l.workspace_size,
                              l.workspace_size, "attn_forward_plan", err));
    st = compute(&p, &l, w.memory);
    attn__end_workspace(ctx, &w);
    if (st == ATTN_E_CANCELLED)
        return attn__fail(err, st, 0, "progress: the callback asked to stop");
    return st;
}

static attn_status make_plan(const attn_ctx *ctx, const attn_cache *cache,
                             const attn_forward_args *args, attn_plan *plan, attn_error *err)
{
    attn__problem p;
    attn__layout l;

    TRY(attn__check_plan(plan, err));
    TRY(prepare(&p, &l, ctx, cache, args, err));
    attn__fill_plan(plan, ctx, l.workspace_size, l.workspace_size, l.threads,
                    l.split_key ? "split-key" : "tiled", l.why);
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
