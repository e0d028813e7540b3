/* test_nn_attend.c: additive attention, gates and multi-head attention called one by one: against
 * plain loops and differences in f64, their bits for any threads, and what they refuse. */
#include "include/attn/nn.h"
#include "tests/nn_layer.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

enum { SEGMENTS = 4 };

/* Sequences of up to `longest` rows, some of them empty. */
static int64_t draw_starts(rng *r, int64_t *starts, int64_t longest)
{
    starts[0] = 0;
    for (int i = 0; i < SEGMENTS; i++)
        starts[i + 1] = starts[i] + (rng_chance(r, 20) ? 0 : rng_int(r, 1, longest));
    return starts[SEGMENTS];
}

static int64_t longest_of(const int64_t *starts)
{
    int64_t longest = 1;

    for (int i = 0; i < SEGMENTS; i++)
        longest = starts[i + 1] - starts[i] > longest ? starts[i + 1] - starts[i] : longest;
    return longest;
}

/* --- Additive attention --------------------------------------------------------------------- */

static attn_additive_args draw_additive(rng *r, attn_type type, int64_t *starts, int64_t longest)
{
    attn_additive_args a = ATTN_ADDITIVE_ARGS_INIT;
    int64_t hk = rng_int(r, 1, 2), h = hk * rng_int(r, 1, 2), dk = rng_int(r, 1, 20);
    int64_t dv = rng_int(r, 1, 20), tq = draw_starts(r, starts, longest);
    int64_t tk = draw_starts(r, starts + SEGMENTS + 1, longest);
    layout kind = rng_chance(r, 50) ? LAYOUT_BSHD : LAYOUT_PADDED;

    a.causal = rng_chance(r, 50);
    a.segments = SEGMENTS;
    a.q_starts = starts;
    a.k_starts = starts + SEGMENTS + 1;
    a.q = head_bells(r, type, h, tq, dk, kind);
    a.k = head_bells(r, type, hk, tk, dk, kind);
    a.v = head_bells(r, type, hk, tk, dv, LAYOUT_PACKED);
    a.w = head_bells(r, type, 1, h, dk, LAYOUT_BHSD);
    a.out = head_bells(r, type, h, tq, dv, kind);
    a.weights = head_bells(r, type, h, tq, longest_of(a.k_starts) + rng_int(r, 0, 2), kind);
    a.dout = head_bells(r, type, h, tq, dv, kind);
    a.dq = head_bells(r, type, h, tq, dk, LAYOUT_PADDED);
    a.dk = head_bells(r, type, hk, tk, dk, LAYOUT_BSHD);
    a.dv = head_bells(r, type, hk, tk, dv, kind);
    a.dw = head_bells(r, type, 1, h, dk, LAYOUT_BHSD);
    view_fill(&a.dw, 0);
    return a;
}

/* Weight and output of one row, by the formula. */
static void check_additive_row(const attn_additive_args *a, int s, int64_t h, int64_t i)
{
    int64_t first = a->k_starts[s], keys = a->k_starts[s + 1] - first, row = a->q_starts[s] + i;
    int64_t g = h / (a->q.size[1] / a->k.size[1]), n = a->causal && i + 1 < keys ? i + 1 : keys;
    double e[64], sum = 0;

    for (int64_t j = 0; j < n; j++) {
        double score = 0;
        for (int64_t c = 0; c < a->q.size[3]; c++)
            score += view_get(&a->w, 0, 0, h, c) *
                     tanh(view_get(&a->q, 0, h, row, c) + view_get(&a->k, 0, g, first + j, c));
        sum += e[j] = exp(score);
    }
    for (int64_t j = 0; j < a->weights.size[3]; j++)
        CHECK(fabs(view_get(&a->weights, 0, h, row, j) - (j < n ? e[j] / sum : 0)) <=
              (j < n ? 1e-13 : 0));
    for (int64_t c = 0; c < a->v.size[3]; c++) {
        double want = 0;
        for (int64_t j = 0; j < n; j++)
            want += e[j] / sum * view_get(&a->v, 0, g, first + j, c);
        CHECK(fabs(view_get(&a->out, 0, h, row, c) - want) < 1e-12);
    }
}

static double additive_loss(void *call)
{
    attn_additive_args *a = call;

    CHECK(attn_additive_forward(layer_ctx(), a, NULL) == ATTN_OK);
    return view_dot(&a->dout, &a->out);
}

static void additive(void **state)
{
    rng r = rng_make(test_seed(), test_index(state));

    for (int i = 0; i < 12; i++) {
        int64_t starts[2 * (SEGMENTS + 1)];
        attn_additive_args a = draw_additive(&r, ATTN_F64, starts, 9);

        if (i % 4 == 3) { /* all of it one sequence */
            a.segments = 0;
            a.weights =
                head_bells(&r, ATTN_F64, a.q.size[1], a.q.size[2], a.k.size[2] + 1, LAYOUT_PADDED);
        }
        additive_loss(&a);
        if (a.segments)
            for (int s = 0; s < SEGMENTS; s++)
                for (int64_t h = 0; h < a.q.size[1]; h++)
                    for (int64_t t = 0; t < starts[s + 1] - starts[s]; t++)
                        check_additive_row(&a, s, h, t);
        CHECK(attn_additive_backward(layer_ctx(), &a, NULL) == ATTN_OK);
        check_gradient(&r, additive_loss, &a, &a.q, &a.dq, "dq");
        check_gradient(&r, additive_loss, &a, &a.k, &a.dk, "dk");
        check_gradient(&r, additive_loss, &a, &a.v, &a.dv, "dv");
        check_gradient(&r, additive_loss, &a, &a.w, &a.dw, "dw");
        arena_reset(&layer_memory);
    }
}

/* More keys than one tile, and the same bits for one thread and four. */
static void additive_threads(void **state)
{
    rng r = rng_make(test_seed(), test_index(state));

    for (int i = 0; i < 4; i++) {
        int64_t starts[2 * (SEGMENTS + 1)];
        attn_additive_args a = draw_additive(&r, ATTN_F32, starts, 90), b = a;

        b.out = head_bells(&r, ATTN_F32, a.q.size[1], a.q.size[2], a.v.size[3], LAYOUT_BHSD);
        b.dq = head_bells(&r, ATTN_F32, a.q.size[1], a.q.size[2], a.q.size[3], LAYOUT_BHSD);
        b.dk = head_bells(&r, ATTN_F32, a.k.size[1], a.k.size[2], a.q.size[3], LAYOUT_BHSD);
        b.dv = head_bells(&r, ATTN_F32, a.k.size[1], a.k.size[2], a.v.size[3], LAYOUT_BHSD);
        b.dw = head_bells(&r, ATTN_F32, 1, a.q.size[1], a.q.size[3], LAYOUT_BHSD);
        view_fill(&b.dw, 0);
        CHECK(attn_additive_forward(ctx_for(ATTN_SET_AUTO, 1), &a, NULL) == ATTN_OK);
        CHECK(attn_additive_backward(ctx_for(ATTN_SET_AUTO, 1), &a, NULL) == ATTN_OK);
        CHECK(attn_additive_forward(ctx_for(ATTN_SET_AUTO, 4), &b, NULL) == ATTN_OK);
        CHECK(attn_additive_backward(ctx_for(ATTN_SET_AUTO, 4), &b, NULL) == ATTN_OK);
        CHECK(view_same_bits(&a.out, &b.out) && view_same_bits(&a.dq, &b.dq));
        CHECK(view_same_bits(&a.dk, &b.dk) && view_same_bits(&a.dv, &b.dv));
        CHECK(view_same_bits(&a.dw, &b.dw));
        CHECK(arena_poison_intact(&layer_memory));
        arena_reset(&layer_memory);
    }
}

/* --- Gates ---------------------------------------------------------------------------------- */

/* A gate whose z is linear in x: z = x w^T + b, by attn_gemm. */
typedef struct gated {
    attn_gate_args a;
    attn_gemm_args g;
    bool linear;
} gated;

static double gate_loss(void *call)
{
    gated *c = call;

    if (c->linear)
        CHECK(attn_gemm(layer_ctx(), &c->g, NULL) == ATTN_OK);
    CHECK(attn_gate_forward(layer_ctx(), &c->a, NULL) == ATTN_OK);
    return view_dot(&c->a.dout, &c->a.out);
}

static gated draw_gate(rng *r, attn_type type, int64_t *starts, int64_t longest, int64_t h)
{
    gated c = {ATTN_GATE_ARGS_INIT, ATTN_GEMM_ARGS_INIT, rng_chance(r, 50)};
    int64_t rows = draw_starts(r, starts, longest), n = rng_int(r, 1, 20);

    c.a.gate = rng_chance(r, 50) ? ATTN_GATE_SOFTMAX : ATTN_GATE_LOGISTIC;
    c.a.segments = SEGMENTS;
    c.a.starts = starts;
    c.a.x = c.g.a = bells(r, type, rows, n);
    c.a.z = c.g.out = bells(r, type, rows, h);
    c.g.w = bells(r, type, h, n);
    c.g.bias = bells(r, type, 1, h);
    c.a.weights = bells(r, type, rows, h);
    c.a.out = bells(r, type, SEGMENTS * h, n);
    c.a.dout = bells(r, type, SEGMENTS * h, n);
    c.a.dx = bells(r, type, rows, n);
    c.a.dz = bells(r, type, rows, h);
    return c;
}

static void check_gate(const attn_gate_args *a)
{
    int64_t gates = a->z.size[3];

    for (int64_t s = 0; s < SEGMENTS; s++)
        for (int64_t g = 0; g < gates; g++) {
            double sum = 0;

            for (int64_t j = a->starts[s]; j < a->starts[s + 1]; j++)
                sum += exp(view_get(&a->z, 0, 0, j, g));
            for (int64_t c = 0; c < a->x.size[3]; c++) {
                double want = 0;
                for (int64_t j = a->starts[s]; j < a->starts[s + 1]; j++) {
                    double e = exp(view_get(&a->z, 0, 0, j, g));
                    double w = a->gate == ATTN_GATE_SOFTMAX ? e / sum : e / (1 + e);
                    CHECK(fabs(view_get(&a->weights, 0, 0, j, g) - w) < 1e-14);
                    want += w * view_get(&a->x, 0, 0, j, c);
                }
                CHECK(fabs(view_get(&a->out, 0, 0, s * gates + g, c) - want) < 1e-12);
            }
        }
}

/* The way back of a linear z: dz through the linear layer, on top of dx. */
static void linear_back(gated *c, rng *r, attn_linear_args *l)
{
    *l = (attn_linear_args)ATTN_LINEAR_ARGS_INIT;
    l->x = c->a.x;
    l->weight = c->g.w;
    l->dout = c->a.dz;
    l->dx = l->add = c->a.dx;
    l->dweight = zeros(r, ATTN_F64, c->g.w.size[2], c->g.w.size[3]);
    l->dbias = zeros(r, ATTN_F64, 1, c->g.w.size[2]);
    CHECK(attn_linear_backward(layer_ctx(), l, NULL) == ATTN_OK);
}

static void gates(void **state)
{
    rng r = rng_make(test_seed(), test_index(state));

    for (int i = 0; i < 20; i++) {
        int64_t starts[SEGMENTS + 1];
        gated c = draw_gate(&r, ATTN_F64, starts, 80, rng_int(&r, 1, 3));
        attn_linear_args l;

        gate_loss(&c);
        check_gate(&c.a);
        CHECK(attn_gate_backward(layer_ctx(), &c.a, NULL) == ATTN_OK);
        if (c.linear) {
            linear_back(&c, &r, &l);
            check_gradient(&r, gate_loss, &c, &c.g.w, &l.dweight, "dw");
            check_gradient(&r, gate_loss, &c, &c.g.bias, &l.dbias, "db");
        } else {
            check_gradient(&r, gate_loss, &c, &c.a.z, &c.a.dz, "dz");
        }
        check_gradient(&r, gate_loss, &c, &c.a.x, &c.a.dx, "dx");
        arena_reset(&layer_memory);
    }
}

/* Scores so large that e^z does not fit; one thread or four. */
static void gates_hold(void **state)
{
    rng r = rng_make(test_seed(), test_index(state));

    for (int i = 0; i < 6; i++) {
        int64_t starts[SEGMENTS + 1];
        gated c = draw_gate(&r, ATTN_F32, starts, 500, 3), d = c;
        const attn_ctx *one = ctx_for(ATTN_SET_AUTO, 1), *four = ctx_for(ATTN_SET_AUTO, 4);

        view_uniform(&c.a.z, &r, -500, 500);
        d.a.weights = zeros(&r, ATTN_F32, c.a.x.size[2], 3);
        d.a.out = zeros(&r, ATTN_F32, c.a.out.size[2], c.a.out.size[3]);
        d.a.dx = zeros(&r, ATTN_F32, c.a.x.size[2], c.a.x.size[3]);
        d.a.dz = zeros(&r, ATTN_F32, c.a.x.size[2], 3);
        CHECK(attn_gate_forward(one, &c.a, NULL) == ATTN_OK);
        CHECK(attn_gate_backward(one, &c.a, NULL) == ATTN_OK);
        CHECK(attn_gate_forward(four, &d.a, NULL) == ATTN_OK);
        CHECK(attn_gate_backward(four, &d.a, NULL) == ATTN_OK);
        CHECK(view_same_bits(&c.a.out, &d.a.out) && view_same_bits(&c.a.dx, &d.a.dx));
        CHECK(view_same_bits(&c.a.dz, &d.a.dz) && view_same_bits(&c.a.weights, &d.a.weights));
        for (int64_t j = 0; j < c.a.x.size[2]; j++)
            for (int64_t g = 0; g < 3; g++)
                CHECK(view_get(&c.a.weights, 0, 0, j, g) >= 0 &&
                      view_get(&c.a.weights, 0, 0, j, g) <= 1);
        CHECK(arena_poison_intact(&layer_memory));
        d = c; /* dz in place of z, and nothing else */
        d.a.dz = c.a.z;
        d.a.dx = (attn_view){0};
        CHECK(attn_gate_backward(four, &d.a, NULL) == ATTN_OK);
        CHECK(view_same_bits(&c.a.dz, &d.a.dz));
        arena_reset(&layer_memory);
    }
}

/* --- Multi-head attention ------------------------------------------------------------------- */

typedef struct heads {
    attn_multihead_args a;
    attn_forward_args f;
    attn_backward_args b;
    attn_mask mask;
    int64_t starts[2 * (SEGMENTS + 1)];
} heads;

static double multihead_loss(void *call)
{
    heads *c = call;

    CHECK(attn_multihead_forward(layer_ctx(), &c->a, NULL) == ATTN_OK);
    return view_dot(&c->a.dout, &c->a.out);
}

static void draw_projections(rng *r, heads *c, int64_t d, int64_t dm, int64_t out)
{
    attn_multihead_args *a = &c->a;
    int64_t q = c->f.q.size[1] * c->f.q.size[3], k = c->f.k.size[1] * c->f.k.size[3];
    int64_t v = c->f.v.size[1] * c->f.v.size[3], o = c->f.out.size[1] * c->f.out.size[3];

    a->wq = bells(r, ATTN_F64, q, d);
    a->wk = bells(r, ATTN_F64, k, dm);
    a->wv = bells(r, ATTN_F64, v, dm);
    a->wo = bells(r, ATTN_F64, out, o);
    a->dwq = zeros(r, ATTN_F64, q, d);
    a->dwk = zeros(r, ATTN_F64, k, dm);
    a->dwv = zeros(r, ATTN_F64, v, dm);
    a->dwo = zeros(r, ATTN_F64, out, o);
    if (rng_chance(r, 50))
        return;
    a->bq = bells(r, ATTN_F64, 1, q);
    a->bk = bells(r, ATTN_F64, 1, k);
    a->bv = bells(r, ATTN_F64, 1, v);
    a->bo = bells(r, ATTN_F64, 1, out);
    a->dbq = zeros(r, ATTN_F64, 1, q);
    a->dbk = zeros(r, ATTN_F64, 1, k);
    a->dbv = zeros(r, ATTN_F64, 1, v);
    a->dbo = zeros(r, ATTN_F64, 1, out);
}

static void draw_multihead(rng *r, heads *c, bool cross)
{
    int64_t hk = rng_int(r, 1, 2), h = hk * rng_int(r, 1, 2), dk = rng_int(r, 1, 9);
    int64_t dv = rng_int(r, 1, 9), d = rng_int(r, 1, 12), dm = cross ? rng_int(r, 1, 12) : d;
    int64_t out = rng_int(r, 1, 12), tq = draw_starts(r, c->starts, 7), tk = tq;
    const int64_t *k_starts = c->starts;

    if (cross) {
        k_starts = c->starts + SEGMENTS + 1;
        tk = draw_starts(r, c->starts + SEGMENTS + 1, 7);
    }
    c->a = (attn_multihead_args)ATTN_MULTIHEAD_ARGS_INIT;
    c->f = (attn_forward_args)ATTN_FORWARD_ARGS_INIT;
    c->b = (attn_backward_args)ATTN_BACKWARD_ARGS_INIT;
    c->mask = (attn_mask)ATTN_MASK_INIT;
    c->mask.segments = SEGMENTS;
    c->mask.q_starts = c->starts;
    c->mask.k_starts = k_starts;
    c->mask.causal = !cross;
    c->f.mask = &c->mask;
    c->f.dropout = rng_chance(r, 50) ? 0.2 : 0;
    c->f.q = head_bells(r, ATTN_F64, h, tq, dk, LAYOUT_BSHD);
    c->f.k = head_bells(r, ATTN_F64, hk, tk, dk, LAYOUT_BSHD);
    c->f.v = head_bells(r, ATTN_F64, hk, tk, dv, LAYOUT_PACKED);
    c->f.out = head_bells(r, ATTN_F64, h, tq, dv, LAYOUT_BSHD);
    c->f.lse = head_bells(r, ATTN_F64, h, tq, 1, LAYOUT_BHSD);
    c->b.dq = head_bells(r, ATTN_F64, h, tq, dk, LAYOUT_PACKED);
    c->b.dk = head_bells(r, ATTN_F64, hk, tk, dk, LAYOUT_BSHD);
    c->b.dv = head_bells(r, ATTN_F64, hk, tk, dv, LAYOUT_BSHD);
    c->b.dout = head_bells(r, ATTN_F64, h, tq, dv, LAYOUT_BSHD);
    c->a.attention = &c->f;
    c->a.gradients = &c->b;
    c->a.x = bells(r, ATTN_F64, tq, d);
    c->a.dx = bells(r, ATTN_F64, tq, d);
    if (cross) {
        c->a.memory = bells(r, ATTN_F64, tk, dm);
        c->a.dmemory = bells(r, ATTN_F64, tk, dm);
    }
    c->a.out = bells(r, ATTN_F64, tq, out);
    c->a.dout = bells(r, ATTN_F64, tq, out);
    draw_projections(r, c, d, dm, out);
}

static void multihead(void **state)
{
    rng r = rng_make(test_seed(), test_index(state));

    for (int i = 0; i < 16; i++) {
        heads c;
        attn_multihead_args *a = &c.a;

        draw_multihead(&r, &c, i % 2);
        multihead_loss(&c);
        CHECK(attn_multihead_backward(layer_ctx(), a, NULL) == ATTN_OK);
        check_gradient(&r, multihead_loss, &c, &a->x, &a->dx, "dx");
        if (a->memory.data)
            check_gradient(&r, multihead_loss, &c, &a->memory, &a->dmemory, "dmemory");
        check_gradient(&r, multihead_loss, &c, &a->wq, &a->dwq, "dwq");
        check_gradient(&r, multihead_loss, &c, &a->wk, &a->dwk, "dwk");
        check_gradient(&r, multihead_loss, &c, &a->wv, &a->dwv, "dwv");
        check_gradient(&r, multihead_loss, &c, &a->wo, &a->dwo, "dwo");
        if (a->bq.data) {
            check_gradient(&r, multihead_loss, &c, &a->bq, &a->dbq, "dbq");
            check_gradient(&r, multihead_loss, &c, &a->bk, &a->dbk, "dbk");
            check_gradient(&r, multihead_loss, &c, &a->bv, &a->dbv, "dbv");
            check_gradient(&r, multihead_loss, &c, &a->bo, &a->dbo, "dbo");
        }
        arena_reset(&layer_memory);
    }
}

/* Weights and entropies on request: rows of weights sum to 1, entropies are theirs, and no bit of
 * the output moves. */
static void multihead_shows(void **state)
{
    rng r = rng_make(test_seed(), test_index(state));
    attn_view plain, entropy;
    attn_stats stats = ATTN_STATS_INIT;
    int64_t longest, tq;
    heads c;

    draw_multihead(&r, &c, false);
    longest = longest_of(c.starts);
    tq = c.f.q.size[2];
    multihead_loss(&c);
    plain = view_copy(&layer_memory, &r, &c.a.out, ATTN_F64, LAYOUT_BHSD);
    c.f.weights = view_new(&layer_memory, &r, ATTN_F64, SEGMENTS, c.f.q.size[1], longest, longest,
                           LAYOUT_BHSD);
    entropy = stats.entropy =
        view_new(&layer_memory, &r, ATTN_F64, 1, c.f.q.size[1], tq, 1, LAYOUT_BHSD);
    c.f.stats = &stats;
    multihead_loss(&c);
    CHECK(view_same_bits(&plain, &c.a.out));
    for (int64_t s = 0; s < SEGMENTS; s++)
        for (int64_t i = 0; i < c.starts[s + 1] - c.starts[s]; i++) {
            double sum = 0, e = 0;

            for (int64_t j = 0; j <= i; j++) {
                double p = view_get(&c.f.weights, s, 0, i, j);
                sum += p;
                e -= p * log(p);
            }
            CHECK(fabs(sum - 1) < 1e-12);
            CHECK(fabs(view_get(&entropy, 0, 0, c.starts[s] + i, 0) - e) < 1e-10);
        }
    arena_reset(&layer_memory);
}

/* --- Errors --------------------------------------------------------------------------------- */

static void wrong_additive(void **state)
{
    rng r = rng_make(test_seed(), test_index(state));
    int64_t starts[2 * (SEGMENTS + 1)], bad[SEGMENTS + 1] = {0, 3, 2, 9, 9};
    attn_additive_args good, a;
    attn_error err = {0};

    do
        good = draw_additive(&r, ATTN_F32, starts, 9);
    while (good.q.size[2] == 0 || good.k.size[2] == 0);
#define BAD(change, status, start)                                                                 \
    REFUSES(change, attn_additive_forward(layer_ctx(), &a, &err), status, start)
    BAD(a.struct_size = 1, ATTN_E_ARGUMENT, "args.struct_size");
    BAD(a.q.type = ATTN_F16, ATTN_E_ARGUMENT, "q: type");
    BAD(a.k.size[1] = 5, ATTN_E_SHAPE, "k: 5 heads");
    BAD(a.k.size[3]++, ATTN_E_SHAPE, "k: shape");
    BAD(a.v.size[2]++, ATTN_E_SHAPE, "v: shape");
    BAD(a.out.size[3]++, ATTN_E_SHAPE, "out: shape");
    BAD(a.w.size[2]++, ATTN_E_SHAPE, "w: shape");
    BAD(a.weights.size[3] = 0, ATTN_E_SHAPE, "weights");
    BAD(a.weights.type = ATTN_F64, ATTN_E_ARGUMENT, "weights: type");
    BAD(a.q_starts = NULL, ATTN_E_ARGUMENT, "q_starts: NULL");
    BAD(a.q_starts = bad, ATTN_E_ARGUMENT, "q_starts[2]: 2 after 3");
    BAD(a.k_starts = bad; bad[2] = 3;
        bad[4] = 10 + (int64_t)a.k.size[2], ATTN_E_ARGUMENT, "k_starts[4]");
    BAD(a.segments = -1, ATTN_E_ARGUMENT, "segments");
    BAD(a.q.stride[3] = 2; a.q.size[3] = a.k.size[3] = a.w.size[3] = 2, ATTN_E_ARGUMENT, "q:");
#undef BAD
    a = good;
    a.dv.size[3]++;
    CHECK(attn_additive_backward(layer_ctx(), &a, &err) == ATTN_E_SHAPE);
    CHECK(attn_additive_backward(NULL, &a, &err) == ATTN_E_ARGUMENT);
    CHECK(attn_additive_forward(layer_ctx(), NULL, &err) == ATTN_E_ARGUMENT);
    arena_reset(&layer_memory);
}

static void wrong_gates(void **state)
{
    rng r = rng_make(test_seed(), test_index(state));
    int64_t starts[SEGMENTS + 1], bad[2] = {0, 99};
    attn_gate_args good, a;
    attn_error err = {0};

    do
        good = draw_gate(&r, ATTN_F32, starts, 9, 2).a;
    while (good.x.size[2] == 0);
#define BAD(change, status, start)                                                                 \
    REFUSES(change, attn_gate_forward(layer_ctx(), &a, &err), status, start)
    BAD(a.gate = (attn_gate)2, ATTN_E_ARGUMENT, "gate");
    BAD(a.x.type = ATTN_BF16, ATTN_E_ARGUMENT, "x: type");
    BAD(a.z.size[2]++, ATTN_E_SHAPE, "z: shape");
    BAD(a.z.size[3] = 0, ATTN_E_SHAPE, "z: shape");
    BAD(a.weights = (attn_view){0}, ATTN_E_SHAPE, "weights");
    BAD(a.out.size[2]--, ATTN_E_SHAPE, "out: shape");
    BAD(a.starts = NULL, ATTN_E_ARGUMENT, "starts: NULL");
    BAD(a.segments = 1; a.starts = bad, ATTN_E_ARGUMENT, "starts[1]");
#undef BAD
    a = good;
    a.dout.size[3]++;
    CHECK(attn_gate_backward(layer_ctx(), &a, &err) == ATTN_E_SHAPE);
    arena_reset(&layer_memory);
}

static void wrong_multihead(void **state)
{
    rng r = rng_make(test_seed(), test_index(state));
    attn_multihead_args good, a;
    attn_forward_args f;
    attn_error err = {0};
    heads c;

    do
        draw_multihead(&r, &c, true);
    while (c.f.q.size[1] < 2 || c.f.q.size[2] < 2);
    good = c.a;
    good.attention = &f;
    f = c.f;
#define BAD(change, status, start)                                                                 \
    do {                                                                                           \
        f = c.f;                                                                                   \
        REFUSES(change, attn_multihead_forward(layer_ctx(), &a, &err), status, start);             \
    } while (0)
    BAD(a.struct_size = 1, ATTN_E_ARGUMENT, "args.struct_size");
    BAD(a.attention = NULL, ATTN_E_ARGUMENT, "attention: NULL");
    BAD(f.struct_size = 2, ATTN_E_ARGUMENT, "attention.struct_size");
    BAD(f.q.size[0] = 2, ATTN_E_SHAPE, "attention.q");
    BAD(f.q.stride[1]++, ATTN_E_ARGUMENT, "attention.q: heads");
    BAD(f.out = (attn_view){0}, ATTN_E_SHAPE, "attention.out");
    BAD(a.wq.size[3]++, ATTN_E_SHAPE, "");
    BAD(a.bo = a.wq, ATTN_E_SHAPE, "");
    BAD(f.dropout = 2, ATTN_E_ARGUMENT, "dropout");
#undef BAD
    f = c.f;
    a = good;
    a.gradients = NULL;
    CHECK(attn_multihead_backward(layer_ctx(), &a, &err) == ATTN_E_ARGUMENT);
    CHECK(attn_multihead_backward(NULL, &a, &err) == ATTN_E_ARGUMENT);
    arena_reset(&layer_memory);
}

int main(int argc, char **argv)
{
    static const test_case tests[] = {
        {"additive", additive, 0},
        {"additive, threads", additive_threads, 0},
        {"gates", gates, 0},
        {"gates hold", gates_hold, 0},
        {"multi-head", multihead, 0},
        {"multi-head shows", multihead_shows, 0},
        {"wrong additive", wrong_additive, 0},
        {"wrong gates", wrong_gates, 0},
        {"wrong multi-head", wrong_multihead, 0},
    };

    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
