/* test_contract.c: what people complain about in other attention code (docs/numerics.md, table of
 * complaints), one named test a row.
 *
 * Rows 23 to 36 are in test_contract_options.c. Rows 14, 25, 35 and the gradient parts of 1 and 24
 * come with gradients, row 37 with layers, the ratio of times in row 34 with the benchmarks. Rows
 * that have a program of their own are here in their smallest form: 10 (test_alloc), 11, 15, 16, 17
 * (test_bits, test_bits_host), 19 (test_guard), 20 (test_args), 31, 32 (test_cache,
 * test_cache_memory); special values at every position are in test_special.
 */
#include "include/attn/attn.h"
#include "tests/scene.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const attn_type types[] = {ATTN_F32, ATTN_F16, ATTN_BF16, ATTN_F64};
static const double INF = (double)INFINITY;

/* --- Empty rows and masked garbage ---------------------------------------------------------- */

enum { EMPTY_WAYS = 8 };

/* Makes row 1 (and maybe others) of every head empty. */
static void make_row_empty(scene *s, int way, int64_t lengths[1])
{
    if (way == 0 || way == 6) {
        s->m.keep = scene_keep_all(s);
        for (int64_t n = 0; n < 2 * s->a.k.size[2]; n++)
            view_set(&s->m.keep, 0, n % 2, 1, n / 2, 0);
    }
    if (way == 1 || way == 7) {
        s->m.bias = scene_uniform(s, scene_wide(s->a.q.type), 1, 1, s->a.q.size[2], s->a.k.size[2]);
        for (int64_t j = 0; j < s->a.k.size[2]; j++)
            view_set(&s->m.bias, 0, 0, 1, j, -INF);
    }
    if (way == 2) { /* causal leaves row 1 the keys 0 and 1; the mask takes them */
        s->m.causal = 1;
        s->m.keep = scene_keep_all(s);
        for (int64_t n = 0; n < 4; n++)
            view_set(&s->m.keep, 0, n % 2, 1, n / 2, 0);
    }
    if (way == 3)
        s->m.window = 1, s->m.window_left = 3, s->m.window_right = 3, s->m.q_offset = -1000;
    if (way == 4)
        s->m.k_count = lengths;
    if (way == 5)
        s->m.q_count = (lengths[0] = 1, lengths);
    if (way >= 6) {
        s->a.sink = view_plain(&scene_mem, scene_wide(s->a.q.type), 1, 2, 1, 1);
        view_fill(&s->a.sink, 0.75);
    }
}

static void row_01_masked_rows_are_zero(void **state)
{
    for (int n = 0; n < 4 * EMPTY_WAYS * 2; n++) {
        int way = n / 4 % EMPTY_WAYS;
        int64_t lengths[1] = {0};
        scene s;

        START(&s, state, types[n % 4], 1, 2, 1, n % 2 ? 4 : 30, 150, 8, 6);
        make_row_empty(&s, way, lengths);
        scene_ask_for_weights(&s);
        scene_within_bound(&s, "with an empty row");
        for (int64_t h = 0; h < 2; h++) {
            CHECK_MSG(row_is_plus_zero(&s.a.out, h, 1), "way %d: row 1 of head %d", way, (int)h);
            CHECK_MSG(row_is_plus_zero(&s.a.weights, h, 1), "way %d: weights of an empty row", way);
            CHECK_MSG(view_get(&s.a.lse, 0, h, 1, 0) == (way >= 6 ? 0.75 : -INF), "way %d: LSE %g",
                      way, view_get(&s.a.lse, 0, h, 1, 0));
        }
    }
}

/* The call is one of few queries, so large that its keys are split among workers. */
static void expect_split_keys(const scene *s)
{
    attn_forward_args a = s->a;
    attn_plan plan = ATTN_PLAN_INIT;

    a.mask = &s->m;
    CHECK(attn_forward_plan(s->ctx, &a, &plan, NULL) == ATTN_OK);
    CHECK_MSG(strcmp(plan.path, "split-key") == 0, "path %s", plan.path);
}

static void row_02_empty_rows_agree_on_every_path(void **state)
{
    for (int n = 0; n < 2 * EMPTY_WAYS; n++) {
        int way = n / 2;
        int64_t lengths[1] = {0};
        scene s;
        attn_view many, few;

        START(&s, state, types[n % 4], 1, 2, 1, 20, 600, 224, 220); /* keys are split */
        make_row_empty(&s, way, lengths);
        many = scene_result(&s);
        scene_ask_for_weights(&s);
        few = scene_result(&s);
        CHECK_MSG(view_same_bits(&many, &few), "weights asked for, way %d", way);
        for (int threads = 1; threads <= 7; threads += 3) {
            s.ctx = ctx_for(test_set(state), threads);
            few = scene_result(&s);
            CHECK_MSG(view_same_bits(&many, &few), "%d threads, way %d", threads, way);
        }
        s.a.weights = (attn_view){0}; /* the first two rows alone: the path of few queries */
        s.a.q = view_part(&s.a.q, 2, 0, 2);
        s.a.out = view_part(&s.a.out, 2, 0, 2);
        s.a.lse = view_part(&s.a.lse, 2, 0, 2);
        if (s.m.keep.data)
            s.m.keep = view_part(&s.m.keep, 2, 0, 2);
        if (s.m.bias.data)
            s.m.bias = view_part(&s.m.bias, 2, 0, 2);
        if (way < 4) /* else whole rows or all keys are counted away */
            expect_split_keys(&s);
        few = scene_result(&s);
        many = view_part(&many, 2, 0, 2);
        CHECK_MSG(view_same_bits(&many, &few), "few queries, way %d", way);
    }
}

static void row_03_masked_garbage_stays_out_and_nan_shows(void **state)
{
    for (int n = 0; n < 8; n++) {
        scene s;
        attn_view clean, dirty;

        START(&s, state, types[n % 4], 1, 2, 1, n < 4 ? 3 : 40, 200, 8, 6);
        s.m.keep = scene_keep_all(&s);
        for (int64_t i = 0; i < s.a.q.size[2] * 2; i++)
            view_set(&s.m.keep, 0, i % 2, i / 2, 77, 0);
        s.m.bias = scene_uniform(&s, scene_wide(types[n % 4]), 1, 1, 1, 200);
        for (int64_t c = 0; c < 6; c++)
            view_set(&s.a.v, 0, 0, 77, c, 0), view_set(&s.a.k, 0, 0, 77, c, 0);
        clean = scene_result(&s);
        for (int64_t c = 0; c < 6; c++) {
            view_set(&s.a.v, 0, 0, 77, c, c % 2 ? (double)NAN : INF);
            view_set(&s.a.k, 0, 0, 77, c, c % 2 ? INF : (double)NAN);
        }
        view_set(&s.m.bias, 0, 0, 0, 77, (double)NAN);
        dirty = scene_result(&s);
        CHECK_MSG(view_same_bits(&clean, &dirty), "masked NaN reaches the output");
        view_set(&s.m.keep, 0, 1, 2, 77, 1); /* row 2 of head 1 attends it */
        scene_run(&s);
        CHECK(isnan(view_get(&s.a.out, 0, 1, 2, 0)) && isnan(view_get(&s.a.lse, 0, 1, 2, 0)));
        CHECK(!isnan(view_get(&s.a.out, 0, 0, 2, 0)) && !isnan(view_get(&s.a.out, 0, 1, 1, 0)));
    }
}

static void row_04_minus_big_is_a_number_and_minus_inf_a_mask(void **state)
{
    static const double big[] = {-3.4028234663852886e38, -65504, -1e9, -1e4};
    scene s;
    attn_view mean;

    START(&s, state, ATTN_F32, 1, 2, 2, 20, 100, 8, 6);
    s.a.has_scale = 1, s.a.scale = 0;
    mean = scene_result(&s);
    s.a.has_scale = 0;
    for (int n = 0; n < 4; n++) { /* a row full of it is uniform where the logits vanish beside it
                                   */
        s.m.bias = view_plain(&scene_mem, n == 1 ? ATTN_F16 : ATTN_F32, 1, 1, 1, 100);
        view_fill(&s.m.bias, big[n]);
        scene_within_bound(&s, "a row full of minus big");
        attn_view got = scene_result(&s);
        if (n == 0)
            CHECK_MSG(view_same_bits(&got, &mean), "-FLT_MAX everywhere is not the mean");
        view_set(&s.m.bias, 0, 0, 0, 50, -INF);
        view_set(&s.m.bias, 0, 0, 0, 51, 1);
        scene_within_bound(&s, "mixed");
        for (int64_t c = 0; c < 6; c++)
            CHECK(!isnan(view_get(&s.a.out, 0, 0, 0, c)));
    }
    view_fill(&s.m.bias, -INF); /* what a caller gets who adds two of them */
    scene_run(&s);
    CHECK(row_is_plus_zero(&s.a.out, 0, 0));
    view_fill(&s.m.bias, 0); /* big logits do not leak past a keep mask */
    view_fill(&s.a.q, 300);
    s.m.keep = scene_keep_all(&s);
    for (int64_t n = 0; n < 40; n++)
        view_set(&s.m.keep, 0, n % 2, n / 2, 3, 0);
    scene_ask_for_weights(&s);
    scene_within_bound(&s, "big logits behind a mask");
    CHECK(view_get(&s.a.weights, 0, 0, 0, 3) == 0);
}

/* --- Which keys ----------------------------------------------------------------------------- */

static void row_05_causal_by_stated_offset(void **state)
{
    static const int64_t table[][3] = {{5, 9, 0},    {5, 9, 4},    {9, 5, 0},
                                       {9, 5, -4},   {1, 70, 69},  {1, 70, 0},
                                       {40, 90, 50}, {40, 90, 17}, {40, 20, -20}};

    for (size_t n = 0; n < sizeof table / sizeof *table; n++) {
        int64_t tq = table[n][0], tk = table[n][1], offset = table[n][2];
        scene s;

        START(&s, state, types[n % 4], 1, 1, 1, tq, tk, 4, 4);
        s.a.has_scale = 1;
        s.m.causal = 1, s.m.q_offset = offset;
        scene_ask_for_weights(&s);
        scene_run(&s);
        for (int64_t i = 0; i < tq; i++) {
            int64_t first = 0, want = offset + i + 1;

            want = want < 0 ? 0 : want > tk ? tk : want;
            CHECK_MSG(scene_attended(&s, i, &first) == want && first == 0,
                      "Tq %d, Tk %d, offset %d: row %d attends %d keys, not %d", (int)tq, (int)tk,
                      (int)offset, (int)i, (int)scene_attended(&s, i, &first), (int)want);
        }
    }
}

static void row_05_decode_equals_the_last_row_of_prefill(void **state)
{
    for (int n = 0; n < 4; n++) {
        scene s;
        attn_view all, last;

        START(&s, state, types[n], 2, 4, 2, 30, 1100, 64, 64);
        s.m.causal = 1, s.m.q_offset = 1070;
        all = scene_result(&s);
        all = view_part(&all, 2, 29, 1);
        s.a.q = view_part(&s.a.q, 2, 29, 1);
        s.a.out = view_part(&s.a.out, 2, 29, 1);
        s.a.lse = view_part(&s.a.lse, 2, 29, 1);
        s.m.q_offset = 1099;
        expect_split_keys(&s);
        last = scene_result(&s);
        CHECK(view_same_bits(&all, &last));
    }
}

static void row_06_the_type_says_what_a_mask_means(void **state)
{
    scene s;
    attn_view kept, added;
    uint8_t drop[30], keep[30];

    START(&s, state, ATTN_F32, 1, 2, 1, 18, 30, 8, 6);
    s.m.bias = view_plain(&scene_mem, ATTN_F32, 1, 1, 1, 30);
    for (int64_t j = 0; j < 30; j++) {
        view_set(&s.m.bias, 0, 0, 0, j, j % 2);
        drop[j] = j % 3 == 0;
    }
    added = scene_result(&s); /* a 0/1 float mask is added: no key is removed */
    scene_within_bound(&s, "0/1 added");
    s.m.bias = (attn_view){0};
    attn_keep_from_drop(keep, drop, 30);
    s.m.keep = attn_view_bhsd(keep, ATTN_U8, 1, 1, 1, 30);
    kept = scene_result(&s);
    scene_within_bound(&s, "bytes keep");
    CHECK(!view_same_bits(&kept, &added));
    for (int64_t j = 0; j < 30; j++)
        keep[j] = keep[j] ? 200 : 0; /* any non-zero byte keeps */
    attn_view other = scene_result(&s);
    CHECK(view_same_bits(&kept, &other));
}

/* Sizes of 1 and strides of 0 in every combination, against the mask written out. */
static void row_07_every_broadcast_pattern(void **state)
{
    for (int n = 0; n < 64; n++) {
        int pattern = n % 16, byte = n / 16 % 2, by_stride = n / 32;
        int64_t size[4] = {2, 4, 18, 75};
        attn_type type = byte ? ATTN_U8 : ATTN_F32;
        attn_view small, expanded, want, got, *slot;
        scene s;

        START(&s, state, types[n % 3], 2, 4, 2, 18, 75, 8, 6);
        for (int d = 0; d < 4; d++)
            size[d] = pattern >> d & 1 ? 1 : size[d];
        small = view_plain(&scene_mem, type, size[0], size[1], size[2], size[3]);
        view_uniform(&small, &s.r, byte ? 0 : -2, byte ? 1.99 : 2);
        for (int d = 0; d < 4 && by_stride; d++)
            if (small.size[d] == 1)
                small.stride[d] = 0, small.size[d] = (int64_t[]){2, 4, 18, 75}[d];
        expanded = view_plain(&scene_mem, type, 2, 4, 18, 75);
        for (int64_t e = 0; e < 2 * 4 * 18 * 75; e++) {
            int64_t b = e / 5400, h = e / 1350 % 4, i = e / 75 % 18, j = e % 75;

            view_set(&expanded, b, h, i, j,
                     view_get(&small, b % small.size[0], h % small.size[1], i % small.size[2],
                              j % small.size[3]));
        }
        slot = byte ? &s.m.keep : &s.m.bias;
        *slot = expanded;
        want = scene_result(&s);
        *slot = small;
        got = scene_result(&s);
        CHECK_MSG(view_same_bits(&got, &want), "pattern %x of %s, by %s", pattern,
                  byte ? "keep" : "bias", by_stride ? "stride" : "size");
    }
}

static void row_08_any_mask_type_with_any_query_type(void **state)
{
    static const attn_type biases[] = {ATTN_F32, ATTN_F16, ATTN_BF16};

    for (int n = 0; n < 27; n++) {
        scene s;

        START(&s, state, types[n % 3], 1, 2, 1, n % 2 ? 3 : 20, 90, 8, 6);
        s.a.k = view_copy(&scene_mem, &s.r, &s.a.k, types[n / 3 % 3], LAYOUT_BHSD);
        s.m.bias = scene_uniform(&s, biases[n / 9], 1, 2, s.a.q.size[2], 90);
        s.m.keep = scene_keep_all(&s);
        view_set(&s.m.keep, 0, 1, 2, 80, 0);
        scene_within_bound(&s, "mixed types");
    }
}

static void row_09_masks_act_together(void **state)
{
    for (int n = 0; n < 8; n++) {
        scene s;
        attn_view together, one;

        START(&s, state, types[n % 4], 1, 2, 1, n < 4 ? 5 : 33, 140, 8, 6);
        s.m.keep = scene_keep_all(&s);
        view_uniform(&s.m.keep, &s.r, 0, 1.99);
        s.m.causal = 1, s.m.q_offset = 100;
        s.m.window = 1, s.m.window_left = 70, s.m.window_right = -1;
        s.m.bias = scene_uniform(&s, scene_wide(types[n % 4]), 1, 1, 1, 140);
        view_set(&s.m.bias, 0, 0, 0, 60, -INF);
        together = scene_result(&s);
        for (int64_t e = 0; e < s.a.q.size[2] * 2 * 140; e++) { /* the same, all in bytes */
            int64_t h = e % 2, i = e / 2 / 140, j = e / 2 % 140, at = 100 + i;

            if (j > at || j < at - 70 || j == 60)
                view_set(&s.m.keep, 0, h, i, j, 0);
        }
        s.m.causal = s.m.window = 0;
        one = scene_result(&s);
        CHECK_MSG(view_same_bits(&together, &one), "AND of masks, %s",
                  attn_type_name(types[n % 4]));
    }
}

static void row_10_no_square_memory(void **state)
{
    attn_plan plan = ATTN_PLAN_INIT;
    int64_t n = 65536;
    scene s;

    START(&s, state, ATTN_F32, 1, 2, 2, 1, 1, 64, 64);
    s.m.causal = 1; /* the plan reads no element: one row repeated stands for 65536 */
    attn_view *in[] = {&s.a.q, &s.a.k, &s.a.v};
    for (int i = 0; i < 3; i++)
        in[i]->size[2] = n, in[i]->stride[2] = 0;
    s.m.bias = view_plain(&scene_mem, ATTN_F32, 1, 1, 1, 1);
    s.m.bias.size[2] = s.m.bias.size[3] = n;
    s.m.bias.stride[2] = s.m.bias.stride[3] = 0;
    s.a.out = view_plain(&scene_mem, ATTN_F32, 1, 2, n, 64);
    s.a.lse = (attn_view){0};
    CHECK(attn_forward_plan(s.ctx, &s.a, &plan, NULL) == ATTN_OK);
    CHECK_MSG(plan.workspace_size <= 2u * (4 << 20) + 2u * 65536 * 128 * 4, "%zu bytes",
              plan.workspace_size);
}

static void row_11_weights_do_not_change_the_output(void **state)
{
    for (int n = 0; n < 8; n++) {
        scene s;
        attn_view without, with;

        START(&s, state, types[n % 4], 2, 4, 2, n < 4 ? 2 : 50, 600, 8, 6);
        s.m.causal = 1, s.m.q_offset = 500;
        without = scene_result(&s);
        scene_ask_for_weights(&s);
        with = scene_result(&s);
        CHECK(view_same_bits(&without, &with));
    }
}

/* --- Every pair of options ------------------------------------------------------------------ */

enum { OPTIONS = 16 };

static void halve_tile(void *user, const attn_tile *t)
{
    (void)user;
    for (int64_t r = 0; r < t->rows; r++)
        for (int64_t c = 0; c < t->cols; c++) {
            int64_t at = r * t->stride + c;
            int hide = (t->q_pos + r + t->k_pos + c + t->head) % 5 == 0;

            if (t->type == ATTN_F64)
                ((double *)t->logits)[at] = hide ? -INF : ((double *)t->logits)[at] / 2;
            else
                ((float *)t->logits)[at] = hide ? -INFINITY : ((float *)t->logits)[at] / 2;
        }
}

static void add_option(scene *s, int option)
{
    static const int64_t offsets[2] = {30, 61}, k_offsets[2] = {3, 0}, starts[2] = {5, 0},
                         counts[2] = {60, 71}, q_counts[2] = {19, 17}, first[2] = {0, 2},
                         index[2] = {0, 1};
    attn_type wide = scene_wide(s->a.q.type);

    switch (option) {
    case 0:
        s->a.has_scale = 1, s->a.scale = -0.3;
        break;
    case 1:
        s->a.softcap = 1.5;
        break;
    case 2:
        s->m.keep = scene_keep_all(s);
        view_uniform(&s->m.keep, &s->r, 0, 1.99);
        break;
    case 3:
        s->m.bias = scene_uniform(s, wide, 2, 1, 20, 75);
        break;
    case 4:
        s->m.causal = 1;
        break;
    case 5:
        s->m.window = 1, s->m.window_left = 9, s->m.window_right = 4;
        break;
    case 6:
        s->m.q_offsets = offsets;
        break;
    case 7:
        s->m.k_offsets = k_offsets;
        break;
    case 8:
        s->m.k_start = starts;
        break;
    case 9:
        s->m.k_count = counts;
        break;
    case 10:
        s->m.q_count = q_counts;
        break;
    case 11:
        s->m.alibi = scene_uniform(s, wide, 1, 4, 1, 1);
        break;
    case 12:
        s->m.blocks = (attn_block_list){.q_block = 128,
                                        .k_block = 64,
                                        .rows = 1,
                                        .k_blocks = 2,
                                        .start = first,
                                        .index = index,
                                        .index_count = 2};
        break;
    case 13:
        s->a.sink = scene_uniform(s, wide, 1, 4, 1, 1);
        break;
    case 14:
        s->a.dropout = 0.3, s->a.dropout_seed = 9;
        break;
    default:
        s->m.tile = halve_tile;
    }
}

/* No option is lost beside another: each pair is right by the reference. */
static void row_12_every_pair_of_options(void **state)
{
    char what[60];

    for (int one = 0; one < OPTIONS; one++)
        for (int two = one; two < OPTIONS; two++) {
            scene s;

            START(&s, state, types[(one + two) % 4], 2, 4, 2, 20, 75, 8, 6);
            add_option(&s, one);
            if (two != one)
                add_option(&s, two);
            scene_ask_for_weights(&s);
            snprintf(what, sizeof what, "options %d and %d", one, two);
            scene_within_bound(&s, what);
        }
}

/* --- Weights and statistics ----------------------------------------------------------------- */

static void rows_sum_to_one(const scene *s, double slack, const char *what)
{
    for (int64_t n = 0; n < s->a.q.size[1] * s->a.q.size[2]; n++) {
        double sum = 0;

        for (int64_t j = 0; j < s->a.k.size[2]; j++)
            sum += view_get(&s->a.weights, 0, n % s->a.q.size[1], n / s->a.q.size[1], j);
        CHECK_MSG(fabs(sum - 1) < slack, "%s: weights sum to %.9g", what, sum);
    }
}

static void row_13_weights_are_exp_of_logit_minus_lse(void **state)
{
    for (int n = 0; n < 8; n++) {
        scene s;

        START(&s, state, types[n % 4], 1, 2, 1, n < 4 ? 3 : 25, 130, 8, 6);
        scene_ask_for_weights(&s);
        scene_within_bound(&s, "weights");
        rows_sum_to_one(&s, n % 4 == 3 ? 1e-13 : 2e-6, attn_type_name(types[n % 4]));
    }
}

static void row_15_threads_change_nothing(void **state)
{
    static const int widths[] = {1, 2, 3, 7, 16};
    scene s;
    attn_view one, many;

    START(&s, state, ATTN_F32, 3, 4, 2, 70, 700, 8, 6);
    s.ctx = ctx_for(test_set(state), 1);
    one = scene_result(&s);
    for (int n = 0; n < 5; n++) {
        s.ctx = ctx_for(test_set(state), widths[n]);
        many = scene_result(&s);
        CHECK_MSG(view_same_bits(&one, &many), "%d threads", widths[n]);
    }
}

static void row_16_batch_mates_change_nothing(void **state)
{
    scene s;
    attn_view all, alone;

    START(&s, state, ATTN_BF16, 5, 4, 2, 30, 600, 8, 6);
    all = scene_result(&s);
    attn_forward_args whole = s.a;
    for (int64_t b = 0; b < 5; b++) {
        attn_view want = view_part(&all, 0, b, 1);

        s.a.q = view_part(&whole.q, 0, b, 1);
        s.a.k = view_part(&whole.k, 0, b, 1);
        s.a.v = view_part(&whole.v, 0, b, 1);
        s.a.out = view_part(&whole.out, 0, b, 1);
        s.a.lse = view_part(&whole.lse, 0, b, 1);
        alone = scene_result(&s);
        CHECK_MSG(view_same_bits(&alone, &want), "sequence %d", (int)b);
    }
}

static void row_17_any_stride(void **state)
{
    for (int n = 0; n < LAYOUT_COUNT * 4; n++) {
        scene s;
        attn_view want, got;

        START(&s, state, types[n % 4], 2, 4, 2, 20, 90, 9, 7);
        want = scene_result(&s);
        s.a.q = view_copy(&scene_mem, &s.r, &s.a.q, types[n % 4], (layout)(n / 4));
        s.a.k =
            view_copy(&scene_mem, &s.r, &s.a.k, types[n % 4], (layout)((n / 4 + 1) % LAYOUT_COUNT));
        s.a.v =
            view_copy(&scene_mem, &s.r, &s.a.v, types[n % 4], (layout)((n / 4 + 2) % LAYOUT_COUNT));
        got = scene_result(&s);
        CHECK_MSG(view_same_bits(&want, &got), "layout %s", layout_name((layout)(n / 4)));
    }
    scene s; /* stride 0: one key and value repeated gives the value */
    START(&s, state, ATTN_F32, 1, 2, 1, 20, 90, 9, 7);
    s.a.k.stride[2] = s.a.v.stride[2] = 0;
    scene_within_bound(&s, "rows repeated by stride 0");
}

static void row_18_no_rules_about_lengths(void **state)
{
    for (int64_t n = 1; n <= 70; n++) {
        scene s;

        START(&s, state, types[n % 4], 1, 1, 1, n % 5 ? 3 : n, n, 2 * (n % 9) + 1, 2 * (n % 7) + 1);
        scene_within_bound(&s, "odd sizes");
        START(&s, state, types[n % 4], 1, 1, 1, n, 71 - n, n, 71 - n);
        scene_within_bound(&s, "any length");
    }
}

static void row_19_offsets_are_64_bit(void **state)
{
    scene s;
    attn_view want, got;
    int64_t zero = 0;

    START(&s, state, ATTN_F32, 1, 2, 1, 5, 40, 8, 6);
    s.m.causal = 1, s.m.q_offset = 35;
    want = scene_result(&s);
    s.m.q_offset += (int64_t)1 << 40, s.m.k_offset += (int64_t)1 << 40; /* positions too */
    s.m.k_offsets = &zero;
    got = scene_result(&s);
    CHECK(view_same_bits(&want, &got));
}

static void row_20_shapes_are_checked(void **state)
{
    scene s;

    START(&s, state, ATTN_F32, 2, 4, 2, 3, 40, 8, 6);
    s.a.v.size[2] = 39;
    CHECK(attn_forward(s.ctx, &s.a, NULL) == ATTN_E_SHAPE);
    s.a.v.size[2] = 40, s.a.k.size[1] = 3;
    CHECK(attn_forward(s.ctx, &s.a, NULL) == ATTN_E_SHAPE);
}

static void row_21_zero_lengths(void **state)
{
    static const int64_t q_starts[] = {0, 0, 4, 4, 9}, k_starts[] = {0, 5, 5, 12, 12};
    scene s;

    for (int n = 0; n < 8; n++) {
        START(&s, state, types[n % 4], n & 1 ? 0 : 2, 2, 1, n & 2 ? 0 : 3, n & 4 ? 0 : 5, 8, 6);
        scene_run(&s);
        for (int64_t i = 0; i < view_count(&s.a.lse) && n & 4; i++)
            CHECK(row_is_plus_zero(&s.a.out, i % 2, i / 2 % 3));
    }
    START(&s, state, ATTN_F32, 1, 2, 1, 9, 12, 8, 6); /* segments without queries, keys, or both */
    s.m.segments = 4, s.m.q_starts = q_starts, s.m.k_starts = k_starts;
    scene_within_bound(&s, "empty segments");
    for (int64_t i = 0; i < 9; i++) /* rows 0-3 have no key, nor have 4-8 */
        CHECK(row_is_plus_zero(&s.a.out, 0, i) && view_get(&s.a.lse, 0, 1, i, 0) == -INF);
}

static void row_22_windows_count_neighbours_without_self(void **state)
{
    static const int64_t sides[][2] = {{0, 0},  {1, 0},   {0, 1},  {3, 2},
                                       {63, 0}, {64, 64}, {-1, 0}, {-1, -1}};
    scene s;

    for (size_t n = 0; n < sizeof sides / sizeof *sides; n++) {
        int64_t left = sides[n][0], right = sides[n][1];

        START(&s, state, types[n % 4], 1, 1, 1, 150, 150, 4, 4);
        s.a.has_scale = 1;
        s.m.window = 1, s.m.window_left = left, s.m.window_right = right;
        scene_ask_for_weights(&s);
        scene_run(&s);
        for (int64_t i = 0; i < 150; i++) {
            int64_t low = left < 0 || i - left < 0 ? 0 : i - left;
            int64_t high = right < 0 || i + right > 149 ? 149 : i + right, first = 0;

            CHECK_MSG(scene_attended(&s, i, &first) == high - low + 1 && first == low,
                      "window (%d, %d): row %d attends %d keys from %d", (int)left, (int)right,
                      (int)i, (int)scene_attended(&s, i, &first), (int)first);
        }
    }
    START(&s, state, ATTN_F32, 1, 2, 1, 150, 150, 4, 4);
    s.m.causal = 1;
    attn_view causal = scene_result(&s), window;
    s.m.causal = 0;
    s.m.window = 1, s.m.window_left = 149, s.m.window_right = 0;
    window = scene_result(&s);
    CHECK_MSG(view_same_bits(&causal, &window), "(Tk - 1, 0) is not causal");
}

int main(int argc, char **argv)
{
    static const test_case tests[] = {
        {"row_01_masked_rows_are_zero", row_01_masked_rows_are_zero, 1},
        {"row_02_empty_rows_agree_on_every_path", row_02_empty_rows_agree_on_every_path, 1},
        {"row_03_masked_garbage_stays_out_and_nan_shows",
         row_03_masked_garbage_stays_out_and_nan_shows, 1},
        {"row_04_minus_big_is_a_number_and_minus_inf_a_mask",
         row_04_minus_big_is_a_number_and_minus_inf_a_mask, 1},
        {"row_05_causal_by_stated_offset", row_05_causal_by_stated_offset, 1},
        {"row_05_decode_equals_the_last_row_of_prefill",
         row_05_decode_equals_the_last_row_of_prefill, 1},
        {"row_06_the_type_says_what_a_mask_means", row_06_the_type_says_what_a_mask_means, 1},
        {"row_07_every_broadcast_pattern", row_07_every_broadcast_pattern, 1},
        {"row_08_any_mask_type_with_any_query_type", row_08_any_mask_type_with_any_query_type, 1},
        {"row_09_masks_act_together", row_09_masks_act_together, 1},
        {"row_10_no_square_memory", row_10_no_square_memory, 1},
        {"row_11_weights_do_not_change_the_output", row_11_weights_do_not_change_the_output, 1},
        {"row_12_every_pair_of_options", row_12_every_pair_of_options, 1},
        {"row_13_weights_are_exp_of_logit_minus_lse", row_13_weights_are_exp_of_logit_minus_lse, 1},
        {"row_15_threads_change_nothing", row_15_threads_change_nothing, 1},
        {"row_16_batch_mates_change_nothing", row_16_batch_mates_change_nothing, 1},
        {"row_17_any_stride", row_17_any_stride, 1},
        {"row_18_no_rules_about_lengths", row_18_no_rules_about_lengths, 1},
        {"row_19_offsets_are_64_bit", row_19_offsets_are_64_bit, 1},
        {"row_20_shapes_are_checked", row_20_shapes_are_checked, 1},
        {"row_21_zero_lengths", row_21_zero_lengths, 1},
        {"row_22_windows_count_neighbours_without_self",
         row_22_windows_count_neighbours_without_self, 1},
    };

    int failed = test_main(argc, argv, tests, sizeof tests / sizeof *tests);

    arena_reset(&scene_mem);
    return failed;
}
