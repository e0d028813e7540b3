/* gate.h: weighted sums of a sequence's rows, whose weights come from no query. */
#ifndef ATTN_NN_GATE_H
#define ATTN_NN_GATE_H

#include "src/nn/layers.h"

/* See attn_gate_args. Row s * gates + g of out is gate g of sequence s. */
typedef struct attn__gate_call {
    attn__shape shape; /* of x */
    attn_gate gate;
    size_t gates, segments;
    const int64_t *starts;
    attn__rows x, z, w, out;
    attn__rows dout, dx, dz; /* no dx, no dz: not wanted */
} attn__gate_call;

void attn__gate_forward(const attn__gate_call *c);
void attn__gate_backward(const attn__gate_call *c);

#endif
