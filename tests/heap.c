/* heap.c: see heap.h. */
#include "tests/heap.h"

#include "tests/expect.h"

#include <stdlib.h>
#include <string.h>

static void *take(void *user, size_t size, size_t align)
{
    heap *h = user;
    long n = atomic_fetch_add(&h->calls, 1) + 1;
    void *p;

    CHECK(align >= 16 && (align & (align - 1)) == 0);
    if (h->fail_at && (n == h->fail_at || (h->sticky && n > h->fail_at)))
        return NULL;
    p = aligned_alloc(align, (size + align - 1) / align * align);
    if (p) {
        memset(p, 0xcd, size); /* nobody may count on zeros */
        atomic_fetch_add(&h->live, 1);
    }
    return p;
}

static void give(void *user, void *memory)
{
    heap *h = user;

    CHECK(memory != NULL);
    atomic_fetch_sub(&h->live, 1);
    free(memory);
}

attn_status heap_try_ctx(heap *h, attn_kernel_set set, int threads, attn_ctx **ctx, attn_error *err)
{
    attn_ctx_options o = ATTN_CTX_OPTIONS_INIT;

    o.kernels = set;
    o.threads = threads;
    o.alloc = take;
    o.free = give;
    o.alloc_user = h;
    return attn_ctx_create(&o, ctx, err);
}

attn_ctx *heap_ctx(heap *h, attn_kernel_set set, int threads)
{
    attn_ctx *ctx = NULL;

    CHECK(heap_try_ctx(h, set, threads, &ctx, NULL) == ATTN_OK);
    return ctx;
}
