/* schedule.h: hands out the items of a call, head by head, to whoever asks; keeps a slot of memory
 * for each head in flight; counts, reports and stops.
 *
 * Items are given out in order, so when the first item of a head is claimed each other unfinished
 * head has an item in the hands of another worker: as many slots as workers always suffice. */
#ifndef ATTN_CORE_SCHEDULE_H
#define ATTN_CORE_SCHEDULE_H

#include "include/attn/attn.h"

#include <stdatomic.h>
#include <stdbool.h>

typedef struct attn__slot {
    size_t head; /* SIZE_MAX: free */
    size_t left; /* items of the head not yet done */
    void *memory;
} attn__slot;

typedef struct attn__schedule {
    const attn_ctx *ctx;
    size_t (*items_of)(const void *job, size_t head);
    void (*open_slot)(const void *job, attn__slot *slot); /* under the lock; may be NULL */
    const void *job;
    size_t heads, slot_count;
    attn__slot *slot;
    uint64_t before, after; /* items of other schedules of the same call, for progress */

    atomic_flag lock, reporting;
    atomic_bool cancelled;
    atomic_uint_least64_t done;
    uint64_t total;           /* 0 unless progress is wanted */
    size_t head, item, items; /* next to give; items of that head */
} attn__schedule;

typedef struct attn__item {
    size_t head, index, of; /* item `index` of `of` of a head */
    attn__slot *slot;       /* NULL if the call has none */
} attn__item;

/* The caller has filled the fields above the blank line. */
void attn__schedule_init(attn__schedule *s);

/* Items in all. */
uint64_t attn__schedule_items(const attn__schedule *s);

/* False when nothing is left or the call is cancelled. */
bool attn__claim(attn__schedule *s, attn__item *item);

/* Counts the item and reports progress. True for the last item of its head: the slot is then the
 * caller's alone, until attn__release. */
bool attn__item_done(attn__schedule *s, const attn__item *item);
void attn__release(attn__schedule *s, const attn__item *item);

#endif
