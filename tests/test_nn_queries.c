/* test_nn_queries.c: decoders that read a learned table of queries in place of targets: gradients,
 * bits, what queries see, files, and what is refused. */
#define _XOPEN_SOURCE 700
#include "include/attn/generate.h"
#include "include/attn/nn.h"
#include "tests/nn_step.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { VARIANTS = 9, QUERIES = 5 };

static attn_model_config query_config(int variant)
{
    attn_model_config c = step_config(3 * variant); /* both stacks */

    c.tie_embeddings = 0;
    c.queries = QUERIES;
    return c;
}

static void finite_differences(void **state)
{
    rng r = rng_make(test_seed(), test_index(state));

    for (int i = 0; i < VARIANTS; i++) {
        attn_model_config c = query_config(i);
        attn_model *m;

        c.type = ATTN_F64;
        m = step_model(&c, 1, (uint64_t)i);
        step_differences(m, &r, i);
        attn_model_destroy(m);
    }
}

/* The target of a batch is not read; each sequence has its queries' rows, with the bits that it has
 * alone, for any threads and with recomputation. */
static void bits(void **state)
{
    rng r = rng_make(test_seed(), test_index(state));

    for (int i = 0; i < VARIANTS; i++) {
        attn_model_config c = query_config(i);
        attn_model *m = step_model(&c, 1, 3), *four = step_model(&c, 4, 3);
        attn_view whole;
        void *gradients;
        step s;

        step_init(&s, m, &r, 4, 17);
        s.batch.target = NULL;
        s.batch.target_starts = NULL;
        s.limits.target_tokens = s.limits.longest_target = 0;
        step_run(&s, ATTN_PASS_BACKWARD | ATTN_PASS_DROPOUT, 8);
        CHECK(s.pass.hidden.size[2] == 4 * QUERIES);
        whole = view_copy(&s.memory, &r, &s.pass.hidden, s.pass.hidden.type, LAYOUT_BHSD);
        gradients = arena_get(&s.memory, s.block_bytes);
        memcpy(gradients, s.gradients, s.block_bytes);
        s.model = four;
        step_run(&s, ATTN_PASS_BACKWARD | ATTN_PASS_DROPOUT | ATTN_PASS_RECOMPUTE, 8);
        CHECK_MSG(view_same_bits(&whole, &s.pass.hidden) &&
                      memcmp(gradients, s.gradients, s.block_bytes) == 0,
                  "variant %d: threads and recomputation", i);
        for (int64_t k = 0; k < 4; k++) { /* sequence k alone */
            attn_view mine = view_part(&whole, 2, k * QUERIES, QUERIES);
            int64_t starts[2] = {0, s.source_starts[k + 1] - s.source_starts[k]};

            s.batch.segments = 1;
            s.batch.first_segment = k;
            s.batch.source = s.source + s.source_starts[k];
            s.batch.source_types = s.types ? s.types + s.source_starts[k] : NULL;
            s.batch.source_starts = starts;
            step_forward(&s, ATTN_PASS_DROPOUT, 8);
            CHECK_MSG(view_same_bits(&mine, &s.pass.hidden), "variant %d, sequence %lld", i,
                      (long long)k);
        }
        step_end(&s);
        attn_model_destroy(m);
        attn_model_destroy(four);
    }
}

static void copy_param(const attn_model *from, const char *a, attn_model *to, const char *b)
{
    const attn_param *p = attn_model_find_param(from, a), *q = attn_model_find_param(to, b);

    CHECK_MSG(p && q && p->count == q->count, "%s, %s", a, b);
    memcpy((double *)attn_model_weights(to) + q->offset,
           (const double *)attn_model_weights(from) + p->offset, (size_t)p->count * sizeof(double));
}

/* With one query nobody is there to be causal about: the model is an ordinary one whose targets are
 * one token each. */
static void one_query(void **state)
{
    rng r = rng_make(test_seed(), test_index(state));

    for (int i = 0; i < VARIANTS; i++) {
        attn_model_config c = query_config(i);
        attn_model *m, *plain;
        attn_view one;
        step s;

        c.type = ATTN_F64;
        c.queries = 1;
        c.output = ATTN_NO;
        m = step_model(&c, 1, 3);
        c.queries = 0;
        c.source_vocabulary = c.vocabulary;
        c.vocabulary = 1;
        c.start = ATTN_START_NONE;
        plain = step_model(&c, 1, 4);
        for (size_t k = 0; k < attn_model_param_count(m); k++) {
            const char *name = attn_model_param(m, k)->name;
            copy_param(m, name, plain,
                       strcmp(name, "decoder.queries.weight") ? name : "decoder.embedding.weight");
        }
        step_init(&s, m, &r, 3, 9);
        step_forward(&s, 0, 0);
        one = view_copy(&s.memory, &r, &s.pass.hidden, ATTN_F64, LAYOUT_BHSD);
        s.model = plain;
        for (int k = 0; k <= 3; k++)
            s.target_starts[k] = k;
        s.batch.target = (const int32_t[]){0, 0, 0};
        s.limits.target_tokens = 3;
        s.limits.longest_target = 1;
        step_forward(&s, 0, 0);
        if (c.positions != ATTN_POSITIONS_T5) /* whose buckets of both ways are others */
            CHECK_MSG(view_same_bits(&one, &s.pass.hidden), "variant %d", i);
        step_end(&s);
        attn_model_destroy(m);
        attn_model_destroy(plain);
    }
}

/* Every query sees all queries and the whole source, and is another row of the table. */
static void what_queries_see(void **state)
{
    rng r = rng_make(test_seed(), test_index(state));
    attn_model_config c = query_config(0);
    attn_look look[2] = {{1, 0, 1, 0, {0}, NULL}, {1, 1, 0, 0, {0}, NULL}};
    attn_model *m;
    step s;

    c.positions = ATTN_POSITIONS_NONE;
    m = step_model(&c, 2, 3);
    step_init(&s, m, &r, 1, 9);
    s.source_starts[1] = s.limits.longest_source = s.limits.source_tokens;
    look[0].weights = view_new(&s.memory, &r, ATTN_F32, 1, 4, QUERIES, QUERIES, LAYOUT_BHSD);
    look[1].weights =
        view_new(&s.memory, &r, ATTN_F32, 1, 4, QUERIES, s.source_starts[1], LAYOUT_BHSD);
    s.pass.looks = look;
    s.pass.look_count = 2;
    step_forward(&s, 0, 0);
    for (int k = 0; k < 2; k++)
        for (int64_t h = 0; h < 4; h++)
            for (int64_t i = 0; i < QUERIES; i++)
                for (int64_t j = 0; j < look[k].weights.size[3]; j++)
                    CHECK(view_get(&look[k].weights, 0, h, i, j) > 0);
    for (int64_t i = 1; i < QUERIES; i++) {
        attn_view a = view_part(&s.pass.hidden, 2, 0, 1), b = view_part(&s.pass.hidden, 2, i, 1);
        CHECK(!view_same_bits(&a, &b));
    }
    step_end(&s);
    attn_model_destroy(m);
}

static void files_and_counts(void **state)
{
    char path[] = "/tmp/attn-queries-XXXXXX";
    int fd = mkstemp(path);

    (void)state;
    CHECK(fd >= 0);
    close(fd);
    for (int i = 0; i < VARIANTS; i++) {
        attn_model_config c = query_config(i);
        attn_model *m, *back = NULL;
        int64_t count = 0;

        c.output = i % 2 ? ATTN_YES : ATTN_DEFAULT;
        m = step_model(&c, 1, 3);
        CHECK(attn_model_find_param(m, "decoder.queries.weight")->size[0] == QUERIES);
        CHECK(!attn_model_output_weight(m, attn_model_weights(m)).data == !(i % 2));
        for (size_t k = 0; k < attn_model_param_count(m); k++)
            count += attn_model_param(m, k)->count;
        CHECK(count == attn_model_config_parameters(&c));
        CHECK(attn_model_save(m, NULL, path, NULL) == ATTN_OK);
        CHECK(attn_model_load(ctx_for(ATTN_SET_AUTO, 1), path, &back, NULL) == ATTN_OK);
        CHECK(memcmp(attn_model_get_config(m), attn_model_get_config(back), sizeof c) == 0);
        attn_model_destroy(m);
        attn_model_destroy(back);
    }
    remove(path);
}

static void refused(void **state)
{
    rng r = rng_make(test_seed(), test_index(state));
    attn_model_config good = query_config(0), c;
    attn_generator *g = NULL;
    attn_error err = {0};
    attn_model *m;
    int32_t types[2 * QUERIES] = {0};
    size_t size;
    step s;

#define REFUSES(call, start)                                                                       \
    CHECK_MSG((call) != ATTN_OK && strncmp(err.text, start, strlen(start)) == 0, "%s: %s", #call,  \
              err.text)
#define WRONG(change, start)                                                                       \
    do {                                                                                           \
        c = good;                                                                                  \
        change;                                                                                    \
        REFUSES(attn_model_config_complete(&c, &err), start);                                      \
    } while (0)
    WRONG(c.queries = -1, "queries");
    WRONG(c.queries = INT64_MAX, "queries");
    WRONG(c.stack = ATTN_STACK_DECODER, "queries");
    WRONG(c.tie_embeddings = 1, "tie_embeddings");
    WRONG(c.tie_output = 1; c.output = ATTN_YES, "tie_output");
#undef WRONG
    good.output = ATTN_YES;
    good.token_types = 2;
    m = step_model(&good, 1, 3);
    REFUSES(attn_generator_create(m, NULL, &g, &err), "model");
    step_init(&s, m, &r, 2, 9);
    step_forward(&s, 0, 0);
    types[2 * QUERIES - 1] = 2;
    s.batch.target_types = types;
    REFUSES(attn_model_forward(m, &s.pass, &err), "target_types[9]: 2");
    s.limits.segments = INT32_MAX;
    REFUSES(attn_model_plan(m, &s.limits, 0, &size, &err), "segments");
#undef REFUSES
    step_end(&s);
    attn_model_destroy(m);
}

int main(int argc, char **argv)
{
    static const test_case tests[] = {
        {"finite differences", finite_differences, 0},
        {"bits", bits, 0},
        {"one query", one_query, 0},
        {"what queries see", what_queries_see, 0},
        {"files and counts", files_and_counts, 0},
        {"refused", refused, 0},
    };

    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
