/* generator.h: inside of a generator: first passes over sources and what is given of their outputs,
 * and steps of all hypotheses. Search is built on it. */
#ifndef ATTN_NN_GENERATOR_H
#define ATTN_NN_GENERATOR_H

#include "include/attn/generate.h"
#include "src/base/ctx.h"
#include "src/nn/memory.h"
#include "src/nn/model.h"

/* What a generator has room for. */
typedef struct attn__room {
    size_t hypotheses, length;     /* at a time; rows of each */
    size_t tokens, longest_source; /* of sources that are there at a time */
    /* Of a first pass. */
    size_t segments, source_tokens, target_rows, longest_target;
} attn__room;

struct attn_generator {
    const attn_model *model;
    const attn_ctx *ctx;
    attn_generator_options options;
    attn__copies copies;
    attn__memory memory;
    size_t vocabulary, stride; /* elements from one row of logits to the next */
    double factor;             /* of logits; of i8 copies it is part of their scale */
    float factor32;

    attn__room room; /* that of first passes; the rest is memory's */
    void *arena;     /* of first passes */
    size_t arena_size;
    int32_t *ids; /* of a first pass: sources, then targets */
    int64_t *starts;

    void *steps; /* the arena of steps */
    attn__run step;
    attn_batch nothing; /* what the step's run points to */

    void *last;   /* [rows][d]: hidden rows whose logits are wanted */
    void *logits; /* [rows][stride] */
    size_t logit_rows;
    int64_t limit; /* attn_generator_start's longest; -1: not started */

    struct attn__lane *lanes;
    size_t lane_count;
};

/* A generator of one thread over another's model and copies: where several such decode sources of
 * their own, no thread waits for the others after each product. */
typedef struct attn__lane {
    attn_ctx ctx;     /* the other's, of one thread */
    attn_model model; /* the other's, with this context */
    attn_generator generator;
} attn__lane;

/* The checked copy of a caller's batch, and the lengths of its longest source and target. A batch
 * without targets has none of its pointers. */
attn_status attn__generator_batch(const attn_generator *g, const attn_batch *from, attn_batch *to,
                                  int64_t *longest_source, int64_t *longest_target,
                                  attn_error *err);

/* Whether each sequence has what its first row sees. */
attn_status attn__generator_begins(const attn_generator *g, const attn_batch *batch,
                                   attn_error *err);

/* Tokens that are given of output i, and rows of a hypothesis that has so many tokens. */
int64_t attn__given(const attn_batch *batch, int64_t i);
int64_t attn__rows_of(const attn_generator *g, int64_t tokens);

/* Grows to so much room; hypotheses that are there are lost. */
attn_status attn__generator_room(attn_generator *g, const attn__room *room, attn_error *err);

/* Room for first passes alone, and for logits of so many rows. */
attn_status attn__generator_passes(attn_generator *g, const attn__room *room, attn_error *err);
attn_status attn__generator_logits(attn_generator *g, size_t rows, attn_error *err);

/* At least n lanes. What room each has is the caller's to say, in its options. */
attn_status attn__generator_lanes(attn_generator *g, size_t n, attn_error *err);

/* Adds a hypothesis for each sequence which[0..n-1] of a batch, after those that are there; row i
 * of g->logits is that of the i-th. of_given: log-probabilities of what is given, one sequence
 * after the other, or NULL. On failure nothing is there any more. */
attn_status attn__generator_add(attn_generator *g, const attn_batch *batch, const int64_t *which,
                                size_t n, double *of_given, attn_error *err);

/* Hypothesis i becomes a copy of parents[i]. */
void attn__generator_move(attn_generator *g, const int32_t *parents, size_t n);

/* Moves and makes a step; row i of g->logits is that of hypothesis i. On failure nothing is there
 * any more. */
attn_status attn__generator_advance(attn_generator *g, const int32_t *parents,
                                    const int32_t *tokens, size_t n, attn_error *err);

/* Logits of rows of hidden states, adjacent ones, into g->logits. */
attn_status attn__generator_project(attn_generator *g, const attn__run *r, const void *hidden,
                                    size_t rows, attn_error *err);

/* Log-probabilities of a batch's targets from the hidden states of its pass; `extra`: rows of each
 * sequence that are not to be scored, at its end. */
attn_status attn__generator_score(attn_generator *g, const attn__run *r, const void *hidden,
                                  const attn_batch *batch, int64_t extra, double *of_tokens,
                                  attn_error *err);

/* Row i of the logits. */
void *attn__logit_row(const attn_generator *g, size_t i);

#endif
