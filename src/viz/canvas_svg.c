/* canvas_svg.c: SVG with real text. Needs no font here: widths are estimated, a little generously,
 * for the sans-serif faces that readers have, so that the bytes are the same on every machine. */
#include "src/viz/canvas.h"

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/viz/label.h"

#include <string.h>

typedef struct svg {
    attn__canvas base;
    const char *inside; /* see canvas.h */
} svg;

/* --- Widths ----------------------------------------------------------------------------------- */

/* In hundredths of the size, by kind of letter in DejaVu Sans, the widest of the usual faces. */
static double letter_width(unsigned char c)
{
    if (strchr("ijl.,:;'|!I", c))
        return 0.34;
    if (strchr("frt()[]{}/\\- \"", c))
        return 0.42;
    if (strchr("mwMW@%#+=<>~", c))
        return 0.92;
    return c >= 'A' && c <= 'Z' ? 0.72 : 0.635;
}

static double measure(attn__canvas *c, const char *text, double size, bool bold)
{
    double width = 0;
    char wide[5] = "";

    (void)c;
    for (const unsigned char *p = (const unsigned char *)text; *p;) {
        size_t n = *p < 0x80 ? 1 : *p < 0xe0 ? 2 : *p < 0xf0 ? 3 : 4;

        if (n == 1) {
            width += letter_width(*p);
        } else {
            memcpy(wide, p, n);
            wide[n] = '\0';
            width += 0.66 * (double)attn__label_columns(wide);
        }
        p += n;
    }
    return width * size * (bold ? 1.1 : 1);
}

/* --- Elements --------------------------------------------------------------------------------- */

static void attribute(attn__out *o, const char *name, double value)
{
    attn__out_char(o, ' ');
    attn__out_text(o, name);
    attn__out_text(o, "=\"");
    attn__out_length(o, value);
    attn__out_char(o, '"');
}

static void attribute_text(attn__out *o, const char *name, const char *value)
{
    attn__out_char(o, ' ');
    attn__out_text(o, name);
    attn__out_text(o, "=\"");
    attn__out_xml(o, value);
    attn__out_char(o, '"');
}

static void colour(attn__out *o, const char *name, attn__rgb c)
{
    static const char digit[] = "0123456789abcdef";
    const uint8_t v[3] = {c.r, c.g, c.b};
    char text[8] = "#";

    for (int i = 0; i < 3; i++) {
        text[1 + 2 * i] = digit[v[i] >> 4];
        text[2 + 2 * i] = digit[v[i] & 15];
    }
    text[7] = '\0';
    attribute_text(o, name, text);
}

static void close_with_hint(attn__out *o, const char *element, const char *hint)
{
    if (!hint) {
        attn__out_text(o, "/>\n");
        return;
    }
    attn__out_text(o, "><title>");
    attn__out_xml(o, hint);
    attn__out_text(o, "</title></");
    attn__out_text(o, element);
    attn__out_text(o, ">\n");
}

/* "title" or "desc" with what makes it unique, and what comes after. */
static void id(attn__out *o, const svg *s, const char *rest)
{
    attn__out_text(o, s->inside ? s->inside : "attn");
    attn__out_char(o, '-');
    attn__out_text(o, rest);
}

static void begin(attn__canvas *c, size_t width, size_t height, attn__rgb paper, const char *title,
                  const char *description)
{
    const svg *s = (const svg *)c;
    attn__out *o = c->out;

    if (!s->inside)
        attn__out_text(o, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    attn__out_text(o, "<svg xmlns=\"http://www.w3.org/2000/svg\"");
    attribute(o, "width", (double)width);
    attribute(o, "height", (double)height);
    attn__out_text(o, " viewBox=\"0 0 ");
    attn__out_length(o, (double)width);
    attn__out_char(o, ' ');
    attn__out_length(o, (double)height);
    attn__out_text(o, "\" role=\"img\" aria-labelledby=\"");
    id(o, s, "title ");
    id(o, s, "desc\" font-family=\"'DejaVu Sans',Verdana,Arial,sans-serif\">\n<title id=\"");
    id(o, s, "title\">");
    attn__out_xml(o, title);
    attn__out_text(o, "</title>\n<desc id=\"");
    id(o, s, "desc\">");
    attn__out_xml(o, description);
    attn__out_text(o, "</desc>\n<rect");
    attribute(o, "width", (double)width);
    attribute(o, "height", (double)height);
    colour(o, "fill", paper);
    attn__out_text(o, "/>\n");
}

static void rect(attn__canvas *c, double x, double y, double w, double h, attn__rgb fill,
                 double alpha, const char *hint)
{
    attn__out *o = c->out;

    attn__out_text(o, "<rect");
    attribute(o, "x", x);
    attribute(o, "y", y);
    attribute(o, "width", w);
    attribute(o, "height", h);
    colour(o, "fill", fill);
    if (alpha < 1)
        attribute(o, "fill-opacity", alpha);
    attn__out_text(o, " shape-rendering=\"crispEdges\"");
    close_with_hint(o, "rect", hint);
}

static void point(attn__out *o, const double xy[2])
{
    attn__out_length(o, xy[0]);
    attn__out_char(o, ' ');
    attn__out_length(o, xy[1]);
}

static void path(attn__canvas *c, const double (*p)[2], size_t n, bool curve, const attn__pen *pen,
                 const char *hint)
{
    attn__out *o = c->out;

    attn__out_text(o, "<path fill=\"none\"");
    colour(o, "stroke", pen->colour);
    attribute(o, "stroke-width", pen->width);
    if (pen->alpha < 1)
        attribute(o, "stroke-opacity", pen->alpha);
    if (pen->dashed)
        attn__out_text(o, " stroke-dasharray=\"5 3\"");
    attn__out_text(o, " stroke-linejoin=\"round\" d=\"M");
    point(o, p[0]);
    if (curve) {
        double middle = (p[0][0] + p[1][0]) / 2;

        attn__out_char(o, 'C');
        point(o, (const double[2]){middle, p[0][1]});
        attn__out_char(o, ' ');
        point(o, (const double[2]){middle, p[1][1]});
        attn__out_char(o, ' ');
        point(o, p[1]);
    } else {
        for (size_t i = 1; i < n; i++) {
            attn__out_char(o, 'L');
            point(o, p[i]);
        }
    }
    attn__out_char(o, '"');
    close_with_hint(o, "path", hint);
}

static void image(attn__canvas *c, double x, double y, double w, double h, const uint8_t *rgba,
                  size_t columns, size_t rows, bool smooth, const char *hint)
{
    attn__out png = {.ctx = c->ctx};
    attn__out *o = c->out;

    if (c->status != ATTN_OK)
        return;
    c->status =
        attn__png_encode(c->ctx, rgba, columns, rows, 4 * columns, true, NULL, &png, &c->error);
    attn__out_text(o, "<image");
    attribute(o, "x", x);
    attribute(o, "y", y);
    attribute(o, "width", w);
    attribute(o, "height", h);
    attn__out_text(o, " preserveAspectRatio=\"none\"");
    if (!smooth)
        attn__out_text(o, " image-rendering=\"pixelated\"");
    attn__out_text(o, " href=\"data:image/png;base64,");
    attn__out_base64(o, png.bytes, png.size);
    attn__out_char(o, '"');
    close_with_hint(o, "image", hint);
    attn__out_done(&png, o);
}

static void text(attn__canvas *c, double x, double y, const char *words, const attn__type *type)
{
    attn__out *o = c->out;
    attn__out cut = {.ctx = c->ctx};
    double width = type->most > 0 ? measure(c, words, type->size, type->bold) : 0;

    if (width > type->most) {
        size_t columns = attn__label_columns(words);

        columns = (size_t)((double)columns * type->most / width);
        attn__label_clean(&cut, words, strlen(words), columns > 0 ? columns : 1, ATTN__PROSE);
        words = attn__out_string(&cut);
    }
    attn__out_text(o, "<text");
    attribute(o, "x", x);
    attribute(o, "y", y);
    attribute(o, "dy", 0.36 * type->size); /* from the middle to the base line */
    attribute(o, "font-size", type->size);
    if (type->anchor >= 0)
        attribute_text(o, "text-anchor", type->anchor == 0 ? "middle" : "end");
    if (type->bold)
        attn__out_text(o, " font-weight=\"bold\"");
    colour(o, "fill", type->colour);
    if (type->angle != 0) {
        attn__out_text(o, " transform=\"rotate(");
        attn__out_length(o, -type->angle);
        attn__out_char(o, ' ');
        point(o, (const double[2]){x, y});
        attn__out_text(o, ")\"");
    }
    attn__out_text(o, " xml:space=\"preserve\">");
    attn__out_xml(o, words);
    attn__out_text(o, "</text>\n");
    attn__out_done(&cut, o);
}

static void end(attn__canvas *c)
{
    attn__out_text(c->out, "</svg>\n");
    if (c->out->failed && c->status == ATTN_OK)
        c->status = attn__fail(&c->error, ATTN_E_MEMORY, 0, "SVG text");
}

static void close(attn__canvas *c)
{
    attn__free(c->ctx, c);
}

attn_status attn__canvas_svg(const attn_ctx *ctx, attn__out *out, const char *inside,
                             attn__canvas **canvas, attn_error *err)
{
    svg *s = attn__new(ctx, sizeof *s);

    *canvas = NULL;
    if (!s)
        return attn__fail(err, ATTN_E_MEMORY, 0, "SVG");
    s->base = (attn__canvas){.ctx = ctx,
                             .out = out,
                             .measure = measure,
                             .begin = begin,
                             .rect = rect,
                             .path = path,
                             .image = image,
                             .text = text,
                             .end = end,
                             .close = close};
    s->inside = inside;
    *canvas = &s->base;
    return ATTN_OK;
}
