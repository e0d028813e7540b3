/* test_stats_laws.c: what holds between statistics, and with other ways to compute them, at lengths
 * that take several chunks of rows; edges, errors, memory, progress. The numbers themselves are
 * held to the reference in test_stats.c. */
#include "src/core/stats.h"
#include "tests/expect.h"
#include "tests/ref_stats.h"
#include "tests/stats_request.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A call of B 1, causal, with grouped heads. */
typedef struct bed {
    arena memory;
    rng r;
    attn_forward_args a;
    attn_mask m;
    attn_stats s;
    int64_t h, tq, tk;
} bed;

static attn_view bed_view(bed *b, attn_type type, int64_t h, int64_t n, int64_t d)
{
    return view_plain(&b->memory, type, 1, h, n, d);
}

static void bed_make(bed *b, int64_t h, int64_t hk, int64_t tq, int64_t tk)
{
    memset(b, 0, sizeof *b);
    b->r = rng_make(test_seed(), (uint64_t)(tq * 7919 + tk));
    b->a = (attn_forward_args)ATTN_FORWARD_ARGS_INIT;
    b->m = (attn_mask)ATTN_MASK_INIT;
    b->s = (attn_stats)ATTN_STATS_INIT;
    b->h = h;
    b->tq = tq;
    b->tk = tk;
    b->a.q = bed_view(b, ATTN_F32, h, tq, 24);
    b->a.k = bed_view(b, ATTN_F32, hk, tk, 24);
    b->a.v = bed_view(b, ATTN_F32, hk, tk, 24);
    view_uniform(&b->a.q, &b->r, -2, 2);
    view_uniform(&b->a.k, &b->r, -2, 2);
    view_uniform(&b->a.v, &b->r, -1, 1);
    b->a.out = bed_view(b, ATTN_F32, h, tq, 24);
    b->m.causal = 1;
    b->m.q_offset = tk - tq;
    b->a.mask = &b->m;
    b->a.stats = &b->s;
}

static void bed_run(bed *b, const attn_ctx *ctx)
{
    attn_error err = {0};

    CHECK_MSG(attn_forward(ctx, &b->a, &err) == ATTN_OK, "%s", err.text);
}

static double total(const attn_view *v, int64_t h)
{
    double sum = 0;

    for (int64_t i = 0; i < v->size[2]; i++)
        for (int64_t j = 0; j < v->size[3]; j++)
            sum += view_get(v, 0, h, i, j);
    return sum;
}

static void near(double got, double want, double bound, const char *what)
{
    CHECK_MSG(fabs(got - want) <= bound, "%s: %.10g, expected %.10g within %.2g", what, got, want,
              bound);
}

/* Lengths of one chunk, of three, and of three with blocks and chunks that share map rows. */
static void sums_agree(void **state)
{
    static const int64_t lengths[] = {40, 1300, 1111};
    static const int64_t edges[] = {INT64_MIN, -3, 0, 1, 2, 17, 500, INT64_MAX};

    for (int n = 0; n < 3; n++) {
        bed b;
        int64_t t = lengths[n], sides[] = {1, 7, t > 500 ? 90 : 3};

        bed_make(&b, 2, 1, t, t);
        b.s.key_mass = bed_view(&b, ATTN_F64, 2, 1, t);
        b.s.distance_mass = bed_view(&b, ATTN_F64, 2, 1, 7);
        b.s.distance_edges = edges;
        b.s.key_class = view_plain(&b.memory, ATTN_U8, 1, 1, 1, t);
        view_fill(&b.s.key_class, 1);
        b.s.class_mass = bed_view(&b, ATTN_F64, 2, t, 2);
        b.s.map_sum = bed_view(&b, ATTN_F64, 2, sides[n], 33);
        b.s.map_mean = bed_view(&b, ATTN_F32, 2, sides[n], 33);
        b.s.map_count = bed_view(&b, ATTN_I64, 2, sides[n], 33);
        bed_run(&b, ctx_for(test_set(state), 2));
        for (int64_t h = 0; h < 2; h++) {
            double rows = (double)t, bound = 1e-5 * rows, cells = 0;

            near(total(&b.s.key_mass, h), rows, bound, "sum of key_mass");
            near(total(&b.s.distance_mass, h), rows, bound, "sum of distance_mass");
            near(view_get(&b.s.distance_mass, 0, h, 0, 0), 0, 0, "mass of keys ahead");
            near(total(&b.s.class_mass, h), rows, bound, "sum of class_mass");
            near(total(&b.s.map_sum, h), rows, bound, "sum of map_sum");
            for (int64_t i = 0; i < sides[n]; i++)
                for (int64_t j = 0; j < 33; j++) {
                    int64_t count = ref_index(&b.s.map_count, 0, h, i, j);

                    cells += (double)count;
                    near(view_get(&b.s.map_mean, 0, h, i, j) * (double)count,
                         view_get(&b.s.map_sum, 0, h, i, j), 1e-6 * rows, "mean times count");
                }
            near(cells, rows * (rows + 1) / 2, 0, "attended cells");
        }
        arena_reset(&b.memory);
    }
}

/* entropy = LSE - mean logit; peak and the largest k are those of the weights. */
static void rows_agree_with_weights(void **state)
{
    bed b;
    int64_t t = 300, k = 8;

    bed_make(&b, 4, 2, 200, t);
    b.a.lse = bed_view(&b, ATTN_F64, 4, 200, 1);
    b.a.weights = bed_view(&b, ATTN_F32, 4, 200, t);
    b.s.entropy = bed_view(&b, ATTN_F64, 4, 200, 1);
    b.s.peak = bed_view(&b, ATTN_F32, 4, 200, 1);
    b.s.peak_key = bed_view(&b, ATTN_I64, 4, 200, 1);
    b.s.logits = bed_view(&b, ATTN_F32, 4, 200, t);
    b.s.top_weight = bed_view(&b, ATTN_F32, 4, 200, k);
    b.s.top_key = bed_view(&b, ATTN_I32, 4, 200, k);
    bed_run(&b, ctx_for(test_set(state), 2));
    for (int64_t h = 0; h < 4; h++)
        for (int64_t i = 0; i < 200; i++) {
            double mean = 0, last = HUGE_VAL;

            for (int64_t j = 0; j <= t - 200 + i; j++)
                mean += view_get(&b.a.weights, 0, h, i, j) * view_get(&b.s.logits, 0, h, i, j);
            near(view_get(&b.s.entropy, 0, h, i, 0), view_get(&b.a.lse, 0, h, i, 0) - mean, 3e-5,
                 "entropy");
            near(view_get(&b.s.peak, 0, h, i, 0), view_get(&b.s.top_weight, 0, h, i, 0), 0, "peak");
            near((double)ref_index(&b.s.peak_key, 0, h, i, 0),
                 (double)ref_index(&b.s.top_key, 0, h, i, 0), 0, "key of the peak");
            for (int64_t n = 0; n < k; n++) {
                int64_t key = ref_index(&b.s.top_key, 0, h, i, n), above = 0;
                double w = view_get(&b.s.top_weight, 0, h, i, n);

                near(w, view_get(&b.a.weights, 0, h, i, key), 0, "top weight");
                CHECK(w <= last);
                for (int64_t j = 0; j <= t - 200 + i;
                     j++) /* by logits, as weights may round alike */
                    above +=
                        view_get(&b.s.logits, 0, h, i, j) > view_get(&b.s.logits, 0, h, i, key);
                near((double)above, (double)n, 0, "rank");
                last = w;
            }
        }
    arena_reset(&b.memory);
}

/* Equal logits: the first keys, in order; and a row that sees nothing. */
static void ties_on(const attn_ctx *ctx)
{
    bed b;

    bed_make(&b, 1, 1, 5, 5000);
    view_fill(&b.a.k, 1);
    b.m.causal = 0;
    b.m.window = 1;
    b.m.window_left = 300;
    b.m.window_right = -1;
    b.m.q_offset = 448;
    b.m.q_count = (int64_t[]){4};
    b.s.top_key = bed_view(&b, ATTN_I64, 1, 5, 64);
    b.s.peak_key = bed_view(&b, ATTN_I32, 1, 5, 1);
    b.s.entropy = bed_view(&b, ATTN_F32, 1, 5, 1);
    bed_run(&b, ctx);
    for (int64_t i = 0; i < 5; i++)
        for (int64_t n = 0; n < 64; n++)
            CHECK(ref_index(&b.s.top_key, 0, 0, i, n) == (i < 4 ? 148 + i + n : -1));
    for (int64_t i = 0; i < 5; i++) {
        CHECK(ref_index(&b.s.peak_key, 0, 0, i, 0) == (i < 4 ? 148 + i : -1));
        near(view_get(&b.s.entropy, 0, 0, i, 0), i < 4 ? log(4852.0 - (double)i) : 0, 1e-5,
             "entropy of equal weights");
    }
    arena_reset(&b.memory);
}

/* On three workers the keys are split among them. */
static void ties_and_empty_rows(void **state)
{
    ties_on(ctx_for(test_set(state), 1));
    ties_on(ctx_for(test_set(state), 3));
}

/* Rows so wide that a chunk takes several blocks, which share map rows. */
static void wide_rows(void **state)
{
    bed b;
    int64_t t = 1300;

    bed_make(&b, 1, 1, t, 40);
    b.a.v = b.a.out = (attn_view){0};
    b.a.q = bed_view(&b, ATTN_F32, 1, t, 600);
    b.a.k = bed_view(&b, ATTN_F32, 1, 40, 600);
    view_uniform(&b.a.q, &b.r, -0.2, 0.2);
    view_uniform(&b.a.k, &b.r, -0.2, 0.2);
    b.m.causal = 0;
    b.s.map_sum = bed_view(&b, ATTN_F64, 1, 2, 3);
    b.s.map_max = bed_view(&b, ATTN_F32, 1, 2, 3);
    b.s.map_count = bed_view(&b, ATTN_I32, 1, 2, 3);
    b.s.peak = bed_view(&b, ATTN_F32, 1, t, 1);
    bed_run(&b, ctx_for(test_set(state), 2));
    for (int64_t i = 0; i < 2; i++) {
        double sum = 0, largest = 0, peak = 0;

        for (int64_t j = 0; j < 3; j++) {
            int64_t keys = j == 0 ? 14 : 13;

            sum += view_get(&b.s.map_sum, 0, 0, i, j);
            largest = fmax(largest, view_get(&b.s.map_max, 0, 0, i, j));
            CHECK(ref_index(&b.s.map_count, 0, 0, i, j) == 650 * keys);
        }
        for (int64_t r = 0; r < 650; r++)
            peak = fmax(peak, view_get(&b.s.peak, 0, 0, 650 * i + r, 0));
        near(sum, 650, 1e-3, "mass of half the rows");
        near(largest, peak, 0, "largest weight of half the rows");
    }
    arena_reset(&b.memory);
}

/* One NaN query of the first of three chunks shows in all that it enters, and nowhere else. */
static void broken_rows_show(void **state)
{
    bed b;
    int64_t t = 1300;

    bed_make(&b, 1, 1, t, 40);
    b.m.causal = 0;
    b.m.window = 1;
    b.m.q_offset = 0;
    b.m.window_left = -1;
    b.m.window_right = 20;
    ((float *)b.a.q.data)[5 * 24] = NAN;
    b.s.map_max = bed_view(&b, ATTN_F32, 1, 1, 2);
    b.s.map_sum = bed_view(&b, ATTN_F32, 1, 1, 2);
    b.s.map_count = bed_view(&b, ATTN_I64, 1, 1, 2);
    b.s.key_mass = bed_view(&b, ATTN_F32, 1, 1, 40);
    bed_run(&b, ctx_for(test_set(state), 2));
    for (int64_t j = 0; j < 2; j++)
        CHECK(isnan(view_get(&b.s.map_max, 0, 0, 0, j)) &&
              isnan(view_get(&b.s.map_sum, 0, 0, 0, j)));
    for (int64_t j = 0; j < 40; j++) /* the row sees keys 0 .. 25 */
        CHECK(!isnan(view_get(&b.s.key_mass, 0, 0, 0, j)) == (j > 25));
    arena_reset(&b.memory);
    bed_make(&b, 1, 1, t, 40);
    b.m.causal = 0;
    ((float *)b.a.k.data)[39 * 24] = NAN; /* seen by the last rows alone */
    b.m.window = 1;
    b.m.q_offset = 0;
    b.m.window_left = 1 << 20;
    b.m.window_right = 0;
    b.s.map_max = bed_view(&b, ATTN_F32, 1, 130, 2);
    bed_run(&b, ctx_for(test_set(state), 2));
    for (int64_t i = 0; i < 130; i++)
        CHECK(!isnan(view_get(&b.s.map_max, 0, 0, i, 1)) == (10 * i + 9 < 39));
    arena_reset(&b.memory);
    bed_make(&b, 1, 1, 200, 200); /* seen in the first tile alone, in a cell of all tiles */
    b.m.causal = 1;
    b.m.q_offset = 0;
    ((float *)b.a.q.data)[5 * 24] = NAN;
    b.s.map_max = bed_view(&b, ATTN_F32, 1, 1, 1);
    bed_run(&b, ctx_for(test_set(state), 2));
    CHECK(isnan(view_get(&b.s.map_max, 0, 0, 0, 0)));
    arena_reset(&b.memory);
}

/* In f64 calls the chains of sums over rows are no longer than what is summed: nine equal keys. */
static void chains_of_f64(void **state)
{
    bed b;
    int64_t t = 1000;
    double u = 0x1p-53, want = (double)t / 9;

    bed_make(&b, 1, 1, t, 9);
    b.a.v = b.a.out = (attn_view){0};
    b.a.q = bed_view(&b, ATTN_F64, 1, t, 8);
    b.a.k = bed_view(&b, ATTN_F64, 1, 9, 8);
    view_fill(&b.a.q, 0);
    view_fill(&b.a.k, 0);
    b.m.causal = 0;
    b.s.key_mass = bed_view(&b, ATTN_F64, 1, 1, 9);
    b.s.map_sum = bed_view(&b, ATTN_F64, 1, 1, 9);
    bed_run(&b, ctx_for(test_set(state), 2));
    for (int64_t j = 0; j < 9; j++) {
        near(view_get(&b.s.key_mass, 0, 0, 0, j), want, (21 + (double)t) * u * want, "key_mass");
        near(view_get(&b.s.map_sum, 0, 0, 0, j), want, (21 + (double)t) * u * want, "map_sum");
    }
    arena_reset(&b.memory);
}

static void counts_stay_at_the_largest(void **state)
{
    const int64_t more[] = {3, INT64_C(1) << 40};
    int32_t n[] = {INT32_MAX - 4, 7};
    attn_view v = attn_view_bhsd(n, ATTN_I32, 1, 1, 1, 2);

    (void)state;
    attn__add_counts(&v, 0, 0, 0, more, 2);
    CHECK(n[0] == INT32_MAX - 1 && n[1] == INT32_MAX);
    attn__add_counts(&v, 0, 0, 0, more, 2);
    CHECK(n[0] == INT32_MAX && n[1] == INT32_MAX);
}

/* Rollout: the mass of keys becomes the weight of queries one layer below. */
static void rollout(void **state)
{
    bed b;
    attn_view above;
    int64_t t = 90;

    bed_make(&b, 2, 2, t, t);
    b.s.key_mass = bed_view(&b, ATTN_F64, 2, 1, t);
    bed_run(&b, ctx_for(test_set(state), 1));
    above = b.s.key_mass;
    b.a.weights = bed_view(&b, ATTN_F64, 2, t, t);
    b.s.query_weight = attn_view_transposed(above);
    b.s.key_mass = bed_view(&b, ATTN_F64, 2, 1, t);
    bed_run(&b, ctx_for(test_set(state), 1));
    for (int64_t h = 0; h < 2; h++)
        for (int64_t j = 0; j < t; j++) {
            double sum = 0;

            for (int64_t i = 0; i < t; i++)
                sum += view_get(&above, 0, h, 0, i) * view_get(&b.a.weights, 0, h, i, j);
            near(view_get(&b.s.key_mass, 0, h, 0, j), sum, 1e-9 * t, "rollout");
        }
    arena_reset(&b.memory);
}

/* Any number of threads, alone or with everything else: the same bits. Several chunks. */
static void bits_stay(void **state)
{
    bed b;
    stats_request all, one;
    int which;

    for (int round = 0; round < 2; round++) {
        bed_make(&b, 2, 1, 1300 - round, 700);
        b.m.window = round % 2;
        b.m.window_left = 400;
        stats_draw(&all, &b.memory, &b.r, &b.a, 1, b.tq, b.tk, 100, 0);
        b.a.stats = &all.ask;
        bed_run(&b, ctx_for(test_set(state), 1));
        for (int i = 0; i < STATS_VIEWS; i++) {
            attn_view kept, count, *v;

            stats_again(&one, &all, &b.memory);
            stats_spoil(&one);
            v = stats_view(&one.ask, i);
            kept = *v;
            count = one.ask.map_count;
            for (int j = 0; j < STATS_VIEWS; j++)
                *stats_view(&one.ask, j) = (attn_view){0};
            *v = kept;
            if (one.ask.map_mean.data)
                one.ask.map_count = count;
            if (!one.ask.class_mass.data)
                one.ask.key_class = (attn_view){0};
            b.a.stats = &one.ask;
            bed_run(&b, ctx_for(test_set(state), 2 + i % 3));
            CHECK_MSG(stats_same(&one, &all, &which), "output %d alone has other bits", i);
        }
        arena_reset(&b.memory);
    }
}

/* Decoding from a cache: the bits of attn_forward. Long enough to split keys among workers. */
static void decode_equals_forward(void **state)
{
    const attn_ctx *ctx = ctx_for(test_set(state), 3);

    for (int tq = 1; tq < 40; tq += 12) {
        bed b;
        stats_request all, decoded;
        attn_cache_options o = ATTN_CACHE_OPTIONS_INIT;
        attn_cache *cache;
        attn_forward_args a;
        attn_error err = {0};
        int which;

        bed_make(&b, 6, 2, tq, 1500);
        stats_draw(&all, &b.memory, &b.r, &b.a, 1, b.tq, b.tk, 70, 0);
        stats_again(&decoded, &all, &b.memory);
        stats_spoil(&decoded);
        b.a.stats = &all.ask;
        bed_run(&b, ctx);
        o.heads = 2;
        o.batch = 1;
        o.dk = o.dv = 24;
        o.capacity = 1500;
        CHECK(attn_cache_create(ctx, &o, &cache, &err) == ATTN_OK);
        CHECK(attn_cache_append(cache, 0, &b.a.k, &b.a.v, &err) == ATTN_OK);
        a = b.a;
        a.k = a.v = (attn_view){0};
        b.m.q_offset = 0;
        a.stats = &decoded.ask;
        CHECK_MSG(attn_decode(ctx, cache, &a, &err) == ATTN_OK, "%s", err.text);
        CHECK_MSG(stats_same(&decoded, &all, &which), "output %d of decode differs", which);
        attn_cache_destroy(cache);
        arena_reset(&b.memory);
    }
}

/* What a request over two sequences asks of one of them that holds `keys` keys, in memory of its
 * own. */
static void request_of_one(stats_request *to, const stats_request *from, arena *a, int64_t s,
                           int64_t columns, int64_t keys)
{
    attn_view *inputs[] = {&to->ask.key_class, &to->ask.query_weight};

    *to = *from;
    to->ask.rows = to->rows;
    to->ask.distance_edges = to->edges;
    for (int i = 0; i < STATS_VIEWS; i++) {
        attn_view *v = stats_view(&to->ask, i);

        if (v->data)
            *v = view_plain(a, v->type, 1, v->size[1], v->size[2],
                            v->size[3] == columns ? keys : v->size[3]);
    }
    for (int i = 0; i < 2; i++) {
        if (inputs[i]->size[0] > 1)
            *inputs[i] = view_part(inputs[i], 0, s, 1);
        if (inputs[i]->size[3] == columns)
            *inputs[i] = view_part(inputs[i], 3, 0, keys);
    }
}

/* Two sequences in rings, one of them full: each as attn_forward has its keys by themselves,
 * numbered from the oldest that is held. */
static void decode_of_rings(void **state)
{
    static const int64_t lengths[] = {701, 150};
    const attn_ctx *ctx = ctx_for(test_set(state), 2);
    const int64_t capacity = 320, tq = 3;
    attn_cache_options o = ATTN_CACHE_OPTIONS_INIT;
    attn_view keys[2], values[2];
    stats_request all, one;
    attn_forward_args a;
    attn_error err = {0};
    attn_cache *cache;
    bed b;

    bed_make(&b, 4, 2, tq, capacity);
    b.a.q = view_plain(&b.memory, ATTN_F32, 2, 4, tq, 24);
    b.a.out = (attn_view){0};
    view_uniform(&b.a.q, &b.r, -2, 2);
    stats_draw(&all, &b.memory, &b.r, &b.a, 2, tq, capacity, 100, 0);
    all.ask.map_key_block = all.ask.map_first_key = 0; /* parts of what each holds */
    all.ask.map_query_block = all.ask.map_first_query = 0;
    for (int i = 0; i < STATS_VIEWS; i++) {
        attn_view *v = stats_view(&all.ask, i);

        if (v >= &all.ask.map_sum && v <= &all.ask.map_count)
            *v = view_plain(&b.memory, v->type, 2, 4, tq - 1, 7);
    }
    stats_spoil(&all);
    o.kind = ATTN_CACHE_RING;
    o.batch = o.heads = 2;
    o.dk = o.dv = 24;
    o.capacity = capacity;
    CHECK(attn_cache_create(ctx, &o, &cache, &err) == ATTN_OK);
    for (int64_t s = 0; s < 2; s++) {
        keys[s] = bed_view(&b, ATTN_F32, 2, lengths[s], 24);
        values[s] = bed_view(&b, ATTN_F32, 2, lengths[s], 24);
        view_uniform(&keys[s], &b.r, -2, 2);
        view_fill(&values[s], 1);
        CHECK(attn_cache_append(cache, s, &keys[s], &values[s], &err) == ATTN_OK);
    }
    a = b.a;
    a.k = a.v = (attn_view){0};
    a.stats = &all.ask;
    b.m.q_offset = 0;
    CHECK_MSG(attn_decode(ctx, cache, &a, &err) == ATTN_OK, "%s", err.text);
    for (int64_t s = 0; s < 2; s++) {
        int64_t held = lengths[s] < capacity ? lengths[s] : capacity;

        a.q = view_part(&b.a.q, 0, s, 1);
        a.k = view_part(&keys[s], 2, lengths[s] - held, held);
        request_of_one(&one, &all, &b.memory, s, capacity, held);
        b.m.k_offset = lengths[s] - held;
        b.m.q_offset = lengths[s] - tq;
        a.stats = &one.ask;
        CHECK_MSG(attn_forward(ctx, &a, &err) == ATTN_OK, "%s", err.text);
        for (int i = 0; i < STATS_VIEWS; i++) {
            attn_view got = view_part(stats_view(&all.ask, i), 0, s, 1);
            attn_view *want = stats_view(&one.ask, i);

            if (got.size[3] == capacity)
                got = view_part(&got, 3, 0, held);
            CHECK_MSG(view_same_bits(&got, want), "output %d of sequence %d", i, (int)s);
        }
    }
    attn_cache_destroy(cache);
    arena_reset(&b.memory);
}

/* No rows, no keys: sums are zero, parts of maps are masked. */
static void nothing_to_see(void **state)
{
    for (int empty = 0; empty < 2; empty++) {
        bed b;
        int64_t tq = empty ? 4 : 0, tk = empty ? 0 : 9;

        bed_make(&b, 2, 1, tq, tk);
        b.s.key_mass = bed_view(&b, ATTN_F32, 2, 1, tk);
        b.s.map_max = bed_view(&b, ATTN_F32, 2, 3, 3);
        b.s.map_count = bed_view(&b, ATTN_I64, 2, 3, 3);
        b.s.entropy = bed_view(&b, ATTN_F32, 2, tq, 1);
        b.s.top_key = bed_view(&b, ATTN_I64, 2, tq, 3);
        memset(b.s.map_max.data, 0xAA, 18 * 4);
        memset(b.s.map_count.data, 0xAA, 18 * 8);
        bed_run(&b, ctx_for(test_set(state), 2));
        for (int64_t i = 0; i < 3; i++)
            for (int64_t j = 0; j < 3; j++) {
                near(view_get(&b.s.map_max, 0, 1, i, j), 0, 0, "largest of nothing");
                CHECK(ref_index(&b.s.map_count, 0, 1, i, j) == 0);
            }
        near(total(&b.s.key_mass, 0) + total(&b.s.entropy, 1), 0, 0, "sums");
        for (int64_t i = 0; i < tq; i++)
            CHECK(ref_index(&b.s.top_key, 0, 1, i, 2) == -1);
        arena_reset(&b.memory);
    }
}

/* --- Memory and progress -------------------------------------------------------------------- */

/* Nothing near Tq x Tk: for map, masses and the largest 8 a few bytes a row and a few rows of the
 * map; twice the length at most twice the memory. */
static void memory_is_bounded(void **state)
{
    size_t size[2] = {0, 0};

    (void)state;
    for (int i = 0; i < 2; i++) {
        int64_t n = 32768 << i;
        attn_plan plan = ATTN_PLAN_INIT;
        attn_error err = {0};
        bed b;

        bed_make(&b, 1, 1, 8, 8);
        b.m.q_offset = 0;
        b.a.v = b.a.out = (attn_view){0};
        b.s.entropy = bed_view(&b, ATTN_F32, 1, n, 1);
        b.s.distance = bed_view(&b, ATTN_F32, 1, n, 1);
        b.s.top_weight = bed_view(&b, ATTN_F32, 1, n, 8);
        b.s.key_mass = bed_view(&b, ATTN_F32, 1, 1, n);
        b.s.map_sum = bed_view(&b, ATTN_F32, 1, 1024, 1024);
        b.a.q = b.a.k = bed_view(&b, ATTN_F32, 1, n, 64);
        CHECK_MSG(attn_forward_plan(ctx_for(ATTN_SET_AUTO, 2), &b.a, &plan, &err) == ATTN_OK, "%s",
                  err.text);
        size[i] = plan.workspace_size;
        arena_reset(&b.memory);
    }
    print_message("workspace at 65,536 tokens, two workers: %zu bytes\n", size[1]);
    CHECK(size[1] < (size_t)48 << 20);
    CHECK(size[1] < 2 * size[0]);
}

typedef struct progress {
    uint64_t done, total, stop;
} progress;

static int on_progress(void *user, uint64_t done, uint64_t all)
{
    progress *p = user;

    CHECK(done >= p->done && done <= all && (p->total == 0 || p->total == all));
    p->done = done;
    p->total = all;
    return p->stop && done >= p->stop;
}

/* One count over both sweeps; either can be stopped. */
static void progress_counts_both_sweeps(void **state)
{
    progress p = {0, 0, 0};
    attn_ctx_options o = ATTN_CTX_OPTIONS_INIT;
    attn_ctx *ctx;
    attn_error err;
    bed b;

    (void)state;
    o.threads = 2;
    o.progress = on_progress;
    o.progress_user = &p;
    CHECK(attn_ctx_create(&o, &ctx, NULL) == ATTN_OK);
    bed_make(&b, 2, 1, 1300, 1300);
    b.s.key_mass = bed_view(&b, ATTN_F32, 2, 1, 1300);
    bed_run(&b, ctx);
    CHECK(p.done == p.total && p.total >= 6 + 2);
    for (uint64_t stop = 1; stop <= p.total; stop += 3) {
        progress again = {0, 0, stop};

        p = again;
        CHECK(attn_forward(ctx, &b.a, &err) == ATTN_E_CANCELLED && err.status == ATTN_E_CANCELLED);
    }
    attn_ctx_destroy(ctx);
    arena_reset(&b.memory);
}

/* --- Errors --------------------------------------------------------------------------------- */

enum { FINE, ONLY, ARGUMENT, SHAPE };

typedef struct fault {
    const char *names; /* what the text must mention */
    int want;
    void (*make)(bed *b);
} fault;

#define FAULT(name, ...)                                                                           \
    static void name(bed *b)                                                                       \
    {                                                                                              \
        __VA_ARGS__;                                                                               \
    }
static const int64_t bad_rows[] = {3, 3}, far_rows[] = {3, 30}, bad_edges[] = {1, 2, 2};

FAULT(asks_nothing, b->s = (attn_stats)ATTN_STATS_INIT)
FAULT(no_size, b->s.struct_size = 0)
FAULT(half_entropy, b->s.entropy = bed_view(b, ATTN_F16, 2, 20, 1))
FAULT(float_keys, b->s.peak_key = bed_view(b, ATTN_F32, 2, 20, 1))
FAULT(short_entropy, b->s.entropy = bed_view(b, ATTN_F32, 2, 19, 1))
FAULT(wide_distance, b->s.distance = bed_view(b, ATTN_F32, 2, 20, 2))
FAULT(top_65, b->s.top_weight = bed_view(b, ATTN_F32, 2, 20, 65))
FAULT(top_0, b->s.top_key = bed_view(b, ATTN_I64, 2, 20, 0))
FAULT(top_differ, b->s.top_weight = bed_view(b, ATTN_F32, 2, 20, 4);
      b->s.top_key = bed_view(b, ATTN_I32, 2, 20, 5))
FAULT(no_class, b->s.class_mass = bed_view(b, ATTN_F32, 2, 20, 2))
FAULT(class_alone, b->s.key_class = view_plain(&b->memory, ATTN_U8, 1, 1, 1, 30))
FAULT(wide_class, no_class(b); b->s.key_class = view_plain(&b->memory, ATTN_I32, 1, 1, 1, 30))
FAULT(short_class, no_class(b); b->s.key_class = view_plain(&b->memory, ATTN_U8, 1, 1, 1, 29))
FAULT(twice_rows, b->s.rows = bad_rows; b->s.row_count = 2;
      b->s.row_weights = bed_view(b, ATTN_F32, 2, 2, 30))
FAULT(rows_outside, b->s.rows = far_rows; b->s.row_count = 2;
      b->s.row_weights = bed_view(b, ATTN_F32, 2, 2, 30))
FAULT(rows_missing, b->s.row_count = 2; b->s.row_weights = bed_view(b, ATTN_F32, 2, 2, 30))
FAULT(rows_count, b->s.rows = bad_rows; b->s.row_count = 1;
      b->s.row_weights = bed_view(b, ATTN_F32, 2, 2, 30))
FAULT(short_mass, b->s.key_mass = bed_view(b, ATTN_F32, 2, 1, 29))
FAULT(tall_mass, b->s.key_mass = bed_view(b, ATTN_F32, 2, 20, 30))
FAULT(half_weight, b->s.query_weight = bed_view(b, ATTN_F16, 2, 20, 1))
FAULT(short_weight, b->s.query_weight = bed_view(b, ATTN_F32, 2, 7, 1))
FAULT(edges_missing, b->s.distance_mass = bed_view(b, ATTN_F32, 2, 1, 2))
FAULT(edges_repeat, edges_missing(b); b->s.distance_edges = bad_edges)
FAULT(many_keys, b->a.k.size[2] = b->a.v.size[2] = (int64_t)1 << 33;
      b->a.k.stride[2] = b->a.v.stride[2] = 0; b->s.peak_key = bed_view(b, ATTN_I32, 2, 20, 1))
FAULT(map_sizes, b->s.map_sum = bed_view(b, ATTN_F32, 2, 3, 4);
      b->s.map_max = bed_view(b, ATTN_F32, 2, 4, 4))
FAULT(map_empty, b->s.map_max = bed_view(b, ATTN_F32, 2, 0, 4))
FAULT(map_huge, b->s.map_max = bed_view(b, ATTN_F32, 2, 1, 32769))
FAULT(mean_alone, b->s.map_mean = bed_view(b, ATTN_F32, 2, 3, 4))
FAULT(count_float, b->s.map_count = bed_view(b, ATTN_F32, 2, 3, 4))
FAULT(map_alone, b->s.map_max = bed_view(b, ATTN_F32, 2, 3, 4))
FAULT(map_block, map_alone(b); b->s.map_query_block = -1)
FAULT(map_first, map_alone(b); b->s.map_first_key = 3)
FAULT(map_far, map_alone(b); b->s.map_key_block = 2; b->s.map_first_key = -1)
FAULT(logit_heads, b->s.logits = bed_view(b, ATTN_F32, 2, 20, 30); b->s.logits_head = 1)
FAULT(logit_int, b->s.raw_logits = bed_view(b, ATTN_I32, 2, 20, 30))
FAULT(over_out, b->s.key_mass = bed_view(b, ATTN_F32, 2, 1, 30); b->s.key_mass.data = b->a.out.data)
FAULT(over_other, b->s.peak = b->s.entropy)
FAULT(over_q, b->s.entropy.data = b->a.q.data)
FAULT(over_weight, b->s.query_weight = b->s.entropy)
FAULT(out_in_q, b->a.out = b->a.q; b->s.distance = bed_view(b, ATTN_F32, 2, 20, 1))
FAULT(no_v, b->a.v = (attn_view){0})
FAULT(only_lse, b->a.v = b->a.out = (attn_view){0}; b->a.stats = NULL;
      b->a.lse = bed_view(b, ATTN_F32, 2, 20, 1))
FAULT(only_stats, b->a.v = b->a.out = (attn_view){0})
FAULT(first_sweep_in_q, b->a.out = b->a.q)

static attn_partial record;

static void with_record(bed *b)
{
    record.out = bed_view(b, ATTN_F32, 2, 20, 24);
    record.max = bed_view(b, ATTN_F32, 2, 20, 1);
    record.sum = bed_view(b, ATTN_F32, 2, 20, 1);
}

FAULT(with_partial, with_record(b); b->a.out = (attn_view){0}; b->a.partial = &record)
FAULT(with_start, with_record(b); view_fill(&record.sum, 0); b->a.start = &record)

static void errors(void **state)
{
    static const fault faults[] = {
        {"stats", ARGUMENT, asks_nothing},
        {"stats", ARGUMENT, no_size},
        {"entropy", ARGUMENT, half_entropy},
        {"peak_key", ARGUMENT, float_keys},
        {"entropy", SHAPE, short_entropy},
        {"distance", SHAPE, wide_distance},
        {"top_weight", SHAPE, top_65},
        {"top_key", SHAPE, top_0},
        {"top_", SHAPE, top_differ},
        {"key_class", ARGUMENT, no_class},
        {"key_class", ARGUMENT, class_alone},
        {"key_class", ARGUMENT, wide_class},
        {"key_class", SHAPE, short_class},
        {"rows", ARGUMENT, twice_rows},
        {"rows", ARGUMENT, rows_outside},
        {"rows", ARGUMENT, rows_missing},
        {"row_weights", SHAPE, rows_count},
        {"key_mass", SHAPE, short_mass},
        {"key_mass", SHAPE, tall_mass},
        {"query_weight", ARGUMENT, half_weight},
        {"query_weight", SHAPE, short_weight},
        {"distance_edges", ARGUMENT, edges_missing},
        {"distance_edges", ARGUMENT, edges_repeat},
        {"peak_key", ARGUMENT, many_keys},
        {"map_", SHAPE, map_sizes},
        {"map_max", SHAPE, map_empty},
        {"map_max", SHAPE, map_huge},
        {"map_count", ARGUMENT, mean_alone},
        {"map_count", ARGUMENT, count_float},
        {"map_query_block", ARGUMENT, map_block},
        {"map_first_key", ARGUMENT, map_first},
        {"map_first_key", ARGUMENT, map_far},
        {"logits", SHAPE, logit_heads},
        {"raw_logits", ARGUMENT, logit_int},
        {"key_mass", ARGUMENT, over_out},
        {"peak", ARGUMENT, over_other},
        {"entropy", ARGUMENT, over_q},
        {"query_weight", ARGUMENT, over_weight},
        {"out", ARGUMENT, out_in_q},
        {"v", ARGUMENT, no_v},
        {"", ONLY, only_lse},
        {"", ONLY, only_stats},
        {"", ONLY, first_sweep_in_q},
        {"stats", ARGUMENT, with_partial},
        {"stats", ARGUMENT, with_start},
    };
    const attn_ctx *ctx = ctx_for(ATTN_SET_AUTO, 1);

    (void)state;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        attn_status want = faults[i].want == SHAPE      ? ATTN_E_SHAPE
                           : faults[i].want == ARGUMENT ? ATTN_E_ARGUMENT
                                                        : ATTN_OK;
        attn_plan plan = ATTN_PLAN_INIT;
        attn_error err = {0};
        uint64_t hash;
        bed b;

        bed_make(&b, 2, 1, 20, 30);
        b.s.entropy = bed_view(&b, ATTN_F32, 2, 20, 1);
        faults[i].make(&b);
        hash = b.a.out.data ? view_hash(&b.a.out) : 0;
        CHECK_MSG(attn_forward_plan(ctx, &b.a, &plan, NULL) == want, "plan %zu", i);
        CHECK_MSG(attn_forward(ctx, &b.a, &err) == want, "fault %zu (%s): %s", i, faults[i].names,
                  err.text);
        CHECK_MSG(want == ATTN_OK || strstr(err.text, faults[i].names), "fault %zu: '%s'", i,
                  err.text);
        CHECK(want == ATTN_OK || !b.a.out.data || hash == view_hash(&b.a.out));
        arena_reset(&b.memory);
    }
}

int main(int argc, char **argv)
{
    static const test_case tests[] = {
        {"sums agree", sums_agree, 1},
        {"rows agree with weights", rows_agree_with_weights, 1},
        {"ties and empty rows", ties_and_empty_rows, 1},
        {"wide rows", wide_rows, 1},
        {"broken rows show", broken_rows_show, 1},
        {"chains of f64", chains_of_f64, 1},
        {"counts stay at the largest", counts_stay_at_the_largest, 0},
        {"rollout", rollout, 1},
        {"bits stay", bits_stay, 1},
        {"decode equals forward", decode_equals_forward, 1},
        {"decode of rings", decode_of_rings, 1},
        {"nothing to see", nothing_to_see, 1},
        {"memory is bounded", memory_is_bounded, 0},
        {"progress counts both sweeps", progress_counts_both_sweeps, 0},
        {"errors", errors, 0},
    };

    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
