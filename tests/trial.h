/* trial.h: random calls of attn_forward for the differential tests: any mix of options, shapes,
 * types, layouts and data, drawn from a seed and a number, so that any one can be made again. */
#ifndef ATTN_TESTS_TRIAL_H
#define ATTN_TESTS_TRIAL_H

#include "tests/ref.h"
#include "tests/support.h"

/* Data that hurts in different ways (docs/numerics.md). */
typedef enum generator {
    GEN_BELL,        /* near Gaussian */
    GEN_UNIFORM,     /* -1 .. 1 */
    GEN_LOGITS_20,   /* logits of variance 20^2 */
    GEN_LOGITS_30,   /* 30^2 */
    GEN_LOGITS_1E4,  /* 1e8 */
    GEN_DOMINANT,    /* one key outweighs all */
    GEN_ROWS_EQUAL,  /* all queries equal, all keys equal */
    GEN_KEYS_EQUAL,  /* repeated maximum, values of one sign */
    GEN_CANCEL,      /* values +-1000 that cancel */
    GEN_RANGES,      /* keys of size 2^-10 .. 2^10, values 2^-20 .. 2^20 */
    GEN_DENORMAL,    /* values near 2^-140; has its own bound term */
    GEN_HUGE_V,      /* values near FLT_MAX / (2^8 n) */
    GEN_TRAP,        /* q = k = 133120 at D 64: logits 1.4e11 and exact */
    GEN_MASKED_ROWS, /* keep masks that leave rows few keys or none */
    GEN_SPECIAL,     /* NaN and infinities among the inputs */
    GEN_COUNT
} generator;

const char *generator_name(generator g);

#define TRIAL_OPTIONS(X)                                                                           \
    X(SCALE, "scale")                                                                              \
    X(SOFTCAP, "softcap")                                                                          \
    X(KEEP, "keep")                                                                                \
    X(BIAS, "bias")                                                                                \
    X(ALIBI, "alibi")                                                                              \
    X(CAUSAL, "causal")                                                                            \
    X(WINDOW, "window")                                                                            \
    X(Q_OFFSETS, "q-offsets")                                                                      \
    X(K_OFFSETS, "k-offsets")                                                                      \
    X(LENGTHS, "lengths")                                                                          \
    X(PACKED, "packed")                                                                            \
    X(BLOCKS, "blocks")                                                                            \
    X(SINK, "sink")                                                                                \
    X(DROPOUT, "dropout")                                                                          \
    X(TILE, "tile")                                                                                \
    X(LSE, "lse")                                                                                  \
    X(WEIGHTS, "weights")                                                                          \
    X(PARTIAL, "partial")                                                                          \
    X(START, "start")                                                                              \
    X(CHAIN, "chain")   /* in parts, each continuing from the record of the one before */          \
    X(MERGE, "merge")   /* in parts, merged at the end */                                          \
    X(POISON, "poison") /* NaN and infinities wherever nobody may look */                          \
    X(TYPES, "types")   /* each array a type of its own */                                         \
    X(F64, "f64")                                                                                  \
    X(LAYOUTS, "layouts") /* strides of any kind, repeats by stride 0 */                           \
    X(GUARDS, "guards")   /* inputs between pages that fault */                                    \
    X(GROUPS, "groups")   /* several query heads a key head */                                     \
    X(DV, "dv")           /* Dv != D */                                                            \
    X(IN_PLACE, "in-place")                                                                        \
    X(WORKSPACE, "workspace")                                                                      \
    X(LONG, "long") /* more keys than a split */

enum trial_option_bit {
#define TRIAL_BIT(name, text) BIT_##name,
    TRIAL_OPTIONS(TRIAL_BIT)
#undef TRIAL_BIT
        OPTION_COUNT
};

enum trial_option {
#define TRIAL_FLAG(name, text) OPT_##name = 1 << BIT_##name,
    TRIAL_OPTIONS(TRIAL_FLAG)
#undef TRIAL_FLAG
};

const char *option_name(int bit);

/* What the tile function of a trial does. */
typedef struct tile_rule {
    int kind;
    int64_t band;
} tile_rule;

typedef struct trial {
    uint32_t options;
    generator gen;
    int64_t b, hk, group, h, tq, tk, d, dv;
    int64_t sequences;            /* b, or segments of a packed batch */
    int64_t longest_q, longest_k; /* of one sequence */
    int64_t top_q, top_k;         /* no position is higher */
    rng random;
    arena memory;
    attn_forward_args args;
    attn_mask mask;
    attn_partial partial, start; /* record written; record continued from */
    attn_view q_copy;            /* in place: what q held */
    tile_rule rule;
    ref_options how;
    ref want;
} trial;

/* Draws trial number `index` of a seed: options, shape, data; and computes its reference. */
void trial_draw(trial *t, uint64_t seed, uint64_t index);

/* The same with the options and the data given. Options that exclude each other (see trial.c) are
 * dropped from the back. */
void trial_make(trial *t, uint64_t seed, uint64_t index, uint32_t options, generator gen);

/* Runs it and compares. Returns the number of violations, a failing status counted as one,
 * described in why[0..n-1]. */
int trial_run(trial *t, const attn_ctx *ctx, ref_worst *worst, char *why, size_t n);

/* One line: shape, generator, options. */
void trial_describe(const trial *t, char *text, size_t n);

void trial_free(trial *t);

/* For the other parts of trials: makes views, masks and data for the shape and options of *t;
 * and whether the tile function masks a cell of row i and key row j at these positions. */
void trial_build(trial *t);
int tile_masks(const tile_rule *rule, const attn_tile *tile, int64_t r, int64_t c);
void tile_apply(void *user, const attn_tile *tile);
void tile_gradient(void *user, const attn_tile *tile, void *gradient);
int trial_attends(const trial *t, int64_t s, int64_t h, int64_t i, int64_t j);

/* A type for an array that may have one of its own, and an array laid out as the options say. */
attn_type trial_type(trial *t);
attn_view trial_array(trial *t, attn_type type, int64_t b, int64_t h, int64_t n, int64_t d);

/* Rows of sequence s: its queries and keys, and which keys exist. */
typedef struct trial_rows {
    int64_t tq, tk, k_first, k_start, k_count;
} trial_rows;

trial_rows trial_sequence(const trial *t, int64_t s);

#endif
