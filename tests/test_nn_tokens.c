/* test_nn_tokens.c: embeddings, sinusoids, rotation and dropout called one by one: against plain
 * formulas and differences in f64, their bits for any threads, and what they refuse. */
#include "include/attn/nn.h"
#include "tests/nn_layer.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

/* --- Tokens and places ---------------------------------------------------------------------- */

static int32_t *numbers(rng *r, int64_t n, int64_t low, int64_t high)
{
    int32_t *id = arena_get(&layer_memory, (size_t)n * sizeof *id);

    for (int64_t i = 0; i < n; i++)
        id[i] = (int32_t)rng_int(r, low, high);
    return id;
}

static double embedding_loss(void *call)
{
    attn_embedding_args *a = call;

    CHECK(attn_embedding_forward(layer_ctx(), a, NULL) == ATTN_OK);
    return view_dot(&a->dout, &a->out);
}

static void check_sum_of_rows(const attn_embedding_args *a)
{
    double scale = a->scale == 0 ? 1 : a->scale;

    for (int64_t t = 0; t < a->out.size[2]; t++)
        for (int64_t c = 0; c < a->out.size[3]; c++) {
            double want = 0;

            if (a->ids[t] >= 0)
                want += scale * view_get(&a->table, 0, 0, a->ids[t], c);
            if (a->positions.data)
                want += view_get(&a->positions, 0, 0, a->places ? a->places[t] : t, c);
            if (a->type_table.data)
                want += view_get(&a->type_table, 0, 0, a->types ? a->types[t] : 0, c);
            CHECK(fabs(view_get(&a->out, 0, 0, t, c) - want) < 1e-14 * (fabs(want) + 10));
        }
}

static void embeddings(void **state)
{
    rng r = rng_make(test_seed(), test_index(state));

    for (int i = 0; i < 20; i++) {
        attn_embedding_args a = ATTN_EMBEDDING_ARGS_INIT;
        int64_t rows = rng_int(&r, 1, 90), n = rng_int(&r, 1, 40);

        a.ids = numbers(&r, rows, -1, 8);
        a.table = bells(&r, ATTN_F64, 9, n);
        a.dtable = zeros(&r, ATTN_F64, 9, n);
        a.scale = i % 3 ? 1.75 : 0;
        if (i % 2) {
            a.places = i % 4 == 1 ? numbers(&r, rows, 0, 89) : NULL;
            a.positions = bells(&r, ATTN_F64, 90, n);
            a.dpositions = zeros(&r, ATTN_F64, 90, n);
        }
        if (i / 2 % 2) {
            a.types = i / 4 % 2 ? numbers(&r, rows, 0, 1) : NULL;
            a.type_table = bells(&r, ATTN_F64, 2, n);
            a.dtype_table = zeros(&r, ATTN_F64, 2, n);
        }
        a.out = bells(&r, ATTN_F64, rows, n);
        a.dout = bells(&r, ATTN_F64, rows, n);
        embedding_loss(&a);
        check_sum_of_rows(&a);
        CHECK(attn_embedding_backward(layer_ctx(), &a, NULL) == ATTN_OK);
        check_gradient(&r, embedding_loss, &a, &a.table, &a.dtable, "dtable");
        if (i % 2)
            check_gradient(&r, embedding_loss, &a, &a.positions, &a.dpositions, "dpositions");
        if (i / 2 % 2)
            check_gradient(&r, embedding_loss, &a, &a.type_table, &a.dtype_table, "dtype_table");
        arena_reset(&layer_memory);
    }
}

/* The three layouts as docs/nn.md has them, odd widths too. */
static void sinusoids(void **state)
{
    rng r = rng_make(test_seed(), test_index(state));

    for (int i = 0; i < 12; i++) {
        attn_positions kind = (attn_positions)(i % 3);
        int64_t d = rng_int(&r, 4, 21), offset = i % 2 ? 3 : 0, half = (d + 1) / 2;
        attn_view v = bells(&r, ATTN_F64, 7, d);

        CHECK(attn_sinusoids(layer_ctx(), kind, i % 4 ? 0 : 500, offset, &v, NULL) == ATTN_OK);
        for (int64_t p = 0; p < 7; p++)
            for (int64_t c = 0; c < d; c++) {
                double base = i % 4 ? 10000 : 500, angle, want;
                int64_t pair = kind == ATTN_POSITIONS_PAPER ? c / 2 : c % half;
                bool second = kind == ATTN_POSITIONS_PAPER ? c % 2 : c >= half;

                if (kind == ATTN_POSITIONS_T2T) {
                    pair = c % (d / 2);
                    second = c >= d / 2;
                    angle = 1 / pow(base, (double)pair / ((double)(d / 2) - 1));
                } else {
                    angle = 1 / pow(base, 2 * (double)pair / (double)d);
                }
                angle *= (double)(p + offset);
                want = second ? cos(angle) : sin(angle);
                if (kind == ATTN_POSITIONS_T2T && c == d - 1 && d % 2)
                    want = 0;
                CHECK_MSG(fabs(view_get(&v, 0, 0, p, c) - want) < 1e-12,
                          "layout %d, d %lld, [%lld][%lld]", (int)kind, (long long)d, (long long)p,
                          (long long)c);
            }
        arena_reset(&layer_memory);
    }
}

/* Turning is multiplication of complex numbers; the way back is the conjugate, so that it undoes it
 * and is the transpose of a rotation. Scores of turned rows depend on the distance alone. */
static void rotations(void **state)
{
    rng r = rng_make(test_seed(), test_index(state));

    for (int i = 0; i < 16; i++) {
        attn_rotary_args a = ATTN_ROTARY_ARGS_INIT;
        int64_t heads = rng_int(&r, 1, 4), rows = rng_int(&r, 1, 40), pairs = rng_int(&r, 1, 9);
        int64_t width = 2 * pairs + rng_int(&r, 0, 3);
        attn_view before;
        bool adjacent = i % 2;

        a.positions = adjacent ? ATTN_POSITIONS_ROTARY_PAIRS : ATTN_POSITIONS_ROTARY;
        a.table = view_new(&layer_memory, &r, ATTN_F64, 1, 3, 50, pairs, LAYOUT_BHSD);
        a.places = i % 4 < 2 ? numbers(&r, rows, 0, 49) : NULL;
        CHECK(attn_rotary_table(layer_ctx(), 100, 5, &a.table, NULL) == ATTN_OK);
        a.x = head_bells(&r, ATTN_F64, heads, rows, width, i % 3 ? LAYOUT_BSHD : LAYOUT_PADDED);
        before = view_copy(&layer_memory, &r, &a.x, ATTN_F64, LAYOUT_BHSD);
        CHECK(attn_rotary_forward(layer_ctx(), &a, NULL) == ATTN_OK);
        for (int64_t h = 0; h < heads; h++)
            for (int64_t t = 0; t < rows; t++)
                for (int64_t c = 0; c < width; c++) {
                    int64_t k = adjacent ? c / 2 : c % pairs, p = 5 + (a.places ? a.places[t] : t);
                    bool second = adjacent ? c % 2 : c >= pairs;
                    double angle = (double)p / pow(100, (double)k / (double)pairs), want;
                    double x0 = view_get(&before, 0, h, t, adjacent ? 2 * k : k);
                    double x1 = view_get(&before, 0, h, t, adjacent ? 2 * k + 1 : k + pairs);

                    want = second ? x1 * cos(angle) + x0 * sin(angle)
                                  : x0 * cos(angle) - x1 * sin(angle);
                    if (c >= 2 * pairs)
                        want = view_get(&before, 0, h, t, c);
                    CHECK(fabs(view_get(&a.x, 0, h, t, c) - want) < 1e-12);
                }
        CHECK(attn_rotary_backward(layer_ctx(), &a, NULL) == ATTN_OK);
        for (int64_t h = 0; h < heads; h++)
            for (int64_t t = 0; t < rows; t++)
                for (int64_t c = 0; c < width; c++)
                    CHECK(fabs(view_get(&a.x, 0, h, t, c) - view_get(&before, 0, h, t, c)) < 1e-12);
        arena_reset(&layer_memory);
    }
}

/* Kept cells are x / (1 - p) and the others add alone, in the same places on the way back; about p
 * of them; places depend on row and sequence, not on which rows a call has. */
static void dropouts(void **state)
{
    rng r = rng_make(test_seed(), test_index(state));
    int64_t rows = 60, n = 130, kept = 0;
    attn_dropout_args a = ATTN_DROPOUT_ARGS_INIT, part;

    a.rate = 0.3;
    a.seed = 99;
    a.site = 4;
    a.bits = arena_get(&layer_memory, (size_t)rows * 3 * sizeof *a.bits);
    a.x = bells(&r, ATTN_F64, rows, n);
    view_uniform(&a.x, &r, 1, 2);
    a.add = bells(&r, ATTN_F64, rows, n);
    a.out = bells(&r, ATTN_F64, rows, n);
    a.dout = bells(&r, ATTN_F64, rows, n);
    a.dx = bells(&r, ATTN_F64, rows, n);
    CHECK(attn_dropout_forward(layer_ctx(), &a, NULL) == ATTN_OK);
    CHECK(attn_dropout_backward(layer_ctx(), &a, NULL) == ATTN_OK);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t c = 0; c < n; c++) {
            double add = view_get(&a.add, 0, 0, i, c), out = view_get(&a.out, 0, 0, i, c);
            double x = view_get(&a.x, 0, 0, i, c), dx = view_get(&a.dx, 0, 0, i, c);
            bool keeps = out != add;

            kept += keeps;
            CHECK(fabs(out - (keeps ? add + x / 0.7 : add)) < 1e-12);
            CHECK(fabs(dx - (keeps ? view_get(&a.dout, 0, 0, i, c) / 0.7 : 0)) < 1e-12);
        }
    CHECK_MSG(fabs((double)kept / (double)(rows * n) - 0.7) < 0.03, "%lld kept", (long long)kept);
    {
        int32_t *position = numbers(&r, 10, 0, 0);
        attn_view same = view_part(&a.out, 2, 20, 10);

        part = a;
        for (int32_t i = 0; i < 10; i++)
            position[i] = 20 + i;
        part.positions = position;
        part.x = view_part(&a.x, 2, 20, 10);
        part.add = view_part(&a.add, 2, 20, 10);
        part.out = bells(&r, ATTN_F64, 10, n);
        CHECK(attn_dropout_forward(layer_ctx(), &part, NULL) == ATTN_OK);
        CHECK(view_same_bits(&part.out, &same));
        part.sequences = numbers(&r, 10, 1, 1);
        CHECK(attn_dropout_forward(layer_ctx(), &part, NULL) == ATTN_OK);
        CHECK(!view_same_bits(&part.out, &same));
    }
    a.rate = 0;
    a.bits = NULL;
    a.add = (attn_view){0};
    CHECK(attn_dropout_forward(layer_ctx(), &a, NULL) == ATTN_OK);
    CHECK(view_same_bits(&a.out, &a.x));
    arena_reset(&layer_memory);
}

/* --- Bits and errors ------------------------------------------------------------------------ */

/* Many rows of few ids: every worker has some of each. */
static void threads_change_nothing(void **state)
{
    rng r = rng_make(test_seed(), test_index(state));
    attn_embedding_args a = ATTN_EMBEDDING_ARGS_INIT, b;

    a.ids = numbers(&r, 700, -1, 40);
    a.table = bells(&r, ATTN_F32, 41, 100);
    a.positions = bells(&r, ATTN_F32, 700, 100);
    a.out = bells(&r, ATTN_F32, 700, 100);
    a.dout = bells(&r, ATTN_F32, 700, 100);
    a.dtable = zeros(&r, ATTN_F32, 41, 100);
    a.dpositions = zeros(&r, ATTN_F32, 700, 100);
    b = a;
    b.out = bells(&r, ATTN_F32, 700, 100);
    b.dtable = zeros(&r, ATTN_F32, 41, 100);
    b.dpositions = zeros(&r, ATTN_F32, 700, 100);
    CHECK(attn_embedding_forward(ctx_for(ATTN_SET_AUTO, 1), &a, NULL) == ATTN_OK);
    CHECK(attn_embedding_backward(ctx_for(ATTN_SET_AUTO, 1), &a, NULL) == ATTN_OK);
    CHECK(attn_embedding_forward(ctx_for(ATTN_SET_AUTO, 4), &b, NULL) == ATTN_OK);
    CHECK(attn_embedding_backward(ctx_for(ATTN_SET_AUTO, 4), &b, NULL) == ATTN_OK);
    CHECK(view_same_bits(&a.out, &b.out) && view_same_bits(&a.dtable, &b.dtable));
    CHECK(view_same_bits(&a.dpositions, &b.dpositions));
    CHECK(arena_poison_intact(&layer_memory));
    arena_reset(&layer_memory);
}

static void wrong_embeddings(void **state)
{
    rng r = rng_make(test_seed(), test_index(state));
    attn_embedding_args good = ATTN_EMBEDDING_ARGS_INIT, a;
    attn_error err = {0};
    int32_t *ids = numbers(&r, 5, 0, 8);

    good.ids = ids;
    good.table = bells(&r, ATTN_F32, 9, 8);
    good.out = bells(&r, ATTN_F32, 5, 8);
    good.positions = bells(&r, ATTN_F32, 5, 8);
#define BAD(change, status, start)                                                                 \
    REFUSES(change, attn_embedding_forward(layer_ctx(), &a, &err), status, start)
    BAD(a.struct_size = 1, ATTN_E_ARGUMENT, "args.struct_size");
    BAD(a.scale = (double)NAN, ATTN_E_ARGUMENT, "scale");
    BAD(a.ids = NULL, ATTN_E_ARGUMENT, "ids");
    BAD(a.table = (attn_view){0}, ATTN_E_SHAPE, "table");
    BAD(a.table.size[3] = 7, ATTN_E_SHAPE, "table: shape");
    BAD(a.table.type = ATTN_F64, ATTN_E_ARGUMENT, "table: type");
    BAD(a.positions.size[2] = 4, ATTN_E_SHAPE, "places: NULL");
    BAD(a.positions.size[3] = 7, ATTN_E_SHAPE, "positions: shape");
    BAD(a.positions.type = ATTN_F64, ATTN_E_ARGUMENT, "positions: type");
    BAD(a.type_table = a.table; a.type_table.size[3] = 7, ATTN_E_SHAPE, "type_table: shape");
    BAD(a.type_table = a.table; a.types = ids; a.type_table.size[2] = 0, ATTN_E_ARGUMENT, "types");
    BAD(a.out.type = ATTN_BF16, ATTN_E_ARGUMENT, "out: type");
    ids[3] = 9;
    BAD((void)0, ATTN_E_ARGUMENT, "ids[3]: 9, expected -1 to 8");
    ids[3] = -2;
    BAD((void)0, ATTN_E_ARGUMENT, "ids[3]: -2");
    BAD(a.places = ids; a.ids = NULL, ATTN_E_ARGUMENT, "ids: NULL");
    good.ids = numbers(&r, 5, 0, 4);
    ids = numbers(&r, 5, 0, 4);
    ids[3] = 5;
    BAD(a.places = ids, ATTN_E_ARGUMENT, "places[3]: 5, expected 0 to 4");
#undef BAD
#define BAD(change, status, start)                                                                 \
    REFUSES(change, attn_embedding_backward(layer_ctx(), &a, &err), status, start)
    good.dout = good.out;
    BAD(a.dout = (attn_view){0}, ATTN_E_SHAPE, "dout");
    BAD(a.dtable = a.table; a.dtable.size[3] = 7, ATTN_E_SHAPE, "dtable: shape");
    BAD(a.dpositions = a.positions;
        a.dpositions.type = ATTN_F64, ATTN_E_ARGUMENT, "dpositions: type");
    BAD(a.dtype_table = a.table; a.dtype_table.size[3] = 7, ATTN_E_SHAPE, "dtype_table: shape");
#undef BAD
    CHECK(attn_embedding_forward(NULL, &good, &err) == ATTN_E_ARGUMENT);
    CHECK(attn_embedding_backward(layer_ctx(), NULL, &err) == ATTN_E_ARGUMENT);
    arena_reset(&layer_memory);
}

static void wrong_places(void **state)
{
    rng r = rng_make(test_seed(), test_index(state));
    attn_rotary_args good = ATTN_ROTARY_ARGS_INIT, a;
    attn_view v = bells(&r, ATTN_F32, 5, 8);
    attn_error err = {0};
    int32_t *places = numbers(&r, 5, 0, 4);

    good.positions = ATTN_POSITIONS_ROTARY;
    good.table = view_new(&layer_memory, &r, ATTN_F32, 1, 3, 5, 4, LAYOUT_BHSD);
    good.x = v;
    CHECK(attn_rotary_table(layer_ctx(), 0, 0, &good.table, NULL) == ATTN_OK);
#define BAD(change, status, start)                                                                 \
    REFUSES(change, attn_rotary_forward(layer_ctx(), &a, &err), status, start)
    BAD(a.positions = ATTN_POSITIONS_T2T, ATTN_E_ARGUMENT, "positions");
    BAD(a.table.size[1] = 2, ATTN_E_SHAPE, "table: shape");
    BAD(a.table.stride[2] = 5, ATTN_E_ARGUMENT, "table: is not dense");
    BAD(a.x.size[3] = 7, ATTN_E_SHAPE, "x:");
    BAD(a.x.type = ATTN_F64, ATTN_E_ARGUMENT, "x: type");
    BAD(a.x.stride[3] = 2, ATTN_E_ARGUMENT, "x: columns");
    places[2] = 5;
    BAD(a.places = places, ATTN_E_ARGUMENT, "places[2]");
    good.table.size[2] = 4;
    good.table.stride[1] = 16;
    BAD((void)0, ATTN_E_SHAPE, "places: NULL");
#undef BAD
#define FAILS(call, start)                                                                         \
    CHECK_MSG((call) == ATTN_E_ARGUMENT && strncmp(err.text, start, strlen(start)) == 0, "%s: %s", \
              #call, err.text)
    FAILS(attn_sinusoids(NULL, ATTN_POSITIONS_PAPER, 0, 0, &v, &err), "ctx");
    FAILS(attn_sinusoids(layer_ctx(), ATTN_POSITIONS_PAPER, 0, 0, NULL, &err), "out");
    FAILS(attn_sinusoids(layer_ctx(), ATTN_POSITIONS_LEARNED, 0, 0, &v, &err), "layout");
    FAILS(attn_sinusoids(layer_ctx(), ATTN_POSITIONS_T2T, -1, 0, &v, &err), "base");
    FAILS(attn_rotary_table(layer_ctx(), 0, INT64_MAX, &good.table, &err), "offset");
#undef FAILS
    arena_reset(&layer_memory);
}

static void wrong_dropouts(void **state)
{
    rng r = rng_make(test_seed(), test_index(state));
    attn_dropout_args good = ATTN_DROPOUT_ARGS_INIT, a;
    attn_error err = {0};

    good.rate = 0.5;
    good.bits = arena_get(&layer_memory, 5 * sizeof *good.bits);
    good.x = bells(&r, ATTN_F32, 5, 8);
    good.out = bells(&r, ATTN_F32, 5, 8);
#define BAD(change, status, start)                                                                 \
    REFUSES(change, attn_dropout_forward(layer_ctx(), &a, &err), status, start)
    BAD(a.rate = 1, ATTN_E_ARGUMENT, "rate");
    BAD(a.rate = (double)NAN, ATTN_E_ARGUMENT, "rate");
    BAD(a.bits = NULL, ATTN_E_ARGUMENT, "bits");
    BAD(a.out.size[2] = 4, ATTN_E_SHAPE, "out: shape");
    BAD(a.add = a.x; a.add.size[3] = 4, ATTN_E_SHAPE, "add: shape");
#undef BAD
    CHECK(attn_dropout_backward(layer_ctx(), &good, &err) == ATTN_E_SHAPE);
    CHECK_MSG(strncmp(err.text, "dout", 4) == 0, "%s", err.text);
    arena_reset(&layer_memory);
}

int main(int argc, char **argv)
{
    static const test_case tests[] = {
        {"embeddings", embeddings, 0},
        {"sinusoids", sinusoids, 0},
        {"rotations", rotations, 0},
        {"dropouts", dropouts, 0},
        {"threads change nothing", threads_change_nothing, 0},
        {"wrong embeddings", wrong_embeddings, 0},
        {"wrong places", wrong_places, 0},
        {"wrong dropouts", wrong_dropouts, 0},
    };

    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
