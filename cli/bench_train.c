/* bench_train.c: times steps of training an encoder and decoder: forward, label-smoothed loss,
 * backward and Adam over a batch of random ids, as peers/train_torch.py does. */
#define _POSIX_C_SOURCE 200809L

#include <sys/resource.h>

#include "cli/bench.h"
#include "cli/console.h"
#include "include/attn/train.h"

/* Products count three times (their own and two gradients), attention three and a half times (two
 * products forward, five backward). */
double bench_train_flops(const bench_shape *s)
{
    double d = (double)s->d, ff = (double)s->ff, src = (double)s->src, tgt = (double)s->tgt;
    double sources = (double)s->batch * src, targets = (double)s->batch * tgt;
    double encoder = sources * (2 * (4 * d * d + 2 * d * ff));
    double decoder = targets * (2 * (6 * d * d + 2 * d * ff)) + sources * 2 * (2 * d * d);
    double seen = sources * src, also = targets * ((tgt + 1) / 2 + src);

    return 3 * ((double)s->layers[0] * encoder + (double)s->layers[1] * decoder +
                2 * targets * d * (double)s->vocab) +
           3.5 * 4 * d * ((double)s->layers[0] * seen + (double)s->layers[1] * also);
}

static attn_status one_step(const void *trainer, attn_error *err)
{
    return attn_trainer_step(*(attn_trainer *const *)trainer, NULL, err);
}

static attn_status make_model(const bench_shape *s, const attn_ctx *ctx, attn_model **model,
                              attn_error *err)
{
    attn_model_config c = ATTN_MODEL_CONFIG_INIT;

    c.type = s->type;
    c.vocabulary = s->vocab;
    c.d = s->d;
    c.ff = s->ff;
    c.heads = s->heads;
    c.encoder_layers = s->layers[0];
    c.decoder_layers = s->layers[1];
    c.place = ATTN_PLACE_PRE;
    c.biases = ATTN_BIAS_ALL;
    c.dropout = c.dropout_ff = s->dropout;
    c.tie_embeddings = c.tie_output = 1;
    return attn_model_create(ctx, &c, 1, model, err);
}

static const int64_t *starts_of(int64_t count, int64_t length)
{
    int64_t *starts = cli_take(((size_t)count + 1) * sizeof *starts);

    for (int64_t i = 0; i <= count; i++)
        starts[i] = i * length;
    return starts;
}

static const int32_t *random_ids(int64_t count, int64_t vocabulary, uint64_t state)
{
    int32_t *ids = cli_take((size_t)count * sizeof *ids);

    for (int64_t i = 0; i < count; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        ids[i] = (int32_t)((state >> 33) % (uint64_t)vocabulary);
    }
    return ids;
}

attn_status bench_time_train(const bench_shape *s, const bench_settings *set, bench_result *result,
                             attn_error *err)
{
    attn_trainer_options o = ATTN_TRAINER_OPTIONS_INIT;
    attn_model *model = NULL;
    attn_trainer *trainer = NULL;
    attn_status status = make_model(s, set->ctx, &model, err);
    struct rusage usage;

    o.corpus = (attn_corpus){
        s->batch, random_ids(s->batch * s->src, s->vocab, 1), starts_of(s->batch, s->src),
        random_ids(s->batch * s->tgt, s->vocab, 2), starts_of(s->batch, s->tgt)};
    o.batch_tokens = s->batch * (s->src > s->tgt ? s->src : s->tgt);
    o.schedule.rate = 1e-4;
    o.smoothing = ATTN_SMOOTH_MIX;
    o.epsilon = 0.1;
    if (status == ATTN_OK)
        status = attn_trainer_create(model, &o, &trainer, err);
    if (status == ATTN_OK)
        status = bench_measure(one_step, &trainer, set, &result->ms_median, &result->ms_min, err);
    if (status == ATTN_OK) {
        result->plan.kernels = attn_ctx_kernels(set->ctx);
        result->plan.path = "step";
        result->params = attn_model_config_parameters(attn_model_get_config(model));
        if (getrusage(RUSAGE_SELF, &usage) == 0)
            result->peak_mb = (double)usage.ru_maxrss / 1024;
    }
    attn_trainer_destroy(trainer);
    attn_model_destroy(model);
    return status;
}
