/* learn_merges.c: which pairs become pieces.
 *
 * Counts of all pairs are kept, and for each pair the words it was seen in. Joining a pair walks
 * only those words and corrects the counts of the neighbours, so the time is near the number of
 * joins that happen, not merges times text. The queue holds a pair under the count it had when it
 * was put there. Counts only fall but when a pair gets new occurrences, and then it is put there
 * again, so an entry that is out of date can be corrected when it comes up. */
#include "src/base/ctx.h"
#include "src/base/error.h"
#include "src/text/learn.h"

#include <string.h>

typedef struct pair {
    uint64_t key; /* left << 32 | right */
    uint64_t count;
    uint32_t seen; /* first of a list of places; ATTN__NONE */
    bool merged;   /* it is in the list of merges */
    bool risen;    /* in this step */
} pair;

/* Lists of words, all in one buffer. */
typedef struct place {
    uint32_t word;
    uint32_t next;
} place;

typedef struct entry {
    uint64_t count, key;
    uint32_t pair;
} entry;

typedef struct counting {
    attn__learner *l;
    attn__table index; /* key: number in pairs */
    attn__buffer pairs, places, queue;
    attn__buffer risen;   /* numbers of pairs that rose in this step */
    uint32_t free_places; /* list */
    bool full;            /* no memory */
} counting;

/* --- The queue ------------------------------------------------------------------------------ */

/* Larger count first, then the smaller left id, then the smaller right one. */
static bool comes_before(const entry *a, const entry *b)
{
    return a->count != b->count ? a->count > b->count : a->key < b->key;
}

static void push(counting *c, uint32_t number)
{
    const pair *p = (const pair *)c->pairs.data + number;
    entry e = {p->count, p->key, number}, *q;
    size_t i = c->queue.size / sizeof e;

    if (p->count == 0)
        return;
    if (!attn__buffer_put(&c->queue, &e, sizeof e)) {
        c->full = true;
        return;
    }
    q = c->queue.data;
    for (; i > 0 && comes_before(&e, &q[(i - 1) / 2]); i = (i - 1) / 2)
        q[i] = q[(i - 1) / 2];
    q[i] = e;
}

static void pop(counting *c, entry *top)
{
    entry *q = c->queue.data, last;
    size_t count = c->queue.size / sizeof last - 1, i = 0, child;

    *top = q[0];
    last = q[count];
    c->queue.size = count * sizeof last;
    while ((child = 2 * i + 1) < count) {
        child += child + 1 < count && comes_before(&q[child + 1], &q[child]);
        if (!comes_before(&q[child], &last))
            break;
        q[i] = q[child];
        i = child;
    }
    q[i] = last;
}

/* --- Counts --------------------------------------------------------------------------------- */

static pair *pair_of(counting *c, uint64_t key)
{
    uint32_t *number = attn__table_at(&c->index, key);
    pair fresh = {key, 0, ATTN__NONE, false, false};

    if (!number) {
        c->full = true;
        return NULL;
    }
    if (*number == ATTN__NONE) {
        *number = (uint32_t)(c->pairs.size / sizeof fresh);
        if (!attn__buffer_put(&c->pairs, &fresh, sizeof fresh)) {
            *number = 0;
            c->full = true;
            return NULL;
        }
    }
    return (pair *)c->pairs.data + *number;
}

static void add_place(counting *c, pair *p, uint32_t word)
{
    place *places = c->places.data, fresh = {word, p->seen};
    uint32_t at = c->free_places;

    if (p->seen != ATTN__NONE && places[p->seen].word == word)
        return;
    if (at != ATTN__NONE) {
        c->free_places = places[at].next;
        places[at] = fresh;
    } else {
        at = (uint32_t)(c->places.size / sizeof fresh);
        if (at == ATTN__NONE || !attn__buffer_put(&c->places, &fresh, sizeof fresh)) {
            c->full = true;
            return;
        }
    }
    p->seen = at;
}

static void rise(counting *c, uint32_t left, uint32_t right, uint32_t word, uint64_t count)
{
    pair *p = pair_of(c, (uint64_t)left << 32 | right);
    uint32_t number;

    if (!p)
        return;
    p->count += count;
    add_place(c, p, word);
    if (p->risen)
        return;
    p->risen = true;
    number = (uint32_t)(p - (pair *)c->pairs.data);
    c->full = c->full || !attn__buffer_put(&c->risen, &number, sizeof number);
}

static void fall(counting *c, uint32_t left, uint32_t right, uint64_t count)
{
    pair *p = pair_of(c, (uint64_t)left << 32 | right);

    if (p)
        p->count -= count;
}

static void queue_risen(counting *c)
{
    const uint32_t *numbers = c->risen.data;

    for (size_t i = 0; i < c->risen.size / sizeof *numbers; i++) {
        ((pair *)c->pairs.data)[numbers[i]].risen = false;
        push(c, numbers[i]);
    }
    c->risen.size = 0;
}

static void count_all(counting *c)
{
    const attn__learn_word *words = c->l->words.data;
    const uint32_t *symbols = c->l->symbols.data;

    for (size_t w = 0; w < c->l->words.size / sizeof *words && !c->full; w++)
        for (size_t i = words[w].start; i + 1 < words[w].start + words[w].size; i++)
            rise(c, symbols[i], symbols[i + 1], (uint32_t)w, words[w].count);
    queue_risen(c);
}

/* --- Joining -------------------------------------------------------------------------------- */

/* Joins left and right to `made` in one word, from the left. Neighbours lose pairs with the parts
 * and win pairs with the whole. */
static void join_in_word(counting *c, uint32_t number, uint32_t left, uint32_t right, uint32_t made)
{
    attn__learn_word *word = (attn__learn_word *)c->l->words.data + number;
    uint32_t *s = (uint32_t *)c->l->symbols.data + word->start, kept = 0;

    for (uint32_t i = 0; i < word->size; kept++) {
        if (s[i] != left || i + 1 == word->size || s[i + 1] != right) {
            s[kept] = s[i++];
            continue;
        }
        if (kept > 0) {
            fall(c, s[kept - 1], left, word->count);
            rise(c, s[kept - 1], made, number, word->count);
        }
        if (i + 2 < word->size) {
            fall(c, right, s[i + 2], word->count);
            rise(c, made, s[i + 2], number, word->count);
        }
        s[kept] = made;
        i += 2;
    }
    word->size = kept;
}

/* The piece of both together; ATTN__NONE: no memory. */
static uint32_t make_piece(attn__learner *l, uint32_t left, uint32_t right, attn__buffer *spelling)
{
    const char *text;
    size_t size;
    bool added;

    spelling->size = 0;
    text = attn__strings_get(&l->pieces, left, &size);
    if (!attn__buffer_put(spelling, text, size))
        return ATTN__NONE;
    text = attn__strings_get(&l->pieces, right, &size);
    if (!attn__buffer_put(spelling, text, size))
        return ATTN__NONE;
    return attn__strings_add(&l->pieces, spelling->data, spelling->size, &added);
}

static void join(counting *c, uint32_t number, uint32_t made)
{
    pair *p = (pair *)c->pairs.data + number;
    uint32_t left = (uint32_t)(p->key >> 32), right = (uint32_t)p->key, at = p->seen, next;

    if (!p->merged)
        c->full = c->full || !attn__buffer_put(&c->l->merges, &p->key, sizeof p->key);
    p->merged = true;
    p->seen = ATTN__NONE;
    for (; at != ATTN__NONE && !c->full; at = next) {
        place *here = (place *)c->places.data + at;
        uint32_t word = here->word;
        next = here->next;
        here->next = c->free_places;
        c->free_places = at;
        join_in_word(c, word, left, right, made);
    }
    ((pair *)c->pairs.data)[number].count = 0;
    queue_risen(c);
}

static attn_status run(counting *c, attn__buffer *spelling, attn_error *err)
{
    attn__learner *l = c->l;
    const attn_ctx *ctx = l->ctx;
    entry top;

    for (size_t step = 0; attn__strings_count(&l->pieces) < l->size && c->queue.size > 0; step++) {
        const pair *p;
        uint32_t made;
        if (c->full)
            break;
        pop(c, &top);
        p = (const pair *)c->pairs.data + top.pair;
        if (p->count != top.count) {
            if (p->count < top.count)
                push(c, top.pair);
            continue;
        }
        if (top.count < l->min_count)
            break;
        made = make_piece(l, (uint32_t)(top.key >> 32), (uint32_t)top.key, spelling);
        if (made == ATTN__NONE)
            c->full = true;
        else
            join(c, top.pair, made);
        if (step % 64 == 0 && ctx && ctx->progress &&
            ctx->progress(ctx->progress_user, attn__strings_count(&l->pieces), l->size))
            return attn__fail(err, ATTN_E_CANCELLED, 0, "training of the vocabulary");
    }
    return c->full ? attn__fail(err, ATTN_E_MEMORY, 0, "counts of pairs") : ATTN_OK;
}

attn_status attn__learn_merges(attn__learner *l, attn_error *err)
{
    attn__buffer spelling = {.ctx = l->ctx};
    counting c;
    attn_status st;

    memset(&c, 0, sizeof c);
    c.l = l;
    c.index.ctx = c.pairs.ctx = c.places.ctx = c.queue.ctx = c.risen.ctx = l->ctx;
    c.free_places = ATTN__NONE;
    count_all(&c);
    st = run(&c, &spelling, err);
    attn__table_free(&c.index);
    attn__buffer_free(&c.pairs);
    attn__buffer_free(&c.places);
    attn__buffer_free(&c.queue);
    attn__buffer_free(&c.risen);
    attn__buffer_free(&spelling);
    return st;
}
