/* bench.h: what the parts of `attn bench` share: a shape, how to time it, what came out. */
#ifndef ATTN_CLI_BENCH_H
#define ATTN_CLI_BENCH_H

#include <jansson.h>

#include "include/attn/attn.h"

typedef enum bench_op {
    BENCH_FORWARD,
    BENCH_DECODE,
    BENCH_GEMM,
    BENCH_BACKWARD,
    BENCH_TRAIN
} bench_op;

typedef enum bench_stats { BENCH_PLAIN, BENCH_ENTROPY, BENCH_MAP } bench_stats;

/* One line of a shapes file: the keys mean what they mean in the shapes file's own terms. */
typedef struct bench_shape {
    json_t *json; /* borrowed: all its keys, in their order */
    const char *name;
    bench_op op;
    attn_type type, cache_type; /* of the arrays; of the cache of decode, which may be i8 */
    int64_t b, hq, hkv, nq, nk, dk, dv;
    int64_t m, n, k;
    int64_t d, ff, heads, layers[2], vocab, batch, src, tgt; /* train */
    double dropout;
    int64_t causal;    /* 0: none, 1: query i stands at i, 2: the queries are the last positions */
    int keep, bias;    /* mask: padded key lengths, or a bias */
    bench_stats stats; /* forward, decode: timed with these statistics, and without */
} bench_shape;

typedef struct bench_settings {
    const attn_ctx *ctx;
    int64_t repeat;
    double budget; /* seconds a repeat should fill */
    int bhsd;      /* else [batch, row, head, channel] */
} bench_settings;

typedef struct bench_result {
    double ms_median, ms_min;
    double ms_packing; /* gemm: median with weights packed in the call, not beforehand */
    double ms_both;    /* backward: median of a forward and a backward call */
    double ms_plain;   /* with statistics: median of calls without, */
    double over_plain; /* and the median of with / without, measured in turn */
    int64_t params;    /* train */
    double peak_mb;    /* train: memory the process has had at most */
    attn_plan plan;
} bench_result;

/* Reads one shape; keys that are missing get what the others suggest. Returns 0 or CLI_FAILED after
 * a message that starts with `where`. */
int bench_read_shape(bench_shape *shape, json_t *json, const char *where);

/* Operations of one call, counting only pairs that the mask allows; and bytes of its keys and
 * values. */
double bench_flops(const bench_shape *shape);
double bench_bytes(const bench_shape *shape);

/* Number of keys that exist in sequence b of a padded batch: all, 3/4, 1/2, 1/4, and again. */
int64_t bench_keep_length(const bench_shape *shape, int64_t b);

/* Times one shape. On failure *err tells why; nothing is printed. */
attn_status bench_time(const bench_shape *shape, const bench_settings *settings,
                       bench_result *result, attn_error *err);
attn_status bench_time_gemm(const bench_shape *shape, const bench_settings *settings,
                            bench_result *result, attn_error *err);

attn_status bench_time_train(const bench_shape *shape, const bench_settings *settings,
                             bench_result *result, attn_error *err);
double bench_train_flops(const bench_shape *shape);

/* Milliseconds of `call(arg)` in each of the settings' repeats. */
attn_status bench_measure(attn_status (*call)(const void *arg, attn_error *err), const void *arg,
                          const bench_settings *settings, double *median, double *least,
                          attn_error *err);

/* About normal numbers of variance 1. */
void bench_fill(void *memory, attn_type type, size_t count, uint64_t seed);

/* Fills *err and returns `status`. */
attn_status bench_fail(attn_error *err, attn_status status, const char *text);

#endif
