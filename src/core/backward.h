/* backward.h: a checked call of attn_backward, how it is cut, and the sweeps that do the work.
 *
 * The key sweep takes a few tiles of keys at a time past all query rows of their key head:
 *
 *     S = Q K^T    P = e^(S - LSE)    dP = dO V^T    dS = P (dP - delta)
 *     dV += P^T dO    dK += dS^T Q    dQ += dS K
 *
 * dK and dV of a tile have one place to be summed. dQ has one for each chunk of keys, an eighth of
 * the sequence; the chunks' sums are added in ascending order. A head's chunks are items that run
 * side by side with memory for each, or one item takes them in turn with memory for one. Or (query
 * sweep) dQ is made by blocks of rows on their own, each going through the chunks, from scores
 * computed once more. All three ways go through the same sums in the same order. */
#ifndef ATTN_CORE_BACKWARD_H
#define ATTN_CORE_BACKWARD_H

#include "src/core/problem.h"
#include "src/core/schedule.h"

typedef struct attn__backward {
    attn__problem problem;
    attn_backward_args args;
    bool has_rows, has_delta, has_dlse;
    bool wants_dq, wants_dk, wants_dv, wants_dbias, wants_dsink, wants_dalibi;
    bool wants_ds;    /* anything but dv */
    size_t key_width; /* d rounded up to a multiple of 16 */

    bool key_sweep, query_sweep; /* which of them run; dq is the query sweep's if it does */
    bool in_turn, takes_turns;   /* items wait for each other before they add to dbias */
    size_t most_chunks;          /* of the longest sequence */
    size_t chunks;               /* items of a head: the same, or 1 if they are taken in turn */
    size_t rows_kept;            /* rows of a head whose running dq a slot holds */
    size_t pass_tiles;           /* tiles of keys at a time in the key sweep */
    size_t sweep_rows;           /* query rows of an item of the query sweep */
    size_t threads, slots;
    size_t shared_size, scratch_size, slot_size, workspace_size; /* bytes */
    const char *why;

    bool copies; /* the key sweep's queries and dout are copied: a head's rows are read but once */

    /* In the workspace, filled before the sweeps. Rows lie as attn__row_index says. */
    void *lse, *delta; /* REAL [all rows]; delta less dlse */
    void *q, *dout;    /* REAL [all rows][key_width], [all rows][width]; in turn: a worker's own */
    double *sink_sum;  /* [sequences][heads] */
    double *slope_sum; /* [sequences][heads][most_chunks] */
    atomic_size_t *turn; /* items that have added to dbias, of each chain */
    char *scratch;

    attn__schedule schedule;
} attn__backward;

enum {
    attn__block_rows = 96, /* query rows at a time in the key sweep; a multiple of a group */
    attn__most_tiles = 4,  /* tiles of keys at a time */
};

/* Tiles of the grid that hold keys of a sequence, tiles of a chunk, and chunks (at least one). */
typedef struct attn__chunks {
    int64_t first_tile;
    size_t tiles, each, count;
} attn__chunks;

attn__chunks attn__get_chunks(const attn__sequence *s);

/* Waits until all items before this one (of the key sweep) that add to the same cells of dbias are
 * done; and lets the next one begin. */
void attn__await_turn(const attn__backward *b, const attn__item *item);
void attn__end_turn(const attn__backward *b, const attn__item *item);

/* Gradients of key rows that do not exist: zeros. */
void attn__clear_missing_keys(const attn__backward *b, size_t sequence, size_t key_head);

/* Bytes a worker needs. */
size_t attn__backward_scratch_f32(const attn__backward *b);
size_t attn__backward_scratch_f64(const attn__backward *b);

/* lse, delta and the sum for dsink of one head of one sequence; and copies of its queries and dout.
 * `room` holds two rows of the width. */
void attn__backward_prepare_f32(const attn__backward *b, size_t sequence, size_t head, void *room);
void attn__backward_prepare_f64(const attn__backward *b, size_t sequence, size_t head, void *room);

/* Work on the items of a sweep until none is left. */
void attn__key_sweep_f32(attn__backward *b, size_t worker);
void attn__key_sweep_f64(attn__backward *b, size_t worker);
void attn__query_sweep_f32(attn__backward *b, size_t worker);
void attn__query_sweep_f64(attn__backward *b, size_t worker);

#endif
