/* test_train_table3.c: every row of the paper's Table 3 constructs and takes a step of training,
 * all its layers, dropout and label smoothing as they are.
 *
 *     test_train_table3 --divide 1
 *
 * is the models themselves, up to 214 million parameters at the paper's vocabulary, in 4 GB of
 * memory. By default widths are a quarter, and the vocabulary is small: the steps are the same. */
#include "include/attn/train.h"
#include "tests/expect.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int64_t divide = 4;

/* 0: as in the base model. */
typedef struct table_row {
    const char *name;
    int64_t layers, d, ff, heads, dk, dv;
    double dropout, epsilon;
    int learned;
    int64_t count; /* of parameters with biases, at 37,000 words and 512 learned positions */
} table_row;

static const table_row rows[] = {
    {"base", 0, 0, 0, 0, 0, 0, 0.1, 0.1, 0, 63082496},
    {"A, 1 head", 0, 0, 0, 1, 512, 512, 0.1, 0.1, 0, 63082496},
    {"A, 4 heads", 0, 0, 0, 4, 128, 128, 0.1, 0.1, 0, 63082496},
    {"A, 16 heads", 0, 0, 0, 16, 32, 32, 0.1, 0.1, 0, 63082496},
    {"A, 32 heads", 0, 0, 0, 32, 16, 16, 0.1, 0.1, 0, 63082496},
    {"B, dk 16", 0, 0, 0, 0, 16, 64, 0.1, 0.1, 0, 0},
    {"B, dk 32", 0, 0, 0, 0, 32, 64, 0.1, 0.1, 0, 0},
    {"C, 2 layers", 2, 0, 0, 0, 0, 0, 0.1, 0.1, 0, 0},
    {"C, 4 layers", 4, 0, 0, 0, 0, 0, 0.1, 0.1, 0, 0},
    {"C, 8 layers", 8, 0, 0, 0, 0, 0, 0.1, 0.1, 0, 0},
    {"C, d 256", 0, 256, 2048, 0, 32, 32, 0.1, 0.1, 0, 0},
    {"C, d 1024", 0, 1024, 2048, 0, 128, 128, 0.1, 0.1, 0, 0},
    {"C, ff 1024", 0, 0, 1024, 0, 0, 0, 0.1, 0.1, 0, 0},
    {"C, ff 4096", 0, 0, 4096, 0, 0, 0, 0.1, 0.1, 0, 0},
    {"D, dropout 0", 0, 0, 0, 0, 0, 0, 0, 0.1, 0, 63082496},
    {"D, dropout 0.2", 0, 0, 0, 0, 0, 0, 0.2, 0.1, 0, 63082496},
    {"D, smoothing 0", 0, 0, 0, 0, 0, 0, 0.1, 0, 0, 63082496},
    {"D, smoothing 0.2", 0, 0, 0, 0, 0, 0, 0.1, 0.2, 0, 63082496},
    {"E, learned", 0, 0, 0, 0, 0, 0, 0.1, 0.1, 1, 63082496 + 2 * 512 * 512},
    {"big", 0, 1024, 4096, 16, 64, 64, 0.3, 0.1, 0, 214245376},
};

static attn_model_config config_of(const table_row *r)
{
    attn_model_config c = ATTN_MODEL_CONFIG_INIT;

    c.vocabulary = divide == 1 ? 37000 : 60;
    c.biases = ATTN_BIAS_ALL;
    c.tie_embeddings = c.tie_output = 1;
    c.encoder_layers = c.decoder_layers = r->layers;
    c.d = (r->d ? r->d : 512) / divide;
    c.ff = (r->ff ? r->ff : 2048) / divide;
    c.heads = r->heads;
    c.dk = (r->dk ? r->dk : 64) / divide;
    c.dv = (r->dv ? r->dv : 64) / divide;
    c.dropout = r->dropout;
    c.positions = r->learned ? ATTN_POSITIONS_LEARNED : ATTN_POSITIONS_PAPER;
    return c;
}

enum { SAMPLES = 256 };

/* Elements from all over a tensor; an odd step meets every column. */
static void sample(const attn_model *m, const attn_param *p, float to[SAMPLES])
{
    const float *w = (const float *)attn_model_weights(m) + p->offset;

    for (int64_t i = 0; i < SAMPLES; i++)
        to[i] = w[i * (p->count / SAMPLES | 1) % p->count];
}

static void train_row(const table_row *row)
{
    static const int32_t ids[] = {3, 7, 12, 59, 5, 0, 21, 33, 3, 0};
    static const int64_t starts[] = {0, 6, 10};
    attn_model_config c = config_of(row);
    attn_trainer_options o = ATTN_TRAINER_OPTIONS_INIT;
    attn_trainer *trainer;
    attn_model *m;
    attn_error err = {0};
    attn_step step;
    size_t count;
    float(*before)[SAMPLES], after[SAMPLES];

    CHECK_MSG(divide > 1 || !row->count || attn_model_config_parameters(&c) == row->count,
              "%s: %lld parameters", row->name, (long long)attn_model_config_parameters(&c));
    CHECK_MSG(attn_model_create(ctx_for(ATTN_SET_AUTO, 2), &c, 1, &m, &err) == ATTN_OK, "%s: %s",
              row->name, err.text);
    o.corpus = (attn_corpus){2, ids, starts, ids, starts};
    o.schedule.rate = 1e-3;
    o.epsilon = row->epsilon;
    CHECK_MSG(attn_trainer_create(m, &o, &trainer, &err) == ATTN_OK, "%s: %s", row->name, err.text);
    count = attn_model_param_count(m);
    before = malloc(count * sizeof *before);
    CHECK(before != NULL);
    for (size_t i = 0; i < count; i++)
        sample(m, attn_model_param(m, i), before[i]);
    CHECK_MSG(attn_trainer_step(trainer, &step, &err) == ATTN_OK, "%s: %s", row->name, err.text);
    CHECK_MSG(step.sums.tokens == 10 && isfinite(step.sums.loss) && step.norm > 0, "%s: loss %g",
              row->name, step.sums.loss);
    for (size_t i = 0; i < count; i++) {
        const attn_param *p = attn_model_param(m, i);

        sample(m, p, after);
        for (int k = 0; k < SAMPLES; k++)
            CHECK_MSG(isfinite(after[k]), "%s: %s is not finite", row->name, p->name);
        CHECK_MSG(memcmp(before[i], after, sizeof after) != 0, "%s: %s did not move", row->name,
                  p->name);
    }
    print_message("%s: %lld parameters, loss %.3f\n", row->name,
                  (long long)attn_model_config_parameters(&c),
                  step.sums.loss / (double)step.sums.tokens);
    free(before);
    attn_trainer_destroy(trainer);
    attn_model_destroy(m);
}

static void every_row(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        train_row(&rows[i]);
}

int main(int argc, char **argv)
{
    static const test_case tests[] = {{"every row of Table 3", every_row, 0}};
    const char *given = test_option(&argc, argv, "--divide", 0);

    if (given)
        divide = strtoll(given, NULL, 10);
    if (divide != 1 && divide != 2 && divide != 4)
        return 2;
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
