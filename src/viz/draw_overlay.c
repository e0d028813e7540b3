/* draw_overlay.c: weights of patches over the image that they are patches of. The image stands
 * beside it as it is; under the cells it is grey, so that every colour there means a weight. */
#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/viz/drawing.h"

#include <math.h>

enum { NATURAL = 448, SPACE = 16 };

/* Copy of the caller's image without gaps between rows. */
static uint8_t *copy(const attn__drawing *d, bool grey)
{
    const attn_image *m = d->figure.image;
    size_t stride = m->stride ? m->stride : 4 * m->width;
    uint8_t *pixels = attn__alloc(d->ctx, 4 * m->width * m->height), *to = pixels;

    for (size_t y = 0; pixels && y < m->height; y++) {
        const uint8_t *from = m->rgba + y * stride;

        for (size_t x = 0; x < m->width; x++, from += 4, to += 4) {
            /* Rec. 709 weights, in 256ths. */
            uint8_t luma = (uint8_t)((54 * from[0] + 183 * from[1] + 19 * from[2]) >> 8);

            to[0] = grey ? luma : from[0];
            to[1] = grey ? luma : from[1];
            to[2] = grey ? luma : from[2];
            to[3] = from[3];
        }
    }
    return pixels;
}

static void draw_pictures(const attn__drawing *d, attn__canvas *c, const attn__map *map,
                          const attn__scale *scale, double x, double y, double w, double h)
{
    const attn_image *m = d->figure.image;
    uint8_t *plain = copy(d, false), *grey = copy(d, true);
    uint8_t *cells = attn__map_pixels(d, map, scale, (uint8_t)(255 * d->figure.opacity + 0.5));

    if (plain && grey && cells) {
        c->image(c, x, y, w, h, plain, m->width, m->height, true, NULL);
        c->image(c, x + w + SPACE, y, w, h, grey, m->width, m->height, true, NULL);
        c->image(c, x + w + SPACE, y, w, h, cells, map->cols, map->rows, false, NULL);
    } else {
        c->out->failed = true;
    }
    attn__free(d->ctx, plain);
    attn__free(d->ctx, grey);
    attn__free(d->ctx, cells);
}

static void draw(const attn__drawing *d, attn__canvas *c, const attn__map *map,
                 const attn__scale *scale, const char *facts)
{
    const attn_image *m = d->figure.image;
    double w, h, bar, top, width, shape = (double)m->height / (double)m->width;

    w = fmin(NATURAL, fmax((double)m->width, 224));
    bar = attn__bar(d, c, scale, map->has, 0, 0, 200, false);
    w = d->figure.width ? attn__room(d->figure.width, bar + SPACE + 2 * ATTN__MARGIN, 0) / 2 : w;
    if (d->figure.height)
        w = fmin(w, attn__room(d->figure.height, 100, 0) / shape);
    w = fmax(floor(w), 16);
    h = fmax(floor(w * shape), 16);
    width = d->figure.width ? (double)d->figure.width : 2 * w + SPACE + bar + 2 * ATTN__MARGIN;
    top = attn__heading(d, c, facts, width, false);
    attn__begin(d, c, facts, width, top + fmax(h, 150) + ATTN__MARGIN);
    attn__heading(d, c, facts, width, true);
    draw_pictures(d, c, map, scale, ATTN__MARGIN, top, w, h);
    attn__frame(d, c, ATTN__MARGIN + w + SPACE, top, w, h);
    attn__bar(d, c, scale, map->has, ATTN__MARGIN + 2 * w + SPACE, top, fmax(h, 150), true);
}

attn_status attn__draw_overlay(const attn__drawing *d, attn__canvas *c, attn_error *err)
{
    attn_panel panel = attn__panel_at(&d->figure, 0);
    attn__out facts = {.ctx = d->ctx};
    attn__scale scale = {.ctx = d->ctx};
    attn__map map = {.ctx = d->ctx};
    attn_status st = attn__map_make(d->ctx, &d->figure, &panel, 1024, 1024, &map, err);

    if (st == ATTN_OK)
        st = attn__scale_make(d->ctx, &d->figure, &map, 1, &scale, err);
    if (st == ATTN_OK) {
        attn__facts(d, &map, &scale, &facts);
        draw(d, c, &map, &scale, attn__out_string(&facts));
        st = attn__drawn(c, err);
    }
    attn__out_done(&facts, c->out);
    attn__scale_reset(&scale);
    attn__map_reset(&map);
    return st;
}
