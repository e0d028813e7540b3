/* test_cache_i8.c: caches that keep rows as integers and a scale. The rule of attn.h is written
 * here once more (quantise), so a cache must decode with the bits of attn_forward over the rows
 * that the rule gives, whatever its kind, its history, and the number of queries. */
#include "tests/expect.h"
#include "tests/support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { HEADS = 4, KEY_HEADS = 2, DK = 21, DV = 35, ROWS = 700 };

static const attn_cache_kind kinds[] = {ATTN_CACHE_CONTIGUOUS, ATTN_CACHE_RING, ATTN_CACHE_PAGED};

typedef struct rows {
    float k[KEY_HEADS][ROWS][DK], v[KEY_HEADS][ROWS][DV];
} rows;

static void *take(size_t size)
{
    void *p = malloc(size);

    assert_non_null(p);
    return p;
}

static void quantise(float *x, size_t n)
{
    float top = 0, scale;

    for (size_t i = 0; i < n; i++) {
        if (!isfinite(x[i])) {
            for (i = 0; i < n; i++)
                x[i] = NAN;
            return;
        }
        top = fmaxf(top, fabsf(x[i]));
    }
    scale = top / 127;
    for (size_t i = 0; i < n; i++)
        x[i] = top > 0 ? scale * rintf(x[i] / scale) : 0;
}

static rows *make_rows(uint64_t stream)
{
    rows *x = take(sizeof *x);
    rng r = rng_make(test_seed(), stream);

    for (int h = 0; h < KEY_HEADS; h++) {
        for (int i = 0; i < ROWS; i++) {
            double size = rng_range(&r, 0.01, 4);
            for (int c = 0; c < DK; c++)
                x->k[h][i][c] = (float)rng_range(&r, -size, size);
            for (int c = 0; c < DV; c++)
                x->v[h][i][c] = (float)rng_range(&r, -size, size);
        }
    }
    memset(x->k[0][3], 0, sizeof x->k[0][3]); /* a row of zeros has scale 0 */
    return x;
}

static rows *quantised(const rows *x)
{
    rows *q = take(sizeof *q);

    *q = *x;
    for (int h = 0; h < KEY_HEADS; h++) {
        for (int i = 0; i < ROWS; i++) {
            quantise(q->k[h][i], DK);
            quantise(q->v[h][i], DV);
        }
    }
    return q;
}

static attn_view k_view(const rows *x, int64_t from, int64_t n)
{
    attn_view v = attn_view_bhsd(x->k[0][from], ATTN_F32, 1, KEY_HEADS, n, DK);

    v.stride[1] = ROWS * DK;
    return v;
}

static attn_view v_view(const rows *x, int64_t from, int64_t n)
{
    attn_view v = attn_view_bhsd(x->v[0][from], ATTN_F32, 1, KEY_HEADS, n, DV);

    v.stride[1] = ROWS * DV;
    return v;
}

static attn_cache *open_cache(const attn_ctx *ctx, attn_cache_kind kind, int64_t capacity)
{
    attn_cache_options o = ATTN_CACHE_OPTIONS_INIT;
    attn_error err = {ATTN_OK, 0, ""};
    attn_cache *cache;

    o.kind = kind;
    o.type = ATTN_I8;
    o.batch = 2;
    o.heads = KEY_HEADS;
    o.dk = DK;
    o.dv = DV;
    o.capacity = capacity;
    o.page = 64;
    o.pages = 40;
    CHECK_MSG(attn_cache_create(ctx, &o, &cache, &err) == ATTN_OK, "create: %s", err.text);
    return cache;
}

static void append(attn_cache *cache, int64_t sequence, const rows *x, int64_t from, int64_t n)
{
    attn_view k = k_view(x, from, n), v = v_view(x, from, n);
    attn_error err = {ATTN_OK, 0, ""};

    CHECK_MSG(attn_cache_append(cache, sequence, &k, &v, &err) == ATTN_OK, "append: %s", err.text);
}

/* Decoding with the last tq rows of each of two sequences (the same rows in both) against one
 * forward call over rows first .. first + n - 1 of the quantised rows. */
static void check_decode(const attn_ctx *ctx, const attn_cache *cache, const rows *q, int64_t first,
                         int64_t n, int64_t tq)
{
    size_t cells = (size_t)(HEADS * tq);
    float *query = take(2 * cells * DK * sizeof(float));
    float *wanted = take(cells * DV * sizeof(float));
    float *got = take(2 * cells * DV * sizeof(float));
    rng r = rng_make(test_seed(), (uint64_t)(n + tq));
    attn_mask mask = ATTN_MASK_INIT;
    attn_forward_args a = ATTN_FORWARD_ARGS_INIT;
    attn_error err = {ATTN_OK, 0, ""};

    for (size_t i = 0; i < cells * DK; i++)
        query[i] = query[cells * DK + i] = (float)rng_range(&r, -2, 2);
    mask.causal = 1;
    mask.window = 1;
    mask.window_left = 400;
    mask.window_right = -1;
    a.mask = &mask;
    a.q = attn_view_bhsd(query, ATTN_F32, 2, HEADS, tq, DK);
    a.out = attn_view_bhsd(got, ATTN_F32, 2, HEADS, tq, DV);
    CHECK_MSG(attn_decode(ctx, cache, &a, &err) == ATTN_OK, "decode: %s", err.text);
    a.q.size[0] = a.out.size[0] = 1;
    a.out.data = wanted;
    a.k = k_view(q, first, n);
    a.v = v_view(q, first, n);
    mask.k_offset = first;
    mask.q_offset = first + n - tq;
    CHECK_MSG(attn_forward(ctx, &a, &err) == ATTN_OK, "forward: %s", err.text);
    CHECK_MSG(memcmp(got, wanted, cells * DV * sizeof(float)) == 0, "sequence 0 differs");
    CHECK_MSG(memcmp(got + cells * DV, wanted, cells * DV * sizeof(float)) == 0,
              "sequence 1 differs");
    free(query);
    free(wanted);
    free(got);
}

static void every_kind_decodes_the_rule(void **state)
{
    rows *x = make_rows(1), *q = quantised(x);

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        for (int threads = 1; threads <= 3; threads += 2) {
            const attn_ctx *ctx = ctx_for(test_set(state), threads);
            attn_cache *cache = open_cache(ctx, kinds[i], 650);

            append(cache, 0, x, 0, 333);
            append(cache, 1, x, 0, 333);
            check_decode(ctx, cache, q, 0, 333, 1);
            check_decode(ctx, cache, q, 0, 333, 90); /* many rows read the same tiles */
            for (int64_t at = 333; at < 600; at += 89)
                for (int64_t s = 0; s < 2; s++)
                    append(cache, s, x, at, 89);
            check_decode(ctx, cache, q, 0, 600, 4);
            attn_cache_destroy(cache);
        }
    }
    free(x);
    free(q);
}

static void rings_drop_and_forks_share(void **state)
{
    rows *x = make_rows(2), *q = quantised(x);
    const attn_ctx *ctx = ctx_for(test_set(state), 2);
    attn_cache *ring = open_cache(ctx, ATTN_CACHE_RING, 300);
    attn_cache *paged = open_cache(ctx, ATTN_CACHE_PAGED, 650);

    append(ring, 0, x, 0, 650);
    CHECK(attn_cache_fork(ring, 0, 1, NULL) == ATTN_OK);
    check_decode(ctx, ring, q, 350, 300, 3);

    append(paged, 0, x, 0, 100);
    CHECK(attn_cache_fork(paged, 0, 1, NULL) == ATTN_OK);
    append(paged, 1, x, 100, 70);
    append(paged, 0, x, 100, 70);
    check_decode(ctx, paged, q, 0, 170, 2);
    CHECK(attn_cache_drop(paged, 0, 70, NULL) == ATTN_OK);
    CHECK(attn_cache_drop(paged, 1, 70, NULL) == ATTN_OK);
    check_decode(ctx, paged, q, 70, 100, 2);
    attn_cache_destroy(ring);
    attn_cache_destroy(paged);
    free(x);
    free(q);
}

static void rows_that_are_not_finite_show(void **state)
{
    rows *x = make_rows(3);
    const attn_ctx *ctx = ctx_for(test_set(state), 1);
    float query[HEADS][DK] = {{0}}, out[2][HEADS][DV];
    attn_forward_args a = ATTN_FORWARD_ARGS_INIT;

    a.q = attn_view_bhsd(query, ATTN_F32, 2, HEADS, 1, DK);
    a.q.stride[0] = 0;
    a.out = attn_view_bhsd(out, ATTN_F32, 2, HEADS, 1, DV);
    for (int place = 0; place < 2; place++) { /* in key head 1, read by the upper half of the heads
                                               */
        attn_cache *cache = open_cache(ctx, ATTN_CACHE_CONTIGUOUS, 100);
        float *bad = place ? &x->v[1][40][7] : &x->k[1][40][7], saved = *bad;

        *bad = place ? INFINITY : NAN;
        append(cache, 0, x, 0, 50);
        *bad = saved;
        append(cache, 1, x, 0, 50);
        CHECK(attn_decode(ctx, cache, &a, NULL) == ATTN_OK);
        for (int h = 0; h < HEADS; h++) {
            for (int c = 0; c < DV; c++) {
                CHECK(!isnan(out[0][h][c]) == (h < HEADS / 2));
                CHECK(isfinite(out[1][h][c]));
            }
        }
        attn_cache_destroy(cache);
    }
    free(x);
}

static void what_i8_refuses(void **state)
{
    const attn_ctx *ctx = ctx_for(test_set(state), 1);
    attn_cache_options o = ATTN_CACHE_OPTIONS_INIT;
    attn_error err = {ATTN_OK, 0, ""};
    attn_cache *cache;
    int8_t memory[64 * 4];

    o.type = ATTN_I8;
    o.batch = o.heads = 1;
    o.dk = o.dv = 4;
    o.capacity = 64;
    o.k = o.v = attn_view_bhsd(memory, ATTN_I8, 1, 1, 64, 4);
    CHECK(attn_cache_create(ctx, &o, &cache, &err) == ATTN_E_ARGUMENT && !cache);
    CHECK(strstr(err.text, "i8") != NULL);
    memset(&o.k, 0, sizeof o.k);
    memset(&o.v, 0, sizeof o.v);
    o.kind = ATTN_CACHE_PAGED;
    o.page = 48;
    o.pages = 4;
    CHECK(attn_cache_create(ctx, &o, &cache, &err) == ATTN_E_ARGUMENT && !cache);
}

int main(int argc, char **argv)
{
    static const test_case tests[] = {
        {"every_kind_decodes_the_rule", every_kind_decodes_the_rule, 1},
        {"rings_drop_and_forks_share", rings_drop_and_forks_share, 1},
        {"rows_that_are_not_finite_show", rows_that_are_not_finite_show, 1},
        {"what_i8_refuses", what_i8_refuses, 0},
    };

    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
