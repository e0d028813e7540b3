/* test_backward.c: laws of gradients: what must be zero, what must not be reached, what must add
 * up; and derivatives and errors of the library as a whole. Bits are in test_backward_bits.c, every
 * option against the reference in test_backward_differential.c and test_backward_pairs.c. */
#include "tests/gradient.h"
#include "tests/trial_backward.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double nan_value = (double)NAN;

/* --- Empty rows ----------------------------------------------------------------------------- */

enum { ROWS = 6, KEYS = 70, EMPTY = 2 }; /* row EMPTY attends nothing */

/* Ways for it to do so; with LENGTH_K and NO_KEYS no row attends anything. */
enum { BY_KEEP, BY_BIAS, BY_CAUSAL, BY_WINDOW, BY_Q_COUNT, BY_BLOCKS, BY_TILE, BY_K_COUNT, WAYS };

typedef struct empty_scene {
    problem p;
    attn_mask m;
    int64_t count[1], offset[1], start[3], index[1];
} empty_scene;

static void mask_row(void *user, const attn_tile *tile)
{
    (void)user;
    for (int64_t r = 0; r < tile->rows; r++)
        for (int64_t c = 0; c < tile->cols && tile->q_row + r == EMPTY; c++)
            ((float *)tile->logits)[r * tile->stride + c] = -INFINITY;
}

static void pass_gradient(void *user, const attn_tile *tile, void *gradient)
{
    (void)user, (void)tile, (void)gradient;
}

/* Rows 0 .. EMPTY of the causal, windowed and block ways attend nothing: their positions do not
 * reach the keys. */
static int64_t make_empty(empty_scene *x, int by)
{
    attn_mask *m = &x->p.mask;
    attn_type type = ATTN_U8;

    *m = (attn_mask)ATTN_MASK_INIT;
    if (by == BY_KEEP || by == BY_BIAS) {
        attn_view v = view_plain(&problem_mem, by == BY_BIAS ? ATTN_F32 : type, 1, 1, ROWS, KEYS);

        view_fill(&v, by == BY_KEEP);
        for (int64_t j = 0; j < KEYS; j++)
            view_set(&v, 0, 0, EMPTY, j, by == BY_KEEP ? 0 : -HUGE_VAL);
        *(by == BY_KEEP ? &m->keep : &m->bias) = v;
        return EMPTY;
    }
    if (by == BY_CAUSAL)
        m->causal = 1, m->q_offset = -EMPTY - 1;
    if (by == BY_WINDOW)
        m->window = 1, m->window_left = KEYS, m->q_offset = -EMPTY - 1;
    if (by == BY_Q_COUNT) {
        x->count[0] = EMPTY;
        m->q_count = x->count;
        return EMPTY;
    }
    if (by == BY_BLOCKS) {
        x->start[0] = x->start[1] = 0, x->start[2] = 1;
        x->index[0] = 0;
        m->q_offset = 64 - EMPTY - 1;
        m->blocks = (attn_block_list){.q_block = 64,
                                      .k_block = 128,
                                      .rows = 2,
                                      .k_blocks = 1,
                                      .start = x->start,
                                      .index = x->index,
                                      .index_count = 1};
    }
    if (by == BY_TILE) {
        m->tile = mask_row;
        return EMPTY;
    }
    if (by == BY_K_COUNT) {
        x->count[0] = 0;
        m->k_count = x->count;
    }
    return 0;
}

static int row_is_zero(const attn_view *v, int64_t h, int64_t i)
{
    for (int64_t c = 0; c < v->size[3]; c++) {
        double x = view_get(v, 0, h, i, c);

        if (x != 0 || signbit(x))
            return 0;
    }
    return 1;
}

/* dq of empty rows is +0 whatever dout, dlse and q hold there, and dk, dv and dbias are as with
 * zeros there. */
static void empty_rows_give_zeros(void **state)
{
    const attn_ctx *ctx = ctx_for(test_set(state), 2);

    for (int by = 0; by < WAYS; by++) {
        empty_scene x = {.p = problem_make(ctx, ATTN_F32, PLAIN, 1, ROWS, KEYS)};
        subject s = subject_make(&x.p);
        way w = {.ctx = ctx, .n = 1};
        gradients got[2];

        for (int poisoned = 0; poisoned < 2; poisoned++) {
            gradient_call c;

            gradient_make(&c, &s, &w);
            int64_t first = make_empty(&x, by);
            int64_t last = by == BY_Q_COUNT || by == BY_K_COUNT ? ROWS - 1 : EMPTY;
            c.a.tile_gradient = x.p.mask.tile ? pass_gradient : NULL;
            for (int64_t h = 0; h < x.p.h; h++)
                for (int64_t i = first; i <= last; i++) {
                    for (int64_t e = 0; e < x.p.dv; e++)
                        view_set(&c.a.dout, 0, h, i, e, poisoned ? nan_value : 0);
                    for (int64_t e = 0; e < x.p.d; e++)
                        view_set(&c.f.q, 0, h, i, e, poisoned ? HUGE_VAL : 0);
                    view_set(&c.a.dlse, 0, h, i, 0, poisoned ? -HUGE_VAL : 0);
                }
            gradient_forward(ctx, &c);
            got[poisoned] = gradient_backward(&c, &w);
            for (int64_t h = 0; h < x.p.h; h++)
                for (int64_t i = first; i <= last; i++)
                    CHECK_MSG(row_is_zero(&c.a.dq, h, i) && row_is_zero(&c.a.dbias, h, i),
                              "way %d, row %lld", by, (long long)i);
            if (by == BY_K_COUNT)
                for (int64_t j = 0; j < KEYS; j++)
                    CHECK(row_is_zero(&c.a.dk, 0, j) && row_is_zero(&c.a.dv, 0, j));
        }
        expect_same_gradients(&got[1], &got[0], "poison in empty rows");
        arena_reset(&problem_mem);
    }
}

static void no_keys_and_no_rows(void **state)
{
    static const int64_t shapes[][3] = {{1, 5, 0}, {1, 0, 5}, {0, 5, 5}, {1, 0, 0}};
    const attn_ctx *ctx = ctx_for(test_set(state), 2);

    for (size_t n = 0; n < sizeof shapes / sizeof *shapes; n++) {
        problem p = problem_make(ctx, ATTN_F32, ADDED, shapes[n][0], shapes[n][1], shapes[n][2]);
        subject s = subject_make(&p);
        way w = {.ctx = ctx, .n = p.b};
        gradient_call c;

        gradient_make(&c, &s, &w);
        gradient_forward(ctx, &c);
        gradient_backward(&c, &w);
        expect_within_bounds(&c, "nothing to attend");
        arena_reset(&problem_mem);
    }
}

/* --- What does not meet --------------------------------------------------------------------- */

typedef struct met {
    unsigned char *row, *key; /* [B][H][Tq], [B][Hk][Tk]: reached by what was changed */
} met;

/* Rows that attend key row j of (s, hk), or the one row i of (s, h) if i >= 0; then every key they
 * attend. */
static met find_met(trial *t, int64_t s, int64_t h, int64_t i, int64_t j)
{
    arena *a = &t->memory;
    met m = {arena_get(a, (size_t)(t->b * t->h * t->tq)),
             arena_get(a, (size_t)(t->b * t->hk * t->tk))};

    memset(m.row, 0, (size_t)(t->b * t->h * t->tq));
    memset(m.key, 0, (size_t)(t->b * t->hk * t->tk));
    for (int64_t head = 0; head < t->h; head++)
        for (int64_t row = 0; row < t->tq; row++) {
            if (i >= 0 ? head != h || row != i
                       : head / t->group != h || !trial_attends(t, s, head, row, j))
                continue;
            m.row[(s * t->h + head) * t->tq + row] = 1;
            for (int64_t key = 0; key < t->tk; key++)
                if (trial_attends(t, s, head, row, key))
                    m.key[(s * t->hk + head / t->group) * t->tk + key] = 1;
        }
    return m;
}

/* Rows of two views that are not marked are equal bit for bit. */
static int same_but_for(const attn_view *a, const attn_view *b, const unsigned char *marked)
{
    int64_t n = a->size[0] * a->size[1] * a->size[2];

    for (int64_t row = 0; row < n; row++) {
        int64_t i = row % a->size[2], h = row / a->size[2] % a->size[1];
        int64_t at = row / a->size[2] / a->size[1];

        for (int64_t c = 0; c < a->size[3] && !marked[row]; c++)
            if (memcmp(ref_at(a, at, h, i, c), ref_at(b, at, h, i, c), attn_type_size(a->type)))
                return 0;
    }
    return 1;
}

static void run_plain(backward_trial *x, const attn_ctx *ctx, attn_view copies[3])
{
    attn_error err = {0};

    CHECK_MSG(attn_forward(ctx, &x->forward, &err) == ATTN_OK, "%s", err.text);
    CHECK_MSG(attn_backward(ctx, &x->args, &err) == ATTN_OK, "%s", err.text);
    const attn_view *from[] = {&x->args.dq, &x->args.dk, &x->args.dv};
    for (int i = 0; i < 3; i++)
        copies[i] = view_copy(&x->t.memory, &x->t.random, from[i], from[i]->type, LAYOUT_BHSD);
}

/* NaN or infinity in one row of q or dout, or of k or v: only gradients of the rows that attend it
 * and of the keys these attend may change. */
static void what_does_not_meet_is_not_reached(void **state)
{
    static const double bad[] = {(double)NAN, HUGE_VAL, -HUGE_VAL};
    int tried = 0;

    for (uint64_t index = 0; index < 250; index++) {
        rng r = rng_make(test_seed(), index);
        uint32_t options = (uint32_t)rng_next(&r) & (uint32_t)rng_next(&r) & BACKWARD_OPTIONS;
        const attn_ctx *ctx = ctx_for(test_set(state), 1 + (int)(index % 3));
        attn_view before[3], after[3];
        backward_trial x;
        trial *t = &x.t;

        options &= ~(uint32_t)(OPT_LAYOUTS | OPT_PACKED | OPT_POISON | OPT_WORKSPACE);
        backward_make(&x, test_seed(), index, options | OPT_KEEP, (uint32_t)index & EXTRA_DELTA,
                      GEN_BELL);
        if (t->b * t->h * t->tq * t->tk == 0) {
            backward_free(&x);
            continue;
        }
        run_plain(&x, ctx, before);
        int64_t s = rng_int(&r, 0, t->b - 1), i = rng_int(&r, 0, t->tq - 1);
        int64_t j = rng_int(&r, 0, t->tk - 1), h = rng_int(&r, 0, t->h - 1);
        int by_key = rng_chance(&r, 50);
        const attn_view *v = by_key ? (rng_chance(&r, 50) ? &t->args.k : &t->args.v)
                                    : (rng_chance(&r, 50) ? &t->args.q : &x.args.dout);
        met m = find_met(t, s, by_key ? h / t->group : h, by_key ? -1 : i, j);

        view_set(v, s, by_key ? h / t->group : h, by_key ? j : i, rng_int(&r, 0, v->size[3] - 1),
                 bad[rng_int(&r, 0, 2)]);
        run_plain(&x, ctx, after);
        char text[600];
        backward_describe(&x, text, sizeof text);
        CHECK_MSG(same_but_for(&before[0], &after[0], m.row), "trial %d, dq: %s", (int)index, text);
        CHECK_MSG(same_but_for(&before[1], &after[1], m.key), "trial %d, dk: %s", (int)index, text);
        CHECK_MSG(same_but_for(&before[2], &after[2], m.key), "trial %d, dv: %s", (int)index, text);
        tried++;
        backward_free(&x);
    }
    CHECK(tried > 200);
}

/* --- Sums ----------------------------------------------------------------------------------- */

/* Without a sink and dlse the rows of dt add up to 0: what a key gains another loses. Where rows
 * attend something, the columns of dv add up to those of dout. */
static void sums_of_rows_and_columns(void **state)
{
    const attn_ctx *ctx = ctx_for(test_set(state), 3);

    for (int options = PLAIN; options <= POSITIONS; options++) {
        problem p = problem_make(ctx, ATTN_F32, options, 2, 45, 600);
        subject s = subject_make(&p);
        way w = {.ctx = ctx, .n = 2};
        ref_options none = {0};
        ref_gradients r;
        gradient_call c;

        gradient_make(&c, &s, &w);
        memset(&c.a.dlse, 0, sizeof c.a.dlse);
        gradient_forward(ctx, &c);
        gradient_backward(&c, &w);
        ref_backward(&c.a, &none, &r);
        for (int64_t row = 0; row < p.b * p.h * p.tq; row++) {
            double sum = 0, bound = 0;

            for (int64_t j = 0; j < p.tk; j++) {
                sum += (double)((float *)c.a.dbias.data + row * p.tk)[j];
                bound += r.dbias.bound[row * p.tk + j];
            }
            CHECK_MSG(fabs(sum) <= bound, "row %lld: %g, bound %g", (long long)row, sum, bound);
        }
        for (int64_t b = 0; b < p.b; b++)
            for (int64_t hk = 0; hk < p.hk; hk++)
                for (int64_t e = 0; e < p.dv; e++) {
                    double sum = 0, bound = 0, want = 0;

                    for (int64_t j = 0; j < p.tk; j++) {
                        sum += view_get(&c.a.dv, b, hk, j, e);
                        bound += r.dv.bound[((b * p.hk + hk) * p.tk + j) * p.dv + e];
                    }
                    for (int64_t h = 2 * hk; h < 2 * hk + 2; h++)
                        for (int64_t i = 0; i < p.tq; i++)
                            want += view_get(&c.a.dout, b, h, i, e);
                    CHECK_MSG(fabs(sum - want) <= bound, "column sum %g, dout %g", sum, want);
                }
        ref_gradients_free(&r);
        arena_reset(&problem_mem);
    }
}

/* With the LSE of all keys, gradients of two parts of the keys: dq and the rest add up to or make
 * up those of the whole. */
static void parts_of_keys_add_up(void **state)
{
    static const int64_t cuts[] = {1, 64, 300, 512, 699};
    const attn_ctx *ctx = ctx_for(test_set(state), 2);

    for (size_t n = 0; n < sizeof cuts / sizeof *cuts * OPTION_SETS; n++) {
        problem p = problem_make(ctx, ATTN_F32, (int)(n % OPTION_SETS), 1, 40, 700);
        subject s = subject_make(&p);
        way w = {.ctx = ctx, .n = 1};
        gradient_call whole, part[2];
        attn_view sum = view_plain(&problem_mem, ATTN_F32, 1, p.h, p.tq, p.d);
        int64_t at[] = {0, cuts[n / OPTION_SETS], p.tk};
        char why[300];

        gradient_make(&whole, &s, &w);
        gradient_forward(ctx, &whole);
        view_fill(&sum, 0);
        for (int i = 0; i < 2; i++) {
            attn_view k = view_rows(&p.k, at[i], at[i + 1] - at[i]);
            attn_view v = view_rows(&p.v, at[i], at[i + 1] - at[i]);

            s.given[0] = k;
            s.given[1] = v;
            gradient_make(&part[i], &s, &w);
            p.mask.k_offset = at[i];
            p.mask.keep = view_columns(&p.mask.keep, at[i], at[i + 1] - at[i]);
            p.mask.bias = view_columns(&p.mask.bias, at[i], at[i + 1] - at[i]);
            part[i].f.out = whole.f.out;
            part[i].f.lse = whole.f.lse;
            gradient_backward(&part[i], &w);
            for (int64_t row = 0; row < p.h * p.tq; row++)
                for (int64_t c = 0; c < p.d; c++) {
                    float *to = (float *)sum.data + row * p.d + c;

                    *to += ((float *)part[i].a.dq.data)[row * p.d + c];
                }
        }
        s.given[0].data = NULL;
        gradient_make(&part[0], &s, &w); /* the whole call's mask again */
        whole.a.forward = &whole.f;
        whole.a.dq = sum;
        memset(&whole.a.dk, 0, sizeof whole.a.dk);
        memset(&whole.a.dv, 0, sizeof whole.a.dv);
        memset(&whole.a.dbias, 0, sizeof whole.a.dbias);
        memset(&whole.a.dsink, 0, sizeof whole.a.dsink);
        memset(&whole.a.dalibi, 0, sizeof whole.a.dalibi);
        ref_options none = {0};
        ref_gradients r;
        ref_backward(&whole.a, &none, &r);
        CHECK_MSG(ref_compare_gradients(&whole.a, NULL, &r, NULL, why, sizeof why) == 0,
                  "cut at %lld: %s", (long long)at[1], why);
        ref_gradients_free(&r);
        arena_reset(&problem_mem);
    }
}

/* Equal keys: every logit of a row is the same, dP - delta cancels, the true dq is nearly 0. */
static void equal_keys_stay_within_bounds(void **state)
{
    const attn_ctx *ctx = ctx_for(test_set(state), 1);

    for (int same_values = 0; same_values < 2; same_values++) {
        problem p = problem_make(ctx, ATTN_F32, PLAIN, 1, 30, 130);
        subject s = subject_make(&p);
        way w = {.ctx = ctx, .n = 1};
        gradient_call c;

        for (int64_t h = 0; h < p.hk; h++)
            for (int64_t j = 1; j < p.tk; j++) {
                for (int64_t e = 0; e < p.d; e++)
                    view_set(&p.k, 0, h, j, e, view_get(&p.k, 0, h, 0, e));
                for (int64_t e = 0; e < p.dv && same_values; e++)
                    view_set(&p.v, 0, h, j, e, view_get(&p.v, 0, h, 0, e));
            }
        gradient_make(&c, &s, &w);
        gradient_forward(ctx, &c);
        gradient_backward(&c, &w);
        expect_within_bounds(&c, "equal keys");
        arena_reset(&problem_mem);
    }
}

/* --- Derivatives and errors ----------------------------------------------------------------- */

static double loss(const gradient_call *c)
{
    double sum = 0;

    for (int64_t b = 0; b < c->f.q.size[0]; b++)
        for (int64_t h = 0; h < c->f.q.size[1]; h++)
            for (int64_t i = 0; i < c->f.q.size[2]; i++) {
                for (int64_t e = 0; e < c->f.v.size[3]; e++)
                    sum += view_get(&c->a.dout, b, h, i, e) * view_get(&c->f.out, b, h, i, e);
                if (isfinite(view_get(&c->f.lse, b, h, i, 0)))
                    sum += view_get(&c->a.dlse, b, h, i, 0) * view_get(&c->f.lse, b, h, i, 0);
            }
    return sum;
}

/* v += by * direction, over contiguous doubles. */
static void move(const attn_view *v, const double *direction, double by)
{
    for (int64_t e = 0; e < view_count(v); e++)
        ((double *)v->data)[e] += by * direction[e];
}

/* In f64 the library's own forward says what its gradients are, in each input. */
static void check_derivatives(const attn_ctx *ctx, int options, int64_t keys)
{
    const double step = 0x1p-14;
    problem p = problem_make(ctx, ATTN_F64, options, 2, 20, keys);
    subject s = subject_make(&p);
    rng r = rng_make(test_seed(), (uint64_t)options);
    way w = {.ctx = ctx, .n = 2};
    gradient_call c;

    gradient_make(&c, &s, &w);
    gradient_forward(ctx, &c);
    gradients g = gradient_backward(&c, &w);
    const attn_view *inputs[GRADIENTS] = {&c.f.q,       &c.f.k,    &c.f.v,
                                          &p.mask.bias, &c.f.sink, &p.mask.alibi};
    for (int n = 0; n < GRADIENTS; n++) {
        int64_t count = inputs[n]->data ? view_count(inputs[n]) : 0;
        double want = 0, size = 1e-2, got;
        double *direction = arena_get(&problem_mem, (size_t)count * sizeof *direction);
        double h = n == DALIBI ? step / 64 : step;

        if (!g.of[n].data || count == 0)
            continue;
        for (int64_t e = 0; e < count; e++) {
            direction[e] = rng_range(&r, -1, 1);
            want += direction[e] * ((double *)g.of[n].data)[e];
            size += fabs(direction[e] * ((double *)g.of[n].data)[e]);
        }
        move(inputs[n], direction, h);
        gradient_forward(ctx, &c);
        got = loss(&c);
        move(inputs[n], direction, -2 * h);
        gradient_forward(ctx, &c);
        got = (got - loss(&c)) / (2 * h);
        move(inputs[n], direction, h);
        CHECK_MSG(fabs(got - want) <= 1e-5 * size, "%s, options %d: difference %.10g, %.10g",
                  gradient_names[n], options, got, want);
    }
    arena_reset(&problem_mem);
}

static void directional_derivatives(void **state)
{
    for (int options = 0; options < OPTION_SETS; options++)
        check_derivatives(ctx_for(test_set(state), 2), options, 150);
    /* One thread takes the chunks of a sequence in turn; there are three. */
    check_derivatives(ctx_for(test_set(state), 1), 0, 600);
}

/* Several keys with the largest logit and values of one sign: an error of O that leans to one side
 * would lean every dt (arXiv 2510.04212). By way of out in f32 and of delta from forward. */
static void errors_do_not_lean(void **state)
{
    enum { HEADS = 40, MANY = 100, EQUAL = 4, WIDTH = 16 };
    const attn_ctx *ctx = ctx_for(test_set(state), 2);

    for (int with_delta = 0; with_delta < 2; with_delta++) {
        arena a = {0};
        rng r = rng_make(test_seed(), 77);
        attn_forward_args f = ATTN_FORWARD_ARGS_INIT;
        attn_backward_args b = ATTN_BACKWARD_ARGS_INIT;
        ref_options none = {0};
        ref_gradients want;
        double sum = 0, squares = 0;

        f.q = view_plain(&a, ATTN_BF16, 1, HEADS, MANY, WIDTH);
        f.k = view_plain(&a, ATTN_BF16, 1, HEADS, EQUAL + 2, WIDTH);
        f.v = view_plain(&a, ATTN_BF16, 1, HEADS, EQUAL + 2, WIDTH);
        f.out = view_plain(&a, with_delta ? ATTN_BF16 : ATTN_F32, 1, HEADS, MANY, WIDTH);
        f.lse = view_plain(&a, ATTN_F32, 1, HEADS, MANY, 1);
        b.dout = view_plain(&a, ATTN_BF16, 1, HEADS, MANY, WIDTH);
        b.dbias = view_plain(&a, ATTN_F32, 1, HEADS, MANY, EQUAL + 2);
        b.forward = &f;
        view_uniform(&f.q, &r, 0.5, 2);
        view_uniform(&f.v, &r, 0.5, 1);
        view_uniform(&b.dout, &r, -1, 1);
        for (int64_t h = 0; h < HEADS; h++)
            for (int64_t j = 0; j < EQUAL + 2; j++)
                for (int64_t c = 0; c < WIDTH; c++)
                    view_set(&f.k, 0, h, j, c, j < EQUAL ? 1 : -2);
        if (with_delta) {
            f.dout = b.dout;
            f.delta = b.delta = view_plain(&a, ATTN_F32, 1, HEADS, MANY, 1);
        }
        CHECK(attn_forward(ctx, &f, NULL) == ATTN_OK);
        CHECK(attn_backward(ctx, &b, NULL) == ATTN_OK);
        ref_backward(&b, &none, &want);
        for (int64_t row = 0; row < HEADS * MANY; row++) {
            double lean = 0;

            for (int64_t j = 0; j < EQUAL; j++) {
                int64_t e = row * (EQUAL + 2) + j;

                lean += (double)((float *)b.dbias.data)[e] - want.dbias.want[e];
            }
            sum += lean;
            squares += lean * lean;
        }
        print_message("mean %.3g, sigma of the mean %.3g\n", sum / (HEADS * MANY),
                      sqrt(squares) / (HEADS * MANY));
        CHECK(squares > 0 && fabs(sum) <= 4 * sqrt(squares));
        ref_gradients_free(&want);
        arena_reset(&a);
    }
}

int main(int argc, char **argv)
{
    static const test_case tests[] = {
        {"empty rows give zeros", empty_rows_give_zeros, 1},
        {"no keys and no rows", no_keys_and_no_rows, 1},
        {"what does not meet is not reached", what_does_not_meet_is_not_reached, 1},
        {"sums of rows and columns", sums_of_rows_and_columns, 1},
        {"parts of keys add up", parts_of_keys_add_up, 1},
        {"equal keys stay within bounds", equal_keys_stay_within_bounds, 1},
        {"directional derivatives", directional_derivatives, 1},
        {"errors do not lean", errors_do_not_lean, 1},
    };

    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
