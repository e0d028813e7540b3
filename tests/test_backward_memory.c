/* test_backward_memory.c: memory of gradients: every allocation failing, workspaces of either size
 * and what they are bounded by, and guard pages around every array for all small sizes. */
#define _GNU_SOURCE /* MAP_NORESERVE */
#include "tests/gradient.h"
#include "tests/heap.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* --- Failing allocations -------------------------------------------------------------------- */

static void every_allocation_fails(void **state)
{
    attn_kernel_set set = test_set(state);

    for (int n = 0; n < OPTION_SETS * 2 * 2; n++) {
        heap h = {.sticky = n & 1};
        attn_ctx *ctx = heap_ctx(&h, set, n & 2 ? 3 : 1);
        problem p = problem_make(ctx_for(set, 1), ATTN_F32, n / 4, 2, 40, 700);
        subject s = subject_make(&p);
        way w = {.ctx = ctx_for(set, 1), .n = 2};
        gradients want = gradient_run(&s, &w);
        attn_status st = ATTN_E_MEMORY;
        long live = atomic_load(&h.live);

        for (long fail = 1; fail < 100; fail++) {
            gradient_call c;
            attn_error err = {ATTN_OK, 0, ""};

            gradient_make(&c, &s, &w);
            gradient_forward(w.ctx, &c);
            c.a.forward = &c.f;
            h.fail_at = fail;
            atomic_store(&h.calls, 0);
            st = attn_backward(ctx, &c.a, &err);
            gradients got = {{c.a.dq, c.a.dk, c.a.dv, c.a.dbias, c.a.dsink, c.a.dalibi}};
            CHECK(st == ATTN_OK || (st == ATTN_E_MEMORY && err.status == st && err.text[0]));
            CHECK_MSG(atomic_load(&h.live) == live, "allocation %ld leaks", fail);
            if (st == ATTN_OK)
                expect_same_gradients(&got, &want, "less memory");
            else
                CHECK(view_get(&got.of[DQ], 0, 0, 0, 0) == 77);
            if (st == ATTN_OK && atomic_load(&h.calls) < fail)
                break;
        }
        CHECK_MSG(st == ATTN_OK, "never succeeds");
        CHECK(atomic_load(&h.calls) > 0);
        attn_ctx_destroy(ctx);
        arena_reset(&problem_mem);
    }
}

static void no_allocation_with_a_workspace(void **state)
{
    for (int n = 0; n < OPTION_SETS * 2; n++) {
        heap h = {0};
        attn_ctx *ctx = heap_ctx(&h, test_set(state), 3);
        problem p = problem_make(ctx_for(test_set(state), 1), ATTN_F32, n / 2, 2, 40, 700);
        subject s = subject_make(&p);
        way w = {.ctx = ctx, .n = 2, .memory = n & 1 ? LEAST_WORKSPACE : FULL_WORKSPACE};
        gradient_call c;

        gradient_make(&c, &s, &w);
        gradient_forward(ctx_for(test_set(state), 1), &c);
        atomic_store(&h.calls, 0);
        gradient_backward(&c, &w);
        CHECK_MSG(atomic_load(&h.calls) == 0, "%ld allocations", atomic_load(&h.calls));
        attn_ctx_destroy(ctx);
        arena_reset(&problem_mem);
    }
}

/* --- Cancelling ----------------------------------------------------------------------------- */

static int stop_at(void *user, uint64_t done, uint64_t total)
{
    CHECK(done <= total);
    return --*(long *)user <= 0;
}

/* At any step the call ends and says so: workers that wait for each other too. */
static void cancelling_ends_the_call(void **state)
{
    for (int n = 0; n < 2 * OPTION_SETS; n++) {
        attn_ctx_options o = ATTN_CTX_OPTIONS_INIT;
        problem p = problem_make(ctx_for(test_set(state), 1), ATTN_F32, n / 2, 2, 40, 700);
        subject s = subject_make(&p);
        way w = {.ctx = ctx_for(test_set(state), 1), .n = 2, .bias_sums = 1};
        gradient_call c;
        attn_ctx *ctx;
        long left, step;
        attn_status st = ATTN_E_CANCELLED;

        o.kernels = test_set(state);
        o.threads = n % 2 ? 5 : 1;
        o.progress = stop_at;
        o.progress_user = &left;
        CHECK(attn_ctx_create(&o, &ctx, NULL) == ATTN_OK);
        gradient_make(&c, &s, &w);
        gradient_forward(w.ctx, &c);
        c.a.forward = &c.f;
        for (step = 1; st == ATTN_E_CANCELLED; step++) {
            attn_error err = {ATTN_OK, 0, ""};

            left = step;
            st = attn_backward(ctx, &c.a, &err);
            CHECK(st == ATTN_OK || (st == ATTN_E_CANCELLED && err.status == st && err.text[0]));
        }
        CHECK(step > 2 && step < 1000);
        attn_ctx_destroy(ctx);
        arena_reset(&problem_mem);
    }
}

/* --- How much ------------------------------------------------------------------------------- */

enum { LONG = 65536, TILE = 4 << 20 };

/* Views over addresses that nobody touches: a plan reads no element. */
static attn_view unread(attn_type type, int64_t place, int64_t b, int64_t h, int64_t n, int64_t d)
{
    static char *page;
    attn_view v;

    if (!page) {
        page = mmap(NULL, 1 << 16, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        assert_true(page != MAP_FAILED);
    }
    v = attn_view_bhsd(page, type, b, h, n, d);
    v.data = page + (place << 41);
    return v;
}

/* 64k keys and queries with every option: running dq of the heads in flight, eight of them at most,
 * q and dout in f32, and what each worker needs; with the least workspace only the latter. Never
 * anything of the size of the scores. */
static void workspace_is_bounded(void **state)
{
    enum { D = 128, H = 32, HK = 8 };
    attn_forward_args f = ATTN_FORWARD_ARGS_INIT;
    attn_backward_args a = ATTN_BACKWARD_ARGS_INIT;
    attn_mask m = ATTN_MASK_INIT;
    size_t rows = (size_t)2 * H * LONG * 2 * sizeof(float); /* lse and delta */
    size_t copies = (size_t)2 * H * LONG * 2 * D * sizeof(float);

    f.q = unread(ATTN_F32, 0, 2, H, LONG, D);
    f.k = unread(ATTN_F32, 1, 2, HK, LONG, D);
    f.v = unread(ATTN_F32, 2, 2, HK, LONG, D);
    f.out = unread(ATTN_F32, 3, 2, H, LONG, D);
    f.lse = unread(ATTN_F32, 4, 2, H, LONG, 1);
    f.sink = unread(ATTN_F32, 5, 1, H, 1, 1);
    f.mask = &m;
    f.softcap = 30;
    f.dropout = 0.1;
    m.causal = 1;
    m.keep = unread(ATTN_U8, 6, 1, 1, LONG, LONG);
    m.bias = unread(ATTN_F32, 7, 1, H, LONG, LONG);
    m.alibi = unread(ATTN_F32, 8, 1, H, 1, 1);
    a.forward = &f;
    a.dout = unread(ATTN_F32, 9, 2, H, LONG, D);
    a.dq = unread(ATTN_F32, 10, 2, H, LONG, D);
    a.dk = unread(ATTN_F32, 11, 2, HK, LONG, D);
    a.dv = unread(ATTN_F32, 12, 2, HK, LONG, D);
    a.dbias = unread(ATTN_F32, 13, 1, H, LONG, LONG);
    a.dsink = unread(ATTN_F32, 14, 1, H, 1, 1);
    a.dalibi = unread(ATTN_F32, 15, 1, H, 1, 1);
    for (int threads = 1; threads <= 16; threads *= 2) {
        const attn_ctx *ctx = ctx_for(test_set(state), threads);
        size_t dq = (size_t)H / HK * LONG * D * sizeof(float), few = (size_t)threads * TILE + rows;
        attn_plan plan = ATTN_PLAN_INIT;
        attn_error err = {ATTN_OK, 0, ""};

        CHECK_MSG(attn_backward_plan(ctx, &a, &plan, &err) == ATTN_OK, "%s", err.text);
        CHECK_MSG(plan.workspace_least <= few, "least %zu, threads %d", plan.workspace_least,
                  threads);
        CHECK_MSG(plan.workspace_size <= few + (size_t)threads * 8 * dq + copies, "%zu, threads %d",
                  plan.workspace_size, threads);
        CHECK(plan.workspace_least <= plan.workspace_size);
        CHECK(plan.kernels == attn_ctx_kernels(ctx) && plan.threads >= 1 && plan.why[0]);
        CHECK(!strcmp(plan.path, "chunks") || !strcmp(plan.path, "heads"));
    }
}

/* --- Guard pages ---------------------------------------------------------------------------- */

/* Every array of its exact size, right after or right before a page that faults. */
static void guarded_call(const attn_ctx *ctx, const int64_t n[4], attn_type type, int at_end)
{
    int64_t tq = n[0], tk = n[1], d = n[2], dv = n[3];
    attn_type wide = type == ATTN_F64 ? ATTN_F64 : ATTN_F32;
    attn_forward_args f = ATTN_FORWARD_ARGS_INIT;
    attn_backward_args a = ATTN_BACKWARD_ARGS_INIT;
    attn_mask m = ATTN_MASK_INIT;
    attn_plan plan = ATTN_PLAN_INIT;
    attn_error err = {ATTN_OK, 0, ""};
    ref_options none = {0};
    ref_gradients r;
    char why[300];
    arena mem = {0};
    rng random = rng_make(test_seed(), (uint64_t)(tq + tk * 1000));

    f.q = view_guarded(&mem, type, 1, 2, tq, d, at_end);
    f.k = view_guarded(&mem, type, 1, 1, tk, d, at_end);
    f.v = view_guarded(&mem, type, 1, 1, tk, dv, at_end);
    f.out = view_guarded(&mem, wide, 1, 2, tq, dv, at_end);
    f.lse = view_guarded(&mem, wide, 1, 2, tq, 1, at_end);
    m.bias = view_guarded(&mem, wide, 1, 2, tq, tk, at_end);
    f.mask = &m;
    a.forward = &f;
    a.dout = view_guarded(&mem, type, 1, 2, tq, dv, at_end);
    a.dlse = view_guarded(&mem, wide, 1, 2, tq, 1, at_end);
    a.dq = view_guarded(&mem, type, 1, 2, tq, d, at_end);
    a.dk = view_guarded(&mem, type, 1, 1, tk, d, at_end);
    a.dv = view_guarded(&mem, type, 1, 1, tk, dv, at_end);
    a.dbias = view_guarded(&mem, wide, 1, 2, tq, tk, at_end);
    const attn_view *in[] = {&f.q, &f.k, &f.v, &m.bias, &a.dout, &a.dlse};
    for (size_t i = 0; i < sizeof in / sizeof *in; i++)
        view_uniform(in[i], &random, -1.5, 1.5);
    CHECK(attn_forward(ctx, &f, NULL) == ATTN_OK);
    CHECK(attn_backward_plan(ctx, &a, &plan, NULL) == ATTN_OK);
    a.workspace_size = at_end ? plan.workspace_least : plan.workspace_size;
    a.workspace = arena_guarded(&mem, a.workspace_size, a.workspace_size % 64 == 0);
    CHECK_MSG(attn_backward(ctx, &a, &err) == ATTN_OK, "%s", err.text);
    ref_backward(&a, &none, &r);
    CHECK_MSG(ref_compare_gradients(&a, NULL, &r, NULL, why, sizeof why) == 0,
              "Tq %lld Tk %lld D %lld Dv %lld: %s", (long long)tq, (long long)tk, (long long)d,
              (long long)dv, why);
    ref_gradients_free(&r);
    arena_reset(&mem);
}

/* Each size in turn from 1 to 130, past every width of vectors and tiles. */
static void no_byte_outside_the_arrays(void **state)
{
    static const attn_type types[] = {ATTN_F32, ATTN_BF16, ATTN_F64};
    const attn_ctx *ctx = ctx_for(test_set(state), 1);

    for (int64_t size = 1; size <= 130; size++)
        for (int which = 0; which < 4; which++) {
            int64_t n[4] = {7, 9, 5, 6};

            n[which] = size;
            guarded_call(ctx, n, types[(size + which) % 3], (int)(size / 3 % 2));
            guarded_call(ctx, n, types[(size + which) % 3], (int)(size / 3 % 2 == 0));
        }
}

int main(int argc, char **argv)
{
    static const test_case tests[] = {
        {"every allocation fails", every_allocation_fails, 1},
        {"no allocation with a workspace", no_allocation_with_a_workspace, 1},
        {"cancelling ends the call", cancelling_ends_the_call, 1},
        {"workspace is bounded", workspace_is_bounded, 1},
        {"no byte outside the arrays", no_byte_outside_the_arrays, 1},
    };

    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
