/* nn_layer.c: see nn_layer.h. */
#include "include/attn/nn.h"
#include "tests/nn_layer.h"

#include <math.h>

arena layer_memory;

/* Adds factor * from[i] to each element of `to`; from NULL: bells. */
static void add_each(const attn_view *to, rng *r, double factor, const attn_view *from)
{
    for (int64_t h = 0; h < to->size[1]; h++)
        for (int64_t i = 0; i < to->size[2]; i++)
            for (int64_t j = 0; j < to->size[3]; j++)
                view_set(to, 0, h, i, j,
                         from ? view_get(to, 0, h, i, j) + factor * view_get(from, 0, h, i, j)
                              : rng_bell(r));
}

attn_view head_bells(rng *r, attn_type type, int64_t heads, int64_t rows, int64_t n, layout kind)
{
    attn_view v = view_new(&layer_memory, r, type, 1, heads, rows, n, kind);

    add_each(&v, r, 1, NULL);
    return v;
}

attn_view bells(rng *r, attn_type type, int64_t rows, int64_t n)
{
    return head_bells(r, type, 1, rows, n, LAYOUT_PADDED);
}

attn_view zeros(rng *r, attn_type type, int64_t rows, int64_t n)
{
    attn_view v = view_new(&layer_memory, r, type, 1, 1, rows, n, LAYOUT_PADDED);

    view_fill(&v, 0);
    return v;
}

double view_dot(const attn_view *a, const attn_view *b)
{
    double sum = 0;

    for (int64_t h = 0; h < a->size[1]; h++)
        for (int64_t i = 0; i < a->size[2]; i++)
            for (int64_t j = 0; j < a->size[3]; j++)
                sum += view_get(a, 0, h, i, j) * view_get(b, 0, h, i, j);
    return sum;
}

void check_gradient(rng *r, loss_fn loss, void *call, const attn_view *view,
                    const attn_view *gradient, const char *what)
{
    attn_view direction =
        head_bells(r, ATTN_F64, view->size[1], view->size[2], view->size[3], LAYOUT_BHSD);
    double h = 1e-6, side[2], want = view_dot(&direction, gradient), got;

    for (int k = 0; k < 3; k++) {
        add_each(view, NULL, (k == 1 ? -2 : 1) * h, &direction);
        if (k < 2)
            side[k] = loss(call);
    }
    got = (side[0] - side[1]) / (2 * h);
    CHECK_MSG(fabs(got - want) <= 1e-7 * (fabs(want) + 10), "%s: %g, difference %g", what, want,
              got);
}

const attn_ctx *layer_ctx(void)
{
    return ctx_for(ATTN_SET_AUTO, 2);
}
