/* canvas.h: what the figures draw on: PNG and SVG behind one face; private to src/viz.
 *
 * Lengths are pixels, y runs down. Text is clean (label.h). Failures stick in `status` and later
 * calls do nothing; the writer looks once, at the end. `hint` (may be NULL) is what formats that
 * can show while the pointer rests on the thing. */
#ifndef ATTN_VIZ_CANVAS_H
#define ATTN_VIZ_CANVAS_H

#include "src/viz/colour.h"
#include "src/viz/out.h"

#include <stdbool.h>

typedef struct attn__pen {
    attn__rgb colour;
    double alpha, width;
    bool dashed;
} attn__pen;

typedef struct attn__type { /* how text is set */
    double size;
    int anchor;   /* x is its -1 left end, 0 middle, 1 right end */
    double angle; /* degrees, against the clock, around (x, y) */
    bool bold;
    attn__rgb colour;
    double most; /* longer text is cut; 0: never */
} attn__type;

typedef struct attn__canvas attn__canvas;

struct attn__canvas {
    const attn_ctx *ctx;
    attn__out *out; /* where the picture goes */
    attn_status status;
    attn_error error;

    /* Before anything is drawn: width of text, then the size of the picture. */
    double (*measure)(attn__canvas *c, const char *text, double size, bool bold);
    void (*begin)(attn__canvas *c, size_t width, size_t height, attn__rgb paper, const char *title,
                  const char *description);

    void (*rect)(attn__canvas *c, double x, double y, double w, double h, attn__rgb colour,
                 double alpha, const char *hint);
    /* A polyline through n points, or with `curve` and n = 2 an S that leaves and arrives level. */
    void (*path)(attn__canvas *c, const double (*points)[2], size_t n, bool curve,
                 const attn__pen *pen, const char *hint);
    /* Premultiplied nothing: red green blue alpha, as attn_image. */
    void (*image)(attn__canvas *c, double x, double y, double w, double h, const uint8_t *rgba,
                  size_t columns, size_t rows, bool smooth, const char *hint);
    /* y is the middle of small letters. */
    void (*text)(attn__canvas *c, double x, double y, const char *text, const attn__type *type);

    void (*end)(attn__canvas *c);   /* writes the picture to out */
    void (*close)(attn__canvas *c); /* gives everything back, after end or instead of it */
};

/* Each makes a canvas; on failure *canvas is NULL. */
attn_status attn__canvas_png(const attn_ctx *ctx, attn__out *out, attn__canvas **canvas,
                             attn_error *err);
/* `inside`: a name for this picture among those of an HTML page; NULL: a file of its own. */
attn_status attn__canvas_svg(const attn_ctx *ctx, attn__out *out, const char *inside,
                             attn__canvas **canvas, attn_error *err);

/* PNG bytes of pixels; `alpha` keeps the fourth channel. `title` may be NULL. */
attn_status attn__png_encode(const attn_ctx *ctx, const uint8_t *rgba, size_t width, size_t height,
                             size_t stride, bool alpha, const char *title, attn__out *out,
                             attn_error *err);

#endif
