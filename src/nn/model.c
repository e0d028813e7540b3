/* model.c: the list of a model's tensors, and making and freeing of models. Draws: draw.c. */
#include "src/nn/model.h"

#include "src/base/ctx.h"
#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/nn/draw.h"

#include <stdio.h>
#include <string.h>

enum { ALIGN = 16 /* elements; 64 bytes of float */ };

/* --- The list of tensors -------------------------------------------------------------------- */

/* Most tensors that a block, or what is not in blocks, may have. */
enum { BLOCK_TENSORS = 40, OTHER_TENSORS = 16 };

/* a b c; the longest name, "decoder.layers.9999.cross.q_norm.weight", fits. */
static void join(char to[attn__name_size], const char *a, const char *b, const char *c)
{
    const char *part[] = {a, b, c};
    size_t at = 0;

    for (size_t i = 0; i < 3; i++)
        for (const char *from = part[i]; *from && at + 1 < attn__name_size; from++)
            to[at++] = *from;
    to[at] = 0;
}

/* Adds a tensor; returns its number. There is room: see attn_model_create. */
static int add(attn_model *m, const char *prefix, const char *name, int64_t rows, int64_t cols,
               int flags)
{
    size_t i = m->param_count++;
    attn_param *p = &m->param[i];

    join(m->name[i], prefix, name, "");
    *p = (attn_param){.name = m->name[i],
                      .rank = rows ? 2 : 1,
                      .size = {rows ? rows : cols, rows ? cols : 1, 1, 1},
                      .offset = m->elements,
                      .count = (rows ? rows : 1) * cols,
                      .flags = flags};
    m->elements += (p->count + ALIGN - 1) / ALIGN * ALIGN;
    return (int)i;
}

static int add_vector(attn_model *m, const char *prefix, const char *name, int64_t size)
{
    return add(m, prefix, name, 0, size, 0);
}

static attn__linear add_linear(attn_model *m, const char *prefix, const char *name, int64_t out,
                               int64_t in, bool bias)
{
    char full[attn__name_size];
    attn__linear l = {-1, -1};

    join(full, prefix, name, ".");
    l.weight = add(m, full, "weight", out, in, ATTN_PARAM_DECAY);
    if (bias)
        l.bias = add_vector(m, full, "bias", out);
    return l;
}

static attn__norm_layer add_norm(attn_model *m, const char *prefix, const char *name, int64_t size,
                                 bool bias)
{
    char full[attn__name_size];
    attn__norm_layer n = {-1, -1};

    join(full, prefix, name, ".");
    n.weight = add_vector(m, full, "weight", size);
    if (bias)
        n.bias = add_vector(m, full, "bias", size);
    return n;
}

static attn__norm_layer add_block_norm(attn_model *m, const char *prefix, const char *name)
{
    return add_norm(m, prefix, name, m->config.d,
                    m->config.norm == ATTN_NORM_LAYER && !m->config.norm_no_bias);
}

static attn__attention add_attention(attn_model *m, const char *layer, const char *name)
{
    const attn_model_config *c = &m->config;
    attn__attention a = {.q_norm = {-1, -1}, .k_norm = {-1, -1}, .temperature = -1, .score = -1};
    bool layer_norm = c->qk_norm == ATTN_QK_LAYER, gate = c->score == ATTN_SCORE_GATE;
    char prefix[attn__name_size];

    join(prefix, layer, name, ".");
    /* Weights side by side, then biases: one matrix product for all three, see attn__joins. */
    a.q.weight = a.q.bias = a.k.bias = a.v.bias = -1;
    if (!gate)
        a.q.weight = add(m, prefix, "q.weight", c->heads * c->dk, c->d, ATTN_PARAM_DECAY);
    a.k.weight = add(m, prefix, "k.weight", c->kv_heads * c->dk, c->d, ATTN_PARAM_DECAY);
    a.v.weight = add(m, prefix, "v.weight", c->kv_heads * c->dv, c->d, ATTN_PARAM_DECAY);
    if (c->biases & ATTN_BIAS_Q && !gate)
        a.q.bias = add_vector(m, prefix, "q.bias", c->heads * c->dk);
    if (c->biases & ATTN_BIAS_K)
        a.k.bias = add_vector(m, prefix, "k.bias", c->kv_heads * c->dk);
    if (c->biases & ATTN_BIAS_V)
        a.v.bias = add_vector(m, prefix, "v.bias", c->kv_heads * c->dv);
    a.out = add_linear(m, prefix, "out", c->d, c->heads * c->dv, c->biases & ATTN_BIAS_OUT);
    if (c->qk_norm == ATTN_QK_RMS || layer_norm) {
        a.q_norm = add_norm(m, prefix, "q_norm", c->dk, layer_norm);
        a.k_norm = add_norm(m, prefix, "k_norm", c->dk, layer_norm);
    }
    if (c->qk_temperature)
        a.temperature = add_vector(m, prefix, "temperature", c->heads);
    if (c->score != ATTN_SCORE_DOT)
        a.score = add(m, prefix, "score.weight", c->heads, c->dk, ATTN_PARAM_DECAY);
    return a;
}

static void add_block(attn_model *m, const char *half, size_t i, bool cross, attn__block *b)
{
    const attn_model_config *c = &m->config;
    bool bias = c->biases & ATTN_BIAS_FF;
    char prefix[attn__name_size], number[24];

    snprintf(number, sizeof number, "%zu.", i);
    join(prefix, half, ".layers.", number);
    b->self = add_attention(m, prefix, "self");
    b->self_norm = add_block_norm(m, prefix, "self_norm");
    b->cross.k.weight = -1;
    if (cross) {
        b->cross = add_attention(m, prefix, "cross");
        b->cross_norm = add_block_norm(m, prefix, "cross_norm");
    }
    b->gate = (attn__linear){-1, -1};
    if (c->gated)
        b->gate = add_linear(m, prefix, "ff.gate", c->ff, c->d, bias);
    b->up = add_linear(m, prefix, "ff.up", c->ff, c->d, bias);
    b->down = add_linear(m, prefix, "ff.down", c->d, c->ff, bias);
    b->ff_norm = add_block_norm(m, prefix, "ff_norm");
}

static void add_half(attn_model *m, attn__half *h, const char *name, bool cross)
{
    const attn_model_config *c = &m->config;
    char prefix[attn__name_size];

    join(prefix, name, ".", "");
    h->positions = h->types = h->relative = -1;
    h->embedding_norm = h->final_norm = (attn__norm_layer){-1, -1};
    if (c->positions == ATTN_POSITIONS_LEARNED)
        h->positions = add(m, prefix, "positions.weight", c->max_positions, c->d, ATTN_PARAM_DECAY);
    if (c->token_types)
        h->types = add(m, prefix, "types.weight", c->token_types, c->d, ATTN_PARAM_DECAY);
    if (c->positions == ATTN_POSITIONS_T5)
        h->relative = add(m, prefix, "relative.weight", c->t5_buckets, c->heads, ATTN_PARAM_DECAY);
    if (c->embedding_norm == ATTN_YES)
        h->embedding_norm = add_block_norm(m, prefix, "embedding_norm");
    for (size_t i = 0; i < h->layers; i++)
        add_block(m, name, i, cross, &h->block[i]);
    if (c->final_norm == ATTN_YES)
        h->final_norm = add_block_norm(m, prefix, "norm");
}

static void add_tables(attn_model *m)
{
    const attn_model_config *c = &m->config;
    bool both = m->encoder.present && m->decoder.present;
    int64_t source = both ? c->source_vocabulary : c->vocabulary;

    if (both && !c->tie_embeddings) {
        m->encoder.embedding =
            add(m, "encoder.", "embedding.weight", source, c->d, ATTN_PARAM_DECAY);
        m->decoder.embedding =
            add(m, "decoder.", c->queries ? "queries.weight" : "embedding.weight",
                c->queries ? c->queries : c->vocabulary, c->d, ATTN_PARAM_DECAY);
    } else {
        m->encoder.embedding = m->decoder.embedding =
            add(m, "", "embedding.weight", c->vocabulary, c->d, ATTN_PARAM_DECAY);
    }
}

static void add_output(attn_model *m)
{
    const attn_model_config *c = &m->config;

    m->output = m->output_bias = -1;
    if (c->output != ATTN_YES)
        return;
    m->output = c->tie_output ? (m->decoder.present ? m->decoder.embedding : m->encoder.embedding)
                              : add(m, "output.", "weight", c->vocabulary, c->d, ATTN_PARAM_DECAY);
    if (c->output_bias)
        m->output_bias = add_vector(m, "output.", "bias", c->vocabulary);
}

static void list_tensors(attn_model *m)
{
    add_tables(m);
    if (m->encoder.present)
        add_half(m, &m->encoder, "encoder", false);
    if (m->decoder.present)
        add_half(m, &m->decoder, "decoder", m->encoder.present);
    add_output(m);
}

/* One tensor ends where the next begins; or neither is there. */
static bool adjacent(const attn_model *m, int first, int second)
{
    if (first < 0 || second < 0)
        return first < 0 && second < 0;
    return m->param[first].offset + m->param[first].count == m->param[second].offset;
}

bool attn__joins(const attn_model *m, const attn__attention *a, bool cross)
{
    const attn_model_config *c = &m->config;

    /* attn_backward wants views that lie side by side in rows to have the same strides */
    return c->dk == c->dv && (c->kv_heads > 1 || c->heads == 1) && !c->qk_norm &&
           !c->qk_temperature && c->score == ATTN_SCORE_DOT &&
           adjacent(m, a->k.weight, a->v.weight) && adjacent(m, a->k.bias, a->v.bias) &&
           (cross || (adjacent(m, a->q.weight, a->k.weight) && adjacent(m, a->q.bias, a->k.bias)));
}

/* --- Life ----------------------------------------------------------------------------------- */

static attn_status make_half(attn_model *m, attn__half *h, bool present, int64_t layers)
{
    h->present = present;
    h->layers = present ? (size_t)layers : 0;
    if (!present)
        return ATTN_OK;
    h->block = attn__new(m->ctx, h->layers * sizeof *h->block);
    return h->block ? ATTN_OK : ATTN_E_MEMORY;
}

static attn_status make_tables(attn_model *m)
{
    const attn_model_config *c = &m->config;
    size_t bytes;

    TRY(make_half(m, &m->encoder, attn__has_encoder(c), c->encoder_layers));
    TRY(make_half(m, &m->decoder, attn__has_decoder(c), c->decoder_layers));
    m->decoder.causal = c->queries == 0;
    m->param_room = (m->encoder.layers + m->decoder.layers) * BLOCK_TENSORS + OTHER_TENSORS;
    m->param = attn__new(m->ctx, m->param_room * sizeof *m->param);
    m->name = attn__new(m->ctx, m->param_room * sizeof *m->name);
    if (!m->param || !m->name)
        return ATTN_E_MEMORY;
    list_tensors(m);
    if (!attn__mul((size_t)m->elements, attn_type_size(c->type), &bytes))
        return ATTN_E_MEMORY;
    m->weights = attn__new(m->ctx, bytes);
    return m->weights ? ATTN_OK : ATTN_E_MEMORY;
}

attn_status attn__create(const attn_ctx *ctx, const attn_model_config *config, attn_model **out,
                         attn_error *err)
{
    attn_model_config done;
    attn_model *m;

    TRY(attn__complete(&done, config, err));
    if (attn_model_config_parameters(&done) < 0)
        return attn__fail(err, ATTN_E_SHAPE, 0, "config: too many parameters");
    m = attn__new(ctx, sizeof *m);
    if (!m)
        return attn__fail(err, ATTN_E_MEMORY, 0, "model object");
    m->ctx = ctx;
    m->config = done;
    if (make_tables(m) != ATTN_OK) {
        attn_model_destroy(m);
        return attn__fail(err, ATTN_E_MEMORY, 0, "model: no memory for %lld parameters",
                          (long long)attn_model_config_parameters(&done));
    }
    *out = m;
    return ATTN_OK;
}

attn_status attn_model_create(const attn_ctx *ctx, const attn_model_config *config, uint64_t seed,
                              attn_model **out, attn_error *err)
{
    if (!out)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "out: NULL");
    *out = NULL;
    if (!ctx)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "ctx: NULL");
    TRY(attn__create(ctx, config, out, err));
    attn__draw_model(*out, seed);
    return ATTN_OK;
}

void attn_model_destroy(attn_model *model)
{
    if (!model)
        return;
    attn__free(model->ctx, model->weights);
    attn__free(model->ctx, model->param);
    attn__free(model->ctx, model->name);
    attn__free(model->ctx, model->encoder.block);
    attn__free(model->ctx, model->decoder.block);
    attn__free(model->ctx, model);
}

/* --- Questions ------------------------------------------------------------------------------ */

const attn_ctx *attn_model_ctx(const attn_model *model)
{
    return model->ctx;
}

const attn_model_config *attn_model_get_config(const attn_model *model)
{
    return &model->config;
}

void *attn_model_weights(const attn_model *model)
{
    return model->weights;
}

int64_t attn_model_elements(const attn_model *model)
{
    return model->elements;
}

size_t attn_model_param_count(const attn_model *model)
{
    return model->param_count;
}

const attn_param *attn_model_param(const attn_model *model, size_t i)
{
    return i < model->param_count ? &model->param[i] : NULL;
}

const attn_param *attn_model_find_param(const attn_model *model, const char *name)
{
    for (size_t i = 0; i < model->param_count; i++)
        if (strcmp(model->param[i].name, name) == 0)
            return &model->param[i];
    return NULL;
}

attn_view attn_param_view(const attn_model *model, const attn_param *param, const void *block)
{
    attn_type type = model->config.type;
    int64_t rows = param->rank > 1 ? param->size[0] : 1;
    const char *data = (const char *)block + (size_t)param->offset * attn_type_size(type);

    return attn_view_bhsd(data, type, 1, 1, rows,
                          param->rank > 1 ? param->size[1] : param->size[0]);
}

static attn_view view_of(const attn_model *model, int param, const void *block)
{
    attn_view absent = {0};

    return param < 0 ? absent : attn_param_view(model, &model->param[param], block);
}

attn_view attn_model_output_weight(const attn_model *model, const void *block)
{
    return view_of(model, model->output, block);
}

attn_view attn_model_output_bias(const attn_model *model, const void *block)
{
    return view_of(model, model->output_bias, block);
}
