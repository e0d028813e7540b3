/* translate.h: what the parts of `attn translate` share: its options and one window of lines. */
#ifndef ATTN_CLI_TRANSLATE_H
#define ATTN_CLI_TRANSLATE_H

#include "cli/lines.h"
#include "cli/speaker.h"

/* Places in the table of options (translate.c). */
enum {
    TRANSLATE_OUT,
    TRANSLATE_LINE,
    TRANSLATE_BEAM,
    TRANSLATE_N_BEST,
    TRANSLATE_PENALTY,
    TRANSLATE_ALPHA,
    TRANSLATE_END_COUNTED,
    TRANSLATE_STOP,
    TRANSLATE_PREFIX,
    TRANSLATE_SCORE,
    TRANSLATE_BATCH,
    TRANSLATE_ALIGN,
    TRANSLATE_ALIGN_WEIGHTS,
    TRANSLATE_ALIGN_LEAST,
    TRANSLATE_SPEAKER, /* the options of speaker.h */
    TRANSLATE_OPTIONS = TRANSLATE_SPEAKER + SPEAKER_OPTIONS
};

/* A hypothesis, kept after the call that made it. */
typedef struct translation {
    int32_t *ids;
    double *of_ids; /* log-probabilities, count + ended of them */
    int64_t count;
    int ended; /* else cut off */
    double score, log_probability;
} translation;

/* One line and what became of it. */
typedef struct translate_line {
    cli_line text; /* as it was read, without a carriage return at its end */
    int32_t *source;
    int64_t source_count; /* with the end; 0: nothing to translate, so the output is empty */
    translation *best;    /* best first */
    size_t best_count;
} translate_line;

typedef struct translate_job {
    const cli_value *o;
    speaker s;
    int32_t *prefix;
    int64_t prefix_count;
    cli_lines input, references;
    cli_sink out, alignments;
    int interactive;
    int raw;        /* texts go out as they are: the output is no terminal */
    uint64_t drawn; /* number of the line that --show FILE drew; 0: none yet */
    uint64_t lines, tokens;
    double start;
    cli_progress progress;
} translate_job;

/* Prints line `number` (from 1) or its score, its alignment and its picture. 0 or an exit code
 * after a message. */
int translate_put(translate_job *job, const translate_line *line, uint64_t number);

#endif
