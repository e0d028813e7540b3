/* steps.c: what the steps of a pass have in common: tensors, products, norms and dropout. */
#include "src/nn/pass.h"

#include "src/base/error.h"

void *attn__tensor(const attn__run *r, int param, bool gradient)
{
    char *block = gradient ? r->gradients : r->model->weights;

    return param < 0 ? NULL : block + (size_t)r->model->param[param].offset * r->unit;
}

attn_view attn__tensor_view(const attn__run *r, int param, bool gradient)
{
    attn_view absent = {0};

    if (param < 0)
        return absent;
    return attn_param_view(r->model, &r->model->param[param],
                           gradient ? r->gradients : r->model->weights);
}

attn_view attn__matrix_view(const attn__run *r, const void *data, size_t rows, size_t cols)
{
    return attn_view_bhsd(data, r->model->config.type, 1, 1, (int64_t)rows, (int64_t)cols);
}

attn__rows attn__dense(void *data, size_t cols)
{
    attn__rows rows = {data, (ptrdiff_t)cols};

    return rows;
}

attn__shape attn__shape_of(const attn__run *r, size_t rows, size_t n)
{
    attn__shape s = {r->ctx, r->f64, rows, n};

    return s;
}

void *attn__work(const attn__run *r, size_t wanted)
{
    return wanted <= r->work_size ? r->work : NULL;
}

/* --- Products ------------------------------------------------------------------------------- */

void attn__use_copy(const attn__run *r, int weight, attn_gemm_args *g)
{
    if (!r->copies || !r->copies->packed[weight])
        return;
    if (r->copies->scale[weight])
        g->scale = attn__matrix_view(r, r->copies->scale[weight], 1, (size_t)g->w.size[2]);
    g->packed = r->copies->packed[weight];
    g->w = (attn_view){0};
}

attn_status attn__product(const attn__run *r, attn_gemm_args *g, attn_error *err)
{
    attn_plan plan = ATTN_PLAN_INIT;

    TRY(attn_gemm_plan(r->ctx, g, &plan, err));
    g->workspace = attn__work(r, plan.workspace_size);
    g->workspace_size = r->work_size;
    return attn_gemm(r->ctx, g, err);
}

attn_status attn__linear_forward(const attn__run *r, attn__linear l, size_t outs, const void *x,
                                 size_t rows, attn_activation activation, const void *residual,
                                 void *out, attn_error *err)
{
    attn_gemm_args g = ATTN_GEMM_ARGS_INIT;

    g.w = attn__tensor_view(r, l.weight, false);
    g.bias = attn__tensor_view(r, l.bias, false);
    if (outs)
        g.w.size[2] = (int64_t)outs;
    if (outs && l.bias >= 0)
        g.bias.size[3] = (int64_t)outs;
    g.a = attn__matrix_view(r, x, rows, (size_t)g.w.size[3]);
    g.out = attn__matrix_view(r, out, rows, (size_t)g.w.size[2]);
    if (residual)
        g.residual = attn__matrix_view(r, residual, rows, (size_t)g.w.size[2]);
    g.activation = activation;
    attn__use_copy(r, l.weight, &g);
    return attn__product(r, &g, err);
}

attn_status attn__linear_backward(const attn__run *r, attn__linear l, size_t outs, const void *x,
                                  const void *dout, size_t rows, double factor, const void *add,
                                  void *dx, attn_error *err)
{
    attn_gemm_args g = ATTN_GEMM_ARGS_INIT;
    attn_view w = attn__tensor_view(r, l.weight, false);
    size_t out = outs ? outs : (size_t)w.size[2], in = (size_t)w.size[3];
    union {
        float f32;
        double f64;
    } scale;

    g.a = attn_view_transposed(attn__matrix_view(r, dout, rows, out));
    g.w = attn_view_transposed(attn__matrix_view(r, x, rows, in));
    w.size[2] = (int64_t)out;
    g.out = w;
    g.out.data = attn__tensor(r, l.weight, true);
    g.residual = g.out;
    TRY(attn__product(r, &g, err));
    if (l.bias >= 0) {
        attn__shape shape = attn__shape_of(r, rows, out);
        attn__rows d = {NULL, (ptrdiff_t)out};

        d.data = attn__matrix_view(r, dout, rows, out).data;
        attn__add_columns(&shape, &d, attn__tensor(r, l.bias, true));
    }
    if (!dx)
        return ATTN_OK;
    g = (attn_gemm_args)ATTN_GEMM_ARGS_INIT;
    g.a = attn__matrix_view(r, dout, rows, out);
    g.w = attn_view_transposed(w);
    g.out = attn__matrix_view(r, dx, rows, in);
    if (add)
        g.residual = attn__matrix_view(r, add, rows, in);
    if (factor != 1) { /* one number for all columns */
        if (r->f64)
            scale.f64 = factor;
        else
            scale.f32 = (float)factor;
        g.scale = attn__matrix_view(r, &scale, 1, in);
        g.scale.stride[3] = 0;
    }
    return attn__product(r, &g, err);
}

/* --- Norms, dropout ------------------------------------------------------------------------- */

static attn__norm_call norm_call(const attn__run *r, attn__norm_layer l, size_t rows, const void *x,
                                 const attn__norm_state *s)
{
    const attn_model_config *c = &r->model->config;
    attn__norm_call n = {.shape = attn__shape_of(r, rows, (size_t)c->d),
                         .kind = c->norm,
                         .eps = c->norm_eps,
                         .plus = c->norm_plus_one ? 1 : 0,
                         .weight = attn__tensor(r, l.weight, false),
                         .bias = attn__tensor(r, l.bias, false),
                         .mean = s->mean,
                         .rstd = s->rstd};

    n.x = attn__dense(attn__matrix_view(r, x, 1, 1).data, (size_t)c->d);
    return n;
}

void attn__norm_rows(const attn__run *r, attn__norm_layer l, size_t rows, const void *x,
                     const attn__norm_state *s, void *out)
{
    attn__norm_call n = norm_call(r, l, rows, x, s);

    n.out = attn__dense(out, n.shape.n);
    attn__norm_forward(&n);
}

void attn__norm_rows_back(const attn__run *r, attn__norm_layer l, size_t rows, const void *x,
                          const attn__norm_state *s, const void *dout, const void *add, void *dx)
{
    attn__norm_call n = norm_call(r, l, rows, x, s);

    n.dout = attn__dense(attn__matrix_view(r, dout, 1, 1).data, n.shape.n);
    n.add = attn__dense(attn__matrix_view(r, add, 1, 1).data, n.shape.n);
    n.dx = attn__dense(dx, n.shape.n);
    n.dweight = attn__tensor(r, l.weight, true);
    n.dbias = attn__tensor(r, l.bias, true);
    attn__norm_backward(&n);
}

double attn__rate(const attn__run *r, double configured)
{
    return r->flags & ATTN_PASS_DROPOUT ? configured : 0;
}

void attn__drop(const attn__run *r, const attn__side *side, uint32_t site, double rate,
                uint64_t *bits, bool make, size_t n, const void *x, const void *add, void *out)
{
    attn__dropout_call c = {.shape = attn__shape_of(r, side->rows, n),
                            .rate = rate,
                            .seed = r->seed,
                            .site = side->site + site,
                            .positions = side->place,
                            .sequences = side->sequence,
                            .bits = bits,
                            .make = make};

    c.x = attn__dense(attn__matrix_view(r, x, 1, 1).data, n);
    c.add = attn__dense(attn__matrix_view(r, add, 1, 1).data, n);
    c.out = attn__dense(out, n);
    attn__dropout(&c);
}
