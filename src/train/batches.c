/* batches.c: see batches.h. */
#include "src/train/batches.h"

#include "src/base/error.h"
#include "src/base/mem.h"

#include <stdlib.h>

typedef struct sort_key {
    int64_t bucket;
    uint64_t random;
    int64_t index;
} sort_key;

uint64_t attn__mix(uint64_t a, uint64_t b)
{
    uint64_t z = a + (b + 1) * 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

int64_t attn__source_length(const attn_corpus *c, int64_t i)
{
    return c->source_starts ? c->source_starts[i + 1] - c->source_starts[i] : 0;
}

int64_t attn__target_length(const attn_corpus *c, int64_t i)
{
    return c->target_starts[i + 1] - c->target_starts[i];
}

static int64_t longer(const attn_corpus *c, int64_t i)
{
    int64_t a = attn__source_length(c, i), b = attn__target_length(c, i);

    return a > b ? a : b;
}

attn_status attn__batches_init(attn__batches *b, const attn_ctx *ctx, const attn_corpus *corpus,
                               int64_t limit, int64_t bucket, uint64_t seed, attn_error *err)
{
    size_t n = (size_t)corpus->count, bytes;

    *b = (attn__batches){
        .ctx = ctx, .corpus = corpus, .limit = limit, .bucket = bucket, .seed = seed, .epoch = -1};
    if (attn__mul(n, sizeof(sort_key), &bytes)) {
        b->keys = attn__alloc(ctx, bytes);
        b->order = attn__alloc(ctx, n * sizeof *b->order);
        b->batch = attn__alloc(ctx, n * sizeof *b->batch);
    }
    if (b->keys && b->order && b->batch)
        return ATTN_OK;
    attn__batches_free(b);
    return attn__fail(err, ATTN_E_MEMORY, 0, "order of %zu sequences", n);
}

void attn__batches_free(attn__batches *b)
{
    attn__free(b->ctx, b->keys);
    attn__free(b->ctx, b->order);
    attn__free(b->ctx, b->batch);
    b->keys = NULL;
    b->order = NULL;
    b->batch = NULL;
}

/* A total order, so that any way of sorting gives the same. */
static int compare(const void *a, const void *b)
{
    const sort_key *x = a, *y = b;

    if (x->bucket != y->bucket)
        return x->bucket < y->bucket ? -1 : 1;
    if (x->random != y->random)
        return x->random < y->random ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

attn__run attn__cut_run(const attn_corpus *c, const int64_t *order, int64_t from, int64_t end,
                        int64_t limit)
{
    attn__run run = {from, from};
    int64_t source = 0, target = 0;

    for (; run.to < end; run.to++) {
        source += attn__source_length(c, order[run.to]);
        target += attn__target_length(c, order[run.to]);
        if (run.to > from && (source > limit || target > limit))
            break;
    }
    return run;
}

void attn__batches_epoch(attn__batches *b, int64_t epoch)
{
    uint64_t seed = attn__mix(b->seed, (uint64_t)epoch);
    sort_key *keys = b->keys;
    int64_t n = b->corpus->count;

    if (epoch == b->epoch)
        return;
    for (int64_t i = 0; i < n; i++)
        keys[i] = (sort_key){b->bucket > 0 ? longer(b->corpus, i) / b->bucket : 0,
                             attn__mix(seed, (uint64_t)i), i};
    qsort(keys, (size_t)n, sizeof *keys, compare);
    for (int64_t i = 0; i < n; i++)
        b->order[i] = keys[i].index;
    b->count = 0;
    for (int64_t at = 0; at < n; at = b->batch[b->count++].to)
        b->batch[b->count] = attn__cut_run(b->corpus, b->order, at, n, b->limit);
    for (int64_t i = b->count - 1; i > 0; i--) { /* Fisher and Yates; the bias is below 2^-30 */
        int64_t j = (int64_t)(attn__mix(seed ^ 0x5eed, (uint64_t)i) % (uint64_t)(i + 1));
        attn__run swap = b->batch[i];

        b->batch[i] = b->batch[j];
        b->batch[j] = swap;
    }
    b->epoch = epoch;
}
