/* memory.h: keys and values that outlive a pass: those of hypotheses, which grow by a row a step,
 * and those of the sources that they belong to.
 *
 *     slot           self-attention: a run of `length` rows, one hypothesis's own. Row p is that of
 *                    its position p
 *     slot_of[i]     where hypothesis i lies: attention reads through this table, in any order
 *     cross          rows of the sources, one after the other; hypotheses of a source follow one
 *                    another and are rows of one call
 *
 * When a hypothesis has several children, one stays in its slot, others get slots of hypotheses
 * that died, if possible of the same source: such a slot holds the same rows up to where the two
 * parted, mostly a few steps ago, and only what follows is copied. (A table of single rows would
 * copy nothing, and attention would gather keys one by one: three times its time, measured.) */
#ifndef ATTN_NN_MEMORY_H
#define ATTN_NN_MEMORY_H

#include "src/nn/pass.h"

typedef struct attn__layer_memory {
    void *k, *v;       /* [slots][key heads][length][width]: what a head reads is one stream */
    attn_cache *cache; /* over them; slots are its pages, hypotheses its sequences */
    void *cross_k, *cross_v; /* of the sources: [key heads][tokens][width] */
} attn__layer_memory;

struct attn__memory {
    const attn_model *model;
    const attn_ctx *ctx;
    size_t unit; /* bytes of an element */

    /* Room. */
    size_t hypotheses, length, tokens, longest_source;
    size_t layers;
    attn__layer_memory *layer;
    void *block; /* all below */
    size_t block_size;

    /* Hypotheses, those of a source together, in the order of sources. */
    size_t count;
    int32_t *slot_of, *source_of;
    int64_t *held; /* rows */
    int32_t *next_slot, *next_from,
        *next_source; /* while they move; next_from: the parent's slot */
    int64_t *next_held;
    int64_t *first, *ends; /* first row of the first head, as rows of one head count, and how many
                            * rows with the one being made */
    int64_t *ordinal;      /* 0, 1, ... */
    bool *stays;           /* a child has the slot of number i */

    /* Slots. */
    int64_t *origin; /* [slots][length]: number of the row that lies there; equal rows, equal
                      * histories */
    int64_t *valid;  /* rows of each slot's last owner */
    int32_t *vacant;
    size_t vacant_count;
    int64_t rows_made;

    /* Sources; those that have no hypothesis left stay until others are added. */
    size_t sources;
    int64_t *keys_from, *keys_count; /* [sources + 1], [sources] */
    int64_t *rows_from;              /* [sources + 1]: hypotheses */
    size_t fresh_source, fresh;      /* the first source and hypothesis of the last addition */

    /* Tables of positions, `length` rows; see attn__side. */
    void *positions, *cosine, *sine, *minus_sine, *slopes;
    void *distances; /* T5: [heads][length], the bias of distance length - 1 first */
    void *bias;      /* T5, of a step: [hypotheses][heads][longest] */
    size_t longest;  /* most rows of a hypothesis, with the one being made */
};

/* Bytes and objects for so much, in the block that is there if it is large enough; makes what was
 * there before void. Room is what one asks for, no more. */
attn_status attn__memory_open(attn__memory *m, const attn_model *model, size_t hypotheses,
                              size_t length, size_t tokens, size_t longest_source, attn_error *err);
void attn__memory_close(attn__memory *m);

/* Forgets all hypotheses and sources. */
void attn__memory_clear(attn__memory *m);

/* One hypothesis for each sequence of a batch whose pass follows, which stores its rows: target
 * rows and source rows (NULL: no encoder) by their starts. There is room. */
void attn__memory_add(attn__memory *m, size_t segments, const int64_t *source_starts,
                      const int64_t *target_starts);

/* Hypothesis i becomes a copy of parents[i]; see attn_generator_step. */
void attn__memory_move(attn__memory *m, const int32_t *parents, size_t count);

/* Before the rows of a step, one a hypothesis: lengths, bias. */
attn_status attn__memory_prepare(attn__memory *m, attn_error *err);
/* They have been made. */
void attn__memory_advance(attn__memory *m);

/* From a pass or step: keys and values of a decoder's layer. */
void attn__memory_store(const attn__run *r, size_t layer, bool cross, const attn__heads *x);

#endif
