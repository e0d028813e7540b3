/* generation.h: what tests of generate.h share: models, sequences, and logits by a whole pass. */
#ifndef ATTN_TESTS_GENERATION_H
#define ATTN_TESTS_GENERATION_H

#include "include/attn/generate.h"
#include "tests/expect.h"

/* Configurations of models that generate: those of nn_step.h with an encoder and without, and every
 * start. */
attn_model_config generation_config(int variant);
enum { GENERATION_VARIANTS = 48 };

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

#endif
