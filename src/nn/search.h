/* search.h: the search of one source: its hypotheses as tokens and sums. Which rows of logits they
 * belong to, and in which order sources come, is generate.c's. */
#ifndef ATTN_NN_SEARCH_H
#define ATTN_NN_SEARCH_H

#include "include/attn/generate.h"
#include "src/nn/choose.h"

/* A beginning, or a whole: its tokens are `count`, their numbers follow as many; `end` (-1: none)
 * and its number come last. */
typedef struct attn__saying {
    int32_t *tokens;
    double *of_tokens;
    int64_t count;
    int32_t end;
    double sum, score;
    int64_t number; /* of a sample */
} attn__saying;

/* What all searches of a call share. */
typedef struct attn__search_rules {
    const attn_generate_options *o; /* completed */
    size_t beam, best;
    int64_t room;            /* tokens that a saying has room for */
    attn__candidate *merged; /* [2 beam] */
    int32_t *by;             /* [2 beam]: hypotheses of the merged */
} attn__search_rules;

typedef struct attn__search {
    int64_t source;            /* of the batch */
    int64_t longest;           /* tokens of its hypotheses */
    attn__saying *live, *next; /* [beam] each */
    attn__saying *ended;       /* [best] of them, best first; samples: [beam] by number */
    size_t live_count, ended_count, ended_ever;
    bool fresh; /* samples: the one hypothesis stands for all */
    bool done;
} attn__search;

/* Bytes of a search's sayings; lays them out from `memory` on, unless that is NULL. */
size_t attn__search_size(const attn__search_rules *r, attn__search *s, void *memory);

/* One hypothesis that has said what is given, or nothing. */
void attn__search_open(const attn__search_rules *r, attn__search *s, int64_t source,
                       int64_t longest, const int32_t *given, const double *of_given,
                       int64_t count);

/* Whether hypotheses may no longer grow, or not yet end. */
bool attn__search_full(const attn__search *s);
bool attn__search_early(const attn__search_rules *r, const attn__search *s);

bool attn__is_end(const attn_generate_options *o, int32_t token);

/* Takes the candidates of each living hypothesis, [live_count][each], of which count[i] are there.
 * parents and tokens get what lives on, numbers within the source; live_count becomes how many. */
void attn__search_advance(const attn__search_rules *r, attn__search *s, const attn__candidate *from,
                          size_t each, const size_t *count, int32_t *parents, int32_t *tokens);

/* The same of samples: the first candidate of each, of a fresh one as many as there are samples;
 * token -1: none, it is cut off. */
void attn__search_draw(const attn__search_rules *r, attn__search *s, const attn__candidate *from,
                       size_t each, int32_t *parents, int32_t *tokens);

#endif
