/* stack.c: an encoder or decoder: embeddings, blocks, last norm, forward and backward. */
#include "src/nn/pass.h"

#include "src/base/error.h"

#include <string.h>

/* --- Embedding ------------------------------------------------------------------------------ */

static attn__embedding_call embedding_call(const attn__run *r, const attn__side *side)
{
    const attn_model_config *c = &r->model->config;
    size_t d = (size_t)c->d;
    const attn__half *h = side->half;
    attn__embedding_call e = {.shape = attn__shape_of(r, side->rows, d),
                              .scale = c->embedding_scale,
                              .id = side->id,
                              .at = side->at,
                              .kind = side->types};

    e.table = attn__dense(attn__tensor(r, h->embedding, false), d);
    e.positions =
        attn__dense(side->positions ? side->positions : attn__tensor(r, h->positions, false), d);
    e.kinds = attn__dense(attn__tensor(r, h->types, false), d);
    return e;
}

static void embed(const attn__run *r, const attn__side *side)
{
    const attn_model_config *c = &r->model->config;
    attn__embedding_call e = embedding_call(r, side);
    void *x = side->block[0].x;
    double rate = attn__rate(r, c->dropout);
    attn__norm_state norm = {.mean = side->embedded_mean, .rstd = side->embedded_rstd};

    e.out = attn__dense(side->embedded ? side->embedded : x, (size_t)c->d);
    attn__embedding_forward(&e);
    if (side->embedded)
        attn__norm_rows(r, side->half->embedding_norm, side->rows, side->embedded, &norm, x);
    if (rate > 0)
        attn__drop(r, side, 0, rate, side->bits, true, (size_t)c->d, x, NULL, x);
}

static void embed_back(const attn__run *r, const attn__side *side)
{
    const attn_model_config *c = &r->model->config;
    attn__embedding_call e = embedding_call(r, side);
    double rate = attn__rate(r, c->dropout);
    attn__norm_state norm = {.mean = side->embedded_mean, .rstd = side->embedded_rstd};

    if (rate > 0)
        attn__drop(r, side, 0, rate, side->bits, false, (size_t)c->d, r->g, NULL, r->g);
    if (side->embedded)
        attn__norm_rows_back(r, side->half->embedding_norm, side->rows, side->embedded, &norm, r->g,
                             NULL, r->g);
    e.dout = attn__dense(r->g, (size_t)c->d);
    e.dtable = attn__dense(attn__tensor(r, side->half->embedding, true), (size_t)c->d);
    e.dpositions = attn__dense(attn__tensor(r, side->half->positions, true), (size_t)c->d);
    e.dkinds = attn__dense(attn__tensor(r, side->half->types, true), (size_t)c->d);
    attn__embedding_backward(&e);
}

/* --- Blocks --------------------------------------------------------------------------------- */

static attn_status block_forward(const attn__run *r, const attn__side *side,
                                 const attn__side *memory, size_t i, attn_error *err)
{
    const attn__block *b = &side->half->block[i];
    const attn__block_state *s = &side->block[i];
    const void *x = s->self.out;

    TRY(attn__attend_forward(r, side, NULL, &b->self, b->self_norm, s->x, &s->self,
                             attn__site(i, attn__site_self), err));
    if (memory) {
        TRY(attn__attend_forward(r, side, memory, &b->cross, b->cross_norm, x, &s->cross,
                                 attn__site(i, attn__site_cross), err));
        x = s->cross.out;
    }
    return attn__ff_forward(r, side, b, x, &s->ff, attn__site(i, attn__site_inner), err);
}

static attn_status block_backward(const attn__run *r, const attn__side *side,
                                  const attn__side *memory, size_t i, attn_error *err)
{
    const attn__block *b = &side->half->block[i];
    const attn__block_state *s = &side->block[i];

    if (r->flags & ATTN_PASS_RECOMPUTE && i + 1 < side->half->layers)
        TRY(block_forward(r, side, memory, i, err));
    TRY(attn__ff_backward(r, side, b, memory ? s->cross.out : s->self.out, &s->ff,
                          attn__site(i, attn__site_inner), err));
    if (memory)
        TRY(attn__attend_backward(r, side, memory, &b->cross, b->cross_norm, s->self.out, &s->cross,
                                  attn__site(i, attn__site_cross), err));
    return attn__attend_backward(r, side, NULL, &b->self, b->self_norm, s->x, &s->self,
                                 attn__site(i, attn__site_self), err);
}

/* --- Stacks --------------------------------------------------------------------------------- */

attn_status attn__stack_forward(const attn__run *r, const attn__side *side,
                                const attn__side *memory, attn_error *err)
{
    attn__norm_state norm = {.mean = side->mean, .rstd = side->rstd};

    if (!r->step)
        attn__make_positions(r, side);
    embed(r, side);
    for (size_t i = 0; i < side->half->layers; i++)
        TRY(block_forward(r, side, memory, i, err));
    if (side->half->final_norm.weight >= 0)
        attn__norm_rows(r, side->half->final_norm, side->rows, side->last, &norm, side->hidden);
    return ATTN_OK;
}

attn_status attn__stack_backward(const attn__run *r, const attn__side *side,
                                 const attn__side *memory, attn_error *err)
{
    attn__norm_state norm = {.mean = side->mean, .rstd = side->rstd};

    if (side->half->final_norm.weight >= 0)
        attn__norm_rows_back(r, side->half->final_norm, side->rows, side->last, &norm, r->g, NULL,
                             r->g);
    for (size_t i = side->half->layers; i > 0; i--)
        TRY(block_backward(r, side, memory, i - 1, err));
    embed_back(r, side);
    return ATTN_OK;
}
