/* copies.c: see copies.h. */
#include "src/nn/copies.h"

#include "src/base/error.h"
#include "src/base/half.h"
#include "src/base/mem.h"

#include <float.h>
#include <math.h>

typedef struct maker {
    attn__copies *to;
    const attn_model *model;
    attn_type type;
    void *narrow; /* the widest matrix in `type`; NULL: copies keep the model's type */
} maker;

/* One row as integers from -127 to 127 times a factor, which is returned. A row with NaN or an
 * infinity gets the factor NaN, so that it shows. */
static float quantise(int8_t *to, const float *from, size_t n)
{
    float top = 0, scale;

    for (size_t i = 0; i < n; i++)
        top = fmaxf(top, isfinite(from[i]) ? fabsf(from[i]) : INFINITY);
    scale = top / 127;
    if (!isfinite(scale))
        scale = NAN;
    else if (scale < FLT_MIN && top > 0)
        scale = FLT_MIN; /* a denormal one would lose what it divides by */
    for (size_t i = 0; i < n; i++)
        to[i] = (int8_t)(scale > 0 ? rintf(from[i] / scale) : 0);
    return scale;
}

/* The matrix in the copies' type. */
static attn_view narrow_view(const maker *k, attn_view w, float *scale, double factor)
{
    const float *from = w.data;
    size_t rows = (size_t)w.size[2], cols = (size_t)w.size[3];
    uint16_t *half = k->narrow;

    if (!k->narrow)
        return w;
    for (size_t i = 0; k->type != ATTN_I8 && i < rows * cols; i++)
        half[i] = k->type == ATTN_F16 ? attn__f32_to_f16(from[i]) : attn__f32_to_bf16(from[i]);
    for (size_t r = 0; k->type == ATTN_I8 && r < rows; r++)
        scale[r] = quantise((int8_t *)k->narrow + r * cols, from + r * cols, cols) * (float)factor;
    return attn_view_bhsd(k->narrow, k->type, 1, 1, (int64_t)rows, (int64_t)cols);
}

/* The matrix of a tensor, with `outs` rows (0: its own). */
static attn_status copy(const maker *k, int weight, size_t outs, double factor, attn_error *err)
{
    const attn_model *m = k->model;
    attn_view w;
    float *scale = NULL;

    if (weight < 0)
        return ATTN_OK;
    w = attn_param_view(m, &m->param[weight], m->weights);
    if (outs)
        w.size[2] = (int64_t)outs;
    if (k->type == ATTN_I8) {
        scale = attn__alloc(m->ctx, (size_t)w.size[2] * sizeof *scale);
        if (!scale)
            return attn__fail(err, ATTN_E_MEMORY, 0, "copies of weights: scales");
        k->to->scale[weight] = scale;
    }
    k->to->rows[weight] = (size_t)w.size[2];
    w = narrow_view(k, w, scale, factor);
    return attn_gemm_pack(m->ctx, &w, &k->to->packed[weight], err);
}

static attn_status copy_attention(const maker *k, const attn__attention *a, bool cross,
                                  attn_error *err)
{
    const attn_model_config *c = &k->model->config;
    size_t q = (size_t)(c->heads * c->dk), kv = (size_t)(c->kv_heads * (c->dk + c->dv));
    bool joined = attn__joins(k->model, a, cross);

    if (a->k.weight < 0)
        return ATTN_OK;
    TRY(copy(k, a->q.weight, joined && !cross ? q + kv : 0, 1, err));
    if (!joined || cross)
        TRY(copy(k, a->k.weight, joined ? kv : 0, 1, err));
    if (!joined)
        TRY(copy(k, a->v.weight, 0, 1, err));
    return copy(k, a->out.weight, 0, 1, err);
}

static attn_status copy_half(const maker *k, const attn__half *h, attn_error *err)
{
    for (size_t i = 0; h->present && i < h->layers; i++) {
        const attn__block *b = &h->block[i];

        TRY(copy_attention(k, &b->self, false, err));
        TRY(copy_attention(k, &b->cross, true, err));
        TRY(copy(k, b->up.weight, 0, 1, err));
        TRY(copy(k, b->gate.weight, 0, 1, err));
        TRY(copy(k, b->down.weight, 0, 1, err));
    }
    return ATTN_OK;
}

/* Elements of the largest matrix. */
static size_t largest(const attn_model *m)
{
    const attn_model_config *c = &m->config;
    size_t size = (size_t)((c->heads * c->dk + c->kv_heads * (c->dk + c->dv)) * c->d);

    for (size_t i = 0; i < m->param_count; i++)
        if ((size_t)m->param[i].count > size)
            size = (size_t)m->param[i].count;
    return size;
}

attn_status attn__copies_make(attn__copies *c, const attn_model *model, attn_type type,
                              double factor, attn_error *err)
{
    maker k = {.to = c, .model = model, .type = type};
    attn_status st;

    c->packed = attn__new(model->ctx, model->param_count * sizeof *c->packed);
    c->scale = attn__new(model->ctx, model->param_count * sizeof *c->scale);
    c->rows = attn__new(model->ctx, model->param_count * sizeof *c->rows);
    if (type != ATTN_F32)
        k.narrow = attn__alloc(model->ctx, largest(model) * attn_type_size(type));
    st = c->packed && c->scale && c->rows && (k.narrow || type == ATTN_F32)
             ? ATTN_OK
             : attn__fail(err, ATTN_E_MEMORY, 0, "copies of weights");
    if (st == ATTN_OK)
        st = copy_half(&k, &model->encoder, err);
    if (st == ATTN_OK)
        st = copy_half(&k, &model->decoder, err);
    if (st == ATTN_OK)
        st = copy(&k, model->output, 0, factor, err);
    attn__free(model->ctx, k.narrow);
    return st;
}

void attn__copies_free(attn__copies *c, const attn_model *model)
{
    for (size_t i = 0; c->packed && i < model->param_count; i++)
        attn_packed_destroy(c->packed[i]);
    for (size_t i = 0; c->scale && i < model->param_count; i++)
        attn__free(model->ctx, c->scale[i]);
    attn__free(model->ctx, c->packed);
    attn__free(model->ctx, c->scale);
    attn__free(model->ctx, c->rows);
    *c = (attn__copies){0};
}
