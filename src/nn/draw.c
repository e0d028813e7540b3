/* draw.c: see draw.h. Element i of tensor t is a function of the seed, t and i alone: integers from
 * the generator, one multiplication, one rounding. No function of the system's libm but sqrt, which
 * is exact, takes part, so that a seed means the same model on every machine. */
#include "src/nn/draw.h"

#include "src/base/mem.h"
#include "src/core/each.h"

#include <math.h>

enum { PIECE = 1 << 16 }; /* elements of a work item */

/* Philox4x32-10: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3"
 * (2011). */
void attn__philox(uint32_t word[4], uint64_t key)
{
    uint32_t key0 = (uint32_t)key, key1 = (uint32_t)(key >> 32);

    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)0xd2511f53u * word[0], b = (uint64_t)0xcd9e8d57u * word[2];
        uint32_t y1 = word[1], y3 = word[3];

        word[0] = (uint32_t)(b >> 32) ^ y1 ^ key0;
        word[1] = (uint32_t)b;
        word[2] = (uint32_t)(a >> 32) ^ y3 ^ key1;
        word[3] = (uint32_t)a;
        key0 += 0x9e3779b9u;
        key1 += 0xbb67ae85u;
    }
}

/* How one tensor is drawn. */
typedef struct recipe {
    double uniform;  /* bound of a uniform number, or 0 */
    double normal;   /* standard deviation, or 0 */
    double constant; /* otherwise */
} recipe;

typedef struct drawing {
    const attn_model *model;
    uint64_t seed;
    size_t param;
    recipe how;
} drawing;

/* Uniform in (-1, 1): 2^24 values, symmetric. */
static double uniform(uint32_t word)
{
    return ((double)(word >> 8) + 0.5) * 0x1p-23 - 1;
}

/* Eight uniform numbers of 16 bits: mean 0, variance 1, within 4.9. */
static double bell(const uint32_t word[4])
{
    uint32_t sum = 0;

    for (int i = 0; i < 4; i++)
        sum += (word[i] & 0xffff) + (word[i] >> 16);
    /* each has the variance (2^32 - 1) / 12; the mean of the sum is 4 * 65535 */
    return ((double)sum - 4 * 65535.0) / sqrt(8 * 4294967295.0 / 12);
}

static double value(const drawing *d, uint64_t i)
{
    bool four = d->how.uniform > 0; /* elements from one block */
    uint64_t block = four ? i / 4 : i;
    uint32_t word[4] = {(uint32_t)block, (uint32_t)(block >> 32), (uint32_t)d->param, 0x696e6974};

    if (d->how.uniform == 0 && d->how.normal == 0)
        return d->how.constant;
    attn__philox(word, d->seed);
    return four ? d->how.uniform * uniform(word[i % 4]) : d->how.normal * bell(word);
}

static void draw_piece(const void *arg, size_t piece)
{
    const drawing *d = arg;
    const attn_param *p = &d->model->param[d->param];
    float *f32 = (float *)d->model->weights + p->offset;
    double *f64 = (double *)d->model->weights + p->offset;
    bool wide = d->model->config.type == ATTN_F64;

    for (size_t i = piece * PIECE; i < attn__min((piece + 1) * PIECE, (size_t)p->count); i++) {
        double x = value(d, i);
        if (wide)
            f64[i] = x;
        else
            f32[i] = (float)x;
    }
}

static void draw(const attn_model *m, uint64_t seed, int param, recipe how)
{
    drawing d = {m, seed, (size_t)param, how};
    size_t count = param < 0 ? 0 : (size_t)m->param[param].count;

    attn__each(m->ctx, (count + PIECE - 1) / PIECE, count, draw_piece, &d);
}

/* `residual`: the result is added to the stream. */
static void draw_matrix(const attn_model *m, uint64_t seed, int param, bool residual)
{
    const attn_model_config *c = &m->config;
    recipe how = {0};

    if (param < 0)
        return;
    if (c->init == ATTN_INIT_XAVIER) {
        const int64_t *size = m->param[param].size;
        how.uniform = sqrt(6 / (double)(size[0] + size[1]));
    } else {
        double layers =
            (double)(c->encoder_layers > c->decoder_layers ? c->encoder_layers : c->decoder_layers);
        how.normal = residual ? c->init_std / sqrt(2 * layers) : c->init_std;
    }
    draw(m, seed, param, how);
}

static void draw_table(const attn_model *m, uint64_t seed, int param)
{
    const attn_model_config *c = &m->config;
    recipe how = {.normal = c->init == ATTN_INIT_NORMAL ? c->init_std : 1 / sqrt((double)c->d)};

    draw(m, seed, param, how);
}

static void draw_norm(const attn_model *m, uint64_t seed, attn__norm_layer n)
{
    draw(m, seed, n.weight, (recipe){.constant = m->config.norm_plus_one ? 0 : 1});
}

static void draw_attention(const attn_model *m, uint64_t seed, const attn__attention *a)
{
    draw_matrix(m, seed, a->q.weight, false);
    draw_matrix(m, seed, a->k.weight, false);
    draw_matrix(m, seed, a->v.weight, false);
    draw_matrix(m, seed, a->out.weight, true);
    draw(m, seed, a->q_norm.weight, (recipe){.constant = 1});
    draw(m, seed, a->k_norm.weight, (recipe){.constant = 1});
    draw(m, seed, a->temperature, (recipe){.constant = m->config.attention_scale});
    draw_matrix(m, seed, a->score, false);
}

static void draw_half(const attn_model *m, uint64_t seed, const attn__half *h)
{
    if (!h->present)
        return;
    draw_table(m, seed, h->embedding);
    draw_table(m, seed, h->positions);
    draw_table(m, seed, h->types);
    draw_table(m, seed, h->relative);
    draw_norm(m, seed, h->embedding_norm);
    draw_norm(m, seed, h->final_norm);
    for (size_t i = 0; i < h->layers; i++) {
        const attn__block *b = &h->block[i];

        draw_attention(m, seed, &b->self);
        draw_norm(m, seed, b->self_norm);
        if (b->cross.k.weight >= 0) {
            draw_attention(m, seed, &b->cross);
            draw_norm(m, seed, b->cross_norm);
        }
        draw_matrix(m, seed, b->up.weight, false);
        draw_matrix(m, seed, b->gate.weight, false);
        draw_matrix(m, seed, b->down.weight, true);
        draw_norm(m, seed, b->ff_norm);
    }
}

void attn__draw_model(attn_model *m, uint64_t seed)
{
    draw_half(m, seed, &m->encoder);
    draw_half(m, seed, &m->decoder);
    if (m->output != m->encoder.embedding && m->output != m->decoder.embedding)
        draw_matrix(m, seed, m->output, false);
}
