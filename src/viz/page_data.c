/* page_data.c: how the viewer's numbers are packed.
 *
 * Little-endian, each block deflated, then base64 in the page; page.js reads it.
 *
 *     head   exact, signed, single, scale, reduction: a byte each
 *            rows, cols, step of rows, step of cols, k, step of k: u32
 *            queries, keys, first query, first key: f64
 *            values of the codes, lowest and highest; limits of the figure: f64
 *            256 colours of 3 bytes
 *            titles of queries, keys, values: texts (u16 length, UTF-8)
 *            u32 panels: i32 layer, i32 head, text
 *            u32 tokens of queries: texts; byte 1 if keys have the same, else 0 and theirs
 *            thumbnails: u32 rows, u32 columns, their codes panel by panel
 *     panel  rows x cols codes
 *            exact: the floats of all cells, lowest bytes first, then the second bytes and so on,
 *            which deflates better; else k keys i32 of each query, or of every so many,
 *            then their weights f32
 *            u32 whole rows: u32 query, u32 first key, u32 count, f32 each
 *
 * A code is 0 masked, 1 dropped, 2 not finite, 3 .. 255 a value: 253 even steps if values may be
 * negative; else 3 for less than the lowest (10^-6 of the highest), and 252 steps of one ratio,
 * 10^(6/251) = 1.057, so that the value is within 2.8 %. */
#include "src/viz/page_data.h"

#include "src/base/error.h"
#include "src/base/half.h"
#include "src/base/mem.h"
#include "src/viz/edges.h"

#include <math.h>
#include <string.h>

enum { FIRST = 3, SPAN = 252, TOP = 8, TOKEN_COLUMNS = 60 };

/* --- Values ----------------------------------------------------------------------------------- */

static uint8_t code_of(const attn__page_data *p, double v, uint8_t kind)
{
    double t;

    if (kind != ATTN__CELL_VALUE)
        return kind == ATTN__CELL_MASKED ? 0 : kind == ATTN__CELL_DROPPED ? 1 : 2;
    if (p->is_signed) {
        t = p->high > p->low ? (v - p->low) / (p->high - p->low) : 0.5;
        return (uint8_t)(FIRST + (int)(SPAN * fmin(fmax(t, 0), 1) + 0.5));
    }
    if (v < p->low || !(p->high > 0))
        return FIRST;
    t = log(v / p->low) / log(p->high / p->low);
    return (uint8_t)(FIRST + 1 + (int)((SPAN - 1) * fmin(fmax(t, 0), 1) + 0.5));
}

static void put_float(attn__out *out, double v)
{
    attn__out_le(out, attn__bits((float)v), 4);
}

static void put_double(attn__out *out, double v)
{
    uint64_t bits;

    memcpy(&bits, &v, sizeof bits);
    attn__out_le(out, bits, 8);
}

/* Room for a row of a panel. */
typedef struct row {
    double *value, *allowed;
    uint8_t *kind;
} row;

static bool row_make(const attn_ctx *ctx, size_t n, row *r)
{
    r->value = attn__alloc(ctx, n * sizeof *r->value);
    r->allowed = attn__alloc(ctx, n * sizeof *r->allowed);
    r->kind = attn__alloc(ctx, n);
    return r->value && r->allowed && r->kind;
}

static void row_reset(const attn_ctx *ctx, row *r)
{
    attn__free(ctx, r->value);
    attn__free(ctx, r->allowed);
    attn__free(ctx, r->kind);
}

/* Lowest, highest and least positive value of all panels. */
static attn_status survey(attn__page_data *p, double *positive, attn_error *err)
{
    const attn_figure *f = &p->d->figure;
    attn_panel first = attn__panel_at(f, 0);
    row r = {0};

    *positive = HUGE_VAL;
    p->low = HUGE_VAL;
    p->high = -HUGE_VAL;
    if (!row_make(p->d->ctx, (size_t)first.cells.size[3], &r)) {
        row_reset(p->d->ctx, &r);
        return attn__fail(err, ATTN_E_MEMORY, 0, "row of cells");
    }
    for (size_t k = 0; k < f->panel_count; k++) {
        attn_panel panel = attn__panel_at(f, k);

        for (int64_t i = 0; i < panel.cells.size[2]; i++) {
            attn__panel_row(f, &panel, i, r.value, r.allowed, r.kind);
            for (int64_t j = 0; j < panel.cells.size[3]; j++)
                if (r.kind[j] == ATTN__CELL_VALUE) {
                    p->low = fmin(p->low, r.value[j]);
                    p->high = fmax(p->high, r.value[j]);
                    if (r.value[j] > 0)
                        *positive = fmin(*positive, r.value[j]);
                }
        }
    }
    row_reset(p->d->ctx, &r);
    if (!(p->low <= p->high))
        p->low = p->high = 0;
    p->is_signed = p->low < 0 || f->colours == ATTN_COLOURS_DIVERGING;
    return ATTN_OK;
}

/* --- Head ------------------------------------------------------------------------------------- */

static void put_text(attn__out *out, attn__out *text)
{
    const char *s = attn__out_string(text);
    size_t n = text->size < 0xffff ? text->size : 0xffff;

    attn__out_le(out, n, 2);
    attn__out_put(out, s, n);
    out->failed = out->failed || text->failed;
}

static void put_words(attn__out *out, const char *words, attn__out *scratch)
{
    attn__out_clear(scratch);
    attn__label_clean(scratch, words, strlen(words), 60, ATTN__PROSE);
    put_text(out, scratch);
}

static void put_tokens(attn__out *out, const attn_label *tokens, int64_t count, attn__out *scratch)
{
    attn__out_le(out, (uint64_t)count, 4);
    for (int64_t i = 0; i < count; i++) {
        const char *text = tokens[i].text ? tokens[i].text : "";

        attn__out_clear(scratch);
        attn__label_clean(scratch, text, tokens[i].size, TOKEN_COLUMNS, ATTN__TOKEN);
        put_text(out, scratch);
    }
}

static void put_head(const attn__page_data *p, const attn__map *thumbs, attn__out *out,
                     attn__out *scratch)
{
    const attn_figure *f = &p->d->figure;
    bool same = f->key_tokens == f->query_tokens && f->keys == f->queries;
    const uint8_t flags[] = {p->exact, p->is_signed, p->single, (uint8_t)f->scale,
                             (uint8_t)f->reduction};
    const size_t counts[] = {
        p->rows, p->cols,    (size_t)f->query_block * p->factor, (size_t)f->key_block * p->factor,
        p->top,  p->top_step};
    const double numbers[] = {(double)f->queries,   (double)f->keys, (double)f->first_query,
                              (double)f->first_key, p->low,          p->high,
                              p->scale.low,         p->scale.high};

    attn__out_put(out, flags, sizeof flags);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        attn__out_le(out, counts[i], 4);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        put_double(out, numbers[i]);
    for (int i = 0; i < ATTN__COLOURS; i++) {
        const uint8_t rgb[3] = {p->d->table[i].r, p->d->table[i].g, p->d->table[i].b};

        attn__out_put(out, rgb, 3);
    }
    put_words(out, f->query_title, scratch);
    put_words(out, f->key_title, scratch);
    put_words(out, f->value_title, scratch);
    attn__out_le(out, f->panel_count, 4);
    for (size_t i = 0; i < f->panel_count; i++) {
        attn_panel panel = attn__panel_at(f, i);

        attn__out_le(out, (uint64_t)panel.layer, 4);
        attn__out_le(out, (uint64_t)panel.head, 4);
        attn__out_clear(scratch);
        attn__panel_name(&panel, scratch);
        put_text(out, scratch);
    }
    put_tokens(out, f->query_tokens, p->tokens && f->query_tokens ? f->queries : 0, scratch);
    attn__out_char(out, same ? 1 : 0);
    if (!same)
        put_tokens(out, f->key_tokens, p->tokens && f->key_tokens ? f->keys : 0, scratch);
    attn__out_le(out, thumbs[0].rows, 4);
    attn__out_le(out, thumbs[0].cols, 4);
    for (size_t i = 0; i < f->panel_count; i++)
        for (size_t k = 0; k < thumbs[i].rows * thumbs[i].cols; k++) {
            uint8_t code = code_of(p, thumbs[i].value[k], thumbs[i].kind[k]);

            attn__out_put(out, &code, 1);
        }
}

/* --- Panels ----------------------------------------------------------------------------------- */

static attn_status put_codes(const attn__page_data *p, const attn_panel *panel, attn__out *raw,
                             attn_error *err)
{
    attn__map map = {.ctx = p->d->ctx};
    attn_status st =
        attn__map_pool(p->d->ctx, &p->d->figure, panel, p->factor, p->factor, &map, err);

    for (size_t i = 0; st == ATTN_OK && i < map.rows * map.cols; i++) {
        uint8_t code = code_of(p, map.value[i], map.kind[i]);

        attn__out_put(raw, &code, 1);
    }
    for (int plane = 0; st == ATTN_OK && p->exact && plane < 4; plane++)
        for (size_t i = 0; i < map.rows * map.cols; i++) {
            bool shown = map.kind[i] == ATTN__CELL_VALUE || map.kind[i] == ATTN__CELL_ODD;

            attn__out_char(raw, shown ? (char)(attn__bits((float)map.value[i]) >> (8 * plane)) : 0);
        }
    attn__map_reset(&map);
    return st;
}

/* The heaviest keys of query i: from its cells if they are single weights, else those given. */
static size_t tops_of(const attn__page_data *p, const attn_panel *panel, int64_t i, row *r,
                      int64_t key[TOP], double weight[TOP])
{
    size_t n = 0, given = (size_t)panel->top_keys.size[3];

    if (p->single) {
        attn__panel_row(&p->d->figure, panel, i, r->value, r->allowed, r->kind);
        return attn__top_of_row(r->value, r->kind, panel->cells.size[3], p->top, key, weight);
    }
    if (given == 0)
        return 0;
    attn__view_row(&panel->top_keys, i, r->value);
    attn__view_row(&panel->top_weights, i, r->allowed);
    for (; n < p->top && n < given && r->value[n] >= 0; n++) {
        key[n] = (int64_t)r->value[n];
        weight[n] = r->allowed[n];
    }
    return n;
}

static void put_tops(const attn__page_data *p, const attn_panel *panel, row *r, attn__out *raw,
                     attn__out *weights)
{
    attn__out_clear(weights);
    for (int64_t i = 0; i < p->d->figure.queries; i += (int64_t)p->top_step) {
        double weight[TOP];
        int64_t key[TOP];
        size_t n = tops_of(p, panel, i, r, key, weight);

        for (size_t k = 0; k < p->top; k++) {
            attn__out_le(raw, k < n ? (uint64_t)key[k] : UINT32_MAX, 4);
            put_float(weights, k < n ? weight[k] : 0);
        }
    }
    attn__out_put(raw, weights->bytes, weights->size);
}

/* The first and the end of a row's keys with a weight. */
static void span_of(const double *value, int64_t n, int64_t *from, int64_t *to)
{
    *from = 0;
    *to = n;
    while (*from < *to && value[*from] == 0)
        ++*from;
    while (*to > *from && value[*to - 1] == 0)
        --*to;
}

/* Whole rows, without the zeros at both ends. */
static void put_whole(const attn__page_data *p, const attn_panel *panel, row *r, attn__out *raw)
{
    size_t n = (size_t)panel->rows.size[2] < p->whole ? (size_t)panel->rows.size[2] : p->whole;

    attn__out_le(raw, n, 4);
    for (size_t i = 0; i < n; i++) {
        int64_t from, to;

        attn__view_row(&panel->rows, (int64_t)i, r->value);
        span_of(r->value, p->d->figure.keys, &from, &to);
        attn__out_le(raw, (uint64_t)panel->row_index[i], 4);
        attn__out_le(raw, (uint64_t)from, 4);
        attn__out_le(raw, (uint64_t)(to - from), 4);
        for (int64_t j = from; j < to; j++)
            put_float(raw, r->value[j]);
    }
}

static size_t base64_size(size_t n)
{
    return (n + 2) / 3 * 4;
}

/* Packs every step-th panel as p says. *fits: whether all would take no more than `room` bytes if
 * the others are like these; stops when not. */
static attn_status put_some(attn__page_data *p, size_t step, size_t room, bool *fits,
                            attn_error *err)
{
    const attn_figure *f = &p->d->figure;
    const attn_ctx *ctx = p->d->ctx;
    attn__out raw = {.ctx = ctx}, weights = {.ctx = ctx};
    attn_panel first = attn__panel_at(f, 0);
    size_t used = 0, width = (size_t)first.cells.size[3];
    attn_status st = ATTN_OK;
    row r = {0};

    width = (size_t)f->keys > width ? (size_t)f->keys : width;
    for (size_t i = 0; i < f->panel_count; i++) {
        size_t tops = (size_t)attn__panel_at(f, i).top_keys.size[3];

        width = tops > width ? tops : width;
    }
    if (!row_make(ctx, width, &r))
        st = attn__fail(err, ATTN_E_MEMORY, 0, "row of cells");
    *fits = true;
    for (size_t i = 0; st == ATTN_OK && *fits && i < f->panel_count; i += step) {
        attn_panel panel = attn__panel_at(f, i);

        attn__out_clear(&raw);
        st = put_codes(p, &panel, &raw, err);
        if (st == ATTN_OK && !p->exact && p->top > 0)
            put_tops(p, &panel, &r, &raw, &weights);
        put_whole(p, &panel, &r, &raw);
        attn__out_clear(&p->panels[i]);
        attn__out_deflate(&p->panels[i], raw.bytes, raw.size);
        used += base64_size(p->panels[i].size);
        *fits = used * step <= room;
        if (st == ATTN_OK && (raw.failed || weights.failed || p->panels[i].failed))
            st = attn__fail(err, ATTN_E_MEMORY, 0, "packed cells");
    }
    row_reset(ctx, &r);
    attn__out_reset(&raw);
    attn__out_reset(&weights);
    return st;
}

/* Packs all of them; a few first, because most of what is tried does not fit by far. */
static attn_status put_panels(attn__page_data *p, size_t room, bool *fits, attn_error *err)
{
    size_t step = p->d->figure.panel_count / 8;
    attn_status st = ATTN_OK;

    *fits = true;
    if (step > 1)
        st = put_some(p, step, room + room / 10, fits, err);
    if (st == ATTN_OK && *fits)
        st = put_some(p, 1, room, fits, err);
    return st;
}

/* --- What fits -------------------------------------------------------------------------------- */

static void set_factor(attn__page_data *p, size_t factor)
{
    attn_panel first = attn__panel_at(&p->d->figure, 0);

    p->factor = factor;
    p->rows = ((size_t)first.cells.size[2] + factor - 1) / factor;
    p->cols = ((size_t)first.cells.size[3] + factor - 1) / factor;
}

/* Sums grow as cells are pooled. */
static void set_values(attn__page_data *p, double low, double high)
{
    double times =
        p->d->figure.reduction == ATTN_REDUCE_SUM ? (double)p->factor * (double)p->factor : 1;

    p->high = high * times;
    p->low = p->is_signed ? low * times : p->high * 1e-6;
}

/* The heaviest keys of each query may take half the room, if they deflate to 0.6; where two a query
 * are too many, those of the first query of each row of cells are kept. */
static void choose_tops(attn__page_data *p, size_t room)
{
    const attn_figure *f = &p->d->figure;
    attn_panel first = attn__panel_at(f, 0);
    size_t given = (size_t)first.top_keys.size[3], most = p->single || given > TOP ? TOP : given;
    double each = (double)f->queries * (double)f->panel_count * 8 * 0.6 * 4 / 3;

    p->top = most;
    p->top_step = 1;
    while (p->top > 1 && (double)p->top * each > (double)room / 2)
        p->top /= 2;
    if (p->top < 2 && most > 1) {
        p->top = most;
        p->top_step = (size_t)f->query_block * p->factor;
    }
}

/* All cells as they are, or the finest map that fits. */
static attn_status fit_panels(attn__page_data *p, size_t room, attn_error *err)
{
    attn_panel first = attn__panel_at(&p->d->figure, 0);
    double cells = (double)first.cells.size[2] * (double)first.cells.size[3] *
                   (double)p->d->figure.panel_count;
    double low = p->low, high = p->high;
    attn_status st = ATTN_OK;
    bool fits = false;

    set_factor(p, 1);
    set_values(p, low, high);
    /* Weights deflate to a third or worse; not worth the try past that. */
    if (p->single && cells * 5 * 4 / 3 < 3 * (double)room) {
        p->exact = true;
        st = put_panels(p, room, &fits, err);
        p->exact = fits;
    }
    for (size_t factor = 1; st == ATTN_OK && !fits; factor *= 2) {
        bool last;

        set_factor(p, factor);
        set_values(p, low, high);
        choose_tops(p, room);
        last = p->rows <= 32 && p->cols <= 32; /* as small as it gets */
        if (cells / (double)factor / (double)factor / 8 > (double)room && !last)
            continue;
        st = put_panels(p, room, &fits, err);
        if (st == ATTN_OK && !fits && last) {
            p->top = 0;
            st = put_some(p, 1, SIZE_MAX, &fits, err);
        }
    }
    return st;
}

/* How many whole rows of each panel may take half the room. */
static attn_status rows_that_fit(attn__page_data *p, size_t room, attn_error *err)
{
    const attn_figure *f = &p->d->figure;
    double *value = attn__alloc(p->d->ctx, (size_t)f->keys * sizeof *value);
    size_t used = 0;

    if (!value)
        return attn__fail(err, ATTN_E_MEMORY, 0, "row of weights");
    p->whole = 0;
    for (;;) {
        size_t with_row = 0;

        for (size_t k = 0; k < f->panel_count; k++) {
            attn_panel panel = attn__panel_at(f, k);
            int64_t from, to;

            if ((int64_t)p->whole >= panel.rows.size[2])
                continue;
            attn__view_row(&panel.rows, (int64_t)p->whole, value);
            span_of(value, f->keys, &from, &to);
            with_row += base64_size(4 * (size_t)(to - from) + 12);
        }
        used += with_row;
        if (with_row == 0 || used > room / 2)
            break;
        p->whole++;
    }
    attn__free(p->d->ctx, value);
    return ATTN_OK;
}

/* Thumbnails, and the scale over them. */
static attn_status make_thumbs(attn__page_data *p, attn__map *thumbs, attn_error *err)
{
    const attn_figure *f = &p->d->figure;
    size_t most = f->panel_count > 4 ? 64 : 256;
    attn_status st = ATTN_OK;

    for (size_t i = 0; i < f->panel_count && st == ATTN_OK; i++) {
        attn_panel panel = attn__panel_at(f, i);

        st = attn__map_make(p->d->ctx, f, &panel, most, most, &thumbs[i], err);
    }
    if (st == ATTN_OK)
        st = attn__scale_make(p->d->ctx, f, thumbs, f->panel_count, &p->scale, err);
    return st;
}

static attn_status pack(attn__page_data *p, size_t max_bytes, attn__map *thumbs, attn_error *err)
{
    attn__out raw = {.ctx = p->d->ctx}, scratch = {.ctx = p->d->ctx};
    double positive;
    size_t head;
    attn_status st;

    if ((st = make_thumbs(p, thumbs, err)) != ATTN_OK ||
        (st = survey(p, &positive, err)) != ATTN_OK)
        return st;
    /* Thumbnails have lost the small values of a map that is drawn whole. */
    if (p->scale.kind == ATTN_SCALE_LOG && !p->d->figure.has_limits && p->d->figure.robust == 0)
        p->scale.low = fmin(p->scale.low, fmax(positive, p->scale.high * 1e-6));
    if ((st = rows_that_fit(p, max_bytes / 2, err)) != ATTN_OK)
        return st;
    /* The head twice: for its size now, with what was decided later. */
    p->tokens = true;
    for (int pass = 0; pass < 2 && st == ATTN_OK; pass++) {
        for (;;) {
            attn__out_clear(&raw);
            attn__out_clear(&p->head);
            put_head(p, thumbs, &raw, &scratch);
            attn__out_deflate(&p->head, raw.bytes, raw.size);
            head = base64_size(p->head.size);
            if (!p->tokens || head <= max_bytes / 3)
                break;
            p->tokens = false;
        }
        if (raw.failed || scratch.failed || p->head.failed)
            st = attn__fail(err, ATTN_E_MEMORY, 0, "packed head");
        else if (pass == 0)
            st = fit_panels(p, max_bytes > head ? max_bytes - head : 0, err);
    }
    attn__out_reset(&raw);
    attn__out_reset(&scratch);
    return st;
}

attn_status attn__page_data_make(const attn__drawing *d, size_t max_bytes, attn__page_data *p,
                                 attn_error *err)
{
    size_t n = d->figure.panel_count;
    attn__map *thumbs = attn__new(d->ctx, n * sizeof *thumbs);
    attn_status st;

    memset(p, 0, sizeof *p);
    p->d = d;
    p->scale.ctx = p->head.ctx = d->ctx;
    p->top_step = 1;
    p->single = d->figure.query_block * d->figure.key_block == 1;
    p->panels = attn__new(d->ctx, n * sizeof *p->panels);
    for (size_t i = 0; p->panels && i < n; i++)
        p->panels[i].ctx = d->ctx;
    if (thumbs && p->panels)
        st = pack(p, max_bytes, thumbs, err);
    else
        st = attn__fail(err, ATTN_E_MEMORY, 0, "page of %zu panels", n);
    for (size_t i = 0; thumbs && i < n; i++) {
        thumbs[i].ctx = d->ctx;
        attn__map_reset(&thumbs[i]);
    }
    attn__free(d->ctx, thumbs);
    return st;
}

void attn__page_data_reset(attn__page_data *p)
{
    for (size_t i = 0; p->panels && i < p->d->figure.panel_count; i++)
        attn__out_reset(&p->panels[i]);
    attn__free(p->d->ctx, p->panels);
    attn__out_reset(&p->head);
    attn__scale_reset(&p->scale);
}

void attn__page_data_words(const attn__page_data *p, attn__out *out)
{
    static const char *const how[] = {"maximum", "mean", "sum"};
    const attn_figure *f = &p->d->figure;

    if (p->exact) {
        attn__out_text(out, "Every cell is kept as a 32-bit float and shown with 7 digits.");
    } else {
        attn__out_text(out, "Cells are kept in ");
        attn__out_text(out, p->is_signed
                                ? "253 even steps over their range"
                                : "252 logarithmic steps, within 2.8 %, shown with the sign "
                                  "\xe2\x89\x88");
        if (p->factor > 1) {
            attn__out_text(out, ", each the ");
            attn__out_text(out, how[f->reduction]);
            attn__out_text(out, " of ");
            attn__out_int(out, (int64_t)p->factor);
            attn__out_text(out, " \xc3\x97 ");
            attn__out_int(out, (int64_t)p->factor);
        }
        attn__out_char(out, '.');
        if (p->top > 0) {
            attn__out_text(out, " The ");
            attn__out_int(out, (int64_t)p->top);
            attn__out_text(out, " heaviest keys of ");
            if (p->top_step == 1) {
                attn__out_text(out, "each query");
            } else {
                attn__out_text(out, "every ");
                attn__out_int(out, (int64_t)p->top_step);
                attn__out_text(out, "th query");
            }
            attn__out_text(out, " are kept as 32-bit floats.");
        }
    }
    if (p->whole > 0) {
        attn__out_text(out, " Whole rows kept as 32-bit floats: ");
        attn__out_int(out, (int64_t)p->whole);
        attn__out_text(out, " a head.");
    }
    if (!p->tokens)
        attn__out_text(out, " The text of tokens did not fit and was left out.");
}
