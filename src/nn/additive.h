/* additive.h: attention by w . tanh(q + k), and factors of heads: what attn.h has no call for. */
#ifndef ATTN_NN_ADDITIVE_H
#define ATTN_NN_ADDITIVE_H

#include "src/nn/pass.h"

/* Rows [row][head][width], dense. p: weights [head][row][longest rounded up to 64], kept for the
 * way back. */
typedef struct attn__additive_call {
    const attn_ctx *ctx;
    bool f64, causal;
    size_t heads, key_heads, dk, dv, segments, rows, longest;
    const int64_t *q_starts, *k_starts;
    const void *q, *k, *v, *w; /* w [heads][dk] */
    void *p, *out;
    const void *dout;
    void *dq, *dkeys, *dvalues, *dw; /* dw is added to */
} attn__additive_call;

void attn__additive_forward(const attn__additive_call *c);
void attn__additive_backward(const attn__additive_call *c);

/* Copies the weights of heads `head`.. into a view as attn_look has it. */
void attn__additive_show(const attn__additive_call *c, const attn_view *weights, size_t head);

/* Elements of p. */
size_t attn__additive_size(size_t heads, size_t rows, size_t longest);

/* out[row][head] = factor[head] * x[row][head]; back: dx in place, dfactor added to. */
void attn__temper(const attn__run *r, size_t rows, const void *factor, const void *x, void *out);
void attn__temper_back(const attn__run *r, size_t rows, const void *factor, const void *x, void *dx,
                       void *dfactor);

#endif
