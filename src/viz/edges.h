/* edges.h: the heaviest keys of rows: lines between tokens, and what HTML keeps of long rows;
 * private to src/viz. */
#ifndef ATTN_VIZ_EDGES_H
#define ATTN_VIZ_EDGES_H

#include "include/attn/viz.h"

typedef struct attn__edge {
    int64_t query, key;
    double weight;
} attn__edge;

typedef struct attn__edges {
    attn__edge *at; /* heaviest first; equal weights by query, then key */
    size_t count, left_out;
    double heaviest;
} attn__edges;

/* The edges that hold figure->share of each row's mass, from the cells if they are single weights,
 * else from the heaviest keys given; of all these the `most` heaviest. */
attn_status attn__edges_make(const attn_ctx *ctx, const attn_figure *figure,
                             const attn_panel *panel, size_t most, attn__edges *edges,
                             attn_error *err);
void attn__edges_reset(const attn_ctx *ctx, attn__edges *edges);

/* The k heaviest keys of a row of n values, heaviest first, ties to the lower key; only cells with
 * a value count. Returns how many there are. `key` and `weight` have room for k. */
size_t attn__top_of_row(const double *value, const uint8_t *kind, int64_t n, size_t k, int64_t *key,
                        double *weight);

#endif
