/* model.h: a model's parts: which tensor of the block each layer reads. */
#ifndef ATTN_NN_MODEL_H
#define ATTN_NN_MODEL_H

#include "src/nn/config.h"

#include <stddef.h>

/* Numbers of tensors; -1: there is none. */
typedef struct attn__linear {
    int weight, bias;
} attn__linear;

typedef struct attn__norm_layer {
    int weight, bias; /* no weight: no norm */
} attn__norm_layer;

typedef struct attn__attention {
    attn__linear q, k, v, out; /* q: not of a gate, whose queries are rows of `score` */
    attn__norm_layer q_norm, k_norm;
    int temperature;
    int score; /* of additive attention and gates */
} attn__attention;

typedef struct attn__block {
    attn__norm_layer self_norm, cross_norm, ff_norm;
    attn__attention self, cross; /* cross.k.weight -1: no cross-attention */
    attn__linear up, gate, down;
} attn__block;

typedef struct attn__half { /* encoder or decoder */
    bool present, causal;
    int embedding, positions, types, relative;
    attn__norm_layer embedding_norm, final_norm;
    size_t layers;
    attn__block *block;
} attn__half;

enum { attn__name_size = 64 };

struct attn_model {
    const attn_ctx *ctx;
    attn_model_config config;
    size_t param_count, param_room;
    attn_param *param;
    char (*name)[attn__name_size];
    int64_t elements;
    void *weights;
    attn__half encoder, decoder;
    int output, output_bias;
};

/* Whether queries, keys and values of one input (cross: keys and values) are rows of one matrix,
 * and nothing is done to them on their own. */
bool attn__joins(const attn_model *m, const attn__attention *a, bool cross);

/* A model whose parameters are all zero. *out is set on success only. */
attn_status attn__create(const attn_ctx *ctx, const attn_model_config *config, attn_model **out,
                         attn_error *err);

#endif
