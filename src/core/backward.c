/* backward.c: attn_backward: check, lay out, and run the sweeps. */
#include "src/core/backward.h"

#include "src/base/ctx.h"
#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/base/platform.h"
#include "src/base/pool.h"
#include "src/core/call.h"
#include "src/core/layout.h"
#include "src/kernels/cpu.h"

#include <string.h>

enum {
    MOST_CHUNKS = 8,
    LEAST_TILES = 4,      /* tiles of a chunk: adding up chunks must stay cheap */
    PASS_SIZE = 1 << 19,  /* bytes of a pass's tiles that should stay in the L2 cache */
    SWEEP_SIZE = 1 << 19, /* bytes of the rows of an item of the query sweep */
    SWEEP_ROWS = 384,     /* at most */
    TURN_HEADS = 8,       /* key heads a worker from which chunks are taken in turn */
    COPY_SIZE = 1 << 27,  /* bytes up to which all heads' queries and dout are copied */
    SMALL_CALL = 1 << 18, /* multiply-adds of a forward call below which no worker is woken */
};

/* --- Checks --------------------------------------------------------------------------------- */

/* The forward call as far as it matters here. */
static attn_status check_forward(attn__backward *b, const attn_ctx *ctx, attn_error *err)
{
    attn__problem *p = &b->problem;
    attn_forward_args forward;

    TRY(attn__copy_struct(&forward, sizeof forward, b->args.forward, "forward", err));
    memset(&forward.weights, 0, sizeof forward.weights);
    memset(&forward.dout, 0, sizeof forward.dout);
    memset(&forward.delta, 0, sizeof forward.delta);
    forward.partial = forward.start = NULL;
    forward.stats = NULL;
    if (!attn__present(&forward.lse))
        return attn__fail(err, ATTN_E_ARGUMENT, 0,
                          "forward.lse: absent, expected what attn_forward wrote");
    if (!attn__present(&forward.v))
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "v: absent");
    TRY(attn__problem_init(p, ctx, NULL, &forward, err));
    if (attn__clash(&p->args.out, &p->args.q, false))
        return attn__fail(err, ATTN_E_ARGUMENT, 0,
                          "forward.out: overlaps q, which is needed still");
    return ATTN_OK;
}

static attn_status check_inputs(attn__backward *b, attn_error *err)
{
    const attn__problem *p = &b->problem;
    const attn_forward_args *f = &p->args;
    attn_backward_args *a = &b->args;
    const int64_t rows[4] = {f->q.size[0], f->q.size[1], f->q.size[2], (int64_t)p->dv};

    if (!attn__present(&a->dout))
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "dout: absent");
    TRY(attn__check_matching(p, &a->dout, "dout", false, rows, err));
    if (b->has_delta)
        TRY(attn__check_row_output(p, &a->delta, "delta", false, true, err));
    else if (!p->has_out)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "delta: absent, and so is forward.out");
    else if (f->out.type != (p->f64 ? ATTN_F64 : ATTN_F32))
        return attn__fail(err, ATTN_E_ARGUMENT, 0,
                          "delta: absent, and forward.out of type %s has lost what it is made of "
                          "(let attn_forward write delta, or out as f32)",
                          attn_type_name(f->out.type));
    if (b->has_dlse)
        TRY(attn__check_row_output(p, &a->dlse, "dlse", false, true, err));
    if (p->mask.tile && !a->tile_gradient)
        return attn__fail(err, ATTN_E_ARGUMENT, 0,
                          "tile_gradient: NULL, but forward has a tile function");
    return ATTN_OK;
}

/* The gradients of numbers a head. */
static attn_status check_per_head(const attn__problem *p, const attn_view *view, const char *what,
                                  const attn_view *of, const char *of_what, attn_error *err)
{
    if (!attn__present(of))
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s: wanted, but forward has no %s", what,
                          of_what);
    TRY(attn__check_per_head(p, view, what, false, true, err));
    return attn__check_size(view, what, of->size[0], of->size[1], 1, 1, err);
}

static attn_status check_outputs(attn__backward *b, attn_error *err)
{
    const attn__problem *p = &b->problem;
    attn_backward_args *a = &b->args;
    int64_t full[4] = {(int64_t)p->sequences, (int64_t)p->heads, p->rows, p->columns};

    if (!b->wants_dq && !b->wants_dk && !b->wants_dv && !b->wants_dbias && !b->wants_dsink &&
        !b->wants_dalibi)
        return attn__fail(err, ATTN_E_ARGUMENT, 0,
                          "dq: absent, and so are dk, dv, dbias, dsink and dalibi");
    if (b->wants_dq)
        TRY(attn__check_matching(p, &a->dq, "dq", true, p->args.q.size, err));
    if (b->wants_dk)
        TRY(attn__check_matching(p, &a->dk, "dk", true, p->k.size, err));
    if (b->wants_dv)
        TRY(attn__check_matching(p, &a->dv, "dv", true, p->v.size, err));
    if (b->wants_dbias) {
        TRY(attn__check_view(&a->dbias, "dbias", true, err));
        if (a->dbias.type != (p->f64 ? ATTN_F64 : ATTN_F32))
            return attn__fail(err, ATTN_E_ARGUMENT, 0, "dbias: type %s, expected %s",
                              attn_type_name(a->dbias.type), p->f64 ? "f64" : "f32");
        TRY(attn__check_broadcast(&a->dbias, "dbias", full, false, err));
    }
    if (b->wants_dsink)
        TRY(check_per_head(p, &a->dsink, "dsink", &p->args.sink, "sink", err));
    if (b->wants_dalibi)
        TRY(check_per_head(p, &a->dalibi, "dalibi", &p->mask.alibi, "mask.alibi", err));
    return ATTN_OK;
}

static attn_status check_overlap(const attn__backward *b, attn_error *err)
{
    const attn__problem *p = &b->problem;
    const attn_backward_args *a = &b->args;
    const struct {
        const attn_view *view;
        const char *name;
    } output[] = {{&a->dq, "dq"},       {&a->dk, "dk"},       {&a->dv, "dv"},
                  {&a->dbias, "dbias"}, {&a->dsink, "dsink"}, {&a->dalibi, "dalibi"}},
      input[] = {{&p->args.q, "q"},
                 {&p->k, "k"},
                 {&p->v, "v"},
                 {&p->args.out, "forward.out"},
                 {&p->args.lse, "forward.lse"},
                 {&p->args.sink, "sink"},
                 {&p->mask.keep, "mask.keep"},
                 {&p->mask.bias, "mask.bias"},
                 {&p->mask.alibi, "mask.alibi"},
                 {&a->dout, "dout"},
                 {&a->delta, "delta"},
                 {&a->dlse, "dlse"}};

    for (size_t i = 0; i < sizeof output / sizeof *output; i++) {
        for (size_t j = 0; j < sizeof input / sizeof *input; j++)
            if (attn__clash(output[i].view, input[j].view, false))
                return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s: overlaps %s", output[i].name,
                                  input[j].name);
        for (size_t j = 0; j < i; j++)
            if (attn__clash(output[i].view, output[j].view, false))
                return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s: overlaps %s", output[i].name,
                                  output[j].name);
    }
    return ATTN_OK;
}

static attn_status check(attn__backward *b, const attn_ctx *ctx, const attn_backward_args *args,
                         attn_error *err)
{
    attn_backward_args *a = &b->args;

    memset(b, 0, sizeof *b);
    if (!ctx)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "ctx: NULL");
    TRY(attn__copy_struct(a, sizeof *a, args, "args", err));
    TRY(check_forward(b, ctx, err));
    b->has_delta = attn__present(&a->delta);
    b->has_dlse = attn__present(&a->dlse);
    b->wants_dq = attn__present(&a->dq);
    b->wants_dk = attn__present(&a->dk);
    b->wants_dv = attn__present(&a->dv);
    b->wants_dbias = attn__present(&a->dbias);
    b->wants_dsink = attn__present(&a->dsink);
    b->wants_dalibi = attn__present(&a->dalibi);
    b->has_rows = b->problem.rows > 0 && b->problem.heads > 0 && b->problem.sequences > 0;
    b->wants_ds = b->wants_dq || b->wants_dk || b->wants_dbias || b->wants_dalibi;
    TRY(check_inputs(b, err));
    TRY(check_outputs(b, err));
    TRY(check_overlap(b, err));
    attn__tame(&a->dout);
    attn__tame(&a->dq);
    attn__tame(&a->dk);
    attn__tame(&a->dv);
    attn__tame(&a->dbias);
    attn__tame(&a->dsink);
    attn__tame(&a->dalibi);
    return ATTN_OK;
}

/* --- Layout --------------------------------------------------------------------------------- */

attn__chunks attn__get_chunks(const attn__sequence *s)
{
    attn__chunks c = {.first_tile = s->k_pos / attn__tile, .count = 1};

    if (s->keys > 0)
        c.tiles = (size_t)((s->k_pos + s->keys - 1) / attn__tile - c.first_tile + 1);
    c.each = (c.tiles + MOST_CHUNKS - 1) / MOST_CHUNKS;
    if (c.each < LEAST_TILES)
        c.each = LEAST_TILES;
    if (c.tiles > 0)
        c.count = (c.tiles + c.each - 1) / c.each;
    return c;
}

/* Chunks of the longest sequence, and the multiply-adds of a forward call. */
static size_t measure(const attn__problem *p, double *work)
{
    size_t most = 1, count = attn__sequences_differ(p) ? p->sequences : attn__min(p->sequences, 1);

    *work = 0;
    for (size_t i = 0; i < count; i++) {
        attn__sequence s;
        size_t chunks;

        attn__get_sequence(p, i, &s);
        chunks = attn__get_chunks(&s).count;
        most = chunks > most ? chunks : most;
        *work += (double)(p->sequences / count) * (double)s.rows * (double)s.keys *
                 (double)p->heads * (double)(p->d + p->dv);
    }
    return most;
}

/* Bytes of arrays that all workers read and write, and their places. */
static bool cut_shared(attn__backward *b, char *base)
{
    const attn__problem *p = &b->problem;
    size_t real = p->f64 ? sizeof(double) : sizeof(float), columns = b->key_width + p->width;
    size_t rows, heads, slopes, turns, copies, at = 0;
    bool fits = true;

    fits &= attn__mul((size_t)p->args.q.size[0], p->heads, &rows);
    fits &= attn__mul(rows, (size_t)p->args.q.size[2], &rows);
    fits &= attn__mul(p->sequences, p->heads, &heads);
    fits &= attn__mul(heads, b->most_chunks * sizeof(double), &slopes);
    fits &= attn__mul(p->sequences * p->key_heads, b->chunks * sizeof *b->turn, &turns);
    fits &= attn__mul(rows, columns * real, &copies);
    if (!fits || rows > SIZE_MAX / 64 || slopes > SIZE_MAX / 16 || turns > SIZE_MAX / 16 ||
        copies > SIZE_MAX / 16)
        return false;
    if (!b->copies || b->in_turn)
        copies = 0;
    b->lse = attn__cut(base, &at, rows * real);
    b->delta = attn__cut(base, &at, rows * real);
    b->q = attn__cut(base, &at, copies / columns * b->key_width);
    b->dout = attn__cut(base, &at, copies / columns * p->width);
    b->sink_sum = attn__cut(base, &at, b->wants_dsink ? heads * sizeof(double) : 0);
    b->slope_sum = attn__cut(base, &at, b->wants_dalibi ? slopes : 0);
    b->turn = attn__cut(base, &at, b->takes_turns ? turns : 0);
    b->scratch = attn__cut(base, &at, 0);
    b->shared_size = at;
    return true;
}

/* Decides how the work is cut, with memory for running dq or (least) without. */
static bool lay_out(attn__backward *b, bool least)
{
    const attn__problem *p = &b->problem;
    size_t real = p->f64 ? sizeof(double) : sizeof(float), key_heads;
    size_t items, dq_size, tile, fits_in, total;
    bool fits = true;
    double work, copied;

    b->key_width = (p->d + 15) / 16 * 16;
    b->key_sweep = b->wants_dk || b->wants_dv || b->wants_dbias || b->wants_dalibi;
    b->query_sweep = b->wants_dq && (least || !b->key_sweep);
    b->most_chunks = b->chunks = measure(p, &work);
    b->threads = work < SMALL_CALL ? 1 : (size_t)p->ctx->threads;
    fits &= attn__mul(p->sequences, p->key_heads, &key_heads);
    fits &= attn__mul((size_t)p->rows, p->group, &b->rows_kept);
    if (!fits || b->rows_kept > SIZE_MAX / 64 / (b->key_width + p->width))
        return false;
    b->in_turn = b->threads == 1 || key_heads >= TURN_HEADS * b->threads;

    copied = (double)p->args.q.size[0] * (double)p->args.q.size[2] * (double)p->heads *
             (double)(b->key_width + p->width) * (double)real;
    b->copies = !least && b->key_sweep && (b->in_turn || copied <= COPY_SIZE);
    fits &= attn__mul(attn__tile * real, p->d + p->dv + 2 * b->key_width + p->width, &tile);
    b->pass_tiles = PASS_SIZE / tile < 1 ? 1 : attn__min(PASS_SIZE / tile, attn__most_tiles);
    fits_in = SWEEP_SIZE / (real * (p->d + p->width + 2 * b->key_width + 64));
    fits_in = attn__min(fits_in, SWEEP_ROWS) / attn__group * attn__group;
    b->sweep_rows = fits_in < attn__group ? attn__group : fits_in;

    fits &= attn__mul(b->rows_kept, b->key_width * real, &dq_size);
    fits &= attn__mul(dq_size, b->in_turn ? attn__min(b->chunks, 2) : b->chunks, &b->slot_size);
    b->slot_size = (b->slot_size + 63) / 64 * 64;
    if (!b->wants_dq || b->query_sweep)
        b->slot_size = 0;
    if (b->in_turn)
        b->chunks = 1;
    items = b->key_sweep ? key_heads * b->chunks
                         : key_heads * ((b->rows_kept + b->sweep_rows - 1) / b->sweep_rows);
    b->threads = attn__min(b->threads, items > 0 ? items : 1);
    b->takes_turns = b->wants_dbias && b->threads > 1;
    b->slots = b->slot_size > 0 ? attn__min(b->threads, key_heads) : 0;
    b->why = !b->key_sweep
                 ? "of dq, dk and dv at most dq is wanted: blocks of rows each go through all keys"
             : b->in_turn ? "a worker takes a key head's chunks in turn"
                          : "the chunks of a key head are shared out among workers";

    fits &= cut_shared(b, NULL);
    b->scratch_size = p->f64 ? attn__backward_scratch_f64(b) : attn__backward_scratch_f32(b);
    b->scratch_size = (b->scratch_size + 63) / 64 * 64;
    fits &= b->scratch_size < SIZE_MAX / 2;
    fits &= attn__mul(b->threads, b->scratch_size, &total);
    fits &= attn__add(total, b->shared_size, &total);
    fits &= attn__mul(b->slots, b->slot_size, &b->workspace_size);
    fits &= attn__add(total, b->workspace_size, &b->workspace_size);
    return fits;
}

/* --- Order of additions to dbias ------------------------------------------------------------- */

static size_t items_of_head(const void *job, size_t head)
{
    const attn__backward *b = job;
    attn__sequence s;

    if (b->in_turn)
        return 1;
    attn__get_sequence(&b->problem, head / b->problem.key_heads, &s);
    return attn__get_chunks(&s).count;
}

/* Items that add to the same cells form a chain and take turns in the order in which they are given
 * out. Which chain, and how many of its items come before this one. */
static size_t find_chain(const attn__backward *b, const attn__item *item, size_t *before)
{
    const attn__problem *p = &b->problem;
    const int64_t *size = b->args.dbias.size;
    size_t sequence = item->head / p->key_heads, head = item->head % p->key_heads;
    bool own_sequence = size[0] > 1, own_head = size[1] > 1;
    /* Chunks of one number cover the same columns if the sequences are alike. */
    bool own_chunk = size[3] > 1 && (own_sequence || !attn__sequences_differ(p));
    size_t earlier = 0;

    if (b->in_turn && !own_sequence)
        earlier = sequence * (own_head ? 1 : p->key_heads);
    /* Chunks are shared out only where sequences are few. */
    for (size_t i = 0; !b->in_turn && !own_sequence && i < sequence; i++)
        earlier +=
            (own_chunk ? 1 : items_of_head(b, i * p->key_heads)) * (own_head ? 1 : p->key_heads);
    earlier += own_head ? 0 : head * (own_chunk ? 1 : item->of);
    earlier += own_chunk ? 0 : item->index;
    *before = earlier;
    return ((own_sequence ? sequence : 0) * p->key_heads + (own_head ? head : 0)) * b->chunks +
           (own_chunk ? item->index : 0);
}

void attn__await_turn(const attn__backward *b, const attn__item *item)
{
    size_t before, chain = find_chain(b, item, &before);

    while (atomic_load_explicit(&b->turn[chain], memory_order_acquire) != before)
        attn__yield();
}

void attn__end_turn(const attn__backward *b, const attn__item *item)
{
    size_t before, chain = find_chain(b, item, &before);

    atomic_store_explicit(&b->turn[chain], before + 1, memory_order_release);
}

/* --- Running -------------------------------------------------------------------------------- */

void attn__clear_missing_keys(const attn__backward *b, size_t sequence, size_t key_head)
{
    const attn__problem *p = &b->problem;
    const attn_view *view[] = {&b->args.dk, &b->args.dv};
    attn__sequence s;
    int64_t all = p->k.size[2];

    attn__get_sequence(p, sequence, &s);
    if (p->mask.segments > 0)
        all = p->mask.k_starts[sequence + 1] - p->mask.k_starts[sequence];
    for (int i = 0; i < 2; i++) {
        int64_t h = (int64_t)key_head, first = s.k_row - s.column;

        if (!attn__present(view[i]))
            continue;
        attn__clear(view[i], s.k_batch, h, first, s.k_row);
        attn__clear(view[i], s.k_batch, h, s.k_row + s.keys, first + all);
    }
}

static size_t one(const void *job, size_t head)
{
    (void)job;
    (void)head;
    return 1;
}

static size_t items_of_rows(const void *job, size_t head)
{
    const attn__backward *b = job;
    attn__sequence s;

    attn__get_sequence(&b->problem, head / b->problem.key_heads, &s);
    return ((size_t)s.rows * b->problem.group + b->sweep_rows - 1) / b->sweep_rows;
}

/* Heads of sequences to prepare, unless the key sweep does, and (batch, head) of dbias to clear. */
static void prepare(attn__backward *b, size_t worker)
{
    const attn__problem *p = &b->problem;
    char *scratch = b->scratch + worker * b->scratch_size;
    size_t heads = b->key_sweep && b->in_turn ? 0 : p->sequences * p->heads;
    const attn_view *dbias = &b->args.dbias;
    attn__item item;

    while (attn__claim(&b->schedule, &item)) {
        if (item.head < heads)
            (p->f64 ? attn__backward_prepare_f64 : attn__backward_prepare_f32)(
                b, item.head / p->heads, item.head % p->heads, scratch);
        else
            attn__clear(dbias, (int64_t)(item.head - heads) / dbias->size[1],
                        (int64_t)(item.head - heads) % dbias->size[1], 0, dbias->size[2]);
        attn__item_done(&b->schedule, &item);
    }
}

static void sweep_keys(attn__backward *b, size_t worker)
{
    (b->problem.f64 ? attn__key_sweep_f64 : attn__key_sweep_f32)(b, worker);
}

static void sweep_queries(attn__backward *b, size_t worker)
{
    (b->problem.f64 ? attn__query_sweep_f64 : attn__query_sweep_f32)(b, worker);
}

typedef struct phase {
    attn__backward *b;
    void (*run)(attn__backward *b, size_t worker);
} phase;

static void work(void *arg, size_t worker)
{
    const phase *f = arg;
    uint64_t word = attn__fp_default();

    f->run(f->b, worker);
    attn__fp_restore(word);
}

/* dsink and dalibi: sums over the sequences that share the number. */
static void write_sums(const attn__backward *b, const attn_view *to, const double *sums)
{
    const attn__problem *p = &b->problem;

    for (int64_t i = 0; i < to->size[0]; i++)
        for (size_t h = 0; h < p->heads; h++) {
            size_t s = to->size[0] > 1 ? (size_t)i : 0;
            size_t end = to->size[0] > 1 ? s + 1 : p->sequences;
            double sum = 0;

            for (; s < end; s++)
                sum += sums[s * p->heads + h];
            attn__write(to, i, (int64_t)h, 0, sum);
        }
}

/* Sums of chunks to sums of heads, at the front of the same array. */
static void add_slopes(const attn__backward *b)
{
    const attn__problem *p = &b->problem;

    for (size_t s = 0; s < p->sequences; s++) {
        attn__sequence sequence;
        size_t chunks;

        attn__get_sequence(p, s, &sequence);
        chunks = attn__get_chunks(&sequence).count;
        for (size_t h = s * p->heads; h < (s + 1) * p->heads; h++) {
            double sum = 0;

            for (size_t c = 0; c < chunks; c++)
                sum += b->slope_sum[h * b->most_chunks + c];
            b->slope_sum[h] = sum;
        }
    }
}

/* Checks done, all memory at hand: nothing below can fail but by the progress callback. */
static attn_status compute(attn__backward *b, char *memory)
{
    const attn__problem *p = &b->problem;
    const attn_view *dbias = &b->args.dbias;
    size_t heads = p->sequences * p->key_heads;
    attn__slot slot[attn__max_threads];
    attn__schedule plain = {.ctx = p->ctx, .job = b}, part[3];
    phase run[3] = {{b, prepare}, {b, sweep_keys}, {b, sweep_queries}};
    uint64_t items[3], before = 0;

    cut_shared(b, memory);
    for (size_t i = 0; b->takes_turns && i < p->sequences * p->key_heads * b->chunks; i++)
        atomic_init(&b->turn[i], 0);
    for (size_t i = 0; i < b->slots; i++)
        slot[i].memory = b->scratch + b->threads * b->scratch_size + i * b->slot_size;
    part[0] = part[1] = part[2] = plain;
    part[0].items_of = one;
    part[0].heads = (b->key_sweep && b->in_turn ? 0 : p->sequences * p->heads) +
                    (b->wants_dbias ? (size_t)dbias->size[0] * (size_t)dbias->size[1] : 0);
    part[1].items_of = items_of_head;
    part[1].heads = b->key_sweep ? heads : 0;
    part[1].slot = slot;
    part[1].slot_count = b->slots;
    part[2].items_of = items_of_rows;
    part[2].heads = b->query_sweep ? heads : 0;
    for (int i = 0; i < 3; i++)
        items[i] = p->ctx->progress ? attn__schedule_items(&part[i]) : 0;
    for (int i = 0; i < 3; i++) {
        if (part[i].heads == 0) /* there is no memory for a sweep that does not run */
            continue;
        b->schedule = part[i];
        b->schedule.before = before;
        before += items[i];
        b->schedule.after = items[0] + items[1] + items[2] - before;
        attn__schedule_init(&b->schedule);
        attn__parallel(p->ctx, b->threads, work, &run[i]);
        if (atomic_load(&b->schedule.cancelled))
            return ATTN_E_CANCELLED;
    }
    if (b->wants_dsink)
        write_sums(b, &b->args.dsink, b->sink_sum);
    if (b->wants_dalibi) {
        add_slopes(b);
        write_sums(b, &b->args.dalibi, b->slope_sum);
    }
    return ATTN_OK;
}

static void clear_outputs(const attn__backward *b)
{
    const attn_view *view[] = {&b->args.dk, &b->args.dv, &b->args.dbias, &b->args.dsink,
                               &b->args.dalibi};

    for (size_t i = 0; i < sizeof view / sizeof *view; i++) {
        const int64_t *size = view[i]->size;
        bool empty = size[0] == 0 || size[1] == 0 || size[2] == 0 || size[3] == 0;

        for (int64_t s = 0; !empty && s < size[0]; s++)
            for (int64_t h = 0; h < size[1]; h++)
                attn__clear(view[i], s, h, 0, size[2]);
    }
}

/* A checked call, laid out; *least gets the workspace that it can do with. */
static attn_status prepare_call(attn__backward *b, size_t *least, const attn_ctx *ctx,
                                const attn_backward_args *args, attn_error *err)
{
    TRY(check(b, ctx, args, err));
    *least = 0;
    if (!b->has_rows) {
        b->why = "no query rows: zeros are all there is to write";
        b->threads = b->in_turn = 1;
        return ATTN_OK;
    }
    if (!lay_out(b, true))
        return attn__fail(err, ATTN_E_MEMORY, 0, "workspace: its size exceeds the address space");
    *least = b->workspace_size;
    if (!lay_out(b, false) || b->workspace_size < *least)
        lay_out(b, true);
    return ATTN_OK;
}

static attn_status backward(const attn_ctx *ctx, const attn_backward_args *args, attn_error *err)
{
    attn__backward b;
    attn__workspace w;
    attn_status st;
    size_t least;

    TRY(prepare_call(&b, &least, ctx, args, err));
    if (!b.has_rows) {
        clear_outputs(&b);
        return ATTN_OK;
    }
    TRY(attn__begin_workspace(&w, ctx, b.args.workspace, b.args.workspace_size, b.workspace_size,
                              least, "attn_backward_plan", err));
    if (w.size < b.workspace_size)
        lay_out(&b, true);
    st = compute(&b, w.memory);
    attn__end_workspace(ctx, &w);
    if (st == ATTN_E_CANCELLED)
        return attn__fail(err, st, 0, "progress: the callback asked to stop");
    return st;
}

static attn_status make_plan(const attn_ctx *ctx, const attn_backward_args *args, attn_plan *plan,
                             attn_error *err)
{
    attn__backward b;
    size_t least;

    TRY(attn__check_plan(plan, err));
    TRY(prepare_call(&b, &least, ctx, args, err));
    attn__fill_plan(plan, ctx, b.workspace_size, least, b.threads,
                    b.in_turn || !b.key_sweep ? "heads" : "chunks", b.why);
    return ATTN_OK;
}

attn_status attn_backward(const attn_ctx *ctx, const attn_backward_args *args, attn_error *err)
{
    uint64_t word = attn__fp_default();
    attn_status st = backward(ctx, args, err);

    attn__fp_restore(word);
    return st;
}

attn_status attn_backward_plan(const attn_ctx *ctx, const attn_backward_args *args, attn_plan *plan,
                               attn_error *err)
{
    uint64_t word = attn__fp_default();
    attn_status st = make_plan(ctx, args, plan, err);

    attn__fp_restore(word);
    return st;
}
