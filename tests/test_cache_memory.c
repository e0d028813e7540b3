/* test_cache_memory.c: caches over the caller's memory, in any layout, filled by the library or by
 * the caller (attn_cache_assign, block tables); padding against lengths; and what the calls refuse.
 * Companion of test_cache.c. */
#include "include/attn/attn.h"
#include "tests/ref.h"
#include "tests/yardstick.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const attn_type types[] = {ATTN_F32, ATTN_F16, ATTN_BF16, ATTN_F64};
static const attn_cache_kind kinds[] = {ATTN_CACHE_CONTIGUOUS, ATTN_CACHE_RING, ATTN_CACHE_PAGED};

enum { PAGE = 40 };

static attn_cache_options options_of(const problem *p, attn_cache_kind kind, int64_t capacity)
{
    attn_cache_options o = ATTN_CACHE_OPTIONS_INIT;

    o.kind = kind;
    o.type = p->type;
    o.batch = p->b;
    o.heads = p->hk;
    o.dk = p->d;
    o.dv = p->dv;
    o.capacity = capacity;
    if (kind == ATTN_CACHE_PAGED) {
        o.page = PAGE;
        o.pages = p->b * ((capacity + PAGE - 1) / PAGE) + 2;
    }
    return o;
}

/* Memory for the cache in some layout, all poison. */
static void give_memory(attn_cache_options *o, arena *a, rng *r, int kind)
{
    int paged = o->kind == ATTN_CACHE_PAGED;
    int64_t first = paged ? o->pages : o->batch, n = paged ? o->page : o->capacity;

    o->k = view_new(a, r, o->type, first, o->heads, n, o->dk, (layout)(kind % LAYOUT_COUNT));
    o->v = view_new(a, r, o->type, first, o->heads, n, o->dv, (layout)((kind + 3) % LAYOUT_COUNT));
}

/* The yardstick's last n queries, decoded. */
static void check_decode(const attn_ctx *ctx, const attn_cache *cache, problem *p, int64_t n,
                         const char *what)
{
    attn_forward_args a = problem_args(p, 0, p->b);
    attn_view want = view_rows(&p->out, p->tq - n, n);
    attn_error err = {ATTN_OK, 0, ""};

    a.q = view_rows(&p->q, p->tq - n, n);
    a.k = a.v = (attn_view){0};
    p->mask.q_offset = problem_decode_offset(p);
    a.out = problem_out(p, p->b, n);
    CHECK_MSG(attn_decode(ctx, cache, &a, &err) == ATTN_OK, "%s: %s", what, err.text);
    expect_same(&a.out, &want, "%s, %d queries, options %d", what, (int)n, p->options);
}

static attn_cache *open_cache(const attn_ctx *ctx, const attn_cache_options *o)
{
    attn_error err = {ATTN_OK, 0, ""};
    attn_cache *cache;

    CHECK_MSG(attn_cache_create(ctx, o, &cache, &err) == ATTN_OK, "create: %s", err.text);
    return cache;
}

/* --- Memory of the caller ------------------------------------------------------------------- */

static void any_layout(void **state)
{
    attn_kernel_set set = test_set(state);
    const attn_ctx *ctx = ctx_for(set, 2);
    arena own = {0};

    for (int n = 0; n < 3 * 4 * LAYOUT_COUNT; n++) {
        problem p = problem_make(ctx_for(set, 1), types[n / 3 % 4], POSITIONS, 2, 20, 560);
        rng r = rng_make(test_seed(), (uint64_t)n);
        attn_cache_options o = options_of(&p, kinds[n % 3], 560 + n);
        attn_cache *cache;

        give_memory(&o, &own, &r, n / 12);
        cache = open_cache(ctx, &o);
        for (int64_t at = 0; at < p.tk; at += 140) {
            attn_view k = view_rows(&p.k, at, 140), v = view_rows(&p.v, at, 140);

            k = view_copy(&problem_mem, &r, &k, p.type, (layout)((n + 2) % LAYOUT_COUNT));
            CHECK(attn_cache_append(cache, 0, &k, &v, NULL) == ATTN_OK);
        }
        check_decode(ctx, cache, &p, 1 + n % 17, layout_name((layout)(n / 12)));
        check_decode(ctx, cache, &p, 20, layout_name((layout)(n / 12)));
        CHECK_MSG(arena_poison_intact(&own), "wrote between the elements of %s",
                  layout_name((layout)(n / 12)));
        attn_cache_destroy(cache);
        arena_reset(&own);
        arena_reset(&problem_mem);
    }
}

/* The library and the caller see the same rows in the same places. */
static void rows_lie_where_documented(void **state)
{
    const attn_ctx *ctx = ctx_for(ATTN_SET_AUTO, 2);
    rng r = rng_make(test_seed(), 6);
    arena own = {0};

    (void)state;
    for (int n = 0; n < 2; n++) {
        problem p = problem_make(ctx, ATTN_F32, PLAIN, 1, 3, 100);
        attn_cache_options o = options_of(&p, kinds[n], 70);
        attn_cache *cache;

        give_memory(&o, &own, &r, LAYOUT_STEPS);
        cache = open_cache(ctx, &o);
        for (int64_t at = 0; at < (n ? 100 : 70); at += 10) {
            attn_view k = view_rows(&p.k, at, 10), v = view_rows(&p.v, at, 10);

            CHECK(attn_cache_append(cache, 0, &k, &v, NULL) == ATTN_OK);
        }
        for (int64_t at = n ? 30 : 0; at < (n ? 100 : 70); at++)
            for (int64_t c = 0; c < p.d; c++)
                CHECK(view_get(&o.k, 0, 1, at % 70, c) == view_get(&p.k, 0, 1, at, c));
        attn_cache_destroy(cache);
        arena_reset(&own);
        arena_reset(&problem_mem);
    }
}

/* Puts row p of sequence s where the header says the cache looks for it. */
static void place_rows(const attn_cache_options *o, const problem *p, int64_t from)
{
    int64_t per = o->page ? (o->capacity + o->page - 1) / o->page : 0;

    for (int64_t s = 0; s < p->b; s++)
        for (int64_t at = from; at < p->tk; at++) {
            int64_t b = s, row = at;

            if (o->kind == ATTN_CACHE_RING)
                row = at % o->capacity;
            if (o->kind == ATTN_CACHE_PAGED)
                b = o->block_table[s * per + at / o->page], row = at % o->page;
            for (int64_t h = 0; h < p->hk; h++) {
                for (int64_t c = 0; c < p->d; c++)
                    view_set(&o->k, b, h, row, c, view_get(&p->k, s, h, at, c));
                for (int64_t c = 0; c < p->dv; c++)
                    view_set(&o->v, b, h, row, c, view_get(&p->v, s, h, at, c));
            }
        }
}

/* Pages in no order, used from both ends of the pool; -1 where no row stands. */
static int32_t *make_table(const attn_cache_options *o, int64_t pages_used)
{
    int64_t per = (o->capacity + o->page - 1) / o->page;
    int32_t *table = arena_get(&problem_mem, (size_t)(o->batch * per) * sizeof *table), next = 0;

    for (int64_t i = 0; i < o->batch * per; i++) {
        table[i] = -1;
        if (i % per < pages_used) {
            table[i] = next % 2 ? next / 2 : (int32_t)o->pages - 1 - next / 2;
            next++;
        }
    }
    return table;
}

static void assigned_rows(void **state)
{
    attn_kernel_set set = test_set(state);
    const attn_ctx *ctx = ctx_for(set, 3);
    arena own = {0};

    for (int n = 0; n < 3 * 4 * 3; n++) {
        problem p = problem_make(ctx_for(set, 1), types[n / 3 % 4], n / 12, 2, 20, 560);
        rng r = rng_make(test_seed(), (uint64_t)n);
        attn_cache_options o = options_of(&p, kinds[n % 3], 600);
        attn_cache *cache;

        give_memory(&o, &own, &r, n);
        if (o.kind == ATTN_CACHE_PAGED)
            o.block_table = make_table(&o, (p.tk + PAGE - 1) / PAGE);
        place_rows(&o, &p, 0);
        cache = open_cache(ctx, &o);
        for (int64_t s = 0; s < p.b; s++) {
            CHECK(attn_cache_length(cache, s) == 0);
            CHECK(attn_cache_assign(cache, s, 0, p.tk, NULL) == ATTN_OK);
            CHECK(attn_cache_first(cache, s) == 0 && attn_cache_length(cache, s) == p.tk);
        }
        check_decode(ctx, cache, &p, 20, "assigned");
        if (p.options != ADDED)
            check_decode(ctx, cache, &p, 3, "assigned");
        attn_cache_destroy(cache);
        arena_reset(&own);
        arena_reset(&problem_mem);
    }
}

/* Rows from a later position on, as after a window has moved. */
static void assigned_from_a_position(void **state)
{
    attn_kernel_set set = test_set(state);
    const attn_ctx *ctx = ctx_for(set, 2);
    enum { FROM = 77 };
    arena own = {0};

    for (int n = 0; n < 3; n++) {
        problem p = problem_make(ctx_for(set, 1), ATTN_F32, POSITIONS, 1, 6, 560);
        rng r = rng_make(test_seed(), (uint64_t)n);
        attn_cache_options o = options_of(&p, kinds[n], n == 1 ? 560 - FROM : 600);
        attn_forward_args a = problem_args(&p, 0, 1);
        attn_cache *cache;

        give_memory(&o, &own, &r, n);
        if (o.kind == ATTN_CACHE_PAGED)
            o.block_table = make_table(&o, 14);
        place_rows(&o, &p, FROM);
        cache = open_cache(ctx, &o);
        CHECK(attn_cache_assign(cache, 0, FROM, 560 - FROM, NULL) == ATTN_OK);
        a.k = view_rows(&p.k, FROM, 560 - FROM);
        a.v = view_rows(&p.v, FROM, 560 - FROM);
        p.mask.k_offset = FROM;
        a.out = problem_out(&p, 1, 6);
        problem_run(ctx, &a);
        p.out = a.out;
        check_decode(ctx, cache, &p, 6, "assigned from a position");
        attn_cache_destroy(cache);
        arena_reset(&own);
        arena_reset(&problem_mem);
    }
}

/* --- Lengths -------------------------------------------------------------------------------- */

/* A batch of different lengths: padded on the left, padded on the right, in a cache, and each
 * alone. */
static void lengths_and_padding(void **state)
{
    static const int64_t lengths[] = {300, 1, 64, 129, 0};
    attn_kernel_set set = test_set(state);
    const attn_ctx *ctx = ctx_for(set, 2);
    enum { ROWS = 300, BATCH = 5, QUERIES = 3 };

    for (int n = 0; n < 3 * 4; n++) {
        problem p = problem_make(ctx_for(set, 1), types[n / 3], PLAIN, BATCH, QUERIES, ROWS);
        attn_cache_options o = options_of(&p, kinds[n % 3], ROWS);
        attn_cache *cache = open_cache(ctx, &o);
        attn_forward_args a = problem_args(&p, 0, BATCH);
        int64_t start[BATCH], q_offsets[BATCH];
        attn_view alone = problem_out(&p, BATCH, QUERIES);

        for (int64_t s = 0; s < BATCH; s++) {
            attn_forward_args one = problem_args(&p, s, 1);
            int64_t at = ROWS - lengths[s];

            one.k = view_rows(&one.k, at, lengths[s]);
            one.v = view_rows(&one.v, at, lengths[s]);
            one.out = view_part(&alone, 0, s, 1);
            p.mask.causal = 1;
            p.mask.q_offset = lengths[s] - QUERIES;
            problem_run(ctx_for(set, 1), &one);
            CHECK(attn_cache_append(cache, s, &one.k, &one.v, NULL) == ATTN_OK);
            start[s] = at;
            q_offsets[s] = lengths[s] - QUERIES;
        }
        a = problem_args(&p, 0, BATCH);
        p.mask.causal = 1;
        p.mask.k_start = start; /* left padding: the rows before are another text's */
        p.mask.q_offsets = q_offsets;
        a.out = problem_out(&p, BATCH, QUERIES);
        problem_run(ctx, &a);
        expect_same(&a.out, &alone, "left-padded batch");
        a = problem_args(&p, 0, BATCH);
        p.mask.causal = 1;
        a.k = a.v = (attn_view){0};
        a.out = problem_out(&p, BATCH, QUERIES);
        CHECK(attn_decode(ctx, cache, &a, NULL) == ATTN_OK);
        expect_same(&a.out, &alone, "batch in a cache of kind %d", (int)o.kind);
        attn_cache_destroy(cache);
        arena_reset(&problem_mem);
    }
}

/* Columns of keep, bias and weights count from the oldest row held. */
static void columns_count_from_the_oldest_row(void **state)
{
    attn_kernel_set set = test_set(state);
    const attn_ctx *ctx = ctx_for(set, 2);
    enum { ROWS = 200, GONE = 70, QUERIES = 4 };

    for (int n = 0; n < 3; n++) {
        problem p = problem_make(ctx_for(set, 1), ATTN_F32, ADDED, 1, QUERIES, ROWS);
        attn_cache_options o = options_of(&p, kinds[n], n == 1 ? ROWS - GONE : ROWS);
        attn_cache *cache = open_cache(ctx, &o);
        attn_forward_args a = problem_args(&p, 0, 1);
        attn_view want, want_weights;

        CHECK(attn_cache_append(cache, 0, &p.k, &p.v, NULL) == ATTN_OK);
        CHECK(n == 1 || attn_cache_drop(cache, 0, GONE, NULL) == ATTN_OK);
        CHECK(attn_cache_first(cache, 0) == GONE);
        p.mask.keep = view_columns(&p.keep, GONE, ROWS - GONE);
        p.mask.bias = view_columns(&p.bias, GONE, ROWS - GONE);
        a.k = view_rows(&p.k, GONE, ROWS - GONE);
        a.v = view_rows(&p.v, GONE, ROWS - GONE);
        a.out = want = problem_out(&p, 1, QUERIES);
        a.weights = want_weights = view_plain(&problem_mem, ATTN_F32, 1, p.h, QUERIES, ROWS - GONE);
        p.mask.k_offset = GONE;
        p.mask.q_offset = ROWS - QUERIES;
        problem_run(ctx, &a);
        p.mask.k_offset = p.mask.q_offset = 0;
        a.k = a.v = (attn_view){0};
        a.out = problem_out(&p, 1, QUERIES);
        a.weights = view_plain(&problem_mem, ATTN_F32, 1, p.h, QUERIES, ROWS - GONE);
        CHECK(attn_decode(ctx, cache, &a, NULL) == ATTN_OK);
        expect_same(&a.out, &want, "kind %d", n);
        expect_same(&a.weights, &want_weights, "weights, kind %d", n);
        attn_cache_destroy(cache);
        arena_reset(&problem_mem);
    }
}

/* --- Errors --------------------------------------------------------------------------------- */

static void refuse_create(const attn_cache_options *o, const char *what)
{
    attn_error err = {ATTN_OK, 0, ""};
    attn_cache *cache = (attn_cache *)(void *)&err;
    attn_status st = attn_cache_create(ctx_for(ATTN_SET_AUTO, 1), o, &cache, &err);

    CHECK_MSG(st == ATTN_E_ARGUMENT || st == ATTN_E_SHAPE || st == ATTN_E_MEMORY, "%s: %s", what,
              attn_status_text(st));
    CHECK_MSG(cache == NULL && err.status == st && err.text[0], "%s: cache or text", what);
}

/* Each line changes one field of options that are otherwise right. */
#define REFUSE(kind, change)                                                                       \
    (o = options_of(&p, kind, 100), give_memory(&o, &own, &r, 0), (change),                        \
     refuse_create(&o, #kind ": " #change))

static void bad_options(void **state)
{
    problem p = {.type = ATTN_F32, .b = 2, .hk = 2, .d = 8, .dv = 8};
    rng r = rng_make(1, 1);
    attn_cache_options o;
    attn_cache *cache;
    arena own = {0};

    (void)state;
    REFUSE(ATTN_CACHE_RING, o.struct_size = 0);
    REFUSE(ATTN_CACHE_RING, o.kind = (attn_cache_kind)7);
    REFUSE(ATTN_CACHE_RING, o.type = ATTN_U8);
    REFUSE(ATTN_CACHE_RING, o.type = ATTN_F16); /* the memory is f32 */
    REFUSE(ATTN_CACHE_RING, o.batch = -1);
    REFUSE(ATTN_CACHE_RING, o.heads = -1);
    REFUSE(ATTN_CACHE_RING, o.dk = 0);
    REFUSE(ATTN_CACHE_RING, o.dv = -8);
    REFUSE(ATTN_CACHE_RING, o.capacity = -1);
    REFUSE(ATTN_CACHE_RING, o.capacity = 0);
    REFUSE(ATTN_CACHE_CONTIGUOUS, o.k.data = NULL); /* both or neither */
    REFUSE(ATTN_CACHE_CONTIGUOUS, o.v.data = NULL);
    REFUSE(ATTN_CACHE_CONTIGUOUS, o.k.data = (char *)o.k.data + 1);
    REFUSE(ATTN_CACHE_CONTIGUOUS, o.k.size[2] = 99);
    REFUSE(ATTN_CACHE_CONTIGUOUS, o.v.size[3] = 7);
    REFUSE(ATTN_CACHE_CONTIGUOUS, o.v.size[0] = 1);
    REFUSE(ATTN_CACHE_CONTIGUOUS, o.k.stride[2] = 0);
    REFUSE(ATTN_CACHE_CONTIGUOUS, o.block_table = (const int32_t *)o.k.data);
    REFUSE(ATTN_CACHE_PAGED, o.page = 0);
    REFUSE(ATTN_CACHE_PAGED, o.page = -1);
    REFUSE(ATTN_CACHE_PAGED, o.pages = -1);
    REFUSE(ATTN_CACHE_PAGED, o.k.size[0] = 1);
    REFUSE(ATTN_CACHE_PAGED, o.k.size[2] = PAGE - 1);
    o = options_of(&p, ATTN_CACHE_PAGED, 100); /* a table without memory */
    o.block_table = (const int32_t *)(void *)&r;
    refuse_create(&o, "block table over the library's memory");
    o = options_of(&p, ATTN_CACHE_CONTIGUOUS, INT64_MAX / 4); /* products that wrap */
    refuse_create(&o, "capacity 2^61");
    o = options_of(&p, ATTN_CACHE_CONTIGUOUS, (int64_t)1 << 31);
    o.batch = (int64_t)1 << 31, o.heads = 1 << 20;
    refuse_create(&o, "2^31 sequences of 2^31 rows");
    CHECK(attn_cache_create(ctx_for(ATTN_SET_AUTO, 1), NULL, &cache, NULL) == ATTN_E_ARGUMENT);
    o = options_of(&p, ATTN_CACHE_RING, 100);
    CHECK(attn_cache_create(NULL, &o, &cache, NULL) == ATTN_E_ARGUMENT);
    CHECK(attn_cache_create(ctx_for(ATTN_SET_AUTO, 1), &o, NULL, NULL) == ATTN_E_ARGUMENT);
    attn_cache_destroy(NULL);
    arena_reset(&own);
}

static void refuse_append(attn_cache *cache, int64_t first, const attn_view *k, const attn_view *v,
                          const char *what)
{
    attn_error err = {ATTN_OK, 0, ""};
    attn_status st = attn_cache_append(cache, first, k, v, &err);

    CHECK_MSG(st == ATTN_E_ARGUMENT || st == ATTN_E_SHAPE, "%s: %s", what, attn_status_text(st));
    CHECK_MSG(err.status == st && err.text[0], "%s: no text", what);
    for (int64_t s = 0; s < 2; s++)
        CHECK_MSG(attn_cache_length(cache, s) == 10, "%s: length %d", what,
                  (int)attn_cache_length(cache, s));
}

#define REFUSE_APPEND(change)                                                                      \
    (k = view_rows(&p.k, 0, 10), v = view_rows(&p.v, 0, 10), first = 0, (change),                  \
     refuse_append(cache, first, &k, &v, #change))

static void bad_appends(void **state)
{
    const attn_ctx *ctx = ctx_for(ATTN_SET_AUTO, 1);
    problem p = problem_make(ctx, ATTN_F32, PLAIN, 2, 3, 20);
    attn_cache_options o = options_of(&p, ATTN_CACHE_CONTIGUOUS, 50);
    attn_cache *cache = open_cache(ctx, &o);
    attn_view k = view_rows(&p.k, 0, 10), v = view_rows(&p.v, 0, 10);
    int64_t first;

    (void)state;
    CHECK(attn_cache_append(cache, 0, &k, &v, NULL) == ATTN_OK);
    REFUSE_APPEND(first = 1);
    REFUSE_APPEND(first = -1);
    REFUSE_APPEND(first = INT64_MAX);
    REFUSE_APPEND(k.size[2] = 9);
    REFUSE_APPEND(k.size[0] = 1);
    REFUSE_APPEND(k.size[1] = 1);
    REFUSE_APPEND(k.size[3] = p.d - 1);
    REFUSE_APPEND(v.size[3] = p.dv - 1);
    REFUSE_APPEND(k.size[2] = v.size[2] = -1);
    REFUSE_APPEND(k.type = ATTN_U8);
    REFUSE_APPEND(v.type = ATTN_F64);
    REFUSE_APPEND(k.data = NULL);
    REFUSE_APPEND(v.data = (char *)v.data + 1);
    CHECK(attn_cache_append(NULL, 0, &k, &v, NULL) == ATTN_E_ARGUMENT);
    CHECK(attn_cache_append(cache, 0, NULL, &v, NULL) == ATTN_E_ARGUMENT);
    CHECK(attn_cache_append(cache, 0, &k, NULL, NULL) == ATTN_E_ARGUMENT);
    CHECK(attn_cache_first(cache, 2) == -1 && attn_cache_length(cache, -1) == -1);
    CHECK(attn_cache_assign(cache, 0, 0, 5, NULL) == ATTN_E_ARGUMENT); /* the library's memory */
    attn_cache_destroy(cache);
    arena_reset(&problem_mem);
}

static void bad_assignments(void **state)
{
    const attn_ctx *ctx = ctx_for(ATTN_SET_AUTO, 1);
    problem p = problem_make(ctx, ATTN_F32, PLAIN, 2, 3, 20);
    rng r = rng_make(1, 1);
    arena own = {0};

    (void)state;
    for (int n = 0; n < 3; n++) {
        attn_cache_options o = options_of(&p, kinds[n], 100);
        int32_t *table;
        attn_cache *cache;

        give_memory(&o, &own, &r, 0);
        if (o.kind == ATTN_CACHE_PAGED)
            o.block_table = table = make_table(&o, 2);
        cache = open_cache(ctx, &o);
        CHECK(attn_cache_assign(cache, 0, 0, 70, NULL) == ATTN_OK);
        CHECK(attn_cache_assign(cache, 2, 0, 10, NULL) == ATTN_E_ARGUMENT);
        CHECK(attn_cache_assign(cache, 0, -1, 10, NULL) == ATTN_E_ARGUMENT);
        CHECK(attn_cache_assign(cache, 0, 0, -1, NULL) == ATTN_E_ARGUMENT);
        CHECK(attn_cache_assign(cache, 0, 0, 101, NULL) == ATTN_E_ARGUMENT);
        CHECK(attn_cache_assign(cache, 0, INT64_MAX, 1, NULL) == ATTN_E_ARGUMENT);
        CHECK(attn_cache_length(cache, 0) == 70 && attn_cache_first(cache, 0) == 0);
        attn_cache_destroy(cache);
    }
    arena_reset(&own);
    arena_reset(&problem_mem);
}

static void refuse_decode(const attn_cache *cache, const attn_forward_args *a, const char *what)
{
    const attn_ctx *ctx = ctx_for(ATTN_SET_AUTO, 1);
    attn_view was = view_plain(&problem_mem, a->out.type, 2, 4, 3, a->out.size[3]);
    attn_error err = {ATTN_OK, 0, ""};
    attn_plan plan = ATTN_PLAN_INIT;

    view_fill(&was, 77);
    attn_status st = attn_decode(ctx, cache, a, &err);
    CHECK_MSG(st == ATTN_E_ARGUMENT || st == ATTN_E_SHAPE, "%s: %s", what, attn_status_text(st));
    CHECK_MSG(err.status == st && err.text[0], "%s: no text", what);
    CHECK_MSG(attn_decode_plan(ctx, cache, a, &plan, NULL) == st, "%s: plan differs", what);
    CHECK_MSG(view_same_bits(&a->out, &was), "%s: output written", what);
}

#define REFUSE_DECODE(change)                                                                      \
    (a = problem_args(&p, 0, 2), a.k = a.v = (attn_view){0}, a.out = problem_out(&p, 2, 3),        \
     (change), refuse_decode(cache, &a, #change))

static void bad_decodes(void **state)
{
    const attn_ctx *ctx = ctx_for(ATTN_SET_AUTO, 1);
    problem p = problem_make(ctx, ATTN_F32, PLAIN, 2, 3, 20);
    attn_cache_options o = options_of(&p, ATTN_CACHE_CONTIGUOUS, 50);
    attn_cache *cache = open_cache(ctx, &o);
    int64_t zeros[3] = {0, 0, 0};
    attn_forward_args a;

    (void)state;
    CHECK(attn_cache_append(cache, 0, &p.k, &p.v, NULL) == ATTN_OK);
    REFUSE_DECODE(a.k = p.k);
    REFUSE_DECODE(a.v = p.v);
    REFUSE_DECODE(p.mask.k_offset = 1);
    REFUSE_DECODE(p.mask.k_offsets = zeros);
    REFUSE_DECODE(p.mask.k_start = zeros);
    REFUSE_DECODE(p.mask.k_count = zeros);
    REFUSE_DECODE((p.mask.segments = 2, p.mask.q_starts = zeros, p.mask.k_starts = zeros));
    REFUSE_DECODE(a.q.size[0] = 1);
    REFUSE_DECODE(a.q.size[1] = 3);
    REFUSE_DECODE(a.q.size[3] = p.d + 1);
    REFUSE_DECODE(a.q.type = ATTN_F64);
    REFUSE_DECODE(a.struct_size = 0);
    REFUSE_DECODE(a.weights = view_plain(&problem_mem, ATTN_F32, 2, 4, 3, 21));
    CHECK(attn_decode(ctx, NULL, &a, NULL) == ATTN_E_ARGUMENT);
    CHECK(attn_decode(ctx, cache, NULL, NULL) == ATTN_E_ARGUMENT);
    CHECK(attn_decode(NULL, cache, &a, NULL) == ATTN_E_ARGUMENT);
    attn_cache_destroy(cache);
    arena_reset(&problem_mem);
}

int main(int argc, char **argv)
{
    static const test_case tests[] = {
        {"any_layout", any_layout, 1},
        {"rows_lie_where_documented", rows_lie_where_documented, 0},
        {"assigned_rows", assigned_rows, 1},
        {"assigned_from_a_position", assigned_from_a_position, 1},
        {"lengths_and_padding", lengths_and_padding, 1},
        {"columns_count_from_the_oldest_row", columns_count_from_the_oldest_row, 1},
        {"bad_options", bad_options, 0},
        {"bad_appends", bad_appends, 0},
        {"bad_assignments", bad_assignments, 0},
        {"bad_decodes", bad_decodes, 0},
    };

    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
