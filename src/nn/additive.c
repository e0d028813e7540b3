/* additive.c: see additive.h. n m dk hyperbolic tangents and no matrix product: slow by nature. */
#include "src/nn/additive.h"

#include "src/base/ctx.h"
#include "src/base/mem.h"
#include "src/kernels/kernels.h"
#include "src/nn/each.h"

#include <math.h>
#include <string.h>

typedef struct temper_job {
    const attn__run *r;
    size_t rows;
    const void *factor, *x;
    void *out;
    void *sum; /* the way back: out is the gradient */
} temper_job;

static size_t p_width(size_t longest)
{
    return (longest + attn__tile - 1) / attn__tile * attn__tile;
}

#define REAL float
#define A(name) name##_f32
#define NN nn_f32
#define CORE f32
#include "src/nn/additive_real.h"

#define REAL double
#define A(name) name##_f64
#define NN nn_f64
#define CORE f64
#include "src/nn/additive_real.h"

size_t attn__additive_size(size_t heads, size_t rows, size_t longest)
{
    size_t n;

    return attn__mul(heads, rows, &n) && attn__mul(n, p_width(longest), &n) ? n : SIZE_MAX;
}

static void forward_item(const void *arg, size_t i)
{
    const attn__additive_call *c = arg;

    (c->f64 ? forward_f64 : forward_f32)(c, i / c->heads, i % c->heads);
}

static void backward_item(const void *arg, size_t i)
{
    const attn__additive_call *c = arg;

    (c->f64 ? backward_f64 : backward_f32)(c, i);
}

void attn__additive_forward(const attn__additive_call *c)
{
    attn__each(c->ctx, c->segments * c->heads, c->rows * c->longest * c->dk, forward_item, c);
}

void attn__additive_backward(const attn__additive_call *c)
{
    attn__each(c->ctx, c->key_heads, c->rows * c->longest * c->dk, backward_item, c);
}

static void temper_item(const void *arg, size_t i)
{
    const temper_job *t = arg;

    (t->r->f64 ? temper_f64 : temper_f32)(t, i);
}

void attn__temper(const attn__run *r, size_t rows, const void *factor, const void *x, void *out)
{
    size_t heads = (size_t)r->model->config.heads;
    temper_job t = {r, rows, factor, x, out, NULL};

    attn__each(r->ctx, heads, rows * heads * (size_t)r->model->config.dk, temper_item, &t);
}

void attn__temper_back(const attn__run *r, size_t rows, const void *factor, const void *x, void *dx,
                       void *dfactor)
{
    size_t heads = (size_t)r->model->config.heads;
    temper_job t = {r, rows, factor, x, dx, dfactor};

    attn__each(r->ctx, heads, rows * heads * (size_t)r->model->config.dk, temper_item, &t);
}
