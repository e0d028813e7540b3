/* test_nn_layers.c: norms, activations and linear layers called one by one: their gradients against
 * differences in f64, their bits for any threads and strides, and what they refuse. */
#include "include/attn/nn.h"
#include "tests/nn_layer.h"

#include <math.h>
#include <string.h>

/* --- Norms ---------------------------------------------------------------------------------- */

static double norm_loss(void *call)
{
    attn_norm_args *a = call;

    CHECK(attn_norm_forward(layer_ctx(), a, NULL) == ATTN_OK);
    return view_dot(&a->dout, &a->out);
}

static attn_norm_args norm_draw(rng *r, attn_type type, attn_norm kind, int64_t rows, int64_t n)
{
    attn_norm_args a = ATTN_NORM_ARGS_INIT;

    a.kind = kind;
    a.eps = 1e-5;
    a.plus_one = rng_chance(r, 50);
    a.x = bells(r, type, rows, n);
    if (rng_chance(r, 70)) {
        a.weight = bells(r, type, 1, n);
        a.dweight = bells(r, type, 1, n);
        view_fill(&a.dweight, 0);
    }
    a.bias = bells(r, type, 1, n);
    a.dbias = bells(r, type, 1, n);
    view_fill(&a.dbias, 0);
    a.mean = bells(r, type, 1, rows);
    a.rstd = bells(r, type, 1, rows);
    a.out = bells(r, type, rows, n);
    a.dout = bells(r, type, rows, n);
    a.dx = bells(r, type, rows, n);
    return a;
}

static void norms(void **state)
{
    rng r = rng_make(test_seed(), test_index(state));

    for (int i = 0; i < 30; i++) {
        attn_norm_args a =
            norm_draw(&r, ATTN_F64, (attn_norm)(i % 3), rng_int(&r, 1, 90), rng_int(&r, 2, 70));
        attn_view add = bells(&r, ATTN_F64, a.x.size[2], a.x.size[3]);
        attn_norm_args more;

        norm_loss(&a);
        CHECK(attn_norm_backward(layer_ctx(), &a, NULL) == ATTN_OK);
        more = a; /* on top of what is there */
        more.dweight = more.dbias = (attn_view){0};
        more.add = add;
        more.dx = view_copy(&layer_memory, &r, &add, ATTN_F64, LAYOUT_BHSD);
        CHECK(attn_norm_backward(layer_ctx(), &more, NULL) == ATTN_OK);
        for (int64_t j = 0; j < a.x.size[3]; j++)
            CHECK(view_get(&more.dx, 0, 0, 0, j) ==
                  view_get(&a.dx, 0, 0, 0, j) + view_get(&add, 0, 0, 0, j));
        check_gradient(&r, norm_loss, &a, &a.x, &a.dx, "dx");
        check_gradient(&r, norm_loss, &a, &a.bias, &a.dbias, "dbias");
        if (a.weight.data)
            check_gradient(&r, norm_loss, &a, &a.weight, &a.dweight, "dweight");
        arena_reset(&layer_memory);
    }
}

/* --- Activations ---------------------------------------------------------------------------- */

static double activation_loss(void *call)
{
    attn_activation_args *a = call;

    CHECK(attn_activation_forward(layer_ctx(), a, NULL) == ATTN_OK);
    return view_dot(&a->dout, &a->out);
}

/* relu has a corner at 0, which a bell may hit. */
static void leave_corner(const attn_view *x)
{
    for (int64_t i = 0; i < x->size[2]; i++)
        for (int64_t j = 0; j < x->size[3]; j++)
            if (fabs(view_get(x, 0, 0, i, j)) < 1e-4)
                view_set(x, 0, 0, i, j, 0.5);
}

static void activations(void **state)
{
    rng r = rng_make(test_seed(), test_index(state));

    for (int i = 0; i < 30; i++) {
        attn_activation_args a = ATTN_ACTIVATION_ARGS_INIT;
        int64_t rows = rng_int(&r, 1, 50), n = rng_int(&r, 1, 70);

        a.activation = (attn_activation)(i % 5);
        a.x = bells(&r, ATTN_F64, rows, n);
        leave_corner(&a.x);
        a.out = bells(&r, ATTN_F64, rows, n);
        a.dout = bells(&r, ATTN_F64, rows, n);
        a.dx = bells(&r, ATTN_F64, rows, n);
        if (i % 2) {
            a.times = bells(&r, ATTN_F64, rows, n);
            a.dtimes = bells(&r, ATTN_F64, rows, n);
        }
        CHECK(attn_activation_backward(layer_ctx(), &a, NULL) == ATTN_OK);
        check_gradient(&r, activation_loss, &a, &a.x, &a.dx, "dx");
        if (i % 2)
            check_gradient(&r, activation_loss, &a, &a.times, &a.dtimes, "dtimes");
        arena_reset(&layer_memory);
    }
}

/* --- Linear --------------------------------------------------------------------------------- */

typedef struct linear {
    attn_linear_args a;
    attn_gemm_args g;
} linear;

static double linear_loss(void *call)
{
    linear *l = call;

    CHECK(attn_gemm(layer_ctx(), &l->g, NULL) == ATTN_OK);
    return view_dot(&l->a.dout, &l->g.out);
}

static void linear_layers(void **state)
{
    rng r = rng_make(test_seed(), test_index(state));

    for (int i = 0; i < 20; i++) {
        linear l = {ATTN_LINEAR_ARGS_INIT, ATTN_GEMM_ARGS_INIT};
        int64_t rows = rng_int(&r, 1, 200), in = rng_int(&r, 1, 40), out = rng_int(&r, 1, 40);

        l.a.x = l.g.a = bells(&r, ATTN_F64, rows, in);
        l.a.weight = l.g.w = bells(&r, ATTN_F64, out, in);
        l.g.bias = bells(&r, ATTN_F64, 1, out);
        l.g.out = bells(&r, ATTN_F64, rows, out);
        l.a.dout = bells(&r, ATTN_F64, rows, out);
        l.a.dx = bells(&r, ATTN_F64, rows, in);
        l.a.dweight = bells(&r, ATTN_F64, out, in);
        l.a.dbias = bells(&r, ATTN_F64, 1, out);
        view_fill(&l.a.dweight, 0);
        view_fill(&l.a.dbias, 0);
        CHECK(attn_linear_backward(layer_ctx(), &l.a, NULL) == ATTN_OK);
        check_gradient(&r, linear_loss, &l, &l.a.x, &l.a.dx, "dx");
        check_gradient(&r, linear_loss, &l, &l.a.weight, &l.a.dweight, "dweight");
        check_gradient(&r, linear_loss, &l, &l.g.bias, &l.a.dbias, "dbias");
        arena_reset(&layer_memory);
    }
}

/* --- Bits and errors ------------------------------------------------------------------------ */

static void threads_change_nothing(void **state)
{
    rng r = rng_make(test_seed(), test_index(state));
    attn_norm_args a = norm_draw(&r, ATTN_F32, ATTN_NORM_LAYER, 700, 100), b = a;

    b.out = bells(&r, ATTN_F32, 700, 100);
    b.dx = bells(&r, ATTN_F32, 700, 100);
    b.dbias = bells(&r, ATTN_F32, 1, 100);
    view_fill(&b.dbias, 0);
    b.mean = bells(&r, ATTN_F32, 1, 700);
    b.rstd = bells(&r, ATTN_F32, 1, 700);
    a.dweight = b.dweight = (attn_view){0};
    CHECK(attn_norm_forward(ctx_for(ATTN_SET_AUTO, 1), &a, NULL) == ATTN_OK);
    CHECK(attn_norm_backward(ctx_for(ATTN_SET_AUTO, 1), &a, NULL) == ATTN_OK);
    CHECK(attn_norm_forward(ctx_for(ATTN_SET_AUTO, 4), &b, NULL) == ATTN_OK);
    CHECK(attn_norm_backward(ctx_for(ATTN_SET_AUTO, 4), &b, NULL) == ATTN_OK);
    CHECK(view_same_bits(&a.out, &b.out) && view_same_bits(&a.dx, &b.dx));
    CHECK(view_same_bits(&a.dbias, &b.dbias));
    CHECK(arena_poison_intact(&layer_memory));
    arena_reset(&layer_memory);
}

static void wrong_calls(void **state)
{
    rng r = rng_make(test_seed(), test_index(state));
    attn_norm_args good = norm_draw(&r, ATTN_F32, ATTN_NORM_RMS, 5, 8), a;
    attn_error err;

#define REFUSES_NORM(change, status, start)                                                        \
    REFUSES(change, attn_norm_forward(layer_ctx(), &a, &err), status, start)
    REFUSES_NORM(a.struct_size = 1, ATTN_E_ARGUMENT, "args.struct_size");
    REFUSES_NORM(a.kind = (attn_norm)9, ATTN_E_ARGUMENT, "kind");
    REFUSES_NORM(a.eps = -1, ATTN_E_ARGUMENT, "eps");
    REFUSES_NORM(a.x.type = ATTN_BF16, ATTN_E_ARGUMENT, "x: type");
    REFUSES_NORM(a.out.type = ATTN_F64, ATTN_E_ARGUMENT, "out: type");
    REFUSES_NORM(a.out.size[2] = 4, ATTN_E_SHAPE, "out: shape");
    REFUSES_NORM(a.out.data = NULL, ATTN_E_ARGUMENT, "out: no data");
    REFUSES_NORM(a.bias.size[3] = 7, ATTN_E_SHAPE, "bias: shape");
    REFUSES_NORM(a.mean = (attn_view){0}, ATTN_E_SHAPE, "mean: shape");
    REFUSES_NORM(a.x.stride[3] = 2, ATTN_E_ARGUMENT, "x: columns");
#undef REFUSES_NORM
    CHECK(attn_norm_forward(NULL, &good, &err) == ATTN_E_ARGUMENT);
    CHECK(attn_norm_backward(layer_ctx(), NULL, &err) == ATTN_E_ARGUMENT);
    CHECK(attn_activation_forward(layer_ctx(), NULL, &err) == ATTN_E_ARGUMENT);
    CHECK(attn_linear_backward(layer_ctx(), NULL, &err) == ATTN_E_ARGUMENT);
    arena_reset(&layer_memory);
}

int main(int argc, char **argv)
{
    static const test_case tests[] = {
        {"norms", norms, 0},
        {"activations", activations, 0},
        {"linear layers", linear_layers, 0},
        {"threads change nothing", threads_change_nothing, 0},
        {"wrong calls", wrong_calls, 0},
    };

    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
