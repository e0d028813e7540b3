/* test_train_adam.c: Adam and AdamW against PyTorch (tests/golden/train.py), bits, clipping, rates
 * and averages by the figures of the notes. */
#include "include/attn/io.h"
#include "include/attn/train.h"
#include "tests/expect.h"

#include <math.h>
#include <string.h>

#define FILE_NAME "tests/golden/train.safetensors"

enum { COUNT = 100, STEPS = 10, DECAYS = 40 };

/* --- Goldens -------------------------------------------------------------------------------- */

static const attn_tensor *find(const attn_file *file, const char *name, const char *what)
{
    char full[100];

    snprintf(full, sizeof full, "%s/%s", name, what);
    CHECK_MSG(attn_file_find(file, full) != NULL, "no %s", full);
    return attn_file_find(file, full);
}

static void put(void *block, attn_type type, size_t i, double x)
{
    if (type == ATTN_F64)
        ((double *)block)[i] = x;
    else
        ((float *)block)[i] = (float)x;
}

static double get(const void *block, attn_type type, size_t i)
{
    return type == ATTN_F64 ? ((const double *)block)[i] : (double)((const float *)block)[i];
}

static void ten_steps(const attn_file *file, const char *name, int adamw, const attn_ctx *ctx,
                      attn_type type, double limit)
{
    const float *weights = find(file, name, "weights")->data;
    const float *gradients = find(file, name, "gradients")->data;
    const double *after = find(file, name, "after")->data;
    double blocks[4][COUNT] = {{0}}, norm;
    attn_span kept = {DECAYS, COUNT - DECAYS};
    attn_adam_args a = ATTN_ADAM_ARGS_INIT;
    attn_error err = {0};

    a.type = type;
    a.count = COUNT;
    a.weights = blocks[0], a.gradients = blocks[1], a.m = blocks[2], a.v = blocks[3];
    a.rate = 1e-2;
    a.decay = adamw ? 0.01 : 0;
    a.max_norm = adamw ? 2 : 0;
    a.kept = &kept;
    a.kept_count = 1;
    for (size_t i = 0; i < COUNT; i++)
        put(a.weights, type, i, (double)weights[i]);
    for (a.step = 1; a.step <= STEPS; a.step++) {
        size_t row = (size_t)(a.step - 1) * COUNT;
        double squares = 0;

        for (size_t i = 0; i < COUNT; i++) {
            put(a.gradients, type, i, (double)gradients[row + i]);
            squares += (double)gradients[row + i] * (double)gradients[row + i];
        }
        CHECK_MSG(attn_adam_step(ctx, &a, &norm, &err) == ATTN_OK, "%s", err.text);
        CHECK(fabs(norm / sqrt(squares) - 1) < 1e-14);
        for (size_t i = 0; i < COUNT; i++) {
            double e = fabs(get(a.weights, type, i) - after[row + i]);

            CHECK_MSG(e < limit, "%s, step %lld: [%zu] off by %g", name, (long long)a.step, i, e);
        }
    }
}

static void golden(void **state)
{
    const attn_ctx *ctx = ctx_for(test_set(state), 2);
    attn_file *file;

    CHECK(attn_file_open(NULL, FILE_NAME, NULL, &file, NULL) == ATTN_OK);
    for (int i = 0; i < 2; i++) {
        ten_steps(file, i ? "adamw" : "adam", i, ctx, ATTN_F64, 1e-14);
        ten_steps(file, i ? "adamw" : "adam", i, ctx, ATTN_F32, 2e-6);
    }
    attn_file_close(file);
}

/* --- Bits ----------------------------------------------------------------------------------- */

enum { MANY = 1300000 }; /* more than 256 pieces' worth of the least size */

static float *draw(arena *memory, rng *r)
{
    float *x = arena_get(memory, MANY * sizeof *x);

    for (size_t i = 0; i < MANY; i++)
        x[i] = (float)rng_range(r, -1, 1);
    return x;
}

/* One step of a large block, whose odd thousands do not decay; some spans are empty or touch. */
static void big_step(const attn_ctx *ctx, arena *memory, int spans, attn_adam_args *a, double *norm)
{
    rng r = rng_make(test_seed(), 3);
    attn_span *kept = arena_get(memory, 1400 * sizeof *kept);
    attn_error err = {0};

    *a = (attn_adam_args)ATTN_ADAM_ARGS_INIT;
    a->count = MANY;
    a->weights = draw(memory, &r);
    a->gradients = draw(memory, &r);
    a->m = draw(memory, &r);
    a->v = draw(memory, &r);
    for (size_t i = 0; i < MANY; i++)
        ((float *)a->v)[i] *= ((float *)a->v)[i];
    a->rate = 1e-3, a->decay = 0.1, a->max_norm = 5, a->step = 3, a->clear = 1;
    for (int64_t i = 0; i < 650; i++) {
        if (spans > 1) { /* the same in two parts */
            kept[a->kept_count++] = (attn_span){(2 * i + 1) * 1000, 300};
            kept[a->kept_count++] = (attn_span){(2 * i + 1) * 1000 + 300, 700};
        } else {
            kept[a->kept_count++] = (attn_span){(2 * i + 1) * 1000, 1000};
        }
    }
    a->kept = kept;
    CHECK_MSG(attn_adam_step(ctx, a, norm, &err) == ATTN_OK, "%s", err.text);
}

static void same_bits(void **state)
{
    arena memory = {0};
    attn_adam_args a, b;
    double one, many;
    rng r = rng_make(test_seed(), 3);
    const float *w, *g, *m, *v;

    big_step(ctx_for(test_set(state), 1), &memory, 1, &a, &one);
    big_step(ctx_for(test_set(state), 3), &memory, 2, &b, &many);
    CHECK(one == many);
    CHECK(memcmp(a.weights, b.weights, MANY * sizeof(float)) == 0);
    CHECK(memcmp(a.m, b.m, MANY * sizeof(float)) == 0);
    CHECK(memcmp(a.v, b.v, MANY * sizeof(float)) == 0);
    w = draw(&memory, &r), g = draw(&memory, &r), m = draw(&memory, &r), v = draw(&memory, &r);
    for (size_t i = 0; i < MANY; i++) {
        double step = 5 / one * (double)g[i], mean = 0.9 * (double)m[i] + 0.1 * step;
        double square = 0.98 * (double)v[i] * (double)v[i] + 0.02 * step * step;
        double keep = i / 1000 % 2 ? 1 : 1 - 1e-4;
        double want = keep * (double)w[i] - 1e-3 * mean / (1 - 0.9 * 0.9 * 0.9) /
                                                (sqrt(square / (1 - 0.98 * 0.98 * 0.98)) + 1e-9);

        CHECK_MSG(fabs((double)((float *)a.weights)[i] - want) < 1e-6, "[%zu] is %g, not %g", i,
                  (double)((float *)a.weights)[i], want);
        CHECK(((float *)a.gradients)[i] == 0);
    }
    arena_reset(&memory);
}

/* Gaps between tensors stay zeros. */
static void zeros_stay(void **state)
{
    float blocks[4][48] = {{0}};
    attn_adam_args a = ATTN_ADAM_ARGS_INIT;

    a.count = 48;
    a.weights = blocks[0], a.gradients = blocks[1], a.m = blocks[2], a.v = blocks[3];
    a.rate = 1, a.decay = 0.5, a.step = 1;
    CHECK(attn_adam_step(ctx_for(test_set(state), 1), &a, NULL, NULL) == ATTN_OK);
    for (size_t i = 0; i < 48; i++)
        CHECK(blocks[0][i] == 0 && blocks[2][i] == 0 && blocks[3][i] == 0);
}

static void expect_mistake(const attn_adam_args *a, const char *word)
{
    attn_error err = {0};
    double norm = -1;

    CHECK_MSG(attn_adam_step(ctx_for(ATTN_SET_AUTO, 1), a, &norm, &err) == ATTN_E_ARGUMENT, "%s",
              word);
    CHECK_MSG(strstr(err.text, word), "'%s' does not name %s", err.text, word);
    CHECK(norm == -1 && ((float *)a->weights)[0] == 1);
}

static void mistakes(void **state)
{
    float blocks[4][20] = {{1}, {1}};
    attn_span kept[2] = {{3, 4}, {6, 2}}, far = {10, 11};
    attn_adam_args good = ATTN_ADAM_ARGS_INIT, a;

    (void)state;
    good.count = 20;
    good.weights = blocks[0], good.gradients = blocks[1], good.m = blocks[2], good.v = blocks[3];
    good.rate = 1, good.step = 1;
    a = good, a.step = 0, expect_mistake(&a, "step");
    a = good, a.gradients = NULL, expect_mistake(&a, "gradients");
    a = good, a.has_betas = 1, a.beta1 = 1, expect_mistake(&a, "beta1");
    a = good, a.rate = (double)NAN, expect_mistake(&a, "rate");
    a = good, a.epsilon = -1, expect_mistake(&a, "epsilon");
    a = good, a.decay = -1, expect_mistake(&a, "decay");
    a = good, a.max_norm = -1, expect_mistake(&a, "max_norm");
    a = good, a.type = ATTN_F16, expect_mistake(&a, "type");
    a = good, a.kept = kept, a.kept_count = 2, expect_mistake(&a, "kept");
    a = good, a.kept = &far, a.kept_count = 1, expect_mistake(&a, "kept");
    a = good, blocks[1][7] = (float)NAN, expect_mistake(&a, "gradients");
    a = good, blocks[1][7] = HUGE_VALF, expect_mistake(&a, "gradients");
}

/* --- Rates ---------------------------------------------------------------------------------- */

static double rate(attn_schedule s, int64_t step)
{
    double r;

    CHECK(attn_schedule_rate(&s, step, &r, NULL) == ATTN_OK);
    return r;
}

static void rates(void **state)
{
    attn_schedule noam = {ATTN_SCHEDULE_NOAM, 1, 4000, 512, 0, 0}, big = noam;
    attn_schedule fairseq = {ATTN_SCHEDULE_INVERSE_SQRT, 5e-4, 4000, 0, 0, 0};
    attn_schedule cosine = {ATTN_SCHEDULE_COSINE, 3e-4, 100, 0, 1100, 3e-5};
    attn_schedule plain = {ATTN_SCHEDULE_CONSTANT, 0.25, 0, 0, 0, 0};

    (void)state;
    big.d = 1024;
    CHECK(fabs(rate(noam, 1) / 1.746928e-7 - 1) < 4e-7);
    CHECK(fabs(rate(noam, 4000) / 6.987712e-4 - 1) < 4e-7);
    CHECK(fabs(rate(noam, 100000) / 1.397542e-4 - 1) < 4e-7);
    CHECK(fabs(rate(big, 4000) / 4.941059e-4 - 1) < 4e-7);
    CHECK(fabs(rate(fairseq, 1) - 1.25e-7) < 1e-20 && fabs(rate(fairseq, 4000) - 5e-4) < 1e-18);
    CHECK(fabs(rate(fairseq, 16000) - 2.5e-4) < 1e-18);
    CHECK(fabs(rate(cosine, 50) - 1.5e-4) < 1e-18 && fabs(rate(cosine, 100) - 3e-4) < 1e-18);
    CHECK(fabs(rate(cosine, 600) - 1.65e-4) < 1e-18 && rate(cosine, 1100) == 3e-5);
    CHECK(rate(cosine, 5000) == 3e-5);
    CHECK(rate(plain, 1) == 0.25 && rate(plain, 1000000) == 0.25);
    plain.warmup = 10;
    CHECK(rate(plain, 1) == 0.025 && rate(plain, 10) == 0.25 && rate(plain, 11) == 0.25);
    noam.d = 0;
    cosine.warmup = 1100;
    CHECK(attn_schedule_rate(&noam, 1, &(double){0}, NULL) == ATTN_E_ARGUMENT);
    CHECK(attn_schedule_rate(&cosine, 1, &(double){0}, NULL) == ATTN_E_ARGUMENT);
    CHECK(attn_schedule_rate(&plain, 0, &(double){0}, NULL) == ATTN_E_ARGUMENT);
}

/* --- Averages ------------------------------------------------------------------------------- */

static void averages(void **state)
{
    const attn_ctx *ctx = ctx_for(test_set(state), 2);
    float a[50], b[50], c[50], mean[50];
    double x[2] = {1, 2}, y[2] = {4, 8};
    const void *blocks[] = {a, b, c}, *doubles[] = {x, y};
    rng r = rng_make(test_seed(), 4);

    for (size_t i = 0; i < 50; i++) {
        a[i] = (float)rng_bell(&r), b[i] = (float)rng_bell(&r), c[i] = (float)rng_bell(&r);
    }
    CHECK(attn_average_blocks(ctx, ATTN_F32, 50, blocks, 3, mean, NULL) == ATTN_OK);
    for (size_t i = 0; i < 50; i++)
        CHECK(mean[i] == (float)(((double)a[i] + (double)b[i] + (double)c[i]) / 3));
    CHECK(attn_average_blocks(ctx, ATTN_F64, 2, doubles, 2, x, NULL) == ATTN_OK);
    CHECK(x[0] == 2.5 && x[1] == 5);
    CHECK(attn_average_blend(ctx, ATTN_F64, 2, x, y, 0.25, NULL) == ATTN_OK);
    CHECK(x[0] == 2.875 && x[1] == 5.75);
    CHECK(attn_average_blend(ctx, ATTN_F64, 2, x, y, 1.5, NULL) == ATTN_E_ARGUMENT);
    CHECK(attn_average_blocks(ctx, ATTN_F64, 2, doubles, 0, x, NULL) == ATTN_E_ARGUMENT);
}

int main(int argc, char **argv)
{
    static const test_case tests[] = {
        {"golden", golden, 1},     {"same bits", same_bits, 0}, {"zeros stay", zeros_stay, 1},
        {"mistakes", mistakes, 0}, {"rates", rates, 0},         {"averages", averages, 1},
    };

    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
