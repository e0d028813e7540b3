/* schedule.c: see schedule.h. The lock is held for a few instructions per item. */
#include "src/core/schedule.h"

#include "src/base/ctx.h"
#include "src/base/platform.h"

static void lock(attn__schedule *s)
{
    for (int spins = 0; atomic_flag_test_and_set_explicit(&s->lock, memory_order_acquire);)
        if (++spins % 64 == 0)
            attn__yield();
}

static void unlock(attn__schedule *s)
{
    atomic_flag_clear_explicit(&s->lock, memory_order_release);
}

uint64_t attn__schedule_items(const attn__schedule *s)
{
    uint64_t items = 0;

    for (size_t i = 0; i < s->heads; i++)
        items += s->items_of(s->job, i);
    return items;
}

void attn__schedule_init(attn__schedule *s)
{
    atomic_flag_clear(&s->lock);
    atomic_flag_clear(&s->reporting);
    atomic_init(&s->cancelled, false);
    atomic_init(&s->done, s->before);
    s->total = s->ctx->progress ? s->before + attn__schedule_items(s) + s->after : 0;
    s->head = s->item = 0;
    s->items = s->heads > 0 ? s->items_of(s->job, 0) : 0;
    for (size_t i = 0; i < s->slot_count; i++)
        s->slot[i].head = SIZE_MAX;
}

static attn__slot *slot_of(attn__schedule *s, size_t head)
{
    attn__slot *slot = s->slot;

    while (slot->head != head)
        slot++;
    return slot;
}

bool attn__claim(attn__schedule *s, attn__item *item)
{
    bool found;

    if (atomic_load_explicit(&s->cancelled, memory_order_relaxed))
        return false;
    lock(s);
    while (s->head < s->heads && s->item == s->items) {
        s->item = 0;
        if (++s->head < s->heads)
            s->items = s->items_of(s->job, s->head);
    }
    found = s->head < s->heads;
    if (found) {
        *item = (attn__item){s->head, s->item, s->items, NULL};
        if (s->slot_count > 0 && s->item == 0) {
            item->slot = slot_of(s, SIZE_MAX);
            item->slot->head = s->head;
            item->slot->left = s->items;
            if (s->open_slot)
                s->open_slot(s->job, item->slot);
        } else if (s->slot_count > 0) {
            item->slot = slot_of(s, s->head);
        }
        s->item++;
    }
    unlock(s);
    return found;
}

/* One worker reports at a time; what others finish meanwhile it reports as well, so that the last
 * report is of all work done. */
static void report(attn__schedule *s)
{
    uint64_t told;

    do {
        if (atomic_flag_test_and_set(&s->reporting))
            return;
        told = atomic_load(&s->done);
        if (s->ctx->progress(s->ctx->progress_user, told, s->total))
            atomic_store(&s->cancelled, true);
        atomic_flag_clear(&s->reporting);
    } while (atomic_load(&s->done) != told);
}

bool attn__item_done(attn__schedule *s, const attn__item *item)
{
    bool last = false;

    atomic_fetch_add(&s->done, 1);
    if (s->ctx->progress)
        report(s);
    if (item->slot) {
        lock(s);
        last = --item->slot->left == 0;
        unlock(s);
    }
    return last;
}

void attn__release(attn__schedule *s, const attn__item *item)
{
    lock(s);
    item->slot->head = SIZE_MAX;
    unlock(s);
}
