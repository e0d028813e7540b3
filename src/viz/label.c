/* label.c: cleaning text cluster by cluster. What a picture shows is what a person may rely on:
 * text that reorders, hides or imitates is shown as the marks that it consists of. */
#include "src/viz/label.h"

#include <stdio.h>
#include <string.h>
#include <utf8proc.h>

/* A grapheme cluster as it is shown: no more than these points, and marks that pile up. */
enum { CLUSTER_POINTS = 12, CLUSTER_MARKS = 3, CLUSTER_BYTES = 64 };

typedef struct cluster {
    char text[CLUSTER_BYTES];
    size_t size, columns;
    bool full; /* what comes next belonged to it */
} cluster;

static void add_ascii(cluster *c, const char *text)
{
    size_t n = strlen(text);

    memcpy(c->text + c->size, text, n);
    c->size += n;
    c->columns += n;
}

static void add_point(cluster *c, int32_t point)
{
    c->size += (size_t)utf8proc_encode_char(point, (utf8proc_uint8_t *)c->text + c->size);
}

static void mark_byte(cluster *c, unsigned byte)
{
    char text[8];

    snprintf(text, sizeof text, "\\x%02x", byte);
    add_ascii(c, text);
}

static void mark_point(cluster *c, int32_t point)
{
    char text[16];

    snprintf(text, sizeof text, "\\u{%x}", (unsigned)point);
    add_ascii(c, text);
}

/* Letters that draw nothing, though Unicode counts them as letters or marks. */
static bool is_blank_letter(int32_t p)
{
    return p == 0x34f || p == 0x115f || p == 0x1160 || p == 0x17b4 || p == 0x17b5 || p == 0x2800 ||
           p == 0x3164 || p == 0xffa0;
}

/* Joiners mean something between the letters of a cluster, and only there. */
static bool is_shown(int32_t point, bool inside)
{
    switch (utf8proc_category(point)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
        return false;
    case UTF8PROC_CATEGORY_ZS:
        return point == ' ' || point == 0x3000;
    case UTF8PROC_CATEGORY_CF:
        return inside && (point == 0x200c || point == 0x200d);
    default:
        return !is_blank_letter(point);
    }
}

static bool is_mark(int32_t point)
{
    utf8proc_category_t k = utf8proc_category(point);

    return k == UTF8PROC_CATEGORY_MN || k == UTF8PROC_CATEGORY_ME || k == UTF8PROC_CATEGORY_MC;
}

/* One point of the text, -1 for a byte that belongs to none; returns the bytes taken. */
static size_t next_point(const unsigned char *p, size_t left, int32_t *point)
{
    utf8proc_ssize_t n = utf8proc_iterate(p, left < 4 ? (utf8proc_ssize_t)left : 4, point);

    if (n <= 0) {
        *point = -1;
        return 1;
    }
    return (size_t)n;
}

/* Fills c with the cluster at p and returns its bytes. */
static size_t next_cluster(const unsigned char *p, size_t left, cluster *c)
{
    bool after_full = c->full;
    utf8proc_int32_t state = 0;
    int32_t first, before, point;
    size_t taken = next_point(p, left, &first), points = 1, marks = 0, n;

    *c = (cluster){.size = 0};
    if (first < 0) {
        mark_byte(c, p[0]);
        return taken;
    }
    if (!is_shown(first, false) || (is_mark(first) && after_full)) {
        if (first < 0x80)
            mark_byte(c, (unsigned)first);
        else
            mark_point(c, first);
        c->full = after_full && is_mark(first);
        return taken;
    }
    if (is_mark(first)) {
        add_point(c, 0x25cc); /* a mark without a letter sits on a dotted circle */
        c->columns = 1;
    }
    add_point(c, first);
    c->columns += (size_t)utf8proc_charwidth(first);
    for (before = first; taken < left; before = point, points++) {
        n = next_point(p + taken, left - taken, &point);
        if (point < 0 || !is_shown(point, true) ||
            utf8proc_grapheme_break_stateful(before, point, &state))
            break;
        marks += is_mark(point) && !(point >= 0xfe00 && point <= 0xfe0f); /* variants pile not */
        if (points == CLUSTER_POINTS || marks > CLUSTER_MARKS) {
            c->full = true;
            break;
        }
        add_point(c, point);
        taken += n;
    }
    return taken;
}

/* White space as signs. Returns false if the cluster at p is none. */
static bool show_space(const unsigned char *p, size_t left, bool at_edge, attn__label_form form,
                       cluster *c)
{
    static const struct {
        char from;
        const char *token, *plain;
    } signs[] = {{' ', "\xc2\xb7", "_"},
                 {'\t', "\xe2\x87\xa5", "\\t"},
                 {'\n', "\xe2\x86\xb5", "\\n"},
                 {'\r', "\\r", "\\r"}};

    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++) {
        const char *sign = form == ATTN__PLAIN ? signs[i].plain : signs[i].token;

        if (p[0] != (unsigned char)signs[i].from)
            continue;
        if (p[0] == ' ' && form == ATTN__TOKEN && !at_edge && left > 1 && p[1] != ' ')
            sign = " ";
        if (form == ATTN__PROSE)
            sign = at_edge ? "" : " ";
        *c = (cluster){.size = strlen(sign)};
        memcpy(c->text, sign, c->size);
        c->columns = sign[0] == '\\' ? 2 : c->size > 0;
        return true;
    }
    return false;
}

/* Adds the ASCII letters that a letter is without its marks, or folded to lower case (sharp s is
 * ss); false if there are none. */
static bool add_bare(cluster *c, int32_t point, utf8proc_option_t folded)
{
    int32_t bare[CLUSTER_POINTS];
    int boundary = 0;
    utf8proc_ssize_t n = utf8proc_decompose_char(
        point, bare, CLUSTER_POINTS,
        (utf8proc_option_t)(UTF8PROC_DECOMPOSE | UTF8PROC_STRIPMARK | folded), &boundary);

    if (n < 1 || n > CLUSTER_POINTS)
        return false;
    for (utf8proc_ssize_t i = 0; i < n; i++)
        if (bare[i] <= ' ' || bare[i] > '~')
            return false;
    for (utf8proc_ssize_t i = 0; i < n; i++)
        add_ascii(c, (char[]){(char)bare[i], '\0'});
    return true;
}

/* The character at p, which is not ASCII, in ASCII. */
static void make_plain(cluster *c, const unsigned char *p, size_t size)
{
    int32_t point;

    c->size = c->columns = 0;
    if (utf8proc_iterate(p, (utf8proc_ssize_t)size, &point) < 1 ||
        (!add_bare(c, point, (utf8proc_option_t)0) && !add_bare(c, point, UTF8PROC_CASEFOLD)))
        add_ascii(c, "?");
}

size_t attn__label_clean(attn__out *out, const char *bytes, size_t size, size_t columns,
                         attn__label_form form)
{
    const unsigned char *p = (const unsigned char *)bytes;
    size_t at = 0, used = 0, cut = out->size, cut_used = 0;
    bool after_space = true;
    cluster c = {.size = 0};

    while (at < size) {
        size_t taken = 1;
        bool space = show_space(p + at, size - at, after_space, form, &c);

        if (!space)
            taken = next_cluster(p + at, size - at, &c);
        if (!space && form == ATTN__PLAIN && p[at] >= 0x80)
            make_plain(&c, p + at, size - at);
        if (form == ATTN__PLAIN && c.size > 1 && (c.text[1] & 0x80))
            c.size = 1; /* a letter without its accents */
        after_space = space;
        if (used + c.columns > columns) {
            out->size = out->failed ? out->size : cut;
            attn__out_text(out, form == ATTN__PLAIN ? "~" : "\xe2\x80\xa6");
            return cut_used + 1;
        }
        attn__out_put(out, c.text, c.size);
        used += c.columns;
        at += taken;
        if (used < columns) { /* here an ellipsis would still fit */
            cut = out->size;
            cut_used = used;
        }
    }
    return used;
}

size_t attn__label_columns(const char *text)
{
    const unsigned char *p = (const unsigned char *)text;
    size_t left = strlen(text), columns = 0;
    cluster c = {.size = 0};

    while (left > 0) {
        size_t taken = next_cluster(p, left, &c);

        columns += c.columns;
        p += taken;
        left -= taken;
    }
    return columns;
}

size_t attn__label_nth(attn__out *out, const char *text, size_t n)
{
    const unsigned char *p = (const unsigned char *)text;
    size_t left = strlen(text);
    cluster c = {.size = 0};

    for (size_t i = 0; left > 0; i++) {
        size_t taken = next_cluster(p, left, &c);

        if (i == n) {
            attn__out_put(out, c.text, c.size);
            return c.columns;
        }
        p += taken;
        left -= taken;
    }
    return 0;
}

bool attn__label_is_rtl(const char *text)
{
    const unsigned char *p = (const unsigned char *)text;
    size_t left = strlen(text);

    while (left > 0) {
        int32_t point;
        size_t taken = next_point(p, left, &point);
        utf8proc_bidi_class_t class = point < 0 ? 0 : utf8proc_get_property(point)->bidi_class;

        if (class == UTF8PROC_BIDI_CLASS_R || class == UTF8PROC_BIDI_CLASS_AL)
            return true;
        p += taken;
        left -= taken;
    }
    return false;
}
