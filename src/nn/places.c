/* places.c: what tells a model where a token stands: tables of sines, rotations, buckets of
 * distances. Made anew for a pass, in double, rounded once. */
#include "src/nn/pass.h"

#include "src/core/each.h"

#include <math.h>
#include <string.h>

static void put(bool f64, void *to, size_t i, double x)
{
    if (f64)
        ((double *)to)[i] = x;
    else
        ((float *)to)[i] = (float)x;
}

static double get(const attn__run *r, const void *from, size_t i)
{
    return r->f64 ? ((const double *)from)[i] : (double)((const float *)from)[i];
}

/* --- Sines ---------------------------------------------------------------------------------- */

/* The frequency of a column's pair, and whether it is a cosine. Layouts: attn_positions in nn.h. */
static double frequency(const attn__sines_call *c, size_t column, bool *cosine)
{
    double d = (double)c->shape.n, k;
    size_t half = c->shape.n / 2;

    switch (c->layout) {
    case ATTN_POSITIONS_T2T:
        *cosine = column >= half;
        k = (double)(column % (half ? half : 1));
        return half > 1 ? pow(c->base, -k / ((double)half - 1)) : 1;
    case ATTN_POSITIONS_MARIAN:
        half = (c->shape.n + 1) / 2;
        *cosine = column >= half;
        k = (double)(column % half);
        break;
    default:
        *cosine = column % 2 != 0;
        k = (double)(column / 2);
        break;
    }
    return pow(c->base, -2 * k / d);
}

/* One column of the table, all positions. */
static void sine_column(const void *arg, size_t column)
{
    const attn__sines_call *c = arg;
    size_t d = c->shape.n;
    bool cosine, none = c->layout == ATTN_POSITIONS_T2T && d % 2 != 0 && column == d - 1;
    double f = frequency(c, column, &cosine);
    ptrdiff_t bytes = c->out.stride * (ptrdiff_t)(c->shape.f64 ? sizeof(double) : sizeof(float));

    for (size_t i = 0; i < c->shape.rows; i++) {
        double angle = (double)((int64_t)i + c->offset) * f;
        double x = none ? 0 : cosine ? cos(angle) : sin(angle);

        put(c->shape.f64, (char *)c->out.data + (ptrdiff_t)i * bytes, column, x);
    }
}

void attn__sines(const attn__sines_call *c)
{
    attn__each(c->shape.ctx, c->shape.n, 16 * c->shape.rows * c->shape.n, sine_column, c);
}

static void turn_column(const void *arg, size_t pair)
{
    const attn__turns_call *c = arg;
    double f = pow(c->base, -2 * (double)pair / (double)(2 * c->shape.n));

    for (size_t i = 0; i < c->shape.rows; i++) {
        double angle = (double)((int64_t)i + c->offset) * f;
        size_t at = i * c->shape.n + pair;

        put(c->shape.f64, c->cosine, at, cos(angle));
        put(c->shape.f64, c->sine, at, sin(angle));
        put(c->shape.f64, c->minus_sine, at, -sin(angle));
    }
}

void attn__turns(const attn__turns_call *c)
{
    attn__each(c->shape.ctx, c->shape.n, 32 * c->shape.rows * c->shape.n, turn_column, c);
}

/* --- Buckets -------------------------------------------------------------------------------- */

int64_t attn_relative_bucket(int64_t relative, int bidirectional, int64_t buckets,
                             int64_t max_distance)
{
    int64_t base = 0, exact, far;

    if (bidirectional) {
        buckets /= 2;
        base = relative > 0 ? buckets : 0;
        relative = relative < 0 ? -relative : relative;
    } else {
        relative = relative < 0 ? -relative : 0;
    }
    exact = buckets / 2;
    if (relative < exact)
        return base + relative;
    /* in float, as the files' makers computed it: 2 ln 2 / ln 16 must come out as a half */
    far = exact +
          (int64_t)(logf((float)relative / (float)exact) /
                    (float)log((double)max_distance / (double)exact) * (float)(buckets - exact));
    return base + (far < buckets - 1 ? far : buckets - 1);
}

typedef struct bias_job {
    const attn__run *r;
    const attn__side *side;
} bias_job;

static int64_t bucket(const attn__run *r, const attn__side *side, size_t i, size_t j)
{
    const attn_model_config *c = &r->model->config;

    return attn_relative_bucket((int64_t)j - (int64_t)i, !side->half->causal, c->t5_buckets,
                                c->t5_max_distance);
}

static void bias_row(const void *arg, size_t i)
{
    const bias_job *job = arg;
    const attn__run *r = job->r;
    size_t n = job->side->longest, heads = (size_t)r->model->config.heads;
    const void *table = attn__tensor(r, job->side->half->relative, false);

    for (size_t j = 0; j < n; j++) {
        size_t row = (size_t)bucket(r, job->side, i, j);
        for (size_t h = 0; h < heads; h++)
            put(r->f64, job->side->bias, (h * n + i) * n + j, get(r, table, row * heads + h));
    }
}

void attn__make_distances(const attn__run *r, const attn__side *side, void *to)
{
    size_t n = side->longest, heads = (size_t)r->model->config.heads;
    const void *table = attn__tensor(r, side->half->relative, false);

    for (size_t i = 0; i < n; i++) {
        size_t row = (size_t)bucket(r, side, i, 0);
        for (size_t h = 0; h < heads; h++)
            put(r->f64, to, (h + 1) * n - 1 - i, get(r, table, row * heads + h));
    }
}

void attn__add_buckets(const attn__run *r, const attn__side *side)
{
    size_t n = side->longest, heads = (size_t)r->model->config.heads;
    void *table = attn__tensor(r, side->half->relative, true);

    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++) {
            size_t row = (size_t)bucket(r, side, i, j) * heads;
            for (size_t h = 0; h < heads; h++)
                put(r->f64, table, row + h,
                    get(r, table, row + h) + get(r, side->dbias, (h * n + i) * n + j));
        }
}

/* attn_alibi_slopes writes floats; wide ones grow from the last on, in place. */
static void make_slopes(const attn__run *r, const attn__side *side)
{
    size_t heads = (size_t)r->model->config.heads;
    float *narrow = side->slopes;
    double *wide = side->slopes;

    attn_alibi_slopes(narrow, heads);
    for (size_t h = heads; r->f64 && h > 0; h--) {
        float x;
        memcpy(&x, (const char *)side->slopes + (h - 1) * sizeof x, sizeof x);
        wide[h - 1] = (double)x;
    }
}

/* --- All of a side -------------------------------------------------------------------------- */

void attn__make_positions(const attn__run *r, const attn__side *side)
{
    const attn_model_config *c = &r->model->config;
    attn__sines_call sines = {.shape = attn__shape_of(r, side->longest, (size_t)c->d),
                              .layout = c->positions,
                              .base = c->position_base,
                              .offset = c->position_offset,
                              .out = attn__dense(side->positions, (size_t)c->d)};
    attn__turns_call turns = {.shape = attn__shape_of(r, side->longest, (size_t)c->rotary / 2),
                              .base = c->position_base,
                              .offset = c->position_offset,
                              .cosine = side->cosine,
                              .sine = side->sine,
                              .minus_sine = side->minus_sine};
    bias_job job = {r, side};

    if (side->positions)
        attn__sines(&sines);
    if (side->cosine)
        attn__turns(&turns);
    if (side->bias)
        attn__each(r->ctx, side->longest, side->longest * side->longest * (size_t)c->heads,
                   bias_row, &job);
    if (side->slopes)
        make_slopes(r, side);
}
