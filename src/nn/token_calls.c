/* token_calls.c: embeddings, tables of positions, rotation and dropout of nn.h: checks, then
 * layers.h. */
#include "src/nn/call_args.h"

#include "src/base/error.h"

#include <math.h>
#include <string.h>

/* --- Embeddings ----------------------------------------------------------------------------- */

/* `ids`, NULL: row numbers if `rising`, else 0, must be rows of the table, or -1 if that is a row
 * of zeros. */
static attn_status check_ids(const attn__shape *s, const int32_t *ids, bool rising, int64_t low,
                             int64_t rows, const char *what, attn_error *err)
{
    int64_t last = rising ? (int64_t)s->rows - 1 : 0;

    if (!ids && s->rows > 0 && last >= rows)
        return attn__fail(err, ATTN_E_SHAPE, 0, "%s: NULL, but the table has %lld rows", what,
                          (long long)rows);
    for (size_t t = 0; ids && t < s->rows; t++)
        if (ids[t] < low || ids[t] >= rows)
            return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s[%zu]: %ld, expected %lld to %lld", what,
                              t, (long)ids[t], (long long)low, (long long)(rows - 1));
    return ATTN_OK;
}

static attn_status take_table(const attn__shape *s, const attn_view *v, bool optional,
                              const char *what, attn__rows *to, attn_error *err)
{
    size_t rows = v->size[2] > 0 ? (size_t)v->size[2] : 0;

    return attn__take_rows(s, v, rows, s->n, optional, what, to, err);
}

static attn_status open_embedding(attn__embedding_call *c, attn_embedding_args *a,
                                  const attn_ctx *ctx, const attn_embedding_args *args,
                                  attn_error *err)
{
    TRY(attn__take_args(a, sizeof *a, args, ctx, err));
    memset(c, 0, sizeof *c);
    if (!isfinite(a->scale))
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "scale: %g", a->scale);
    c->scale = a->scale == 0 ? 1 : a->scale;
    c->id = a->ids;
    c->at = a->places;
    c->kind = a->types;
    return ATTN_OK;
}

/* The tables of one direction. */
static attn_status check_tables(const attn__embedding_call *c, const attn_view *table,
                                const attn_view *positions, const attn_view *types, attn_error *err)
{
    const attn__shape *s = &c->shape;

    if (attn__is_there(table) && !c->id && s->rows > 0)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "ids: NULL");
    if (attn__is_there(table))
        TRY(check_ids(s, c->id, true, -1, table->size[2], "ids", err));
    if (attn__is_there(positions))
        TRY(check_ids(s, c->at, true, 0, positions->size[2], "places", err));
    if (attn__is_there(types))
        TRY(check_ids(s, c->kind, false, 0, types->size[2], "types", err));
    return ATTN_OK;
}

attn_status attn_embedding_forward(const attn_ctx *ctx, const attn_embedding_args *args,
                                   attn_error *err)
{
    attn_embedding_args a;
    attn__embedding_call c;
    const attn__shape *s = &c.shape;

    TRY(open_embedding(&c, &a, ctx, args, err));
    TRY(attn__open_shape(&c.shape, ctx, &a.out, "out", err));
    TRY(attn__take_rows(s, &a.out, s->rows, s->n, false, "out", &c.out, err));
    TRY(take_table(s, &a.table, false, "table", &c.table, err));
    TRY(take_table(s, &a.positions, true, "positions", &c.positions, err));
    TRY(take_table(s, &a.type_table, true, "type_table", &c.kinds, err));
    TRY(check_tables(&c, &a.table, &a.positions, &a.type_table, err));
    attn__embedding_forward(&c);
    return ATTN_OK;
}

attn_status attn_embedding_backward(const attn_ctx *ctx, const attn_embedding_args *args,
                                    attn_error *err)
{
    attn_embedding_args a;
    attn__embedding_call c;
    const attn__shape *s = &c.shape;

    TRY(open_embedding(&c, &a, ctx, args, err));
    TRY(attn__open_shape(&c.shape, ctx, &a.dout, "dout", err));
    TRY(attn__take_rows(s, &a.dout, s->rows, s->n, false, "dout", &c.dout, err));
    TRY(take_table(s, &a.dtable, true, "dtable", &c.dtable, err));
    TRY(take_table(s, &a.dpositions, true, "dpositions", &c.dpositions, err));
    TRY(take_table(s, &a.dtype_table, true, "dtype_table", &c.dkinds, err));
    TRY(check_tables(&c, &a.dtable, &a.dpositions, &a.dtype_table, err));
    attn__embedding_backward(&c);
    return ATTN_OK;
}

/* --- Tables of positions -------------------------------------------------------------------- */

/* Positions are exact in double, and their sum fits. */
static attn_status check_positions(const attn_ctx *ctx, const attn_view *out, double *base,
                                   int64_t offset, attn_error *err)
{
    const int64_t far = (int64_t)1 << 52;

    if (!ctx || !out)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s: NULL", ctx ? "out" : "ctx");
    if (*base == 0)
        *base = 10000;
    if (!(*base > 0 && isfinite(*base)))
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "base: %g", *base);
    if (offset < -far || offset > far || out->size[2] > far)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "offset: %lld, with %lld rows",
                          (long long)offset, (long long)out->size[2]);
    return ATTN_OK;
}

attn_status attn_sinusoids(const attn_ctx *ctx, attn_positions layout, double base, int64_t offset,
                           const attn_view *out, attn_error *err)
{
    attn__sines_call c = {.layout = layout, .offset = offset};

    TRY(check_positions(ctx, out, &base, offset, err));
    if ((int)layout < 0 || layout > ATTN_POSITIONS_MARIAN)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "layout: %d is none of sines", (int)layout);
    TRY(attn__open_shape(&c.shape, ctx, out, "out", err));
    TRY(attn__take_rows(&c.shape, out, c.shape.rows, c.shape.n, false, "out", &c.out, err));
    c.base = base;
    attn__sines(&c);
    return ATTN_OK;
}

/* The three parts of a table of turns: cosines, sines, negated sines. */
static attn_status take_turns(attn__shape *s, const attn_ctx *ctx, const attn_view *v,
                              const char *what, void *part[3], attn_error *err)
{
    TRY(attn__open_shape(s, ctx, v, what, err));
    TRY(attn__check_heads(s, v, 3, (int64_t)s->rows, (int64_t)s->n, what, err));
    if (s->rows > 0 && (v->stride[2] != v->size[3] || v->stride[1] != v->size[2] * v->size[3]))
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s: is not dense", what);
    for (size_t i = 0; i < 3; i++) {
        size_t bytes = i * s->rows * s->n * (s->f64 ? sizeof(double) : sizeof(float));
        part[i] = v->data ? (char *)v->data + bytes : NULL;
    }
    return ATTN_OK;
}

attn_status attn_rotary_table(const attn_ctx *ctx, double base, int64_t offset,
                              const attn_view *out, attn_error *err)
{
    attn__turns_call c = {.offset = offset};
    void *part[3];

    TRY(check_positions(ctx, out, &base, offset, err));
    TRY(take_turns(&c.shape, ctx, out, "out", part, err));
    c.base = base;
    c.cosine = part[0];
    c.sine = part[1];
    c.minus_sine = part[2];
    attn__turns(&c);
    return ATTN_OK;
}

/* --- Rotation ------------------------------------------------------------------------------- */

static attn_status rotate(const attn_ctx *ctx, const attn_rotary_args *args, bool back,
                          attn_error *err)
{
    attn_rotary_args a;
    attn__rotary_call c = {.back = back};
    attn__shape table;
    void *part[3];

    TRY(attn__take_args(&a, sizeof a, args, ctx, err));
    if (a.positions != ATTN_POSITIONS_ROTARY && a.positions != ATTN_POSITIONS_ROTARY_PAIRS)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "positions: %d is not rotary", (int)a.positions);
    TRY(take_turns(&table, ctx, &a.table, "table", part, err));
    TRY(attn__open_shape(&c.shape, ctx, &a.x, "x", err));
    if (a.x.size[1] < 0 || a.x.size[3] < 2 * (int64_t)table.n)
        return attn__fail(err, ATTN_E_SHAPE, 0, "x: %lld heads of %lld channels, %zu pairs turn",
                          (long long)a.x.size[1], (long long)a.x.size[3], table.n);
    TRY(attn__check_heads(&table, &a.x, a.x.size[1], a.x.size[2], a.x.size[3], "x", err));
    TRY(check_ids(&c.shape, a.places, true, 0, (int64_t)table.rows, "places", err));
    c.shape.n = (size_t)a.x.size[1];
    c.width = (ptrdiff_t)a.x.stride[1];
    c.pairs = table.n;
    c.adjacent = a.positions == ATTN_POSITIONS_ROTARY_PAIRS;
    c.at = a.places;
    c.cosine = part[0];
    c.sine = part[1];
    c.minus_sine = part[2];
    c.x = (attn__rows){a.x.data, (ptrdiff_t)a.x.stride[2]};
    if (c.shape.n > 0)
        attn__rotary(&c);
    return ATTN_OK;
}

attn_status attn_rotary_forward(const attn_ctx *ctx, const attn_rotary_args *args, attn_error *err)
{
    return rotate(ctx, args, false, err);
}

attn_status attn_rotary_backward(const attn_ctx *ctx, const attn_rotary_args *args, attn_error *err)
{
    return rotate(ctx, args, true, err);
}

/* --- Dropout -------------------------------------------------------------------------------- */

static attn_status drop(const attn_ctx *ctx, const attn_dropout_args *args, bool back,
                        attn_error *err)
{
    attn_dropout_args a;
    attn__dropout_call c = {.make = !back};
    const attn__shape *s = &c.shape;
    const attn_view *x, *out;
    const char *from = back ? "dout" : "x", *to = back ? "dx" : "out";

    TRY(attn__take_args(&a, sizeof a, args, ctx, err));
    x = back ? &a.dout : &a.x;
    out = back ? &a.dx : &a.out;
    if (!(a.rate >= 0 && a.rate < 1))
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "rate: %g, expected 0 to less than 1", a.rate);
    TRY(attn__open_shape(&c.shape, ctx, x, from, err));
    TRY(attn__take_rows(s, x, s->rows, s->n, false, from, &c.x, err));
    if (!back)
        TRY(attn__take_rows(s, &a.add, s->rows, s->n, true, "add", &c.add, err));
    TRY(attn__take_rows(s, out, s->rows, s->n, false, to, &c.out, err));
    if (a.rate > 0 && !a.bits && s->rows > 0)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "bits: NULL");
    c.rate = a.rate;
    c.seed = a.seed;
    c.site = a.site;
    c.positions = a.positions;
    c.sequences = a.sequences;
    c.bits = a.bits;
    attn__dropout(&c);
    return ATTN_OK;
}

attn_status attn_dropout_forward(const attn_ctx *ctx, const attn_dropout_args *args,
                                 attn_error *err)
{
    return drop(ctx, args, false, err);
}

attn_status attn_dropout_backward(const attn_ctx *ctx, const attn_dropout_args *args,
                                  attn_error *err)
{
    return drop(ctx, args, true, err);
}
