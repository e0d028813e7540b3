/* config.h: questions about a completed configuration, and the list of its parameters. */
#ifndef ATTN_NN_CONFIG_H
#define ATTN_NN_CONFIG_H

#include "include/attn/nn.h"

#include <stdbool.h>

static inline bool attn__has_encoder(const attn_model_config *c)
{
    return c->stack != ATTN_STACK_DECODER;
}

static inline bool attn__has_decoder(const attn_model_config *c)
{
    return c->stack != ATTN_STACK_ENCODER;
}

static inline bool attn__is_rotary(const attn_model_config *c)
{
    return c->positions == ATTN_POSITIONS_ROTARY || c->positions == ATTN_POSITIONS_ROTARY_PAIRS;
}

static inline bool attn__is_sinusoid(const attn_model_config *c)
{
    return c->positions <= ATTN_POSITIONS_MARIAN;
}

/* The caller's configuration, checked and completed. */
attn_status attn__complete(attn_model_config *to, const attn_model_config *from, attn_error *err);

#endif
