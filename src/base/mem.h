/* mem.h: allocation through the context's allocator, and size arithmetic that cannot wrap. */
#ifndef ATTN_BASE_MEM_H
#define ATTN_BASE_MEM_H

#include "include/attn/attn.h"

#include <stdbool.h>

/* Memory aligned to 64 bytes (a cache line and the widest vector), or NULL. A NULL ctx means
 * aligned_alloc and free. A size of 0 gives memory that can be freed. */
void *attn__alloc(const attn_ctx *ctx, size_t size);

/* The same, zeroed. */
void *attn__new(const attn_ctx *ctx, size_t size);

/* Gives back what attn__alloc or attn__new returned on the same ctx; NULL is fine. */
void attn__free(const attn_ctx *ctx, void *memory);

/* *out = a * b and *out = a + b; false if the result does not fit, then *out is SIZE_MAX. */
bool attn__mul(size_t a, size_t b, size_t *out);
bool attn__add(size_t a, size_t b, size_t *out);

static inline size_t attn__min(size_t a, size_t b)
{
    return a < b ? a : b;
}

#endif
