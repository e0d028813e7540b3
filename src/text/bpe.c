/* bpe.c: a word to ids by byte-pair encoding.
 *
 * The symbols of a word form a list; each knows the place of the merge it makes with its right
 * neighbour. The merge with the lowest place is done first, the leftmost of equal ones. Up to
 * SHORT symbols a scan finds it; above, a heap of (place, symbol), whose entries are dropped when
 * the symbol's merge is no longer the one they name. */
#include "src/text/bpe.h"

#include "src/base/mem.h"
#include "src/text/unicode.h"

#include <string.h>

enum { SHORT = 24 };

typedef struct symbol {
    uint32_t id;
    uint32_t place;          /* of the merge with the next one; ATTN__NONE */
    uint32_t previous, next; /* ATTN__NONE at the ends */
} symbol;

void attn__bpe_free(const attn_ctx *ctx, attn__bpe *model)
{
    attn__strings_free(&model->names);
    attn__table_free(&model->pairs);
    attn__free(ctx, model->ids);
    attn__free(ctx, model->merged);
    attn__free(ctx, model->prefix);
    attn__free(ctx, model->suffix);
}

static uint32_t place_of(const attn__bpe *m, uint32_t left, uint32_t right)
{
    return attn__table_get(&m->pairs, (uint64_t)left << 32 | right);
}

/* --- Symbols -------------------------------------------------------------------------------- */

typedef struct spelling {
    const attn__bpe *model;
    attn__bpe_work *work;
    uint32_t unknown; /* waits, so that those behind can fuse with it; ATTN__NONE */
    bool full;        /* no memory */
} spelling;

static void add_symbol(spelling *s, uint32_t id)
{
    symbol item = {id, ATTN__NONE, ATTN__NONE, ATTN__NONE};

    s->full = s->full || !attn__buffer_put(&s->work->symbols, &item, sizeof item);
}

static void flush_unknown(spelling *s)
{
    if (s->unknown != ATTN__NONE)
        add_symbol(s, s->unknown);
    s->unknown = ATTN__NONE;
}

/* The character's spelling in the vocabulary: with prefix unless first, with suffix if last. */
static const char *spell(spelling *s, const char *c, size_t *size, bool first, bool last)
{
    const attn__bpe *m = s->model;
    attn__buffer *b = &s->work->spelling;

    if ((first || !m->prefix) && (!last || !m->suffix))
        return c;
    b->size = 0;
    if ((!first && m->prefix && !attn__buffer_text(b, m->prefix)) ||
        !attn__buffer_put(b, c, *size) || (last && m->suffix && !attn__buffer_text(b, m->suffix)))
        s->full = true;
    *size = b->size;
    return b->data;
}

/* Bytes of a character that is not in the vocabulary. False if one of them has no token either. */
static bool fall_back(spelling *s, const char *c, size_t size)
{
    if (!s->model->byte_fallback)
        return false;
    for (size_t i = 0; i < size; i++)
        if (s->model->byte[(unsigned char)c[i]] == ATTN__NONE)
            return false;
    for (size_t i = 0; i < size; i++)
        add_symbol(s, s->model->byte[(unsigned char)c[i]]);
    return true;
}

static void add_character(spelling *s, const char *c, size_t size, bool first, bool last, bool raw)
{
    const attn__bpe *m = s->model;
    uint32_t name;

    c = spell(s, c, &size, first, last);
    if (s->full)
        return;
    name = raw ? ATTN__NONE : attn__strings_find(&m->names, c, size);
    if (name != ATTN__NONE) {
        flush_unknown(s);
        add_symbol(s, m->ids[name]);
        return;
    }
    if (fall_back(s, c, size))
        return;
    if (m->unknown != ATTN__NONE && !m->fuse_unknown)
        flush_unknown(s);
    s->unknown = m->unknown;
}

/* The word's first symbols, linked. False: no memory. */
static bool spell_word(const attn__bpe *m, attn__bpe_work *w, const char *word, size_t size,
                       bool raw)
{
    spelling s = {m, w, ATTN__NONE, false};
    symbol *list;
    size_t count;

    w->symbols.size = 0;
    for (size_t at = 0, n; at < size && !s.full; at += n) {
        n = raw ? 1 : attn__utf8_size((unsigned char)word[at]);
        add_character(&s, word + at, n, at == 0, at + n >= size, raw);
    }
    flush_unknown(&s);
    if (s.full)
        return false;
    list = w->symbols.data;
    count = w->symbols.size / sizeof *list;
    for (size_t i = 0; i < count; i++) {
        list[i].previous = i > 0 ? (uint32_t)i - 1 : ATTN__NONE;
        list[i].next = i + 1 < count ? (uint32_t)i + 1 : ATTN__NONE;
        if (i + 1 < count)
            list[i].place = place_of(m, list[i].id, list[i + 1].id);
    }
    return true;
}

/* --- Merging -------------------------------------------------------------------------------- */

/* Joins symbol i with its right neighbour, which leaves the list. */
static void join(const attn__bpe *m, symbol *list, uint32_t i)
{
    symbol *s = &list[i], *gone = &list[s->next];

    s->id = m->merged[s->place];
    s->next = gone->next;
    gone->place = ATTN__NONE;
    s->place = ATTN__NONE;
    if (s->next != ATTN__NONE) {
        list[s->next].previous = i;
        s->place = place_of(m, s->id, list[s->next].id);
    }
    if (s->previous != ATTN__NONE)
        list[s->previous].place = place_of(m, list[s->previous].id, s->id);
}

static void merge_short(const attn__bpe *m, symbol *list)
{
    for (;;) {
        uint32_t best = 0;
        for (uint32_t i = 0; i != ATTN__NONE; i = list[i].next)
            if (list[i].place < list[best].place)
                best = i;
        if (list[best].place == ATTN__NONE)
            return;
        join(m, list, best);
    }
}

static bool push(attn__buffer *heap, uint64_t key)
{
    size_t i = heap->size / sizeof key;
    uint64_t *h;

    if (!attn__buffer_put(heap, &key, sizeof key))
        return false;
    h = heap->data;
    for (; i > 0 && h[(i - 1) / 2] > key; i = (i - 1) / 2)
        h[i] = h[(i - 1) / 2];
    h[i] = key;
    return true;
}

static uint64_t pop(attn__buffer *heap)
{
    uint64_t *h = heap->data, least = h[0], last;
    size_t count = heap->size / sizeof last - 1, i = 0, child;

    last = h[count];
    heap->size = count * sizeof last;
    while ((child = 2 * i + 1) < count) {
        child += child + 1 < count && h[child + 1] < h[child];
        if (h[child] >= last)
            break;
        h[i] = h[child];
        i = child;
    }
    h[i] = last;
    return least;
}

static bool push_place(attn__buffer *heap, const symbol *list, uint32_t i)
{
    return i == ATTN__NONE || list[i].place == ATTN__NONE ||
           push(heap, (uint64_t)list[i].place << 32 | i);
}

static bool merge_long(const attn__bpe *m, symbol *list, size_t count, attn__buffer *heap)
{
    heap->size = 0;
    for (size_t i = 0; i < count; i++)
        if (!push_place(heap, list, (uint32_t)i))
            return false;
    while (heap->size > 0) {
        uint64_t key = pop(heap);
        uint32_t i = (uint32_t)key;
        if (list[i].place != key >> 32)
            continue; /* merged since, or a neighbour was */
        join(m, list, i);
        if (!push_place(heap, list, i) || !push_place(heap, list, list[i].previous))
            return false;
    }
    return true;
}

bool attn__bpe_word(const attn__bpe *m, attn__bpe_work *w, const char *word, size_t size, bool raw,
                    attn__buffer *ids)
{
    symbol *list;
    size_t count;

    if (m->ignore_merges && !raw) {
        uint32_t name = attn__strings_find(&m->names, word, size);
        if (name != ATTN__NONE)
            return attn__buffer_put(ids, &m->ids[name], sizeof *m->ids);
    }
    if (!spell_word(m, w, word, size, raw))
        return false;
    list = w->symbols.data;
    count = w->symbols.size / sizeof *list;
    if (count == 0)
        return true;
    if (count <= SHORT)
        merge_short(m, list);
    else if (!merge_long(m, list, count, &w->heap))
        return false;
    for (uint32_t i = 0; i != ATTN__NONE; i = list[i].next)
        if (!attn__buffer_put(ids, &list[i].id, sizeof list[i].id))
            return false;
    return true;
}
