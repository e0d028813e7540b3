/* terminal.c: figures as lines of text: colours by escape sequences, or none at all.
 *
 * A character is about twice as high as wide. Small maps take two characters a cell; others a half
 * block, which is two cells, one above the other; without colours one character is one cell. */
#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/viz/curves.h"
#include "src/viz/edges.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 80, LABEL_MOST = 16, FOOT_MOST = 8, QUERIES_MOST = 400, PLOT_LINES = 16 };

static const char ramp[] = ".:-=+*#%@"; /* lightest to heaviest; a blank is masked */

typedef struct screen {
    const attn__drawing *d;
    attn_picture form;
    attn__out *out;
    attn__out text; /* scratch */
    size_t width;
    size_t named, names; /* GRID: the first of the panels whose heads were written last, how many */
} screen;

static bool is_plain(const screen *s)
{
    return s->form == ATTN_PICTURE_ASCII;
}

/* --- Characters ------------------------------------------------------------------------------- */

/* The nearest of the 6 x 6 x 6 colours and 24 greys. */
static int nearest_256(attn__rgb c)
{
    static const int level[6] = {0, 95, 135, 175, 215, 255};
    const int v[3] = {c.r, c.g, c.b};
    int at[3], cube = 0, grey = (v[0] + v[1] + v[2]) / 3, step, off = 0, off_grey = 0;

    for (int k = 0; k < 3; k++) {
        at[k] = 0;
        for (int i = 1; i < 6; i++)
            if (abs(level[i] - v[k]) < abs(level[at[k]] - v[k]))
                at[k] = i;
        cube = 6 * cube + at[k];
        off += (level[at[k]] - v[k]) * (level[at[k]] - v[k]);
    }
    step = grey < 8 ? 0 : grey > 238 ? 23 : (grey - 3) / 10;
    for (int k = 0; k < 3; k++)
        off_grey += (8 + 10 * step - v[k]) * (8 + 10 * step - v[k]);
    return off_grey < off ? 232 + step : 16 + cube;
}

static void colour(screen *s, bool back, attn__rgb c)
{
    const uint8_t v[3] = {c.r, c.g, c.b};

    attn__out_text(s->out, back ? "\x1b[48;" : "\x1b[38;");
    if (s->form == ATTN_PICTURE_ANSI_256) {
        attn__out_text(s->out, "5;");
        attn__out_int(s->out, nearest_256(c));
    } else {
        attn__out_char(s->out, '2');
        for (int k = 0; k < 3; k++) {
            attn__out_char(s->out, ';');
            attn__out_int(s->out, v[k]);
        }
    }
    attn__out_char(s->out, 'm');
}

static void plain_again(screen *s)
{
    if (!is_plain(s))
        attn__out_text(s->out, "\x1b[0m");
}

static void blanks(screen *s, size_t n)
{
    while (n-- > 0)
        attn__out_char(s->out, ' ');
}

/* Clean UTF-8 as this screen can show it: letters from right to left are kept in their place, and
 * without UTF-8 each other character becomes one that means about the same. */
static void put(screen *s, const char *text)
{
    static const char *const swaps[][2] = {{"\xc2\xb7", "-"},      {"\xc3\x97", "x"},
                                           {"\xe2\x80\xa6", "~"},  {"\xe2\x89\xa4", "<="},
                                           {"\xe2\x89\xa5", ">="}, {"\xe2\x86\x92", "->"},
                                           {"\xe2\x80\x93", "-"}};
    bool right_to_left = !is_plain(s) && attn__label_is_rtl(text);

    if (!is_plain(s)) {
        attn__out_text(s->out, right_to_left ? "\xe2\x81\xa6" : "");
        attn__out_text(s->out, text);
        attn__out_text(s->out, right_to_left ? "\xe2\x81\xa9" : "");
        return;
    }
    while (*text) {
        size_t n = 1, i = 0, count = sizeof swaps / sizeof *swaps;

        while ((text[n] & 0xc0) == 0x80)
            n++;
        while (i < count && (n != strlen(swaps[i][0]) || memcmp(text, swaps[i][0], n) != 0))
            i++;
        if (n == 1)
            attn__out_char(s->out, *text);
        else
            attn__out_text(s->out, i < count ? swaps[i][1] : "?");
        text += n;
    }
}

static void line_end(screen *s)
{
    attn__out_char(s->out, '\n');
}

/* Title, then facts in as many lines as they need. */
static void heading(screen *s, attn__out *facts)
{
    const char *text = attn__out_string(facts);

    if (s->d->figure.title && s->d->figure.title[0]) {
        attn__out_clear(&s->text);
        attn__label_clean(&s->text, s->d->figure.title, strlen(s->d->figure.title), s->width,
                          ATTN__PROSE);
        if (!is_plain(s))
            attn__out_text(s->out, "\x1b[1m");
        put(s, attn__out_string(&s->text));
        plain_again(s);
        line_end(s);
    }
    if (*text) {
        attn__out_clear(&s->text);
        attn__label_clean(&s->text, text, strlen(text), 4 * s->width, ATTN__PROSE);
        put(s, attn__out_string(&s->text));
        line_end(s);
    }
}

/* --- Cells ------------------------------------------------------------------------------------ */

static char ramp_of(const attn__map *map, const attn__scale *scale, size_t i)
{
    switch (map->kind[i]) {
    case ATTN__CELL_MASKED:
        return ' ';
    case ATTN__CELL_DROPPED:
        return 'x';
    case ATTN__CELL_ODD:
        return '?';
    default:
        return ramp[(int)fmin(sizeof ramp - 2,
                              attn__scale_at(scale, map->value[i]) * (sizeof ramp - 1))];
    }
}

/* Cells [from, from + n) of line y: a row of cells `each` characters wide, or two rows. */
static void cells(screen *s, const attn__map *map, const attn__scale *scale, size_t y, bool halves,
                  size_t each)
{
    size_t top = (halves ? 2 * y : y) * map->cols;

    for (size_t j = 0; j < map->cols; j++) {
        if (is_plain(s)) {
            for (size_t k = 0; k < each; k++)
                attn__out_char(s->out, ramp_of(map, scale, top + j));
            continue;
        }
        colour(s, halves ? false : true, attn__cell_colour(s->d, map, scale, top + j));
        if (!halves) {
            blanks(s, each);
            continue;
        }
        if (2 * y + 1 < map->rows)
            colour(s, true, attn__cell_colour(s->d, map, scale, top + map->cols + j));
        else
            attn__out_text(s->out, "\x1b[49m");
        attn__out_text(s->out, "\xe2\x96\x80");
    }
    plain_again(s);
}

static void legend(screen *s, const attn__scale *scale, const bool has[ATTN__CELL_KINDS])
{
    const attn__theme *t = &s->d->theme;
    const struct {
        int kind;
        char mark;
        attn__rgb colour;
        const char *name;
    } kinds[] = {{ATTN__CELL_MASKED, ' ', t->masked, " masked"},
                 {ATTN__CELL_DROPPED, 'x', t->dropped, " dropped"},
                 {ATTN__CELL_ODD, '?', t->odd, " not finite"}};

    attn__out_clear(&s->text);
    attn__label_clean(&s->text, s->d->figure.value_title, strlen(s->d->figure.value_title), 24,
                      ATTN__PROSE);
    put(s, attn__out_string(&s->text));
    attn__out_char(s->out, ' ');
    attn__out_value(s->out, attn__scale_value(scale, 0), 3);
    attn__out_char(s->out, ' ');
    if (is_plain(s))
        attn__out_text(s->out, ramp);
    for (int i = 0; !is_plain(s) && i < 16; i++) {
        colour(s, true, s->d->table[i * 17]);
        attn__out_char(s->out, ' ');
    }
    plain_again(s);
    attn__out_char(s->out, ' ');
    attn__out_value(s->out, attn__scale_value(scale, 1), 3);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (!has[kinds[i].kind])
            continue;
        attn__out_text(s->out, "  ");
        if (is_plain(s)) {
            attn__out_char(s->out, '\'');
            attn__out_char(s->out, kinds[i].mark);
            attn__out_char(s->out, '\'');
        } else {
            colour(s, true, kinds[i].colour);
            attn__out_text(s->out, "  ");
            plain_again(s);
        }
        attn__out_text(s->out, kinds[i].name);
    }
    line_end(s);
}

/* --- Map -------------------------------------------------------------------------------------- */

static attn__label_form form_of(const screen *s)
{
    return is_plain(s) ? ATTN__PLAIN : ATTN__TOKEN;
}

/* Label of row or column i of the map, into s->text; returns its columns. */
static size_t label(screen *s, const attn__map *map, bool columns, size_t i, size_t most)
{
    const attn_figure *f = &s->d->figure;
    int64_t block =
        columns ? f->key_block * (int64_t)map->step_cols : f->query_block * (int64_t)map->step_rows;
    int64_t first = columns ? f->first_key : f->first_query;
    const attn_label *tokens = block > 1 ? NULL : columns ? f->key_tokens : f->query_tokens;

    attn__out_clear(&s->text);
    if (tokens)
        return attn__label_clean(&s->text, tokens[i].text ? tokens[i].text : "", tokens[i].size,
                                 most, form_of(s));
    attn__out_int(&s->text, first + (int64_t)i * block);
    return s->text.size;
}

static size_t longest_label(screen *s, const attn__map *map, size_t most)
{
    size_t longest = 0;

    for (size_t i = 0; i < map->rows; i++) {
        size_t k = label(s, map, false, i, most);

        longest = k > longest ? k : longest;
    }
    return longest;
}

/* Bytes of the sign of a space that a longer label starts with. */
static size_t sign_of_space(const char *text)
{
    size_t n = text[0] == '_' ? 1 : strncmp(text, "\xc2\xb7", 2) == 0 ? 2 : 0;

    return text[n] ? n : 0;
}

/* Labels of the columns, from top to bottom below them; for narrow maps only. */
static void foot(screen *s, const attn__map *map, size_t left, size_t each)
{
    size_t lines = 0;

    for (size_t j = 0; j < map->cols; j++) {
        size_t n = label(s, map, true, j, FOOT_MOST);

        n -= sign_of_space(attn__out_string(&s->text)) > 0;
        lines = n > lines ? n : lines;
    }
    for (size_t y = 0; y < lines; y++) {
        blanks(s, left);
        for (size_t j = 0; j < map->cols; j++) {
            attn__out one = {.ctx = s->d->ctx};
            const char *text;
            size_t wide;

            label(s, map, true, j, FOOT_MOST);
            text = attn__out_string(&s->text);
            wide = attn__label_nth(&one, text + sign_of_space(text), y);
            put(s, attn__out_string(&one));
            blanks(s, wide < each ? each - wide : 0);
            attn__out_done(&one, s->out);
        }
        while (!s->out->failed && s->out->bytes[s->out->size - 1] == ' ')
            s->out->size--;
        line_end(s);
    }
}

static void map_lines(screen *s, const attn__map *map, const attn__scale *scale, bool wide)
{
    bool halves = !wide && !is_plain(s);
    size_t lines = halves ? (map->rows + 1) / 2 : map->rows, most = wide ? LABEL_MOST : 9;
    size_t left = longest_label(s, map, most), each = wide ? 2 : 1, n;

    for (size_t y = 0; y < lines; y++) {
        if (wide || y % 4 == 0) {
            n = label(s, map, false, halves ? 2 * y : y, most);
            blanks(s, left - n);
            put(s, attn__out_string(&s->text));
        } else {
            blanks(s, left);
        }
        attn__out_char(s->out, ' ');
        cells(s, map, scale, y, halves, each);
        line_end(s);
    }
    if (wide) {
        foot(s, map, left + 1, each);
        return;
    }
    blanks(s, left + 1);
    label(s, map, true, 0, 20);
    n = s->text.size;
    put(s, attn__out_string(&s->text));
    attn__out_clear(&s->text);
    attn__out_int(&s->text, s->d->figure.first_key + s->d->figure.keys - 1);
    blanks(s, map->cols > n + s->text.size ? map->cols - n - s->text.size : 1);
    put(s, attn__out_string(&s->text));
    line_end(s);
}

static attn_status draw_map(screen *s, attn_error *err)
{
    const attn_figure *f = &s->d->figure;
    attn_panel panel = attn__panel_at(f, 0);
    size_t room = s->width > LABEL_MOST + 12 ? s->width - LABEL_MOST - 1 : 11;
    bool wide = 2 * (size_t)panel.cells.size[3] <= room && panel.cells.size[2] <= 64;
    size_t lines = f->height > 8 ? (size_t)f->height - 6 : 40;
    attn__out facts = {.ctx = s->d->ctx};
    attn__map map = {.ctx = s->d->ctx};
    attn__scale scale = {.ctx = s->d->ctx};
    attn_status st;

    room = wide ? room : s->width > 20 ? s->width - 10 : 10;
    if (!f->height && !wide) /* square cells */
        lines = (room * (size_t)panel.cells.size[2] / (size_t)panel.cells.size[3] + 1) / 2;
    lines = lines < 4 ? 4 : lines > 200 ? 200 : lines;
    st = attn__map_make(s->d->ctx, f, &panel,
                        wide          ? 64
                        : is_plain(s) ? lines
                                      : 2 * lines,
                        room, &map, err);
    if (st == ATTN_OK)
        st = attn__scale_make(s->d->ctx, f, &map, 1, &scale, err);
    if (st == ATTN_OK) {
        attn__facts(s->d, &map, &scale, &facts);
        heading(s, &facts);
        map_lines(s, &map, &scale, wide);
        legend(s, &scale, map.has);
    }
    attn__out_done(&facts, s->out);
    attn__scale_reset(&scale);
    attn__map_reset(&map);
    return st;
}

/* --- Grid ------------------------------------------------------------------------------------- */

/* The panels of one layer in a band, as wide as they come. */
static size_t band_of(const attn__drawing *d, size_t from)
{
    attn_panel first = attn__panel_at(&d->figure, from);
    size_t n = 1;

    while (from + n < d->figure.panel_count &&
           attn__panel_at(&d->figure, from + n).layer == first.layer)
        n++;
    return n;
}

/* Head numbers above panels from .. from + n - 1 of `side` columns, unless they are those above. */
static void name_heads(screen *s, size_t from, size_t n, size_t side)
{
    const attn_figure *f = &s->d->figure;
    bool same = s->names == n;

    for (size_t k = 0; same && k < n; k++)
        same = attn__panel_at(f, s->named + k).head == attn__panel_at(f, from + k).head;
    if (same)
        return;
    s->named = from;
    s->names = n;
    blanks(s, 3);
    for (size_t k = 0; k < n; k++) {
        attn__out_char(s->out, ' ');
        attn__out_clear(&s->text);
        attn__out_int(&s->text, attn__panel_at(f, from + k).head);
        put(s, attn__out_string(&s->text));
        if (k + 1 < n)
            blanks(s, s->text.size < side ? side - s->text.size : 0);
    }
    line_end(s);
}

static void grid_band(screen *s, const attn__map *maps, const attn__scale *scale, size_t from,
                      size_t n, size_t per)
{
    bool halves = !is_plain(s);

    for (size_t start = 0; start < n; start += per) {
        size_t count = n - start < per ? n - start : per;
        const attn__map *m = maps + from + start;
        size_t lines = halves ? (m->rows + 1) / 2 : m->rows;

        name_heads(s, from + start, count, m->cols);
        for (size_t y = 0; y < lines; y++) {
            attn__out_clear(&s->text);
            if (y == 0)
                attn__out_int(&s->text, attn__panel_at(&s->d->figure, from).layer);
            blanks(s, s->text.size < 3 ? 3 - s->text.size : 0);
            put(s, attn__out_string(&s->text));
            for (size_t k = 0; k < count; k++) {
                attn__out_char(s->out, ' ');
                cells(s, &m[k], scale, y, halves, 1);
            }
            line_end(s);
        }
        line_end(s);
    }
}

static attn_status draw_grid(screen *s, attn_error *err)
{
    const attn_figure *f = &s->d->figure;
    attn__map *maps = attn__new(s->d->ctx, f->panel_count * sizeof *maps);
    attn__scale scale = {.ctx = s->d->ctx};
    attn__out facts = {.ctx = s->d->ctx};
    bool has[ATTN__CELL_KINDS] = {false};
    size_t most = 1, side, per;
    attn_status st = ATTN_OK;

    if (!maps)
        return attn__fail(err, ATTN_E_MEMORY, 0, "grid");
    for (size_t i = 0; i < f->panel_count; i += band_of(s->d, i))
        most = band_of(s->d, i) > most ? band_of(s->d, i) : most;
    side = s->width > 4 ? (s->width - 3) / most : 0;
    side = side < 7 ? 6 : side > 25 ? 24 : side - 1;
    per = s->width > 4 + side ? (s->width - 3) / (side + 1) : 1;
    for (size_t i = 0; i < f->panel_count && st == ATTN_OK; i++) {
        attn_panel panel = attn__panel_at(f, i);

        st = attn__map_make(s->d->ctx, f, &panel, is_plain(s) ? (side + 1) / 2 : side, side,
                            &maps[i], err);
        for (int k = 0; k < ATTN__CELL_KINDS; k++)
            has[k] = has[k] || maps[i].has[k];
    }
    if (st == ATTN_OK)
        st = attn__scale_make(s->d->ctx, f, maps, f->panel_count, &scale, err);
    if (st == ATTN_OK) {
        attn__facts(s->d, &maps[0], &scale, &facts);
        heading(s, &facts);
        attn__out_text(s->out, "layers down, heads to the right\n");
        for (size_t i = 0; i < f->panel_count; i += band_of(s->d, i))
            grid_band(s, maps, &scale, i, band_of(s->d, i), per);
        legend(s, &scale, has);
    }
    attn__out_done(&facts, s->out);
    attn__scale_reset(&scale);
    for (size_t i = 0; i < f->panel_count; i++) {
        maps[i].ctx = s->d->ctx;
        attn__map_reset(&maps[i]);
    }
    attn__free(s->d->ctx, maps);
    return st;
}

/* --- Lines ------------------------------------------------------------------------------------ */

/* A query, and what holds its mass: "cat -> sat 0.62, the 0.21". */
static void lines_of_panel(screen *s, const attn__edges *edges)
{
    const attn_figure *f = &s->d->figure;

    for (int64_t q = 0; q < f->queries && q < QUERIES_MOST; q++) {
        size_t used, n;
        bool first = true;

        attn__out_clear(&s->text);
        attn__token(f->query_tokens, f->queries, f->first_query, q, LABEL_MOST, form_of(s), false,
                    &s->text);
        n = attn__label_columns(attn__out_string(&s->text));
        blanks(s, n < LABEL_MOST ? LABEL_MOST - n : 0);
        put(s, attn__out_string(&s->text));
        attn__out_text(s->out, is_plain(s) ? " ->" : " \xe2\x86\x92");
        used = LABEL_MOST + 3;
        for (size_t i = 0; i < edges->count; i++) {
            if (edges->at[i].query != q)
                continue;
            attn__out_clear(&s->text);
            attn__out_text(&s->text, first ? " " : ", ");
            attn__token(f->key_tokens, f->keys, f->first_key, edges->at[i].key, LABEL_MOST,
                        form_of(s), false, &s->text);
            attn__out_char(&s->text, ' ');
            attn__out_fixed(&s->text, edges->at[i].weight, 2);
            n = attn__label_columns(attn__out_string(&s->text));
            if (used + n + 2 > s->width && !first) {
                put(s, is_plain(s) ? " ~" : " \xe2\x80\xa6");
                break;
            }
            put(s, attn__out_string(&s->text));
            used += n;
            first = false;
        }
        line_end(s);
    }
    if (f->queries > QUERIES_MOST)
        attn__out_text(s->out, "and so on\n");
}

static attn_status draw_lines(screen *s, attn_error *err)
{
    attn__out facts = {.ctx = s->d->ctx};
    attn_status st = ATTN_OK;

    attn__facts(s->d, NULL, NULL, &facts);
    heading(s, &facts);
    for (size_t i = 0; i < s->d->figure.panel_count && st == ATTN_OK; i++) {
        attn_panel panel = attn__panel_at(&s->d->figure, i);
        attn__edges edges = {0};

        st = attn__edges_make(s->d->ctx, &s->d->figure, &panel, 20000, &edges, err);
        attn__out_clear(&s->text);
        attn__panel_name(&panel, &s->text);
        if (s->text.size > 0) {
            put(s, attn__out_string(&s->text));
            line_end(s);
        }
        if (st == ATTN_OK)
            lines_of_panel(s, &edges);
        attn__edges_reset(s->d->ctx, &edges);
    }
    attn__out_done(&facts, s->out);
    return st;
}

/* --- Curves ----------------------------------------------------------------------------------- */

/* A raster of dots, 2 x 4 a character in Braille; without UTF-8 one a character. Each character has
 * the curve that was there last. */
typedef struct raster {
    size_t columns, lines, dots_x, dots_y;
    uint8_t *dots;   /* of each character */
    uint16_t *curve; /* 1 and up; 0: none */
} raster;

static void dot(raster *r, double x, double y, size_t curve)
{
    static const uint8_t bit[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    size_t i = (size_t)fmin(fmax(x, 0), (double)(r->columns * r->dots_x - 1));
    size_t j = (size_t)fmin(fmax(y, 0), (double)(r->lines * r->dots_y - 1));
    size_t at = j / r->dots_y * r->columns + i / r->dots_x;

    r->dots[at] |= bit[j % r->dots_y][i % r->dots_x];
    r->curve[at] = (uint16_t)(curve + 1);
}

static void dots_of_curve(const screen *s, raster *r, const attn__survey *v, size_t curve)
{
    const attn_series *c = &s->d->figure.series[curve];
    double before[2] = {0, 0};
    bool joined = false;

    for (size_t i = 0; i < c->count; i++) {
        double x, y;
        int steps;

        if (!attn__curve_point(s->d, c, i, &x, &y)) {
            joined = false;
            continue;
        }
        x = attn__range_place(&v->x, x);
        y = attn__range_place(&v->y, y);
        steps = joined ? (int)fmin(2000, fmax(fabs(x - before[0]), fabs(y - before[1])) + 1) : 1;
        for (int k = 1; k <= steps; k++) {
            double t = joined ? (double)k / steps : 1;

            dot(r, before[0] + t * (x - before[0]) + 0.5, before[1] + t * (y - before[1]) + 0.5,
                curve);
        }
        before[0] = x;
        before[1] = y;
        joined = true;
    }
}

static char letter_of(size_t curve)
{
    return (char)('a' + curve % 26);
}

static void raster_line(screen *s, const raster *r, size_t y)
{
    for (size_t x = 0; x < r->columns; x++) {
        size_t at = y * r->columns + x, curve = r->curve[at];
        const char braille[4] = {(char)0xe2, (char)(0xa0 | r->dots[at] >> 6),
                                 (char)(0x80 | (r->dots[at] & 0x3f)), '\0'};

        if (curve == 0) {
            attn__out_char(s->out, ' ');
        } else if (is_plain(s)) {
            attn__out_char(s->out, letter_of(curve - 1));
        } else {
            colour(s, false, attn__curve_pen(s->d, curve - 1).colour);
            attn__out_text(s->out, braille);
        }
    }
    plain_again(s);
}

static void curve_lines(screen *s, const raster *r, const attn__survey *v)
{
    size_t low;

    for (size_t y = 0; y < r->lines; y++) {
        double t = (double)(r->lines - 1 - y) / (double)(r->lines - 1);
        double value = v->y.log ? v->y.low * pow(v->y.high / v->y.low, t)
                                : v->y.low + t * (v->y.high - v->y.low);

        attn__out_clear(&s->text);
        if (y % 5 == 0)
            attn__out_value(&s->text, value, 3);
        blanks(s, s->text.size < 9 ? 9 - s->text.size : 0);
        put(s, attn__out_string(&s->text));
        attn__out_text(s->out, y % 5 == 0 ? " +" : " |");
        raster_line(s, r, y);
        line_end(s);
    }
    blanks(s, 11);
    attn__out_clear(&s->text);
    attn__out_value(&s->text, v->x.low, 4);
    low = s->text.size;
    put(s, attn__out_string(&s->text));
    attn__out_clear(&s->text);
    attn__out_value(&s->text, v->x.high, 4);
    blanks(s, r->columns > low + s->text.size ? r->columns - low - s->text.size : 1);
    put(s, attn__out_string(&s->text));
    line_end(s);
}

static void curve_names(screen *s)
{
    for (size_t i = 0; i < s->d->figure.series_count && i < 40; i++) {
        const char *name = s->d->figure.series[i].name;

        if (!name || !name[0])
            continue;
        blanks(s, 11);
        if (is_plain(s)) {
            attn__out_char(s->out, letter_of(i));
        } else {
            colour(s, false, attn__curve_pen(s->d, i).colour);
            attn__out_text(s->out, "\xe2\x96\xa0");
            plain_again(s);
        }
        attn__out_char(s->out, ' ');
        attn__out_clear(&s->text);
        attn__label_clean(&s->text, name, strlen(name), s->width, ATTN__PROSE);
        put(s, attn__out_string(&s->text));
        line_end(s);
    }
}

static attn_status draw_curves(screen *s, attn_error *err)
{
    attn__survey v = attn__curves_survey(s->d);
    attn__out facts = {.ctx = s->d->ctx};
    raster r = {.columns = s->width > 30 ? s->width - 12 : 18,
                .lines = s->d->figure.height > 8 ? (size_t)s->d->figure.height - 5 : PLOT_LINES,
                .dots_x = is_plain(s) ? 1 : 2,
                .dots_y = is_plain(s) ? 1 : 4};
    attn_status st = ATTN_OK;

    r.dots = attn__new(s->d->ctx, r.columns * r.lines);
    r.curve = attn__new(s->d->ctx, r.columns * r.lines * sizeof *r.curve);
    v.x.to = (double)(r.columns * r.dots_x - 1);
    v.y.from = (double)(r.lines * r.dots_y - 1);
    if (r.dots && r.curve) {
        attn__curves_facts(s->d, &v, &facts);
        heading(s, &facts);
        for (size_t i = 0; i < s->d->figure.series_count; i++)
            dots_of_curve(s, &r, &v, i);
        curve_lines(s, &r, &v);
        curve_names(s);
    } else {
        st = attn__fail(err, ATTN_E_MEMORY, 0, "curves");
    }
    attn__out_done(&facts, s->out);
    attn__free(s->d->ctx, r.dots);
    attn__free(s->d->ctx, r.curve);
    return st;
}

/* --- The door --------------------------------------------------------------------------------- */

/* An overlay is its cells as a map: a terminal shows no photograph. */
attn_status attn__terminal(const attn__drawing *d, attn_picture form, attn__out *out,
                           attn_error *err)
{
    static attn_status (*const kinds[])(screen *, attn_error *) = {
        [ATTN_FIGURE_MAP] = draw_map,     [ATTN_FIGURE_GRID] = draw_grid,
        [ATTN_FIGURE_LINES] = draw_lines, [ATTN_FIGURE_CURVES] = draw_curves,
        [ATTN_FIGURE_OVERLAY] = draw_map,
    };
    screen s = {.d = d, .form = form, .out = out, .text = {.ctx = d->ctx}};
    attn_status st;

    s.width = d->figure.width ? (size_t)d->figure.width : WIDTH;
    st = kinds[d->figure.kind](&s, err);
    if (st == ATTN_OK && (out->failed || s.text.failed))
        st = attn__fail(err, ATTN_E_MEMORY, 0, "text");
    attn__out_reset(&s.text);
    return st;
}
