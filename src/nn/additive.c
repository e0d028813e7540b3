/* additive.c: see additive.h. n m dk hyperbolic tangents and no matrix product: slow by nature. */
#include "src/nn/additive.h"

#include "src/base/ctx.h"
#include "src/base/mem.h"
#include "src/kernels/kernels.h"
#include "src/core/each.h"

#include <math.h>
#include <string.h>

typedef struct temper_job {
    const attn__run *r;
    size_t rows;
    const void *factor, *x;
    void *out;
    void *sum; /* the way back: out is the gradient */
} temper_job;

static size_t keys_of(const attn__additive_call *c, size_t segment)
{
    return (size_t)(c->k_counts ? c->k_counts[segment]
                                : c->k_starts[segment + 1] - c->k_starts[segment]);
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

/* About the number of hyperbolic tangents. */
static size_t work_of(const attn__additive_call *c)
{
    return (size_t)c->q_starts[c->segments] * c->longest * c->dk;
}

void attn__additive_forward(const attn__additive_call *c)
{
    attn__each(c->ctx, c->segments * c->heads, work_of(c), forward_item, c);
}

void attn__additive_backward(const attn__additive_call *c)
{
    attn__each(c->ctx, c->key_heads, work_of(c), backward_item, c);
}

static void show_row(const attn__additive_call *c, const attn_view *w, char *to, size_t i, size_t h,
                     size_t n)
{
    ptrdiff_t at = (ptrdiff_t)i * c->p.row + (ptrdiff_t)h * c->p.head;

    for (int64_t j = 0; j < w->size[3];
         j++, to += w->stride[3] * (int64_t)attn_type_size(w->type)) {
        double x = 0;

        if ((size_t)j < n)
            x = c->f64 ? ((const double *)c->p.data)[at + j]
                       : (double)((const float *)c->p.data)[at + j];
        if (w->type == ATTN_F64)
            *(double *)(void *)to = x;
        else
            *(float *)(void *)to = (float)x;
    }
}

void attn__additive_show(const attn__additive_call *c, const attn_view *w, size_t head)
{
    for (int64_t s = 0; s < w->size[0]; s++)
        for (int64_t h = 0; h < w->size[1]; h++)
            for (int64_t i = 0; i < w->size[2]; i++) {
                int64_t row = c->q_starts[s] + i, keys = c->k_starts[s + 1] - c->k_starts[s];
                int64_t at = s * w->stride[0] + h * w->stride[1] + i * w->stride[2];
                int64_t n = c->causal && i + 1 < keys ? i + 1 : keys;

                show_row(c, w, (char *)w->data + at * (int64_t)attn_type_size(w->type), (size_t)row,
                         head + (size_t)h, row < c->q_starts[s + 1] ? (size_t)n : 0);
            }
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
