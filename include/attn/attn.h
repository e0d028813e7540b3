/* attn.h: exact attention on CPUs.
 *
 *     O = softmax(scale * Q K^T, capped, plus bias, where allowed) V
 *
 * Letters used in every comment below:
 *
 *     B   sequences of a batch          b   one of them
 *     H   query heads                   h   one of them
 *     Hk  key heads; H % Hk == 0        G   H / Hk; query head h reads key head h / G
 *     Tq  query rows of a sequence      i   one of them
 *     Tk  key rows of a sequence        j   one of them
 *     D   key width                     Dv  value width
 *
 * One row of the result, in natural units (never base 2):
 *
 *     pos_q = q_offset[b] + i           pos_k = k_offset[b] + j
 *     s     = scale * sum_d q[i,d] k[j,d]
 *     s     = softcap * tanh(s / softcap)                     only if softcap > 0
 *     t     = s + bias[b,h,i,j] - slope[h] * |pos_q - pos_k|  then the tile function, if any
 *     allowed = keep AND causal AND window AND key range AND block list AND bias != -inf
 *     LSE   = ln(sum over allowed of e^t, + e^sink[h])        sink only if given
 *     P     = e^(t - LSE) where allowed, exactly +0 elsewhere
 *     O     = sum_j P * drop / (1 - p) * v[j]
 *
 * Rules that hold for every function here:
 *
 * - Views are borrowed. The library never frees, keeps or resizes a caller's memory; the objects it
 *   makes (attn_ctx, attn_cache) are given back with their destroy function, which accepts NULL.
 * - An argument struct starts with its size (use the ..._INIT macros) and any field left zero means
 *   its default. Later versions add fields at the end; old programs keep working.
 * - On any status but ATTN_OK, and but ATTN_E_CANCELLED, no output has been written. After
 *   ATTN_E_CANCELLED the outputs are undefined. `err` may be NULL; it is filled on failure only.
 * - Nothing prints, exits, aborts, reads the environment or touches global state; the
 *   floating-point control word (rounding, flushing, traps) of every thread is as it was.
 * - Bits: an output row depends on the row's own inputs and options, on D, Dv, the types and the
 *   instruction set; never on threads, batch, padding, strides, alignment, cache layout or
 *   chunking. Which NaN results where several meet is not promised.
 * - Accuracy: f32, f16 and bf16 inputs are accumulated in f32 with one rounding per fused step; the
 *   error of every output element is within the bound of docs/numerics.md.
 *
 * Source of the formula: Vaswani et al., "Attention Is All You Need" (2017), section 3.2.1; the
 * one-pass softmax is Milakov and Gimelshein (2018); ALiBi is Press et al. (2021).
 */
#ifndef ATTN_ATTN_H
#define ATTN_ATTN_H

#include <stddef.h>
#include <stdint.h>

#define ATTN_VERSION_MAJOR 0
#define ATTN_VERSION_MINOR 1
#define ATTN_VERSION_PATCH 0
#define ATTN_VERSION "0.1.0"

#if defined(__GNUC__)
#define ATTN_API __attribute__((visibility("default")))
#else
#define ATTN_API
#endif

/* { .struct_size = sizeof(type) }, in a form that C++17 accepts too. */
#ifdef __cplusplus
#define ATTN_INIT(type)                                                                            \
    [] {                                                                                           \
        type zeroed = {};                                                                          \
        zeroed.struct_size = sizeof zeroed;                                                        \
        return zeroed;                                                                             \
    }()
extern "C" {
#else
#define ATTN_INIT(type)                                                                            \
    {                                                                                              \
        .struct_size = sizeof(type)                                                                \
    }
#endif

/* --- Status --------------------------------------------------------------------------------- */

#define ATTN_STATUS_LIST(X)                                                                        \
    X(ATTN_OK, "success")                                                                          \
    X(ATTN_E_ARGUMENT, "invalid argument")                                                         \
    X(ATTN_E_SHAPE, "shapes do not fit together")                                                  \
    X(ATTN_E_FORMAT, "malformed file or text")                                                     \
    X(ATTN_E_MEMORY, "out of memory")                                                              \
    X(ATTN_E_IO, "input or output failed")                                                         \
    X(ATTN_E_FULL, "cache is full")                                                                \
    X(ATTN_E_UNSUPPORTED, "not available on this machine")                                         \
    X(ATTN_E_BUILD, "library was compiled with wrong floating-point flags")                        \
    X(ATTN_E_CANCELLED, "cancelled by the progress callback")

typedef enum attn_status {
#define ATTN_STATUS_ITEM(name, text) name,
    ATTN_STATUS_LIST(ATTN_STATUS_ITEM)
#undef ATTN_STATUS_ITEM
} attn_status;

/* Details of a failure: which argument, file or tensor, and what was expected. `offset` is the byte
 * of a file where reading failed, else 0. `text` is one line without a full stop, always
 * terminated. */
typedef struct attn_error {
    attn_status status;
    uint64_t offset;
    char text[240];
} attn_error;

/* A short fixed text for a status; never NULL. */
ATTN_API const char *attn_status_text(attn_status status);

/* "0.1.0": the version of the library that runs, which may differ from ATTN_VERSION. */
ATTN_API const char *attn_version(void);

/* --- Types and views ------------------------------------------------------------------------ */

typedef enum attn_type {
    ATTN_F32 = 0,
    ATTN_F16,  /* IEEE binary16 */
    ATTN_BF16, /* the upper half of a binary32 */
    ATTN_F64,
    ATTN_U8, /* keep masks, as ATTN_BOOL */
    ATTN_I8, /* quantised caches; this and the following are otherwise only in files (io.h) */
    ATTN_U16,
    ATTN_I16,
    ATTN_U32,
    ATTN_I32,
    ATTN_U64,
    ATTN_I64,
    ATTN_BOOL
} attn_type;

/* Bytes of one element; 0 for a value outside the enum. */
ATTN_API size_t attn_type_size(attn_type type);

/* "f32", "bf16", ...; "?" for a value outside the enum. */
ATTN_API const char *attn_type_name(attn_type type);

/* Four-dimensional array [batch, heads, rows, columns] over the caller's memory. Strides count
 * elements and may have any value: 0 repeats, negative runs backwards (`data` is then element
 * [0,0,0,0], not the lowest address). Outputs must not overlap themselves. A zeroed view is absent.
 * Data may be NULL if one of the sizes is 0; otherwise NULL is an error. `data` must be aligned to
 * its element and no more. Inputs are never written, though the pointer is not const. This struct
 * is frozen. */
typedef struct attn_view {
    void *data;
    attn_type type;
    int64_t size[4];
    int64_t stride[4];
} attn_view;

/* View of contiguous memory that lies as [b][h][n][d] (bhsd) or [b][n][h][d] (bshd; what a linear
 * layer writes). Sizes of the view are always [b, h, n, d]. */
ATTN_API attn_view attn_view_bhsd(const void *data, attn_type type, int64_t b, int64_t h, int64_t n,
                                  int64_t d);
ATTN_API attn_view attn_view_bshd(const void *data, attn_type type, int64_t b, int64_t h, int64_t n,
                                  int64_t d);

/* --- Context -------------------------------------------------------------------------------- */

/* Holds the choice of kernels, the workers and the callbacks. It does not change once made; any
 * number of threads may compute with one context at the same time. */
typedef struct attn_ctx attn_ctx;

typedef enum attn_kernel_set {
    ATTN_SET_AUTO = 0, /* the best this machine and its operating system offer */
    ATTN_SET_SCALAR,   /* plain C, any machine */
    ATTN_SET_NEON,     /* AArch64 */
    ATTN_SET_AVX2,     /* x86-64 with AVX2, FMA, F16C */
    ATTN_SET_AVX512    /* x86-64 with AVX-512 F, BW, DQ, VL */
} attn_kernel_set;

/* "scalar", "avx512", ...; "?" for a value outside the enum. */
ATTN_API const char *attn_kernel_set_name(attn_kernel_set set);

/* 1 if this build holds the set and this machine can run it. */
ATTN_API int attn_kernel_set_available(attn_kernel_set set);

/* The caller's own workers: run task(arg, i) once for each i in 0..n-1, in any order, on any
 * threads, one after the other if need be, and return when all are done. */
typedef void (*attn_parallel_for)(void *user, size_t n, void (*task)(void *arg, size_t i),
                                  void *arg);

/* alloc returns memory aligned to at least `align` (a power of two, at least 16) or NULL. Both may
 * be called by several threads at once. `free` gets what alloc returned, never NULL. */
typedef void *(*attn_alloc_fn)(void *user, size_t size, size_t align);
typedef void (*attn_free_fn)(void *user, void *memory);

/* One line of text, no newline: a warning the caller may want to show. */
typedef void (*attn_log_fn)(void *user, const char *text);

/* Called between work items of long calls with `done` of `total` units of work. Returning non-zero
 * cancels the call. Calls that belong to one compute call never overlap, but come from any worker.
 */
typedef int (*attn_progress_fn)(void *user, uint64_t done, uint64_t total);

typedef struct attn_ctx_options {
    size_t struct_size;
    attn_kernel_set kernels;        /* this set and no other; a missing one is an error */
    int threads;                    /* workers, the caller's thread included; 0: one a usable CPU
                                     * (affinity and cgroup quota count), at most 1024 */
    attn_parallel_for parallel_for; /* NULL: own pool of pthreads. Given: `threads` is its width */
    void *parallel_user;
    attn_alloc_fn alloc; /* both or neither; neither: aligned_alloc and free */
    attn_free_fn free;
    void *alloc_user;
    attn_log_fn log;
    void *log_user;
    attn_progress_fn progress;
    void *progress_user;
} attn_ctx_options;
#define ATTN_CTX_OPTIONS_INIT ATTN_INIT(attn_ctx_options)

/* Makes a context. `options` may be NULL. Worker threads that cannot be created make a narrower
 * context and a line in the log, not an error. Runs a self-test of a few microseconds that refuses
 * (ATTN_E_BUILD) a library compiled with fused or reordered arithmetic it did not ask for. On
 * failure *out is NULL. ATTN_E_UNSUPPORTED: the named kernel set cannot run here. */
ATTN_API attn_status attn_ctx_create(const attn_ctx_options *options, attn_ctx **out,
                                     attn_error *err);

/* Ends the workers and frees the context. No call may be running on it, and objects made with it
 * must be gone. */
ATTN_API void attn_ctx_destroy(attn_ctx *ctx);

/* The set in use, and the number of workers (the caller's thread included). */
ATTN_API attn_kernel_set attn_ctx_kernels(const attn_ctx *ctx);
ATTN_API int attn_ctx_threads(const attn_ctx *ctx);

/* --- Mask ----------------------------------------------------------------------------------- */

/* Which 64-aligned key blocks a query block may see: compressed sparse rows per (batch, head).
 * Blocks lie on positions: row r holds the queries with pos_q / q_block == r, block c the keys with
 * pos_k / k_block == c. Queries outside all rows see nothing. Row r of (b, h) lists, with
 * at = b*batch_stride + h*head_stride + r,
 *
 *     index[start[at]] .. index[start[at + 1] - 1]
 *
 * in ascending order, each below k_blocks. Strides count entries of `start`; 0 broadcasts. This
 * struct is frozen. */
typedef struct attn_block_list {
    int64_t q_block, k_block; /* sides, positive multiples of 64 */
    int64_t rows;             /* query blocks; `start` holds rows + 1 entries per (b, h) */
    int64_t k_blocks;         /* key blocks */
    const int64_t *start;     /* NULL: no block list */
    int64_t batch_stride, head_stride;
    const int64_t *index;
    int64_t index_count; /* entries of `index`; no start may exceed it */
} attn_block_list;

/* A rectangle of logits handed to the caller's tile function. `logits` is float, or double when
 * all inputs are f64; row r, column c is logits[r*stride + c] and concerns query row q_row + r and
 * key row k_row + c (k_row is the column of keep and bias; in packed batches rows count from the
 * sequence's own first), which stand at positions q_pos + r and k_pos + c. This struct is
 * frozen. */
typedef struct attn_tile {
    int64_t batch, head;
    int64_t q_row, k_row;
    int64_t q_pos, k_pos;
    int64_t rows, cols;
    int64_t stride;
    void *logits;
    attn_type type; /* ATTN_F32 or ATTN_F64 */
} attn_tile;

/* May change each logit as a function of its coordinates and value; what is -inf afterwards is
 * masked. Called by several threads at once, for tiles of any shape, possibly more than once for a
 * tile, and also for cells that other masks remove (their values are then without meaning). Must be
 * pure. */
typedef void (*attn_tile_fn)(void *user, const attn_tile *tile);

/* Everything that decides which keys a query may attend, and what is added to its logits. All parts
 * that are given act together: AND for permission, + for bias. All zero: every key, no bias.
 *
 * In a packed batch (segments > 0) the sequences lie one after the other in the rows of q, k, v and
 * out, whose batch size is 1; B then means `segments` for every array and view of this struct, for
 * sinks and for `b` in the formulas; i and j count from the sequence's own first row. */
typedef struct attn_mask {
    size_t struct_size;

    int causal; /* non-zero: pos_k <= pos_q */
    int window; /* non-zero: pos_q - window_left <= pos_k <= pos_q + window_right */
    int64_t window_left, window_right; /* -1: open on that side; the key at pos_q itself always
                                          counts */

    int64_t q_offset, k_offset; /* position of row 0 of every sequence ... */
    const int64_t *q_offsets;   /* ... plus, per sequence, [B] or NULL */
    const int64_t *k_offsets;   /* [B] or NULL. pos_k counts from the sequence's first key, so it
                                 * is not moved by k_start. Key positions must not be negative */
    const int64_t *k_start;     /* [B] or NULL (0): first key row that exists (left padding) */
    const int64_t *k_count;     /* [B] or NULL (all that follow k_start): keys that exist */
    const int64_t *q_count;     /* [B] or NULL (all): query rows that exist; rows past it are
                                 * empty rows */

    int64_t segments;                   /* > 0: packed batch of so many sequences */
    const int64_t *q_starts, *k_starts; /* [segments + 1] ascending row numbers; first 0, last Tq /
                                           Tk */

    attn_view keep;  /* u8 or bool; non-zero: may attend. [B or 1, H or 1, Tq or 1, Tk or 1]; a size
                      * 1 repeats, as does stride 0. Column c is key row c of the buffer (k_start
                      * does not move it). Packed: rows and columns count from the segment's first,
                      * sizes at least the longest segment's */
    attn_view bias;  /* f32, f16 or bf16 (f64 when all inputs are f64); shape as `keep`. -inf masks
                      */
    attn_view alibi; /* slopes [B or 1, H, 1, 1], f32 or the type of bias; t -= slope * |pos_q -
                        pos_k| */

    attn_block_list blocks;

    attn_tile_fn tile; /* after softcap, bias and ALiBi, before masking */
    void *tile_user;
} attn_mask;
#define ATTN_MASK_INIT ATTN_INIT(attn_mask)

/* Inverts a mask of the other polarity (non-zero: drop), as torch.nn.MultiheadAttention has it:
 * dst[i] = !src[i]. dst may be src. */
ATTN_API void attn_keep_from_drop(uint8_t *dst, const uint8_t *src, size_t n);

/* The usual ALiBi slopes for any number of heads: 2^(-8 (h+1) / n) for n the largest power of two
 * <= heads, then every second one of the sequence for 2n. Source: Press et al. (2021), section 3.
 */
ATTN_API void attn_alibi_slopes(float *slopes, size_t heads);

/* --- Partial results ------------------------------------------------------------------------ */

/* Attention over part of the keys, not yet normalised: with m the reference logit of a row,
 *
 *     out[b,h,i,:] = sum_j e^(t - m) v[j]       sum[b,h,i] = sum_j e^(t - m)       max[b,h,i] = m
 *
 * m is one of the row's logits or up to 8 / log2(e) below the largest. A row without keys is (0, 0,
 * -inf). All three views are f32, or f64 when all inputs are f64; sizes [B, H, Tq, Dv] and [B, H,
 * Tq, 1] (packed batches: [1, H, total rows, ...]). An (O, LSE) pair from elsewhere is the record
 * out = O, sum = 1, max = LSE (an empty one: sum = 0). This struct is frozen. */
typedef struct attn_partial {
    attn_view out, sum, max;
} attn_partial;

/* --- Statistics ----------------------------------------------------------------------------- */

/* What a call shall tell about its weights P (before dropout), beside its output or instead of it.
 * Every view is an output that is written if present; at least one must be. All at once or one at a
 * time: the bits are the same, and those of out, lse and weights are as without. Memory is of the
 * size of what is asked for; nothing of size Tq x Tk is kept.
 *
 * B counts the segments of a packed batch, but views "as lse" are [1, H, total rows, ...] then.
 * Tk is the longest sequence's, as for `weights`, and keys are numbered as its columns: key rows of
 * the buffer, of a segment or, decoding, from the oldest held. Numbers are written as f32 or f64
 * whatever the inputs, key numbers and counts as i32 or i64. Unless blocks are given, row i of a
 * sequence of T rows falls into map row i R / T, rounded down; likewise column j of its own T
 * columns (the segment's, the cache's length, else Tk) into map column j C / T.
 *
 * Rows without keys have weights of +0, entropy 0, peak 0 and keys -1; rows whose lse is NaN have
 * NaN, and keys -1, and make NaN what they enter: the mass of keys they attend, their map cells.
 * A map count that i32 cannot hold stays at the largest. With a sink rows sum to less than 1: the
 * sink's share is in no statistic. */
typedef struct attn_stats {
    size_t struct_size;

    /* Gathered in the sweep that makes the output, at a few percent of its cost. As lse. */
    attn_view entropy;  /* [B, H, Tq, 1]: -sum_j P ln P, in nats, of the keys */
    attn_view peak;     /* [B, H, Tq, 1]: the largest P, */
    attn_view peak_key; /* [B, H, Tq, 1]: and its key; of equal logits the first */

    /* All that follows takes a second sweep over the scores, once for all: about half a call's
     * products. Of each query row, as lse: */
    attn_view distance;      /* [B, H, Tq, 1]: sum_j P |pos_q - pos_k| */
    attn_view first_mass;    /* [B, H, Tq, 1]: P of the first key of the sequence that exists, */
    attn_view previous_mass; /* [B, H, Tq, 1]: and of the key at pos_k = pos_q - 1 */
    attn_view class_mass; /* [B, H, Tq, n]: sum of P over the keys of classes 0 .. n-1, n <= 255 */
    attn_view key_class;  /* input, u8, [B or 1, H or 1, 1, Tk]: class of each key, n and more: of
                           * none. In packed batches sizes may be larger, as those of keep */
    attn_view top_weight; /* [B, H, Tq, k], k <= 64: the largest P, descending; then +0 */
    attn_view top_key;    /* [B, H, Tq, k]: their keys, by logit, then by key; then -1 */

    /* Of chosen rows: */
    const int64_t *rows; /* [row_count], ascending: rows of each sequence, below the longest Tq */
    int64_t row_count;
    attn_view row_weights; /* [B, H, row_count, Tk]: P of these rows, +0 elsewhere; any type of
                            * weights */

    /* Over all query rows of a sequence, in double; at most 64 partial sums of fixed ranges of rows
     * meet in the output's own type. */
    attn_view key_mass;      /* [B, H, 1, Tk]: sum_i w_i P, what each key receives */
    attn_view query_weight;  /* input, f32 or f64, [B or 1, H or 1, Tq or 1, 1]: finite w_i, or
                             * absent (1). Attention rollout takes the key_mass of the layer above,
                             * turned over by attn_view_transposed */
    attn_view distance_mass; /* [B, H, 1, n]: sum of P over the cells whose pos_q - pos_k is */
    const int64_t *distance_edges; /* [n + 1], ascending: from edges[c] on and below edges[c + 1] */

    /* Over the cells that fall into a cell of the map; R and C up to 32768. With blocks given, row
     * i falls into map row (i - map_first_query) / map_query_block, rounded down, and column j
     * likewise; what falls outside is left out. */
    int64_t map_query_block, map_key_block; /* 0: the whole sequence, in R and C parts, see above */
    int64_t map_first_query, map_first_key; /* 0 unless there are blocks */
    attn_view map_sum;                      /* [B, H, R, C]: sum of P, */
    attn_view map_mean;  /* [B, H, R, C]: divided by map_count (which must be present), or 0, */
    attn_view map_max;   /* [B, H, R, C]: the largest P, */
    attn_view map_count; /* [B, H, R, C]: cells that are attended. 0 tells a masked part of the map
                          * from one of small weights */

    /* Cells before the softmax, -inf where not attended; any type of weights. [B, n, Tq, Tk], heads
     * logits_head .. logits_head + n - 1: */
    attn_view raw_logits;    /* scale q.k, */
    attn_view capped_logits; /* after softcap, */
    attn_view logits;        /* after bias, ALiBi and tile function: t */
    int64_t logits_head;
} attn_stats;
#define ATTN_STATS_INIT ATTN_INIT(attn_stats)

/* --- Forward -------------------------------------------------------------------------------- */

typedef struct attn_forward_args {
    size_t struct_size;
    attn_view q;   /* [B, H, Tq, D] */
    attn_view k;   /* [B, Hk, Tk, D] */
    attn_view v;   /* [B, Hk, Tk, Dv]; may be absent if out, delta, partial and start are */
    attn_view out; /* [B, H, Tq, Dv]; may be absent if another output is asked for. May be exactly
                    * q's memory with the same type and strides when D == Dv; no other overlap with
                    * inputs or outputs */
    const attn_mask *mask; /* NULL: every key */

    int has_scale;  /* non-zero: `scale` is given; else 1 / sqrt(D) */
    double scale;   /* finite; 0 gives the mean of the allowed values, negative is legal */
    double softcap; /* 0: none; else positive and finite */

    attn_view sink; /* [B or 1, H, 1, 1] f32 (f64 when all f64), or absent. -inf: no sink for that
                       head */

    double dropout; /* 0 <= p < 1. Cell (b, h, pos_q, pos_k) is dropped by a function of these four
                       and the seed alone (docs/numerics.md) */
    uint64_t dropout_seed;
    int64_t dropout_batch, dropout_head; /* added to b and h in that function: shards */

    attn_view lse; /* [B, H, Tq, 1], f32 or f64, or absent: natural log, sink included. Empty row:
                      -inf or the sink */
    attn_view weights; /* [B, n, Tq, Tk], f32, f16, bf16 or f64, or absent: P before dropout of
                        * heads weights_head .. weights_head + n - 1, zeros where masked. Costs a
                        * second sweep over the scores of these heads. Packed: [segments, n, longest
                        * q, longest k]. From f64, half types are rounded by way of f32 */
    int64_t weights_head;

    const attn_partial *partial; /* write the record of these keys instead of `out`, `lse` and
                                  * `weights`; sinks do not enter */
    const attn_partial *start; /* continue from the record of keys at lower positions, as if it and
                                * these keys were one call: bitwise so if the cut is at a multiple
                                * of 512 positions */

    void *workspace; /* 64-byte aligned, attn_forward_plan's size; NULL: allocated and freed by the
                        call */
    size_t workspace_size;

    attn_view dout;  /* [B, H, Tq, Dv], any type that goes with q: the derivative that attn_backward
                        will be given; only to write delta */
    attn_view delta; /* [B, H, Tq, 1], f32 or f64, or absent: sum_c dout * out of the unrounded
                        result, for attn_backward when out has a half type. Needs dout */

    const attn_stats *stats; /* or NULL. Not with partial or start */
} attn_forward_args;
#define ATTN_FORWARD_ARGS_INIT ATTN_INIT(attn_forward_args)

/* Computes attention.
 *
 * Types: q, k, v, out each f32, f16 or bf16 in any mix; or all of them f64.
 * Edges: B, H or Tq of 0: success, nothing to do. Tk = 0: every row is empty (zeros, LSE -inf or
 * the sink). Whether a row is empty is decided by the mask, not by its logits. Keys and values that
 * a row may not attend never reach it, not even as NaN; NaN that it attends shows. An attended
 * logit of +inf, or attended logits that are all -inf by overflow, give a NaN row. Lazy rescaling
 * lets weights reach 2^8 before normalisation: |V| above FLT_MAX / (2^8 Tk) may overflow.
 *
 * Errors: ATTN_E_ARGUMENT (types, scale, softcap, dropout, positions, counts and lists of the mask,
 * overlapping memory, workspace, or partial together with out, lse, weights or sink; lists and
 * numbers of stats), ATTN_E_SHAPE (sizes), ATTN_E_MEMORY, ATTN_E_CANCELLED.
 * Without out, delta and partial no product with the values is made.
 * Threads: any number of calls at once on one context, with different outputs and workspaces. */
ATTN_API attn_status attn_forward(const attn_ctx *ctx, const attn_forward_args *args,
                                  attn_error *err);

/* What a compute call would do with these arguments; its own comment names the paths. */
typedef struct attn_plan {
    size_t struct_size;
    size_t workspace_size; /* bytes to pass as workspace */
    attn_kernel_set kernels;
    int threads;            /* workers that will take part */
    const char *path;       /* "tiled" or "split-key" */
    char why[160];          /* one line: what decided it */
    size_t workspace_least; /* less memory that will do: the same bits, more slowly */
} attn_plan;
#define ATTN_PLAN_INIT ATTN_INIT(attn_plan)

/* Fills *plan; fails exactly when attn_forward would (memory and cancelling apart). `workspace` is
 * ignored. */
ATTN_API attn_status attn_forward_plan(const attn_ctx *ctx, const attn_forward_args *args,
                                       attn_plan *plan, attn_error *err);

typedef struct attn_merge_args {
    size_t struct_size;
    const attn_partial *parts; /* in ascending order of their keys; all of one shape and type */
    size_t count;
    attn_view out;  /* [B, H, Tq, Dv], any of the types attn_forward writes; may be absent */
    attn_view lse;  /* [B, H, Tq, 1] f32 or f64; may be absent */
    attn_view sink; /* [B or 1, H, 1, 1]; enters here, once */
    const attn_partial *partial; /* write the merged record instead of out and lse (may be parts[0],
                                  * no other overlap; sink then absent) */
} attn_merge_args;
#define ATTN_MERGE_ARGS_INIT ATTN_INIT(attn_merge_args)

/* Merges records from first to last:
 *
 *     m = max(m1, m2)   sum = sum1 e^(m1-m) + sum2 e^(m2-m)   out = out1 e^(m1-m) + out2 e^(m2-m)
 *
 * An empty record changes no bit. Attention over all keys in one call has the bits of merging its
 * records of 512 key positions each (cut at multiples of 512), first to last; records of longer
 * ranges merge within the error bound. For the same bits from longer ranges see
 * attn_forward_args.start. Nothing is allocated.
 *
 * Errors: ATTN_E_ARGUMENT (types, overlapping memory, no output), ATTN_E_SHAPE.
 * Threads: as attn_forward. */
ATTN_API attn_status attn_merge(const attn_ctx *ctx, const attn_merge_args *args, attn_error *err);

/* --- Backward ------------------------------------------------------------------------------- */

/* The gradient of a tile function. `tile` is what that function was given: the logits before it.
 * gradient[r*tile->stride + c], of the same type as the logits, holds the derivative of the loss by
 * the logit after the function and becomes that by the logit before it. Cells that are not attended
 * have gradient 0 and logits without meaning. Called like attn_tile_fn, with its `user`. */
typedef void (*attn_tile_gradient_fn)(void *user, const attn_tile *tile, void *gradient);

typedef struct attn_backward_args {
    size_t struct_size;
    const attn_forward_args *forward; /* of the call to be differentiated. q, k, v and all options
                                       * as then; lse as it wrote it; out likewise, f32 (f64), no
                                       * longer q's memory (may be absent if delta is given).
                                       * Ignored: weights, partial, start, dout, delta, stats,
                                       * workspace.
                                       * With the lse of all keys, keys may be a part of them */
    attn_view dout;  /* [B, H, Tq, Dv]: derivative of the loss by out; any type that goes with q */
    attn_view delta; /* [B, H, Tq, 1] f32 or f64: sum_c dout * out, as attn_forward writes it; or
                      * absent: computed from out */
    attn_view dlse;  /* [B, H, Tq, 1] f32 or f64: derivative of the loss by lse; or absent: 0 */

    /* Outputs, each present or absent (at least one present), overwritten. dq, dk, dv have the
     * shapes of q, k and v, any type that goes with q. */
    attn_view dq, dk, dv;
    attn_view dbias; /* [B or 1, H or 1, Tq or 1, Tk or 1] f32 (f64 when all f64): by a bias of this
                      * shape, which the call need not have: a size 1 sums. Packed: rows and columns
                      * count from the segment's first, sizes are the longest segment's or 1 */
    attn_view dsink; /* the shape of sink, f32 (f64) */
    attn_view dalibi; /* the shape of mask.alibi, f32 (f64) */

    attn_tile_gradient_fn tile_gradient; /* needed if there is a tile function */

    void *workspace; /* 64-byte aligned, of attn_backward_plan's workspace_size, or at least its
                      * workspace_least, to have dq made by a sweep of its own; NULL: allocated and
                      * freed by the call, the smaller if there is no memory for the larger */
    size_t workspace_size;
} attn_backward_args;
#define ATTN_BACKWARD_ARGS_INIT ATTN_INIT(attn_backward_args)

/* Computes gradients of attn_forward. With P, O, LSE and t as at the top, drop/(1-p) = 1 without
 * dropout, and s the logit after softcap:
 *
 *     dP[i,j]   = drop / (1 - p) * sum_c dout[i,c] v[j,c]
 *     delta[i]  = sum_c dout[i,c] O[i,c]
 *     dt        = P (dP - delta + dlse)           then the tile function's gradient, if any
 *     ds        = dt (1 - (s / softcap)^2)        factor 1 without softcap
 *     dq[i]     = scale sum_j ds k[j]             dk[j]  = scale sum_{h of the group, i} ds q[i]
 *     dv[j]     = sum_{h, i} P drop / (1 - p) dout[i]
 *     dbias     = dt, summed where dbias has size 1
 *     dsink[h]  = sum_i e^(sink - LSE) (dlse - delta)    summed over b if the sink is one for all
 *     dalibi[h] = -sum dt |pos_q - pos_k|                likewise
 *
 * P is computed again from q, k and lse; nothing of size Tq x Tk is kept. Memory: lse and delta;
 * copies of q and dout and the running dq of the key heads in flight, of the latter at most 8 each
 * (one for each chunk of keys), or none of these with workspace_least, which costs seven matrix
 * products instead of five.
 *
 * Edges: empty rows, rows that do not exist, and keys that no row attends have gradients of exactly
 * +0, whatever dout holds there; of an empty row dsink takes dlse, rows that do not exist give
 * nothing. Values, keys, queries and dout that do not meet in an attended
 * cell never reach one another, not even as NaN. Rows whose lse is NaN give NaN.
 * Bits: a row of dq depends on its own row's inputs and the keys it attends, and on where their
 * sequence begins and ends (chunks are eighths of it); dk and dv on all query rows that attend the
 * key; never on threads, strides, workspace or, but for dbias, dsink and dalibi, which may sum over
 * it, batch. Repeated calls give the same bits. Workers that add to one cell of dbias wait for one
 * another: one summed over heads keeps few of them busy.
 * Accuracy: docs/numerics.md has the bounds. P is e^(t - lse): where |lse| is so large that its own
 * rounding is not small (a bias of -FLT_MAX on every key), gradients have no digits.
 * Errors: as attn_forward; ATTN_E_ARGUMENT also for lse absent, out of a half type without delta, a
 * tile function without gradient, dsink without sink, dalibi without slopes, no output.
 * Threads: as attn_forward. */
ATTN_API attn_status attn_backward(const attn_ctx *ctx, const attn_backward_args *args,
                                   attn_error *err);

/* Fills *plan (path: "chunks" or "heads"); fails exactly when attn_backward would (memory and
 * cancelling apart). `workspace` is ignored. */
ATTN_API attn_status attn_backward_plan(const attn_ctx *ctx, const attn_backward_args *args,
                                        attn_plan *plan, attn_error *err);

/* --- Cache and decode ----------------------------------------------------------------------- */

/* Keys and values of sequences that grow. In memory of its own a cache keeps keys packed as the
 * kernels read them, which makes decoding one stream of reads; over the caller's rows it reads them
 * as they lie. A sequence holds the rows of positions first .. first + length - 1. Reading
 * (attn_decode) may happen from many threads at once; changing a cache needs it alone. */
typedef struct attn_cache attn_cache;

typedef enum attn_cache_kind {
    ATTN_CACHE_CONTIGUOUS = 0, /* `capacity` rows a sequence; append past it is ATTN_E_FULL */
    ATTN_CACHE_RING, /* keeps the last `capacity` rows; older ones fall out, positions go on */
    ATTN_CACHE_PAGED /* rows in pages of a pool that sequences share; ATTN_E_FULL when it or
                        `capacity` is used up */
} attn_cache_kind;

typedef struct attn_cache_options {
    size_t struct_size;
    attn_cache_kind kind;
    attn_type type;   /* f32, f16, bf16, i8 or f64, of keys and values. i8: the cache keeps each row
                       * x of a head as s = max|x| / 127 in f32 and round(x / s), nearest even, and
                       * attends to s times the integers: a row with NaN or infinity becomes NaN.
                       * Own memory only; paged: pages of a multiple of 64 rows */
    int64_t batch;    /* sequences */
    int64_t heads;    /* Hk */
    int64_t dk, dv;   /* D, Dv */
    int64_t capacity; /* rows a sequence */
    int64_t page;     /* paged: rows a page */
    int64_t pages;    /* paged: pages in the pool */
    /* The caller's memory, both or neither (neither: allocated). Contiguous and ring: k [batch,
     * heads, capacity, dk], v likewise. Paged: k [pages, heads, page, dk], v likewise. Any strides.
     * It must outlive the cache. */
    attn_view k, v;
    /* Paged, over the caller's memory only: page numbers [batch][ceil(capacity / page)], owned,
     * filled and kept by the caller; -1: no page. NULL: the cache deals out the pages itself. */
    const int32_t *block_table;
} attn_cache_options;
#define ATTN_CACHE_OPTIONS_INIT ATTN_INIT(attn_cache_options)

/* Makes an empty cache; on failure *out is NULL. The context must outlive it. */
ATTN_API attn_status attn_cache_create(const attn_ctx *ctx, const attn_cache_options *options,
                                       attn_cache **out, attn_error *err);
ATTN_API void attn_cache_destroy(attn_cache *cache);

/* Appends n rows to sequences first_sequence .. first_sequence + b - 1: k [b, Hk, n, D], v [b, Hk,
 * n, Dv], f32, f16 or bf16 (or f64 with an f64 cache), converted to the cache's type with round to
 * nearest even. If any sequence has no room, ATTN_E_FULL and the cache is untouched. A ring keeps
 * the last `capacity` of what it had and got. */
ATTN_API attn_status attn_cache_append(attn_cache *cache, int64_t first_sequence,
                                       const attn_view *k, const attn_view *v, attn_error *err);

/* Keeps the first `length` rows (positions) of a sequence: trims drafted tokens. length > the
 * present one: error. */
ATTN_API attn_status attn_cache_trim(attn_cache *cache, int64_t sequence, int64_t length,
                                     attn_error *err);

/* Forgets the oldest `count` rows. Positions of the others do not change. Frees pages that no
 * longer hold a row. */
ATTN_API attn_status attn_cache_drop(attn_cache *cache, int64_t sequence, int64_t count,
                                     attn_error *err);

/* Makes sequence `to` a copy of `from` (what `to` held is forgotten). Paged caches that deal out
 * their pages share them until one side appends (copy on write); others copy rows. */
ATTN_API attn_status attn_cache_fork(attn_cache *cache, int64_t from, int64_t to, attn_error *err);

/* Declares that the caller's memory holds rows of positions first .. first + length - 1 of a
 * sequence, written by the caller. Row of position p: contiguous p; ring p % capacity; paged row p
 * % page of page block_table[p / page]. Only for caches over the caller's memory. */
ATTN_API attn_status attn_cache_assign(attn_cache *cache, int64_t sequence, int64_t first,
                                       int64_t length, attn_error *err);

/* Position of the oldest row held, and the number of rows held; -1 for a sequence number out of
 * range. */
ATTN_API int64_t attn_cache_first(const attn_cache *cache, int64_t sequence);
ATTN_API int64_t attn_cache_length(const attn_cache *cache, int64_t sequence);

/* attn_forward over the keys and values of a cache. args->k, args->v must be absent; B, the batch
 * of q, is the cache's or less: its first B sequences. Positions: key rows stand where the cache
 * says; query row i of sequence b at
 *
 *     pos_q = first + length - Tq + q_offset + q_offsets[b] + i
 *
 * that is, the queries are the last Tq rows unless an offset says otherwise. mask->k_offset,
 * k_offsets, k_start, k_count and segments must be absent. Columns of keep, bias and weights are
 * rows from the oldest held: column c is position first + c, and Tk is the longest length of the
 * batch. Same bits as attn_forward over the same rows. A cache with memory of its own needs a
 * context with the kernel set it was made with. Errors and threads: as attn_forward. */
ATTN_API attn_status attn_decode(const attn_ctx *ctx, const attn_cache *cache,
                                 const attn_forward_args *args, attn_error *err);
ATTN_API attn_status attn_decode_plan(const attn_ctx *ctx, const attn_cache *cache,
                                      const attn_forward_args *args, attn_plan *plan,
                                      attn_error *err);

/* --- Matrix product -------------------------------------------------------------------------
 *
 *     out[b,h,i,:] = act(scale * (A[b,h,i,:] W^T) + bias) + residual[b,h,i,:]
 *
 * A linear layer, and with the views turned over (attn_view_transposed) its backward pass:
 *
 *     forward   a = x    [M, K]   w = W                [N, K]
 *     dx        a = dy   [M, N]   w = transposed(W)    [K, N]   rows of W are then the sums' steps
 *     dW        a = transposed(dy) [N, M]   w = transposed(x)   [K, M]
 */

/* Activations, with the error of what they compute for a sum x, relative to the result; u is 2^-24
 * (f64: 2^-53). Where the exponential in them falls below the smallest normal number it may vanish:
 * |x| times that number more. NaN stays NaN; -inf gives NaN but for relu (0), as the formulas have
 * it. */
typedef enum attn_activation {
    ATTN_ACT_NONE = 0,
    ATTN_ACT_RELU,      /* max(x, 0): exact */
    ATTN_ACT_GELU,      /* x (1 + erf(x / sqrt 2)) / 2: (12 + x^2) u */
    ATTN_ACT_GELU_TANH, /* x (1 + tanh z) / 2, z = sqrt(2 / pi) (x + 0.044715 x^3): (8 + 8 |z|) u */
    ATTN_ACT_SILU       /* x / (1 + e^-x): (8 + 2 |x|) u */
} attn_activation;

/* The view with rows and columns exchanged. */
ATTN_API attn_view attn_view_transposed(attn_view view);

/* Weights laid out for the kernels of one set, in memory of their own; they keep their type (f16,
 * bf16 and i8 are widened when used). Constant: any number of threads may use one at once. */
typedef struct attn_packed attn_packed;

/* Packs w [1, 1, N, K]: f32, f16, bf16, i8 or f64, any strides. On failure *out is NULL. The view
 * is no longer needed afterwards; the context must outlive the object. Worth it for weights that
 * are used more than once; the bits of results are the same with and without. */
ATTN_API attn_status attn_gemm_pack(const attn_ctx *ctx, const attn_view *w, attn_packed **out,
                                    attn_error *err);
ATTN_API void attn_packed_destroy(attn_packed *packed);

typedef struct attn_gemm_args {
    size_t struct_size;
    attn_view a; /* [B, H, M, K]; a plain matrix has B = H = 1 */
    attn_view w; /* [B or 1, H or 1, N, K]; a size 1 repeats. Absent if `packed` is given */
    const attn_packed *packed; /* on a context with the kernel set it was made for */
    attn_view scale; /* [1, 1, 1, N], or absent (1): a factor for each column; of i8 weights */
    attn_view bias;  /* [1, 1, 1, N], or absent (0) */
    attn_activation activation;
    attn_view residual; /* [B, H, M, N], or absent (0). May be exactly out's memory with the same
                         * type and strides: the product is then added to what is there */
    attn_view out;      /* [B, H, M, N]; no overlap but with residual */

    void *workspace; /* 64-byte aligned, attn_gemm_plan's size; NULL: allocated and freed by the
                        call */
    size_t workspace_size;
} attn_gemm_args;
#define ATTN_GEMM_ARGS_INIT ATTN_INIT(attn_gemm_args)

/* Computes the product.
 *
 * Types: a, scale, bias, residual, out each f32, f16 or bf16 in any mix, w these or i8; or all f64.
 * Numbers: every sum is one chain of fused multiply-adds over k = 0, 1, ..., K - 1 that begins at
 * +0, in f32 (f64), of the widened inputs; then * scale, + bias, act and + residual, each rounded
 * once; then one rounding to out's type. The bits of an element depend on its own row of a, its own
 * column and the instruction set; never on M, N, threads, strides or packing. With K + 2 roundings
 * the error of a sum is within (K + 2) u sum |a w| (scalar set: 2 K + 2); which NaN results where
 * several meet is not promised.
 * Edges: B, H, M or N of 0: success, nothing to do. K = 0: the sums are 0.
 * Errors: ATTN_E_ARGUMENT (type, activation, overlap, workspace, packed for other kernels),
 * ATTN_E_SHAPE, ATTN_E_MEMORY, ATTN_E_CANCELLED.
 * Threads: any number of calls at once on one context, with different outputs and workspaces. */
ATTN_API attn_status attn_gemm(const attn_ctx *ctx, const attn_gemm_args *args, attn_error *err);

/* Fills *plan (path: "packed", "packing" or "thin"); fails exactly when attn_gemm would (memory and
 * cancelling apart). `workspace` is ignored. */
ATTN_API attn_status attn_gemm_plan(const attn_ctx *ctx, const attn_gemm_args *args,
                                    attn_plan *plan, attn_error *err);

#ifdef __cplusplus
}
#endif
#endif
