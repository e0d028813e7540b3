/* text_encode.c: text to ids: the order of the parts, and the words met before. */
#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/text/tokenizer.h"

#include <string.h>

enum {
    CACHED_WORDS = 1 << 16, /* when so many are known, all are forgotten */
    CACHED_SIZE = 48,       /* bytes of a word that is remembered */
    MAX_TEXT = 1 << 30
};

typedef struct slice {
    uint32_t start, count;
} slice;

struct attn_text_encoder {
    const attn_tokenizer *tokenizer;
    attn__work work;
    attn__bpe_work bpe;
    attn__strings words; /* met before */
    attn__buffer slices; /* by number of a word: its ids in known_ids */
    attn__buffer known_ids;
    attn__buffer ids;
};

/* --- Text to words -------------------------------------------------------------------------- */

/* Runs of UTF-8, cut at tokens that are added as they are, and runs of other bytes. */
static attn_status cut_runs(const attn_tokenizer *t, attn__work *w, bool added, bool specials,
                            attn_error *err)
{
    const unsigned char *text = w->text.data;
    size_t size = w->text.size, n;
    bool joined = false;
    uint32_t code;

    for (size_t at = 0; at < size; at += n) {
        attn__span span = {at, 0, ATTN__NONE, at == 0, false, joined};
        n = attn__utf8_run(text + at, size - at);
        span.size = n;
        joined = n == 0;
        if (n > 0 && added)
            TRY(attn__cut_added(t, &t->raw_tree, w, (const char *)text + at, n, at, &span, specials,
                                err));
        else if (n > 0)
            TRY(attn__work_span(w, &span, err));
        if (n > 0)
            continue;
        do
            n++;
        while (at + n < size && attn__utf8_get(text + at + n, size - at - n, &code) == 0);
        span.size = n;
        span.raw = true;
        TRY(attn__work_span(w, &span, err));
    }
    attn__work_turn(w, false);
    return ATTN_OK;
}

/* The step that makes bytes visible characters, which bytes that are not UTF-8 pass alone. */
static const attn__step *byte_step(const attn__steps *steps)
{
    for (size_t i = 0; i < steps->count; i++)
        if (steps->items[i].kind == ATTN__BYTE_LEVEL)
            return &steps->items[i];
    return NULL;
}

static attn_status normalize_span(const attn_tokenizer *t, attn__work *w, attn__span span,
                                  bool added, bool specials, attn_error *err)
{
    const char *text = (const char *)w->text.data + span.start;
    size_t base = w->next_text.size, size;
    attn__steps bytes = {NULL, 0};

    if (span.id != ATTN__NONE)
        return attn__work_span(w, &span, err);
    if (span.raw) {
        const attn__step *step = byte_step(&t->normalizer);
        attn__step copy;
        if (step) {
            copy = *step;
            bytes.items = &copy;
            bytes.count = 1;
            span.raw = false;
        }
        TRY(attn__normalize(&bytes, w, text, span.size, &w->next_text, err));
    } else {
        TRY(attn__normalize(&t->normalizer, w, text, span.size, &w->next_text, err));
    }
    size = w->next_text.size - base;
    span.start = base;
    span.size = size;
    if (span.raw || !added || size == 0)
        return attn__work_span(w, &span, err);
    return attn__cut_added(t, &t->normal_tree, w, (const char *)w->next_text.data + base, size,
                           base, &span, specials, err);
}

attn_status attn__text_words(const attn_tokenizer *t, attn__work *w, const char *text, size_t size,
                             bool added, bool specials, attn_error *err)
{
    w->text.size = w->next_text.size = w->spans.size = w->next_spans.size = 0;
    if (!attn__buffer_put(&w->text, text, size))
        return attn__fail(err, ATTN_E_MEMORY, 0, "copy of the text");
    TRY(cut_runs(t, w, added, specials, err));
    if (t->normalizer.count > 0 || (added && t->normal_tree.any)) {
        const attn__span *spans = w->spans.data;
        for (size_t i = 0; i < w->spans.size / sizeof *spans; i++)
            TRY(normalize_span(t, w, spans[i], added, specials, err));
        attn__work_turn(w, true);
    }
    return attn__cut_words(&t->splitter, w, err);
}

/* --- Words to ids --------------------------------------------------------------------------- */

/* Ids of a word that is looked up among those met before, and remembered. */
static bool known_word(attn_text_encoder *e, const char *word, size_t size)
{
    const slice *slices;
    slice s = {0, 0};
    uint32_t number;
    bool added;

    if (attn__strings_count(&e->words) >= CACHED_WORDS) {
        attn__strings_clear(&e->words);
        e->slices.size = e->known_ids.size = 0;
    }
    number = attn__strings_add(&e->words, word, size, &added);
    if (number == ATTN__NONE)
        return false;
    if (added) {
        s.start = (uint32_t)(e->known_ids.size / sizeof(uint32_t));
        if (!attn__bpe_word(&e->tokenizer->model, &e->bpe, word, size, false, &e->known_ids))
            return false;
        s.count = (uint32_t)(e->known_ids.size / sizeof(uint32_t)) - s.start;
        if (!attn__buffer_put(&e->slices, &s, sizeof s))
            return false;
    }
    slices = e->slices.data;
    s = slices[number];
    if (s.count == 0)
        return true;
    return attn__buffer_put(&e->ids, (const uint32_t *)e->known_ids.data + s.start,
                            s.count * sizeof(uint32_t));
}

/* After a failure a word may be known without its ids. */
static attn_status forget(attn_text_encoder *e, attn_error *err)
{
    attn__strings_clear(&e->words);
    e->slices.size = e->known_ids.size = 0;
    return attn__fail(err, ATTN_E_MEMORY, 0, "ids");
}

static attn_status words_to_ids(attn_text_encoder *e, attn_error *err)
{
    const attn__span *spans = e->work.spans.data;
    const char *text = e->work.text.data;

    for (size_t i = 0; i < e->work.spans.size / sizeof *spans; i++) {
        const attn__span *s = &spans[i];
        bool ok;
        if (s->id != ATTN__NONE)
            ok = attn__buffer_put(&e->ids, &s->id, sizeof s->id);
        else if (s->size <= CACHED_SIZE && !s->raw)
            ok = known_word(e, text + s->start, s->size);
        else
            ok = attn__bpe_word(&e->tokenizer->model, &e->bpe, text + s->start, s->size, s->raw,
                                &e->ids);
        if (!ok)
            return forget(e, err);
    }
    return ATTN_OK;
}

attn_status attn_text_encode(attn_text_encoder *e, const char *text, size_t size, unsigned flags,
                             const int32_t **ids, size_t *count, attn_error *err)
{
    const attn_tokenizer *t = e->tokenizer;
    bool frame = (flags & ATTN_ENCODE_FRAME) != 0;

    if (!text && size > 0)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "text: NULL with a size");
    if (size > MAX_TEXT)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "text: over 1 GB; encode it in parts");
    if (flags & ~(unsigned)(ATTN_ENCODE_SPECIAL | ATTN_ENCODE_FRAME))
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "flags: unknown bits %#x", flags);
    e->ids.size = 0;
    TRY(attn__text_words(t, &e->work, text, size, true, (flags & ATTN_ENCODE_SPECIAL) != 0, err));
    if (frame && !attn__buffer_put(&e->ids, t->before.data, t->before.size))
        return forget(e, err);
    TRY(words_to_ids(e, err));
    if (frame && !attn__buffer_put(&e->ids, t->after.data, t->after.size))
        return forget(e, err);
    if (!attn__buffer_room(&e->ids, 0))
        return forget(e, err);
    *ids = e->ids.data;
    *count = e->ids.size / sizeof **ids;
    return ATTN_OK;
}

attn_status attn_text_encoder_create(const attn_tokenizer *tokenizer, attn_text_encoder **out,
                                     attn_error *err)
{
    attn_text_encoder *e;
    attn_status st;

    *out = NULL;
    if (!tokenizer)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "tokenizer: NULL");
    e = attn__new(tokenizer->ctx, sizeof *e);
    if (!e)
        return attn__fail(err, ATTN_E_MEMORY, 0, "encoder");
    e->tokenizer = tokenizer;
    e->bpe.symbols.ctx = e->bpe.heap.ctx = e->bpe.spelling.ctx = tokenizer->ctx;
    attn__strings_init(&e->words, tokenizer->ctx);
    e->slices.ctx = e->known_ids.ctx = e->ids.ctx = tokenizer->ctx;
    st = attn__work_init(&e->work, tokenizer->ctx, err);
    if (st == ATTN_OK)
        *out = e;
    else
        attn_text_encoder_destroy(e);
    return st;
}

void attn_text_encoder_destroy(attn_text_encoder *e)
{
    if (!e)
        return;
    attn__work_free(&e->work);
    attn__buffer_free(&e->bpe.symbols);
    attn__buffer_free(&e->bpe.heap);
    attn__buffer_free(&e->bpe.spelling);
    attn__strings_free(&e->words);
    attn__buffer_free(&e->slices);
    attn__buffer_free(&e->known_ids);
    attn__buffer_free(&e->ids);
    attn__free(e->tokenizer->ctx, e);
}
