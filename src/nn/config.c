/* config.c: defaults and checks of configurations, and the number of parameters. */
#include "src/nn/config.h"

#include "src/base/error.h"
#include "src/base/mem.h"

#include <math.h>
#include <string.h>

/* No size is so large that a product of two of them does not fit. */
#define LARGEST ((int64_t)1 << 31)

/* --- Defaults ------------------------------------------------------------------------------- */

static void set(int64_t *field, int64_t value)
{
    if (*field == 0)
        *field = value;
}

static void set_real(double *field, double value)
{
    if (*field == 0)
        *field = value;
}

static void choose(attn_choice *field, bool yes)
{
    if (*field == ATTN_DEFAULT)
        *field = yes ? ATTN_YES : ATTN_NO;
}

static void complete_sizes(attn_model_config *c)
{
    if (c->stack == ATTN_STACK_ENCODER_DECODER)
        set(&c->source_vocabulary, c->vocabulary);
    if (attn__has_encoder(c))
        set(&c->encoder_layers, 6);
    if (attn__has_decoder(c))
        set(&c->decoder_layers, 6);
    set(&c->d, 512);
    set(&c->ff, c->d > LARGEST ? c->d : 4 * c->d);
    set(&c->heads, 8);
    set(&c->kv_heads, c->heads);
    if (c->heads > 0)
        set(&c->dk, c->d / c->heads);
    set(&c->dv, c->dk);
}

static void complete_options(attn_model_config *c)
{
    set_real(&c->norm_eps, 1e-5);
    choose(&c->final_norm, c->place == ATTN_PLACE_PRE);
    choose(&c->embedding_norm, false);
    choose(&c->output, attn__has_decoder(c) && c->queries == 0);
    if (c->activation == ATTN_ACT_NONE)
        c->activation = ATTN_ACT_RELU;
    if (c->positions == ATTN_POSITIONS_LEARNED)
        set(&c->max_positions, 512);
    set_real(&c->position_base, 10000);
    if (attn__is_rotary(c))
        set(&c->rotary, c->dk);
    if (c->positions == ATTN_POSITIONS_T5) {
        set(&c->t5_buckets, 32);
        set(&c->t5_max_distance, 128);
    }
    set_real(&c->embedding_scale, sqrt((double)c->d));
    set_real(&c->logit_scale, 1);
    if (!c->has_attention_scale) {
        double root = sqrt((double)c->dk);
        c->attention_scale = c->qk_norm == ATTN_QK_L2 ? root : 1 / root;
        c->has_attention_scale = 1;
    }
    set_real(&c->init_std, 0.02);
}

/* --- Checks --------------------------------------------------------------------------------- */

static attn_status check_enum(int value, int last, const char *what, attn_error *err)
{
    if (value < 0 || value > last)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s: %d, expected 0 to %d", what, value, last);
    return ATTN_OK;
}

static attn_status check_enums(const attn_model_config *c, attn_error *err)
{
    const struct {
        int value, last;
        const char *what;
    } list[] = {
        {(int)c->stack, ATTN_STACK_ENCODER, "stack"},
        {(int)c->norm, ATTN_NORM_RMS, "norm"},
        {(int)c->place, ATTN_PLACE_PRE, "place"},
        {(int)c->final_norm, ATTN_NO, "final_norm"},
        {(int)c->embedding_norm, ATTN_NO, "embedding_norm"},
        {(int)c->output, ATTN_NO, "output"},
        {(int)c->activation, ATTN_ACT_SILU, "activation"},
        {(int)c->positions, ATTN_POSITIONS_NONE, "positions"},
        {c->biases, ATTN_BIAS_ALL, "biases"},
        {(int)c->qk_norm, ATTN_QK_LAYER, "qk_norm"},
        {(int)c->score, ATTN_SCORE_GATE, "score"},
        {(int)c->start, ATTN_START_NONE, "start"},
        {(int)c->init, ATTN_INIT_NORMAL, "init"},
    };

    if (c->type != ATTN_F32 && c->type != ATTN_F64)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "type: %s, expected f32 or f64",
                          attn_type_name(c->type));
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        TRY(check_enum(list[i].value, list[i].last, list[i].what, err));
    return ATTN_OK;
}

static attn_status check_range(int64_t value, int64_t low, int64_t high, const char *what,
                               attn_error *err)
{
    if (value < low || value > high)
        return attn__fail(err, ATTN_E_SHAPE, 0, "%s: %lld, expected %lld to %lld", what,
                          (long long)value, (long long)low, (long long)high);
    return ATTN_OK;
}

static attn_status check_sizes(const attn_model_config *c, attn_error *err)
{
    const struct {
        int64_t value, low, high;
        const char *what;
    } list[] = {
        {c->vocabulary, 1, INT32_MAX, "vocabulary"},
        {c->source_vocabulary, c->stack == ATTN_STACK_ENCODER_DECODER, INT32_MAX,
         "source_vocabulary"},
        {c->encoder_layers, attn__has_encoder(c), 10000, "encoder_layers"},
        {c->decoder_layers, attn__has_decoder(c), 10000, "decoder_layers"},
        {c->d, 1, 1 << 20, "d"},
        {c->ff, 1, 1 << 24, "ff"},
        {c->heads, 1, 1 << 16, "heads"},
        {c->kv_heads, 1, c->heads, "kv_heads"},
        {c->dk, 1, 1 << 16, "dk"},
        {c->dv, 1, 1 << 16, "dv"},
        {c->heads * c->dk, 1, 1 << 24, "heads * dk"},
        {c->heads * c->dv, 1, 1 << 24, "heads * dv"},
        {c->position_offset, 0, INT32_MAX / 2, "position_offset"},
        {c->max_positions, c->positions == ATTN_POSITIONS_LEARNED, INT32_MAX / 2, "max_positions"},
        {c->rotary, attn__is_rotary(c) ? 2 : 0, c->dk, "rotary"},
        {c->t5_buckets, c->positions == ATTN_POSITIONS_T5 ? 4 : 0, 1 << 16, "t5_buckets"},
        {c->t5_max_distance, c->t5_buckets, 1 << 30, "t5_max_distance"},
        {c->token_types, 0, INT32_MAX, "token_types"},
        {c->queries, 0, c->stack == ATTN_STACK_ENCODER_DECODER ? 1 << 24 : 0, "queries"},
    };

    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        TRY(check_range(list[i].value, list[i].low, list[i].high, list[i].what, err));
    if (c->heads % c->kv_heads != 0)
        return attn__fail(err, ATTN_E_SHAPE, 0, "kv_heads: %lld is no divisor of heads %lld",
                          (long long)c->kv_heads, (long long)c->heads);
    if (attn__is_rotary(c) && c->rotary % 2 != 0)
        return attn__fail(err, ATTN_E_SHAPE, 0, "rotary: %lld is odd", (long long)c->rotary);
    if (c->t5_buckets % 4 != 0)
        return attn__fail(err, ATTN_E_SHAPE, 0, "t5_buckets: %lld, expected a multiple of 4",
                          (long long)c->t5_buckets);
    return ATTN_OK;
}

static attn_status check_reals(const attn_model_config *c, attn_error *err)
{
    const struct {
        double value, low, high;
        const char *what;
    } list[] = {
        {c->norm_eps, 0, 1, "norm_eps"},
        {c->position_base, 1, 1e12, "position_base"},
        {c->embedding_scale, -1e6, 1e6, "embedding_scale"},
        {c->logit_scale, -1e6, 1e6, "logit_scale"},
        {c->attention_scale, -1e6, 1e6, "attention_scale"},
        {c->softcap, 0, 1e6, "softcap"},
        {c->init_std, 0, 1e6, "init_std"},
        {c->dropout, 0, 0.999, "dropout"},
        {c->dropout_attention, 0, 0.999, "dropout_attention"},
        {c->dropout_ff, 0, 0.999, "dropout_ff"},
    };

    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (!(list[i].value >= list[i].low && list[i].value <= list[i].high))
            return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s: %g, expected %g to %g", list[i].what,
                              list[i].value, list[i].low, list[i].high);
    return ATTN_OK;
}

/* Options that exclude one another. */
static attn_status check_together(const attn_model_config *c, attn_error *err)
{
    if (c->tie_embeddings && c->stack == ATTN_STACK_ENCODER_DECODER &&
        c->source_vocabulary != c->vocabulary)
        return attn__fail(err, ATTN_E_SHAPE, 0, "tie_embeddings: vocabularies of %lld and %lld",
                          (long long)c->source_vocabulary, (long long)c->vocabulary);
    if (c->queries && (c->tie_embeddings || c->tie_output))
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s: with queries there is no target embedding",
                          c->tie_output ? "tie_output" : "tie_embeddings");
    if (attn__has_decoder(c) && c->start == ATTN_START_TOKEN &&
        (c->start_token < 0 || c->start_token >= c->vocabulary))
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "start_token: %lld is not in the vocabulary",
                          (long long)c->start_token);
    if (c->score == ATTN_SCORE_ADDITIVE &&
        (c->qk_norm || c->qk_temperature || c->softcap > 0 || c->dropout_attention > 0 ||
         attn__is_rotary(c) || c->positions == ATTN_POSITIONS_T5 ||
         c->positions == ATTN_POSITIONS_ALIBI))
        return attn__fail(err, ATTN_E_ARGUMENT, 0,
                          "score: additive goes without qk_norm, qk_temperature, softcap, "
                          "dropout_attention and positions that change scores");
    return ATTN_OK;
}

/* Copies a struct of the caller's version: unknown trailing bytes must be zero. */
static attn_status take(attn_model_config *to, const attn_model_config *from, attn_error *err)
{
    size_t size = from ? from->struct_size : 0;

    if (!from)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "config: NULL");
    if (size < sizeof size || size > 1 << 16)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "config.struct_size: %zu; use the _INIT macro",
                          size);
    for (size_t i = sizeof *to; i < size; i++)
        if (((const char *)from)[i] != 0)
            return attn__fail(err, ATTN_E_ARGUMENT, 0,
                              "config: has fields that this version does not know");
    memset(to, 0, sizeof *to);
    memcpy(to, from, attn__min(size, sizeof *to));
    to->struct_size = sizeof *to;
    return ATTN_OK;
}

attn_status attn__complete(attn_model_config *to, const attn_model_config *from, attn_error *err)
{
    TRY(take(to, from, err));
    TRY(check_enums(to, err));
    complete_sizes(to);
    if (to->stack != ATTN_STACK_ENCODER_DECODER)
        to->source_vocabulary = 0;
    if (!attn__has_encoder(to))
        to->encoder_layers = 0;
    if (!attn__has_decoder(to))
        to->decoder_layers = 0;
    complete_options(to);
    TRY(check_sizes(to, err));
    TRY(check_reals(to, err));
    return check_together(to, err);
}

attn_status attn_model_config_complete(attn_model_config *config, attn_error *err)
{
    attn_model_config done;
    size_t size;

    TRY(attn__complete(&done, config, err));
    size = config->struct_size;
    memcpy(config, &done, attn__min(size, sizeof done));
    config->struct_size = size;
    return ATTN_OK;
}

/* --- Count ---------------------------------------------------------------------------------- */

static double norm_count(const attn_model_config *c)
{
    return (double)(c->d * (c->norm == ATTN_NORM_LAYER && !c->norm_no_bias ? 2 : 1));
}

static double attention_count(const attn_model_config *c)
{
    double keys = (double)(c->heads * c->dk), kv = (double)(c->kv_heads * c->dk);
    double values = (double)(c->kv_heads * c->dv), out = (double)(c->heads * c->dv);
    bool gate = c->score == ATTN_SCORE_GATE;
    double sum = (double)c->d * ((gate ? 0 : keys) + kv + values + out);

    sum += c->biases & ATTN_BIAS_Q && !gate ? keys : 0;
    sum += c->biases & ATTN_BIAS_K ? kv : 0;
    sum += c->biases & ATTN_BIAS_V ? values : 0;
    sum += c->biases & ATTN_BIAS_OUT ? (double)c->d : 0;
    sum += c->qk_norm == ATTN_QK_RMS ? 2 * (double)c->dk : 0;
    sum += c->qk_norm == ATTN_QK_LAYER ? 4 * (double)c->dk : 0;
    sum += c->qk_temperature ? (double)c->heads : 0;
    return sum + (c->score == ATTN_SCORE_DOT ? 0 : keys);
}

static double ff_count(const attn_model_config *c)
{
    double d = (double)c->d, ff = (double)c->ff, up = c->gated ? 2 : 1;

    return (1 + up) * d * ff + (c->biases & ATTN_BIAS_FF ? up * ff + d : 0);
}

/* Positions, types and the norms at both ends of a stack. */
static double ends_count(const attn_model_config *c)
{
    double sum = 0;

    sum += c->positions == ATTN_POSITIONS_LEARNED ? (double)(c->max_positions * c->d) : 0;
    sum += (double)c->token_types * (double)c->d;
    sum += c->positions == ATTN_POSITIONS_T5 ? (double)(c->t5_buckets * c->heads) : 0;
    sum += c->embedding_norm == ATTN_YES ? norm_count(c) : 0;
    return sum + (c->final_norm == ATTN_YES ? norm_count(c) : 0);
}

static double tables_count(const attn_model_config *c)
{
    double v = (double)c->vocabulary, source = (double)c->source_vocabulary;
    bool both = c->stack == ATTN_STACK_ENCODER_DECODER;
    double rows = (c->queries ? (double)c->queries : v) + (both && !c->tie_embeddings ? source : 0);

    if (c->output == ATTN_YES)
        rows += c->tie_output ? 0 : v;
    return rows * (double)c->d + (c->output == ATTN_YES && c->output_bias ? v : 0);
}

int64_t attn_model_config_parameters(const attn_model_config *config)
{
    attn_model_config c;
    double encoder, decoder, sum;

    if (attn__complete(&c, config, NULL) != ATTN_OK)
        return -1;
    encoder = attention_count(&c) + ff_count(&c) + 2 * norm_count(&c);
    decoder = encoder;
    if (c.stack == ATTN_STACK_ENCODER_DECODER)
        decoder += attention_count(&c) + norm_count(&c);
    sum = tables_count(&c) + (double)c.encoder_layers * encoder +
          (double)c.decoder_layers * decoder +
          ends_count(&c) * (attn__has_encoder(&c) + attn__has_decoder(&c));
    return sum < 0x1p53 ? (int64_t)sum : -1; /* sums of integers below 2^53 are exact */
}
