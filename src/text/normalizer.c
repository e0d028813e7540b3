/* normalizer.c: steps that change a text as a whole. */
#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/text/steps.h"

#include <string.h>

void attn__steps_free(const attn_ctx *ctx, attn__steps *steps)
{
    for (size_t i = 0; i < steps->count; i++) {
        attn__pattern_free(steps->items[i].pattern);
        attn__free(ctx, steps->items[i].text);
    }
    attn__free(ctx, steps->items);
    steps->items = NULL;
    steps->count = 0;
}

static attn_status no_memory(attn_error *err)
{
    return attn__fail(err, ATTN_E_MEMORY, 0, "text under way");
}

attn_status attn__replace(const attn__step *step, attn__matcher *matcher, const char *text,
                          size_t size, attn__buffer *out, attn_error *err)
{
    attn__search s = {text, size, 0, false, 0, 0};
    size_t done = 0;
    bool found;

    for (;;) {
        TRY(attn__pattern_next(step->pattern, matcher, &s, &found, err));
        if (!found)
            break;
        if (!attn__buffer_put(out, text + done, s.start - done) ||
            !attn__buffer_put(out, step->text, step->size))
            return no_memory(err);
        done = s.end;
    }
    return attn__buffer_put(out, text + done, size - done) ? ATTN_OK : no_memory(err);
}

static bool lowercase(const unsigned char *s, size_t size, attn__buffer *out)
{
    /* Of all characters only U+0130 becomes two; none grows to more than 3/2 of its bytes. */
    static const unsigned char dotted_i[] = {'i', 0xcc, 0x87};
    unsigned char *to;
    uint32_t code;

    for (size_t at = 0, n; at < size; at += n) {
        n = attn__utf8_get(s + at, size - at, &code);
        to = attn__buffer_room(out, 4);
        if (!to)
            return false;
        if (code == 0x130) {
            memcpy(to, dotted_i, sizeof dotted_i);
            out->size += sizeof dotted_i;
        } else if (code < 0x80) {
            *to = (unsigned char)(code >= 'A' && code <= 'Z' ? code + 32 : code);
            out->size++;
        } else {
            out->size += attn__utf8_put(to, attn__lower(code));
        }
    }
    return true;
}

static bool strip_accents(const unsigned char *s, size_t size, attn__buffer *out)
{
    uint32_t code;

    for (size_t at = 0, n; at < size; at += n) {
        n = attn__utf8_get(s + at, size - at, &code);
        if ((code < 0x80 || !attn__is_mark(code)) && !attn__buffer_put(out, s + at, n))
            return false;
    }
    return true;
}

static bool strip(const attn__step *step, const unsigned char *s, size_t size, attn__buffer *out)
{
    size_t from = 0, to = size, n;
    uint32_t code;

    while (step->left && from < to) {
        n = attn__utf8_get(s + from, to - from, &code);
        if (!attn__is_space(code))
            break;
        from += n;
    }
    while (step->right && to > from) {
        for (n = 1; s[to - n] >> 6 == 2;)
            n++;
        attn__utf8_get(s + to - n, n, &code);
        if (!attn__is_space(code))
            break;
        to -= n;
    }
    return attn__buffer_put(out, s + from, to - from);
}

static bool bytes_to_characters(const unsigned char *s, size_t size, attn__buffer *out)
{
    unsigned char *to = attn__buffer_room(out, 2 * size);

    if (!to)
        return false;
    for (size_t i = 0; i < size; i++)
        to += attn__utf8_put(to, attn__byte_code(s[i]));
    out->size = (size_t)(to - (unsigned char *)out->data);
    return true;
}

static attn_status normalize_once(const attn__step *step, attn__work *w, const char *text,
                                  size_t size, attn__buffer *out, attn_error *err)
{
    const unsigned char *s = (const unsigned char *)text;
    bool ok = true;

    switch (step->kind) {
    case ATTN__NORMAL_FORM:
        ok = attn__normal_form(step->form, s, size, &w->codes, &w->parts, out);
        break;
    case ATTN__LOWERCASE:
        ok = lowercase(s, size, out);
        break;
    case ATTN__STRIP_ACCENTS:
        ok = strip_accents(s, size, out);
        break;
    case ATTN__REPLACE:
        return attn__replace(step, w->matcher, text, size, out, err);
    case ATTN__PREPEND:
        ok = (size == 0 || attn__buffer_put(out, step->text, step->size)) &&
             attn__buffer_put(out, text, size);
        break;
    case ATTN__STRIP:
        ok = strip(step, s, size, out);
        break;
    case ATTN__BYTE_LEVEL:
        ok = bytes_to_characters(s, size, out);
        break;
    default: /* the reader makes no others */
        break;
    }
    return ok ? ATTN_OK : no_memory(err);
}

attn_status attn__normalize(const attn__steps *steps, attn__work *w, const char *text, size_t size,
                            attn__buffer *out, attn_error *err)
{
    attn__buffer *from = &w->two, *to = &w->one, *spare;

    if (steps->count == 0)
        return attn__buffer_put(out, text, size) ? ATTN_OK : no_memory(err);
    for (size_t i = 0; i + 1 < steps->count; i++) {
        to->size = 0;
        TRY(normalize_once(&steps->items[i], w, text, size, to, err));
        text = to->data;
        size = to->size;
        spare = from;
        from = to;
        to = spare;
    }
    return normalize_once(&steps->items[steps->count - 1], w, text, size, out, err);
}
