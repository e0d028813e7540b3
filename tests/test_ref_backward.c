/* test_ref_backward.c: the reference gradients, before anything is held to them: they must be what
 * can be worked out by hand and what finite differences of the reference's forward pass say, for
 * every option and every pair; double must agree with long double; the comparison must see damage;
 * and the bounds must let plain f32 arithmetic pass, well clear of the tripwire. */
#include "tests/trial_backward.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* --- By hand -------------------------------------------------------------------------------- */

static void check_value(const char *what, double got, double want)
{
    if (!(fabs(got - want) <= 1e-6 * (1 + fabs(want))))
        fail_msg("%s is %.9g, expected %.9g", what, got, want);
}

/* Two keys with P = 1/4, 3/4 and O = 7.75; then the same with half the weight in a sink. */
static void gradients_by_hand(void **state)
{
    float q = 1, k[2] = {0, logf(3)}, v[2] = {1, 10}, dout = 1, dlse = 2, sink = logf(4);
    float bias[2] = {0, 0}, none = 0;
    attn_forward_args f = ATTN_FORWARD_ARGS_INIT;
    attn_backward_args a = ATTN_BACKWARD_ARGS_INIT;
    ref_options options = {0};
    ref_gradients r;

    (void)state;
    f.q = attn_view_bhsd(&q, ATTN_F32, 1, 1, 1, 1);
    f.k = attn_view_bhsd(k, ATTN_F32, 1, 1, 2, 1);
    f.v = attn_view_bhsd(v, ATTN_F32, 1, 1, 2, 1);
    a.forward = &f;
    a.dout = attn_view_bhsd(&dout, ATTN_F32, 1, 1, 1, 1);
    a.dbias = attn_view_bhsd(bias, ATTN_F32, 1, 1, 1, 2);
    ref_backward(&a, &options, &r);
    check_value("delta", r.delta.want[0], 7.75);
    check_value("dbias 0", r.dbias.want[0], -1.6875);
    check_value("dbias 1", r.dbias.want[1], 1.6875);
    check_value("dq", r.dq.want[0], 1.6875 * log(3));
    check_value("dk 0", r.dk.want[0], -1.6875);
    check_value("dv 1", r.dv.want[1], 0.75);
    ref_gradients_free(&r);

    f.sink = attn_view_bhsd(&sink, ATTN_F32, 1, 1, 1, 1); /* P = 1/8, 3/8, O = 3.875 */
    a.dlse = attn_view_bhsd(&dlse, ATTN_F32, 1, 1, 1, 1);
    a.dsink = attn_view_bhsd(&none, ATTN_F32, 1, 1, 1, 1);
    ref_backward(&a, &options, &r);
    check_value("dsink", r.dsink.want[0], 0.5 * (2 - 3.875));
    check_value("dbias 0", r.dbias.want[0], (1 - 3.875 + 2) / 8);
    check_value("dbias 1", r.dbias.want[1], 3 * (10 - 3.875 + 2) / 8);
    ref_gradients_free(&r);
}

/* --- Finite differences --------------------------------------------------------------------- */

#define STEP 0x1p-12

/* Past q_count LSE is not a result, though it holds the sink. */
static int row_exists(const trial *t, int64_t b, int64_t i)
{
    const attn_mask *m = &t->mask;
    int64_t s = b, first = 0;

    if (m->segments > 0) {
        for (s = 0; i >= m->q_starts[s + 1]; s++)
            ;
        first = m->q_starts[s];
    }
    return !m->q_count || i - first < m->q_count[s];
}

/* The loss whose gradients are asked for: sum of dout * O + dlse * LSE. */
static long double loss(const backward_trial *x, const attn_forward_args *call)
{
    long double sum = 0;
    ref r;

    ref_forward_with(call, &x->t.how, &r);
    for (int64_t row = 0; row < r.batch * r.heads * r.tq; row++) {
        int64_t i = row % r.tq, h = row / r.tq % r.heads, b = row / r.tq / r.heads;

        for (int64_t c = 0; c < r.dv && r.allowed[row] > 0; c++)
            sum += (long double)view_get(&x->args.dout, b, h, i, c) *
                   (long double)r.out[row * r.dv + c];
        if (x->args.dlse.data && isfinite(r.lse[row]) && row_exists(&x->t, b, i))
            sum += (long double)view_get(&x->args.dlse, b, h, i, 0) * (long double)r.lse[row];
    }
    ref_free(&r);
    return sum;
}

/* An input of the call, and its gradient; they differ in shape if a bias broadcasts. */
typedef struct input {
    const char *name;
    const attn_view *view;
    const ref_array *gradient;
    double step;
} input;

/* Address of element e, and which cell of the gradient it belongs to. */
static void *element(const input *in, int64_t e, int64_t *cell)
{
    const int64_t *n = in->view->size, *m = in->gradient->size;
    const int64_t at[4] = {e / n[3] / n[2] / n[1], e / n[3] / n[2] % n[1], e / n[3] % n[2],
                           e % n[3]};

    *cell = 0;
    for (int d = 0; d < 4; d++)
        *cell = *cell * m[d] + (m[d] > 1 ? at[d] : 0);
    return ref_at(in->view, at[0], at[1], at[2], at[3]);
}

static int64_t cells_of(const ref_array *a)
{
    return a->size[0] * a->size[1] * a->size[2] * a->size[3];
}

/* Loss with the input moved by `by` along the direction, given for each cell of the gradient. */
static long double loss_at(backward_trial *x, const attn_forward_args *call, const input *in,
                           const double *direction, double by)
{
    int64_t n = view_count(in->view), cell;
    double *was = arena_get(&x->t.memory, (size_t)n * sizeof *was);
    long double result;

    for (int64_t e = 0; e < n; e++) {
        was[e] = ref_load(element(in, e, &cell), ATTN_F64);
        ref_store(element(in, e, &cell), ATTN_F64, was[e] + by * direction[cell]);
    }
    result = loss(x, call);
    for (int64_t e = 0; e < n; e++)
        ref_store(element(in, e, &cell), ATTN_F64, was[e]);
    return result;
}

/* Central differences at two steps, so that the error is of the fourth order. */
static double difference(backward_trial *x, const attn_forward_args *call, const input *in,
                         const double *direction)
{
    long double d[2];

    for (int i = 0; i < 2; i++) {
        double h = in->step * (i + 1);

        d[i] = (loss_at(x, call, in, direction, h) - loss_at(x, call, in, direction, -h)) /
               (2 * (long double)h);
    }
    return (double)((4 * d[0] - d[1]) / 3);
}

static double worst_difference;

static void check_direction(backward_trial *x, const attn_forward_args *call, const input *in,
                            const double *direction)
{
    double sum = 0, size = 1e-3, got, error;

    for (int64_t e = 0; e < cells_of(in->gradient); e++) {
        double term = in->gradient->want[e] * direction[e];

        sum += term;
        size += fabs(term);
    }
    got = difference(x, call, in, direction);
    error = fabs(got - sum) / size;
    worst_difference = fmax(worst_difference, error);
    if (!(error < 1e-6)) {
        char text[600];

        backward_describe(x, text, sizeof text);
        fail_msg("%s: difference %.12g, gradient %.12g: %s", in->name, got, sum, text);
    }
}

/* A random direction, and a single cell. */
static void check_input(backward_trial *x, const attn_forward_args *call, const input *in)
{
    int64_t n = in->gradient->want ? cells_of(in->gradient) : 0;
    double *direction = arena_get(&x->t.memory, (size_t)n * sizeof *direction);

    if (n == 0)
        return;
    for (int64_t e = 0; e < n; e++)
        direction[e] = rng_range(&x->t.random, -1, 1);
    check_direction(x, call, in, direction);
    memset(direction, 0, (size_t)n * sizeof *direction);
    direction[rng_int(&x->t.random, 0, n - 1)] = 1;
    check_direction(x, call, in, direction);
}

/* The call's bias, or zeros, at full size: a bias of any shape may be added to it. */
static attn_view whole_bias(backward_trial *x)
{
    trial *t = &x->t;
    const attn_view *bias = &t->mask.bias;
    attn_view v = view_plain(&t->memory, ATTN_F64, t->sequences, t->h, t->longest_q, t->longest_k);

    for (int64_t b = 0; b < t->sequences; b++)
        for (int64_t h = 0; h < t->h; h++)
            for (int64_t i = 0; i < t->longest_q; i++)
                for (int64_t j = 0; j < t->longest_k; j++)
                    view_set(&v, b, h, i, j, bias->data ? view_get(bias, b, h, i, j) : 0);
    return v;
}

static void check_gradients(backward_trial *x)
{
    attn_forward_args call = x->forward;
    attn_mask mask = x->t.mask;
    attn_view bias = whole_bias(x);
    int64_t far = 1 + (x->t.top_q > x->t.top_k ? x->t.top_q : x->t.top_k);
    const input inputs[] = {
        {"dq", &call.q, &x->want.dq, STEP},
        {"dk", &call.k, &x->want.dk, STEP},
        {"dv", &call.v, &x->want.dv, STEP},
        {"dbias", &bias, &x->want.dbias, STEP},
        {"dsink", &call.sink, &x->want.dsink, STEP},
        {"dalibi", &mask.alibi, &x->want.dalibi, STEP / (double)far},
    };

    call.mask = &mask;
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) {
        mask.bias = inputs[i].view == &bias ? bias : x->t.mask.bias;
        check_input(x, &call, &inputs[i]);
    }
}

static int64_t work_of(const trial *t)
{
    return t->b * t->h * t->tq * t->tk * (t->d + t->dv);
}

/* A bias of -DBL_MAX swallows the logit it is added to, in every arithmetic: no differences. */
static int bias_swallows(const trial *t)
{
    const attn_view *v = &t->mask.bias;
    const ref_array shape = {{v->size[0], v->size[1], v->size[2], v->size[3]}, NULL, NULL};
    const input in = {"", v, &shape, 0};
    int64_t cell;

    for (int64_t e = 0; v->data && e < view_count(v); e++) {
        double value = ref_load(element(&in, e, &cell), ATTN_F64);

        if (isfinite(value) && value < -1e300)
            return 1;
    }
    return 0;
}

/* Not for differences: repeats of one element by stride 0, and what the reference does not know. */
enum { NOT_HERE = OPT_TYPES | OPT_LAYOUTS | OPT_GUARDS | OPT_WORKSPACE | OPT_LONG, WORK = 12000 };

/* Returns 0 if these options exclude each other. */
static int check_options(uint32_t options, uint32_t extras, uint64_t index)
{
    options = (options & ~(uint32_t)NOT_HERE) | OPT_F64;
    for (uint64_t i = index * 1000;; i++) {
        backward_trial x;
        int held;

        backward_make(&x, test_seed(), i, options, extras, GEN_BELL);
        held = x.t.options == options;
        if (held && (work_of(&x.t) > WORK || bias_swallows(&x.t))) {
            backward_free(&x);
            continue;
        }
        if (held)
            check_gradients(&x);
        backward_free(&x);
        return held;
    }
}

/* Bits of the options of both kinds in one list. */
static void add_option(int n, uint32_t *options, uint32_t *extras)
{
    if (n < OPTION_COUNT)
        *options |= UINT32_C(1) << n & BACKWARD_OPTIONS;
    else
        *extras |= UINT32_C(1) << (n - OPTION_COUNT);
}

static void differences_of_single_options(void **state)
{
    (void)state;
    for (int a = 0; a < OPTION_COUNT + EXTRA_COUNT; a++)
        for (uint64_t i = 0; i < 4; i++) {
            uint32_t options = 0, extras = EXTRA_DBIAS;

            add_option(a, &options, &extras);
            assert_true(check_options(options, extras, (uint64_t)a * 4 + i));
        }
    print_message("worst relative difference %.3g\n", worst_difference);
}

static void differences_of_pairs(void **state)
{
    int excluded = 0;

    (void)state;
    for (int a = 0; a < OPTION_COUNT + EXTRA_COUNT; a++)
        for (int b = a + 1; b < OPTION_COUNT + EXTRA_COUNT; b++) {
            uint32_t options = 0, extras = EXTRA_DBIAS;

            add_option(a, &options, &extras);
            add_option(b, &options, &extras);
            if (options & NOT_HERE)
                continue;
            excluded += !check_options(options, extras, 1000 + (uint64_t)(a * 100 + b));
        }
    print_message("worst relative difference %.3g\n", worst_difference);
    assert_int_equal(excluded, 0);
}

static void differences_of_many(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 150; i++) {
        rng r = rng_make(test_seed(), i);
        uint32_t options = (uint32_t)rng_next(&r) & (uint32_t)rng_next(&r) & BACKWARD_OPTIONS;

        check_options(options, (uint32_t)rng_next(&r) | EXTRA_DBIAS, 100000 + i);
    }
    print_message("worst relative difference %.3g\n", worst_difference);
}

/* --- Comparison ----------------------------------------------------------------------------- */

typedef struct output {
    const attn_view *view;
    const ref_array *ref;
} output;

enum { OUTPUTS = 6 };

static void outputs_of(const backward_trial *x, const ref_gradients *r, output out[OUTPUTS])
{
    const output all[OUTPUTS] = {
        {&x->args.dq, &r->dq},       {&x->args.dk, &r->dk},       {&x->args.dv, &r->dv},
        {&x->args.dbias, &r->dbias}, {&x->args.dsink, &r->dsink}, {&x->args.dalibi, &r->dalibi},
    };

    memcpy(out, all, sizeof all);
}

/* Writes what a reference says into the call's outputs. */
static void write_reference(const backward_trial *x, const ref_gradients *r)
{
    output out[OUTPUTS];

    outputs_of(x, r, out);
    for (int o = 0; o < OUTPUTS; o++) {
        const input in = {"", out[o].view, out[o].ref, 0};
        int64_t cell;

        for (int64_t e = 0; in.view->data && e < view_count(in.view); e++) {
            void *to = element(&in, e, &cell);

            ref_store(to, in.view->type, out[o].ref->want[e]);
        }
    }
}

static void reference_accepts_itself(void **state)
{
    (void)state;
    for (uint64_t index = 0; index < 400; index++) {
        char why[300];
        backward_trial x;

        backward_draw(&x, test_seed(), index);
        write_reference(&x, &x.want);
        if (ref_compare_gradients(&x.args, NULL, &x.want, NULL, why, sizeof why) != 0)
            fail_msg("trial %d: %s", (int)index, why);
        backward_free(&x);
    }
}

/* Damages one element and puts it back. Returns 1 if the comparison saw it. */
static int damage_seen(const backward_trial *x, const input *in, int64_t e, double damaged)
{
    int64_t cell;
    void *at = element(in, e, &cell);
    double was = ref_load(at, in->view->type);
    int seen;

    ref_store(at, in->view->type, damaged);
    seen = ref_compare_gradients(&x->args, NULL, &x->want, NULL, NULL, 0) == 1;
    ref_store(at, in->view->type, was);
    return seen;
}

/* Returns 1 if there was an element to damage. */
static int damage_one(const backward_trial *x, rng *r, const output *out)
{
    const input in = {"", out->view, out->ref, 0};
    double want, bound, step;
    int64_t e;

    if (!out->view->data || view_count(out->view) == 0)
        return 0;
    e = rng_int(r, 0, view_count(out->view) - 1);
    want = out->ref->want[e];
    bound = out->ref->bound[e];
    if (isnan(bound))
        return 0;
    if (!isfinite(want)) {
        assert_true(damage_seen(x, &in, e, 0));
        return 1;
    }
    assert_true(damage_seen(x, &in, e, (double)NAN));
    if (bound == 0)
        assert_true(damage_seen(x, &in, e, -0.0));
    step = fmax(4 * bound, fabs(want) * 0x1p-6) + 0x1p-20;
    if (fabs(want) < 30000 && step < 30000) /* f16 holds it */
        assert_true(damage_seen(x, &in, e, want + step));
    return 1;
}

static void comparison_sees_damage(void **state)
{
    int tried = 0;

    (void)state;
    for (uint64_t index = 0; index < 400; index++) {
        rng r = rng_make(test_seed() + 1, index);
        backward_trial x;
        output out[OUTPUTS];

        backward_draw(&x, test_seed(), index);
        write_reference(&x, &x.want);
        outputs_of(&x, &x.want, out);
        for (int o = 0; o < OUTPUTS; o++)
            tried += damage_one(&x, &r, &out[o]);
        backward_free(&x);
    }
    assert_true(tried > 800);
}

/* --- Arithmetic ----------------------------------------------------------------------------- */

/* Largest |a - b| / bound. */
static double apart(const ref_array *a, const ref_array *b)
{
    double worst = 0;

    for (int64_t e = 0; a->want && e < cells_of(a); e++) {
        double bound = a->bound[e];

        if (isfinite(bound) && bound > 0)
            worst = fmax(worst, fabs(a->want[e] - b->want[e]) / bound);
        else if (!isnan(bound))
            assert_int_equal(isnan(a->want[e]), isnan(b->want[e]));
    }
    return worst;
}

/* In units of an f32 bound double must be as good as exact. */
static void double_agrees_with_long_double(void **state)
{
    (void)state;
    for (uint64_t index = 0; index < 200; index++) {
        backward_trial x;
        ref_options wide;
        ref_gradients r;

        backward_draw(&x, test_seed(), index);
        wide = x.t.how;
        wide.wide = 1;
        ref_backward(&x.args, &wide, &r);
        assert_true(apart(&x.want.dq, &r.dq) < 1e-4);
        assert_true(apart(&x.want.dk, &r.dk) < 1e-4);
        assert_true(apart(&x.want.dv, &r.dv) < 1e-4);
        assert_true(apart(&x.want.dbias, &r.dbias) < 1e-4);
        assert_true(apart(&x.want.dsink, &r.dsink) < 1e-4);
        assert_true(apart(&x.want.dalibi, &r.dalibi) < 1e-4);
        ref_gradients_free(&r);
        backward_free(&x);
    }
}

/* The reference's own formulas in float, with the C library's functions. Sums of dsink and dalibi,
 * which kernels form in double, are left out. */
static void bounds_fit_plain_f32(void **state)
{
    ref_worst_gradients worst[GEN_COUNT] = {{0}};
    int failures = 0;

    (void)state;
    for (uint64_t index = 0; index < 1500; index++) {
        backward_trial x;
        ref_options narrow;
        ref_gradients r;
        char why[300], text[600];

        backward_draw(&x, test_seed(), index);
        narrow = x.t.how;
        narrow.narrow = 1;
        memset(&x.args.dsink, 0, sizeof x.args.dsink);
        memset(&x.args.dalibi, 0, sizeof x.args.dalibi);
        ref_backward(&x.args, &narrow, &r);
        write_reference(&x, &r);
        if (!(x.t.options & OPT_F64) &&
            ref_compare_gradients(&x.args, NULL, &x.want, &worst[x.t.gen], why, sizeof why) > 0) {
            backward_describe(&x, text, sizeof text);
            print_error("trial %d: %s: %s\n", (int)index, why, text);
            failures++;
        }
        ref_gradients_free(&r);
        backward_free(&x);
    }
    for (int g = 0; g < GEN_COUNT; g++)
        print_message("%-16s worst ratio: dq %.3f dk %.3f dv %.3f dbias %.3f\n",
                      generator_name((generator)g), worst[g].dq, worst[g].dk, worst[g].dv,
                      worst[g].dbias);
    assert_int_equal(failures, 0);
    for (int g = 0; g < GEN_COUNT; g++)
        assert_true(ref_worst_gradient(&worst[g]) < 0.5);
}

int main(int argc, char **argv)
{
    static const test_case tests[] = {
        {"gradients by hand", gradients_by_hand, 0},
        {"differences of single options", differences_of_single_options, 0},
        {"differences of pairs of options", differences_of_pairs, 0},
        {"differences of many options", differences_of_many, 0},
        {"reference accepts itself", reference_accepts_itself, 0},
        {"comparison sees damage", comparison_sees_damage, 0},
        {"double agrees with long double", double_agrees_with_long_double, 0},
        {"bounds fit plain f32", bounds_fit_plain_f32, 0},
    };

    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
