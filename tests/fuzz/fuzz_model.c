/* fuzz_model.c: models from any bytes: the configuration in the metadata, tensors that may not fit
 * it. Seeds: tests/fuzz/corpus/model. */
#include "include/attn/nn.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static attn_ctx *ctx;
    attn_ctx_options options = ATTN_CTX_OPTIONS_INIT;
    attn_model *model;
    attn_error err;

    options.threads = 1;
    if (!ctx && attn_ctx_create(&options, &ctx, NULL) != ATTN_OK)
        abort();
    if (attn_model_load_memory(ctx, data, size, &model, &err) == ATTN_OK) {
        const attn_model_config *c = attn_model_get_config(model);
        if (attn_model_config_parameters(c) < 0)
            abort();
    }
    attn_model_destroy(model);
    return 0;
}
