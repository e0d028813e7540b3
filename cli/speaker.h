/* speaker.h: what `attn translate` and `attn generate` share: a model that says text, its options,
 * and pictures of what it looked at while it spoke. */
#ifndef ATTN_CLI_SPEAKER_H
#define ATTN_CLI_SPEAKER_H

#include "cli/console.h"
#include "cli/options.h"
#include "include/attn/generate.h"
#include "include/attn/text.h"
#include "include/attn/viz.h"

/* Options of both, in the order of SPEAKER_ROWS. */
enum {
    SPEAKER_MODEL,
    SPEAKER_TOKENIZER,
    SPEAKER_WEIGHTS,
    SPEAKER_THREADS,
    SPEAKER_KERNEL,
    SPEAKER_LONGEST,
    SPEAKER_SHORTEST,
    SPEAKER_NO_REPEAT,
    SPEAKER_SHOW,
    SPEAKER_KIND,
    SPEAKER_HEADS,
    SPEAKER_MEAN,
    SPEAKER_BY,
    SPEAKER_DARK,
    SPEAKER_JSON,
    SPEAKER_QUIET,
    SPEAKER_OPTIONS
};

/* Their rows of a command's table, from place `at` on. */
#define SPEAKER_ROWS(at)                                                                           \
    [(at) +                                                                                        \
        SPEAKER_MODEL] = {"Model",                                                                 \
                          "model",                                                                 \
                          'm',                                                                     \
                          CLI_TEXT,                                                                \
                          "FOLDER",                                                                \
                          "holds model.safetensors and tokenizer.json, as attn train leaves "      \
                          "them; or the model's file itself",                                      \
                          0,                                                                       \
                          0},                                                                      \
        [(at) + SPEAKER_TOKENIZER] = {NULL,   "tokenizer",                                         \
                                      0,      CLI_TEXT,                                            \
                                      "FILE", "this tokenizer.json, not the one beside the model", \
                                      0,      0},                                                  \
        [(at) +                                                                                    \
            SPEAKER_WEIGHTS] = {NULL,                                                              \
                                "weights",                                                         \
                                0,                                                                 \
                                CLI_CHOICE,                                                        \
                                "f32|f16|bf16|i8",                                                 \
                                "type the weight matrices are kept in (default f32: as trained)",  \
                                0,                                                                 \
                                0},                                                                \
        [(at) + SPEAKER_THREADS] =                                                                 \
            {NULL, "threads",                                                                      \
             0,    CLI_INTEGER,                                                                    \
             "N",  "threads to use (default: one a usable CPU); changes no output",                \
             0,    1024},                                                                          \
        [(at) + SPEAKER_KERNEL] = {NULL,                                                           \
                                   "kernel",                                                       \
                                   0,                                                              \
                                   CLI_CHOICE,                                                     \
                                   "auto|scalar|neon|avx2|avx512",                                 \
                                   "instruction set (default auto: the best here)",                \
                                   0,                                                              \
                                   0},                                                             \
        [(at) +                                                                                    \
            SPEAKER_LONGEST] = {"Length",                                                          \
                                "max-length",                                                      \
                                0,                                                                 \
                                CLI_INTEGER,                                                       \
                                "N",                                                               \
                                "tokens of an output at most (default: those of its source and "   \
                                "50, or 256 without one)",                                         \
                                1,                                                                 \
                                1e6},                                                              \
        [(at) + SPEAKER_SHORTEST] = {NULL,        "min-length", 0,                                 \
                                     CLI_INTEGER, "N",          "tokens before it may end",        \
                                     0,           1e6},                                            \
        [(at) + SPEAKER_NO_REPEAT] = {NULL, "no-repeat",                                           \
                                      0,    CLI_INTEGER,                                           \
                                      "N",  "never the same N tokens in a row twice",              \
                                      0,    1e6},                                                  \
        [(at) +                                                                                    \
            SPEAKER_SHOW] = {"Attention",                                                          \
                             "show",                                                               \
                             0,                                                                    \
                             CLI_TEXT,                                                             \
                             "FILE",                                                               \
                             "draw what each word looked at; the ending decides: .png, .svg, "     \
                             ".html (choose layer and head there), .txt; - draws below the text",  \
                             0,                                                                    \
                             0},                                                                   \
        [(at) + SPEAKER_KIND] = {NULL,                                                             \
                                 "kind",                                                           \
                                 0,                                                                \
                                 CLI_CHOICE,                                                       \
                                 "map|grid|lines",                                                 \
                                 "one heat map, all heads as thumbnails, or lines between words. " \
                                 "Default: map for one head, -, and .html; else grid",             \
                                 0,                                                                \
                                 0},                                                               \
        [(at) + SPEAKER_HEADS] = {NULL,                                                            \
                                  "heads",                                                         \
                                  0,                                                               \
                                  CLI_TEXT,                                                        \
                                  "L.H,...",                                                       \
                                  "only these: layer.head from 0, or a layer for all its heads "   \
                                  "(default all)",                                                 \
                                  0,                                                               \
                                  0},                                                              \
        [(at) + SPEAKER_MEAN] = {NULL, "mean",                                                     \
                                 0,    CLI_FLAG,                                                   \
                                 "",   "draw the mean of the heads (- does so by itself)",         \
                                 0,    0},                                                         \
        [(at) +                                                                                    \
            SPEAKER_BY] = {NULL,                                                                   \
                           "by",                                                                   \
                           0,                                                                      \
                           CLI_CHOICE,                                                             \
                           "word|blank|piece",                                                     \
                           "words and signs (default: of one looked at the sum over its pieces, "  \
                           "of one said the mean over its own), words as blanks part them, or "    \
                           "the model's pieces",                                                   \
                           0,                                                                      \
                           0},                                                                     \
        [(at) + SPEAKER_DARK] = {NULL, "dark", 0, CLI_FLAG, "", "light text on dark", 0, 0},       \
        [(at) +                                                                                    \
            SPEAKER_JSON] = {"Output", "json", 0, CLI_FLAG, "", "one JSON object a text", 0, 0},   \
        [(at) + SPEAKER_QUIET] = {                                                                 \
            NULL, "quiet", 'q', CLI_FLAG, "", "no progress, notes and totals", 0, 0}

typedef struct speaker {
    const cli_value *o; /* the options above */
    char *model_path, *tokenizer_path;
    attn_ctx *ctx;
    attn_model *model;
    const attn_model_config *config;
    attn_tokenizer *tokenizer;
    attn_text_encoder *encoder;
    attn_text_decoder *decoder; /* U+FFFD for what is not UTF-8, no special tokens */
    attn_generator *generator;
    int32_t end;     /* what ends a text */
    int32_t *banned; /* special tokens but that one */
    size_t banned_count;
} speaker;

/* Opens all of it, for a model of that stack. `hypotheses` and `positions` as in
 * attn_generator_options. Returns 0 or an exit code after a message; either way speaker_close. */
int speaker_open(speaker *s, attn_stack stack, int64_t hypotheses, int64_t positions);
void speaker_close(speaker *s);

/* Sets what the options above say and what ends a text. */
void speaker_limits(const speaker *s, attn_generate_options *g);

/* Ids of a text, in cli_take's memory, with room for one more. 0 or an exit code after a message
 * that names `what`. */
int speaker_encode(speaker *s, const char *what, const char *text, size_t size, int32_t **ids,
                   int64_t *count);

/* The text of ids: UTF-8, terminated, in cli_take's memory. */
char *speaker_text(speaker *s, const int32_t *ids, int64_t count, size_t *size);

/* --- Attention ------------------------------------------------------------------------------ */

/* Values of --by. */
typedef enum speaker_by { SPEAKER_WORDS, SPEAKER_BLANKS, SPEAKER_PIECES } speaker_by;

/* Whether the mean of the heads takes their place, or stands before them. */
typedef enum speaker_mean { SPEAKER_NO_MEAN, SPEAKER_ONLY_MEAN, SPEAKER_MEAN_FIRST } speaker_mean;

/* What was looked at: maps of all heads, rows what was said, columns what was looked at. Memory is
 * cli_take's. */
typedef struct speaker_maps {
    int64_t count;         /* maps */
    int64_t *layer, *head; /* of each; -1: a mean */
    int64_t rows, columns;
    float *cells;     /* [count][rows][columns] */
    uint8_t *allowed; /* [rows][columns]: how many pairs of pieces may look; NULL: all */
    attn_label *row_labels, *column_labels;
    int64_t row_ends, column_ends; /* 1 if the last row or column is the end of the text */
} speaker_maps;

/* Cross-attention while `target` was said to `source`; without a source, self-attention. Heads
 * as --heads says. Returns 0 or an exit code after a message. */
int speaker_look(speaker *s, const int32_t *source, int64_t source_count, const int32_t *target,
                 int64_t target_count, speaker_by by, speaker_mean mean, speaker_maps *out);

/* Checks --show, --kind and --heads before anything is computed; draws, with the texts in a
 * line above. */
int speaker_check_show(const speaker *s);
int speaker_draw(const speaker *s, const speaker_maps *maps, const char *texts);

/* What the picture that --show asks for wants. */
speaker_mean speaker_mean_of(const speaker *s);

/* Whether --show asks for a picture below each text. */
int speaker_shows_below(const speaker *s);

#endif
