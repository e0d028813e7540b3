/* draw_grid.c: all heads of a model at once, as thumbnails. */
#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/viz/drawing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NATURAL = 1000, THUMB_MOST = 128, THUMB_LEAST = 12, SPACE = 4, LABEL = 18, TITLE = 20 };

/* The different layers (or heads) of the panels, ascending. */
typedef struct numbers {
    int64_t *at;
    size_t count;
} numbers;

static int compare(const void *a, const void *b)
{
    int64_t x, y;

    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return (x > y) - (x < y);
}

static bool collect(const attn__drawing *d, bool heads, numbers *n)
{
    size_t all = d->figure.panel_count;

    n->count = 0;
    n->at = attn__alloc(d->ctx, all * sizeof *n->at);
    if (!n->at)
        return false;
    for (size_t i = 0; i < all; i++) {
        attn_panel p = attn__panel_at(&d->figure, i);

        n->at[i] = heads ? p.head : p.layer;
    }
    qsort(n->at, all, sizeof *n->at, compare);
    for (size_t i = 0; i < all; i++)
        if (n->count == 0 || n->at[n->count - 1] != n->at[i])
            n->at[n->count++] = n->at[i];
    return true;
}

static size_t find(const numbers *n, int64_t value)
{
    size_t i = 0;

    while (n->at[i] != value)
        i++;
    return i;
}

/* The grid, its maps and scales. */
typedef struct grid {
    const attn__drawing *d;
    numbers layers, heads;
    attn__map *maps;
    attn__scale *scales; /* one a panel if each has its own limits, else one */
    double thumb_w, thumb_h, left, top;
    bool has[ATTN__CELL_KINDS];
} grid;

static void size_thumbs(grid *g)
{
    const attn_figure *f = &g->d->figure;
    attn_panel p = attn__panel_at(f, 0);
    double shape = (double)p.cells.size[2] / (double)p.cells.size[3];
    double room = attn__room(f->width, 200, NATURAL) / (double)g->heads.count - SPACE;
    double most =
        f->height ? attn__room(f->height, 130, 0) / (double)g->layers.count - SPACE : THUMB_MOST;

    shape = shape < 0.5 ? 0.5 : shape > 2 ? 2 : shape;
    g->thumb_w = floor(fmin(fmin(room, THUMB_MOST), most / shape));
    g->thumb_w = fmax(g->thumb_w, THUMB_LEAST);
    g->thumb_h = floor(g->thumb_w * shape);
}

static attn_status make_maps(grid *g, attn_error *err)
{
    const attn__drawing *d = g->d;
    size_t n = d->figure.panel_count;
    attn_status st = ATTN_OK;

    if (!collect(d, false, &g->layers) || !collect(d, true, &g->heads))
        return attn__fail(err, ATTN_E_MEMORY, 0, "grid");
    size_thumbs(g);
    g->maps = attn__new(d->ctx, n * sizeof *g->maps);
    g->scales = attn__new(d->ctx, n * sizeof *g->scales);
    if (!g->maps || !g->scales)
        return attn__fail(err, ATTN_E_MEMORY, 0, "grid of %zu panels", n);
    for (size_t i = 0; i < n && st == ATTN_OK; i++) {
        attn_panel p = attn__panel_at(&d->figure, i);

        st = attn__map_make(d->ctx, &d->figure, &p, (size_t)g->thumb_h, (size_t)g->thumb_w,
                            &g->maps[i], err);
        for (int k = 0; k < ATTN__CELL_KINDS; k++)
            g->has[k] = g->has[k] || g->maps[i].has[k];
        if (st == ATTN_OK && d->figure.panel_limits)
            st = attn__scale_make(d->ctx, &d->figure, &g->maps[i], 1, &g->scales[i], err);
    }
    if (st == ATTN_OK && !d->figure.panel_limits)
        st = attn__scale_make(d->ctx, &d->figure, g->maps, n, &g->scales[0], err);
    return st;
}

static void close_grid(grid *g)
{
    for (size_t i = 0; i < g->d->figure.panel_count; i++) {
        if (g->maps)
            attn__map_reset(&g->maps[i]);
        if (g->scales)
            attn__scale_reset(&g->scales[i]);
    }
    attn__free(g->d->ctx, g->maps);
    attn__free(g->d->ctx, g->scales);
    attn__free(g->d->ctx, g->layers.at);
    attn__free(g->d->ctx, g->heads.at);
}

/* --- Drawing ---------------------------------------------------------------------------------- */

static void draw_labels(const grid *g, attn__canvas *c, double width, double height)
{
    attn__type type = {.size = ATTN__SMALL, .colour = g->d->theme.ink};
    attn__type title = {.size = ATTN__NORMAL, .colour = g->d->theme.faint};
    size_t every = (size_t)ceil(24 / (g->thumb_w + SPACE));
    attn__out text = {.ctx = c->ctx};

    c->text(c, g->left + width / 2, g->top - LABEL - 8, "head", &title);
    title.angle = 90;
    c->text(c, g->left - LABEL - 20, g->top + height / 2, "layer", &title);
    for (size_t i = 0; i < g->heads.count; i += every) {
        attn__out_clear(&text);
        attn__out_int(&text, g->heads.at[i]);
        c->text(c, g->left + (double)i * (g->thumb_w + SPACE) + g->thumb_w / 2, g->top - 9,
                attn__out_string(&text), &type);
    }
    type.anchor = 1;
    for (size_t i = 0; i < g->layers.count; i++) {
        attn__out_clear(&text);
        attn__out_int(&text, g->layers.at[i]);
        c->text(c, g->left - 7, g->top + (double)i * (g->thumb_h + SPACE) + g->thumb_h / 2,
                attn__out_string(&text), &type);
    }
    attn__out_done(&text, c->out);
}

static void draw_thumbs(const grid *g, attn__canvas *c)
{
    const attn__drawing *d = g->d;
    attn__out name = {.ctx = c->ctx};

    for (size_t i = 0; i < d->figure.panel_count; i++) {
        attn_panel p = attn__panel_at(&d->figure, i);
        double x = g->left + (double)find(&g->heads, p.head) * (g->thumb_w + SPACE);
        double y = g->top + (double)find(&g->layers, p.layer) * (g->thumb_h + SPACE);
        const attn__scale *scale = &g->scales[d->figure.panel_limits ? i : 0];
        uint8_t *pixels = attn__map_pixels(d, &g->maps[i], scale, 255);

        attn__out_clear(&name);
        attn__panel_name(&p, &name);
        if (pixels)
            c->image(c, x, y, g->thumb_w, g->thumb_h, pixels, g->maps[i].cols, g->maps[i].rows,
                     false, attn__out_string(&name));
        else
            c->out->failed = true;
        attn__free(d->ctx, pixels);
    }
    attn__out_done(&name, c->out);
}

static void draw_grid(grid *g, attn__canvas *c, const char *facts)
{
    const attn__drawing *d = g->d;
    double plot_w = (double)g->heads.count * (g->thumb_w + SPACE) - SPACE;
    double plot_h = (double)g->layers.count * (g->thumb_h + SPACE) - SPACE, bar, width, height;
    double bar_h = fmax(plot_h, 150);

    /* With limits of their own the colours of two thumbnails say different things: no bar. */
    bar = d->figure.panel_limits ? ATTN__MARGIN
                                 : attn__bar(d, c, &g->scales[0], g->has, 0, 0, bar_h, false);
    g->left = ATTN__MARGIN + TITLE + LABEL + 4;
    width = fmax(g->left + plot_w + bar + ATTN__MARGIN, 320);
    width = d->figure.width ? (double)d->figure.width : width;
    g->top = attn__heading(d, c, facts, width, false) + TITLE + LABEL;
    height = g->top + fmax(plot_h, d->figure.panel_limits ? 0 : bar_h) + ATTN__MARGIN;
    attn__begin(d, c, facts, width, height);
    attn__heading(d, c, facts, width, true);
    draw_thumbs(g, c);
    draw_labels(g, c, plot_w, plot_h);
    if (!d->figure.panel_limits)
        attn__bar(d, c, &g->scales[0], g->has, g->left + plot_w, g->top, bar_h, true);
}

attn_status attn__draw_grid(const attn__drawing *d, attn__canvas *c, attn_error *err)
{
    attn__out facts = {.ctx = d->ctx};
    grid g = {.d = d};
    attn_status st = make_maps(&g, err);

    if (st == ATTN_OK) {
        attn__facts(d, &g.maps[0], d->figure.panel_limits ? NULL : &g.scales[0], &facts);
        if (d->figure.panel_limits)
            attn__out_text(&facts, facts.size > 0 ? " \xc2\xb7 colours span each head's own range"
                                                  : "colours span each head's own range");
        draw_grid(&g, c, attn__out_string(&facts));
        st = attn__drawn(c, err);
    }
    attn__out_done(&facts, c->out);
    close_grid(&g);
    return st;
}
