/* cache.h: what the rest of core may know of a cache. */
#ifndef ATTN_CORE_CACHE_H
#define ATTN_CORE_CACHE_H

#include "include/attn/attn.h"

#include <stdbool.h>

struct attn_cache {
    const attn_ctx *ctx;
    attn_cache_options options;
    attn_view k, v;      /* own memory or the caller's */
    void *own_k, *own_v; /* NULL over the caller's memory */
    /* Own keys do not lie as rows: they are kept packed, tile by tile, as the kernels read them, so
     * that reading is one stream. Then k is a view of sizes only. */
    bool tiled;
    float *k_scale, *v_scale; /* i8: what each row was divided by, [block][head][rows of its tiles]
                               */
    int64_t period; /* rows of a block: capacity or page, of a ring whole tiles more than that */
    int64_t *first, *length; /* [batch] */
    /* Paged: pages[sequence][position / page], -1 for none. The caller's table or, when the cache
     * deals out pages, its own, with a count of users and a stack of free pages. */
    const int32_t *table;
    int32_t *own_table;
    int64_t table_width;
    int32_t *users, *free_pages;
    int64_t free_count;
};

/* Memory of the rows of positions pos .. pos + run - 1; run <= n is returned. *k is NULL if the
 * cache is tiled. */
size_t attn__cache_run(const attn_cache *c, int64_t sequence, int64_t head, int64_t pos, size_t n,
                       void **k, void **v);

/* Tiled: the packed tile that holds position pos. */
void *attn__cache_tile(const attn_cache *c, int64_t sequence, int64_t head, int64_t pos);

/* Scales of the 64 rows of that tile; i8 caches only. */
const float *attn__cache_scales(const attn_cache *c, const float *scales, int64_t sequence,
                                int64_t head, int64_t pos);

/* Whether the caller's block table has pages for n rows from pos on; it may have changed since. */
attn_status attn__cache_check_pages(const attn_cache *c, int64_t sequence, int64_t pos, int64_t n,
                                    attn_error *err);

#endif
