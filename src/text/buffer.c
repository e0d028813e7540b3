/* buffer.c: growing arrays and hash tables.
 *
 * Keys come from files, so tables are seeded with an address, which the system randomises: a file
 * cannot aim at one chain. No result depends on the order of a table. */
#include "src/text/buffer.h"

#include "src/base/mem.h"

#include <string.h>

void *attn__buffer_room(attn__buffer *b, size_t more)
{
    size_t need, room;
    void *grown;

    if (!attn__add(b->size, more, &need))
        return NULL;
    if (need > b->room || !b->data) {
        room = b->room < 256 ? 256 : b->room;
        while (room < need && room <= SIZE_MAX / 2)
            room *= 2;
        room = room < need ? need : room;
        grown = attn__alloc(b->ctx, room);
        if (!grown)
            return NULL;
        if (b->size)
            memcpy(grown, b->data, b->size);
        attn__free(b->ctx, b->data);
        b->data = grown;
        b->room = room;
    }
    return (char *)b->data + b->size;
}

bool attn__buffer_put(attn__buffer *b, const void *bytes, size_t size)
{
    void *at = attn__buffer_room(b, size);

    if (!at)
        return false;
    if (size)
        memcpy(at, bytes, size);
    b->size += size;
    return true;
}

bool attn__buffer_text(attn__buffer *b, const char *text)
{
    return attn__buffer_put(b, text, strlen(text));
}

void attn__buffer_free(attn__buffer *b)
{
    attn__free(b->ctx, b->data);
    b->data = NULL;
    b->size = b->room = 0;
}

/* --- Strings -------------------------------------------------------------------------------- */

void attn__strings_init(attn__strings *t, const attn_ctx *ctx)
{
    memset(t, 0, sizeof *t);
    t->ctx = t->text.ctx = t->items.ctx = ctx;
}

static uint32_t hash_bytes(uint64_t seed, const unsigned char *s, size_t size)
{
    uint64_t h = seed ^ size, word;

    for (; size >= 8; size -= 8, s += 8) {
        memcpy(&word, s, 8);
        h = (h ^ word) * 0x9e3779b97f4a7c15u;
        h ^= h >> 29;
    }
    word = 0;
    if (size)
        memcpy(&word, s, size);
    h = attn__mix(h ^ word);
    return (uint32_t)h;
}

static uint32_t find(const attn__strings *t, const void *bytes, size_t size, uint32_t hash,
                     size_t *slot)
{
    const attn__string *items = t->items.data;
    const char *text = t->text.data;

    for (size_t i = hash & (t->slot_count - 1);; i = (i + 1) & (t->slot_count - 1)) {
        uint32_t n = t->slots[i];
        *slot = i;
        if (n == 0)
            return ATTN__NONE;
        if (items[n - 1].hash == hash && items[n - 1].size == size &&
            (size == 0 || memcmp(text + items[n - 1].start, bytes, size) == 0))
            return n - 1;
    }
}

uint32_t attn__strings_find(const attn__strings *t, const void *bytes, size_t size)
{
    size_t slot;

    if (t->slot_count == 0)
        return ATTN__NONE;
    return find(t, bytes, size, hash_bytes(t->seed, bytes, size), &slot);
}

/* Twice the slots, at least 64. */
static bool more_slots(attn__strings *t)
{
    size_t count = t->slot_count ? t->slot_count * 2 : 64, used = attn__strings_count(t), bytes;
    const attn__string *items = t->items.data;
    uint32_t *slots;

    if (!attn__mul(count, sizeof *slots, &bytes) || !(slots = attn__new(t->ctx, bytes)))
        return false;
    if (!t->seed)
        t->seed = attn__mix((uintptr_t)slots) | 1;
    for (size_t n = 0; n < used; n++) {
        size_t i = items[n].hash & (count - 1);
        while (slots[i])
            i = (i + 1) & (count - 1);
        slots[i] = (uint32_t)n + 1;
    }
    attn__free(t->ctx, t->slots);
    t->slots = slots;
    t->slot_count = count;
    return true;
}

uint32_t attn__strings_add(attn__strings *t, const void *bytes, size_t size, bool *added)
{
    size_t count = attn__strings_count(t), slot;
    attn__string item = {t->text.size, (uint32_t)size, 0};
    uint32_t n;

    *added = false;
    if (size >= UINT32_MAX || count >= INT32_MAX || t->text.size > SIZE_MAX - size - 1)
        return ATTN__NONE;
    if (count + 1 > t->slot_count / 2 && !more_slots(t))
        return ATTN__NONE;
    item.hash = hash_bytes(t->seed, bytes, size);
    n = find(t, bytes, size, item.hash, &slot);
    if (n != ATTN__NONE)
        return n;
    if (!attn__buffer_room(&t->text, size + 1) || !attn__buffer_put(&t->items, &item, sizeof item))
        return ATTN__NONE;
    attn__buffer_put(&t->text, bytes, size);
    attn__buffer_put(&t->text, "", 1);
    t->slots[slot] = (uint32_t)count + 1;
    *added = true;
    return (uint32_t)count;
}

const char *attn__strings_get(const attn__strings *t, uint32_t number, size_t *size)
{
    const attn__string *item = (const attn__string *)t->items.data + number;

    if (size)
        *size = item->size;
    return (const char *)t->text.data + item->start;
}

size_t attn__strings_count(const attn__strings *t)
{
    return t->items.size / sizeof(attn__string);
}

void attn__strings_clear(attn__strings *t)
{
    t->text.size = t->items.size = 0;
    if (t->slots)
        memset(t->slots, 0, t->slot_count * sizeof *t->slots);
}

void attn__strings_free(attn__strings *t)
{
    attn__buffer_free(&t->text);
    attn__buffer_free(&t->items);
    attn__free(t->ctx, t->slots);
    t->slots = NULL;
    t->slot_count = 0;
}

/* --- Numbers -------------------------------------------------------------------------------- */

static attn__entry *place(attn__entry *entries, size_t room, uint64_t seed, uint64_t key)
{
    size_t i = (size_t)attn__mix(key ^ seed);

    while (entries[i & (room - 1)].value != ATTN__NONE && entries[i & (room - 1)].key != key)
        i++;
    return &entries[i & (room - 1)];
}

static bool more_entries(attn__table *m)
{
    size_t room = m->room ? m->room * 2 : 64, bytes;
    attn__entry *entries;

    if (!attn__mul(room, sizeof *entries, &bytes) || !(entries = attn__alloc(m->ctx, bytes)))
        return false;
    if (!m->seed)
        m->seed = attn__mix((uintptr_t)entries) | 1;
    for (size_t i = 0; i < room; i++)
        entries[i].value = ATTN__NONE;
    for (size_t i = 0; i < m->room; i++)
        if (m->entries[i].value != ATTN__NONE)
            *place(entries, room, m->seed, m->entries[i].key) = m->entries[i];
    attn__free(m->ctx, m->entries);
    m->entries = entries;
    m->room = room;
    return true;
}

uint32_t *attn__table_at(attn__table *m, uint64_t key)
{
    attn__entry *e;

    if (m->count + 1 > m->room / 2 && !more_entries(m))
        return NULL;
    e = place(m->entries, m->room, m->seed, key);
    if (e->value == ATTN__NONE) {
        e->key = key;
        m->count++;
    }
    return &e->value;
}

void attn__table_free(attn__table *m)
{
    attn__free(m->ctx, m->entries);
    m->entries = NULL;
    m->room = m->count = 0;
}
