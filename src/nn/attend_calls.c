/* attend_calls.c: additive attention, gates and multi-head attention of nn.h: checks, then what
 * models run (additive.h), gate.h, or public calls in a row. */
#include "src/nn/additive.h"
#include "src/nn/call_args.h"
#include "src/nn/gate.h"

#include "src/base/error.h"
#include "src/base/mem.h"

#include <string.h>

/* Sequences of a call; none given: one, whose starts go to `one`. */
static attn_status take_starts(int64_t *segments, const int64_t **starts, int64_t one[2],
                               int64_t rows, const char *what, attn_error *err)
{
    if (*segments < 0)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "segments: %lld", (long long)*segments);
    if (*segments > 0)
        return attn__check_starts(*starts, *segments, rows, what, err);
    one[0] = 0;
    one[1] = rows;
    *starts = one;
    return ATTN_OK;
}

static int64_t longest_of(const int64_t *starts, int64_t segments)
{
    int64_t longest = 0;

    for (int64_t i = 0; i < segments; i++)
        longest = starts[i + 1] - starts[i] > longest ? starts[i + 1] - starts[i] : longest;
    return longest;
}

/* --- Additive attention --------------------------------------------------------------------- */

static attn__grid grid_of(const attn_view *v)
{
    attn__grid g = {v->data, (ptrdiff_t)v->stride[2], (ptrdiff_t)v->stride[1]};

    return g;
}

/* A view [1, heads, rows, width] of the call; then a grid. */
static attn_status take_grid(const attn__shape *s, const attn_view *v, const attn_view *like,
                             const char *what, attn__grid *to, attn_error *err)
{
    TRY(attn__check_heads(s, v, like->size[1], like->size[2], like->size[3], what, err));
    *to = grid_of(v);
    return ATTN_OK;
}

static attn_status take_scores(const attn__additive_call *c, const attn__shape *s,
                               const attn_view *w, const char *what, void **to, attn_error *err)
{
    attn__rows rows;

    TRY(attn__take_rows(s, w, c->heads, c->dk, false, what, &rows, err));
    if (c->heads > 1 && rows.stride != (ptrdiff_t)c->dk)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s: is not dense", what);
    *to = rows.data;
    return ATTN_OK;
}

static attn_status check_heads_agree(const attn_additive_args *a, attn_error *err)
{
    if (a->q.size[1] < 1 || a->k.size[1] < 1 || a->q.size[1] % a->k.size[1] != 0)
        return attn__fail(err, ATTN_E_SHAPE, 0, "k: %lld heads for %lld of q",
                          (long long)a->k.size[1], (long long)a->q.size[1]);
    if (a->k.size[2] < 0 || a->v.size[3] < 1)
        return attn__fail(err, ATTN_E_SHAPE, 0, "v: width %lld, %lld keys", (long long)a->v.size[3],
                          (long long)a->k.size[2]);
    return ATTN_OK;
}

/* The shape of what comes out: q's with the width of values. */
static attn_view out_like(const attn_additive_args *a)
{
    attn_view like = a->q;

    like.size[3] = a->v.size[3];
    return like;
}

/* Starts of q in one[0..1], of k in one[2..3], where there is one sequence. */
static attn_status open_additive(attn__additive_call *c, attn_additive_args *a, attn__shape *s,
                                 int64_t one[4], const attn_ctx *ctx,
                                 const attn_additive_args *args, attn_error *err)
{
    attn_view like, k, v;
    void *w = NULL;

    TRY(attn__take_args(a, sizeof *a, args, ctx, err));
    memset(c, 0, sizeof *c);
    TRY(attn__open_shape(s, ctx, &a->q, "q", err));
    TRY(check_heads_agree(a, err));
    like = out_like(a);
    k = a->k;
    k.size[3] = a->q.size[3];
    v = a->k;
    v.size[3] = a->v.size[3];
    c->ctx = ctx;
    c->f64 = s->f64;
    c->causal = a->causal;
    c->heads = (size_t)a->q.size[1];
    c->key_heads = (size_t)a->k.size[1];
    c->dk = s->n;
    c->dv = (size_t)a->v.size[3];
    TRY(take_grid(s, &a->q, &a->q, "q", &c->q, err));
    TRY(take_grid(s, &a->k, &k, "k", &c->k, err));
    TRY(take_grid(s, &a->v, &v, "v", &c->v, err));
    TRY(take_grid(s, &a->out, &like, "out", &c->out, err));
    TRY(take_scores(c, s, &a->w, "w", &w, err));
    c->w = w;
    c->q_starts = a->q_starts;
    c->k_starts = a->k_starts;
    TRY(take_starts(&a->segments, &c->q_starts, one, a->q.size[2], "q_starts", err));
    TRY(take_starts(&a->segments, &c->k_starts, one + 2, a->k.size[2], "k_starts", err));
    c->segments = a->segments ? (size_t)a->segments : 1;
    like.size[3] = a->weights.size[3];
    if (like.size[3] < longest_of(c->k_starts, (int64_t)c->segments))
        return attn__fail(err, ATTN_E_SHAPE, 0, "weights: %lld columns, sequences of %lld keys",
                          (long long)like.size[3],
                          (long long)longest_of(c->k_starts, (int64_t)c->segments));
    c->longest = (size_t)like.size[3];
    return take_grid(s, &a->weights, &like, "weights", &c->p, err);
}

attn_status attn_additive_forward(const attn_ctx *ctx, const attn_additive_args *args,
                                  attn_error *err)
{
    attn_additive_args a;
    attn__additive_call c;
    attn__shape s;
    int64_t one[4];

    TRY(open_additive(&c, &a, &s, one, ctx, args, err));
    attn__additive_forward(&c);
    return ATTN_OK;
}

attn_status attn_additive_backward(const attn_ctx *ctx, const attn_additive_args *args,
                                   attn_error *err)
{
    attn_additive_args a;
    attn__additive_call c;
    attn__shape s;
    attn_view like;
    int64_t one[4];

    TRY(open_additive(&c, &a, &s, one, ctx, args, err));
    like = out_like(&a);
    TRY(take_grid(&s, &a.dout, &like, "dout", &c.dout, err));
    TRY(take_grid(&s, &a.dq, &a.q, "dq", &c.dq, err));
    TRY(take_grid(&s, &a.dk, &a.k, "dk", &c.dkeys, err));
    TRY(take_grid(&s, &a.dv, &a.v, "dv", &c.dvalues, err));
    TRY(take_scores(&c, &s, &a.dw, "dw", &c.dw, err));
    attn__additive_backward(&c);
    return ATTN_OK;
}

/* --- Gates ---------------------------------------------------------------------------------- */

static attn_status open_gate(attn__gate_call *c, attn_gate_args *a, int64_t one[2],
                             const attn_ctx *ctx, const attn_gate_args *args, attn_error *err)
{
    attn__shape *s = &c->shape;
    size_t sums;

    TRY(attn__take_args(a, sizeof *a, args, ctx, err));
    memset(c, 0, sizeof *c);
    if ((int)a->gate < 0 || a->gate > ATTN_GATE_LOGISTIC)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "gate: %d is not in attn_gate", (int)a->gate);
    TRY(attn__open_shape(s, ctx, &a->x, "x", err));
    c->gate = a->gate;
    c->gates = a->z.size[3] > 0 ? (size_t)a->z.size[3] : 1;
    c->starts = a->starts;
    TRY(take_starts(&a->segments, &c->starts, one, a->x.size[2], "starts", err));
    c->segments = a->segments ? (size_t)a->segments : 1;
    if (!attn__mul(c->segments, c->gates, &sums))
        return attn__fail(err, ATTN_E_SHAPE, 0, "z: %zu gates", c->gates);
    TRY(attn__take_rows(s, &a->x, s->rows, s->n, false, "x", &c->x, err));
    TRY(attn__take_rows(s, &a->z, s->rows, c->gates, false, "z", &c->z, err));
    TRY(attn__take_rows(s, &a->weights, s->rows, c->gates, false, "weights", &c->w, err));
    return attn__take_rows(s, &a->out, sums, s->n, false, "out", &c->out, err);
}

attn_status attn_gate_forward(const attn_ctx *ctx, const attn_gate_args *args, attn_error *err)
{
    attn_gate_args a;
    attn__gate_call c;
    int64_t one[2];

    TRY(open_gate(&c, &a, one, ctx, args, err));
    attn__gate_forward(&c);
    return ATTN_OK;
}

attn_status attn_gate_backward(const attn_ctx *ctx, const attn_gate_args *args, attn_error *err)
{
    attn_gate_args a;
    attn__gate_call c;
    const attn__shape *s = &c.shape;
    int64_t one[2];

    TRY(open_gate(&c, &a, one, ctx, args, err));
    TRY(attn__take_rows(s, &a.dout, c.segments * c.gates, s->n, false, "dout", &c.dout, err));
    TRY(attn__take_rows(s, &a.dx, s->rows, s->n, true, "dx", &c.dx, err));
    TRY(attn__take_rows(s, &a.dz, s->rows, c.gates, true, "dz", &c.dz, err));
    attn__gate_backward(&c);
    return ATTN_OK;
}

/* --- Multi-head attention ------------------------------------------------------------------- */

/* Heads side by side in rows [1, h, T, w] as the matrix [1, 1, T, h w] that they are. */
static attn_status as_matrix(const attn_view *v, const char *what, attn_view *to, attn_error *err)
{
    int64_t width = v->size[3];

    if (v->size[0] != 1 || v->size[1] < 1 || width < 1 || v->size[1] > INT64_MAX / width)
        return attn__fail(err, ATTN_E_SHAPE, 0, "%s: [%lld, %lld, %lld, %lld]", what,
                          (long long)v->size[0], (long long)v->size[1], (long long)v->size[2],
                          (long long)width);
    if ((v->size[1] > 1 && v->stride[1] != width) || (width > 1 && v->stride[3] != 1))
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s: heads do not lie side by side in rows",
                          what);
    *to = *v;
    to->size[1] = 1;
    to->size[3] = v->size[1] * width;
    to->stride[3] = 1;
    return ATTN_OK;
}

typedef struct multihead {
    attn_multihead_args a;
    attn_forward_args f;
    attn_view m;          /* memory, or x */
    attn_view q, k, v, o; /* matrices */
} multihead;

static attn_status open_multihead(multihead *m, const attn_ctx *ctx,
                                  const attn_multihead_args *args, attn_error *err)
{
    TRY(attn__take_args(&m->a, sizeof m->a, args, ctx, err));
    TRY(attn__take_struct(&m->f, sizeof m->f, m->a.attention, "attention", err));
    m->m = attn__is_there(&m->a.memory) ? m->a.memory : m->a.x;
    TRY(as_matrix(&m->f.q, "attention.q", &m->q, err));
    TRY(as_matrix(&m->f.k, "attention.k", &m->k, err));
    TRY(as_matrix(&m->f.v, "attention.v", &m->v, err));
    return as_matrix(&m->f.out, "attention.out", &m->o, err);
}

static attn_status project(const attn_ctx *ctx, const attn_view *x, const attn_view *w,
                           const attn_view *b, const attn_view *out, attn_error *err)
{
    attn_gemm_args g = ATTN_GEMM_ARGS_INIT;

    g.a = *x;
    g.w = *w;
    g.bias = *b;
    g.out = *out;
    return attn_gemm(ctx, &g, err);
}

attn_status attn_multihead_forward(const attn_ctx *ctx, const attn_multihead_args *args,
                                   attn_error *err)
{
    multihead m;
    const attn_multihead_args *a = &m.a;

    TRY(open_multihead(&m, ctx, args, err));
    TRY(project(ctx, &a->x, &a->wq, &a->bq, &m.q, err));
    TRY(project(ctx, &m.m, &a->wk, &a->bk, &m.k, err));
    TRY(project(ctx, &m.m, &a->wv, &a->bv, &m.v, err));
    TRY(attn_forward(ctx, &m.f, err));
    return project(ctx, &m.o, &a->wo, &a->bo, &a->out, err);
}

/* dx = add + dout W, and the gradients of W and its bias. */
static attn_status project_back(const attn_ctx *ctx, const attn_view *x, const attn_view *w,
                                const attn_view *dout, const attn_view *add, const attn_view *dx,
                                const attn_view *dw, const attn_view *db, attn_error *err)
{
    attn_linear_args l = ATTN_LINEAR_ARGS_INIT;

    l.x = *x;
    l.weight = *w;
    l.dout = *dout;
    l.dx = *dx;
    if (add)
        l.add = *add;
    l.dweight = *dw;
    l.dbias = *db;
    return attn_linear_backward(ctx, &l, err);
}

attn_status attn_multihead_backward(const attn_ctx *ctx, const attn_multihead_args *args,
                                    attn_error *err)
{
    multihead m;
    const attn_multihead_args *a = &m.a;
    attn_backward_args b;
    attn_view dq, dk, dv, dout;
    const attn_view *dm, *add;

    TRY(open_multihead(&m, ctx, args, err));
    TRY(attn__take_struct(&b, sizeof b, a->gradients, "gradients", err));
    TRY(as_matrix(&b.dq, "gradients.dq", &dq, err));
    TRY(as_matrix(&b.dk, "gradients.dk", &dk, err));
    TRY(as_matrix(&b.dv, "gradients.dv", &dv, err));
    TRY(as_matrix(&b.dout, "gradients.dout", &dout, err));
    b.forward = &m.f;
    dm = attn__is_there(&a->memory) ? &a->dmemory : &a->dx;
    add = attn__is_there(dm) ? dm : NULL;
    TRY(project_back(ctx, &m.o, &a->wo, &a->dout, NULL, &dout, &a->dwo, &a->dbo, err));
    TRY(attn_backward(ctx, &b, err));
    TRY(project_back(ctx, &a->x, &a->wq, &dq, NULL, &a->dx, &a->dwq, &a->dbq, err));
    TRY(project_back(ctx, &m.m, &a->wk, &dk, dm == &a->dx ? add : NULL, dm, &a->dwk, &a->dbk, err));
    return project_back(ctx, &m.m, &a->wv, &dv, add, dm, &a->dwv, &a->dbv, err);
}
