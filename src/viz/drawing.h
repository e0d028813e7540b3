/* drawing.h: a checked figure, and the parts that figures of all kinds are put together from;
 * private to src/viz. */
#ifndef ATTN_VIZ_DRAWING_H
#define ATTN_VIZ_DRAWING_H

#include "src/viz/canvas.h"
#include "src/viz/label.h"
#include "src/viz/cells.h"

/* A figure that was checked, with its defaults filled in. */
typedef struct attn__drawing {
    const attn_ctx *ctx;
    attn_figure figure;
    attn__theme theme;
    attn__rgb table[ATTN__COLOURS];
} attn__drawing;

/* figure.c: checks and copies. The caller's arrays stay where they are. */
attn_status attn__drawing_make(const attn_ctx *ctx, const attn_figure *figure, int dark,
                               attn__drawing *d, attn_error *err);
attn_panel attn__panel_at(const attn_figure *figure, size_t i);

/* The kinds; each draws a whole picture, from begin to the last line of text. */
attn_status attn__draw(const attn__drawing *d, attn__canvas *c, attn_error *err);
attn_status attn__draw_map(const attn__drawing *d, attn__canvas *c, attn_error *err);
attn_status attn__draw_grid(const attn__drawing *d, attn__canvas *c, attn_error *err);
attn_status attn__draw_lines(const attn__drawing *d, attn__canvas *c, attn_error *err);
attn_status attn__draw_curves(const attn__drawing *d, attn__canvas *c, attn_error *err);
attn_status attn__draw_overlay(const attn__drawing *d, attn__canvas *c, attn_error *err);

/* html.c, terminal.c */
attn_status attn__html(const attn__drawing *d, attn__out *out, attn_error *err);
attn_status attn__terminal(const attn__drawing *d, attn_picture form, attn__out *out,
                           attn_error *err);

/* --- Words ------------------------------------------------------------------------------------ */

enum { ATTN__TITLE_COLUMNS = 200, ATTN__TOKEN_COLUMNS = 18 };

/* The title, or what a picture without one is called. */
void attn__title(const attn__drawing *d, attn__out *out);

/* Notes of the caller, then what the picture does to the numbers: scale, limits, pooling, what was
 * dropped or left out. `map` and `scale` may be NULL. Items are separated by " - ". */
void attn__facts(const attn__drawing *d, const attn__map *map, const attn__scale *scale,
                 attn__out *out);

/* "layer 3, head 1" or the panel's name. */
void attn__panel_name(const attn_panel *panel, attn__out *out);

/* The text of query i or key j: the token if there is one, else the number. `both`: both. */
void attn__token(const attn_label *tokens, int64_t count, int64_t first, int64_t i, size_t columns,
                 attn__label_form form, bool both, attn__out *out);

/* --- Axes ------------------------------------------------------------------------------------- */

/* Labels of the rows or columns of a map. */
typedef struct attn__axis {
    const attn_label *tokens; /* shown when each cell is one token */
    int64_t count, block, first;
    const char *title;
    double cell; /* pixels of one cell */
    size_t cells;
    int64_t step;  /* cells (tokens) or queries or keys (numbers) from label to label */
    double extent; /* of the longest label */
    double angle;  /* of labels below a map */
} attn__axis;

/* The axis of a map's rows (or columns) at this size of a cell. */
attn__axis attn__axis_plan(const attn__drawing *d, attn__canvas *c, const attn__map *map,
                           bool columns, double cell);

/* What the axis takes beside the map, its title included. */
double attn__axis_depth(const attn__axis *a, bool columns);

/* Draws at the left of x, or below y. */
void attn__axis_rows(const attn__drawing *d, attn__canvas *c, const attn__axis *a, double x,
                     double y);
void attn__axis_columns(const attn__drawing *d, attn__canvas *c, const attn__axis *a, double x,
                        double y);

/* A round step of at least `least`: 1, 2 or 5 times a power of ten. */
double attn__nice_step(double least);

/* --- Parts ------------------------------------------------------------------------------------ */

enum { ATTN__MARGIN = 14, ATTN__SMALL = 11, ATTN__NORMAL = 12, ATTN__LARGE = 16 };

/* Text in lines of at most `width` pixels; returns its height. Only measures unless `draw`. */
double attn__paragraph(attn__canvas *c, const char *text, double x, double y, double width,
                       double size, attn__rgb colour, bool draw);

/* Title and facts over a picture `width` wide; the same height whether drawn or measured. */
double attn__heading(const attn__drawing *d, attn__canvas *c, const char *facts, double width,
                     bool draw);

/* Colour bar, its ticks and title, and the colours of cells that have no value, in `height` pixels
 * from (x, y) on; the width is the same whether drawn or measured. */
double attn__bar(const attn__drawing *d, attn__canvas *c, const attn__scale *scale,
                 const bool has[ATTN__CELL_KINDS], double x, double y, double height, bool draw);

/* Where a picture's size is not given, and where it is: room for the content. */
double attn__room(int64_t given, double around, double natural);

/* Begins a picture of at least the size given. */
void attn__begin(const attn__drawing *d, attn__canvas *c, const char *facts, double width,
                 double height);

/* The colour of cell i. */
attn__rgb attn__cell_colour(const attn__drawing *d, const attn__map *map, const attn__scale *scale,
                            size_t i);

/* All cells as pixels; NULL after a failure, else to be freed. */
uint8_t *attn__map_pixels(const attn__drawing *d, const attn__map *map, const attn__scale *scale,
                          uint8_t alpha);

/* A thin frame around a plot. */
void attn__frame(const attn__drawing *d, attn__canvas *c, double x, double y, double w, double h);

/* Ends a drawing function: the canvas's failure, or success. */
attn_status attn__drawn(const attn__canvas *c, attn_error *err);

#endif
