/* layout.c: the choices behind attn_forward_plan. */
#include "src/core/layout.h"

#include "src/base/ctx.h"
#include "src/base/mem.h"
#include "src/core/cache.h"
#include "src/core/engine.h"
#include "src/core/stats.h"

enum {
    TILE = attn__tile,
    SHARED_ROWS = 258,     /* rows of an item when keys are packed once for many items */
    PRIVATE_ROWS = 1020,   /* and when each item packs for itself: enough to pay for packing */
    ROW_STATE = 3 << 19,   /* bytes of running results that should stay in the L2 cache */
    SLOT_LIMIT = 64 << 20, /* larger packed key heads would not stay in any cache anyway */
    SLOT_SLACK = 1 << 20,  /* padding that counts as part of a worker's tile memory */
    DECODE_ROWS = 16,      /* queries a sequence up to which keys may be split */
    SMALL_CALL = 1 << 20,  /* multiply-adds below which waking a worker costs more */
};

void *attn__cut(char *base, size_t *at, size_t size)
{
    char *piece = base ? base + *at : NULL;

    *at += (size + 63) / 64 * 64;
    return piece;
}

static size_t max(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Tiles of the longest sequence, in the worst case of where it lies on the grid. */
static void measure(attn__layout *l, const attn__problem *p, double *work)
{
    size_t count = attn__sequences_differ(p) ? p->sequences : attn__min(p->sequences, 1);

    *work = 0;
    for (size_t b = 0; b < count; b++) {
        attn__sequence s;
        size_t tiles, splits;

        attn__get_sequence(p, b, &s);
        tiles = (size_t)((s.k_pos % TILE + s.keys + TILE - 1) / TILE);
        splits = (size_t)((s.k_pos % attn__split + s.keys + attn__split - 1) / attn__split);
        l->tiles = max(l->tiles, tiles);
        l->splits = max(l->splits, splits);
        *work += (double)(p->sequences / count) * (double)s.rows * (double)s.keys *
                 (double)p->heads * (double)(p->d + p->dv);
    }
}

/* Rows whose running state fits into ROW_STATE, a multiple of the group. */
static size_t rows_that_fit(const attn__problem *p, size_t wanted)
{
    size_t real = p->f64 ? sizeof(double) : sizeof(float);
    size_t fit = ROW_STATE / (real * (p->d + 2 * p->width + 20));
    size_t rows = max(attn__min(fit, wanted) / attn__group * attn__group, attn__group);

    return rows;
}

/* The second sweep: what is kept from the first, memory of its workers. */
static bool lay_out_stats(attn__layout *l, const attn__problem *p, double work)
{
    size_t real = p->f64 ? sizeof(double) : sizeof(float), rows, turns, items, first, second;
    bool fits = true;

    fits &= attn__mul((size_t)p->args.q.size[0] * (size_t)p->args.q.size[2], p->heads, &rows);
    fits &= rows < SIZE_MAX / 64 && attn__mul(p->sequences, p->heads, &turns) &&
            attn__mul(turns, sizeof(atomic_size_t), &turns) && turns < SIZE_MAX / 2;
    if (!fits)
        return false;
    first = l->workspace_size;
    l->kept_size = 2 * ((rows * real + 63) / 64 * 64) + (turns + 63) / 64 * 64;
    fits &= attn__mul(p->sequences * p->heads, attn__stats_chunks, &items);
    l->stats_threads = work < SMALL_CALL ? 1 : attn__min((size_t)p->ctx->threads, max(items, 1));
    l->stats_scratch = attn__stats_scratch(p, l);
    fits &= l->stats_scratch < SIZE_MAX / 2;
    fits &= attn__mul(l->stats_threads, l->stats_scratch, &second);
    return fits & attn__add(l->kept_size, max(first, second), &l->workspace_size);
}

bool attn__layout_init(attn__layout *l, const attn__problem *p)
{
    size_t real = p->f64 ? sizeof(double) : sizeof(float);
    size_t head_rows = (size_t)p->rows * p->group, key_heads = p->sequences * p->key_heads;
    size_t packed, allowed, per_key, total;
    double work;
    bool fits = true;

    *l = (attn__layout){.threads = (size_t)p->ctx->threads};
    measure(l, p, &work);
    if (work < SMALL_CALL)
        l->threads = 1;

    fits &= attn__mul(l->tiles * TILE, p->d + p->width, &per_key);
    fits &= attn__mul(per_key, real, &packed);
    allowed = l->tiles * TILE * real * (p->d + p->dv) + SLOT_SLACK;
    l->block_rows = rows_that_fit(p, PRIVATE_ROWS);

    if (p->rows <= DECODE_ROWS && l->splits > 1 && l->threads > 1 && key_heads < 4 * l->threads &&
        head_rows <= l->block_rows && !p->has_weights) {
        l->split_key = true;
        l->why = "few query rows and key heads: keys are split among workers";
        l->slots = l->threads;
        l->slot_size = attn__record_size(p, l->splits, head_rows);
        l->threads = attn__min(l->threads, key_heads * l->splits);
    } else if (head_rows > SHARED_ROWS && !(p->cache && p->cache->tiled) &&
               packed <= attn__min(SLOT_LIMIT, allowed)) {
        l->shared = true;
        l->why = "keys and values are packed once for all row blocks of a key head";
        l->block_rows = rows_that_fit(p, SHARED_ROWS);
        l->slot_size = packed + (l->splits * sizeof(atomic_int) + 63) / 64 * 64;
        l->threads =
            attn__min(l->threads, key_heads * ((head_rows + l->block_rows - 1) / l->block_rows));
        l->slots = attn__min(l->threads, key_heads);
    } else {
        l->why = p->cache && p->cache->tiled ? "the cache keeps keys packed"
                 : head_rows <= SHARED_ROWS
                     ? "few rows a key head: tiles are packed as they are met"
                     : "packed keys would be too large to keep: tiles are "
                       "packed for each block of rows";
        l->threads =
            attn__min(l->threads, key_heads * ((head_rows + l->block_rows - 1) / l->block_rows));
    }
    l->block_rows =
        max(attn__min(l->block_rows, (head_rows + attn__group - 1) / attn__group * attn__group),
            attn__group);
    l->threads = max(l->threads, 1);
    l->scratch_size = attn__scratch_size(p, l);
    fits &= attn__mul(l->threads, l->scratch_size, &total);
    fits &= attn__mul(l->slots, l->slot_size, &packed);
    fits &= attn__add(total, packed, &l->workspace_size);
    fits &= l->scratch_size < SIZE_MAX / 2 && l->slot_size < SIZE_MAX / 2;
    if (fits && p->second_sweep)
        fits = lay_out_stats(l, p, work);
    return fits;
}
