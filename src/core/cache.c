/* cache.c: keys and values that grow. A row's place follows from its position alone; what differs
 * between the kinds is in attn__cache_run and make_room. */
#include "src/core/cache.h"

#include "src/base/ctx.h"
#include "src/base/error.h"
#include "src/base/half.h"
#include "src/base/mem.h"
#include "src/core/problem.h"
#include "src/kernels/kernels.h"
#include "src/kernels/cpu.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { TILE = attn__tile };

/* Where a position lies: the block (a sequence, or a page) and the row within. */
static int64_t place(const attn_cache *c, int64_t sequence, int64_t pos, int64_t *row)
{
    *row = pos % c->period;
    return c->table ? c->table[sequence * c->table_width + pos / c->period] : sequence;
}

size_t attn__cache_run(const attn_cache *c, int64_t sequence, int64_t head, int64_t pos, size_t n,
                       void **k, void **v)
{
    int64_t row, block = place(c, sequence, pos, &row);
    size_t run = (size_t)(c->period - row);

    *k = c->tiled ? NULL : attn__cell(&c->k, block, head, row);
    *v = attn__cell(&c->v, block, head, row);
    return run < n ? run : n;
}

/* Tiles of one block and head. */
static int64_t tiles(const attn_cache *c)
{
    return (c->period + TILE - 1) / TILE;
}

static size_t tile_size(const attn_cache *c)
{
    return (size_t)(TILE * c->options.dk) * attn_type_size(c->options.type);
}

static char *tile_at(const attn_cache *c, int64_t block, int64_t head, int64_t tile)
{
    return (char *)c->own_k +
           (size_t)((block * c->options.heads + head) * tiles(c) + tile) * tile_size(c);
}

void *attn__cache_tile(const attn_cache *c, int64_t sequence, int64_t head, int64_t pos)
{
    int64_t row, block = place(c, sequence, pos, &row);

    return tile_at(c, block, head, row / TILE);
}

static float *scale_at(const attn_cache *c, float *scales, int64_t block, int64_t head, int64_t row)
{
    return scales + ((block * c->options.heads + head) * tiles(c) * TILE + row);
}

const float *attn__cache_scales(const attn_cache *c, const float *scales, int64_t sequence,
                                int64_t head, int64_t pos)
{
    int64_t row, block = place(c, sequence, pos, &row);

    return scales + ((block * c->options.heads + head) * tiles(c) + row / TILE) * TILE;
}

attn_status attn__cache_check_pages(const attn_cache *c, int64_t sequence, int64_t pos, int64_t n,
                                    attn_error *err)
{
    if (!c->table || c->own_table || n == 0)
        return ATTN_OK;
    for (int64_t page = pos / c->options.page; page * c->options.page < pos + n; page++) {
        int32_t number = c->table[sequence * c->table_width + page];
        if (number < 0 || number >= c->options.pages)
            return attn__fail(
                err, ATTN_E_ARGUMENT, 0, "block_table[%lld][%lld]: %d, expected a page below %lld",
                (long long)sequence, (long long)page, (int)number, (long long)c->options.pages);
    }
    return ATTN_OK;
}

/* --- making and ending ---------------------------------------------------------------------- */

static attn_status check_options(const attn_cache_options *o, attn_error *err)
{
    const int64_t limit = INT64_C(1) << 40;

    if (o->kind != ATTN_CACHE_CONTIGUOUS && o->kind != ATTN_CACHE_RING &&
        o->kind != ATTN_CACHE_PAGED)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "options.kind: %d is not in attn_cache_kind",
                          (int)o->kind);
    if (!attn__is_float(o->type) && o->type != ATTN_I8)
        return attn__fail(err, ATTN_E_ARGUMENT, 0,
                          "options.type: %s, expected f32, f16, bf16, i8 or f64",
                          attn_type_name(o->type));
    if (o->batch < 0 || o->batch > limit || o->heads < 1 || o->heads > limit || o->dk < 1 ||
        o->dk > limit || o->dv < 1 || o->dv > limit || o->capacity < 1 || o->capacity > limit)
        return attn__fail(
            err, ATTN_E_SHAPE, 0,
            "options: batch %lld, heads %lld, dk %lld, dv %lld, capacity %lld, expected "
            "positive sizes (batch may be 0)",
            (long long)o->batch, (long long)o->heads, (long long)o->dk, (long long)o->dv,
            (long long)o->capacity);
    if (o->kind == ATTN_CACHE_PAGED &&
        (o->page < 1 || o->page > limit || o->pages < 1 || o->pages > INT32_MAX))
        return attn__fail(
            err, ATTN_E_SHAPE, 0,
            "options: page %lld, pages %lld, expected at least one page of at least one row",
            (long long)o->page, (long long)o->pages);
    if (o->type == ATTN_I8 &&
        (attn__present(&o->k) || (o->kind == ATTN_CACHE_PAGED && o->page % TILE != 0)))
        return attn__fail(err, ATTN_E_ARGUMENT, 0,
                          "options.type: i8 needs the cache's own memory and, paged, pages of a "
                          "multiple of %d rows",
                          TILE);
    if (attn__present(&o->k) != attn__present(&o->v))
        return attn__fail(err, ATTN_E_ARGUMENT, 0,
                          "options: k and v are given together or not at all");
    if (o->block_table && (o->kind != ATTN_CACHE_PAGED || !attn__present(&o->k)))
        return attn__fail(err, ATTN_E_ARGUMENT, 0,
                          "options.block_table: only for a paged cache over the caller's k and v");
    return ATTN_OK;
}

/* Own memory lies [block][head][row][channel]: what one head reads is together. */
static attn_status own_memory(attn_cache *c, attn_view *view, void **own, int64_t blocks,
                              int64_t rows, int64_t cols, attn_error *err)
{
    size_t size = attn_type_size(c->options.type);

    if (!attn__mul(size, (size_t)blocks, &size) || !attn__mul(size, (size_t)rows, &size) ||
        !attn__mul(size, (size_t)cols, &size) ||
        !attn__mul(size, (size_t)c->options.heads, &size) || size > (size_t)PTRDIFF_MAX ||
        !(*own = attn__new(c->ctx, size)))
        return attn__fail(err, ATTN_E_MEMORY, 0,
                          "cache: no memory for %lld x %lld x %lld x %lld %s", (long long)blocks,
                          (long long)c->options.heads, (long long)rows, (long long)cols,
                          attn_type_name(c->options.type));
    *view = attn_view_bhsd(*own, c->options.type, blocks, c->options.heads, rows, cols);
    return ATTN_OK;
}

static attn_status callers_memory(const attn_cache *c, const attn_view *view, const char *what,
                                  int64_t blocks, int64_t rows, int64_t cols, attn_error *err)
{
    TRY(attn__check_view(view, what, true, err));
    if (view->type != c->options.type)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s: type %s, expected options.type (%s)", what,
                          attn_type_name(view->type), attn_type_name(c->options.type));
    return attn__check_size(view, what, blocks, c->options.heads, rows, cols, err);
}

/* count numbers of `size` bytes, or NULL. */
static void *numbers(const attn_cache *c, int64_t count, size_t size)
{
    return attn__mul((size_t)count, size, &size) ? attn__new(c->ctx, size) : NULL;
}

static attn_status set_memory(attn_cache *c, attn_error *err)
{
    const attn_cache_options *o = &c->options;
    bool paged = o->kind == ATTN_CACHE_PAGED;
    int64_t blocks = paged ? o->pages : o->batch, rows = paged ? o->page : o->capacity;

    c->period = rows;
    if (attn__present(&o->k)) {
        TRY(callers_memory(c, &o->k, "options.k", blocks, rows, o->dk, err));
        TRY(callers_memory(c, &o->v, "options.v", blocks, rows, o->dv, err));
        c->k = o->k;
        c->v = o->v;
        return ATTN_OK;
    }
    /* A tile must not wrap around the end of a ring: one more makes room for a partial one at each
     * end. Pages that are not whole tiles cannot be tiled. */
    c->tiled = !paged || o->page % TILE == 0;
    if (o->kind == ATTN_CACHE_RING)
        c->period = ((o->capacity + TILE - 1) / TILE + 1) * TILE;
    TRY(own_memory(c, &c->k, &c->own_k, blocks, c->tiled ? tiles(c) * TILE : rows, o->dk, err));
    c->k.size[2] = rows;
    TRY(own_memory(c, &c->v, &c->own_v, blocks, c->period, o->dv, err));
    c->v.size[2] = rows;
    if (o->type != ATTN_I8)
        return ATTN_OK;
    c->k_scale = numbers(c, blocks * o->heads * tiles(c) * TILE, sizeof *c->k_scale);
    c->v_scale = numbers(c, blocks * o->heads * tiles(c) * TILE, sizeof *c->v_scale);
    if (!c->k_scale || !c->v_scale)
        return attn__fail(err, ATTN_E_MEMORY, 0, "cache: scales of quantised rows");
    return ATTN_OK;
}

static attn_status set_pages(attn_cache *c, attn_error *err)
{
    const attn_cache_options *o = &c->options;
    size_t entries;

    if (o->kind != ATTN_CACHE_PAGED)
        return ATTN_OK;
    c->table_width = (o->capacity + o->page - 1) / o->page;
    c->table = o->block_table;
    if (c->table)
        return ATTN_OK;
    if (!attn__mul((size_t)o->batch, (size_t)c->table_width, &entries) ||
        !(c->own_table = numbers(c, (int64_t)entries, sizeof *c->own_table)) ||
        !(c->users = numbers(c, o->pages, sizeof *c->users)) ||
        !(c->free_pages = numbers(c, o->pages, sizeof *c->free_pages)))
        return attn__fail(err, ATTN_E_MEMORY, 0, "cache: page table");
    c->table = c->own_table;
    for (size_t i = 0; i < entries; i++)
        c->own_table[i] = -1;
    for (int64_t i = 0; i < o->pages; i++)
        c->free_pages[i] = (int32_t)(o->pages - 1 - i); /* page 0 is dealt out first */
    c->free_count = o->pages;
    return ATTN_OK;
}

attn_status attn_cache_create(const attn_ctx *ctx, const attn_cache_options *options,
                              attn_cache **out, attn_error *err)
{
    attn_cache_options o;
    attn_cache *c = NULL;
    attn_status st;

    if (!out)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "out: NULL");
    *out = NULL;
    if (!ctx)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "ctx: NULL");
    TRY(attn__copy_struct(&o, sizeof o, options, "options", err));
    TRY(check_options(&o, err));
    c = attn__new(ctx, sizeof *c);
    if (!c)
        return attn__fail(err, ATTN_E_MEMORY, 0, "cache object");
    c->ctx = ctx;
    c->options = o;
    if ((st = set_memory(c, err)) != ATTN_OK || (st = set_pages(c, err)) != ATTN_OK)
        goto out;
    c->first = numbers(c, o.batch, sizeof *c->first);
    c->length = numbers(c, o.batch, sizeof *c->length);
    if (!c->first || !c->length) {
        st = attn__fail(err, ATTN_E_MEMORY, 0, "cache: lengths of %lld sequences",
                        (long long)o.batch);
        goto out;
    }
    *out = c;
    c = NULL; /* the caller's now */
out:
    attn_cache_destroy(c);
    return st;
}

void attn_cache_destroy(attn_cache *c)
{
    if (!c)
        return;
    attn__free(c->ctx, c->free_pages);
    attn__free(c->ctx, c->users);
    attn__free(c->ctx, c->own_table);
    attn__free(c->ctx, c->length);
    attn__free(c->ctx, c->first);
    attn__free(c->ctx, c->v_scale);
    attn__free(c->ctx, c->k_scale);
    attn__free(c->ctx, c->own_v);
    attn__free(c->ctx, c->own_k);
    attn__free(c->ctx, c);
}

static attn_status check_sequence(const attn_cache *c, int64_t sequence, attn_error *err)
{
    if (!c)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "cache: NULL");
    if (sequence < 0 || sequence >= c->options.batch)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "sequence: %lld, expected 0 .. %lld",
                          (long long)sequence, (long long)c->options.batch - 1);
    return ATTN_OK;
}

int64_t attn_cache_first(const attn_cache *c, int64_t sequence)
{
    return check_sequence(c, sequence, NULL) == ATTN_OK ? c->first[sequence] : -1;
}

int64_t attn_cache_length(const attn_cache *c, int64_t sequence)
{
    return check_sequence(c, sequence, NULL) == ATTN_OK ? c->length[sequence] : -1;
}

/* --- pages of a cache that deals them out --------------------------------------------------- */

static void release_page(attn_cache *c, int32_t *entry)
{
    if (*entry >= 0 && --c->users[*entry] == 0)
        c->free_pages[c->free_count++] = *entry;
    *entry = -1;
}

static int32_t *own_entry(const attn_cache *c, int64_t sequence, int64_t page)
{
    return &c->own_table[sequence * c->table_width + page];
}

/* Gives back the pages of a sequence that hold no row any more. */
static void release_outside(attn_cache *c, int64_t sequence)
{
    int64_t first = c->first[sequence], end = first + c->length[sequence];

    if (!c->own_table)
        return;
    for (int64_t page = 0; page < c->table_width; page++)
        if (first == end || page * c->options.page >= end || (page + 1) * c->options.page <= first)
            release_page(c, own_entry(c, sequence, page));
}

/* Whether appending at `end` writes into a page that others use too. */
static bool must_copy(const attn_cache *c, int64_t sequence, int64_t end)
{
    int32_t page = *own_entry(c, sequence, end / c->options.page);

    return page >= 0 && c->users[page] > 1;
}

/* Free pages that n more rows need. */
static int64_t pages_needed(const attn_cache *c, int64_t sequence, int64_t n)
{
    int64_t end = c->first[sequence] + c->length[sequence], count = 0;

    if (n == 0)
        return 0;
    for (int64_t page = end / c->options.page; page * c->options.page < end + n; page++)
        count += *own_entry(c, sequence, page) < 0;
    return count + must_copy(c, sequence, end);
}

/* --- rows ----------------------------------------------------------------------------------- */

/* One row of numbers from one view to another, by way of float, or double if both are f64. */
static void copy_row(const attn_ctx *ctx, void *to, attn_type to_type, int64_t to_stride,
                     const void *from, attn_type from_type, int64_t from_stride, int64_t cols)
{
    const attn__kernels *k = ctx->kernels;
    size_t size = attn_type_size(to_type);

    if (to_type == from_type) { /* bits as they are, NaN payloads too */
        for (int64_t c = 0; c < cols; c++)
            memcpy((char *)to + c * to_stride * (int64_t)size,
                   (const char *)from + c * from_stride * (int64_t)size, size);
        return;
    }
    for (int64_t c = 0; c < cols; c += 64) {
        float piece[64];
        size_t n = cols - c < 64 ? (size_t)(cols - c) : 64;
        k->f32.load_rows(piece, 0, 1, from_type,
                         (const char *)from + c * from_stride * (int64_t)attn_type_size(from_type),
                         0, from_stride, n, n, 1);
        k->f32.store_row((char *)to + c * to_stride * (int64_t)size, to_type, to_stride, piece, n,
                         1);
    }
}

/* One key into its lane of a packed tile. */
static void store_key(const attn_cache *c, void *tile, size_t lane, const void *from,
                      attn_type type, int64_t stride)
{
    const attn__kernels *k = c->ctx->kernels;
    size_t d = (size_t)c->options.dk;

    for (size_t i = 0; i < d; i += 64) {
        size_t n = d - i < 64 ? d - i : 64;
        const char *at = (const char *)from + (int64_t)i * stride * (int64_t)attn_type_size(type);

        if (type == ATTN_F64) {
            double piece[64];
            k->f64.load_rows(piece, 0, 1, type, at, 0, stride, n, n, 1);
            k->f64.store_key(tile, c->options.type, lane, d, i, n, piece);
        } else {
            float piece[64];
            k->f32.load_rows(piece, 0, 1, type, at, 0, stride, n, n, 1);
            k->f32.store_key(tile, c->options.type, lane, d, i, n, piece);
        }
    }
}

/* One row as integers from -127 to 127 times a scale, nearest even; returns the scale. A row that
 * holds NaN or an infinity gets the scale NaN, so that it shows. Keys go to a lane of a tile. */
static float quantise(const attn_cache *c, void *to, bool key, size_t lane, const void *from,
                      attn_type type, int64_t stride, int64_t cols)
{
    const attn__kernels_f32 *k = &c->ctx->kernels->f32;
    int64_t size = attn__element_size(type);
    float top = 0, scale, piece[64];

    for (int64_t i = 0; i < cols; i += 64) {
        size_t n = cols - i < 64 ? (size_t)(cols - i) : 64;
        k->load_rows(piece, 0, 1, type, (const char *)from + i * stride * size, 0, stride, n, n, 1);
        for (size_t j = 0; j < n; j++)
            top = fmaxf(top, isfinite(piece[j]) ? fabsf(piece[j]) : INFINITY);
    }
    scale = top / 127;
    if (!isfinite(scale))
        scale = NAN;
    else if (scale < FLT_MIN && top > 0)
        scale = FLT_MIN; /* a denormal scale would lose what it divides by */
    for (int64_t i = 0; i < cols; i += 64) {
        size_t n = cols - i < 64 ? (size_t)(cols - i) : 64;
        k->load_rows(piece, 0, 1, type, (const char *)from + i * stride * size, 0, stride, n, n, 1);
        for (size_t j = 0; j < n; j++)
            piece[j] = scale > 0 ? rintf(piece[j] / scale) : 0;
        if (key)
            k->store_key(to, ATTN_I8, lane, (size_t)c->options.dk, (size_t)i, n, piece);
        else
            k->store_row((int8_t *)to + i, ATTN_I8, 1, piece, n, 1);
    }
    return scale;
}

/* A row of the caller's into an i8 cache. */
static void write_quantised(const attn_cache *c, int64_t sequence, int64_t h, int64_t pos,
                            const attn_view *k, const attn_view *v, int64_t batch, int64_t from)
{
    int64_t row, block = place(c, sequence, pos, &row);

    *scale_at(c, c->k_scale, block, h, row) =
        quantise(c, tile_at(c, block, h, row / TILE), true, (size_t)(row % TILE),
                 attn__cell(k, batch, h, from), k->type, k->stride[3], c->options.dk);
    *scale_at(c, c->v_scale, block, h, row) =
        quantise(c, attn__cell(&c->v, block, h, row), false, 0, attn__cell(v, batch, h, from),
                 v->type, v->stride[3], c->options.dv);
}

static void write_rows(const attn_cache *c, int64_t sequence, int64_t batch, int64_t pos,
                       const attn_view *k, const attn_view *v, int64_t from, int64_t n)
{
    for (int64_t h = 0; h < c->options.heads; h++) {
        for (int64_t i = 0; i < n; i++) {
            const void *new_key = attn__cell(k, batch, h, from + i);
            void *key, *value;

            if (c->k_scale) {
                write_quantised(c, sequence, h, pos + i, k, v, batch, from + i);
                continue;
            }
            attn__cache_run(c, sequence, h, pos + i, 1, &key, &value);
            if (c->tiled)
                store_key(c, attn__cache_tile(c, sequence, h, pos + i), (size_t)((pos + i) % TILE),
                          new_key, k->type, k->stride[3]);
            else
                copy_row(c->ctx, key, c->k.type, c->k.stride[3], new_key, k->type, k->stride[3],
                         c->options.dk);
            copy_row(c->ctx, value, c->v.type, c->v.stride[3], attn__cell(v, batch, h, from + i),
                     v->type, v->stride[3], c->options.dv);
        }
    }
}

/* Rows pos .. pos + n - 1 (n <= period) of one block over those of another. */
static void copy_rows(const attn_cache *c, int64_t to, int64_t from, int64_t pos, int64_t n)
{
    for (int64_t h = 0; h < c->options.heads; h++) {
        for (int64_t i = 0; i < n; i++) {
            int64_t row = (pos + i) % c->period;

            if (!c->tiled)
                copy_row(c->ctx, attn__cell(&c->k, to, h, row), c->k.type, c->k.stride[3],
                         attn__cell(&c->k, from, h, row), c->k.type, c->k.stride[3], c->options.dk);
            else if (i == 0 || row % TILE == 0)
                memcpy(tile_at(c, to, h, row / TILE), tile_at(c, from, h, row / TILE),
                       tile_size(c));
            copy_row(c->ctx, attn__cell(&c->v, to, h, row), c->v.type, c->v.stride[3],
                     attn__cell(&c->v, from, h, row), c->v.type, c->v.stride[3], c->options.dv);
            if (!c->k_scale)
                continue;
            *scale_at(c, c->k_scale, to, h, row) = *scale_at(c, c->k_scale, from, h, row);
            *scale_at(c, c->v_scale, to, h, row) = *scale_at(c, c->v_scale, from, h, row);
        }
    }
}

static attn_status full(const attn_cache *c, int64_t sequence, int64_t n, attn_error *err)
{
    return attn__fail(
        err, ATTN_E_FULL, 0,
        "sequence %lld: no room for %lld rows after the %lld it holds (capacity %lld%s)",
        (long long)sequence, (long long)n, (long long)c->length[sequence],
        (long long)c->options.capacity, c->own_table ? ", or no free page" : "");
}

/* Whether n rows can follow in each of the sequences; changes nothing. A last page that several of
 * them share counts as copied by each, which may be one more than it takes. */
static attn_status check_room(const attn_cache *c, int64_t sequence, int64_t count, int64_t n,
                              attn_error *err)
{
    int64_t pages = 0;

    for (int64_t s = sequence; s < sequence + count; s++) {
        int64_t end = c->first[s] + c->length[s];
        if (c->options.kind != ATTN_CACHE_RING && n > c->options.capacity - end)
            return full(c, s, n, err);
        if (c->own_table && (pages += pages_needed(c, s, n)) > c->free_count)
            return full(c, s, n, err);
        TRY(attn__cache_check_pages(c, s, end, n, err));
    }
    return ATTN_OK;
}

/* Makes pages for n rows at the end of a sequence, its own copy of a shared one included. */
static void take_pages(attn_cache *c, int64_t sequence, int64_t n)
{
    int64_t end = c->first[sequence] + c->length[sequence];

    if (n == 0)
        return;
    if (must_copy(c, sequence, end)) {
        int32_t *entry = own_entry(c, sequence, end / c->options.page), old = *entry;
        *entry = c->free_pages[--c->free_count];
        c->users[*entry] = 1;
        copy_rows(c, *entry, old, 0, c->period);
        c->users[old]--;
    }
    for (int64_t page = end / c->options.page; page * c->options.page < end + n; page++) {
        int32_t *entry = own_entry(c, sequence, page);
        if (*entry >= 0)
            continue;
        *entry = c->free_pages[--c->free_count];
        c->users[*entry] = 1;
    }
}

static attn_status check_rows(const attn_cache *c, int64_t first_sequence, const attn_view *k,
                              const attn_view *v, attn_error *err)
{
    const attn_view *view[] = {k, v};
    static const char *const name[] = {"k", "v"};

    if (!c)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "cache: NULL");
    if (!k || !v)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s: NULL", k ? "v" : "k");
    for (int i = 0; i < 2; i++) {
        TRY(attn__check_view(view[i], name[i], false, err));
        if (!attn__is_float(view[i]->type) ||
            (view[i]->type == ATTN_F64) != (c->options.type == ATTN_F64))
            return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s: type %s does not go with a cache of %s",
                              name[i], attn_type_name(view[i]->type),
                              attn_type_name(c->options.type));
        TRY(attn__check_size(view[i], name[i], k->size[0], c->options.heads, k->size[2],
                             i == 0 ? c->options.dk : c->options.dv, err));
    }
    if (first_sequence < 0 || k->size[0] > c->options.batch - first_sequence)
        return attn__fail(err, ATTN_E_ARGUMENT, 0,
                          "%lld sequences from %lld on: expected some of the %lld there are",
                          (long long)k->size[0], (long long)first_sequence,
                          (long long)c->options.batch);
    return ATTN_OK;
}

attn_status attn_cache_append(attn_cache *c, int64_t first_sequence, const attn_view *k,
                              const attn_view *v, attn_error *err)
{
    uint64_t word;
    int64_t n;

    TRY(check_rows(c, first_sequence, k, v, err));
    n = k->size[2];
    TRY(check_room(c, first_sequence, k->size[0], n, err));
    word = attn__fp_default();
    for (int64_t b = 0; b < k->size[0]; b++) {
        int64_t s = first_sequence + b, end = c->first[s] + c->length[s], skip = 0;

        if (c->options.kind == ATTN_CACHE_RING && n > c->options.capacity)
            skip = n - c->options.capacity; /* these would be overwritten at once */
        if (c->own_table)
            take_pages(c, s, n);
        write_rows(c, s, b, end + skip, k, v, skip, n - skip);
        c->length[s] += n;
        if (c->options.kind == ATTN_CACHE_RING && c->length[s] > c->options.capacity) {
            c->first[s] += c->length[s] - c->options.capacity;
            c->length[s] = c->options.capacity;
        }
    }
    attn__fp_restore(word);
    return ATTN_OK;
}

attn_status attn_cache_trim(attn_cache *c, int64_t sequence, int64_t length, attn_error *err)
{
    TRY(check_sequence(c, sequence, err));
    if (length < 0 || length > c->length[sequence])
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "length: %lld, expected 0 .. %lld",
                          (long long)length, (long long)c->length[sequence]);
    c->length[sequence] = length;
    release_outside(c, sequence);
    return ATTN_OK;
}

attn_status attn_cache_drop(attn_cache *c, int64_t sequence, int64_t count, attn_error *err)
{
    TRY(check_sequence(c, sequence, err));
    if (count < 0 || count > c->length[sequence])
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "count: %lld, expected 0 .. %lld",
                          (long long)count, (long long)c->length[sequence]);
    c->first[sequence] += count;
    c->length[sequence] -= count;
    release_outside(c, sequence);
    return ATTN_OK;
}

attn_status attn_cache_fork(attn_cache *c, int64_t from, int64_t to, attn_error *err)
{
    TRY(check_sequence(c, from, err));
    TRY(check_sequence(c, to, err));
    if (from == to)
        return ATTN_OK;
    if (c->table && !c->own_table)
        return attn__fail(err, ATTN_E_ARGUMENT, 0,
                          "cache: its block table is the caller's, who forks by copying entries");
    c->first[to] = c->first[from];
    c->length[to] = c->length[from];
    if (c->own_table) {
        for (int64_t page = 0; page < c->table_width; page++) {
            int32_t shared = *own_entry(c, from, page);
            release_page(c, own_entry(c, to, page));
            *own_entry(c, to, page) = shared;
            if (shared >= 0)
                c->users[shared]++;
        }
        return ATTN_OK;
    }
    copy_rows(c, to, from, c->first[from], c->length[from]);
    return ATTN_OK;
}

attn_status attn_cache_assign(attn_cache *c, int64_t sequence, int64_t first, int64_t length,
                              attn_error *err)
{
    TRY(check_sequence(c, sequence, err));
    if (c->own_k || c->own_table)
        return attn__fail(err, ATTN_E_ARGUMENT, 0,
                          "cache: attn_cache_assign is for caches over the caller's memory%s",
                          c->own_table ? " and block table" : "");
    if (first < 0 || length < 0 || length > c->options.capacity || first > INT64_C(1) << 60 ||
        (c->options.kind != ATTN_CACHE_RING && first > c->options.capacity - length))
        return attn__fail(err, ATTN_E_ARGUMENT, 0,
                          "first %lld, length %lld: expected rows within the capacity of %lld",
                          (long long)first, (long long)length, (long long)c->options.capacity);
    TRY(attn__cache_check_pages(c, sequence, first, length, err));
    c->first[sequence] = first;
    c->length[sequence] = length;
    return ATTN_OK;
}
