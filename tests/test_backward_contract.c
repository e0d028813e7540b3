/* test_backward_contract.c: the complaints about other libraries that concern gradients
 * (test_contract.c has the forward ones): row_NN is row NN of their table, in one small scene. */
#include "tests/gradient.h"

#include <math.h>
#include <string.h>

/* --- A call of any shape -------------------------------------------------------------------- */

typedef struct call {
    const attn_ctx *ctx;
    attn_forward_args f;
    attn_mask m;
    attn_backward_args a;
} call;

/* Shape is B, H, Hk, Tq, Tk, D, Dv; every gradient but those of options. *c must stay where it is.
 */
static void start(call *c, void **state, attn_type type, const int64_t n[7])
{
    attn_type wide = type == ATTN_F64 ? ATTN_F64 : ATTN_F32;
    rng r = rng_make(test_seed(), (uint64_t)(n[3] * 1000 + n[4]));

    *c = (call){.f = ATTN_FORWARD_ARGS_INIT, .m = ATTN_MASK_INIT, .a = ATTN_BACKWARD_ARGS_INIT};
    c->ctx = ctx_for(test_set(state), 2);
    c->f.q = problem_input(&r, type, n[0], n[1], n[3], n[5]);
    c->f.k = problem_input(&r, type, n[0], n[2], n[4], n[5]);
    c->f.v = problem_input(&r, type, n[0], n[2], n[4], n[6]);
    c->f.out = view_plain(&problem_mem, wide, n[0], n[1], n[3], n[6]);
    c->f.lse = view_plain(&problem_mem, wide, n[0], n[1], n[3], 1);
    c->f.mask = &c->m;
    c->a.forward = &c->f;
    c->a.dout = problem_input(&r, type, n[0], n[1], n[3], n[6]);
    c->a.dq = view_plain(&problem_mem, type, n[0], n[1], n[3], n[5]);
    c->a.dk = view_plain(&problem_mem, type, n[0], n[2], n[4], n[5]);
    c->a.dv = view_plain(&problem_mem, type, n[0], n[2], n[4], n[6]);
}
#define START(c, state, type, ...) start(c, state, type, (const int64_t[7]){__VA_ARGS__})

static void run(call *c)
{
    attn_error err = {ATTN_OK, 0, ""};

    CHECK_MSG(attn_forward(c->ctx, &c->f, &err) == ATTN_OK, "%s", err.text);
    CHECK_MSG(attn_backward(c->ctx, &c->a, &err) == ATTN_OK, "%s", err.text);
}

static void run_within_bounds(call *c, const char *what)
{
    gradient_call g;

    run(c);
    g.f = c->f;
    g.a = c->a;
    g.a.forward = &g.f;
    expect_within_bounds(&g, what);
}

static attn_view copy(const attn_view *v)
{
    rng r = rng_make(1, 1);

    return view_copy(&problem_mem, &r, v, v->type, LAYOUT_BHSD);
}

static int all_finite(const attn_view *v)
{
    for (int64_t e = 0; e < view_count(v); e++)
        if (!isfinite(((float *)v->data)[e]))
            return 0;
    return 1;
}

/* --- Rows ----------------------------------------------------------------------------------- */

static void row_01_masked_rows_poison_no_gradient(void **state)
{
    call c;

    START(&c, state, ATTN_F32, 1, 2, 1, 6, 40, 8, 8);
    c.m.keep = view_plain(&problem_mem, ATTN_U8, 1, 1, 6, 40);
    view_fill(&c.m.keep, 0);
    for (int64_t j = 0; j < 40; j++)
        view_set(&c.m.keep, 0, 0, 3, j, 1); /* row 3 alone attends anything */
    c.a.dbias = view_plain(&problem_mem, ATTN_F32, 1, 2, 6, 40);
    run_within_bounds(&c, "masked rows");
    CHECK(all_finite(&c.a.dq) && all_finite(&c.a.dk) && all_finite(&c.a.dv));
    CHECK(all_finite(&c.a.dbias));
    arena_reset(&problem_mem);
}

static void row_03_masked_garbage_reaches_no_gradient(void **state)
{
    gradients got[2];
    call c;

    for (int garbage = 0; garbage < 2; garbage++) {
        START(&c, state, ATTN_F32, 1, 2, 1, 9, 70, 8, 8);
        c.m.keep = view_plain(&problem_mem, ATTN_U8, 1, 1, 1, 70);
        for (int64_t j = 0; j < 70; j++)
            view_set(&c.m.keep, 0, 0, 0, j, j % 3 != 0);
        for (int64_t j = 0; j < 70; j += 3)
            for (int64_t e = 0; e < 8; e++) {
                view_set(&c.f.k, 0, 0, j, e, garbage ? (double)NAN : 0);
                view_set(&c.f.v, 0, 0, j, e, garbage ? HUGE_VAL : 0);
            }
        run(&c);
        got[garbage] = (gradients){{c.a.dq, c.a.dk, c.a.dv}};
    }
    expect_same_gradients(&got[1], &got[0], "garbage behind the mask");
    arena_reset(&problem_mem);
}

static void row_14_a_hundred_runs_give_the_same_bits(void **state)
{
    gradients first, again;
    call c;

    START(&c, state, ATTN_F32, 1, 4, 2, 60, 600, 16, 16);
    c.a.dbias = view_plain(&problem_mem, ATTN_F32, 1, 1, 60, 600);
    c.ctx = ctx_for(test_set(state), 7);
    run(&c);
    first = (gradients){{copy(&c.a.dq), copy(&c.a.dk), copy(&c.a.dv), copy(&c.a.dbias)}};
    for (int n = 0; n < 100; n++) {
        CHECK(attn_backward(c.ctx, &c.a, NULL) == ATTN_OK);
        again = (gradients){{c.a.dq, c.a.dk, c.a.dv, c.a.dbias}};
        expect_same_gradients(&again, &first, "repeat");
    }
    arena_reset(&problem_mem);
}

static void row_15_threads_change_no_gradient(void **state)
{
    static const int widths[] = {1, 2, 3, 7, 16};
    gradients first = {0}, again;
    call c;

    START(&c, state, ATTN_F32, 1, 1, 1, 200, 1500, 32, 32); /* one head is shared too */
    c.a.dbias = view_plain(&problem_mem, ATTN_F32, 1, 1, 1, 1500);
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        c.ctx = ctx_for(test_set(state), widths[i]);
        run(&c);
        again = (gradients){{c.a.dq, c.a.dk, c.a.dv, c.a.dbias}};
        if (i == 0)
            first = (gradients){{copy(&c.a.dq), copy(&c.a.dk), copy(&c.a.dv), copy(&c.a.dbias)}};
        expect_same_gradients(&again, &first, "threads");
    }
    arena_reset(&problem_mem);
}

/* Grouped heads and the same keys repeated: equal bits of dq, and dk, dv are sums of the heads'. */
static void row_23_grouped_heads_equal_repeated_ones(void **state)
{
    enum { H = 4, HK = 2, TK = 90, D = 12 };
    attn_view dq, k, v, dk;
    call c;

    START(&c, state, ATTN_F32, 1, H, HK, 20, TK, D, D);
    run_within_bounds(&c, "groups");
    dq = copy(&c.a.dq);
    dk = copy(&c.a.dk);
    k = c.f.k;
    v = c.f.v;
    c.f.k = view_plain(&problem_mem, ATTN_F32, 1, H, TK, D);
    c.f.v = view_plain(&problem_mem, ATTN_F32, 1, H, TK, D);
    for (int64_t h = 0; h < H; h++)
        for (int64_t j = 0; j < TK; j++)
            for (int64_t e = 0; e < D; e++) {
                view_set(&c.f.k, 0, h, j, e, view_get(&k, 0, h / 2, j, e));
                view_set(&c.f.v, 0, h, j, e, view_get(&v, 0, h / 2, j, e));
            }
    c.a.dk = view_plain(&problem_mem, ATTN_F32, 1, H, TK, D);
    c.a.dv = view_plain(&problem_mem, ATTN_F32, 1, H, TK, D);
    run_within_bounds(&c, "repeated heads");
    expect_same(&c.a.dq, &dq, "repeated heads");
    for (int64_t h = 0; h < HK; h++)
        for (int64_t j = 0; j < TK; j++) {
            double sum = view_get(&c.a.dk, 0, 2 * h, j, 0) + view_get(&c.a.dk, 0, 2 * h + 1, j, 0);

            CHECK(fabs(sum - view_get(&dk, 0, h, j, 0)) < 1e-5);
        }
    arena_reset(&problem_mem);
}

static double loss(const call *c)
{
    double sum = 0;

    CHECK(attn_forward(c->ctx, &c->f, NULL) == ATTN_OK);
    for (int64_t e = 0; e < view_count(&c->f.out); e++)
        sum += ((double *)c->f.out.data)[e] * ((double *)c->a.dout.data)[e];
    return sum;
}

/* The gradient of one element against a difference of the library's own forward, in f64. */
static void check_element(const call *c, double *element, double gradient, const char *what)
{
    double was = *element, step = 0x1p-12, d;

    *element = was + step;
    d = loss(c);
    *element = was - step;
    d = (d - loss(c)) / (2 * step);
    *element = was;
    CHECK_MSG(fabs(d - gradient) <= 1e-6 * (1 + fabs(d)), "%s: difference %.10g, gradient %.10g",
              what, d, gradient);
}

/* Both differentiable, the cap before the mask: poison behind it. */
static void row_24_softcap_and_sinks_have_gradients(void **state)
{
    call c;

    START(&c, state, ATTN_F64, 1, 2, 1, 5, 12, 6, 6);
    c.f.softcap = 1.5;
    c.f.sink = view_plain(&problem_mem, ATTN_F64, 1, 2, 1, 1);
    view_fill(&c.f.sink, 0.5);
    c.a.dsink = view_plain(&problem_mem, ATTN_F64, 1, 2, 1, 1);
    c.m.keep = view_plain(&problem_mem, ATTN_U8, 1, 1, 1, 12);
    for (int64_t j = 0; j < 12; j++)
        view_set(&c.m.keep, 0, 0, 0, j, j != 5);
    for (int64_t e = 0; e < 6; e++)
        view_set(&c.f.k, 0, 0, 5, e, (double)NAN);
    run_within_bounds(&c, "softcap and sinks");
    for (int h = 0; h < 2; h++)
        check_element(&c, (double *)c.f.sink.data + h, ((double *)c.a.dsink.data)[h], "dsink");
    for (int e = 0; e < 60; e += 7)
        check_element(&c, (double *)c.f.q.data + e, ((double *)c.a.dq.data)[e], "dq");
    for (int e = 0; e < 30; e += 7)
        check_element(&c, (double *)c.f.k.data + e, ((double *)c.a.dk.data)[e], "dk");
    arena_reset(&problem_mem);
}

/* Of all 16 shapes that broadcast, with that bias in the call, against differences. */
static void row_25_bias_of_any_shape_has_a_gradient(void **state)
{
    const int64_t full[4] = {2, 2, 5, 9};

    for (int pattern = 0; pattern < 16; pattern++) {
        int64_t n[4];
        rng r = rng_make(test_seed(), 25);
        call c;

        for (int d = 0; d < 4; d++)
            n[d] = pattern >> d & 1 ? 1 : full[d];
        START(&c, state, ATTN_F64, 2, 2, 2, 5, 9, 6, 6);
        c.m.bias = problem_input(&r, ATTN_F64, n[0], n[1], n[2], n[3]);
        c.a.dbias = view_plain(&problem_mem, ATTN_F64, n[0], n[1], n[2], n[3]);
        run_within_bounds(&c, "bias");
        for (int64_t e = 0; e < view_count(&c.m.bias); e += 3)
            check_element(&c, (double *)c.m.bias.data + e, ((double *)c.a.dbias.data)[e], "dbias");
        arena_reset(&problem_mem);
    }
}

/* One query: dv of a key is zeros if and only if forward, which shows its weights where values are
 * the identity, dropped it; and that is the documented function of the coordinates. */
static void row_26_dropout_is_the_same_in_backward(void **state)
{
    enum { TK = 64 };
    int dropped = 0;
    call c;

    START(&c, state, ATTN_F32, 1, 1, 1, 1, TK, 8, TK);
    for (int64_t j = 0; j < TK; j++)
        for (int64_t e = 0; e < TK; e++)
            view_set(&c.f.v, 0, 0, j, e, j == e);
    c.m.q_offset = 11;
    c.m.k_offset = 3;
    c.f.dropout = 0.4;
    c.f.dropout_seed = 99;
    c.f.dropout_head = 5;
    run_within_bounds(&c, "dropout");
    for (int64_t j = 0; j < TK; j++) {
        int drop = ref_dropped(0.4, 99, 0, 5, 11, 3 + j);

        CHECK((view_get(&c.f.out, 0, 0, 0, j) == 0) == drop);
        CHECK((view_get(&c.a.dv, 0, 0, j, 0) == 0) == drop);
        dropped += drop;
    }
    CHECK(dropped > 10 && dropped < 40);
    arena_reset(&problem_mem);
}

static void row_29_gradients_of_any_width(void **state)
{
    static const int64_t widths[][2] = {{1, 1},     {3, 3},     {40, 40},   {72, 72},
                                        {80, 80},   {96, 96},   {192, 128}, {256, 256},
                                        {512, 512}, {576, 512}, {128, 1000}};

    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        call c;

        START(&c, state, ATTN_F32, 1, 2, 1, 13, 70, widths[i][0], widths[i][1]);
        c.m.causal = 1;
        c.m.q_offset = 57;
        run_within_bounds(&c, "width");
        arena_reset(&problem_mem);
    }
}

/* Every gradient of section "Backward", in every type of training. */
static void row_35_gradients_in_every_type(void **state)
{
    static const attn_type types[] = {ATTN_F32, ATTN_F16, ATTN_BF16, ATTN_F64};

    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        for (int options = 0; options < OPTION_SETS; options++) {
            const attn_ctx *ctx = ctx_for(test_set(state), 2);
            problem p = problem_make(ctx, types[i], options, 2, 40, 300);
            subject s = subject_make(&p);
            way w = {.ctx = ctx, .n = 2};
            gradient_call c;

            gradient_make(&c, &s, &w);
            gradient_forward(ctx, &c);
            gradient_backward(&c, &w);
            expect_within_bounds(&c, attn_type_name(types[i]));
            arena_reset(&problem_mem);
        }
}

int main(int argc, char **argv)
{
    static const test_case tests[] = {
        {"row_01_masked_rows_poison_no_gradient", row_01_masked_rows_poison_no_gradient, 1},
        {"row_03_masked_garbage_reaches_no_gradient", row_03_masked_garbage_reaches_no_gradient, 1},
        {"row_14_a_hundred_runs_give_the_same_bits", row_14_a_hundred_runs_give_the_same_bits, 1},
        {"row_15_threads_change_no_gradient", row_15_threads_change_no_gradient, 1},
        {"row_23_grouped_heads_equal_repeated_ones", row_23_grouped_heads_equal_repeated_ones, 1},
        {"row_24_softcap_and_sinks_have_gradients", row_24_softcap_and_sinks_have_gradients, 1},
        {"row_25_bias_of_any_shape_has_a_gradient", row_25_bias_of_any_shape_has_a_gradient, 1},
        {"row_26_dropout_is_the_same_in_backward", row_26_dropout_is_the_same_in_backward, 1},
        {"row_29_gradients_of_any_width", row_29_gradients_of_any_width, 1},
        {"row_35_gradients_in_every_type", row_35_gradients_in_every_type, 1},
    };

    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
