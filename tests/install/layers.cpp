// layers.cpp: a C++ user of attn_nn and attn_train: a model, a pass forward, a rate.
#include <attn/nn.h>
#include <attn/train.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

int main()
{
    attn_model_config config = ATTN_MODEL_CONFIG_INIT;
    attn_schedule schedule = {ATTN_SCHEDULE_NOAM, 1, 4000, 512, 0, 0};
    attn_error err = {};
    attn_ctx *ctx = nullptr;
    attn_model *model = nullptr;
    double rate = 0;

    config.vocabulary = 37000;
    config.biases = ATTN_BIAS_ALL;
    config.tie_embeddings = config.tie_output = 1;
    if (attn_model_config_parameters(&config) != 63082496)
        return EXIT_FAILURE;
    config.vocabulary = 11;
    config.d = 16;
    config.encoder_layers = config.decoder_layers = 1;
    if (attn_ctx_create(nullptr, &ctx, &err) != ATTN_OK ||
        attn_model_create(ctx, &config, 1, &model, &err) != ATTN_OK ||
        attn_schedule_rate(&schedule, 4000, &rate, &err) != ATTN_OK)
        std::fprintf(stderr, "%s\n", err.text);
    bool good = model && attn_model_find_param(model, "embedding.weight") &&
                std::fabs(rate - 6.987712e-4) < 1e-9;
    attn_model_destroy(model);
    attn_ctx_destroy(ctx);
    std::printf("%s\n", good ? "fine" : "wrong");
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
