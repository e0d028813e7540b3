/* score_words.c: the words that BLEU and chrF++ count.
 *
 * Both rules are written in Python for strings of code points, and only tell signs and digits of
 * ASCII from everything else. So they work on bytes of UTF-8 just as well, once white space outside
 * ASCII has become blanks. Runs of blanks are cut to one as they are written, since no rule looks
 * further than the blank next to a sign: a text stays below twice its size and two, whatever the
 * number of passes. */
#include "src/text/scorer.h"
#include "src/text/unicode.h"

#include <string.h>

/* Python's str.isspace: White_Space and four separators of ASCII. */
static bool is_space(uint32_t code)
{
    return attn__is_space(code) || (code >= 0x1c && code <= 0x1f);
}

bool attn__segment_clean(attn__segment *s, const char *text, size_t size)
{
    const unsigned char *at = (const unsigned char *)text;
    unsigned char *out;

    s->clean.size = 0;
    /* U+FFFD has three bytes and may stand for one. */
    out = attn__buffer_room(&s->clean, 3 * size);
    if (!out)
        return false;
    while (size > 0) {
        uint32_t code = 0;
        size_t n = attn__utf8_get(at, size, &code);
        if (n == 0) {
            memcpy(out, "\xef\xbf\xbd", 3);
            out += 3;
            n = attn__utf8_partial(at, size);
            n += n == 0;
            s->malformed = true;
        } else if (code != '\n' && is_space(code)) {
            *out++ = ' ';
        } else {
            memcpy(out, at, n);
            out += n;
        }
        at += n;
        size -= n;
    }
    s->clean.size = (size_t)(out - (unsigned char *)s->clean.data);
    return true;
}

/* --- mteval-v13a ---------------------------------------------------------------------------- */

/* Replaces `what` by something no longer, from left to right. */
static void replace(attn__buffer *b, const char *what, const char *with)
{
    size_t n = strlen(what), m = strlen(with), to = 0;
    char *s = b->data;

    for (size_t at = 0; at < b->size;) {
        if (b->size - at >= n && memcmp(s + at, what, n) == 0) {
            memcpy(s + to, with, m);
            to += m;
            at += n;
        } else {
            s[to++] = s[at++];
        }
    }
    b->size = to;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_point(char c)
{
    return c == '.' || c == ',';
}

/* Signs of ASCII that are words wherever they stand: all but ' , - . */
static bool is_sign(char c)
{
    return (c >= '!' && c <= '&') || (c >= '(' && c <= '+') || c == '/' || (c >= ':' && c <= '@') ||
           (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
}

/* Bytes going out, blanks singly. */
static void put(char **out, char c)
{
    if (c != ' ' || (*out)[-1] != ' ')
        *(*out)++ = c;
}

/* The rules about pairs of neighbours; a pair that one applied to is not looked at again. */
typedef enum pair_rule { POINT_AFTER, POINT_BEFORE, DASH } pair_rule;

static bool applies(pair_rule rule, char a, char b)
{
    if (rule == POINT_AFTER)
        return !is_digit(a) && is_point(b);
    if (rule == POINT_BEFORE)
        return is_point(a) && !is_digit(b);
    return is_digit(a) && b == '-';
}

/* Copies `from` to `to`; both start with a blank. */
static bool pass(pair_rule rule, const attn__buffer *from, attn__buffer *to)
{
    const char *s = from->data;
    char *out;

    to->size = 0;
    out = attn__buffer_room(to, 2 * from->size + 2);
    if (!out)
        return false;
    *out++ = ' ';
    for (size_t i = 0; i < from->size; i++) {
        if (i + 1 == from->size || !applies(rule, s[i], s[i + 1])) {
            put(&out, s[i]);
            continue;
        }
        if (rule == POINT_BEFORE)
            put(&out, ' ');
        put(&out, s[i]);
        put(&out, ' ');
        put(&out, s[++i]);
        if (rule != POINT_BEFORE)
            put(&out, ' ');
    }
    to->size = (size_t)(out - (char *)to->data);
    return true;
}

/* Blanks around signs and around the whole. */
static bool part_signs(const attn__buffer *from, attn__buffer *to)
{
    const char *s = from->data;
    char *out;

    to->size = 0;
    out = attn__buffer_room(to, 3 * from->size + 2);
    if (!out)
        return false;
    *out++ = ' ';
    for (size_t i = 0; i < from->size; i++) {
        if (is_sign(s[i]))
            put(&out, ' ');
        put(&out, s[i]);
        if (is_sign(s[i]))
            put(&out, ' ');
    }
    put(&out, ' ');
    to->size = (size_t)(out - (char *)to->data);
    return true;
}

bool attn__segment_words(attn__segment *s)
{
    attn__buffer *b = &s->spare, last;
    const char *text = s->clean.data;
    size_t size = s->clean.size;

    while (size > 0 && (text[size - 1] == ' ' || text[size - 1] == '\n'))
        size--;
    b->size = 0;
    if (!attn__buffer_put(b, text, size))
        return false;
    replace(b, "<skipped>", "");
    replace(b, "-\n", "");
    replace(b, "\n", " ");
    replace(b, "&quot;", "\"");
    replace(b, "&amp;", "&");
    replace(b, "&lt;", "<");
    replace(b, "&gt;", ">");
    if (!part_signs(b, &s->words) || !pass(POINT_AFTER, &s->words, b) ||
        !pass(POINT_BEFORE, b, &s->words) || !pass(DASH, &s->words, b))
        return false;
    last = *b;
    *b = s->words;
    s->words = last;
    return true;
}

/* --- chrF++ --------------------------------------------------------------------------------- */

static bool is_ascii_sign(char c)
{
    return is_sign(c) || c == '\'' || is_point(c) || c == '-';
}

bool attn__segment_plain_words(attn__segment *s)
{
    const char *text = s->clean.data;
    size_t size = s->clean.size, i = 0;
    char *out;

    s->words.size = 0;
    out = attn__buffer_room(&s->words, 2 * size + 2);
    if (!out)
        return false;
    *out++ = ' ';
    while (i < size) {
        size_t n = 0, first = attn__utf8_size((unsigned char)text[i]);
        while (i + n < size && text[i + n] != ' ' && text[i + n] != '\n')
            n++;
        if (n > first && is_ascii_sign(text[i + n - 1]))
            first = n - 1;
        else if (n <= first || !is_ascii_sign(text[i]))
            first = n;
        for (size_t k = 0; k < n; k++) {
            if (k == first)
                put(&out, ' ');
            put(&out, text[i + k]);
        }
        put(&out, ' ');
        i += n + 1;
    }
    s->words.size = (size_t)(out - (char *)s->words.data);
    return true;
}
