/* nn_step.h: a model, a random batch and one pass over it, for tests of nn.h. */
#ifndef ATTN_TESTS_NN_STEP_H
#define ATTN_TESTS_NN_STEP_H

#include "include/attn/nn.h"
#include "tests/expect.h"

enum { STEP_SEGMENTS = 8 };

typedef struct step {
    arena memory;
    attn_model *model;
    attn_batch batch;
    attn_batch_limits limits;
    attn_pass pass;
    int32_t *source, *target;
    int32_t *types; /* of source tokens, if the model has any */
    int64_t source_starts[STEP_SEGMENTS + 1], target_starts[STEP_SEGMENTS + 1];
    void *dhidden; /* as many elements as hidden, or NULL */
    void *gradients;
    size_t block_bytes;
} step;

/* A model of this configuration; fails the test if it cannot be made. */
attn_model *step_model(const attn_model_config *c, int threads, uint64_t seed);

/* Random sequences of up to `longest` tokens, some of them empty. The model is the caller's. */
void step_init(step *s, attn_model *model, rng *r, int64_t segments, int64_t longest);

/* Plans, takes memory, runs forward (dhidden: bells, drawn once) and, with ATTN_PASS_BACKWARD,
 * backward into zeroed gradients. May be called again. */
void step_run(step *s, int flags, uint64_t seed);
void step_forward(step *s, int flags, uint64_t seed);
void step_end(step *s);

/* Every tensor of an f64 model, along a random direction: the derivative by it against a central
 * difference, with dropout as in training. relu has corners, but no sum is likely to be within 1e-6
 * of one. Changes the model's biases. */
void step_differences(attn_model *model, rng *r, int variant);

double step_get(const attn_view *v, int64_t i);
void step_put(const attn_view *v, int64_t i, double x);

/* A small configuration that uses what `variant` picks: norms, positions, widths, scores, types,
 * dropout. */
attn_model_config step_config(int variant);
enum { STEP_VARIANTS = 28 };

#endif
