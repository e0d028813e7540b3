/* test_bits_host.c: nothing about the caller changes a bit: its floating-point environment (which
 * comes back as it was), the outputs it asks for, its workspace, writing over q. Companion of
 * test_bits.c. */
#include "include/attn/attn.h"
#include "tests/yardstick.h"

#include <fenv.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* --- Floating-point environment ------------------------------------------------------------- */

/* Control bits of the machine: rounding, flushing, traps. Flags that record past exceptions are no
 * part of the promise. */
typedef struct control {
    unsigned word;
    int rounding;
} control;

enum { MXCSR_FLAGS = 0x3f, MXCSR_DAZ = 0x40, MXCSR_MASKS = 0x1f80, MXCSR_FTZ = 0x8000 };

static control control_get(void)
{
    control c = {0, fegetround()};

#if defined(__x86_64__)
    c.word = _mm_getcsr() & ~(unsigned)MXCSR_FLAGS;
#endif
    return c;
}

static void control_set(control c)
{
    fesetround(c.rounding);
#if defined(__x86_64__)
    _mm_setcsr(c.word);
#endif
}

enum { CONTROLS = 8 };

/* The n-th unusual setting. */
static control control_case(int n)
{
    static const int rounding[] = {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
    control normal = control_get(), c;

    fesetround(rounding[n % 4]);
    c = control_get();
    control_set(normal);
#if defined(__x86_64__)
    if (n >= 4)
        c.word |= MXCSR_FTZ | MXCSR_DAZ;
    if (n % 2)
        c.word &= ~(unsigned)MXCSR_MASKS; /* every exception traps */
#endif
    return c;
}

/* Values near the denormals, large logits and an overflow: every exception there is. */
static void make_edgy(problem *p)
{
    rng r = rng_make(test_seed(), 4);

    for (int64_t i = 0; i < p->tk; i += 3)
        for (int64_t c = 0; c < p->dv; c++)
            view_set(&p->v, 0, 0, i, c, rng_range(&r, -1e-39, 1e-39));
    for (int64_t i = 0; i < p->tk; i += 7)
        for (int64_t c = 0; c < p->d; c++)
            view_set(&p->k, 0, 1, i, c, rng_range(&r, -60, 60));
    view_set(&p->v, 0, 1, 5, 0, (double)INFINITY);
    view_set(&p->q, 0, 3, 1, 0, (double)NAN);
}

/* Bits as a hash: NaN compares like any other value. */
static void run_for_hash(const attn_ctx *ctx, problem *p, uint64_t hash[2])
{
    attn_forward_args a = problem_args(p, 0, p->b);

    a.out = problem_out(p, p->b, p->tq);
    a.lse = problem_lse(p, p->b, p->tq);
    problem_run(ctx, &a);
    hash[0] = view_hash(&a.out);
    hash[1] = view_hash(&a.lse);
}

/* One call under the control word; the asserts come after the normal one is back. */
static void check_control(attn_kernel_set set, problem *p, control c, const uint64_t want[2])
{
    attn_ctx_options o = ATTN_CTX_OPTIONS_INIT;
    control normal = control_get(), after, after_create;
    attn_forward_args a = problem_args(p, 0, p->b);
    attn_plan plan = ATTN_PLAN_INIT;
    attn_ctx *young;
    attn_status st[3];

    a.out = problem_out(p, p->b, p->tq);
    a.lse = problem_lse(p, p->b, p->tq);
    o.kernels = set;
    o.threads = 3;
    control_set(c);
    st[0] = attn_forward(ctx_for(set, 3), &a, NULL); /* workers older than the setting */
    after = control_get();
    control_set(normal);
    CHECK(st[0] == ATTN_OK);
    CHECK_MSG(after.word == c.word && after.rounding == c.rounding, "control %x became %x", c.word,
              after.word);
    CHECK_MSG(view_hash(&a.out) == want[0] && view_hash(&a.lse) == want[1],
              "bits differ under control %x, rounding %x", c.word, c.rounding);
    view_fill(&a.out, 1);
    control_set(c);
    st[0] = attn_ctx_create(&o, &young, NULL); /* workers that inherit it */
    after_create = control_get();
    st[1] = st[0] == ATTN_OK ? attn_forward(young, &a, NULL) : st[0];
    st[2] = st[0] == ATTN_OK ? attn_forward_plan(young, &a, &plan, NULL) : st[0];
    after = control_get();
    control_set(normal);
    CHECK_MSG(st[0] == ATTN_OK && st[1] == ATTN_OK && st[2] == ATTN_OK,
              "context made under control %x: %s", c.word, attn_status_text(st[0]));
    CHECK(after.word == c.word && after_create.word == c.word && after.rounding == c.rounding);
    CHECK_MSG(view_hash(&a.out) == want[0], "bits differ, context made under control %x", c.word);
    attn_ctx_destroy(young);
}

static void control_body(attn_kernel_set set, problem *p)
{
    uint64_t want[2];

    make_edgy(p);
    run_for_hash(ctx_for(set, 1), p, want);
    for (int n = 0; n < CONTROLS; n++)
        check_control(set, p, control_case(n), want);
}

static void control_word_changes_nothing(void **state)
{
    problem_each(state, 1, control_body);
}

static void control_word_of_other_calls(void **state)
{
    attn_kernel_set set = test_set(state);
    problem p = problem_make(ctx_for(set, 1), ATTN_F32, PLAIN, 1, 5, 700);
    attn_cache_options o = ATTN_CACHE_OPTIONS_INIT;
    attn_type kinds[] = {ATTN_F32, ATTN_F16, ATTN_BF16};
    uint64_t hash[2][3];

    make_edgy(&p);
    o.batch = 1, o.heads = p.hk, o.dk = p.d, o.dv = p.dv, o.capacity = 700;
    for (int t = 0; t < 3; t++)
        for (int way = 0; way < 2; way++) {
            control normal = control_get(), c = control_case(way ? 7 : 0), after;
            attn_forward_args a = problem_args(&p, 0, 1);
            attn_status st[3];
            attn_cache *cache;

            a.k = a.v = (attn_view){0};
            a.out = problem_out(&p, 1, p.tq);
            o.type = kinds[t];
            control_set(c);
            st[0] = attn_cache_create(ctx_for(set, 2), &o, &cache, NULL);
            st[1] = attn_cache_append(cache, 0, &p.k, &p.v, NULL); /* rounds f32 to the type */
            st[2] = attn_decode(ctx_for(set, 2), cache, &a, NULL);
            after = control_get();
            control_set(normal);
            CHECK(st[0] == ATTN_OK && st[1] == ATTN_OK && st[2] == ATTN_OK);
            CHECK(after.word == c.word && after.rounding == c.rounding);
            hash[way][t] = view_hash(&a.out);
            attn_cache_destroy(cache);
        }
    arena_reset(&problem_mem);
    for (int t = 0; t < 3; t++)
        CHECK_MSG(hash[0][t] == hash[1][t], "cache of %s", attn_type_name(kinds[t]));
}

/* --- What is asked for, and where it goes --------------------------------------------------- */

/* Outputs in every combination; the bits of each do not depend on the others. */
static void outputs_body(attn_kernel_set set, problem *p)
{
    attn_view weights[2] = {{0}, {0}};
    attn_type wide = p->type == ATTN_F64 ? ATTN_F64 : ATTN_F32;

    for (int ask = 1; ask < 8; ask++) {
        attn_forward_args a = problem_args(p, 0, p->b);

        if (ask & 1)
            a.out = problem_out(p, p->b, p->tq);
        if (ask & 2)
            a.lse = problem_lse(p, p->b, p->tq);
        if (ask & 4) {
            a.weights_head = ask & 1;
            a.weights = view_plain(&problem_mem, wide, p->b, 2, p->tq, p->tk);
        }
        problem_run(ctx_for(set, 2), &a);
        if (ask & 1)
            expect_same(&a.out, &p->out, "outputs %d, options %d", ask, p->options);
        if (ask & 2)
            expect_same(&a.lse, &p->lse, "LSE, outputs %d, options %d", ask, p->options);
        if (ask & 4 && weights[ask & 1].data)
            expect_same(&a.weights, &weights[ask & 1], "weights, outputs %d", ask);
        if (ask & 4)
            weights[ask & 1] = a.weights;
    }
    attn_view first = view_part(&weights[1], 1, 0, 1), second = view_part(&weights[0], 1, 1, 1);
    expect_same(&first, &second, "weights of head 1, as first and as second head asked for");
}

static void outputs_do_not_change_each_other(void **state)
{
    problem_each(state, 2, outputs_body);
}

/* An output in a wide type, rounded, is the output in the narrow one. */
static void output_type_body(attn_kernel_set set, problem *p)
{
    static const attn_type narrow[] = {ATTN_F16, ATTN_BF16};
    attn_forward_args a = problem_args(p, 0, p->b);
    rng r = rng_make(1, 1);

    if (p->type == ATTN_F64)
        return;
    a.out = view_plain(&problem_mem, ATTN_F32, p->b, p->h, p->tq, p->dv);
    problem_run(ctx_for(set, 2), &a);
    attn_view wide = a.out;
    for (int t = 0; t < 2; t++) {
        attn_view want = view_copy(&problem_mem, &r, &wide, narrow[t], LAYOUT_BHSD);

        a.out = view_plain(&problem_mem, narrow[t], p->b, p->h, p->tq, p->dv);
        problem_run(ctx_for(set, 2), &a);
        expect_same(&a.out, &want, "rounded from f32, options %d", p->options);
    }
}

static void output_type_only_rounds(void **state)
{
    problem_each(state, 2, output_type_body);
}

static void workspace_body(attn_kernel_set set, problem *p)
{
    const attn_ctx *ctx = ctx_for(set, 2);
    attn_forward_args a = problem_args(p, 0, p->b);
    attn_plan plan = ATTN_PLAN_INIT;

    a.out = problem_out(p, p->b, p->tq);
    assert_int_equal(attn_forward_plan(ctx, &a, &plan, NULL), ATTN_OK);
    a.workspace = arena_guarded(&problem_mem, (plan.workspace_size + 63) & ~(size_t)63, 1);
    a.workspace_size = plan.workspace_size;
    for (int fill = 0; fill < 256; fill += 85) { /* what it holds before does not matter */
        memset(a.workspace, fill, a.workspace_size);
        problem_run(ctx, &a);
        expect_same(&a.out, &p->out, "workspace of %zu bytes", plan.workspace_size);
    }
}

static void workspace_changes_nothing(void **state)
{
    problem_each(state, 2, workspace_body);
}

/* D == Dv: the output may take q's place. */
static void output_over_q(void **state)
{
    attn_kernel_set set = test_set(state);
    static const attn_type types[] = {ATTN_F32, ATTN_F16, ATTN_BF16, ATTN_F64};
    static const int64_t queries[] = {1, 3, 16, 17, 100, 200};
    rng r = rng_make(test_seed(), 9);

    for (int n = 0; n < 24; n++) {
        attn_type type = types[n % 4];
        int64_t tq = queries[n / 4];
        attn_forward_args a = ATTN_FORWARD_ARGS_INIT;

        a.q = problem_input(&r, type, 2, 4, tq, 40);
        a.k = problem_input(&r, type, 2, 2, 700, 40);
        a.v = problem_input(&r, type, 2, 2, 700, 40);
        a.out = view_plain(&problem_mem, type, 2, 4, tq, 40);
        problem_run(ctx_for(set, 3), &a);
        attn_view apart = a.out;
        a.out = a.q;
        problem_run(ctx_for(set, 3), &a);
        expect_same(&a.out, &apart, "over q, %lld queries", (long long)tq);
        arena_reset(&problem_mem);
    }
}

int main(int argc, char **argv)
{
    static const test_case tests[] = {
        {"control_word_changes_nothing", control_word_changes_nothing, 1},
        {"control_word_of_other_calls", control_word_of_other_calls, 1},
        {"outputs_do_not_change_each_other", outputs_do_not_change_each_other, 1},
        {"output_type_only_rounds", output_type_only_rounds, 1},
        {"workspace_changes_nothing", workspace_changes_nothing, 1},
        {"output_over_q", output_over_q, 1},
    };

    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
