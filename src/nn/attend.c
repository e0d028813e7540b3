/* attend.c: the attention sublayer, forward and backward. */
#include "src/nn/additive.h"
#include "src/nn/memory.h"
#include "src/nn/pass.h"

#include "src/base/error.h"

#include <string.h>

typedef struct sublayer {
    const attn__run *r;
    const attn__side *side, *keys; /* keys: side itself, or the encoder's */
    const attn__attention *a;
    const attn__attend_state *s;
    const void *y, *z; /* what queries and keys are made of */
    bool cross, joined;
    attn__heads x, dx;        /* queries, keys, values, and (backward) their gradients */
    ptrdiff_t k_head, v_head; /* from one head of x's keys to the next; 0: they lie side by side */
    uint32_t site;
} sublayer;

/* --- The attention call --------------------------------------------------------------------- */

static size_t layer_of(const sublayer *u)
{
    return u->site / attn__sites - 1;
}

/* A step reads what memory has of the sources. */
static bool keys_are_kept(const sublayer *u)
{
    return u->r->step && u->cross;
}

/* The keys of a step: those of memory. */
static void read_memory(sublayer *u)
{
    const attn__memory *m = u->r->memory;
    const attn__layer_memory *l = &m->layer[layer_of(u)];
    size_t dk = (size_t)u->r->model->config.dk, dv = (size_t)u->r->model->config.dv;
    size_t rows = u->cross ? m->tokens : m->length;

    u->x.k = u->cross ? l->cross_k : l->k;
    u->x.v = u->cross ? l->cross_v : l->v;
    u->x.k_row = (ptrdiff_t)dk;
    u->x.v_row = (ptrdiff_t)dv;
    u->k_head = (ptrdiff_t)(rows * dk);
    u->v_head = (ptrdiff_t)(rows * dv);
}

/* row: from one row to the next; 0: heads fill it. */
static attn_view heads_of(const attn__run *r, const void *data, size_t rows, int64_t heads,
                          int64_t width, ptrdiff_t row)
{
    attn_view v = attn_view_bshd(data, r->model->config.type, 1, heads, (int64_t)rows, width);

    if (row) {
        v.stride[0] = 0;
        v.stride[2] = row;
    }
    return v;
}

/* Every layer drops other weights: the seeds are words of the generator. */
static uint64_t seed_of(const sublayer *u)
{
    uint64_t x = u->r->seed + (uint64_t)(u->side->site + u->site + 1) * 0x9e3779b97f4a7c15u;

    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static void fill_call(const sublayer *u, attn_forward_args *f, attn_mask *m)
{
    const attn__run *r = u->r;
    const attn_model_config *c = &r->model->config;
    const attn__attend_state *s = u->s;
    bool own = !u->cross;

    *m = (attn_mask)ATTN_MASK_INIT;
    m->segments = r->segments;
    m->q_starts = u->side->starts;
    m->k_starts = u->keys->starts;
    m->causal = own && u->side->half->causal;
    if (own && u->side->bias)
        m->bias = attn_view_bhsd(u->side->bias, c->type, 1, c->heads, (int64_t)u->side->longest,
                                 (int64_t)u->side->longest);
    if (own && u->side->slopes)
        m->alibi = attn_view_bhsd(u->side->slopes, c->type, 1, c->heads, 1, 1);
    *f = (attn_forward_args)ATTN_FORWARD_ARGS_INIT;
    f->q = heads_of(r, u->x.q, u->side->rows, c->heads, c->dk, u->x.q_row);
    f->k = heads_of(r, u->x.k, u->keys->rows, c->kv_heads, c->dk, u->x.k_row);
    f->v = heads_of(r, u->x.v, u->keys->rows, c->kv_heads, c->dv, u->x.v_row);
    if (u->k_head) {
        f->k.stride[1] = u->k_head;
        f->v.stride[1] = u->v_head;
    }
    f->out = heads_of(r, s->o, u->side->rows, c->heads, c->dv, 0);
    f->lse = attn_view_bhsd(s->lse, c->type, 1, c->heads, (int64_t)u->side->rows, 1);
    f->mask = m;
    f->has_scale = 1;
    f->scale = c->qk_temperature ? 1 : c->attention_scale;
    f->softcap = c->softcap;
    f->dropout = attn__rate(r, c->dropout_attention);
    f->dropout_seed = seed_of(u);
    f->dropout_batch = r->batch->first_segment;
}

static attn__grid grid(void *data, ptrdiff_t row, int64_t width)
{
    attn__grid g = {data, row, (ptrdiff_t)width};

    return g;
}

static attn__additive_call additive_call(const sublayer *u)
{
    const attn__run *r = u->r;
    const attn_model_config *c = &r->model->config;
    size_t longest = u->keys->longest;
    attn__additive_call a = {.ctx = r->ctx,
                             .f64 = r->f64,
                             .heads = (size_t)c->heads,
                             .key_heads = (size_t)c->kv_heads,
                             .dk = (size_t)c->dk,
                             .dv = (size_t)c->dv,
                             .segments = (size_t)r->segments,
                             .q_starts = u->side->starts,
                             .k_starts = u->keys->starts,
                             .causal = !u->cross && u->side->half->causal,
                             .longest = longest,
                             .w = attn__tensor(r, u->a->score, false)};

    a.q = grid(u->x.q, u->x.q_row, c->dk);
    a.k = grid(u->x.k, u->x.k_row, u->k_head ? u->k_head : c->dk);
    a.v = grid(u->x.v, u->x.v_row, u->v_head ? u->v_head : c->dv);
    a.p = grid(u->s->lse, (ptrdiff_t)longest, (int64_t)(u->side->rows * longest));
    a.out = grid(u->s->o, (ptrdiff_t)(c->heads * c->dv), c->dv);
    if (r->step && !u->cross) { /* a segment for each hypothesis */
        a.segments = r->memory->count;
        a.q_starts = r->memory->ordinal;
        a.k_starts = r->memory->first;
        a.k_counts = r->memory->ends;
        a.causal = false;
    }
    return a;
}

/* What the caller wants to see of this attention, or NULL. */
static const attn_look *look_of(const sublayer *u)
{
    const attn__run *r = u->r;

    for (size_t i = 0; i < r->look_count; i++) {
        const attn_look *l = &r->looks[i];
        int kind = l->cross ? attn__site_cross : attn__site_self;

        if ((l->decoder ? &r->decoder : &r->encoder) == u->side &&
            attn__site((size_t)l->layer, kind) == u->site)
            return l;
    }
    return NULL;
}

/* A step's queries, one a hypothesis, against the keys that memory holds of it. */
static attn_status call_cache(const sublayer *u, attn_error *err)
{
    const attn__run *r = u->r;
    const attn__memory *memory = r->memory;
    const attn_model_config *c = &r->model->config;
    const attn_cache *cache = memory->layer[layer_of(u)].cache;
    attn_forward_args f;
    attn_mask m;
    attn_plan plan = ATTN_PLAN_INIT;
    int64_t rows = (int64_t)u->side->rows;

    fill_call(u, &f, &m);
    m.segments = 0;
    m.q_starts = m.k_starts = NULL;
    m.causal = 0;
    if (memory->bias)
        m.bias = attn_view_bhsd(memory->bias, c->type, rows, c->heads, 1, (int64_t)memory->longest);
    f.k = f.v = f.lse = (attn_view){0};
    f.q = attn_view_bshd(u->x.q, c->type, rows, c->heads, 1, c->dk);
    f.q.stride[0] = u->x.q_row;
    f.out = attn_view_bshd(u->s->o, c->type, rows, c->heads, 1, c->dv);
    TRY(attn_decode_plan(r->ctx, cache, &f, &plan, err));
    f.workspace = attn__work(r, plan.workspace_size);
    f.workspace_size = r->work_size;
    return attn_decode(r->ctx, cache, &f, err);
}

static attn_status call_forward(const sublayer *u, attn_error *err)
{
    const attn_look *look = look_of(u);
    attn_forward_args f;
    attn_mask m;
    attn_plan plan = ATTN_PLAN_INIT;

    if (u->r->model->config.score == ATTN_SCORE_ADDITIVE) {
        attn__additive_call a = additive_call(u);
        attn__additive_forward(&a);
        if (look)
            attn__additive_show(&a, &look->weights, (size_t)look->head);
        return ATTN_OK;
    }
    if (u->r->step && !u->cross)
        return call_cache(u, err);
    fill_call(u, &f, &m);
    if (look) {
        f.weights = look->weights;
        f.weights_head = look->head;
        f.stats = look->stats;
    }
    TRY(attn_forward_plan(u->r->ctx, &f, &plan, err));
    f.workspace = attn__work(u->r, plan.workspace_size);
    f.workspace_size = u->r->work_size;
    return attn_forward(u->r->ctx, &f, err);
}

/* From r->dout to u->dx. */
static attn_status call_backward(const sublayer *u, attn_error *err)
{
    const attn__run *r = u->r;
    const attn_model_config *c = &r->model->config;
    attn_forward_args f;
    attn_mask m;
    attn_backward_args b = ATTN_BACKWARD_ARGS_INIT;
    attn_plan plan = ATTN_PLAN_INIT;

    if (c->score == ATTN_SCORE_ADDITIVE) {
        attn__additive_call a = additive_call(u);
        a.dout = grid(r->dout, (ptrdiff_t)(c->heads * c->dv), c->dv);
        a.dq = grid(u->dx.q, u->dx.q_row, c->dk);
        a.dkeys = grid(u->dx.k, u->dx.k_row, c->dk);
        a.dvalues = grid(u->dx.v, u->dx.v_row, c->dv);
        a.dw = attn__tensor(r, u->a->score, true);
        attn__additive_backward(&a);
        return ATTN_OK;
    }
    fill_call(u, &f, &m);
    b.forward = &f;
    b.dout = heads_of(r, r->dout, u->side->rows, c->heads, c->dv, 0);
    b.dq = heads_of(r, u->dx.q, u->side->rows, c->heads, c->dk, u->dx.q_row);
    b.dk = heads_of(r, u->dx.k, u->keys->rows, c->kv_heads, c->dk, u->dx.k_row);
    b.dv = heads_of(r, u->dx.v, u->keys->rows, c->kv_heads, c->dv, u->dx.v_row);
    if (m.bias.data) {
        b.dbias = m.bias;
        b.dbias.data = u->side->dbias;
    }
    TRY(attn_backward_plan(r->ctx, &b, &plan, err));
    b.workspace = attn__work(r, plan.workspace_size);
    if (!b.workspace)
        b.workspace = attn__work(r, plan.workspace_least);
    b.workspace_size = r->work_size;
    TRY(attn_backward(r->ctx, &b, err));
    if (m.bias.data)
        attn__add_buckets(r, u->side);
    return ATTN_OK;
}

/* --- Queries and keys before they meet ------------------------------------------------------ */

static attn__norm_call head_norm(const sublayer *u, bool query, void *x)
{
    const attn__run *r = u->r;
    const attn_model_config *c = &r->model->config;
    attn__norm_layer l = query ? u->a->q_norm : u->a->k_norm;
    size_t rows = query ? u->side->rows * (size_t)c->heads : u->keys->rows * (size_t)c->kv_heads;
    attn__norm_call n = {.shape = attn__shape_of(r, rows, (size_t)c->dk),
                         .kind = c->qk_norm == ATTN_QK_L2    ? ATTN_NORM_L2
                                 : c->qk_norm == ATTN_QK_RMS ? ATTN_NORM_RMS
                                                             : ATTN_NORM_LAYER,
                         .eps = c->norm_eps,
                         .weight = attn__tensor(r, l.weight, false),
                         .bias = attn__tensor(r, l.bias, false),
                         .mean = query ? u->s->q_mean : u->s->k_mean,
                         .rstd = query ? u->s->q_rstd : u->s->k_rstd};

    n.x = attn__dense(query ? u->s->raw_q : u->s->raw_k, n.shape.n);
    n.out = n.dout = n.dx = attn__dense(x, n.shape.n);
    if (r->gradients) {
        n.dweight = attn__tensor(r, l.weight, true);
        n.dbias = attn__tensor(r, l.bias, true);
    }
    return n;
}

static void turn(const sublayer *u, bool query, void *x, ptrdiff_t row, bool back)
{
    const attn_model_config *c = &u->r->model->config;
    const attn__side *side = query ? u->side : u->keys;
    attn__rotary_call t = {.width = (ptrdiff_t)c->dk,
                           .pairs = (size_t)c->rotary / 2,
                           .adjacent = c->positions == ATTN_POSITIONS_ROTARY_PAIRS,
                           .back = back,
                           .at = side->place,
                           .cosine = side->cosine,
                           .sine = side->sine,
                           .minus_sine = side->minus_sine};
    size_t heads = (size_t)(query ? c->heads : c->kv_heads);

    if (!side->cosine || u->cross)
        return;
    t.shape = attn__shape_of(u->r, side->rows, heads);
    t.x = (attn__rows){x, row};
    attn__rotary(&t);
}

static void prepare(const sublayer *u)
{
    const attn_model_config *c = &u->r->model->config;
    const attn__attend_state *s = u->s;
    void *q = c->qk_temperature ? s->even_q : u->x.q;

    if (c->qk_norm) {
        attn__norm_call n = head_norm(u, true, q);
        attn__norm_forward(&n);
    }
    if (c->qk_norm && !keys_are_kept(u)) {
        attn__norm_call n = head_norm(u, false, u->x.k);
        attn__norm_forward(&n);
    }
    turn(u, true, q, u->x.q_row, false);
    turn(u, false, u->x.k, u->x.k_row, false);
    if (c->qk_temperature)
        attn__temper(u->r, u->side->rows, attn__tensor(u->r, u->a->temperature, false), q, u->x.q);
}

/* On u->dx, in place. */
static void prepare_back(const sublayer *u)
{
    const attn__run *r = u->r;
    const attn_model_config *c = &r->model->config;

    if (c->qk_temperature)
        attn__temper_back(r, u->side->rows, attn__tensor(r, u->a->temperature, false), u->s->even_q,
                          u->dx.q, attn__tensor(r, u->a->temperature, true));
    turn(u, true, u->dx.q, u->dx.q_row, true);
    turn(u, false, u->dx.k, u->dx.k_row, true);
    if (c->qk_norm) {
        attn__norm_call n = head_norm(u, true, u->dx.q);
        attn__norm_backward(&n);
        n = head_norm(u, false, u->dx.k);
        attn__norm_backward(&n);
    }
}

/* --- The sublayer --------------------------------------------------------------------------- */

/* Rows of the matrix of keys and values, and of that of queries too. */
static size_t joined_rows(const sublayer *u)
{
    return (size_t)u->x.k_row;
}

/* The queries of a gate: one row for all. */
static void repeat_query(const sublayer *u, void *q)
{
    const attn__run *r = u->r;
    size_t bytes = (size_t)(r->model->config.heads * r->model->config.dk) * r->unit;

    for (size_t i = 0; i < u->side->rows; i++)
        memcpy((char *)q + i * bytes, attn__tensor(r, u->a->score, false), bytes);
}

static attn_status project_queries(const sublayer *u, void *q, attn_error *err)
{
    if (u->a->q.weight >= 0)
        return attn__linear_forward(u->r, u->a->q, 0, u->y, u->side->rows, ATTN_ACT_NONE, NULL, q,
                                    err);
    repeat_query(u, q);
    return ATTN_OK;
}

static attn_status project(const sublayer *u, attn_error *err)
{
    const attn__run *r = u->r;
    const attn__attention *a = u->a;
    const attn__attend_state *s = u->s;
    size_t rows = u->side->rows, keys = u->keys->rows;
    void *q = s->raw_q ? s->raw_q : s->even_q ? s->even_q : u->x.q;
    void *k = s->raw_k ? s->raw_k : u->x.k;

    if (u->joined && !u->cross)
        return attn__linear_forward(r, a->q, joined_rows(u), u->y, rows, ATTN_ACT_NONE, NULL, q,
                                    err);
    TRY(project_queries(u, q, err));
    if (keys_are_kept(u))
        return ATTN_OK;
    if (u->joined)
        return attn__linear_forward(r, a->k, joined_rows(u), u->z, keys, ATTN_ACT_NONE, NULL, k,
                                    err);
    TRY(attn__linear_forward(r, a->k, 0, u->z, keys, ATTN_ACT_NONE, NULL, k, err));
    return attn__linear_forward(r, a->v, 0, u->z, keys, ATTN_ACT_NONE, NULL, u->x.v, err);
}

static sublayer open_sublayer(const attn__run *r, const attn__side *side, const attn__side *memory,
                              const attn__attention *a, const void *x, const attn__attend_state *s,
                              uint32_t site)
{
    bool pre = r->model->config.place == ATTN_PLACE_PRE;
    sublayer u = {.r = r,
                  .side = side,
                  .keys = memory ? memory : side,
                  .a = a,
                  .s = s,
                  .y = pre ? s->norm.y : x,
                  .cross = memory,
                  .joined = attn__joins(r->model, a, memory),
                  .site = site};

    u.z = memory ? memory->hidden : u.y;
    u.x = attn__place_heads(r, s->heads, side->rows, u.keys->rows, u.joined, u.cross);
    if (r->dheads)
        u.dx = attn__place_heads(r, r->dheads, side->rows, u.keys->rows, u.joined, u.cross);
    return u;
}

attn_status attn__attend_forward(const attn__run *r, const attn__side *side,
                                 const attn__side *memory, const attn__attention *a,
                                 attn__norm_layer norm, const void *x, const attn__attend_state *s,
                                 uint32_t site, attn_error *err)
{
    const attn_model_config *c = &r->model->config;
    bool pre = c->place == ATTN_PLACE_PRE;
    sublayer u = open_sublayer(r, side, memory, a, x, s, site);
    double rate = attn__rate(r, c->dropout);
    void *sum = pre ? s->out : s->norm.sum;

    if (pre)
        attn__norm_rows(r, norm, side->rows, x, &s->norm, s->norm.y);
    TRY(project(&u, err));
    prepare(&u);
    if (r->memory && side == &r->decoder && !keys_are_kept(&u))
        attn__memory_store(r, layer_of(&u), u.cross, &u.x);
    if (r->step)
        read_memory(&u);
    TRY(call_forward(&u, err));
    TRY(attn__linear_forward(r, a->out, 0, s->o, side->rows, ATTN_ACT_NONE, rate > 0 ? NULL : x,
                             rate > 0 ? r->rest : sum, err));
    if (rate > 0)
        attn__drop(r, side, site, rate, s->bits, true, (size_t)c->d, r->rest, x, sum);
    if (!pre)
        attn__norm_rows(r, norm, side->rows, sum, &s->norm, s->out);
    return ATTN_OK;
}

/* dy = add + dq Wq; a gate's queries are no function of y. */
static attn_status queries_back(const sublayer *u, const void *add, void *dy, attn_error *err)
{
    const attn__run *r = u->r;
    size_t rows = u->side->rows, n = (size_t)(r->model->config.heads * r->model->config.dk);
    attn__shape shape = attn__shape_of(r, rows, n);
    attn__rows dq = attn__dense(u->dx.q, n);

    if (u->a->q.weight >= 0)
        return attn__linear_backward(r, u->a->q, 0, u->y, u->dx.q, rows, 1, add, dy, err);
    attn__add_columns(&shape, &dq, attn__tensor(r, u->a->score, true));
    if (dy != add)
        memset(dy, 0, rows * (size_t)r->model->config.d * r->unit);
    return ATTN_OK;
}

/* dy = add + dq Wq [+ dk Wk + dv Wv]; those of keys and values go to the encoder where it is
 * theirs. dy may be add, and add is dy or NULL. */
static attn_status project_back(const sublayer *u, const void *add, void *dy, attn_error *err)
{
    const attn__run *r = u->r;
    const attn__attention *a = u->a;
    size_t rows = u->side->rows, keys = u->keys->rows;
    void *dz = u->cross ? r->dmemory : dy;

    if (u->joined && !u->cross)
        return attn__linear_backward(r, a->q, joined_rows(u), u->y, u->dx.q, rows, 1, add, dy, err);
    TRY(queries_back(u, add, dy, err));
    if (u->joined)
        return attn__linear_backward(r, a->k, joined_rows(u), u->z, u->dx.k, keys, 1, dz, dz, err);
    TRY(attn__linear_backward(r, a->k, 0, u->z, u->dx.k, keys, 1, dz, dz, err));
    return attn__linear_backward(r, a->v, 0, u->z, u->dx.v, keys, 1, dz, dz, err);
}

attn_status attn__attend_backward(const attn__run *r, const attn__side *side,
                                  const attn__side *memory, const attn__attention *a,
                                  attn__norm_layer norm, const void *x, const attn__attend_state *s,
                                  uint32_t site, attn_error *err)
{
    const attn_model_config *c = &r->model->config;
    bool pre = c->place == ATTN_PLACE_PRE;
    sublayer u = open_sublayer(r, side, memory, a, x, s, site);
    double rate = attn__rate(r, c->dropout);
    void *da = r->g;

    if (!pre)
        attn__norm_rows_back(r, norm, side->rows, s->norm.sum, &s->norm, r->g, NULL, r->g);
    if (rate > 0) {
        da = r->da;
        attn__drop(r, side, site, rate, s->bits, false, (size_t)c->d, r->g, NULL, da);
    }
    TRY(attn__linear_backward(r, a->out, 0, s->o, da, side->rows, 1, NULL, r->dout, err));
    TRY(call_backward(&u, err));
    prepare_back(&u);
    TRY(project_back(&u, pre ? NULL : r->g, pre ? r->dy : r->g, err));
    if (pre)
        attn__norm_rows_back(r, norm, side->rows, x, &s->norm, r->dy, r->g, r->g);
    return ATTN_OK;
}
