/* test_laws_bounds.c: laws that hold for the exact result, so for ours within the computed bounds
 * of both calls (docs/numerics.md). */
#include "tests/law.h"

#include <math.h>

/* |a - b| <= the bounds of both calls, in out and (shifted) in lse. Only for f32 outputs. */
static void near(const law *x, const result *a, const result *b, const ref *ra, const ref *rb,
                 double shift)
{
    int64_t rows = ra->batch * ra->heads * ra->tq;
    char text[600];

    trial_describe(&x->t, text, sizeof text);
    for (int64_t e = 0; e < rows * ra->dv; e++) {
        double got = (double)((float *)a->out.data)[e], other = (double)((float *)b->out.data)[e];

        if (!(fabs(got - other) <= ra->bound_out[e] + rb->bound_out[e]))
            fail_msg("out %.9g and %.9g, bounds %.3g: %s", got, other,
                     ra->bound_out[e] + rb->bound_out[e], text);
    }
    for (int64_t e = 0; e < rows; e++) {
        double got = (double)((float *)a->lse.data)[e] + shift;
        double other = (double)((float *)b->lse.data)[e];

        if (got != other && !(fabs(got - other) <= ra->bound_lse[e] + rb->bound_lse[e]))
            fail_msg("lse %.9g and %.9g: %s", got, other, text);
    }
}

/* --- Laws within the bound ------------------------------------------------------------------ */

static void equal_values_come_back(law *x)
{
    trial *t = &x->t;
    attn_forward_args args = t->args;
    result r;
    ref want;

    args.v = view_plain(&t->memory, ATTN_F32, t->b, t->hk, t->tk, t->dv);
    view_fill(&args.v, 1);
    r = law_run(x, &args);
    ref_forward(&args, &want);
    for (int64_t e = 0; e < want.batch * want.heads * want.tq * want.dv; e++) {
        double got = (double)((float *)r.out.data)[e];

        if (want.allowed[e / want.dv] == 0)
            assert_true(got == 0);
        else
            assert_true(fabs(got - 1) <= want.bound_out[e]);
    }
    ref_free(&want);
}

static void linear_in_values(law *x)
{
    trial *t = &x->t;
    attn_forward_args args = t->args;
    attn_view other = view_plain(&t->memory, ATTN_F32, t->b, t->hk, t->tk, t->dv);
    attn_view sum = view_plain(&t->memory, ATTN_F32, t->b, t->hk, t->tk, t->dv);
    ref bounds[3];
    result r[3];

    view_uniform(&other, &t->random, -1, 1);
    for (int64_t b = 0; b < t->b; b++)
        for (int64_t h = 0; h < t->hk; h++)
            for (int64_t j = 0; j < t->tk; j++)
                for (int64_t c = 0; c < t->dv; c++)
                    view_set(&sum, b, h, j, c,
                             view_get(&t->args.v, b, h, j, c) + view_get(&other, b, h, j, c));
    for (int i = 0; i < 3; i++) {
        args.v = i == 0 ? t->args.v : i == 1 ? other : sum;
        r[i] = law_run(x, &args);
        ref_forward(&args, &bounds[i]);
    }
    for (int64_t e = 0; e < bounds[0].batch * bounds[0].heads * bounds[0].tq * bounds[0].dv; e++) {
        double a = (double)((float *)r[0].out.data)[e], b = (double)((float *)r[1].out.data)[e];
        double both = (double)((float *)r[2].out.data)[e];

        /* The sums of values are rounded once more on their way into the third call. */
        assert_true(fabs(a + b - both) <=
                    2 * (bounds[0].bound_out[e] + bounds[1].bound_out[e] + bounds[2].bound_out[e]));
    }
    for (int i = 0; i < 3; i++)
        ref_free(&bounds[i]);
}

static void output_within_values(law *x)
{
    trial *t = &x->t;
    result r = law_run(x, &t->args);

    for (int64_t b = 0; b < t->b; b++)
        for (int64_t h = 0; h < t->h; h++)
            for (int64_t i = 0; i < t->tq; i++)
                for (int64_t c = 0; c < t->dv; c++) {
                    double low = HUGE_VAL, high = -HUGE_VAL;
                    int64_t e = ((b * t->h + h) * t->tq + i) * t->dv + c;

                    for (int64_t j = 0; j < t->tk; j++)
                        if (ref_allows(&t->args, b, h, i, j)) {
                            double v = view_get(&t->args.v, b, h / t->group, j, c);

                            low = fmin(low, v);
                            high = fmax(high, v);
                        }
                    if (low <= high) {
                        double got = view_get(&r.out, b, h, i, c);

                        assert_true(got >= low - t->want.bound_out[e]);
                        assert_true(got <= high + t->want.bound_out[e]);
                    }
                }
}

/* One more channel, 1 in q, adds a constant to all logits: O stays, LSE moves by it. */
static void shifted_logits(law *x)
{
    trial *t = &x->t;
    attn_forward_args args = t->args;
    double shift = rng_range(&t->random, -20, 20);
    result plain, other;
    ref a, b;

    args.has_scale = 1;
    args.scale = 0.25;
    shift = (double)(float)shift;
    plain = law_run(x, &args);
    ref_forward(&args, &a);
    args.q = view_plain(&t->memory, ATTN_F32, t->b, t->h, t->tq, t->d + 1);
    args.k = view_plain(&t->memory, ATTN_F32, t->b, t->hk, t->tk, t->d + 1);
    for (int64_t e = 0, n = t->b * t->h * t->tq * (t->d + 1); e < n; e++) {
        int64_t c = e % (t->d + 1), i = e / (t->d + 1) % t->tq, row = e / (t->d + 1) / t->tq;

        view_set(&args.q, row / t->h, row % t->h, i, c,
                 c < t->d ? view_get(&t->args.q, row / t->h, row % t->h, i, c) : 4);
    }
    for (int64_t e = 0, n = t->b * t->hk * t->tk * (t->d + 1); e < n; e++) {
        int64_t c = e % (t->d + 1), j = e / (t->d + 1) % t->tk, row = e / (t->d + 1) / t->tk;

        view_set(&args.k, row / t->hk, row % t->hk, j, c,
                 c < t->d ? view_get(&t->args.k, row / t->hk, row % t->hk, j, c) : shift);
    }
    other = law_run(x, &args);
    ref_forward(&args, &b);
    near(x, &plain, &other, &a, &b, shift);
    ref_free(&a);
    ref_free(&b);
}

static void keys_permute(law *x)
{
    trial *t = &x->t;
    attn_forward_args args = t->args;
    result plain = law_run(x, &args), other;
    attn_mask mask = t->mask;
    ref b;

    args.k = law_turned(args.k, 2);
    args.v = law_turned(args.v, 2);
    mask.keep = law_turned(mask.keep, 3);
    mask.bias = law_turned(mask.bias, 3);
    for (int d = 0; d < 2; d++) { /* law_turned() moves data along rows only */
        attn_view *v = d ? &mask.bias : &mask.keep;

        if (v->data && v->size[3] > 1)
            v->data = (char *)v->data -
                      (v->size[3] - 1) * v->stride[3] * (int64_t)attn_type_size(v->type);
    }
    args.mask = &mask;
    other = law_run(x, &args);
    ref_forward(&args, &b);
    near(x, &plain, &other, &t->want, &b, 0);
    ref_free(&b);
}

static void duplicated_keys(law *x)
{
    trial *t = &x->t;
    attn_forward_args args = t->args;
    result plain = law_run(x, &args), other;
    ref b;

    args.k = view_plain(&t->memory, ATTN_F32, t->b, t->hk, 2 * t->tk, t->d);
    args.v = view_plain(&t->memory, ATTN_F32, t->b, t->hk, 2 * t->tk, t->dv);
    for (int64_t n = 0; n < t->b * t->hk; n++)
        for (int64_t j = 0; j < 2 * t->tk; j++) {
            for (int64_t c = 0; c < t->d; c++)
                view_set(&args.k, n / t->hk, n % t->hk, j, c,
                         view_get(&t->args.k, n / t->hk, n % t->hk, j % t->tk, c));
            for (int64_t c = 0; c < t->dv; c++)
                view_set(&args.v, n / t->hk, n % t->hk, j, c,
                         view_get(&t->args.v, n / t->hk, n % t->hk, j % t->tk, c));
        }
    other = law_run(x, &args);
    ref_forward(&args, &b);
    near(x, &plain, &other, &t->want, &b, log(2));
    ref_free(&b);
}

static void huge_softcap_is_none(law *x)
{
    attn_forward_args args = x->t.args;
    result plain = law_run(x, &args), capped;
    ref b;

    args.softcap = 1e6;
    capped = law_run(x, &args);
    ref_forward(&args, &b);
    near(x, &plain, &capped, &x->t.want, &b, 0);
    ref_free(&b);
}

int main(int argc, char **argv)
{
    static const law_entry laws[] = {
        {"equal values come back", equal_values_come_back, 0,
         ANY_OPTION & ~(OPT_TYPES | OPT_F64 | OPT_SINK | OPT_DROPOUT | OPT_START | OPT_POISON)},
        {"linear in values", linear_in_values, 0,
         ANY_OPTION & ~(OPT_TYPES | OPT_F64 | OPT_START | OPT_POISON)},
        {"output within the range of values", output_within_values, 0,
         ANY_OPTION &
             ~(OPT_TYPES | OPT_F64 | OPT_SINK | OPT_DROPOUT | OPT_START | OPT_PACKED | OPT_TILE)},
        {"shifted logits move only lse", shifted_logits, 0,
         ANY_OPTION & ~(OPT_TYPES | OPT_F64 | OPT_SINK | OPT_START | OPT_SOFTCAP | OPT_SCALE |
                        OPT_TILE | OPT_POISON)},
        {"keys permute", keys_permute, 0,
         OPT_SCALE | OPT_SOFTCAP | OPT_KEEP | OPT_BIAS | OPT_SINK | OPT_LAYOUTS | OPT_GROUPS |
             OPT_DV | OPT_LONG},
        {"duplicated keys add ln 2 to lse", duplicated_keys, 0,
         OPT_SCALE | OPT_SOFTCAP | OPT_LAYOUTS | OPT_GROUPS | OPT_DV | OPT_LONG},
        {"huge softcap is none", huge_softcap_is_none, 0,
         ANY_OPTION & ~(OPT_TYPES | OPT_F64 | OPT_SOFTCAP | OPT_POISON)},
    };

    return law_main(argc, argv, laws, sizeof laws / sizeof *laws);
}
