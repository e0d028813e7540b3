/* 09_transformer.c: the whole Transformer of the paper, small, learns to write numbers backwards.
 *
 * The encoder reads the digits, the decoder writes them from the last to the first and then stops.
 * A step is four calls: forward; the loss with its gradient by the hidden states; backward; Adam.
 * Nothing is allocated between them: the activations live in one arena whose size the plan tells.
 */
#include "example.h"

#include <attn/nn.h>
#include <attn/train.h>
#include <string.h>

enum { stop, first_digit, words = first_digit + 10 };
enum { sequences = 48, longest = 8, steps = 500, tokens = sequences * (longest + 1) };

typedef struct pairs {
    int32_t source[tokens], target[tokens];
    int64_t source_starts[sequences + 1], target_starts[sequences + 1];
} pairs;

static uint32_t any_below(uint64_t *seed, uint32_t n)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33) % n;
}

/* Sequences are packed, without padding. */
static void draw(pairs *p, uint64_t *seed)
{
    int64_t from = 0, to = 0;

    for (int i = 0; i < sequences; i++) {
        int64_t n = 2 + any_below(seed, longest - 1);

        for (int64_t j = 0; j < n; j++)
            p->source[from + j] = first_digit + (int32_t)any_below(seed, 10);
        for (int64_t j = 0; j < n; j++)
            p->target[to + j] = p->source[from + n - 1 - j];
        p->target[to + n] = stop;
        p->source_starts[i + 1] = from += n;
        p->target_starts[i + 1] = to += n + 1;
    }
}

static void *room(size_t size)
{
    void *memory = aligned_alloc(64, (size + 63) / 64 * 64);

    if (!memory)
        exit(1);
    memset(memory, 0, size);
    return memory;
}

/* Loss of the pass and, into the place of the hidden states, its gradient. */
static attn_loss learn_from(const attn_model *model, attn_pass *pass, const pairs *p,
                            void *gradients)
{
    const attn_ctx *ctx = attn_model_ctx(model);
    attn_cross_entropy_args loss = ATTN_CROSS_ENTROPY_ARGS_INIT;
    attn_loss sums;
    attn_error err;

    loss.hidden = loss.dhidden = pass->hidden;
    loss.weight = attn_model_output_weight(model, attn_model_weights(model));
    loss.dweight = attn_model_output_weight(model, gradients);
    loss.targets = p->target;
    loss.factor = 1.0 / (double)p->target_starts[sequences];
    must(attn_cross_entropy(ctx, &loss, &sums, &err), &err);
    must(attn_model_backward(model, pass, &pass->hidden, gradients, &err), &err);
    return sums;
}

int main(void)
{
    attn_ctx *ctx;
    attn_model *model;
    attn_model_config config = ATTN_MODEL_CONFIG_INIT;
    attn_batch_limits limits = ATTN_BATCH_LIMITS_INIT;
    attn_batch batch = ATTN_BATCH_INIT;
    attn_pass pass = ATTN_PASS_INIT;
    attn_adam_args adam = ATTN_ADAM_ARGS_INIT;
    attn_error err;
    static pairs p;
    uint64_t seed = 1;
    size_t bytes;

    must(attn_ctx_create(NULL, &ctx, &err), &err);
    config.vocabulary = 37000; /* all else at its default: the base model of the paper */
    config.biases = ATTN_BIAS_ALL;
    config.tie_embeddings = config.tie_output = 1;
    printf("the paper's base model has %lld parameters\n",
           (long long)attn_model_config_parameters(&config));

    config.vocabulary = words;
    config.d = 64;
    config.heads = 4;
    config.encoder_layers = config.decoder_layers = 1;
    config.place = ATTN_PLACE_PRE;
    must(attn_model_create(ctx, &config, 1, &model, &err), &err);
    printf("this one has %lld\n", (long long)attn_model_config_parameters(&config));

    limits.segments = batch.segments = sequences;
    limits.source_tokens = limits.target_tokens = tokens;
    limits.longest_source = limits.longest_target = longest + 1;
    pass.flags = ATTN_PASS_BACKWARD;
    must(attn_model_plan(model, &limits, pass.flags, &pass.arena_size, &err), &err);
    pass.arena = room(pass.arena_size);
    batch.source = p.source;
    batch.target = p.target; /* the model shifts it: row i sees target i - 1 */
    batch.source_starts = p.source_starts;
    batch.target_starts = p.target_starts;
    pass.batch = &batch;

    adam.count = attn_model_elements(model);
    bytes = (size_t)adam.count * sizeof(float);
    adam.weights = attn_model_weights(model);
    adam.gradients = room(bytes);
    adam.m = room(bytes);
    adam.v = room(bytes);
    adam.clear = 1;
    adam.rate = 2e-3;
    printf("  step   loss   tokens right\n");
    for (adam.step = 1; adam.step <= steps; adam.step++) {
        attn_loss sums;

        draw(&p, &seed);
        must(attn_model_forward(model, &pass, &err), &err);
        sums = learn_from(model, &pass, &p, adam.gradients);
        must(attn_adam_step(ctx, &adam, NULL, &err), &err);
        if (adam.step == 1 || adam.step % 100 == 0)
            printf("%6lld %6.3f %13.1f %%\n", (long long)adam.step, sums.loss / (double)sums.tokens,
                   100 * (double)sums.right / (double)sums.tokens);
    }
    free(adam.gradients);
    free(adam.m);
    free(adam.v);
    free(pass.arena);
    attn_model_destroy(model);
    attn_ctx_destroy(ctx);
    return 0;
}
