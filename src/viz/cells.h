/* cells.h: cells as a picture needs them: read from any type, renormalised, pooled to the pixels
 * that there are, and put on a scale; private to src/viz. */
#ifndef ATTN_VIZ_CELLS_H
#define ATTN_VIZ_CELLS_H

#include "include/attn/viz.h"

#include <stdbool.h>

enum {
    ATTN__CELL_VALUE,
    ATTN__CELL_MASKED,
    ATTN__CELL_DROPPED, /* by drop_keys */
    ATTN__CELL_ODD,     /* not finite */
    ATTN__CELL_KINDS
};

/* A panel with step_rows x step_cols of its cells to one. */
typedef struct attn__map {
    const attn_ctx *ctx;
    size_t rows, cols;
    size_t step_rows, step_cols;
    double *value; /* [rows][cols] */
    uint8_t *kind; /* [rows][cols] */
    bool has[ATTN__CELL_KINDS];
} attn__map;

/* Reads a panel of a checked figure, pooled by whole steps until it has no more than max_rows x
 * max_cols cells. attn__map_reset in any case. */
attn_status attn__map_make(const attn_ctx *ctx, const attn_figure *figure, const attn_panel *panel,
                           size_t max_rows, size_t max_cols, attn__map *map, attn_error *err);

/* The same by steps that are given. */
attn_status attn__map_pool(const attn_ctx *ctx, const attn_figure *figure, const attn_panel *panel,
                           size_t step_rows, size_t step_cols, attn__map *map, attn_error *err);
void attn__map_reset(attn__map *map);

/* One row of a view's elements as numbers; dimension 2 is rows. */
void attn__view_row(const attn_view *view, int64_t row, double *out);

/* The row of cells and their kinds, renormalised as the figure says; `value` and `kind` hold a row
 * each. Returns the factor by which values were multiplied (1 but with drop_keys). */
double attn__panel_row(const attn_figure *figure, const attn_panel *panel, int64_t row,
                       double *value, double *allowed, uint8_t *kind);

/* From values to 0 .. 1, and back. */
typedef struct attn__scale {
    const attn_ctx *ctx;
    attn_scale kind;
    bool signed_; /* diverging: 0.5 stands for 0 */
    double low, high;
    bool below, above; /* some values lie outside and take the colour of the end */
    bool empty;        /* no finite value at all */
    double *sorted;    /* PERCENTILE */
    size_t count;
} attn__scale;

/* The scale that the figure asks for, over all values of these maps. attn__scale_reset in any
 * case. */
attn_status attn__scale_make(const attn_ctx *ctx, const attn_figure *figure, const attn__map *maps,
                             size_t count, attn__scale *scale, attn_error *err);
void attn__scale_reset(attn__scale *scale);

double attn__scale_at(const attn__scale *scale, double value);
double attn__scale_value(const attn__scale *scale, double t);

#endif
