/* parts.c: headings, colour bars and what else figures share. */
#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/viz/drawing.h"

#include <math.h>
#include <string.h>

/* --- Words ------------------------------------------------------------------------------------ */

static void clean(attn__out *out, const char *text, size_t columns)
{
    attn__label_clean(out, text, strlen(text), columns, ATTN__PROSE);
}

static const char *const pictures[] = {"Attention map", "Attention by layer and head",
                                       "Attention lines", "Curves", "Attention over an image"};

void attn__title(const attn__drawing *d, attn__out *out)
{
    if (d->figure.title && d->figure.title[0])
        clean(out, d->figure.title, ATTN__TITLE_COLUMNS);
    else
        attn__out_text(out, pictures[d->figure.kind]);
}

void attn__panel_name(const attn_panel *panel, attn__out *out)
{
    if (panel->name) {
        clean(out, panel->name, 60);
        return;
    }
    if (panel->layer >= 0) {
        attn__out_text(out, "layer ");
        attn__out_int(out, panel->layer);
    }
    if (panel->head >= 0) {
        attn__out_text(out, panel->layer >= 0 ? ", head " : "head ");
        attn__out_int(out, panel->head);
    }
}

/* What a reader who does not see the picture should know first. */
static void describe(const attn__drawing *d, const char *facts, attn__out *out)
{
    const attn_figure *f = &d->figure;

    attn__out_text(out, pictures[f->kind]);
    if (f->kind == ATTN_FIGURE_CURVES) {
        attn__out_text(out, ": ");
        attn__out_int(out, (int64_t)f->series_count);
    } else {
        attn__out_text(out, ", ");
        attn__out_int(out, f->queries);
        attn__out_text(out, f->kind == ATTN_FIGURE_OVERLAY ? " rows of patches, " : " queries, ");
        attn__out_int(out, f->keys);
        attn__out_text(out, f->kind == ATTN_FIGURE_OVERLAY ? " columns" : " keys");
    }
    if (f->kind == ATTN_FIGURE_GRID || f->kind == ATTN_FIGURE_LINES) {
        attn__out_text(out, ", heads: ");
        attn__out_int(out, (int64_t)f->panel_count);
    }
    attn__out_text(out, facts[0] ? ". " : "");
    attn__out_text(out, facts);
}

static void item(attn__out *out)
{
    if (out->size > 0)
        attn__out_text(out, " \xc2\xb7 ");
}

static void size_text(attn__out *out, size_t rows, size_t cols)
{
    attn__out_int(out, (int64_t)rows);
    attn__out_text(out, " \xc3\x97 ");
    attn__out_int(out, (int64_t)cols);
}

static void pooling(const attn_figure *f, const attn__map *map, attn__out *out)
{
    static const char *const how[] = {"maximum", "mean", "sum"};
    size_t rows = (size_t)f->query_block * map->step_rows;
    size_t cols = (size_t)f->key_block * map->step_cols;

    if (rows * cols == 1)
        return;
    item(out);
    attn__out_text(out, "each cell is the ");
    attn__out_text(out, how[f->reduction]);
    attn__out_text(out, " of ");
    size_text(out, rows, cols);
    attn__out_text(out, " pairs");
}

static void limits(const attn_figure *f, const attn__scale *scale, attn__out *out)
{
    if (scale->empty) {
        item(out);
        attn__out_text(out, "no cell has a value");
        return;
    }
    if (scale->low == scale->high && scale->kind != ATTN_SCALE_PERCENTILE) {
        item(out);
        attn__out_text(out, scale->below || scale->above ? "both limits are " : "all values are ");
        attn__out_value(out, scale->low, 4);
        return;
    }
    if (f->robust > 0) {
        item(out);
        attn__out_value(out, f->robust, 3);
        attn__out_text(out, " % clipped at each end");
    }
}

void attn__facts(const attn__drawing *d, const attn__map *map, const attn__scale *scale,
                 attn__out *out)
{
    static const char *const scales[] = {NULL, "square-root scale", "logarithmic scale",
                                         "percentile scale"};
    const attn_figure *f = &d->figure;

    if (f->notes)
        clean(out, f->notes, 1000);
    if (scale && scales[scale->kind]) {
        item(out);
        attn__out_text(out, scales[scale->kind]);
    }
    if (map)
        pooling(f, map, out);
    if (scale)
        limits(f, scale, out);
    if (map && f->drop_keys > 0) {
        item(out);
        if (f->drop_keys == 1) {
            attn__out_text(out, "first key dropped, rows renormalised");
        } else {
            attn__out_text(out, "first ");
            attn__out_int(out, f->drop_keys);
            attn__out_text(out, " keys dropped, rows renormalised");
        }
    }
}

/* --- Text blocks ------------------------------------------------------------------------------ */

double attn__paragraph(attn__canvas *c, const char *text, double x, double y, double width,
                       double size, attn__rgb colour, bool draw)
{
    attn__type type = {.size = size, .anchor = -1, .colour = colour, .most = width};
    attn__out line = {.ctx = c->ctx};
    double height = 0;

    while (*text && height < 40 * size) {
        size_t taken = 0;

        for (;;) { /* one more word, while it fits */
            size_t word = taken + strspn(text + taken, " ");

            word += strcspn(text + word, " ");
            if (word == taken)
                break;
            attn__out_clear(&line);
            attn__out_put(&line, text, word);
            if (taken > 0 && c->measure(c, attn__out_string(&line), size, false) > width)
                break;
            taken = word;
        }
        if (taken == 0)
            break;
        attn__out_clear(&line);
        attn__out_put(&line, text, taken);
        height += size * 1.45;
        if (draw)
            c->text(c, x, y + height - size * 0.7, attn__out_string(&line), &type);
        text += taken;
        text += strspn(text, " ");
    }
    attn__out_done(&line, c->out);
    return height;
}

double attn__heading(const attn__drawing *d, attn__canvas *c, const char *facts, double width,
                     bool draw)
{
    attn__out title = {.ctx = d->ctx};
    double y = ATTN__MARGIN, inner = width - 2 * ATTN__MARGIN;

    if (d->figure.title && d->figure.title[0]) {
        attn__type type = {
            .size = ATTN__LARGE, .anchor = -1, .bold = true, .colour = d->theme.ink, .most = inner};

        attn__title(d, &title);
        if (draw)
            c->text(c, ATTN__MARGIN, y + ATTN__LARGE * 0.6, attn__out_string(&title), &type);
        y += ATTN__LARGE * 1.4;
        attn__out_done(&title, c->out);
    }
    y += attn__paragraph(c, facts, ATTN__MARGIN, y, inner, ATTN__NORMAL, d->theme.faint, draw);
    return y + (y > ATTN__MARGIN ? 10 : 0);
}

void attn__begin(const attn__drawing *d, attn__canvas *c, const char *facts, double width,
                 double height)
{
    size_t w = (size_t)ceil(width), h = (size_t)ceil(height);
    attn__out title = {.ctx = d->ctx}, text = {.ctx = d->ctx};

    if (d->figure.width)
        w = (size_t)d->figure.width;
    if (d->figure.height)
        h = (size_t)d->figure.height;
    if (w > 16384 || h > 16384) {
        if (c->status == ATTN_OK)
            c->status = attn__fail(&c->error, ATTN_E_SHAPE, 0,
                                   "the picture would have %zu x %zu pixels", w, h);
        return;
    }
    attn__title(d, &title);
    describe(d, facts, &text);
    if (c->status == ATTN_OK)
        c->begin(c, w, h, d->theme.paper, attn__out_string(&title), attn__out_string(&text));
    attn__out_done(&title, c->out);
    attn__out_done(&text, c->out);
}

double attn__room(int64_t given, double around, double natural)
{
    double room = given ? (double)given - around : natural;

    return room < 16 ? 16 : room;
}

/* --- Cells ------------------------------------------------------------------------------------ */

attn__rgb attn__cell_colour(const attn__drawing *d, const attn__map *map, const attn__scale *scale,
                            size_t i)
{
    switch (map->kind[i]) {
    case ATTN__CELL_MASKED:
        return d->theme.masked;
    case ATTN__CELL_DROPPED:
        return d->theme.dropped;
    case ATTN__CELL_ODD:
        return d->theme.odd;
    default:
        return d->table[(int)(attn__scale_at(scale, map->value[i]) * (ATTN__COLOURS - 1) + 0.5)];
    }
}

uint8_t *attn__map_pixels(const attn__drawing *d, const attn__map *map, const attn__scale *scale,
                          uint8_t alpha)
{
    size_t n = map->rows * map->cols;
    uint8_t *pixels = attn__alloc(d->ctx, 4 * n);

    for (size_t i = 0; pixels && i < n; i++) {
        attn__rgb c = attn__cell_colour(d, map, scale, i);
        uint8_t *to = pixels + 4 * i;

        to[0] = c.r;
        to[1] = c.g;
        to[2] = c.b;
        to[3] = alpha;
    }
    return pixels;
}

void attn__frame(const attn__drawing *d, attn__canvas *c, double x, double y, double w, double h)
{
    const double corners[5][2] = {{x - 0.5, y - 0.5},
                                  {x + w + 0.5, y - 0.5},
                                  {x + w + 0.5, y + h + 0.5},
                                  {x - 0.5, y + h + 0.5},
                                  {x - 0.5, y - 0.5}};
    attn__pen pen = {d->theme.faint, 0.7, 1, false};

    c->path(c, corners, 5, false, &pen, NULL);
}

attn_status attn__drawn(const attn__canvas *c, attn_error *err)
{
    if (c->status != ATTN_OK) {
        if (err)
            *err = c->error;
        return c->status;
    }
    if (c->out->failed)
        return attn__fail(err, ATTN_E_MEMORY, 0, "picture");
    return ATTN_OK;
}

/* --- Colour bar ------------------------------------------------------------------------------- */

enum { BAR_WIDTH = 14, BAR_GAP = 18, BAR_TICKS = 24, BAR_TICK = 14 };

typedef struct tick {
    double t;
    char text[40];
} tick;

static void tick_text(attn__canvas *c, tick *k, const char *before, double value, const char *after)
{
    attn__out out = {.ctx = c->ctx};
    const char *text;

    attn__out_text(&out, before);
    attn__out_value(&out, value, 3);
    attn__out_text(&out, after);
    text = attn__out_string(&out);
    memcpy(k->text, text, strlen(text) + 1 < sizeof k->text ? strlen(text) + 1 : 1);
    attn__out_done(&out, c->out);
}

/* Ticks from the low end to the high; the two ends last, so that they win where it is crowded. */
static size_t bar_ticks(attn__canvas *c, const attn__scale *s, tick ticks[BAR_TICKS])
{
    double range = s->high - s->low;
    size_t n = 0;

    if (s->kind == ATTN_SCALE_PERCENTILE) {
        static const char *const at[] = {"  (lowest)", "  (25 %)", "  (median)", "  (75 %)",
                                         "  (highest)"};

        for (int i = 0; i <= 4; i++) {
            ticks[n].t = i / 4.0;
            tick_text(c, &ticks[n++], "", attn__scale_value(s, i / 4.0), at[i]);
        }
        return n;
    }
    if (!(range > 0)) {
        ticks[0].t = 0.5;
        tick_text(c, &ticks[0], "", s->low, "");
        return 1;
    }
    if (s->kind == ATTN_SCALE_LOG) {
        for (double e = ceil(log10(s->low)); e <= log10(s->high) && n < BAR_TICKS - 2; e++) {
            ticks[n].t = attn__scale_at(s, pow(10, e));
            tick_text(c, &ticks[n++], "", pow(10, e), "");
        }
    } else {
        double step = attn__nice_step(range / 7), from = ceil(s->low / step);

        for (int i = 0; i < BAR_TICKS - 2 && (from + i) * step <= s->high + step * 1e-6; i++) {
            double v = (from + i) * step;

            ticks[n].t = attn__scale_at(s, v);
            tick_text(c, &ticks[n++], "", fabs(v) < step / 2 ? 0 : v, "");
        }
    }
    if (s->below || s->kind == ATTN_SCALE_LOG) {
        ticks[n].t = 0;
        tick_text(c, &ticks[n++], s->below ? "\xe2\x89\xa4 " : "", s->low, "");
    }
    if (s->above || s->kind == ATTN_SCALE_LOG) {
        ticks[n].t = 1;
        tick_text(c, &ticks[n++], s->above ? "\xe2\x89\xa5 " : "", s->high, "");
    }
    return n;
}

/* Whether tick i keeps its distance from all that come after it, which win. */
static bool has_room(const tick *ticks, size_t n, size_t i, double height)
{
    for (size_t j = i + 1; j < n; j++)
        if (fabs(ticks[j].t - ticks[i].t) * height < BAR_TICK)
            return false;
    return true;
}

/* Returns the height; without `draw` only raises *most to the width of the names. */
static double draw_kinds(const attn__drawing *d, attn__canvas *c, const bool has[ATTN__CELL_KINDS],
                         double x, double y, double *most, bool draw)
{
    const struct {
        int kind;
        attn__rgb colour;
        const char *name;
    } kinds[] = {{ATTN__CELL_MASKED, d->theme.masked, "masked"},
                 {ATTN__CELL_DROPPED, d->theme.dropped, "dropped"},
                 {ATTN__CELL_ODD, d->theme.odd, "not finite"}};
    attn__type type = {.size = ATTN__SMALL, .anchor = -1, .colour = d->theme.ink};
    double height = 0;

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (!has[kinds[i].kind])
            continue;
        if (draw) {
            c->rect(c, x, y + height, BAR_WIDTH, 11, kinds[i].colour, 1, NULL);
            c->text(c, x + BAR_WIDTH + 7, y + height + 5.5, kinds[i].name, &type);
        } else {
            *most = fmax(*most, c->measure(c, kinds[i].name, ATTN__SMALL, false));
        }
        height += 18;
    }
    return height;
}

double attn__bar(const attn__drawing *d, attn__canvas *c, const attn__scale *scale,
                 const bool has[ATTN__CELL_KINDS], double x, double y, double height, bool draw)
{
    attn__type type = {.size = ATTN__SMALL, .anchor = -1, .colour = d->theme.ink};
    attn__type title = {.size = ATTN__NORMAL, .angle = 90, .colour = d->theme.faint};
    attn__pen pen = {d->theme.faint, 1, 1, false};
    tick ticks[BAR_TICKS];
    size_t n = bar_ticks(c, scale, ticks);
    double most = 0, kinds = draw_kinds(d, c, has, 0, 0, &most, false);
    double bar = height - (kinds > 0 ? kinds + 8 : 0);
    attn__out name = {.ctx = d->ctx};

    bar = bar < 30 ? 30 : bar > 320 ? 320 : bar;
    for (size_t i = 0; i < n; i++)
        most = fmax(most, c->measure(c, ticks[i].text, ATTN__SMALL, false));
    most = ceil(most);
    if (!draw)
        return BAR_GAP + BAR_WIDTH + 8 + most + 18;
    x += BAR_GAP;
    if (!scale->empty) {
        uint8_t column[4 * ATTN__COLOURS];

        for (int i = 0; i < ATTN__COLOURS; i++) {
            attn__rgb colour = d->table[ATTN__COLOURS - 1 - i];

            memcpy(column + 4 * i, (uint8_t[4]){colour.r, colour.g, colour.b, 255}, 4);
        }
        c->image(c, x, y, BAR_WIDTH, bar, column, 1, ATTN__COLOURS, true, NULL);
        attn__frame(d, c, x, y, BAR_WIDTH, bar);
        for (size_t i = 0; i < n; i++) {
            double at = y + (1 - ticks[i].t) * bar;

            if (!has_room(ticks, n, i, bar))
                continue;
            c->path(c, (const double[2][2]){{x + BAR_WIDTH, at}, {x + BAR_WIDTH + 4, at}}, 2, false,
                    &pen, NULL);
            c->text(c, x + BAR_WIDTH + 7, at, ticks[i].text, &type);
        }
        clean(&name, d->figure.value_title, 40);
        title.most = bar;
        c->text(c, x + BAR_WIDTH + 8 + most + 10, y + bar / 2, attn__out_string(&name), &title);
        attn__out_done(&name, c->out);
    }
    draw_kinds(d, c, has, x, y + (scale->empty ? 0 : bar + 12), &most, true);
    return 0;
}
