/* draw.h: the first values of a model's parameters. */
#ifndef ATTN_NN_DRAW_H
#define ATTN_NN_DRAW_H

#include "src/nn/model.h"

/* Fills the block, which is zeroed. */
void attn__draw_model(attn_model *m, uint64_t seed);

/* The counter-based generator of attn.h's dropout: four words from a counter and a key. */
void attn__philox(uint32_t word[4], uint64_t key);

#endif
