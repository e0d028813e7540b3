/* places.c: what tells a model where a token stands: tables of sines, rotations, buckets of
 * distances. Made anew for a pass, in double, rounded once. */
#include "src/nn/pass.h"

#include "src/nn/each.h"

#include <math.h>
#include <string.h>

static void put(const attn__run *r, void *to, size_t i, double x)
{
    if (r->f64)
        ((double *)to)[i] = x;
    else
        ((float *)to)[i] = (float)x;
}

static double get(const attn__run *r, const void *from, size_t i)
{
    return r->f64 ? ((const double *)from)[i] : (double)((const float *)from)[i];
}

/* --- Sines ---------------------------------------------------------------------------------- */

/* Column c of a row of sines: the frequency of its pair, and whether it is a cosine. Layouts:
 * attn_positions in nn.h. */
static double frequency(const attn_model_config *c, size_t column, bool *cosine)
{
    double d = (double)c->d, k;
    size_t half = (size_t)c->d / 2;

    switch (c->positions) {
    case ATTN_POSITIONS_T2T:
        *cosine = column >= half;
        k = (double)(column % (half ? half : 1));
        return half > 1 ? pow(c->position_base, -k / ((double)half - 1)) : 1;
    case ATTN_POSITIONS_MARIAN:
        half = ((size_t)c->d + 1) / 2;
        *cosine = column >= half;
        k = (double)(column % half);
        break;
    default:
        *cosine = column % 2 != 0;
        k = (double)(column / 2);
        break;
    }
    return pow(c->position_base, -2 * k / d);
}

typedef struct table_job {
    const attn__run *r;
    const attn__side *side;
} table_job;

/* One column of the table, all positions. */
static void sine_column(const void *arg, size_t column)
{
    const table_job *j = arg;
    const attn_model_config *c = &j->r->model->config;
    size_t d = (size_t)c->d;
    bool cosine, none = c->positions == ATTN_POSITIONS_T2T && d % 2 != 0 && column == d - 1;
    double f = frequency(c, column, &cosine);

    for (size_t i = 0; i < j->side->longest; i++) {
        double angle = (double)((int64_t)i + c->position_offset) * f;
        put(j->r, j->side->positions, i * d + column, none ? 0 : cosine ? cos(angle) : sin(angle));
    }
}

static void turn_column(const void *arg, size_t pair)
{
    const table_job *j = arg;
    const attn_model_config *c = &j->r->model->config;
    size_t pairs = (size_t)c->rotary / 2;
    double f = pow(c->position_base, -2 * (double)pair / (double)c->rotary);

    for (size_t i = 0; i < j->side->longest; i++) {
        double angle = (double)((int64_t)i + c->position_offset) * f;
        size_t at = i * pairs + pair;

        put(j->r, j->side->cosine, at, cos(angle));
        put(j->r, j->side->sine, at, sin(angle));
        put(j->r, j->side->minus_sine, at, -sin(angle));
    }
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

static int64_t bucket(const attn__run *r, const attn__side *side, size_t i, size_t j)
{
    const attn_model_config *c = &r->model->config;

    return attn_relative_bucket((int64_t)j - (int64_t)i, !side->half->causal, c->t5_buckets,
                                c->t5_max_distance);
}

static void bias_row(const void *arg, size_t i)
{
    const table_job *job = arg;
    const attn__run *r = job->r;
    size_t n = job->side->longest, heads = (size_t)r->model->config.heads;
    const void *table = attn__tensor(r, job->side->half->relative, false);

    for (size_t j = 0; j < n; j++) {
        size_t row = (size_t)bucket(r, job->side, i, j);
        for (size_t h = 0; h < heads; h++)
            put(r, job->side->bias, (h * n + i) * n + j, get(r, table, row * heads + h));
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
                put(r, table, row + h,
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
    table_job job = {r, side};

    if (side->positions)
        attn__each(r->ctx, (size_t)c->d, 16 * side->longest * (size_t)c->d, sine_column, &job);
    if (side->cosine)
        attn__each(r->ctx, (size_t)c->rotary / 2, 16 * side->longest * (size_t)c->rotary,
                   turn_column, &job);
    if (side->bias)
        attn__each(r->ctx, side->longest, side->longest * side->longest * (size_t)c->heads,
                   bias_row, &job);
    if (side->slopes)
        make_slopes(r, side);
}
