/* text_decode.c: ids to text, as a stream.
 *
 * A file's decoder is a list of stages that turn tokens into tokens. Each takes the characters of a
 * token, then its end, and passes on what it can; what it cannot know yet it keeps:
 *
 *     put("Hel") put("lo") end_token   put(" world") end_token   finish
 *
 * Behind the last stage stands the text that is given out, but for bytes that may still become a
 * character. */
#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/text/tokenizer.h"

#include <string.h>

typedef struct stage {
    const attn__step *step;
    attn__buffer held; /* the token so far, or what is kept of it */
    attn__buffer run;  /* BYTE_FALLBACK: bytes; SUFFIX: the token before; BYTE_LEVEL: bytes */
    size_t tokens;     /* ended so far */
    bool inside;       /* JOIN: the token has begun; BYTE_FALLBACK: a run of bytes has; SUFFIX:
                          there is a token before */
    size_t leading;    /* STRIP_TOKEN: characters taken off this token's front */
    bool begun;        /* STRIP_TOKEN: another character has come */
    size_t trailing;   /* STRIP_TOKEN: characters at the end that wait */
} stage;

struct attn_text_decoder {
    const attn_tokenizer *tokenizer;
    unsigned flags;
    attn__step join; /* the stage of files without a decoder */
    stage *stages;
    size_t count;
    attn__matcher *matcher;
    attn__buffer out, shown;
    size_t given; /* bytes of out that the last call gave */
};

static attn_status put(attn_text_decoder *d, size_t k, const char *s, size_t n, attn_error *err);
static attn_status end_token(attn_text_decoder *d, size_t k, attn_error *err);

static attn_status no_memory(attn_error *err)
{
    return attn__fail(err, ATTN_E_MEMORY, 0, "decoded text");
}

static attn_status keep(attn__buffer *b, const char *s, size_t n, attn_error *err)
{
    return attn__buffer_put(b, s, n) ? ATTN_OK : no_memory(err);
}

/* Bytes at the end that may still become a character. */
static size_t open_end(const attn__buffer *b)
{
    const unsigned char *s = b->data;

    for (size_t back = 1; back <= 3 && back <= b->size; back++) {
        const unsigned char *at = s + b->size - back;
        if (*at >> 6 != 2)
            return attn__utf8_partial(at, back) == back ? back : 0;
    }
    return 0;
}

/* --- Stages --------------------------------------------------------------------------------- */

/* Passes on what has gathered in `run`, but for an open end unless this is all. */
static attn_status put_run(attn_text_decoder *d, size_t k, bool all, attn_error *err)
{
    attn__buffer *run = &d->stages[k].run;
    size_t rest = all ? 0 : open_end(run), n = run->size - rest;

    if (n == 0)
        return ATTN_OK;
    TRY(put(d, k + 1, run->data, n, err));
    memmove(run->data, (char *)run->data + n, rest);
    run->size = rest;
    return ATTN_OK;
}

/* A token of visible characters becomes bytes; one with other characters stays. */
static attn_status end_byte_level(attn_text_decoder *d, size_t k, attn_error *err)
{
    stage *g = &d->stages[k];
    const unsigned char *s = g->held.data;
    unsigned char *to = attn__buffer_room(&g->run, g->held.size), *begin = to;
    uint32_t code;
    int byte;

    if (!to)
        return no_memory(err);
    for (size_t at = 0, n; at < g->held.size; at += n) {
        n = attn__utf8_get(s + at, g->held.size - at, &code);
        byte = n ? attn__code_byte(code) : -1;
        if (byte < 0) {
            memcpy(begin, s, g->held.size);
            to = begin + g->held.size;
            break;
        }
        *to++ = (unsigned char)byte;
    }
    g->run.size += (size_t)(to - begin);
    g->held.size = 0;
    return put_run(d, k, false, err);
}

/* The byte of "<0x0A>", -1 for other tokens. */
static int fallback_byte(const attn__buffer *token)
{
    const unsigned char *s = token->data;
    int byte = 0;

    if (token->size != 6 || memcmp(s, "<0x", 3) != 0 || s[5] != '>')
        return -1;
    for (int i = 3; i < 5; i++) {
        int letter = s[i] | 32;
        if (s[i] >= '0' && s[i] <= '9')
            byte = byte * 16 + s[i] - '0';
        else if (letter >= 'a' && letter <= 'f')
            byte = byte * 16 + letter - 'a' + 10;
        else
            return -1;
    }
    return byte;
}

static attn_status end_run(attn_text_decoder *d, size_t k, attn_error *err)
{
    static const char mark[] = "\xef\xbf\xbd";
    stage *g = &d->stages[k];
    size_t n = g->run.size;

    if (!g->inside)
        return ATTN_OK;
    g->inside = false;
    if (!(d->flags & ATTN_DECODE_LOSSY) || attn__utf8_run(g->run.data, n) == n) {
        TRY(put_run(d, k, true, err));
        return end_token(d, k + 1, err);
    }
    g->run.size = 0;
    for (size_t i = 0; i < n; i++) {
        TRY(put(d, k + 1, mark, sizeof mark - 1, err));
        TRY(end_token(d, k + 1, err));
    }
    return ATTN_OK;
}

static attn_status end_byte_fallback(attn_text_decoder *d, size_t k, attn_error *err)
{
    stage *g = &d->stages[k];
    int byte = fallback_byte(&g->held);
    size_t n = g->held.size;

    g->held.size = 0;
    if (byte >= 0) {
        char c = (char)(unsigned char)byte;
        g->inside = true;
        TRY(keep(&g->run, &c, 1, err));
        /* Whether a run is UTF-8 is known at its end only. */
        return d->flags & ATTN_DECODE_LOSSY ? ATTN_OK : put_run(d, k, false, err);
    }
    TRY(end_run(d, k, err));
    TRY(put(d, k + 1, g->held.data, n, err));
    return end_token(d, k + 1, err);
}

static attn_status put_metaspace(attn_text_decoder *d, size_t k, const char *s, size_t n,
                                 attn_error *err)
{
    const attn__step *step = d->stages[k].step;
    bool drop = d->stages[k].tokens == 0 && step->prepend != ATTN__NEVER;
    size_t done = 0, at = 0;

    while (n - at >= step->size) {
        if (memcmp(s + at, step->text, step->size) != 0) {
            at++;
            continue;
        }
        TRY(put(d, k + 1, s + done, at - done, err));
        if (!drop)
            TRY(put(d, k + 1, " ", 1, err));
        done = at += step->size;
    }
    return put(d, k + 1, s + done, n - done, err);
}

static attn_status put_waiting(attn_text_decoder *d, size_t k, size_t leave, attn_error *err)
{
    stage *g = &d->stages[k];

    for (; g->trailing > leave; g->trailing--)
        TRY(put(d, k + 1, g->step->text, g->step->size, err));
    return ATTN_OK;
}

static attn_status put_stripped(attn_text_decoder *d, size_t k, const char *s, size_t n,
                                attn_error *err)
{
    stage *g = &d->stages[k];
    const attn__step *step = g->step;
    size_t length;

    for (size_t at = 0; at < n; at += length) {
        uint32_t code;
        length = attn__utf8_get((const unsigned char *)s + at, n - at, &code);
        length += length == 0;
        if (length == step->size && memcmp(s + at, step->text, length) == 0) {
            if (!g->begun && g->leading < step->starts) {
                g->leading++;
                continue;
            }
            g->begun = true;
            g->trailing++;
            TRY(put_waiting(d, k, step->stops, err));
        } else {
            g->begun = true;
            TRY(put_waiting(d, k, 0, err));
            TRY(put(d, k + 1, s + at, length, err));
        }
    }
    return ATTN_OK;
}

/* Replaces the suffix in the token that was waiting, by a space or, the last one, by nothing. */
static attn_status put_unsuffixed(attn_text_decoder *d, size_t k, bool last, attn_error *err)
{
    const attn__step *step = d->stages[k].step;
    const char *s = d->stages[k].run.data;
    size_t n = d->stages[k].run.size, done = 0, at = 0;

    if (!d->stages[k].inside)
        return ATTN_OK;
    while (n - at >= step->size) {
        if (memcmp(s + at, step->text, step->size) != 0) {
            at++;
            continue;
        }
        TRY(put(d, k + 1, s + done, at - done, err));
        if (!last)
            TRY(put(d, k + 1, " ", 1, err));
        done = at += step->size;
    }
    TRY(put(d, k + 1, s + done, n - done, err));
    return end_token(d, k + 1, err);
}

static attn_status end_suffix(attn_text_decoder *d, size_t k, attn_error *err)
{
    stage *g = &d->stages[k];

    TRY(put_unsuffixed(d, k, false, err));
    g->run.size = 0;
    TRY(keep(&g->run, g->held.data, g->held.size, err));
    g->held.size = 0;
    g->inside = true;
    return ATTN_OK;
}

static attn_status end_replace(attn_text_decoder *d, size_t k, attn_error *err)
{
    stage *g = &d->stages[k];

    g->run.size = 0;
    TRY(attn__replace(g->step, d->matcher, g->held.data, g->held.size, &g->run, err));
    g->held.size = 0;
    TRY(put(d, k + 1, g->run.data, g->run.size, err));
    return end_token(d, k + 1, err);
}

static attn_status begin_joined(attn_text_decoder *d, size_t k, attn_error *err)
{
    stage *g = &d->stages[k];
    bool space = !g->inside && g->tokens > 0;

    g->inside = true;
    return space ? put(d, k + 1, " ", 1, err) : ATTN_OK;
}

/* --- The chain ------------------------------------------------------------------------------ */

static attn_status put(attn_text_decoder *d, size_t k, const char *s, size_t n, attn_error *err)
{
    if (n == 0)
        return ATTN_OK;
    if (k == d->count)
        return keep(&d->out, s, n, err);
    switch (d->stages[k].step->kind) {
    case ATTN__METASPACE:
        return put_metaspace(d, k, s, n, err);
    case ATTN__STRIP_TOKEN:
        return put_stripped(d, k, s, n, err);
    case ATTN__FUSE:
        return put(d, k + 1, s, n, err);
    case ATTN__JOIN:
        TRY(begin_joined(d, k, err));
        return put(d, k + 1, s, n, err);
    default: /* those that want a token whole */
        return keep(&d->stages[k].held, s, n, err);
    }
}

static attn_status end_token(attn_text_decoder *d, size_t k, attn_error *err)
{
    stage *g;

    if (k == d->count)
        return ATTN_OK;
    g = &d->stages[k];
    if (!g->held.data && !attn__buffer_room(&g->held, 0)) /* an empty token has an address too */
        return no_memory(err);
    if (g->step->kind == ATTN__JOIN)
        TRY(begin_joined(d, k, err));
    g->tokens++;
    switch (g->step->kind) {
    case ATTN__BYTE_LEVEL:
        return end_byte_level(d, k, err);
    case ATTN__BYTE_FALLBACK:
        return end_byte_fallback(d, k, err);
    case ATTN__SUFFIX:
        return end_suffix(d, k, err);
    case ATTN__REPLACE:
        return end_replace(d, k, err);
    case ATTN__FUSE:
        return ATTN_OK;
    case ATTN__STRIP_TOKEN:
        g->leading = g->trailing = 0;
        g->begun = false;
        return end_token(d, k + 1, err);
    case ATTN__JOIN:
        g->inside = false;
        return end_token(d, k + 1, err);
    default:
        return end_token(d, k + 1, err);
    }
}

/* No further token comes to stage k and those behind it. */
static attn_status finish(attn_text_decoder *d, attn_error *err)
{
    for (size_t k = 0; k < d->count; k++) {
        switch (d->stages[k].step->kind) {
        case ATTN__BYTE_LEVEL:
            TRY(put_run(d, k, true, err));
            TRY(end_token(d, k + 1, err));
            break;
        case ATTN__BYTE_FALLBACK:
            TRY(end_run(d, k, err));
            break;
        case ATTN__SUFFIX:
            TRY(put_unsuffixed(d, k, true, err));
            break;
        case ATTN__FUSE:
            TRY(end_token(d, k + 1, err));
            break;
        default:
            break;
        }
    }
    return ATTN_OK;
}

/* As new, but for what the last call gave. */
static void restart(attn_text_decoder *d)
{
    for (size_t k = 0; k < d->count; k++) {
        stage *g = &d->stages[k];
        g->held.size = g->run.size = 0;
        g->tokens = g->leading = g->trailing = 0;
        g->inside = g->begun = false;
    }
}

/* --- Giving out ----------------------------------------------------------------------------- */

/* What is not UTF-8 in s becomes U+FFFD. */
static attn_status show(attn_text_decoder *d, const unsigned char *s, size_t size, attn_error *err)
{
    d->shown.size = 0;
    for (size_t at = 0, n; at < size; at += n) {
        n = attn__utf8_run(s + at, size - at);
        TRY(keep(&d->shown, (const char *)s + at, n, err));
        if (n > 0)
            continue;
        n = attn__utf8_partial(s + at, size - at);
        n += n == 0;
        TRY(keep(&d->shown, "\xef\xbf\xbd", 3, err));
    }
    return attn__buffer_room(&d->shown, 0) ? ATTN_OK : no_memory(err);
}

static attn_status decode(attn_text_decoder *d, const int32_t *ids, size_t count, int end,
                          attn_error *err)
{
    const attn_tokenizer *t = d->tokenizer;

    for (size_t i = 0; i < count; i++) {
        size_t id = (size_t)(uint32_t)ids[i], size;
        const char *text;
        if (id >= t->id_count || t->spoken[id] == ATTN__NONE ||
            (d->flags & ATTN_DECODE_SKIP_SPECIAL && t->special[id]))
            continue;
        text = attn__strings_get(&t->texts, t->spoken[id], &size);
        TRY(put(d, 0, text, size, err));
        TRY(end_token(d, 0, err));
    }
    if (end)
        TRY(finish(d, err));
    d->given = d->out.size - (end ? 0 : open_end(&d->out));
    if (!attn__buffer_room(&d->out, 0))
        return no_memory(err);
    if (d->flags & ATTN_DECODE_LOSSY)
        return show(d, d->out.data, d->given, err);
    return ATTN_OK;
}

attn_status attn_text_decode(attn_text_decoder *d, const int32_t *ids, size_t count, int end,
                             const char **text, size_t *size, attn_error *err)
{
    attn_status st;

    if (!ids && count > 0)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "ids: NULL with a count");
    d->out.size -= d->given;
    if (d->out.size)
        memmove(d->out.data, (char *)d->out.data + d->given, d->out.size);
    d->given = 0;
    st = decode(d, ids, count, end, err);
    if (st != ATTN_OK || end)
        restart(d);
    if (st != ATTN_OK) {
        d->out.size = d->given = 0;
        return st;
    }
    *text = d->flags & ATTN_DECODE_LOSSY ? d->shown.data : d->out.data;
    *size = d->flags & ATTN_DECODE_LOSSY ? d->shown.size : d->given;
    return ATTN_OK;
}

static attn_status create(const attn_tokenizer *t, attn_text_decoder *d, attn_error *err)
{
    size_t count = t->decoder.count ? t->decoder.count : 1;

    d->out.ctx = d->shown.ctx = t->ctx;
    d->join.kind = ATTN__JOIN;
    d->stages = attn__new(t->ctx, count * sizeof *d->stages);
    if (!d->stages)
        return no_memory(err);
    d->count = count;
    for (size_t k = 0; k < count; k++) {
        d->stages[k].step = t->decoder.count ? &t->decoder.items[k] : &d->join;
        d->stages[k].held.ctx = d->stages[k].run.ctx = t->ctx;
    }
    return attn__matcher_create(t->ctx, &d->matcher, err);
}

attn_status attn_text_decoder_create(const attn_tokenizer *t, unsigned flags,
                                     attn_text_decoder **out, attn_error *err)
{
    attn_text_decoder *d;
    attn_status st;

    *out = NULL;
    if (!t)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "tokenizer: NULL");
    if (flags & ~(unsigned)(ATTN_DECODE_SKIP_SPECIAL | ATTN_DECODE_LOSSY))
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "flags: unknown bits %#x", flags);
    d = attn__new(t->ctx, sizeof *d);
    if (!d)
        return no_memory(err);
    d->tokenizer = t;
    d->flags = flags;
    st = create(t, d, err);
    if (st == ATTN_OK)
        *out = d;
    else
        attn_text_decoder_destroy(d);
    return st;
}

void attn_text_decoder_destroy(attn_text_decoder *d)
{
    if (!d)
        return;
    for (size_t k = 0; k < d->count; k++) {
        attn__buffer_free(&d->stages[k].held);
        attn__buffer_free(&d->stages[k].run);
    }
    attn__matcher_free(d->matcher);
    attn__buffer_free(&d->out);
    attn__buffer_free(&d->shown);
    attn__free(d->tokenizer->ctx, d->stages);
    attn__free(d->tokenizer->ctx, d);
}
