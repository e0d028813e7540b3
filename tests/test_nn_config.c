/* test_nn_config.c: configurations, exact numbers of parameters, the list of tensors and what they
 * begin with. */
#include "include/attn/nn.h"
#include "tests/expect.h"

#include <math.h>
#include <string.h>

static attn_model *make(const attn_model_config *c, uint64_t seed)
{
    attn_model *m = NULL;
    attn_error err = {0};

    CHECK_MSG(attn_model_create(ctx_for(ATTN_SET_AUTO, 2), c, seed, &m, &err) == ATTN_OK, "%s",
              err.text);
    return m;
}

/* The list agrees with the closed form, and lies in the block without overlap. */
static void check_list(const attn_model_config *c)
{
    attn_model *m = make(c, 1);
    int64_t sum = 0, end = 0;

    for (size_t i = 0; i < attn_model_param_count(m); i++) {
        const attn_param *p = attn_model_param(m, i);
        CHECK_MSG(p->offset >= end && p->offset - end < 16 && p->offset % 16 == 0, "%s at %lld",
                  p->name, (long long)p->offset);
        CHECK(p->count == p->size[0] * p->size[1] * p->size[2] * p->size[3]);
        CHECK_MSG(attn_model_find_param(m, p->name) == p, "%s is there twice", p->name);
        end = p->offset + p->count;
        sum += p->count;
    }
    CHECK(attn_model_elements(m) >= end && attn_model_elements(m) % 16 == 0);
    CHECK_MSG(sum == attn_model_config_parameters(c), "%lld tensors' elements, %lld in closed form",
              (long long)sum, (long long)attn_model_config_parameters(c));
    CHECK(attn_model_param(m, attn_model_param_count(m)) == NULL);
    CHECK(attn_model_find_param(m, "no such") == NULL);
    attn_model_destroy(m);
}

static attn_model_config base(int64_t vocabulary)
{
    attn_model_config c = ATTN_MODEL_CONFIG_INIT;

    c.vocabulary = vocabulary;
    c.tie_embeddings = c.tie_output = 1;
    return c;
}

static void counts_of_the_paper(void **state)
{
    attn_model_config c = base(37000);

    (void)state;
    c.biases = ATTN_BIAS_ALL;
    CHECK(attn_model_config_parameters(&c) == 63082496);
    c.d = 1024;
    c.heads = 16;
    CHECK(attn_model_config_parameters(&c) == 214245376);
    c = base(1);
    c.biases = ATTN_BIAS_ALL;
    c.final_norm = ATTN_YES;
    CHECK(attn_model_config_parameters(&c) - 512 == 44140544); /* nn.Transformer() */
}

/* Table 3 of the paper: a row's change, and its count in millions. */
static void table_3(void **state)
{
    static const struct {
        int64_t layers, d, ff, heads, dk, dv;
        int learned, millions;
    } row[] = {
        {0, 0, 0, 0, 0, 0, 0, 65},        {0, 0, 0, 1, 512, 512, 0, 65},
        {0, 0, 0, 4, 128, 128, 0, 65},    {0, 0, 0, 16, 32, 32, 0, 65},
        {0, 0, 0, 32, 16, 16, 0, 65},     {0, 0, 0, 0, 16, 64, 0, 58},
        {0, 0, 0, 0, 32, 64, 0, 60},      {2, 0, 0, 0, 0, 0, 0, 36},
        {4, 0, 0, 0, 0, 0, 0, 50},        {8, 0, 0, 0, 0, 0, 0, 80},
        {0, 256, 2048, 8, 32, 32, 0, 28}, {0, 1024, 2048, 8, 128, 128, 0, 168},
        {0, 0, 1024, 0, 0, 0, 0, 53},     {0, 0, 4096, 0, 0, 0, 0, 90},
        {0, 0, 0, 0, 0, 0, 1, 65},
    };

    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        attn_model_config c = base(41100);
        double millions;

        c.encoder_layers = c.decoder_layers = row[i].layers;
        c.d = row[i].d;
        c.ff = row[i].ff;
        c.heads = row[i].heads;
        c.dk = row[i].dk;
        c.dv = row[i].dv;
        c.positions = row[i].learned ? ATTN_POSITIONS_LEARNED : ATTN_POSITIONS_PAPER;
        c.max_positions = row[i].learned ? 256 : 0;
        millions = (double)attn_model_config_parameters(&c) / 1e6;
        CHECK_MSG(fabs(millions - row[i].millions) <= 0.5, "row %zu: %.3f M, expected %d M", i,
                  millions, row[i].millions);
    }
}

/* A small configuration with everything that can be there. */
static attn_model_config small(int variant)
{
    attn_model_config c = ATTN_MODEL_CONFIG_INIT;

    c.vocabulary = 37;
    c.stack = (attn_stack)(variant % 3);
    c.encoder_layers = variant % 3 == 1 ? 0 : 2;
    c.decoder_layers = variant % 3 == 2 ? 0 : 1;
    c.d = 20;
    c.heads = 4;
    c.kv_heads = variant % 2 ? 2 : 4;
    c.dk = 6;
    c.dv = 5;
    c.biases = variant % 32;
    c.norm = (attn_norm)(variant % 2);
    c.place = (attn_place)(variant / 2 % 2);
    c.norm_no_bias = variant / 4 % 2;
    c.gated = variant / 3 % 2;
    c.positions = (attn_positions)(variant % 9);
    c.tie_embeddings = variant / 5 % 2;
    c.tie_output = variant / 7 % 2;
    c.output_bias = variant / 2 % 2;
    c.qk_norm = (attn_qk_norm)(variant / 9 % 4);
    c.qk_temperature = variant / 6 % 2;
    c.embedding_norm = (attn_choice)(variant % 3);
    return c;
}

static void lists(void **state)
{
    (void)state;
    for (int i = 0; i < 144; i++) {
        attn_model_config c = small(i);
        check_list(&c);
    }
    attn_model_config c = small(0);
    c.qk_norm = ATTN_QK_NONE;
    c.qk_temperature = 0;
    c.score = ATTN_SCORE_ADDITIVE;
    check_list(&c);
    for (int i = 0; i < 12; i++) {
        c = small(i);
        c.score = ATTN_SCORE_GATE;
        c.token_types = i % 3;
        check_list(&c);
    }
}

static double get(const attn_view *v, int64_t i)
{
    return v->type == ATTN_F64 ? ((const double *)v->data)[i] : (double)((const float *)v->data)[i];
}

static void completing(void **state)
{
    attn_model_config c = ATTN_MODEL_CONFIG_INIT, again;

    (void)state;
    c.vocabulary = 10;
    CHECK(attn_model_config_complete(&c, NULL) == ATTN_OK);
    CHECK(c.encoder_layers == 6 && c.d == 512 && c.ff == 2048 && c.heads == 8 && c.dk == 64);
    CHECK(c.final_norm == ATTN_NO && c.activation == ATTN_ACT_RELU && c.attention_scale == 0.125);
    again = c;
    CHECK(attn_model_config_complete(&again, NULL) == ATTN_OK);
    CHECK(memcmp(&again, &c, sizeof c) == 0);
}

static void wrong_configurations(void **state)
{
    attn_model *m = NULL;

    (void)state;
#define WRONG(change, name)                                                                        \
    do {                                                                                           \
        attn_model_config c = small(0), before;                                                    \
        attn_error err = {0};                                                                      \
        change;                                                                                    \
        before = c;                                                                                \
        CHECK_MSG(attn_model_config_complete(&c, &err) != ATTN_OK, "%s went through", #change);    \
        CHECK_MSG(strncmp(err.text, name, strlen(name)) == 0, "%s: %s", #change, err.text);        \
        CHECK(memcmp(&before, &c, sizeof c) == 0);                                                 \
        CHECK(attn_model_config_parameters(&c) == -1);                                             \
        CHECK(attn_model_create(ctx_for(ATTN_SET_AUTO, 1), &c, 1, &m, NULL) != ATTN_OK && !m);     \
    } while (0)
    WRONG(c.struct_size = 3, "config.struct_size");
    WRONG(c.vocabulary = 0, "vocabulary");
    WRONG(c.vocabulary = INT64_MAX, "vocabulary");
    WRONG(c.d = -1, "d:");
    WRONG(c.d = INT64_MAX, "d:");
    WRONG(c.ff = -5, "ff");
    WRONG(c.heads = 5, "kv_heads");
    WRONG(c.kv_heads = 8, "kv_heads");
    WRONG(c.dk = -3, "dk");
    WRONG(c.heads = c.kv_heads = 65536; c.dk = 65536, "heads * dk");
    WRONG(c.type = ATTN_F16, "type");
    WRONG(c.norm = ATTN_NORM_L2, "norm");
    WRONG(c.stack = (attn_stack)7, "stack");
    WRONG(c.dropout = 1, "dropout");
    WRONG(c.dropout = (double)NAN, "dropout");
    WRONG(c.norm_eps = -1, "norm_eps");
    WRONG(c.positions = ATTN_POSITIONS_ROTARY; c.rotary = 3, "rotary");
    WRONG(c.positions = ATTN_POSITIONS_T5; c.t5_buckets = 6, "t5_buckets");
    WRONG(c.tie_embeddings = 1; c.source_vocabulary = 9, "tie_embeddings");
    WRONG(c.start = ATTN_START_TOKEN; c.start_token = 37, "start_token");
    WRONG(c.score = ATTN_SCORE_ADDITIVE; c.softcap = 3, "score");
    WRONG(c.score = (attn_score)3, "score");
    WRONG(c.token_types = -1, "token_types");
#undef WRONG
    CHECK(attn_model_create(NULL, NULL, 1, &m, NULL) == ATTN_E_ARGUMENT);
    CHECK(attn_model_create(ctx_for(ATTN_SET_AUTO, 1), NULL, 1, &m, NULL) == ATTN_E_ARGUMENT);
    attn_model_destroy(NULL);
}

/* Mean and spread of every drawn tensor; no two of them alike. */
static void draws(void **state)
{
    attn_model_config c = small(0);
    attn_model *m, *same;
    size_t bytes;

    (void)state;
    c.d = 64;
    c.dk = c.dv = 16;
    m = make(&c, 7);
    same = make(&c, 7);
    bytes = (size_t)attn_model_elements(m) * sizeof(float);
    CHECK(memcmp(attn_model_weights(m), attn_model_weights(same), bytes) == 0);
    attn_model_destroy(same);
    for (size_t i = 0; i < attn_model_param_count(m); i++) {
        const attn_param *p = attn_model_param(m, i);
        attn_view v = attn_param_view(m, p, attn_model_weights(m));
        double sum = 0, square = 0, variance = 2.0 / (double)(p->size[0] + p->size[1]);

        for (int64_t j = 0; j < p->count; j++) {
            sum += get(&v, j);
            square += get(&v, j) * get(&v, j);
        }
        if (p->rank == 1)
            continue;
        if (strstr(p->name, "embedding"))
            variance = 1.0 / 64;
        square /= (double)p->count;
        CHECK_MSG(fabs(square / variance - 1) < 10 / sqrt((double)p->count), "%s: %g, not %g",
                  p->name, square, variance);
        CHECK_MSG(fabs(sum) < 6 * sqrt(variance * (double)p->count), "%s: sum %g", p->name, sum);
    }
    attn_model_destroy(m);
}

/* The same numbers in f64, and with any number of threads: known ones, at fixed places. */
static void draws_are_the_same_everywhere(void **state)
{
    attn_model_config c = ATTN_MODEL_CONFIG_INIT;
    attn_model *one = NULL, *wide;
    attn_view a, b;

    (void)state;
    c.vocabulary = 3000;
    c.d = 64;
    c.encoder_layers = c.decoder_layers = 1;
    CHECK(attn_model_create(ctx_for(ATTN_SET_AUTO, 1), &c, 3, &one, NULL) == ATTN_OK);
    c.type = ATTN_F64;
    wide = make(&c, 3);
    CHECK(attn_model_elements(one) == attn_model_elements(wide));
    a = attn_view_bhsd(attn_model_weights(one), ATTN_F32, 1, 1, 1, attn_model_elements(one));
    b = attn_view_bhsd(attn_model_weights(wide), ATTN_F64, 1, 1, 1, attn_model_elements(one));
    for (int64_t i = 0; i < attn_model_elements(one); i++)
        CHECK((float)get(&b, i) == (float)get(&a, i));
    attn_model_destroy(one);
    attn_model_destroy(wide);
}

static void output_views(void **state)
{
    attn_model_config c = small(0);
    attn_model *m;
    attn_view v;

    (void)state;
    c.tie_output = 1;
    m = make(&c, 1);
    v = attn_model_output_weight(m, attn_model_weights(m));
    CHECK(v.data == attn_param_view(m, attn_model_find_param(m, "decoder.embedding.weight"),
                                    attn_model_weights(m))
                        .data);
    CHECK(v.size[2] == 37 && v.size[3] == 20);
    CHECK(attn_model_output_bias(m, attn_model_weights(m)).data == NULL);
    attn_model_destroy(m);
    c.stack = ATTN_STACK_ENCODER;
    m = make(&c, 1);
    CHECK(attn_model_output_weight(m, attn_model_weights(m)).data == NULL);
    attn_model_destroy(m);
    c.output = ATTN_YES;
    c.output_bias = 1;
    m = make(&c, 1);
    CHECK(attn_model_output_weight(m, attn_model_weights(m)).data == attn_model_weights(m));
    CHECK(attn_model_output_bias(m, attn_model_weights(m)).size[3] == 37);
    attn_model_destroy(m);
}

int main(int argc, char **argv)
{
    static const test_case tests[] = {
        {"counts of the paper", counts_of_the_paper, 0},
        {"rows of Table 3", table_3, 0},
        {"lists of tensors", lists, 0},
        {"completing", completing, 0},
        {"wrong configurations", wrong_configurations, 0},
        {"draws", draws, 0},
        {"draws are the same everywhere", draws_are_the_same_everywhere, 0},
        {"output views", output_views, 0},
    };

    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
