/* draw_map.c: one panel as a heat map. */
#include "src/base/mem.h"
#include "src/viz/drawing.h"

#include <math.h>
#include <string.h>

/* Pixels of a map whose size nobody gave, and of a cell at most. */
enum { NATURAL = 720, CELL_MOST = 34, LEAST_BAR = 150 };
/* Cells that SVG holds one by one, and those that are told by a hint each. */
enum { RECTS_MOST = 4096, HINTS_MOST = 1600 };

/* Where everything is. */
typedef struct layout {
    double top, left, plot_w, plot_h, cell_w, cell_h, bar;
    attn__axis rows, columns;
} layout;

/* Whole pixels a cell, so that no cell is wider than its neighbour; but where the size of the
 * picture is given, the room is used. */
static double cell_size(double room, size_t cells, double most, bool given)
{
    double size = room / (double)cells;

    size = given ? size : floor(size);
    return size < 1 && !given ? 1 : size > most ? most : size;
}

/* Lays out the plot for this much room. */
static void place(const attn__drawing *d, attn__canvas *c, const attn__map *map, layout *l,
                  double room_w, double room_h)
{
    bool given = d->figure.width || d->figure.height;
    double most = given ? 200 : CELL_MOST;

    l->cell_w = cell_size(room_w, map->cols, most, given);
    l->cell_h = cell_size(room_h, map->rows, most, given);
    /* Square where that costs little room; a single row stays visible. */
    if (l->cell_w * 4 >= l->cell_h && l->cell_h * 4 >= l->cell_w)
        l->cell_w = l->cell_h = fmin(l->cell_w, l->cell_h);
    l->rows = attn__axis_plan(d, c, map, false, l->cell_h);
    l->columns = attn__axis_plan(d, c, map, true, l->cell_w);
    l->plot_w = l->cell_w * (double)map->cols;
    l->plot_h = l->cell_h * (double)map->rows;
    l->left = ATTN__MARGIN + attn__axis_depth(&l->rows, false);
}

/* --- Cells ------------------------------------------------------------------------------------ */

static void hint_of(const attn__drawing *d, const attn__map *map, size_t i, size_t j,
                    attn__out *out)
{
    const attn_figure *f = &d->figure;
    size_t at = i * map->cols + j;

    attn__out_clear(out);
    attn__label_clean(out, f->query_title, strlen(f->query_title), 20, ATTN__PROSE);
    attn__out_char(out, ' ');
    attn__token(f->query_tokens, f->queries, f->first_query, (int64_t)i, 40, ATTN__TOKEN, true,
                out);
    attn__out_text(out, ", ");
    attn__label_clean(out, f->key_title, strlen(f->key_title), 20, ATTN__PROSE);
    attn__out_char(out, ' ');
    attn__token(f->key_tokens, f->keys, f->first_key, (int64_t)j, 40, ATTN__TOKEN, true, out);
    attn__out_text(out, ": ");
    if (map->kind[at] == ATTN__CELL_MASKED)
        attn__out_text(out, "masked");
    else if (map->kind[at] == ATTN__CELL_DROPPED)
        attn__out_text(out, "dropped");
    else
        attn__out_value(out, map->value[at], 7);
}

/* Numbers in the cells, where they are large enough to be read. */
static void draw_values(const attn__drawing *d, attn__canvas *c, const attn__map *map,
                        const attn__scale *scale, const layout *l)
{
    const attn__rgb black = {0, 0, 0}, white = {255, 255, 255};
    attn__type type = {.size = 10};
    attn__out text = {.ctx = d->ctx};

    for (size_t i = 0; i < map->rows * map->cols; i++) {
        double x = l->left + ((double)(i % map->cols) + 0.5) * l->cell_w;
        double y = l->top + ((double)(i / map->cols) + 0.5) * l->cell_h;
        double v = map->value[i];

        if (map->kind[i] != ATTN__CELL_VALUE)
            continue;
        attn__out_clear(&text);
        if (fabs(v) < 0.005) /* a field of 0.00 would hide the others */
            continue;
        if (fabs(v) < 9.995)
            attn__out_fixed(&text, v, 2);
        else
            attn__out_value(&text, v, 3);
        type.colour = attn__lightness(attn__cell_colour(d, map, scale, i)) > 0.62 ? black : white;
        if (c->measure(c, attn__out_string(&text), type.size, false) <= l->cell_w - 2)
            c->text(c, x, y, attn__out_string(&text), &type);
    }
    attn__out_done(&text, c->out);
}

static void draw_cells(const attn__drawing *d, attn__canvas *c, const attn__map *map,
                       const attn__scale *scale, const layout *l)
{
    size_t n = map->rows * map->cols;
    bool hints = n <= HINTS_MOST && d->figure.key_block * d->figure.query_block == 1 &&
                 map->step_rows * map->step_cols == 1;
    attn__out hint = {.ctx = d->ctx};

    if (n > RECTS_MOST) {
        uint8_t *pixels = attn__map_pixels(d, map, scale, 255);

        if (pixels)
            c->image(c, l->left, l->top, l->plot_w, l->plot_h, pixels, map->cols, map->rows, false,
                     NULL);
        else
            c->out->failed = true;
        attn__free(d->ctx, pixels);
        return;
    }
    for (size_t i = 0; i < map->rows; i++)
        for (size_t j = 0; j < map->cols; j++) {
            if (hints)
                hint_of(d, map, i, j, &hint);
            c->rect(c, l->left + (double)j * l->cell_w, l->top + (double)i * l->cell_h, l->cell_w,
                    l->cell_h, attn__cell_colour(d, map, scale, i * map->cols + j), 1,
                    hints ? attn__out_string(&hint) : NULL);
        }
    attn__out_done(&hint, c->out);
    if (l->cell_w >= 30 && l->cell_h >= 16)
        draw_values(d, c, map, scale, l);
}

/* --- The figure ------------------------------------------------------------------------------- */

static void draw(const attn__drawing *d, attn__canvas *c, const attn__map *map,
                 const attn__scale *scale, const char *facts, double room_w, double room_h)
{
    double width, height, bar_h, below;
    layout l;

    /* Labels depend on the size of cells and take room from them: a second time with what the first
     * one found. */
    for (int pass = 0; pass < 2; pass++) {
        place(d, c, map, &l, room_w, room_h);
        bar_h = fmax(l.plot_h, LEAST_BAR);
        l.bar = attn__bar(d, c, scale, map->has, 0, 0, bar_h, false);
        width = fmax(l.left + l.plot_w + l.bar + ATTN__MARGIN, 320);
        width = d->figure.width ? (double)d->figure.width : width;
        l.top = attn__heading(d, c, facts, width, false);
        below = attn__axis_depth(&l.columns, true) + ATTN__MARGIN;
        room_w = attn__room(d->figure.width, l.left + l.bar + ATTN__MARGIN, NATURAL);
        room_h = attn__room(d->figure.height, l.top + below, NATURAL);
    }
    height = l.top + fmax(l.plot_h + below, bar_h + ATTN__MARGIN);
    attn__begin(d, c, facts, width, height);
    attn__heading(d, c, facts, width, true);
    draw_cells(d, c, map, scale, &l);
    attn__frame(d, c, l.left, l.top, l.plot_w, l.plot_h);
    attn__axis_rows(d, c, &l.rows, l.left, l.top);
    attn__axis_columns(d, c, &l.columns, l.left, l.top + l.plot_h);
    attn__bar(d, c, scale, map->has, l.left + l.plot_w, l.top, bar_h, true);
}

attn_status attn__draw_map(const attn__drawing *d, attn__canvas *c, attn_error *err)
{
    attn_panel panel = attn__panel_at(&d->figure, 0);
    attn__out facts = {.ctx = d->ctx};
    attn__scale scale = {.ctx = d->ctx};
    attn__map map = {.ctx = d->ctx};
    double room_w, room_h;
    attn_status st;

    /* About what surrounds the plot. Labels take the rest of what is given; see place(). */
    room_w = attn__room(d->figure.width, d->figure.query_tokens ? 290 : 220, NATURAL);
    room_h = attn__room(d->figure.height, d->figure.key_tokens ? 200 : 130, NATURAL);
    st = attn__map_make(d->ctx, &d->figure, &panel, (size_t)room_h, (size_t)room_w, &map, err);
    if (st == ATTN_OK)
        st = attn__scale_make(d->ctx, &d->figure, &map, 1, &scale, err);
    if (st == ATTN_OK) {
        attn__facts(d, &map, &scale, &facts);
        draw(d, c, &map, &scale, attn__out_string(&facts), room_w, room_h);
        st = attn__drawn(c, err);
    }
    attn__out_done(&facts, c->out);
    attn__scale_reset(&scale);
    attn__map_reset(&map);
    return st;
}
