/* additive.h: attention by w . tanh(q + k), and factors of heads: what attn.h has no call for. */
#ifndef ATTN_NN_ADDITIVE_H
#define ATTN_NN_ADDITIVE_H

#include "src/nn/pass.h"

/* Element c of head h of row r is data[r row + h head + c]. */
typedef struct attn__grid {
    void *data;
    ptrdiff_t row, head;
} attn__grid;

/* Rows of all sequences, packed. p: the weights of each query row, over the keys of its own
 * sequence, kept for the way back; zeros from there to `longest`. */
typedef struct attn__additive_call {
    const attn_ctx *ctx;
    bool f64, causal;
    size_t heads, key_heads, dk, dv, segments, longest;
    const int64_t *q_starts, *k_starts;
    const int64_t *k_counts; /* keys of each segment; NULL: up to the next one's first */
    const void *w;           /* [heads][dk] */
    attn__grid q, k, v, p, out;
    attn__grid dout, dq, dkeys, dvalues;
    void *dw; /* added to */
} attn__additive_call;

void attn__additive_forward(const attn__additive_call *c);
void attn__additive_backward(const attn__additive_call *c);

/* Copies the weights of heads `head`.. into a view as attn_look has it. */
void attn__additive_show(const attn__additive_call *c, const attn_view *weights, size_t head);

/* out[row][head] = factor[head] * x[row][head]; back: dx in place, dfactor added to. */
void attn__temper(const attn__run *r, size_t rows, const void *factor, const void *x, void *out);
void attn__temper_back(const attn__run *r, size_t rows, const void *factor, const void *x, void *dx,
                       void *dfactor);

#endif
