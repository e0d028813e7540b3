/* canvas_png.c: drawing with cairo, text set by Pango: shaping, right-to-left letters and fallback
 * fonts. The font map is our own for each picture, so that nothing global is kept by us. */
#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/viz/canvas.h"

#include <cairo.h>
#include <pango/pangocairo.h>
#include <string.h>

typedef struct png_canvas {
    attn__canvas base;
    PangoFontMap *fonts;
    PangoContext *context;
    PangoLayout *layout;
    PangoFontDescription *font;
    cairo_surface_t *surface;
    cairo_t *cairo;
    unsigned char *pixels; /* the surface's */
    size_t width, height, stride;
    char *title;
} png_canvas;

static void fail_memory(attn__canvas *c)
{
    if (c->status == ATTN_OK)
        c->status = attn__fail(&c->error, ATTN_E_MEMORY, 0, "picture");
}

static void set_text(png_canvas *p, const char *text, double size, bool bold, double most)
{
    pango_font_description_set_absolute_size(p->font, size * PANGO_SCALE);
    pango_font_description_set_weight(p->font, bold ? PANGO_WEIGHT_BOLD : PANGO_WEIGHT_NORMAL);
    pango_layout_set_font_description(p->layout, p->font);
    pango_layout_set_ellipsize(p->layout, PANGO_ELLIPSIZE_END);
    pango_layout_set_width(p->layout, most > 0 ? (int)(most * PANGO_SCALE) : -1);
    pango_layout_set_text(p->layout, text, -1);
}

static double measure(attn__canvas *c, const char *text, double size, bool bold)
{
    png_canvas *p = (png_canvas *)c;
    int width;

    set_text(p, text, size, bold, 0);
    pango_layout_get_size(p->layout, &width, NULL);
    return (double)width / PANGO_SCALE;
}

static void set_colour(const png_canvas *p, attn__rgb c, double alpha)
{
    cairo_set_source_rgba(p->cairo, c.r / 255.0, c.g / 255.0, c.b / 255.0, alpha);
}

static void begin(attn__canvas *c, size_t width, size_t height, attn__rgb paper, const char *title,
                  const char *description)
{
    png_canvas *p = (png_canvas *)c;
    int stride = cairo_format_stride_for_width(CAIRO_FORMAT_RGB24, (int)width);

    (void)description;
    p->width = width;
    p->height = height;
    p->stride = (size_t)stride;
    p->pixels = attn__alloc(c->ctx, p->stride * height);
    p->title = attn__alloc(c->ctx, strlen(title) + 1);
    if (!p->pixels || !p->title) {
        fail_memory(c);
        return;
    }
    memcpy(p->title, title, strlen(title) + 1);
    p->surface = cairo_image_surface_create_for_data(p->pixels, CAIRO_FORMAT_RGB24, (int)width,
                                                     (int)height, stride);
    p->cairo = cairo_create(p->surface);
    if (cairo_status(p->cairo) != CAIRO_STATUS_SUCCESS) {
        fail_memory(c);
        return;
    }
    set_colour(p, paper, 1);
    cairo_paint(p->cairo);
}

static void rect(attn__canvas *c, double x, double y, double w, double h, attn__rgb fill,
                 double alpha, const char *hint)
{
    png_canvas *p = (png_canvas *)c;

    (void)hint;
    if (c->status != ATTN_OK)
        return;
    set_colour(p, fill, alpha);
    cairo_set_antialias(p->cairo, CAIRO_ANTIALIAS_NONE);
    cairo_rectangle(p->cairo, x, y, w, h);
    cairo_fill(p->cairo);
    cairo_set_antialias(p->cairo, CAIRO_ANTIALIAS_DEFAULT);
}

static void path(attn__canvas *c, const double (*xy)[2], size_t n, bool curve, const attn__pen *pen,
                 const char *hint)
{
    png_canvas *p = (png_canvas *)c;
    const double dash[2] = {5, 3};

    (void)hint;
    if (c->status != ATTN_OK)
        return;
    set_colour(p, pen->colour, pen->alpha);
    cairo_set_line_width(p->cairo, pen->width);
    cairo_set_line_join(p->cairo, CAIRO_LINE_JOIN_ROUND);
    cairo_set_dash(p->cairo, dash, pen->dashed ? 2 : 0, 0);
    cairo_move_to(p->cairo, xy[0][0], xy[0][1]);
    if (curve) {
        double middle = (xy[0][0] + xy[1][0]) / 2;

        cairo_curve_to(p->cairo, middle, xy[0][1], middle, xy[1][1], xy[1][0], xy[1][1]);
    } else {
        for (size_t i = 1; i < n; i++)
            cairo_line_to(p->cairo, xy[i][0], xy[i][1]);
    }
    cairo_stroke(p->cairo);
}

/* cairo's pixels: alpha in the top byte of a native word, colours multiplied by it. */
static void to_cairo(const uint8_t *rgba, size_t n, unsigned char *to)
{
    for (size_t i = 0; i < n; i++, rgba += 4) {
        uint32_t a = rgba[3], word = a << 24;

        for (int k = 0; k < 3; k++)
            word |= (rgba[k] * a + 127) / 255 << (16 - 8 * k);
        memcpy(to + 4 * i, &word, 4);
    }
}

static void image(attn__canvas *c, double x, double y, double w, double h, const uint8_t *rgba,
                  size_t columns, size_t rows, bool smooth, const char *hint)
{
    png_canvas *p = (png_canvas *)c;
    cairo_surface_t *surface;
    unsigned char *pixels;

    (void)hint;
    if (c->status != ATTN_OK)
        return;
    pixels = attn__alloc(c->ctx, 4 * columns * rows);
    if (!pixels) {
        fail_memory(c);
        return;
    }
    to_cairo(rgba, columns * rows, pixels);
    surface = cairo_image_surface_create_for_data(pixels, CAIRO_FORMAT_ARGB32, (int)columns,
                                                  (int)rows, 4 * (int)columns);
    cairo_save(p->cairo);
    cairo_translate(p->cairo, x, y);
    cairo_scale(p->cairo, w / (double)columns, h / (double)rows);
    cairo_set_source_surface(p->cairo, surface, 0, 0);
    cairo_pattern_set_filter(cairo_get_source(p->cairo),
                             smooth ? CAIRO_FILTER_GOOD : CAIRO_FILTER_NEAREST);
    cairo_pattern_set_extend(cairo_get_source(p->cairo), CAIRO_EXTEND_PAD);
    cairo_rectangle(p->cairo, 0, 0, (double)columns, (double)rows);
    cairo_fill(p->cairo);
    cairo_restore(p->cairo);
    cairo_surface_finish(surface); /* lets go of the pixels */
    cairo_surface_destroy(surface);
    attn__free(c->ctx, pixels);
}

static void text(attn__canvas *c, double x, double y, const char *words, const attn__type *type)
{
    png_canvas *p = (png_canvas *)c;
    int width, base;

    if (c->status != ATTN_OK)
        return;
    set_text(p, words, type->size, type->bold, type->most);
    pango_cairo_update_layout(p->cairo, p->layout);
    pango_layout_get_size(p->layout, &width, NULL);
    if (type->most > 0) { /* Pango sets the text within the width allowed: ask what it takes */
        PangoRectangle extent;

        pango_layout_get_extents(p->layout, NULL, &extent);
        width = extent.width;
    }
    base = pango_layout_get_baseline(p->layout);
    cairo_save(p->cairo);
    cairo_translate(p->cairo, x, y);
    cairo_rotate(p->cairo, -type->angle * 3.14159265358979323846 / 180);
    cairo_translate(p->cairo, -(type->anchor + 1) / 2.0 * width / PANGO_SCALE,
                    0.36 * type->size - (double)base / PANGO_SCALE);
    set_colour(p, type->colour, 1);
    pango_cairo_show_layout(p->cairo, p->layout);
    cairo_restore(p->cairo);
}

static void end(attn__canvas *c)
{
    png_canvas *p = (png_canvas *)c;

    if (c->status != ATTN_OK)
        return;
    cairo_surface_flush(p->surface);
    if (cairo_status(p->cairo) != CAIRO_STATUS_SUCCESS) {
        fail_memory(c);
        return;
    }
    /* In place: words of blue, green, red to bytes of red, green, blue, alpha. */
    for (size_t i = 0; i < p->height; i++)
        for (size_t j = 0; j < p->width; j++) {
            unsigned char *at = p->pixels + i * p->stride + 4 * j;
            uint32_t word;

            memcpy(&word, at, 4);
            at[0] = (unsigned char)(word >> 16);
            at[1] = (unsigned char)(word >> 8);
            at[2] = (unsigned char)word;
        }
    c->status = attn__png_encode(c->ctx, p->pixels, p->width, p->height, p->stride, false, p->title,
                                 c->out, &c->error);
}

static void close(attn__canvas *c)
{
    png_canvas *p = (png_canvas *)c;

    if (p->font)
        pango_font_description_free(p->font);
    g_clear_object(&p->layout);
    g_clear_object(&p->context);
    g_clear_object(&p->fonts);
    if (p->cairo)
        cairo_destroy(p->cairo);
    if (p->surface)
        cairo_surface_destroy(p->surface);
    attn__free(c->ctx, p->pixels);
    attn__free(c->ctx, p->title);
    attn__free(c->ctx, p);
}

/* Without any font Pango would end the process. */
static bool has_fonts(PangoFontMap *fonts)
{
    PangoFontFamily **families = NULL;
    int count = 0;

    pango_font_map_list_families(fonts, &families, &count);
    g_free(families);
    return count > 0;
}

attn_status attn__canvas_png(const attn_ctx *ctx, attn__out *out, attn__canvas **canvas,
                             attn_error *err)
{
    png_canvas *p = attn__new(ctx, sizeof *p);

    *canvas = NULL;
    if (!p)
        return attn__fail(err, ATTN_E_MEMORY, 0, "PNG");
    p->base = (attn__canvas){.ctx = ctx,
                             .out = out,
                             .measure = measure,
                             .begin = begin,
                             .rect = rect,
                             .path = path,
                             .image = image,
                             .text = text,
                             .end = end,
                             .close = close};
    p->fonts = pango_cairo_font_map_new_for_font_type(CAIRO_FONT_TYPE_FT);
    if (!p->fonts || !has_fonts(p->fonts)) {
        close(&p->base);
        return attn__fail(err, ATTN_E_UNSUPPORTED, 0, "no font is installed");
    }
    p->context = pango_font_map_create_context(p->fonts);
    p->layout = pango_layout_new(p->context);
    p->font = pango_font_description_from_string("DejaVu Sans, sans-serif");
    pango_layout_set_single_paragraph_mode(p->layout, TRUE);
    /* As an SVG reader sets it: the line runs to the right, whatever letters stand in it. */
    pango_layout_set_auto_dir(p->layout, FALSE);
    pango_context_set_base_dir(p->context, PANGO_DIRECTION_LTR);
    *canvas = &p->base;
    return ATTN_OK;
}
