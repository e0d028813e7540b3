/* save.c: models in .safetensors files. The tensors have the names of the table; the configuration
 * is the file's metadata, a pair "attn.<field>" for each field of the struct but its size. Integers
 * and enums are decimal, numbers have 17 digits, which is exact. Tensors may be f16 or
 * bf16 in a file; models are f32 or f64. */
#include "src/nn/model.h"

#include "include/attn/io.h"
#include "src/base/error.h"
#include "src/base/half.h"
#include "src/base/mem.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FORMAT "transformer 1"

enum { TEXT = 40, PREFIX = 5 };

/* SMALL: int and enums; LARGE: int64_t; REAL: double. */
/* clang-format off */
#define EACH_FIELD(SMALL, LARGE, REAL)                                                             \
    SMALL(type) SMALL(stack) LARGE(vocabulary) LARGE(source_vocabulary) LARGE(encoder_layers)      \
    LARGE(decoder_layers) LARGE(d) LARGE(ff) LARGE(heads) LARGE(kv_heads) LARGE(dk) LARGE(dv)      \
    SMALL(biases) SMALL(norm) SMALL(place) REAL(norm_eps) SMALL(norm_no_bias)                      \
    SMALL(norm_plus_one) SMALL(final_norm) SMALL(embedding_norm) SMALL(activation) SMALL(gated)    \
    SMALL(positions) LARGE(position_offset) LARGE(max_positions) REAL(position_base)               \
    LARGE(rotary) LARGE(t5_buckets) LARGE(t5_max_distance) SMALL(tie_embeddings)                   \
    SMALL(tie_output) REAL(embedding_scale) REAL(logit_scale) SMALL(output_bias) SMALL(output)     \
    REAL(dropout) REAL(dropout_attention) REAL(dropout_ff) SMALL(qk_norm) SMALL(qk_temperature)    \
    SMALL(has_attention_scale) REAL(attention_scale) REAL(softcap) SMALL(score) SMALL(start)       \
    LARGE(start_token) SMALL(init) REAL(init_std) LARGE(token_types) LARGE(queries)
/* clang-format on */

#define COUNT_FIELD(name) +1
enum { FIELDS = 0 EACH_FIELD(COUNT_FIELD, COUNT_FIELD, COUNT_FIELD) };

/* --- Text of fields ------------------------------------------------------------------------- */

/* The system's locale may have another decimal point. */
static void real_to_text(double x, char text[TEXT])
{
    snprintf(text, TEXT, "%.17g", x);
    for (char *c = text; *c; c++)
        if (!strchr("0123456789+-einfa", *c))
            *c = '.';
}

static bool text_to_real(const char *text, double *x)
{
    char here[TEXT], point[8], *end;

    snprintf(point, sizeof point, "%.1f", 0.5);
    if (strlen(text) >= TEXT || strspn(text, "0123456789+-.e") != strlen(text) || !*text)
        return false;
    memcpy(here, text, strlen(text) + 1);
    for (char *c = here; *c; c++)
        if (*c == '.')
            *c = point[1];
    *x = strtod(here, &end);
    return *end == 0;
}

static bool text_to_integer(const char *text, long long low, long long high, long long *x)
{
    char *end;

    if (strspn(text, "0123456789-") != strlen(text) || !*text)
        return false;
    errno = 0;
    *x = strtoll(text, &end, 10);
    return errno == 0 && *end == 0 && *x >= low && *x <= high;
}

typedef struct config_text {
    const char *key[FIELDS + 1], *value[FIELDS + 1];
    char text[FIELDS][TEXT];
} config_text;

static void write_config(const attn_model_config *c, config_text *t)
{
    size_t i = 0;

    t->key[FIELDS] = "attn.format";
    t->value[FIELDS] = FORMAT;
#define INTEGER(name)                                                                              \
    t->key[i] = "attn." #name;                                                                     \
    t->value[i] = t->text[i];                                                                      \
    snprintf(t->text[i++], TEXT, "%lld", (long long)c->name);
#define NUMBER(name)                                                                               \
    t->key[i] = "attn." #name;                                                                     \
    t->value[i] = t->text[i];                                                                      \
    real_to_text(c->name, t->text[i++]);
    EACH_FIELD(INTEGER, INTEGER, NUMBER)
#undef INTEGER
#undef NUMBER
}

/* True if the field is there and its text makes sense. */
static bool read_field(attn_model_config *c, const char *field, const char *text)
{
    long long x;

#define SMALL(name)                                                                                \
    if (strcmp(field, #name) == 0) {                                                               \
        if (!text_to_integer(text, INT32_MIN, INT32_MAX, &x))                                      \
            return false;                                                                          \
        c->name = (int)x;                                                                          \
        return true;                                                                               \
    }
#define LARGE(name)                                                                                \
    if (strcmp(field, #name) == 0) {                                                               \
        if (!text_to_integer(text, INT64_MIN, INT64_MAX, &x))                                      \
            return false;                                                                          \
        c->name = (int64_t)x;                                                                      \
        return true;                                                                               \
    }
#define NUMBER(name)                                                                               \
    if (strcmp(field, #name) == 0)                                                                 \
        return text_to_real(text, &c->name);
    EACH_FIELD(SMALL, LARGE, NUMBER)
#undef SMALL
#undef LARGE
#undef NUMBER
    return false;
}

static attn_status read_config(const attn_file *file, attn_model_config *c, attn_error *err)
{
    const char *format = attn_file_meta(file, "attn.format");

    *c = (attn_model_config)ATTN_MODEL_CONFIG_INIT;
    if (!format || strcmp(format, FORMAT) != 0)
        return attn__fail(err, ATTN_E_FORMAT, 0, "attn.format: %.40s, expected \"%s\"",
                          format ? format : "absent", FORMAT);
    for (size_t i = 0; i < attn_file_meta_count(file); i++) {
        const char *key = attn_file_meta_key(file, i);

        if (strncmp(key, "attn.", PREFIX) != 0 || strcmp(key, "attn.format") == 0)
            continue;
        if (!read_field(c, key + PREFIX, attn_file_meta(file, key)))
            return attn__fail(err, ATTN_E_FORMAT, 0, "%.60s: not a field, or not its value: %.40s",
                              key, attn_file_meta(file, key));
    }
    return ATTN_OK;
}

/* --- Elements that are narrower in files than in the model ------------------------------------ */

static bool is_half(attn_type type)
{
    return type == ATTN_F16 || type == ATTN_BF16;
}

static float element(const void *block, attn_type type, size_t i)
{
    return type == ATTN_F64 ? (float)((const double *)block)[i] : ((const float *)block)[i];
}

static attn_status narrow(const attn_model *m, const attn_param *p, const void *block,
                          attn_type type, uint16_t *to, attn_error *err)
{
    for (size_t i = (size_t)p->offset; i < (size_t)(p->offset + p->count); i++) {
        float x = element(block, m->config.type, i);
        float back;

        to[i] = type == ATTN_F16 ? attn__f32_to_f16(x) : attn__f32_to_bf16(x);
        back = type == ATTN_F16 ? attn__f16_to_f32(to[i]) : attn__bf16_to_f32(to[i]);
        if (isinf(back) &&
            (m->config.type == ATTN_F64 ? isfinite(((const double *)block)[i]) : isfinite(x)))
            return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s: element %lld is too large for %s",
                              p->name, (long long)i - (long long)p->offset, attn_type_name(type));
    }
    return ATTN_OK;
}

static void widen(const uint16_t *from, attn_type type, void *to, attn_type wide, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float x = type == ATTN_F16 ? attn__f16_to_f32(from[i]) : attn__bf16_to_f32(from[i]);

        if (wide == ATTN_F64)
            ((double *)to)[i] = (double)x;
        else
            ((float *)to)[i] = x;
    }
}

/* --- Tensors -------------------------------------------------------------------------------- */

static attn_tensor tensor_of(const attn_param *p, const void *block, attn_type type)
{
    attn_tensor t = {.name = p->name, .type = type, .rank = p->rank};
    int64_t stride = 1;

    for (int k = p->rank - 1; k >= 0; k--) {
        t.size[k] = p->size[k];
        t.stride[k] = stride;
        stride *= p->size[k];
    }
    t.data = (const char *)block + (size_t)p->offset * attn_type_size(type);
    return t;
}

static attn_status write_block(const attn_model *model, const void *block, attn_type type,
                               const char *path, attn_error *err)
{
    config_text text;
    attn_tensor *tensors = attn__new(model->ctx, model->param_count * sizeof *tensors);
    attn_status st;

    if (!tensors)
        return attn__fail(err, ATTN_E_MEMORY, 0, "list of tensors");
    for (size_t i = 0; i < model->param_count; i++)
        tensors[i] = tensor_of(&model->param[i], block, type);
    write_config(&model->config, &text);
    st = attn_file_write(model->ctx, path, ATTN_FORMAT_SAFETENSORS, tensors, model->param_count,
                         text.key, text.value, FIELDS + 1, err);
    attn__free(model->ctx, tensors);
    return st;
}

attn_status attn_model_save_as(const attn_model *model, const void *block, attn_type type,
                               const char *path, attn_error *err)
{
    attn_status st = ATTN_OK;
    uint16_t *half;

    if (!model || !path)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s: NULL", model ? "path" : "model");
    block = block ? block : model->weights;
    if (type == model->config.type)
        return write_block(model, block, type, path, err);
    if (!is_half(type))
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "type: %s, expected %s, f16 or bf16",
                          attn_type_name(type), attn_type_name(model->config.type));
    half = attn__new(model->ctx, (size_t)model->elements * sizeof *half);
    if (!half)
        return attn__fail(err, ATTN_E_MEMORY, 0, "weights as %s", attn_type_name(type));
    for (size_t i = 0; st == ATTN_OK && i < model->param_count; i++)
        st = narrow(model, &model->param[i], block, type, half, err);
    if (st == ATTN_OK)
        st = write_block(model, half, type, path, err);
    attn__free(model->ctx, half);
    return st;
}

attn_status attn_model_save(const attn_model *model, const void *block, const char *path,
                            attn_error *err)
{
    if (!model)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "model: NULL");
    return attn_model_save_as(model, block, model->config.type, path, err);
}

static attn_status read_tensor(attn_model *m, const attn_file *file, const attn_param *p,
                               attn_error *err)
{
    attn_type type = m->config.type;
    const attn_tensor *t = attn_file_find(file, p->name);
    attn_tensor want = tensor_of(p, m->weights, type);
    void *to = (char *)m->weights + (size_t)p->offset * attn_type_size(type);
    bool same;

    if (!t)
        return attn__fail(err, ATTN_E_FORMAT, 0, "%s: the file has no such tensor", p->name);
    same = (t->type == type || is_half(t->type)) && t->rank == want.rank;
    for (int k = 0; same && k < t->rank; k++)
        same = t->size[k] == want.size[k] && (t->size[k] <= 1 || t->stride[k] == want.stride[k]);
    if (!same)
        return attn__fail(
            err, ATTN_E_FORMAT, 0, "%s: %s of rank %d, expected %s, f16 or bf16 of [%lld%s%.0lld]",
            p->name, attn_type_name(t->type), t->rank, attn_type_name(type), (long long)p->size[0],
            p->rank > 1 ? ", " : "", p->rank > 1 ? (long long)p->size[1] : 0);
    if (is_half(t->type))
        widen(t->data, t->type, to, type, (size_t)p->count);
    else
        memcpy(to, t->data, (size_t)p->count * attn_type_size(type));
    return ATTN_OK;
}

static attn_status read_model(attn_model *m, const attn_file *file, attn_error *err)
{
    for (size_t i = 0; i < m->param_count; i++)
        TRY(read_tensor(m, file, &m->param[i], err));
    for (size_t i = 0; i < attn_file_count(file); i++) {
        const char *name = attn_file_tensor(file, i)->name;
        if (!attn_model_find_param(m, name))
            return attn__fail(err, ATTN_E_FORMAT, 0, "%.120s: the model has no such tensor", name);
    }
    return ATTN_OK;
}

/* Before memory is taken: a file cannot make a model of more elements than its own. */
static attn_status check_count(const attn_model_config *c, const attn_file *file, attn_error *err)
{
    int64_t want = attn_model_config_parameters(c);
    double have = 0;

    for (size_t i = 0; i < attn_file_count(file); i++) {
        const attn_tensor *t = attn_file_tensor(file, i);
        double n = 1;

        for (int k = 0; k < t->rank; k++)
            n *= (double)t->size[k];
        have += n;
    }
    if (want >= 0 && (double)want != have) /* a wrong configuration is told by attn__create */
        return attn__fail(err, ATTN_E_FORMAT, 0,
                          "tensors: %.0f elements, the configuration has %lld parameters", have,
                          (long long)want);
    return ATTN_OK;
}

static attn_status load(const attn_ctx *ctx, const attn_file *file, attn_model **out,
                        attn_error *err)
{
    attn_model_config c;
    attn_model *m;
    attn_status st;

    TRY(read_config(file, &c, err));
    TRY(check_count(&c, file, err));
    st = attn__create(ctx, &c, &m, err);
    if (st == ATTN_E_ARGUMENT || st == ATTN_E_SHAPE) { /* the file's fault */
        if (err)
            err->status = ATTN_E_FORMAT;
        return ATTN_E_FORMAT;
    }
    if (st != ATTN_OK)
        return st;
    st = read_model(m, file, err);
    if (st != ATTN_OK)
        attn_model_destroy(m);
    else
        *out = m;
    return st;
}

attn_status attn_model_load(const attn_ctx *ctx, const char *path, attn_model **out,
                            attn_error *err)
{
    attn_file *file;
    attn_error inner = {0};
    attn_file_options options = ATTN_FILE_OPTIONS_INIT;
    attn_status st;

    if (!out)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "out: NULL");
    *out = NULL;
    if (!ctx || !path)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s: NULL", ctx ? "path" : "ctx");
    options.format = ATTN_FORMAT_SAFETENSORS;
    TRY(attn_file_open(ctx, path, &options, &file, err));
    st = load(ctx, file, out, &inner);
    attn_file_close(file);
    return st == ATTN_OK ? st : attn__fail_path(err, path, &inner);
}

attn_status attn_model_load_memory(const attn_ctx *ctx, const void *bytes, size_t size,
                                   attn_model **out, attn_error *err)
{
    attn_file *file;
    attn_file_options options = ATTN_FILE_OPTIONS_INIT;
    attn_status st;

    if (!out)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "out: NULL");
    *out = NULL;
    if (!ctx || (!bytes && size))
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s: NULL", ctx ? "bytes" : "ctx");
    options.format = ATTN_FORMAT_SAFETENSORS;
    TRY(attn_file_open_memory(ctx, bytes, size, &options, &file, err));
    st = load(ctx, file, out, err);
    attn_file_close(file);
    return st;
}
