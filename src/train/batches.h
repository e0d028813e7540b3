/* batches.h: in which order a corpus is gone through, and how that is cut into steps.
 *
 * All of it is a function of the seed, the epoch and the corpus, so that a run goes on where it was
 * by counting. */
#ifndef ATTN_TRAIN_BATCHES_H
#define ATTN_TRAIN_BATCHES_H

#include "include/attn/train.h"

#include <stdbool.h>

/* Sequences order[from] .. order[to - 1]. */
typedef struct attn__run {
    int64_t from, to;
} attn__run;

typedef struct attn__batches {
    const attn_ctx *ctx;
    const attn_corpus *corpus;
    int64_t limit;  /* tokens a batch, on either side; one sequence may have more */
    int64_t bucket; /* lengths that go together */
    uint64_t seed;
    int64_t epoch; /* of which order and batches are; -1: none */
    int64_t *order;
    attn__run *batch;
    int64_t count; /* batches of the epoch */
    void *keys;
} attn__batches;

attn_status attn__batches_init(attn__batches *b, const attn_ctx *ctx, const attn_corpus *corpus,
                               int64_t limit, int64_t bucket, uint64_t seed, attn_error *err);
void attn__batches_free(attn__batches *b);

/* Makes order and batches of an epoch; nothing to do if they are those at hand. */
void attn__batches_epoch(attn__batches *b, int64_t epoch);

/* The longest run from `from` on (to `end`) within `limit` tokens on either side; at least one
 * sequence. */
attn__run attn__cut_run(const attn_corpus *corpus, const int64_t *order, int64_t from, int64_t end,
                        int64_t limit);

/* Tokens of a sequence; 0 if the corpus has no such side. */
int64_t attn__source_length(const attn_corpus *corpus, int64_t i);
int64_t attn__target_length(const attn_corpus *corpus, int64_t i);

/* A number out of two, as good as random (splitmix64's finisher). */
uint64_t attn__mix(uint64_t a, uint64_t b);

#endif
