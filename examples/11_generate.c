/* 11_generate.c: a small Transformer learns to sort digits, then says what it has learnt: by beam
 * search with scores, by sampling, and token by token with a search of our own.
 */
#include "example.h"

#include <attn/generate.h>
#include <attn/train.h>
#include <string.h>

enum { end, first_digit, words = first_digit + 10 };
enum { sequences = 2000, longest = 7, room = sequences * (longest + 1), steps = 300 };

typedef struct pairs {
    int32_t source[room], target[room];
    int64_t source_starts[sequences + 1], target_starts[sequences + 1];
} pairs;

static void draw(pairs *p)
{
    uint64_t seed = 1;
    int64_t from = 0, to = 0;

    for (int i = 0; i < sequences; i++) {
        int count[10] = {0};

        for (int n = 2 + i % (longest - 1); n > 0; n--) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            p->source[from] = first_digit + (int32_t)(seed >> 33) % 10;
            count[p->source[from++] - first_digit]++;
        }
        for (int digit = 0; digit < 10; digit++)
            for (; count[digit] > 0; count[digit]--)
                p->target[to++] = first_digit + digit;
        p->target[to++] = end;
        p->source_starts[i + 1] = from;
        p->target_starts[i + 1] = to;
    }
}

static void learn(attn_model *model, const pairs *p)
{
    attn_trainer_options options = ATTN_TRAINER_OPTIONS_INIT;
    attn_trainer *trainer;
    attn_step step;
    attn_error err;

    options.corpus.count = sequences;
    options.corpus.source = p->source;
    options.corpus.source_starts = p->source_starts;
    options.corpus.target = p->target;
    options.corpus.target_starts = p->target_starts;
    options.batch_tokens = 512;
    options.schedule.kind = ATTN_SCHEDULE_CONSTANT;
    options.schedule.rate = 3e-3;
    must(attn_trainer_create(model, &options, &trainer, &err), &err);
    for (int i = 0; i < steps; i++)
        must(attn_trainer_step(trainer, &step, &err), &err);
    printf("after %d steps %.1f %% of the tokens are right\n\n", steps,
           100 * (double)step.sums.right / (double)step.sums.tokens);
    attn_trainer_destroy(trainer);
}

static void print_digits(const int32_t *tokens, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        putchar('0' + tokens[i] - first_digit);
}

/* What attn_generate calls when a source is done. */
static int show(void *user, int64_t source, const attn_hypothesis *h, size_t count)
{
    const attn_batch *batch = user;
    int64_t from = batch->source_starts[source], n = batch->source_starts[source + 1] - from;

    print_digits(batch->source + from, n);
    for (size_t i = 0; i < count; i++) {
        printf("%*s-> ", i ? (int)n + 1 : 1, "");
        print_digits(h[i].tokens, h[i].count);
        printf("%*slog-probability %.4f\n", (int)(9 - h[i].count), "", h[i].log_probability);
    }
    return 0;
}

/* Greedy search by hand: logits in, a token out. */
static void by_hand(attn_generator *generator, const attn_batch *batch)
{
    attn_view logits;
    attn_error err;
    int32_t said = -1, parent = 0;

    printf("\nby hand: ");
    must(attn_generator_start(generator, batch, longest + 1, &logits, &err), &err);
    while (said != end) {
        const float *x = logits.data;

        said = 0;
        for (int32_t t = 1; t < words; t++)
            said = x[t] > x[said] ? t : said;
        if (said != end)
            print_digits(&said, 1);
        must(attn_generator_step(generator, &parent, &said, 1, &logits, &err), &err);
    }
    putchar('\n');
}

int main(void)
{
    static pairs p;
    static const int32_t source[] = {4, 2, 9, 1, 8, 8, 3, 10, 10, 5, 6, 1}, ends[] = {end};
    static const int64_t starts[] = {0, 5, 12};
    attn_ctx *ctx;
    attn_model *model;
    attn_generator *generator;
    attn_model_config config = ATTN_MODEL_CONFIG_INIT;
    attn_generate_options options = ATTN_GENERATE_OPTIONS_INIT;
    attn_batch batch = ATTN_BATCH_INIT;
    attn_error err;

    config.vocabulary = words;
    config.d = 32;
    config.heads = 4;
    config.encoder_layers = config.decoder_layers = 1;
    config.place = ATTN_PLACE_PRE;
    must(attn_ctx_create(NULL, &ctx, &err), &err);
    must(attn_model_create(ctx, &config, 1, &model, &err), &err);
    draw(&p);
    learn(model, &p);

    must(attn_generator_create(model, NULL, &generator, &err), &err);
    batch.segments = 2;
    batch.source = source;
    batch.source_starts = starts;
    options.beam = 4;
    options.best = 2;
    options.ends = ends;
    options.end_count = 1;
    options.done = show;
    options.user = &batch;
    puts("beam search, the best two:");
    must(attn_generate(generator, &batch, &options, &err), &err);

    options.sample = 1; /* beam is then the number of samples */
    options.temperature = 3;
    options.seed = 7;
    puts("\nfour samples each, at a temperature of 3:");
    must(attn_generate(generator, &batch, &options, &err), &err);

    batch.segments = 1;
    by_hand(generator, &batch);
    attn_generator_destroy(generator);
    attn_model_destroy(model);
    attn_ctx_destroy(ctx);
    return 0;
}
