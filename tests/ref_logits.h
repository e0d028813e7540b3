/* ref_logits.h: the logits of one query row of the reference, for one arithmetic type: up to the
 * weights before normalisation and what is known of their errors. Included where REF_REAL (float,
 * double, long double), its functions REF_EXP and so on, and REF_NAME(x) (its names) are defined.
 * No tiles and no running maxima here: the row's logits stand in one array and every sum runs over
 * it from first to last. */

/* Keys and values of one key head in this arithmetic, and room for one row. */
typedef struct REF_NAME(rows) {
    REF_REAL *k, *v, *q; /* [tk][dk], [tk][dv], [dk] */
    double *k_size;      /* [tk]: sum of |k| */
    REF_REAL *s, *raw;   /* [tk]: logits after softcap; before the tile function */
    REF_REAL *t, *w;     /* [tk]: logits, e^(t - m) */
    double *e;           /* [tk]: error of a logit beyond that of the dot product */
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

/* t before the tile function, and in x->s what it is made of. The error terms are those of
 * docs/numerics.md. */
static REF_REAL REF_NAME(logit)(const problem *p, const row_place *at, int64_t j,
                                REF_NAME(rows) * x, REF_NAME(stats) * st, double *error)
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
    x->s[j] = s;
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
        int64_t distance = at->pos_q - ref_key_position(p, j);
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
    attn_tile tile = ref_row_tile(p, at);

    for (int64_t j = first; j < first + n; j++)
        if (p->allowed[j])
            x->raw[j] = x->t[j] = REF_NAME(logit)(p, at, j, x, st, &x->e[j]);
    if (!p->mask->tile || n == 0)
        return;
    for (int64_t j = first; j < first + n; j++)
        p->tile[j] = p->allowed[j] ? (double)x->t[j] : 0;
    p->mask->tile(p->mask->tile_user, &tile);
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
        record_max = (REF_REAL)ref_record_value(&p->args->start->max, at, 0);
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

/* All of the above for one row: sets *st and at->n. */
static void REF_NAME(scores)(const problem *p, row_place *at, REF_NAME(rows) * x,
                             REF_NAME(stats) * st)
{
    const attn_view *q = &p->args->q;

    memset(st, 0, sizeof *st);
    for (int64_t c = 0; c < p->dk; c++)
        x->q[c] = (REF_REAL)ref_load(ref_at(q, at->qb, at->h, at->q_row, c), q->type);
    ref_find_allowed(p, at);
    REF_NAME(logits)(p, at, x, st);
    ref_count_keys(p, at);
    if (at->has_sink) {
        st->has_sink = 1;
        st->sink = (REF_REAL)at->sink;
    }
    if (p->args->start && !at->absent) {
        st->start = (REF_REAL)ref_record_value(&p->args->start->sum, at, 0);
        st->has_start = !(st->start == 0);
    }
    REF_NAME(weigh)(p, at, x, st);
}

static REF_NAME(rows) REF_NAME(rows_make)(const problem *p)
{
    size_t tk = (size_t)p->longest_k + 1, dk = (size_t)p->dk, dv = (size_t)p->r->dv;
    REF_NAME(rows)
    x = {
        .k = ref_get(tk * dk * sizeof *x.k),
        .v = ref_get(tk * dv * sizeof *x.v),
        .q = ref_get(dk * sizeof *x.q),
        .k_size = ref_get(tk * sizeof *x.k_size),
        .s = ref_get(tk * sizeof *x.s),
        .raw = ref_get(tk * sizeof *x.raw),
        .t = ref_get(tk * sizeof *x.t),
        .w = ref_get(tk * sizeof *x.w),
        .e = ref_get(tk * sizeof *x.e),
    };

    return x;
}

static void REF_NAME(rows_free)(REF_NAME(rows) * x)
{
    free(x->k);
    free(x->v);
    free(x->q);
    free(x->k_size);
    free(x->s);
    free(x->raw);
    free(x->t);
    free(x->w);
    free(x->e);
}
