/* layout.h: how a call is cut into work items and what memory they need. Decides speed and memory,
 * never a bit of the result. */
#ifndef ATTN_CORE_LAYOUT_H
#define ATTN_CORE_LAYOUT_H

#include "src/core/problem.h"

enum { attn__split = 512 }; /* a partial result is closed at each multiple of so many positions */

typedef struct attn__layout {
    /* Split-key: the items of a key head are its splits, each over all rows, merged by whoever ends
     * last. Else the items are blocks of rows, each over all keys. */
    bool split_key;
    /* Packed keys and values of a key head are kept in a slot and shared by its items. Else every
     * item packs one tile at a time into its own scratch memory. */
    bool shared;
    size_t block_rows;              /* rows of an item, at most */
    size_t threads;                 /* workers that take part */
    size_t slots;                   /* key heads in flight that need memory of their own */
    size_t splits;                  /* of the longest sequence */
    size_t tiles;                   /* of the longest sequence */
    size_t scratch_size, slot_size; /* bytes a worker and a slot need */
    size_t stats_threads,
        stats_scratch;     /* workers of a second sweep for statistics, bytes of each */
    size_t kept_size;      /* what it needs to know of the first, laid out first */
    size_t workspace_size; /* all together; the sweeps use the same memory in turn */
    const char *why;
} attn__layout;

/* False if a size does not fit in memory. */
bool attn__layout_init(attn__layout *l, const attn__problem *p);

/* A piece of `size` bytes, rounded up to a cache line, at base + *at; moves *at past it. With base
 * NULL only *at moves: the same code measures and cuts. */
void *attn__cut(char *base, size_t *at, size_t size);

#endif
