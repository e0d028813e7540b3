/* test_train_trainer.c: training runs: order of the data, parts that add up to whole batches, bits
 * that do not depend on threads or interruptions, evaluation, and that a model learns. */
#define _GNU_SOURCE

#include "include/attn/train.h"
#include "src/train/batches.h"
#include "tests/expect.h"
#include "tests/heap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int fsync(int fd) /* waits for no disk */
{
    (void)fd;
    return 0;
}

/* --- A corpus and a model --------------------------------------------------------------------- */

enum { SYMBOLS = 7, COUNT = 60 };

typedef struct scene {
    arena memory;
    attn_corpus corpus;
    attn_model *model;
    attn_trainer *trainer;
} train_scene;

/* Copy: the source is the target, 1 to `longest` symbols and an end. */
static attn_corpus draw_corpus(arena *memory, rng *r, int64_t count, int64_t longest)
{
    int64_t *starts = arena_get(memory, ((size_t)count + 1) * sizeof *starts), n = 0;
    int32_t *ids = arena_get(memory, (size_t)(count * (longest + 1)) * sizeof *ids);

    for (int64_t i = 0; i < count; i++) {
        int64_t length = rng_int(r, 1, longest);

        starts[i] = n;
        for (int64_t j = 0; j < length; j++)
            ids[n++] = (int32_t)rng_int(r, 1, SYMBOLS - 1);
        ids[n++] = 0;
    }
    starts[count] = n;
    return (attn_corpus){count, ids, starts, ids, starts};
}

static attn_model_config small_model(attn_type type)
{
    attn_model_config c = ATTN_MODEL_CONFIG_INIT;

    c.type = type;
    c.vocabulary = SYMBOLS;
    c.d = 16, c.ff = 32, c.heads = 2;
    c.encoder_layers = c.decoder_layers = 1;
    c.place = ATTN_PLACE_PRE;
    c.biases = ATTN_BIAS_ALL;
    c.tie_embeddings = c.tie_output = 1;
    c.dropout = 0.1;
    return c;
}

static attn_trainer_options small_run(const attn_corpus *corpus)
{
    attn_trainer_options o = ATTN_TRAINER_OPTIONS_INIT;

    o.corpus = *corpus;
    o.seed = 7;
    o.batch_tokens = 60;
    o.schedule.rate = 3e-3;
    o.schedule.warmup = 10;
    o.epsilon = 0.1;
    o.decay = 0.01;
    o.max_norm = 1;
    return o;
}

static void begin(train_scene *s, const attn_ctx *ctx, const attn_model_config *c,
                  const attn_trainer_options *o)
{
    attn_error err = {0};

    CHECK_MSG(attn_model_create(ctx, c, 3, &s->model, &err) == ATTN_OK, "%s", err.text);
    CHECK_MSG(attn_trainer_create(s->model, o, &s->trainer, &err) == ATTN_OK, "%s", err.text);
}

static void end(train_scene *s)
{
    attn_trainer_destroy(s->trainer);
    attn_model_destroy(s->model);
    arena_reset(&s->memory);
    *s = (train_scene){0};
}

static attn_step steps(train_scene *s, int n)
{
    attn_error err = {0};
    attn_step report = {0};

    for (int i = 0; i < n; i++)
        CHECK_MSG(attn_trainer_step(s->trainer, &report, &err) == ATTN_OK, "%s", err.text);
    return report;
}

static size_t weight_bytes(const train_scene *s)
{
    return (size_t)attn_model_elements(s->model) *
           attn_type_size(attn_model_get_config(s->model)->type);
}

static int same_weights(const train_scene *a, const train_scene *b)
{
    return memcmp(attn_model_weights(a->model), attn_model_weights(b->model), weight_bytes(a)) == 0;
}

/* Largest difference of f64 weights. */
static double apart(const train_scene *a, const train_scene *b)
{
    const double *x = attn_model_weights(a->model), *y = attn_model_weights(b->model);
    double most = 0;

    for (int64_t i = 0; i < attn_model_elements(a->model); i++)
        most = fabs(x[i] - y[i]) > most ? fabs(x[i] - y[i]) : most;
    return most;
}

/* --- Order ------------------------------------------------------------------------------------ */

/* Every sequence is in one batch of an epoch, within the limit unless alone; epochs differ; with
 * buckets the lengths of a batch are alike. */
static void order(void **state)
{
    arena memory = {0};
    rng r = rng_make(test_seed(), 1);
    attn_corpus c = draw_corpus(&memory, &r, COUNT, 20);
    int64_t first[COUNT];

    (void)state;
    for (int64_t bucket = 0; bucket <= 4; bucket += 4) {
        attn__batches b;

        CHECK(attn__batches_init(&b, NULL, &c, 18, bucket, 5, NULL) == ATTN_OK);
        for (int64_t epoch = 0; epoch < 3; epoch++) {
            int seen[COUNT] = {0};

            attn__batches_epoch(&b, epoch);
            for (int64_t i = 0; i < b.count; i++) {
                int64_t tokens = 0, least = 1000, most = 0;

                for (int64_t j = b.batch[i].from; j < b.batch[i].to; j++) {
                    int64_t n = attn__target_length(&c, b.order[j]);

                    seen[b.order[j]]++;
                    tokens += n;
                    least = n < least ? n : least;
                    most = n > most ? n : most;
                }
                CHECK(tokens <= 18 || b.batch[i].to == b.batch[i].from + 1);
                CHECK(b.batch[i].to > b.batch[i].from);
                CHECK(bucket == 0 || most / bucket - least / bucket <= 1 || b.count < 3);
            }
            for (int64_t i = 0; i < COUNT; i++)
                CHECK(seen[i] == 1);
            if (epoch == 0)
                memcpy(first, b.order, sizeof first);
            else
                CHECK(memcmp(first, b.order, sizeof first) != 0);
        }
        attn__batches_epoch(&b, 0);
        CHECK(memcmp(first, b.order, sizeof first) == 0);
        attn__batches_free(&b);
    }
    arena_reset(&memory);
}

/* --- Steps ------------------------------------------------------------------------------------ */

/* A batch in many parts is the step of a whole one, dropout too: the loss is over the tokens of the
 * step. */
static void parts_add_up(void **state)
{
    const attn_ctx *ctx = ctx_for(test_set(state), 2);
    train_scene whole = {0}, parts = {0};
    rng r = rng_make(test_seed(), 2);
    attn_corpus corpus = draw_corpus(&whole.memory, &r, COUNT, 9);
    attn_model_config c = small_model(ATTN_F64);
    attn_trainer_options o = small_run(&corpus);

    begin(&whole, ctx, &c, &o);
    o.part_tokens = 11;
    o.recompute = 1;
    begin(&parts, ctx, &c, &o);
    for (int i = 0; i < 12; i++) {
        attn_step a = steps(&whole, 1), b = steps(&parts, 1);

        CHECK(a.sums.tokens == b.sums.tokens && a.tokens == b.tokens && a.step == i + 1);
        CHECK(a.sums.right == b.sums.right && a.rate == b.rate);
        CHECK(fabs(a.sums.loss - b.sums.loss) < 1e-9 && fabs(a.norm - b.norm) < 1e-9);
        CHECK_MSG(apart(&whole, &parts) < 1e-9, "step %d: %g", i, apart(&whole, &parts));
    }
    CHECK(attn_trainer_epochs(whole.trainer) >= 1);
    end(&parts);
    end(&whole);
}

static void same_bits_for_threads(void **state)
{
    train_scene a = {0}, b = {0};
    rng r = rng_make(test_seed(), 3);
    attn_corpus corpus = draw_corpus(&a.memory, &r, COUNT, 9);
    attn_model_config c = small_model(ATTN_F32);
    attn_trainer_options o = small_run(&corpus);

    o.average = 0.9;
    begin(&a, ctx_for(test_set(state), 1), &c, &o);
    begin(&b, ctx_for(test_set(state), 3), &c, &o);
    steps(&a, 10);
    steps(&b, 10);
    CHECK(same_weights(&a, &b));
    CHECK(memcmp(attn_trainer_average(a.trainer), attn_trainer_average(b.trainer),
                 weight_bytes(&a)) == 0);
    CHECK(memcmp(attn_trainer_average(a.trainer), attn_model_weights(a.model), weight_bytes(&a)) !=
          0);
    end(&b);
    end(&a);
}

/* Interrupted after each of some steps and gone on with in a new trainer: the same bits. */
static void resumed(void **state)
{
    const attn_ctx *ctx = ctx_for(test_set(state), 2);
    train_scene through = {0};
    rng r = rng_make(test_seed(), 4);
    attn_corpus corpus = draw_corpus(&through.memory, &r, COUNT, 9);
    attn_model_config c = small_model(ATTN_F32);
    attn_trainer_options o = small_run(&corpus);
    char folder[] = "/tmp/attn-trainer-XXXXXX", line[100];
    static const char *const keys[] = {"mine"}, *const values[] = {"kept"};

    CHECK(mkdtemp(folder) != NULL);
    o.average = 0.9;
    begin(&through, ctx, &c, &o);
    for (int i = 0; i < 15; i += 5) {
        train_scene again = {0};
        attn_checkpoint *saved;
        attn_error err = {0};

        begin(&again, ctx, &c, &o);
        if (i > 0) {
            CHECK_MSG(attn_checkpoint_open(ctx, folder, -1, &saved, &err) == ATTN_OK, "%s",
                      err.text);
            CHECK(strcmp(attn_checkpoint_value(saved, "mine"), "kept") == 0);
            CHECK_MSG(attn_trainer_restore(again.trainer, saved, &err) == ATTN_OK, "%s", err.text);
            attn_checkpoint_close(saved);
        }
        CHECK(attn_trainer_steps(again.trainer) == i);
        steps(&again, 5);
        steps(&through, 5);
        CHECK_MSG(same_weights(&through, &again), "after step %d", i + 5);
        CHECK(memcmp(attn_trainer_average(through.trainer), attn_trainer_average(again.trainer),
                     weight_bytes(&again)) == 0);
        CHECK_MSG(attn_trainer_save(again.trainer, folder, 1, keys, values, 1, &err) == ATTN_OK,
                  "%s", err.text);
        end(&again);
    }
    snprintf(line, sizeof line, "rm -r %s", folder);
    CHECK(system(line) == 0);
    end(&through);
}

/* A checkpoint of another run is refused, and says why. */
static void other_runs(void **state)
{
    const attn_ctx *ctx = ctx_for(test_set(state), 1);
    train_scene s = {0};
    rng r = rng_make(test_seed(), 5);
    attn_corpus corpus = draw_corpus(&s.memory, &r, COUNT, 9), small = corpus;
    attn_model_config c = small_model(ATTN_F32), wide = c;
    attn_trainer_options o = small_run(&corpus), other;
    char folder[] = "/tmp/attn-trainer-XXXXXX", line[100];
    attn_checkpoint *saved;

    static const char *const words[] = {"seed", "corpus", "batch_tokens", "average", "weight"};

    CHECK(mkdtemp(folder) != NULL);
    begin(&s, ctx, &c, &o);
    steps(&s, 2);
    CHECK(attn_trainer_save(s.trainer, folder, 1, NULL, NULL, 0, NULL) == ATTN_OK);
    CHECK(attn_checkpoint_open(ctx, folder, -1, &saved, NULL) == ATTN_OK);
    for (int i = 0; i < 5; i++) {
        train_scene t = {0};
        attn_error err = {0};

        other = o;
        small.count--;
        wide.ff = i == 4 ? 48 : 32;
        if (i == 0)
            other.seed++;
        else if (i == 1)
            other.corpus = small;
        else if (i == 2)
            other.batch_tokens++;
        else if (i == 3)
            other.average = 0.5;
        begin(&t, ctx, &wide, &other);
        CHECK(attn_trainer_restore(t.trainer, saved, &err) == ATTN_E_FORMAT);
        CHECK_MSG(strstr(err.text, words[i]), "'%s' does not say %s", err.text, words[i]);
        CHECK(attn_trainer_steps(t.trainer) == 0);
        end(&t);
    }
    attn_checkpoint_close(saved);
    snprintf(line, sizeof line, "rm -r %s", folder);
    CHECK(system(line) == 0);
    end(&s);
}

/* --- Learning --------------------------------------------------------------------------------- */

/* Copies of up to three of six symbols; the model is tried on what it was trained on. Evaluating
 * changes nothing, and counts as it should: in parts or whole, of the average or not. */
static void learns(void **state)
{
    const attn_ctx *ctx = ctx_for(test_set(state), 2);
    train_scene s = {0}, t = {0};
    rng r = rng_make(test_seed(), 6);
    attn_corpus corpus = draw_corpus(&s.memory, &r, 400, 3);
    attn_model_config c = small_model(ATTN_F32);
    attn_trainer_options o = small_run(&corpus);
    attn_evaluation before, after, parts, average;

    c.dropout = 0;
    o.batch_tokens = 400;
    o.epsilon = 0;
    o.decay = 0;
    o.schedule.rate = 1e-2;
    o.average = 0.5;
    begin(&s, ctx, &c, &o);
    CHECK(attn_trainer_evaluate(s.trainer, &corpus, 0, &before, NULL) == ATTN_OK);
    CHECK(before.sequences == 400 && before.sums.tokens == corpus.target_starts[400]);
    CHECK(before.exact < 100);
    steps(&s, 150);
    begin(&t, ctx, &c, &o);
    steps(&t, 149);
    CHECK(attn_trainer_evaluate(t.trainer, &corpus, 1, &after, NULL) == ATTN_OK);
    steps(&t, 1);
    CHECK(same_weights(&s, &t));
    CHECK(attn_trainer_evaluate(s.trainer, &corpus, 0, &after, NULL) == ATTN_OK);
    CHECK(attn_trainer_evaluate(s.trainer, &corpus, 1, &average, NULL) == ATTN_OK);
    print_message("nll %.4f, exact %lld of 400; average %lld\n",
                  after.sums.nll / (double)after.sums.tokens, (long long)after.exact,
                  (long long)average.exact);
    CHECK(after.exact > 390 && average.exact > 390);
    CHECK(after.sums.nll != average.sums.nll);
    CHECK(after.sums.nll / (double)after.sums.tokens < 0.1);
    o.part_tokens = 9;
    end(&t);
    begin(&t, ctx, &c, &o);
    steps(&t, 5);
    memcpy(attn_model_weights(t.model), attn_model_weights(s.model), weight_bytes(&s));
    CHECK(attn_trainer_evaluate(t.trainer, &corpus, 0, &parts, NULL) == ATTN_OK);
    CHECK(parts.exact == after.exact && parts.sums.right == after.sums.right);
    CHECK(fabs(parts.sums.nll - after.sums.nll) < 1e-9 * after.sums.nll);
    end(&t);
    end(&s);
}

/* A decoder alone, which sees its targets and is held to the next ones: the last one of a sequence
 * has no goal. */
static void decoder_alone(void **state)
{
    const attn_ctx *ctx = ctx_for(test_set(state), 2);
    train_scene s = {0};
    rng r = rng_make(test_seed(), 7);
    attn_corpus corpus = draw_corpus(&s.memory, &r, COUNT, 9);
    attn_model_config c = small_model(ATTN_F32);
    attn_trainer_options o;
    attn_evaluation e;

    corpus.source = NULL, corpus.source_starts = NULL;
    c.stack = ATTN_STACK_DECODER;
    c.start = ATTN_START_NONE;
    c.tie_embeddings = 0;
    o = small_run(&corpus);
    begin(&s, ctx, &c, &o);
    steps(&s, 3);
    CHECK(attn_trainer_evaluate(s.trainer, &corpus, 0, &e, NULL) == ATTN_OK);
    CHECK(e.sums.tokens == corpus.target_starts[COUNT] - COUNT);
    end(&s);
}

/* --- Mistakes --------------------------------------------------------------------------------- */

static void expect_mistake(attn_model *model, const attn_trainer_options *o, const char *word)
{
    attn_error err = {0};
    attn_trainer *t;

    CHECK_MSG(attn_trainer_create(model, o, &t, &err) == ATTN_E_ARGUMENT && !t, "%s", word);
    CHECK_MSG(strstr(err.text, word), "'%s' does not say %s", err.text, word);
}

static void mistakes(void **state)
{
    const attn_ctx *ctx = ctx_for(test_set(state), 1);
    train_scene s = {0};
    rng r = rng_make(test_seed(), 8);
    attn_corpus corpus = draw_corpus(&s.memory, &r, COUNT, 9);
    attn_model_config c = small_model(ATTN_F32);
    attn_trainer_options good = small_run(&corpus), o;
    int32_t ids[2] = {1, SYMBOLS};
    int64_t starts[2] = {0, 2}, empty[2] = {0, 0};
    attn_evaluation e;

    begin(&s, ctx, &c, &good);
    o = good, o.corpus.count = 0, expect_mistake(s.model, &o, "corpus");
    o = good, o.corpus = (attn_corpus){1, ids, starts, ids, starts};
    expect_mistake(s.model, &o, "source");
    o.corpus.source = corpus.source, expect_mistake(s.model, &o, "target");
    o.corpus.target_starts = empty, expect_mistake(s.model, &o, "empty");
    o = good, o.batch_tokens = -1, expect_mistake(s.model, &o, "batch_tokens");
    o = good, o.average = 1, expect_mistake(s.model, &o, "average");
    o = good, o.epsilon = 1, expect_mistake(s.model, &o, "epsilon");
    o = good, o.schedule.rate = -1, expect_mistake(s.model, &o, "rate");
    CHECK(attn_trainer_evaluate(s.trainer, &corpus, 1, &e, NULL) == ATTN_E_ARGUMENT);
    ((float *)attn_model_weights(s.model))[0] = (float)NAN;
    CHECK(attn_trainer_step(s.trainer, NULL, NULL) == ATTN_E_ARGUMENT);
    CHECK(attn_trainer_steps(s.trainer) == 0);
    end(&s);
    c.tie_embeddings = c.tie_output = 0;
    c.output = ATTN_YES;
    c.queries = 2;
    CHECK(attn_model_create(ctx, &c, 3, &s.model, NULL) == ATTN_OK);
    corpus = draw_corpus(&s.memory, &r, COUNT, 9);
    good = small_run(&corpus);
    expect_mistake(s.model, &good, "queries");
    attn_model_destroy(s.model);
    arena_reset(&s.memory);
}

/* --- Memory ----------------------------------------------------------------------------------- */

/* Each allocation of making a trainer and trying it on longer sequences fails in turn: nothing is
 * lost, and steps can be taken once there is memory. */
static void every_allocation_may_fail(void **state)
{
    arena memory = {0};
    rng r = rng_make(test_seed(), 9);
    attn_corpus corpus = draw_corpus(&memory, &r, COUNT, 9);
    attn_corpus longer = draw_corpus(&memory, &r, 5, 90);
    attn_model_config c = small_model(ATTN_F32);
    attn_trainer_options o = small_run(&corpus);
    heap h = {0};
    attn_ctx *ctx = heap_ctx(&h, ATTN_SET_AUTO, 1);
    attn_model *model;
    long at, held, in_step = 0;

    (void)state;
    o.average = 0.5;
    CHECK(attn_model_create(ctx, &c, 3, &model, NULL) == ATTN_OK);
    held = h.live;
    for (at = 1;; at++) {
        attn_trainer *t;
        attn_evaluation e;
        attn_status st;

        h.calls = 0;
        h.fail_at = at;
        st = attn_trainer_create(model, &o, &t, NULL);
        CHECK(st == ATTN_OK || (st == ATTN_E_MEMORY && !t));
        if (st == ATTN_OK) {
            long calls = h.calls;

            st = attn_trainer_step(t, NULL, NULL);
            in_step = h.calls - calls > in_step ? h.calls - calls : in_step;
            CHECK(st == ATTN_OK || st == ATTN_E_MEMORY);
            st = attn_trainer_evaluate(t, &longer, 0, &e, NULL);
            CHECK(st == ATTN_OK || st == ATTN_E_MEMORY);
            h.fail_at = h.calls < at ? at : 0;
            CHECK(attn_trainer_step(t, NULL, NULL) == ATTN_OK);
        }
        attn_trainer_destroy(t);
        CHECK_MSG(h.live == held, "allocation %ld: %ld blocks lost", at, h.live - held);
        if (st == ATTN_OK && h.fail_at == at)
            break;
        CHECK(at < 200);
    }
    print_message("%ld allocations, of which %ld in a step\n", at - 1, in_step);
    attn_model_destroy(model);
    attn_ctx_destroy(ctx);
    arena_reset(&memory);
}

int main(int argc, char **argv)
{
    static const test_case tests[] = {
        {"order", order, 0},
        {"parts add up", parts_add_up, 1},
        {"same bits for threads", same_bits_for_threads, 1},
        {"resumed", resumed, 0},
        {"other runs", other_runs, 0},
        {"learns", learns, 0},
        {"decoder alone", decoder_alone, 0},
        {"mistakes", mistakes, 0},
        {"every allocation may fail", every_allocation_may_fail, 0},
    };

    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
