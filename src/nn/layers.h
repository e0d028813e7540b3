/* layers.h: the layers that are not matrix products or attention, on plain rows of one type. Their
 * arguments have been checked. Rows lie `stride` elements apart, columns side by side. */
#ifndef ATTN_NN_LAYERS_H
#define ATTN_NN_LAYERS_H

#include "include/attn/nn.h"

#include <stdbool.h>

/* A matrix of the call's type; no data: absent. */
typedef struct attn__rows {
    void *data;
    ptrdiff_t stride;
} attn__rows;

typedef struct attn__shape {
    const attn_ctx *ctx;
    bool f64;
    size_t rows, n; /* rows and columns */
} attn__shape;

/* out = norm(x); weight, bias: vectors [n] or NULL. mean and rstd: [rows]. */
typedef struct attn__norm_call {
    attn__shape shape;
    attn_norm kind;
    double eps, plus;
    const void *weight, *bias;
    attn__rows x, out;
    void *mean, *rstd;
    /* Backward: dx = (add, if there is data) + what comes from dout; may be either's memory. */
    attn__rows dout, add, dx;
    void *dweight, *dbias; /* [n], added to, or NULL */
} attn__norm_call;

void attn__norm_forward(const attn__norm_call *c);
void attn__norm_backward(const attn__norm_call *c);

/* sum[c] += sum of x[.][c] */
void attn__add_columns(const attn__shape *shape, const attn__rows *x, void *sum);

/* out = act(x) * times */
typedef struct attn__activation_call {
    attn__shape shape;
    attn_activation activation;
    attn__rows x, times, out;
    attn__rows dout, dx, dtimes;
} attn__activation_call;

void attn__activation_forward(const attn__activation_call *c);
void attn__activation_backward(const attn__activation_call *c);

/* out = add + factor * x where kept. Where the bits of row r come from: (positions[r],
 * sequences[r], site) and the seed. NULL: positions are row numbers, sequences 0. */
typedef struct attn__dropout_call {
    attn__shape shape;
    double rate; /* 0: everything is kept, and x is not scaled */
    uint64_t seed;
    uint32_t site;
    const int32_t *positions, *sequences;
    uint64_t *bits; /* [rows][words of n], made by `make`, then read; needed if rate > 0 */
    bool make;
    attn__rows x, add, out;
} attn__dropout_call;

void attn__dropout(const attn__dropout_call *c);

/* out[t] = scale * table[id[t]] + positions[at[t]] + kinds[kind[t]]; an id of -1 is a row of zeros.
 * Backward adds scale * dout[t], dout[t] and dout[t] to the rows of the tables' gradients, in the
 * order of t. */
typedef struct attn__embedding_call {
    attn__shape shape;
    double scale;
    const int32_t *id, *at, *kind;      /* at NULL: row numbers; kind NULL: 0 */
    attn__rows table, positions, kinds; /* no positions, no kinds: 0 */
    attn__rows out;
    attn__rows dout, dtable, dpositions, dkinds; /* absent: not wanted */
} attn__embedding_call;

void attn__embedding_forward(const attn__embedding_call *c);
void attn__embedding_backward(const attn__embedding_call *c);

/* Rotates the first 2 * pairs channels of each head, which are `width` apart in a row, by the row
 * at[r] of the tables [.][pairs]; sines are negated on the way back. */
typedef struct attn__rotary_call {
    attn__shape shape; /* n: heads */
    ptrdiff_t width;
    size_t pairs;
    bool adjacent, back;
    const int32_t *at; /* NULL: row numbers */
    const void *cosine, *sine, *minus_sine;
    attn__rows x;
} attn__rotary_call;

void attn__rotary(const attn__rotary_call *c);

/* Tables of positions offset, offset + 1, ..., in places.c. out: sines in one of the layouts of
 * attn_positions. */
typedef struct attn__sines_call {
    attn__shape shape;
    attn_positions layout;
    double base;
    int64_t offset;
    attn__rows out;
} attn__sines_call;

void attn__sines(const attn__sines_call *c);

/* What attn__rotary reads, dense. */
typedef struct attn__turns_call {
    attn__shape shape; /* n: pairs */
    double base;
    int64_t offset;
    void *cosine, *sine, *minus_sine;
} attn__turns_call;

void attn__turns(const attn__turns_call *c);

#endif
