/* ref_check.c: storage types, and the comparison of results with the reference. */
#include "tests/ref.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define LAZY (8 * 0.69314718055994531) /* how far max may stay below the largest logit */

/* --- Storage types -------------------------------------------------------------------------- */

/* A binary format: bits of precision, exponent of its last place at the bottom, largest value. */
typedef struct format {
    int precision, lowest;
    double max;
} format;

static const format half = {11, -24, 65504.0};
static const format bfloat = {8, -133, 0x1.FEp127};

/* Nearest value of the format, ties to even; every step but rint is exact. */
static double round_to(double value, const format *f)
{
    int exponent, last;
    double rounded;

    if (!isfinite(value) || value == 0)
        return value;
    frexp(value, &exponent);
    last = exponent - f->precision > f->lowest ? exponent - f->precision : f->lowest;
    rounded = ldexp(rint(ldexp(value, -last)), last);
    return fabs(rounded) > f->max ? copysign(HUGE_VAL, value) : rounded;
}

static uint16_t half_bits(double value)
{
    double rounded = fabs(round_to(value, &half));
    uint16_t sign = signbit(value) ? 0x8000 : 0;
    int exponent;

    if (isnan(value))
        return sign | 0x7E00;
    if (isinf(rounded))
        return sign | 0x7C00;
    if (rounded < 0x1p-14) /* a denormal is a count of 2^-24 */
        return (uint16_t)(sign | (uint16_t)(rounded * 0x1p24));
    frexp(rounded, &exponent);
    return (uint16_t)(sign + (unsigned)((exponent + 14) << 10) +
                      (unsigned)((ldexp(rounded, 1 - exponent) - 1) * 1024));
}

static double half_value(uint16_t bits)
{
    int exponent = bits >> 10 & 31;
    double fraction = bits & 1023, value;

    if (exponent == 31)
        value = fraction > 0 ? (double)NAN : HUGE_VAL;
    else if (exponent == 0)
        value = fraction * 0x1p-24;
    else
        value = (1024 + fraction) * (double)(1u << exponent) * 0x1p-25;
    return bits & 0x8000 ? -value : value;
}

static uint16_t bfloat_bits(double value)
{
    float rounded = (float)round_to(value, &bfloat);
    uint32_t bits;

    memcpy(&bits, &rounded, sizeof bits);
    return isnan(value) ? 0x7FC0 : (uint16_t)(bits >> 16);
}

static double bfloat_value(uint16_t half_word)
{
    uint32_t bits = (uint32_t)half_word << 16;
    float value;

    memcpy(&value, &bits, sizeof value);
    return (double)value;
}

double ref_load(const void *element, attn_type type)
{
    uint16_t word;
    float single;
    double value;

    switch (type) {
    case ATTN_F32:
        memcpy(&single, element, sizeof single);
        return (double)single;
    case ATTN_F64:
        memcpy(&value, element, sizeof value);
        return value;
    case ATTN_F16:
        memcpy(&word, element, sizeof word);
        return half_value(word);
    case ATTN_BF16:
        memcpy(&word, element, sizeof word);
        return bfloat_value(word);
    default:
        return *(const unsigned char *)element;
    }
}

void ref_store(void *element, attn_type type, double value)
{
    float single = (float)value;
    uint16_t word;

    switch (type) {
    case ATTN_F32:
        memcpy(element, &single, sizeof single);
        break;
    case ATTN_F64:
        memcpy(element, &value, sizeof value);
        break;
    case ATTN_F16:
        word = half_bits(value);
        memcpy(element, &word, sizeof word);
        break;
    case ATTN_BF16:
        word = bfloat_bits(value);
        memcpy(element, &word, sizeof word);
        break;
    default:
        *(unsigned char *)element = (unsigned char)value;
    }
}

void *ref_at(const attn_view *v, int64_t b, int64_t h, int64_t i, int64_t j)
{
    const int64_t at[4] = {b, h, i, j};
    int64_t offset = 0;

    for (int d = 0; d < 4; d++)
        if (v->size[d] != 1)
            offset += at[d] * v->stride[d];
    return (char *)v->data + offset * (int64_t)attn_type_size(v->type);
}

/* --- Elements ------------------------------------------------------------------------------- */

int ref_check(double got, double want, double bound, double rounding, double *ratio)
{
    double error, excess;

    if (isnan(bound))
        return 0;
    if (isinf(bound))
        return isfinite(got);
    if (isnan(want))
        return !isnan(got);
    if (isinf(want))
        return got != want;
    if (!isfinite(got))
        return 1;
    if (bound == 0 && rounding == 0)
        return got != want || signbit(got) != signbit(want);
    error = fabs(got - want);
    excess = error - rounding;
    if (excess > 0 && excess > *ratio * bound)
        *ratio = bound > 0 ? excess / bound : HUGE_VAL;
    return !(error <= bound + rounding);
}

/* Half a unit in the last place of the output's type for values up to `size`. For f32 results of
 * f32 arithmetic the bounds hold it already. */
static double type_rounding(attn_type type, int f64, double size)
{
    if (type == ATTN_F16)
        return fmax(size * 0x1p-11, 0x1p-25);
    if (type == ATTN_BF16)
        return fmax(size * 0x1p-8, 0x1p-134);
    return type == ATTN_F32 && f64 ? fmax(size * 0x1p-24, 0x1p-150) : 0;
}

/* The smallest magnitude that may have been rounded to infinity. */
static double type_limit(attn_type type)
{
    static const double limits[] = {
        [ATTN_F32] = (double)FLT_MAX,
        [ATTN_F16] = 65504,
        [ATTN_BF16] = 0x1.FEp127,
        [ATTN_F64] = DBL_MAX,
    };

    return limits[type];
}

static int check_stored(double got, double want, double bound, attn_type type, int f64,
                        double *ratio)
{
    double size = fabs(want) + bound;

    if (isfinite(want) && isfinite(bound) && size >= type_limit(type) && isinf(got))
        return (got > 0 ? want : -want) + bound < type_limit(type);
    if (bound == 0 && !(f64 && type == ATTN_F32)) /* zeros, -inf and sinks are exact in any type */
        return ref_check(got, want, 0, 0, ratio);
    return ref_check(got, want, bound, isfinite(size) ? type_rounding(type, f64, size) : 0, ratio);
}

/* --- Arrays --------------------------------------------------------------------------------- */

int ref_compare_part(const ref_part *p, double *ratio, char *why, size_t n, int before)
{
    const int64_t *size = p->view->size;
    int64_t total = size[0] * size[1] * size[2] * size[3];
    int bad = 0;

    if (!p->view->data)
        return 0;
    for (int64_t e = 0; e < total; e++) {
        int64_t j = e % size[3], i = e / size[3] % size[2], h = e / size[3] / size[2] % size[1];
        int64_t b = e / size[3] / size[2] / size[1];
        double got = ref_load(ref_at(p->view, b, h, i, j), p->view->type);

        if (!check_stored(got, p->want[e], p->bound[e], p->view->type, p->f64, ratio))
            continue;
        if (bad++ == 0 && before == 0 && n > 0)
            snprintf(why, n, "%s[%lld,%lld,%lld,%lld] is %.9g, reference %.9g, bound %.3g", p->name,
                     (long long)b, (long long)h, (long long)i, (long long)j, got, p->want[e],
                     p->bound[e]);
    }
    return bad;
}

double ref_worst_of(const ref_worst *worst)
{
    return fmax(worst->out, fmax(worst->lse, worst->weights));
}

int ref_compare(const attn_forward_args *args, const ref *r, ref_worst *worst, char *why, size_t n)
{
    const ref_part out = {"out", &args->out, r->out, r->bound_out, r->f64};
    const ref_part lse = {"lse", &args->lse, r->lse, r->bound_lse, r->f64};
    const ref_part weights = {"weights", &args->weights, r->weights, r->bound_weights, r->f64};
    ref_worst none = {0};
    int bad;

    if (!worst)
        worst = &none;
    bad = ref_compare_part(&out, &worst->out, why, n, 0);
    bad += ref_compare_part(&lse, &worst->lse, why, n, bad);
    bad += ref_compare_part(&weights, &worst->weights, why, n, bad);
    return bad;
}

/* --- Partial records ------------------------------------------------------------------------ */

typedef struct record {
    double sum, max;
    int64_t row; /* in ref.lse */
    int64_t b, h, i;
} record;

/* A row whose logits all overflowed to -inf looks empty in a record; whoever merges cannot know. */
static int row_is_open(const ref *r, const record *x)
{
    return r->allowed[x->row] > 0 && r->max[x->row] == -HUGE_VAL;
}

static int record_head_fails(const ref *r, const record *x, double *ratio)
{
    double want = r->lse[x->row], bound = r->bound_lse[x->row], slack = bound + 1e-6;

    if (want == -HUGE_VAL)
        return x->sum != 0 || x->max != -HUGE_VAL;
    if (isnan(bound))
        return 0;
    if (isnan(want))
        return isfinite(x->max) && isfinite(x->sum);
    return ref_check(x->max + log(x->sum), want, bound, 0, ratio) ||
           x->max > r->max[x->row] + slack || x->max < r->max[x->row] - LAZY - slack;
}

static int record_value_fails(const ref *r, const record *x, double got, int64_t c, double *ratio)
{
    int64_t e = x->row * r->dv + c;

    if (r->lse[x->row] == -HUGE_VAL)
        return got != 0;
    return ref_check(got / x->sum, r->out[e], r->bound_out[e], 0, ratio);
}

int ref_compare_partial(const attn_partial *partial, const ref *r, ref_worst *worst, char *why,
                        size_t n)
{
    ref_worst none = {0};
    int bad = 0;

    if (!worst)
        worst = &none;
    for (int64_t row = 0; row < r->batch * r->heads * r->tq; row++) {
        record x = {.row = row, .i = row % r->tq, .h = row / r->tq % r->heads};
        int fails;

        x.b = row / r->tq / r->heads;
        x.sum = ref_load(ref_at(&partial->sum, x.b, x.h, x.i, 0), partial->sum.type);
        x.max = ref_load(ref_at(&partial->max, x.b, x.h, x.i, 0), partial->max.type);
        if (row_is_open(r, &x))
            continue;
        fails = record_head_fails(r, &x, &worst->lse);
        for (int64_t c = 0; c < r->dv; c++) {
            double got = ref_load(ref_at(&partial->out, x.b, x.h, x.i, c), partial->out.type);

            fails += record_value_fails(r, &x, got, c, &worst->out);
        }
        if (fails && bad == 0 && n > 0)
            snprintf(why, n,
                     "record [%lld,%lld,%lld]: sum %.9g max %.9g, reference lse %.9g max %.9g",
                     (long long)x.b, (long long)x.h, (long long)x.i, x.sum, x.max, r->lse[row],
                     r->max[row]);
        bad += fails;
    }
    return bad;
}
