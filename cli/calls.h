/* calls.h: a call of attn_forward put together from files and options, for the commands that make
 * one: `run` computes it, `show` looks at it. */
#ifndef ATTN_CLI_CALLS_H
#define ATTN_CLI_CALLS_H

#include "cli/console.h"
#include "cli/options.h"
#include "include/attn/io.h"

/* Options that describe the call, in the order of CALL_ROWS. */
enum {
    CALL_LAYOUT,
    CALL_Q,
    CALL_K,
    CALL_SCALE,
    CALL_SOFTCAP,
    CALL_SINK,
    CALL_CAUSAL,
    CALL_WINDOW,
    CALL_Q_OFFSET,
    CALL_Q_OFFSETS,
    CALL_K_OFFSET,
    CALL_K_OFFSETS,
    CALL_K_START,
    CALL_K_COUNT,
    CALL_Q_COUNT,
    CALL_SEGMENTS,
    CALL_KEEP,
    CALL_DROP,
    CALL_BIAS,
    CALL_ALIBI,
    CALL_BLOCKS,
    CALL_THREADS,
    CALL_KERNEL,
    CALL_PROGRESS,
    CALL_QUIET,
    CALL_OPTIONS
};

#define CALL_LIST "N,N,...|FILE"

/* Their rows of a command's table, from place `at` on. `input` is the heading of the first, `scale`
 * the name of the scores' factor. */
#define CALL_ROWS(at, input, scale)                                                                \
    [(at) +                                                                                        \
        CALL_LAYOUT] = {input,                                                                     \
                        "layout",                                                                  \
                        0,                                                                         \
                        CLI_CHOICE,                                                                \
                        "bhsd|bshd|sd",                                                            \
                        "axes of the files: [batch, heads, rows, columns] (default), "             \
                        "[batch, rows, heads, columns], or one head: [rows, columns] "             \
                        "or [batch, rows, columns]; leading axes may be missing",                  \
                        0,                                                                         \
                        0},                                                                        \
        [(at) +                                                                                    \
            CALL_Q] = {NULL, "q", 0, CLI_TEXT, "NAME", "tensor of the queries (default q)", 0, 0}, \
        [(at) +                                                                                    \
            CALL_K] = {NULL, "k", 0, CLI_TEXT, "NAME", "tensor of the keys (default k)", 0, 0},    \
        [(at) + CALL_SCALE] = {"Scores",                                                           \
                               scale,                                                              \
                               0,                                                                  \
                               CLI_NUMBER,                                                         \
                               "X",                                                                \
                               "factor of q.k (default 1 / square root of q's columns); "          \
                               "0 gives every key the same weight",                                \
                               0,                                                                  \
                               0},                                                                 \
        [(at) +                                                                                    \
            CALL_SOFTCAP] = {NULL,       "softcap", 0,                                             \
                             CLI_NUMBER, "X",       "scores become X tanh(score / X); 0: none",    \
                             0,          1e300},                                                   \
        [(at) + CALL_SINK] = {NULL,                                                                \
                              "sink",                                                              \
                              0,                                                                   \
                              CLI_TEXT,                                                            \
                              "X,X,...|FILE",                                                      \
                              "one more score a head in the denominator: one number, "             \
                              "one a head, or a file [heads] or [batch, heads]",                   \
                              0,                                                                   \
                              0},                                                                  \
        [(at) + CALL_CAUSAL] = {"Positions (query row i stands at q-offset + i, key row j at "     \
                                "k-offset + j)",                                                   \
                                "causal",                                                          \
                                0,                                                                 \
                                CLI_FLAG,                                                          \
                                "",                                                                \
                                "no query sees keys at later positions. Query 0 stands at "        \
                                "position 0 unless --q-offset says otherwise",                     \
                                0,                                                                 \
                                0},                                                                \
        [(at) + CALL_WINDOW] = {NULL,                                                              \
                                "window",                                                          \
                                0,                                                                 \
                                CLI_TEXT,                                                          \
                                "LEFT,RIGHT",                                                      \
                                "keys before and after a query's own position that it sees; "      \
                                "-1: no limit. The key at its own position always counts",         \
                                0,                                                                 \
                                0},                                                                \
        [(at) + CALL_Q_OFFSET] = {NULL,                                                            \
                                  "q-offset",                                                      \
                                  0,                                                               \
                                  CLI_TEXT,                                                        \
                                  "N|end",                                                         \
                                  "position of query row 0 (default 0); end: the last query of "   \
                                  "every sequence stands where its last key stands",               \
                                  0,                                                               \
                                  0},                                                              \
        [(at) + CALL_Q_OFFSETS] = {NULL,      "q-offsets",                                         \
                                   0,         CLI_TEXT,                                            \
                                   CALL_LIST, "plus one number a sequence",                        \
                                   0,         0},                                                  \
        [(at) + CALL_K_OFFSET] = {NULL,        "k-offset", 0,                                      \
                                  CLI_INTEGER, "N",        "position of key row 0 (default 0)",    \
                                  0,           0},                                                 \
        [(at) + CALL_K_OFFSETS] = {NULL,      "k-offsets",                                         \
                                   0,         CLI_TEXT,                                            \
                                   CALL_LIST, "plus one number a sequence",                        \
                                   0,         0},                                                  \
        [(at) +                                                                                    \
            CALL_K_START] = {NULL,      "k-start",                                                 \
                             0,         CLI_TEXT,                                                  \
                             CALL_LIST, "first key row that exists, a sequence (left padding)",    \
                             0,         0},                                                        \
        [(at) + CALL_K_COUNT] = {NULL,     "k-count", 0,                                           \
                                 CLI_TEXT, CALL_LIST, "key rows that exist from there",            \
                                 0,        0},                                                     \
        [(at) + CALL_Q_COUNT] = {NULL,      "q-count",                                             \
                                 0,         CLI_TEXT,                                              \
                                 CALL_LIST, "query rows that exist; the others give zeros",        \
                                 0,         0},                                                    \
        [(at) + CALL_SEGMENTS] = {NULL,                                                            \
                                  "segments",                                                      \
                                  0,                                                               \
                                  CLI_TEXT,                                                        \
                                  "Q,Q,...[:K,K,...]",                                             \
                                  "packed batch: first row of every sequence in q, and in k, "     \
                                  "each list ending with the number of rows",                      \
                                  0,                                                               \
                                  0},                                                              \
        [(at) + CALL_KEEP] = {"Masks (arrays of up to four axes [batch, heads, queries, keys]; 1 " \
                              "repeats)",                                                          \
                              "keep",                                                              \
                              0,                                                                   \
                              CLI_TEXT,                                                            \
                              "FILE",                                                              \
                              "u8 or bool; non-zero: may be attended",                             \
                              0,                                                                   \
                              0},                                                                  \
        [(at) + CALL_DROP] = {NULL,   "drop",                                                      \
                              0,      CLI_TEXT,                                                    \
                              "FILE", "the opposite, as torch.nn.MultiheadAttention has it",       \
                              0,      0},                                                          \
        [(at) +                                                                                    \
            CALL_BIAS] = {NULL, "bias", 0, CLI_TEXT, "FILE", "added to the scores; -inf masks",    \
                          0,    0},                                                                \
        [(at) + CALL_ALIBI] = {NULL,                                                               \
                               "alibi",                                                            \
                               0,                                                                  \
                               CLI_TEXT,                                                           \
                               "auto|X,X,...|FILE",                                                \
                               "slopes a head: score - slope |distance of positions|",             \
                               0,                                                                  \
                               0},                                                                 \
        [(at) + CALL_BLOCKS] = {NULL,                                                              \
                                "blocks",                                                          \
                                0,                                                                 \
                                CLI_TEXT,                                                          \
                                "FILE",                                                            \
                                "key blocks that query blocks may see: integers start, "           \
                                "index, q_block and k_block in one .npz or .safetensors",          \
                                0,                                                                 \
                                0},                                                                \
        [(at) + CALL_THREADS] = {"Execution", "threads",                                           \
                                 0,           CLI_INTEGER,                                         \
                                 "N",         "threads to use (default: one a usable CPU)",        \
                                 0,           1024},                                               \
        [(at) + CALL_KERNEL] = {NULL,                                                              \
                                "kernel",                                                          \
                                0,                                                                 \
                                CLI_CHOICE,                                                        \
                                "auto|scalar|neon|avx2|avx512",                                    \
                                "instruction set (default auto: the best here)",                   \
                                0,                                                                 \
                                0},                                                                \
        [(at) +                                                                                    \
            CALL_PROGRESS] = {NULL, "progress",                                                    \
                              0,    CLI_FLAG,                                                      \
                              "",   "show progress from the start (default: when it takes long)",  \
                              0,    0},                                                            \
        [(at) +                                                                                    \
            CALL_QUIET] = {NULL, "quiet", 0, CLI_FLAG, "", "no summary, notes or progress", 0, 0}

/* How the rows of q lie in its file. */
typedef enum call_layout { CALL_BHSD, CALL_BSHD, CALL_SD } call_layout;

typedef struct cli_call {
    const cli_option *options; /* the rows above in the command's table, */
    const cli_value *o;        /* and what was given */
    call_layout layout;
    int rank; /* of q */
    const char *q_path, *k_path, *v_path;
    int all_f64;
    int64_t sequences; /* batch of q, or the number of segments */
    int64_t heads, tq, tk;
    attn_mask mask;
    attn_forward_args args;
} cli_call;

/* One of q, k, v: the tensor `name` of a file that holds several (or if `strict`). */
int cli_call_input(cli_call *call, const char *path, const char *name, int strict, const char *what,
                   attn_view *view);

/* Once q, k and perhaps v are there: their sizes; then mask, scale, softcap and sink. */
int cli_call_fill(cli_call *call);
int cli_fill_mask(cli_call *call);

/* A view [1 or B, H, 1, 1] of numbers that belong to heads: from "1,2" or from a file. */
int cli_head_numbers(const cli_call *call, int option, const char *name, attn_view *view);

/* Pairs of query and key that positions, windows and counts allow, times the query heads. */
double cli_call_pairs(const cli_call *call);

/* A context for the call, with progress. NULL after a message. */
attn_ctx *cli_call_context(const cli_call *call, cli_progress *progress);

/* The most frequent surprise: which of two unequal ends causal masks align. */
void cli_call_note(const cli_call *call);

/* A failed library call. The library names its own fields; the user knows options and files, which
 * are found in the command's whole table. */
int cli_call_failed(const cli_call *call, const cli_option *table, size_t count, attn_status status,
                    const attn_error *err);

#endif
