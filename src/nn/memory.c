/* memory.c: see memory.h. */
#include "src/nn/memory.h"

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/core/each.h"
#include "src/nn/cut.h"

#include <string.h>

/* --- Room ----------------------------------------------------------------------------------- */

static void lay_tables(attn__memory *m, attn__cursor *c)
{
    const attn_model_config *g = &m->model->config;
    size_t pairs = (size_t)g->rotary / 2, heads = (size_t)g->heads, n = m->length, all;

    if (attn__is_sinusoid(g))
        m->positions = attn__take(c, n, (size_t)g->d, m->unit);
    if (attn__is_rotary(g)) {
        m->cosine = attn__take(c, n, pairs, m->unit);
        m->sine = attn__take(c, n, pairs, m->unit);
        m->minus_sine = attn__take(c, n, pairs, m->unit);
    }
    if (g->positions == ATTN_POSITIONS_ALIBI)
        m->slopes = attn__take(c, heads, 1, m->unit);
    if (g->positions == ATTN_POSITIONS_T5) {
        m->distances = attn__take(c, heads, n, m->unit);
        if (!attn__mul(m->hypotheses, heads, &all))
            all = SIZE_MAX;
        m->bias = attn__take(c, all, n, m->unit);
    }
}

static void lay_layer(attn__memory *m, attn__cursor *c, attn__layer_memory *l, size_t i)
{
    const attn_model_config *g = &m->model->config;
    const attn__attention *a = &m->model->decoder.block[i].cross;
    size_t k = (size_t)(g->kv_heads * g->dk), v = (size_t)(g->kv_heads * g->dv), rows;

    if (!attn__mul(m->hypotheses, m->length, &rows))
        rows = SIZE_MAX;
    l->k = attn__take(c, rows, k, m->unit);
    l->v = attn__take(c, rows, v, m->unit);
    if (a->k.weight < 0)
        return;
    l->cross_k = attn__take(c, m->tokens, k, m->unit);
    l->cross_v = attn__take(c, m->tokens, v, m->unit);
}

static size_t lay_out(attn__memory *m, char *base)
{
    attn__cursor c = {base, 0};
    size_t n = m->hypotheses;
    attn__layer_memory none, *l;

    m->layer = attn__take(&c, m->layers, 1, sizeof *m->layer);
    for (size_t i = 0; i < m->layers; i++) {
        l = m->layer ? &m->layer[i] : &none;
        *l = (attn__layer_memory){0};
        lay_layer(m, &c, l, i);
    }
    lay_tables(m, &c);
    m->slot_of = attn__take(&c, n, 1, sizeof *m->slot_of);
    m->source_of = attn__take(&c, n, 1, sizeof *m->source_of);
    m->held = attn__take(&c, n, 1, sizeof *m->held);
    m->next_slot = attn__take(&c, n, 1, sizeof *m->next_slot);
    m->next_from = attn__take(&c, n, 1, sizeof *m->next_from);
    m->next_source = attn__take(&c, n, 1, sizeof *m->next_source);
    m->next_held = attn__take(&c, n, 1, sizeof *m->next_held);
    m->first = attn__take(&c, n, 1, sizeof *m->first);
    m->ends = attn__take(&c, n, 1, sizeof *m->ends);
    m->ordinal = attn__take(&c, n + 1, 1, sizeof *m->ordinal);
    m->stays = attn__take(&c, n, 1, sizeof *m->stays);
    m->origin = attn__take(&c, n, m->length, sizeof *m->origin);
    m->valid = attn__take(&c, n, 1, sizeof *m->valid);
    m->vacant = attn__take(&c, n, 1, sizeof *m->vacant);
    m->keys_from = attn__take(&c, n + 1, 1, sizeof *m->keys_from);
    m->keys_count = attn__take(&c, n, 1, sizeof *m->keys_count);
    m->rows_from = attn__take(&c, n + 1, 1, sizeof *m->rows_from);
    return c.at;
}

static attn_status make_cache(attn__memory *m, attn__layer_memory *l, attn_error *err)
{
    const attn_model_config *g = &m->model->config;
    attn_cache_options o = ATTN_CACHE_OPTIONS_INIT;
    int64_t slots = (int64_t)m->hypotheses, n = (int64_t)m->length;

    o.kind = ATTN_CACHE_PAGED;
    o.type = g->type;
    o.batch = o.pages = slots;
    o.heads = g->kv_heads;
    o.dk = g->dk;
    o.dv = g->dv;
    o.capacity = o.page = n;
    o.block_table = m->slot_of;
    o.k = attn_view_bhsd(l->k, g->type, slots, g->kv_heads, n, g->dk);
    o.v = attn_view_bhsd(l->v, g->type, slots, g->kv_heads, n, g->dv);
    return attn_cache_create(m->ctx, &o, &l->cache, err);
}

/* As a pass makes them, for `length` positions. */
static void make_tables(attn__memory *m)
{
    attn__side side = {.half = &m->model->decoder,
                       .longest = m->length,
                       .positions = m->positions,
                       .cosine = m->cosine,
                       .sine = m->sine,
                       .minus_sine = m->minus_sine,
                       .slopes = m->slopes};
    attn__run r = {.model = m->model,
                   .ctx = m->ctx,
                   .f64 = m->model->config.type == ATTN_F64,
                   .unit = m->unit};

    attn__make_positions(&r, &side);
    if (m->distances)
        attn__make_distances(&r, &side, m->distances);
}

static void close_caches(attn__memory *m)
{
    for (size_t i = 0; m->layer && i < m->layers; i++)
        attn_cache_destroy(m->layer[i].cache);
}

/* A block that is large enough stays: its pages are there already, and new ones would have to be
 * cleared. */
static void resize_block(attn__memory *m, size_t size)
{
    if (m->block && size <= m->block_size)
        return;
    attn__free(m->ctx, m->block);
    m->block = size == SIZE_MAX ? NULL : attn__alloc(m->ctx, size);
    m->block_size = size;
}

attn_status attn__memory_open(attn__memory *m, const attn_model *model, size_t hypotheses,
                              size_t length, size_t tokens, size_t longest_source, attn_error *err)
{
    void *block = m->block;
    size_t block_size = m->block_size;
    attn_status st = ATTN_OK;

    close_caches(m);
    *m = (attn__memory){.block = block, .block_size = block_size};
    m->model = model;
    m->ctx = model->ctx;
    m->unit = attn_type_size(model->config.type);
    m->hypotheses = hypotheses;
    m->length = length;
    m->tokens = tokens;
    m->longest_source = longest_source;
    m->layers = model->decoder.layers;
    resize_block(m, lay_out(m, NULL));
    if (!m->block) {
        attn__memory_close(m);
        return attn__fail(err, ATTN_E_MEMORY, 0,
                          "keys and values: no memory for %zu hypotheses of %zu positions",
                          hypotheses, length);
    }
    lay_out(m, m->block);
    attn__memory_clear(m);
    for (size_t i = 0; st == ATTN_OK && i < m->layers; i++)
        st = make_cache(m, &m->layer[i], err);
    if (st == ATTN_OK)
        make_tables(m);
    else
        attn__memory_close(m);
    return st;
}

void attn__memory_close(attn__memory *m)
{
    close_caches(m);
    attn__free(m->ctx, m->block);
    memset(m, 0, sizeof *m);
}

void attn__memory_clear(attn__memory *m)
{
    m->count = m->sources = m->vacant_count = m->fresh = m->fresh_source = 0;
    m->rows_made = 0;
    m->keys_from[0] = m->rows_from[0] = 0;
    m->ordinal[m->hypotheses] = (int64_t)m->hypotheses;
    for (size_t i = 0; i < m->hypotheses; i++) {
        m->ordinal[i] = (int64_t)i;
        m->slot_of[i] = 0;
        m->valid[i] = 0;
        m->vacant[m->vacant_count++] = (int32_t)(m->hypotheses - 1 - i);
    }
}

/* --- Rows ----------------------------------------------------------------------------------- */

/* Rows of `width` elements, which lie to_row and from_row apart. */
static void copy_rows(const attn__memory *m, void *to, ptrdiff_t to_row, const void *from,
                      ptrdiff_t from_row, size_t rows, size_t width)
{
    for (size_t i = 0; i < rows; i++)
        memcpy((char *)to + (ptrdiff_t)(i * m->unit) * to_row,
               (const char *)from + (ptrdiff_t)(i * m->unit) * from_row, width * m->unit);
}

static void *row_at(const attn__memory *m, void *base, size_t row, ptrdiff_t width)
{
    return (char *)base + row * m->unit * (size_t)width;
}

/* Row p of a head in a slot. */
static void *slot_row(const attn__memory *m, void *base, size_t slot, size_t head, size_t p,
                      size_t width)
{
    size_t heads = (size_t)m->model->config.kv_heads;

    return (char *)base + ((slot * heads + head) * m->length + p) * width * m->unit;
}

/* Row i of a head of the sources. */
static void *source_row(const attn__memory *m, void *base, size_t head, size_t i, size_t width)
{
    return (char *)base + (head * m->tokens + i) * width * m->unit;
}

static void store_sources(const attn__memory *m, const attn__layer_memory *l, size_t rows,
                          const attn__heads *x)
{
    size_t dk = (size_t)m->model->config.dk, dv = (size_t)m->model->config.dv;
    size_t from = (size_t)m->keys_from[m->fresh_source];

    for (size_t h = 0; h < (size_t)m->model->config.kv_heads; h++) {
        copy_rows(m, source_row(m, l->cross_k, h, from, dk), (ptrdiff_t)dk,
                  row_at(m, x->k, h, (ptrdiff_t)dk), x->k_row, rows, dk);
        copy_rows(m, source_row(m, l->cross_v, h, from, dv), (ptrdiff_t)dv,
                  row_at(m, x->v, h, (ptrdiff_t)dv), x->v_row, rows, dv);
    }
}

typedef struct storing {
    const attn__memory *m;
    const attn__layer_memory *l;
    const attn__side *side;
    const attn__heads *x;
    size_t before; /* the hypothesis of the side's first sequence */
} storing;

static void store_row(const void *arg, size_t i)
{
    const storing *s = arg;
    const attn__memory *m = s->m;
    size_t dk = (size_t)m->model->config.dk, dv = (size_t)m->model->config.dv;
    size_t slot = (size_t)m->slot_of[s->before + (size_t)s->side->sequence[i]];
    size_t p = (size_t)s->side->place[i];
    const char *k = row_at(m, s->x->k, i, s->x->k_row), *v = row_at(m, s->x->v, i, s->x->v_row);

    for (size_t h = 0; h < (size_t)m->model->config.kv_heads; h++) {
        memcpy(slot_row(m, s->l->k, slot, h, p, dk), k + h * dk * m->unit, dk * m->unit);
        memcpy(slot_row(m, s->l->v, slot, h, p, dv), v + h * dv * m->unit, dv * m->unit);
    }
}

/* Elements of a hypothesis's row in a layer. */
static size_t row_width(const attn__memory *m)
{
    const attn_model_config *c = &m->model->config;

    return (size_t)(c->kv_heads * (c->dk + c->dv));
}

void attn__memory_store(const attn__run *r, size_t layer, bool cross, const attn__heads *x)
{
    const attn__memory *m = r->memory;
    storing s = {m, &m->layer[layer], &r->decoder, x, r->step ? 0 : m->fresh};

    if (cross)
        store_sources(m, s.l, r->encoder.rows, x);
    else
        attn__each(m->ctx, s.side->rows, s.side->rows * row_width(m), store_row, &s);
}

/* Numbers rows `from` .. held - 1 of a hypothesis, which are about to be written. */
static void number_rows(attn__memory *m, size_t i, int64_t from)
{
    size_t slot = (size_t)m->slot_of[i];
    int64_t *origin = m->origin + slot * m->length;

    for (int64_t p = from; p < m->held[i]; p++)
        origin[p] = m->rows_made++;
    m->valid[slot] = m->held[i];
}

/* --- Sources -------------------------------------------------------------------------------- */

/* The rows of source `from` become those of number `to`, further to the front. */
static void move_source(attn__memory *m, size_t from, size_t to)
{
    size_t rows = (size_t)m->keys_count[from];
    size_t at = (size_t)m->keys_from[from], put = (size_t)m->keys_from[to];
    size_t dk = (size_t)m->model->config.dk, dv = (size_t)m->model->config.dv;

    for (size_t i = 0; i < m->layers && at != put; i++)
        for (size_t h = 0; h < (size_t)m->model->config.kv_heads; h++) {
            const attn__layer_memory *l = &m->layer[i];
            memmove(source_row(m, l->cross_k, h, put, dk), source_row(m, l->cross_k, h, at, dk),
                    rows * dk * m->unit);
            memmove(source_row(m, l->cross_v, h, put, dv), source_row(m, l->cross_v, h, at, dv),
                    rows * dv * m->unit);
        }
    m->keys_count[to] = (int64_t)rows;
    m->keys_from[to + 1] = m->keys_from[to] + (int64_t)rows;
}

/* Sources without hypotheses leave. */
static void close_gaps(attn__memory *m)
{
    size_t kept = 0;

    for (size_t s = 0; s < m->sources; s++) {
        if (m->rows_from[s] == m->rows_from[s + 1])
            continue;
        for (int64_t i = m->rows_from[s]; i < m->rows_from[s + 1]; i++)
            m->source_of[i] = (int32_t)kept;
        if (m->keys_from[kept] != m->keys_from[s] || kept != s)
            move_source(m, s, kept);
        m->rows_from[kept + 1] = m->rows_from[s + 1];
        kept++;
    }
    m->sources = kept;
}

void attn__memory_add(attn__memory *m, size_t segments, const int64_t *source_starts,
                      const int64_t *target_starts)
{
    close_gaps(m);
    m->fresh = m->count;
    m->fresh_source = m->sources;
    for (size_t s = 0; s < segments; s++) {
        size_t i = m->count++, source = m->sources++;
        int64_t keys = source_starts ? source_starts[s + 1] - source_starts[s] : 0;

        m->slot_of[i] = m->vacant[--m->vacant_count];
        m->source_of[i] = (int32_t)source;
        m->held[i] = target_starts[s + 1] - target_starts[s];
        number_rows(m, i, 0);
        m->keys_count[source] = keys;
        m->keys_from[source + 1] = m->keys_from[source] + keys;
        m->rows_from[source + 1] = (int64_t)m->count;
    }
}

/* --- Moves ---------------------------------------------------------------------------------- */

/* Gives slots to the children first .. end - 1, whose parents are among from .. to - 1 (those of a
 * source): their parent's own to the first, then those of the dead; -1 where none is left. */
static void give_slots(attn__memory *m, const int32_t *parents, size_t first, size_t end,
                       size_t from, size_t to)
{
    size_t dead = from;

    for (size_t i = first; i < end; i++) {
        size_t p = (size_t)parents[i];
        m->next_slot[i] = m->stays[p] ? -1 : m->slot_of[p];
        m->stays[p] = true;
    }
    for (size_t i = first; i < end; i++) {
        while (dead < to && m->stays[dead])
            dead++;
        if (m->next_slot[i] < 0 && dead < to)
            m->next_slot[i] = m->slot_of[dead++];
    }
    for (; dead < to; dead++)
        if (!m->stays[dead])
            m->vacant[m->vacant_count++] = m->slot_of[dead];
}

/* Rows of its parent into the slot of child i, from where the two differ. */
static void copy_history(const void *arg, size_t i)
{
    const attn__memory *m = arg;
    size_t to = (size_t)m->next_slot[i], from = (size_t)m->next_from[i];
    size_t dk = (size_t)m->model->config.dk, dv = (size_t)m->model->config.dv, rows, put;
    int64_t *mine = m->origin + to * m->length, *its = m->origin + from * m->length;
    int64_t held = m->next_held[i], same = m->valid[to] < held ? m->valid[to] : held;

    if (to == from)
        return;
    while (same > 0 && mine[same - 1] != its[same - 1])
        same--;
    rows = (size_t)(held - same);
    put = (size_t)same;
    for (size_t n = 0; n < m->layers; n++) {
        const attn__layer_memory *l = &m->layer[n];
        for (size_t h = 0; h < (size_t)m->model->config.kv_heads; h++) {
            memcpy(slot_row(m, l->k, to, h, put, dk), slot_row(m, l->k, from, h, put, dk),
                   rows * dk * m->unit);
            memcpy(slot_row(m, l->v, to, h, put, dv), slot_row(m, l->v, from, h, put, dv),
                   rows * dv * m->unit);
        }
    }
    memcpy(mine + same, its + same, rows * sizeof *mine);
    m->valid[to] = held;
}

static void count_rows(attn__memory *m)
{
    size_t i = 0;

    for (size_t s = 0; s < m->sources; s++) {
        while (i < m->count && (size_t)m->source_of[i] == s)
            i++;
        m->rows_from[s + 1] = (int64_t)i;
    }
}

void attn__memory_move(attn__memory *m, const int32_t *parents, size_t count)
{
    size_t first = 0;

    memset(m->stays, 0, m->count * sizeof *m->stays);
    for (size_t s = 0; s < m->sources; s++) {
        size_t end = first;
        while (end < count && (size_t)m->source_of[parents[end]] == s)
            end++;
        give_slots(m, parents, first, end, (size_t)m->rows_from[s], (size_t)m->rows_from[s + 1]);
        first = end;
    }
    for (size_t i = 0; i < count; i++) {
        size_t p = (size_t)parents[i];

        m->next_source[i] = m->source_of[p];
        m->next_held[i] = m->held[p];
        if (m->next_slot[i] < 0)
            m->next_slot[i] = m->vacant[--m->vacant_count];
        m->next_from[i] = m->slot_of[p];
    }
    /* Slots of parents that have children are written by none. */
    attn__each(m->ctx, count, count * m->layers * row_width(m), copy_history, m);
    m->count = count;
    memcpy(m->slot_of, m->next_slot, count * sizeof *m->slot_of);
    memcpy(m->source_of, m->next_source, count * sizeof *m->source_of);
    memcpy(m->held, m->next_held, count * sizeof *m->held);
    count_rows(m);
}

/* --- Steps ---------------------------------------------------------------------------------- */

/* Row i of the step's bias: distances ends[i] - 1 .. 0. */
static void fill_bias(attn__memory *m)
{
    size_t heads = (size_t)m->model->config.heads;

    for (size_t i = 0; i < m->count; i++)
        for (size_t h = 0; h < heads; h++) {
            size_t n = (size_t)m->ends[i], from = (h + 1) * m->length - n;
            memcpy(row_at(m, m->bias, (i * heads + h) * m->longest, 1),
                   row_at(m, m->distances, from, 1), n * m->unit);
        }
}

attn_status attn__memory_prepare(attn__memory *m, attn_error *err)
{
    m->longest = 0;
    for (size_t i = 0; i < m->count; i++) {
        size_t n = (size_t)m->held[i] + 1;

        m->first[i] = m->slot_of[i] * m->model->config.kv_heads * (int64_t)m->length;
        m->ends[i] = (int64_t)n;
        m->longest = n > m->longest ? n : m->longest;
        for (size_t l = 0; l < m->layers; l++)
            TRY(attn_cache_assign(m->layer[l].cache, (int64_t)i, 0, (int64_t)n, err));
    }
    if (m->bias)
        fill_bias(m);
    return ATTN_OK;
}

void attn__memory_advance(attn__memory *m)
{
    for (size_t i = 0; i < m->count; i++) {
        m->held[i]++;
        number_rows(m, i, m->held[i] - 1);
    }
}
