/* test_gemm_edges.c: the matrix product at the edges of memory and shapes, told wrong things, and
 * out of memory. */
#include "include/attn/attn.h"
#include "tests/gemm_call.h"
#include "tests/heap.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static arena mem;

static const int64_t sizes[][3] = {/* m, n, k */
                                   {1, 1, 1},    {1, 64, 16},   {1, 70, 33},  {3, 17, 40},
                                   {6, 128, 64}, {7, 65, 31},   {13, 100, 7}, {12, 16, 48},
                                   {50, 130, 9}, {100, 33, 70}, {5, 3, 0},    {2, 66, 300}};

/* --- Edges -------------------------------------------------------------------------------------
 */

/* Inputs end where a page ends, or begin where one begins. */
static void stays_inside(void **state)
{
    const attn_ctx *ctx = ctx_for(test_set(state), 1);
    rng r = rng_make(test_seed(), 7);
    static const attn_type types[] = {ATTN_F32, ATTN_F16, ATTN_BF16, ATTN_F64};

    for (size_t t = 0; t < 4; t++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
            for (int end = 0; end < 2; end++)
                for (int turned = 0; turned < 2; turned++) {
                    int64_t m = sizes[s][0], n = sizes[s][1], k = sizes[s][2];
                    attn_view a = turned ? view_guarded(&mem, types[t], 1, 1, k, m, end)
                                         : view_guarded(&mem, types[t], 1, 1, m, k, end);
                    attn_view w = turned ? view_guarded(&mem, types[t], 1, 1, k, n, end)
                                         : view_guarded(&mem, types[t], 1, 1, n, k, end);
                    attn_view out = view_guarded(&mem, types[t], 1, 1, m, n, end);
                    attn_gemm_args g;
                    attn_packed *packed;

                    view_uniform(&a, &r, -1, 1);
                    view_uniform(&w, &r, -1, 1);
                    if (turned) {
                        a = attn_view_transposed(a);
                        w = attn_view_transposed(w);
                    }
                    g = args_of(&a, &w, &out);
                    g.bias = view_guarded(&mem, types[t], 1, 1, 1, n, end);
                    view_uniform(&g.bias, &r, -1, 1);
                    g.residual = out;
                    view_fill(&out, 0.5);
                    run(ctx, &g);
                    packed = pack(ctx, &w);
                    memset(&g.w, 0, sizeof g.w);
                    g.packed = packed;
                    run(ctx, &g);
                    attn_packed_destroy(packed);
                    arena_reset(&mem);
                }
}

static void nothing_to_do(void **state)
{
    const attn_ctx *ctx = ctx_for(test_set(state), 2);
    attn_view none = {.type = ATTN_F32, .size = {1, 1, 0, 5}};
    attn_view w = view_plain(&mem, ATTN_F32, 1, 1, 3, 5), out = none;
    attn_view a = none, bias = view_plain(&mem, ATTN_F32, 1, 1, 1, 3);
    attn_gemm_args g;

    view_fill(&w, 1);
    view_fill(&bias, -2.5);
    out.size[3] = 3;
    g = args_of(&a, &w, &out);
    run(ctx, &g);
    /* K = 0 with no data at all: the epilogue of 0 */
    a = (attn_view){.type = ATTN_F32, .size = {1, 1, 9, 0}, .stride = {7, 5, 3, 1}};
    w = (attn_view){.type = ATTN_F32, .size = {1, 1, 3, 0}, .stride = {7, 5, 3, 1}};
    out = view_plain(&mem, ATTN_F32, 1, 1, 9, 3);
    g = args_of(&a, &w, &out);
    g.bias = bias;
    g.activation = ATTN_ACT_RELU;
    view_fill(&out, 7);
    run(ctx, &g);
    for (int64_t i = 0; i < 27; i++)
        assert_true(view_get(&out, 0, 0, i / 3, i % 3) == 0);
    g.activation = ATTN_ACT_NONE;
    run(ctx, &g);
    for (int64_t i = 0; i < 27; i++)
        assert_true(view_get(&out, 0, 0, i / 3, i % 3) == -2.5);
    arena_reset(&mem);
}

/* Strides of sizes of 1 are not looked at. */
static void wild_strides(void **state)
{
    const attn_ctx *ctx = ctx_for(test_set(state), 1);
    rng r = rng_make(test_seed(), 8);
    attn_view a = matrix_new(&mem, &r, ATTN_F32, 1, 40, LAYOUT_BHSD);
    attn_view w = weights_new(&mem, &r, ATTN_F32, 1, 40, LAYOUT_BHSD);
    attn_view out = view_plain(&mem, ATTN_F32, 1, 1, 1, 1);
    attn_gemm_args g = args_of(&a, &w, &out);
    double want;

    run(ctx, &g);
    want = view_get(&out, 0, 0, 0, 0);
    view_fill(&out, 3);
    for (int i = 0; i < 3; i++)
        g.a.stride[i] = g.w.stride[i] = g.out.stride[i] = INT64_MAX - i;
    g.out.stride[3] = INT64_MIN;
    run(ctx, &g);
    assert_true(view_get(&out, 0, 0, 0, 0) == want);
    arena_reset(&mem);
}

/* --- Errors ------------------------------------------------------------------------------------
 */

typedef struct mistake {
    const char *text; /* what the message must begin with */
    attn_status status;
    void (*make)(attn_gemm_args *g);
} mistake;

static void wrong_a_type(attn_gemm_args *g)
{
    g->a.type = ATTN_I32;
}
static void negative_a(attn_gemm_args *g)
{
    g->a.size[2] = -1;
}
static void null_a(attn_gemm_args *g)
{
    g->a.data = NULL;
}
static void mixed_f64(attn_gemm_args *g)
{
    g->w.type = ATTN_F64;
}
static void wrong_w_type(attn_gemm_args *g)
{
    g->w.type = ATTN_U8;
}
static void wrong_k(attn_gemm_args *g)
{
    g->w.size[3] = 7;
}
static void wrong_w_batch(attn_gemm_args *g)
{
    g->w.size[0] = 2;
}
static void no_weights(attn_gemm_args *g)
{
    memset(&g->w, 0, sizeof g->w);
}
static void wrong_scale(attn_gemm_args *g)
{
    g->scale = attn_view_transposed(g->bias);
}
static void wrong_bias(attn_gemm_args *g)
{
    g->bias.size[3] = 5;
}
static void wrong_bias_type(attn_gemm_args *g)
{
    g->bias.type = ATTN_I8;
}
static void wrong_residual(attn_gemm_args *g)
{
    g->residual = g->a;
}
static void wrong_activation(attn_gemm_args *g)
{
    g->activation = (attn_activation)99;
}
static void wrong_out(attn_gemm_args *g)
{
    g->out.size[2] = 3;
}
static void folded_out(attn_gemm_args *g)
{
    g->out.stride[2] = 0;
}
static void out_on_a(attn_gemm_args *g)
{
    g->out.data = g->a.data;
}
static void out_on_w(attn_gemm_args *g)
{
    g->out.data = g->w.data;
}
static void shifted_residual(attn_gemm_args *g)
{
    g->residual = g->out;
    g->residual.data = (float *)g->out.data + 1;
}
static void crooked_workspace(attn_gemm_args *g)
{
    g->workspace = (char *)g->a.data + 4;
    g->workspace_size = SIZE_MAX;
}
static void small_workspace(attn_gemm_args *g)
{
    g->workspace = g->a.data;
    g->workspace_size = 1;
}
static void no_size(attn_gemm_args *g)
{
    g->struct_size = 0;
}

static void errors(void **state)
{
    static const mistake mistakes[] = {
        {"a: type i32", ATTN_E_ARGUMENT, wrong_a_type},
        {"a: rows = -1", ATTN_E_SHAPE, negative_a},
        {"a: data is NULL", ATTN_E_ARGUMENT, null_a},
        {"w: type f64 with a of type f32", ATTN_E_ARGUMENT, mixed_f64},
        {"w: type u8", ATTN_E_ARGUMENT, wrong_w_type},
        {"w: shape", ATTN_E_SHAPE, wrong_k},
        {"w: shape", ATTN_E_SHAPE, wrong_w_batch},
        {"w: shape", ATTN_E_SHAPE, no_weights},
        {"scale: shape", ATTN_E_SHAPE, wrong_scale},
        {"bias: shape", ATTN_E_SHAPE, wrong_bias},
        {"bias: type i8", ATTN_E_ARGUMENT, wrong_bias_type},
        {"residual: shape", ATTN_E_SHAPE, wrong_residual},
        {"activation: 99", ATTN_E_ARGUMENT, wrong_activation},
        {"out: shape", ATTN_E_SHAPE, wrong_out},
        {"out: elements overlap", ATTN_E_ARGUMENT, folded_out},
        {"out: overlaps a", ATTN_E_ARGUMENT, out_on_a},
        {"out: overlaps w", ATTN_E_ARGUMENT, out_on_w},
        {"out: overlaps residual", ATTN_E_ARGUMENT, shifted_residual},
        {"workspace: not aligned", ATTN_E_ARGUMENT, crooked_workspace},
        {"workspace_size: 1", ATTN_E_ARGUMENT, small_workspace},
        {"args.struct_size: 0", ATTN_E_ARGUMENT, no_size},
    };
    const attn_ctx *ctx = ctx_for(ATTN_SET_AUTO, 1);
    rng r = rng_make(test_seed(), 9);
    attn_view a = view_plain(&mem, ATTN_F32, 1, 1, 9, 20);
    attn_view w = view_plain(&mem, ATTN_F32, 1, 1, 40, 20); /* aligned to 64 */
    attn_view out = matrix_new(&mem, &r, ATTN_F32, 9, 40, LAYOUT_BHSD);
    uint64_t before = view_hash(&out);

    (void)state;
    view_uniform(&a, &r, -1, 1);
    view_uniform(&w, &r, -1, 1);
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        attn_error err = {ATTN_OK, 0, ""};
        attn_plan plan = ATTN_PLAN_INIT;
        attn_gemm_args g = args_of(&a, &w, &out);
        attn_status st;

        g.bias = view_plain(&mem, ATTN_F32, 1, 1, 1, 40);
        mistakes[i].make(&g);
        st = attn_gemm(ctx, &g, &err);
        CHECK_MSG(st == mistakes[i].status && err.status == st &&
                      strncmp(err.text, mistakes[i].text, strlen(mistakes[i].text)) == 0,
                  "%s: status %d, %s", mistakes[i].text, (int)st, err.text);
        if (strncmp(mistakes[i].text, "workspace", 9) != 0)
            CHECK_MSG(attn_gemm_plan(ctx, &g, &plan, &err) == st, "plan: %s", mistakes[i].text);
        CHECK(view_hash(&out) == before);
    }
    assert_int_equal(attn_gemm(NULL, NULL, NULL), ATTN_E_ARGUMENT);
    assert_int_equal(attn_gemm(ctx, NULL, NULL), ATTN_E_ARGUMENT);
    arena_reset(&mem);
}

static void errors_of_packed(void **state)
{
    const attn_ctx *ctx = ctx_for(ATTN_SET_AUTO, 1), *other = ctx_for(ATTN_SET_SCALAR, 1);
    rng r = rng_make(test_seed(), 10);
    attn_view a = matrix_new(&mem, &r, ATTN_F32, 9, 20, LAYOUT_BHSD), none = {0}, bad;
    attn_view w = weights_new(&mem, &r, ATTN_F32, 40, 20, LAYOUT_BHSD);
    attn_view out = matrix_new(&mem, &r, ATTN_F32, 9, 40, LAYOUT_BHSD);
    attn_gemm_args g = args_of(&a, &w, &out);
    attn_packed *packed = pack(ctx, &w), *nothing = packed;
    attn_error err;

    (void)state;
    g.packed = packed;
    assert_int_equal(attn_gemm(ctx, &g, &err), ATTN_E_ARGUMENT);
    assert_string_equal(err.text, "w: given along with packed");
    g.w = none;
    if (attn_ctx_kernels(ctx) != ATTN_SET_SCALAR) {
        assert_int_equal(attn_gemm(other, &g, &err), ATTN_E_ARGUMENT);
        CHECK_MSG(strncmp(err.text, "packed: made for ", 17) == 0, "%s", err.text);
    }
    g.a = view_part(&a, 3, 0, 19);
    assert_int_equal(attn_gemm(ctx, &g, &err), ATTN_E_SHAPE);
    CHECK_MSG(strncmp(err.text, "packed: k = 20", 14) == 0, "%s", err.text);
    bad = w;
    bad.size[1] = 2;
    assert_int_equal(attn_gemm_pack(ctx, &bad, &nothing, &err), ATTN_E_SHAPE);
    assert_null(nothing);
    bad = w;
    bad.type = ATTN_I32;
    assert_int_equal(attn_gemm_pack(ctx, &bad, &nothing, &err), ATTN_E_ARGUMENT);
    bad = (attn_view){
        .data = arena_get(&mem, 64), .type = ATTN_F64, .size = {1, 1, INT64_C(1) << 48, 1 << 20}};
    assert_int_equal(attn_gemm_pack(ctx, &bad, &nothing, &err), ATTN_E_MEMORY);
    assert_int_equal(attn_gemm_pack(NULL, &w, &nothing, &err), ATTN_E_ARGUMENT);
    assert_int_equal(attn_gemm_pack(ctx, NULL, &nothing, &err), ATTN_E_ARGUMENT);
    assert_int_equal(attn_gemm_pack(ctx, &w, NULL, &err), ATTN_E_ARGUMENT);
    attn_packed_destroy(packed);
    attn_packed_destroy(NULL);
    arena_reset(&mem);
}

/* --- Memory and progress -------------------------------------------------------------------- */

static int stop_at(void *user, uint64_t done, uint64_t total)
{
    atomic_long *left = user;

    (void)total;
    return done > 0 && atomic_fetch_sub(left, 1) <= 1;
}

static void allocations_fail(void **state)
{
    heap h = {0};
    attn_ctx *ctx = heap_ctx(&h, ATTN_SET_AUTO, 1);
    rng r = rng_make(test_seed(), 11);
    attn_view a = matrix_new(&mem, &r, ATTN_F32, 30, 20, LAYOUT_BHSD);
    attn_view w = weights_new(&mem, &r, ATTN_F32, 40, 20, LAYOUT_BHSD), none = {0};
    attn_view out = view_plain(&mem, ATTN_F32, 1, 1, 30, 40);
    attn_view want = view_plain(&mem, ATTN_F32, 1, 1, 30, 40);
    attn_gemm_args g = args_of(&a, &w, &want);
    attn_plan plan = ATTN_PLAN_INIT;
    attn_packed *packed;
    attn_error err;
    long base;

    (void)state;
    base = atomic_load(&h.live);
    run(ctx, &g);
    g.out = out;
    for (long n = 1; n <= 2; n++) { /* the object, its tiles */
        h.fail_at = atomic_load(&h.calls) + n;
        assert_int_equal(attn_gemm_pack(ctx, &w, &packed, &err), ATTN_E_MEMORY);
        assert_null(packed);
        assert_true(atomic_load(&h.live) == base);
    }
    h.fail_at = 0;
    packed = pack(ctx, &w);
    h.fail_at = atomic_load(&h.calls) + 1;
    assert_int_equal(attn_gemm(ctx, &g, &err), ATTN_E_MEMORY);
    CHECK_MSG(strncmp(err.text, "workspace: no memory", 20) == 0, "%s", err.text);
    /* with a workspace nothing is allocated */
    assert_int_equal(attn_gemm_plan(ctx, &g, &plan, NULL), ATTN_OK);
    assert_string_equal(plan.path, "packing");
    g.workspace = arena_get(&mem, plan.workspace_size);
    g.workspace_size = plan.workspace_size;
    h.fail_at = atomic_load(&h.calls) + 1;
    run(ctx, &g);
    CHECK(view_same_bits(&out, &want));
    g.w = none;
    g.packed = packed;
    assert_int_equal(attn_gemm_plan(ctx, &g, &plan, NULL), ATTN_OK);
    assert_string_equal(plan.path, "packed");
    assert_true(plan.workspace_size <= g.workspace_size);
    run(ctx, &g);
    CHECK(view_same_bits(&out, &want));
    attn_packed_destroy(packed);
    assert_true(atomic_load(&h.live) == base);
    attn_ctx_destroy(ctx);
    assert_true(atomic_load(&h.live) == 0);
    arena_reset(&mem);
}

static void progress_cancels(void **state)
{
    attn_ctx_options o = ATTN_CTX_OPTIONS_INIT;
    atomic_long left = 2;
    attn_ctx *ctx;
    attn_error err;
    attn_view a = view_plain(&mem, ATTN_F32, 1, 1, 10000, 30);
    attn_view w = view_plain(&mem, ATTN_F32, 1, 1, 20, 30);
    attn_view out = view_plain(&mem, ATTN_F32, 1, 1, 10000, 20);
    attn_gemm_args g = args_of(&a, &w, &out);

    (void)state; /* so many rows are several items on any machine */
    view_fill(&a, 1);
    view_fill(&w, 1);
    o.threads = 1;
    o.progress = stop_at;
    o.progress_user = &left;
    assert_int_equal(attn_ctx_create(&o, &ctx, NULL), ATTN_OK);
    assert_int_equal(attn_gemm(ctx, &g, &err), ATTN_E_CANCELLED);
    atomic_store(&left, 1000000);
    assert_int_equal(attn_gemm(ctx, &g, &err), ATTN_OK);
    assert_true(view_get(&out, 0, 0, 9999, 19) == 30);
    attn_ctx_destroy(ctx);
    arena_reset(&mem);
}

int main(int argc, char **argv)
{
    static const test_case tests[] = {
        {"stays_inside", stays_inside, 1},         {"nothing_to_do", nothing_to_do, 1},
        {"wild_strides", wild_strides, 1},         {"errors", errors, 0},
        {"errors_of_packed", errors_of_packed, 0}, {"allocations_fail", allocations_fail, 0},
        {"progress_cancels", progress_cancels, 0},
    };

    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
