/* unicode.c: UTF-8, classes and normal forms of characters, over utf8proc's tables.
 *
 * utf8proc puts marks into canonical order by exchanging neighbours, which takes a minute for a
 * megabyte of marks in the wrong order. Here each run of marks is sorted by counting classes.
 *
 * Ids must be those of Hugging Face's tokenizers, whose tables for some of this are of Unicode 8
 * and 9: unicode_old.h lists where those differ. */
#include "src/text/unicode.h"

#include "src/base/mem.h"
#include "src/text/unicode_old.h"

#include <string.h>
#include <utf8proc.h>

size_t attn__utf8_get(const unsigned char *s, size_t size, uint32_t *code)
{
    utf8proc_int32_t c;
    utf8proc_ssize_t n = utf8proc_iterate(s, (utf8proc_ssize_t)size, &c);

    if (n <= 0)
        return 0;
    *code = (uint32_t)c;
    return (size_t)n;
}

size_t attn__utf8_partial(const unsigned char *s, size_t size)
{
    size_t n = s[0] < 0xc2 ? 1 : attn__utf8_size(s[0]), have = 1;

    if (n == 1 || s[0] > 0xf4)
        return 0;
    /* The second byte's range keeps out long forms, surrogates and codes above U+10FFFF. */
    if (size > 1) {
        unsigned char low = s[0] == 0xe0 ? 0xa0 : s[0] == 0xf0 ? 0x90 : 0x80;
        unsigned char high = s[0] == 0xed ? 0x9f : s[0] == 0xf4 ? 0x8f : 0xbf;
        if (s[1] < low || s[1] > high)
            return 1;
    }
    while (have < n && have < size && s[have] >> 6 == 2)
        have++;
    return have < n ? have : 0;
}

size_t attn__utf8_run(const unsigned char *s, size_t size)
{
    size_t at = 0, n;
    uint32_t code;

    while (at < size) {
        if (s[at] < 0x80) {
            at++;
            continue;
        }
        n = attn__utf8_get(s + at, size - at, &code);
        if (n == 0)
            break;
        at += n;
    }
    return at;
}

size_t attn__utf8_put(unsigned char out[4], uint32_t code)
{
    size_t n = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;

    for (size_t i = n - 1; i > 0; i--, code >>= 6)
        out[i] = (unsigned char)(0x80 | (code & 0x3f));
    out[0] = (unsigned char)(n == 1 ? code : (0xf00u >> n & 0xf0) | code);
    return n;
}

/* --- Classes -------------------------------------------------------------------------------- */

bool attn__is_space(uint32_t c)
{
    if (c < 0x80)
        return c == ' ' || (c >= 9 && c <= 13);
    return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 ||
           c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

static bool is_in(uint32_t c, const uint32_t (*ranges)[2], size_t count)
{
    size_t low = 0, high = count;

    while (low < high) {
        size_t middle = (low + high) / 2;
        if (ranges[middle][1] < c)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && ranges[low][0] <= c;
}

#define IS_IN(c, ranges) is_in(c, ranges, sizeof(ranges) / sizeof *(ranges))

static utf8proc_category_t category(uint32_t c)
{
    return utf8proc_category((utf8proc_int32_t)c);
}

bool attn__is_number(uint32_t c)
{
    utf8proc_category_t k = category(c);

    return k == UTF8PROC_CATEGORY_ND || k == UTF8PROC_CATEGORY_NL || k == UTF8PROC_CATEGORY_NO;
}

bool attn__is_punctuation(uint32_t c)
{
    utf8proc_category_t k;

    if (c < 0x80)
        return (c > 32 && c < 48) || (c > 57 && c < 65) || (c > 90 && c < 97) ||
               (c > 122 && c < 127);
    k = category(c);
    return (k >= UTF8PROC_CATEGORY_PC && k <= UTF8PROC_CATEGORY_PO) != IS_IN(c, old_punctuation);
}

bool attn__is_mark(uint32_t c)
{
    utf8proc_category_t k = category(c);

    return (k == UTF8PROC_CATEGORY_MN || k == UTF8PROC_CATEGORY_MC || k == UTF8PROC_CATEGORY_ME) !=
           IS_IN(c, old_marks);
}

uint32_t attn__lower(uint32_t c)
{
    return (uint32_t)utf8proc_tolower((utf8proc_int32_t)c);
}

/* --- Normal forms --------------------------------------------------------------------------- */

static int combining_class(int32_t code)
{
    return utf8proc_get_property(code)->combining_class;
}

/* Puts the marks of one run (classes above 0) in the order of their classes, equal ones as they
 * were. `spare` has room for the run. */
static void order_run(int32_t *run, size_t count, int32_t *spare)
{
    size_t start[257] = {0};

    for (size_t i = 0; i < count; i++)
        start[combining_class(run[i]) + 1]++;
    for (size_t k = 1; k < 257; k++)
        start[k] += start[k - 1];
    for (size_t i = 0; i < count; i++)
        spare[start[combining_class(run[i])]++] = run[i];
    memcpy(run, spare, count * sizeof *run);
}

static void order_marks(int32_t *codes, size_t count, int32_t *spare)
{
    for (size_t i = 0; i < count;) {
        size_t from = i;
        bool sorted = true;
        int last = 0, k;

        for (; i < count && (k = combining_class(codes[i])) != 0; i++) {
            sorted = sorted && k >= last;
            last = k;
        }
        if (!sorted)
            order_run(codes + from, i - from, spare);
        i += i == from;
    }
}

/* Stands for a character that old tables do not know: of class 0, in no composition. The originals
 * are kept in their order, which nothing changes: starters neither move nor vanish. */
enum { PLACEHOLDER = 0xdffff };

/* Full decomposition of each character, in the order of the text. */
static bool decompose(const unsigned char *s, size_t size, bool compatible, attn__buffer *codes,
                      attn__buffer *originals)
{
    enum { LONGEST = 32 }; /* U+FDFA becomes 18 */
    utf8proc_option_t options =
        (utf8proc_option_t)(compatible ? UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT : UTF8PROC_DECOMPOSE);
    uint32_t code;
    int boundary = 0;

    for (size_t at = 0; at < size; at += attn__utf8_size(s[at])) {
        int32_t *to = attn__buffer_room(codes, LONGEST * sizeof *to);
        utf8proc_ssize_t n = 1;
        if (!to)
            return false;
        attn__utf8_get(s + at, size - at, &code);
        if (code < 0xc0) {
            *to = (int32_t)code;
            if (compatible && code >= 0xa0)
                n = utf8proc_decompose_char(*to, to, LONGEST, options, &boundary);
        } else if (code != PLACEHOLDER && !IS_IN(code, old_inert)) {
            n = utf8proc_decompose_char((utf8proc_int32_t)code, to, LONGEST, options, &boundary);
        } else {
            *to = PLACEHOLDER;
            if (!attn__buffer_put(originals, &code, sizeof code))
                return false;
        }
        codes->size += (size_t)n * sizeof *to;
    }
    return true;
}

static bool is_ascii(const unsigned char *s, size_t size)
{
    unsigned char all = 0;

    for (size_t i = 0; i < size; i++)
        all |= s[i];
    return all < 0x80;
}

bool attn__normal_form(attn__form form, const unsigned char *s, size_t size, attn__buffer *codes,
                       attn__buffer *originals, attn__buffer *out)
{
    const uint32_t *original;
    utf8proc_ssize_t count;
    int32_t *c, *spare;

    if (is_ascii(s, size))
        return attn__buffer_put(out, s, size);
    codes->size = originals->size = 0;
    if (!decompose(s, size, form == ATTN__NFKC || form == ATTN__NFKD, codes, originals))
        return false;
    count = (utf8proc_ssize_t)(codes->size / sizeof *c);
    spare = attn__buffer_room(codes, codes->size);
    if (!spare || !attn__buffer_room(out, (size_t)count * 4))
        return false;
    c = codes->data;
    order_marks(c, (size_t)count, spare);
    if (form == ATTN__NFC || form == ATTN__NFKC)
        count = utf8proc_normalize_utf32(c, count,
                                         (utf8proc_option_t)(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
    original = originals->data;
    for (utf8proc_ssize_t i = 0; i < count; i++)
        out->size += attn__utf8_put((unsigned char *)out->data + out->size,
                                    c[i] == PLACEHOLDER ? *original++ : (uint32_t)c[i]);
    return true;
}

/* --- Bytes as characters -------------------------------------------------------------------- */

/* In the order of bytes: 0-32, 127-160 and 173 do not stand for themselves. */
uint32_t attn__byte_code(unsigned char b)
{
    if (b <= 32)
        return 256u + b;
    if (b >= 127 && b <= 160)
        return 256u + 33 + (b - 127u);
    return b == 173 ? 256 + 33 + 34 : b;
}

int attn__code_byte(uint32_t c)
{
    if (c < 256)
        return c <= 32 || (c >= 127 && c <= 160) || c == 173 ? -1 : (int)c;
    c -= 256;
    if (c <= 32)
        return (int)c;
    if (c < 33 + 34)
        return (int)c - 33 + 127;
    return c == 33 + 34 ? 173 : -1;
}
