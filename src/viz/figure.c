/* figure.c: the door: checks a figure, picks the format, and hands the finished bytes out. */
#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/base/sink.h"
#include "src/viz/drawing.h"

#include <math.h>
#include <string.h>

enum { MOST_SIDE = 16384 };

static const int64_t MOST_ITEMS = (int64_t)1 << 60; /* sums of two of them fit */

/* --- Checks ----------------------------------------------------------------------------------- */

attn_panel attn__panel_at(const attn_figure *figure, size_t i)
{
    size_t step = figure->panels->struct_size, known = sizeof(attn_panel);
    attn_panel p = {0};

    memcpy(&p, (const char *)figure->panels + i * step, step < known ? step : known);
    return p;
}

static bool is_cells(attn_type t)
{
    return t == ATTN_F32 || t == ATTN_F64 || t == ATTN_F16 || t == ATTN_BF16;
}

static bool is_allowed(attn_type t)
{
    return t == ATTN_U8 || t == ATTN_BOOL || t == ATTN_I32 || t == ATTN_I64 || t == ATTN_F32 ||
           t == ATTN_F64;
}

static bool is_index(attn_type t)
{
    return t == ATTN_I32 || t == ATTN_I64;
}

/* A view of panel i: [1, 1, rows, cols], there, aligned, of a type that fits. */
static attn_status check_view(size_t i, const char *what, const attn_view *v,
                              bool (*fits)(attn_type), int64_t rows, int64_t cols, attn_error *err)
{
    if (!fits(v->type))
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "panels[%zu].%s: type %s", i, what,
                          attn_type_name(v->type));
    if (v->size[0] != 1 || v->size[1] != 1 || v->size[2] != rows || v->size[3] != cols)
        return attn__fail(err, ATTN_E_SHAPE, 0,
                          "panels[%zu].%s is [%lld, %lld, %lld, %lld], expected [1, 1, %lld, %lld]",
                          i, what, (long long)v->size[0], (long long)v->size[1],
                          (long long)v->size[2], (long long)v->size[3], (long long)rows,
                          (long long)cols);
    if (!v->data && rows > 0 && cols > 0)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "panels[%zu].%s: data is NULL", i, what);
    if ((uintptr_t)v->data % attn_type_size(v->type) != 0)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "panels[%zu].%s: data is not aligned", i, what);
    return ATTN_OK;
}

static bool is_absent(const attn_view *v)
{
    return !v->data && v->size[0] == 0 && v->size[3] == 0;
}

static attn_status check_rows(const attn_figure *f, size_t i, const attn_panel *p, attn_error *err)
{
    attn_status st;

    if (is_absent(&p->rows))
        return ATTN_OK;
    st = check_view(i, "rows", &p->rows, is_cells, p->rows.size[2], f->keys, err);
    if (st != ATTN_OK)
        return st;
    if (!p->row_index && p->rows.size[2] > 0)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "panels[%zu].row_index is NULL", i);
    for (int64_t r = 0; r < p->rows.size[2]; r++)
        if (p->row_index[r] < 0 || p->row_index[r] >= f->queries ||
            (r > 0 && p->row_index[r] <= p->row_index[r - 1]))
            return attn__fail(err, ATTN_E_ARGUMENT, 0,
                              "panels[%zu].row_index[%lld] is out of range or order", i,
                              (long long)r);
    return ATTN_OK;
}

static attn_status check_panel(const attn_figure *f, size_t i, int64_t rows, int64_t cols,
                               attn_error *err)
{
    attn_panel p = attn__panel_at(f, i);
    int64_t k = p.top_keys.size[3];
    attn_status st;

    st = check_view(i, "cells", &p.cells, is_cells, rows, cols, err);
    if (st == ATTN_OK && !is_absent(&p.allowed))
        st = check_view(i, "allowed", &p.allowed, is_allowed, rows, cols, err);
    if (st == ATTN_OK)
        st = check_rows(f, i, &p, err);
    if (st == ATTN_OK && !is_absent(&p.top_keys)) {
        st = check_view(i, "top_keys", &p.top_keys, is_index, f->queries, k, err);
        if (st == ATTN_OK)
            st = check_view(i, "top_weights", &p.top_weights, is_cells, f->queries, k, err);
    }
    if (st == ATTN_OK && f->kind == ATTN_FIGURE_GRID && (p.layer < 0 || p.head < 0))
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "panels[%zu]: a grid needs layer and head", i);
    return st;
}

static attn_status check_panels(attn_figure *f, attn_error *err)
{
    int64_t rows, cols;
    attn_panel first;

    if (f->panel_count == 0 || !f->panels)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "panels: there is none");
    if (f->panels->struct_size < sizeof(size_t))
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "panels[0].struct_size is %zu",
                          f->panels->struct_size);
    first = attn__panel_at(f, 0);
    rows = first.cells.size[2];
    cols = first.cells.size[3];
    if (rows < 1 || cols < 1 || rows > (int64_t)1 << 40 || cols > (int64_t)1 << 40)
        return attn__fail(err, ATTN_E_SHAPE, 0, "panels[0].cells: %lld rows, %lld columns",
                          (long long)rows, (long long)cols);
    if (f->query_block < 0 || f->key_block < 0 || f->query_block > (int64_t)1 << 20 ||
        f->key_block > (int64_t)1 << 20)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "query_block or key_block is out of range");
    if (f->queries < 0 || f->keys < 0 || f->queries > MOST_ITEMS || f->keys > MOST_ITEMS ||
        f->first_query < 0 || f->first_key < 0 || f->first_query > MOST_ITEMS ||
        f->first_key > MOST_ITEMS)
        return attn__fail(err, ATTN_E_ARGUMENT, 0,
                          "queries, keys, first_query or first_key is negative or above 2^60");
    f->query_block = f->query_block ? f->query_block : 1;
    f->key_block = f->key_block ? f->key_block : 1;
    f->queries = f->queries ? f->queries : rows * f->query_block;
    f->keys = f->keys ? f->keys : cols * f->key_block;
    if ((f->queries + f->query_block - 1) / f->query_block != rows ||
        (f->keys + f->key_block - 1) / f->key_block != cols)
        return attn__fail(err, ATTN_E_SHAPE, 0,
                          "%lld queries and %lld keys in blocks of %lld x %lld are not %lld x %lld "
                          "cells",
                          (long long)f->queries, (long long)f->keys, (long long)f->query_block,
                          (long long)f->key_block, (long long)rows, (long long)cols);
    if (f->drop_keys < 0 || (f->drop_keys > 0 && f->key_block * f->query_block != 1))
        return attn__fail(err, ATTN_E_ARGUMENT, 0,
                          "drop_keys: negative, or cells are pooled already");
    for (size_t i = 0; i < f->panel_count; i++) {
        attn_status st = check_panel(f, i, rows, cols, err);

        if (st != ATTN_OK)
            return st;
    }
    return ATTN_OK;
}

static attn_status check_tokens(const char *what, const attn_label *tokens, int64_t count,
                                attn_error *err)
{
    for (int64_t i = 0; tokens && i < count; i++)
        if (!tokens[i].text && tokens[i].size > 0)
            return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s[%lld].text is NULL", what, (long long)i);
    return ATTN_OK;
}

static attn_status check_curves(const attn_figure *f, attn_error *err)
{
    if (f->series_count == 0 || !f->series)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "series: there is none");
    for (size_t i = 0; i < f->series_count; i++)
        if (!f->series[i].y && f->series[i].count > 0)
            return attn__fail(err, ATTN_E_ARGUMENT, 0, "series[%zu].y is NULL", i);
    return ATTN_OK;
}

static attn_status check_image(const attn_figure *f, attn_error *err)
{
    const attn_image *m = f->image;

    if (!m || !m->rgba || m->width == 0 || m->height == 0)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "image: there is none");
    if (m->width > MOST_SIDE || m->height > MOST_SIDE || (m->stride && m->stride / 4 < m->width))
        return attn__fail(err, ATTN_E_SHAPE, 0, "image: %zu x %zu, stride %zu", m->width, m->height,
                          m->stride);
    return ATTN_OK;
}

static attn_status check_numbers(const attn_figure *f, attn_error *err)
{
    static const struct {
        const char *name;
        size_t offset;
        int most;
    } choices[] = {
        {"kind", offsetof(attn_figure, kind), ATTN_FIGURE_OVERLAY},
        {"reduction", offsetof(attn_figure, reduction), ATTN_REDUCE_SUM},
        {"scale", offsetof(attn_figure, scale), ATTN_SCALE_PERCENTILE},
        {"colours", offsetof(attn_figure, colours), ATTN_COLOURS_DIVERGING},
    };

    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
        int value;

        memcpy(&value, (const char *)f + choices[i].offset, sizeof value);
        if (value < 0 || value > choices[i].most)
            return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s is %d", choices[i].name, value);
    }
    if (f->has_limits && !(isfinite(f->low) && isfinite(f->high) && f->low <= f->high))
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "limits: low and high, finite and in order");
    if (!(f->robust >= 0 && f->robust <= 49))
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "robust: 0 to 49 percent");
    if (!(f->share >= 0 && f->share <= 1) || !(f->opacity >= 0 && f->opacity <= 1))
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "share and opacity: 0 to 1");
    if (f->width < 0 || f->width > MOST_SIDE || f->height < 0 || f->height > MOST_SIDE)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "width and height: 0 to %d", MOST_SIDE);
    if (f->colours == ATTN_COLOURS_DIVERGING && f->scale == ATTN_SCALE_LOG)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "no logarithm on a diverging map");
    return ATTN_OK;
}

attn_status attn__drawing_make(const attn_ctx *ctx, const attn_figure *figure, int dark,
                               attn__drawing *d, attn_error *err)
{
    size_t size = sizeof d->figure;
    attn_figure *f = &d->figure;
    attn_status st;

    memset(d, 0, sizeof *d);
    if (!figure || figure->struct_size < sizeof(size_t))
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "figure is NULL or has no struct_size");
    d->ctx = ctx;
    memcpy(f, figure, figure->struct_size < size ? figure->struct_size : size);
    if ((st = check_numbers(f, err)) != ATTN_OK)
        return st;
    st = f->kind == ATTN_FIGURE_CURVES ? check_curves(f, err) : check_panels(f, err);
    if (st == ATTN_OK && f->kind == ATTN_FIGURE_OVERLAY)
        st = check_image(f, err);
    if (st == ATTN_OK)
        st = check_tokens("query_tokens", f->query_tokens, f->queries, err);
    if (st == ATTN_OK)
        st = check_tokens("key_tokens", f->key_tokens, f->keys, err);
    if (st != ATTN_OK)
        return st;
    if (f->kind != ATTN_FIGURE_CURVES) {
        f->query_title = f->query_title ? f->query_title : "query";
        f->key_title = f->key_title ? f->key_title : "key";
        f->value_title = f->value_title ? f->value_title : "weight";
    }
    f->share = f->share > 0 ? f->share : 0.7;
    f->opacity = f->opacity > 0 ? f->opacity : 0.6;
    f->max_bytes = f->max_bytes ? f->max_bytes : 6000000;
    d->theme = attn__theme_of(f->colours, dark);
    attn__colour_table(f->colours, d->table);
    return ATTN_OK;
}

/* --- Formats ---------------------------------------------------------------------------------- */

attn_status attn__draw(const attn__drawing *d, attn__canvas *c, attn_error *err)
{
    static attn_status (*const kinds[])(const attn__drawing *, attn__canvas *, attn_error *) = {
        [ATTN_FIGURE_MAP] = attn__draw_map,         [ATTN_FIGURE_GRID] = attn__draw_grid,
        [ATTN_FIGURE_LINES] = attn__draw_lines,     [ATTN_FIGURE_CURVES] = attn__draw_curves,
        [ATTN_FIGURE_OVERLAY] = attn__draw_overlay,
    };

    return kinds[d->figure.kind](d, c, err);
}

static attn_status make_picture(const attn__drawing *d, attn_picture format, attn__out *out,
                                attn_error *err)
{
    attn__canvas *c = NULL;
    attn_status st;

    if (format == ATTN_PICTURE_HTML)
        return attn__html(d, out, err);
    if (format >= ATTN_PICTURE_ANSI_24BIT)
        return attn__terminal(d, format, out, err);
    if (format == ATTN_PICTURE_PNG)
        st = attn__canvas_png(d->ctx, out, &c, err);
    else
        st = attn__canvas_svg(d->ctx, out, NULL, &c, err);
    if (st != ATTN_OK)
        return st;
    st = attn__draw(d, c, err);
    if (st == ATTN_OK) {
        c->end(c);
        st = attn__drawn(c, err);
    }
    c->close(c);
    return st;
}

attn_status attn_figure_emit(const attn_ctx *ctx, const attn_figure *figure, attn_picture format,
                             attn_write_fn write, void *user, attn_error *err)
{
    attn__out out = {.ctx = ctx};
    attn__drawing d;
    attn_status st;

    if (!write)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "write is NULL");
    if (format < ATTN_PICTURE_PNG || format > ATTN_PICTURE_ASCII)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "format is %d", (int)format);
    if ((st = attn__drawing_make(ctx, figure, figure ? figure->dark : 0, &d, err)) != ATTN_OK)
        return st;
    st = make_picture(&d, format, &out, err);
    if (st == ATTN_OK && out.failed)
        st = attn__fail(err, ATTN_E_MEMORY, 0, "picture");
    if (st == ATTN_OK && write(user, out.bytes, out.size) != 0)
        st = attn__fail(err, ATTN_E_IO, 0, "the picture could not be written");
    attn__out_reset(&out);
    return st;
}

static attn_picture by_ending(const char *path)
{
    static const struct {
        const char *ending;
        attn_picture format;
    } endings[] = {{".png", ATTN_PICTURE_PNG},
                   {".svg", ATTN_PICTURE_SVG},
                   {".html", ATTN_PICTURE_HTML},
                   {".htm", ATTN_PICTURE_HTML},
                   {".txt", ATTN_PICTURE_ASCII}};
    size_t n = strlen(path);

    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        size_t k = strlen(endings[i].ending);

        if (n > k && strcmp(path + n - k, endings[i].ending) == 0)
            return endings[i].format;
    }
    return ATTN_PICTURE_AUTO;
}

static int into_sink(void *sink, const void *bytes, size_t size)
{
    attn__sink_put(sink, bytes, size);
    return 0; /* a failure sticks there and is told by commit */
}

attn_status attn_figure_write(const attn_ctx *ctx, const attn_figure *figure, attn_picture format,
                              const char *path, attn_error *err)
{
    attn_error inner = {ATTN_OK, 0, ""};
    attn__sink sink;
    attn_status st;

    if (!path)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "path is NULL");
    if (format == ATTN_PICTURE_AUTO && (format = by_ending(path)) == ATTN_PICTURE_AUTO) {
        attn__fail(&inner, ATTN_E_ARGUMENT, 0, "ends in none of .png, .svg, .html, .htm, .txt");
        return attn__fail_path(err, path, &inner);
    }
    st = attn__sink_open(&sink, ctx, path, &inner);
    if (st == ATTN_OK)
        st = attn_figure_emit(ctx, figure, format, into_sink, &sink, &inner);
    if (st == ATTN_OK)
        st = attn__sink_commit(&sink, &inner);
    attn__sink_close(&sink);
    return st == ATTN_OK ? st : attn__fail_path(err, path, &inner);
}
