/* learn.c: vocabularies from text: counting words, the first pieces, and the file.
 *
 * The file is written twice by the same function: without vocabulary when training begins, so that
 * text is cut into words by the very steps that will cut it later, and with it at the end. */
#include "src/text/learn.h"

#include "src/base/error.h"
#include "src/base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    DEFAULT_SIZE = 16384,
    MAX_SIZE = 1000000, /* so that the file stays within a reader's limits */
    BYTES = 256,
    LINE = 1 << 24,
    WORD_SYMBOLS = 4096
};

static const char mark[] = "\xe2\x96\x81"; /* U+2581 */

struct attn_vocab {
    const attn_ctx *ctx;
    attn_vocab_options options;
    attn__strings special;
    char *pattern;
    attn_tokenizer *pipeline; /* without vocabulary */
    attn__work work;
    attn__buffer line;   /* its beginning, while its end has not come */
    attn__strings words; /* met so far */
    attn__buffer counts; /* by number of a word: uint64_t */
    bool spent;          /* trained, or failed */
};

static attn_status no_memory(attn_error *err)
{
    return attn__fail(err, ATTN_E_MEMORY, 0, "training of the vocabulary");
}

/* --- The file ------------------------------------------------------------------------------- */

typedef struct writer {
    attn__buffer out;
    bool full; /* no memory */
} writer;

static void put(writer *w, const char *text)
{
    w->full = w->full || !attn__buffer_text(&w->out, text);
}

/* A JSON string's inside. */
static void put_escaped(writer *w, const char *text, size_t size)
{
    for (size_t i = 0; i < size && !w->full; i++) {
        unsigned char c = (unsigned char)text[i];
        char escaped[8];
        if (c == '"' || c == '\\') {
            put(w, c == '"' ? "\\\"" : "\\\\");
        } else if (c < 0x20) {
            snprintf(escaped, sizeof escaped, "\\u%04x", (unsigned)c);
            put(w, escaped);
        } else {
            w->full = !attn__buffer_put(&w->out, text + i, 1);
        }
    }
}

static void put_string(writer *w, const char *text, size_t size)
{
    put(w, "\"");
    put_escaped(w, text, size);
    put(w, "\"");
}

static void put_special(writer *w, const attn__strings *special)
{
    char number[64];

    put(w, "  \"added_tokens\": [");
    for (size_t i = 0; i < attn__strings_count(special); i++) {
        size_t size;
        const char *text = attn__strings_get(special, (uint32_t)i, &size);
        snprintf(number, sizeof number, "%s\n    {\"id\": %zu", i ? "," : "", i);
        put(w, number);
        put(w, ", \"content\": ");
        put_string(w, text, size);
        put(w, ", \"single_word\": false, \"lstrip\": false, \"rstrip\": false, "
               "\"normalized\": false, \"special\": true}");
    }
    put(w, attn__strings_count(special) ? "\n  ],\n" : "],\n");
}

static void put_steps(writer *w, const attn_vocab *v)
{
    static const char *const forms[] = {"null", "{\"type\": \"NFC\"}", "{\"type\": \"NFKC\"}"};
    const char *byte_level =
        "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": true, "
        "\"use_regex\": ";
    const char *metaspace = "{\"type\": \"Metaspace\", \"replacement\": \"\xe2\x96\x81\", "
                            "\"prepend_scheme\": \"always\", \"split\": true}";

    put(w, "  \"normalizer\": ");
    put(w, forms[v->options.form]);
    put(w, ",\n  \"pre_tokenizer\": ");
    if (v->options.kind == ATTN_VOCAB_WORDS || v->pattern)
        put(w, "{\"type\": \"Sequence\", \"pretokenizers\": [");
    if (v->options.kind == ATTN_VOCAB_WORDS) {
        put(w, metaspace);
        put(w, ", {\"type\": \"Split\", \"pattern\": {\"String\": \"\\n\"}, "
               "\"behavior\": \"Isolated\", \"invert\": false}]}");
    } else {
        if (v->pattern) {
            put(w, "{\"type\": \"Split\", \"pattern\": {\"Regex\": ");
            put_string(w, v->pattern, strlen(v->pattern));
            put(w, "}, \"behavior\": \"Isolated\", \"invert\": false}, ");
        }
        put(w, byte_level);
        put(w, v->pattern ? "false}]}" : "true}");
    }
    put(w, ",\n  \"post_processor\": null,\n  \"decoder\": ");
    if (v->options.kind == ATTN_VOCAB_WORDS) {
        put(w, "{\"type\": \"Sequence\", \"decoders\": [{\"type\": \"ByteFallback\"}, ");
        put(w, metaspace);
        put(w, "]}");
    } else {
        put(w, byte_level);
        put(w, "true}");
    }
    put(w, ",\n");
}

static void put_model(writer *w, const attn_vocab *v, const attn__learner *l)
{
    size_t pieces = l ? attn__strings_count(&l->pieces) : 0;
    size_t merges = l ? l->merges.size / sizeof(uint64_t) : 0, size;
    char number[32];

    put(w, "  \"model\": {\n    \"type\": \"BPE\",\n    \"dropout\": null,\n"
           "    \"unk_token\": null,\n    \"continuing_subword_prefix\": null,\n"
           "    \"end_of_word_suffix\": null,\n    \"fuse_unk\": false,\n    \"byte_fallback\": ");
    put(w, v->options.kind == ATTN_VOCAB_WORDS ? "true" : "false");
    put(w, ",\n    \"ignore_merges\": false,\n    \"vocab\": {");
    for (size_t i = 0; i < pieces; i++) {
        const char *text = attn__strings_get(&l->pieces, (uint32_t)i, &size);
        put(w, i ? ",\n      " : "\n      ");
        put_string(w, text, size);
        snprintf(number, sizeof number, ": %zu", i);
        put(w, number);
    }
    put(w, pieces ? "\n    },\n    \"merges\": [" : "},\n    \"merges\": [");
    for (size_t i = 0; i < merges; i++) {
        uint64_t key = ((const uint64_t *)l->merges.data)[i];
        const char *text = attn__strings_get(&l->pieces, (uint32_t)(key >> 32), &size);
        put(w, i ? ",\n      \"" : "\n      \"");
        put_escaped(w, text, size);
        put(w, " ");
        text = attn__strings_get(&l->pieces, (uint32_t)key, &size);
        put_escaped(w, text, size);
        put(w, "\"");
    }
    put(w, merges ? "\n    ]\n  }\n}\n" : "]\n  }\n}\n");
}

/* A tokenizer of the learner's pieces and merges; NULL: of none. */
static attn_status make_tokenizer(const attn_vocab *v, const attn__learner *l, attn_tokenizer **out,
                                  attn_error *err)
{
    attn_tokenizer_options options = ATTN_TOKENIZER_OPTIONS_INIT;
    writer w = {{.ctx = v->ctx}, false};
    attn_status st;

    put(&w, "{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n  \"padding\": null,\n");
    if (l)
        put_special(&w, &v->special);
    put_steps(&w, v);
    put_model(&w, v, l);
    options.max_bytes = options.max_values = SIZE_MAX;
    if (w.full)
        st = no_memory(err);
    else
        st = attn_tokenizer_open_memory(v->ctx, w.out.data, w.out.size, &options, out, err);
    attn__buffer_free(&w.out);
    return st;
}

/* --- Options -------------------------------------------------------------------------------- */

static attn_status take_special(attn_vocab *v, attn_error *err)
{
    bool added;

    if (!v->options.special && v->options.special_count > 0)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "special: NULL with a count");
    for (size_t i = 0; i < v->options.special_count; i++) {
        const char *text = v->options.special[i];
        size_t size = text ? strlen(text) : 0;
        if (size == 0 || size > 1024 || attn__utf8_run((const unsigned char *)text, size) != size)
            return attn__fail(err, ATTN_E_ARGUMENT, 0,
                              "special: token %zu is empty, over 1024 bytes or not UTF-8", i);
        if (attn__strings_add(&v->special, text, size, &added) == ATTN__NONE)
            return no_memory(err);
        if (!added)
            return attn__fail(err, ATTN_E_ARGUMENT, 0, "special: '%.60s' is there twice", text);
    }
    return ATTN_OK;
}

static attn_status take_options(attn_vocab *v, const attn_vocab_options *given, attn_error *err)
{
    attn_vocab_options *o = &v->options;
    size_t least;

    if (given &&
        (given->struct_size < sizeof given->struct_size || given->struct_size > sizeof *given))
        return attn__fail(err, ATTN_E_ARGUMENT, 0,
                          "options: struct_size %zu is not of this version", given->struct_size);
    if (given)
        memcpy(o, given, given->struct_size);
    if (o->kind != ATTN_VOCAB_BYTES && o->kind != ATTN_VOCAB_WORDS)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "kind: %d is none", (int)o->kind);
    if ((unsigned)o->form > ATTN_TEXT_NFKC)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "form: %d is none", (int)o->form);
    if (o->pattern && o->kind != ATTN_VOCAB_BYTES)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "pattern: only for ATTN_VOCAB_BYTES");
    if (o->max_characters < 0 || (o->max_characters && o->kind != ATTN_VOCAB_WORDS))
        return attn__fail(err, ATTN_E_ARGUMENT, 0,
                          "max_characters: not negative, and only for ATTN_VOCAB_WORDS");
    TRY(take_special(v, err));
    o->size = o->size ? o->size : DEFAULT_SIZE;
    o->min_count = o->min_count ? o->min_count : 2;
    least = v->options.special_count + BYTES + (o->kind == ATTN_VOCAB_WORDS ? 2 : 0);
    if (o->size < 0 || (size_t)o->size < least || o->size > MAX_SIZE)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "size: %ld, but these options need %zu to %d",
                          (long)o->size, least, MAX_SIZE);
    return ATTN_OK;
}

static attn_status prepare(attn_vocab *v, const attn_vocab_options *options, attn_error *err)
{
    TRY(take_options(v, options, err));
    if (v->options.pattern) {
        size_t size = strlen(v->options.pattern);
        if (attn__utf8_run((const unsigned char *)v->options.pattern, size) != size)
            return attn__fail(err, ATTN_E_ARGUMENT, 0, "pattern: not UTF-8");
        v->pattern = attn__alloc(v->ctx, size + 1);
        if (!v->pattern)
            return no_memory(err);
        memcpy(v->pattern, v->options.pattern, size + 1);
    }
    v->options.pattern = NULL; /* the caller's */
    v->options.special = NULL;
    TRY(make_tokenizer(v, NULL, &v->pipeline, err));
    return attn__work_init(&v->work, v->ctx, err);
}

attn_status attn_vocab_create(const attn_ctx *ctx, const attn_vocab_options *options,
                              attn_vocab **out, attn_error *err)
{
    attn_vocab *v = attn__new(ctx, sizeof *v);
    attn_status st;

    *out = NULL;
    if (!v)
        return no_memory(err);
    v->ctx = ctx;
    attn__strings_init(&v->special, ctx);
    attn__strings_init(&v->words, ctx);
    v->line.ctx = v->counts.ctx = ctx;
    st = prepare(v, options, err);
    if (st == ATTN_OK)
        *out = v;
    else
        attn_vocab_destroy(v);
    return st;
}

void attn_vocab_destroy(attn_vocab *v)
{
    if (!v)
        return;
    attn_tokenizer_close(v->pipeline);
    attn__work_free(&v->work);
    attn__strings_free(&v->special);
    attn__strings_free(&v->words);
    attn__buffer_free(&v->line);
    attn__buffer_free(&v->counts);
    attn__free(v->ctx, v->pattern);
    attn__free(v->ctx, v);
}

/* --- Counting words ------------------------------------------------------------------------- */

static attn_status count_word(attn_vocab *v, const char *word, size_t size, attn_error *err)
{
    uint64_t one = 1;
    bool added;
    uint32_t number = attn__strings_add(&v->words, word, size, &added);

    if (number == ATTN__NONE || (added && !attn__buffer_put(&v->counts, &one, sizeof one)))
        return no_memory(err);
    if (!added)
        ((uint64_t *)v->counts.data)[number]++;
    return ATTN_OK;
}

static attn_status count_line(attn_vocab *v, const char *text, size_t size, attn_error *err)
{
    const attn__span *spans;

    TRY(attn__text_words(v->pipeline, &v->work, text, size, false, false, err));
    spans = v->work.spans.data;
    for (size_t i = 0; i < v->work.spans.size / sizeof *spans; i++)
        if (!spans[i].raw)
            TRY(count_word(v, (const char *)v->work.text.data + spans[i].start, spans[i].size,
                           err));
    return ATTN_OK;
}

/* Counts what is kept of a line, but for the beginning of a character at its end. */
static attn_status count_kept(attn_vocab *v, bool all, attn_error *err)
{
    unsigned char *s = v->line.data;
    size_t size = v->line.size, rest = 0;

    for (size_t back = 1; !all && back <= 3 && back <= size && rest == 0; back++)
        if (attn__utf8_partial(s + size - back, back) == back)
            rest = back;
    if (size > rest)
        TRY(count_line(v, v->line.data, size - rest, err));
    if (rest)
        memmove(s, s + size - rest, rest);
    v->line.size = rest;
    return ATTN_OK;
}

/* The next bytes of one line; `ends` if its end is among them. */
static attn_status add_to_line(attn_vocab *v, const char *text, size_t size, bool ends,
                               attn_error *err)
{
    if (ends && v->line.size == 0 && size <= LINE)
        return count_line(v, text, size, err);
    while (size > 0) {
        size_t n = attn__min(size, LINE - v->line.size);
        if (!attn__buffer_put(&v->line, text, n))
            return no_memory(err);
        text += n;
        size -= n;
        if (v->line.size == LINE)
            TRY(count_kept(v, false, err));
    }
    return ends ? count_kept(v, true, err) : ATTN_OK;
}

static attn_status add(attn_vocab *v, const char *text, size_t size, attn_error *err)
{
    while (size > 0) {
        const char *newline = memchr(text, '\n', size);
        size_t n = newline ? (size_t)(newline - text) + 1 : size;
        TRY(add_to_line(v, text, n, newline != NULL, err));
        text += n;
        size -= n;
    }
    return ATTN_OK;
}

static attn_status refuse_spent(attn_error *err)
{
    return attn__fail(err, ATTN_E_ARGUMENT, 0, "vocab: trained already, or failed before");
}

attn_status attn_vocab_add(attn_vocab *v, const char *text, size_t size, attn_error *err)
{
    attn_status st;

    if (v->spent)
        return refuse_spent(err);
    if (!text && size > 0)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "text: NULL with a size");
    st = add(v, text, size, err);
    v->spent = st != ATTN_OK;
    return st;
}

attn_status attn_vocab_cut(attn_vocab *v, attn_error *err)
{
    attn_status st;

    if (v->spent)
        return refuse_spent(err);
    st = v->line.size > 0 ? count_kept(v, true, err) : ATTN_OK;
    v->spent = st != ATTN_OK;
    return st;
}

/* --- First pieces --------------------------------------------------------------------------- */

typedef struct character {
    uint64_t count;
    uint32_t code;
} character;

static int more_frequent_first(const void *a, const void *b)
{
    const character *x = a, *y = b;

    if (x->count != y->count)
        return x->count > y->count ? -1 : 1;
    return x->code < y->code ? -1 : x->code > y->code;
}

static int smaller_code_first(const void *a, const void *b)
{
    const character *x = a, *y = b;

    return x->code < y->code ? -1 : x->code > y->code;
}

static attn_status add_piece(attn__learner *l, const void *text, size_t size, attn_error *err)
{
    bool added;

    return attn__strings_add(&l->pieces, text, size, &added) == ATTN__NONE ? no_memory(err)
                                                                           : ATTN_OK;
}

static attn_status add_characters(attn__learner *l, const character *c, size_t count,
                                  attn_error *err)
{
    unsigned char text[4];

    for (size_t i = 0; i < count; i++)
        TRY(add_piece(l, text, attn__utf8_put(text, c[i].code), err));
    return ATTN_OK;
}

/* The visible characters of bytes, by code point. */
static attn_status add_visible_bytes(attn__learner *l, attn_error *err)
{
    character c[BYTES] = {{0, 0}};

    for (int b = 0; b < BYTES; b++)
        c[b].code = attn__byte_code((unsigned char)b);
    qsort(c, BYTES, sizeof *c, smaller_code_first);
    return add_characters(l, c, BYTES, err);
}

/* Counts the characters of all words. */
static attn_status count_characters(const attn_vocab *v, attn__buffer *characters, attn_error *err)
{
    attn__table index = {.ctx = v->ctx};
    const uint64_t *counts = v->counts.data;
    attn_status st = ATTN_OK;

    for (uint32_t n = 0; n < attn__strings_count(&v->words) && st == ATTN_OK; n++) {
        size_t size;
        const unsigned char *s = (const void *)attn__strings_get(&v->words, n, &size);
        for (size_t at = 0; at < size; at += attn__utf8_size(s[at])) {
            character fresh = {0, 0};
            uint32_t *number;
            attn__utf8_get(s + at, size - at, &fresh.code);
            number = attn__table_at(&index, fresh.code);
            if (number && *number == ATTN__NONE) {
                *number = (uint32_t)(characters->size / sizeof fresh);
                if (!attn__buffer_put(characters, &fresh, sizeof fresh))
                    number = NULL;
            }
            if (!number) {
                st = no_memory(err);
                break;
            }
            ((character *)characters->data)[*number].count += counts[n];
        }
    }
    attn__table_free(&index);
    return st;
}

/* Tokens of bytes, then the characters that are frequent enough, the mark of words in any case.
 * U+0000 has no place in a tokenizer.json and is left to its byte. */
static attn_status add_word_characters(const attn_vocab *v, attn__learner *l,
                                       attn__buffer *characters, attn_error *err)
{
    size_t most, kept = 0, count;
    character *c;

    for (int b = 0; b < BYTES; b++) {
        char name[8];
        snprintf(name, sizeof name, "<0x%02X>", (unsigned)b);
        TRY(add_piece(l, name, 6, err));
    }
    TRY(count_characters(v, characters, err));
    most = v->options.max_characters ? (size_t)v->options.max_characters
                                     : (l->size - attn__strings_count(&l->pieces)) / 2;
    most = attn__min(most, l->size - attn__strings_count(&l->pieces) - 1);
    count = characters->size / sizeof *c;
    c = characters->data;
    if (count > 0)
        qsort(c, count, sizeof *c, more_frequent_first);
    for (size_t i = 0; i < count && kept < most; i++)
        if (c[i].count >= l->min_count && c[i].code != 0 && c[i].code != 0x2581)
            c[kept++] = c[i];
    if (kept > 0)
        qsort(c, kept, sizeof *c, smaller_code_first);
    TRY(add_piece(l, mark, sizeof mark - 1, err));
    return add_characters(l, c, kept, err);
}

/* --- Words to symbols ----------------------------------------------------------------------- */

/* Ends the word that began at symbol `start`, if it has a pair. */
static attn_status end_word(attn__learner *l, size_t start, uint64_t count, attn_error *err)
{
    attn__learn_word word = {count, start, (uint32_t)(l->symbols.size / sizeof(uint32_t) - start)};

    if (word.size < 2) {
        l->symbols.size = start * sizeof(uint32_t);
        return ATTN_OK;
    }
    return attn__buffer_put(&l->words, &word, sizeof word) ? ATTN_OK : no_memory(err);
}

/* A character that is no piece ends a word, and the next begins behind it. */
static attn_status spell(attn__learner *l, const unsigned char *s, size_t size, uint64_t count,
                         attn_error *err)
{
    size_t start = l->symbols.size / sizeof(uint32_t);

    for (size_t at = 0, n; at < size; at += n) {
        uint32_t id;
        n = attn__utf8_size(s[at]);
        id = attn__strings_find(&l->pieces, s + at, n);
        if (id != ATTN__NONE && !attn__buffer_put(&l->symbols, &id, sizeof id))
            return no_memory(err);
        if (id == ATTN__NONE || l->symbols.size / sizeof id - start == WORD_SYMBOLS) {
            TRY(end_word(l, start, count, err));
            start = l->symbols.size / sizeof id;
        }
    }
    return end_word(l, start, count, err);
}

static attn_status spell_all(const attn_vocab *v, attn__learner *l, attn_error *err)
{
    const uint64_t *counts = v->counts.data;

    for (uint32_t n = 0; n < attn__strings_count(&v->words); n++) {
        size_t size;
        const char *word = attn__strings_get(&v->words, n, &size);
        TRY(spell(l, (const unsigned char *)word, size, counts[n], err));
    }
    if (l->words.size / sizeof(attn__learn_word) >= ATTN__NONE)
        return attn__fail(err, ATTN_E_MEMORY, 0, "more than 4 billion distinct words");
    return ATTN_OK;
}

static attn_status learn(attn_vocab *v, attn__learner *l, attn_error *err)
{
    attn__buffer characters = {.ctx = v->ctx};
    attn_status st;

    for (uint32_t i = 0; i < attn__strings_count(&v->special); i++) {
        size_t size;
        const char *text = attn__strings_get(&v->special, i, &size);
        TRY(add_piece(l, text, size, err));
    }
    if (v->options.kind == ATTN_VOCAB_BYTES) {
        TRY(add_visible_bytes(l, err));
    } else {
        st = add_word_characters(v, l, &characters, err);
        attn__buffer_free(&characters);
        if (st != ATTN_OK)
            return st;
    }
    TRY(spell_all(v, l, err));
    return attn__learn_merges(l, err);
}

attn_status attn_vocab_train(attn_vocab *v, attn_tokenizer **out, attn_error *err)
{
    attn__learner l;
    attn_status st;

    *out = NULL;
    TRY(attn_vocab_cut(v, err));
    v->spent = true;
    memset(&l, 0, sizeof l);
    l.ctx = v->ctx;
    attn__strings_init(&l.pieces, v->ctx);
    l.symbols.ctx = l.words.ctx = l.merges.ctx = v->ctx;
    l.size = (size_t)v->options.size;
    l.min_count = v->options.min_count;
    st = learn(v, &l, err);
    if (st == ATTN_OK)
        st = make_tokenizer(v, &l, out, err);
    attn__strings_free(&l.pieces);
    attn__buffer_free(&l.symbols);
    attn__buffer_free(&l.words);
    attn__buffer_free(&l.merges);
    return st;
}
