/* ref.c: the reference of ref.h: sizes, positions, masks and dropout here, the arithmetic of a row
 * in ref_logits.h and ref_row.h, storage types and comparison in ref_check.c. */
#include "tests/ref_problem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SPLIT 512 /* key positions of a partial result, attn.h at attn_merge */
#define TILE 64   /* key positions between two looks at the maximum */

/* States of an output column with infinite or NaN values. */
enum { COLUMN_NAN = 1, COLUMN_UP = 2, COLUMN_DOWN = 4, COLUMN_OPEN = 8 };

void *ref_get(size_t size)
{
    void *memory = calloc(size ? size : 1, 1);

    if (!memory) {
        fprintf(stderr, "reference: no memory\n");
        abort();
    }
    return memory;
}

/* --- Sequences and rows --------------------------------------------------------------------- */

void ref_find_sequence(problem *p, int64_t b)
{
    const attn_mask *m = p->mask;
    seq *s = &p->seq;

    memset(s, 0, sizeof *s);
    if (m->segments > 0) {
        s->q_first = m->q_starts[b];
        s->tq = m->q_starts[b + 1] - s->q_first;
        s->k_first = m->k_starts[b];
        s->tk = m->k_starts[b + 1] - s->k_first;
    } else {
        s->qb = s->kb = b;
        s->tq = p->args->q.size[2];
        s->tk = p->args->k.size[2];
    }
    s->q_count = m->q_count ? m->q_count[b] : s->tq;
    s->k_start = m->k_start ? m->k_start[b] : 0;
    s->k_count = m->k_count ? m->k_count[b] : s->tk - s->k_start;
    s->q_pos = m->q_offset + (m->q_offsets ? m->q_offsets[b] : 0);
    s->k_pos = m->k_offset + (m->k_offsets ? m->k_offsets[b] : 0);
}

int64_t ref_key_position(const problem *p, int64_t j)
{
    return p->seq.k_pos + (j - p->seq.k_start);
}

row_place ref_find_row(const problem *p, int64_t b, int64_t h, int64_t i)
{
    const seq *s = &p->seq;
    const attn_view *sink = &p->args->sink;
    row_place at = {.b = b, .h = h, .i = i, .qb = s->qb, .q_row = s->q_first + i};

    at.row = (s->qb * p->r->heads + h) * p->r->tq + at.q_row;
    at.pos_q = s->q_pos + i;
    at.absent = i >= s->q_count;
    if (has_view(sink) && !p->args->partial) {
        at.sink = ref_load(ref_at(sink, b, h, 0, 0), sink->type);
        at.has_sink = at.sink != -HUGE_VAL;
    }
    return at;
}

double ref_record_value(const attn_view *view, const row_place *at, int64_t c)
{
    return ref_load(ref_at(view, at->qb, at->h, at->q_row, c), view->type);
}

/* The row of ref.weights or its bounds, or NULL if this head's weights were not asked for. */
static double *weights_row(const problem *p, double *base, const row_place *at)
{
    const ref *r = p->r;
    int64_t h = at->h - p->args->weights_head;

    if (!base || h < 0 || h >= r->wh)
        return NULL;
    return base + ((at->b * r->wh + h) * r->wq + at->i) * r->wk;
}

/* --- Masks ---------------------------------------------------------------------------------- */

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

static int blocks_allow(const attn_block_list *l, const row_place *at, int64_t pos_k)
{
    int64_t row = floor_div(at->pos_q, l->q_block), block = floor_div(pos_k, l->k_block);
    const int64_t *start = l->start + at->b * l->batch_stride + at->h * l->head_stride;

    if (row < 0 || row >= l->rows)
        return 0;
    for (int64_t e = start[row]; e < start[row + 1]; e++)
        if (l->index[e] == block)
            return 1;
    return 0;
}

/* Is `key` within what causal and window leave to `query`? An open side has no limit. */
static int reach_allows(const attn_mask *m, int64_t query, int64_t key)
{
    if (m->causal && key > query)
        return 0;
    if (!m->window)
        return 1;
    if (m->window_left >= 0 && key < query - m->window_left)
        return 0;
    return m->window_right < 0 || key <= query + m->window_right;
}

static int allows(const problem *p, const row_place *at, int64_t j)
{
    const attn_mask *m = p->mask;
    int64_t pos_k = ref_key_position(p, j);

    if (!reach_allows(m, at->pos_q, pos_k))
        return 0;
    if (m->blocks.start && !blocks_allow(&m->blocks, at, pos_k))
        return 0;
    if (has_view(&m->keep) && *(unsigned char *)ref_at(&m->keep, at->b, at->h, at->i, j) == 0)
        return 0;
    return !has_view(&m->bias) ||
           ref_load(ref_at(&m->bias, at->b, at->h, at->i, j), m->bias.type) != -HUGE_VAL;
}

void ref_find_allowed(const problem *p, const row_place *at)
{
    const seq *s = &p->seq;

    memset(p->allowed, 0, (size_t)s->tk);
    for (int64_t j = s->k_start; j < s->k_start + s->k_count && !at->absent; j++)
        p->allowed[j] = (unsigned char)allows(p, at, j);
}

/* Sets what the order of the work over the attended keys says about roundings. */
void ref_count_keys(const problem *p, row_place *at)
{
    int64_t tile = -1, split = -1, tiles = 0, splits = 0;

    at->n = 0;
    for (int64_t j = 0; j < p->seq.tk; j++) {
        int64_t pos = ref_key_position(p, j);

        if (!p->allowed[j])
            continue;
        at->n++;
        tiles += pos / TILE != tile;
        splits += pos / SPLIT != split;
        tile = pos / TILE;
        split = pos / SPLIT;
    }
    splits += (p->args->start != NULL) + at->has_sink + p->options.merges; /* a sink is merged too
                                                                            */
    /* A merge costs two products, a sum and an exponential. */
    at->roundings = (double)(at->n < SPLIT ? at->n : SPLIT) + (double)(splits > 1 ? 6 * splits : 0);
    /* m may stay 8 ln 2 below the maximum: up to twice that distance is travelled in addition. */
    at->lazy = tiles > 1 ? 3 * 11 : 0;
    at->vanish = tiles > 1 ? 256 : 1;
    p->r->allowed[at->row] = at->n;
}

attn_tile ref_row_tile(const problem *p, const row_place *at)
{
    const seq *s = &p->seq;

    return (attn_tile){
        .batch = at->b,
        .head = at->h,
        .q_row = at->i,
        .k_row = s->k_start,
        .q_pos = at->pos_q,
        .k_pos = s->k_pos,
        .rows = 1,
        .cols = s->k_count,
        .stride = s->k_count,
        .logits = p->tile + s->k_start,
        .type = ATTN_F64,
    };
}

/* --- Dropout -------------------------------------------------------------------------------- */

void ref_philox(const uint32_t key[2], const uint32_t counter[4], uint32_t out[4])
{
    uint32_t k0 = key[0], k1 = key[1];

    memcpy(out, counter, 4 * sizeof *out);
    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)out[0] * 0xD2511F53u, b = (uint64_t)out[2] * 0xCD9E8D57u;
        uint32_t next0 = (uint32_t)(b >> 32) ^ out[1] ^ k0;
        uint32_t next2 = (uint32_t)(a >> 32) ^ out[3] ^ k1;

        out[0] = next0;
        out[1] = (uint32_t)b;
        out[2] = next2;
        out[3] = (uint32_t)a;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
}

int ref_dropped(double drop, uint64_t seed, int64_t batch, int64_t head, int64_t pos_q,
                int64_t pos_k)
{
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    uint32_t counter[4] = {(uint32_t)((uint64_t)pos_k / 4), (uint32_t)(uint64_t)pos_q,
                           (uint32_t)(uint64_t)head, (uint32_t)(uint64_t)batch};
    uint32_t words[4];

    ref_philox(key, counter, words);
    return (double)words[pos_k % 4] < floor(drop * 0x1p32);
}

int ref_cell_dropped(const problem *p, const row_place *at, int64_t j)
{
    const attn_forward_args *a = p->args;

    return ref_dropped(a->dropout, a->dropout_seed, at->b + a->dropout_batch,
                       at->h + a->dropout_head, at->pos_q, ref_key_position(p, j));
}

/* --- Rows without ordinary numbers ---------------------------------------------------------- */

static void empty_row(const problem *p, const row_place *at)
{
    p->r->lse[at->row] = at->has_sink ? at->sink : -HUGE_VAL;
}

/* A NaN row. Not certain: every logit overflowed to -inf, but a sink or an earlier record is there;
 * the contract does not say which wins. */
static void broken_row(const problem *p, const row_place *at, int certain)
{
    double *weights = weights_row(p, p->r->weights, at);
    double *bounds = weights_row(p, p->r->bound_weights, at), open = certain ? 0 : (double)NAN;

    for (int64_t c = 0; c < p->r->dv; c++) {
        p->r->out[at->row * p->r->dv + c] = (double)NAN;
        p->r->bound_out[at->row * p->r->dv + c] = open;
    }
    p->r->lse[at->row] = (double)NAN;
    p->r->bound_lse[at->row] = certain ? HUGE_VAL : open;
    for (int64_t j = 0; weights && j < p->seq.tk; j++)
        if (p->allowed[j]) {
            weights[j] = (double)NAN;
            bounds[j] = open;
        }
}

static void column_special(int state, double *out, double *bound)
{
    if (state == 0)
        return;
    *bound = 0;
    if (state & COLUMN_NAN || (state & COLUMN_UP && state & COLUMN_DOWN))
        *out = (double)NAN;
    else if (state & COLUMN_OPEN) {
        *out = (double)NAN;
        *bound = HUGE_VAL;
    } else
        *out = state & COLUMN_UP ? HUGE_VAL : -HUGE_VAL;
}

/* --- The row, twice ------------------------------------------------------------------------- */

#define REF_REAL double
#define REF_NAME(x) double_##x
#define REF_EXP exp
#define REF_LOG log
#define REF_TANH tanh
#define REF_SQRT sqrt
#include "tests/ref_row.h"
#undef REF_REAL
#undef REF_NAME
#undef REF_EXP
#undef REF_LOG
#undef REF_TANH
#undef REF_SQRT

#define REF_REAL long double
#define REF_NAME(x) wide_##x
#define REF_EXP expl
#define REF_LOG logl
#define REF_TANH tanhl
#define REF_SQRT sqrtl
#include "tests/ref_row.h"

/* --- Entry ---------------------------------------------------------------------------------- */

void ref_make_result(const attn_forward_args *args, ref *r)
{
    size_t rows, weights;

    memset(r, 0, sizeof *r);
    r->batch = args->q.size[0];
    r->heads = args->q.size[1];
    r->tq = args->q.size[2];
    r->dv = args->v.size[3];
    r->f64 = args->q.type == ATTN_F64;
    rows = (size_t)(r->batch * r->heads * r->tq);
    r->out = ref_get(rows * (size_t)r->dv * sizeof *r->out);
    r->bound_out = ref_get(rows * (size_t)r->dv * sizeof *r->out);
    r->lse = ref_get(rows * sizeof *r->lse);
    r->bound_lse = ref_get(rows * sizeof *r->lse);
    r->max = ref_get(rows * sizeof *r->max);
    r->allowed = ref_get(rows * sizeof *r->allowed);
    if (!has_view(&args->weights) || args->partial)
        return;
    r->wb = args->weights.size[0];
    r->wh = args->weights.size[1];
    r->wq = args->weights.size[2];
    r->wk = args->weights.size[3];
    weights = (size_t)(r->wb * r->wh * r->wq * r->wk);
    r->weights = ref_get(weights * sizeof *r->weights);
    r->bound_weights = ref_get(weights * sizeof *r->weights);
}

problem ref_problem(const attn_forward_args *args, const ref_options *options, ref *r)
{
    static const attn_mask no_mask;
    problem p = {
        .args = args, .mask = args->mask ? args->mask : &no_mask, .options = *options, .r = r};

    if (p.options.denormals == 0)
        p.options.denormals = 1;
    p.dk = args->q.size[3];
    p.group = args->k.size[1] > 0 ? args->q.size[1] / args->k.size[1] : 1;
    p.sequences = p.mask->segments > 0 ? p.mask->segments : r->batch;
    p.longest_k = args->k.size[2];
    p.u = r->f64 ? 0x1p-53 : 0x1p-24;
    p.tiny = r->f64 ? 0x1p-1020 : 0x1p-124;
    p.denormal = r->f64 ? 0x1p-1074 : 0x1p-149;
    p.allowed = ref_get((size_t)p.longest_k);
    p.tile = ref_get((size_t)p.longest_k * sizeof *p.tile);
    return p;
}

void ref_problem_free(problem *p)
{
    free(p->allowed);
    free(p->tile);
}

void ref_forward_with(const attn_forward_args *args, const ref_options *options, ref *r)
{
    problem p;

    ref_make_result(args, r);
    p = ref_problem(args, options, r);
    if (r->f64 || options->wide)
        wide_run(&p);
    else
        double_run(&p);
    ref_problem_free(&p);
}

int ref_allows(const attn_forward_args *args, int64_t b, int64_t h, int64_t i, int64_t j)
{
    static const attn_mask no_mask;
    problem p = {.args = args, .mask = args->mask ? args->mask : &no_mask};
    row_place at = {.b = b, .h = h, .i = i};

    ref_find_sequence(&p, b);
    at.pos_q = p.seq.q_pos + i;
    return i < p.seq.q_count && j >= p.seq.k_start && j < p.seq.k_start + p.seq.k_count &&
           allows(&p, &at, j);
}

void ref_forward(const attn_forward_args *args, ref *r)
{
    ref_options options = {0};

    ref_forward_with(args, &options, r);
}

void ref_free(ref *r)
{
    free(r->out);
    free(r->lse);
    free(r->weights);
    free(r->bound_out);
    free(r->bound_lse);
    free(r->bound_weights);
    free(r->max);
    free(r->allowed);
    memset(r, 0, sizeof *r);
}
