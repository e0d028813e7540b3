/* training.h: what the parts of `attn train` share: its options, data, and a run's state. */
#ifndef ATTN_CLI_TRAINING_H
#define ATTN_CLI_TRAINING_H

#include <stdio.h>

#include "cli/options.h"
#include "include/attn/train.h"

/* Places in the table of options (train.c). The first ones belong to the call, the others to the
 * run: a resumed run takes them from its checkpoint. */
enum {
    TRAIN_OUT,
    TRAIN_RESUME,
    TRAIN_STEPS,
    TRAIN_THREADS,
    TRAIN_KERNEL,
    TRAIN_SAVE_EVERY,
    TRAIN_KEEP,
    TRAIN_LOG_EVERY,
    TRAIN_JSON,
    TRAIN_QUIET,
    TRAIN_OF_RUN, /* the first that does */
    TRAIN_TASK = TRAIN_OF_RUN,
    TRAIN_SYMBOLS,
    TRAIN_SHORTEST,
    TRAIN_LONGEST,
    TRAIN_EXAMPLES,
    TRAIN_SOURCE,
    TRAIN_TARGET,
    TRAIN_TOKENIZER,
    TRAIN_MAX_TOKENS,
    TRAIN_HELD_OUT,
    TRAIN_VALID_SOURCE,
    TRAIN_VALID_TARGET,
    TRAIN_D,
    TRAIN_FF,
    TRAIN_HEADS,
    TRAIN_LAYERS,
    TRAIN_NORM,
    TRAIN_POSITIONS,
    TRAIN_DROPOUT,
    TRAIN_SCHEDULE,
    TRAIN_RATE,
    TRAIN_WARMUP,
    TRAIN_LENGTH,
    TRAIN_BATCH,
    TRAIN_PART,
    TRAIN_BUCKET,
    TRAIN_SMOOTHING,
    TRAIN_MIX,
    TRAIN_DECAY,
    TRAIN_CLIP,
    TRAIN_AVERAGE,
    TRAIN_EVALUATE,
    TRAIN_PATIENCE,
    TRAIN_SEED,
    TRAIN_OPTIONS
};

/* Sequences to train on and others to try the model on; the memory is cli_take's. */
typedef struct train_data {
    attn_corpus corpus, held_out;
    int64_t vocabulary;
} train_data;

/* Makes the sequences of a task: a function of the options alone. Sequences that are held out
 * differ from all that are trained on. Returns 0 or an exit code after a message. */
int train_make_task(const cli_value *o, train_data *data);

/* Reads the files of --source (if given) and --target, one sequence a line, and what is held out
 * from files of its own if they are given. Returns 0 or an exit code after a message. */
int train_read_text(const cli_value *o, train_data *data);

/* Puts a copy of the tokenizer into the folder. */
int train_keep_tokenizer(const cli_value *o, const char *folder);

/* --- Log -------------------------------------------------------------------------------------- */

/* One line of log.csv. */
typedef struct train_line {
    int64_t step, epoch;
    double loss, nll, accuracy; /* mean over the target tokens since the line before */
    double norm, rate;
    double tokens_s;
    int evaluated;
    double held_loss, held_nll, held_accuracy, exact; /* of sequences, 0 .. 1 */
} train_line;

typedef struct train_log {
    char *path;
    FILE *file;
} train_log;

/* Opens FOLDER/log.csv: anew, or (resumed) keeping the lines up to a step. Returns 0 or an exit
 * code after a message. */
int train_log_open(train_log *log, const char *folder, int64_t keep_to);
int train_log_add(train_log *log, const train_line *line);
int train_log_close(train_log *log);

/* Draws FOLDER/loss.png from the log. What stands in the way is a note, not an error. */
void train_log_draw(const train_log *log, const char *folder);

/* --- Progress --------------------------------------------------------------------------------- */

typedef struct train_progress {
    int quiet, terminal;
    double start, shown; /* clock */
    int64_t first;       /* step at the start */
    int on_screen;
} train_progress;

void train_progress_begin(train_progress *p, int quiet, int64_t step);

/* Shows where the run is, at most so often. */
void train_progress_step(train_progress *p, const train_line *line, int64_t steps);

/* Takes the line away, before anything else is printed. */
void train_progress_clear(train_progress *p);

/* --- Run -------------------------------------------------------------------------------------- */

typedef struct train_run {
    const cli_value *o;
    const char *folder;
    train_data data;
    attn_ctx *ctx;
    attn_model *model;
    attn_trainer *trainer;
    int64_t steps;
    double best;     /* smallest nll of what is held out */
    int64_t worse;   /* evaluations since */
    int done;        /* reached what it was for, or patience is over */
    attn_loss since; /* the last line of the log: sums of its steps */
    train_line line;
} train_run;

/* Writes FOLDER/attention.safetensors and attention.png: the decoder's attention to the source of
 * one held-out sequence. What stands in the way is a note, not an error. */
void train_look(train_run *run);

/* From the trainer's present step to the end. Returns an exit code. */
int train_go(train_run *run);

#endif
