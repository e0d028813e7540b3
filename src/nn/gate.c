/* gate.c: see gate.h. A sequence's weights are made by one worker, gradients row by row. */
#include "src/nn/gate.h"

#include "src/base/ctx.h"
#include "src/base/mem.h"
#include "src/kernels/kernels.h"
#include "src/core/each.h"

#include <math.h>
#include <string.h>

enum { ROWS = 16 /* of an item, on the way back */ };

#define REAL float
#define L(name) name##_f32
#define TABLE nn_f32
#define CORE f32
#include "src/nn/gate_real.h"

#define REAL double
#define L(name) name##_f64
#define TABLE nn_f64
#define CORE f64
#include "src/nn/gate_real.h"

static void forward_item(const void *arg, size_t i)
{
    const attn__gate_call *c = arg;

    (c->shape.f64 ? gate_forward_f64 : gate_forward_f32)(c, i / c->gates, i % c->gates);
}

static void backward_item(const void *arg, size_t i)
{
    const attn__gate_call *c = arg;

    (c->shape.f64 ? gate_backward_f64
                  : gate_backward_f32)(c, i * ROWS, attn__min((i + 1) * ROWS, c->shape.rows));
}

void attn__gate_forward(const attn__gate_call *c)
{
    attn__each(c->shape.ctx, c->segments * c->gates, c->shape.rows * c->gates * c->shape.n,
               forward_item, c);
}

void attn__gate_backward(const attn__gate_call *c)
{
    attn__each(c->shape.ctx, (c->shape.rows + ROWS - 1) / ROWS,
               2 * c->shape.rows * c->gates * c->shape.n, backward_item, c);
}
