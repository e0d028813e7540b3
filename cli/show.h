/* show.h: what the parts of `attn show` share: its options and the figure under construction. */
#ifndef ATTN_CLI_SHOW_H
#define ATTN_CLI_SHOW_H

#include "cli/calls.h"
#include "include/attn/viz.h"

/* Places in the table of options (show.c). */
enum {
    SHOW_OUT,
    SHOW_FORMAT,
    SHOW_KIND,
    SHOW_STATS,
    SHOW_WIDTH,
    SHOW_HEIGHT,
    SHOW_DARK,
    SHOW_MAX_BYTES,
    SHOW_TITLE,
    SHOW_NOTES,
    SHOW_SCALE,
    SHOW_COLOURS,
    SHOW_LOW,
    SHOW_HIGH,
    SHOW_ROBUST,
    SHOW_OWN,
    SHOW_REDUCE,
    SHOW_DROP_KEYS,
    SHOW_SHARE,
    SHOW_TENSOR,
    SHOW_LAYER,
    SHOW_HEAD,
    SHOW_QUERIES,
    SHOW_KEYS,
    SHOW_ROWS,
    SHOW_CELLS,
    SHOW_TOKENS,
    SHOW_KEY_TOKENS,
    SHOW_IMAGE,
    SHOW_PATCHES,
    SHOW_CALL, /* the options of calls.h */
    SHOW_OPTIONS = SHOW_CALL + CALL_OPTIONS
};

/* Values of --kind. */
typedef enum show_kind {
    SHOW_MAP,
    SHOW_GRID,
    SHOW_LINES,
    SHOW_OVERLAY,
    SHOW_ENTROPY,
    SHOW_DISTANCE
} show_kind;

typedef struct show_job {
    const cli_value *o;
    attn_picture format; /* of the picture; AUTO: none is asked for, or by the ending of --out */
    show_kind kind;
    attn_figure f;
    attn_image image;
    int64_t layers[2], heads[2]; /* first one shown, and the one past the last */
    size_t panels;               /* heads of layers shown */
    int64_t all[4];              /* layers, heads, queries and keys of the input */

    cli_call call; /* of queries and keys */
    attn_stats stats;
} show_job;

/* Ranges, tokens and panels, for input of job->all: weights of a tensor, or queries and keys, which
 * are worked through here. All return 0 or an exit code. */
int show_selection(show_job *job);
int show_weights(show_job *job, const char *path, const attn_tensor *tensor);
int show_call(show_job *job, char **paths, size_t count);

/* Room in job->stats for what files and curves tell of b layers of h heads of the rows of args.q;
 * and these numbers from weights, which fail where one is negative or not finite. */
int show_ask_stats(show_job *job, int64_t b, int64_t h);
int show_sums(show_job *job, const attn_tensor *tensor, const attn_view *all);

/* Whether files hold queries and keys, not weights. */
int show_is_call(const show_job *job, char **paths, size_t count);

/* Rows of one of the sequences shown (a layer, or a segment) in a statistic laid out as lse. */
attn_view show_rows_of(const show_job *job, const attn_view *view, int64_t b, int64_t h);

/* Curves of what show_call or show_sums found out. */
int show_curves(show_job *job);

/* Writes their statistics: .json or .csv; and whether they can be. */
int show_check_stats(const show_job *job);
int show_write_stats(const show_job *job);

extern const cli_option show_options[SHOW_OPTIONS];

#endif
