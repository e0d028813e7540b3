/* ctx.h: what a context holds. Made in core/ctx.c; read by every layer. */
#ifndef ATTN_BASE_CTX_H
#define ATTN_BASE_CTX_H

#include "include/attn/attn.h"

enum { attn__max_threads = 1024 };

struct attn__pool;
struct attn__kernels;

struct attn_ctx {
    attn_alloc_fn alloc; /* NULL: aligned_alloc and free */
    attn_free_fn free;
    void *alloc_user;
    attn_log_fn log;
    void *log_user;
    attn_progress_fn progress;
    void *progress_user;
    attn_parallel_for parallel_for; /* NULL: pool */
    void *parallel_user;
    int threads;
    size_t l2_size;          /* bytes of a core's second-level cache */
    struct attn__pool *pool; /* NULL when threads == 1 or parallel_for is given */
    const struct attn__kernels *kernels;
};

#endif
