/* layer_calls.c: the layers of nn.h for callers of their own: checks, then layers.h. */
#include "src/nn/layers.h"

#include "src/base/error.h"
#include "src/base/mem.h"

#include <string.h>

/* Copies a versioned struct; see attn.h. */
static attn_status take(void *to, size_t known, const void *from, const attn_ctx *ctx,
                        attn_error *err)
{
    size_t size = 0;

    if (!ctx || !from)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s: NULL", ctx ? "args" : "ctx");
    memcpy(&size, from, sizeof size);
    if (size < sizeof size || size > 1 << 16)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "args.struct_size: %zu; use the _INIT macro",
                          size);
    for (size_t i = known; i < size; i++)
        if (((const char *)from)[i] != 0)
            return attn__fail(err, ATTN_E_ARGUMENT, 0,
                              "args: has fields that this version does not know");
    memset(to, 0, known);
    memcpy(to, from, attn__min(size, known));
    return ATTN_OK;
}

static bool is_there(const attn_view *v)
{
    return v->data || v->size[0] || v->size[1] || v->size[2] || v->size[3];
}

/* The first view of a call decides the type and the rows. */
static attn_status open_shape(attn__shape *s, const attn_ctx *ctx, const attn_view *x,
                              attn_error *err)
{
    if (x->type != ATTN_F32 && x->type != ATTN_F64)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "x: type %s, expected f32 or f64",
                          attn_type_name(x->type));
    if (x->size[2] < 0 || x->size[3] < 1)
        return attn__fail(err, ATTN_E_SHAPE, 0, "x: %lld rows of %lld", (long long)x->size[2],
                          (long long)x->size[3]);
    *s = (attn__shape){ctx, x->type == ATTN_F64, (size_t)x->size[2], (size_t)x->size[3]};
    return ATTN_OK;
}

/* Rows of a call. An absent view gives no data, if it may. */
static attn_status take_rows(const attn__shape *s, const attn_view *v, size_t rows, size_t cols,
                             bool optional, const char *what, attn__rows *to, attn_error *err)
{
    *to = (attn__rows){NULL, 0};
    if (optional && !is_there(v))
        return ATTN_OK;
    if (v->type != (s->f64 ? ATTN_F64 : ATTN_F32))
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s: type %s with x of type %s", what,
                          attn_type_name(v->type), s->f64 ? "f64" : "f32");
    if (v->size[0] != 1 || v->size[1] != 1 || v->size[2] != (int64_t)rows ||
        v->size[3] != (int64_t)cols)
        return attn__fail(err, ATTN_E_SHAPE, 0,
                          "%s: shape [%lld, %lld, %lld, %lld], expected [1, 1, %zu, %zu]", what,
                          (long long)v->size[0], (long long)v->size[1], (long long)v->size[2],
                          (long long)v->size[3], rows, cols);
    if (cols > 1 && v->stride[3] != 1)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s: columns are not adjacent", what);
    if (!v->data && rows > 0)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s: no data", what);
    *to = (attn__rows){v->data, (ptrdiff_t)v->stride[2]};
    return ATTN_OK;
}

static attn_status take_vector(const attn__shape *s, const attn_view *v, size_t n, bool optional,
                               const char *what, void **to, attn_error *err)
{
    attn__rows rows;

    TRY(take_rows(s, v, 1, n, optional, what, &rows, err));
    *to = rows.data;
    return ATTN_OK;
}

/* --- Norms ---------------------------------------------------------------------------------- */

static attn_status open_norm(attn__norm_call *c, attn_norm_args *a, const attn_ctx *ctx,
                             const attn_norm_args *args, attn_error *err)
{
    void *weight, *bias;

    TRY(take(a, sizeof *a, args, ctx, err));
    memset(c, 0, sizeof *c);
    if ((int)a->kind < 0 || a->kind > ATTN_NORM_L2)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "kind: %d is not in attn_norm", (int)a->kind);
    if (!(a->eps >= 0 && a->eps <= 1))
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "eps: %g, expected 0 to 1", a->eps);
    TRY(open_shape(&c->shape, ctx, &a->x, err));
    c->kind = a->kind;
    c->eps = a->eps;
    c->plus = a->plus_one ? 1 : 0;
    TRY(take_rows(&c->shape, &a->x, c->shape.rows, c->shape.n, false, "x", &c->x, err));
    TRY(take_vector(&c->shape, &a->weight, c->shape.n, true, "weight", &weight, err));
    TRY(take_vector(&c->shape, &a->bias, c->shape.n, true, "bias", &bias, err));
    TRY(take_vector(&c->shape, &a->mean, c->shape.rows, c->shape.rows == 0, "mean", &c->mean, err));
    TRY(take_vector(&c->shape, &a->rstd, c->shape.rows, c->shape.rows == 0, "rstd", &c->rstd, err));
    c->weight = weight;
    c->bias = bias;
    return ATTN_OK;
}

attn_status attn_norm_forward(const attn_ctx *ctx, const attn_norm_args *args, attn_error *err)
{
    attn_norm_args a;
    attn__norm_call c;

    TRY(open_norm(&c, &a, ctx, args, err));
    TRY(take_rows(&c.shape, &a.out, c.shape.rows, c.shape.n, false, "out", &c.out, err));
    attn__norm_forward(&c);
    return ATTN_OK;
}

attn_status attn_norm_backward(const attn_ctx *ctx, const attn_norm_args *args, attn_error *err)
{
    attn_norm_args a;
    attn__norm_call c;
    const attn__shape *s = &c.shape;

    TRY(open_norm(&c, &a, ctx, args, err));
    TRY(take_rows(s, &a.dout, s->rows, s->n, false, "dout", &c.dout, err));
    TRY(take_rows(s, &a.add, s->rows, s->n, true, "add", &c.add, err));
    TRY(take_rows(s, &a.dx, s->rows, s->n, true, "dx", &c.dx, err));
    TRY(take_vector(s, &a.dweight, s->n, true, "dweight", &c.dweight, err));
    TRY(take_vector(s, &a.dbias, s->n, true, "dbias", &c.dbias, err));
    attn__norm_backward(&c);
    return ATTN_OK;
}

/* --- Activations ---------------------------------------------------------------------------- */

static attn_status open_activation(attn__activation_call *c, attn_activation_args *a,
                                   const attn_ctx *ctx, const attn_activation_args *args,
                                   attn_error *err)
{
    TRY(take(a, sizeof *a, args, ctx, err));
    memset(c, 0, sizeof *c);
    if ((int)a->activation < ATTN_ACT_NONE || a->activation > ATTN_ACT_SILU)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "activation: %d is not in attn_activation",
                          (int)a->activation);
    TRY(open_shape(&c->shape, ctx, &a->x, err));
    c->activation = a->activation;
    TRY(take_rows(&c->shape, &a->x, c->shape.rows, c->shape.n, false, "x", &c->x, err));
    return take_rows(&c->shape, &a->times, c->shape.rows, c->shape.n, true, "times", &c->times,
                     err);
}

attn_status attn_activation_forward(const attn_ctx *ctx, const attn_activation_args *args,
                                    attn_error *err)
{
    attn_activation_args a;
    attn__activation_call c;

    TRY(open_activation(&c, &a, ctx, args, err));
    TRY(take_rows(&c.shape, &a.out, c.shape.rows, c.shape.n, false, "out", &c.out, err));
    attn__activation_forward(&c);
    return ATTN_OK;
}

attn_status attn_activation_backward(const attn_ctx *ctx, const attn_activation_args *args,
                                     attn_error *err)
{
    attn_activation_args a;
    attn__activation_call c;
    const attn__shape *s = &c.shape;

    TRY(open_activation(&c, &a, ctx, args, err));
    TRY(take_rows(s, &a.dout, s->rows, s->n, false, "dout", &c.dout, err));
    TRY(take_rows(s, &a.dx, s->rows, s->n, false, "dx", &c.dx, err));
    if (c.times.data)
        TRY(take_rows(s, &a.dtimes, s->rows, s->n, false, "dtimes", &c.dtimes, err));
    attn__activation_backward(&c);
    return ATTN_OK;
}

/* --- Linear --------------------------------------------------------------------------------- */

attn_status attn_linear_backward(const attn_ctx *ctx, const attn_linear_args *args, attn_error *err)
{
    attn_linear_args a;
    attn_gemm_args g = ATTN_GEMM_ARGS_INIT;
    attn__shape s;
    attn__rows x, dout;
    void *dbias;
    size_t out;

    TRY(take(&a, sizeof a, args, ctx, err));
    TRY(open_shape(&s, ctx, &a.x, err));
    TRY(take_rows(&s, &a.x, s.rows, s.n, false, "x", &x, err));
    out = a.dout.size[3] > 0 ? (size_t)a.dout.size[3] : 0;
    TRY(take_rows(&s, &a.dout, s.rows, out, false, "dout", &dout, err));
    TRY(take_vector(&s, &a.dbias, out, true, "dbias", &dbias, err));
    if (is_there(&a.dx)) {
        g.a = a.dout;
        g.w = attn_view_transposed(a.weight);
        g.residual = a.add;
        g.out = a.dx;
        TRY(attn_gemm(ctx, &g, err));
    }
    if (is_there(&a.dweight)) {
        g = (attn_gemm_args)ATTN_GEMM_ARGS_INIT;
        g.a = attn_view_transposed(a.dout);
        g.w = attn_view_transposed(a.x);
        g.residual = g.out = a.dweight;
        TRY(attn_gemm(ctx, &g, err));
    }
    s.n = out;
    if (dbias)
        attn__add_columns(&s, &dout, dbias);
    return ATTN_OK;
}
