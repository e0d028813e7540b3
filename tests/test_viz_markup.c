/* test_viz_markup.c: SVG and HTML stay closed, whatever the text in them. */
#include "src/viz/out.h"
#include "tests/expect.h"
#include "tests/pictures.h"

#include <ctype.h>
#include <string.h>

/* Walks strict markup and writes down its skeleton: names of elements and attributes, no values and
 * no text. Fails the test on anything that is not closed, quoted or escaped. */
typedef struct walker {
    const char *at, *all;
    attn__out skeleton;
    char open[64][24];
    size_t depth;
    int html;
} walker;

static void demand(const walker *w, int holds, const char *what)
{
    CHECK_MSG(holds, "%s at byte %zu: %.60s", what, (size_t)(w->at - w->all), w->at);
}

/* By hand: ASan measures what it hands to strspn to its end, a page for every name on it. */
static size_t name_length(const char *p)
{
    size_t n = 0;

    while (isalnum((unsigned char)p[n]) || p[n] == '-' || p[n] == ':')
        n++;
    return n;
}

static void walk_text(walker *w, const char *stop)
{
    for (; *w->at && !strchr(stop, *w->at); w->at++) {
        unsigned char c = (unsigned char)*w->at;

        demand(w, (c >= 0x20 && c != 0x7f) || c == '\n', "control character");
        demand(w, c != '<', "bare <");
        if (c == '&') {
            size_t n = 0;

            while (n < 7 && w->at[n] && w->at[n] != ';')
                n++;
            demand(w, n > 1 && n < 7 && w->at[n] == ';', "bare &");
        }
    }
}

static int is_void(const char *name)
{
    return strcmp(name, "meta") == 0 || strcmp(name, "input") == 0;
}

static void walk_tag(walker *w)
{
    char name[24];
    size_t n = name_length(++w->at);

    demand(w, n > 0 && n < sizeof name, "name");
    memcpy(name, w->at, n);
    name[n] = '\0';
    w->at += n;
    attn__out_text(&w->skeleton, "<");
    attn__out_text(&w->skeleton, name);
    while (*w->at == ' ') {
        n = name_length(++w->at);
        demand(w, n > 0, "attribute");
        attn__out_text(&w->skeleton, " ");
        attn__out_put(&w->skeleton, w->at, n);
        w->at += n;
        if (*w->at != '=')
            continue;
        demand(w, w->at[1] == '"', "quote");
        w->at += 2;
        walk_text(w, "\"");
        demand(w, *w->at++ == '"', "end of attribute");
    }
    if (strncmp(w->at, "/>", 2) == 0) {
        w->at += 2;
        return;
    }
    demand(w, *w->at++ == '>', "end of tag");
    if (w->html && is_void(name))
        return;
    if (w->html && (strcmp(name, "script") == 0 || strcmp(name, "style") == 0)) {
        const char *end = strcmp(name, "script") == 0 ? "</script>" : "</style>";

        w->at = strstr(w->at, end);
        CHECK_MSG(w->at != NULL, "no %s", end);
        w->at += strlen(end);
        return;
    }
    demand(w, w->depth < 64, "depth");
    strcpy(w->open[w->depth++], name);
}

static void walk(walker *w, const char *text, int html)
{
    *w = (walker){.at = text, .all = text, .html = html};
    if (html && strncmp(w->at, "<!DOCTYPE html>", 15) == 0)
        w->at += 15;
    if (strncmp(w->at, "<?xml ", 6) == 0)
        w->at = strstr(w->at, "?>") + 2;
    while (*w->at) {
        if (strncmp(w->at, "</", 2) == 0) {
            size_t n = name_length(w->at + 2);

            demand(w, w->depth > 0, "end without start");
            w->depth--;
            demand(w,
                   n == strlen(w->open[w->depth]) &&
                       strncmp(w->at + 2, w->open[w->depth], n) == 0 && w->at[2 + n] == '>',
                   "end of another element");
            w->at += n + 3;
            attn__out_text(&w->skeleton, "/");
        } else if (*w->at == '<') {
            walk_tag(w);
        } else {
            walk_text(w, "<");
        }
    }
    CHECK_MSG(w->depth == 0, "%s stays open", w->open[w->depth ? w->depth - 1 : 0]);
    attn__out_string(&w->skeleton);
}

/* Markup of every picture is closed, whatever the tokens; and hostile ones leave no trace in its
 * skeleton: it is that of harmless ones. */
static void markup_stays_closed(void **state)
{
    arena a = {0};

    (void)state;
    for (size_t i = 0;; i++) {
        picture p = picture_at(&a, i);
        walker w;

        if (!p.name)
            break;
        for (int html = 0; html < 2; html++) {
            picture_bytes b =
                picture_emit(&a, &p.figure, html ? ATTN_PICTURE_HTML : ATTN_PICTURE_SVG);

            CHECK(picture_is_utf8(&b) && strlen(b.data) == b.size);
            walk(&w, b.data, html);
            CHECK(!strstr((const char *)w.skeleton.bytes, "foreignObject"));
            CHECK(!strstr((const char *)w.skeleton.bytes, " on"));
            CHECK(!strstr((const char *)w.skeleton.bytes, " style"));
            attn__out_reset(&w.skeleton);
        }
        arena_reset(&a);
    }
}

static void hostile_tokens_stay_text(void **state)
{
    static const int kinds[] = {ATTN_FIGURE_MAP, ATTN_FIGURE_GRID, ATTN_FIGURE_LINES};
    enum { N = 24 };
    arena a = {0};
    attn_label *bad = hostile_tokens(&a, 64);

    (void)state;
    for (size_t k = 0; k < 3; k++)
        for (int64_t from = 0; from < 32; from += k == 0 ? 1 : 4)
            for (int html = 0; html < 2; html++) {
                attn_figure f = ATTN_FIGURE_INIT;
                attn_panel p = ATTN_PANEL_INIT;
                attn_label good[N];
                walker w[2];

                p.cells = pattern_weights(&a, PATTERN_BLOCKS, N, 1);
                f.kind = (attn_figure_kind)kinds[k];
                f.panels = &p;
                f.panel_count = 1;
                for (int i = 0; i < N; i++)
                    good[i] = (attn_label){"word", 4};
                for (int hostile = 0; hostile < 2; hostile++) {
                    char text[25] = ""; /* short, or lines would break elsewhere */
                    picture_bytes b;
                    int seen;

                    memcpy(text, bad[from].text, bad[from].size < 24 ? bad[from].size : 24);
                    seen = text[strspn(text, " \r\n\t")] != 0; /* an empty line is no line */
                    f.query_tokens = f.key_tokens = hostile ? bad + from : good;
                    f.title = hostile && seen ? text : "title";
                    f.notes = hostile && seen ? text : "notes";
                    f.query_title = f.key_title = f.value_title = p.name = f.notes;
                    b = picture_emit(&a, &f, html ? ATTN_PICTURE_HTML : ATTN_PICTURE_SVG);
                    CHECK(picture_is_utf8(&b));
                    walk(&w[hostile], b.data, html);
                }
                CHECK_MSG(
                    w[0].skeleton.size == w[1].skeleton.size &&
                        memcmp(w[0].skeleton.bytes, w[1].skeleton.bytes, w[0].skeleton.size) == 0,
                    "kind %zu, token %lld, html %d", k, (long long)from, html);
                attn__out_reset(&w[0].skeleton);
                attn__out_reset(&w[1].skeleton);
            }
    arena_reset(&a);
}

int main(int argc, char **argv)
{
    static const test_case tests[] = {
        {"markup_stays_closed", markup_stays_closed, 0},
        {"hostile_tokens_stay_text", hostile_tokens_stay_text, 0},
    };

    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
