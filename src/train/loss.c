/* loss.c: label-smoothed cross entropy, fused with the output projection.
 *
 * A chunk of tokens at a time: logits by a matrix product into the workspace, there they become
 * their gradients row by row, which two more products carry to hidden and W. */
#include "include/attn/train.h"

#include "src/base/ctx.h"
#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/base/pool.h"
#include "src/kernels/cpu.h"
#include "src/kernels/kernels.h"
#include "src/core/each.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

enum {
    CHUNK_CELLS = 1 << 24, /* logits of a chunk: W is read three times a chunk, so not much fewer */
    CHUNK_LEAST = 48,      /* tokens, a multiple of the product's groups of six */
    CHUNK_MOST = 1536,
    ROWS_A_PIECE = 4,
    COLUMNS_A_PIECE = 2048,
    ALIGN = 64,
};

typedef struct loss_call {
    const attn_ctx *ctx;
    attn_cross_entropy_args args;
    bool f64, gradient;
    size_t tokens, classes, width;
    size_t chunk;  /* tokens at a time */
    size_t stride; /* of a row of logits */
    attn__row_goal goal;
    float scale32;
    double scale64;
    char *logits;
    attn__row_loss *rows;
    void *product_memory;
    size_t product_size, size;
    size_t first, count; /* the chunk at hand */
} loss_call;

static bool present(const attn_view *view)
{
    return view->data || view->size[0] || view->size[1] || view->size[2] || view->size[3];
}

static attn_status check_view(const loss_call *c, const attn_view *view, const char *what,
                              size_t rows, size_t columns, attn_error *err)
{
    attn_type type = c->args.hidden.type;

    if (view->type != type)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s: type %s, expected hidden's %s", what,
                          attn_type_name(view->type), attn_type_name(type));
    if (view->size[0] != 1 || view->size[1] != 1 || (size_t)view->size[2] != rows ||
        (size_t)view->size[3] != columns)
        return attn__fail(err, ATTN_E_SHAPE, 0,
                          "%s: sizes [%lld, %lld, %lld, %lld], expected [1, 1, %zu, %zu]", what,
                          (long long)view->size[0], (long long)view->size[1],
                          (long long)view->size[2], (long long)view->size[3], rows, columns);
    if (!view->data && rows > 0 && columns > 0)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s: data is NULL", what);
    return ATTN_OK;
}

static attn_status check_gradients(const loss_call *c, attn_error *err)
{
    const attn_cross_entropy_args *a = &c->args;

    if (present(&a->dhidden))
        TRY(check_view(c, &a->dhidden, "dhidden", c->tokens, c->width, err));
    if (present(&a->dweight))
        TRY(check_view(c, &a->dweight, "dweight", c->classes, c->width, err));
    if (present(&a->dbias)) {
        TRY(check_view(c, &a->dbias, "dbias", 1, c->classes, err));
        if (a->dbias.stride[3] != 1 && c->classes > 1)
            return attn__fail(err, ATTN_E_ARGUMENT, 0, "dbias: its columns are not adjacent");
    }
    if (!isfinite(a->scale))
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "scale: %g is not finite", a->scale);
    if (c->gradient && !isfinite(a->factor))
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "factor: %g is not finite", a->factor);
    return ATTN_OK;
}

static attn_status check_numbers(const loss_call *c, attn_error *err)
{
    const attn_cross_entropy_args *a = &c->args;

    if (a->smoothing != ATTN_SMOOTH_OTHERS && a->smoothing != ATTN_SMOOTH_MIX)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "smoothing: %d is none", (int)a->smoothing);
    if (!(a->epsilon >= 0 && a->epsilon < 1))
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "epsilon: %g, expected 0 <= epsilon < 1",
                          a->epsilon);
    if (c->classes == 0 || (a->smoothing == ATTN_SMOOTH_OTHERS && a->epsilon > 0 && c->classes < 2))
        return attn__fail(err, ATTN_E_SHAPE, 0, "weight: %zu rows are too few classes", c->classes);
    if (!a->targets && c->tokens > 0)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "targets: NULL");
    for (size_t i = 0; i < c->tokens; i++)
        if (a->targets[i] >= 0 && (size_t)a->targets[i] >= c->classes)
            return attn__fail(err, ATTN_E_ARGUMENT, 0, "targets: %ld of token %zu is not below %zu",
                              (long)a->targets[i], i, c->classes);
    return ATTN_OK;
}

static attn_status check_call(loss_call *c, attn_error *err)
{
    const attn_cross_entropy_args *a = &c->args;

    if (a->hidden.type != ATTN_F32 && a->hidden.type != ATTN_F64)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "hidden: type %s, expected f32 or f64",
                          attn_type_name(a->hidden.type));
    if (a->hidden.size[2] < 0 || a->hidden.size[3] < 0 || a->weight.size[2] < 0)
        return attn__fail(err, ATTN_E_SHAPE, 0, "hidden or weight: a size is negative");
    c->f64 = a->hidden.type == ATTN_F64;
    c->tokens = (size_t)a->hidden.size[2];
    c->width = (size_t)a->hidden.size[3];
    c->classes = (size_t)a->weight.size[2];
    c->gradient = present(&a->dhidden) || present(&a->dweight) || present(&a->dbias);
    TRY(check_view(c, &a->hidden, "hidden", c->tokens, c->width, err));
    TRY(check_view(c, &a->weight, "weight", c->classes, c->width, err));
    if (present(&a->bias))
        TRY(check_view(c, &a->bias, "bias", 1, c->classes, err));
    TRY(check_numbers(c, err));
    return check_gradients(c, err);
}

/* --- The three products --------------------------------------------------------------------- */

static attn_view rows_of(attn_view view, size_t first, size_t count)
{
    if (view.data)
        view.data = (char *)view.data +
                    (ptrdiff_t)first * view.stride[2] * (ptrdiff_t)attn_type_size(view.type);
    view.size[2] = (int64_t)count;
    return view;
}

static attn_view logits_view(const loss_call *c)
{
    attn_view v = attn_view_bhsd(c->logits, c->args.hidden.type, 1, 1, (int64_t)c->count,
                                 (int64_t)c->classes);

    v.stride[2] = (int64_t)c->stride;
    return v;
}

enum product { LOGITS, DWEIGHT, DHIDDEN, PRODUCTS };

/* False if the call does without it. */
static bool product_args(const loss_call *c, enum product which, attn_gemm_args *g)
{
    const attn_cross_entropy_args *a = &c->args;
    attn_view logits = logits_view(c), hidden = rows_of(a->hidden, c->first, c->count);
    attn_view scale = {0};

    if (c->scale64 != 1)
        scale = attn_view_bhsd(c->f64 ? (const void *)&c->scale64 : (const void *)&c->scale32,
                               a->hidden.type, 1, 1, 1,
                               (int64_t)(which == LOGITS ? c->classes : c->width));
    scale.stride[3] = 0;

    *g = (attn_gemm_args)ATTN_GEMM_ARGS_INIT;
    g->scale = scale;
    g->workspace = c->product_memory;
    g->workspace_size = c->product_memory ? c->product_size : 0;
    switch (which) {
    case LOGITS:
        g->a = hidden;
        g->w = a->weight;
        g->bias = a->bias;
        g->out = logits;
        return true;
    case DWEIGHT:
        g->a = attn_view_transposed(logits);
        g->w = attn_view_transposed(hidden);
        g->out = g->residual = a->dweight;
        return present(&a->dweight);
    default:
        g->a = logits;
        g->w = attn_view_transposed(a->weight);
        g->out = rows_of(a->dhidden, c->first, c->count);
        return present(&a->dhidden);
    }
}

/* --- Memory --------------------------------------------------------------------------------- */

static bool cut(size_t *at, size_t count, size_t size, size_t *where)
{
    size_t bytes;

    *where = *at;
    return attn__mul(count, size, &bytes) && attn__add(bytes, ALIGN - 1, &bytes) &&
           attn__add(*at, bytes / ALIGN * ALIGN, at);
}

/* A call with its logits at the end of the address space, where nothing of the caller's overlaps
 * them, for asking plans. */
static attn_status plan_products(loss_call *c, size_t bytes, attn_error *err)
{
    size_t counts[2] = {c->chunk, c->tokens % c->chunk};

    c->logits = (char *)((UINTPTR_MAX - bytes) / ALIGN * ALIGN);
    for (size_t i = 0; i < 2; i++) {
        for (int which = 0; which < PRODUCTS && counts[i] > 0; which++) {
            attn_gemm_args g;
            attn_plan plan = ATTN_PLAN_INIT;

            c->count = counts[i];
            if (!product_args(c, (enum product)which, &g))
                continue;
            TRY(attn_gemm_plan(c->ctx, &g, &plan, err));
            if (plan.workspace_size > c->product_size)
                c->product_size = plan.workspace_size;
        }
    }
    return ATTN_OK;
}

static attn_status plan_call(loss_call *c, attn_error *err)
{
    size_t logits, rows, products;

    c->chunk = CHUNK_CELLS / c->classes / CHUNK_LEAST * CHUNK_LEAST;
    if (c->chunk < CHUNK_LEAST)
        c->chunk = CHUNK_LEAST;
    if (c->chunk > CHUNK_MOST)
        c->chunk = CHUNK_MOST;
    if (c->chunk > c->tokens) /* one chunk: no bit depends on it */
        c->chunk = c->tokens;
    if (c->chunk == 0)
        return ATTN_OK;
    /* Not a multiple of a page: columns of rows so far apart would share a place in the cache. */
    c->stride = (c->classes + 15) / 16 * 16 + 16;
    if (!attn__mul(c->chunk, c->stride, &logits) ||
        !attn__mul(logits, attn_type_size(c->args.hidden.type), &logits))
        return attn__fail(err, ATTN_E_MEMORY, 0, "logits of %zu classes", c->classes);
    TRY(plan_products(c, logits, err));
    if (!cut(&c->size, logits, 1, &logits) || !cut(&c->size, c->chunk, sizeof *c->rows, &rows) ||
        !cut(&c->size, c->product_size, 1, &products))
        return attn__fail(err, ATTN_E_MEMORY, 0, "logits of %zu classes", c->classes);
    return ATTN_OK;
}

static attn_status begin(loss_call *c, const attn_ctx *ctx, const attn_cross_entropy_args *args,
                         attn_error *err)
{
    double e, v;

    memset(c, 0, sizeof *c);
    if (!ctx || !args)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s: NULL", ctx ? "args" : "ctx");
    if (args->struct_size != sizeof *args)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "args: struct_size is %zu, expected %zu",
                          args->struct_size, sizeof *args);
    c->ctx = ctx;
    c->args = *args;
    TRY(check_call(c, err));
    e = args->epsilon;
    v = (double)c->classes;
    c->scale64 = args->scale == 0 ? 1 : args->scale;
    c->scale32 = (float)c->scale64;
    c->goal.factor = args->factor;
    c->goal.off = e == 0 ? 0 : args->smoothing == ATTN_SMOOTH_MIX ? e / v : e / (v - 1);
    c->goal.on = 1 - e + (args->smoothing == ATTN_SMOOTH_MIX ? c->goal.off : 0);
    return plan_call(c, err);
}

/* --- Work ----------------------------------------------------------------------------------- */

static void row(const loss_call *c, size_t i)
{
    const attn__kernels *k = c->ctx->kernels;
    int32_t target = c->args.targets[c->first + i];
    size_t size = attn_type_size(c->args.hidden.type);
    void *x = c->logits + i * c->stride * size;

    if (target < 0)
        memset(x, 0, c->classes * size);
    else if (c->f64)
        k->train_f64.cross_entropy(x, c->classes, (size_t)target, &c->goal, c->gradient,
                                   &c->rows[i]);
    else
        k->train_f32.cross_entropy(x, c->classes, (size_t)target, &c->goal, c->gradient,
                                   &c->rows[i]);
}

static void rows_piece(const void *arg, size_t piece)
{
    const loss_call *c = arg;
    size_t end = attn__min((piece + 1) * ROWS_A_PIECE, c->count);

    for (size_t i = piece * ROWS_A_PIECE; i < end; i++)
        row(c, i);
}

static void bias_piece(const void *arg, size_t piece)
{
    const loss_call *c = arg;
    const attn__kernels *k = c->ctx->kernels;
    size_t from = piece * COLUMNS_A_PIECE, n = attn__min(c->classes - from, COLUMNS_A_PIECE);
    size_t at = from * attn_type_size(c->args.hidden.type);
    void *to = (char *)c->args.dbias.data + at, *rows = c->logits + at;

    if (c->f64)
        k->train_f64.add_rows(to, rows, (ptrdiff_t)c->stride, c->count, n);
    else
        k->train_f32.add_rows(to, rows, (ptrdiff_t)c->stride, c->count, n);
}

static attn_status multiply(const loss_call *c, enum product which, attn_error *err)
{
    attn_gemm_args g;

    return product_args(c, which, &g) ? attn_gemm(c->ctx, &g, err) : ATTN_OK;
}

static void add_up(const loss_call *c, attn_loss *loss)
{
    for (size_t i = 0; i < c->count; i++) {
        const attn__row_loss *r = &c->rows[i];
        double log_sum;

        if (c->args.hits)
            c->args.hits[c->first + i] = c->args.targets[c->first + i] >= 0 && r->right;
        if (c->args.targets[c->first + i] < 0)
            continue;
        log_sum = log(r->sum);
        loss->nll += log_sum - r->target;
        loss->loss += log_sum - c->goal.on * r->target - c->goal.off * (r->all - r->target);
        loss->tokens++;
        loss->right += r->right;
    }
}

static attn_status chunk(loss_call *c, attn_loss *loss, attn_error *err)
{
    TRY(multiply(c, LOGITS, err));
    attn__each(c->ctx, (c->count + ROWS_A_PIECE - 1) / ROWS_A_PIECE, c->count * c->classes,
               rows_piece, c);
    add_up(c, loss);
    if (present(&c->args.dbias))
        attn__each(c->ctx, (c->classes + COLUMNS_A_PIECE - 1) / COLUMNS_A_PIECE,
                   c->count * c->classes, bias_piece, c);
    TRY(multiply(c, DWEIGHT, err)); /* before dhidden, which may lie where hidden does */
    return multiply(c, DHIDDEN, err);
}

static attn_status compute(loss_call *c, char *memory, attn_loss *loss, attn_error *err)
{
    size_t at = 0, where = 0;

    cut(&at, c->chunk * c->stride, attn_type_size(c->args.hidden.type), &where);
    c->logits = memory + where;
    cut(&at, c->chunk, sizeof *c->rows, &where);
    c->rows = (attn__row_loss *)(void *)(memory + where);
    cut(&at, c->product_size, 1, &where);
    c->product_memory = memory + where;
    for (c->first = 0; c->first < c->tokens; c->first += c->count) {
        c->count = attn__min(c->tokens - c->first, c->chunk);
        TRY(chunk(c, loss, err));
    }
    return ATTN_OK;
}

static attn_status run(const attn_ctx *ctx, const attn_cross_entropy_args *args, attn_loss *loss,
                       attn_error *err)
{
    loss_call c;
    attn_loss sums = {0};
    attn_status st;
    char *own = NULL, *memory;

    TRY(begin(&c, ctx, args, err));
    memory = args->workspace;
    if (memory && ((uintptr_t)memory % ALIGN != 0 || args->workspace_size < c.size))
        return attn__fail(err, ATTN_E_ARGUMENT, 0,
                          "workspace: %zu bytes, expected %zu aligned to 64", args->workspace_size,
                          c.size);
    if (!memory && c.size > 0 && !(memory = own = attn__alloc(ctx, c.size)))
        return attn__fail(err, ATTN_E_MEMORY, 0, "workspace: no memory for %zu bytes", c.size);
    st = compute(&c, memory, &sums, err);
    attn__free(ctx, own);
    if (st == ATTN_OK)
        *loss = sums;
    return st;
}

attn_status attn_cross_entropy(const attn_ctx *ctx, const attn_cross_entropy_args *args,
                               attn_loss *loss, attn_error *err)
{
    uint64_t word;
    attn_status st;

    if (!loss)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "loss: NULL");
    word = attn__fp_default();
    st = run(ctx, args, loss, err);
    attn__fp_restore(word);
    return st;
}

attn_status attn_cross_entropy_plan(const attn_ctx *ctx, const attn_cross_entropy_args *args,
                                    size_t *workspace_size, attn_error *err)
{
    loss_call c;

    if (!workspace_size)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "workspace_size: NULL");
    TRY(begin(&c, ctx, args, err));
    *workspace_size = c.size;
    return ATTN_OK;
}

double attn_smoothing_floor(attn_smoothing smoothing, double epsilon, int64_t v)
{
    double n = (double)v, off, on;

    if (!(epsilon > 0 && epsilon < 1) || v < 2)
        return 0;
    off = smoothing == ATTN_SMOOTH_MIX ? epsilon / n : epsilon / (n - 1);
    on = smoothing == ATTN_SMOOTH_MIX ? 1 - epsilon + off : 1 - epsilon;
    return -(on * log(on) + (n - 1) * off * log(off));
}
