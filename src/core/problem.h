/* problem.h: a checked call. attn__problem_init copies the caller's arguments, refuses what does
 * not fit, and answers the questions that the rest of core asks about sequences, rows and keys. */
#ifndef ATTN_CORE_PROBLEM_H
#define ATTN_CORE_PROBLEM_H

#include "include/attn/attn.h"
#include "src/base/compiler.h"
#include "src/kernels/kernels.h"

#include <stdbool.h>

typedef struct attn__problem {
    const attn_ctx *ctx;
    attn_forward_args args; /* the caller's, completed with defaults */
    attn_mask mask;         /* all zero if there is none */
    attn_partial partial, start;
    attn_stats stats;        /* all zero if there are none */
    const attn_cache *cache; /* NULL: keys are args.k and args.v */
    attn_view k, v;          /* args.k and args.v, or the memory of the cache */
    bool f64;                /* all tensors are double */
    size_t sequences;        /* B, or the segments of a packed batch */
    size_t heads, key_heads, group;
    size_t d, dv;
    size_t width;    /* dv rounded up to a multiple of 16 */
    int64_t rows;    /* longest Tq */
    int64_t columns; /* longest Tk, counted from row 0 of the key buffer */
    bool has_keep, has_bias, has_alibi, has_sink, has_out, has_lse, has_weights, has_delta;
    bool has_stats;
    bool row_stats;      /* statistics that the first sweep gathers */
    bool second_sweep;   /* statistics that need their own */
    bool keep_repeats;   /* the keep-mask is one for all rows and heads of a sequence */
    bool masks_cells;    /* keep-mask or block list */
    bool changes_scores; /* softcap, bias, ALiBi or tile function */
    uint64_t drop_below; /* dropout: words below this drop; 0: none */
} attn__problem;

/* One sequence of the batch. Keys are counted from the first that exists. */
typedef struct attn__sequence {
    int64_t q_batch, q_row;  /* where its query rows begin in q, out, lse and partial */
    int64_t rows, live_rows; /* Tq, and how many of them exist */
    int64_t k_batch, k_row;  /* where its keys begin in k and v; in a cache, unused */
    int64_t keys;
    int64_t q_pos, k_pos; /* positions of row 0 and of the first key */
    int64_t column;       /* of the first key in keep, bias and weights */
} attn__sequence;

/* Fills *p, or says what is wrong. The arrays and views stay the caller's. `cache` may be NULL. */
attn_status attn__problem_init(attn__problem *p, const attn_ctx *ctx, const attn_cache *cache,
                               const attn_forward_args *args, attn_error *err);

/* False if all sequences have the same lengths and positions. */
bool attn__sequences_differ(const attn__problem *p);

void attn__get_sequence(const attn__problem *p, size_t b, attn__sequence *s);

/* Short sequences whose heads lie side by side, as [batch, row, head, channel]: whoever takes the
 * first head asks for the rows of all of them, in the order of memory. Heads taken one by one jump
 * from row to row, which no processor foresees. Rows of q (queries) or of k; absent views and other
 * layouts are left alone. */
bool attn__is_short(const attn__problem *p, const attn__sequence *s);
void attn__ask_for(const attn_view *view, const attn__sequence *s, bool queries);

/* Positions lo <= pos < hi that causal, window and lengths leave to query row i (lo == hi: none).
 */
void attn__visible_range(const attn__problem *p, const attn__sequence *s, int64_t i, int64_t *lo,
                         int64_t *hi);

/* Whether the block list lets the query at pos_q see the tile of keys that starts at tile_pos. */
bool attn__block_visible(const attn__problem *p, size_t b, size_t h, int64_t pos_q,
                         int64_t tile_pos);

/* Bits of `n` columns of the keep-mask from `column` on. */
uint64_t attn__keep_bits(const attn__problem *p, size_t b, size_t h, int64_t i, int64_t column,
                         size_t n);

/* Dropout: bits of the cells that survive among the 64 keys from position tile_pos on (a multiple
 * of 64). */
uint64_t attn__dropout_bits(const attn__problem *p, size_t b, size_t h, int64_t pos_q,
                            int64_t tile_pos);

/* Memory of keys j .. j + run - 1 (run <= n is returned) of a sequence, which lie p->k.stride[2]
 * elements apart; *k is NULL in a tiled cache (cache.h). */
size_t attn__key_run(const attn__problem *p, size_t b, const attn__sequence *s, size_t key_head,
                     int64_t j, size_t n, const void **k, const void **v);

/* attn_type_size for the types of views, in a few instructions. */
ATTN__INLINE int64_t attn__element_size(attn_type type)
{
    return type == ATTN_F32 || type == ATTN_I32    ? 4
           : type == ATTN_F64 || type == ATTN_I64  ? 8
           : type == ATTN_F16 || type == ATTN_BF16 ? 2
                                                   : 1;
}

/* Address of element [b, h, i, 0] of a view; sizes of 1 repeat. */
ATTN__INLINE void *attn__cell(const attn_view *view, int64_t b, int64_t h, int64_t i)
{
    int64_t at = (view->size[0] > 1 ? b * view->stride[0] : 0) +
                 (view->size[1] > 1 ? h * view->stride[1] : 0) +
                 (view->size[2] > 1 ? i * view->stride[2] : 0);

    return (char *)view->data + at * attn__element_size(view->type);
}

/* Place of a query row among all: by sequence, head, row. */
ATTN__INLINE size_t attn__row_index(const attn__problem *p, const attn__sequence *s, size_t head,
                                    int64_t row)
{
    return (size_t)(s->q_batch * p->args.q.size[2] + s->q_row) * p->heads + head * (size_t)s->rows +
           (size_t)row;
}

/* Element [b, h, i, 0] as a number; floating types only. */
double attn__read(const attn_view *view, int64_t b, int64_t h, int64_t i);
void attn__write(const attn_view *view, int64_t b, int64_t h, int64_t i, double x);

/* Copies a caller's versioned struct of `known` bytes' worth: a shorter (older) one is completed
 * with zeros, a longer (newer) one must be zero in what we do not know. */
attn_status attn__copy_struct(void *to, size_t known, const void *from, const char *what,
                              attn_error *err);

/* Checks that several calls share. `what` names the argument in the error. */
attn_status attn__check_view(const attn_view *view, const char *what, bool output, attn_error *err);
attn_status attn__check_size(const attn_view *view, const char *what, int64_t b, int64_t h,
                             int64_t i, int64_t j, attn_error *err);
/* A view of a floating type. */
attn_status attn__check_tensor(const attn_view *view, const char *what, bool output,
                               attn_error *err);
/* The same of these sizes, f64 if and only if q is. */
attn_status attn__check_matching(const attn__problem *p, const attn_view *view, const char *what,
                                 bool output, const int64_t size[4], attn_error *err);
/* [B or 1, H, 1, 1] numbers: sinks and slopes, and their gradients. */
attn_status attn__check_per_head(const attn__problem *p, const attn_view *view, const char *what,
                                 bool half, bool output, attn_error *err);
/* [B, H, Tq, 1] numbers of the call's own kind, or (either) f32 or f64. */
attn_status attn__check_row_output(const attn__problem *p, const attn_view *view, const char *what,
                                   bool output, bool either, attn_error *err);
/* A view whose sizes may each be 1 instead of the full one, and (packed batches) whose rows and
 * columns may exceed what is needed. */
attn_status attn__check_broadcast(const attn_view *view, const char *what, const int64_t full[4],
                                  bool packed, attn_error *err);

/* Whether an output has memory in common with another view that it must not (may_equal: it may be
 * exactly the same one). Views with the same strides may lie interleaved in one buffer (packed
 * QKV); others must not even meet in their byte ranges. */
bool attn__clash(const attn_view *output, const attn_view *other, bool may_equal);
bool attn__is_float(attn_type type);
bool attn__present(const attn_view *view);

/* Strides of axes of size 1 may be anything; replaced, so that no address is computed from them. */
void attn__tame(attn_view *view);

/* Zeros into rows from .. to-1 of [b, h]. */
void attn__clear(const attn_view *view, int64_t b, int64_t h, int64_t from, int64_t to);

#endif
