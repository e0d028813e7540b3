/* feed.c: the feed-forward sublayer, forward and backward. */
#include "src/nn/pass.h"

#include "src/base/error.h"

/* relu without a gate: the result tells where the slope is 1, also behind dropout (a dropped cell
 * is 0, and so is its gradient), so that neither the sum nor the bits are kept. */
static bool tells_enough(const attn_model_config *c)
{
    return c->activation == ATTN_ACT_RELU && !c->gated;
}

static attn__activation_call activation_call(const attn__run *r, size_t rows,
                                             const attn__ff_state *s)
{
    const attn_model_config *c = &r->model->config;
    size_t n = (size_t)c->ff;
    attn__activation_call a = {.shape = attn__shape_of(r, rows, n), .activation = c->activation};

    a.x = attn__dense(tells_enough(c) ? s->h : c->gated ? s->gate : s->up, n);
    a.times = attn__dense(c->gated ? s->up : NULL, n);
    a.out = attn__dense(s->h, n);
    return a;
}

/* h = Drop(act(...)) from y */
static attn_status inner_forward(const attn__run *r, const attn__side *side, const attn__block *b,
                                 const void *y, const attn__ff_state *s, uint32_t site,
                                 attn_error *err)
{
    const attn_model_config *c = &r->model->config;
    double rate = attn__rate(r, c->dropout_ff);

    if (tells_enough(c)) {
        TRY(attn__linear_forward(r, b->up, 0, y, side->rows, c->activation, NULL, s->h, err));
    } else {
        attn__activation_call a = activation_call(r, side->rows, s);

        if (c->gated)
            TRY(attn__linear_forward(r, b->gate, 0, y, side->rows, ATTN_ACT_NONE, NULL, s->gate,
                                     err));
        TRY(attn__linear_forward(r, b->up, 0, y, side->rows, ATTN_ACT_NONE, NULL, s->up, err));
        attn__activation_forward(&a);
    }
    if (rate > 0)
        attn__drop(r, side, site, rate, s->inner_bits, true, (size_t)c->ff, s->h, NULL, s->h);
    return ATTN_OK;
}

attn_status attn__ff_forward(const attn__run *r, const attn__side *side, const attn__block *b,
                             const void *x, const attn__ff_state *s, uint32_t site, attn_error *err)
{
    const attn_model_config *c = &r->model->config;
    bool pre = c->place == ATTN_PLACE_PRE;
    void *sum = pre ? s->out : s->norm.sum;
    double rate = attn__rate(r, c->dropout);

    if (pre)
        attn__norm_rows(r, b->ff_norm, side->rows, x, &s->norm, s->norm.y);
    TRY(inner_forward(r, side, b, pre ? s->norm.y : x, s, site, err));
    TRY(attn__linear_forward(r, b->down, 0, s->h, side->rows, ATTN_ACT_NONE, rate > 0 ? NULL : x,
                             rate > 0 ? r->rest : sum, err));
    if (rate > 0)
        attn__drop(r, side, site + 1, rate, s->bits, true, (size_t)c->d, r->rest, x, sum);
    if (!pre)
        attn__norm_rows(r, b->ff_norm, side->rows, sum, &s->norm, s->out);
    return ATTN_OK;
}

/* From r->dh, the derivative by h, to those by W1's and Wg's results, in r->dh and r->dgate. */
static void inner_backward(const attn__run *r, const attn__side *side, const attn__ff_state *s,
                           uint32_t site)
{
    const attn_model_config *c = &r->model->config;
    attn__activation_call a = activation_call(r, side->rows, s);
    double rate = attn__rate(r, c->dropout_ff);

    if (rate > 0 && !tells_enough(c))
        attn__drop(r, side, site, rate, s->inner_bits, false, (size_t)c->ff, r->dh, NULL, r->dh);
    a.dout = attn__dense(r->dh, (size_t)c->ff);
    a.dx = c->gated ? attn__dense(r->dgate, (size_t)c->ff) : a.dout;
    a.dtimes = attn__dense(c->gated ? r->dh : NULL, (size_t)c->ff);
    attn__activation_backward(&a);
}

attn_status attn__ff_backward(const attn__run *r, const attn__side *side, const attn__block *b,
                              const void *x, const attn__ff_state *s, uint32_t site,
                              attn_error *err)
{
    const attn_model_config *c = &r->model->config;
    bool pre = c->place == ATTN_PLACE_PRE;
    const void *y = pre ? s->norm.y : x;
    double rate = attn__rate(r, c->dropout), inner = attn__rate(r, c->dropout_ff);
    void *da = r->g, *dy = pre ? r->dy : r->g;

    if (!pre)
        attn__norm_rows_back(r, b->ff_norm, side->rows, s->norm.sum, &s->norm, r->g, NULL, r->g);
    if (rate > 0) {
        da = r->da;
        attn__drop(r, side, site + 1, rate, s->bits, false, (size_t)c->d, r->g, NULL, da);
    }
    TRY(attn__linear_backward(r, b->down, 0, s->h, da, side->rows,
                              tells_enough(c) ? 1 / (1 - inner) : 1, NULL, r->dh, err));
    inner_backward(r, side, s, site);
    TRY(attn__linear_backward(r, b->up, 0, y, r->dh, side->rows, 1, pre ? NULL : r->g, dy, err));
    if (c->gated)
        TRY(attn__linear_backward(r, b->gate, 0, y, r->dgate, side->rows, 1, dy, dy, err));
    if (pre)
        attn__norm_rows_back(r, b->ff_norm, side->rows, x, &s->norm, dy, r->g, r->g);
    return ATTN_OK;
}
