/* pool.h: workers that help a calling thread. */
#ifndef ATTN_BASE_POOL_H
#define ATTN_BASE_POOL_H

#include "include/attn/attn.h"

typedef struct attn__pool attn__pool;
typedef void (*attn__work_fn)(void *arg, size_t worker);

/* Starts up to `workers` threads; *started tells how many came to life, which may be fewer. NULL
 * only when memory or the pool's own locks fail. */
attn__pool *attn__pool_create(const attn_ctx *ctx, int workers, int *started);
void attn__pool_destroy(const attn_ctx *ctx, attn__pool *pool);

/* Runs work(arg, 0) on the calling thread and, as far as the context has idle workers, work(arg,
 * 1), ... work(arg, width - 1) beside it, each at most once; returns when all that began have
 * ended. Each call must therefore take its share from a common queue until that is empty. Never
 * fails: without workers, and in a forked child (which has none), only work(arg, 0) runs. With the
 * caller's own parallel-for all `width` calls are made, in whatever order it likes. */
void attn__parallel(const attn_ctx *ctx, size_t width, attn__work_fn work, void *arg);

#endif
