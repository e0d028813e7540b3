/* pattern.c: Oniguruma's regular expressions, run by PCRE2.
 *
 * The two agree on what tokenizers use but for these, which are rewritten: \s and \w (PCRE2's \s
 * has U+180E, its \w neither marks nor all letters), \b by way of \w, \h (a hexadecimal digit), \v
 * (one character), \p of a script, \uHHHH, (?m) (PCRE2's s) and {,n}. Sets inside sets, most POSIX
 * classes, &&, {n,m}+ and verbs are refused, as is what PCRE2 cannot compile. */
#define PCRE2_CODE_UNIT_WIDTH 8

#include "src/text/pattern.h"

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/text/unicode.h"

#include <pcre2.h>
#include <stdio.h>
#include <string.h>

enum {
    MAX_REGEX = 10000,
    LEAST_STEPS = 100000, /* 2 ms on a pattern that runs away */
    STEPS_A_BYTE = 8,
    HEAP_KB = 1 << 16
};

struct attn__pattern {
    const attn_ctx *ctx;
    pcre2_code *code; /* NULL: a fixed string */
    char *text;       /* the string, or the expression for messages */
    size_t size;
};

struct attn__matcher {
    const attn_ctx *ctx;
    pcre2_general_context *general;
    pcre2_match_context *context;
    pcre2_match_data *data;
};

static void *take(size_t size, void *user)
{
    return attn__alloc(*(const attn_ctx **)user, size);
}

static void give(void *memory, void *user)
{
    attn__free(*(const attn_ctx **)user, memory);
}

/* --- Translation ---------------------------------------------------------------------------- */

/* Oniguruma's \w inside of a set; outside it also has some numbers of Latin-1. */
#define WORD_SET "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}"
#define WORD WORD_SET "\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}"

typedef struct translation {
    const char *s;
    size_t size, at;
    attn__buffer out;
    pcre2_compile_context *context;
    bool full;       /* no memory */
    const char *why; /* refused */
} translation;

static void put(translation *t, const char *text)
{
    t->full = t->full || !attn__buffer_text(&t->out, text);
}

static void copy(translation *t, size_t n)
{
    n = attn__min(n, t->size - t->at);
    t->full = t->full || !attn__buffer_put(&t->out, t->s + t->at, n);
    t->at += n;
}

static int peek(const translation *t, size_t ahead)
{
    return t->size - t->at > ahead ? (unsigned char)t->s[t->at + ahead] : -1;
}

static bool is_hex(int c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static bool is_digit(int c)
{
    return c >= '0' && c <= '9';
}

static void unicode_escape(translation *t)
{
    for (size_t i = 2; i < 6; i++)
        if (!is_hex(peek(t, i))) {
            t->why = "\\u without four hexadecimal digits";
            return;
        }
    t->at += 2;
    put(t, "\\x{");
    copy(t, 4);
    put(t, "}");
}

/* "\p{Han}" in PCRE2 is also what is used with Han, "\p{sc:Han}" is Han. Whether a name is that of
 * a script PCRE2 must say. Names of one or two letters are categories. */
static bool is_script(translation *t, const char *name, size_t size)
{
    char text[40];
    int length = snprintf(text, sizeof text, "\\p{sc:%.*s}", (int)size, name), why = 0;
    PCRE2_SIZE at;
    pcre2_code *code =
        pcre2_compile((PCRE2_SPTR)text, (PCRE2_SIZE)length, PCRE2_UTF, &why, &at, t->context);

    t->full = t->full || (!code && why == PCRE2_ERROR_HEAP_FAILED);
    pcre2_code_free(code);
    return code != NULL;
}

static void property(translation *t)
{
    size_t name = peek(t, 3) == '^' ? 4 : 3, end = name;

    while (peek(t, end) >= 0 && peek(t, end) != '}')
        end++;
    if (peek(t, 2) != '{' || end - name <= 2 || end - name > 30 ||
        !is_script(t, t->s + t->at + name, end - name)) {
        copy(t, 2);
        return;
    }
    copy(t, name);
    put(t, "sc:");
}

/* The escape at the cursor, outside or inside of a set. */
static void escape(translation *t, bool in_set)
{
    static const struct {
        char letter;
        const char *outside, *inside;
    } rules[] = {
        {'s', "\\p{White_Space}", "\\p{White_Space}"},
        {'S', "\\P{White_Space}", "\\P{White_Space}"},
        {'w', "[" WORD "]", WORD_SET},
        {'W', "[^" WORD "]", NULL},
        {'h', "[0-9a-fA-F]", "0-9a-fA-F"},
        {'H', "[^0-9a-fA-F]", NULL},
        {'v', "\\x0b", "\\x0b"},
        {'b', "(?:(?<=[" WORD "])(?![" WORD "])|(?<![" WORD "])(?=[" WORD "]))", "\\x08"},
        {'B', "(?:(?<=[" WORD "])(?=[" WORD "])|(?<![" WORD "])(?![" WORD "]))", NULL},
    };
    int c = peek(t, 1);

    if (c == 'u') {
        unicode_escape(t);
        return;
    }
    if (c == 'p' || c == 'P') {
        property(t);
        return;
    }
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (rules[i].letter == c) {
            const char *text = in_set ? rules[i].inside : rules[i].outside;
            if (text)
                put(t, text);
            else
                t->why = "a negated class inside of a set";
            t->at += 2;
            return;
        }
    if (c < 0)
        t->why = "a backslash at the end";
    else if (((c | 32) >= 'a' && (c | 32) <= 'z') && !strchr("nrtfaexdDAzZGRXKk", c))
        t->why = "an unknown escape";
    copy(t, 2);
}

static void posix_class(translation *t)
{
    static const char *const names[][2] = {{"[:space:]", "\\p{White_Space}"},
                                           {"[:digit:]", "\\p{Nd}"}};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t n = strlen(names[i][0]);
        if (t->size - t->at >= n && memcmp(t->s + t->at, names[i][0], n) == 0) {
            put(t, names[i][1]);
            t->at += n;
            return;
        }
    }
    t->why = "a set or class inside of a set";
}

static void set(translation *t)
{
    copy(t, peek(t, 1) == '^' ? 2 : 1);
    if (peek(t, 0) == ']')
        copy(t, 1);
    while (!t->why && peek(t, 0) >= 0 && peek(t, 0) != ']') {
        if (peek(t, 0) == '\\')
            escape(t, true);
        else if (peek(t, 0) == '[')
            posix_class(t);
        else if (peek(t, 0) == '&' && peek(t, 1) == '&')
            t->why = "an intersection of sets";
        else
            copy(t, 1);
    }
    copy(t, 1);
}

/* "(?im-x:" and the like: Ruby's m is PCRE2's s. Other groups are copied. */
static void group(translation *t)
{
    size_t n = 2;

    if (peek(t, 1) == '*') {
        t->why = "a verb";
        return;
    }
    if (peek(t, 1) != '?') {
        copy(t, 1);
        return;
    }
    while (peek(t, n) >= 0 && strchr("imx-", peek(t, n)))
        n++;
    if (n == 2 || (peek(t, n) != ':' && peek(t, n) != ')')) {
        copy(t, 2);
        return;
    }
    copy(t, 2);
    for (; n > 2; n--) {
        bool dot_all = peek(t, 0) == 'm';
        if (dot_all) {
            put(t, "s");
            t->at++;
        } else {
            copy(t, 1);
        }
    }
}

static void braces(translation *t)
{
    size_t n = 1;

    while (is_digit(peek(t, n)) || peek(t, n) == ',')
        n++;
    if (peek(t, n) == '}' && n > 1 && peek(t, n + 1) == '+') {
        t->why = "a count followed by +";
        return;
    }
    copy(t, 1);
    if (peek(t, n - 1) == '}' && peek(t, 0) == ',' && n > 2)
        put(t, "0");
}

static void translate(translation *t)
{
    while (!t->why && !t->full && t->at < t->size) {
        switch (peek(t, 0)) {
        case '\\':
            escape(t, false);
            break;
        case '[':
            set(t);
            break;
        case '(':
            group(t);
            break;
        case '{':
            braces(t);
            break;
        default:
            copy(t, 1);
        }
    }
}

/* --- Making --------------------------------------------------------------------------------- */

static attn__pattern *new_pattern(const attn_ctx *ctx, const char *text, size_t size)
{
    attn__pattern *p = attn__new(ctx, sizeof *p);

    if (!p)
        return NULL;
    p->ctx = ctx;
    p->size = size;
    p->text = attn__alloc(ctx, size + 1);
    if (!p->text) {
        attn__free(ctx, p);
        return NULL;
    }
    if (size)
        memcpy(p->text, text, size);
    p->text[size] = '\0';
    return p;
}

attn_status attn__pattern_string(const attn_ctx *ctx, const char *text, size_t size,
                                 attn__pattern **out, attn_error *err)
{
    *out = new_pattern(ctx, text, size);
    return *out ? ATTN_OK : attn__fail(err, ATTN_E_MEMORY, 0, "pattern");
}

/* Compiles translated text. Machine code is a gain only: without it the interpreter runs. */
static attn_status compile(attn__pattern *p, const char *where, const attn__buffer *text,
                           pcre2_compile_context *context, attn_error *err)
{
    const uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;
    int code = 0;
    size_t at = 0;

    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    p->code = pcre2_compile((PCRE2_SPTR)text->data, text->size, options, &code, &at, context);
    if (!p->code && code == PCRE2_ERROR_HEAP_FAILED)
        return attn__fail(err, ATTN_E_MEMORY, 0, "%s: pattern", where);
    if (!p->code) {
        PCRE2_UCHAR why[100];
        pcre2_get_error_message(code, why, sizeof why);
        return attn__fail(err, ATTN_E_FORMAT, 0, "%s: pattern '%.60s': %s", where, p->text,
                          (const char *)why);
    }
    (void)pcre2_jit_compile(p->code, PCRE2_JIT_COMPLETE);
    return ATTN_OK;
}

static attn_status translate_and_compile(attn__pattern *p, const char *where,
                                         pcre2_compile_context *context, attn_error *err)
{
    translation t = {.s = p->text, .size = p->size, .out = {.ctx = p->ctx}, .context = context};
    attn_status st;

    translate(&t);
    if (t.full || !attn__buffer_room(&t.out, 1))
        st = attn__fail(err, ATTN_E_MEMORY, 0, "%s: pattern", where);
    else if (t.why)
        st = attn__fail(err, ATTN_E_FORMAT, 0, "%s: pattern '%.60s' has %s, which is not supported",
                        where, p->text, t.why);
    else
        st = compile(p, where, &t.out, context, err);
    attn__buffer_free(&t.out);
    return st;
}

attn_status attn__pattern_regex(const attn_ctx *ctx, const char *where, const char *regex,
                                size_t size, attn__pattern **out, attn_error *err)
{
    pcre2_general_context *general = NULL;
    pcre2_compile_context *context = NULL;
    attn__pattern *p;
    attn_status st;

    *out = NULL;
    if (size > MAX_REGEX)
        return attn__fail(err, ATTN_E_FORMAT, 0, "%s: pattern over %d bytes", where, MAX_REGEX);
    p = new_pattern(ctx, regex, size);
    if (p)
        general = pcre2_general_context_create(take, give, &p->ctx);
    if (general)
        context = pcre2_compile_context_create(general);
    if (context)
        st = translate_and_compile(p, where, context, err);
    else
        st = attn__fail(err, ATTN_E_MEMORY, 0, "%s: pattern", where);
    pcre2_compile_context_free(context);
    pcre2_general_context_free(general);
    if (st == ATTN_OK)
        *out = p;
    else
        attn__pattern_free(p);
    return st;
}

void attn__pattern_free(attn__pattern *p)
{
    if (!p)
        return;
    pcre2_code_free(p->code);
    attn__free(p->ctx, p->text);
    attn__free(p->ctx, p);
}

attn_status attn__matcher_create(const attn_ctx *ctx, attn__matcher **out, attn_error *err)
{
    attn__matcher *m = attn__new(ctx, sizeof *m);

    *out = NULL;
    if (!m)
        return attn__fail(err, ATTN_E_MEMORY, 0, "matcher");
    m->ctx = ctx;
    m->general = pcre2_general_context_create(take, give, &m->ctx);
    if (m->general) {
        m->context = pcre2_match_context_create(m->general);
        m->data = pcre2_match_data_create(1, m->general);
    }
    if (!m->context || !m->data) {
        attn__matcher_free(m);
        return attn__fail(err, ATTN_E_MEMORY, 0, "matcher");
    }
    pcre2_set_heap_limit(m->context, HEAP_KB);
    *out = m;
    return ATTN_OK;
}

void attn__matcher_free(attn__matcher *m)
{
    if (!m)
        return;
    pcre2_match_data_free(m->data);
    pcre2_match_context_free(m->context);
    pcre2_general_context_free(m->general);
    attn__free(m->ctx, m);
}

/* --- Searching ------------------------------------------------------------------------------ */

static bool find_string(const attn__pattern *p, const attn__search *s, size_t *start, size_t *end)
{
    const char *at = s->text + s->at, *last;

    if (p->size == 0 || s->size - s->at < p->size)
        return false;
    last = s->text + (s->size - p->size);
    while (at <= last && (at = memchr(at, p->text[0], (size_t)(last - at) + 1)) != NULL) {
        if (memcmp(at, p->text, p->size) == 0) {
            *start = (size_t)(at - s->text);
            *end = *start + p->size;
            return true;
        }
        at++;
    }
    return false;
}

/* The code of pcre2_match. Machine code has a small stack of its own; the interpreter has not. */
static int run(const attn__pattern *p, const attn__matcher *m, const attn__search *s)
{
    int code = pcre2_match(p->code, (PCRE2_SPTR)s->text, s->size, s->at, PCRE2_NO_UTF_CHECK,
                           m->data, m->context);

    if (code == PCRE2_ERROR_JIT_STACKLIMIT)
        code = pcre2_match(p->code, (PCRE2_SPTR)s->text, s->size, s->at,
                           PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, m->data, m->context);
    return code;
}

static attn_status find_regex(const attn__pattern *p, attn__matcher *m, const attn__search *s,
                              size_t *start, size_t *end, bool *found, attn_error *err)
{
    size_t steps = LEAST_STEPS + STEPS_A_BYTE * (s->size - s->at);
    const size_t *place;
    int code;

    pcre2_set_match_limit(m->context, steps > UINT32_MAX ? UINT32_MAX : (uint32_t)steps);
    code = run(p, m, s);
    *found = code >= 0;
    if (code == PCRE2_ERROR_NOMATCH)
        return ATTN_OK;
    if (code == PCRE2_ERROR_NOMEMORY)
        return attn__fail(err, ATTN_E_MEMORY, 0, "pattern '%.60s'", p->text);
    if (code < 0)
        return attn__fail(err, ATTN_E_FORMAT, 0, "pattern '%.60s' takes too many steps", p->text);
    place = pcre2_get_ovector_pointer(m->data);
    *start = place[0];
    *end = place[1];
    if (*start > *end || *start < s->at) /* \K in a look-around */
        return attn__fail(err, ATTN_E_FORMAT, 0, "pattern '%.60s' matches backwards", p->text);
    return ATTN_OK;
}

attn_status attn__pattern_next(const attn__pattern *p, attn__matcher *m, attn__search *s,
                               bool *found, attn_error *err)
{
    size_t start = 0, end = 0;

    for (;;) {
        *found = false;
        if (s->at > s->size)
            return ATTN_OK;
        if (!p->code)
            *found = find_string(p, s, &start, &end);
        else
            TRY(find_regex(p, m, s, &start, &end, found, err));
        if (!*found)
            return ATTN_OK;
        if (start < end || !s->matched || s->end != end)
            break;
        s->at = end < s->size ? end + attn__utf8_size((unsigned char)s->text[end]) : s->size + 1;
    }
    s->start = start;
    s->end = s->at = end;
    s->matched = true;
    return ATTN_OK;
}
