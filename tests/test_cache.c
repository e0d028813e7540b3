/* test_cache.c: caches of every kind hold what was put in, refuse what does not fit, and decode
 * with the bits of attn_forward over the same rows.
 *
 * The model of a cache is a plain list of rows a sequence (struct model); after any history of
 * calls, decoding must equal attn_forward over the rows gathered from the model, by memcmp.
 * attn_forward itself is held to the double reference in other programs; one test here closes the
 * triangle.
 */
#include "include/attn/attn.h"
#include "tests/ref.h"
#include "tests/yardstick.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { HEADS = 4, KEY_HEADS = 2, DK = 13, DV = 11, MAX_SEQ = 4 };

static const attn_type types[] = {ATTN_F32, ATTN_F16, ATTN_BF16, ATTN_F64};
static const attn_cache_kind kinds[] = {ATTN_CACHE_CONTIGUOUS, ATTN_CACHE_RING, ATTN_CACHE_PAGED};

/* Rows by their number in `k` and `v`, which hold all rows ever used, in the cache's type. */
typedef struct model {
    attn_view k, v; /* [1, KEY_HEADS, rows, width] */
    int64_t first[MAX_SEQ], length[MAX_SEQ];
    int32_t *row[MAX_SEQ]; /* row[s][p]: what stands at position p */
    attn_cache_options options;
    attn_cache *cache;
    const attn_ctx *ctx;
} model;

/* --- The model ------------------------------------------------------------------------------ */

static void model_open(model *m, const attn_ctx *ctx, const attn_cache_options *o, int64_t rows)
{
    rng r = rng_make(test_seed(), 1000 + (uint64_t)rows);
    attn_error err = {ATTN_OK, 0, ""};

    memset(m, 0, sizeof *m);
    m->options = *o;
    m->ctx = ctx;
    m->k = problem_input(&r, o->type, 1, KEY_HEADS, rows, DK);
    m->v = problem_input(&r, o->type, 1, KEY_HEADS, rows, DV);
    for (int64_t s = 0; s < o->batch; s++)
        m->row[s] = arena_get(&problem_mem, sizeof(int32_t) * 4096);
    CHECK_MSG(attn_cache_create(ctx, o, &m->cache, &err) == ATTN_OK, "create: %s", err.text);
}

static void model_close(model *m)
{
    attn_cache_destroy(m->cache);
    arena_reset(&problem_mem);
}

static attn_cache_options options_of(attn_cache_kind kind, attn_type type, int64_t batch,
                                     int64_t capacity)
{
    attn_cache_options o = ATTN_CACHE_OPTIONS_INIT;

    o.kind = kind;
    o.type = type;
    o.batch = batch;
    o.heads = KEY_HEADS;
    o.dk = DK;
    o.dv = DV;
    o.capacity = capacity;
    if (kind == ATTN_CACHE_PAGED) {
        o.page = 24;
        o.pages = batch * ((capacity + 23) / 24);
    }
    return o;
}

/* Rows `from`.. of the model's store, appended to one sequence. */
static attn_status model_append(model *m, int64_t s, int64_t from, int64_t n)
{
    attn_view k = view_rows(&m->k, from, n), v = view_rows(&m->v, from, n);
    attn_status st = attn_cache_append(m->cache, s, &k, &v, NULL);

    if (st != ATTN_OK)
        return st;
    for (int64_t i = 0; i < n; i++)
        m->row[s][m->first[s] + m->length[s] + i] = (int32_t)(from + i);
    m->length[s] += n;
    if (m->options.kind == ATTN_CACHE_RING && m->length[s] > m->options.capacity) {
        m->first[s] += m->length[s] - m->options.capacity;
        m->length[s] = m->options.capacity;
    }
    return st;
}

static void model_counts(const model *m, const char *when)
{
    for (int64_t s = 0; s < m->options.batch; s++)
        CHECK_MSG(attn_cache_first(m->cache, s) == m->first[s] &&
                      attn_cache_length(m->cache, s) == m->length[s],
                  "%s: sequence %d holds %d from %d, not %d from %d", when, (int)s,
                  (int)attn_cache_length(m->cache, s), (int)attn_cache_first(m->cache, s),
                  (int)m->length[s], (int)m->first[s]);
}

static attn_view gather(const model *m, const attn_view *store, int64_t s)
{
    attn_view v = view_plain(&problem_mem, store->type, 1, KEY_HEADS, m->length[s], store->size[3]);

    for (int64_t h = 0; h < KEY_HEADS; h++)
        for (int64_t i = 0; i < m->length[s]; i++)
            memcpy(ref_at(&v, 0, h, i, 0), ref_at(store, 0, h, m->row[s][m->first[s] + i], 0),
                   (size_t)store->size[3] * attn_type_size(store->type));
    return v;
}

/* What decoding must give for sequence s: attn_forward over its rows at their positions. */
static attn_forward_args forward_of(const model *m, const attn_forward_args *decode,
                                    attn_mask *mask, int64_t s)
{
    attn_forward_args a = *decode;

    *mask = *decode->mask;
    a.mask = mask;
    a.q = view_part(&decode->q, 0, s, 1);
    a.k = gather(m, &m->k, s);
    a.v = gather(m, &m->v, s);
    a.out = view_part(&decode->out, 0, s, 1);
    a.out = view_plain(&problem_mem, a.out.type, 1, HEADS, a.out.size[2], DV);
    a.dropout_batch = s;
    mask->k_offset = m->first[s];
    mask->q_offset += m->first[s] + m->length[s] - a.q.size[2];
    return a;
}

/* Decodes `queries` rows of all sequences and holds each to attn_forward. */
static void model_check(const model *m, int64_t queries, int64_t window, const char *when)
{
    attn_type type = m->options.type, wide = type == ATTN_F64 ? ATTN_F64 : ATTN_F32;
    rng r = rng_make(test_seed(), (uint64_t)queries);
    attn_forward_args a = ATTN_FORWARD_ARGS_INIT;
    attn_mask mask = ATTN_MASK_INIT, own;
    attn_error err = {ATTN_OK, 0, ""};
    int64_t b = m->options.batch;

    a.q = problem_input(&r, wide, b, HEADS, queries, DK);
    a.out = view_plain(&problem_mem, wide, b, HEADS, queries, DV);
    a.mask = &mask;
    a.dropout = 0.1;
    mask.causal = 1;
    mask.window = window >= 0;
    mask.window_left = window;
    mask.alibi = problem_input(&r, wide, 1, HEADS, 1, 1);
    CHECK_MSG(attn_decode(m->ctx, m->cache, &a, &err) == ATTN_OK, "%s: %s", when, err.text);
    for (int64_t s = 0; s < b; s++) {
        attn_forward_args f = forward_of(m, &a, &own, s);
        attn_view got = view_part(&a.out, 0, s, 1);

        problem_run(m->ctx, &f);
        expect_same(&got, &f.out, "%s: kind %d, sequence %d, %d rows from %d, %d queries", when,
                    (int)m->options.kind, (int)s, (int)m->length[s], (int)m->first[s],
                    (int)queries);
    }
    if (b > 1) { /* a batch of fewer: the first sequences */
        attn_view all = view_part(&a.out, 0, 0, b - 1);

        a.q = view_part(&a.q, 0, 0, b - 1);
        a.out = view_plain(&problem_mem, wide, b - 1, HEADS, queries, DV);
        CHECK_MSG(attn_decode(m->ctx, m->cache, &a, &err) == ATTN_OK, "%s: %s", when, err.text);
        expect_same(&a.out, &all, "%s: kind %d, all but the last sequence", when,
                    (int)m->options.kind);
    }
}

/* --- What goes in comes out ----------------------------------------------------------------- */

/* Any cut of the appends, any capacity, any page: same bits as attn_forward. */
static void appended_rows_decode_like_forward(void **state)
{
    static const int64_t capacities[] = {600, 601, 1024, 2000}, cuts[] = {1, 7, 64, 600};
    const attn_ctx *ctx = ctx_for(test_set(state), 2);

    for (int n = 0; n < 3 * 4 * 4; n++) {
        attn_cache_options o = options_of(kinds[n % 3], types[n / 3 % 4], 2, capacities[n / 12]);
        int64_t cut = cuts[(n / 3 + n / 12) % 4];
        model m;

        if (o.page)
            o.page = 1 + n * 5 % 70, o.pages = 2 * ((o.capacity + o.page - 1) / o.page);
        model_open(&m, ctx, &o, 1300);
        for (int64_t s = 0; s < 2; s++)
            for (int64_t at = 0; at < 600 - 47 * s; at += cut) {
                int64_t left = 600 - 47 * s - at;

                CHECK(model_append(&m, s, 650 * s + at, left < cut ? left : cut) == ATTN_OK);
            }
        model_counts(&m, "filled");
        model_check(&m, n % 17 + 1, -1, "filled");
        if (n % 4 == 0)
            model_check(&m, 120, -1, "filled");
        model_close(&m);
    }
}

/* Two sequences appended in one call. */
static void batched_append_equals_single(void **state)
{
    const attn_ctx *ctx = ctx_for(test_set(state), 2);

    for (int n = 0; n < 3; n++) {
        attn_cache_options o = options_of(kinds[n], ATTN_F32, 3, 100);
        model m;
        attn_view k, v;

        model_open(&m, ctx, &o, 300);
        CHECK(model_append(&m, 1, 200, 5) == ATTN_OK);
        k = view_rows(&m.k, 0, 40), v = view_rows(&m.v, 0, 40);
        k.size[0] = v.size[0] = 2; /* the same rows twice: rows 40.. for the second sequence */
        k.stride[0] = 40 * k.stride[2], v.stride[0] = 40 * v.stride[2];
        CHECK(attn_cache_append(m.cache, 1, &k, &v, NULL) == ATTN_OK);
        for (int64_t s = 1; s < 3; s++) {
            for (int64_t i = 0; i < 40; i++)
                m.row[s][m.length[s] + i] = (int32_t)(40 * (s - 1) + i);
            m.length[s] += 40;
        }
        model_counts(&m, "batched append");
        model_check(&m, 3, -1, "batched append"); /* sequence 0 is empty */
        model_close(&m);
    }
}

/* f32 rows into a half cache are rounded to nearest even, as view_copy does by the reference's
 * rule. */
static void appended_rows_are_converted(void **state)
{
    const attn_ctx *ctx = ctx_for(test_set(state), 2);
    rng r = rng_make(test_seed(), 3);

    for (int n = 0; n < 3 * 3 * 3; n++) {
        attn_type to = types[n % 3], from = types[n / 3 % 3];
        attn_cache_options o = options_of(kinds[n / 9], to, 1, 130);
        attn_forward_args a = ATTN_FORWARD_ARGS_INIT;
        attn_view wide_k = problem_input(&r, from, 1, KEY_HEADS, 130, DK);
        attn_view wide_v = problem_input(&r, from, 1, KEY_HEADS, 130, DV);
        model m;

        view_set(&wide_v, 0, 0, 7, 0, 1e-7); /* denormal in f16 */
        view_set(&wide_v, 0, 0, 9, 1, 1 + 0x1p-9);
        model_open(&m, ctx, &o, 1);
        CHECK(attn_cache_append(m.cache, 0, &wide_k, &wide_v, NULL) == ATTN_OK);
        a.q = problem_input(&r, ATTN_F32, 1, HEADS, 4, DK);
        a.out = view_plain(&problem_mem, ATTN_F32, 1, HEADS, 4, DV);
        CHECK(attn_decode(ctx, m.cache, &a, NULL) == ATTN_OK);
        attn_view got = a.out;
        a.out = view_plain(&problem_mem, ATTN_F32, 1, HEADS, 4, DV);
        a.k = view_copy(&problem_mem, &r, &wide_k, to, LAYOUT_BHSD);
        a.v = view_copy(&problem_mem, &r, &wide_v, to, LAYOUT_BHSD);
        problem_run(ctx, &a);
        expect_same(&got, &a.out, "%s into %s", attn_type_name(from), attn_type_name(to));
        model_close(&m);
    }
}

static void decode_is_within_the_bound(void **state)
{
    const attn_ctx *ctx = ctx_for(test_set(state), 2);
    ref_worst worst = {0, 0, 0};

    for (int n = 0; n < 3 * 4; n++) {
        attn_type type = types[n / 3], wide = type == ATTN_F64 ? ATTN_F64 : ATTN_F32;
        attn_cache_options o = options_of(kinds[n % 3], type, 1, 700);
        attn_forward_args a = ATTN_FORWARD_ARGS_INIT;
        attn_mask mask = ATTN_MASK_INIT;
        rng r = rng_make(test_seed(), 17);
        char why[400] = "";
        model m;
        ref want;

        model_open(&m, ctx, &o, 800);
        CHECK(model_append(&m, 0, 0, 690) == ATTN_OK);
        a.q = problem_input(&r, wide, 1, HEADS, 5, DK);
        a.out = view_plain(&problem_mem, wide, 1, HEADS, 5, DV);
        a.lse = view_plain(&problem_mem, wide, 1, HEADS, 5, 1);
        a.mask = &mask;
        mask.causal = 1;
        CHECK(attn_decode(ctx, m.cache, &a, NULL) == ATTN_OK);
        a.k = gather(&m, &m.k, 0);
        a.v = gather(&m, &m.v, 0);
        mask.q_offset = 685;
        ref_forward(&a, &want);
        int bad = ref_compare(&a, &want, &worst, why, sizeof why);
        ref_free(&want);
        CHECK_MSG(bad == 0, "%d elements over the bound: %s", bad, why);
        model_close(&m);
    }
}

/* --- Full caches ---------------------------------------------------------------------------- */

static void append_at_capacity(void **state)
{
    const attn_ctx *ctx = ctx_for(test_set(state), 2);

    for (int n = 0; n < 2 * 4; n++) {
        attn_cache_options o =
            options_of(n % 2 ? ATTN_CACHE_PAGED : ATTN_CACHE_CONTIGUOUS, types[n / 2], 2, 70);
        attn_error err = {ATTN_OK, 0, ""};
        model m;

        model_open(&m, ctx, &o, 200);
        CHECK(model_append(&m, 0, 0, 71) == ATTN_E_FULL);
        model_counts(&m, "71 of 70");
        CHECK(model_append(&m, 0, 0, 69) == ATTN_OK);
        CHECK(model_append(&m, 0, 69, 2) == ATTN_E_FULL);
        model_counts(&m, "69 + 2 of 70");
        model_check(&m, 2, -1, "refused");
        CHECK(model_append(&m, 0, 69, 1) == ATTN_OK);
        attn_view k = view_rows(&m.k, 70, 1), v = view_rows(&m.v, 70, 1);
        CHECK(attn_cache_append(m.cache, 0, &k, &v, &err) == ATTN_E_FULL);
        CHECK(err.status == ATTN_E_FULL && err.text[0]);
        k.size[0] = v.size[0] = 2; /* sequence 1 has room, 0 has not: neither changes */
        CHECK(attn_cache_append(m.cache, 0, &k, &v, NULL) == ATTN_E_FULL);
        model_counts(&m, "one of two is full");
        model_check(&m, 3, -1, "one of two is full");
        k.size[0] = v.size[0] = 1;
        k.size[2] = v.size[2] = 0; /* nothing always fits */
        CHECK(attn_cache_append(m.cache, 0, &k, &v, NULL) == ATTN_OK);
        model_check(&m, 1, -1, "nothing appended");
        model_close(&m);
    }
}

/* Pages are shared by the sequences: the pool ends before the capacities do. */
static void page_pool_runs_out(void **state)
{
    const attn_ctx *ctx = ctx_for(test_set(state), 2);
    attn_cache_options o = options_of(ATTN_CACHE_PAGED, ATTN_F32, 3, 96);
    model m;

    o.page = 16, o.pages = 6;
    model_open(&m, ctx, &o, 400);
    CHECK(model_append(&m, 0, 0, 64) == ATTN_OK);   /* 4 pages */
    CHECK(model_append(&m, 1, 100, 17) == ATTN_OK); /* 2 */
    CHECK(model_append(&m, 2, 200, 1) == ATTN_E_FULL);
    CHECK(model_append(&m, 1, 117, 15) == ATTN_OK); /* to the end of its page */
    CHECK(model_append(&m, 1, 132, 1) == ATTN_E_FULL);
    model_counts(&m, "pool used up");
    model_check(&m, 4, -1, "pool used up");
    CHECK(attn_cache_trim(m.cache, 0, 48, NULL) == ATTN_OK); /* gives a page back */
    m.length[0] = 48;
    CHECK(model_append(&m, 2, 200, 16) == ATTN_OK);
    CHECK(model_append(&m, 2, 216, 1) == ATTN_E_FULL);
    CHECK(attn_cache_drop(m.cache, 1, 15, NULL) == ATTN_OK); /* not yet a whole page */
    m.first[1] += 15, m.length[1] -= 15;
    CHECK(model_append(&m, 2, 216, 1) == ATTN_E_FULL);
    CHECK(attn_cache_drop(m.cache, 1, 1, NULL) == ATTN_OK);
    m.first[1]++, m.length[1]--;
    CHECK(model_append(&m, 2, 216, 16) == ATTN_OK);
    model_counts(&m, "pages found again");
    model_check(&m, 5, -1, "pages found again");
    model_close(&m);
}

/* --- Rings ---------------------------------------------------------------------------------- */

static void ring_at_every_phase(void **state)
{
    const attn_ctx *ctx = ctx_for(test_set(state), 1);

    for (int64_t capacity = 1; capacity <= 70; capacity += 23) {
        attn_cache_options o = options_of(ATTN_CACHE_RING, types[capacity % 4], 1, capacity);
        model m;

        model_open(&m, ctx, &o, 600);
        for (int64_t n = 0; n < 3 * capacity + 2; n++) {
            CHECK(model_append(&m, 0, n, 1) == ATTN_OK);
            model_counts(&m, "ring");
            model_check(&m, n % 3 + 1, -1, "ring");
        }
        CHECK(model_append(&m, 0, 300, 2 * capacity + 1) == ATTN_OK); /* more than it holds */
        model_counts(&m, "ring overrun");
        model_check(&m, 2, -1, "ring overrun");
        CHECK(model_append(&m, 0, 0, capacity) == ATTN_OK);
        model_check(&m, 4, -1, "ring replaced");
        model_close(&m);
    }
}

/* A ring of at least window + queries rows shows what a cache of all rows shows. */
static void window_over_a_ring_equals_full(void **state)
{
    const attn_ctx *ctx = ctx_for(test_set(state), 2);
    enum { WINDOW_LEFT = 90, QUERIES = 6, ROWS = 900 };
    attn_cache_options full = options_of(ATTN_CACHE_CONTIGUOUS, ATTN_F32, 1, ROWS);
    attn_cache_options ring = options_of(ATTN_CACHE_RING, ATTN_F32, 1, WINDOW_LEFT + QUERIES);
    attn_forward_args a = ATTN_FORWARD_ARGS_INIT;
    attn_mask mask = ATTN_MASK_INIT;
    rng r = rng_make(test_seed(), 5);
    attn_cache *rolling;
    model m;

    model_open(&m, ctx, &full, ROWS);
    CHECK(attn_cache_create(ctx, &ring, &rolling, NULL) == ATTN_OK);
    a.mask = &mask;
    mask.causal = mask.window = 1;
    mask.window_left = WINDOW_LEFT;
    a.q = problem_input(&r, ATTN_F32, 1, HEADS, QUERIES, DK);
    for (int64_t at = 0; at < ROWS; at += QUERIES) {
        attn_view k = view_rows(&m.k, at, QUERIES), v = view_rows(&m.v, at, QUERIES), want;

        CHECK(attn_cache_append(rolling, 0, &k, &v, NULL) == ATTN_OK);
        CHECK(attn_cache_append(m.cache, 0, &k, &v, NULL) == ATTN_OK);
        a.out = want = view_plain(&problem_mem, ATTN_F32, 1, HEADS, QUERIES, DV);
        CHECK(attn_decode(ctx, m.cache, &a, NULL) == ATTN_OK);
        a.out = view_plain(&problem_mem, ATTN_F32, 1, HEADS, QUERIES, DV);
        CHECK(attn_decode(ctx, rolling, &a, NULL) == ATTN_OK);
        expect_same(&a.out, &want, "window at position %lld", (long long)at);
    }
    attn_cache_destroy(rolling);
    model_close(&m);
}

/* --- Trim, drop, fork ----------------------------------------------------------------------- */

static void trim_and_drop(void **state)
{
    const attn_ctx *ctx = ctx_for(test_set(state), 2);

    for (int n = 0; n < 3; n++) {
        attn_cache_options o = options_of(kinds[n], ATTN_BF16, 2, 150);
        model m;

        model_open(&m, ctx, &o, 600);
        CHECK(model_append(&m, 0, 0, 150) == ATTN_OK);
        CHECK(model_append(&m, 1, 300, 80) == ATTN_OK);
        CHECK(attn_cache_trim(m.cache, 0, 151, NULL) == ATTN_E_ARGUMENT);
        CHECK(attn_cache_trim(m.cache, 0, -1, NULL) == ATTN_E_ARGUMENT);
        CHECK(attn_cache_drop(m.cache, 1, 81, NULL) == ATTN_E_ARGUMENT);
        CHECK(attn_cache_drop(m.cache, 1, -1, NULL) == ATTN_E_ARGUMENT);
        CHECK(attn_cache_trim(m.cache, 2, 0, NULL) == ATTN_E_ARGUMENT);
        CHECK(attn_cache_drop(m.cache, -1, 0, NULL) == ATTN_E_ARGUMENT);
        model_counts(&m, "refused");
        for (int64_t length = 149; length > 0; length -= 37) { /* then other rows in their place */
            CHECK(attn_cache_trim(m.cache, 0, length, NULL) == ATTN_OK);
            m.length[0] = length;
            model_check(&m, 3, -1, "trimmed");
            CHECK(model_append(&m, 0, 400 + length, 1) == ATTN_OK);
            model_check(&m, 2, -1, "appended after a trim");
        }
        for (int64_t count = 0; count < 26; count += 5) {
            CHECK(attn_cache_drop(m.cache, 1, count, NULL) == ATTN_OK);
            m.first[1] += count, m.length[1] -= count;
            model_counts(&m, "dropped");
            model_check(&m, 3, -1, "dropped");
        }
        CHECK(attn_cache_drop(m.cache, 1, m.length[1], NULL) == ATTN_OK);
        m.first[1] += m.length[1], m.length[1] = 0;
        model_counts(&m, "all dropped");
        model_check(&m, 1, -1, "all dropped");
        CHECK(attn_cache_trim(m.cache, 0, 0, NULL) == ATTN_OK);
        m.length[0] = 0;
        model_counts(&m, "trimmed to nothing");
        CHECK(model_append(&m, 0, 10, 100) == ATTN_OK);
        model_check(&m, 1, -1, "filled again");
        model_close(&m);
    }
}

static void model_fork(model *m, int64_t from, int64_t to)
{
    attn_error err = {ATTN_OK, 0, ""};

    CHECK_MSG(attn_cache_fork(m->cache, from, to, &err) == ATTN_OK, "fork: %s", err.text);
    m->first[to] = m->first[from];
    m->length[to] = m->length[from];
    memmove(m->row[to], m->row[from], sizeof(int32_t) * 4096);
}

/* Both sides go on by themselves; the shared rows stay as they were. */
static void forked_sequences_part(void **state)
{
    const attn_ctx *ctx = ctx_for(test_set(state), 2);

    for (int n = 0; n < 3 * 4; n++) {
        attn_cache_options o = options_of(kinds[n % 3], types[n / 3], 3, 200);
        model m;

        model_open(&m, ctx, &o, 900);
        CHECK(model_append(&m, 0, 0, 100) == ATTN_OK);  /* ends inside a page of 24 */
        CHECK(model_append(&m, 1, 500, 33) == ATTN_OK); /* forgotten by the fork */
        model_fork(&m, 0, 1);
        model_counts(&m, "forked");
        model_check(&m, 4, -1, "forked");
        CHECK(model_append(&m, 1, 200, 3) == ATTN_OK);
        model_check(&m, 4, -1, "copy went on");
        CHECK(model_append(&m, 0, 300, 30) == ATTN_OK);
        model_check(&m, 4, -1, "original went on");
        model_fork(&m, 1, 2);
        CHECK(attn_cache_trim(m.cache, 2, 50, NULL) == ATTN_OK);
        m.length[2] = 50;
        CHECK(model_append(&m, 2, 600, 5) == ATTN_OK); /* writes where the others have rows */
        model_check(&m, 4, -1, "trimmed copy went on");
        CHECK(attn_cache_drop(m.cache, 1, 60, NULL) == ATTN_OK);
        m.first[1] += 60, m.length[1] -= 60;
        model_check(&m, 4, -1, "copy dropped rows");
        model_fork(&m, 1, 1); /* itself: nothing changes */
        model_check(&m, 4, -1, "forked to itself");
        CHECK(attn_cache_fork(m.cache, 0, 3, NULL) == ATTN_E_ARGUMENT);
        CHECK(attn_cache_fork(m.cache, -1, 0, NULL) == ATTN_E_ARGUMENT);
        model_counts(&m, "bad forks");
        model_close(&m);
    }
}

/* Shared pages count once: 3 sequences over a pool that holds little more than one. */
static void forks_share_pages(void **state)
{
    const attn_ctx *ctx = ctx_for(test_set(state), 2);
    attn_cache_options o = options_of(ATTN_CACHE_PAGED, ATTN_F16, 3, 400);
    model m;

    o.page = 16, o.pages = 12;
    model_open(&m, ctx, &o, 900);
    CHECK(model_append(&m, 0, 0, 150) == ATTN_OK); /* 10 pages, the last half used */
    model_fork(&m, 0, 1);
    model_fork(&m, 0, 2);
    CHECK(model_append(&m, 1, 300, 1) == ATTN_OK);  /* copies the last page: 11 */
    CHECK(model_append(&m, 2, 400, 1) == ATTN_OK);  /* 12 */
    CHECK(model_append(&m, 0, 500, 10) == ATTN_OK); /* its page is its own again */
    CHECK(model_append(&m, 0, 510, 1) == ATTN_E_FULL);
    model_counts(&m, "shared");
    model_check(&m, 6, -1, "shared");
    CHECK(attn_cache_trim(m.cache, 1, 0, NULL) == ATTN_OK);
    m.length[1] = 0;
    CHECK(model_append(&m, 0, 510, 16) == ATTN_OK);    /* the page that only 1 held */
    CHECK(model_append(&m, 0, 526, 1) == ATTN_E_FULL); /* the rest is still 2's */
    model_check(&m, 6, -1, "one side gone");
    model_close(&m);
}

/* --- Any history ---------------------------------------------------------------------------- */

static void random_step(model *m, rng *r)
{
    int64_t s = rng_int(r, 0, m->options.batch - 1), n = rng_int(r, 1, 60);
    int64_t before = m->first[s] + m->length[s];

    switch (rng_int(r, 0, 9)) {
    case 0:
        n = rng_int(r, 0, m->length[s]);
        CHECK(attn_cache_trim(m->cache, s, n, NULL) == ATTN_OK);
        m->length[s] = n;
        return;
    case 1:
        n = rng_int(r, 0, m->length[s] / 2);
        CHECK(attn_cache_drop(m->cache, s, n, NULL) == ATTN_OK);
        m->first[s] += n, m->length[s] -= n;
        return;
    case 2:
        model_fork(m, s, rng_int(r, 0, m->options.batch - 1));
        return;
    default:
        if (before + n < 4096 && model_append(m, s, rng_int(r, 0, 900), n) != ATTN_OK) {
            CHECK(m->options.kind != ATTN_CACHE_RING);
            model_counts(m, "refused");
            CHECK(attn_cache_trim(m->cache, s, 0, NULL) == ATTN_OK);
            m->length[s] = 0;
        }
    }
}

static void random_histories(void **state)
{
    const attn_ctx *ctx = ctx_for(test_set(state), 2);

    for (int n = 0; n < 12; n++) {
        rng r = rng_make(test_seed(), 9000 + (uint64_t)n);
        attn_cache_options o = options_of(kinds[n % 3], types[n / 3], 4, rng_int(&r, 60, 200));
        model m;

        if (o.page)
            o.page = rng_int(&r, 1, 40), o.pages = rng_int(&r, 10, 40);
        model_open(&m, ctx, &o, 1000);
        for (int at = 0; at < 60; at++) {
            random_step(&m, &r);
            model_counts(&m, "history");
            if (at % 6 == 5)
                model_check(&m, rng_int(&r, 1, 5), at % 4 ? -1 : 40, "history");
        }
        model_close(&m);
    }
}

int main(int argc, char **argv)
{
    static const test_case tests[] = {
        {"appended_rows_decode_like_forward", appended_rows_decode_like_forward, 1},
        {"batched_append_equals_single", batched_append_equals_single, 1},
        {"appended_rows_are_converted", appended_rows_are_converted, 1},
        {"decode_is_within_the_bound", decode_is_within_the_bound, 1},
        {"append_at_capacity", append_at_capacity, 1},
        {"page_pool_runs_out", page_pool_runs_out, 1},
        {"ring_at_every_phase", ring_at_every_phase, 1},
        {"window_over_a_ring_equals_full", window_over_a_ring_equals_full, 1},
        {"trim_and_drop", trim_and_drop, 1},
        {"forked_sequences_part", forked_sequences_part, 1},
        {"forks_share_pages", forks_share_pages, 1},
        {"random_histories", random_histories, 1},
    };

    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
