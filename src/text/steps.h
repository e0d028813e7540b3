/* steps.h: what a tokenizer.json does to text before and after its model: lists of steps, nested
 * sequences laid flat. */
#ifndef ATTN_TEXT_STEPS_H
#define ATTN_TEXT_STEPS_H

#include "src/text/buffer.h"
#include "src/text/pattern.h"
#include "src/text/unicode.h"

typedef enum attn__step_kind {
    /* normalizers */
    ATTN__NORMAL_FORM,
    ATTN__LOWERCASE,
    ATTN__STRIP_ACCENTS,
    ATTN__REPLACE, /* and decoder */
    ATTN__PREPEND,
    ATTN__STRIP,       /* white space off both ends of a text */
    ATTN__BYTE_LEVEL,  /* bytes to visible characters; also pre-tokenizer, and decoder */
    ATTN__METASPACE,   /* pre-tokenizer, and decoder */
    ATTN__SPLIT,       /* by `pattern` */
    ATTN__SPLIT_CLASS, /* by `is_in` */
    /* decoders */
    ATTN__BYTE_FALLBACK,
    ATTN__FUSE,
    ATTN__STRIP_TOKEN,
    ATTN__SUFFIX, /* BPEDecoder */
    ATTN__JOIN    /* what a file without a decoder does: a space between tokens */
} attn__step_kind;

typedef enum attn__behaviour {
    ATTN__REMOVED,
    ATTN__ISOLATED,
    ATTN__WITH_PREVIOUS,
    ATTN__WITH_NEXT,
    ATTN__CONTIGUOUS
} attn__behaviour;

typedef enum attn__prepend { ATTN__ALWAYS, ATTN__FIRST, ATTN__NEVER } attn__prepend;

typedef struct attn__step {
    attn__step_kind kind;
    attn__form form;
    attn__behaviour behaviour;
    attn__prepend prepend;
    bool invert;             /* SPLIT: what does not match is the match */
    bool space_first;        /* BYTE_LEVEL: each text begins with a space */
    bool left, right;        /* STRIP */
    size_t starts, stops;    /* STRIP_TOKEN: at most so many at each end */
    bool (*is_in)(uint32_t); /* SPLIT_CLASS */
    attn__pattern *pattern;  /* BYTE_LEVEL: NULL if it does not split */
    char *text;              /* REPLACE: the new; PREPEND; METASPACE, STRIP_TOKEN: one character;
                               SUFFIX */
    size_t size;
    bool splits; /* METASPACE */
} attn__step;

typedef struct attn__steps {
    attn__step *items;
    size_t count;
} attn__steps;

void attn__steps_free(const attn_ctx *ctx, attn__steps *steps);

/* A part of the text under way: a token that was found in it, or text that is still to be cut. */
typedef struct attn__span {
    size_t start, size; /* in attn__work.text */
    uint32_t id;        /* ATTN__NONE: text */
    bool first;         /* begins where the whole text begins */
    bool raw;           /* bytes that are not UTF-8 */
    bool joined;        /* follows such bytes: no space is put before it */
} attn__span;

/* The text under way. Steps read `text` and `spans` and write the next ones, then they change
 * places. */
typedef struct attn__work {
    const attn_ctx *ctx;
    attn__buffer text, next_text;
    attn__buffer spans, next_spans;
    attn__buffer parts; /* of one span: attn__part; of a normal form: originals */
    attn__buffer codes, one, two;
    attn__matcher *matcher;
} attn__work;

attn_status attn__work_init(attn__work *work, const attn_ctx *ctx, attn_error *err);
void attn__work_free(attn__work *work);

/* Appends a span to next_spans; empty ones of text are left out. */
attn_status attn__work_span(attn__work *work, const attn__span *span, attn_error *err);

/* next_* become the current ones. `moved`: the text too. */
void attn__work_turn(attn__work *work, bool moved);

/* Appends the normalised form of valid UTF-8 to `out`, which is none of the work's buffers but may
 * be next_text. */
attn_status attn__normalize(const attn__steps *steps, attn__work *work, const char *text,
                            size_t size, attn__buffer *out, attn_error *err);

/* Cuts the spans of text into words by pre-tokenizers. */
attn_status attn__cut_words(const attn__steps *steps, attn__work *work, attn_error *err);

/* Appends with every match of the pattern replaced. */
attn_status attn__replace(const attn__step *step, attn__matcher *matcher, const char *text,
                          size_t size, attn__buffer *out, attn_error *err);

#endif
