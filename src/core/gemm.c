/* gemm.c: attn_gemm: checks, the choice of blocks, packed weights. */
#include "src/core/call.h"
#include "src/core/gemm.h"

#include "src/base/compiler.h"
#include "src/base/ctx.h"
#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/base/pool.h"
#include "src/core/layout.h"
#include "src/kernels/cpu.h"

#include <stdio.h>
#include <string.h>

enum {
    TILE = attn__tile,
    SMALL_CALL = 1 << 20,    /* multiply-adds below which waking a worker costs more */
    ITEMS_A_WORKER = 3,      /* so that no worker idles long at the end */
    SPLIT_ROWS = 96,         /* packing for fewer rows than this would show */
    COPY_LIMIT = 8 << 20,    /* bytes of copied rows a worker: a share of the last cache */
    COPY_ROWS = 240,         /* fewer at a time would not repay packing */
    COPY_TILES = 8,          /* that see a few copied rows before the next few */
    THIN_ROWS = attn__group, /* so few rows do not repay packing */
};

static size_t max(size_t a, size_t b)
{
    return a > b ? a : b;
}

static size_t blocks(size_t n, size_t block)
{
    return (n + block - 1) / block;
}

/* Element `offset` of a matrix; NULL if it is absent. */
static char *attn__at(const attn__matrix *m, ptrdiff_t offset)
{
    return m->data ? m->data + offset * (ptrdiff_t)attn_type_size(m->type) : NULL;
}

#define REAL float
#define G(name) name##_f32
#define KERNELS(ctx) (&(ctx)->kernels->f32)
#include "src/core/gemm_item.h"

#define REAL double
#define G(name) name##_f64
#define KERNELS(ctx) (&(ctx)->kernels->f64)
#include "src/core/gemm_item.h"

/* --- Checks --------------------------------------------------------------------------------- */

/* Strides of sizes of 1 may be anything; they become harmless. */
static attn__matrix matrix(const attn_view *view)
{
    attn__matrix m = {.data = view->data, .type = view->type, .col = 1};

    if (view->size[0] > 1)
        m.batch = view->stride[0];
    if (view->size[1] > 1)
        m.head = view->stride[1];
    if (view->size[2] > 1)
        m.row = view->stride[2];
    if (view->size[3] > 1)
        m.col = view->stride[3];
    return m;
}

/* A tensor of the call: its type fits, and its sizes are b x h x rows x cols. */
static attn_status check_tensor(const attn__gemm *g, const attn_view *view, const char *what,
                                int64_t b, int64_t h, int64_t rows, int64_t cols, bool output,
                                attn_error *err)
{
    TRY(attn__check_view(view, what, output, err));
    if (!attn__is_float(view->type) || (view->type == ATTN_F64) != g->f64)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s: type %s, expected %s with a of type %s",
                          what, attn_type_name(view->type), g->f64 ? "f64" : "f32, f16 or bf16",
                          attn_type_name(g->args.a.type));
    return attn__check_size(view, what, b, h, rows, cols, err);
}

static attn_status check_weight_type(const attn_view *w, attn_error *err)
{
    TRY(attn__check_view(w, "w", false, err));
    if (!attn__is_float(w->type) && w->type != ATTN_I8)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "w: type %s, expected f32, f16, bf16, i8 or f64",
                          attn_type_name(w->type));
    return ATTN_OK;
}

static attn_status check_packed(attn__gemm *g, attn_error *err)
{
    const attn_packed *packed = g->args.packed;

    if (attn__present(&g->args.w))
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "w: given along with packed");
    if (packed->set != g->schedule.ctx->kernels->set)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "packed: made for %s, the context uses %s",
                          attn_kernel_set_name(packed->set),
                          attn_kernel_set_name(g->schedule.ctx->kernels->set));
    if (packed->k != g->args.a.size[3])
        return attn__fail(err, ATTN_E_SHAPE, 0, "packed: k = %lld, expected a's %lld columns",
                          (long long)packed->k, (long long)g->args.a.size[3]);
    g->n = (size_t)packed->n;
    g->w.type = packed->type;
    return ATTN_OK;
}

static attn_status check_weights(attn__gemm *g, attn_error *err)
{
    const attn_view *w = &g->args.w, *a = &g->args.a;

    TRY(check_weight_type(w, err));
    TRY(attn__check_size(w, "w", w->size[0] == 1 ? 1 : a->size[0], w->size[1] == 1 ? 1 : a->size[1],
                         w->size[2], a->size[3], err));
    g->n = (size_t)w->size[2];
    g->w = matrix(w);
    return ATTN_OK;
}

static attn_status check_vector(const attn__gemm *g, const attn_view *view, const char *what,
                                attn_error *err)
{
    if (!attn__present(view))
        return ATTN_OK;
    return check_tensor(g, view, what, 1, 1, 1, (int64_t)g->n, false, err);
}

static attn_status check_outputs(attn__gemm *g, attn_error *err)
{
    const attn_gemm_args *a = &g->args;
    const attn_view *input[] = {&a->a, &a->w, &a->scale, &a->bias, &a->residual};
    static const char *const name[] = {"a", "w", "scale", "bias", "residual"};
    const int64_t *size = a->a.size;

    TRY(check_tensor(g, &a->out, "out", size[0], size[1], size[2], (int64_t)g->n, true, err));
    g->out = matrix(&a->out);
    g->epilogue = (attn__epilogue){
        .activation = a->activation, .out_type = a->out.type, .out_col = g->out.col};
    if (attn__present(&a->residual)) {
        TRY(check_tensor(g, &a->residual, "residual", size[0], size[1], size[2], (int64_t)g->n,
                         false, err));
        g->residual = matrix(&a->residual);
        g->epilogue.residual_type = a->residual.type;
        g->epilogue.residual_col = g->residual.col;
    }
    for (size_t i = 0; i < sizeof input / sizeof *input; i++)
        if (attn__clash(&a->out, input[i], input[i] == &a->residual))
            return attn__fail(err, ATTN_E_ARGUMENT, 0, "out: overlaps %s", name[i]);
    return ATTN_OK;
}

static attn_status check(attn__gemm *g, const attn_ctx *ctx, const attn_gemm_args *args,
                         attn_error *err)
{
    attn_gemm_args *a = &g->args;

    memset(g, 0, sizeof *g);
    if (!ctx)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "ctx: NULL");
    g->schedule.ctx = ctx;
    TRY(attn__copy_struct(a, sizeof *a, args, "args", err));
    if ((int)a->activation < ATTN_ACT_NONE || a->activation > ATTN_ACT_SILU)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "activation: %d is not in attn_activation",
                          (int)a->activation);
    g->f64 = a->a.type == ATTN_F64;
    TRY(check_tensor(g, &a->a, "a", a->a.size[0], a->a.size[1], a->a.size[2], a->a.size[3], false,
                     err));
    g->a = matrix(&a->a);
    TRY(a->packed ? check_packed(g, err) : check_weights(g, err));
    if ((g->w.type == ATTN_F64) != g->f64)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s: type %s with a of type %s",
                          a->packed ? "packed" : "w", attn_type_name(g->w.type),
                          attn_type_name(a->a.type));
    TRY(check_vector(g, &a->scale, "scale", err));
    TRY(check_vector(g, &a->bias, "bias", err));
    TRY(check_outputs(g, err));
    g->batch = (size_t)a->a.size[0];
    g->heads = (size_t)a->a.size[1];
    g->m = (size_t)a->a.size[2];
    g->k = (size_t)a->a.size[3];
    return ATTN_OK;
}

/* --- Blocks --------------------------------------------------------------------------------- */

/* Makes `count` matrices, `stride` apart, one with so many times the rows, if they lie that way. */
static bool merge_rows(attn__gemm *g, size_t count, ptrdiff_t a, ptrdiff_t residual, ptrdiff_t out)
{
    ptrdiff_t m = (ptrdiff_t)g->m;

    if (count == 1)
        return true;
    if (g->m != 1 && (a != m * g->a.row || out != m * g->out.row ||
                      (g->residual.data && residual != m * g->residual.row)))
        return false;
    if (g->m == 1) {
        g->a.row = a;
        g->residual.row = residual;
        g->out.row = out;
    }
    g->m *= count;
    return true;
}

/* Rows that share their weights are one matrix, wherever strides allow. */
static void collapse(attn__gemm *g)
{
    if (g->w.head == 0 && merge_rows(g, g->heads, g->a.head, g->residual.head, g->out.head))
        g->heads = 1;
    if (g->heads == 1 && g->w.batch == 0 &&
        merge_rows(g, g->batch, g->a.batch, g->residual.batch, g->out.batch))
        g->batch = 1;
    g->epilogue.out_row = g->out.row;
    g->epilogue.residual_row = g->residual.row;
}

/* Rows, tiles and steps of a block, for one worker. Its tiles (64 columns) take a quarter of the L2
 * cache: the more there are, the fewer times do rows of a and out pass through it. */
static void choose_shape(attn__gemm *g)
{
    size_t k_block = 1024, tiles, bytes = g->f64 ? sizeof(double) : sizeof(float);

    tiles = g->schedule.ctx->l2_size / 4 / (TILE * bytes * max(attn__min(g->k, k_block), 1));
    tiles = max(tiles, 1);
    /* Rows that are not f32 (f64) with adjacent steps are copied: few of them, a block of k at a
     * time, for COPY_TILES tiles, if there are no more tiles or if no useful number of rows fits
     * with all of k; else whole, once for all columns. No power of two lies between copies: they
     * would share cache sets. */
    g->left_stride = blocks(g->k, 16) * 16 + 16;
    g->item_rows = attn__min(g->m, COPY_LIMIT / (bytes * g->left_stride));
    g->copies_whole = g->copies_a && blocks(g->n, TILE) > COPY_TILES &&
                      g->item_rows >= attn__min(g->m, COPY_ROWS);
    if (!g->copies_whole)
        g->item_rows = g->m;
    if (g->copies_a && !g->copies_whole) {
        k_block = 256;
        tiles = COPY_TILES;
    }
    if (g->m <= THIN_ROWS && g->makes_tiles) { /* tiles go through the L1 cache */
        k_block = 32;
        tiles = g->args.packed ? 1 : 8;
    }
    if (g->thin)
        k_block = g->k;
    /* equal blocks, of whole cache lines */
    g->k_block = g->k > k_block ? blocks(blocks(g->k, blocks(g->k, k_block)), 16) * 16 : g->k;
    g->item_rows = attn__min(g->item_rows, g->sums_in_out || g->k_block == g->k ? 2048 : 512);
    g->item_tiles = attn__min(tiles, blocks(g->n, TILE));
}

/* More blocks of rows, of at least `least` rows, as far as there are fewer items than wanted. */
static void split_rows(attn__gemm *g, size_t wanted, size_t least)
{
    size_t columns = g->batch * g->heads * g->column_blocks;

    if (columns * g->row_blocks < wanted)
        g->row_blocks = max(g->row_blocks, attn__min(blocks(wanted, columns), g->m / least));
}

/* Cuts the call into items: enough of them for all workers, but not so that packing shows. Blocks
 * of rows share no work but packing, and only if they are short does that cost more than fewer
 * tiles for each row would. */
static void choose_items(attn__gemm *g)
{
    size_t tiles = blocks(g->n, TILE), matrices = g->batch * g->heads, wanted;
    bool shares = g->copies_a && !g->copies_whole; /* copies of rows serve the tiles of an item */

    g->threads = (double)matrices * (double)g->m * (double)g->n * (double)g->k < SMALL_CALL
                     ? 1
                     : (size_t)g->schedule.ctx->threads;
    wanted = g->threads > 1 ? g->threads * ITEMS_A_WORKER : 1;
    g->row_blocks = blocks(g->m, g->item_rows);
    g->column_blocks = blocks(tiles, g->item_tiles);
    split_rows(g, wanted, g->copies_a ? SPLIT_ROWS : 3 * SPLIT_ROWS);
    while (g->item_tiles > 1 &&
           matrices * g->column_blocks * g->row_blocks < (shares ? g->threads : wanted)) {
        g->item_tiles = blocks(g->item_tiles, 2);
        g->column_blocks = blocks(tiles, g->item_tiles);
    }
    split_rows(g, wanted, SPLIT_ROWS);
    g->item_rows = blocks(blocks(g->m, g->row_blocks), attn__group) * attn__group;
    g->row_blocks = blocks(g->m, g->item_rows);
    g->threads = max(attn__min(g->threads, matrices * g->column_blocks * g->row_blocks), 1);
}

static void choose(attn__gemm *g)
{
    attn_type real = g->f64 ? ATTN_F64 : ATTN_F32;

    g->copies_a = g->a.type != real || (g->a.col != 1 && g->k > 1);
    g->thin = g->m <= THIN_ROWS && !g->args.packed && g->w.col == 1;
    g->makes_tiles = !g->thin && (!g->args.packed || g->w.type != real);
    g->sums_in_out = g->out.type == real && g->out.col == 1 && g->residual.data != g->out.data;
    g->only_sums = g->args.activation == ATTN_ACT_NONE && !g->residual.data &&
                   !attn__present(&g->args.scale) && !attn__present(&g->args.bias);
    choose_shape(g);
    choose_items(g);
    g->copied_rows = !g->copies_a      ? 0
                     : g->copies_whole ? g->item_rows
                                       : attn__min(g->item_rows, 48);
    if (!g->copies_whole)
        g->left_stride = g->k_block + 16;
    g->path = g->args.packed ? "packed" : g->thin ? "thin" : "packing";
    g->why = g->args.packed ? "weights were packed beforehand"
             : g->thin      ? "few rows: weights are read once, as they lie"
                            : "each worker packs the weights of its columns";
}

static attn_status prepare(attn__gemm *g, const attn_ctx *ctx, const attn_gemm_args *args,
                           attn_error *err)
{
    TRY(check(g, ctx, args, err));
    g->scratch_size = 0;
    if (g->batch == 0 || g->heads == 0 || g->m == 0 || g->n == 0) {
        g->threads = 1;
        g->path = "packing";
        g->why = "nothing to do";
        return ATTN_OK;
    }
    if (g->k == 0) /* a and w may have no data then; nothing reads it, but it is counted from */
        g->a = g->w = (attn__matrix){.data = g->out.data, .type = g->a.type, .col = 1};
    collapse(g);
    choose(g);
    g->scratch_size = g->f64 ? attn__gemm_scratch_f64(g) : attn__gemm_scratch_f32(g);
    if (!attn__mul(g->threads, g->scratch_size, &g->workspace_size))
        return attn__fail(err, ATTN_E_MEMORY, 0, "workspace: its size exceeds the address space");
    return ATTN_OK;
}

/* --- Calls ---------------------------------------------------------------------------------- */

static size_t items_of(const void *job, size_t head)
{
    const attn__gemm *g = job;

    (void)head;
    return g->column_blocks;
}

static void work(void *arg, size_t worker)
{
    attn__gemm *g = arg;
    uint64_t word = attn__fp_default();

    (g->f64 ? attn__gemm_work_f64 : attn__gemm_work_f32)(g, worker);
    attn__fp_restore(word);
}

static attn_status gemm(const attn_ctx *ctx, const attn_gemm_args *args, attn_error *err)
{
    attn__gemm g;
    attn__workspace w;

    TRY(prepare(&g, ctx, args, err));
    TRY(attn__begin_workspace(&w, ctx, g.args.workspace, g.args.workspace_size, g.workspace_size,
                              g.workspace_size, "attn_gemm_plan", err));
    g.scratch = w.memory;
    g.schedule.items_of = items_of;
    g.schedule.job = &g;
    g.schedule.heads = g.batch * g.heads * g.row_blocks;
    attn__schedule_init(&g.schedule);
    attn__parallel(ctx, g.threads, work, &g);
    attn__end_workspace(ctx, &w);
    if (atomic_load(&g.schedule.cancelled))
        return attn__fail(err, ATTN_E_CANCELLED, 0, "progress: the callback asked to stop");
    return ATTN_OK;
}

static attn_status make_plan(const attn_ctx *ctx, const attn_gemm_args *args, attn_plan *plan,
                             attn_error *err)
{
    attn__gemm g;

    TRY(attn__check_plan(plan, err));
    TRY(prepare(&g, ctx, args, err));
    attn__fill_plan(plan, ctx, g.workspace_size, g.workspace_size, g.threads, g.path, g.why);
    return ATTN_OK;
}

attn_status attn_gemm(const attn_ctx *ctx, const attn_gemm_args *args, attn_error *err)
{
    uint64_t word = attn__fp_default();
    attn_status st = gemm(ctx, args, err);

    attn__fp_restore(word);
    return st;
}

attn_status attn_gemm_plan(const attn_ctx *ctx, const attn_gemm_args *args, attn_plan *plan,
                           attn_error *err)
{
    uint64_t word = attn__fp_default();
    attn_status st = make_plan(ctx, args, plan, err);

    attn__fp_restore(word);
    return st;
}

/* --- Packed weights ------------------------------------------------------------------------- */

typedef struct pack_job {
    attn_packed *packed;
    const attn_view *w;
    atomic_size_t next;
} pack_job;

static void pack_tiles(void *arg, size_t worker)
{
    pack_job *j = arg;
    const attn_packed *p = j->packed;
    const attn__kernels *kernels = p->ctx->kernels;
    uint64_t word = attn__fp_default();
    size_t tile, n = (size_t)p->n, k = (size_t)p->k, size = attn_type_size(p->type);

    (void)worker;
    while ((tile = atomic_fetch_add(&j->next, 1)) < blocks(n, TILE)) {
        const char *from =
            (const char *)j->w->data + (ptrdiff_t)(tile * TILE * size) * j->w->stride[2];
        void *to = p->tiles + tile * p->tile_size;
        size_t cols = attn__min(n - tile * TILE, TILE);

        if (p->type == ATTN_F64)
            kernels->gemm_f64.pack(to, cols, k, p->type, from, j->w->stride[2], j->w->stride[3]);
        else if (p->type == ATTN_F32)
            kernels->gemm_f32.pack(to, cols, k, p->type, from, j->w->stride[2], j->w->stride[3]);
        else
            kernels->gemm_f32.pack_narrow(to, cols, k, p->type, from, j->w->stride[2],
                                          j->w->stride[3]);
    }
    attn__fp_restore(word);
}

static attn_status make_packed(const attn_ctx *ctx, const attn_view *w, attn_packed **out,
                               attn_error *err)
{
    attn_packed *p;
    pack_job job = {.w = w};
    size_t size;

    if (!w)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "w: NULL");
    TRY(check_weight_type(w, err));
    TRY(attn__check_size(w, "w", 1, 1, w->size[2], w->size[3], err));
    p = attn__new(ctx, sizeof *p);
    if (!p)
        return attn__fail(err, ATTN_E_MEMORY, 0, "packed weights");
    p->ctx = ctx;
    p->set = ctx->kernels->set;
    p->type = w->type;
    p->n = w->size[2];
    p->k = w->size[3];
    if (attn__mul(TILE * attn_type_size(w->type), (size_t)p->k, &p->tile_size) &&
        attn__mul(p->tile_size, blocks((size_t)p->n, TILE), &size))
        p->tiles = attn__alloc(ctx, size);
    if (!p->tiles) {
        attn__free(ctx, p);
        return attn__fail(err, ATTN_E_MEMORY, 0, "packed weights: no memory for %lld x %lld",
                          (long long)w->size[2], (long long)w->size[3]);
    }
    job.packed = p;
    atomic_init(&job.next, 0);
    attn__parallel(ctx, (double)p->n * (double)p->k < SMALL_CALL ? 1 : (size_t)ctx->threads,
                   pack_tiles, &job);
    *out = p;
    return ATTN_OK;
}

attn_status attn_gemm_pack(const attn_ctx *ctx, const attn_view *w, attn_packed **out,
                           attn_error *err)
{
    if (!out)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "out: NULL");
    *out = NULL;
    if (!ctx)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "ctx: NULL");
    return make_packed(ctx, w, out, err);
}

void attn_packed_destroy(attn_packed *packed)
{
    if (!packed)
        return;
    attn__free(packed->ctx, packed->tiles);
    attn__free(packed->ctx, packed);
}

attn_view attn_view_transposed(attn_view view)
{
    int64_t size = view.size[2], stride = view.stride[2];

    view.size[2] = view.size[3];
    view.stride[2] = view.stride[3];
    view.size[3] = size;
    view.stride[3] = stride;
    return view;
}
