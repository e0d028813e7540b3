/* generation.h: what tests of generate.h share: models, sequences, and logits by a whole pass. */
#ifndef ATTN_TESTS_GENERATION_H
#define ATTN_TESTS_GENERATION_H

#include "include/attn/generate.h"
#include "tests/expect.h"

/* Configurations of models that generate: those of nn_step.h with an encoder and without, and every
 * start. */
attn_model_config generation_config(int variant);
enum { GENERATION_VARIANTS = 56 };

/* A source and the beginning of its output. */
typedef struct sequence {
    const int32_t *source, *target;
    int64_t sources, targets;
} sequence;

/* Logits that follow it: one pass over all of it, one product with the output matrix. Memory of the
 * arena; `memory` only grows. */
attn_view whole_logits(arena *memory, const attn_model *m, const sequence *s);

/* The same as log-probabilities, in double. */
double *whole_log_probabilities(arena *memory, const attn_model *m, const sequence *s);

/* A batch of sequences; its arrays are the arena's. */
attn_batch batch_of(arena *memory, const sequence *s, int64_t n);

/* Random ids below `words`. */
int32_t *random_ids(arena *memory, rng *r, int64_t n, int64_t words);

/* --- Toys: six words, END among them, PAD banned ------------------------------------------- */

enum { WORDS = 6, END = 1, PAD = 0, LONG = 24, MANY = 200 };

/* One layer; the output matrix times `sharp`. */
attn_model *toy_model(attn_stack stack, attn_type type, uint64_t seed, double sharp);
attn_generator *toy_generator(const attn_model *m, int64_t hypotheses);

/* Up to `longest` random words each, up to `prefix` of the output given. */
void toy_sequences(arena *memory, rng *r, sequence *s, int n, int64_t longest, int64_t prefix);

/* The hypotheses of a source, as they were handed out. */
typedef struct found {
    int count;
    struct {
        int32_t tokens[LONG];
        int64_t count;
        int32_t end;
        double score, sum, of_tokens[LONG + 1];
    } at[MANY];
} found;

/* attn_generated_fn: `user` are found's, one a source. */
int toy_collect(void *user, int64_t source, const attn_hypothesis *h, size_t count);

/* END, PAD and toy_collect. */
attn_generate_options toy_options(void);

/* Generates for n sequences in new found's, which are the arena's. */
found *toy_generate(arena *memory, attn_generator *g, const sequence *s, int64_t n,
                    attn_generate_options *o);

#endif
