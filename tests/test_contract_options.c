/* test_contract_options.c: the complaints of test_contract.c from row 23 on: one named test a row.
 */
#define _GNU_SOURCE /* getline */
#include "include/attn/attn.h"
#include "tests/ref.h"
#include "tests/scene.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const attn_type types[] = {ATTN_F32, ATTN_F16, ATTN_BF16, ATTN_F64};
static const double INF = (double)INFINITY;

/* That nothing is copied for it shows in the bound of test_alloc, which counts key heads. */
static void row_23_grouped_heads_equal_repeated_ones(void **state)
{
    static const int64_t heads[][2] = {{4, 2}, {6, 1}, {6, 3}, {5, 5}, {12, 4}};

    for (size_t n = 0; n < sizeof heads / sizeof *heads * 4; n++) {
        int64_t h = heads[n / 4][0], hk = heads[n / 4][1];
        attn_type type = types[n % 4];
        attn_view grouped, k, v;
        scene s;

        START(&s, state, type, 2, h, hk, n % 3 ? 20 : 2, 90, 8, 6);
        grouped = scene_result(&s);
        k = view_plain(&scene_mem, type, 2, h, 90, 8);
        v = view_plain(&scene_mem, type, 2, h, 90, 6);
        for (int64_t e = 0; e < 2 * h * 90; e++) {
            int64_t b = e / (h * 90), head = e / 90 % h, j = e % 90;

            for (int64_t c = 0; c < 8; c++)
                view_set(&k, b, head, j, c, view_get(&s.a.k, b, head / (h / hk), j, c));
            for (int64_t c = 0; c < 6; c++)
                view_set(&v, b, head, j, c, view_get(&s.a.v, b, head / (h / hk), j, c));
        }
        s.a.k = k, s.a.v = v;
        attn_view repeated = scene_result(&s);
        CHECK_MSG(view_same_bits(&grouped, &repeated), "%d heads over %d", (int)h, (int)hk);
    }
}

static void row_24_softcap_then_mask_and_sinks(void **state)
{
    for (int n = 0; n < 8; n++) {
        scene s;
        attn_view clean, poisoned, two, one;

        START(&s, state, types[n % 4], 1, 2, 1, n < 4 ? 2 : 20, 90, 8, 6);
        s.a.softcap = 2;
        s.m.bias = view_plain(&scene_mem, scene_wide(types[n % 4]), 1, 1, 1, 90);
        view_uniform(&s.m.bias, &s.r, -50, 50); /* far beyond the cap: added after it */
        view_set(&s.m.bias, 0, 0, 0, 33, -INF); /* tanh of a masked logit would be -cap */
        s.a.sink = scene_uniform(&s, scene_wide(types[n % 4]), 1, 2, 1, 1);
        scene_within_bound(&s, "softcap, bias, mask, sink");
        clean = scene_result(&s);
        for (int64_t c = 0; c < 6; c++)
            view_set(&s.a.k, 0, 0, 33, c, (double)NAN), view_set(&s.a.v, 0, 0, 33, c, INF);
        poisoned = scene_result(&s);
        CHECK_MSG(view_same_bits(&clean, &poisoned), "poison behind the mask");
        view_fill(&s.a.sink, -INF); /* no sink */
        one = scene_result(&s);
        s.a.sink = (attn_view){0};
        two = scene_result(&s);
        CHECK_MSG(view_same_bits(&one, &two), "sink -inf is not none");
        s.a.softcap = 1e30; /* no cap */
        scene_within_bound(&s, "softcap without effect");
    }
}

static void row_26_dropout_is_explicit(void **state)
{
    for (int n = 0; n < 8; n++) {
        scene s;
        attn_view none, same, other, again;

        START(&s, state, types[n % 4], 2, 4, 2, n < 4 ? 4 : 40, 600, 8, 6);
        none = scene_result(&s);
        s.a.dropout_seed = 77; /* a seed alone drops nothing */
        same = scene_result(&s);
        CHECK_MSG(view_same_bits(&none, &same), "p = 0 drops");
        s.a.dropout = 0.4;
        same = scene_result(&s);
        CHECK(!view_same_bits(&none, &same));
        s.ctx = ctx_for(test_set(state), 7);
        again = scene_result(&s);
        CHECK_MSG(view_same_bits(&same, &again), "other threads, other pattern");
        s.a.dropout_seed = 78;
        other = scene_result(&s);
        CHECK_MSG(!view_same_bits(&same, &other), "the seed is ignored");
        scene_within_bound(&s, "dropout");
        s.a.dropout_seed = 77; /* heads 2 and 3 alone, named as such, drop the same cells */
        s.a.q = view_part(&s.a.q, 1, 2, 2);
        s.a.k = view_part(&s.a.k, 1, 1, 1);
        s.a.v = view_part(&s.a.v, 1, 1, 1);
        s.a.out = view_part(&s.a.out, 1, 2, 2);
        s.a.lse = view_part(&s.a.lse, 1, 2, 2);
        s.a.dropout_head = 2;
        again = scene_result(&s);
        same = view_part(&same, 1, 2, 2);
        CHECK_MSG(view_same_bits(&same, &again), "a shard of heads drops other cells");
    }
}

/* The share of dropped cells, seen through the output: q = 0 makes all weights equal, V = 1 counts.
 */
static void row_26_dropout_keeps_its_rate(void **state)
{
    static const double rates[] = {0.1, 0.5, 0.9};

    for (int n = 0; n < 3; n++) {
        double sum = 0, cells = 2.0 * 4 * 60 * 700;
        scene s;

        START(&s, state, ATTN_F32, 2, 4, 2, 60, 700, 8, 1);
        view_fill(&s.a.q, 0);
        view_fill(&s.a.v, 1);
        s.a.dropout = rates[n];
        scene_run(&s);
        for (int64_t e = 0; e < 2 * 4 * 60; e++)
            sum += view_get(&s.a.out, e / 240, e / 60 % 4, e % 60, 0);
        /* each output is kept / (Tk (1 - p)); the mean over all cells has this spread */
        double spread = sqrt(rates[n] / (1 - rates[n]) / cells);
        CHECK_MSG(fabs(sum / 480 - 1) < 5 * spread, "p = %g keeps %g of its share", rates[n],
                  sum / 480);
    }
}

static void row_27_weights_come_before_dropout(void **state)
{
    for (int n = 0; n < 8; n++) {
        scene s;
        attn_view without, with;

        START(&s, state, types[n % 4], 1, 2, 1, n < 4 ? 3 : 25, 130, 8, 6);
        scene_ask_for_weights(&s);
        scene_run(&s);
        without = view_copy(&scene_mem, &s.r, &s.a.weights, s.a.weights.type, LAYOUT_BHSD);
        s.a.dropout = 0.5;
        scene_run(&s);
        with = s.a.weights;
        CHECK_MSG(view_same_bits(&without, &with), "weights after dropout");
        for (int64_t row = 0; row < 2 * s.a.q.size[2]; row++) {
            double sum = 0;

            for (int64_t j = 0; j < 130; j++)
                sum += view_get(&with, 0, row % 2, row / 2, j);
            CHECK_MSG(fabs(sum - 1) < 2e-6, "weights sum to %.9g", sum);
        }
    }
}

static void row_28_long_rows_and_large_logits(void **state)
{
    scene s;

    for (int n = 0; n < 3; n++) {
        START(&s, state, types[n], 1, 1, 1, 2, 100000, 4, 3); /* 1e5 keys */
        scene_within_bound(&s, "1e5 keys");
        START(&s, state, types[n], 1, 2, 1, n ? 3 : 30, 700, 64, 6);
        view_uniform(&s.a.q, &s.r, -40, 40); /* logits to +-1e4 */
        view_uniform(&s.a.k, &s.r, -40, 40);
        s.a.has_scale = 1, s.a.scale = 0.5;
        scene_within_bound(&s, "logits of 1e4");
    }
    START(&s, state, ATTN_BF16, 1, 1, 1, 3, 64, 64, 4); /* pytorch#121558 */
    view_fill(&s.a.q, 133120);
    view_fill(&s.a.k, 133120);
    scene_within_bound(&s, "bf16 133120");
}

static void row_29_any_width(void **state)
{
    static const int64_t widths[][2] = {{1, 1},     {3, 3},     {40, 40},   {72, 72},
                                        {80, 80},   {96, 96},   {192, 128}, {256, 256},
                                        {512, 512}, {576, 512}, {1, 300},   {300, 1}};

    for (size_t n = 0; n < sizeof widths / sizeof *widths; n++)
        for (int few = 0; few < 2; few++) {
            scene s;

            START(&s, state, types[(n + (size_t)few) % 4], 1, 2, 1, few ? 2 : 18, 80, widths[n][0],
                  widths[n][1]);
            scene_within_bound(&s, "width");
        }
}

static void row_30_alibi_slopes_offsets_and_head_slices(void **state)
{
    static const float of_8[] = {0.5f,     0.25f,     0.125f,     0.0625f,
                                 0.03125f, 0.015625f, 0.0078125f, 0.00390625f};
    float slopes[12];
    scene s;
    attn_view all, part;

    attn_alibi_slopes(slopes, 8);
    CHECK(memcmp(slopes, of_8, sizeof of_8) == 0);
    attn_alibi_slopes(slopes, 12); /* 8 as above, then every second one of 16 */
    for (int h = 0; h < 12; h++) {
        double want = h < 8 ? (double)of_8[h] : exp2(-0.5 * (2 * (h - 8) + 1));

        CHECK_MSG(fabs((double)slopes[h] - want) <= 1e-7 * want, "slope %d of 12: %g", h,
                  (double)slopes[h]);
    }
    attn_alibi_slopes(slopes, 0);
    for (int n = 0; n < 4; n++) {
        START(&s, state, types[n], 1, 3, 3, 30, 130, 8, 6); /* an odd number of heads */
        s.m.alibi = scene_uniform(&s, scene_wide(types[n]), 1, 3, 1, 1);
        s.m.causal = 1, s.m.q_offset = 100;
        scene_within_bound(&s, "ALiBi");
        all = scene_result(&s);
        attn_forward_args whole = s.a;
        attn_view slopes_of_all = s.m.alibi;
        s.a.q = view_part(&whole.q, 2, 29, 1); /* decode equals prefill */
        s.a.out = view_part(&whole.out, 2, 29, 1);
        s.a.lse = view_part(&whole.lse, 2, 29, 1);
        s.m.q_offset = 129;
        part = scene_result(&s);
        attn_view last = view_part(&all, 2, 29, 1);
        CHECK_MSG(view_same_bits(&part, &last), "decode and prefill");
        s.a = whole; /* one head alone, with its slope */
        s.m.q_offset = 100;
        s.m.alibi = view_part(&slopes_of_all, 1, 1, 1);
        s.a.q = view_part(&whole.q, 1, 1, 1), s.a.k = view_part(&whole.k, 1, 1, 1);
        s.a.v = view_part(&whole.v, 1, 1, 1), s.a.out = view_part(&whole.out, 1, 1, 1);
        s.a.lse = view_part(&whole.lse, 1, 1, 1);
        part = scene_result(&s);
        last = view_part(&all, 1, 1, 1);
        CHECK_MSG(view_same_bits(&part, &last), "a slice of heads");
    }
}

static void row_31_left_padding_equals_alone(void **state)
{
    int64_t start[2] = {13, 64}, offsets[2] = {60, 9};

    for (int n = 0; n < 4; n++) {
        scene s;
        attn_view both, alone;

        START(&s, state, types[n], 2, 2, 1, 5, 73, 8, 6);
        attn_forward_args whole = s.a;
        s.m.causal = 1;
        s.m.k_start = start, s.m.q_offsets = offsets;
        both = scene_result(&s);
        for (int64_t b = 0; b < 2; b++) {
            attn_view want = view_part(&both, 0, b, 1), k = view_part(&whole.k, 0, b, 1),
                      v = view_part(&whole.v, 0, b, 1);

            s.m.k_start = s.m.q_offsets = NULL;
            s.m.q_offset = offsets[b];
            s.a.q = view_part(&whole.q, 0, b, 1);
            s.a.k = view_part(&k, 2, start[b], 73 - start[b]);
            s.a.v = view_part(&v, 2, start[b], 73 - start[b]);
            s.a.out = view_part(&whole.out, 0, b, 1);
            s.a.lse = view_part(&whole.lse, 0, b, 1);
            alone = scene_result(&s);
            CHECK_MSG(view_same_bits(&want, &alone), "sequence %d", (int)b);
        }
    }
}

static void row_32_a_full_cache_refuses(void **state)
{
    attn_cache_options o = ATTN_CACHE_OPTIONS_INIT;
    attn_cache *cache;
    scene s;

    START(&s, state, ATTN_F32, 1, 2, 1, 1, 9, 8, 6);
    o.batch = 1, o.heads = 1, o.dk = 8, o.dv = 6, o.capacity = 9;
    CHECK(attn_cache_create(s.ctx, &o, &cache, NULL) == ATTN_OK);
    attn_view k = view_part(&s.a.k, 2, 0, 8), v = view_part(&s.a.v, 2, 0, 8);
    CHECK(attn_cache_append(cache, 0, &k, &v, NULL) == ATTN_OK);
    k = view_part(&s.a.k, 2, 0, 2), v = view_part(&s.a.v, 2, 0, 2);
    CHECK(attn_cache_append(cache, 0, &k, &v, NULL) == ATTN_E_FULL);
    CHECK(attn_cache_length(cache, 0) == 8);
    k = view_part(&s.a.k, 2, 8, 1), v = view_part(&s.a.v, 2, 8, 1);
    CHECK(attn_cache_append(cache, 0, &k, &v, NULL) == ATTN_OK);
    attn_view want = scene_result(&s);
    s.a.k = s.a.v = (attn_view){0};
    CHECK(attn_decode(s.ctx, cache, &s.a, NULL) == ATTN_OK);
    CHECK(view_same_bits(&want, &s.a.out));
    attn_cache_destroy(cache);
}

/* (O, LSE) of two halves, cut anywhere, merge into the whole; the LSE is natural. */
static void row_33_lse_merges_halves(void **state)
{
    for (int n = 0; n < 40; n++) {
        attn_merge_args m = ATTN_MERGE_ARGS_INIT;
        int64_t cut = n * 7 % 131;
        attn_partial halves[2];
        char why[300] = "";
        ref want;
        scene s;

        START(&s, state, n % 2 ? ATTN_F64 : ATTN_F32, 1, 2, 1, n % 3 ? 20 : 2, 130, 8, 6);
        attn_forward_args whole = s.a;
        for (int half = 0; half < 2; half++) {
            int64_t from = half ? cut : 0, rows = half ? 130 - cut : cut;

            s.a.k = view_part(&whole.k, 2, from, rows);
            s.a.v = view_part(&whole.v, 2, from, rows);
            s.a.out = scene_uniform(&s, whole.out.type, 1, 2, whole.q.size[2], 6);
            s.a.lse = scene_uniform(&s, whole.out.type, 1, 2, whole.q.size[2], 1);
            s.m.k_offset = from;
            scene_run(&s);
            halves[half].out = s.a.out;
            halves[half].max = s.a.lse;
            halves[half].sum = scene_uniform(&s, whole.out.type, 1, 2, whole.q.size[2], 1);
            view_fill(&halves[half].sum, rows > 0);
        }
        s.a = whole;
        s.m.k_offset = 0;
        m.parts = halves;
        m.count = 2;
        m.out = whole.out;
        m.lse = whole.lse;
        CHECK(attn_merge(s.ctx, &m, NULL) == ATTN_OK);
        ref_forward(&s.a, &want);
        int bad = ref_compare(&s.a, &want, NULL, why, sizeof why);
        ref_free(&want);
        CHECK_MSG(bad == 0, "cut at %d: %s", (int)cut, why);
    }
    scene s; /* one key: the LSE is its logit, in natural units */
    START(&s, state, ATTN_F32, 1, 1, 1, 1, 1, 1, 1);
    view_fill(&s.a.q, 2), view_fill(&s.a.k, 3);
    scene_run(&s);
    CHECK(view_get(&s.a.lse, 0, 0, 0, 0) == 6);
}

/* No option takes a call to another path or set, and the plan says which. */
static void row_34_no_silent_slow_path(void **state)
{
    for (int few = 0; few < 2; few++) {
        attn_plan plain = ATTN_PLAN_INIT, plan = ATTN_PLAN_INIT;
        scene s;

        START(&s, state, ATTN_F32, 1, 8, 2, few ? 1 : 100, 3000, 64, 64);
        CHECK(attn_forward_plan(s.ctx, &s.a, &plain, NULL) == ATTN_OK);
        CHECK_MSG(strcmp(plain.path, few ? "split-key" : "tiled") == 0, "path %s", plain.path);
        CHECK(plain.kernels == test_set(state) && plain.threads >= 1 && plain.threads <= 2);
        CHECK(plain.why[0] && memchr(plain.why, 0, sizeof plain.why));
        s.m.causal = 1, s.m.q_offset = 2900;
        s.m.window = 1, s.m.window_left = 1000;
        s.m.keep = scene_keep_all(&s);
        s.m.bias = scene_uniform(&s, ATTN_F32, 1, 1, 1, 3000);
        s.a.softcap = 5, s.a.dropout = 0.1;
        s.a.sink = scene_uniform(&s, ATTN_F32, 1, 8, 1, 1);
        CHECK(attn_forward_plan(s.ctx, &s.a, &plan, NULL) == ATTN_OK);
        CHECK_MSG(strcmp(plain.path, plan.path) == 0 && plain.kernels == plan.kernels,
                  "options move the call from %s to %s", plain.path, plan.path);
    }
}

/* No OpenMP and no BLAS in the process: nothing whose threads could be mixed up with ours. */
static void row_36_no_openmp_and_no_blas(void **state)
{
    static const char *const unwanted[] = {"libgomp", "libomp", "libiomp", "blas", "mkl"};
    FILE *maps = fopen("/proc/self/maps", "r");
    char *line = NULL;
    size_t room = 0;

    (void)state;
    if (!maps)
        skip();
    while (getline(&line, &room, maps) > 0)
        for (size_t n = 0; n < sizeof unwanted / sizeof *unwanted; n++)
            CHECK_MSG(!strstr(line, unwanted[n]), "linked: %s", line);
    free(line);
    fclose(maps);
}

int main(int argc, char **argv)
{
    static const test_case tests[] = {
        {"row_23_grouped_heads_equal_repeated_ones", row_23_grouped_heads_equal_repeated_ones, 1},
        {"row_24_softcap_then_mask_and_sinks", row_24_softcap_then_mask_and_sinks, 1},
        {"row_26_dropout_is_explicit", row_26_dropout_is_explicit, 1},
        {"row_26_dropout_keeps_its_rate", row_26_dropout_keeps_its_rate, 1},
        {"row_27_weights_come_before_dropout", row_27_weights_come_before_dropout, 1},
        {"row_28_long_rows_and_large_logits", row_28_long_rows_and_large_logits, 1},
        {"row_29_any_width", row_29_any_width, 1},
        {"row_30_alibi_slopes_offsets_and_head_slices", row_30_alibi_slopes_offsets_and_head_slices,
         1},
        {"row_31_left_padding_equals_alone", row_31_left_padding_equals_alone, 1},
        {"row_32_a_full_cache_refuses", row_32_a_full_cache_refuses, 1},
        {"row_33_lse_merges_halves", row_33_lse_merges_halves, 1},
        {"row_34_no_silent_slow_path", row_34_no_silent_slow_path, 1},
        {"row_36_no_openmp_and_no_blas", row_36_no_openmp_and_no_blas, 0},
    };

    int failed = test_main(argc, argv, tests, sizeof tests / sizeof *tests);

    arena_reset(&scene_mem);
    return failed;
}
