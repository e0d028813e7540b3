/* run.h: what the parts of `attn run` share: its options and the call under construction. */
#ifndef ATTN_CLI_RUN_H
#define ATTN_CLI_RUN_H

#include "cli/options.h"
#include "include/attn/io.h"

/* Places in the table of options (run.c). */
enum {
    RUN_OUT,
    RUN_OUT_TYPE,
    RUN_LSE,
    RUN_WEIGHTS,
    RUN_WEIGHTS_HEADS,
    RUN_WEIGHTS_TYPE,
    RUN_PARTIAL,
    RUN_START,
    RUN_LAYOUT,
    RUN_Q,
    RUN_K,
    RUN_V,
    RUN_SCALE,
    RUN_SOFTCAP,
    RUN_SINK,
    RUN_DROPOUT,
    RUN_SEED,
    RUN_DROPOUT_BATCH,
    RUN_DROPOUT_HEAD,
    RUN_CAUSAL,
    RUN_WINDOW,
    RUN_Q_OFFSET,
    RUN_Q_OFFSETS,
    RUN_K_OFFSET,
    RUN_K_OFFSETS,
    RUN_K_START,
    RUN_K_COUNT,
    RUN_Q_COUNT,
    RUN_SEGMENTS,
    RUN_KEEP,
    RUN_DROP,
    RUN_BIAS,
    RUN_ALIBI,
    RUN_BLOCKS,
    RUN_THREADS,
    RUN_KERNEL,
    RUN_PLAN,
    RUN_JSON,
    RUN_PROGRESS,
    RUN_QUIET,
    RUN_OPTIONS
};

/* How the rows of q lie in its file; every output lies like that. */
typedef enum run_layout { RUN_BHSD, RUN_BSHD, RUN_SD } run_layout;

enum { RUN_MAX_OUTPUTS = 6 };

typedef struct run_output {
    const char *path;
    attn_tensor tensor;
} run_output;

typedef struct run_call {
    const cli_value *o;
    run_layout layout;
    int rank; /* of q */
    const char *q_path, *k_path, *v_path;
    int all_f64;
    int64_t sequences; /* batch of q, or the number of segments */
    int64_t heads, tq, tk;
    attn_mask mask;
    attn_partial partial, start;
    attn_forward_args args;
    run_output outputs[RUN_MAX_OUTPUTS];
    size_t output_count;
} run_call;

/* Fills call->mask from the options, and call->sequences. Both return 0 or an exit code. */
int run_fill_mask(run_call *call);

/* A view [1 or B, H, 1, 1] of numbers that belong to heads: from "1,2" or from a file. */
int run_head_numbers(const run_call *call, int option, const char *name, attn_view *view);

/* Makes the outputs that are asked for, in memory that is not touched yet, and checks that their
 * files can be made; writes them. */
int run_make_outputs(run_call *call);
int run_write_outputs(const run_call *call);

/* Reads the record of --start. */
int run_read_start(run_call *call);

/* Pairs of query and key that positions, windows and counts allow, times the query heads. */
double run_pairs(const run_call *call);

extern const cli_option run_options[RUN_OPTIONS];

#endif
