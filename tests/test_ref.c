/* test_ref.c: the reference and its bounds, before anything is held to them: the comparison must
 * fail on bad data, the formulas must give what can be worked out by hand, double must agree with
 * long double, and a bound must let plain f32 arithmetic pass and stop anything coarser. */
#include "tests/trial.h"

#include <float.h>
#include <math.h>
#include <string.h>

static const double nan_value = (double)NAN;

/* --- The comparison ------------------------------------------------------------------------- */

static void check_refuses_bad_values(void **state)
{
    static const double bad[] = {1.2, 0.8, HUGE_VAL, -HUGE_VAL, (double)NAN, -1, 0};
    double ratio = 0;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(ref_check(bad[i], 1, 0.1, 0, &ratio), 1);
    assert_int_equal(ref_check(1.05, 1, 0.1, 0, &ratio), 0);
    assert_int_equal(ref_check(0.95, 1, 0.1, 0, &ratio), 0);
    assert_int_equal(ref_check(1.15, 1, 0.1, 0.1, &ratio), 0);
    assert_int_equal(ref_check(1.25, 1, 0.1, 0.1, &ratio), 1);
}

static void check_compares_specials(void **state)
{
    double r = 0;

    (void)state;
    assert_int_equal(ref_check(nan_value, nan_value, 0, 0, &r), 0);
    assert_int_equal(ref_check(0, nan_value, 0, 0, &r), 1);
    assert_int_equal(ref_check(HUGE_VAL, nan_value, 0, 0, &r), 1);
    assert_int_equal(ref_check(HUGE_VAL, HUGE_VAL, 0, 0, &r), 0);
    assert_int_equal(ref_check(-HUGE_VAL, HUGE_VAL, 0, 0, &r), 1);
    assert_int_equal(ref_check(DBL_MAX, HUGE_VAL, 0, 0, &r), 1);
    assert_int_equal(ref_check(nan_value, HUGE_VAL, 0, 0, &r), 1);
    /* An infinite bound asks for any non-finite value, a NaN bound for nothing. */
    assert_int_equal(ref_check(nan_value, nan_value, HUGE_VAL, 0, &r), 0);
    assert_int_equal(ref_check(HUGE_VAL, nan_value, HUGE_VAL, 0, &r), 0);
    assert_int_equal(ref_check(1, nan_value, HUGE_VAL, 0, &r), 1);
    assert_int_equal(ref_check(1, 2, nan_value, 0, &r), 0);
    /* A bound of 0 asks for equality, the sign of zero too. */
    assert_int_equal(ref_check(0.0, 0.0, 0, 0, &r), 0);
    assert_int_equal(ref_check(-0.0, 0.0, 0, 0, &r), 1);
    assert_int_equal(ref_check(1e-300, 0.0, 0, 0, &r), 1);
    assert_int_equal(ref_check(-HUGE_VAL, -HUGE_VAL, 0, 0, &r), 0);
    assert_true(r == 0);
}

static void check_measures_the_ratio(void **state)
{
    double ratio = 0;

    (void)state;
    ref_check(1.05, 1, 0.1, 0, &ratio);
    assert_true(fabs(ratio - 0.5) < 1e-9);
    ref_check(1.01, 1, 0.1, 0, &ratio); /* only rises */
    assert_true(fabs(ratio - 0.5) < 1e-9);
    ref_check(1.3, 1, 0.1, 0.22, &ratio); /* rounding to the type does not count */
    assert_true(fabs(ratio - 0.8) < 1e-9);
}

/* --- Storage types -------------------------------------------------------------------------- */

static void half_types_round_trip(void **state)
{
    static const attn_type types[] = {ATTN_F16, ATTN_BF16};

    (void)state;
    for (int t = 0; t < 2; t++)
        for (unsigned bits = 0; bits < 65536; bits++) {
            uint16_t from = (uint16_t)bits, to;
            double value = ref_load(&from, types[t]);

            ref_store(&to, types[t], value);
            if (isnan(value))
                assert_true(isnan(ref_load(&to, types[t])));
            else
                assert_int_equal(from, to);
        }
}

static double stored(attn_type type, double value)
{
    double element = 0;

    ref_store(&element, type, value);
    return ref_load(&element, type);
}

static void half_types_round_to_nearest_even(void **state)
{
    (void)state;
    assert_true(stored(ATTN_F16, 1 + 0x1p-11) == 1);
    assert_true(stored(ATTN_F16, 1 + 0x1p-11 + 0x1p-40) == 1 + 0x1p-10);
    assert_true(stored(ATTN_F16, 1 + 3 * 0x1p-11) == 1 + 0x1p-9);
    assert_true(stored(ATTN_F16, 65519.99) == 65504);
    assert_true(stored(ATTN_F16, 65520) == HUGE_VAL);
    assert_true(stored(ATTN_F16, -0x1p-25) == 0);
    assert_true(stored(ATTN_F16, -0x1.8p-25) == -0x1p-24);
    assert_true(stored(ATTN_BF16, 1 + 0x1p-8) == 1);
    /* Just above a tie in double, on it in f32: rounding twice would go wrong. */
    assert_true(stored(ATTN_BF16, 1 + 0x1p-8 + 0x1p-40) == 1 + 0x1p-7);
    assert_true(stored(ATTN_BF16, (double)FLT_MAX) == HUGE_VAL);
    assert_true(stored(ATTN_BF16, 133120) == 133120);
    assert_true(stored(ATTN_BF16, 0x1p-133) == 0x1p-133);
}

/* --- Dropout -------------------------------------------------------------------------------- */

/* The vectors published with Random123 (kat_vectors, philox4x32 10). */
static void philox_known_answers(void **state)
{
    static const struct {
        uint32_t key[2], counter[4], want[4];
    } known[] = {
        {{0, 0}, {0, 0, 0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0xa4093822, 0x299f31d0},
         {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        uint32_t out[4];

        ref_philox(known[i].key, known[i].counter, out);
        assert_memory_equal(out, known[i].want, sizeof out);
    }
}

static void dropout_rate_and_coordinates(void **state)
{
    int dropped = 0, moved[4] = {0};

    (void)state;
    for (int64_t i = 0; i < 100; i++)
        for (int64_t j = 0; j < 100; j++) {
            int here = ref_dropped(0.25, 7, 1, 2, i, j);

            dropped += here;
            moved[0] += here != ref_dropped(0.25, 8, 1, 2, i, j);
            moved[1] += here != ref_dropped(0.25, 7, 2, 2, i, j);
            moved[2] += here != ref_dropped(0.25, 7, 1, 3, i, j);
            moved[3] += here != ref_dropped(0.25, 7, 1, 2, i - 1, j);
            assert_int_equal(ref_dropped(0, 7, 1, 2, i, j), 0);
        }
    assert_in_range(dropped, 2300, 2700); /* 2500 +- 4.6 sigma */
    for (int i = 0; i < 4; i++) /* independent patterns differ in 2 p (1 - p) = 0.375 of the cells
                                 */
        assert_in_range(moved[i], 3500, 4000);
}

/* --- Formulas worked out by hand ------------------------------------------------------------ */

enum { KEYS = 4 };

/* One head; keys of width 1 are their own logits since q is 1. Values are 1, 10, 100, 1000. */
typedef struct hand {
    float q[3], k[KEYS], v[KEYS];
    attn_mask mask;
    attn_forward_args args;
    ref r;
} hand;

static void hand_start(hand *x, int64_t queries)
{
    static const float values[KEYS] = {1, 10, 100, 1000};

    memset(x, 0, sizeof *x);
    x->mask.struct_size = sizeof x->mask;
    x->args.struct_size = sizeof x->args;
    for (int i = 0; i < 3; i++)
        x->q[i] = 1;
    memcpy(x->v, values, sizeof values);
    x->args.q = attn_view_bhsd(x->q, ATTN_F32, 1, 1, queries, 1);
    x->args.k = attn_view_bhsd(x->k, ATTN_F32, 1, 1, KEYS, 1);
    x->args.v = attn_view_bhsd(x->v, ATTN_F32, 1, 1, KEYS, 1);
    x->args.mask = &x->mask;
}

static void hand_expect(hand *x, int64_t row, double out, double lse)
{
    ref_forward(&x->args, &x->r);
    if (fabs(x->r.out[row] - out) > 1e-5 * (1 + fabs(out)))
        fail_msg("out %.9g, expected %.9g", x->r.out[row], out);
    if (lse != x->r.lse[row] && !(fabs(x->r.lse[row] - lse) < 1e-6))
        fail_msg("lse %.9g, expected %.9g", x->r.lse[row], lse);
    ref_free(&x->r);
}

static void softmax_by_hand(void **state)
{
    hand x;

    (void)state;
    hand_start(&x, 1);
    hand_expect(&x, 0, 1111 / 4.0, log(4));
    x.k[3] = logf(5);
    hand_expect(&x, 0, (111 + 5000) / 8.0, log(8));
    x.args.has_scale = 1;
    x.args.scale = -1;
    hand_expect(&x, 0, (111 + 200) / 3.2, log(3.2));
    x.args.scale = 0;
    hand_expect(&x, 0, 1111 / 4.0, log(4));
    x.args.scale = 1;
    x.args.softcap = 0.5; /* 0.5 tanh(ln 5) = 6 / 13 */
    x.k[3] = logf(5) / 2;
    hand_expect(&x, 0, (111 + 1000 * exp(6 / 13.0)) / (3 + exp(6 / 13.0)), log(3 + exp(6 / 13.0)));
}

static void positions_by_hand(void **state)
{
    int64_t k_start = 1, k_count = 2, q_count = 1;
    hand x;

    (void)state;
    hand_start(&x, 3);
    x.mask.causal = 1;
    hand_expect(&x, 0, 1, 0);
    hand_expect(&x, 2, 111 / 3.0, log(3));
    x.mask.q_offset = -1;
    hand_expect(&x, 0, 0, -HUGE_VAL);
    hand_expect(&x, 2, 5.5, log(2));
    x.mask.causal = 0;
    x.mask.q_offset = 0;
    x.mask.window = 1;
    x.mask.window_left = 0;
    x.mask.window_right = 1;
    hand_expect(&x, 2, 550, log(2));
    x.mask.window_right = -1;
    hand_expect(&x, 1, 1110 / 3.0, log(3));
    x.mask.window = 0;
    x.mask.causal = 1; /* keys 1 and 2 exist and stand at positions 0 and 1 */
    x.mask.k_start = &k_start;
    x.mask.k_count = &k_count;
    hand_expect(&x, 0, 10, 0);
    hand_expect(&x, 2, 55, log(2));
    x.mask.q_count = &q_count;
    hand_expect(&x, 2, 0, -HUGE_VAL);
    x.mask.q_count = NULL;
    x.mask.k_offset = 2;
    hand_expect(&x, 1, 0, -HUGE_VAL);
    hand_expect(&x, 2, 10, 0);
}

static void masks_by_hand(void **state)
{
    unsigned char keep[KEYS] = {1, 0, 1, 255};
    float bias[KEYS] = {0, 0, -INFINITY, logf(3)}, slope = logf(2), sink = logf(6);
    const int64_t start[] = {0, 1}, index[] = {1};
    hand x;

    (void)state;
    hand_start(&x, 1);
    x.mask.keep = attn_view_bhsd(keep, ATTN_U8, 1, 1, 1, KEYS);
    hand_expect(&x, 0, 1101 / 3.0, log(3));
    x.mask.bias = attn_view_bhsd(bias, ATTN_F32, 1, 1, 1, KEYS);
    hand_expect(&x, 0, 3001 / 4.0, log(4));
    x.args.sink = attn_view_bhsd(&sink, ATTN_F32, 1, 1, 1, 1);
    hand_expect(&x, 0, 3001 / 10.0, log(10));
    memset(&x.mask.keep, 0, sizeof x.mask.keep);
    memset(&x.mask.bias, 0, sizeof x.mask.bias);
    x.mask.alibi = attn_view_bhsd(&slope, ATTN_F32, 1, 1, 1, 1);
    x.mask.q_offset = 1; /* distances 1, 0, 1, 2 */
    hand_expect(&x, 0, (0.5 + 10 + 50 + 250) / 8.25, log(8.25));
    memset(&x.mask.alibi, 0, sizeof x.mask.alibi);
    x.mask.blocks = (attn_block_list){64, 64, 1, 2, start, 0, 0, index, 1};
    hand_expect(&x, 0, 0, log(6)); /* the keys are in block 0 */
    x.mask.k_offset = 62;
    hand_expect(&x, 0, 1100 / 8.0, log(8));
}

static void special_rows_by_hand(void **state)
{
    hand x;

    (void)state;
    hand_start(&x, 1);
    x.v[2] = INFINITY;
    ref_forward(&x.args, &x.r);
    assert_true(x.r.out[0] == HUGE_VAL && x.r.bound_out[0] == 0 && x.r.lse[0] == log(4));
    ref_free(&x.r);
    x.k[2] = -300; /* a weight that is zero in f32: infinity or NaN, but not a number */
    ref_forward(&x.args, &x.r);
    assert_true(isnan(x.r.out[0]) && x.r.bound_out[0] == HUGE_VAL);
    ref_free(&x.r);
    x.k[1] = NAN;
    ref_forward(&x.args, &x.r);
    assert_true(isnan(x.r.out[0]) && x.r.bound_out[0] == 0 && isnan(x.r.lse[0]));
    ref_free(&x.r);
}

/* --- Random calls --------------------------------------------------------------------------- */

/* The f32-accurate copies of what the reference says, as outputs. */
static void write_reference(const trial *t)
{
    const attn_forward_args *a = &t->args;
    const ref *r = &t->want;
    const attn_view *views[] = {&a->out, &a->lse, &a->weights};
    const double *from[] = {r->out, r->lse, r->weights};

    for (int v = 0; v < 3; v++) {
        const int64_t *n = views[v]->size;
        int64_t at = 0;

        for (int64_t b = 0; views[v]->data && b < n[0]; b++)
            for (int64_t h = 0; h < n[1]; h++)
                for (int64_t i = 0; i < n[2]; i++)
                    for (int64_t j = 0; j < n[3]; j++)
                        view_set(views[v], b, h, i, j, from[v][at++]);
    }
}

enum { ODD_OPTIONS = OPT_PARTIAL | OPT_IN_PLACE };

static void draw_plain(trial *t, uint64_t index, uint32_t without)
{
    rng r = rng_make(test_seed(), index);
    uint32_t options = (uint32_t)rng_next(&r) & (uint32_t)rng_next(&r);

    options &= ~(ODD_OPTIONS | without) & ((UINT32_C(1) << OPTION_COUNT) - 1);
    trial_make(t, test_seed(), index, options | OPT_LSE | OPT_WEIGHTS,
               (generator)(index % GEN_COUNT));
}

static void reference_accepts_itself(void **state)
{
    (void)state;
    for (uint64_t index = 0; index < 400; index++) {
        char why[300];
        trial t;

        draw_plain(&t, index, 0);
        write_reference(&t);
        if (ref_compare(&t.args, &t.want, NULL, why, sizeof why) != 0)
            fail_msg("trial %d: %s", (int)index, why);
        trial_free(&t);
    }
}

/* Damages one element of a view and puts it back. Returns 1 if the comparison saw it. */
static int damage_seen(const trial *t, const attn_view *v, int64_t element, double damaged)
{
    const int64_t *n = v->size;
    void *at = ref_at(v, element / n[3] / n[2] / n[1], element / n[3] / n[2] % n[1],
                      element / n[3] % n[2], element % n[3]);
    double was = ref_load(at, v->type);
    int seen;

    ref_store(at, v->type, damaged);
    seen = ref_compare(&t->args, &t->want, NULL, NULL, 0) == 1;
    ref_store(at, v->type, was);
    return seen;
}

static void damage_one(const trial *t, rng *r, const attn_view *v, const double *want,
                       const double *bound, int64_t *tried)
{
    int64_t e;

    if (!v->data || view_count(v) == 0)
        return;
    e = rng_int(r, 0, view_count(v) - 1);
    if (isnan(bound[e]))
        return;
    if (isfinite(want[e])) {
        double step = fmax(4 * bound[e], fabs(want[e]) * 0x1p-6) + 0x1p-20;

        assert_true(damage_seen(t, v, e, nan_value));
        assert_true(damage_seen(t, v, e, HUGE_VAL) || fabs(want[e]) + bound[e] > 60000);
        if (fabs(want[e]) < 30000 && step < 30000) /* f16 holds it */
            assert_true(damage_seen(t, v, e, want[e] + step));
        ++*tried;
    } else
        assert_true(damage_seen(t, v, e, 0));
}

static void comparison_sees_damage(void **state)
{
    int64_t tried = 0;

    (void)state;
    for (uint64_t index = 0; index < 400; index++) {
        rng r = rng_make(test_seed() + 1, index);
        trial t;

        draw_plain(&t, index, 0);
        write_reference(&t);
        damage_one(&t, &r, &t.args.out, t.want.out, t.want.bound_out, &tried);
        damage_one(&t, &r, &t.args.lse, t.want.lse, t.want.bound_lse, &tried);
        damage_one(&t, &r, &t.args.weights, t.want.weights, t.want.bound_weights, &tried);
        trial_free(&t);
    }
    assert_true(tried > 600);
}

static void empty_arrays_compare_equal(void **state)
{
    trial t;

    (void)state;
    trial_make(&t, test_seed(), 1, OPT_LSE | OPT_WEIGHTS, GEN_BELL);
    t.args.out.size[2] = t.args.lse.size[2] = t.args.weights.size[2] = 0;
    assert_int_equal(ref_compare(&t.args, &t.want, NULL, NULL, 0), 0);
    trial_free(&t);
}

static double difference(const double *a, const double *b, const double *bound, int64_t n)
{
    double worst = 0;

    for (int64_t i = 0; i < n; i++) {
        if (isnan(bound[i]) || isinf(bound[i]) || bound[i] == 0)
            continue;
        assert_int_equal(isnan(a[i]), isnan(b[i]));
        if (fabs(a[i] - b[i]) > worst * bound[i])
            worst = fabs(a[i] - b[i]) / bound[i];
    }
    return worst;
}

/* In units of an f32 bound double must be as good as exact. */
static void double_agrees_with_long_double(void **state)
{
    (void)state;
    for (uint64_t index = 0; index < 200; index++) {
        ref_options wide;
        trial t;
        ref r;

        draw_plain(&t, index, OPT_F64);
        wide = t.how;
        wide.wide = 1;
        ref_forward_with(&t.args, &wide, &r);
        assert_true(difference(r.out, t.want.out, r.bound_out, r.batch * r.heads * r.tq * r.dv) <
                    1e-4);
        assert_true(difference(r.lse, t.want.lse, r.bound_lse, r.batch * r.heads * r.tq) < 1e-4);
        if (r.weights)
            assert_true(difference(r.weights, t.want.weights, r.bound_weights,
                                   r.wb * r.wh * r.wq * r.wk) < 1e-4);
        ref_free(&r);
        trial_free(&t);
    }
}

/* --- What the bounds let through ------------------------------------------------------------ */

/* Textbook attention in f32 over every key, the weights rounded to `type`. */
static void naive_row(const trial *t, int64_t b, int64_t h, int64_t i, attn_type type)
{
    const attn_forward_args *a = &t->args;
    float s[2000], scale = 1 / sqrtf((float)t->d), m = -INFINITY, sum = 0;

    for (int64_t j = 0; j < t->tk; j++) {
        s[j] = 0;
        for (int64_t c = 0; c < t->d; c++)
            s[j] += (float)view_get(&a->q, b, h, i, c) * (float)view_get(&a->k, b, h, j, c);
        s[j] *= scale;
        m = s[j] > m ? s[j] : m;
    }
    for (int64_t j = 0; j < t->tk; j++) {
        s[j] = (float)stored(type, (double)expf(s[j] - m));
        sum += s[j];
    }
    for (int64_t c = 0; c < t->dv; c++) {
        float o = 0;

        for (int64_t j = 0; j < t->tk; j++)
            o += s[j] * (float)view_get(&a->v, b, h, j, c);
        view_set(&a->out, b, h, i, c, (double)(o / sum));
    }
}

/* Trials over the bound, of `trials`; the worst ratio in *ratio. */
static int naive_failures(generator gen, attn_type type, int trials, double *ratio)
{
    int failures = 0;

    for (int index = 0; index < trials; index++) {
        ref_worst worst = {0};
        trial t;

        trial_make(&t, test_seed(), (uint64_t)index, 0, gen);
        if (t.tk > 0 && t.tk < 2000) {
            for (int64_t b = 0; b < t.b; b++)
                for (int64_t h = 0; h < t.h; h++)
                    for (int64_t i = 0; i < t.tq; i++)
                        naive_row(&t, b, h, i, type);
            failures += ref_compare(&t.args, &t.want, &worst, NULL, 0) > 0;
        }
        *ratio = fmax(*ratio, worst.out);
        trial_free(&t);
    }
    return failures;
}

static void bounds_fit_plain_f32(void **state)
{
    (void)state;
    for (int g = 0; g < GEN_COUNT; g++) {
        double ratio = 0;

        if (g == GEN_SPECIAL || g == GEN_MASKED_ROWS)
            continue;
        assert_int_equal(naive_failures((generator)g, ATTN_F32, 60, &ratio), 0);
        print_message("%-16s worst ratio %.3f\n", generator_name((generator)g), ratio);
        assert_true(ratio < 0.5);
    }
}

/* Weights of 11 bits instead of 24: the bound of ordinary data must notice nearly always. */
static void bounds_stop_half_precision(void **state)
{
    double ratio = 0;

    (void)state;
    assert_true(naive_failures(GEN_BELL, ATTN_F16, 60, &ratio) > 40);
    assert_true(naive_failures(GEN_KEYS_EQUAL, ATTN_F16, 60, &ratio) == 0); /* weights of 1 are
                                                                               exact */
}

int main(int argc, char **argv)
{
    static const test_case tests[] = {
        {"check refuses bad values", check_refuses_bad_values, 0},
        {"check compares specials", check_compares_specials, 0},
        {"check measures the ratio", check_measures_the_ratio, 0},
        {"half types round trip", half_types_round_trip, 0},
        {"half types round to nearest even", half_types_round_to_nearest_even, 0},
        {"philox known answers", philox_known_answers, 0},
        {"dropout rate and coordinates", dropout_rate_and_coordinates, 0},
        {"softmax by hand", softmax_by_hand, 0},
        {"positions by hand", positions_by_hand, 0},
        {"masks by hand", masks_by_hand, 0},
        {"special rows by hand", special_rows_by_hand, 0},
        {"reference accepts itself", reference_accepts_itself, 0},
        {"comparison sees damage", comparison_sees_damage, 0},
        {"empty arrays compare equal", empty_arrays_compare_equal, 0},
        {"double agrees with long double", double_agrees_with_long_double, 0},
        {"bounds fit plain f32", bounds_fit_plain_f32, 0},
        {"bounds stop half precision", bounds_stop_half_precision, 0},
    };

    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
