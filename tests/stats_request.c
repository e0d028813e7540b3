/* stats_request.c: see stats_request.h. */
#include "tests/stats_request.h"
#include "tests/ref.h"

#include <stddef.h>
#include <string.h>

enum shape { ROW, CLASSES, TOP, CHOSEN, KEY, BUCKET, MAP, CELL };

/* Outputs, their shapes; whether they hold integers, whether any floating type will do. */
static const struct {
    size_t at;
    enum shape shape;
    int index, any;
} outputs[STATS_VIEWS] = {
    {offsetof(attn_stats, entropy), ROW, 0, 0},
    {offsetof(attn_stats, peak), ROW, 0, 0},
    {offsetof(attn_stats, peak_key), ROW, 1, 0},
    {offsetof(attn_stats, distance), ROW, 0, 0},
    {offsetof(attn_stats, first_mass), ROW, 0, 0},
    {offsetof(attn_stats, previous_mass), ROW, 0, 0},
    {offsetof(attn_stats, class_mass), CLASSES, 0, 0},
    {offsetof(attn_stats, top_weight), TOP, 0, 0},
    {offsetof(attn_stats, top_key), TOP, 1, 0},
    {offsetof(attn_stats, row_weights), CHOSEN, 0, 1},
    {offsetof(attn_stats, key_mass), KEY, 0, 0},
    {offsetof(attn_stats, distance_mass), BUCKET, 0, 0},
    {offsetof(attn_stats, map_sum), MAP, 0, 0},
    {offsetof(attn_stats, map_mean), MAP, 0, 0},
    {offsetof(attn_stats, map_max), MAP, 0, 0},
    {offsetof(attn_stats, map_count), MAP, 1, 0},
    {offsetof(attn_stats, raw_logits), CELL, 0, 1},
    {offsetof(attn_stats, capped_logits), CELL, 0, 1},
    {offsetof(attn_stats, logits), CELL, 0, 1},
};

attn_view *stats_view(attn_stats *s, int i)
{
    return (attn_view *)(void *)((char *)s + outputs[i].at);
}

static attn_type draw_type(rng *r, int i)
{
    static const attn_type types[] = {ATTN_F32, ATTN_F64, ATTN_F16, ATTN_BF16};

    if (outputs[i].index)
        return rng_chance(r, 50) ? ATTN_I32 : ATTN_I64;
    return types[rng_int(r, 0, outputs[i].any ? 3 : 1)];
}

/* Distances around 0, some buckets wide and some of one distance. */
static void draw_lists(stats_request *q, rng *r, int64_t tq, int64_t tk)
{
    int64_t edge = rng_int(r, -tq - 2, 2), row = rng_int(r, 0, 2);

    for (int i = 0; i < 12; i++) {
        q->edges[i] = edge;
        edge += rng_chance(r, 40) ? 1 : rng_int(r, 1, 1 + tk / 3);
    }
    if (rng_chance(r, 10))
        q->edges[0] = INT64_MIN;
    for (q->ask.row_count = 0; q->ask.row_count < 8 && row < tq; q->ask.row_count++) {
        q->rows[q->ask.row_count] = row;
        row += rng_int(r, 1, 1 + tq / 4);
    }
}

static void draw_inputs(stats_request *q, arena *a, rng *r, int64_t b, int64_t h, int64_t tq,
                        int64_t tk)
{
    int64_t one_b = rng_chance(r, 50) ? 1 : b, one_h = rng_chance(r, 50) ? 1 : h;
    attn_view *v = &q->ask.key_class;

    *v = view_plain(a, ATTN_U8, one_b, one_h, 1, tk);
    for (int64_t i = 0; i < view_count(v); i++)
        ((unsigned char *)v->data)[i] = (unsigned char)rng_int(r, 0, 6);
    if (rng_chance(r, 50)) {
        v = &q->ask.query_weight;
        *v = view_plain(a, rng_chance(r, 50) ? ATTN_F32 : ATTN_F64, rng_chance(r, 50) ? 1 : b,
                        rng_chance(r, 50) ? 1 : h, rng_chance(r, 20) ? 1 : tq, 1);
        view_uniform(v, r, -1, 2);
    }
}

static void draw_view(stats_request *q, arena *a, rng *r, const int64_t size[4], int i, int layouts)
{
    attn_view *v = stats_view(&q->ask, i);
    attn_type type = draw_type(r, i);

    if (layouts && !outputs[i].index)
        *v = view_new(a, r, type, size[0], size[1], size[2], size[3],
                      (layout)rng_int(r, 0, LAYOUT_COUNT - 1));
    else
        *v = view_plain(a, type, size[0], size[1], size[2], size[3]);
}

void stats_draw(stats_request *q, arena *a, rng *r, const attn_forward_args *args,
                int64_t sequences, int64_t tq, int64_t tk, int percent, int layouts)
{
    int64_t b = args->q.size[0], h = args->q.size[1], n = args->q.size[2], s = sequences;
    int64_t heads = rng_int(r, h > 0, h), top = rng_int(r, 1, rng_chance(r, 20) ? 64 : 9);
    int64_t side = rng_int(r, 1, rng_chance(r, 30) ? tq + 2 : 5);
    const int64_t size[][4] = {
        [ROW] = {b, h, n, 1},
        [CLASSES] = {b, h, n, rng_int(r, 1, 5)},
        [TOP] = {b, h, n, top},
        [CHOSEN] = {s, h, 0, tk},
        [KEY] = {s, h, 1, tk},
        [BUCKET] = {s, h, 1, rng_int(r, 1, 11)},
        [MAP] = {s, h, side, rng_int(r, 1, rng_chance(r, 30) ? tk + 2 : 6)},
        [CELL] = {s, heads, tq, tk},
    };
    int always = (int)rng_int(r, 0, STATS_VIEWS - 1);

    memset(q, 0, sizeof *q);
    q->ask.struct_size = sizeof q->ask;
    q->ask.rows = q->rows;
    q->ask.distance_edges = q->edges;
    q->ask.logits_head = rng_int(r, 0, h - heads);
    if (rng_chance(r, 40)) {
        q->ask.map_query_block = rng_int(r, 1, 1 + tq / 3);
        q->ask.map_first_query = rng_int(r, 0, rng_chance(r, 50) ? 0 : tq);
    }
    if (rng_chance(r, 40)) {
        q->ask.map_key_block = rng_int(r, 1, 1 + tk / 3);
        q->ask.map_first_key = rng_int(r, 0, rng_chance(r, 50) ? 0 : tk);
    }
    draw_lists(q, r, tq, tk);
    draw_inputs(q, a, r, s, h, tq, tk);
    for (int i = 0; i < STATS_VIEWS; i++) {
        int64_t now[4];

        memcpy(now, size[outputs[i].shape], sizeof now);
        if (outputs[i].shape == CHOSEN)
            now[2] = q->ask.row_count;
        if (i == always || rng_chance(r, percent))
            draw_view(q, a, r, now, i, layouts);
        if (outputs[i].at == offsetof(attn_stats, map_count) && q->ask.map_mean.data &&
            !q->ask.map_count.data)
            draw_view(q, a, r, now, i, 0);
    }
    if (!q->ask.class_mass.data)
        memset(&q->ask.key_class, 0, sizeof q->ask.key_class);
}

void stats_again(stats_request *to, const stats_request *from, arena *a)
{
    *to = *from;
    to->ask.rows = to->rows;
    to->ask.distance_edges = to->edges;
    for (int i = 0; i < STATS_VIEWS; i++) {
        attn_view *v = stats_view(&to->ask, i);

        if (v->data)
            *v = view_plain(a, v->type, v->size[0], v->size[1], v->size[2], v->size[3]);
    }
}

/* Every element of a view. */
static void each(const attn_view *v, void (*visit)(void *element, size_t size, void *arg),
                 void *arg)
{
    for (int64_t b = 0; b < v->size[0]; b++)
        for (int64_t h = 0; h < v->size[1]; h++)
            for (int64_t i = 0; i < v->size[2]; i++)
                for (int64_t j = 0; j < v->size[3]; j++)
                    visit(ref_at(v, b, h, i, j), attn_type_size(v->type), arg);
}

static void spoil(void *element, size_t size, void *arg)
{
    (void)arg;
    memset(element, 0xAA, size);
}

void stats_spoil(stats_request *q)
{
    for (int i = 0; i < STATS_VIEWS; i++)
        if (stats_view(&q->ask, i)->data)
            each(stats_view(&q->ask, i), spoil, NULL);
}

int stats_same(stats_request *a, stats_request *b, int *which)
{
    for (int i = 0; i < STATS_VIEWS; i++) {
        *which = i;
        if (stats_view(&a->ask, i)->data &&
            !view_same_bits(stats_view(&a->ask, i), stats_view(&b->ask, i)))
            return 0;
    }
    return 1;
}
