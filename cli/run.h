/* run.h: what the parts of `attn run` share: its options and its outputs. */
#ifndef ATTN_CLI_RUN_H
#define ATTN_CLI_RUN_H

#include "cli/calls.h"

/* Places in the table of options (run.c). */
enum {
    RUN_OUT,
    RUN_OUT_TYPE,
    RUN_LSE,
    RUN_WEIGHTS,
    RUN_WEIGHTS_HEADS,
    RUN_WEIGHTS_TYPE,
    RUN_PARTIAL,
    RUN_PLAN,
    RUN_JSON,
    RUN_DROPOUT,
    RUN_SEED,
    RUN_DROPOUT_BATCH,
    RUN_DROPOUT_HEAD,
    RUN_START,
    RUN_V,
    RUN_CALL, /* the options of calls.h */
    RUN_OPTIONS = RUN_CALL + CALL_OPTIONS
};

enum { RUN_MAX_OUTPUTS = 6 };

typedef struct run_output {
    const char *path;
    attn_tensor tensor;
} run_output;

typedef struct run_job {
    cli_call call;
    const cli_value *o;
    attn_partial partial, start;
    run_output outputs[RUN_MAX_OUTPUTS];
    size_t output_count;
} run_job;

/* Makes the outputs that are asked for, in memory that is not touched yet, and checks that their
 * files can be made; writes them. Outputs lie as q does. Both return 0 or an exit code. */
int run_make_outputs(run_job *job);
int run_write_outputs(const run_job *job);

/* Reads the record of --start. */
int run_read_start(run_job *job);

extern const cli_option run_options[RUN_OPTIONS];

#endif
