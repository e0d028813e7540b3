/* test_reviewed.c: mistakes that a reader found and no test had: calls without heads, caches and
 * contexts of different kernel sets, records that are empty but not zero, overlapping merges,
 * strides of axes of size 1, windows as long as positions go. */
#include "tests/expect.h"
#include "tests/support.h"

#include <math.h>
#include <string.h>

static void no_query_heads_is_nothing_to_do(void **state)
{
    float k[2 * 4 * 8] = {0};
    attn_forward_args a = ATTN_FORWARD_ARGS_INIT;

    a.q = a.out = attn_view_bhsd(NULL, ATTN_F32, 1, 0, 3, 8);
    a.k = a.v = attn_view_bhsd(k, ATTN_F32, 1, 2, 4, 8);
    CHECK(attn_forward(ctx_for(test_set(state), 2), &a, NULL) == ATTN_OK);
}

static void a_cache_keeps_to_its_kernel_set(void **state)
{
    attn_kernel_set sets[4];
    float x[8] = {1, 2, 3, 4, 5, 6, 7, 8}, out[8] = {0};
    attn_view row = attn_view_bhsd(x, ATTN_F32, 1, 1, 1, 8);
    attn_cache_options o = ATTN_CACHE_OPTIONS_INIT;
    attn_forward_args a = ATTN_FORWARD_ARGS_INIT;
    attn_error err = {ATTN_OK, 0, ""};
    attn_cache *cache;

    (void)state;
    if (sets_available(sets) < 2)
        skip();
    o.batch = o.heads = 1;
    o.dk = o.dv = o.capacity = 8;
    CHECK(attn_cache_create(ctx_for(sets[0], 1), &o, &cache, NULL) == ATTN_OK);
    CHECK(attn_cache_append(cache, 0, &row, &row, NULL) == ATTN_OK);
    a.q = row;
    a.out = attn_view_bhsd(out, ATTN_F32, 1, 1, 1, 8);
    CHECK(attn_decode(ctx_for(sets[1], 1), cache, &a, &err) == ATTN_E_ARGUMENT);
    CHECK(strstr(err.text, "cache") != NULL && out[0] == 0);
    CHECK(attn_decode(ctx_for(sets[0], 1), cache, &a, NULL) == ATTN_OK && out[0] == 1);
    attn_cache_destroy(cache);
}

static attn_partial record(float *out, float *max, float *sum)
{
    attn_partial r = {.out = attn_view_bhsd(out, ATTN_F32, 1, 1, 1, 2),
                      .max = attn_view_bhsd(max, ATTN_F32, 1, 1, 1, 1),
                      .sum = attn_view_bhsd(sum, ATTN_F32, 1, 1, 1, 1)};

    return r;
}

static void empty_records_may_hold_anything(void **state)
{
    const attn_ctx *ctx = ctx_for(test_set(state), 1);
    float junk[2] = {NAN, 5}, junk_max = NAN, zero = 0, v[2] = {3, 4}, max = 1, one = 1;
    float out[2] = {7, 7}, lse = 7, sink = 2, q[2] = {0}, k[2] = {0};
    attn_partial parts[2] = {record(junk, &junk_max, &zero), record(v, &max, &one)};
    attn_merge_args m = ATTN_MERGE_ARGS_INIT;
    attn_forward_args a = ATTN_FORWARD_ARGS_INIT;

    m.parts = parts;
    m.count = 1;
    m.out = attn_view_bhsd(out, ATTN_F32, 1, 1, 1, 2);
    m.lse = attn_view_bhsd(&lse, ATTN_F32, 1, 1, 1, 1);
    CHECK(attn_merge(ctx, &m, NULL) == ATTN_OK);
    CHECK(out[0] == 0 && out[1] == 0 && lse == -INFINITY);
    m.sink = attn_view_bhsd(&sink, ATTN_F32, 1, 1, 1, 1);
    CHECK(attn_merge(ctx, &m, NULL) == ATTN_OK);
    CHECK(out[0] == 0 && out[1] == 0 && lse == 2);
    memset(&m.sink, 0, sizeof m.sink);
    m.count = 2;
    CHECK(attn_merge(ctx, &m, NULL) == ATTN_OK);
    CHECK(out[0] == 3 && out[1] == 4 && lse == 1);

    a.q = attn_view_bhsd(q, ATTN_F32, 1, 1, 1, 2);
    a.k = attn_view_bhsd(k, ATTN_F32, 1, 1, 1, 2);
    a.v = attn_view_bhsd(v, ATTN_F32, 1, 1, 1, 2);
    a.out = m.out;
    a.start = &parts[0];
    CHECK(attn_forward(ctx, &a, NULL) == ATTN_OK && out[0] == 3 && out[1] == 4);
}

static void merges_refuse_overlap_and_no_columns(void **state)
{
    const attn_ctx *ctx = ctx_for(test_set(state), 1);
    float out[6] = {0}, max[2] = {0}, sum[2] = {1, 1};
    attn_partial part = {.out = attn_view_bhsd(out, ATTN_F32, 1, 1, 2, 2),
                         .max = attn_view_bhsd(max, ATTN_F32, 1, 1, 2, 1),
                         .sum = attn_view_bhsd(sum, ATTN_F32, 1, 1, 2, 1)};
    attn_merge_args m = ATTN_MERGE_ARGS_INIT;
    attn_error err = {ATTN_OK, 0, ""};

    m.parts = &part;
    m.count = 1;
    m.out = attn_view_bhsd(out + 2, ATTN_F32, 1, 1, 2, 2);
    CHECK(attn_merge(ctx, &m, &err) == ATTN_E_ARGUMENT && strstr(err.text, "overlaps") != NULL);
    memset(&m.out, 0, sizeof m.out);
    m.partial = &part;
    CHECK(attn_merge(ctx, &m, NULL) == ATTN_OK); /* in place over the first */
    m.partial = NULL;
    m.lse = attn_view_bhsd(out + 4, ATTN_F32, 1, 1, 2, 1);
    part.out.size[3] = 0;
    CHECK(attn_merge(ctx, &m, NULL) == ATTN_E_SHAPE);
}

static void strides_of_single_rows_do_not_matter(void **state)
{
    const attn_ctx *ctx = ctx_for(test_set(state), 1);
    float q[4] = {1}, k[4] = {1}, v[4] = {5, 6, 7, 8}, out[4] = {0};
    attn_forward_args a = ATTN_FORWARD_ARGS_INIT;
    attn_view *view[] = {&a.q, &a.k, &a.v, &a.out};
    float *data[] = {q, k, v, out};

    for (int i = 0; i < 4; i++) {
        *view[i] = attn_view_bhsd(data[i], ATTN_F32, 1, 1, 1, 4);
        view[i]->stride[0] = INT64_MAX;
        view[i]->stride[1] = -7;
        view[i]->stride[2] = INT64_MIN;
    }
    CHECK(attn_forward(ctx, &a, NULL) == ATTN_OK && memcmp(out, v, sizeof out) == 0);
}

static void windows_as_long_as_positions_go(void **state)
{
    const attn_ctx *ctx = ctx_for(test_set(state), 1);
    float x[2] = {1, 2}, out[2];
    attn_mask mask = ATTN_MASK_INIT;
    attn_forward_args a = ATTN_FORWARD_ARGS_INIT;

    a.q = a.k = a.v = attn_view_bhsd(x, ATTN_F32, 1, 1, 1, 2);
    a.out = attn_view_bhsd(out, ATTN_F32, 1, 1, 1, 2);
    a.mask = &mask;
    mask.window = 1;
    mask.window_left = -1;
    mask.q_offset = -(INT64_C(1) << 60);
    mask.k_offset = INT64_C(1) << 60;
    mask.window_right = (INT64_C(1) << 61) - 1;
    CHECK(attn_forward(ctx, &a, NULL) == ATTN_OK && out[0] == 0);
    mask.window_right = INT64_C(1) << 61;
    CHECK(attn_forward(ctx, &a, NULL) == ATTN_OK && out[0] == 1);
    mask.window_right = INT64_MAX;
    CHECK(attn_forward(ctx, &a, NULL) == ATTN_OK && out[0] == 1);
}

static void a_page_without_rows_is_free(void **state)
{
    float x[16 * 4] = {0};
    attn_view ten = attn_view_bhsd(x, ATTN_F32, 1, 1, 10, 4);
    attn_cache_options o = ATTN_CACHE_OPTIONS_INIT;
    attn_cache *cache;

    o.kind = ATTN_CACHE_PAGED;
    o.batch = 2;
    o.heads = 1;
    o.dk = o.dv = 4;
    o.capacity = 32;
    o.page = 16;
    o.pages = 1;
    CHECK(attn_cache_create(ctx_for(test_set(state), 1), &o, &cache, NULL) == ATTN_OK);
    CHECK(attn_cache_append(cache, 0, &ten, &ten, NULL) == ATTN_OK);
    CHECK(attn_cache_append(cache, 1, &ten, &ten, NULL) == ATTN_E_FULL);
    CHECK(attn_cache_drop(cache, 0, 10, NULL) == ATTN_OK);
    CHECK(attn_cache_append(cache, 1, &ten, &ten, NULL) == ATTN_OK);
    attn_cache_destroy(cache);
}

int main(int argc, char **argv)
{
    static const test_case tests[] = {
        {"no_query_heads_is_nothing_to_do", no_query_heads_is_nothing_to_do, 1},
        {"a_cache_keeps_to_its_kernel_set", a_cache_keeps_to_its_kernel_set, 0},
        {"empty_records_may_hold_anything", empty_records_may_hold_anything, 1},
        {"merges_refuse_overlap_and_no_columns", merges_refuse_overlap_and_no_columns, 1},
        {"strides_of_single_rows_do_not_matter", strides_of_single_rows_do_not_matter, 1},
        {"windows_as_long_as_positions_go", windows_as_long_as_positions_go, 1},
        {"a_page_without_rows_is_free", a_page_without_rows_is_free, 1},
    };

    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
