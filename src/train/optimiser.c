/* optimiser.c: Adam and AdamW over flat blocks, and averages of weights.
 *
 * A block is cut into pieces by its size alone. Elements do not see one another but in the norm,
 * whose pieces are added up in order. */
#include "include/attn/train.h"

#include "src/base/ctx.h"
#include "src/base/error.h"
#include "src/kernels/cpu.h"
#include "src/kernels/kernels.h"
#include "src/core/each.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

enum {
    PIECES = 256,
    WHOLE = 16,         /* pieces are whole vectors in every set */
    LEAST_PIECE = 4096, /* elements for which it is worth waking a worker */
};

typedef struct flat {
    const attn_ctx *ctx;
    bool f64;
    size_t count, piece, pieces;
} flat;

static attn_status flat_init(flat *f, const attn_ctx *ctx, attn_type type, int64_t count,
                             attn_error *err)
{
    if (!ctx)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "ctx: NULL");
    if (type != ATTN_F32 && type != ATTN_F64)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "type: %s, expected f32 or f64",
                          attn_type_name(type));
    if (count < 0 || (uint64_t)count > SIZE_MAX / sizeof(double))
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "count: %lld", (long long)count);
    f->ctx = ctx;
    f->f64 = type == ATTN_F64;
    f->count = (size_t)count;
    f->piece = (f->count / PIECES / WHOLE + 1) * WHOLE;
    if (f->piece < LEAST_PIECE)
        f->piece = LEAST_PIECE;
    f->pieces = (f->count + f->piece - 1) / f->piece;
    return ATTN_OK;
}

/* Elements of a piece. */
static size_t piece_at(const flat *f, size_t i, size_t *from)
{
    *from = i * f->piece;
    return f->count - *from < f->piece ? f->count - *from : f->piece;
}

static void *element(const flat *f, const void *block, size_t i)
{
    return (char *)(uintptr_t)block + i * (f->f64 ? sizeof(double) : sizeof(float));
}

/* --- Adam ----------------------------------------------------------------------------------- */

typedef struct adam_call {
    flat f;
    attn_adam_args args;
    attn__adam step;
    double *squares; /* [PIECES] */
} adam_call;

static void norm_piece(const void *arg, size_t i)
{
    const adam_call *c = arg;
    const attn__kernels *k = c->f.ctx->kernels;
    size_t from, n = piece_at(&c->f, i, &from);
    const void *g = element(&c->f, c->args.gradients, from);

    c->squares[i] = c->f.f64 ? k->train_f64.square_sum(g, n) : k->train_f32.square_sum(g, n);
}

/* Elements from .. to - 1, which decay or do not. */
static void update(const adam_call *c, size_t from, size_t to, bool decays)
{
    const flat *f = &c->f;
    const attn__kernels *k = f->ctx->kernels;
    void *w = element(f, c->args.weights, from), *g = element(f, c->args.gradients, from);
    void *m = element(f, c->args.m, from), *v = element(f, c->args.v, from);
    attn__adam step = c->step;

    if (!decays)
        step.keep = 1;
    if (f->f64)
        k->train_f64.adam(w, g, m, v, to - from, &step);
    else
        k->train_f32.adam(w, g, m, v, to - from, &step);
}

static void update_piece(const void *arg, size_t i)
{
    const adam_call *c = arg;
    size_t from, n = piece_at(&c->f, i, &from), at = from, end = from + n;

    for (size_t s = 0; s < c->args.kept_count && at < end; s++) {
        size_t begin = (size_t)c->args.kept[s].offset;
        size_t past = begin + (size_t)c->args.kept[s].count;

        if (past <= at)
            continue;
        if (begin >= end)
            break;
        if (begin > at)
            update(c, at, begin, true);
        if (begin < at)
            begin = at;
        if (past > end)
            past = end;
        update(c, begin, past, false);
        at = past;
    }
    if (at < end)
        update(c, at, end, true);
    if (c->args.clear)
        memset(element(&c->f, c->args.gradients, from), 0,
               n * (c->f.f64 ? sizeof(double) : sizeof(float)));
}

static attn_status check_number(double x, const char *what, double least, double below,
                                attn_error *err)
{
    if (x >= least && x < below)
        return ATTN_OK;
    return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s: %g, expected %g <= %s < %g", what, x, least,
                      what, below);
}

static attn_status check_kept(const adam_call *c, attn_error *err)
{
    int64_t at = 0;

    if (!c->args.kept && c->args.kept_count > 0)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "kept: NULL");
    for (size_t i = 0; i < c->args.kept_count; i++) {
        const attn_span *s = &c->args.kept[i];

        if (s->offset < at || s->count < 0 || s->count > c->args.count - s->offset)
            return attn__fail(err, ATTN_E_ARGUMENT, 0, "kept: span %zu is out of place", i);
        at = s->offset + s->count;
    }
    return ATTN_OK;
}

static attn_status check_adam(adam_call *c, attn_error *err)
{
    attn_adam_args *a = &c->args;

    if (c->f.count > 0 && (!a->weights || !a->gradients || !a->m || !a->v))
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s: NULL",
                          !a->weights     ? "weights"
                          : !a->gradients ? "gradients"
                          : !a->m         ? "m"
                                          : "v");
    if (!a->has_betas) {
        a->beta1 = 0.9;
        a->beta2 = 0.98;
    }
    if (a->epsilon == 0)
        a->epsilon = 1e-9;
    if (a->factor == 0)
        a->factor = 1;
    if (a->step < 1)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "step: %lld, expected 1 or more",
                          (long long)a->step);
    TRY(check_number(a->beta1, "beta1", 0, 1, err));
    TRY(check_number(a->beta2, "beta2", 0, 1, err));
    TRY(check_number(a->rate, "rate", 0, HUGE_VAL, err));
    TRY(check_number(a->epsilon, "epsilon", 0x1p-100, HUGE_VAL, err)); /* 0 / 0 must not be */
    TRY(check_number(a->decay, "decay", 0, HUGE_VAL, err));
    TRY(check_number(a->max_norm, "max_norm", 0, HUGE_VAL, err));
    TRY(check_number(a->factor, "factor", -HUGE_VAL, HUGE_VAL, err));
    return check_kept(c, err);
}

static attn_status find_norm(adam_call *c, double *norm, attn_error *err)
{
    double sum = 0;

    attn__each(c->f.ctx, c->f.pieces, c->f.count, norm_piece, c);
    for (size_t i = 0; i < c->f.pieces; i++)
        sum += c->squares[i];
    *norm = fabs(c->args.factor) * sqrt(sum);
    if (!isfinite(*norm))
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "gradients: their norm is not finite");
    return ATTN_OK;
}

static attn_status adam_step(adam_call *c, double *norm, attn_error *err)
{
    const attn_adam_args *a = &c->args;
    double t, size = 0;

    TRY(check_adam(c, err));
    if (norm || a->max_norm > 0)
        TRY(find_norm(c, &size, err));
    t = (double)a->step;
    c->step = (attn__adam){
        .scale = a->factor,
        .beta1 = a->beta1,
        .beta2 = a->beta2,
        .rate = a->rate / (1 - pow(a->beta1, t)),
        .root = 1 / sqrt(1 - pow(a->beta2, t)),
        .epsilon = a->epsilon,
        .keep = 1 - a->rate * a->decay,
    };
    if (a->max_norm > 0 && size > a->max_norm)
        c->step.scale *= a->max_norm / size;
    attn__each(c->f.ctx, c->f.pieces, c->f.count, update_piece, c);
    if (norm)
        *norm = size;
    return ATTN_OK;
}

attn_status attn_adam_step(const attn_ctx *ctx, const attn_adam_args *args, double *norm,
                           attn_error *err)
{
    adam_call c;
    double squares[PIECES];
    uint64_t word;
    attn_status st;

    if (!args || args->struct_size != sizeof *args)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "args: NULL or of another version");
    c.args = *args;
    c.squares = squares;
    TRY(flat_init(&c.f, ctx, args->type, args->count, err));
    word = attn__fp_default();
    st = adam_step(&c, norm, err);
    attn__fp_restore(word);
    return st;
}

/* --- Averages ------------------------------------------------------------------------------- */

typedef struct average_call {
    flat f;
    void *out;
    const void *weights;
    double rate;
    const void *const *blocks;
    size_t n;
} average_call;

static void blend_piece(const void *arg, size_t i)
{
    const average_call *c = arg;
    const attn__kernels *k = c->f.ctx->kernels;
    size_t from, n = piece_at(&c->f, i, &from);
    void *to = element(&c->f, c->out, from);
    const void *w = element(&c->f, c->weights, from);

    if (c->f.f64)
        k->train_f64.blend(to, w, n, c->rate);
    else
        k->train_f32.blend(to, w, n, c->rate);
}

attn_status attn_average_blend(const attn_ctx *ctx, attn_type type, int64_t count, void *average,
                               const void *weights, double rate, attn_error *err)
{
    average_call c = {.out = average, .weights = weights, .rate = rate};

    TRY(flat_init(&c.f, ctx, type, count, err));
    if (count > 0 && (!average || !weights))
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s: NULL", average ? "weights" : "average");
    if (!(rate >= 0 && rate <= 1))
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "rate: %g, expected 0 <= rate <= 1", rate);
    attn__each(ctx, c.f.pieces, c.f.count, blend_piece, &c);
    return ATTN_OK;
}

static void mean_piece(const void *arg, size_t piece)
{
    const average_call *c = arg;
    size_t from, n = piece_at(&c->f, piece, &from);

    for (size_t i = from; i < from + n; i++) {
        double sum = 0;

        for (size_t b = 0; b < c->n; b++)
            sum += c->f.f64 ? ((const double *)c->blocks[b])[i]
                            : (double)((const float *)c->blocks[b])[i];
        sum /= (double)c->n;
        if (c->f.f64)
            ((double *)c->out)[i] = sum;
        else
            ((float *)c->out)[i] = (float)sum;
    }
}

attn_status attn_average_blocks(const attn_ctx *ctx, attn_type type, int64_t count,
                                const void *const *blocks, size_t n, void *out, attn_error *err)
{
    average_call c = {.out = out, .blocks = blocks, .n = n};

    TRY(flat_init(&c.f, ctx, type, count, err));
    if (!blocks || n == 0)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "blocks: none");
    if (!out && count > 0)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "out: NULL");
    for (size_t i = 0; i < n; i++)
        if (!blocks[i] && count > 0)
            return attn__fail(err, ATTN_E_ARGUMENT, 0, "blocks: number %zu is NULL", i);
    attn__each(ctx, c.f.pieces, c.f.count, mean_piece, &c);
    return ATTN_OK;
}
