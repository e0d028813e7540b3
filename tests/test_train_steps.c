/* test_train_steps.c: a trainer's steps against PyTorch in float64 (tests/golden/steps.py): losses,
 * the gradient of every parameter, weights after ten steps of Adam; and in float32 as close as
 * PyTorch's own float32. */
#include "include/attn/io.h"
#include "include/attn/train.h"
#include "src/train/trainer.h"
#include "tests/expect.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FILE_NAME "tests/golden/steps.safetensors"

enum { STEPS = 10, DRAWS = 15 };

static const int64_t source_starts[] = {0, 4, 5, 11, 14}, target_starts[] = {0, 3, 8, 10, 11};

static const attn_tensor *find(const attn_file *file, const char *name, const char *what)
{
    char full[160];

    snprintf(full, sizeof full, "%s/%s", name, what);
    CHECK_MSG(attn_file_find(file, full) != NULL, "no %s", full);
    return attn_file_find(file, full);
}

static const attn_tensor *find_param(const attn_file *file, const char *name, const char *kind,
                                     const attn_param *p)
{
    char what[120];
    const attn_tensor *t;
    int64_t n = 1;

    snprintf(what, sizeof what, "%s/%s", kind, p->name);
    t = find(file, name, what);
    for (int i = 0; i < t->rank; i++)
        n *= t->size[i];
    CHECK_MSG(n == p->count, "%s has %lld elements", what, (long long)n);
    return t;
}

static attn_model_config config_of(const char *name, attn_type type)
{
    attn_model_config c = ATTN_MODEL_CONFIG_INIT;

    c.type = type;
    c.vocabulary = 11;
    c.d = 8, c.ff = 12, c.heads = 2;
    c.encoder_layers = c.decoder_layers = 1;
    c.biases = ATTN_BIAS_ALL;
    if (strcmp(name, "post") == 0) {
        c.encoder_layers = c.decoder_layers = 2;
        c.tie_embeddings = c.tie_output = 1;
    } else if (strcmp(name, "decoder") != 0) {
        c.place = ATTN_PLACE_PRE;
        c.output_bias = 1;
        c.source_vocabulary = 7;
    } else {
        c.stack = ATTN_STACK_DECODER;
        c.encoder_layers = 0, c.decoder_layers = 2;
        c.biases = 0;
        c.norm = ATTN_NORM_RMS;
        c.place = ATTN_PLACE_PRE;
        c.positions = ATTN_POSITIONS_ROTARY;
        c.gated = 1;
        c.activation = ATTN_ACT_SILU;
        c.tie_output = 1;
    }
    return c;
}

static double get(const void *block, attn_type type, int64_t i)
{
    return type == ATTN_F64 ? ((const double *)block)[i] : (double)((const float *)block)[i];
}

static void take_weights(attn_model *model, const attn_file *file, const char *name)
{
    attn_type type = attn_model_get_config(model)->type;
    void *block = attn_model_weights(model);

    for (size_t i = 0; i < attn_model_param_count(model); i++) {
        const attn_param *p = attn_model_param(model, i);
        const float *w = find_param(file, name, "w", p)->data;

        for (int64_t j = 0; j < p->count; j++) {
            if (type == ATTN_F64)
                ((double *)block)[p->offset + j] = (double)w[j];
            else
                ((float *)block)[p->offset + j] = w[j];
        }
    }
}

/* |block * factor - want| / |want| over all parameters, and the largest difference. */
static double distance(attn_model *model, const attn_file *file, const char *name, const char *kind,
                       const void *block, double factor, double *most)
{
    attn_type type = attn_model_get_config(model)->type;
    double apart = 0, size = 0;

    *most = 0;
    for (size_t i = 0; i < attn_model_param_count(model); i++) {
        const attn_param *p = attn_model_param(model, i);
        const double *want = find_param(file, name, kind, p)->data;

        for (int64_t j = 0; j < p->count; j++) {
            double e = fabs(get(block, type, p->offset + j) * factor - want[j]);

            *most = e > *most ? e : *most;
            apart += e * e;
            size += want[j] * want[j];
        }
    }
    return sqrt(apart / size);
}

/* A model of the case with its weights, and a trainer at step 0. */
static void begin(const attn_file *file, const char *name, const attn_ctx *ctx, attn_type type,
                  attn_model **model, attn_trainer **trainer)
{
    attn_model_config c = config_of(name, type);
    attn_trainer_options o = ATTN_TRAINER_OPTIONS_INIT;
    attn_error err = {0};

    CHECK_MSG(attn_model_create(ctx, &c, 1, model, &err) == ATTN_OK, "%s", err.text);
    take_weights(*model, file, name);
    o.corpus.count = 4;
    o.corpus.target = find(file, name, "target")->data;
    o.corpus.target_starts = target_starts;
    if (c.stack == ATTN_STACK_ENCODER_DECODER) {
        o.corpus.source = find(file, name, "source")->data;
        o.corpus.source_starts = source_starts;
    }
    o.schedule.rate = 1e-2;
    o.epsilon = 0.1;
    CHECK_MSG(attn_trainer_create(*model, &o, trainer, &err) == ATTN_OK, "%s", err.text);
}

static void check_case(const attn_file *file, const char *name, const attn_ctx *ctx, attn_type type)
{
    const double *losses = find(file, name, "losses")->data;
    int f64 = type == ATTN_F64;
    double most, far;
    attn_error err = {0};
    attn_trainer *trainer;
    attn_model *model;
    attn_step step;

    begin(file, name, ctx, type, &model, &trainer);
    for (int i = 0; i < STEPS; i++) {
        CHECK_MSG(attn_trainer_step(trainer, &step, &err) == ATTN_OK, "%s", err.text);
        CHECK_MSG(fabs(step.sums.loss / 11 / losses[i] - 1) < (f64 ? 1e-9 : 1e-4),
                  "%s, step %d: loss %.12f, not %.12f", name, i + 1, step.sums.loss / 11,
                  losses[i]);
        if (i > 0)
            continue;
        /* The first moment is a tenth of the only gradient so far. */
        far = distance(model, file, name, "g", trainer->m, 10, &most);
        CHECK_MSG(f64 ? most < 1e-9 : far < 1e-5, "%s: gradient off by %g, %g", name, far, most);
    }
    far = distance(model, file, name, "after", attn_model_weights(model), 1, &most);
    print_message("%s %s: weights after ten steps off by %.2g, at most %.2g\n", name,
                  attn_type_name(type), far, most);
    /* In f32 a gradient that is 0 but for rounding (that of a bias of keys) moves a weight by up to
     * the rate a step. */
    CHECK_MSG(f64 ? most < 1e-6 : far < 0.02, "%s: weights off by %g, %g", name, far, most);
    attn_trainer_destroy(trainer);
    attn_model_destroy(model);
}

static void golden(void **state)
{
    static const char *const names[] = {"post", "pre", "decoder"};
    const attn_ctx *ctx = ctx_for(test_set(state), 2);
    attn_file *file;

    CHECK(attn_file_open(NULL, FILE_NAME, NULL, &file, NULL) == ATTN_OK);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        check_case(file, names[i], ctx, ATTN_F64);
        check_case(file, names[i], ctx, ATTN_F32);
    }
    attn_file_close(file);
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* How far the float32 gradient is from the float64 one: over the draws it is at most twice what
 * PyTorch's is. */
static void float_gradients(void **state)
{
    const attn_ctx *ctx = ctx_for(test_set(state), 2);
    double ours[DRAWS], theirs[DRAWS];
    attn_file *file;

    CHECK(attn_file_open(NULL, FILE_NAME, NULL, &file, NULL) == ATTN_OK);
    for (int d = 0; d < DRAWS; d++) {
        attn_trainer *t[2];
        attn_model *m[2];
        double apart = 0, size = 0;
        char name[20];

        snprintf(name, sizeof name, "draw%d", d);
        for (int i = 0; i < 2; i++) {
            begin(file, name, ctx, i ? ATTN_F64 : ATTN_F32, &m[i], &t[i]);
            CHECK(attn_trainer_step(t[i], NULL, NULL) == ATTN_OK);
        }
        for (int64_t j = 0; j < attn_model_elements(m[0]); j++) {
            double g = ((const double *)t[1]->m)[j];
            double e = (double)((const float *)t[0]->m)[j] - g;

            apart += e * e;
            size += g * g;
        }
        ours[d] = sqrt(apart / size);
        theirs[d] = *(const double *)find(file, name, "off")->data;
        for (int i = 0; i < 2; i++) {
            attn_trainer_destroy(t[i]);
            attn_model_destroy(m[i]);
        }
    }
    attn_file_close(file);
    qsort(ours, DRAWS, sizeof *ours, ascending);
    qsort(theirs, DRAWS, sizeof *theirs, ascending);
    print_message("float32 gradients, median and largest: ours %.2g %.2g, PyTorch's %.2g %.2g\n",
                  ours[DRAWS / 2], ours[DRAWS - 1], theirs[DRAWS / 2], theirs[DRAWS - 1]);
    CHECK(ours[DRAWS / 2] <= 2 * theirs[DRAWS / 2]);
    CHECK(ours[DRAWS - 1] <= 2 * theirs[DRAWS - 1]);
}

int main(int argc, char **argv)
{
    static const test_case tests[] = {{"golden", golden, 1},
                                      {"float gradients", float_gradients, 1}};

    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
