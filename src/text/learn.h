/* learn.h: the parts of training a vocabulary. */
#ifndef ATTN_TEXT_LEARN_H
#define ATTN_TEXT_LEARN_H

#include "src/text/tokenizer.h"

/* Words as symbols: ids of pieces. */
typedef struct attn__learn_word {
    uint64_t count;
    size_t start; /* in symbols */
    uint32_t size;
} attn__learn_word;

typedef struct attn__learner {
    const attn_ctx *ctx;
    attn__strings pieces; /* by id; grows */
    attn__buffer symbols; /* uint32_t */
    attn__buffer words;   /* attn__learn_word */
    attn__buffer merges;  /* uint64_t: left << 32 | right, in their order */
    size_t size;          /* pieces wanted */
    uint64_t min_count;
} attn__learner;

/* Joins the most frequent pair again and again, until there are pieces enough or no pair is left
 * that is seen min_count times. The words are used up. */
attn_status attn__learn_merges(attn__learner *learner, attn_error *err);

#endif
