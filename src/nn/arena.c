/* arena.c: see arena.h.
 *
 * Kept for the way back (ATTN_PASS_BACKWARD): everything, a memory for each layer. With RECOMPUTE:
 * the stream between blocks; what lies inside is one memory that all blocks share. Without BACKWARD
 * also the stream is one memory, written over by each block. Scratch that is never needed at the
 * same time shares its place. */
#include "src/nn/arena.h"

#include "src/base/ctx.h"
#include "src/base/mem.h"
#include "src/nn/cut.h"

/* Elements of the run's type. */
static void *reals(const attn__run *r, attn__cursor *c, size_t rows, size_t cols)
{
    return attn__take(c, rows, cols, r->unit);
}

static uint64_t *bits(attn__cursor *c, double rate, size_t rows, size_t cols)
{
    return rate > 0 ? attn__take(c, rows, (cols + 63) / 64, sizeof(uint64_t)) : NULL;
}

static size_t aligned(size_t rows, size_t cols)
{
    size_t n;

    return attn__mul(rows, cols, &n) && attn__add(n, 15, &n) ? n / 16 * 16 : SIZE_MAX;
}

size_t attn__heads_size(const attn_model_config *c, size_t rows, size_t keys)
{
    size_t size = aligned(rows, (size_t)(c->heads * c->dk));

    if (!attn__add(size, aligned(keys, (size_t)(c->kv_heads * c->dk)), &size) ||
        !attn__add(size, aligned(keys, (size_t)(c->kv_heads * c->dv)), &size))
        return SIZE_MAX;
    return size;
}

static void *element(const attn__run *r, void *memory, size_t i)
{
    return (char *)memory + i * r->unit;
}

attn__heads attn__place_heads(const attn__run *r, void *memory, size_t rows, size_t keys,
                              bool joined, bool cross)
{
    const attn_model_config *c = &r->model->config;
    size_t q = (size_t)(c->heads * c->dk), k = (size_t)(c->kv_heads * c->dk);
    size_t v = (size_t)(c->kv_heads * c->dv), first = aligned(rows, q);
    attn__heads h = {
        .q = memory, .q_row = (ptrdiff_t)q, .k_row = (ptrdiff_t)k, .v_row = (ptrdiff_t)v};

    h.k = element(r, memory, joined && !cross ? q : first);
    h.v = element(r, h.k, joined ? k : aligned(keys, k));
    if (joined) {
        h.k_row = h.v_row = (ptrdiff_t)(k + v + (cross ? 0 : q));
        h.q_row = cross ? h.q_row : h.k_row;
    }
    return h;
}

static void lay_norm(const attn__run *r, attn__cursor *c, size_t rows, attn__norm_state *s)
{
    const attn_model_config *config = &r->model->config;
    void *whole = reals(r, c, rows, (size_t)config->d);

    s->y = config->place == ATTN_PLACE_PRE ? whole : NULL;
    s->sum = config->place == ATTN_PLACE_PRE ? NULL : whole;
    s->mean = reals(r, c, rows, 1);
    s->rstd = reals(r, c, rows, 1);
}

static void lay_attend(const attn__run *r, attn__cursor *c, size_t rows, size_t keys,
                       size_t longest, attn__attend_state *s)
{
    const attn_model_config *g = &r->model->config;
    size_t heads = (size_t)g->heads, key_heads = (size_t)g->kv_heads;
    size_t q = heads * (size_t)g->dk, k = key_heads * (size_t)g->dk;
    bool additive = g->score == ATTN_SCORE_ADDITIVE;
    size_t weights;

    if (!attn__mul(heads, rows, &weights) || !attn__mul(weights, longest, &weights))
        weights = SIZE_MAX;
    lay_norm(r, c, rows, &s->norm);
    s->heads = reals(r, c, attn__heads_size(g, rows, keys), 1);
    s->raw_q = g->qk_norm ? reals(r, c, rows, q) : NULL;
    s->raw_k = g->qk_norm ? reals(r, c, keys, k) : NULL;
    if (g->qk_norm) {
        s->q_mean = reals(r, c, rows, heads);
        s->q_rstd = reals(r, c, rows, heads);
        s->k_mean = reals(r, c, keys, key_heads);
        s->k_rstd = reals(r, c, keys, key_heads);
    }
    s->even_q = g->qk_temperature ? reals(r, c, rows, q) : NULL;
    s->o = reals(r, c, rows, heads * (size_t)g->dv);
    s->lse = additive ? reals(r, c, weights, 1) : reals(r, c, rows, heads);
    s->bits = bits(c, attn__rate(r, g->dropout), rows, (size_t)g->d);
    s->out = reals(r, c, rows, (size_t)g->d);
}

static void lay_ff(const attn__run *r, attn__cursor *c, size_t rows, attn__ff_state *s)
{
    const attn_model_config *g = &r->model->config;
    size_t ff = (size_t)g->ff;
    bool relu = g->activation == ATTN_ACT_RELU && !g->gated;

    lay_norm(r, c, rows, &s->norm);
    s->up = relu ? NULL : reals(r, c, rows, ff);
    s->gate = g->gated ? reals(r, c, rows, ff) : NULL;
    s->h = reals(r, c, rows, ff);
    s->inner_bits = bits(c, attn__rate(r, g->dropout_ff), rows, ff);
    s->bits = bits(c, attn__rate(r, g->dropout), rows, (size_t)g->d);
}

static void lay_block(const attn__run *r, attn__cursor *c, const attn__side *side,
                      const attn__side *memory, attn__block_state *s)
{
    lay_attend(r, c, side->rows, side->rows, side->longest, &s->self);
    if (memory)
        lay_attend(r, c, side->rows, memory->rows, memory->longest, &s->cross);
    lay_ff(r, c, side->rows, &s->ff);
}

static void lay_stream(const attn__run *r, attn__cursor *c, attn__side *side,
                       const attn__side *memory)
{
    size_t d = (size_t)r->model->config.d, layers = side->half->layers, inside = c->at;
    bool keeps = r->flags & ATTN_PASS_BACKWARD, whole = keeps && !(r->flags & ATTN_PASS_RECOMPUTE);
    size_t end = inside;
    attn__block_state none = {0}, *s;
    void *x = NULL;

    for (size_t i = 0; i < layers; i++) {
        s = side->block ? &side->block[i] : &none;
        if (!whole)
            c->at = inside;
        lay_block(r, c, side, memory, s);
        end = c->at;
    }
    c->at = end;
    for (size_t i = 0; i <= layers; i++) { /* the stream before block i, and at the end */
        if (i == 0 || keeps)
            x = reals(r, c, side->rows, d);
        if (i < layers && side->block)
            side->block[i].x = x;
        if (i > 0 && side->block)
            side->block[i - 1].ff.out = x;
    }
    side->last = x;
}

static void lay_positions(const attn__run *r, attn__cursor *c, attn__side *side)
{
    const attn_model_config *g = &r->model->config;
    size_t pairs = (size_t)g->rotary / 2, n = side->longest;

    if (attn__is_sinusoid(g))
        side->positions = reals(r, c, n, (size_t)g->d);
    if (attn__is_rotary(g)) {
        side->cosine = reals(r, c, n, pairs);
        side->sine = reals(r, c, n, pairs);
        side->minus_sine = reals(r, c, n, pairs);
    }
    if (side->half->relative >= 0) {
        size_t square;
        if (!attn__mul(n, n, &square))
            square = SIZE_MAX;
        side->bias = reals(r, c, (size_t)g->heads, square);
        side->dbias = r->flags & ATTN_PASS_BACKWARD ? reals(r, c, (size_t)g->heads, square) : NULL;
    }
    if (g->positions == ATTN_POSITIONS_ALIBI)
        side->slopes = reals(r, c, (size_t)g->heads, 1);
}

static void lay_side(const attn__run *r, attn__cursor *c, attn__side *side,
                     const attn__side *memory)
{
    const attn_model_config *g = &r->model->config;
    size_t d = (size_t)g->d, rows = side->rows;

    if (!side->half || (r->step && side == &r->encoder))
        return;
    side->block = attn__take(c, side->half->layers, 1, sizeof *side->block);
    for (size_t i = 0; side->block && i < side->half->layers; i++)
        side->block[i] = (attn__block_state){0};
    side->own_starts = NULL;
    if (g->queries > 0 && side == &r->decoder)
        side->own_starts = attn__take(c, (size_t)r->segments + 1, 1, sizeof *side->own_starts);
    side->id = attn__take(c, rows, 1, sizeof *side->id);
    side->place = attn__take(c, rows, 1, sizeof *side->place);
    side->sequence = attn__take(c, rows, 1, sizeof *side->sequence);
    side->at = attn__take(c, rows, 1, sizeof *side->at);
    if (!r->step) /* those of steps are made once */
        lay_positions(r, c, side);
    if (side->half->embedding_norm.weight >= 0) {
        side->embedded = reals(r, c, rows, d);
        side->embedded_mean = reals(r, c, rows, 1);
        side->embedded_rstd = reals(r, c, rows, 1);
    }
    side->bits = bits(c, attn__rate(r, g->dropout), rows, d);
    lay_stream(r, c, side, memory);
    side->hidden = side->last;
    if (side->half->final_norm.weight >= 0) {
        side->hidden = reals(r, c, rows, d);
        side->mean = reals(r, c, rows, 1);
        side->rstd = reals(r, c, rows, 1);
    }
}

static size_t max(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Gradients of heads and of the feed-forward's inside are never there together. */
static void lay_scratch(attn__run *r, attn__cursor *c)
{
    const attn_model_config *g = &r->model->config;
    size_t rows = max(r->encoder.rows, r->decoder.rows), d = (size_t)g->d, heads_end, from;

    r->rest = reals(r, c, rows, d);
    if (!(r->flags & ATTN_PASS_BACKWARD))
        return;
    r->g = reals(r, c, rows, d);
    r->da = reals(r, c, rows, d);
    r->dy = reals(r, c, rows, d);
    r->dmemory = r->decoder.half && r->encoder.half ? reals(r, c, r->encoder.rows, d) : NULL;
    from = c->at;
    r->dout = reals(r, c, rows, (size_t)(g->heads * g->dv));
    r->dheads = reals(r, c, attn__heads_size(g, rows, rows), 1);
    heads_end = c->at;
    if (heads_end != SIZE_MAX)
        c->at = from;
    r->dh = reals(r, c, rows, (size_t)g->ff);
    r->dgate = g->gated ? reals(r, c, rows, (size_t)g->ff) : NULL;
    c->at = max(c->at, heads_end);
}

size_t attn__lay_out(attn__run *r, char *base)
{
    attn__cursor c = {base, 0};

    lay_side(r, &c, &r->encoder, NULL);
    lay_side(r, &c, &r->decoder, r->encoder.half ? &r->encoder : NULL);
    lay_scratch(r, &c);
    return c.at;
}

/* --- Scratch of calls ----------------------------------------------------------------------- */

/* Addresses that only a plan sees: nothing is read or written there. */
static void *nowhere(int i)
{
    return (void *)(((uintptr_t)i + 1) << 44);
}

static size_t product_size(const attn__run *r, size_t m, size_t n, size_t k, bool a_turned,
                           bool w_turned, bool adds)
{
    attn_gemm_args g = ATTN_GEMM_ARGS_INIT;
    attn_plan plan = ATTN_PLAN_INIT;

    g.a = a_turned ? attn_view_transposed(attn__matrix_view(r, nowhere(0), k, m))
                   : attn__matrix_view(r, nowhere(0), m, k);
    g.w = w_turned ? attn_view_transposed(attn__matrix_view(r, nowhere(1), k, n))
                   : attn__matrix_view(r, nowhere(1), n, k);
    g.out = attn__matrix_view(r, nowhere(2), m, n);
    if (adds)
        g.residual = g.out;
    g.bias = attn__matrix_view(r, nowhere(3), 1, n);
    return attn_gemm_plan(r->ctx, &g, &plan, NULL) == ATTN_OK ? plan.workspace_size : 0;
}

/* A linear layer and its way back, for any number of rows up to `rows`. What a product wants does
 * not rise with its rows: it is the largest just below numbers where the cut into items changes.
 * Steps of a 32nd come within 3 % of the largest (tried for 240 contexts, types and widths, every
 * number up to 20,000), and attn__estimate_work adds an eighth. */
static size_t linear_size(const attn__run *r, size_t rows, int64_t out, int64_t in)
{
    size_t size = 0, o = (size_t)out, i = (size_t)in;

    for (size_t n = 1; n <= rows; n = n < rows && n + 1 + n / 32 > rows ? rows : n + 1 + n / 32) {
        size = max(size, product_size(r, n, o, i, false, false, false));
        if (!(r->flags & ATTN_PASS_BACKWARD))
            continue;
        size = max(size, product_size(r, n, i, o, false, true, true));
        size = max(size, product_size(r, o, i, n, true, true, true));
    }
    return size;
}

/* Sequences as long as they may be. */
static void fill_starts(int64_t *starts, int64_t segments, size_t rows, size_t longest)
{
    for (int64_t i = 0; i <= segments; i++) {
        size_t at;
        starts[i] = (int64_t)(attn__mul((size_t)i, longest, &at) ? attn__min(at, rows) : rows);
    }
    starts[segments] = (int64_t)rows;
}

/* Fewer and shorter sequences never want more than this, given an eighth (tried for 120,000 batches
 * within 200 limits), but that of a faster way back, without which attn_backward does. */
static size_t attention_size(const attn__run *r, const attn__side *q, const attn__side *k,
                             const int64_t *q_starts, const int64_t *k_starts)
{
    const attn_model_config *c = &r->model->config;
    attn_forward_args f = ATTN_FORWARD_ARGS_INIT;
    attn_backward_args b = ATTN_BACKWARD_ARGS_INIT;
    attn_mask m = ATTN_MASK_INIT;
    attn_plan plan = ATTN_PLAN_INIT;
    int64_t rows = (int64_t)q->rows, keys = (int64_t)k->rows;
    size_t size = 0;

    m.segments = r->segments;
    m.q_starts = q_starts;
    m.k_starts = k_starts;
    m.causal = q == k && q->half->causal;
    f.q = attn_view_bshd(nowhere(0), c->type, 1, c->heads, rows, c->dk);
    f.k = attn_view_bshd(nowhere(1), c->type, 1, c->kv_heads, keys, c->dk);
    f.v = attn_view_bshd(nowhere(2), c->type, 1, c->kv_heads, keys, c->dv);
    f.out = attn_view_bshd(nowhere(3), c->type, 1, c->heads, rows, c->dv);
    f.lse = attn_view_bhsd(nowhere(4), c->type, 1, c->heads, rows, 1);
    f.mask = &m;
    if (q == k && q->half->relative >= 0) {
        m.bias = attn_view_bhsd(nowhere(9), c->type, 1, c->heads, (int64_t)q->longest,
                                (int64_t)q->longest);
        b.dbias = m.bias;
        b.dbias.data = nowhere(10);
    }
    if (attn_forward_plan(r->ctx, &f, &plan, NULL) == ATTN_OK)
        size = plan.workspace_size;
    b.forward = &f;
    b.dout = f.out;
    b.dout.data = nowhere(5);
    b.dq = f.q;
    b.dq.data = nowhere(6);
    b.dk = f.k;
    b.dk.data = nowhere(7);
    b.dv = f.v;
    b.dv.data = nowhere(8);
    if (r->flags & ATTN_PASS_BACKWARD && attn_backward_plan(r->ctx, &b, &plan, NULL) == ATTN_OK)
        size = max(size, plan.workspace_size);
    return size;
}

static size_t attentions_size(const attn__run *r)
{
    size_t count = (size_t)r->segments + 1, size = 0;
    int64_t *starts = attn__new(r->ctx, 2 * count * sizeof *starts);
    const attn__side *e = &r->encoder, *d = &r->decoder;

    if (!starts)
        return SIZE_MAX;
    fill_starts(starts, r->segments, e->rows, e->longest);
    fill_starts(starts + count, r->segments, d->rows, d->longest);
    if (e->half)
        size = attention_size(r, e, e, starts, starts);
    if (d->half)
        size = max(size, attention_size(r, d, d, starts + count, starts + count));
    if (e->half && d->half)
        size = max(size, attention_size(r, d, e, starts + count, starts));
    attn__free(r->ctx, starts);
    return size;
}

size_t attn__estimate_work(const attn__run *r)
{
    const attn_model_config *c = &r->model->config;
    size_t rows = max(r->encoder.rows, r->decoder.rows), size = attentions_size(r);

    if (size == SIZE_MAX)
        return size;
    size = max(size, linear_size(r, rows, c->heads * c->dk, c->d));
    size = max(size, linear_size(r, rows, c->kv_heads * c->dk, c->d));
    size = max(size, linear_size(r, rows, c->kv_heads * c->dv, c->d));
    size = max(size, linear_size(r, rows, c->kv_heads * (c->dk + c->dv), c->d));
    size = max(size, linear_size(r, rows, c->heads * c->dk + c->kv_heads * (c->dk + c->dv), c->d));
    size = max(size, linear_size(r, rows, c->d, c->heads * c->dv));
    size = max(size, linear_size(r, rows, c->ff, c->d));
    size = max(size, linear_size(r, rows, c->d, c->ff));
    return (size + size / 8 + 63) / 64 * 64;
}
