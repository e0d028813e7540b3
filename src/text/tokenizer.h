/* tokenizer.h: what a tokenizer holds. Made by the reader, never changed after. */
#ifndef ATTN_TEXT_TOKENIZER_H
#define ATTN_TEXT_TOKENIZER_H

#include "include/attn/text.h"
#include "src/text/bpe.h"
#include "src/text/steps.h"

/* A token that is cut out of the text before the model sees it. */
typedef struct attn__added {
    uint32_t id;
    bool special, single_word, left, right, normalized;
} attn__added;

/* Tokens by their beginnings: a tree of bytes. Node 0 is the root. */
typedef struct attn__tree {
    attn__table steps; /* node << 8 | byte: the next node */
    attn__buffer ends; /* by node: uint32_t place in `added`, ATTN__NONE */
    bool starts[256];  /* bytes that tokens begin with */
    bool any;
} attn__tree;

struct attn_tokenizer {
    const attn_ctx *ctx;
    attn__buffer json;
    attn__strings texts;    /* of tokens: as the file spells them, and as decoders get them */
    uint32_t *spelt;        /* by id: number in texts, ATTN__NONE */
    uint32_t *spoken;       /* by id: the same, normalised if the token is */
    unsigned char *special; /* by id */
    uint32_t *text_ids;     /* by number in texts: the id so spelt, ATTN__NONE */
    size_t id_count;
    attn__buffer added;               /* attn__added */
    attn__tree raw_tree, normal_tree; /* over the text as it came, and as normalised */
    attn__pattern *word; /* one character of a word; NULL unless some token is a single word */
    attn__steps normalizer, splitter, decoder;
    attn__bpe model;
    attn__buffer before, after; /* uint32_t: what the post-processor puts around a text */
};

/* Fills a zeroed tokenizer, whose ctx and json are set. */
attn_status attn__read_tokenizer(attn_tokenizer *tokenizer, size_t max_values, attn_error *err);

/* Adds a token's text to a tree; false: no memory. *taken: the text was there. */
bool attn__tree_add(attn__tree *tree, const char *text, size_t size, uint32_t place, bool *taken);
void attn__tree_free(attn__tree *tree);

/* Cuts text[0..size), which begins at `base` of a buffer, at the tokens of a tree: appends spans of
 * the token or like `like` to the work's next_spans. `specials`: special tokens count too. */
attn_status attn__cut_added(const attn_tokenizer *tokenizer, const attn__tree *tree,
                            attn__work *work, const char *text, size_t size, size_t base,
                            const attn__span *like, bool specials, attn_error *err);

/* Brings a text to words: the work's spans. */
attn_status attn__text_words(const attn_tokenizer *tokenizer, attn__work *work, const char *text,
                             size_t size, bool added, bool specials, attn_error *err);

#endif
