/* mem.c: the one place that calls the C allocator. */
#include "src/base/mem.h"

#include "src/base/ctx.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGN = 64 };

void *attn__alloc(const attn_ctx *ctx, size_t size)
{
    size_t padded;

    /* aligned_alloc wants a multiple of the alignment; at least one line, so that an empty block is
     * not mistaken for failure. */
    if (!attn__add(size, ALIGN - 1, &padded))
        return NULL;
    padded &= ~(size_t)(ALIGN - 1);
    if (padded == 0)
        padded = ALIGN;
    if (ctx && ctx->alloc)
        return ctx->alloc(ctx->alloc_user, padded, ALIGN);
    return aligned_alloc(ALIGN, padded);
}

void *attn__new(const attn_ctx *ctx, size_t size)
{
    void *p = attn__alloc(ctx, size);

    if (p)
        memset(p, 0, size);
    return p;
}

void attn__free(const attn_ctx *ctx, void *memory)
{
    if (!memory)
        return;
    if (ctx && ctx->alloc)
        ctx->free(ctx->alloc_user, memory);
    else
        free(memory);
}

bool attn__mul(size_t a, size_t b, size_t *out)
{
    bool fits = b == 0 || a <= SIZE_MAX / b;

    *out = fits ? a * b : SIZE_MAX;
    return fits;
}

bool attn__add(size_t a, size_t b, size_t *out)
{
    bool fits = a <= SIZE_MAX - b;

    *out = fits ? a + b : SIZE_MAX;
    return fits;
}
