/* bytes.h: a cursor that never leaves its block, and little-endian numbers.
 *
 * Every reader of a file walks with this and not with a bare pointer: a step that does not fit
 * fails and leaves the cursor where it was. Numbers are put together from bytes, so neither
 * alignment nor the byte order of the machine matters. */
#ifndef ATTN_BASE_BYTES_H
#define ATTN_BASE_BYTES_H

#include "src/base/compiler.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct attn__bytes {
    const unsigned char *data;
    size_t size;
    size_t at;     /* never above size */
    uint64_t base; /* where data[0] lies in the file; for messages only */
} attn__bytes;

ATTN__INLINE attn__bytes attn__bytes_over(const void *data, size_t size, uint64_t base)
{
    attn__bytes b = {(const unsigned char *)data, size, 0, base};

    return b;
}

ATTN__INLINE size_t attn__bytes_left(const attn__bytes *b)
{
    return b->size - b->at;
}

/* Place of the cursor in the file, for an error message. */
ATTN__INLINE uint64_t attn__bytes_offset(const attn__bytes *b)
{
    return b->base + b->at;
}

/* Moves to `at`, counted from the start of the block. */
ATTN__INLINE bool attn__bytes_seek(attn__bytes *b, uint64_t at)
{
    if (at > b->size)
        return false;
    b->at = (size_t)at;
    return true;
}

/* The next n bytes, stepping over them; NULL if there are fewer. */
ATTN__INLINE const unsigned char *attn__bytes_take(attn__bytes *b, uint64_t n)
{
    const unsigned char *p = b->data + b->at;

    if (n > attn__bytes_left(b))
        return NULL;
    b->at += (size_t)n;
    return p;
}

/* The next byte without stepping over it; -1 at the end. */
ATTN__INLINE int attn__bytes_peek(const attn__bytes *b)
{
    return b->at < b->size ? b->data[b->at] : -1;
}

/* A little-endian number of n bytes, 1 <= n <= 8. */
ATTN__INLINE bool attn__bytes_le(attn__bytes *b, size_t n, uint64_t *out)
{
    const unsigned char *p = attn__bytes_take(b, n);
    uint64_t v = 0;

    if (!p)
        return false;
    for (size_t i = n; i > 0; i--)
        v = v << 8 | p[i - 1];
    *out = v;
    return true;
}

/* Writes the low n bytes of v, lowest first, and returns the place behind them. */
ATTN__INLINE unsigned char *attn__put_le(unsigned char *at, uint64_t v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        at[i] = (unsigned char)(v >> (8 * i));
    return at + n;
}

#endif
