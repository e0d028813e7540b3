/* views.c: memory and views of support.h. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */

#include "tests/ref.h"
#include "tests/support.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* All bits set: a NaN in every floating type, and 255 in bytes. */
#define POISON 0xFF

struct arena_block {
    struct arena_block *next;
    unsigned char *base; /* what to free or unmap */
    size_t size;
    int mapped;
    int has_view; /* bytes outside the elements of `view` hold POISON */
    attn_view view;
};

/* --- Memory --------------------------------------------------------------------------------- */

static struct arena_block *block_add(arena *a)
{
    struct arena_block *block = calloc(1, sizeof *block);

    assert_non_null(block);
    block->next = a->blocks;
    a->blocks = block;
    return block;
}

void *arena_get(arena *a, size_t size)
{
    struct arena_block *block = block_add(a);
    void *memory;

    if (posix_memalign(&memory, 64, size ? size : 1) != 0)
        fail_msg("no memory for %zu bytes", size);
    block->base = memory;
    block->size = size;
    return memory;
}

void *arena_guarded(arena *a, size_t size, int at_end)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), inner = (size + page - 1) / page * page;
    struct arena_block *block = block_add(a);
    void *map = mmap(NULL, inner + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_true(map != MAP_FAILED);
    block->base = map;
    block->size = inner + 2 * page;
    block->mapped = 1;
    if (inner)
        assert_int_equal(mprotect(block->base + page, inner, PROT_READ | PROT_WRITE), 0);
    return block->base + page + (at_end ? inner - size : 0);
}

void arena_reset(arena *a)
{
    while (a->blocks) {
        struct arena_block *block = a->blocks;

        a->blocks = block->next;
        if (block->mapped)
            munmap(block->base, block->size);
        else
            free(block->base);
        free(block);
    }
}

/* --- Layouts -------------------------------------------------------------------------------- */

/* Dimensions from the innermost to the outermost, the stride of the innermost, and gaps (in
 * elements) after each. A gap of -1 is drawn. */
typedef struct plan {
    const char *name;
    int order[4];
    int step;
    int gap[4];
    int backwards;
} plan;

static const plan plans[LAYOUT_COUNT] = {
    [LAYOUT_BHSD] = {"bhsd", {3, 2, 1, 0}, 1, {0, 0, 0, 0}, 0},
    [LAYOUT_BSHD] = {"bshd", {3, 1, 2, 0}, 1, {0, 0, 0, 0}, 0},
    [LAYOUT_PACKED] = {"packed", {3, 1, 2, 0}, 1, {0, -1, 0, 0}, 0},
    [LAYOUT_PADDED] = {"padded", {3, 2, 1, 0}, 1, {-1, -1, -1, 0}, 0},
    [LAYOUT_COLUMNS] = {"columns", {2, 3, 1, 0}, 1, {-1, 0, 0, 0}, 0},
    [LAYOUT_REVERSE] = {"reverse", {3, 2, 1, 0}, 1, {-1, 0, 0, 0}, 1},
    [LAYOUT_STEPS] = {"steps", {3, 1, 0, 2}, 3, {-1, -1, -1, -1}, 0},
};

const char *layout_name(layout kind)
{
    return plans[kind].name;
}

attn_view view_new(arena *a, rng *r, attn_type type, int64_t b, int64_t h, int64_t n, int64_t d,
                   layout kind)
{
    const plan *p = &plans[kind];
    attn_view view = {.type = type, .size = {b, h, n, d}};
    int64_t stride = p->step, first = 0;
    size_t unit = attn_type_size(type), bytes;
    unsigned char *memory;

    for (int i = 0; i < 4; i++) {
        int64_t size = view.size[p->order[i]];

        view.stride[p->order[i]] = stride;
        stride = stride * (size ? size : 1) + (p->gap[i] < 0 ? rng_int(r, 1, 9) : p->gap[i]);
    }
    for (int i = 1; i < 4 && p->backwards; i++)
        if (view.size[i] > 0) {
            first += (view.size[i] - 1) * view.stride[i];
            view.stride[i] = -view.stride[i];
        }
    /* One element in front breaks the alignment of the block. */
    bytes = ((size_t)stride + 2) * unit;
    memory = arena_get(a, bytes);
    memset(memory, POISON, bytes);
    view.data = memory + ((size_t)first + 1) * unit;
    a->blocks->has_view = 1;
    a->blocks->view = view;
    return view;
}

static attn_view bhsd(void *data, attn_type type, int64_t b, int64_t h, int64_t n, int64_t d)
{
    return (attn_view){data, type, {b, h, n, d}, {h * n * d, n * d, d, 1}};
}

attn_view view_guarded(arena *a, attn_type type, int64_t b, int64_t h, int64_t n, int64_t d,
                       int at_end)
{
    size_t bytes = (size_t)(b * h * n * d) * attn_type_size(type);

    return bhsd(arena_guarded(a, bytes, at_end), type, b, h, n, d);
}

attn_view view_plain(arena *a, attn_type type, int64_t b, int64_t h, int64_t n, int64_t d)
{
    size_t bytes = (size_t)(b * h * n * d) * attn_type_size(type);
    void *memory = arena_get(a, bytes);

    memset(memory, POISON, bytes);
    return bhsd(memory, type, b, h, n, d);
}

/* --- Elements ------------------------------------------------------------------------------- */

/* Calls for each element in logical order: `for (walk w = walk_start(v); w.left; walk_next(&w))`.
 */
typedef struct walk {
    const attn_view *view;
    int64_t left, at[4];
} walk;

static walk walk_start(const attn_view *v)
{
    return (walk){v, view_count(v), {0, 0, 0, 0}};
}

static void walk_next(walk *w)
{
    w->left--;
    for (int i = 3; i >= 0; i--) {
        if (++w->at[i] < w->view->size[i])
            return;
        w->at[i] = 0;
    }
}

static void *walk_element(const walk *w, const attn_view *v)
{
    return ref_at(v, w->at[0], w->at[1], w->at[2], w->at[3]);
}

int64_t view_count(const attn_view *v)
{
    return v->size[0] * v->size[1] * v->size[2] * v->size[3];
}

double view_get(const attn_view *v, int64_t b, int64_t h, int64_t i, int64_t j)
{
    return ref_load(ref_at(v, b, h, i, j), v->type);
}

void view_set(const attn_view *v, int64_t b, int64_t h, int64_t i, int64_t j, double value)
{
    ref_store(ref_at(v, b, h, i, j), v->type, value);
}

void view_fill(const attn_view *v, double value)
{
    for (walk w = walk_start(v); w.left; walk_next(&w))
        ref_store(walk_element(&w, v), v->type, value);
}

void view_uniform(const attn_view *v, rng *r, double low, double high)
{
    for (walk w = walk_start(v); w.left; walk_next(&w))
        ref_store(walk_element(&w, v), v->type, rng_range(r, low, high));
}

attn_view view_copy(arena *a, rng *r, const attn_view *from, attn_type type, layout kind)
{
    const int64_t *n = from->size;
    attn_view to = view_new(a, r, type, n[0], n[1], n[2], n[3], kind);

    for (walk w = walk_start(from); w.left; walk_next(&w)) {
        const void *source = walk_element(&w, from);
        void *target = walk_element(&w, &to);

        if (type == from->type) /* bit for bit: NaNs keep their payload */
            memcpy(target, source, attn_type_size(type));
        else
            ref_store(target, type, ref_load(source, from->type));
    }
    return to;
}

attn_view view_part(const attn_view *v, int dimension, int64_t from, int64_t n)
{
    attn_view part = *v;
    int64_t at[4] = {0, 0, 0, 0};

    at[dimension] = from;
    part.size[dimension] = n;
    if (n > 0)
        part.data = ref_at(v, at[0], at[1], at[2], at[3]);
    return part;
}

int view_same_bits(const attn_view *a, const attn_view *b)
{
    if (a->type != b->type || memcmp(a->size, b->size, sizeof a->size) != 0)
        return 0;
    for (walk w = walk_start(a); w.left; walk_next(&w))
        if (memcmp(walk_element(&w, a), walk_element(&w, b), attn_type_size(a->type)) != 0)
            return 0;
    return 1;
}

uint64_t view_hash(const attn_view *v)
{
    uint64_t hash = UINT64_C(0xCBF29CE484222325); /* FNV-1a */
    size_t unit = attn_type_size(v->type);

    if (!v->data)
        return hash;
    for (walk w = walk_start(v); w.left; walk_next(&w)) {
        const unsigned char *bytes = walk_element(&w, v);

        for (size_t i = 0; i < unit; i++)
            hash = (hash ^ bytes[i]) * UINT64_C(0x100000001B3);
    }
    return hash;
}

static int block_poison_intact(const struct arena_block *block)
{
    const attn_view *v = &block->view;
    size_t unit = attn_type_size(v->type);
    unsigned char *owned = calloc(block->size ? block->size : 1, 1);
    int intact = 1;

    assert_non_null(owned);
    for (walk w = walk_start(v); w.left; walk_next(&w))
        memset(owned + ((unsigned char *)walk_element(&w, v) - block->base), 1, unit);
    for (size_t i = 0; i < block->size && intact; i++)
        intact = owned[i] || block->base[i] == POISON;
    free(owned);
    return intact;
}

int arena_poison_intact(const arena *a)
{
    for (const struct arena_block *block = a->blocks; block; block = block->next)
        if (block->has_view && !block_poison_intact(block))
            return 0;
    return 1;
}
