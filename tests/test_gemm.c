/* test_gemm.c: the matrix product: values against double within the bound of the header, bits
 * against every other way of asking for the same. */
#include "include/attn/attn.h"
#include "tests/gemm_call.h"

#include <math.h>
#include <string.h>

static arena mem;

/* --- Values ------------------------------------------------------------------------------------
 */

static double unit(attn_type type)
{
    switch (type) {
    case ATTN_F16:
        return 0x1p-11;
    case ATTN_BF16:
        return 0x1p-8;
    case ATTN_F64:
        return 0x1p-53;
    default:
        return 0x1p-24;
    }
}

/* Slope bound and relative error of an activation at x, in units of rounding. */
static long double activate(attn_activation act, long double x, double *slope, double *relative)
{
    const long double c = 0.797884560802865355879892119868763737L;
    long double z = c * (x + 0.044715L * x * x * x);

    *slope = act == ATTN_ACT_NONE || act == ATTN_ACT_RELU ? 1 : 1.2;
    *relative = 0;
    switch (act) {
    case ATTN_ACT_RELU:
        return x > 0 ? x : 0;
    case ATTN_ACT_GELU:
        *relative = 12 + (double)(x * x);
        return x / 2 * erfcl(-x * 0.707106781186547524400844362104849039L);
    case ATTN_ACT_GELU_TANH:
        *relative = 8 + 8 * (double)fabsl(z);
        return x / (1 + expl(-2 * z));
    case ATTN_ACT_SILU:
        *relative = 8 + 2 * (double)fabsl(x);
        return x / (1 + expl(-x));
    default:
        return x;
    }
}

/* Every element within (K + 2) u sum |a w|, and what the epilogue adds to that. */
static void check_values(const attn_ctx *ctx, const attn_gemm_args *g, const attn_view *w,
                         const attn_view *residual)
{
    int64_t k = w->size[3];
    int scalar = attn_ctx_kernels(ctx) == ATTN_SET_SCALAR;
    double u = g->out.type == ATTN_F64 ? 0x1p-53 : 0x1p-24, uo = unit(g->out.type);
    double tiny = g->out.type == ATTN_F64 ? 1e-300 : g->out.type == ATTN_F16 ? 0x1p-24 : 1e-37;

    for (int64_t i = 0; i < g->out.size[2]; i++)
        for (int64_t j = 0; j < g->out.size[3]; j++) {
            long double sum = 0, want;
            double size = 0, slope, relative, bound, got = view_get(&g->out, 0, 0, i, j);
            for (int64_t c = 0; c < k; c++) {
                long double p =
                    (long double)view_get(&g->a, 0, 0, i, c) * (long double)read_weight(w, j, c);
                sum += p;
                size += (double)fabsl(p);
            }
            bound = (double)(scalar ? 2 * k + 2 : k + 2) * u * size;
            if (g->scale.size[3] > 0) {
                long double s = (long double)view_get(&g->scale, 0, 0, 0, j);
                sum *= s;
                bound = (double)(fabsl(s) * (long double)bound + fabsl(sum) * (long double)u);
            }
            if (g->bias.size[3] > 0) {
                sum += (long double)view_get(&g->bias, 0, 0, 0, j);
                bound += (double)fabsl(sum) * u;
            }
            want = activate(g->activation, sum, &slope, &relative);
            bound = bound * slope + (relative + 1) * u * (double)fabsl(want);
            if (residual) {
                want += (long double)view_get(residual, 0, 0, i, j);
                bound += u * ((double)fabsl(want) + bound);
            }
            bound = bound * 1.01 + uo * ((double)fabsl(want) + bound) + tiny;
            CHECK_MSG(fabs((double)((long double)got - want)) <= bound,
                      "[%lld, %lld] of %lld x %lld x %lld: %.17g, expected %.17Lg +- %g",
                      (long long)i, (long long)j, (long long)g->out.size[2],
                      (long long)g->out.size[3], (long long)k, got, want, bound);
        }
}

static const int64_t sizes[][3] = {/* m, n, k */
                                   {1, 1, 1},    {1, 64, 16},   {1, 70, 33},  {3, 17, 40},
                                   {6, 128, 64}, {7, 65, 31},   {13, 100, 7}, {12, 16, 48},
                                   {50, 130, 9}, {100, 33, 70}, {5, 3, 0},    {2, 66, 300}};

/* Types of a, w, out that may meet; all layouts; an epilogue drawn for each. */
static void values(void **state)
{
    static const attn_type types[][3] = {
        {ATTN_F32, ATTN_F32, ATTN_F32},  {ATTN_F32, ATTN_F16, ATTN_F32},
        {ATTN_F32, ATTN_BF16, ATTN_F32}, {ATTN_BF16, ATTN_BF16, ATTN_BF16},
        {ATTN_F16, ATTN_F16, ATTN_F16},  {ATTN_F32, ATTN_I8, ATTN_F32},
        {ATTN_F16, ATTN_I8, ATTN_BF16},  {ATTN_BF16, ATTN_F32, ATTN_F32},
        {ATTN_F64, ATTN_F64, ATTN_F64}};
    const attn_ctx *ctx = ctx_for(test_set(state), 1);
    rng r = rng_make(test_seed(), 1);

    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
            for (int kind = 0; kind < LAYOUT_COUNT; kind++) {
                int64_t m = sizes[s][0], n = sizes[s][1], k = sizes[s][2];
                attn_type vector = types[t][2] == ATTN_F64 ? ATTN_F64
                                   : rng_chance(&r, 50)    ? ATTN_F32
                                                           : ATTN_BF16;
                layout other = (layout)rng_int(&r, 0, LAYOUT_COUNT - 1);
                attn_view a = matrix_new(&mem, &r, types[t][0], m, k, (layout)kind);
                attn_view w = weights_new(&mem, &r, types[t][1], n, k, other);
                attn_view out = matrix_new(&mem, &r, types[t][2], m, n, (layout)kind), old;
                attn_gemm_args g = args_of(&a, &w, &out);
                const attn_view *residual = NULL;

                if (w.type == ATTN_I8 || rng_chance(&r, 20)) {
                    g.scale = matrix_new(&mem, &r, vector, 1, n, other);
                    view_uniform(&g.scale, &r, 0.001, 0.02);
                }
                if (rng_chance(&r, 60))
                    g.bias = matrix_new(&mem, &r, vector, 1, n, (layout)kind);
                g.activation = (attn_activation)rng_int(&r, ATTN_ACT_NONE, ATTN_ACT_SILU);
                if (rng_chance(&r, 30)) { /* in place */
                    old = view_copy(&mem, &r, &out, out.type, LAYOUT_BHSD);
                    g.residual = out;
                    residual = &old;
                } else if (rng_chance(&r, 40)) {
                    g.residual = matrix_new(&mem, &r, vector, m, n, other);
                    residual = &g.residual;
                }
                run(ctx, &g);
                check_values(ctx, &g, &w, residual);
                CHECK(arena_poison_intact(&mem));
                arena_reset(&mem);
            }
}

/* Long sums go through blocks of k; large products through more than one item; copies of a very
 * long `a` are made piece by piece. A row alone takes another way to the same bits. */
static void blocks_of_k(void **state)
{
    static const int64_t big[][3] = {
        {7, 70, 1500}, {20, 48, 2100}, {3, 40, 3000}, {70, 200, 1030}, {50, 3, 50000}};
    static const attn_type types[] = {ATTN_F32, ATTN_BF16, ATTN_F64};
    const attn_ctx *ctx = ctx_for(test_set(state), 2);
    rng r = rng_make(test_seed(), 2);

    for (size_t s = 0; s < sizeof big / sizeof *big; s++)
        for (int t = 0; t < 3; t++) {
            int64_t m = big[s][0], n = big[s][1], k = big[s][2];
            attn_view a =
                matrix_new(&mem, &r, types[t], m, k, s % 2 ? LAYOUT_PADDED : LAYOUT_COLUMNS);
            attn_view w = weights_new(&mem, &r, types[t], n, k, LAYOUT_BHSD);
            attn_view out = matrix_new(&mem, &r, types[t], m, n, LAYOUT_BHSD);
            attn_view row = view_plain(&mem, types[t], 1, 1, 1, n),
                      last = view_part(&out, 2, m - 1, 1);
            attn_gemm_args g = args_of(&a, &w, &out);

            run(ctx, &g);
            check_values(ctx, &g, &w, NULL);
            g.a = view_part(&a, 2, m - 1, 1);
            g.out = row;
            run(ctx, &g);
            CHECK_MSG(view_same_bits(&row, &last), "%lld x %lld x %lld: other bits", (long long)m,
                      (long long)n, (long long)k);
            arena_reset(&mem);
        }
}

/* Activations alone, over their whole range: A = x, W = 1, K = 1. */
static void activations(void **state)
{
    enum { COUNT = 4001 };
    const attn_ctx *ctx = ctx_for(test_set(state), 1);

    for (int f64 = 0; f64 < 2; f64++)
        for (int act = ATTN_ACT_NONE; act <= ATTN_ACT_SILU; act++) {
            attn_type type = f64 ? ATTN_F64 : ATTN_F32;
            double u = unit(type), smallest = f64 ? 0x1p-1022 : 0x1p-126;
            attn_view a = view_plain(&mem, type, 1, 1, COUNT, 1);
            attn_view w = view_plain(&mem, type, 1, 1, 1, 1);
            attn_view out = view_plain(&mem, type, 1, 1, COUNT, 1);
            attn_gemm_args g = args_of(&a, &w, &out);

            view_fill(&w, 1);
            for (int i = 0; i < COUNT; i++) { /* dense near 0, out to where nothing is left */
                double x = (i - COUNT / 2) / (double)(COUNT / 2);
                view_set(&a, 0, 0, i, 0, (f64 ? 800 : 110) * x * x * x);
            }
            g.activation = (attn_activation)act;
            run(ctx, &g);
            for (int i = 0; i < COUNT; i++) {
                double slope, relative, got = view_get(&out, 0, 0, i, 0);
                long double x = (long double)view_get(&a, 0, 0, i, 0);
                long double want = activate(g.activation, x, &slope, &relative);
                double bound =
                    relative * u * (double)fabsl(want) + smallest * (1 + (double)fabsl(x));
                CHECK_MSG(fabs((double)((long double)got - want)) <= bound,
                          "activation %d at %.17Lg: %.17g, expected %.17Lg +- %g", act, x, got,
                          want, bound);
            }
            arena_reset(&mem);
        }
}

/* NaN and infinities arrive, and stay in their row or column. */
static void nan_and_infinity(void **state)
{
    const attn_ctx *ctx = ctx_for(test_set(state), 1);
    rng r = rng_make(test_seed(), 3);

    for (int act = ATTN_ACT_NONE; act <= ATTN_ACT_SILU; act++) {
        attn_view a = matrix_new(&mem, &r, ATTN_F32, 9, 20, LAYOUT_BHSD);
        attn_view w = weights_new(&mem, &r, ATTN_F32, 40, 20, LAYOUT_BHSD);
        attn_view out = matrix_new(&mem, &r, ATTN_F32, 9, 40, LAYOUT_BHSD);
        attn_gemm_args g = args_of(&a, &w, &out);

        g.activation = (attn_activation)act;
        view_set(&a, 0, 0, 4, 3, (double)NAN);
        view_set(&w, 0, 0, 33, 19, (double)NAN);
        view_set(&a, 0, 0, 7, 5, (double)INFINITY);
        for (int64_t j = 0; j < 40; j++)
            view_set(&w, 0, 0, j, 5, 1);
        run(ctx, &g);
        for (int64_t i = 0; i < 9; i++)
            for (int64_t j = 0; j < 40; j++) {
                double x = view_get(&out, 0, 0, i, j);
                if (i == 4 || j == 33)
                    CHECK_MSG(isnan(x), "[%d, %d]: %g, expected NaN", (int)i, (int)j, x);
                else if (i == 7)
                    CHECK_MSG(x > 0 && isinf(x), "[%d, %d]: %g, expected inf", (int)i, (int)j, x);
                else
                    CHECK_MSG(isfinite(x), "[%d, %d]: %g", (int)i, (int)j, x);
            }
        arena_reset(&mem);
    }
}

/* --- Bits --------------------------------------------------------------------------------------
 */

typedef struct layer {
    attn_view a, w, scale, bias, residual, want;
    attn_activation activation;
} layer;

static attn_gemm_args layer_args(const layer *l, const attn_view *out)
{
    attn_gemm_args g = args_of(&l->a, &l->w, out);

    g.scale = l->scale;
    g.bias = l->bias;
    g.residual = l->residual;
    g.activation = l->activation;
    return g;
}

static void expect_bits(const attn_view *got, const attn_view *want, const char *what)
{
    CHECK_MSG(view_same_bits(got, want), "other bits: %s", what);
}

/* The yardstick: every row alone, one thread, contiguous. */
static layer layer_make(const attn_ctx *one, rng *r, const attn_type types[3], int64_t m, int64_t n,
                        int64_t k)
{
    layer l = {.activation = ATTN_ACT_GELU};
    attn_type vector = types[2] == ATTN_F64 ? ATTN_F64 : ATTN_F32;

    l.a = matrix_new(&mem, r, types[0], m, k, LAYOUT_BHSD);
    l.w = weights_new(&mem, r, types[1], n, k, LAYOUT_BHSD);
    l.bias = matrix_new(&mem, r, vector, 1, n, LAYOUT_BHSD);
    l.scale = matrix_new(&mem, r, vector, 1, n, LAYOUT_BHSD);
    l.residual = matrix_new(&mem, r, types[2], m, n, LAYOUT_BHSD);
    l.want = view_plain(&mem, types[2], 1, 1, m, n);
    for (int64_t i = 0; i < m; i++) {
        attn_view out = view_part(&l.want, 2, i, 1);
        attn_gemm_args g = layer_args(&l, &out);
        g.a = view_part(&l.a, 2, i, 1);
        g.residual = view_part(&l.residual, 2, i, 1);
        run(one, &g);
    }
    return l;
}

static void check_layouts(const attn_ctx *ctx, rng *r, const layer *l)
{
    for (int kind = 0; kind < LAYOUT_COUNT; kind++) {
        layer other = *l;
        attn_view out =
            view_new(&mem, r, l->want.type, 1, 1, l->want.size[2], l->want.size[3], (layout)kind);
        attn_gemm_args g;

        other.a = view_copy(&mem, r, &l->a, l->a.type, (layout)(LAYOUT_COUNT - 1 - kind));
        if (l->w.type != ATTN_I8)
            other.w = view_copy(&mem, r, &l->w, l->w.type, (layout)kind);
        g = layer_args(&other, &out);
        run(ctx, &g);
        expect_bits(&out, &l->want, layout_name((layout)kind));
    }
}

static void check_packed(const attn_ctx *ctx, const layer *l)
{
    attn_packed *packed = pack(ctx, &l->w);

    for (int64_t m = 1, most = l->a.size[2]; m <= most; m += m < 13 ? 1 : (most - 13) / 3 + 1) {
        attn_view out = view_plain(&mem, l->want.type, 1, 1, m, l->want.size[3]);
        attn_view want = view_part(&l->want, 2, 0, m), none = {0};
        attn_gemm_args g = layer_args(l, &out);
        g.a = view_part(&l->a, 2, 0, m);
        g.residual = view_part(&l->residual, 2, 0, m);
        run(ctx, &g);
        expect_bits(&out, &want, "fewer rows");
        view_fill(&out, 3);
        g.w = none;
        g.packed = packed;
        run(ctx, &g);
        expect_bits(&out, &want, "packed");
    }
    attn_packed_destroy(packed);
}

/* Rows alone, together, packed or not, in every layout, on any number of threads. */
static void threads_keep_bits(void **state)
{
    static const int threads[] = {1, 2, 3, 7, 16};
    static const attn_type types[][3] = {{ATTN_F32, ATTN_F32, ATTN_F32},
                                         {ATTN_BF16, ATTN_BF16, ATTN_BF16},
                                         {ATTN_F32, ATTN_I8, ATTN_F16},
                                         {ATTN_F16, ATTN_F16, ATTN_F32},
                                         {ATTN_F64, ATTN_F64, ATTN_F64}};
    static const int64_t shapes[][3] = {{40, 200, 90}, {220, 130, 1100}};
    rng r = rng_make(test_seed(), 4);

    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (size_t s = 0; s < 2; s++) {
            layer l = layer_make(ctx_for(test_set(state), 1), &r, types[t], shapes[s][0],
                                 shapes[s][1], shapes[s][2]);
            for (size_t i = 0; i < sizeof threads / sizeof *threads; i++) {
                const attn_ctx *ctx = ctx_for(test_set(state), threads[i]);
                if (s == 0 || threads[i] == 3)
                    check_layouts(ctx, &r, &l);
                check_packed(ctx, &l);
            }
            arena_reset(&mem);
        }
}

/* A batch with its own or shared weights is the matrices one by one. */
static void batches(void **state)
{
    const attn_ctx *ctx = ctx_for(test_set(state), 3);
    rng r = rng_make(test_seed(), 5);

    for (int kind = 0; kind < LAYOUT_COUNT; kind++)
        for (int own = 0; own < 4; own++) {
            int64_t b = own & 1 ? 2 : 1, h = own & 2 ? 3 : 1;
            attn_view a = view_new(&mem, &r, ATTN_F32, 2, 3, 8, 30, (layout)kind);
            attn_view w = view_new(&mem, &r, ATTN_F32, b, h, 50, 30, (layout)kind);
            attn_view out = view_new(&mem, &r, ATTN_F32, 2, 3, 8, 50, (layout)kind);
            attn_view one = view_plain(&mem, ATTN_F32, 1, 1, 8, 50);
            attn_gemm_args g = args_of(&a, &w, &out);

            view_uniform(&a, &r, -1, 1);
            view_uniform(&w, &r, -1, 1);
            run(ctx, &g);
            for (int64_t i = 0; i < 6; i++) {
                attn_view part = view_part(&a, 0, i / 3, 1), got = view_part(&out, 0, i / 3, 1);
                attn_view weights = b > 1 ? view_part(&w, 0, i / 3, 1) : w;
                attn_gemm_args each;
                part = view_part(&part, 1, i % 3, 1);
                got = view_part(&got, 1, i % 3, 1);
                weights = h > 1 ? view_part(&weights, 1, i % 3, 1) : weights;
                each = args_of(&part, &weights, &one);
                run(ctx, &each);
                expect_bits(&got, &one, layout_name((layout)kind));
            }
            arena_reset(&mem);
        }
}

/* The backward pass of a linear layer, from transposed views, against copies that lie plainly. */
static void backward_forms(void **state)
{
    const attn_ctx *ctx = ctx_for(test_set(state), 2);
    rng r = rng_make(test_seed(), 6);
    const int64_t m = 90, n = 70, k = 110;
    attn_view x = matrix_new(&mem, &r, ATTN_F32, m, k, LAYOUT_BHSD);
    attn_view w = weights_new(&mem, &r, ATTN_F32, n, k, LAYOUT_BHSD);
    attn_view dy = matrix_new(&mem, &r, ATTN_F32, m, n, LAYOUT_BHSD);
    attn_view dx = view_plain(&mem, ATTN_F32, 1, 1, m, k),
              dw = view_plain(&mem, ATTN_F32, 1, 1, n, k);
    attn_view wt = attn_view_transposed(w), dyt = attn_view_transposed(dy);
    attn_view xt = attn_view_transposed(x);
    attn_gemm_args gx = args_of(&dy, &wt, &dx), gw = args_of(&dyt, &xt, &dw);

    run(ctx, &gx);
    check_values(ctx, &gx, &wt, NULL);
    run(ctx, &gw);
    check_values(ctx, &gw, &xt, NULL);
    arena_reset(&mem);
}

int main(int argc, char **argv)
{
    static const test_case tests[] = {
        {"values", values, 1},
        {"blocks_of_k", blocks_of_k, 1},
        {"activations", activations, 1},
        {"nan_and_infinity", nan_and_infinity, 1},
        {"threads_keep_bits", threads_keep_bits, 1},
        {"batches", batches, 1},
        {"backward_forms", backward_forms, 1},
    };

    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
