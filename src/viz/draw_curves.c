/* draw_curves.c: numbers against numbers: entropy by layer, mass by distance, loss by step. */
#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/viz/curves.h"

#include <math.h>
#include <string.h>

enum { WIDTH = 760, HEIGHT = 400, TICKS = 16, NAMES_MOST = 10, NAME_ROOM = 130 };

double attn__range_place(const attn__range *r, double v)
{
    double t = r->log ? log(v / r->low) / log(r->high / r->low) : (v - r->low) / (r->high - r->low);

    return r->from + t * (r->to - r->from);
}

bool attn__curve_point(const attn__drawing *d, const attn_series *s, size_t i, double *x, double *y)
{
    *x = s->x ? s->x[i] : (double)i;
    *y = s->y[i];
    return isfinite(*x) && isfinite(*y) && !(d->figure.log_x && *x <= 0) &&
           !(d->figure.log_y && *y <= 0);
}

static void widen(attn__range *r, double v)
{
    r->low = v < r->low ? v : r->low;
    r->high = v > r->high ? v : r->high;
}

/* Room around constant data, and round ends for y. */
static void settle(attn__range *r, bool round_ends)
{
    if (!(r->low <= r->high)) {
        r->low = r->log ? 1 : 0;
        r->high = r->log ? 10 : 1;
    }
    if (r->log) {
        if (round_ends || r->low == r->high) {
            r->low = pow(10, floor(log10(r->low) + 1e-9));
            r->high = pow(10, ceil(log10(r->high) - 1e-9));
        }
        if (r->low == r->high)
            r->high *= 10;
        return;
    }
    if (r->low == r->high) {
        double by = r->low == 0 ? 1 : fabs(r->low) * 0.1;

        r->low -= by;
        r->high += by;
    }
    if (round_ends) {
        double step;

        if (r->low > 0 && r->low < 0.4 * r->high)
            r->low = 0;
        step = attn__nice_step((r->high - r->low) / 8);
        r->low = floor(r->low / step + 1e-9) * step;
        r->high = ceil(r->high / step - 1e-9) * step;
    }
}

static size_t ticks_of(const attn__range *r, size_t most, double ticks[TICKS])
{
    size_t n = 0;
    double step, from;

    if (r->log) {
        double decades = log10(r->high / r->low);
        /* 1 2 5 10 where there are few decades, else every so many of them. */
        int skip = (int)fmax(1, ceil(decades / (double)most));

        for (double e = floor(log10(r->low)); e <= log10(r->high) + 1e-9; e++)
            for (int k = 0; k < 3; k++) {
                double v = pow(10, e) * (k == 0 ? 1 : k == 1 ? 2 : 5);

                if ((k > 0 && decades > 2.5) || ((int64_t)e % skip) != 0)
                    continue;
                if (v >= r->low * (1 - 1e-9) && v <= r->high * (1 + 1e-9) && n < TICKS)
                    ticks[n++] = v;
            }
        return n;
    }
    step = attn__nice_step((r->high - r->low) / (double)most);
    from = ceil(r->low / step - 1e-9);
    for (int i = 0; (from + i) * step <= r->high + 1e-9 * step && n < TICKS; i++)
        ticks[n++] = (from + i) * step;
    return n;
}

static void draw_axes(const attn__drawing *d, attn__canvas *c, const attn__range *x,
                      const attn__range *y)
{
    attn__type type = {.size = ATTN__SMALL, .colour = d->theme.ink};
    attn__type title = {.size = ATTN__NORMAL, .colour = d->theme.faint};
    attn__pen grid = {d->theme.faint, 0.25, 1, false};
    attn__out text = {.ctx = d->ctx};
    double ticks[TICKS];
    size_t n = ticks_of(x, 9, ticks);

    for (size_t i = 0; i < n; i++) {
        double at = floor(attn__range_place(x, ticks[i])) + 0.5;

        c->path(c, (const double[2][2]){{at, y->from}, {at, y->to}}, 2, false, &grid, NULL);
        attn__out_clear(&text);
        attn__out_value(&text, fabs(ticks[i]) < 1e-12 * (x->high - x->low) ? 0 : ticks[i], 6);
        c->text(c, at, y->from + 12, attn__out_string(&text), &type);
    }
    type.anchor = 1;
    n = ticks_of(y, 8, ticks);
    for (size_t i = 0; i < n; i++) {
        double at = floor(attn__range_place(y, ticks[i])) + 0.5;

        c->path(c, (const double[2][2]){{x->from, at}, {x->to, at}}, 2, false, &grid, NULL);
        attn__out_clear(&text);
        attn__out_value(&text, fabs(ticks[i]) < 1e-12 * (y->high - y->low) ? 0 : ticks[i], 4);
        c->text(c, x->from - 7, at, attn__out_string(&text), &type);
    }
    attn__out_clear(&text);
    if (d->figure.key_title) {
        attn__label_clean(&text, d->figure.key_title, strlen(d->figure.key_title), 80, ATTN__PROSE);
        c->text(c, (x->from + x->to) / 2, y->from + 32, attn__out_string(&text), &title);
    }
    attn__out_clear(&text);
    if (d->figure.value_title) {
        title.angle = 90;
        attn__label_clean(&text, d->figure.value_title, strlen(d->figure.value_title), 60,
                          ATTN__PROSE);
        c->text(c, ATTN__MARGIN + 6, (y->from + y->to) / 2, attn__out_string(&text), &title);
    }
    attn__out_done(&text, c->out);
}

attn__pen attn__curve_pen(const attn__drawing *d, size_t i)
{
    size_t n = d->figure.series_count;
    attn__pen pen = {.alpha = 1, .width = n > NAMES_MOST ? 1.3 : 2};

    if (n <= NAMES_MOST) {
        pen.colour = d->theme.category[i];
        pen.dashed = i >= ATTN__CATEGORIES / 2;
    } else {
        /* Without the end that the paper would swallow. */
        double t = d->figure.dark ? 0.2 + 0.8 * (double)i / (double)(n - 1)
                                  : 0.85 * (double)i / (double)(n - 1);

        pen.colour = d->table[(int)(t * (ATTN__COLOURS - 1))];
    }
    return pen;
}

/* The runs of a curve between gaps. `points` has room for the series. */
static void draw_curve(const attn__drawing *d, attn__canvas *c, const attn__range *x,
                       const attn__range *y, size_t which, double (*points)[2])
{
    const attn_series *s = &d->figure.series[which];
    attn__pen pen = attn__curve_pen(d, which);
    attn__out name = {.ctx = d->ctx};
    size_t n = 0;

    if (s->name)
        attn__label_clean(&name, s->name, strlen(s->name), 60, ATTN__PROSE);
    for (size_t i = 0; i <= s->count; i++) {
        double px, py;
        bool good = i < s->count && attn__curve_point(d, s, i, &px, &py);

        if (good) {
            points[n][0] = attn__range_place(x, px);
            points[n++][1] = attn__range_place(y, py);
            continue;
        }
        if (n == 1)
            c->rect(c, points[0][0] - 2, points[0][1] - 2, 4, 4, pen.colour, 1,
                    attn__out_string(&name));
        else if (n > 1)
            c->path(c, (const double(*)[2])points, n, false, &pen, attn__out_string(&name));
        n = 0;
    }
    /* Points of short curves stand out. */
    for (size_t i = 0; s->count <= 40 && i < s->count; i++) {
        double px, py;

        if (attn__curve_point(d, s, i, &px, &py))
            c->rect(c, attn__range_place(x, px) - 2, attn__range_place(y, py) - 2, 4, 4, pen.colour,
                    1, NULL);
    }
    attn__out_done(&name, c->out);
}

/* Names at the right end of the curves, pushed apart until each can be read. */
static void draw_names(const attn__drawing *d, attn__canvas *c, const attn__range *x,
                       const attn__range *y)
{
    size_t n = d->figure.series_count, order[NAMES_MOST];
    attn__out text = {.ctx = d->ctx};
    double at[NAMES_MOST];

    for (size_t i = 0; i < n; i++) {
        const attn_series *s = &d->figure.series[i];
        size_t k = i;
        double px, py;

        at[i] = (y->from + y->to) / 2;
        for (size_t j = s->count; j-- > 0;)
            if (attn__curve_point(d, s, j, &px, &py)) {
                at[i] = attn__range_place(y, py);
                break;
            }
        for (; k > 0 && at[order[k - 1]] > at[i]; k--)
            order[k] = order[k - 1];
        order[k] = i;
    }
    for (size_t i = 1; i < n; i++)
        at[order[i]] = fmax(at[order[i]], at[order[i - 1]] + 15);
    for (size_t i = n; i-- > 0;) {
        double most = i + 1 < n ? at[order[i + 1]] - 15 : y->from - 4;

        at[order[i]] = fmin(at[order[i]], most);
    }
    for (size_t i = 0; i < n; i++) {
        attn__pen pen = attn__curve_pen(d, i);
        attn__type type = {
            .size = ATTN__NORMAL, .anchor = -1, .colour = d->theme.ink, .most = NAME_ROOM - 30};
        const attn_series *s = &d->figure.series[i];

        if (!s->name || !s->name[0])
            continue;
        c->path(c, (const double[2][2]){{x->to + 6, at[i]}, {x->to + 24, at[i]}}, 2, false, &pen,
                NULL);
        attn__out_clear(&text);
        attn__label_clean(&text, s->name, strlen(s->name), 40, ATTN__PROSE);
        c->text(c, x->to + 28, at[i], attn__out_string(&text), &type);
    }
    attn__out_done(&text, c->out);
}

/* First and last name beside a strip of the colours that the curves have. */
static void draw_strip(const attn__drawing *d, attn__canvas *c, double x, double y, double height)
{
    size_t n = d->figure.series_count;
    attn__type type = {.size = ATTN__SMALL, .anchor = -1, .colour = d->theme.ink, .most = 96};
    attn__out text = {.ctx = d->ctx};

    height = fmin(height, 180);
    for (size_t i = 0; i < n; i++)
        c->rect(c, x + 12, y + height * (double)i / (double)n, 12, ceil(height / (double)n),
                attn__curve_pen(d, i).colour, 1, NULL);
    for (size_t i = 0; i < n; i += n - 1) {
        const attn_series *s = &d->figure.series[i];

        attn__out_clear(&text);
        if (s->name)
            attn__label_clean(&text, s->name, strlen(s->name), 40, ATTN__PROSE);
        c->text(c, x + 30, i == 0 ? y + 6 : y + height - 6, attn__out_string(&text), &type);
    }
    attn__out_done(&text, c->out);
}

attn__survey attn__curves_survey(const attn__drawing *d)
{
    attn__survey s = {.x = {.low = HUGE_VAL, .high = -HUGE_VAL, .log = d->figure.log_x != 0},
                      .y = {.low = HUGE_VAL, .high = -HUGE_VAL, .log = d->figure.log_y != 0}};

    for (size_t k = 0; k < d->figure.series_count; k++) {
        const attn_series *curve = &d->figure.series[k];

        s.longest = curve->count > s.longest ? curve->count : s.longest;
        s.named = s.named || (curve->name && curve->name[0]);
        for (size_t i = 0; i < curve->count; i++) {
            double px, py;

            if (attn__curve_point(d, curve, i, &px, &py)) {
                widen(&s.x, px);
                widen(&s.y, py);
            } else if (!isnan(curve->y[i])) {
                s.left_out++;
            }
        }
    }
    settle(&s.x, false);
    settle(&s.y, true);
    return s;
}

void attn__curves_facts(const attn__drawing *d, const attn__survey *s, attn__out *out)
{
    attn__facts(d, NULL, NULL, out);
    if (s->left_out == 0)
        return;
    attn__out_text(out, out->size > 0 ? " \xc2\xb7 " : "");
    attn__out_int(out, (int64_t)s->left_out);
    attn__out_text(out, s->left_out == 1 ? " point left out: not finite, or not positive"
                                         : " points left out: not finite, or not positive");
}

attn_status attn__draw_curves(const attn__drawing *d, attn__canvas *c, attn_error *err)
{
    double width = d->figure.width ? (double)d->figure.width : WIDTH, left = 76, heading;
    double height = d->figure.height ? (double)d->figure.height : HEIGHT, (*points)[2];
    attn__survey s = attn__curves_survey(d);
    attn__out facts = {.ctx = d->ctx};

    points = attn__alloc(d->ctx, (s.longest + 1) * sizeof *points);
    if (!points)
        return attn__fail(err, ATTN_E_MEMORY, 0, "curves");
    attn__curves_facts(d, &s, &facts);
    attn__begin(d, c, attn__out_string(&facts), width, height);
    heading = attn__heading(d, c, attn__out_string(&facts), width, true);
    s.x.from = left;
    s.x.to = fmax(width - (s.named ? NAME_ROOM : ATTN__MARGIN), left + 40);
    s.y.from = fmax(height - (d->figure.key_title ? 50 : 30), heading + 40);
    s.y.to = heading + 4;
    draw_axes(d, c, &s.x, &s.y);
    for (size_t i = 0; i < d->figure.series_count; i++)
        draw_curve(d, c, &s.x, &s.y, i, points);
    if (s.named && d->figure.series_count <= NAMES_MOST)
        draw_names(d, c, &s.x, &s.y);
    else if (s.named)
        draw_strip(d, c, s.x.to, s.y.to, s.y.from - s.y.to);
    attn__free(d->ctx, points);
    attn__out_done(&facts, c->out);
    return attn__drawn(c, err);
}
