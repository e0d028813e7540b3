/* heap.h: an allocator for contexts that counts, and fails on demand. */
#ifndef ATTN_TESTS_HEAP_H
#define ATTN_TESTS_HEAP_H

#include "include/attn/attn.h"

#include <stdatomic.h>

typedef struct heap {
    atomic_long calls, live; /* so far; of memory that is not yet given back */
    long fail_at;            /* 0: never; else the number of the call that fails, from 1 */
    int sticky;              /* all later ones too */
} heap;

/* Makes a context that takes its memory from h. heap_ctx fails the test if it cannot. */
attn_status heap_try_ctx(heap *h, attn_kernel_set set, int threads, attn_ctx **ctx,
                         attn_error *err);
attn_ctx *heap_ctx(heap *h, attn_kernel_set set, int threads);

#endif
