/* test_guard.c: no access outside what a view describes, no write to an input, offsets beyond 32
 * bits.
 *
 * Buffers have exactly the bytes their views need and lie against a page that faults, before or
 * behind; inputs are mapped read-only while the library runs. Each result is also held to the bits
 * the same values give in ordinary memory.
 */
#define _GNU_SOURCE /* MAP_NORESERVE */
#include "include/attn/attn.h"
#include "tests/expect.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static arena mem;
static const attn_type types[] = {ATTN_F32, ATTN_F16, ATTN_BF16, ATTN_F64};
static int full;

/* All a guarded case may vary. */
typedef struct shape {
    attn_type type;
    int64_t b, h, hk, tq, tk, d, dv;
    int options; /* bits below */
} shape;

enum { MASKED = 1, WEIGHTED = 2, SHIFTED = 4, LISTED = 8, RECORD = 16, OPTIONS = 32 };

/* Arguments and the arrays they point to. */
typedef struct guarded {
    attn_forward_args a;
    attn_mask m;
    attn_partial partial;
} guarded;

/* --- Guarded calls -------------------------------------------------------------------------- */

static void protect(void *data, size_t size, int how)
{
    size_t before = (uintptr_t)data % (uintptr_t)sysconf(_SC_PAGESIZE);

    if (size > 0)
        assert_int_equal(mprotect((char *)data - before, before + size, how), 0);
}

static size_t bytes_of(const attn_view *v)
{
    return (size_t)view_count(v) * attn_type_size(v->type);
}

/* Uniform values in exactly enough memory, then read-only. */
static attn_view input(rng *r, attn_type type, int64_t b, int64_t h, int64_t n, int64_t d)
{
    attn_view v = view_guarded(&mem, type, b, h, n, d, (int)rng_int(r, 0, 1));

    view_uniform(&v, r, type == ATTN_U8 ? 0 : -2, type == ATTN_U8 ? 2.99 : 2);
    protect(v.data, bytes_of(&v), PROT_READ);
    return v;
}

static attn_view output(rng *r, attn_type type, int64_t b, int64_t h, int64_t n, int64_t d)
{
    return view_guarded(&mem, type, b, h, n, d, (int)rng_int(r, 0, 1));
}

static const int64_t *numbers(rng *r, int64_t n, int64_t low, int64_t high)
{
    int64_t *p = arena_guarded(&mem, (size_t)n * sizeof *p, (int)rng_int(r, 0, 1));

    for (int64_t i = 0; i < n; i++)
        p[i] = rng_int(r, low, high);
    protect(p, (size_t)n * sizeof *p, PROT_READ);
    return p;
}

/* Every query block sees every second key block; one list for each sequence and head. */
static void add_block_list(rng *r, const shape *s, attn_block_list *l)
{
    int64_t lists = s->b * s->h, *start, *index;

    l->q_block = 64, l->k_block = 128;
    l->rows = (s->tq + 63) / 64 + 1;
    l->k_blocks = (s->tk + 127) / 128 + 1;
    l->index_count = lists * l->rows * ((l->k_blocks + 1) / 2);
    l->head_stride = l->rows + 1;
    l->batch_stride = l->head_stride * s->h;
    start = arena_guarded(&mem, (size_t)(lists * l->head_stride) * 8, (int)rng_int(r, 0, 1));
    index = arena_guarded(&mem, (size_t)l->index_count * 8, (int)rng_int(r, 0, 1));
    for (int64_t n = 0, at = 0; n < lists; n++)
        for (int64_t row = 0; row <= l->rows; row++) {
            start[n * l->head_stride + row] = at;
            for (int64_t c = row & 1; row < l->rows && c < l->k_blocks; c += 2)
                index[at++] = c;
        }
    protect(start, (size_t)(lists * l->head_stride) * 8, PROT_READ);
    protect(index, (size_t)l->index_count * 8, PROT_READ);
    l->start = start;
    l->index = index;
}

static void guarded_make(guarded *g, rng *r, const shape *s)
{
    attn_forward_args *a = &g->a;
    attn_type wide = s->type == ATTN_F64 ? ATTN_F64 : ATTN_F32;

    *g = (guarded){.a = ATTN_FORWARD_ARGS_INIT, .m = ATTN_MASK_INIT};
    a->q = input(r, s->type, s->b, s->h, s->tq, s->d);
    a->k = input(r, s->type, s->b, s->hk, s->tk, s->d);
    a->v = input(r, s->type, s->b, s->hk, s->tk, s->dv);
    a->mask = &g->m;
    if (s->options & MASKED) {
        g->m.keep = input(r, ATTN_U8, s->b, s->h, s->tq, s->tk);
        g->m.bias = input(r, s->type, s->b, s->h, s->tq, s->tk);
        g->m.alibi = input(r, wide, s->b, s->h, 1, 1);
        if (!(s->options & RECORD))
            a->sink = input(r, wide, s->b, s->h, 1, 1);
        a->dropout = 0.1;
    }
    if (s->options & SHIFTED) {
        g->m.causal = 1;
        g->m.q_offsets = numbers(r, s->b, 0, s->tk);
        g->m.k_offsets = numbers(r, s->b, 0, 100);
        g->m.k_start = numbers(r, s->b, 0, s->tk / 2);
        g->m.k_count = numbers(r, s->b, 0, s->tk - s->tk / 2);
        g->m.q_count = numbers(r, s->b, 0, s->tq);
    }
    if (s->options & LISTED)
        add_block_list(r, s, &g->m.blocks);
    if (s->options & RECORD) {
        g->partial.out = output(r, wide, s->b, s->h, s->tq, s->dv);
        g->partial.sum = output(r, wide, s->b, s->h, s->tq, 1);
        g->partial.max = output(r, wide, s->b, s->h, s->tq, 1);
        a->partial = &g->partial;
        return;
    }
    a->out = output(r, s->type, s->b, s->h, s->tq, s->dv);
    a->lse = output(r, wide, s->b, s->h, s->tq, 1);
    if (s->options & WEIGHTED)
        a->weights = output(r, s->type, s->b, s->h, s->tq, s->tk);
}

static attn_view unguarded(const attn_view *v)
{
    rng r = rng_make(1, 1);

    return v->data ? view_copy(&mem, &r, v, v->type, LAYOUT_BHSD) : *v;
}

/* The same call in ordinary memory, one thread; compares what was written. */
static void check_against_plain(const guarded *g, attn_kernel_set set, const char *what)
{
    attn_forward_args a = g->a;
    attn_partial p = g->partial;
    const attn_view *got[] = {&g->a.out, &g->a.lse, &g->a.weights, &p.out, &p.sum, &p.max};
    attn_view *want[] = {&a.out, &a.lse, &a.weights, &p.out, &p.sum, &p.max};
    attn_view was[6];

    a.q = unguarded(&a.q);
    a.k = unguarded(&a.k);
    a.v = unguarded(&a.v);
    for (int i = 0; i < 6; i++) {
        was[i] = *got[i];
        *want[i] = unguarded(want[i]);
        if (want[i]->data)
            view_fill(want[i], 5);
    }
    if (a.partial)
        a.partial = &p;
    CHECK(attn_forward(ctx_for(set, 1), &a, NULL) == ATTN_OK);
    for (int i = 0; i < 6; i++)
        CHECK_MSG(!was[i].data || view_same_bits(&was[i], want[i]), "%s: output %d differs", what,
                  i);
}

static void run_guarded(attn_kernel_set set, rng *r, const shape *s)
{
    const attn_ctx *ctx = ctx_for(set, 2);
    attn_plan plan = ATTN_PLAN_INIT;
    attn_error err = {ATTN_OK, 0, ""};
    char what[160];
    guarded g;

    snprintf(what, sizeof what, "%s B%d H%d/%d Tq%d Tk%d D%d Dv%d options %d",
             attn_type_name(s->type), (int)s->b, (int)s->h, (int)s->hk, (int)s->tq, (int)s->tk,
             (int)s->d, (int)s->dv, s->options);
    guarded_make(&g, r, s);
    CHECK_MSG(attn_forward_plan(ctx, &g.a, &plan, &err) == ATTN_OK, "%s: %s", what, err.text);
    if (rng_chance(r, 50) && plan.workspace_size > 0) {
        size_t size = (plan.workspace_size + 63) & ~(size_t)63;

        g.a.workspace = arena_guarded(&mem, size, (int)rng_int(r, 0, 1));
        g.a.workspace_size = plan.workspace_size;
    }
    CHECK_MSG(attn_forward(ctx, &g.a, &err) == ATTN_OK, "%s: %s", what, err.text);
    check_against_plain(&g, set, what);
    arena_reset(&mem);
}

/* Every width and every tail once at least, in each type; the rest at random. */
static void exact_buffers(void **state)
{
    attn_kernel_set set = test_set(state);

    for (int t = 0; t < 4; t++)
        for (int64_t n = 1; n <= 130; n++) {
            rng r = rng_make(test_seed(), (uint64_t)(n * 4 + t));
            int64_t tail = (n * 37 + 11 * t) % 130 + 1;
            shape s = {
                types[t], 1, 2, 1, (n * 53) % 23 + 1, tail, n, 131 - n, (int)(n * 7 + t) % OPTIONS};

            run_guarded(set, &r, &s);
        }
}

static void exact_buffers_at_random(void **state)
{
    attn_kernel_set set = test_set(state);

    for (int n = 0; n < (full ? 20000 : 600); n++) {
        rng r = rng_make(test_seed(), 100000 + (uint64_t)n);
        int64_t hk = rng_int(&r, 1, 2);
        shape s = {.type = types[rng_int(&r, 0, 3)], .b = rng_int(&r, 1, 2), .hk = hk};

        s.h = hk * rng_int(&r, 1, 3);
        s.tq = rng_int(&r, 0, 9) ? rng_int(&r, 1, 20) : rng_int(&r, 21, 130);
        s.tk = rng_int(&r, 0, 9) ? rng_int(&r, 0, 130) : rng_int(&r, 131, 700);
        if (n % 30 == 0) /* enough work to be shared: keys split among workers, */
            s.tq = rng_int(&r, 4, 16), s.tk = rng_int(&r, 2000, 3000);
        if (n % 30 == 1) /* or packed once for many rows */
            s.tq = rng_int(&r, 259, 400);
        s.d = rng_int(&r, 1, 130);
        s.dv = rng_int(&r, 1, 130);
        s.options = (int)rng_int(&r, 0, OPTIONS - 1);
        run_guarded(set, &r, &s);
    }
}

/* --- Alignments ----------------------------------------------------------------------------- */

static attn_view moved(const attn_view *v, int64_t offset)
{
    attn_view out = *v;
    size_t bytes = bytes_of(v);
    char *room = arena_guarded(&mem, bytes + (size_t)offset, 0);

    memcpy(room + offset, v->data, bytes);
    out.data = room + offset;
    return out;
}

static void every_alignment(void **state)
{
    attn_kernel_set set = test_set(state);

    for (int t = 0; t < 4; t++) {
        int64_t step = (int64_t)attn_type_size(types[t]);

        for (int64_t offset = 0; offset < 64; offset += step) {
            rng r = rng_make(test_seed(), (uint64_t)t);
            shape s = {types[t], 1, 2, 1, t % 2 ? 3 : 20, 75, 33, 18, MASKED | WEIGHTED};
            guarded g;

            guarded_make(&g, &r, &s);
            attn_view *v[] = {&g.a.q, &g.a.k, &g.a.v, &g.a.out, &g.a.weights, &g.m.bias};
            for (int64_t i = 0; i < 6; i++)
                *v[i] = moved(v[i], (offset + i * step * 3) % 64);
            g.m.keep = moved(&g.m.keep, offset + 1);
            CHECK(attn_forward(ctx_for(set, 2), &g.a, NULL) == ATTN_OK);
            check_against_plain(&g, set, "alignment");
            arena_reset(&mem);
        }
    }
}

/* --- Caches over exact memory --------------------------------------------------------------- */

static void guarded_caches(void **state)
{
    attn_kernel_set set = test_set(state);

    for (int n = 0; n < 3 * 4 * 12; n++) {
        rng r = rng_make(test_seed(), 555 + (uint64_t)n);
        attn_cache_options o = ATTN_CACHE_OPTIONS_INIT;
        attn_forward_args a = ATTN_FORWARD_ARGS_INIT;
        int64_t rows = rng_int(&r, 1, 130), page = rng_int(&r, 1, 40);
        int64_t pages = (rows + page - 1) / page;
        attn_cache *cache;

        o.kind = (attn_cache_kind)(n % 3);
        o.type = types[n / 3 % 4];
        o.batch = 1, o.heads = 2, o.capacity = rows;
        o.dk = rng_int(&r, 1, 70), o.dv = rng_int(&r, 1, 70);
        if (o.kind == ATTN_CACHE_PAGED)
            o.page = page, o.pages = pages;
        o.k = output(&r, o.type, o.page ? pages : 1, 2, o.page ? page : rows, o.dk);
        o.v = output(&r, o.type, o.page ? pages : 1, 2, o.page ? page : rows, o.dv);
        CHECK(attn_cache_create(ctx_for(set, 2), &o, &cache, NULL) == ATTN_OK);
        attn_view k = input(&r, o.type, 1, 2, rows, o.dk), v = input(&r, o.type, 1, 2, rows, o.dv);
        CHECK(attn_cache_append(cache, 0, &k, &v, NULL) == ATTN_OK);
        protect(o.k.data, bytes_of(&o.k), PROT_READ);
        protect(o.v.data, bytes_of(&o.v), PROT_READ);
        a.q = input(&r, o.type, 1, 4, rng_int(&r, 1, 20), o.dk);
        a.out = output(&r, o.type, 1, 4, a.q.size[2], o.dv);
        CHECK(attn_decode(ctx_for(set, 2), cache, &a, NULL) == ATTN_OK);
        attn_view got = unguarded(&a.out);
        a.k = k, a.v = v;
        CHECK(attn_forward(ctx_for(set, 1), &a, NULL) == ATTN_OK);
        CHECK_MSG(view_same_bits(&got, &a.out), "cache kind %d of %s, %d rows, pages of %d",
                  (int)o.kind, attn_type_name(o.type), (int)rows, (int)page);
        attn_cache_destroy(cache);
        arena_reset(&mem);
    }
}

/* --- Offsets beyond 32 bits ----------------------------------------------------------------- */

typedef struct sparse {
    char *base;
    size_t size;
} sparse;

/* A copy of *v whose `dim` has the given stride, in memory of which only the touched pages exist.
 * An absent base means that the address space is not to be had. */
static sparse spread(attn_view *v, int dim, int64_t stride)
{
    attn_view from = *v;
    size_t e = attn_type_size(v->type);
    uint64_t reach = (uint64_t)(stride < 0 ? -stride : stride) * (uint64_t)(v->size[dim] - 1);
    sparse s;

    s.size = (reach + (uint64_t)view_count(v) + 64) * e;
    s.base = mmap(NULL, s.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                  -1, 0);
    if (s.base == MAP_FAILED)
        return (sparse){NULL, 0};
    v->data = stride < 0 ? s.base + reach * e : s.base;
    v->stride[dim] = stride;
    for (int64_t b = 0; b < v->size[0]; b++)
        for (int64_t h = 0; h < v->size[1]; h++)
            for (int64_t i = 0; i < v->size[2]; i++)
                for (int64_t j = 0; j < v->size[3]; j++)
                    view_set(v, b, h, i, j, view_get(&from, b, h, i, j));
    return s;
}

static int run_spread(attn_kernel_set set, int which, int dim, int64_t stride)
{
    rng r = rng_make(test_seed(), 8);
    shape s = {ATTN_F32, 2, 4, 2, which % 2 ? 3 : 18, 20, 5, 6, MASKED | WEIGHTED};
    char what[80];
    guarded g;
    sparse far;

    guarded_make(&g, &r, &s);
    attn_view *views[] = {&g.a.q,    &g.a.k,    &g.a.v,   &g.a.out,
                          &g.m.keep, &g.m.bias, &g.a.lse, &g.a.weights};
    if (views[which]->size[dim] == 1)
        return 1;
    far = spread(views[which], dim, stride);
    if (!far.base)
        return 0;
    snprintf(what, sizeof what, "view %d, dimension %d, stride %lld", which, dim,
             (long long)stride);
    CHECK_MSG(attn_forward(ctx_for(set, 2), &g.a, NULL) == ATTN_OK, "%s", what);
    check_against_plain(&g, set, what);
    munmap(far.base, far.size);
    return 1;
}

static void offsets_beyond_32_bits(void **state)
{
    static const int64_t strides[] = {((int64_t)1 << 31) + 3, ((int64_t)1 << 33) + 1};
    attn_kernel_set set = test_set(state);
    int ran = 0;

    for (int which = 0; which < 8; which++)
        for (int dim = 0; dim < 4; dim++)
            for (int n = 0; n < 4; n++) {
                ran += run_spread(set, which, dim, n & 1 ? -strides[n / 2] : strides[n / 2]);
                arena_reset(&mem);
            }
    if (ran == 0)
        skip(); /* no room in the address space, as under some sanitizers */
    CHECK(ran > 100);
}

int main(int argc, char **argv)
{
    static const test_case tests[] = {
        {"exact_buffers", exact_buffers, 1},
        {"exact_buffers_at_random", exact_buffers_at_random, 1},
        {"every_alignment", every_alignment, 1},
        {"guarded_caches", guarded_caches, 1},
        {"offsets_beyond_32_bits", offsets_beyond_32_bits, 1},
    };

    if (argc > 1 && strcmp(argv[1], "--full") == 0) {
        full = 1;
        argv[1] = argv[0];
        argc--, argv++;
    }
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
