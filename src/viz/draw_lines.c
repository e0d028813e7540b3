/* draw_lines.c: queries at the left, keys at the right, and the edges that matter between them. */
#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/viz/drawing.h"
#include "src/viz/edges.h"

#include <math.h>
#include <string.h>

enum { ROW = 19, NATURAL_ROOM = 2400, SPAN = 320, EDGES_MOST = 20000 };

typedef struct layout {
    double row, top, left, right; /* edges run from left to right */
    int64_t rows;                 /* of the longer side */
} layout;

static double y_of(const layout *l, int64_t i)
{
    return l->top + ((double)i + 0.5) * l->row;
}

static void column_text(const attn__drawing *d, bool keys, int64_t i, bool both, attn__out *out)
{
    const attn_figure *f = &d->figure;

    attn__out_clear(out);
    if (keys)
        attn__token(f->key_tokens, f->keys, f->first_key, i, 24, ATTN__TOKEN, both, out);
    else
        attn__token(f->query_tokens, f->queries, f->first_query, i, 24, ATTN__TOKEN, both, out);
}

static const char *side_title(const attn__drawing *d, bool keys, attn__out *out)
{
    const char *title = keys ? d->figure.key_title : d->figure.query_title;

    attn__out_clear(out);
    attn__label_clean(out, title, strlen(title), 24, ATTN__PROSE);
    return attn__out_string(out);
}

/* Width of the longest label of a side, its title among them; or draws the labels. */
static double side(const attn__drawing *d, attn__canvas *c, const layout *l, bool keys, double x,
                   bool draw)
{
    int64_t count = keys ? d->figure.keys : d->figure.queries;
    int64_t step = (int64_t)ceil((ATTN__SMALL + 2) / l->row);
    attn__type type = {.size = ATTN__NORMAL, .anchor = keys ? -1 : 1, .colour = d->theme.ink};
    attn__out text = {.ctx = d->ctx};
    double most = draw ? 0 : c->measure(c, side_title(d, keys, &text), ATTN__NORMAL, true);

    for (int64_t i = 0; i < count; i += step) {
        const char *words;

        column_text(d, keys, i, step > 1, &text);
        words = attn__out_string(&text);
        if (draw)
            c->text(c, x, y_of(l, i), words, &type);
        else
            most = fmax(most, c->measure(c, words, ATTN__NORMAL, false));
    }
    attn__out_done(&text, c->out);
    return ceil(most);
}

static void edge_hint(const attn__drawing *d, const attn__edge *e, const char *panel,
                      attn__out *text, attn__out *part)
{
    attn__out_clear(text);
    attn__out_text(text, panel);
    attn__out_text(text, panel[0] ? ": " : "");
    column_text(d, false, e->query, true, part);
    attn__out_text(text, attn__out_string(part));
    attn__out_text(text, " \xe2\x86\x92 ");
    column_text(d, true, e->key, true, part);
    attn__out_text(text, attn__out_string(part));
    attn__out_text(text, ": ");
    attn__out_value(text, e->weight, 4);
}

/* Edges of a panel, thin and faint to thick and full; the heaviest last, on top. */
static void draw_edges(const attn__drawing *d, attn__canvas *c, const layout *l,
                       const attn__edges *edges, size_t panel)
{
    attn_panel p = attn__panel_at(&d->figure, panel);
    attn__pen pen = {.colour = d->theme.category[panel % ATTN__CATEGORIES],
                     .dashed = panel % ATTN__CATEGORIES >= ATTN__CATEGORIES / 2};
    attn__out name = {.ctx = d->ctx}, hint = {.ctx = d->ctx}, part = {.ctx = d->ctx};

    attn__panel_name(&p, &name);
    for (size_t i = edges->count; i-- > 0;) {
        const attn__edge *e = &edges->at[i];
        double t = edges->heaviest > 0 ? e->weight / edges->heaviest : 1;
        const double ends[2][2] = {{l->left, y_of(l, e->query)}, {l->right, y_of(l, e->key)}};

        pen.width = 0.6 + 2.9 * t;
        pen.alpha = 0.12 + 0.83 * t;
        edge_hint(d, e, attn__out_string(&name), &hint, &part);
        c->path(c, ends, 2, true, &pen, attn__out_string(&hint));
    }
    attn__out_done(&name, c->out);
    attn__out_done(&hint, c->out);
    attn__out_done(&part, c->out);
}

/* A line of its kind and the name, for each of several panels. Returns the height. */
static double legend(const attn__drawing *d, attn__canvas *c, double y, bool draw)
{
    attn__type type = {.size = ATTN__SMALL, .anchor = -1, .colour = d->theme.ink};
    size_t shown =
        d->figure.panel_count < ATTN__CATEGORIES ? d->figure.panel_count : ATTN__CATEGORIES;
    attn__out name = {.ctx = d->ctx};

    if (d->figure.panel_count < 2)
        return 0;
    for (size_t i = 0; draw && i < shown; i++) {
        attn_panel p = attn__panel_at(&d->figure, i);
        attn__pen pen = {d->theme.category[i], 1, 2.5, i >= ATTN__CATEGORIES / 2};
        double at = y + (double)i * 16 + 8;

        c->path(c, (const double[2][2]){{ATTN__MARGIN, at}, {ATTN__MARGIN + 24, at}}, 2, false,
                &pen, NULL);
        attn__out_clear(&name);
        attn__panel_name(&p, &name);
        c->text(c, ATTN__MARGIN + 32, at, attn__out_string(&name), &type);
    }
    attn__out_done(&name, c->out);
    return 16 * (double)shown + 8;
}

static void draw_sides(const attn__drawing *d, attn__canvas *c, const layout *l)
{
    attn__type type = {.size = ATTN__NORMAL, .anchor = 1, .bold = true, .colour = d->theme.faint};
    attn__out text = {.ctx = d->ctx};

    c->text(c, l->left - 8, l->top - 10, side_title(d, false, &text), &type);
    type.anchor = -1;
    c->text(c, l->right + 8, l->top - 10, side_title(d, true, &text), &type);
    attn__out_done(&text, c->out);
    side(d, c, l, false, l->left - 8, true);
    side(d, c, l, true, l->right + 8, true);
}

static void facts_of(const attn__drawing *d, const attn__edges *edges, attn__out *out)
{
    const attn__map exact = {.step_rows = 1, .step_cols = 1};
    size_t left_out = 0;

    attn__facts(d, &exact, NULL, out);
    if (out->size > 0)
        attn__out_text(out, " \xc2\xb7 ");
    attn__out_text(out, "lines hold ");
    attn__out_value(out, 100 * d->figure.share, 3);
    attn__out_text(out, " % of each row");
    for (size_t i = 0; i < d->figure.panel_count; i++)
        left_out += edges[i].left_out;
    if (left_out > 0) {
        attn__out_text(out, " \xc2\xb7 the lightest ");
        attn__out_int(out, (int64_t)left_out);
        attn__out_text(out, " of them left out");
    }
}

static void draw(const attn__drawing *d, attn__canvas *c, const attn__edges *edges)
{
    const attn_figure *f = &d->figure;
    layout l = {.rows = f->queries > f->keys ? f->queries : f->keys};
    double queries, keys, width, heading, names;
    attn__out facts = {.ctx = d->ctx};
    const char *words;

    facts_of(d, edges, &facts);
    words = attn__out_string(&facts);
    l.row = attn__room(f->height, 110, NATURAL_ROOM) / (double)l.rows;
    l.row = l.row > ROW && !f->height ? ROW : l.row > 40 ? 40 : l.row;
    queries = fmax(side(d, c, &l, false, 0, false), 40);
    keys = fmax(side(d, c, &l, true, 0, false), 40);
    l.left = ATTN__MARGIN + queries + 8;
    l.right =
        f->width ? fmax(l.left + 60, (double)f->width - ATTN__MARGIN - keys - 8) : l.left + SPAN;
    width = f->width ? (double)f->width : l.right + 8 + keys + ATTN__MARGIN;
    width = fmax(width, 320);
    heading = attn__heading(d, c, words, width, false);
    names = legend(d, c, 0, false);
    l.top = heading + names + 22;
    attn__begin(d, c, words, width, l.top + l.row * (double)l.rows + ATTN__MARGIN);
    attn__heading(d, c, words, width, true);
    legend(d, c, heading, true);
    for (size_t i = 0; i < f->panel_count; i++)
        draw_edges(d, c, &l, &edges[i], i);
    draw_sides(d, c, &l);
    attn__out_done(&facts, c->out);
}

attn_status attn__draw_lines(const attn__drawing *d, attn__canvas *c, attn_error *err)
{
    size_t n = d->figure.panel_count;
    attn__edges *edges = attn__new(d->ctx, n * sizeof *edges);
    attn_status st = ATTN_OK;

    if (!edges)
        return attn__fail(err, ATTN_E_MEMORY, 0, "edges");
    for (size_t i = 0; i < n && st == ATTN_OK; i++) {
        attn_panel p = attn__panel_at(&d->figure, i);

        st = attn__edges_make(d->ctx, &d->figure, &p, EDGES_MOST / n + 1, &edges[i], err);
    }
    if (st == ATTN_OK) {
        draw(d, c, edges);
        st = attn__drawn(c, err);
    }
    for (size_t i = 0; i < n; i++)
        attn__edges_reset(d->ctx, &edges[i]);
    attn__free(d->ctx, edges);
    return st;
}
