/* bench_shape.c: shapes from JSON, and the operations that they count. */
#include "cli/bench.h"

#include <string.h>

#include "cli/console.h"

static const char *const op_names[] = {"forward", "decode", "gemm", "backward", "train"};
enum { OPS = sizeof op_names / sizeof *op_names };

typedef struct bench_key {
    const char *name;
    int64_t *value;
    int64_t otherwise, least;
} bench_key;

static int read_keys(json_t *json, const char *where, const bench_key *keys, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        json_t *x = json_object_get(json, keys[i].name);
        *keys[i].value = keys[i].otherwise;
        if (!x)
            continue;
        if (!json_is_integer(x) || json_integer_value(x) < keys[i].least ||
            json_integer_value(x) > INT64_C(1) << 40)
            return cli_error("%s: '%s' should be an integer of at least %lld", where, keys[i].name,
                             (long long)keys[i].least);
        *keys[i].value = json_integer_value(x);
    }
    return 0;
}

static int read_names(bench_shape *s, json_t *json, const char *where)
{
    static const attn_type types[] = {ATTN_F32, ATTN_F16, ATTN_BF16, ATTN_F64, ATTN_I8};
    const char *op = json_string_value(json_object_get(json, "op"));
    const char *type = json_string_value(json_object_get(json, "dtype"));
    const char *mask = json_string_value(json_object_get(json, "mask"));
    const char *stats = json_string_value(json_object_get(json, "stats"));
    size_t i;

    s->name = json_string_value(json_object_get(json, "name"));
    for (i = 0; i < OPS && strcmp(op ? op : "forward", op_names[i]) != 0;)
        i++;
    if (i == OPS)
        return cli_error("%s: op '%s' is none of forward, decode, gemm, backward, train", where,
                         op);
    s->op = (bench_op)i;
    for (i = 0; i < 5 && strcmp(type ? type : "f32", attn_type_name(types[i])) != 0;)
        i++;
    if (i == 5 || (types[i] == ATTN_I8 && s->op != BENCH_DECODE))
        return cli_error("%s: dtype '%s' is none of f32, f16, bf16, f64 and, to decode, i8", where,
                         type);
    s->cache_type = types[i];
    s->type = types[i] == ATTN_I8 ? ATTN_F32 : types[i];
    s->keep = mask && strcmp(mask, "keep") == 0;
    s->bias = mask && strcmp(mask, "bias") == 0;
    if (mask && !s->keep && !s->bias)
        return cli_error("%s: mask '%s' is neither keep nor bias", where, mask);
    s->stats = !stats ? BENCH_PLAIN : strcmp(stats, "entropy") == 0 ? BENCH_ENTROPY : BENCH_MAP;
    if (s->stats == BENCH_MAP && strcmp(stats, "map") != 0)
        return cli_error("%s: stats '%s' is neither entropy nor map", where, stats);
    if (s->stats && s->op != BENCH_FORWARD && s->op != BENCH_DECODE)
        return cli_error("%s: stats go with op forward and decode", where);
    return 0;
}

/* The keys of peers/train_torch.py. */
static int read_train(bench_shape *s, json_t *json, const char *where)
{
    const bench_key sizes[] = {{"d", &s->d, 256, 1},        {"ff", &s->ff, 1024, 1},
                               {"heads", &s->heads, 8, 1},  {"vocab", &s->vocab, 8192, 2},
                               {"batch", &s->batch, 64, 1}, {"src", &s->src, 30, 1},
                               {"tgt", &s->tgt, 30, 1}};
    json_t *layers = json_object_get(json, "layers"), *dropout = json_object_get(json, "dropout");

    for (size_t i = 0; i < 2; i++) {
        json_t *x = layers ? json_array_get(layers, i) : NULL;

        if (layers && (json_array_size(layers) != 2 || !json_is_integer(x) ||
                       json_integer_value(x) < 1 || json_integer_value(x) > 1000))
            return cli_error("%s: 'layers' should be two integers of at least 1", where);
        s->layers[i] = x ? json_integer_value(x) : 3;
    }
    s->dropout = dropout ? json_number_value(dropout) : 0.1;
    if ((dropout && !json_is_number(dropout)) || !(s->dropout >= 0 && s->dropout < 1))
        return cli_error("%s: 'dropout' should be a number from 0 to below 1", where);
    if (s->type != ATTN_F32 && s->type != ATTN_F64)
        return cli_error("%s: dtype of train is f32 or f64", where);
    return read_keys(json, where, sizes, sizeof sizes / sizeof *sizes);
}

int bench_read_shape(bench_shape *shape, json_t *json, const char *where)
{
    const bench_key sizes[] = {{"b", &shape->b, 1, 1},   {"hq", &shape->hq, 1, 1},
                               {"nq", &shape->nq, 1, 1}, {"dk", &shape->dk, 64, 1},
                               {"m", &shape->m, 1, 1},   {"n", &shape->n, 1, 1},
                               {"k", &shape->k, 1, 1},   {"causal", &shape->causal, 0, 0}};
    int code;

    if (!json_is_object(json))
        return cli_error("%s: expected a JSON object", where);
    shape->json = json;
    code = read_names(shape, json, where);
    if (!code && shape->op == BENCH_TRAIN)
        return read_train(shape, json, where);
    if (!code)
        code = read_keys(json, where, sizes, sizeof sizes / sizeof *sizes);
    if (!code) {
        const bench_key rest[] = {{"hkv", &shape->hkv, shape->hq, 1},
                                  {"nk", &shape->nk, shape->nq, 1},
                                  {"dv", &shape->dv, shape->dk, 1}};
        code = read_keys(json, where, rest, sizeof rest / sizeof *rest);
    }
    if (!code && shape->causal > 2)
        return cli_error("%s: causal %lld is none of 0, 1, 2", where, (long long)shape->causal);
    if (!code && shape->hq % shape->hkv != 0)
        return cli_error("%s: hq %lld is no multiple of hkv %lld", where, (long long)shape->hq,
                         (long long)shape->hkv);
    return code;
}

int64_t bench_keep_length(const bench_shape *shape, int64_t b)
{
    int64_t n = shape->nk * (4 - b % 4) / 4;

    return n > 1 ? n : 1;
}

/* Pairs of one head of sequence b: row i sees keys 0 .. i + shift, and only those that exist. */
static double pairs_of(const bench_shape *s, int64_t b)
{
    int64_t keys = s->keep ? bench_keep_length(s, b) : s->nk;
    int64_t shift = s->causal == 2 ? s->nk - s->nq : 0;
    double pairs = 0;

    if (s->causal == 0)
        return (double)s->nq * (double)keys;
    for (int64_t i = 0; i < s->nq; i++) {
        int64_t seen = i + shift + 1;
        pairs += (double)(seen < 0 ? 0 : seen > keys ? keys : seen);
    }
    return pairs;
}

double bench_flops(const bench_shape *shape)
{
    double pairs = 0, flops;

    if (shape->op == BENCH_GEMM)
        return 2.0 * (double)shape->m * (double)shape->n * (double)shape->k;
    if (shape->op == BENCH_TRAIN)
        return bench_train_flops(shape);
    for (int64_t b = 0; b < shape->b; b++)
        pairs += pairs_of(shape, b);
    flops = 2 * (double)shape->hq * pairs * (double)(shape->dk + shape->dv);
    return shape->op == BENCH_BACKWARD ? 2.5 * flops : flops;
}

double bench_bytes(const bench_shape *shape)
{
    return (double)shape->b * (double)shape->hkv * (double)shape->nk *
           (double)(shape->dk + shape->dv) * (double)attn_type_size(shape->cache_type);
}
