/* axis.c: labels beside a map, thinned until they are readable. */
#include "src/viz/drawing.h"
#include "src/viz/label.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Rows need this much from label to label, columns of slanted text a little more. */
static const double ROW = ATTN__SMALL + 2, COLUMN = 1.45 * ATTN__SMALL;
enum { TICK = 4, GAP = 3, TITLE = 20 };

double attn__nice_step(double least)
{
    double power = pow(10, floor(log10(least)));

    for (int i = 0; i < 3; i++) {
        static const int step[] = {1, 2, 5};

        if (step[i] * power >= least * (1 - 1e-9))
            return step[i] * power;
    }
    return 10 * power;
}

void attn__token(const attn_label *tokens, int64_t count, int64_t first, int64_t i, size_t columns,
                 attn__label_form form, bool both, attn__out *out)
{
    if (!tokens || i >= count || both)
        attn__out_int(out, first + i);
    if (!tokens || i >= count)
        return;
    if (both)
        attn__out_char(out, ' ');
    attn__label_clean(out, tokens[i].text ? tokens[i].text : "", tokens[i].size, columns, form);
}

/* The i-th label that is shown: its text, and its place in cells. False after the last. */
static bool label_at(const attn__axis *a, int64_t i, double *place, attn__out *text)
{
    int64_t number;

    attn__out_clear(text);
    if (a->tokens) {
        number = i * a->step;
        if (number >= (int64_t)a->cells)
            return false;
        *place = (double)number + 0.5;
        attn__token(a->tokens, a->count, a->first, number, ATTN__TOKEN_COLUMNS, ATTN__TOKEN,
                    a->step > 1, text);
        return true;
    }
    number = ((a->first + a->step - 1) / a->step + i) * a->step;
    if (number >= a->first + a->count)
        return false;
    *place = (double)(number - a->first) / (double)a->block + (a->block == 1 ? 0.5 : 0);
    attn__out_int(text, number);
    return true;
}

static double longest(const attn__axis *a, attn__canvas *c)
{
    attn__out text = {.ctx = c->ctx};
    double most = 0, place;

    for (int64_t i = 0; label_at(a, i, &place, &text); i++)
        most = fmax(most, c->measure(c, attn__out_string(&text), ATTN__SMALL, false));
    attn__out_done(&text, c->out);
    return ceil(most);
}

attn__axis attn__axis_plan(const attn__drawing *d, attn__canvas *c, const attn__map *map,
                           bool columns, double cell)
{
    const attn_figure *f = &d->figure;
    attn__axis a = {
        .tokens = columns ? f->key_tokens : f->query_tokens,
        .count = columns ? f->keys : f->queries,
        .block = columns ? f->key_block * (int64_t)map->step_cols
                         : f->query_block * (int64_t)map->step_rows,
        .first = columns ? f->first_key : f->first_query,
        .title = columns ? f->key_title : f->query_title,
        .cell = cell,
        .cells = columns ? map->cols : map->rows,
    };
    double pixel = cell / (double)a.block; /* of one query or key */

    if (a.block > 1)
        a.tokens = NULL;
    if (a.tokens) {
        a.step = (int64_t)ceil((columns ? COLUMN : ROW) / cell);
        a.angle = columns ? 45 : 0;
    } else if (columns) {
        double digits = (double)snprintf(NULL, 0, "%lld", (long long)(a.first + a.count));

        a.step = (int64_t)attn__nice_step(fmax(1, (digits * 0.66 + 1) * ATTN__SMALL / pixel));
    } else {
        a.step = (int64_t)attn__nice_step(fmax(1, 1.4 * ROW / pixel));
    }
    a.extent = longest(&a, c);
    return a;
}

static double along(const attn__axis *a)
{
    return a->angle > 0 ? a->extent * 0.7071 + ATTN__SMALL * 0.7071 : ATTN__SMALL;
}

double attn__axis_depth(const attn__axis *a, bool columns)
{
    return TITLE + TICK + GAP + ceil(columns ? along(a) : a->extent);
}

void attn__axis_rows(const attn__drawing *d, attn__canvas *c, const attn__axis *a, double x,
                     double y)
{
    attn__type type = {.size = ATTN__SMALL, .anchor = 1, .colour = d->theme.ink};
    attn__type title = {.size = ATTN__NORMAL, .angle = 90, .colour = d->theme.faint};
    attn__pen pen = {d->theme.faint, 1, 1, false};
    attn__out text = {.ctx = c->ctx};
    double place;

    for (int64_t i = 0; label_at(a, i, &place, &text); i++) {
        double at = y + place * a->cell;

        if (a->cell < ROW)
            c->path(c, (const double[2][2]){{x - TICK, at}, {x, at}}, 2, false, &pen, NULL);
        c->text(c, x - TICK - GAP, at, attn__out_string(&text), &type);
    }
    attn__out_clear(&text);
    attn__label_clean(&text, a->title, strlen(a->title), 60, ATTN__PROSE);
    title.most = fmax(60, a->cell * (double)a->cells);
    c->text(c, x - TICK - GAP - a->extent - TITLE / 2.0, y + a->cell * (double)a->cells / 2,
            attn__out_string(&text), &title);
    attn__out_done(&text, c->out);
}

void attn__axis_columns(const attn__drawing *d, attn__canvas *c, const attn__axis *a, double x,
                        double y)
{
    attn__type type = {.size = ATTN__SMALL,
                       .anchor = a->angle > 0 ? 1 : 0,
                       .angle = a->angle,
                       .colour = d->theme.ink};
    attn__type title = {.size = ATTN__NORMAL, .colour = d->theme.faint};
    attn__pen pen = {d->theme.faint, 1, 1, false};
    attn__out text = {.ctx = c->ctx};
    double place;

    for (int64_t i = 0; label_at(a, i, &place, &text); i++) {
        double at = x + place * a->cell;

        if (a->cell < COLUMN)
            c->path(c, (const double[2][2]){{at, y}, {at, y + TICK}}, 2, false, &pen, NULL);
        c->text(c, at, y + TICK + GAP + ATTN__SMALL / 2.0, attn__out_string(&text), &type);
    }
    attn__out_clear(&text);
    attn__label_clean(&text, a->title, strlen(a->title), 60, ATTN__PROSE);
    title.most = fmax(60, a->cell * (double)a->cells);
    c->text(c, x + a->cell * (double)a->cells / 2, y + TICK + GAP + along(a) + TITLE / 2.0,
            attn__out_string(&text), &title);
    attn__out_done(&text, c->out);
}
