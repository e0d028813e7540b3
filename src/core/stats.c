/* stats.c: see stats.h. What does not depend on the kind of number; the sweep is stats_real.h. */
#include "src/core/stats.h"

#include "src/base/error.h"
#include "src/base/platform.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

enum {
    FEW_QUERIES = 16, /* rows up to which the heads of a key head share an item and its keys */
    MOST_CELLS = 1 << 15,
    BLOCK_SIZE = 1 << 19 /* bytes of queries that should stay in the L2 cache */
};

static const int64_t MOST_BLOCK = (int64_t)1 << 40; /* products with numbers of cells fit */

/* --- Checks --------------------------------------------------------------------------------- */

/* What a view holds, and its shape: [B, H, Tq, 1] as lse, the same with more columns, then [B, H]
 * with one row a key, with one row, with R x C, with the chosen rows, and [B, n, Tq, Tk]. */
enum kind { NUMBER, INDEX, WEIGHT };
enum shape { ROW, ROW_LIST, KEY, BUCKET, MAP, CHOSEN, CELL };

typedef struct field {
    const char *name;
    size_t at;
    enum kind kind;
    enum shape shape;
    bool first; /* of the first sweep */
} field;

#define FIELD(name, kind, shape, first)                                                            \
    {                                                                                              \
        "stats." #name, offsetof(attn_stats, name), kind, shape, first                             \
    }
static const field fields[] = {
    FIELD(entropy, NUMBER, ROW, true),          FIELD(peak, NUMBER, ROW, true),
    FIELD(peak_key, INDEX, ROW, true),          FIELD(distance, NUMBER, ROW, false),
    FIELD(first_mass, NUMBER, ROW, false),      FIELD(previous_mass, NUMBER, ROW, false),
    FIELD(class_mass, NUMBER, ROW_LIST, false), FIELD(top_weight, NUMBER, ROW_LIST, false),
    FIELD(top_key, INDEX, ROW_LIST, false),     FIELD(row_weights, WEIGHT, CHOSEN, false),
    FIELD(key_mass, NUMBER, KEY, false),        FIELD(distance_mass, NUMBER, BUCKET, false),
    FIELD(map_sum, NUMBER, MAP, false),         FIELD(map_mean, NUMBER, MAP, false),
    FIELD(map_max, NUMBER, MAP, false),         FIELD(map_count, INDEX, MAP, false),
    FIELD(raw_logits, WEIGHT, CELL, false),     FIELD(capped_logits, WEIGHT, CELL, false),
    FIELD(logits, WEIGHT, CELL, false),
};
enum { FIELDS = sizeof fields / sizeof *fields };
#undef FIELD

static const attn_view *view_of(const attn_stats *s, const field *f)
{
    return (const void *)((const char *)s + f->at);
}

static attn_status check_type(const field *f, const attn_view *view, attn_error *err)
{
    bool fits = f->kind == INDEX    ? view->type == ATTN_I32 || view->type == ATTN_I64
                : f->kind == WEIGHT ? attn__is_float(view->type)
                                    : view->type == ATTN_F32 || view->type == ATTN_F64;

    if (fits)
        return ATTN_OK;
    return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s: type %s, expected %s", f->name,
                      attn_type_name(view->type),
                      f->kind == INDEX    ? "i32 or i64"
                      : f->kind == WEIGHT ? "f32, f16, bf16 or f64"
                                          : "f32 or f64");
}

static attn_status check_shape(const attn__problem *p, const field *f, const attn_view *view,
                               attn_error *err)
{
    const attn_stats *s = &p->stats;
    const int64_t *q = p->args.q.size, *size = view->size;
    int64_t batch = (int64_t)p->sequences, heads = (int64_t)p->heads;

    switch (f->shape) {
    case ROW:
        return attn__check_size(view, f->name, q[0], heads, q[2], 1, err);
    case ROW_LIST:
        return attn__check_size(view, f->name, q[0], heads, q[2], size[3], err);
    case KEY:
        return attn__check_size(view, f->name, batch, heads, 1, p->columns, err);
    case BUCKET:
        return attn__check_size(view, f->name, batch, heads, 1, size[3], err);
    case MAP:
        return attn__check_size(view, f->name, batch, heads, size[2], size[3], err);
    case CHOSEN:
        return attn__check_size(view, f->name, batch, heads, s->row_count, p->columns, err);
    case CELL:
        if (s->logits_head < 0 || size[1] > heads - s->logits_head)
            return attn__fail(err, ATTN_E_SHAPE, 0,
                              "%s: %lld heads from %lld on, expected some of the %zu there are",
                              f->name, (long long)size[1], (long long)s->logits_head, p->heads);
        return attn__check_size(view, f->name, batch, size[1], p->rows, p->columns, err);
    }
    return ATTN_OK;
}

/* a and b, where both are present, have the same size along `axis`, between 1 and `most`. */
static attn_status check_alike(const attn_view *a, const char *name, const attn_view *b,
                               const char *other, int axis, int64_t most, attn_error *err)
{
    if (!attn__present(a))
        return ATTN_OK;
    if (a->size[axis] < 1 || a->size[axis] > most)
        return attn__fail(err, ATTN_E_SHAPE, 0, "%s: %s = %lld, expected 1 .. %lld", name,
                          axis == 2 ? "rows" : "columns", (long long)a->size[axis],
                          (long long)most);
    if (attn__present(b) && a->size[axis] != b->size[axis])
        return attn__fail(err, ATTN_E_SHAPE, 0, "%s: %s = %lld, expected %lld as of %s", name,
                          axis == 2 ? "rows" : "columns", (long long)a->size[axis],
                          (long long)b->size[axis], other);
    return ATTN_OK;
}

static attn_status check_lists(const attn__problem *p, attn_error *err)
{
    const attn_stats *s = &p->stats;
    int64_t buckets = s->distance_mass.size[3];

    if (s->row_count < 0 || (s->row_count > 0 && !s->rows))
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "stats.rows: NULL or negative row_count");
    for (int64_t i = 0; i < s->row_count; i++)
        if (s->rows[i] < 0 || s->rows[i] >= p->rows || (i > 0 && s->rows[i] <= s->rows[i - 1]))
            return attn__fail(err, ATTN_E_ARGUMENT, 0,
                              "stats.rows[%lld]: %lld, expected ascending numbers below %lld",
                              (long long)i, (long long)s->rows[i], (long long)p->rows);
    if (!attn__present(&s->distance_mass))
        return ATTN_OK;
    if (!s->distance_edges || buckets < 1)
        return attn__fail(err, ATTN_E_ARGUMENT, 0,
                          "stats.distance_edges: NULL, or stats.distance_mass without columns");
    for (int64_t i = 0; i < buckets; i++)
        if (s->distance_edges[i + 1] <= s->distance_edges[i])
            return attn__fail(err, ATTN_E_ARGUMENT, 0,
                              "stats.distance_edges[%lld]: %lld, expected ascending numbers",
                              (long long)(i + 1), (long long)s->distance_edges[i + 1]);
    return ATTN_OK;
}

static attn_status check_inputs(const attn__problem *p, attn_error *err)
{
    const attn_stats *s = &p->stats;
    int64_t full[4] = {(int64_t)p->sequences, (int64_t)p->heads, 1, p->columns};

    if (attn__present(&s->class_mass) != attn__present(&s->key_class))
        return attn__fail(err, ATTN_E_ARGUMENT, 0,
                          "stats.key_class: goes with stats.class_mass, and only with it");
    if (attn__present(&s->key_class)) {
        TRY(attn__check_view(&s->key_class, "stats.key_class", false, err));
        if (s->key_class.type != ATTN_U8)
            return attn__fail(err, ATTN_E_ARGUMENT, 0, "stats.key_class: type %s, expected u8",
                              attn_type_name(s->key_class.type));
        TRY(attn__check_broadcast(&s->key_class, "stats.key_class", full, p->mask.segments > 0,
                                  err));
    }
    if (attn__present(&s->query_weight)) {
        full[2] = p->rows;
        full[3] = 1;
        TRY(attn__check_view(&s->query_weight, "stats.query_weight", false, err));
        if (s->query_weight.type != ATTN_F32 && s->query_weight.type != ATTN_F64)
            return attn__fail(err, ATTN_E_ARGUMENT, 0,
                              "stats.query_weight: type %s, expected f32 or f64",
                              attn_type_name(s->query_weight.type));
        TRY(attn__check_broadcast(&s->query_weight, "stats.query_weight", full,
                                  p->mask.segments > 0, err));
    }
    return ATTN_OK;
}

static attn_status check_blocks(const attn_stats *s, attn_error *err)
{
    const struct {
        int64_t block, first;
        const char *name, *first_name;
    } side[] = {
        {s->map_query_block, s->map_first_query, "stats.map_query_block", "stats.map_first_query"},
        {s->map_key_block, s->map_first_key, "stats.map_key_block", "stats.map_first_key"}};

    for (int i = 0; i < 2; i++) {
        if (side[i].block < 0 || side[i].block > MOST_BLOCK)
            return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s: %lld, expected 0 to 2^40", side[i].name,
                              (long long)side[i].block);
        if (side[i].first < 0 || side[i].first > MOST_BLOCK ||
            (side[i].first > 0 && side[i].block == 0))
            return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s: %lld, expected 0 to 2^40, 0 without %s",
                              side[i].first_name, (long long)side[i].first, side[i].name);
    }
    return ATTN_OK;
}

static attn_status check_sides(const attn__problem *p, attn_error *err)
{
    const attn_stats *s = &p->stats;
    const attn_view *map[] = {&s->map_sum, &s->map_mean, &s->map_max, &s->map_count};
    static const char *const name[] = {"stats.map_sum", "stats.map_mean", "stats.map_max",
                                       "stats.map_count"};

    for (int i = 0; i < 4; i++)
        for (int j = 0; j <= i; j++)
            for (int axis = 2; axis < 4; axis++)
                TRY(check_alike(map[i], name[i], map[j], name[j], axis, MOST_CELLS, err));
    TRY(check_blocks(s, err));
    if (attn__present(&s->map_mean) && !attn__present(&s->map_count))
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "stats.map_mean: needs stats.map_count");
    TRY(check_alike(&s->top_weight, "stats.top_weight", &s->top_key, "stats.top_key", 3,
                    attn__most_top, err));
    TRY(check_alike(&s->top_key, "stats.top_key", &s->top_weight, "stats.top_weight", 3,
                    attn__most_top, err));
    return check_alike(&s->class_mass, "stats.class_mass", &s->class_mass, "", 3,
                       attn__most_classes, err);
}

attn_status attn__check_stats(attn__problem *p, attn_error *err)
{
    if (p->args.partial || p->args.start)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "stats: not with partial or start");
    for (int i = 0; i < FIELDS; i++) {
        const field *f = &fields[i];
        const attn_view *view = view_of(&p->stats, f);

        if (!attn__present(view))
            continue;
        TRY(attn__check_view(view, f->name, true, err));
        TRY(check_type(f, view, err));
        TRY(check_shape(p, f, view, err));
        if (f->kind == INDEX && view->type == ATTN_I32 && p->columns > INT32_MAX)
            return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s: i32 cannot hold numbers of %lld keys",
                              f->name, (long long)p->columns);
        *(f->first ? &p->row_stats : &p->second_sweep) = true;
    }
    if (!p->row_stats && !p->second_sweep)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "stats: asks for nothing");
    TRY(check_lists(p, err));
    TRY(check_inputs(p, err));
    return check_sides(p, err);
}

attn_status attn__check_stats_overlap(const attn__problem *p, const attn_view *const *output,
                                      const char *const *output_name, size_t outputs,
                                      const attn_view *const *input, const char *const *input_name,
                                      size_t inputs, attn_error *err)
{
    const attn_stats *s = &p->stats;
    const attn_view *own[] = {&s->key_class, &s->query_weight};
    static const char *const own_name[] = {"stats.key_class", "stats.query_weight"};

    for (int i = 0; i < FIELDS; i++) {
        const attn_view *view = view_of(s, &fields[i]);
        const char *with = NULL;

        for (size_t j = 0; j < inputs && !with; j++)
            with = attn__clash(view, input[j], false) ? input_name[j] : NULL;
        for (size_t j = 0; j < outputs && !with; j++)
            with = attn__clash(view, output[j], false) ? output_name[j] : NULL;
        for (int j = 0; j < 2 && !with; j++)
            with = attn__clash(view, own[j], false) ? own_name[j] : NULL;
        for (int j = 0; j < i && !with; j++)
            with = attn__clash(view, view_of(s, &fields[j]), false) ? fields[j].name : NULL;
        if (with)
            return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s: overlaps %s", fields[i].name, with);
    }
    for (size_t i = 0; i < outputs; i++)
        for (int j = 0; j < 2; j++)
            if (attn__clash(output[i], own[j], false))
                return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s: overlaps %s", output_name[i],
                                  own_name[j]);
    return ATTN_OK;
}

/* --- Items ---------------------------------------------------------------------------------- */

static bool has_map(const attn__problem *p)
{
    const attn_stats *s = &p->stats;

    return attn__present(&s->map_sum) || attn__present(&s->map_mean) ||
           attn__present(&s->map_max) || attn__present(&s->map_count);
}

/* Whether one item has the rows of all heads of a key head. Keys are then read once for all, which
 * is what counts in decoding; maps are kept for one head at a time. */
static bool joins_heads(const attn__problem *p, const attn__sequence *s)
{
    return s->rows <= FEW_QUERIES && !has_map(p);
}

/* Rows of a chunk: fixed by the length alone. */
static int64_t chunk_rows(const attn__sequence *s)
{
    int64_t least = (s->rows + attn__stats_chunks - 1) / attn__stats_chunks;

    return least < attn__stats_rows ? attn__stats_rows : least;
}

size_t attn__stats_items(const void *stats, size_t head)
{
    const attn__problem *p = ((const attn__stats *)stats)->problem;
    attn__sequence s;

    attn__get_sequence(p, head / p->heads, &s);
    if (joins_heads(p, &s))
        return s.rows > 0 && head % p->group == 0;
    return (size_t)((s.rows + chunk_rows(&s) - 1) / chunk_rows(&s));
}

attn__stats_item attn__stats_find(const attn__problem *p, const attn__item *item)
{
    attn__stats_item it = {.sequence = item->head / p->heads, .head = item->head % p->heads};
    attn__sequence s;
    int64_t rows;

    attn__get_sequence(p, it.sequence, &s);
    it.heads = joins_heads(p, &s) ? p->group : 1;
    it.chunk = item->index;
    rows = chunk_rows(&s);
    it.i0 = (int64_t)item->index * rows;
    it.i1 = it.i0 + rows < s.rows ? it.i0 + rows : s.rows;
    return it;
}

int64_t attn__map_columns(const attn__problem *p, size_t sequence)
{
    attn__sequence s;

    if (p->mask.segments > 0)
        return p->mask.k_starts[sequence + 1] - p->mask.k_starts[sequence];
    if (!p->cache)
        return p->columns;
    attn__get_sequence(p, sequence, &s);
    return s.keys;
}

size_t attn__stats_block(const attn__problem *p)
{
    size_t real = p->f64 ? sizeof(double) : sizeof(float), fit = BLOCK_SIZE / (real * p->d);
    size_t few = p->rows < FEW_QUERIES ? (size_t)p->rows : FEW_QUERIES;
    size_t most = few * p->group;

    most = (size_t)p->rows > most ? (size_t)p->rows : most;
    most = most < attn__stats_rows ? most : attn__stats_rows;
    fit = fit < most ? fit / attn__group * attn__group
                     : (most + attn__group - 1) / attn__group * attn__group;
    return fit > attn__group ? fit : attn__group;
}

size_t attn__map_rows(const attn__problem *p)
{
    size_t rows = 0, block = attn__stats_block(p);
    const attn_stats *s = &p->stats;
    const attn_view *map[] = {&s->map_sum, &s->map_mean, &s->map_max, &s->map_count};

    for (int i = 0; i < 4; i++)
        if (attn__present(map[i]))
            rows = (size_t)map[i]->size[2];
    if (s->map_query_block > 0)
        rows += 2; /* rows before the map and past it */
    return rows < block ? rows : block;
}

/* --- Outputs -------------------------------------------------------------------------------- */

static void *element(const attn_view *view, int64_t b, int64_t h, int64_t i, int64_t j)
{
    return (char *)attn__cell(view, b, h, i) +
           (view->size[3] > 1 ? j * view->stride[3] : 0) * attn__element_size(view->type);
}

void attn__put(const attn_view *view, int64_t b, int64_t h, int64_t i, int64_t j, double x)
{
    void *to = element(view, b, h, i, j);

    if (view->type == ATTN_F64)
        *(double *)to = x;
    else
        *(float *)to = (float)x;
}

void attn__put_index(const attn_view *view, int64_t b, int64_t h, int64_t i, int64_t j, int64_t x)
{
    void *to = element(view, b, h, i, j);

    if (view->type == ATTN_I64)
        *(int64_t *)to = x;
    else
        *(int32_t *)to = (int32_t)x;
}

/* Elements from one to the next. */
static ptrdiff_t step_of(const attn_view *view)
{
    return view->size[3] > 1 ? (ptrdiff_t)view->stride[3] : 0;
}

void attn__add_to(const attn_view *view, int64_t b, int64_t h, int64_t i, int64_t j,
                  const double *x, int64_t n)
{
    void *to = element(view, b, h, i, j);
    ptrdiff_t step = step_of(view);
    double *wide = to;
    float *single = to;

    if (view->type == ATTN_F64)
        for (int64_t c = 0; c < n; c++)
            wide[c * step] += x[c];
    else
        for (int64_t c = 0; c < n; c++)
            single[c * step] = (float)((double)single[c * step] + x[c]);
}

/* NaN that is there stays. */
static double larger(double is, double x)
{
    return is == is && !(x <= is) ? x : is;
}

void attn__raise(const attn_view *view, int64_t b, int64_t h, int64_t i, const double *x, int64_t n)
{
    void *to = element(view, b, h, i, 0);
    ptrdiff_t step = step_of(view);
    double *wide = to;
    float *single = to;

    if (view->type == ATTN_F64)
        for (int64_t c = 0; c < n; c++)
            wide[c * step] = larger(wide[c * step], x[c]);
    else
        for (int64_t c = 0; c < n; c++)
            single[c * step] = (float)larger((double)single[c * step], x[c]);
}

void attn__add_counts(const attn_view *view, int64_t b, int64_t h, int64_t i, const int64_t *x,
                      int64_t n)
{
    void *to = element(view, b, h, i, 0);
    ptrdiff_t step = step_of(view);
    int64_t *wide = to;
    int32_t *single = to;

    if (view->type == ATTN_I64)
        for (int64_t c = 0; c < n; c++)
            wide[c * step] += x[c];
    else
        for (int64_t c = 0; c < n; c++)
            single[c * step] = x[c] > INT32_MAX - single[c * step]
                                   ? INT32_MAX
                                   : (int32_t)(single[c * step] + x[c]);
}

/* -inf in every element of a view of a floating type. */
static void fill_minus_inf(const attn_view *view, int64_t b, int64_t h, int64_t i)
{
    const double wide = -(double)INFINITY;
    const float single = -INFINITY;
    const uint16_t half = view->type == ATTN_F16 ? 0xfc00 : 0xff80;
    const void *value = view->type == ATTN_F64   ? (const void *)&wide
                        : view->type == ATTN_F32 ? (const void *)&single
                                                 : (const void *)&half;
    size_t size = (size_t)attn__element_size(view->type);

    for (int64_t j = 0; j < view->size[3]; j++)
        memcpy(element(view, b, h, i, j), value, size);
}

void attn__stats_begin(const attn__problem *p)
{
    for (int f = 0; f < FIELDS; f++) {
        const attn_view *view = view_of(&p->stats, &fields[f]);
        const int64_t *size = view->size;

        if (fields[f].shape == ROW || fields[f].shape == ROW_LIST || size[2] == 0 || size[3] == 0)
            continue;
        for (int64_t b = 0; b < size[0]; b++)
            for (int64_t h = 0; h < size[1]; h++) {
                if (fields[f].shape != CELL)
                    attn__clear(view, b, h, 0, size[2]);
                for (int64_t i = 0; fields[f].shape == CELL && i < size[2]; i++)
                    fill_minus_inf(view, b, h, i);
            }
    }
}

static void divide(const attn_view *mean, const attn_view *count, int64_t b, int64_t h, int64_t i)
{
    for (int64_t j = 0; j < mean->size[3]; j++) {
        const void *n = element(count, b, h, i, j), *sum = element(mean, b, h, i, j);
        double cells =
            count->type == ATTN_I64 ? (double)*(const int64_t *)n : (double)*(const int32_t *)n;

        if (cells > 0)
            attn__put(
                mean, b, h, i, j,
                (mean->type == ATTN_F64 ? *(const double *)sum : (double)*(const float *)sum) /
                    cells);
    }
}

void attn__stats_end(const attn__problem *p)
{
    const attn_view *mean = &p->stats.map_mean;

    for (int64_t b = 0; attn__present(mean) && b < mean->size[0]; b++)
        for (int64_t h = 0; h < mean->size[1]; h++)
            for (int64_t i = 0; i < mean->size[2]; i++)
                divide(mean, &p->stats.map_count, b, h, i);
}

/* --- Turns ---------------------------------------------------------------------------------- */

/* Items are handed out in order and never wait but for earlier ones of their head. */
void attn__stats_await(const attn__stats *s, const attn__stats_item *item)
{
    const atomic_size_t *turn = &s->turn[item->sequence * s->problem->heads + item->head];

    while (atomic_load_explicit(turn, memory_order_acquire) != item->chunk)
        attn__yield();
}

void attn__stats_done(const attn__stats *s, const attn__stats_item *item)
{
    atomic_size_t *turn = &s->turn[item->sequence * s->problem->heads + item->head];

    atomic_store_explicit(turn, item->chunk + 1, memory_order_release);
}
