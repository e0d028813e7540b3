/* test_special.c: NaN, infinities, denormals, -0 and the largest values at every lane, tail and
 * block edge, masked and attended, in every type: the table "NaN, infinities, empty rows" of
 * docs/numerics.md.
 *
 * One call holds both sides: query row 0 masks the special key, the other rows attend it, and head
 * 0 never sees it. What does not attend the value must have the bits of a call without it; what
 * does must show exactly what plain arithmetic shows.
 */
#include "include/attn/attn.h"
#include "tests/expect.h"
#include "tests/ref.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { HEADS = 2, WIDTH = 5, COLUMN = 3 };

/* So wide that few queries over more than one split are worth sharing among workers (2^20
 * products). */
enum { WIDE = 128 };

static const attn_type types[] = {ATTN_F32, ATTN_F16, ATTN_BF16, ATTN_F64};
static arena mem;
static int full;

/* A small call whose special key is `j`. */
typedef struct scene {
    attn_type type;
    int64_t tq, tk, j, width;
    attn_view q, k, v, keep, bias;
    attn_view out, lse;
    attn_mask mask;
    attn_kernel_set set;
} scene;

/* Where the value goes. */
typedef enum place { IN_K, IN_V, IN_BIAS, IN_Q, PLACES } place;

static const char *const place_names[] = {"k", "v", "bias", "q"};

/* --- The scene ------------------------------------------------------------------------------ */

static attn_view values(rng *r, attn_type type, int64_t h, int64_t n, int64_t d)
{
    attn_view v = view_plain(&mem, type, 1, h, n, d);

    view_uniform(&v, r, 0.25, 1.5); /* no zeros: 0 * inf would be NaN */
    return v;
}

static scene scene_make(attn_kernel_set set, attn_type type, int64_t tq, int64_t tk, int64_t width)
{
    attn_type wide = type == ATTN_F64 ? ATTN_F64 : ATTN_F32;
    rng r = rng_make(test_seed(), (uint64_t)(tq * 4096 + tk));
    scene s = {.type = type, .tq = tq, .tk = tk, .width = width, .set = set};

    s.q = values(&r, type, HEADS, tq, width);
    s.k = values(&r, type, HEADS, tk, width);
    s.v = values(&r, type, HEADS, tk, width);
    s.bias = values(&r, wide, HEADS, 1, tk);
    s.keep = view_plain(&mem, ATTN_U8, 1, 1, tq, tk);
    s.out = view_plain(&mem, wide, 1, HEADS, tq, width);
    s.lse = view_plain(&mem, wide, 1, HEADS, tq, 1);
    view_fill(&s.keep, 1);
    return s;
}

static attn_forward_args scene_args(scene *s)
{
    attn_forward_args a = ATTN_FORWARD_ARGS_INIT;

    s->mask = (attn_mask)ATTN_MASK_INIT;
    s->mask.keep = s->keep;
    s->mask.bias = s->bias;
    a.q = s->q;
    a.k = s->k;
    a.v = s->v;
    a.out = s->out;
    a.lse = s->lse;
    a.mask = &s->mask;
    return a;
}

static void scene_run(scene *s)
{
    attn_forward_args a = scene_args(s);
    attn_error err = {ATTN_OK, 0, ""};

    view_fill(&s->out, 77);
    CHECK_MSG(attn_forward(ctx_for(s->set, 2), &a, &err) == ATTN_OK, "%s", err.text);
}

/* The view, row and column that hold the special value; head 1. */
static const attn_view *site(const scene *s, place where, int64_t *row, int64_t *column)
{
    *row = where == IN_BIAS ? 0 : where == IN_Q ? s->tq - 1 : s->j;
    *column = where == IN_BIAS ? s->j : COLUMN;
    return where == IN_K ? &s->k : where == IN_V ? &s->v : where == IN_Q ? &s->q : &s->bias;
}

static double exchange(const scene *s, place where, double value)
{
    int64_t row, column;
    const attn_view *v = site(s, where, &row, &column);
    double was = view_get(v, 0, 1, row, column);

    view_set(v, 0, 1, row, column, value);
    return was;
}

/* --- What must come out --------------------------------------------------------------------- */

static int row_is_nan(const scene *s, int64_t h, int64_t i)
{
    int all = isnan(view_get(&s->lse, 0, h, i, 0));

    for (int64_t c = 0; c < s->width; c++)
        all &= isnan(view_get(&s->out, 0, h, i, c)) != 0;
    return all;
}

static int row_is_finite(const scene *s, int64_t h, int64_t i)
{
    int all = isfinite(view_get(&s->lse, 0, h, i, 0));

    for (int64_t c = 0; c < s->width; c++)
        all &= isfinite(view_get(&s->out, 0, h, i, c)) != 0;
    return all;
}

static int same_row(const attn_view *a, const attn_view *b, int64_t h, int64_t i)
{
    attn_view x = view_part(a, 1, h, 1), y = view_part(b, 1, h, 1);

    x = view_part(&x, 2, i, 1);
    y = view_part(&y, 2, i, 1);
    return view_same_bits(&x, &y);
}

/* Only the output column of the value is touched by it. */
static int only_column(const scene *s, const attn_view *plain, int64_t i, double value)
{
    double got = view_get(&s->out, 0, 1, i, COLUMN);
    int right = isnan(value) ? isnan(got) != 0 : got == value;

    for (int64_t c = 0; c < s->width; c++)
        if (c != COLUMN)
            right &= view_get(&s->out, 0, 1, i, c) == view_get(plain, 0, 1, i, c);
    return right;
}

/* Row i of head 1, which attends the value. */
static int right_row(const scene *s, const attn_view *plain, int64_t i, place where, double value)
{
    if (where == IN_V && !isfinite(value))
        return only_column(s, plain, i, value);
    if (isnan(value) || value == (double)INFINITY) /* a logit of NaN, or inf - inf */
        return row_is_nan(s, 1, i);
    if (value == -(double)INFINITY) { /* a weight of 0; all logits -inf by overflow is no empty row
                                       */
        if (where == IN_BIAS && s->tk == 1)
            return view_get(&s->out, 0, 1, i, 0) == 0 &&
                   view_get(&s->lse, 0, 1, i, 0) == -(double)INFINITY;
        if (where == IN_Q || s->tk == 1)
            return row_is_nan(s, 1, i);
        return row_is_finite(s, 1, i);
    }
    return 1; /* finite: the reference decides */
}

static void against_reference(scene *s, const char *what)
{
    attn_forward_args a = scene_args(s);
    char why[300] = "";
    ref want;

    ref_forward(&a, &want);
    int bad = ref_compare(&a, &want, NULL, why, sizeof why);
    ref_free(&want);
    CHECK_MSG(bad == 0, "%s: %s", what, why);
}

/* --- One value at one place ----------------------------------------------------------------- */

static void check_value(scene *s, const attn_view *plain, const attn_view *plain_lse, place where,
                        double value, int reference)
{
    char what[200];
    double was = exchange(s, where, value);

    snprintf(what, sizeof what, "%s %g in %s, key %d of %d, %d queries", attn_type_name(s->type),
             value, place_names[where], (int)s->j, (int)s->tk, (int)s->tq);
    scene_run(s);
    for (int64_t h = 0; h < HEADS; h++)
        for (int64_t i = 0; i < s->tq; i++) {
            int attends = h == 1 && (where == IN_Q ? i == s->tq - 1 : i > 0);

            if (attends)
                CHECK_MSG(right_row(s, plain, i, where, value), "%s: row %d is wrong", what,
                          (int)i);
            else
                CHECK_MSG(same_row(&s->out, plain, h, i) && same_row(&s->lse, plain_lse, h, i),
                          "%s: reached row %d of head %d, which masks it", what, (int)i, (int)h);
        }
    if (reference)
        against_reference(s, what);
    exchange(s, where, was);
}

/* Near the largest finite value; for f64 the bound's own arithmetic must not overflow. */
static double largest(attn_type type)
{
    return type == ATTN_F16 ? 65504 : type == ATTN_F64 ? 1e300 : (double)3.3e38f;
}

static double smallest(attn_type type)
{
    return type == ATTN_F16 ? 0x1p-24 : type == ATTN_F64 ? 0x1p-1074 : 0x1p-133;
}

static void check_key(scene *s, int reference)
{
    const double values_of[] = {(double)NAN, (double)INFINITY,  -(double)INFINITY,
                                -0.0,        smallest(s->type), -largest(s->type)};
    rng r = rng_make(1, 1);

    view_fill(&s->keep, 1);
    view_set(&s->keep, 0, 0, 0, s->j, 0);
    scene_run(s);
    attn_view plain = view_copy(&mem, &r, &s->out, s->out.type, LAYOUT_BHSD);
    attn_view plain_lse = view_copy(&mem, &r, &s->lse, s->lse.type, LAYOUT_BHSD);
    for (int where = 0; where < PLACES; where++)
        for (size_t n = 0; n < sizeof values_of / sizeof *values_of; n++)
            check_value(s, &plain, &plain_lse, (place)where, values_of[n], reference);
}

static void at_every_key(void **state)
{
    static const int64_t lengths[] = {1, 2, 17, 64, 65, 130};

    for (int t = 0; t < 4; t++)
        for (size_t n = 0; n < sizeof lengths / sizeof *lengths; n++)
            for (int64_t j = 0; j < lengths[n]; j++) {
                scene s = scene_make(test_set(state), types[t], j % 3 ? 3 : 18, lengths[n], WIDTH);

                s.j = j;
                check_key(&s, full || j % 9 == 0 || j == lengths[n] - 1);
                arena_reset(&mem);
            }
}

static void at_the_edges_of_splits(void **state)
{
    static const int64_t keys[] = {0, 63, 64, 447, 448, 511, 512, 513, 575, 576, 1023, 1024, 1039};

    for (int t = 0; t < 4; t++)
        for (size_t n = 0; n < sizeof keys / sizeof *keys; n++) {
            scene s =
                scene_make(test_set(state), types[t], n % 2 ? 2 : 17, 1040, n % 2 ? WIDE : WIDTH);

            s.j = keys[n];
            check_key(&s, 0);
            arena_reset(&mem);
        }
}

/* Every column of K, Q and V, so every lane of the width: a NaN anywhere in k makes the row NaN. */
static void at_every_column(void **state)
{
    attn_kernel_set set = test_set(state);

    for (int t = 0; t < 4; t++)
        for (int64_t width = 1; width <= 70; width += width < 36 ? 1 : 17)
            for (int64_t c = 0; c < width; c++) {
                attn_forward_args a = ATTN_FORWARD_ARGS_INIT;
                rng r = rng_make(test_seed(), (uint64_t)width);

                a.q = values(&r, types[t], 1, 2, width);
                a.k = values(&r, types[t], 1, 9, width);
                a.v = values(&r, types[t], 1, 9, width);
                a.out = view_plain(&mem, types[t], 1, 1, 2, width);
                view_set(&a.v, 0, 0, 4, c, (double)NAN);
                CHECK(attn_forward(ctx_for(set, 1), &a, NULL) == ATTN_OK);
                for (int64_t n = 0; n < 2 * width; n++)
                    CHECK_MSG((isnan(view_get(&a.out, 0, 0, n / width, n % width)) != 0) ==
                                  (n % width == c),
                              "NaN in column %d of v, width %d", (int)c, (int)width);
                view_set(&a.v, 0, 0, 4, c, 1);
                view_set(c % 2 ? &a.k : &a.q, 0, 0, 1, c, (double)NAN);
                CHECK(attn_forward(ctx_for(set, 1), &a, NULL) == ATTN_OK);
                for (int64_t i = 0; i < 2; i++)
                    CHECK_MSG(
                        (isnan(view_get(&a.out, 0, 0, i, width - 1)) != 0) == (c % 2 || i == 1),
                        "NaN in column %d of %s, width %d", (int)c, c % 2 ? "k" : "q", (int)width);
                arena_reset(&mem);
            }
}

/* --- Keys that no row may see --------------------------------------------------------------- */

/* Each way of hiding a key hides NaN in it. */
static void hide(scene *s, attn_forward_args *a, int way, int64_t ends[2])
{
    attn_mask *m = &s->mask;

    *a = scene_args(s);
    view_fill(&s->keep, 1);
    ends[0] = 0, ends[1] = s->j;
    if (way == 0)
        for (int64_t i = 0; i < s->tq; i++)
            view_set(&s->keep, 0, 0, i, s->j, 0);
    if (way == 1) /* the key is the last that is not there */
        m->k_count = &ends[1], a->k.size[2] = a->v.size[2] = s->tk;
    if (way == 2) {
        ends[0] = s->j + 1;
        m->k_start = &ends[0];
    }
    if (way == 3)
        m->causal = 1, m->q_offset = s->j - s->tq;
    if (way == 4)
        m->window = 1, m->window_left = s->tk, m->window_right = 0, m->q_offset = s->j - s->tq;
    if (way == 5)
        m->window = 1, m->window_left = 0, m->window_right = s->tk, m->q_offset = s->j + 1;
}

enum { WAYS = 6 };

/* Rows of head 1 with the hidden key as it is, then poisoned in both K and V. */
static void check_hidden(scene *s, int way)
{
    rng r = rng_make(1, 1);
    attn_forward_args a;
    int64_t ends[2];
    attn_view plain;

    hide(s, &a, way, ends);
    CHECK(attn_forward(ctx_for(s->set, 2), &a, NULL) == ATTN_OK);
    plain = view_copy(&mem, &r, &s->out, s->out.type, LAYOUT_BHSD);
    for (int64_t c = 0; c < s->width; c++) {
        view_set(&s->k, 0, 1, s->j, c, (double)NAN);
        view_set(&s->v, 0, 1, s->j, c, c % 2 ? (double)INFINITY : (double)NAN);
    }
    view_set(&s->bias, 0, 1, 0, s->j, (double)NAN);
    view_fill(&s->out, 77);
    CHECK(attn_forward(ctx_for(s->set, 2), &a, NULL) == ATTN_OK);
    CHECK_MSG(view_same_bits(&s->out, &plain), "%s: key %d of %d hidden in way %d, %d queries",
              attn_type_name(s->type), (int)s->j, (int)s->tk, way, (int)s->tq);
}

static void hidden_keys_do_not_matter(void **state)
{
    for (int t = 0; t < 4; t++)
        for (int way = 0; way < WAYS; way++)
            for (int64_t n = 0; n < 90; n++) {
                int64_t tk = n < 70 ? 70 : 1040, j = n < 70 ? n : (n - 70) * 54 + 13;
                scene s = scene_make(test_set(state), types[t], n % 2 ? 3 : 20, tk,
                                     n % 2 && tk > 512 ? WIDE : WIDTH);

                s.j = j;
                check_hidden(&s, way);
                arena_reset(&mem);
            }
}

/* Whole blocks of NaN before and after what a row sees. */
static void hidden_blocks_do_not_matter(void **state)
{
    for (int t = 0; t < 4; t++)
        for (int64_t from = 0; from < 700; from += 97)
            for (int64_t n = 1; n < 700 - from; n += 131) {
                scene s = scene_make(test_set(state), types[t], (from + n) % 2 ? 3 : 20, 700,
                                     (from + n) % 2 ? WIDE : WIDTH);
                attn_forward_args a = scene_args(&s);
                rng r = rng_make(1, 1);

                view_fill(&s.keep, 0);
                for (int64_t i = 0; i < s.tq; i++)
                    for (int64_t j = from; j < from + n; j++)
                        view_set(&s.keep, 0, 0, i, j, 1);
                scene_run(&s);
                attn_view plain = view_copy(&mem, &r, &s.out, s.out.type, LAYOUT_BHSD);
                for (int64_t j = 0; j < 700; j++)
                    for (int64_t c = 0; c < s.width && (j < from || j >= from + n); c++) {
                        view_set(&s.k, 0, 0, j, c, (double)NAN);
                        view_set(&s.v, 0, 0, j, c, -(double)INFINITY);
                    }
                view_fill(&s.out, 77);
                CHECK(attn_forward(ctx_for(s.set, 2), &a, NULL) == ATTN_OK);
                CHECK_MSG(view_same_bits(&s.out, &plain), "%s: keys %d+%d of 700",
                          attn_type_name(s.type), (int)from, (int)n);
                arena_reset(&mem);
            }
}

/* --- Rows ----------------------------------------------------------------------------------- */

/* A row is empty by its mask alone: +0 and -inf whatever q, k and v hold. */
static void empty_rows_of_nan(void **state)
{
    for (int t = 0; t < 4; t++)
        for (int64_t tq = 1; tq < 40; tq += 6)
            for (int64_t tk = 0; tk < 700; tk = tk * 3 + 1) {
                scene s = scene_make(test_set(state), types[t], tq, tk, WIDTH);
                attn_view zero = view_copy(&mem, &(rng){1}, &s.out, s.out.type, LAYOUT_BHSD);

                view_fill(&zero, 0);
                view_fill(&s.q, (double)NAN);
                view_fill(&s.k, (double)NAN);
                view_fill(&s.v, (double)INFINITY);
                view_fill(&s.keep, 0);
                scene_run(&s);
                CHECK_MSG(view_same_bits(&s.out, &zero), "%s: %d queries, %d keys, all masked",
                          attn_type_name(s.type), (int)tq, (int)tk);
                for (int64_t n = 0; n < HEADS * tq; n++)
                    CHECK(view_get(&s.lse, 0, n / tq, n % tq, 0) == -(double)INFINITY);
                arena_reset(&mem);
            }
}

/* Sums of products beyond the type's range: never a silent finite value. */
static void overflowing_logits(void **state)
{
    static const attn_type wide_range[] = {ATTN_F32, ATTN_BF16};

    for (int t = 0; t < 2; t++)
        for (int sign = -1; sign <= 1; sign += 2)
            for (int64_t tk = 1; tk < 700; tk = tk * 4 + 1) {
                scene s = scene_make(test_set(state), wide_range[t], tk % 2 ? 3 : 20, tk,
                                     tk > 512 ? WIDE : WIDTH);

                view_fill(&s.q, 1e25);
                view_fill(&s.k, sign * 1e25);
                scene_run(&s);
                for (int64_t i = 0; i < s.tq; i++)
                    CHECK_MSG(row_is_nan(&s, 0, i), "all logits %sinf by overflow, %d keys",
                              sign < 0 ? "-" : "+", (int)tk);
                arena_reset(&mem);
            }
}

/* Denormal inputs are numbers: V near 2^-140 comes back, in every path. */
static void denormals_are_honoured(void **state)
{
    static const attn_type with_small[] = {ATTN_F32, ATTN_BF16, ATTN_F16};

    for (int t = 0; t < 3; t++)
        for (int64_t tq = 2; tq < 40; tq += 18) {
            scene s = scene_make(test_set(state), with_small[t], tq, 75, WIDTH);
            double tiny = with_small[t] == ATTN_F16 ? 0x1p-23 : 0x1p-130;

            view_fill(&s.v, tiny);
            view_fill(&s.q, tiny);
            view_fill(&s.bias, 0);
            scene_run(&s);
            for (int64_t n = 0; n < HEADS * tq * s.width; n++) {
                double got = view_get(&s.out, 0, n / s.width / tq, n / s.width % tq, n % s.width);

                CHECK_MSG(fabs(got - tiny) <= tiny * 0.01, "%s: mean of %g is %g",
                          attn_type_name(s.type), tiny, got);
            }
            arena_reset(&mem);
        }
}

/* exp far below the maximum is exactly 0, from -104 to -inf. */
static void far_below_the_maximum(void **state)
{
    static const double below[] = {-104.5, -150, -1e3, -1e4, -1e8, -1e20, -3e38};

    for (size_t n = 0; n < sizeof below / sizeof *below; n++)
        for (int64_t j = 0; j < 70; j++) {
            scene s = scene_make(test_set(state), ATTN_F32, j % 2 ? 2 : 17, 70, WIDTH);

            view_fill(&s.q, 0);
            view_fill(&s.bias, below[n]);
            view_set(&s.bias, 0, 0, 0, j, 0);
            view_set(&s.bias, 0, 1, 0, j, 0);
            scene_run(&s);
            for (int64_t c = 0; c < HEADS * s.width; c++)
                CHECK_MSG(view_get(&s.out, 0, c / s.width, s.tq - 1, c % s.width) ==
                              view_get(&s.v, 0, c / s.width, j, c % s.width),
                          "one key at 0, 69 at %g: not its value", below[n]);
            CHECK(view_get(&s.lse, 0, 0, 0, 0) == 0);
            arena_reset(&mem);
        }
}

int main(int argc, char **argv)
{
    static const test_case tests[] = {
        {"at_every_key", at_every_key, 1},
        {"at_the_edges_of_splits", at_the_edges_of_splits, 1},
        {"at_every_column", at_every_column, 1},
        {"hidden_keys_do_not_matter", hidden_keys_do_not_matter, 1},
        {"hidden_blocks_do_not_matter", hidden_blocks_do_not_matter, 1},
        {"empty_rows_of_nan", empty_rows_of_nan, 1},
        {"overflowing_logits", overflowing_logits, 1},
        {"denormals_are_honoured", denormals_are_honoured, 1},
        {"far_below_the_maximum", far_below_the_maximum, 1},
    };

    if (argc > 1 && strcmp(argv[1], "--full") == 0) {
        full = 1;
        argv[1] = argv[0];
        argc--, argv++;
    }
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
