/* html.c: one page that needs nothing else: style, script, data, and the picture as SVG for readers
 * without scripts. The content policy lets nothing run or load but these. */
#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/viz/drawing.h"
#include "src/viz/edges.h"
#include "src/viz/page.h"
#include "src/viz/page_data.h"

#include <string.h>

enum { TABLE_ROWS = 40, TABLE_KEYS = 5 };

/* What the viewer's script fills. Everything that acts is a real control, in the order of use. */
static const char viewer[] =
    "<div class=\"live\">\n"
    "<div class=\"controls\" role=\"toolbar\" aria-label=\"Controls\">\n"
    "<label id=\"choosing\">head <select id=\"panel\"></select></label>\n"
    "<label>scale <select id=\"scale\"></select></label>\n"
    "<label><input type=\"checkbox\" id=\"own\"> colours over this head's own range</label>\n"
    "<label id=\"dropping\"><input type=\"checkbox\" id=\"drop\"> drop the first key, renormalise"
    "</label>\n"
    "<button type=\"button\" id=\"zoomin\" aria-label=\"Zoom in\">+</button>\n"
    "<button type=\"button\" id=\"zoomout\" aria-label=\"Zoom out\">\xe2\x88\x92</button>\n"
    "<button type=\"button\" id=\"reset\">reset view</button>\n"
    "<label id=\"finding\">find <input id=\"find\" size=\"12\" placeholder=\"token\"></label>\n"
    "</div>\n<main>\n"
    "<section id=\"heads\" aria-label=\"Heads\"><h2>Heads</h2>"
    "<div class=\"grid\" id=\"grid\"></div></section>\n"
    "<section class=\"stage\" aria-label=\"Map\"><h2 id=\"which\"></h2>\n"
    "<div class=\"map\"><canvas id=\"rows\" aria-hidden=\"true\"></canvas>"
    "<div class=\"view\" id=\"view\" tabindex=\"0\" role=\"application\" "
    "aria-label=\"Map of weights: queries down, keys to the right. Arrow keys move, Enter locks.\" "
    "aria-describedby=\"value\"><canvas id=\"map\"></canvas><canvas "
    "id=\"cross\"></canvas></div></div>"
    "<canvas id=\"columns\" aria-hidden=\"true\"></canvas>\n"
    "<div class=\"bar\"><span id=\"valuetitle\"></span><span id=\"low\"></span>"
    "<canvas id=\"bar\" aria-hidden=\"true\"></canvas><span id=\"high\"></span>"
    "<span class=\"key\" id=\"ismasked\"><i class=\"masked\"></i>masked</span>"
    "<span class=\"key\" id=\"isdropped\"><i class=\"dropped\"></i>dropped</span>"
    "<span class=\"key\" id=\"isodd\"><i class=\"odd\"></i>not finite</span></div>\n"
    "<p class=\"note\" id=\"level\"></p></section>\n"
    "<aside id=\"about\" aria-label=\"Cell and row\"><div class=\"cell\" aria-live=\"polite\"><dl>"
    "<dt id=\"querytitle\"></dt><dd id=\"query\"></dd><dt id=\"keytitle\"></dt><dd id=\"key\"></dd>"
    "<dt>value</dt><dd class=\"big\" id=\"value\"></dd>"
    "<dt>rank in row</dt><dd id=\"rank\"></dd></dl>"
    "<p class=\"note\" id=\"lock\"></p></div>\n"
    "<table><caption id=\"whose\"></caption><thead><tr><th scope=\"col\">rank</th>"
    "<th scope=\"col\">key</th><th scope=\"col\">token</th><th scope=\"col\">weight</th>"
    "<th><span aria-hidden=\"true\">relative</span></th></tr></thead><tbody "
    "id=\"tops\"></tbody></table>\n"
    "<h2>Along the keys</h2><canvas id=\"profile\" role=\"img\" "
    "aria-label=\"Weights of the row along the keys; the table above has the heaviest\"></canvas>"
    "<p class=\"note\" id=\"profilemost\"></p></aside>\n</main>\n";

static const char help[] =
    "<details id=\"help\"><summary>Keys and mouse</summary>"
    "<p><kbd>\xe2\x86\x91</kbd> <kbd>\xe2\x86\x93</kbd> <kbd>\xe2\x86\x90</kbd> "
    "<kbd>\xe2\x86\x92</kbd> move the cell (with Shift by ten), <kbd>Home</kbd> <kbd>End</kbd> "
    "along "
    "the row, <kbd>Enter</kbd> locks, <kbd>Esc</kbd> releases; with the map focused. "
    "<kbd>+</kbd> <kbd>\xe2\x88\x92</kbd> zoom, <kbd>[</kbd> <kbd>]</kbd> layer, <kbd>&lt;</kbd> "
    "<kbd>&gt;</kbd> head, <kbd>f</kbd> find a token, <kbd>r</kbd> reset, <kbd>?</kbd> this text. "
    "The wheel zooms, a click locks the cell under the pointer.</p></details>\n</div>\n";

static const char honesty[] = "<details><summary>What this picture does not show</summary>"
                              "<p>A weight says how much of a value vector enters a sum, not why, "
                              "and not what follows from it: "
                              "a large weight on a small value does little, a small one on a large "
                              "value may decide. Heads park "
                              "weight they have no use for on the first token or on padding. "
                              "Weights near 1 hide the order of "
                              "all the others. Averages over heads show what no head does. Where "
                              "cells were pooled, what lies "
                              "inside a cell is hidden.</p></details>\n";

static void put_policy(attn__out *out)
{
    attn__out_text(out,
                   "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
                   "img-src data:; style-src 'sha256-");
    attn__out_base64(out, attn__page_css.sha256, sizeof attn__page_css.sha256);
    attn__out_text(out, "'; script-src 'sha256-");
    attn__out_base64(out, attn__page_js.sha256, sizeof attn__page_js.sha256);
    attn__out_text(out, "'; base-uri 'none'; form-action 'none'\">\n");
}

static void put_start(const attn__drawing *d, const char *facts, attn__out *out)
{
    attn__out title = {.ctx = d->ctx};

    attn__title(d, &title);
    attn__out_text(out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    put_policy(out);
    attn__out_text(out, "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                        "<meta name=\"generator\" content=\"attn " ATTN_VERSION "\">\n<title>");
    attn__out_xml(out, attn__out_string(&title));
    attn__out_text(out, "</title>\n<style>");
    attn__out_put(out, attn__page_css.bytes, attn__page_css.size);
    attn__out_text(out, "</style>\n</head>\n<body");
    if (d->figure.colours == ATTN_COLOURS_DIVERGING)
        attn__out_text(out, " class=\"diverging\"");
    attn__out_text(out, ">\n<header><div><h1>");
    attn__out_xml(out, attn__out_string(&title));
    attn__out_text(out, "</h1>\n<p class=\"facts\">");
    attn__out_xml(out, facts);
    attn__out_text(out, "</p></div>\n<button type=\"button\" id=\"theme\">theme: as the system"
                        "</button></header>\n<p class=\"error\" id=\"trouble\"></p>\n");
    attn__out_done(&title, out);
}

/* The figure as SVG, on light or dark paper. */
static attn_status put_svg(const attn__drawing *d, int dark, const char *class, attn__out *out,
                           attn_error *err)
{
    attn__canvas *c = NULL;
    attn__drawing themed = *d;
    attn_status st;

    themed.theme = attn__theme_of(d->figure.colours, dark);
    themed.figure.dark = dark;
    themed.figure.title = NULL; /* the page says it already */
    themed.figure.notes = NULL;
    attn__out_text(out, "<figure class=\"");
    attn__out_text(out, class);
    attn__out_text(out, "\">\n");
    st = attn__canvas_svg(d->ctx, out, dark ? "dark" : "light", &c, err);
    if (st != ATTN_OK)
        return st;
    st = attn__draw(&themed, c, err);
    if (st == ATTN_OK) {
        c->end(c);
        st = attn__drawn(c, err);
    }
    c->close(c);
    attn__out_text(out, "</figure>\n");
    return st;
}

/* --- The table of readers without scripts ----------------------------------------------------- */

static void put_cell(attn__out *out, const char *text)
{
    attn__out_text(out, "<td>");
    attn__out_xml(out, text);
    attn__out_text(out, "</td>");
}

static void put_table_rows(const attn__drawing *d, const attn_panel *panel, double *value,
                           double *allowed, uint8_t *kind, attn__out *out)
{
    const attn_figure *f = &d->figure;
    attn__out text = {.ctx = d->ctx};

    for (int64_t i = 0; i < f->queries && i < TABLE_ROWS; i++) {
        double weight[TABLE_KEYS];
        int64_t key[TABLE_KEYS];
        size_t n;

        attn__panel_row(f, panel, i, value, allowed, kind);
        n = attn__top_of_row(value, kind, panel->cells.size[3], TABLE_KEYS, key, weight);
        attn__out_text(out, "<tr>");
        attn__out_clear(&text);
        attn__token(f->query_tokens, f->queries, f->first_query, i, 40, ATTN__TOKEN, true, &text);
        put_cell(out, attn__out_string(&text));
        for (size_t k = 0; k < n; k++) {
            attn__out_clear(&text);
            attn__token(f->key_tokens, f->keys, f->first_key, key[k], 40, ATTN__TOKEN, true, &text);
            attn__out_text(&text, ": ");
            attn__out_value(&text, weight[k], 4);
            put_cell(out, attn__out_string(&text));
        }
        attn__out_text(out, "</tr>\n");
    }
    attn__out_done(&text, out);
}

static void put_table(const attn__drawing *d, attn__out *out)
{
    attn_panel panel = attn__panel_at(&d->figure, 0);
    size_t n = (size_t)panel.cells.size[3];
    double *value, *allowed;
    uint8_t *kind;

    if (d->figure.query_block * d->figure.key_block != 1)
        return;
    value = attn__alloc(d->ctx, n * sizeof *value);
    allowed = attn__alloc(d->ctx, n * sizeof *allowed);
    kind = attn__alloc(d->ctx, n);
    if (value && allowed && kind) {
        attn__out_text(out,
                       "<table><caption>Heaviest keys of the first queries</caption>\n<tbody>\n");
        put_table_rows(d, &panel, value, allowed, kind, out);
        attn__out_text(out, "</tbody></table>\n");
    } else {
        out->failed = true;
    }
    attn__free(d->ctx, value);
    attn__free(d->ctx, allowed);
    attn__free(d->ctx, kind);
}

/* --- The page --------------------------------------------------------------------------------- */

static void put_block(attn__out *out, const char *id, int64_t number, const attn__out *bytes)
{
    attn__out_text(out, "<script type=\"text/plain\" id=\"");
    attn__out_text(out, id);
    if (number >= 0)
        attn__out_int(out, number);
    attn__out_text(out, "\">");
    attn__out_base64(out, bytes->bytes, bytes->size);
    attn__out_text(out, "</script>\n");
}

static void put_script(attn__out *out)
{
    attn__out_text(out, "<script>");
    attn__out_put(out, attn__page_js.bytes, attn__page_js.size);
    attn__out_text(out, "</script>\n</body>\n</html>\n");
}

/* The still picture goes into a buffer of its own first: what it takes is lost to the data. */
static attn_status put_viewer(const attn__drawing *d, attn__out *out, attn_error *err)
{
    size_t rest = attn__page_js.size + sizeof viewer + sizeof help + sizeof honesty + 1000;
    attn__out still = {.ctx = d->ctx}, words = {.ctx = d->ctx};
    attn__page_data data = {.d = d};
    attn_status st = put_svg(d, 0, "fixed", &still, err);

    put_table(d, &still);
    rest += out->size + still.size + 100 * d->figure.panel_count;
    if (st == ATTN_OK)
        st = attn__page_data_make(d, d->figure.max_bytes > rest ? d->figure.max_bytes - rest : 0,
                                  &data, err);
    if (st == ATTN_OK) {
        attn__page_data_words(&data, &words);
        attn__out_text(out, viewer);
        attn__out_text(out, "<p class=\"note\">");
        attn__out_xml(out, attn__out_string(&words));
        attn__out_text(out, "</p>\n");
        attn__out_text(out, help);
        attn__out_text(out, "<div class=\"fixed\">\n");
        attn__out_put(out, still.bytes, still.size);
        attn__out_text(out, "</div>\n");
        attn__out_text(out, honesty);
        put_block(out, "head", -1, &data.head);
        for (size_t i = 0; i < d->figure.panel_count; i++)
            put_block(out, "p", (int64_t)i, &data.panels[i]);
    }
    attn__page_data_reset(&data);
    attn__out_done(&still, out);
    attn__out_done(&words, out);
    return st;
}

static attn_status put_still(const attn__drawing *d, attn__out *out, attn_error *err)
{
    attn_status st = put_svg(d, 0, "light", out, err);

    if (st == ATTN_OK)
        st = put_svg(d, 1, "dark", out, err);
    if (st == ATTN_OK && d->figure.kind != ATTN_FIGURE_CURVES)
        attn__out_text(out, honesty);
    return st;
}

attn_status attn__html(const attn__drawing *d, attn__out *out, attn_error *err)
{
    bool interactive = d->figure.kind == ATTN_FIGURE_MAP || d->figure.kind == ATTN_FIGURE_GRID;
    attn__out facts = {.ctx = d->ctx};
    attn_status st;

    attn__facts(d, NULL, NULL, &facts);
    put_start(d, attn__out_string(&facts), out);
    attn__out_done(&facts, out);
    st = interactive ? put_viewer(d, out, err) : put_still(d, out, err);
    if (st == ATTN_OK)
        put_script(out);
    if (st == ATTN_OK && out->failed)
        st = attn__fail(err, ATTN_E_MEMORY, 0, "page");
    return st;
}
