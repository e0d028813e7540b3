/* layers.c: see layers.h: cuts the work into blocks of rows or of columns. Neither the number of
 * workers nor the cut of rows decides a bit: rows do not meet, and sums over rows are made column
 * by column (nn_kernels.h). */
#include "src/nn/layers.h"

#include "src/base/ctx.h"
#include "src/base/mem.h"
#include "src/kernels/kernels.h"
#include "src/core/each.h"

#include <string.h>

enum {
    ROWS = 16,   /* of an item */
    COLUMNS = 64 /* of an item that sums over rows: whole cache lines */
};

#define REAL float
#define L(name) name##_f32
#define KERNELS attn__nn_f32
#define TABLE nn_f32
#include "src/nn/layers_real.h"

#define REAL double
#define L(name) name##_f64
#define KERNELS attn__nn_f64
#define TABLE nn_f64
#include "src/nn/layers_real.h"

static size_t blocks(size_t n, size_t block)
{
    return (n + block - 1) / block;
}

static size_t end(size_t item, size_t block, size_t n)
{
    return attn__min((item + 1) * block, n);
}

/* An item of rows: the function that the type asks for, from the first to the last row. */
#define OVER_ROWS(call, function, i, ...)                                                          \
    ((call)->shape.f64 ? function##_f64 : function##_f32)(                                         \
        call, (i)*ROWS, end(i, ROWS, (call)->shape.rows) __VA_ARGS__)

static void each_rows(const attn__shape *s, size_t width, void (*item)(const void *arg, size_t i),
                      const void *call)
{
    attn__each(s->ctx, blocks(s->rows, ROWS), s->rows * width, item, call);
}

/* --- Norms ---------------------------------------------------------------------------------- */

static void norm_item(const void *arg, size_t i)
{
    const attn__norm_call *c = arg;

    OVER_ROWS(c, norm_rows, i, , false);
}

static void norm_back_item(const void *arg, size_t i)
{
    const attn__norm_call *c = arg;

    OVER_ROWS(c, norm_rows, i, , true);
}

static void norm_columns_item(const void *arg, size_t i)
{
    const attn__norm_call *c = arg;

    (c->shape.f64 ? norm_columns_f64 : norm_columns_f32)(c, i * COLUMNS,
                                                         end(i, COLUMNS, c->shape.n));
}

void attn__norm_forward(const attn__norm_call *c)
{
    each_rows(&c->shape, 4 * c->shape.n, norm_item, c);
}

void attn__norm_backward(const attn__norm_call *c)
{
    if (c->dweight || c->dbias) /* first: dx may be dout */
        attn__each(c->shape.ctx, blocks(c->shape.n, COLUMNS), c->shape.rows * c->shape.n,
                   norm_columns_item, c);
    if (c->dx.data)
        each_rows(&c->shape, 4 * c->shape.n, norm_back_item, c);
}

typedef struct columns_job {
    const attn__shape *shape;
    const attn__rows *x;
    void *sum;
} columns_job;

static void columns_item(const void *arg, size_t i)
{
    const columns_job *j = arg;

    (j->shape->f64 ? sum_columns_f64 : sum_columns_f32)(j->shape, j->x, j->sum, i * COLUMNS,
                                                        end(i, COLUMNS, j->shape->n));
}

void attn__add_columns(const attn__shape *shape, const attn__rows *x, void *sum)
{
    columns_job j = {shape, x, sum};

    attn__each(shape->ctx, blocks(shape->n, COLUMNS), shape->rows * shape->n, columns_item, &j);
}

/* --- Activations, dropout ------------------------------------------------------------------- */

static void activation_item(const void *arg, size_t i)
{
    const attn__activation_call *c = arg;

    OVER_ROWS(c, activation_rows, i, , false);
}

static void activation_back_item(const void *arg, size_t i)
{
    const attn__activation_call *c = arg;

    OVER_ROWS(c, activation_rows, i, , true);
}

void attn__activation_forward(const attn__activation_call *c)
{
    each_rows(&c->shape, 4 * c->shape.n, activation_item, c);
}

void attn__activation_backward(const attn__activation_call *c)
{
    each_rows(&c->shape, 4 * c->shape.n, activation_back_item, c);
}

static void dropout_item(const void *arg, size_t i)
{
    const attn__dropout_call *c = arg;

    OVER_ROWS(c, dropout_rows, i, );
}

void attn__dropout(const attn__dropout_call *c)
{
    each_rows(&c->shape, 2 * c->shape.n, dropout_item, c);
}

/* --- Embeddings and rotation ---------------------------------------------------------------- */

static void embedding_item(const void *arg, size_t i)
{
    const attn__embedding_call *c = arg;

    OVER_ROWS(c, embedding_rows, i, );
}

/* Rows of the tables are dealt out by their number; each part looks at all tokens. */
enum { PARTS = 32 };

static void scatter_item(const void *arg, size_t i)
{
    const attn__embedding_call *c = arg;

    (c->shape.f64 ? scatter_rows_f64 : scatter_rows_f32)(c, i, PARTS);
}

void attn__embedding_forward(const attn__embedding_call *c)
{
    each_rows(&c->shape, c->shape.n, embedding_item, c);
}

void attn__embedding_backward(const attn__embedding_call *c)
{
    attn__each(c->shape.ctx, PARTS, c->shape.rows * c->shape.n, scatter_item, c);
}

static void rotary_item(const void *arg, size_t i)
{
    const attn__rotary_call *c = arg;

    OVER_ROWS(c, rotary_rows, i, );
}

void attn__rotary(const attn__rotary_call *c)
{
    each_rows(&c->shape, 4 * c->shape.n * c->pairs, rotary_item, c);
}
