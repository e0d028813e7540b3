/* edges.c: picking the heaviest keys. */
#include "src/viz/edges.h"

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/viz/cells.h"

#include <stdlib.h>
#include <string.h>

size_t attn__top_of_row(const double *value, const uint8_t *kind, int64_t n, size_t k, int64_t *key,
                        double *weight)
{
    size_t count = 0;

    for (int64_t j = 0; j < n; j++) {
        size_t at;

        if (k == 0 || kind[j] != ATTN__CELL_VALUE || (count == k && value[j] <= weight[k - 1]))
            continue;
        /* Insertion from the light end; k is small. */
        at = count < k ? count++ : k - 1;
        for (; at > 0 && weight[at - 1] < value[j]; at--) {
            weight[at] = weight[at - 1];
            key[at] = key[at - 1];
        }
        weight[at] = value[j];
        key[at] = j;
    }
    return count;
}

/* Heaviest first. */
static int compare(const void *a, const void *b)
{
    attn__edge x, y;

    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    if (x.weight != y.weight)
        return x.weight > y.weight ? -1 : 1;
    if (x.query != y.query)
        return x.query < y.query ? -1 : 1;
    return (x.key > y.key) - (x.key < y.key);
}

/* Rows while they come by. `room` edges are held at most; when they are full, the lighter half
 * goes. */
typedef struct gatherer {
    attn__edges *edges;
    size_t most, room;
    attn__edge *row;
} gatherer;

static void shrink(gatherer *g)
{
    attn__edges *e = g->edges;

    qsort(e->at, e->count, sizeof *e->at, compare);
    if (e->count > g->most) {
        e->left_out += e->count - g->most;
        e->count = g->most;
    }
}

/* Takes the share of a row's n edges; they are sorted here. */
static void take_row(gatherer *g, size_t n, double share)
{
    double total = 0, held = 0;

    qsort(g->row, n, sizeof *g->row, compare);
    for (size_t i = 0; i < n; i++)
        total += g->row[i].weight;
    for (size_t i = 0; i < n && held < share * total * (1 - 1e-12); i++) {
        if (g->edges->count == g->room)
            shrink(g);
        g->edges->at[g->edges->count++] = g->row[i];
        held += g->row[i].weight;
    }
}

static size_t row_of_cells(const attn_figure *f, const attn_panel *p, int64_t i, gatherer *g,
                           double *value, double *allowed, uint8_t *kind)
{
    size_t n = 0;

    attn__panel_row(f, p, i, value, allowed, kind);
    for (int64_t j = 0; j < p->cells.size[3]; j++)
        if (kind[j] == ATTN__CELL_VALUE && value[j] > 0)
            g->row[n++] = (attn__edge){i, j, value[j]};
    return n;
}

static size_t row_of_tops(const attn_figure *f, const attn_panel *p, int64_t i, gatherer *g,
                          double *key, double *weight)
{
    size_t n = 0;

    attn__view_row(&p->top_keys, i, key);
    attn__view_row(&p->top_weights, i, weight);
    for (int64_t j = 0; j < p->top_keys.size[3]; j++)
        if (key[j] >= 0 && key[j] < (double)f->keys && weight[j] > 0)
            g->row[n++] = (attn__edge){i, (int64_t)key[j], weight[j]};
    return n;
}

attn_status attn__edges_make(const attn_ctx *ctx, const attn_figure *figure,
                             const attn_panel *panel, size_t most, attn__edges *edges,
                             attn_error *err)
{
    bool single = figure->query_block * figure->key_block == 1;
    size_t n = (size_t)(single ? panel->cells.size[3] : panel->top_keys.size[3]), bytes;
    gatherer g = {.edges = edges, .most = most, .room = 2 * most};
    double *value = NULL, *allowed = NULL;
    uint8_t *kind = NULL;
    attn_status st = ATTN_OK;

    memset(edges, 0, sizeof *edges);
    if (!single && n == 0)
        return attn__fail(err, ATTN_E_ARGUMENT, 0,
                          "lines need single weights or the heaviest keys of each query");
    if (attn__mul(n, sizeof *g.row, &bytes)) {
        g.row = attn__alloc(ctx, bytes);
        value = attn__alloc(ctx, n * sizeof *value);
        allowed = attn__alloc(ctx, n * sizeof *allowed);
        kind = attn__alloc(ctx, n);
    }
    edges->at = attn__alloc(ctx, g.room * sizeof *edges->at);
    if (!g.row || !value || !allowed || !kind || !edges->at) {
        st = attn__fail(err, ATTN_E_MEMORY, 0, "edges");
        goto out;
    }
    for (int64_t i = 0; i < figure->queries; i++)
        take_row(&g,
                 single ? row_of_cells(figure, panel, i, &g, value, allowed, kind)
                        : row_of_tops(figure, panel, i, &g, value, allowed),
                 figure->share);
    shrink(&g);
    edges->heaviest = edges->count > 0 ? edges->at[0].weight : 0;
out:
    attn__free(ctx, g.row);
    attn__free(ctx, value);
    attn__free(ctx, allowed);
    attn__free(ctx, kind);
    return st;
}

void attn__edges_reset(const attn_ctx *ctx, attn__edges *edges)
{
    attn__free(ctx, edges->at);
    edges->at = NULL;
}
