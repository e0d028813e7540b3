/* test_train_loss.c: cross entropy fused with the output projection: PyTorch's values and gradients
 * (tests/golden/train.py), every chunk and thread the same bits, the figures of the notes, and
 * arguments that are wrong. */
#include "include/attn/io.h"
#include "include/attn/train.h"
#include "tests/expect.h"

#include <math.h>
#include <string.h>

#define FILE_NAME "tests/golden/train.safetensors"

/* --- A call of any shape -------------------------------------------------------------------- */

typedef struct scene {
    arena memory;
    attn_cross_entropy_args a;
    attn_loss loss;
} loss_scene;

static attn_view like(loss_scene *s, const attn_view *v)
{
    attn_view out = view_plain(&s->memory, v->type, 1, 1, v->size[2], v->size[3]);

    view_fill(&out, 0);
    return out;
}

static void want_gradients(loss_scene *s, double factor)
{
    s->a.factor = factor;
    s->a.dhidden = like(s, &s->a.hidden);
    s->a.dweight = like(s, &s->a.weight);
    s->a.dbias = view_plain(&s->memory, s->a.hidden.type, 1, 1, 1, s->a.weight.size[2]);
    view_fill(&s->a.dbias, 0);
}

static void draw_scene(loss_scene *s, rng *r, attn_type type, int64_t t, int64_t v, int64_t d)
{
    int32_t *targets = arena_get(&s->memory, (size_t)(t + 1) * sizeof *targets);

    s->a = (attn_cross_entropy_args)ATTN_CROSS_ENTROPY_ARGS_INIT;
    s->a.hidden = view_plain(&s->memory, type, 1, 1, t, d);
    s->a.weight = view_plain(&s->memory, type, 1, 1, v, d);
    s->a.bias = view_plain(&s->memory, type, 1, 1, 1, v);
    view_uniform(&s->a.hidden, r, -1, 1);
    view_uniform(&s->a.weight, r, -1, 1);
    view_uniform(&s->a.bias, r, -1, 1);
    for (int64_t i = 0; i < t; i++)
        targets[i] = rng_chance(r, 10) ? -1 : (int32_t)rng_int(r, 0, v - 1);
    s->a.targets = targets;
    s->a.epsilon = 0.1;
    want_gradients(s, 0.01);
}

static void compute(loss_scene *s, const attn_ctx *ctx)
{
    attn_error err = {0};

    CHECK_MSG(attn_cross_entropy(ctx, &s->a, &s->loss, &err) == ATTN_OK, "%s", err.text);
}

/* --- Goldens -------------------------------------------------------------------------------- */

static attn_view find(const attn_file *file, const char *name, const char *what)
{
    attn_view v = {0};
    char full[100];
    const attn_tensor *t;

    snprintf(full, sizeof full, "%s/%s", name, what);
    t = attn_file_find(file, full);
    if (t)
        CHECK(attn_tensor_view(t, 0, &v, NULL) == ATTN_OK);
    return v;
}

/* Largest difference, relative to the largest element. */
static double distance(const attn_view *got, const attn_view *want)
{
    double most = 0, size = 0;

    for (int64_t i = 0; i < want->size[2]; i++)
        for (int64_t j = 0; j < want->size[3]; j++) {
            double w = view_get(want, 0, 0, i, j), e = fabs(view_get(got, 0, 0, i, j) - w);

            most = e > most || isnan(e) ? e : most;
            size = fabs(w) > size ? fabs(w) : size;
        }
    return most / size;
}

static void check_golden(const attn_file *file, const char *name, const attn_ctx *ctx,
                         attn_type type, double limit)
{
    loss_scene s = {.a = ATTN_CROSS_ENTROPY_ARGS_INIT};
    attn_view hidden = find(file, name, "hidden"), weight = find(file, name, "weight");
    attn_view bias = find(file, name, "bias"), n = find(file, name, "numbers");
    attn_view dhidden = find(file, name, "dhidden"), dweight = find(file, name, "dweight");
    attn_view dbias = find(file, name, "dbias");
    rng r = rng_make(1, 1);

    s.a.hidden = view_copy(&s.memory, &r, &hidden, type, LAYOUT_PADDED);
    s.a.weight = view_copy(&s.memory, &r, &weight, type, LAYOUT_PADDED);
    if (bias.data)
        s.a.bias = view_copy(&s.memory, &r, &bias, type, LAYOUT_BHSD);
    s.a.targets = find(file, name, "targets").data;
    s.a.epsilon = view_get(&n, 0, 0, 0, 0);
    s.a.scale = view_get(&n, 0, 0, 0, 1);
    s.a.smoothing = view_get(&n, 0, 0, 0, 2) > 0 ? ATTN_SMOOTH_MIX : ATTN_SMOOTH_OTHERS;
    want_gradients(&s, view_get(&n, 0, 0, 0, 3));
    compute(&s, ctx);
    CHECK_MSG(fabs(s.loss.loss / view_get(&n, 0, 0, 0, 4) - 1) < limit, "%s: loss %.17g", name,
              s.loss.loss);
    CHECK_MSG(fabs(s.loss.nll / view_get(&n, 0, 0, 0, 5) - 1) < limit, "%s: nll %.17g", name,
              s.loss.nll);
    CHECK((double)s.loss.tokens == view_get(&n, 0, 0, 0, 6));
    CHECK((double)s.loss.right == view_get(&n, 0, 0, 0, 7));
    CHECK_MSG(distance(&s.a.dhidden, &dhidden) < limit, "%s: dhidden off by %g", name,
              distance(&s.a.dhidden, &dhidden));
    CHECK_MSG(distance(&s.a.dweight, &dweight) < limit, "%s: dweight off by %g", name,
              distance(&s.a.dweight, &dweight));
    CHECK_MSG(distance(&s.a.dbias, &dbias) < limit, "%s: dbias off by %g", name,
              distance(&s.a.dbias, &dbias));
    arena_reset(&s.memory);
}

static void golden(void **state)
{
    static const char *const names[] = {"plain", "others", "mix", "wide", "scaled", "two"};
    const attn_ctx *ctx = ctx_for(test_set(state), 2);
    attn_file *file;

    CHECK(attn_file_open(NULL, FILE_NAME, NULL, &file, NULL) == ATTN_OK);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        check_golden(file, names[i], ctx, ATTN_F64, 1e-13);
        check_golden(file, names[i], ctx, ATTN_F32, 2e-6);
    }
    attn_file_close(file);
}

/* --- Bits ----------------------------------------------------------------------------------- */

/* Several chunks: 24,000 classes leave 672 tokens a chunk. */
static void same_bits_for_threads(void **state)
{
    const attn_ctx *one = ctx_for(test_set(state), 1), *many = ctx_for(test_set(state), 3);
    loss_scene a = {0}, b = {0};
    attn_type types[] = {ATTN_F32, ATTN_F64};

    for (int i = 0; i < 2; i++) {
        rng r = rng_make(test_seed(), 5), s = r;

        draw_scene(&a, &r, types[i], 700, 24000, 3);
        draw_scene(&b, &s, types[i], 700, 24000, 3);
        compute(&a, one);
        compute(&b, many);
        CHECK(memcmp(&a.loss, &b.loss, sizeof a.loss) == 0);
        CHECK(view_same_bits(&a.a.dhidden, &b.a.dhidden));
        CHECK(view_same_bits(&a.a.dweight, &b.a.dweight));
        CHECK(view_same_bits(&a.a.dbias, &b.a.dbias));
        arena_reset(&a.memory);
        arena_reset(&b.memory);
    }
}

/* Each token alone has the loss and dhidden it has among others; without gradients the loss has the
 * same bits; the sums of gradients add to what is there; dhidden may take hidden's place. */
static void tokens_alone(void **state)
{
    const attn_ctx *ctx = ctx_for(test_set(state), 2);
    loss_scene s = {0}, one = {0};
    rng r = rng_make(test_seed(), 6);
    attn_view dhidden;
    double loss = 0;
    int64_t tokens = 0, right = 0;
    unsigned char hits[60];

    draw_scene(&s, &r, ATTN_F32, 60, 50, 7);
    s.a.hits = hits;
    compute(&s, ctx);
    s.a.hits = NULL;
    dhidden = s.a.dhidden;
    one = s;
    for (int64_t i = 0; i < 60; i++) {
        one.a.hidden = view_part(&s.a.hidden, 2, i, 1);
        one.a.targets = s.a.targets + i;
        one.a.dhidden = view_plain(&s.memory, ATTN_F32, 1, 1, 1, 7);
        one.a.dweight = one.a.dbias = (attn_view){0};
        compute(&one, ctx);
        loss += one.loss.loss;
        tokens += one.loss.tokens;
        CHECK(hits[i] == (one.loss.right == 1));
        right += one.loss.right;
        attn_view row = view_part(&dhidden, 2, i, 1);
        CHECK(view_same_bits(&one.a.dhidden, &row));
        one.a.dhidden = (attn_view){0};
        attn_loss alone = one.loss;
        compute(&one, ctx);
        CHECK(memcmp(&alone, &one.loss, sizeof alone) == 0);
    }
    CHECK(loss == s.loss.loss && tokens == s.loss.tokens && right == s.loss.right);
    attn_view first = view_copy(&s.memory, &r, &s.a.dbias, ATTN_F32, LAYOUT_BHSD);
    s.a.dhidden = s.a.hidden;
    compute(&s, ctx);
    CHECK(view_same_bits(&s.a.hidden, &dhidden));
    for (int64_t j = 0; j < 50; j++)
        CHECK(fabs(view_get(&s.a.dbias, 0, 0, 0, j) - 2 * view_get(&first, 0, 0, 0, j)) < 1e-7);
    arena_reset(&s.memory);
}

/* The workspace is of the size the plan tells and no more: it lies before a page that faults. */
static void workspace(void **state)
{
    const attn_ctx *ctx = ctx_for(test_set(state), 2);
    loss_scene s = {0};
    attn_loss before;
    rng r = rng_make(test_seed(), 7);
    attn_error err = {0};
    size_t size;

    draw_scene(&s, &r, ATTN_F32, 33, 70, 9);
    compute(&s, ctx);
    before = s.loss;
    CHECK(attn_cross_entropy_plan(ctx, &s.a, &size, NULL) == ATTN_OK);
    CHECK(size % 64 == 0);
    s.a.workspace = arena_guarded(&s.memory, size, 1);
    s.a.workspace_size = size;
    compute(&s, ctx);
    CHECK(memcmp(&before, &s.loss, sizeof before) == 0);
    s.a.workspace_size--;
    CHECK(attn_cross_entropy(ctx, &s.a, &s.loss, &err) == ATTN_E_ARGUMENT);
    CHECK(strstr(err.text, "workspace"));
    arena_reset(&s.memory);
}

static void nothing_to_do(void **state)
{
    const attn_ctx *ctx = ctx_for(test_set(state), 2);
    loss_scene s = {0};
    rng r = rng_make(test_seed(), 8);

    draw_scene(&s, &r, ATTN_F32, 0, 5, 4);
    compute(&s, ctx);
    CHECK(s.loss.tokens == 0 && s.loss.loss == 0);
    draw_scene(&s, &r, ATTN_F32, 8, 5, 4);
    ((int32_t *)(uintptr_t)s.a.targets)[3] = 1;
    for (int i = 0; i < 8; i++)
        ((int32_t *)(uintptr_t)s.a.targets)[i] = -1;
    view_fill(&s.a.dhidden, 3);
    compute(&s, ctx);
    CHECK(s.loss.tokens == 0 && s.loss.loss == 0 && s.loss.right == 0);
    for (int64_t j = 0; j < 4; j++)
        CHECK(view_get(&s.a.dhidden, 0, 0, 3, j) == 0);
    arena_reset(&s.memory);
}

/* --- Figures and mistakes ------------------------------------------------------------------- */

static void floors(void **state)
{
    (void)state;
    CHECK(fabs(attn_smoothing_floor(ATTN_SMOOTH_OTHERS, 0.1, 37000) - 1.376948) < 5e-7);
    CHECK(fabs(attn_smoothing_floor(ATTN_SMOOTH_MIX, 0.1, 37000) - 1.376913) < 5e-7);
    CHECK(attn_smoothing_floor(ATTN_SMOOTH_OTHERS, 0, 37000) == 0);
    CHECK(attn_smoothing_floor(ATTN_SMOOTH_OTHERS, 0.1, 1) == 0);
}

/* A model that puts exactly q on each class is at the floor. */
static void floor_is_reached(void **state)
{
    const attn_ctx *ctx = ctx_for(test_set(state), 1);

    for (int mix = 0; mix < 2; mix++) {
        loss_scene s = {0};
        rng r = rng_make(test_seed(), 9);
        double off = mix ? 0.1 / 50 : 0.1 / 49, on = mix ? 0.9 + off : 0.9;

        draw_scene(&s, &r, ATTN_F64, 1, 50, 4);
        ((int32_t *)(uintptr_t)s.a.targets)[0] = 17;
        view_fill(&s.a.weight, 0);
        view_fill(&s.a.bias, log(off));
        view_set(&s.a.bias, 0, 0, 0, 17, log(on));
        s.a.smoothing = mix ? ATTN_SMOOTH_MIX : ATTN_SMOOTH_OTHERS;
        compute(&s, ctx);
        CHECK(fabs(s.loss.loss - attn_smoothing_floor(s.a.smoothing, 0.1, 50)) < 1e-14);
        CHECK(fabs(s.loss.nll + log(on)) < 1e-14 && s.loss.right == 1);
        for (int64_t j = 0; j < 50; j++)
            CHECK(fabs(view_get(&s.a.dbias, 0, 0, 0, j)) < 1e-16);
        arena_reset(&s.memory);
    }
}

static void expect_mistake(const loss_scene *s, attn_status status, const char *word)
{
    attn_error err = {0};
    attn_loss loss = {-1, -1, -1, -1};
    attn_status st = attn_cross_entropy(ctx_for(ATTN_SET_AUTO, 1), &s->a, &loss, &err);

    CHECK_MSG(st == status && strstr(err.text, word), "%s: %d, '%s'", word, (int)st, err.text);
    CHECK(loss.tokens == -1);
}

static void mistakes(void **state)
{
    loss_scene good = {0}, s;
    rng r = rng_make(1, 1);
    int32_t targets[4] = {0, 1, 5, 0};

    (void)state;
    draw_scene(&good, &r, ATTN_F32, 4, 5, 3);
    s = good, s.a.targets = targets, expect_mistake(&s, ATTN_E_ARGUMENT, "targets");
    s = good, s.a.targets = NULL, expect_mistake(&s, ATTN_E_ARGUMENT, "targets");
    s = good, s.a.epsilon = 1, expect_mistake(&s, ATTN_E_ARGUMENT, "epsilon");
    s = good, s.a.epsilon = (double)NAN, expect_mistake(&s, ATTN_E_ARGUMENT, "epsilon");
    s = good, s.a.factor = HUGE_VAL, expect_mistake(&s, ATTN_E_ARGUMENT, "factor");
    s = good, s.a.scale = HUGE_VAL, expect_mistake(&s, ATTN_E_ARGUMENT, "scale");
    s = good, s.a.smoothing = (attn_smoothing)7, expect_mistake(&s, ATTN_E_ARGUMENT, "smoothing");
    s = good, s.a.hidden.type = ATTN_F16, expect_mistake(&s, ATTN_E_ARGUMENT, "hidden");
    s = good, s.a.weight.type = ATTN_F64, expect_mistake(&s, ATTN_E_ARGUMENT, "weight");
    s = good, s.a.weight.size[3] = 2, expect_mistake(&s, ATTN_E_SHAPE, "weight");
    s = good, s.a.weight.size[2] = 0, expect_mistake(&s, ATTN_E_SHAPE, "");
    s = good, s.a.bias.size[3] = 4, expect_mistake(&s, ATTN_E_SHAPE, "bias");
    s = good, s.a.dhidden.size[2] = 3, expect_mistake(&s, ATTN_E_SHAPE, "dhidden");
    s = good, s.a.dweight.data = NULL, expect_mistake(&s, ATTN_E_ARGUMENT, "dweight");
    s = good, s.a.dbias.stride[3] = 2, expect_mistake(&s, ATTN_E_ARGUMENT, "dbias");
    s = good, s.a.struct_size = 8, expect_mistake(&s, ATTN_E_ARGUMENT, "struct_size");
    arena_reset(&good.memory);
}

int main(int argc, char **argv)
{
    static const test_case tests[] = {
        {"golden", golden, 1},
        {"same bits for threads", same_bits_for_threads, 0},
        {"tokens alone", tokens_alone, 1},
        {"workspace", workspace, 0},
        {"nothing to do", nothing_to_do, 0},
        {"floors", floors, 0},
        {"floor is reached", floor_is_reached, 1},
        {"mistakes", mistakes, 0},
    };

    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
