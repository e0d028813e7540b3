/* test_backward_bits.c: the promise that gradients have the same bits whatever the threads, batch
 * mates, strides and workspace, and every time, by memcmp, for every storage type and kernel set.
 * The yardstick is the whole batch on one thread, in contiguous memory. */
#include "tests/gradient.h"

#include <fenv.h>
#include <stdlib.h>
#include <string.h>

static const int widths[] = {2, 3, 7, 16};

static way plain_way(attn_kernel_set set, const problem *p)
{
    return (way){.ctx = ctx_for(set, 1), .n = p->b};
}

/* --- Threads -------------------------------------------------------------------------------- */

static void threads_body(attn_kernel_set set, problem *p)
{
    subject s = subject_make(p);

    for (int sums = 0; sums < 2; sums++) {
        way w = plain_way(set, p);

        w.bias_sums = sums;
        gradients want = gradient_run(&s, &w);
        for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
            w.ctx = ctx_for(set, widths[i]);
            gradients got = gradient_run(&s, &w);
            expect_same_gradients(&got, &want, "threads");
        }
    }
}

static void threads_change_nothing(void **state)
{
    problem_each(state, 2, threads_body);
}

static void one_head_body(attn_kernel_set set, problem *p)
{
    subject s = subject_make(p);
    way w = plain_way(set, p);
    gradients want = gradient_run(&s, &w);

    w.ctx = ctx_for(set, 7);
    gradients got = gradient_run(&s, &w);
    expect_same_gradients(&got, &want, "one sequence");
}

static void threads_share_one_sequence(void **state)
{
    problem_each(state, 1, one_head_body);
}

/* One after the other, last first. */
static void for_backwards(void *user, size_t n, void (*task)(void *arg, size_t i), void *arg)
{
    (void)user;
    while (n-- > 0)
        task(arg, n);
}

static void workers_body(attn_kernel_set set, problem *p)
{
    subject s = subject_make(p);
    way w = plain_way(set, p);
    gradients want = gradient_run(&s, &w);
    attn_ctx_options o = ATTN_CTX_OPTIONS_INIT;
    attn_ctx *ctx;

    o.kernels = set;
    o.threads = 5;
    o.parallel_for = for_backwards;
    CHECK(attn_ctx_create(&o, &ctx, NULL) == ATTN_OK);
    w.ctx = ctx;
    gradients got = gradient_run(&s, &w);
    expect_same_gradients(&got, &want, "tasks backwards");
    attn_ctx_destroy(ctx);
}

static void workers_of_the_caller_change_nothing(void **state)
{
    problem_each(state, 2, workers_body);
}

/* --- Batch, layout, workspace --------------------------------------------------------------- */

static void batch_body(attn_kernel_set set, problem *p)
{
    subject s = subject_make(p);
    way w = plain_way(set, p);
    gradients want = gradient_run(&s, &w), got;

    for (int64_t n = 1; n < p->b; n++)
        for (int64_t b0 = 0; b0 + n <= p->b; b0++) {
            w.ctx = ctx_for(set, 3);
            w.b0 = b0;
            w.n = n;
            got = gradient_run(&s, &w);
            for (int i = DQ; i <= DBIAS; i++) {
                attn_view part = view_batches(&want.of[i], b0, n);

                expect_same(&got.of[i], &part, "%s: %lld sequences", gradient_names[i],
                            (long long)n);
            }
        }
}

static void batch_mates_change_nothing(void **state)
{
    problem_each(state, 3, batch_body);
}

static void layout_body(attn_kernel_set set, problem *p)
{
    subject s = subject_make(p);
    way w = plain_way(set, p);
    gradients want = gradient_run(&s, &w);

    for (int kind = 1; kind < LAYOUT_COUNT; kind++) {
        w.kind = (layout)kind;
        gradients got = gradient_run(&s, &w);
        expect_same_gradients(&got, &want, layout_name(w.kind));
    }
    CHECK(arena_poison_intact(&problem_mem));
}

static void strides_change_nothing(void **state)
{
    problem_each(state, 2, layout_body);
}

static void workspace_body(attn_kernel_set set, problem *p)
{
    subject s = subject_make(p);

    for (int width = 1; width <= 3; width++) {
        way w = plain_way(set, p);
        gradients want = gradient_run(&s, &w), got;

        w.ctx = ctx_for(set, width);
        w.memory = FULL_WORKSPACE;
        got = gradient_run(&s, &w);
        expect_same_gradients(&got, &want, "full workspace");
        w.memory = LEAST_WORKSPACE;
        got = gradient_run(&s, &w);
        expect_same_gradients(&got, &want, "least workspace");
    }
}

static void workspace_changes_nothing(void **state)
{
    problem_each(state, 2, workspace_body);
}

static void some_body(attn_kernel_set set, problem *p)
{
    subject s = subject_make(p);
    way w = plain_way(set, p);
    gradients want = gradient_run(&s, &w);

    for (unsigned only = 0; only < GRADIENTS; only++) {
        gradient_call c;

        w.ctx = ctx_for(set, 1 + (int)(only % 3));
        w.without = ~(1u << only); /* that one alone, then all but it */
        for (int turn = 0; turn < 2; turn++, w.without = ~w.without) {
            gradient_make(&c, &s, &w);
            if (!c.a.dq.data && !c.a.dk.data && !c.a.dv.data && !c.a.dbias.data &&
                !c.a.dsink.data && !c.a.dalibi.data)
                continue;
            gradient_forward(w.ctx, &c);
            gradients got = gradient_backward(&c, &w);
            expect_same_gradients(&got, &want, "asked for with others or alone");
        }
    }
}

static void gradients_do_not_change_each_other(void **state)
{
    problem_each(state, 2, some_body);
}

/* --- Again and again ------------------------------------------------------------------------ */

static void a_hundred_repeats(void **state)
{
    attn_kernel_set set = test_set(state);

    for (int options = 0; options < OPTION_SETS; options++) {
        problem p = problem_make(ctx_for(set, 1), ATTN_F32, options, 1, 50, 700);
        subject s = subject_make(&p);
        way w = plain_way(set, &p);
        gradients want;
        gradient_call c;

        w.bias_sums = options == ADDED;
        want = gradient_run(&s, &w);
        gradient_make(&c, &s, &w);
        w.ctx = ctx_for(set, 3);
        gradient_forward(w.ctx, &c);
        for (int n = 0; n < 100; n++) {
            gradients got = gradient_backward(&c, &w);

            expect_same_gradients(&got, &want, "repeat");
        }
        arena_reset(&problem_mem);
    }
}

static void rounding_body(attn_kernel_set set, problem *p)
{
    static const int modes[] = {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
    subject s = subject_make(p);
    way w = plain_way(set, p);
    gradients want = gradient_run(&s, &w);

    w.ctx = ctx_for(set, 3);
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        gradient_call c;

        gradient_make(&c, &s, &w);
        gradient_forward(w.ctx, &c);
        CHECK(fesetround(modes[i]) == 0);
        gradients got = gradient_backward(&c, &w);
        int after = fegetround();
        fesetround(FE_TONEAREST);
        CHECK(after == modes[i]);
        expect_same_gradients(&got, &want, "rounding mode of the caller");
    }
}

static void rounding_mode_changes_nothing(void **state)
{
    problem_each(state, 1, rounding_body);
}

/* --- Segments ------------------------------------------------------------------------------- */

/* A packed batch and its segments one by one: causal, ALiBi and sinks, dropout by the segment's
 * number. */
static void packed_equals_one_call_a_segment(void **state)
{
    static const int64_t qs[] = {0, 40, 40, 97, 150}, ks[] = {0, 130, 150, 150, 350};
    enum { SEGMENTS = 4 };
    const attn_ctx *ctx = ctx_for(test_set(state), 3);
    problem p = problem_make(ctx_for(test_set(state), 1), ATTN_F32, PLAIN, 1, 150, 350);
    subject s = subject_make(&p);
    way w = {.ctx = ctx, .n = 1, .without = 1u << DBIAS | 1u << DSINK | 1u << DALIBI};
    gradient_call whole;
    gradients all;

    gradient_make(&whole, &s, &w);
    p.mask.causal = 1;
    p.mask.q_offset = 20;
    p.mask.alibi = p.alibi;
    p.mask.segments = SEGMENTS;
    p.mask.q_starts = qs;
    p.mask.k_starts = ks;
    whole.f.sink = p.sink;
    whole.f.dropout = 0.3;
    gradient_forward(ctx, &whole);
    all = gradient_backward(&whole, &w);
    p.mask.segments = 0;
    p.mask.q_starts = p.mask.k_starts = NULL;
    for (int64_t i = 0; i < SEGMENTS; i++) {
        int64_t q = qs[i], nq = qs[i + 1] - q, k = ks[i], nk = ks[i + 1] - k;
        gradient_call one = whole;
        attn_view *rows[] = {&one.f.q, &one.f.out, &one.f.lse, &one.a.dout, &one.a.dlse, &one.a.dq};
        attn_view *keys[] = {&one.f.k, &one.f.v, &one.a.dk, &one.a.dv};
        gradients part = all;

        one.f.dropout_batch = i;
        for (size_t n = 0; n < sizeof rows / sizeof *rows; n++)
            *rows[n] = view_rows(rows[n], q, nq);
        for (size_t n = 0; n < sizeof keys / sizeof *keys; n++)
            *keys[n] = view_rows(keys[n], k, nk);
        one.a.dq = view_plain(&problem_mem, ATTN_F32, 1, p.h, nq, p.d);
        one.a.dk = view_plain(&problem_mem, ATTN_F32, 1, p.hk, nk, p.d);
        one.a.dv = view_plain(&problem_mem, ATTN_F32, 1, p.hk, nk, p.dv);
        part.of[DQ] = view_rows(&all.of[DQ], q, nq);
        part.of[DK] = view_rows(&all.of[DK], k, nk);
        part.of[DV] = view_rows(&all.of[DV], k, nk);
        gradients got = gradient_backward(&one, &w);
        expect_same_gradients(&got, &part, "segment");
    }
    arena_reset(&problem_mem);
}

int main(int argc, char **argv)
{
    static const test_case tests[] = {
        {"threads change nothing", threads_change_nothing, 1},
        {"threads share one sequence", threads_share_one_sequence, 1},
        {"workers of the caller change nothing", workers_of_the_caller_change_nothing, 1},
        {"batch mates change nothing", batch_mates_change_nothing, 1},
        {"strides change nothing", strides_change_nothing, 1},
        {"workspace changes nothing", workspace_changes_nothing, 1},
        {"gradients do not change each other", gradients_do_not_change_each_other, 1},
        {"a hundred repeats", a_hundred_repeats, 1},
        {"rounding mode changes nothing", rounding_mode_changes_nothing, 1},
        {"packed equals one call a segment", packed_equals_one_call_a_segment, 1},
    };

    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
