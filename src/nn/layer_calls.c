/* layer_calls.c: norms, activations and linear layers of nn.h: checks, then layers.h. Other layers:
 * token_calls.c, attend_calls.c. */
#include "src/nn/call_args.h"

#include "src/base/error.h"

#include <string.h>

/* --- Norms ---------------------------------------------------------------------------------- */

static attn_status open_norm(attn__norm_call *c, attn_norm_args *a, const attn_ctx *ctx,
                             const attn_norm_args *args, attn_error *err)
{
    void *weight, *bias;

    TRY(attn__take_args(a, sizeof *a, args, ctx, err));
    memset(c, 0, sizeof *c);
    if ((int)a->kind < 0 || a->kind > ATTN_NORM_L2)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "kind: %d is not in attn_norm", (int)a->kind);
    if (!(a->eps >= 0 && a->eps <= 1))
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "eps: %g, expected 0 to 1", a->eps);
    TRY(attn__open_shape(&c->shape, ctx, &a->x, "x", err));
    c->kind = a->kind;
    c->eps = a->eps;
    c->plus = a->plus_one ? 1 : 0;
    TRY(attn__take_rows(&c->shape, &a->x, c->shape.rows, c->shape.n, false, "x", &c->x, err));
    TRY(attn__take_vector(&c->shape, &a->weight, c->shape.n, true, "weight", &weight, err));
    TRY(attn__take_vector(&c->shape, &a->bias, c->shape.n, true, "bias", &bias, err));
    TRY(attn__take_vector(&c->shape, &a->mean, c->shape.rows, c->shape.rows == 0, "mean", &c->mean,
                          err));
    TRY(attn__take_vector(&c->shape, &a->rstd, c->shape.rows, c->shape.rows == 0, "rstd", &c->rstd,
                          err));
    c->weight = weight;
    c->bias = bias;
    return ATTN_OK;
}

attn_status attn_norm_forward(const attn_ctx *ctx, const attn_norm_args *args, attn_error *err)
{
    attn_norm_args a;
    attn__norm_call c;

    TRY(open_norm(&c, &a, ctx, args, err));
    TRY(attn__take_rows(&c.shape, &a.out, c.shape.rows, c.shape.n, false, "out", &c.out, err));
    attn__norm_forward(&c);
    return ATTN_OK;
}

attn_status attn_norm_backward(const attn_ctx *ctx, const attn_norm_args *args, attn_error *err)
{
    attn_norm_args a;
    attn__norm_call c;
    const attn__shape *s = &c.shape;

    TRY(open_norm(&c, &a, ctx, args, err));
    TRY(attn__take_rows(s, &a.dout, s->rows, s->n, false, "dout", &c.dout, err));
    TRY(attn__take_rows(s, &a.add, s->rows, s->n, true, "add", &c.add, err));
    TRY(attn__take_rows(s, &a.dx, s->rows, s->n, true, "dx", &c.dx, err));
    TRY(attn__take_vector(s, &a.dweight, s->n, true, "dweight", &c.dweight, err));
    TRY(attn__take_vector(s, &a.dbias, s->n, true, "dbias", &c.dbias, err));
    attn__norm_backward(&c);
    return ATTN_OK;
}

/* --- Activations ---------------------------------------------------------------------------- */

static attn_status open_activation(attn__activation_call *c, attn_activation_args *a,
                                   const attn_ctx *ctx, const attn_activation_args *args,
                                   attn_error *err)
{
    TRY(attn__take_args(a, sizeof *a, args, ctx, err));
    memset(c, 0, sizeof *c);
    if ((int)a->activation < ATTN_ACT_NONE || a->activation > ATTN_ACT_SILU)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "activation: %d is not in attn_activation",
                          (int)a->activation);
    TRY(attn__open_shape(&c->shape, ctx, &a->x, "x", err));
    c->activation = a->activation;
    TRY(attn__take_rows(&c->shape, &a->x, c->shape.rows, c->shape.n, false, "x", &c->x, err));
    return attn__take_rows(&c->shape, &a->times, c->shape.rows, c->shape.n, true, "times",
                           &c->times, err);
}

attn_status attn_activation_forward(const attn_ctx *ctx, const attn_activation_args *args,
                                    attn_error *err)
{
    attn_activation_args a;
    attn__activation_call c;

    TRY(open_activation(&c, &a, ctx, args, err));
    TRY(attn__take_rows(&c.shape, &a.out, c.shape.rows, c.shape.n, false, "out", &c.out, err));
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
    TRY(attn__take_rows(s, &a.dout, s->rows, s->n, false, "dout", &c.dout, err));
    TRY(attn__take_rows(s, &a.dx, s->rows, s->n, false, "dx", &c.dx, err));
    if (c.times.data)
        TRY(attn__take_rows(s, &a.dtimes, s->rows, s->n, false, "dtimes", &c.dtimes, err));
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

    TRY(attn__take_args(&a, sizeof a, args, ctx, err));
    TRY(attn__open_shape(&s, ctx, &a.x, "x", err));
    TRY(attn__take_rows(&s, &a.x, s.rows, s.n, false, "x", &x, err));
    out = a.dout.size[3] > 0 ? (size_t)a.dout.size[3] : 0;
    TRY(attn__take_rows(&s, &a.dout, s.rows, out, false, "dout", &dout, err));
    TRY(attn__take_vector(&s, &a.dbias, out, true, "dbias", &dbias, err));
    if (attn__is_there(&a.dx)) {
        g.a = a.dout;
        g.w = attn_view_transposed(a.weight);
        g.residual = a.add;
        g.out = a.dx;
        TRY(attn_gemm(ctx, &g, err));
    }
    if (attn__is_there(&a.dweight)) {
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
