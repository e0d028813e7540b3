/* splitter.c: steps that cut a text into words, and the text under way. */
#include "src/base/error.h"
#include "src/text/steps.h"

#include <string.h>

typedef struct attn__part {
    size_t start, end;
    bool match;
} attn__part;

static attn_status no_memory(attn_error *err)
{
    return attn__fail(err, ATTN_E_MEMORY, 0, "text under way");
}

/* --- The text under way --------------------------------------------------------------------- */

attn_status attn__work_init(attn__work *w, const attn_ctx *ctx, attn_error *err)
{
    attn__buffer *all[] = {&w->text,  &w->next_text, &w->spans, &w->next_spans,
                           &w->parts, &w->codes,     &w->one,   &w->two};

    memset(w, 0, sizeof *w);
    w->ctx = ctx;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        all[i]->ctx = ctx;
    return attn__matcher_create(ctx, &w->matcher, err);
}

void attn__work_free(attn__work *w)
{
    attn__buffer *all[] = {&w->text,  &w->next_text, &w->spans, &w->next_spans,
                           &w->parts, &w->codes,     &w->one,   &w->two};

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        attn__buffer_free(all[i]);
    attn__matcher_free(w->matcher);
    w->matcher = NULL;
}

attn_status attn__work_span(attn__work *w, const attn__span *span, attn_error *err)
{
    if (span->size == 0 && span->id == ATTN__NONE)
        return ATTN_OK;
    return attn__buffer_put(&w->next_spans, span, sizeof *span) ? ATTN_OK : no_memory(err);
}

static void swap(attn__buffer *a, attn__buffer *b)
{
    attn__buffer c = *a;

    *a = *b;
    *b = c;
    b->size = 0;
}

void attn__work_turn(attn__work *w, bool moved)
{
    swap(&w->spans, &w->next_spans);
    if (moved)
        swap(&w->text, &w->next_text);
}

/* --- Finding what separates ----------------------------------------------------------------- */

static attn_status add_part(attn__work *w, size_t start, size_t end, bool match, attn_error *err)
{
    attn__part part = {start, end, match};

    return attn__buffer_put(&w->parts, &part, sizeof part) ? ATTN_OK : no_memory(err);
}

static attn_status parts_by_pattern(const attn__step *step, attn__work *w, const char *text,
                                    size_t size, attn_error *err)
{
    attn__search s = {text, size, 0, false, 0, 0};
    size_t done = 0;
    bool found;

    for (;;) {
        TRY(attn__pattern_next(step->pattern, w->matcher, &s, &found, err));
        if (!found)
            break;
        if (s.start > done)
            TRY(add_part(w, done, s.start, step->invert, err));
        TRY(add_part(w, s.start, s.end, !step->invert, err));
        done = s.end;
    }
    return done < size ? add_part(w, done, size, step->invert, err) : ATTN_OK;
}

static attn_status parts_by_class(const attn__step *step, attn__work *w, const char *text,
                                  size_t size, attn_error *err)
{
    const unsigned char *s = (const unsigned char *)text;
    size_t done = 0;
    uint32_t code;

    for (size_t at = 0, n; at < size; at += n) {
        n = attn__utf8_get(s + at, size - at, &code);
        if (!step->is_in(code))
            continue;
        if (at > done)
            TRY(add_part(w, done, at, false, err));
        TRY(add_part(w, at, at + n, true, err));
        done = at + n;
    }
    return done < size ? add_part(w, done, size, false, err) : ATTN_OK;
}

/* Each occurrence of one character is a match. */
static attn_status parts_by_mark(const attn__step *step, attn__work *w, const char *text,
                                 size_t size, attn_error *err)
{
    size_t done = 0, at = 0;

    while (at + step->size <= size) {
        const char *mark = memchr(text + at, step->text[0], size - at - step->size + 1);
        if (!mark)
            break;
        at = (size_t)(mark - text);
        if (memcmp(mark, step->text, step->size) != 0) {
            at++;
            continue;
        }
        if (at > done)
            TRY(add_part(w, done, at, false, err));
        TRY(add_part(w, at, at + step->size, true, err));
        done = at += step->size;
    }
    return done < size ? add_part(w, done, size, false, err) : ATTN_OK;
}

/* --- What becomes of it --------------------------------------------------------------------- */

/* Joins parts in place by the behaviour and returns how many are left. */
static size_t join_parts(attn__part *p, size_t count, attn__behaviour behaviour)
{
    size_t kept = 0;
    bool last = false;

    if (behaviour == ATTN__WITH_NEXT) { /* from the right, collected at the end, then moved */
        kept = count;
        for (size_t i = count; i > 0; i--) {
            bool match = p[i - 1].match;
            if (match && !last && kept < count)
                p[kept].start = p[i - 1].start;
            else
                p[--kept] = p[i - 1];
            last = match;
        }
        memmove(p, p + kept, (count - kept) * sizeof *p);
        return count - kept;
    }
    for (size_t i = 0; i < count; i++) {
        bool match = p[i].match;
        bool join = kept > 0 && (behaviour == ATTN__WITH_PREVIOUS ? match && !last
                                 : behaviour == ATTN__CONTIGUOUS  ? match == last
                                                                  : false);
        if (join)
            p[kept - 1].end = p[i].end;
        else if (behaviour != ATTN__REMOVED || !match)
            p[kept++] = p[i];
        last = match;
    }
    return kept;
}

/* Spans for the parts of `span`, whose text now begins at `base` of its buffer. */
static attn_status add_spans(attn__work *w, const attn__span *span, size_t base,
                             attn__behaviour behaviour, attn_error *err)
{
    attn__part *p = w->parts.data;
    size_t count = w->parts.size ? join_parts(p, w->parts.size / sizeof *p, behaviour) : 0;

    for (size_t i = 0; i < count; i++) {
        attn__span part = {
            base + p[i].start, p[i].end - p[i].start, ATTN__NONE, false, false, false};
        part.first = span->first && p[i].start == 0;
        part.joined = span->joined && p[i].start == 0;
        TRY(attn__work_span(w, &part, err));
    }
    return ATTN_OK;
}

/* --- Steps ---------------------------------------------------------------------------------- */

static attn_status split(const attn__step *step, attn__work *w, const attn__span *span,
                         attn_error *err)
{
    const char *text = (const char *)w->text.data + span->start;

    w->parts.size = 0;
    if (step->kind == ATTN__SPLIT)
        TRY(parts_by_pattern(step, w, text, span->size, err));
    else
        TRY(parts_by_class(step, w, text, span->size, err));
    return add_spans(w, span, span->start, step->behaviour, err);
}

/* Bytes s[0..size) to visible characters, as one span. */
static attn_status put_bytes(attn__work *w, const attn__span *like, const char *s, size_t size,
                             attn_error *err)
{
    attn__span part = {w->next_text.size, 0, ATTN__NONE, like->first, false, like->joined};
    unsigned char *to = attn__buffer_room(&w->next_text, 2 * size), *begin = to;

    if (!to)
        return no_memory(err);
    for (size_t i = 0; i < size; i++)
        to += attn__utf8_put(to, attn__byte_code((unsigned char)s[i]));
    part.size = (size_t)(to - begin);
    w->next_text.size += part.size;
    return attn__work_span(w, &part, err);
}

static attn_status byte_level(const attn__step *step, attn__work *w, const attn__span *span,
                              attn_error *err)
{
    const char *text = (const char *)w->text.data + span->start;
    size_t size = span->size;
    attn__part *p;

    if (span->raw)
        return put_bytes(w, span, text, size, err);
    if (step->space_first && text[0] != ' ' && !span->joined) {
        w->one.size = 0;
        if (!attn__buffer_text(&w->one, " ") || !attn__buffer_put(&w->one, text, size))
            return no_memory(err);
        text = w->one.data;
        size = w->one.size;
    }
    if (!step->pattern)
        return put_bytes(w, span, text, size, err);
    w->parts.size = 0;
    TRY(parts_by_pattern(step, w, text, size, err));
    p = w->parts.data;
    for (size_t i = 0; i < w->parts.size / sizeof *p; i++) {
        attn__span like = *span;
        like.first = span->first && p[i].start == 0;
        like.joined = span->joined && p[i].start == 0;
        TRY(put_bytes(w, &like, text + p[i].start, p[i].end - p[i].start, err));
    }
    return ATTN_OK;
}

static attn_status metaspace(const attn__step *step, attn__work *w, const attn__span *span,
                             attn_error *err)
{
    const char *text = (const char *)w->text.data + span->start;
    size_t base = w->next_text.size, size = span->size;
    bool marked =
        text[0] == ' ' || (size >= step->size && memcmp(text, step->text, step->size) == 0);
    bool mark = step->prepend == ATTN__ALWAYS || (step->prepend == ATTN__FIRST && span->first);
    attn__span whole = *span;

    if (mark && !marked && !span->joined &&
        !attn__buffer_put(&w->next_text, step->text, step->size))
        return no_memory(err);
    for (size_t at = 0; at < size;) {
        const char *space = memchr(text + at, ' ', size - at);
        size_t n = space ? (size_t)(space - text) - at : size - at;
        if (!attn__buffer_put(&w->next_text, text + at, n) ||
            (space && !attn__buffer_put(&w->next_text, step->text, step->size)))
            return no_memory(err);
        at += n + (space != NULL);
    }
    whole.start = base;
    whole.size = w->next_text.size - base;
    if (!step->splits)
        return attn__work_span(w, &whole, err);
    w->parts.size = 0;
    TRY(parts_by_mark(step, w, (const char *)w->next_text.data + base, whole.size, err));
    return add_spans(w, &whole, base, ATTN__WITH_NEXT, err);
}

/* A span that the step leaves alone; its bytes move along when the text does. */
static attn_status pass(attn__work *w, const attn__span *span, bool moves, attn_error *err)
{
    attn__span same = *span;

    if (moves) {
        same.start = w->next_text.size;
        if (!attn__buffer_put(&w->next_text, (const char *)w->text.data + span->start, span->size))
            return no_memory(err);
    }
    return attn__work_span(w, &same, err);
}

attn_status attn__cut_words(const attn__steps *steps, attn__work *w, attn_error *err)
{
    for (size_t i = 0; i < steps->count; i++) {
        const attn__step *step = &steps->items[i];
        bool moves = step->kind == ATTN__BYTE_LEVEL || step->kind == ATTN__METASPACE;
        const attn__span *span = w->spans.data;

        w->next_spans.size = 0;
        w->next_text.size = 0;
        for (size_t n = 0; n < w->spans.size / sizeof *span; n++) {
            if (span[n].id != ATTN__NONE || (span[n].raw && step->kind != ATTN__BYTE_LEVEL))
                TRY(pass(w, &span[n], moves, err));
            else if (step->kind == ATTN__BYTE_LEVEL)
                TRY(byte_level(step, w, &span[n], err));
            else if (step->kind == ATTN__METASPACE)
                TRY(metaspace(step, w, &span[n], err));
            else
                TRY(split(step, w, &span[n], err));
        }
        attn__work_turn(w, moves);
    }
    return ATTN_OK;
}
