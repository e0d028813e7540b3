/* ref_stats.c: see ref_stats.h. */
#include "tests/ref_stats.h"
#include "tests/ref_problem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REF_REAL long double
#define REF_NAME(x) wide_##x
#define REF_EXP expl
#define REF_LOG logl
#define REF_TANH tanhl
#define REF_SQRT sqrtl
#include "tests/ref_logits.h"

/* --- All cells ------------------------------------------------------------------------------ */

static size_t cell_at(const ref_stats *s, int64_t b, int64_t h, int64_t i, int64_t j)
{
    return (size_t)(((b * s->heads + h) * s->tq + i) * s->tk + j);
}

/* The three logits of one attended cell. */
static void fill_cell(const problem *p, const wide_rows *x, const wide_stats *st, ref_stats *s,
                      size_t at, int64_t j)
{
    double size, cap = p->args->softcap;
    long double scale = p->args->has_scale ? (long double)p->args->scale
                                           : 1 / sqrtl((long double)p->args->q.size[3]);
    long double raw = scale * wide_dot(x->q, x->k + j * p->dk, p->dk, &size);
    double own = cap > 0 ? 8 * p->u * fabs((double)x->s[j]) : 0, error = st->dot_error;

    if (!isfinite((double)raw) || !isfinite((double)x->t[j])) /* NaN or infinity of some kind */
        error = own = (double)NAN;
    s->logit[0][at] = (double)raw;
    s->logit[1][at] = (double)x->s[j];
    s->logit[2][at] = (double)x->t[j];
    s->logit_bound[0][at] = error + 2 * p->u * fabs((double)raw);
    s->logit_bound[1][at] = error + own + 2 * p->u * fabs((double)x->s[j]);
    s->logit_bound[2][at] = error + x->e[j] + 2 * p->u * fabs((double)x->t[j]);
}

static void fill_sequence(problem *p, ref_stats *s, wide_rows *x, int64_t b)
{
    ref_find_sequence(p, b);
    s->q_pos[b] = p->seq.q_pos;
    s->k_pos[b] = p->seq.k_pos;
    s->k_start[b] = p->seq.k_start;
    s->k_count[b] = p->seq.k_count;
    s->rows[b] = p->seq.tq;
    s->columns[b] = p->seq.tk;
    for (int64_t h = 0; h < s->heads; h++) {
        if (h % p->group == 0)
            wide_load(p, h / p->group, x);
        for (int64_t i = 0; i < p->seq.tq; i++) {
            row_place at = ref_find_row(p, b, h, i);
            wide_stats st;

            wide_scores(p, &at, x, &st);
            for (int64_t j = 0; j < p->seq.tk; j++)
                if (p->allowed[j]) {
                    s->allowed[cell_at(s, b, h, i, j)] = 1;
                    fill_cell(p, x, &st, s, cell_at(s, b, h, i, j), j);
                }
        }
    }
}

/* Lengths of the longest sequence. */
static void find_longest(const attn_forward_args *args, ref_stats *s)
{
    const attn_mask *m = args->mask;

    s->tk = args->k.size[2];
    s->tq = args->q.size[2];
    if (!m || m->segments == 0)
        return;
    s->tq = s->tk = 0;
    for (int64_t b = 0; b < m->segments; b++) {
        int64_t rows = m->q_starts[b + 1] - m->q_starts[b];
        int64_t keys = m->k_starts[b + 1] - m->k_starts[b];

        s->tq = rows > s->tq ? rows : s->tq;
        s->tk = keys > s->tk ? keys : s->tk;
    }
}

void ref_stats_make(const attn_forward_args *args, const ref_options *options, ref_stats *s)
{
    static double nothing;
    attn_forward_args all = *args;
    problem p;
    wide_rows x;
    size_t cells;
    ref scratch;

    memset(s, 0, sizeof *s);
    all.partial = NULL;
    all.weights_head = 0;
    s->heads = args->q.size[1];
    s->sequences = args->mask && args->mask->segments > 0 ? args->mask->segments : args->q.size[0];
    find_longest(args, s);
    all.weights = (attn_view){.data = &nothing, .type = ATTN_F64};
    all.weights.size[0] = s->sequences;
    all.weights.size[1] = s->heads;
    all.weights.size[2] = s->tq;
    all.weights.size[3] = s->tk;
    ref_forward_with(&all, options, &s->r);

    cells = (size_t)(s->sequences * s->heads * s->tq * s->tk);
    s->allowed = ref_get(cells);
    for (int kind = 0; kind < 3; kind++) {
        s->logit[kind] = ref_get(cells * sizeof(double));
        s->logit_bound[kind] = ref_get(cells * sizeof(double));
        for (size_t i = 0; i < cells; i++)
            s->logit[kind][i] = -HUGE_VAL;
    }
    int64_t **list[] = {&s->q_pos, &s->k_pos, &s->k_start, &s->k_count, &s->rows, &s->columns};
    for (int i = 0; i < 6; i++)
        *list[i] = ref_get((size_t)s->sequences * sizeof(int64_t));

    ref_make_result(&all, &scratch);
    p = ref_problem(&all, options, &scratch);
    x = wide_rows_make(&p);
    for (int64_t b = 0; b < s->sequences; b++)
        fill_sequence(&p, s, &x, b);
    wide_rows_free(&x);
    ref_problem_free(&p);
    ref_free(&scratch);
}

void ref_stats_free(ref_stats *s)
{
    ref_free(&s->r);
    free(s->allowed);
    for (int kind = 0; kind < 3; kind++) {
        free(s->logit[kind]);
        free(s->logit_bound[kind]);
    }
    free(s->q_pos);
    free(s->k_pos);
    free(s->k_start);
    free(s->k_count);
    free(s->rows);
    free(s->columns);
}

int64_t ref_index(const attn_view *v, int64_t b, int64_t h, int64_t i, int64_t j)
{
    int64_t wide;
    int32_t narrow;

    /* ref_at knows sizes of elements through attn_type_size */
    if (v->type == ATTN_I64) {
        memcpy(&wide, ref_at(v, b, h, i, j), sizeof wide);
        return wide;
    }
    memcpy(&narrow, ref_at(v, b, h, i, j), sizeof narrow);
    return narrow;
}

/* --- Sums ----------------------------------------------------------------------------------- */

typedef struct sum {
    long double want, size;
    double bound, largest, largest_bound;
    int open, nan;
    int64_t count;
} sum;

/* One comparison's surroundings. */
typedef struct check {
    const attn_forward_args *args;
    const attn_stats *ask;
    const ref_stats *s;
    double u, *ratio;
    char *why;
    size_t n;
    int bad;
    int64_t b, h, i; /* sequence, head, row */
    int64_t vb, row; /* batch and row in views "as lse" */
    const double *p, *p_bound;
    const unsigned char *allowed;
} check;

static void add(sum *x, double p, double bound, double factor)
{
    double size = fabs(p * factor);

    x->count++;
    x->open |= isnan(bound);
    x->nan |= isnan(p);
    if (isnan(p) || isnan(bound))
        return;
    x->want += (long double)p * (long double)factor;
    x->size += (long double)size;
    x->bound += bound * fabs(factor);
    if (p > x->largest)
        x->largest = p;
    if (bound > x->largest_bound)
        x->largest_bound = bound;
}

/* `rounding`: what storing the number may add, of which the ratio knows nothing. */
static void expect(check *c, const char *name, double got, double want, double bound,
                   double rounding)
{
    if (!ref_check(got, want, bound, rounding, c->ratio))
        return;
    if (c->bad++ == 0)
        snprintf(c->why, c->n, "%s of (%lld, %lld, %lld) is %.9g, reference %.9g, bound %.3g", name,
                 (long long)c->b, (long long)c->h, (long long)c->i, got, want, bound);
}

/* What a sum in double of the weights, with `roundings` of it in the call's own type and `stores`
 * in that of the view, may be. In f64 calls a sum of n terms adds n roundings of its own. */
static void expect_sum(check *c, const char *name, const attn_view *v, double got, const sum *x,
                       double roundings, double stores)
{
    double unit = v->type == ATTN_F64 ? 0x1p-53 : 0x1p-24;
    double want = x->nan ? (double)NAN : (double)x->want;
    double chain = c->u == 0x1p-53 ? (double)x->count : 0, stored = 0;
    double bound = x->bound + (roundings + chain) * c->u * (double)x->size;

    if (x->size > 0)
        stored = stores * (unit * (double)x->size + (v->type == ATTN_F64 ? 0x1p-1074 : 0x1p-149));
    expect(c, name, got, want, x->open ? (double)NAN : x->nan ? 0 : bound, x->nan ? 0 : stored);
}

static int present(const attn_view *v)
{
    return v->data != NULL;
}

static double get(const attn_view *v, int64_t b, int64_t h, int64_t i, int64_t j)
{
    return ref_load(ref_at(v, b, h, i, j), v->type);
}

/* Half a unit of a half type, or a unit of f32, at values up to `size`. */
static double storage(attn_type type, double size)
{
    double unit = type == ATTN_F16 ? 0x1p-11 : type == ATTN_BF16 ? 0x1p-8 : 0x1p-24;
    double least = type == ATTN_F16 ? 0x1p-25 : type == ATTN_BF16 ? 0x1p-134 : 0x1p-150;

    return type == ATTN_F64 || !isfinite(size) ? 0 : unit * size + least;
}

/* --- Rows ----------------------------------------------------------------------------------- */

static sum row_sum(const check *c)
{
    sum x = {0};

    for (int64_t j = 0; j < c->s->tk; j++)
        if (c->allowed[j])
            add(&x, c->p[j], c->p_bound[j], 1);
    return x;
}

/* docs/statistics.md: sum_j B_j (15 + |ln P_j| + 2 H) + 4 u (1 + H) */
static void check_entropy(check *c)
{
    const attn_view *v = &c->ask->entropy;
    sum all = row_sum(c);
    long double h = 0;
    double bound = 0, unit = v->type == ATTN_F64 ? 0x1p-53 : 0x1p-24;

    if (!present(v))
        return;
    for (int64_t j = 0; j < c->s->tk && !all.nan; j++)
        if (c->allowed[j] && c->p[j] > 0)
            h -= (long double)c->p[j] * logl((long double)c->p[j]);
    for (int64_t j = 0; j < c->s->tk && !all.nan; j++)
        if (c->allowed[j])
            bound += c->p_bound[j] * (15 + (c->p[j] > 0 ? -log(c->p[j]) : 0) + 2 * (double)h);
    if (all.count > 0)
        bound += 4 * c->u * (1 + (double)h);
    expect(c, "entropy", get(v, c->vb, c->h, c->row, 0), all.nan ? (double)NAN : (double)h,
           all.open  ? (double)NAN
           : all.nan ? 0
                     : bound,
           all.nan ? 0 : unit * (double)h);
}

static void check_peak(check *c)
{
    sum all = row_sum(c);
    const attn_view *v = &c->ask->peak, *k = &c->ask->peak_key;
    double bound = all.open ? (double)NAN : all.nan ? 0 : all.largest_bound;

    if (present(v))
        expect(c, "peak", get(v, c->vb, c->h, c->row, 0), all.nan ? (double)NAN : all.largest,
               bound, all.nan ? 0 : storage(v->type, all.largest));
    if (present(k) && !all.open) {
        int64_t j = ref_index(k, c->vb, c->h, c->row, 0);
        int none = all.count == 0 || all.nan;

        if (none || j < 0 || j >= c->s->tk || !c->allowed[j])
            expect(c, "peak_key", (double)j, -1, none ? 0 : 2.0 * (all.largest == 0), 0);
        else
            expect(c, "weight of peak_key", c->p[j], all.largest, c->p_bound[j] + bound, 0);
    }
}

/* The listed keys are different, attended, in order, none left out that weighs more. */
static void check_top(check *c)
{
    const attn_view *w = &c->ask->top_weight, *k = &c->ask->top_key;
    const attn_view *v = present(k) ? k : w;
    int64_t n = v->size[3];
    unsigned char *listed = ref_get((size_t)c->s->tk + 1);
    sum all = row_sum(c);
    double last = HUGE_VAL, last_bound = 0;

    for (int64_t t = 0; t < n && present(v) && !all.open; t++) {
        double got = present(w) ? get(w, c->vb, c->h, c->row, t) : 0;
        int64_t j = present(k) ? ref_index(k, c->vb, c->h, c->row, t) : -1;

        if (all.nan || t >= all.count) {
            if (present(w))
                expect(c, "top_weight", got, all.nan ? (double)NAN : 0, 0, 0);
            if (present(k))
                expect(c, "top_key", (double)j, -1, 0, 0);
            continue;
        }
        if (!present(k))
            continue;
        if (j < 0 || j >= c->s->tk || !c->allowed[j] || listed[j]) {
            expect(c, "top_key listed twice or not attended", (double)j, -2, 0, 0);
            continue;
        }
        listed[j] = 1;
        if (present(w))
            expect(c, "top_weight", got, c->p[j], c->p_bound[j], storage(w->type, c->p[j]));
        if (c->p[j] > last + last_bound + c->p_bound[j])
            expect(c, "top_weight out of order", c->p[j], last, 0, 0);
        last = c->p[j];
        last_bound = c->p_bound[j];
    }
    for (int64_t j = 0; j < c->s->tk && present(k) && !all.open && !all.nan; j++)
        if (c->allowed[j] && !listed[j] && c->p[j] - c->p_bound[j] > last + last_bound)
            expect(c, "top_key leaves out a larger weight", last, c->p[j], 0, 0);
    free(listed);
}

static int64_t class_of(const check *c, int64_t j)
{
    const attn_view *v = &c->ask->key_class;

    return *(const unsigned char *)ref_at(v, c->b, c->h, 0, j);
}

static int64_t behind(const check *c, int64_t j)
{
    return c->s->q_pos[c->b] + c->i - (c->s->k_pos[c->b] + j - c->s->k_start[c->b]);
}

static void check_masses(check *c)
{
    const attn_stats *a = c->ask;
    sum distance = {0}, first = {0}, previous = {0};

    for (int64_t j = 0; j < c->s->tk; j++) {
        int64_t d = behind(c, j);

        if (!c->allowed[j])
            continue;
        add(&distance, c->p[j], c->p_bound[j], fabs((double)d));
        if (isnan(c->p[j]) && d == 0) /* NaN times 0 */
            distance.nan = 1;
        if (j == c->s->k_start[c->b])
            add(&first, c->p[j], c->p_bound[j], 1);
        if (d == 1)
            add(&previous, c->p[j], c->p_bound[j], 1);
    }
    if (present(&a->distance))
        expect_sum(c, "distance", &a->distance, get(&a->distance, c->vb, c->h, c->row, 0),
                   &distance, 12, 1);
    if (present(&a->first_mass))
        expect_sum(c, "first_mass", &a->first_mass, get(&a->first_mass, c->vb, c->h, c->row, 0),
                   &first, 0, 1);
    if (present(&a->previous_mass))
        expect_sum(c, "previous_mass", &a->previous_mass,
                   get(&a->previous_mass, c->vb, c->h, c->row, 0), &previous, 0, 1);
    for (int64_t t = 0; present(&a->class_mass) && t < a->class_mass.size[3]; t++) {
        sum x = {0};

        for (int64_t j = 0; j < c->s->tk; j++)
            if (c->allowed[j] && class_of(c, j) == t)
                add(&x, c->p[j], c->p_bound[j], 1);
        expect_sum(c, "class_mass", &a->class_mass, get(&a->class_mass, c->vb, c->h, c->row, t), &x,
                   0, 1);
    }
}

static void check_cells(check *c)
{
    const attn_stats *a = c->ask;
    const attn_view *logits[] = {&a->raw_logits, &a->capped_logits, &a->logits};
    static const char *const name[] = {"raw_logits", "capped_logits", "logits"};
    size_t at = cell_at(c->s, c->b, c->h, c->i, 0);

    for (int64_t r = 0; present(&a->row_weights) && r < a->row_count; r++)
        for (int64_t j = 0; a->rows[r] == c->i && j < c->s->tk; j++) {
            double p = c->p[j], b = c->p_bound[j];

            expect(c, "row_weights", get(&a->row_weights, c->b, c->h, r, j), p, b,
                   b == 0 ? 0 : storage(a->row_weights.type, p));
        }
    for (int kind = 0; kind < 3; kind++) {
        const attn_view *v = logits[kind];
        int64_t h = c->h - a->logits_head;

        for (int64_t j = 0; present(v) && h >= 0 && h < v->size[1] && j < c->s->tk; j++) {
            double want = c->s->logit[kind][at + (size_t)j];
            double limit = v->type == ATTN_F16 ? 65504 : v->type == ATTN_F64 ? HUGE_VAL : 3e38;
            double bound = c->s->logit_bound[kind][at + (size_t)j];

            if (isfinite(want) && fabs(want) > limit)
                bound = (double)NAN;
            expect(c, name[kind], get(v, c->b, h, c->i, j), want, bound,
                   bound == 0 ? 0 : storage(v->type, fabs(want)));
        }
    }
}

/* --- Over rows ------------------------------------------------------------------------------ */

static const double *weights_of(const check *c, int64_t i, const double *base)
{
    return base + cell_at(c->s, c->b, c->h, i, 0);
}

/* Whether number n of `all` falls into part k of `parts` of a map, or into its block k. */
static int falls(int64_t n, int64_t all, int64_t k, int64_t parts, int64_t block, int64_t first)
{
    if (block == 0)
        return n * parts / all == k;
    return n >= first + k * block && n < first + (k + 1) * block;
}

/* Sums of the cells of map cell (r, k), or of distance bucket (r = -1) k. */
static sum sum_cells(const check *c, int64_t r, int64_t k)
{
    const attn_stats *a = c->ask;
    const attn_view *m = present(&a->map_count) ? &a->map_count
                         : present(&a->map_sum) ? &a->map_sum
                                                : &a->map_max;
    int64_t rows = c->s->rows[c->b], columns = c->s->columns[c->b];
    sum x = {0};
    check at = *c;

    for (at.i = 0; at.i < rows; at.i++) {
        const double *p = weights_of(c, at.i, c->s->r.weights);
        const double *bound = weights_of(c, at.i, c->s->r.bound_weights);
        const unsigned char *allowed = c->s->allowed + cell_at(c->s, c->b, c->h, at.i, 0);

        if (r >= 0 && !falls(at.i, rows, r, m->size[2], a->map_query_block, a->map_first_query))
            continue;
        for (int64_t j = 0; j < columns; j++) {
            int64_t d = behind(&at, j);

            if (!allowed[j])
                continue;
            if (r >= 0 ? falls(j, columns, k, m->size[3], a->map_key_block, a->map_first_key)
                       : d >= a->distance_edges[k] && d < a->distance_edges[k + 1])
                add(&x, p[j], bound[j], 1);
        }
    }
    return x;
}

static double weight_of_row(const check *c, int64_t i)
{
    const attn_view *v = &c->ask->query_weight;

    return present(v) ? get(v, c->b, c->h, i, 0) : 1;
}

static void check_keys(check *c, double chunks)
{
    const attn_stats *a = c->ask;

    for (int64_t j = 0; present(&a->key_mass) && j < c->s->tk; j++) {
        sum x = {0};

        for (int64_t i = 0; i < c->s->rows[c->b]; i++)
            if (c->s->allowed[cell_at(c->s, c->b, c->h, i, j)])
                add(&x, weights_of(c, i, c->s->r.weights)[j],
                    weights_of(c, i, c->s->r.bound_weights)[j], weight_of_row(c, i));
        c->i = j;
        expect_sum(c, "key_mass", &a->key_mass, get(&a->key_mass, c->b, c->h, 0, j), &x, 0, chunks);
    }
    for (int64_t t = 0; present(&a->distance_mass) && t < a->distance_mass.size[3]; t++) {
        sum x = sum_cells(c, -1, t);

        c->i = t;
        expect_sum(c, "distance_mass", &a->distance_mass, get(&a->distance_mass, c->b, c->h, 0, t),
                   &x, 8, chunks);
    }
}

static void check_map_cell(check *c, int64_t r, int64_t k, double chunks)
{
    const attn_stats *a = c->ask;
    sum x = sum_cells(c, r, k), mean = x;
    double n = x.count > 0 ? (double)x.count : 1;

    c->i = r * 100000 + k;
    mean.want /= (long double)n;
    mean.size /= (long double)n;
    mean.bound /= n;
    if (present(&a->map_sum))
        expect_sum(c, "map_sum", &a->map_sum, get(&a->map_sum, c->b, c->h, r, k), &x, 0, chunks);
    if (present(&a->map_mean))
        expect_sum(c, "map_mean", &a->map_mean, get(&a->map_mean, c->b, c->h, r, k), &mean, 0,
                   chunks + 1);
    if (present(&a->map_max))
        expect(c, "map_max", get(&a->map_max, c->b, c->h, r, k), x.nan ? (double)NAN : x.largest,
               x.open  ? (double)NAN
               : x.nan ? 0
                       : x.largest_bound,
               x.nan ? 0 : storage(a->map_max.type, x.largest));
    if (present(&a->map_count))
        expect(c, "map_count", (double)ref_index(&a->map_count, c->b, c->h, r, k), (double)x.count,
               0, 0);
}

static void check_head(check *c)
{
    const attn_stats *a = c->ask;
    const attn_view *maps[] = {&a->map_sum, &a->map_mean, &a->map_max, &a->map_count};
    const attn_view *m = NULL;
    const attn_mask *mask = c->args->mask;
    int64_t rows = c->s->rows[c->b], first = 0;
    double chunks = (double)(rows / 504 + 2);

    if (mask && mask->segments > 0)
        first = mask->q_starts[c->b];
    c->vb = mask && mask->segments > 0 ? 0 : c->b;
    for (c->i = 0; c->i < rows; c->i++) {
        c->row = first + c->i;
        c->p = weights_of(c, c->i, c->s->r.weights);
        c->p_bound = weights_of(c, c->i, c->s->r.bound_weights);
        c->allowed = c->s->allowed + cell_at(c->s, c->b, c->h, c->i, 0);
        check_entropy(c);
        check_peak(c);
        check_top(c);
        check_masses(c);
        check_cells(c);
    }
    check_keys(c, chunks);
    for (int i = 0; i < 4; i++)
        m = present(maps[i]) ? maps[i] : m;
    for (int64_t r = 0; m && r < m->size[2]; r++)
        for (int64_t k = 0; k < m->size[3]; k++)
            check_map_cell(c, r, k, chunks);
}

int ref_stats_compare(const attn_forward_args *args, const ref_stats *s, double *ratio, char *why,
                      size_t n)
{
    check c = {.args = args, .ask = args->stats, .s = s, .ratio = ratio, .why = why, .n = n};

    c.u = s->r.f64 ? 0x1p-53 : 0x1p-24;
    for (c.b = 0; c.b < s->sequences; c.b++)
        for (c.h = 0; c.h < s->heads; c.h++)
            check_head(&c);
    return c.bad;
}
