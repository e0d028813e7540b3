/* pictures.h: figures for the tests of src/viz, and what reads pictures back. */
#ifndef ATTN_TESTS_PICTURES_H
#define ATTN_TESTS_PICTURES_H

#include "include/attn/viz.h"
#include "tests/support.h"

/* Patterns of heads, as models have them. Weights of n queries and keys, causal, rows that sum to
 * 1. */
typedef enum pattern {
    PATTERN_SINK,     /* most of it on the first key */
    PATTERN_PREVIOUS, /* the key before */
    PATTERN_BROAD,    /* nearly even */
    PATTERN_STRIPES,  /* keys at a fixed distance, and a band */
    PATTERN_BLOCKS,   /* inside sentences */
    PATTERN_COUNT
} pattern;

attn_view pattern_weights(arena *a, pattern kind, int64_t n, uint64_t seed);

/* Keep mask of causal attention. */
attn_view causal_mask(arena *a, int64_t n);

/* Labels of the words of a text, split before each blank. */
attn_label *words_of(arena *a, const char *text, int64_t *count);

/* Tokens that want to be more than text. `count` of them, 64 or fewer. */
attn_label *hostile_tokens(arena *a, int64_t count);

/* A figure of every kind, with all that belongs to it. NULL name after the last. */
typedef struct picture {
    const char *name;
    attn_figure figure;
} picture;

picture picture_at(arena *a, size_t i);

/* 12 layers of 12 heads over 512 tokens; not among the above. */
attn_figure picture_model(arena *a);

/* Bytes of a picture, in the arena, terminated. */
typedef struct picture_bytes {
    char *data;
    size_t size;
} picture_bytes;

/* attn_figure_emit; fails the test unless the status is OK. */
picture_bytes picture_emit(arena *a, const attn_figure *figure, attn_picture format);

/* Whether they are well-formed UTF-8. */
int picture_is_utf8(const picture_bytes *b);

#endif
