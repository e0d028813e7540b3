/* ref_row.h: one query row of the reference, for one arithmetic type. Included by ref.c with
 * REF_REAL (double, long double) and REF_NAME(x) (its names) defined; ref.c holds what needs no
 * arithmetic: sizes, positions, masks. No tiles and no running maxima here: the row's logits stand
 * in one array and every sum runs over it from first to last. */

/* Keys and values of one key head in this arithmetic, and room for one row. */
typedef struct REF_NAME(rows) {
    REF_REAL *k, *v, *q; /* [tk][dk], [tk][dv], [dk] */
    double *k_size;      /* [tk]: sum of |k| */
    REF_REAL *t, *w;     /* [tk]: logits, e^(t - m) */
    double *e;           /* [tk]: error of a logit beyond that of the dot product */
    REF_REAL *acc;       /* [dv] */
    double *err, *mag;   /* [dv]: error and underflow terms of a column */
    int *state;          /* [dv]: COLUMN_... */
} REF_NAME(rows);

/* What is known of a row once its logits are. */
typedef struct REF_NAME(stats) {
    REF_REAL max, sum, sink, start; /* start: weight of the earlier record, before e^-max */
    double dot_error;               /* of the worst attended logit */
    double mean_error; /* sum of P times the logit's own errors: what the denominator has of them */
    int nan, dead;     /* NaN or +inf attended; every attended logit -inf */
    int has_sink, has_start;
} REF_NAME(stats);

static REF_REAL REF_NAME(dot)(const REF_REAL *a, const REF_REAL *b, int64_t n, double *size)
{
    REF_REAL sum[4] = {0, 0, 0, 0}, abs[4] = {0, 0, 0, 0};
    int64_t c = 0;

    for (; c + 4 <= n; c += 4)
        for (int l = 0; l < 4; l++) {
            REF_REAL product = a[c + l] * b[c + l];

            sum[l] += product;
            abs[l] += product < 0 ? -product : product;
        }
    for (; c < n; c++) {
        REF_REAL product = a[c] * b[c];

        sum[0] += product;
        abs[0] += product < 0 ? -product : product;
    }
    *size = (double)((abs[0] + abs[1]) + (abs[2] + abs[3]));
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

/* s, and t before the tile function. The error terms are those of docs/numerics.md. */
static REF_REAL REF_NAME(logit)(const problem *p, const row_place *at, int64_t j,
                                const REF_NAME(rows) * x, REF_NAME(stats) * st, double *error)
{
    const attn_mask *mask = p->mask;
    REF_REAL scale =
        p->args->has_scale ? (REF_REAL)p->args->scale : 1 / REF_SQRT((REF_REAL)p->args->q.size[3]);
    double size, rough;
    REF_REAL s = scale * REF_NAME(dot)(x->q, x->k + j * p->dk, p->dk, &size), t;

    rough = p->options.exact_scores ? 0 : ((double)p->dk + 3) * p->u * fabs((double)scale) * size;
    if (isfinite(rough)) {
        rough += p->denormal * ((double)p->dk + x->k_size[j]);
        if (rough > st->dot_error && isfinite(rough))
            st->dot_error = rough;
    }
    *error = 0;
    if (p->args->softcap > 0) {
        REF_REAL cap = (REF_REAL)p->args->softcap;

        s = cap * REF_TANH(s / cap);
        *error += 8 * p->u * fabs((double)s);
    }
    t = s;
    if (has_view(&mask->bias)) {
        t += (REF_REAL)ref_load(ref_at(&mask->bias, at->b, at->h, at->i, j), mask->bias.type);
        /* A rounding is at most u|t| (twice that, to stay clear of the tripwire: big sums are
         * nothing but this rounding), and at most the smaller summand: s, if the bias is -FLT_MAX.
         */
        *error += fmin(2 * p->u * fabs((double)t), 2 * fabs((double)s));
    }
    if (has_view(&mask->alibi)) {
        double slope = ref_load(ref_at(&mask->alibi, at->b, at->h, 0, 0), mask->alibi.type);
        int64_t distance = at->pos_q - key_position(p, j);
        REF_REAL drop = (REF_REAL)slope * (REF_REAL)(distance < 0 ? -distance : distance);

        t -= drop;
        *error += 2 * p->u * (fabs((double)drop) + fabs((double)t));
    }
    return t;
}

/* Logits of the allowed keys; clears allowed[] where bias or tile function mask by -inf. */
static void REF_NAME(logits)(const problem *p, const row_place *at, REF_NAME(rows) * x,
                             REF_NAME(stats) * st)
{
    const seq *s = &p->seq;
    int64_t first = s->k_start, n = s->k_count;

    for (int64_t j = first; j < first + n; j++)
        if (p->allowed[j])
            x->t[j] = REF_NAME(logit)(p, at, j, x, st, &x->e[j]);
    if (!p->mask->tile || n == 0)
        return;
    for (int64_t j = first; j < first + n; j++)
        p->tile[j] = p->allowed[j] ? (double)x->t[j] : 0;
    call_tile(p, at);
    for (int64_t j = first; j < first + n; j++) {
        if (!p->allowed[j])
            continue;
        if (p->tile[j] == -HUGE_VAL)
            p->allowed[j] = 0;
        x->e[j] += 4 * p->u * fabs((double)x->t[j]) + 4 * p->u * fabs(p->tile[j]);
        x->t[j] = (REF_REAL)p->tile[j];
    }
}

/* Maximum, weights, sum, and the errors they share. */
static void REF_NAME(weigh)(const problem *p, const row_place *at, REF_NAME(rows) * x,
                            REF_NAME(stats) * st)
{
    REF_REAL record_max = 0;
    int64_t live = 0;

    st->max = -(REF_REAL)HUGE_VAL;
    for (int64_t j = 0; j < p->seq.tk; j++)
        if (p->allowed[j]) {
            st->nan |= isnan((double)x->t[j]) || x->t[j] == (REF_REAL)HUGE_VAL;
            live += x->t[j] > -(REF_REAL)HUGE_VAL;
            if (x->t[j] > st->max)
                st->max = x->t[j];
        }
    st->dead = at->n > 0 && live == 0;
    p->r->max[at->row] = (double)st->max;
    if (st->has_start) {
        record_max = (REF_REAL)record_value(&p->args->start->max, at, 0);
        st->nan |= isnan((double)record_max) || isnan((double)st->start);
        if (record_max > st->max)
            st->max = record_max;
        p->r->max[at->row] = (double)st->max;
    }
    if (st->has_sink && st->sink > st->max)
        st->max = st->sink;
    if (st->nan || st->dead || st->max == -(REF_REAL)HUGE_VAL)
        return;

    for (int64_t j = 0; j < p->seq.tk; j++)
        if (p->allowed[j]) {
            double far = (double)(st->max - x->t[j]);

            x->w[j] = REF_EXP(x->t[j] - st->max);
            st->sum += x->w[j];
            if (x->w[j] > 0)
                st->mean_error += (double)x->w[j] * (REF_DISTANCE * p->u * far + x->e[j]);
        }
    if (st->has_start) {
        st->start *= REF_EXP(record_max - st->max);
        st->sum += st->start;
        st->mean_error += REF_DISTANCE * p->u * (double)(st->start * (st->max - record_max));
    }
    if (st->has_sink) {
        REF_REAL w = REF_EXP(st->sink - st->max);

        st->sum += w;
        if (w > 0)
            st->mean_error += REF_DISTANCE * p->u * (double)(w * (st->max - st->sink));
    }
    st->mean_error /= (double)st->sum;
}

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
static void REF_NAME(column_add)(REF_NAME(rows) * x, int64_t c, const REF_NAME(term) * term,
                                 REF_REAL v)
{
    double size = fabs((double)v);

    if (!isfinite(size)) {
        if (isnan(size))
            x->state[c] |= COLUMN_NAN;
        else if (term->share < 0x1p-100)
            x->state[c] |= COLUMN_OPEN;
        else
            x->state[c] |= v > 0 ? COLUMN_UP : COLUMN_DOWN;
        return;
    }
    x->acc[c] += term->weight * v;
    x->err[c] += (double)term->weight * size * term->spread;
    x->mag[c] += term->factor * size;
}

static void REF_NAME(values)(const problem *p, const row_place *at, REF_NAME(rows) * x,
                             const REF_NAME(stats) * st)
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
            term.factor = cell_dropped(p, at, j) ? 0 : 1 / (1 - drop);
        term.weight *= (REF_REAL)term.factor;
        term.share = (double)(term.weight / st->sum);
        for (int64_t c = 0; c < p->r->dv; c++)
            REF_NAME(column_add)(x, c, &term, x->v[j * p->r->dv + c]);
    }
    if (st->has_start) {
        REF_REAL far = st->max - (REF_REAL)record_value(&start->max, at, 0);
        REF_REAL sum = (REF_REAL)record_value(&start->sum, at, 0);
        REF_NAME(term) term = {st->start, (double)(st->start / st->sum), 0, (double)sum};

        term.spread = REF_NAME(spread)(at, st, p->u, st->start, 0, far, roundings);
        for (int64_t c = 0; c < p->r->dv; c++)
            REF_NAME(column_add)(x, c, &term, (REF_REAL)record_value(&start->out, at, c) / sum);
    }
}

static void REF_NAME(finish)(const problem *p, const row_place *at, const REF_NAME(rows) * x,
                             const REF_NAME(stats) * st)
{
    int64_t at_out = at->row * p->r->dv;

    for (int64_t c = 0; c < p->r->dv; c++) {
        double *out = &p->r->out[at_out + c], *bound = &p->r->bound_out[at_out + c];

        *out = (double)(x->acc[c] / st->sum);
        *bound = x->err[c] / (double)st->sum + at->vanish * p->tiny * x->mag[c] +
                 p->denormal * p->options.denormals * (double)(at->n + 1);
        column_special(x->state[c], out, bound);
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

static void REF_NAME(row)(const problem *p, row_place *at, REF_NAME(rows) * x)
{
    REF_NAME(stats) st = {0};
    const attn_view *q = &p->args->q;

    for (int64_t c = 0; c < p->dk; c++)
        x->q[c] = (REF_REAL)ref_load(ref_at(q, at->qb, at->h, p->seq.q_first + at->i, c), q->type);
    find_allowed(p, at);
    REF_NAME(logits)(p, at, x, &st);
    count_keys(p, at);
    if (at->has_sink) {
        st.has_sink = 1;
        st.sink = (REF_REAL)at->sink;
    }
    if (p->args->start && !at->absent) {
        st.start = (REF_REAL)record_value(&p->args->start->sum, at, 0);
        st.has_start = !(st.start == 0);
    }
    REF_NAME(weigh)(p, at, x, &st);
    if (at->n == 0 && !st.has_start) {
        empty_row(p, at);
        return;
    }
    if (st.nan || st.dead) {
        broken_row(p, at, st.nan || !(st.has_sink || st.has_start));
        return;
    }
    for (int64_t c = 0; c < p->r->dv; c++) {
        x->acc[c] = 0;
        x->err[c] = x->mag[c] = 0;
        x->state[c] = 0;
    }
    REF_NAME(values)(p, at, x, &st);
    REF_NAME(finish)(p, at, x, &st);
    REF_NAME(weights)(p, at, x, &st);
}

/* Reads keys and values of one key head. */
static void REF_NAME(load)(const problem *p, int64_t hk, REF_NAME(rows) * x)
{
    const attn_view *k = &p->args->k, *v = &p->args->v;
    const seq *s = &p->seq;

    for (int64_t j = s->k_start; j < s->k_start + s->k_count; j++) {
        x->k_size[j] = 0;
        for (int64_t c = 0; c < p->dk; c++) {
            double value = ref_load(ref_at(k, s->kb, hk, s->k_first + j, c), k->type);

            x->k[j * p->dk + c] = (REF_REAL)value;
            x->k_size[j] += fabs(value);
        }
        for (int64_t c = 0; c < p->r->dv; c++)
            x->v[j * p->r->dv + c] =
                (REF_REAL)ref_load(ref_at(v, s->kb, hk, s->k_first + j, c), v->type);
    }
}

static void REF_NAME(run)(problem *p)
{
    const attn_forward_args *args = p->args;
    size_t tk = (size_t)p->longest_k + 1, dk = (size_t)p->dk, dv = (size_t)p->r->dv;
    REF_NAME(rows)
    x = {
        .k = get(tk * dk * sizeof *x.k),
        .v = get(tk * dv * sizeof *x.v),
        .q = get(dk * sizeof *x.q),
        .k_size = get(tk * sizeof *x.k_size),
        .t = get(tk * sizeof *x.t),
        .w = get(tk * sizeof *x.w),
        .e = get(tk * sizeof *x.e),
        .acc = get(dv * sizeof *x.acc),
        .err = get(dv * sizeof *x.err),
        .mag = get(dv * sizeof *x.mag),
        .state = get(dv * sizeof *x.state),
    };
    int64_t group = args->k.size[1] > 0 ? args->q.size[1] / args->k.size[1] : 1;

    for (int64_t b = 0; b < p->sequences; b++) {
        find_sequence(p, b);
        for (int64_t h = 0; h < args->q.size[1]; h++) {
            if (h % group == 0)
                REF_NAME(load)(p, h / group, &x);
            for (int64_t i = 0; i < p->seq.tq; i++) {
                row_place at = find_row(p, b, h, i);

                REF_NAME(row)(p, &at, &x);
            }
        }
    }
    free(x.k);
    free(x.v);
    free(x.q);
    free(x.k_size);
    free(x.t);
    free(x.w);
    free(x.e);
    free(x.acc);
    free(x.err);
    free(x.mag);
    free(x.state);
}
