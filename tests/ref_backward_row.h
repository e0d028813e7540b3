/* ref_backward_row.h: gradients of one query row of the reference, for one arithmetic type.
 * Included by ref_backward.c with the definitions that ref_logits.h wants. */
#include "tests/ref_logits.h"

/* Sums of products, [rows][width], with what is needed to bound their error. */
typedef struct REF_NAME(sums) {
    int64_t width;
    REF_REAL *value;
    double *error;  /* of the terms */
    double *size;   /* sum of |terms| */
    int *state;     /* SUM_... */
    int64_t *terms; /* [rows] */
} REF_NAME(sums);

static REF_NAME(sums) REF_NAME(sums_make)(int64_t rows, int64_t width)
{
    size_t n = (size_t)(rows * width);
    REF_NAME(sums)
    s = {
        .width = width,
        .value = ref_get(n * sizeof *s.value),
        .error = ref_get(n * sizeof *s.error),
        .size = ref_get(n * sizeof *s.size),
        .state = ref_get(n * sizeof *s.state),
        .terms = ref_get((size_t)rows * sizeof *s.terms),
    };

    return s;
}

static void REF_NAME(sums_free)(REF_NAME(sums) * s)
{
    free(s->value);
    free(s->error);
    free(s->size);
    free(s->state);
    free(s->terms);
}

static void REF_NAME(sums_clear)(REF_NAME(sums) * s, int64_t rows)
{
    size_t n = (size_t)(rows * s->width);

    memset(s->value, 0, n * sizeof *s->value);
    memset(s->error, 0, n * sizeof *s->error);
    memset(s->size, 0, n * sizeof *s->size);
    memset(s->state, 0, n * sizeof *s->state);
    memset(s->terms, 0, (size_t)rows * sizeof *s->terms);
}

/* A factor and its error; `floor` is an error of the products whatever the other factor. */
typedef struct REF_NAME(factor) {
    REF_REAL value;
    double error, floor;
} REF_NAME(factor);

/* row += f * v. What is not finite in v makes its column so, be the factor 0. */
static void REF_NAME(sums_add)(REF_NAME(sums) * s, int64_t row, const REF_NAME(factor) * f,
                               const REF_REAL *v)
{
    int64_t at = row * s->width;

    s->terms[row]++;
    for (int64_t c = 0; c < s->width; c++) {
        double size = fabs((double)v[c]);
        REF_REAL product = f->value * v[c];

        if (!isfinite(size)) {
            s->state[at + c] |= SUM_WILD;
            continue;
        }
        s->value[at + c] += product;
        s->error[at + c] += f->error * size + f->floor;
        s->size[at + c] += fabs((double)product);
    }
}

static void REF_NAME(sums_mark)(REF_NAME(sums) * s, int64_t row, int state)
{
    s->terms[row]++;
    for (int64_t c = 0; c < s->width; c++)
        s->state[row * s->width + c] |= state;
}

/* Writes one row. `chain`: roundings of the sum, per unit of its terms' sizes; its terms are
 * exactly +0 if there are none. */
static void REF_NAME(sums_write)(const problem *p, const REF_NAME(sums) * s, int64_t row,
                                 double chain, const ref_array *to, int64_t to_row)
{
    for (int64_t c = 0; c < s->width; c++) {
        int64_t at = row * s->width + c;
        double *want = &to->want[to_row * s->width + c], *bound = &to->bound[to_row * s->width + c];

        if (s->terms[row] == 0)
            continue;
        *want = (double)s->value[at];
        *bound = s->error[at] + chain * p->u * s->size[at] + 2 * p->u * fabs(*want) +
                 p->denormal * p->options.denormals * (double)(s->terms[row] + 1);
        sum_special(s->state[at], want, bound);
    }
}

/* What one call needs. Sums of dk and dv are those of one key head. */
typedef struct REF_NAME(work) {
    REF_NAME(rows) x;
    REF_REAL *g;    /* [dv]: dout of the row */
    double *factor; /* [tk]: of the tile function's gradient */
    REF_NAME(sums) dq, dk, dv, dbias, dsink, dalibi;
    REF_REAL scale;
} REF_NAME(work);

/* What a row's keys share. */
typedef struct REF_NAME(shared) {
    REF_REAL sum, lse, less; /* of weights; less: delta - dlse */
    double lse_error, less_error;
    double logit_error; /* of the dot product */
} REF_NAME(shared);

/* One attended cell. */
typedef struct REF_NAME(cell) {
    REF_REAL p, dp, dt, ds;
    double p_error; /* relative */
    double keep;    /* 0 if dropped, else 1 / (1 - p) */
    double dt_error, ds_error;
    int open; /* the bound says nothing */
} REF_NAME(cell);

static void REF_NAME(cell_p)(const problem *p, const row_place *at, int64_t j,
                             const REF_NAME(work) * y, const REF_NAME(shared) * sh,
                             REF_NAME(cell) * cell)
{
    const REF_NAME(rows) *x = &y->x;
    double drop = p->args->dropout, far, error;

    cell->p = x->w[j] / sh->sum;
    far = fabs((double)(x->t[j] - sh->lse));
    if (cell->p > 0) {
        error = sh->logit_error + sh->lse_error + x->e[j] + p->u * (REF_DISTANCE * far + 6);
        cell->open = error > 80; /* may overflow */
        cell->p_error = error < 1e-3 ? error * (1 + error) : expm1(fmin(error, 80));
    }
    cell->keep = drop <= 0 ? 1 : ref_cell_dropped(p, at, j) ? 0 : 1 / (1 - drop);
}

static void REF_NAME(cell_dt)(const problem *p, int64_t j, const REF_NAME(work) * y,
                              const REF_NAME(shared) * sh, REF_NAME(cell) * cell)
{
    double size, dp_error, off, low = p->denormal * p->options.denormals, pr = (double)cell->p;
    double terms = (double)p->r->dv + 1;
    REF_REAL diff;

    cell->dp = (REF_REAL)cell->keep * REF_NAME(dot)(y->g, y->x.v + j * p->r->dv, p->r->dv, &size);
    dp_error = cell->keep * terms * (p->u * size + low) + 3 * p->u * fabs((double)cell->dp);
    diff = cell->dp - sh->less;
    off = fabs((double)diff);
    cell->dt = cell->p * diff;
    cell->dt_error = pr * (1 + cell->p_error) * (dp_error + sh->less_error + 3 * p->u * off) +
                     pr * cell->p_error * off + p->tiny * off + low;
}

/* Through the tile function and the softcap. */
static void REF_NAME(cell_ds)(const problem *p, int64_t j, const REF_NAME(work) * y,
                              const REF_NAME(shared) * sh, REF_NAME(cell) * cell)
{
    double low = p->denormal * p->options.denormals, size;
    double cap = p->args->softcap, s = fabs((double)y->x.s[j]), slope, slope_error;

    if (p->mask->tile) {
        size = fabs((double)cell->dt);
        cell->dt_error = fabs(y->factor[j]) * cell->dt_error + 8 * p->u * size + low +
                         fmin(sh->logit_error + y->x.e[j], 2) * size;
        cell->dt *= (REF_REAL)y->factor[j];
    }
    cell->ds = cell->dt;
    cell->ds_error = cell->dt_error;
    if (cap <= 0)
        return;
    slope = (1 - s / cap) * (1 + s / cap);
    slope_error = fmin(2 * s / (cap * cap) * (sh->logit_error + 8 * p->u * s) + 4 * p->u, 1);
    cell->ds *= 1 - (y->x.s[j] / (REF_REAL)cap) * (y->x.s[j] / (REF_REAL)cap);
    cell->ds_error = cell->dt_error * (slope + slope_error) + fabs((double)cell->dt) * slope_error +
                     p->u * fabs((double)cell->ds) + low;
}

/* What the cell adds to dq, dk, dv, dbias and dalibi. */
static void REF_NAME(cell_add)(const problem *p, const row_place *at, int64_t j, REF_NAME(work) * y,
                               const REF_NAME(cell) * cell)
{
    static const REF_REAL one[1] = {1};
    double low = p->denormal * p->options.denormals, scale = fabs((double)y->scale);
    double ds = fabs((double)cell->ds), pr = (double)cell->p * cell->keep;
    REF_REAL distance = (REF_REAL)(at->pos_q - ref_key_position(p, j));
    REF_NAME(factor)
    f = {y->scale * cell->ds, scale * cell->ds_error + 2 * p->u * scale * ds + low, low};

    REF_NAME(sums_add)(&y->dq, 0, &f, y->x.k + j * p->dk);
    f.floor = low * (1 + ds);
    REF_NAME(sums_add)(&y->dk, j, &f, y->x.q);
    if (cell->keep > 0) {
        f = (REF_NAME(factor)){cell->p * (REF_REAL)cell->keep,
                               pr * (cell->p_error + (p->args->dropout > 0 ? 3 * p->u : 0)) +
                                   p->tiny * cell->keep,
                               low};
        REF_NAME(sums_add)(&y->dv, j, &f, y->g);
    } else /* 0 times what is not finite: left open */
        for (int64_t c = 0; c < p->r->dv; c++)
            if (!isfinite((double)y->g[c]))
                y->dv.state[j * p->r->dv + c] |= SUM_OPEN;
    f = (REF_NAME(factor)){cell->dt, cell->dt_error, 0};
    if (y->dbias.value)
        REF_NAME(sums_add)(&y->dbias, bias_cell(p, at, j), &f, one);
    if (y->dalibi.value) {
        if (distance < 0)
            distance = -distance;
        f.value = -cell->dt * distance;
        f.error = (cell->dt_error + 2 * p->u * fabs((double)cell->dt)) * (double)distance;
        REF_NAME(sums_add)(&y->dalibi, head_cell(&p->mask->alibi, at), &f, one);
    }
}

/* Nothing of the row is an ordinary number: NaN, not finite, or open. */
static void REF_NAME(mark_row)(const problem *p, const row_place *at, REF_NAME(work) * y, int state)
{
    int far = 0;

    REF_NAME(sums_mark)(&y->dq, 0, state);
    for (int64_t j = 0; j < p->seq.tk; j++) {
        if (!p->allowed[j])
            continue;
        far |= at->pos_q != ref_key_position(p, j);
        REF_NAME(sums_mark)(&y->dk, j, state);
        if (y->dbias.value)
            REF_NAME(sums_mark)(&y->dbias, bias_cell(p, at, j), state);
    }
    if (y->dalibi.value)
        REF_NAME(sums_mark)
    (&y->dalibi, head_cell(&p->mask->alibi, at), far ? state : SUM_OPEN);
    if (y->dsink.value)
        REF_NAME(sums_mark)
    (&y->dsink, head_cell(&p->args->sink, at), at->has_sink ? state : SUM_OPEN);
}

/* dv alone, where P is what it should be, or NaN. */
static void REF_NAME(values_only)(const problem *p, const row_place *at, REF_NAME(work) * y,
                                  const REF_NAME(shared) * sh, int nan_state)
{
    for (int64_t j = 0; j < p->seq.tk; j++) {
        REF_NAME(cell) cell = {0};
        REF_NAME(factor) f;
        double pr;

        if (!p->allowed[j])
            continue;
        if (nan_state) {
            int dropped = p->args->dropout > 0 && ref_cell_dropped(p, at, j);

            REF_NAME(sums_mark)(&y->dv, j, dropped ? SUM_OPEN : nan_state);
            continue;
        }
        REF_NAME(cell_p)(p, at, j, y, sh, &cell);
        pr = (double)cell.p * cell.keep;
        f = (REF_NAME(factor)){cell.p * (REF_REAL)cell.keep,
                               pr * (cell.p_error + 3 * p->u) + p->tiny * cell.keep,
                               p->denormal * p->options.denormals};
        if (cell.open || cell.keep <= 0)
            for (int64_t c = 0; c < p->r->dv; c++)
                if (cell.open || !isfinite((double)y->g[c]))
                    y->dv.state[j * p->r->dv + c] |= SUM_OPEN;
        if (cell.keep > 0)
            REF_NAME(sums_add)(&y->dv, j, &f, y->g);
        else
            y->dv.terms[j]++;
    }
}

/* The sink's share, of rows with keys or none. */
static void REF_NAME(sink_add)(const problem *p, const row_place *at, REF_NAME(work) * y,
                               const REF_NAME(shared) * sh)
{
    static const REF_REAL one[1] = {1};
    double off = fabs((double)sh->less), error, w, spread;
    REF_NAME(factor) f = {0};

    if (!y->dsink.value || !at->has_sink)
        return;
    f.value = REF_EXP((REF_REAL)at->sink - sh->lse);
    w = (double)f.value;
    error =
        sh->lse_error + p->u * (REF_DISTANCE * fabs((double)((REF_REAL)at->sink - sh->lse)) + 6);
    spread = error < 1e-3 ? error * (1 + error) : expm1(fmin(error, 80));
    f.error = w * (1 + spread) * (sh->less_error + 3 * p->u * off) + w * spread * off +
              p->tiny * off + p->denormal;
    f.value *= -sh->less;
    REF_NAME(sums_add)(&y->dsink, head_cell(&p->args->sink, at), &f, one);
}

/* delta - dlse and their errors. Returns what the row is if they are not finite: where O is zeros,
 * what is not finite in dout may be noticed or not. */
static int REF_NAME(share)(const problem *p, const row_place *at, REF_NAME(work) * y,
                           const REF_NAME(stats) * st, const backward *w, REF_NAME(shared) * sh)
{
    double dlse = 0, *delta = &w->result->delta.want[at->row];
    double *bound = &w->result->delta.bound[at->row], low = p->denormal * p->options.denormals;
    REF_REAL sum = 0;
    int finite = 1, zeros = 1;

    if (has_view(&w->args->dlse))
        dlse = ref_load(ref_at(&w->args->dlse, at->qb, at->h, at->q_row, 0), w->args->dlse.type);
    sh->logit_error = st->dot_error;
    sh->less = -(REF_REAL)dlse;
    if (at->n == 0) {
        sh->lse = (REF_REAL)at->sink;
        sh->less_error = 2 * p->u * fabs(dlse);
        for (int64_t c = 0; c < p->r->dv; c++)
            finite &= isfinite((double)y->g[c]) != 0;
        *bound = finite ? low : (double)NAN;
        return isfinite(dlse) ? 0 : SUM_WILD;
    }
    sh->sum = st->sum;
    sh->lse = st->max + REF_LOG(st->sum);
    sh->lse_error = p->r->bound_lse[at->row] + w->lse_unit * fabs((double)sh->lse);
    for (int64_t j = 0; j < p->seq.tk; j++) {
        double size, drop = p->args->dropout;
        int dropped = drop > 0 && p->allowed[j] && ref_cell_dropped(p, at, j);
        REF_REAL part;

        if (!p->allowed[j])
            continue;
        part = REF_NAME(dot)(y->g, y->x.v + j * p->r->dv, p->r->dv, &size);
        finite &= isfinite(size) != 0;
        part = dropped ? 0 : part / (REF_REAL)(1 - drop);
        sum += y->x.w[j] / st->sum * part;
    }
    for (int64_t c = 0; c < p->r->dv; c++)
        zeros &= fabs(p->r->out[at->row * p->r->dv + c]) < 0x1p-100;
    if (!finite) {
        *delta = (double)NAN;
        *bound = zeros ? (double)NAN : HUGE_VAL;
        return zeros ? SUM_OPEN : SUM_WILD;
    }
    *delta = (double)sum;
    *bound = ((double)p->r->dv + 3) * low;
    for (int64_t c = 0; c < p->r->dv; c++) {
        double g = fabs((double)y->g[c]), out = fabs(p->r->out[at->row * p->r->dv + c]);

        *bound +=
            g * (p->r->bound_out[at->row * p->r->dv + c] + ((double)p->r->dv + 3) * p->u * out);
    }
    sh->less += sum;
    sh->less_error = *bound + w->delta_unit * fabs(*delta) + 2 * p->u * fabs(dlse);
    if (dlse != 0)
        sh->less_error += p->u * fabs((double)sh->less);
    return isfinite(dlse) ? 0 : SUM_WILD;
}

/* The factors of the tile function's gradient: what it makes of ones. */
static void REF_NAME(tile_factors)(const problem *p, const row_place *at, const backward *w,
                                   REF_NAME(work) * y)
{
    attn_tile tile = ref_row_tile(p, at);

    if (!p->mask->tile || p->seq.k_count == 0)
        return;
    for (int64_t j = p->seq.k_start; j < p->seq.k_start + p->seq.k_count; j++) {
        p->tile[j] = p->allowed[j] ? (double)y->x.raw[j] : 0;
        y->factor[j] = p->allowed[j];
    }
    w->args->tile_gradient(p->mask->tile_user, &tile, y->factor + p->seq.k_start);
}

static void REF_NAME(gradient_row)(const problem *p, row_place *at, const backward *w,
                                   REF_NAME(work) * y)
{
    REF_NAME(stats) st;
    REF_NAME(shared) sh = {0};
    double *delta = &w->result->delta.want[at->row], *bound = &w->result->delta.bound[at->row];
    int state;

    for (int64_t c = 0; c < p->r->dv; c++)
        y->g[c] = (REF_REAL)ref_load(ref_at(&w->args->dout, at->qb, at->h, at->q_row, c),
                                     w->args->dout.type);
    if (at->absent) { /* nothing of it is read */
        *bound = (double)NAN;
        return;
    }
    REF_NAME(scores)(p, at, &y->x, &st);
    if (at->n > 0 && (st.nan || st.dead)) {
        state = st.nan || !st.has_sink ? SUM_NAN : SUM_OPEN;
        *delta = *bound = (double)NAN;
        if (state == SUM_NAN)
            *bound = 0;
        REF_NAME(mark_row)(p, at, y, state);
        REF_NAME(values_only)(p, at, y, &sh, state);
        return;
    }
    state = REF_NAME(share)(p, at, y, &st, w, &sh);
    if (state) {
        if (at->n > 0) {
            REF_NAME(mark_row)(p, at, y, state);
            REF_NAME(values_only)(p, at, y, &sh, 0);
        } else if (y->dsink.value)
            REF_NAME(sums_mark)
        (&y->dsink, head_cell(&p->args->sink, at), at->has_sink ? state : SUM_OPEN);
        return;
    }
    REF_NAME(sink_add)(p, at, y, &sh);
    REF_NAME(tile_factors)(p, at, w, y);
    for (int64_t j = 0; j < p->seq.tk; j++) {
        REF_NAME(cell) cell = {0};

        if (!p->allowed[j])
            continue;
        REF_NAME(cell_p)(p, at, j, y, &sh, &cell);
        REF_NAME(cell_dt)(p, j, y, &sh, &cell);
        REF_NAME(cell_ds)(p, j, y, &sh, &cell);
        REF_NAME(cell_add)(p, at, j, y, &cell);
        if (cell.open) {
            REF_NAME(mark_row)(p, at, y, SUM_OPEN);
            REF_NAME(sums_mark)(&y->dv, j, SUM_OPEN);
        }
    }
}

/* Query heads of key head hk of the sequence at hand. */
static void REF_NAME(gradient_head)(const problem *p, int64_t b, int64_t hk, const backward *w,
                                    REF_NAME(work) * y)
{
    const ref_gradients *r = w->result;
    const seq *s = &p->seq;

    REF_NAME(load)(p, hk, &y->x);
    REF_NAME(sums_clear)(&y->dk, s->tk);
    REF_NAME(sums_clear)(&y->dv, s->tk);
    for (int64_t h = hk * p->group; h < (hk + 1) * p->group; h++)
        for (int64_t i = 0; i < s->tq; i++) {
            row_place at = ref_find_row(p, b, h, i);

            REF_NAME(sums_clear)(&y->dq, 1);
            REF_NAME(gradient_row)(p, &at, w, y);
            REF_NAME(sums_write)(p, &y->dq, 0, (double)y->dq.terms[0] + 12, &r->dq, at.row);
        }
    for (int64_t j = 0; j < s->tk; j++) {
        int64_t row = (s->kb * r->dk.size[1] + hk) * r->dk.size[2] + s->k_first + j;

        REF_NAME(sums_write)(p, &y->dk, j, (double)y->dk.terms[j] + 4, &r->dk, row);
        REF_NAME(sums_write)(p, &y->dv, j, (double)y->dv.terms[j] + 4, &r->dv, row);
    }
}

static void REF_NAME(write_all)(const problem *p, const REF_NAME(sums) * s, const ref_array *to,
                                double chain)
{
    for (int64_t row = 0; to->want && row < count_of(to); row++)
        REF_NAME(sums_write)
    (p, s, row, chain < 0 || p->r->f64 ? (double)s->terms[row] + 4 : chain, to, row);
}

static REF_NAME(sums) REF_NAME(cells)(const ref_array *for_these)
{
    REF_NAME(sums) none = {0};

    return for_these->want ? REF_NAME(sums_make)(count_of(for_these), 1) : none;
}

static void REF_NAME(gradients)(problem *p, const backward *w)
{
    const ref_gradients *r = w->result;
    int64_t tk = p->longest_k + 1;
    REF_NAME(work)
    y = {
        .x = REF_NAME(rows_make)(p),
        .g = ref_get((size_t)p->r->dv * sizeof *y.g),
        .factor = ref_get((size_t)tk * sizeof *y.factor),
        .dq = REF_NAME(sums_make)(1, p->dk),
        .dk = REF_NAME(sums_make)(tk, p->dk),
        .dv = REF_NAME(sums_make)(tk, p->r->dv),
        .dbias = REF_NAME(cells)(&r->dbias),
        .dsink = REF_NAME(cells)(&r->dsink),
        .dalibi = REF_NAME(cells)(&r->dalibi),
        .scale = p->args->has_scale ? (REF_REAL)p->args->scale : 1 / REF_SQRT((REF_REAL)p->dk),
    };

    for (int64_t b = 0; b < p->sequences; b++) {
        ref_find_sequence(p, b);
        for (int64_t hk = 0; hk < p->args->k.size[1]; hk++)
            REF_NAME(gradient_head)(p, b, hk, w, &y);
    }
    REF_NAME(write_all)(p, &y.dbias, &r->dbias, -1);
    REF_NAME(write_all)(p, &y.dsink, &r->dsink, 8);
    REF_NAME(write_all)(p, &y.dalibi, &r->dalibi, 8);
    REF_NAME(rows_free)(&y.x);
    free(y.g);
    free(y.factor);
    REF_NAME(sums_free)(&y.dq);
    REF_NAME(sums_free)(&y.dk);
    REF_NAME(sums_free)(&y.dv);
    REF_NAME(sums_free)(&y.dbias);
    REF_NAME(sums_free)(&y.dsink);
    REF_NAME(sums_free)(&y.dalibi);
}
