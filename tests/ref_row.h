/* ref_row.h: output, LSE and weights of one query row of the reference, for one arithmetic type.
 * Included by ref.c with the definitions that ref_logits.h wants. */
#include "tests/ref_logits.h"

/* Room for the columns of one row. */
typedef struct REF_NAME(columns) {
    REF_REAL *acc;     /* [dv] */
    double *err, *mag; /* [dv]: error and underflow terms of a column */
    int *state;        /* [dv]: COLUMN_... */
} REF_NAME(columns);

/* Relative error of the P of key weight w, `far` below the maximum, whose logit has the error `own`
 * beyond the dot product's. No P is above 1, so no error either: that ends the growth of the
 * exponential. */
static double REF_NAME(spread)(const row_place *at, const REF_NAME(stats) * st, double u,
                               REF_REAL w, double own, REF_REAL distance, double roundings)
{
    double far = (double)distance;
    double x =
        2 * st->dot_error + st->mean_error + own + u * (REF_DISTANCE * far + roundings + at->lazy);

    return x < 1e-3 ? x * (1 + x) : fmin(expm1(x < 600 ? x : 600), 1 + (double)(st->sum / w));
}

/* What one key contributes to every column. */
typedef struct REF_NAME(term) {
    REF_REAL weight; /* e^(t - m), times what dropout makes of it */
    double share;    /* weight / sum */
    double spread;   /* relative error of the weight */
    double factor;   /* what v is multiplied by before e^(t - m): of dropout, the sum of a record */
} REF_NAME(term);

/* Adds a term times v to a column. Infinite and NaN values follow IEEE rules, except that whether a
 * tiny weight is zero already depends on the order of the work. */
static void REF_NAME(column_add)(REF_NAME(columns) * y, int64_t c, const REF_NAME(term) * term,
                                 REF_REAL v)
{
    double size = fabs((double)v);

    if (!isfinite(size)) {
        if (isnan(size))
            y->state[c] |= COLUMN_NAN;
        else if (term->share < 0x1p-100)
            y->state[c] |= COLUMN_OPEN;
        else
            y->state[c] |= v > 0 ? COLUMN_UP : COLUMN_DOWN;
        return;
    }
    y->acc[c] += term->weight * v;
    y->err[c] += (double)term->weight * size * term->spread;
    y->mag[c] += term->factor * size;
}

static void REF_NAME(values)(const problem *p, const row_place *at, const REF_NAME(rows) * x,
                             const REF_NAME(stats) * st, REF_NAME(columns) * y)
{
    const attn_partial *start = p->args->start;
    double drop = p->args->dropout, roundings = 2 * at->roundings + 8 + (drop > 0 ? 3 : 0);

    for (int64_t j = 0; j < p->seq.tk; j++) {
        REF_NAME(term) term = {.weight = x->w[j], .factor = 1};

        if (!p->allowed[j])
            continue;
        if (term.weight > 0)
            term.spread =
                REF_NAME(spread)(at, st, p->u, term.weight, x->e[j], st->max - x->t[j], roundings);
        if (drop > 0)
            term.factor = ref_cell_dropped(p, at, j) ? 0 : 1 / (1 - drop);
        term.weight *= (REF_REAL)term.factor;
        term.share = (double)(term.weight / st->sum);
        for (int64_t c = 0; c < p->r->dv; c++)
            REF_NAME(column_add)(y, c, &term, x->v[j * p->r->dv + c]);
    }
    if (st->has_start) {
        REF_REAL far = st->max - (REF_REAL)ref_record_value(&start->max, at, 0);
        REF_REAL sum = (REF_REAL)ref_record_value(&start->sum, at, 0);
        REF_NAME(term) term = {st->start, (double)(st->start / st->sum), 0, (double)sum};

        term.spread = REF_NAME(spread)(at, st, p->u, st->start, 0, far, roundings);
        for (int64_t c = 0; c < p->r->dv; c++)
            REF_NAME(column_add)(y, c, &term, (REF_REAL)ref_record_value(&start->out, at, c) / sum);
    }
}

static void REF_NAME(finish)(const problem *p, const row_place *at, const REF_NAME(stats) * st,
                             const REF_NAME(columns) * y)
{
    int64_t at_out = at->row * p->r->dv;

    for (int64_t c = 0; c < p->r->dv; c++) {
        double *out = &p->r->out[at_out + c], *bound = &p->r->bound_out[at_out + c];

        *out = (double)(y->acc[c] / st->sum);
        *bound = y->err[c] / (double)st->sum + at->vanish * p->tiny * y->mag[c] +
                 p->denormal * p->options.denormals * (double)(at->n + 1);
        column_special(y->state[c], out, bound);
    }
    p->r->lse[at->row] = (double)(st->max + REF_LOG(st->sum));
    /* In f64 the reference rounds its own result to double. */
    p->r->bound_lse[at->row] =
        st->dot_error + st->mean_error + p->u * (at->roundings + 8 + at->lazy) +
        2 * p->u * fabs((double)st->max) + (p->r->f64 ? 4 : 2) * p->u * fabs(p->r->lse[at->row]);
}

static void REF_NAME(weights)(const problem *p, const row_place *at, const REF_NAME(rows) * x,
                              const REF_NAME(stats) * st)
{
    double *out = weights_row(p, p->r->weights, at),
           *bound = weights_row(p, p->r->bound_weights, at);

    if (!out)
        return;
    for (int64_t j = 0; j < p->seq.tk; j++) {
        if (!p->allowed[j])
            continue;
        out[j] = (double)(x->w[j] / st->sum);
        bound[j] = p->tiny;
        if (out[j] > 0)
            bound[j] += out[j] * REF_NAME(spread)(at, st, p->u, x->w[j], x->e[j], st->max - x->t[j],
                                                  at->roundings + 12);
    }
}

static void REF_NAME(row)(const problem *p, row_place *at, REF_NAME(rows) * x,
                          REF_NAME(columns) * y)
{
    REF_NAME(stats) st;

    REF_NAME(scores)(p, at, x, &st);
    if (at->n == 0 && !st.has_start) {
        empty_row(p, at);
        return;
    }
    if (st.nan || st.dead) {
        broken_row(p, at, st.nan || !(st.has_sink || st.has_start));
        return;
    }
    for (int64_t c = 0; c < p->r->dv; c++) {
        y->acc[c] = 0;
        y->err[c] = y->mag[c] = 0;
        y->state[c] = 0;
    }
    REF_NAME(values)(p, at, x, &st, y);
    REF_NAME(finish)(p, at, &st, y);
    REF_NAME(weights)(p, at, x, &st);
}

static void REF_NAME(run)(problem *p)
{
    size_t dv = (size_t)p->r->dv;
    REF_NAME(rows) x = REF_NAME(rows_make)(p);
    REF_NAME(columns)
    y = {
        .acc = ref_get(dv * sizeof *y.acc),
        .err = ref_get(dv * sizeof *y.err),
        .mag = ref_get(dv * sizeof *y.mag),
        .state = ref_get(dv * sizeof *y.state),
    };

    for (int64_t b = 0; b < p->sequences; b++) {
        ref_find_sequence(p, b);
        for (int64_t h = 0; h < p->r->heads; h++) {
            if (h % p->group == 0)
                REF_NAME(load)(p, h / p->group, &x);
            for (int64_t i = 0; i < p->seq.tq; i++) {
                row_place at = ref_find_row(p, b, h, i);

                REF_NAME(row)(p, &at, &x, &y);
            }
        }
    }
    REF_NAME(rows_free)(&x);
    free(y.acc);
    free(y.err);
    free(y.mag);
    free(y.state);
}
