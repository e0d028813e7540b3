/* bench.c: `attn bench`: speed by shape, beside what the processor can do and what others did. */
#define _POSIX_C_SOURCE 200809L

#include "cli/bench.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/console.h"
#include "cli/rates.h"

enum {
    BENCH_SHAPES,
    BENCH_ONLY,
    BENCH_AGAINST,
    BENCH_OP,
    BENCH_DTYPE,
    BENCH_B,
    BENCH_HQ,
    BENCH_HKV,
    BENCH_NQ,
    BENCH_NK,
    BENCH_DK,
    BENCH_DV,
    BENCH_CAUSAL,
    BENCH_MASK,
    BENCH_STATS,
    BENCH_M,
    BENCH_N,
    BENCH_K,
    BENCH_D,
    BENCH_FF,
    BENCH_HEADS,
    BENCH_LAYERS,
    BENCH_VOCAB,
    BENCH_BATCH,
    BENCH_SRC,
    BENCH_TGT,
    BENCH_DROPOUT,
    BENCH_LAYOUT,
    BENCH_THREADS,
    BENCH_KERNEL,
    BENCH_REPEAT,
    BENCH_BUDGET,
    BENCH_JSON,
    BENCH_OPTIONS
};

#define MOST 1e9

static const cli_option bench_options[BENCH_OPTIONS] = {
    [BENCH_SHAPES] = {"Shapes from a file", "shapes", 0, CLI_TEXT, "FILE",
                      "JSON objects, one a line; -: standard input", 0, 0},
    [BENCH_ONLY] = {NULL, "only", 0, CLI_TEXT, "TEXT",
                    "shapes whose name holds this text or whose op is it", 0, 0},
    [BENCH_AGAINST] = {NULL, "against", 0, CLI_TEXT, "FILE",
                       "JSON lines of others, or of an earlier run: also print "
                       "their time / our time for the same shape (above 1: we are faster)",
                       0, 0},
    [BENCH_OP] = {"One shape (names as in a shapes file)", "op", 0, CLI_CHOICE,
                  "forward|decode|gemm|backward|train", "what to time (default forward)", 0, 0},
    [BENCH_DTYPE] = {NULL, "dtype", 0, CLI_CHOICE, "f32|f16|bf16|f64|i8",
                     "type of all arrays (default f32); i8: of the cache", 0, 0},
    [BENCH_B] = {NULL, "b", 0, CLI_INTEGER, "N", "sequences (default 1)", 1, MOST},
    [BENCH_HQ] = {NULL, "hq", 0, CLI_INTEGER, "N", "query heads (default 1)", 1, MOST},
    [BENCH_HKV] = {NULL, "hkv", 0, CLI_INTEGER, "N", "key heads (default hq)", 1, MOST},
    [BENCH_NQ] = {NULL, "nq", 0, CLI_INTEGER, "N", "queries (default 1)", 1, MOST},
    [BENCH_NK] = {NULL, "nk", 0, CLI_INTEGER, "N", "keys (default nq)", 1, MOST},
    [BENCH_DK] = {NULL, "dk", 0, CLI_INTEGER, "N", "columns of keys (default 64)", 1, MOST},
    [BENCH_DV] = {NULL, "dv", 0, CLI_INTEGER, "N", "columns of values (default dk)", 1, MOST},
    [BENCH_CAUSAL] = {NULL, "causal", 0, CLI_INTEGER, "0|1|2",
                      "1: query i stands at position i; 2: the queries are the "
                      "last nq positions; 0: not causal (default)",
                      0, 2},
    [BENCH_MASK] = {NULL, "mask", 0, CLI_CHOICE, "none|keep|bias",
                    "keep: padded batch (all keys, 3/4, 1/2, 1/4, ...); "
                    "bias: one number a head, query and key",
                    0, 0},
    [BENCH_STATS] = {NULL, "stats", 0, CLI_CHOICE, "none|entropy|map",
                     "forward, decode: with statistics, in turn with plain calls; entropy: with "
                     "peak and its key; map: of up to 1024 x 1024 cells, with key mass and the "
                     "largest 8",
                     0, 0},
    [BENCH_M] = {NULL, "m", 0, CLI_INTEGER, "N", "gemm: rows of the result", 1, MOST},
    [BENCH_N] = {NULL, "n", 0, CLI_INTEGER, "N", "gemm: columns of the result", 1, MOST},
    [BENCH_K] = {NULL, "k", 0, CLI_INTEGER, "N", "gemm: length of the sums", 1, MOST},
    [BENCH_D] = {NULL, "d", 0, CLI_INTEGER, "N", "train: width of the model (default 256)", 1,
                 MOST},
    [BENCH_FF] = {NULL, "ff", 0, CLI_INTEGER, "N", "train: of feed-forward layers (default 1024)",
                  1, MOST},
    [BENCH_HEADS] = {NULL, "heads", 0, CLI_INTEGER, "N", "train: heads (default 8)", 1, MOST},
    [BENCH_LAYERS] = {NULL, "layers", 0, CLI_TEXT, "N,N",
                      "train: layers of encoder and decoder (default 3,3)", 0, 0},
    [BENCH_VOCAB] = {NULL, "vocab", 0, CLI_INTEGER, "N", "train: tokens there are (default 8192)",
                     2, MOST},
    [BENCH_BATCH] = {NULL, "batch", 0, CLI_INTEGER, "N", "train: sequences a step (default 64)", 1,
                     MOST},
    [BENCH_SRC] = {NULL, "src", 0, CLI_INTEGER, "N", "train: tokens of a source (default 30)", 1,
                   MOST},
    [BENCH_TGT] = {NULL, "tgt", 0, CLI_INTEGER, "N", "train: tokens of a target (default 30)", 1,
                   MOST},
    [BENCH_DROPOUT] = {NULL, "dropout", 0, CLI_NUMBER, "P", "train: dropout (default 0.1)", 0,
                       0.99},
    [BENCH_LAYOUT] = {"Measuring", "layout", 0, CLI_CHOICE, "bshd|bhsd",
                      "arrays lie as [batch, row, head, channel] (default, as "
                      "projections write them) or [batch, head, row, channel]",
                      0, 0},
    [BENCH_THREADS] = {NULL, "threads", 0, CLI_INTEGER, "N",
                       "threads to use (default: one a usable CPU)", 0, 1024},
    [BENCH_KERNEL] = {NULL, "kernel", 0, CLI_CHOICE, "auto|scalar|neon|avx2|avx512",
                      "instruction set (default auto: the best here)", 0, 0},
    [BENCH_REPEAT] = {NULL, "repeat", 0, CLI_INTEGER, "N", "measurements a shape (default 5)", 1,
                      100000},
    [BENCH_BUDGET] = {NULL, "budget", 0, CLI_NUMBER, "SECONDS",
                      "calls for so long in each measurement, at least one "
                      "(default 0.25)",
                      1e-6, 3600},
    [BENCH_JSON] = {NULL, "json", 0, CLI_FLAG, "", "one JSON object a shape instead of a table", 0,
                    0},
};

/* --- Reading shapes ------------------------------------------------------------------------- */

/* All JSON values of a file of lines, as an array. NULL after a message. */
static json_t *read_lines(const char *path)
{
    int from_stdin = strcmp(path, "-") == 0;
    FILE *f = from_stdin ? stdin : fopen(path, "r");
    json_t *all = json_array();
    char *line = NULL;
    size_t size = 0;
    int bad = 0;

    if (!f) {
        cli_error("%s: %s", path, strerror(errno));
        json_decref(all);
        return NULL;
    }
    for (int number = 1; !bad && getline(&line, &size, f) >= 0; number++) {
        json_error_t err;
        json_t *json;
        if (line[strspn(line, " \t\r\n")] == '\0')
            continue;
        json = json_loads(line, JSON_REJECT_DUPLICATES, &err);
        if (json_is_object(json)) {
            json_array_append_new(all, json);
            continue;
        }
        cli_error("%s: line %d: %s", path, number, json ? "expected a JSON object" : err.text);
        json_decref(json);
        bad = 1;
    }
    if (!bad && ferror(f))
        bad = cli_error("%s: %s", path, strerror(errno));
    free(line);
    if (!from_stdin)
        fclose(f);
    if (bad)
        json_decref(all);
    return bad ? NULL : all;
}

static json_t *train_of_options(const cli_value *o)
{
    static const int keys[] = {BENCH_D,     BENCH_FF,  BENCH_HEADS, BENCH_VOCAB,
                               BENCH_BATCH, BENCH_SRC, BENCH_TGT};
    static const int64_t otherwise[] = {256, 1024, 8, 8192, 64, 30, 30};
    const cli_value *layers = &o[BENCH_LAYERS], *dropout = &o[BENCH_DROPOUT];
    json_t *json = json_object(), *lines = json_array(), *list = json_array();
    int64_t three[2] = {3, 3}, *n = three;
    size_t count = layers->given ? cli_read_integers(layers->text, &n) : 2;

    json_object_set_new(json, "op", json_string("train"));
    json_object_set_new(json, "dtype",
                        json_string(o[BENCH_DTYPE].given ? o[BENCH_DTYPE].text : "f32"));
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        json_object_set_new(json, bench_options[keys[i]].name,
                            json_integer(o[keys[i]].given ? o[keys[i]].integer : otherwise[i]));
    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, json_integer(n[i]));
    json_object_set_new(json, "layers", list);
    json_object_set_new(json, "dropout", json_real(dropout->given ? dropout->number : 0.1));
    json_array_append_new(lines, json);
    return lines;
}

static json_t *shape_of_options(const cli_value *o)
{
    static const char *const masks[] = {NULL, "keep", "bias"};
    static const char *const stats[] = {NULL, "entropy", "map"};
    static const int plain[] = {BENCH_B,  BENCH_HQ, BENCH_HKV, BENCH_NQ,
                                BENCH_NK, BENCH_DK, BENCH_DV,  BENCH_CAUSAL};
    static const int product[] = {BENCH_M, BENCH_N, BENCH_K};
    int gemm = o[BENCH_OP].given && strcmp(o[BENCH_OP].text, "gemm") == 0;
    const int *keys = gemm ? product : plain;
    size_t count = gemm ? sizeof product / sizeof *product : sizeof plain / sizeof *plain;
    json_t *json = json_object(), *lines = json_array();

    json_object_set_new(json, "op", json_string(o[BENCH_OP].given ? o[BENCH_OP].text : "forward"));
    json_object_set_new(json, "dtype",
                        json_string(o[BENCH_DTYPE].given ? o[BENCH_DTYPE].text : "f32"));
    for (size_t i = 0; i < count; i++) {
        /* What is left out follows another size. */
        const cli_value *v = &o[keys[i]];
        v = keys[i] == BENCH_HKV && !v->given ? &o[BENCH_HQ] : v;
        v = keys[i] == BENCH_NK && !v->given ? &o[BENCH_NQ] : v;
        v = keys[i] == BENCH_DV && !v->given ? &o[BENCH_DK] : v;
        json_object_set_new(json, bench_options[keys[i]].name,
                            json_integer(v->given                                ? v->integer
                                         : keys[i] == BENCH_CAUSAL               ? 0
                                         : bench_options[keys[i]].name[0] == 'd' ? 64
                                                                                 : 1));
    }
    if (masks[o[BENCH_MASK].integer])
        json_object_set_new(json, "mask", json_string(masks[o[BENCH_MASK].integer]));
    if (stats[o[BENCH_STATS].integer])
        json_object_set_new(json, "stats", json_string(stats[o[BENCH_STATS].integer]));
    json_array_append_new(lines, json);
    return lines;
}

/* --- Comparing ------------------------------------------------------------------------------ */

static int same_shape(const bench_shape *a, const bench_shape *b)
{
    if (a->op != b->op || a->type != b->type)
        return 0;
    if (a->op == BENCH_TRAIN)
        return a->d == b->d && a->ff == b->ff && a->heads == b->heads && a->vocab == b->vocab &&
               a->batch == b->batch && a->src == b->src && a->tgt == b->tgt &&
               a->layers[0] == b->layers[0] && a->layers[1] == b->layers[1] &&
               a->dropout == b->dropout;
    if (a->op == BENCH_GEMM)
        return a->m == b->m && a->n == b->n && a->k == b->k;
    return a->b == b->b && a->hq == b->hq && a->hkv == b->hkv && a->nq == b->nq && a->nk == b->nk &&
           a->dk == b->dk && a->dv == b->dv && a->causal == b->causal && a->keep == b->keep &&
           a->bias == b->bias && a->stats == b->stats;
}

/* {"torch": 1.8, ...}: time of every peer for this shape on as many threads, over ours. */
static json_t *compare_with(json_t *peers, const bench_shape *shape, int threads, double ms)
{
    json_t *ratios = json_object(), *line;
    size_t i;

    json_array_foreach(peers, i, line)
    {
        const char *peer = json_string_value(json_object_get(line, "peer"));
        double theirs = json_number_value(json_object_get(line, "ms_median"));
        json_t *with = json_object_get(line, "threads");
        bench_shape other;
        if (theirs <= 0 || (with && json_integer_value(with) != threads) ||
            !json_equal(json_object_get(line, "op"), json_object_get(shape->json, "op")))
            continue;
        if (bench_read_shape(&other, line, "--against") == 0 && same_shape(shape, &other))
            json_object_set_new(ratios, peer ? peer : "before", cli_json_number(theirs / ms, 3));
    }
    return ratios;
}

/* --- Rows ----------------------------------------------------------------------------------- */

typedef struct rates {
    double before, after, best;
} rates;

static rates rates_of(double before, double after)
{
    /* The larger one: on a shared machine rates are only ever too low. */
    return (rates){before, after, before > after ? before : after};
}

static void set_number(json_t *json, const char *key, double value, int digits)
{
    json_object_set_new(json, key, cli_json_number(value, digits));
}

/* The shape's keys followed by what was measured. */
static json_t *row_json(const bench_shape *s, const bench_settings *set, const bench_result *r,
                        rates peak, rates stream)
{
    json_t *json = json_copy(s->json);
    double gflops = bench_flops(s) / r->ms_median / 1e6;
    int threads = attn_ctx_threads(set->ctx);

    set_number(json, "ms_median", r->ms_median, 5);
    set_number(json, "ms_min", r->ms_min, 5);
    set_number(json, "gflops", gflops, 4);
    set_number(json, "peak_gflops", peak.best, 2);
    set_number(json, "peak_before", peak.before, 2);
    set_number(json, "peak_after", peak.after, 2);
    set_number(json, "ratio", gflops / (peak.best * threads), 4);
    if (s->op == BENCH_DECODE) {
        double gb_s = bench_bytes(s) / r->ms_median / 1e6;
        set_number(json, "gb_s", gb_s, 2);
        set_number(json, "stream_gb_s", stream.best, 2);
        set_number(json, "stream_before", stream.before, 2);
        set_number(json, "stream_after", stream.after, 2);
        set_number(json, "ratio", gb_s / stream.best, 4);
    }
    if (s->stats) {
        set_number(json, "ms_plain", r->ms_plain, 5);
        set_number(json, "over_plain", r->over_plain, 3);
    }
    if (s->op == BENCH_GEMM)
        set_number(json, "ms_packing", r->ms_packing, 5);
    if (s->op == BENCH_BACKWARD)
        set_number(json, "ms_both", r->ms_both, 5);
    if (s->op == BENCH_TRAIN) {
        set_number(json, "tokens_s",
                   (double)s->batch * (double)(s->src + s->tgt) / r->ms_median * 1e3, 0);
        json_object_set_new(json, "params", json_integer(r->params));
        set_number(json, "peak_mb", r->peak_mb, 1);
    }
    json_object_set_new(json, "kernel", json_string(attn_kernel_set_name(r->plan.kernels)));
    json_object_set_new(json, "path", json_string(r->plan.path));
    json_object_set_new(json, "threads", json_integer(threads));
    json_object_set_new(json, "repeat", json_integer(set->repeat));
    return json;
}

/* The name a row goes by: its own, or its sizes. */
static const char *row_name(const bench_shape *s, char *buffer, size_t size)
{
    static const char *const ops[] = {"forward", "decode", "gemm", "backward", "train"};
    static const char *const stats[] = {"", " entropy", " map"};

    if (s->name)
        return s->name;
    if (s->op == BENCH_GEMM)
        snprintf(buffer, size, "gemm %s %lldx%lldx%lld", attn_type_name(s->cache_type),
                 (long long)s->m, (long long)s->n, (long long)s->k);
    else if (s->op == BENCH_TRAIN)
        snprintf(buffer, size, "train %s d%lld ff%lld h%lld l%lld+%lld v%lld %lldx(%lld+%lld)",
                 attn_type_name(s->type), (long long)s->d, (long long)s->ff, (long long)s->heads,
                 (long long)s->layers[0], (long long)s->layers[1], (long long)s->vocab,
                 (long long)s->batch, (long long)s->src, (long long)s->tgt);
    else
        snprintf(buffer, size, "%s %s b%lld h%lld/%lld n%lld/%lld d%lld/%lld%s%s%s%s", ops[s->op],
                 attn_type_name(s->cache_type), (long long)s->b, (long long)s->hq,
                 (long long)s->hkv, (long long)s->nq, (long long)s->nk, (long long)s->dk,
                 (long long)s->dv, s->causal ? " causal" : "", s->keep ? " keep" : "",
                 s->bias ? " bias" : "", stats[s->stats]);
    return buffer;
}

static void print_row(const bench_shape *s, const json_t *row, int width)
{
    static const char *const decode[] = {"gb_s", "stream_gb_s", "GB/s"};
    static const char *const other[] = {"gflops", "peak_gflops", "GF/s"};
    const char *const *rate = s->op == BENCH_DECODE ? decode : other;
    json_t *against = json_object_get(row, "against"), *ratio;
    char name[160], ratios[256] = "";
    const char *peer;
    size_t used = 0;

    if (s->stats)
        used = (size_t)snprintf(ratios, sizeof ratios, "  %.3f x plain",
                                json_number_value(json_object_get(row, "over_plain")));
    json_object_foreach(against, peer, ratio)
    {
        if (used + strlen(peer) + 16 < sizeof ratios)
            used += (size_t)snprintf(ratios + used, sizeof ratios - used, "  %s %.2f", peer,
                                     json_number_value(ratio));
    }
    cli_print("%-*s %10.4f %10.4f %8.2f %s %8.2f %6.1f %%  %s %s%s", width,
              row_name(s, name, sizeof name), json_number_value(json_object_get(row, "ms_median")),
              json_number_value(json_object_get(row, "ms_min")),
              json_number_value(json_object_get(row, rate[0])), rate[2],
              json_number_value(json_object_get(row, rate[1])),
              100 * json_number_value(json_object_get(row, "ratio")),
              json_string_value(json_object_get(row, "kernel")),
              json_string_value(json_object_get(row, "path")), ratios);
    fflush(stdout);
}

static void print_failure(const bench_shape *s, const char *text, int width)
{
    char name[160];

    if (width == 0) {
        json_t *json = json_copy(s->json);
        json_object_set_new(json, "error", cli_json_text(text));
        cli_print_json(json);
        return;
    }
    cli_print("%-*s %s", width, row_name(s, name, sizeof name), text);
}

/* A row of a table whose names take `width` columns, or of JSON if that is 0. */
static void bench_row(const bench_shape *s, const bench_settings *set, json_t *peers, int width)
{
    attn_kernel_set kernels = attn_ctx_kernels(set->ctx);
    int streams = s->op == BENCH_DECODE;
    double peak = cli_peak_gflops(kernels);
    double stream = streams ? cli_stream_gb_s(kernels) : 0;
    bench_result result = {0};
    attn_error err = {0};
    json_t *row;

    if (bench_time(s, set, &result, &err) != ATTN_OK) {
        print_failure(s, err.text, width);
        return;
    }
    row = row_json(s, set, &result, rates_of(peak, cli_peak_gflops(kernels)),
                   rates_of(stream, streams ? cli_stream_gb_s(kernels) : 0));
    if (peers)
        json_object_set_new(row, "against",
                            compare_with(peers, s, attn_ctx_threads(set->ctx), result.ms_median));
    if (width == 0) {
        cli_print_json(row);
        return;
    }
    print_row(s, row, width);
    json_decref(row);
}

/* --- The command ---------------------------------------------------------------------------- */

static int is_wanted(const bench_shape *s, const char *only)
{
    const char *op = json_string_value(json_object_get(s->json, "op"));

    return !only || (s->name && strstr(s->name, only)) || (op && strcmp(op, only) == 0);
}

/* Reads all shapes before the first is timed: a mistake in the last should not wait. Returns those
 * that are wanted, *count of them; NULL after a message. */
static bench_shape *read_shapes(const cli_value *o, json_t *lines, size_t *count)
{
    const char *file = o[BENCH_SHAPES].given ? o[BENCH_SHAPES].text : "shape";
    bench_shape *shapes = cli_take((json_array_size(lines) + 1) * sizeof *shapes);
    json_t *line;
    size_t i;

    *count = 0;
    json_array_foreach(lines, i, line)
    {
        char where[256];
        snprintf(where, sizeof where, "%s: shape %zu", file, i + 1);
        if (bench_read_shape(&shapes[*count], line, where) != 0)
            return NULL;
        *count += is_wanted(&shapes[*count], o[BENCH_ONLY].text);
    }
    if (*count == 0)
        cli_error("%s: no shape%s is left to time", file, o[BENCH_ONLY].given ? " of --only" : "");
    return *count ? shapes : NULL;
}

static int bench_rows(const cli_value *o, const bench_settings *set, json_t *lines, json_t *peers)
{
    int width = 5;
    char name[160];
    size_t count;
    bench_shape *shapes = read_shapes(o, lines, &count);

    if (!shapes)
        return CLI_FAILED;
    for (size_t i = 0; i < count; i++) {
        int n = (int)strlen(row_name(&shapes[i], name, sizeof name));
        width = n > width ? n : width;
    }
    width = o[BENCH_JSON].given ? 0 : width > 44 ? 44 : width;
    if (width)
        cli_print("%-*s %10s %10s %13s %8s %8s  kernel%s", width, "shape", "ms", "least", "rate",
                  "best", "ratio", peers ? "  (theirs / ours)" : "");
    for (size_t i = 0; i < count && !ferror(stdout); i++)
        bench_row(&shapes[i], set, peers, width);
    return CLI_OK;
}

static int is_shape_option(int option)
{
    return option >= BENCH_OP && option <= BENCH_DROPOUT;
}

static int bench_main(const cli_value *values, char **operands, size_t operand_count)
{
    static const attn_kernel_set sets[] = {ATTN_SET_AUTO, ATTN_SET_SCALAR, ATTN_SET_NEON,
                                           ATTN_SET_AVX2, ATTN_SET_AVX512};
    attn_ctx_options options = ATTN_CTX_OPTIONS_INIT;
    bench_settings set = {.repeat = values[BENCH_REPEAT].given ? values[BENCH_REPEAT].integer : 5,
                          .budget = values[BENCH_BUDGET].given ? values[BENCH_BUDGET].number : 0.25,
                          .bhsd = (int)values[BENCH_LAYOUT].integer};
    json_t *lines = NULL, *peers = NULL;
    attn_error err = {0};
    attn_ctx *ctx = NULL;
    attn_status status;
    int code = CLI_FAILED, shape_given = 0;

    if (operand_count)
        return cli_usage("unexpected '%s'; a shapes file is given by --shapes", operands[0]);
    for (int i = 0; i < BENCH_OPTIONS; i++)
        shape_given |= is_shape_option(i) && values[i].given;
    if (shape_given == values[BENCH_SHAPES].given)
        return cli_usage(shape_given ? "--shapes and the options of one shape exclude each other"
                                     : "no shape: --shapes FILE, or --nq 512 --hq 12 --dk 64");
    lines = !shape_given ? read_lines(values[BENCH_SHAPES].text)
            : values[BENCH_OP].given && strcmp(values[BENCH_OP].text, "train") == 0
                ? train_of_options(values)
                : shape_of_options(values);
    peers = lines && values[BENCH_AGAINST].given ? read_lines(values[BENCH_AGAINST].text) : NULL;
    options.kernels = sets[values[BENCH_KERNEL].integer];
    options.threads = (int)values[BENCH_THREADS].integer;
    if (lines && (peers || !values[BENCH_AGAINST].given)) {
        status = attn_ctx_create(&options, &ctx, &err);
        set.ctx = ctx;
        code = status == ATTN_OK ? bench_rows(values, &set, lines, peers)
                                 : cli_failed(NULL, status, &err);
    }
    attn_ctx_destroy(ctx);
    cli_stream_release();
    json_decref(lines);
    json_decref(peers);
    return code;
}

const cli_command cli_bench_command = {
    .name = "bench",
    .title = "attn bench",
    .summary = "speed by shape, as a share of what this processor can do",
    .usage = "attn bench --shapes FILE [options]\n"
             "attn bench --hq 12 --nq 512 --dk 64 [options]",
    .about =
        "Times attention on random inputs. Rates count only the pairs of query and key that the "
        "mask allows. They are set against the multiply-add peak of one core (times threads), "
        "or for decode against the rate at which one core reads memory, both measured right "
        "before and after each shape. A shape whose operation does not exist gives an error row.",
    .examples = "attn bench --hq 12 --nq 512 --dk 64\n"
                "attn bench --op decode --dtype bf16 --hq 32 --hkv 8 --nk 32768 --dk 128\n"
                "attn bench --op train --d 512 --ff 2048 --layers 6,6 --vocab 16384 --batch 32\n"
                "attn bench --shapes shapes.jsonl --only BERT --json --repeat 7 > now.jsonl\n"
                "attn bench --shapes shapes.jsonl --against now.jsonl",
    .options = bench_options,
    .option_count = BENCH_OPTIONS,
    .main = bench_main,
};
