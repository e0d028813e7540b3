/* generate.h: what a decoder says next: incremental decoding of the models of nn.h, search over it
 * (greedy, beam, sampling), and the scores of given outputs.
 *
 * Words: a *source* is one sequence of the batch, with an encoder or without; a *hypothesis* is a
 * beginning of its output. Without an encoder the beginning is the caller's prompt.
 *
 * What a hypothesis has seen is kept: keys and values of self-attention once for each of its
 * tokens, those of cross-attention once for each source, which all hypotheses of the source share.
 * Hypotheses that move, multiply or die move numbers of rows, never keys. Each weight matrix is
 * read once a step, for the rows of all hypotheses of all sources together. Where there is enough
 * for all workers of the context, each decodes a share of the sources by itself, and reads weights
 * for these.
 *
 * Bits: hidden states, logits, tokens and scores of a source are functions of the model, of the
 * source itself and of the options (sampling: of its number too); never of other sources, their
 * order, threads, or how many are decoded at a time. They are those of attn_model_forward over the
 * whole of source and hypothesis.
 *
 * The rules of attn.h hold: what the caller passes is borrowed for the call, nothing prints. */
#ifndef ATTN_GENERATE_H
#define ATTN_GENERATE_H

#include "nn.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- The generator -------------------------------------------------------------------------- */

/* Weights of a model as products like to read them, and the memory of a decoder. It serves one
 * thread at a time; each thread that generates makes its own. The model must outlive it, and its
 * weights may not change meanwhile. */
typedef struct attn_generator attn_generator;

typedef struct attn_generator_options {
    size_t struct_size;
    /* Type of the copies of the weight matrices, embeddings not among them. F32 (the default): the
     * model's own. F16 and BF16: rounded to nearest even. I8: a row w is kept as s = max|w| / 127
     * and round(w / s), nearest even. Other than F32 only for models of type f32. Products are
     * accumulated in f32 whatever this is; bits then differ from attn_model_forward's. */
    attn_type weights;
    int64_t hypotheses; /* 0: 256. As many are decoded at a time at most; more is faster, up to some
                         * hundreds */
    int64_t positions;  /* 0: 128 * hypotheses. Bound for the rows of keys and values that are kept
                         * in each layer, hypotheses times the length that they may reach; one
                         * source alone may exceed it */
} attn_generator_options;
#define ATTN_GENERATOR_OPTIONS_INIT ATTN_INIT(attn_generator_options)

/* Copies the weights. `options` may be NULL. On failure *out is NULL. Errors: ATTN_E_ARGUMENT (a
 * model without decoder or output matrix, options), ATTN_E_MEMORY. */
ATTN_API attn_status attn_generator_create(const attn_model *model,
                                           const attn_generator_options *options,
                                           attn_generator **out, attn_error *err);
ATTN_API void attn_generator_destroy(attn_generator *generator);

/* --- Search --------------------------------------------------------------------------------- */

/* What log-probability is divided by to become the score of a hypothesis of `length` tokens. The
 * end token is one of them if end_counted. */
typedef enum attn_length_penalty {
    ATTN_LENGTH_NONE = 0, /* 1 */
    ATTN_LENGTH_GNMT,     /* ((5 + length) / 6)^alpha: the paper, 0.6 */
    ATTN_LENGTH_POWER     /* length^alpha; 1 for no token */
} attn_length_penalty;

/* When a source is done. */
typedef enum attn_stop {
    ATTN_STOP_BOUND = 0, /* when no hypothesis that lives can come to beat the last of `best`: if
                          * all it still had to say were certain, at its most favourable length.
                          * What is found does not depend on `best` */
    ATTN_STOP_COUNT      /* as soon as `beam` have ended: sooner, and maybe without the best. A beam
                          * of 1 stops so, whatever this is */
} attn_stop;

typedef struct attn_hypothesis {
    const int32_t *tokens; /* the output: with an encoder the whole, forced prefix included; without
                            * what follows the prompt. Without the end token */
    int64_t count;
    int32_t end;             /* the end token it ended with; -1: cut off, see longest */
    double score;            /* see attn_length_penalty */
    double log_probability;  /* the sum of: */
    const double *of_tokens; /* natural logarithms of the model's probability for each token, and
                              * after them, unless end is -1, for the end. `count` + 1 or `count` */
} attn_hypothesis;

/* A source is done: its hypotheses, best first (samples: in the order of their numbers). `source`
 * counts from 0 in the batch. Calls of one attn_generate come one at a time, from any worker of the
 * context, in the order in which sources happen to end. What is pointed to lasts until the return.
 * Non-zero cancels the call. */
typedef int (*attn_generated_fn)(void *user, int64_t source, const attn_hypothesis *hypotheses,
                                 size_t count);

/* Hypothesis `number` of a source has said one more token, the end token too: for text that shall
 * appear as it is made. Greedy search and sampling only. Comes as attn_generated_fn does, never
 * beside it. Non-zero cancels the call. */
typedef int (*attn_token_fn)(void *user, int64_t source, int64_t number, int32_t token);

/* Numbers left 0 mean what is named first. */
typedef struct attn_generate_options {
    size_t struct_size;

    int64_t beam; /* 1: greedy search; hypotheses of a source. Sampling: samples of a source. Not
                   * above the generator's hypotheses */
    int64_t best; /* 1; how many to hand out, up to `beam`. Sampling: all, whatever this is */

    attn_length_penalty penalty;
    double alpha;    /* >= 0, finite; 0: no penalty */
    int end_counted; /* non-zero: see attn_length_penalty */
    attn_stop stop;

    const int32_t *ends; /* tokens that end a hypothesis; NULL: none */
    size_t end_count;
    /* Tokens that are never chosen (padding, the start, ...). Of what is given, and of
     * probabilities, nothing changes. */
    const int32_t *banned;
    size_t banned_count;

    int64_t longest;   /* tokens of a hypothesis, as attn_hypothesis counts them. 0: those of its
                       * source and 50; without an encoder 256; or as many as there are learned
                       * positions. Given: more than there are is an error. One that has so many can
                       * only end (ends[0] is added); sampled, or without `ends`: is cut off. So is
                       * the last one when no token is left that may be chosen */
    int64_t shortest;  /* before so many tokens it cannot end */
    int64_t no_repeat; /* n > 0: never the same n tokens in a row twice (prefix included, the prompt
                        * not) */

    /* Sampling. Next tokens are drawn by softmax(logits / temperature), over the top_k most
     * probable tokens only, and of these over the fewest that together have top_p. Draws are a
     * function of the seed, the number of the source (batch->first_segment + its place), that of
     * the sample, and of how many tokens it has. */
    int sample;
    double temperature; /* 1; > 0 */
    int64_t top_k;      /* 0: all */
    double top_p;       /* 0 means 1; 0 < p <= 1 */
    uint64_t seed;

    attn_generated_fn done;
    attn_token_fn token; /* or NULL */
    void *user;
} attn_generate_options;
#define ATTN_GENERATE_OPTIONS_INIT ATTN_INIT(attn_generate_options)

/* Generates for every sequence of the batch, of which there may be any number: they are decoded
 * longest first, as many at a time as the generator takes, and leave as they end. batch->source is
 * what encoders read; token types are 0, and must not be given. batch->target holds what is given
 * of the output, or NULL with target_starts NULL: with an encoder a forced prefix, which counts as
 * part of the hypothesis in its length and score; without an encoder the prompt, which does not. A
 * model without encoder whose start is ATTN_START_NONE needs at least one token of it.
 *
 * Beam search: of all hypotheses of a source, each followed by each token, the 2 * beam of the
 * largest log-probability are ordered by it, then by hypothesis, then by token. Of these the first
 * `beam` end if their token does; the first `beam` others live on. Hypotheses that have ended are
 * ordered by score, the one found first before its equals.
 *
 * Memory grows to what sources need before they are computed and is kept for the next call; steps
 * allocate nothing.
 * Errors: ATTN_E_ARGUMENT (also: logits that are NaN), ATTN_E_MEMORY, ATTN_E_CANCELLED (by a
 * callback, or the context's progress). Sources that were handed to `done` before are done. */
ATTN_API attn_status attn_generate(attn_generator *generator, const attn_batch *batch,
                                   const attn_generate_options *options, attn_error *err);

/* --- Scores of given outputs ---------------------------------------------------------------- */

typedef struct attn_score_args {
    size_t struct_size;
    const attn_batch *batch; /* sources and whole outputs; the end token is scored if it is there */
    double *of_tokens; /* [target tokens] natural logarithms of probabilities, or NULL. Without a
                        * shift (ATTN_START_NONE) the first token of a sequence has none: 0 */
    double *sums;      /* [segments] of each sequence; or NULL */
    /* What the pass looks at, as attn_pass has it, or NULL: the attention of a hypothesis that was
     * found is that of its output, which has the same bits as when it was made. */
    const attn_look *looks;
    size_t look_count;
} attn_score_args;
#define ATTN_SCORE_ARGS_INIT ATTN_INIT(attn_score_args)

/* Log-probabilities of the targets of a batch, in one pass: the numbers that attn_generate sums, to
 * the bit. What attn_generator_start began stays, but for the logits. Errors: as
 * attn_model_forward; memory grows as for attn_generate. */
ATTN_API attn_status attn_generate_score(attn_generator *generator, const attn_score_args *args,
                                         attn_error *err);

/* --- Step by step --------------------------------------------------------------------------- */

/* For searches of one's own. One hypothesis for each sequence of the batch (targets: what is given
 * of them, see attn_generate), none of which will have more than `longest` tokens with what is
 * given. Memory grows to options.hypotheses of so many tokens. logits: [1, 1, segments, V] of the
 * model's type, in memory of the generator's that the caller may write to, until the next call.
 * Errors: as attn_generate; ATTN_E_ARGUMENT also for more sequences than hypotheses. */
ATTN_API attn_status attn_generator_start(attn_generator *generator, const attn_batch *batch,
                                          int64_t longest, attn_view *logits, attn_error *err);

/* The next set of hypotheses: number i is number parents[i] of the present set followed by
 * tokens[i]. A parent may have many children or none. Sources stay in order: those of parents[i]
 * ascend with i. logits: [1, 1, count, V]. count = 0 is legal and ends it. Errors: ATTN_E_ARGUMENT
 * (parents, tokens, count above the generator's hypotheses, not started), ATTN_E_FULL (`longest`):
 * the present set is then as it was; ATTN_E_MEMORY, ATTN_E_CANCELLED: it is gone. */
ATTN_API attn_status attn_generator_step(attn_generator *generator, const int32_t *parents,
                                         const int32_t *tokens, int64_t count, attn_view *logits,
                                         attn_error *err);

#ifdef __cplusplus
}
#endif
#endif
