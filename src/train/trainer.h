/* trainer.h: a trainer's state; shared by its steps (trainer.c), what they ask of the model
 * (passes.c) and its checkpoints (state.c). */
#ifndef ATTN_TRAIN_TRAINER_H
#define ATTN_TRAIN_TRAINER_H

#include "include/attn/train.h"
#include "src/train/batches.h"

/* A part of a batch, gathered: sequences one after the other. */
typedef struct attn__part {
    int64_t sequences, first; /* the number in its batch of sequence 0 */
    int64_t source_tokens, target_tokens;
    int64_t *source_starts, *target_starts;
    int32_t *source, *target; /* as the model sees them */
    int32_t *goals;           /* what each row of hidden states is to say; -1: nothing */
    unsigned char *hits;
} attn__part;

/* The largest part there may be. */
typedef struct attn__limits {
    int64_t sequences, source_tokens, target_tokens;
    int64_t longest_source, longest_target;
} attn__limits;

struct attn_trainer {
    const attn_ctx *ctx;
    attn_model *model;
    attn_trainer_options options; /* completed */
    bool decodes, encodes;        /* the model has a decoder, an encoder beside it */
    bool shifts;                  /* goals are the ids that follow */
    attn_type type;
    int64_t elements;
    size_t bytes; /* of a block */

    void *gradients, *m, *v, *average;
    attn_span *kept;
    size_t kept_count;

    attn__batches batches;
    int64_t step, epoch, position; /* batches of the epoch that are done */

    attn__limits limits;
    attn__part part;
    attn_batch batch; /* t->part as the model wants it */
    attn_pass pass;
    void *arena;
    size_t arena_size;
    void *loss_memory;
    size_t loss_size;
};

/* passes.c: activations for parts within the limits, into t->arena_size. */
attn_status attn__passes_plan(attn_trainer *t, attn_error *err);

/* Forward over t->part; t->pass.hidden lies in the arena. `training`: with dropout, which `seed`
 * draws, and kept for a backward pass. */
attn_status attn__passes_forward(attn_trainer *t, bool training, uint64_t seed, attn_error *err);

#endif
