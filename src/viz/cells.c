/* cells.c: reading, pooling and scaling of cells. */
#include "src/viz/cells.h"

#include "src/base/error.h"
#include "src/base/half.h"
#include "src/base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- Reading ---------------------------------------------------------------------------------- */

static double element(const unsigned char *at, attn_type type)
{
    union {
        float f32;
        double f64;
        uint16_t half;
        int32_t i32;
        int64_t i64;
    } u;

    memcpy(&u, at, attn_type_size(type));
    switch (type) {
    case ATTN_F32:
        return (double)u.f32;
    case ATTN_F64:
        return u.f64;
    case ATTN_F16:
        return (double)attn__f16_to_f32(u.half);
    case ATTN_BF16:
        return (double)attn__bf16_to_f32(u.half);
    case ATTN_I32:
        return u.i32;
    case ATTN_I64:
        return (double)u.i64;
    default:
        return *at;
    }
}

void attn__view_row(const attn_view *view, int64_t row, double *out)
{
    int64_t width = (int64_t)attn_type_size(view->type), n = view->size[3];
    const unsigned char *at = (const unsigned char *)view->data + row * view->stride[2] * width;

    if (view->type == ATTN_F32 && view->stride[3] == 1) { /* nearly always */
        for (int64_t j = 0; j < n; j++) {
            float x;

            memcpy(&x, at + 4 * j, sizeof x);
            out[j] = (double)x;
        }
        return;
    }
    for (int64_t j = 0; j < n; j++)
        out[j] = element(at + j * view->stride[3] * width, view->type);
}

double attn__panel_row(const attn_figure *figure, const attn_panel *panel, int64_t row,
                       double *value, double *allowed, uint8_t *kind)
{
    int64_t n = panel->cells.size[3], drop = figure->drop_keys < n ? figure->drop_keys : n;
    double rest = 0;

    attn__view_row(&panel->cells, row, value);
    if (panel->allowed.data)
        attn__view_row(&panel->allowed, row, allowed);
    for (int64_t j = 0; j < n; j++) {
        if (!panel->allowed.data)
            allowed[j] = 1;
        kind[j] = !(allowed[j] > 0)     ? ATTN__CELL_MASKED
                  : j < drop            ? ATTN__CELL_DROPPED
                  : !isfinite(value[j]) ? ATTN__CELL_ODD
                                        : ATTN__CELL_VALUE;
        if (kind[j] == ATTN__CELL_VALUE)
            rest += value[j];
    }
    if (drop == 0 || !(rest > 0))
        return 1;
    for (int64_t j = drop; j < n; j++)
        value[j] /= rest;
    return 1 / rest;
}

/* --- Pooling ---------------------------------------------------------------------------------- */

/* What is known of a cell while its parts come by. */
typedef struct pool {
    attn_reduction how;
    double *value, *weight;
    uint8_t *kind;
} pool;

static void pool_in(pool *p, size_t at, double value, double allowed, uint8_t kind)
{
    if (kind != ATTN__CELL_VALUE) {
        /* A value hides masked parts; a part that is not finite shows. */
        if (kind == ATTN__CELL_ODD || (p->weight[at] == 0 && p->kind[at] != ATTN__CELL_ODD))
            p->kind[at] = kind;
        return;
    }
    if (p->kind[at] != ATTN__CELL_ODD)
        p->kind[at] = ATTN__CELL_VALUE;
    if (p->weight[at] == 0)
        p->value[at] = p->how == ATTN_REDUCE_MEAN ? value * allowed : value;
    else if (p->how == ATTN_REDUCE_MAX)
        p->value[at] = value > p->value[at] ? value : p->value[at];
    else
        p->value[at] += p->how == ATTN_REDUCE_MEAN ? value * allowed : value;
    p->weight[at] += allowed;
}

static size_t step_for(size_t cells, size_t most)
{
    return cells <= most ? 1 : (cells + most - 1) / most;
}

static void finish(attn__map *map, const double *weight, attn_reduction how)
{
    for (size_t i = 0; i < map->rows * map->cols; i++) {
        map->has[map->kind[i]] = true;
        if (how == ATTN_REDUCE_MEAN && weight[i] > 0)
            map->value[i] /= weight[i];
    }
}

attn_status attn__map_make(const attn_ctx *ctx, const attn_figure *figure, const attn_panel *panel,
                           size_t max_rows, size_t max_cols, attn__map *map, attn_error *err)
{
    return attn__map_pool(ctx, figure, panel, step_for((size_t)panel->cells.size[2], max_rows),
                          step_for((size_t)panel->cells.size[3], max_cols), map, err);
}

attn_status attn__map_pool(const attn_ctx *ctx, const attn_figure *figure, const attn_panel *panel,
                           size_t step_rows, size_t step_cols, attn__map *map, attn_error *err)
{
    size_t rows = (size_t)panel->cells.size[2], cols = (size_t)panel->cells.size[3], cells, bytes;
    double *row = NULL, *allowed = NULL, *weight = NULL;
    uint8_t *kind = NULL;
    attn_status st = ATTN_OK;
    pool p;

    memset(map, 0, sizeof *map);
    map->ctx = ctx;
    map->step_rows = step_rows;
    map->step_cols = step_cols;
    map->rows = (rows + map->step_rows - 1) / map->step_rows;
    map->cols = (cols + map->step_cols - 1) / map->step_cols;
    if (attn__mul(map->rows, map->cols, &cells) && attn__mul(cells, sizeof(double), &bytes)) {
        map->value = attn__new(ctx, bytes);
        weight = attn__new(ctx, bytes);
        map->kind = attn__alloc(ctx, cells);
    }
    if (attn__mul(cols, sizeof(double), &bytes)) {
        row = attn__alloc(ctx, bytes);
        allowed = attn__alloc(ctx, bytes);
        kind = attn__alloc(ctx, cols);
    }
    if (!map->value || !weight || !map->kind || !row || !allowed || !kind) {
        st = attn__fail(err, ATTN_E_MEMORY, 0, "map of %zu x %zu cells", map->rows, map->cols);
        goto out;
    }
    memset(map->kind, ATTN__CELL_MASKED, cells);
    p = (pool){figure->reduction, map->value, weight, map->kind};
    for (size_t i = 0; i < rows; i++) {
        size_t base = i / map->step_rows * map->cols, at = base, left = map->step_cols;

        attn__panel_row(figure, panel, (int64_t)i, row, allowed, kind);
        for (size_t j = 0; j < cols; j++) {
            pool_in(&p, at, row[j], allowed[j], kind[j]);
            if (--left == 0) {
                at++;
                left = map->step_cols;
            }
        }
    }
    finish(map, weight, figure->reduction);
out:
    attn__free(ctx, row);
    attn__free(ctx, allowed);
    attn__free(ctx, kind);
    attn__free(ctx, weight);
    return st;
}

void attn__map_reset(attn__map *map)
{
    attn__free(map->ctx, map->value);
    attn__free(map->ctx, map->kind);
    map->value = NULL;
    map->kind = NULL;
}

/* --- Scales ----------------------------------------------------------------------------------- */

/* Ranks and percentiles are taken from at most this many values, evenly picked. */
enum { SAMPLE = 1 << 16 };

/* Limits by value alone, and a sorted sample. */
typedef struct survey {
    double low, high, least_positive;
    size_t count;
    double *sample;
    size_t taken;
} survey;

static int compare(const void *a, const void *b)
{
    double x, y;

    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return (x > y) - (x < y);
}

static attn_status survey_make(const attn_ctx *ctx, const attn__map *maps, size_t count, survey *s,
                               attn_error *err)
{
    size_t step, left = 1;

    *s = (survey){.low = HUGE_VAL, .high = -HUGE_VAL, .least_positive = HUGE_VAL};
    for (size_t m = 0; m < count; m++)
        for (size_t i = 0; i < maps[m].rows * maps[m].cols; i++)
            if (maps[m].kind[i] == ATTN__CELL_VALUE) {
                double v = maps[m].value[i];

                s->count++;
                s->low = v < s->low ? v : s->low;
                s->high = v > s->high ? v : s->high;
                if (v > 0 && v < s->least_positive)
                    s->least_positive = v;
            }
    if (s->count == 0)
        return ATTN_OK;
    step = (s->count + SAMPLE - 1) / SAMPLE;
    s->sample = attn__alloc(ctx, SAMPLE * sizeof(double));
    if (!s->sample)
        return attn__fail(err, ATTN_E_MEMORY, 0, "sample of the cells");
    for (size_t m = 0; m < count; m++)
        for (size_t i = 0; i < maps[m].rows * maps[m].cols; i++)
            if (maps[m].kind[i] == ATTN__CELL_VALUE && --left == 0) {
                s->sample[s->taken++] = maps[m].value[i];
                left = step;
            }
    qsort(s->sample, s->taken, sizeof *s->sample, compare);
    s->sample[0] = s->low;
    s->sample[s->taken - 1] = s->high;
    return ATTN_OK;
}

static double quantile(const double *sorted, size_t n, double t)
{
    double x = t * (double)(n - 1);
    size_t i = x >= (double)(n - 1) ? n - 1 : (size_t)x;

    x -= (double)i;
    return i + 1 < n ? sorted[i] * (1 - x) + sorted[i + 1] * x : sorted[i];
}

/* Half the largest floats, so that high - low is finite. */
static double bounded(double v)
{
    const double most = 8e307;

    return v > most ? most : v < -most ? -most : v;
}

static void choose_limits(const attn_figure *figure, const survey *s, attn__scale *scale)
{
    scale->low = s->low;
    scale->high = s->high;
    if (figure->robust > 0) {
        scale->low = quantile(s->sample, s->taken, figure->robust / 100);
        scale->high = quantile(s->sample, s->taken, 1 - figure->robust / 100);
    }
    if (s->low >= 0 && figure->robust == 0 && scale->kind <= ATTN_SCALE_SQRT)
        scale->low = 0;
    if (scale->signed_) {
        double most = fmax(fabs(scale->low), fabs(scale->high));

        scale->low = -most;
        scale->high = most;
    }
    if (figure->has_limits) {
        scale->low = figure->low;
        scale->high = figure->high;
    }
    scale->low = bounded(scale->low);
    scale->high = bounded(scale->high);
    if (scale->kind == ATTN_SCALE_LOG) {
        double floor = scale->high * 1e-6;

        if (!figure->has_limits && s->least_positive > floor)
            floor = s->least_positive;
        if (scale->high > 0 && scale->low < floor)
            scale->low = floor;
        if (!(scale->high > 0))
            scale->low = scale->high; /* nothing is positive: constant */
    }
    scale->below = s->low < scale->low;
    scale->above = s->high > scale->high;
}

attn_status attn__scale_make(const attn_ctx *ctx, const attn_figure *figure, const attn__map *maps,
                             size_t count, attn__scale *scale, attn_error *err)
{
    survey s;
    attn_status st;

    *scale = (attn__scale){.ctx = ctx, .kind = figure->scale};
    scale->signed_ = figure->colours == ATTN_COLOURS_DIVERGING;
    if ((st = survey_make(ctx, maps, count, &s, err)) != ATTN_OK)
        return st;
    if (s.count == 0) {
        scale->empty = true;
        scale->low = figure->has_limits ? figure->low : 0;
        scale->high = figure->has_limits ? figure->high : 1;
        scale->kind = ATTN_SCALE_LINEAR;
        return ATTN_OK;
    }
    choose_limits(figure, &s, scale);
    if (scale->kind == ATTN_SCALE_PERCENTILE) {
        scale->sorted = s.sample;
        scale->count = s.taken;
        return ATTN_OK;
    }
    attn__free(ctx, s.sample);
    return ATTN_OK;
}

void attn__scale_reset(attn__scale *scale)
{
    attn__free(scale->ctx, scale->sorted);
    scale->sorted = NULL;
}

/* Rank of a value: the middle of those equal to it. */
static double rank_of(const attn__scale *s, double value)
{
    size_t below = 0, upto = s->count, low = 0, high = s->count;

    while (low < high) { /* the first that is not below */
        size_t middle = low + (high - low) / 2;

        if (s->sorted[middle] < value)
            low = middle + 1;
        else
            high = middle;
    }
    below = low;
    high = s->count;
    while (low < high) { /* the first that is above */
        size_t middle = low + (high - low) / 2;

        if (s->sorted[middle] <= value)
            low = middle + 1;
        else
            high = middle;
    }
    upto = low;
    if (s->count < 2)
        return 0.5;
    if (upto > below)
        return ((double)below + (double)(upto - 1)) / 2 / (double)(s->count - 1);
    return ((double)below - 0.5) / (double)(s->count - 1);
}

double attn__scale_at(const attn__scale *s, double value)
{
    double t, range = s->high - s->low;

    if (s->kind == ATTN_SCALE_PERCENTILE) {
        t = rank_of(s, value);
    } else if (!(range > 0)) {
        return 0.5;
    } else if (s->kind == ATTN_SCALE_LOG) {
        t = value > s->low ? log(value / s->low) / log(s->high / s->low) : 0;
    } else if (s->kind == ATTN_SCALE_SQRT && s->signed_) {
        t = (value - s->low) / range * 2 - 1;
        t = 0.5 + (t < 0 ? -sqrt(-t) : sqrt(t)) / 2;
    } else {
        t = (value - s->low) / range;
        if (s->kind == ATTN_SCALE_SQRT)
            t = t > 0 ? sqrt(t) : 0;
    }
    return t < 0 ? 0 : t > 1 ? 1 : t;
}

double attn__scale_value(const attn__scale *s, double t)
{
    double range = s->high - s->low;

    if (s->kind == ATTN_SCALE_PERCENTILE)
        return quantile(s->sorted, s->count, t);
    if (s->kind == ATTN_SCALE_LOG)
        return range > 0 ? s->low * pow(s->high / s->low, t) : s->low;
    if (s->kind == ATTN_SCALE_SQRT && s->signed_) {
        t = 2 * t - 1;
        t = (t < 0 ? -t * t : t * t) / 2 + 0.5;
    } else if (s->kind == ATTN_SCALE_SQRT) {
        t = t * t;
    }
    return s->low + t * range;
}
