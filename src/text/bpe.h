/* bpe.h: byte-pair encoding: a word's characters, joined pair by pair in the order of merges. */
#ifndef ATTN_TEXT_BPE_H
#define ATTN_TEXT_BPE_H

#include "src/text/buffer.h"

/* The model of a file. Words are looked up among `names`; `ids` gives the id of each name. */
typedef struct attn__bpe {
    attn__strings names;
    uint32_t *ids;
    attn__table pairs;  /* left id << 32 | right id: the merge's place in the list */
    uint32_t *merged;   /* by place: the id of the two together */
    uint32_t byte[256]; /* byte_fallback: id of "<0x00>" and so on; ATTN__NONE */
    char *prefix;       /* continuing_subword_prefix, NULL if none */
    char *suffix;       /* end_of_word_suffix */
    uint32_t unknown;   /* id of unk_token, or ATTN__NONE */
    bool fuse_unknown, byte_fallback, ignore_merges;
} attn__bpe;

/* Working memory of a thread. */
typedef struct attn__bpe_work {
    attn__buffer symbols, heap, spelling;
} attn__bpe_work;

/* Appends the ids (uint32_t) of a word that is not empty. `raw`: its bytes are not UTF-8. False: no
 * memory. */
bool attn__bpe_word(const attn__bpe *model, attn__bpe_work *work, const char *word, size_t size,
                    bool raw, attn__buffer *ids);

void attn__bpe_free(const attn_ctx *ctx, attn__bpe *model);

#endif
