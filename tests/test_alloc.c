/* test_alloc.c: failing allocations and bounded memory.
 *
 * Every public call that allocates is run with its 1st, 2nd, ... allocation failing, once and from
 * then on, until it succeeds: each failure is ATTN_E_MEMORY, leaks nothing and can be tried again.
 * A call that was given a workspace allocates nothing. The workspace is bounded at any length, by
 * plan and by the memory a process really takes.
 */
#define _GNU_SOURCE /* MAP_NORESERVE, fork */
#include "include/attn/attn.h"
#include "tests/heap.h"
#include "tests/yardstick.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static void heap_arm(heap *h, long fail_at, int sticky)
{
    atomic_store(&h->calls, 0);
    h->fail_at = fail_at;
    h->sticky = sticky;
}

/* --- The sweep ------------------------------------------------------------------------------ */

/* What a step works on. `done` checks the result of a success. */
typedef struct bench {
    heap heap;
    attn_ctx *ctx;
    attn_cache *cache, *made;
    attn_ctx *made_ctx;
    problem p;
    int kind, cut;
} bench;

typedef attn_status (*step)(bench *b, attn_error *err);

static attn_status step_ctx(bench *b, attn_error *err)
{
    return heap_try_ctx(&b->heap, ATTN_SET_AUTO, 3, &b->made_ctx, err);
}

static attn_forward_args bench_args(bench *b)
{
    attn_forward_args a = problem_args(&b->p, 0, b->p.b);

    a.q = view_part(&b->p.q, 2, b->cut, b->p.tq - b->cut);
    if (b->p.options == POSITIONS)
        b->p.mask.q_offset += b->cut;
    a.out = problem_out(&b->p, b->p.b, b->p.tq - b->cut);
    return a;
}

static attn_status finish(bench *b, attn_status st, const attn_view *out)
{
    attn_view want = view_part(&b->p.out, 2, b->cut, b->p.tq - b->cut);
    attn_view poison = problem_out(&b->p, b->p.b, b->p.tq - b->cut);

    expect_same(out, st == ATTN_OK ? &want : &poison, "after %s", attn_status_text(st));
    return st;
}

static attn_status step_forward(bench *b, attn_error *err)
{
    attn_forward_args a = bench_args(b);

    return finish(b, attn_forward(b->ctx, &a, err), &a.out);
}

static attn_status step_weights(bench *b, attn_error *err)
{
    attn_forward_args a = bench_args(b);

    a.weights = view_plain(&problem_mem, ATTN_F16, b->p.b, b->p.h, b->p.tq - b->cut, b->p.tk);
    return finish(b, attn_forward(b->ctx, &a, err), &a.out);
}

static attn_status step_stats(bench *b, attn_error *err)
{
    attn_forward_args a = bench_args(b);
    attn_stats s = ATTN_STATS_INIT;

    s.entropy = view_plain(&problem_mem, ATTN_F32, b->p.b, b->p.h, b->p.tq - b->cut, 1);
    s.key_mass = view_plain(&problem_mem, ATTN_F32, b->p.b, b->p.h, 1, b->p.tk);
    a.stats = &s;
    return finish(b, attn_forward(b->ctx, &a, err), &a.out);
}

static attn_status step_plan(bench *b, attn_error *err)
{
    attn_forward_args a = bench_args(b);
    attn_plan plan = ATTN_PLAN_INIT;

    return attn_forward_plan(b->ctx, &a, &plan, err);
}

static attn_status step_decode(bench *b, attn_error *err)
{
    attn_forward_args a = bench_args(b);

    a.k = a.v = (attn_view){0};
    b->p.mask.q_offset = problem_decode_offset(&b->p);
    return finish(b, attn_decode(b->ctx, b->cache, &a, err), &a.out);
}

static attn_status step_merge(bench *b, attn_error *err)
{
    attn_merge_args m = ATTN_MERGE_ARGS_INIT;
    attn_partial parts[2];

    for (int i = 0; i < 2; i++) { /* an (O, LSE) pair and a record without keys */
        parts[i].out = b->p.out;
        parts[i].max = b->p.lse;
        parts[i].sum = problem_lse(&b->p, b->p.b, b->p.tq);
        view_fill(&parts[i].sum, i == 0);
        if (i == 1) {
            parts[i].max = problem_lse(&b->p, b->p.b, b->p.tq);
            parts[i].out = problem_out(&b->p, b->p.b, b->p.tq);
            view_fill(&parts[i].max, -(double)INFINITY);
            view_fill(&parts[i].out, 0);
        }
    }
    m.parts = parts;
    m.count = 2;
    m.out = problem_out(&b->p, b->p.b, b->p.tq);
    b->cut = 0;
    return finish(b, attn_merge(b->ctx, &m, err), &m.out);
}

static attn_cache_options bench_cache_options(const bench *b)
{
    attn_cache_options o = ATTN_CACHE_OPTIONS_INIT;

    o.kind = (attn_cache_kind)b->kind;
    o.type = b->p.type;
    o.batch = b->p.b;
    o.heads = b->p.hk;
    o.dk = b->p.d;
    o.dv = b->p.dv;
    o.capacity = b->p.tk + 7;
    if (o.kind == ATTN_CACHE_PAGED)
        o.page = 32, o.pages = o.batch * (o.capacity / 32 + 2);
    return o;
}

static attn_status step_cache(bench *b, attn_error *err)
{
    attn_cache_options o = bench_cache_options(b);

    return attn_cache_create(b->ctx, &o, &b->made, err);
}

static attn_status step_append(bench *b, attn_error *err)
{
    attn_view k = view_part(&b->p.k, 2, 0, 5), v = view_part(&b->p.v, 2, 0, 5);

    k = view_part(&k, 0, 0, 1);
    v = view_part(&v, 0, 0, 1);
    int64_t was = attn_cache_length(b->cache, 0);
    attn_status st = attn_cache_append(b->cache, 0, &k, &v, err);

    assert_int_equal(attn_cache_length(b->cache, 0), st == ATTN_OK ? was + 5 : was);
    return st;
}

static attn_status step_fork(bench *b, attn_error *err)
{
    attn_status st = attn_cache_fork(b->cache, 0, 1, err);

    return st == ATTN_OK ? step_append(b, err) : st;
}

static attn_status step_trim(bench *b, attn_error *err)
{
    attn_status st = attn_cache_trim(b->cache, 0, attn_cache_length(b->cache, 0) - 1, err);

    return st == ATTN_OK ? attn_cache_drop(b->cache, 1, 1, err) : st;
}

static void bench_open(bench *b, int options, int64_t tq)
{
    memset(b, 0, sizeof *b);
    b->p = problem_make(ctx_for(ATTN_SET_AUTO, 1), ATTN_F32, options, 2, tq, 700);
    assert_int_equal(heap_try_ctx(&b->heap, ATTN_SET_AUTO, 2, &b->ctx, NULL), ATTN_OK);
}

static void bench_fill_cache(bench *b)
{
    attn_cache_options o = bench_cache_options(b);

    assert_int_equal(attn_cache_create(b->ctx, &o, &b->cache, NULL), ATTN_OK);
    assert_int_equal(attn_cache_append(b->cache, 0, &b->p.k, &b->p.v, NULL), ATTN_OK);
}

static void bench_close_made(bench *b)
{
    attn_cache_destroy(b->made);
    attn_ctx_destroy(b->made_ctx);
    b->made = NULL;
    b->made_ctx = NULL;
}

static void bench_close(bench *b)
{
    attn_cache_destroy(b->cache);
    attn_ctx_destroy(b->ctx);
    CHECK_MSG(atomic_load(&b->heap.live) == 0, "%ld blocks leaked", atomic_load(&b->heap.live));
    arena_reset(&problem_mem);
}

/* Fails allocation 1, 2, ... of the step; after each failure the step must work. Returns how many
 * allocations a success takes. */
static long sweep(bench *b, step run, const char *name, int sticky)
{
    attn_error err;

    for (long n = 1;; n++) {
        long live = atomic_load(&b->heap.live);

        CHECK_MSG(n < 1000, "%s never succeeds", name);
        heap_arm(&b->heap, n, sticky);
        memset(&err, 0, sizeof err);
        attn_status st = run(b, &err);
        long calls = atomic_load(&b->heap.calls);
        heap_arm(&b->heap, 0, 0);
        bench_close_made(b);
        if (calls < n) {
            CHECK_MSG(st == ATTN_OK, "%s: %s though nothing failed", name, attn_status_text(st));
            return calls;
        }
        /* A step may do without the block that failed, but not fail in another way. */
        CHECK_MSG(st == ATTN_E_MEMORY || st == ATTN_OK, "%s, allocation %ld: %s", name, n,
                  attn_status_text(st));
        CHECK_MSG(st == ATTN_OK || (err.status == st && err.text[0]), "%s: no text", name);
        CHECK_MSG(st == ATTN_OK || atomic_load(&b->heap.live) == live,
                  "%s, allocation %ld: %ld blocks before, %ld after", name, n, live,
                  atomic_load(&b->heap.live));
        CHECK_MSG(run(b, &err) == ATTN_OK, "%s: no retry after %ld: %s", name, n, err.text);
        bench_close_made(b);
    }
}

static void sweep_steps(int options, int64_t tq, int cut, int kind)
{
    static const struct {
        const char *name;
        step run;
        int cache, allocates;
    } steps[] = {
        {"context", step_ctx, 0, 1},     {"forward", step_forward, 0, 1},
        {"weights", step_weights, 0, 1}, {"plan", step_plan, 0, 0},
        {"cache", step_cache, 0, 1},     {"decode", step_decode, 1, 1},
        {"append", step_append, 2, 0},   {"trim and drop", step_trim, 1, 0},
        {"fork", step_fork, 3, 0},       {"merge", step_merge, 0, 0},
        {"stats", step_stats, 0, 1},
    };

    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        for (int sticky = 0; sticky < 2; sticky++) {
            bench b;

            bench_open(&b, options, tq);
            b.cut = cut;
            b.kind = kind;
            if (steps[i].cache)
                bench_fill_cache(&b);
            if (steps[i].cache > 1) /* room for what the sweep appends */
                assert_int_equal(attn_cache_trim(b.cache, 0, 20, NULL), ATTN_OK);
            long calls = sweep(&b, steps[i].run, steps[i].name, sticky);
            CHECK_MSG(calls > 0 || !steps[i].allocates, "%s does not use the allocator",
                      steps[i].name);
            bench_close(&b);
        }
}

static void every_allocation_fails(void **state)
{
    (void)state;
    for (int kind = 0; kind < 3; kind++)
        for (int options = 0; options < OPTION_SETS; options++) {
            sweep_steps(options, 40, 0, kind);
            if (options != ADDED) /* its masks belong to all rows */
                sweep_steps(options, 40, 35, kind);
        }
}

/* A retry must also work when the context itself could not be had. */
static void context_needs_its_memory(void **state)
{
    heap h = {0};
    attn_ctx *ctx = NULL;
    attn_error err;

    (void)state;
    heap_arm(&h, 1, 1);
    CHECK(heap_try_ctx(&h, ATTN_SET_AUTO, 4, &ctx, &err) == ATTN_E_MEMORY);
    CHECK(ctx == NULL && err.text[0] && atomic_load(&h.live) == 0);
    heap_arm(&h, 0, 0);
    CHECK(heap_try_ctx(&h, ATTN_SET_AUTO, 4, &ctx, &err) == ATTN_OK);
    attn_ctx_destroy(ctx);
    CHECK(atomic_load(&h.live) == 0);
}

/* --- With a workspace ----------------------------------------------------------------------- */

static void no_allocation_with_a_workspace(void **state)
{
    static const int64_t queries[] = {1, 5, 16, 17, 40};
    attn_plan plan = ATTN_PLAN_INIT;

    (void)state;
    for (int n = 0; n < 5 * OPTION_SETS * 2; n++) {
        bench b;
        attn_forward_args a;

        bench_open(&b, n / 5 % OPTION_SETS, queries[n % 5]);
        a = bench_args(&b);
        a.lse = problem_lse(&b.p, b.p.b, b.p.tq);
        a.weights = view_plain(&problem_mem, ATTN_F32, b.p.b, b.p.h, b.p.tq, b.p.tk);
        if (n >= 5 * OPTION_SETS) { /* through a cache */
            bench_fill_cache(&b);
            a.k = a.v = (attn_view){0};
            b.p.mask.q_offset = problem_decode_offset(&b.p);
        }
        heap_arm(&b.heap, 0, 0);
        attn_status st = b.cache ? attn_decode_plan(b.ctx, b.cache, &a, &plan, NULL)
                                 : attn_forward_plan(b.ctx, &a, &plan, NULL);
        CHECK(st == ATTN_OK);
        CHECK_MSG(atomic_load(&b.heap.calls) == 0, "the plan allocates");
        a.workspace = arena_get(&problem_mem, plan.workspace_size);
        a.workspace_size = plan.workspace_size;
        for (int repeat = 0; repeat < 3; repeat++)
            CHECK((b.cache ? attn_decode(b.ctx, b.cache, &a, NULL)
                           : attn_forward(b.ctx, &a, NULL)) == ATTN_OK);
        CHECK_MSG(atomic_load(&b.heap.calls) == 0, "%ld allocations with a workspace, case %d",
                  atomic_load(&b.heap.calls), n);
        expect_same(&a.out, &b.p.out, "case %d", n);
        bench_close(&b);
    }
}

/* --- How much ------------------------------------------------------------------------------- */

enum { LONG = 65536, TILE = 4 << 20 };

static size_t bound(int threads, int64_t hk, int64_t tk, int64_t d, int64_t dv, size_t element)
{
    int64_t heads = hk < threads + 1 ? hk : threads + 1;

    return (size_t)threads * TILE + (size_t)(tk * (d + dv) * heads) * element;
}

/* Views over addresses that nobody touches: a plan reads no element. */
static attn_view unread(attn_type type, int64_t b, int64_t h, int64_t n, int64_t d)
{
    static char *next;

    if (!next) { /* one page: only distances matter */
        next = mmap(NULL, 1 << 16, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        assert_true(next != MAP_FAILED);
    }
    return attn_view_bhsd(next, type, b, h, n, d);
}

static void no_tile_change(void *user, const attn_tile *tile)
{
    (void)user, (void)tile;
}

enum { WAYS = 12 };

/* One option at a time, then all that go together. Addresses of outputs lie `far` apart from
 * inputs. */
static void long_args(int way, attn_type type, attn_forward_args *a, attn_mask *m)
{
    static const int64_t start[2] = {0, 1}, index[1] = {0}, sums[3] = {0, LONG / 2, LONG};
    static const int64_t offsets[2] = {0, 0}, counts[2] = {LONG, LONG / 2};
    attn_type wide = type == ATTN_F64 ? ATTN_F64 : ATTN_F32;
    int all = way == WAYS - 1;

    *a = (attn_forward_args)ATTN_FORWARD_ARGS_INIT;
    *m = (attn_mask)ATTN_MASK_INIT;
    a->mask = m;
    a->q = unread(type, 2, 32, LONG, 128);
    a->k = unread(type, 2, 8, LONG, 128);
    a->v = unread(type, 2, 8, LONG, 128);
    a->out = unread(type, 2, 32, LONG, 128);
    a->out.data = (char *)a->out.data + ((int64_t)1 << 43);
    if (way == 1 || all)
        m->causal = 1, m->q_offsets = offsets, m->k_count = counts;
    if (way == 2 || all)
        m->window = 1, m->window_left = 4096;
    if (way == 3 || all)
        m->keep = unread(ATTN_U8, 1, 1, LONG, LONG);
    if (way == 4 || all)
        m->bias = unread(wide, 2, 32, LONG, LONG);
    if (way == 5 || all)
        m->alibi = unread(wide, 1, 32, 1, 1), a->sink = unread(wide, 1, 32, 1, 1);
    if (way == 6 || all)
        a->dropout = 0.1, a->softcap = 30;
    if (way == 7 || all)
        m->tile = no_tile_change;
    if (way == 8 || all) {
        m->blocks = (attn_block_list){LONG, LONG, 1, 1, start, 0, 0, index, 1};
        a->lse = unread(wide, 2, 32, LONG, 1);
        a->lse.data = (char *)a->lse.data + ((int64_t)1 << 44);
    }
    if (way == 9 || all) {
        a->weights = unread(wide, 2, 1, LONG, LONG);
        a->weights.data = (char *)a->weights.data + ((int64_t)1 << 45);
    }
    if (way == 10) {
        a->q.size[0] = a->k.size[0] = a->v.size[0] = a->out.size[0] = 1;
        m->segments = 2, m->q_starts = sums, m->k_starts = sums;
    }
}

static void workspace_is_bounded(void **state)
{
    static const attn_type types[] = {ATTN_F32, ATTN_F16, ATTN_BF16, ATTN_F64};
    static const int64_t queries[] = {LONG, 512, 16, 1};
    static const int widths[] = {1, 2, 8};

    (void)state;
    for (int n = 0; n < WAYS * 4 * 3 * 4; n++) {
        int threads = widths[n / WAYS / 4 % 3];
        attn_type type = types[n / WAYS % 4];
        attn_plan plan = ATTN_PLAN_INIT;
        attn_error err = {ATTN_OK, 0, ""};
        attn_forward_args a;
        attn_mask m;

        long_args(n % WAYS, type, &a, &m);
        if (n % WAYS != 10) {
            int64_t tq = queries[n / WAYS / 12];

            a.q.size[2] = a.out.size[2] = tq;
            if (a.lse.data)
                a.lse.size[2] = tq;
            if (a.weights.data)
                a.weights.size[2] = tq;
            if (m.keep.data)
                m.keep.size[2] = tq;
            if (m.bias.data)
                m.bias.size[2] = tq;
        }
        CHECK_MSG(attn_forward_plan(ctx_for(ATTN_SET_AUTO, threads), &a, &plan, &err) == ATTN_OK,
                  "way %d: %s", n % WAYS, err.text);
        size_t most = bound(threads, 8, LONG, 128, 128, type == ATTN_F64 ? 8 : 4);
        CHECK_MSG(plan.workspace_size <= most, "way %d of %s, %d threads: %zu bytes of %zu (%s)",
                  n % WAYS, attn_type_name(type), threads, plan.workspace_size, most, plan.why);
    }
}

/* The memory of a child that attends 64k keys, inputs apart. A matrix of weights would be 1 GB. */
static long child_growth_kb(int way)
{
    enum { ROWS = 2048, WIDTH = 64 };
    attn_forward_args a = ATTN_FORWARD_ARGS_INIT;
    attn_mask m = ATTN_MASK_INIT;
    rng r = rng_make(3, 3);
    struct rusage before, after;
    arena mem = {0};

    a.mask = &m;
    a.q = view_plain(&mem, ATTN_F32, 1, 2, ROWS, WIDTH);
    a.k = view_plain(&mem, ATTN_F16, 1, 1, LONG, WIDTH);
    a.v = view_plain(&mem, ATTN_F16, 1, 1, LONG, WIDTH);
    a.out = view_plain(&mem, ATTN_F32, 1, 2, ROWS, WIDTH);
    view_uniform(&a.q, &r, -1, 1);
    view_fill(&a.k, 0.25);
    view_fill(&a.v, 0.5);
    view_fill(&a.out, 0);
    m.causal = 1;
    m.q_offset = way ? LONG - ROWS : 8192;
    if (way == 1) {
        m.bias = view_plain(&mem, ATTN_F32, 1, 1, 1, LONG);
        view_fill(&m.bias, 0.5);
        a.dropout = 0.1;
        a.softcap = 5;
        m.window = 1;
        m.window_left = 20000;
        m.window_right = 0;
    }
    getrusage(RUSAGE_SELF, &before);
    if (attn_forward(ctx_for(ATTN_SET_AUTO, 2), &a, NULL) != ATTN_OK)
        return -1;
    getrusage(RUSAGE_SELF, &after);
    arena_reset(&mem);
    return after.ru_maxrss - before.ru_maxrss;
}

static void resident_memory_is_bounded(void **state)
{
    (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); /* shadow memory counts too */
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
    skip();
#endif
#endif
    for (int way = 0; way < 2; way++) {
        int pipes[2], status;
        long grown = -1;

        assert_int_equal(pipe(pipes), 0);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            grown = child_growth_kb(way);
            _exit(write(pipes[1], &grown, sizeof grown) == sizeof grown ? 0 : 1);
        }
        close(pipes[1]);
        CHECK(read(pipes[0], &grown, sizeof grown) == sizeof grown);
        close(pipes[0]);
        assert_int_equal(waitpid(child, &status, 0), child);
        long most = (long)(bound(2, 1, LONG, 64, 64, 4) / 1024) + 4096;
        print_message("64k keys, way %d: %ld kB over the inputs, at most %ld\n", way, grown, most);
        CHECK_MSG(grown >= 0 && grown <= most, "%ld kB, bound %ld kB", grown, most);
    }
}

int main(int argc, char **argv)
{
    static const test_case tests[] = {
        {"every_allocation_fails", every_allocation_fails, 0},
        {"context_needs_its_memory", context_needs_its_memory, 0},
        {"no_allocation_with_a_workspace", no_allocation_with_a_workspace, 0},
        {"workspace_is_bounded", workspace_is_bounded, 0},
        {"resident_memory_is_bounded", resident_memory_is_bounded, 0},
    };

    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
