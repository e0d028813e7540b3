/* buffer.h: arrays that grow, and a table of strings; memory through the context. */
#ifndef ATTN_TEXT_BUFFER_H
#define ATTN_TEXT_BUFFER_H

#include "include/attn/attn.h"

#include <stdbool.h>

/* No string, id, token or count of this kind. */
#define ATTN__NONE UINT32_MAX

/* Bytes, or elements of any one type. Zeroed memory with ctx set is empty. */
typedef struct attn__buffer {
    const attn_ctx *ctx;
    void *data;
    size_t size, room; /* in bytes */
} attn__buffer;

/* Room for `more` further bytes, which are not counted yet; NULL if there is no memory. */
void *attn__buffer_room(attn__buffer *b, size_t more);

/* Appends; false if there is no memory. */
bool attn__buffer_put(attn__buffer *b, const void *bytes, size_t size);
bool attn__buffer_text(attn__buffer *b, const char *text);

void attn__buffer_free(attn__buffer *b);

/* Distinct strings, numbered from 0 in the order of their coming; each is followed by a zero
 * byte. */
typedef struct attn__string {
    size_t start;
    uint32_t size, hash;
} attn__string;

typedef struct attn__strings {
    const attn_ctx *ctx;
    attn__buffer text;  /* bytes */
    attn__buffer items; /* attn__string */
    uint32_t *slots;    /* number + 1, 0: empty */
    size_t slot_count;  /* a power of two, or 0 */
    uint64_t seed;
} attn__strings;

void attn__strings_init(attn__strings *t, const attn_ctx *ctx);

/* Number of a string, ATTN__NONE if it is not there. */
uint32_t attn__strings_find(const attn__strings *t, const void *bytes, size_t size);

/* The same, adding it first if it is not there (*added says so); ATTN__NONE: no memory, or more
 * than 2^31 strings or 4 GB in one. */
uint32_t attn__strings_add(attn__strings *t, const void *bytes, size_t size, bool *added);

const char *attn__strings_get(const attn__strings *t, uint32_t number, size_t *size);
size_t attn__strings_count(const attn__strings *t);

/* Empties it, keeping the memory. */
void attn__strings_clear(attn__strings *t);
void attn__strings_free(attn__strings *t);

/* Numbers by keys of 64 bits. Zeroed memory with ctx set is empty. */
typedef struct attn__entry {
    uint64_t key;
    uint32_t value; /* ATTN__NONE: free */
} attn__entry;

typedef struct attn__table {
    const attn_ctx *ctx;
    attn__entry *entries;
    size_t room, count; /* room: a power of two, or 0 */
    uint64_t seed;
} attn__table;

static inline uint64_t attn__mix(uint64_t x)
{
    x = (x ^ x >> 32) * 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 29) * 0xbf58476d1ce4e5b9u;
    return x ^ x >> 32;
}

/* The value of a key, ATTN__NONE if it is not there. */
static inline uint32_t attn__table_get(const attn__table *m, uint64_t key)
{
    if (m->room == 0)
        return ATTN__NONE;
    for (size_t i = (size_t)attn__mix(key ^ m->seed);; i++) {
        const attn__entry *e = &m->entries[i & (m->room - 1)];
        if (e->value == ATTN__NONE || e->key == key)
            return e->value;
    }
}

/* Where the value of a key stands, for reading and changing, until the next call: ATTN__NONE if the
 * key is new, and then it must be set. NULL: no memory. */
uint32_t *attn__table_at(attn__table *m, uint64_t key);
void attn__table_free(attn__table *m);

#endif
