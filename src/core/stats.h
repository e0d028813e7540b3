/* stats.h: attn_stats: what is checked before, and the second sweep over the scores.
 *
 * The first sweep (engine_real.h) gathers entropy and peak and leaves the reference and the factor
 * of every row. With these the second sweep computes any weight again. Its items are ranges of
 * query rows, cut by the length of the sequence alone, each over all its keys in ascending order:
 *
 *     for each item (sequence, query head, chunk of rows):
 *         for each block of rows:  for each tile:  for each group of 6 rows:
 *             scores -> largest -> weights -> sums of rows, of keys, of map cells
 *             rows of the block written
 *         sums of keys added to the output when all chunks before have added theirs
 *
 * A sum over rows is one chain in double over the ascending rows of a chunk, then one addition a
 * chunk in the output's own type: neither threads nor what else is asked for change its bits. */
#ifndef ATTN_CORE_STATS_H
#define ATTN_CORE_STATS_H

#include "src/core/layout.h"
#include "src/core/schedule.h"

enum {
    attn__stats_rows = 504,  /* rows of a block, at most; a multiple of the group */
    attn__stats_chunks = 64, /* of a head, at most */
    attn__most_top = 64,
    attn__most_classes = 255
};

typedef struct attn__stats {
    const attn__problem *problem;
    const attn__layout *layout;
    void *max, *factor;  /* [rows] of the first sweep, REAL, see attn__row_index */
    atomic_size_t *turn; /* [sequences][heads]: chunks that have added their sums */
    char *scratch;       /* layout->stats_scratch bytes for each worker */
    attn__schedule schedule;
} attn__stats;

/* Query rows i0 .. i1-1 of `heads` query heads from `head` on. */
typedef struct attn__stats_item {
    size_t sequence, head, heads;
    size_t chunk;
    int64_t i0, i1;
} attn__stats_item;

/* Checks p->stats and completes p's flags. */
attn_status attn__check_stats(attn__problem *p, attn_error *err);

/* Whether a statistic has memory in common with one of these views or with another statistic. */
attn_status attn__check_stats_overlap(const attn__problem *p, const attn_view *const *output,
                                      const char *const *output_name, size_t outputs,
                                      const attn_view *const *input, const char *const *input_name,
                                      size_t inputs, attn_error *err);

/* Work items of the second sweep of query head `head` (of all sequences' heads). */
size_t attn__stats_items(const void *stats, size_t head);
attn__stats_item attn__stats_find(const attn__problem *p, const attn__item *item);

/* One side of a map: into which of `cells` numbers from 0 to all - 1 fall. */
typedef struct attn__map_side {
    int64_t cells, all;
    int64_t first, block; /* block 0: all of them in `cells` parts */
} attn__map_side;

/* Columns from .. to-1 of a tile, which fall into one cell. */
typedef struct attn__map_span {
    int from, to;
    int64_t cell;
} attn__map_span;

/* The cell of a number; -1: none. */
static inline int64_t attn__map_cell(const attn__map_side *side, int64_t number)
{
    int64_t cell;

    if (side->block == 0)
        return number * side->cells / side->all;
    if (number < side->first)
        return -1;
    cell = (number - side->first) / side->block;
    return cell < side->cells ? cell : -1;
}

/* The first number past a cell; of cell -1 the first number of all cells. */
static inline int64_t attn__map_end(const attn__map_side *side, int64_t cell)
{
    if (side->block == 0)
        return ((cell + 1) * side->all + side->cells - 1) / side->cells;
    return side->first + (cell + 1) * side->block;
}

/* Columns of a sequence as maps count them, and the most rows a block of the sweep has. */
int64_t attn__map_columns(const attn__problem *p, size_t sequence);
size_t attn__stats_block(const attn__problem *p);

/* Map rows that the rows of a block can fall into, at most. */
size_t attn__map_rows(const attn__problem *p);

/* Neutral values into all outputs that the second sweep adds to or passes over; and what is left to
 * do when all is summed. */
void attn__stats_begin(const attn__problem *p);
void attn__stats_end(const attn__problem *p);

/* Waits until all chunks before this one have added their sums to the head's outputs; and lets the
 * next one do so. */
void attn__stats_await(const attn__stats *s, const attn__stats_item *item);
void attn__stats_done(const attn__stats *s, const attn__stats_item *item);

/* Elements of outputs: numbers (f32, f64) and integers (i32, i64). */
void attn__put(const attn_view *view, int64_t b, int64_t h, int64_t i, int64_t j, double x);
void attn__put_index(const attn_view *view, int64_t b, int64_t h, int64_t i, int64_t j, int64_t x);

/* n numbers x to those of row (b, h, i) from column j, or 0, on: their sum; the larger, where NaN
 * stays; the sum of counts, which stops at the largest that the type holds. */
void attn__add_to(const attn_view *view, int64_t b, int64_t h, int64_t i, int64_t j,
                  const double *x, int64_t n);
void attn__raise(const attn_view *view, int64_t b, int64_t h, int64_t i, const double *x,
                 int64_t n);
void attn__add_counts(const attn_view *view, int64_t b, int64_t h, int64_t i, const int64_t *x,
                      int64_t n);

/* Bytes a worker needs; and the sweep. */
size_t attn__stats_scratch_f32(const attn__problem *p, const attn__layout *l);
size_t attn__stats_scratch_f64(const attn__problem *p, const attn__layout *l);
void attn__stats_sweep_f32(attn__stats *s, size_t worker);
void attn__stats_sweep_f64(attn__stats *s, size_t worker);

#endif
