/* bench_time.c: makes the inputs of a shape and times calls on them. */
#include "cli/bench.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "cli/console.h"

/* --- Inputs --------------------------------------------------------------------------------- */

/* About normal with variance 1: the sum of four uniform numbers, from the four 16-bit parts of one
 * step of a counter-based generator (splitmix64: Steele, Lea and Flood 2014). */
static float normal(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    int64_t sum;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    sum = (int64_t)((z & 0xffff) + (z >> 16 & 0xffff) + (z >> 32 & 0xffff) + (z >> 48));
    /* a uniform number of 16 bits has standard deviation 65536 / sqrt(12); four of them, twice that
     */
    return (float)(sum - 131070) * (1.0f / 37837.2f);
}

/* Cuts a float down to f16. Inputs are below 4 in size, and what is below 2^-14 may become 0. */
static uint16_t cut_to_half(uint32_t bits)
{
    uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;

    if (magnitude < (127u - 14) << 23)
        return (uint16_t)sign;
    return (uint16_t)(sign | (magnitude - ((127u - 15) << 23)) >> 13);
}

void bench_fill(void *memory, attn_type type, size_t count, uint64_t seed)
{
    for (size_t i = 0; i < count; i++) {
        float x = normal(&seed);
        uint32_t bits;
        memcpy(&bits, &x, sizeof bits);
        if (type == ATTN_F32)
            ((float *)memory)[i] = x;
        else if (type == ATTN_F64)
            ((double *)memory)[i] = (double)x;
        else
            ((uint16_t *)memory)[i] =
                type == ATTN_BF16 ? (uint16_t)(bits >> 16) : cut_to_half(bits);
    }
}

attn_status bench_fail(attn_error *err, attn_status status, const char *text)
{
    err->status = status;
    snprintf(err->text, sizeof err->text, "%s", text);
    return status;
}

/* A filled array; data is NULL if there is no memory for it. */
static attn_view make_array(const bench_shape *s, const bench_settings *set, int64_t h, int64_t n,
                            int64_t d, uint64_t seed)
{
    const int64_t size[4] = {s->b, h, n, d};
    size_t bytes, element = attn_type_size(s->type);
    void *data = cli_bytes(size, 4, element, &bytes) ? cli_try(bytes) : NULL;

    if (data)
        bench_fill(data, s->type, bytes / element, seed);
    return set->bhsd ? attn_view_bhsd(data, s->type, s->b, h, n, d)
                     : attn_view_bshd(data, s->type, s->b, h, n, d);
}

/* Key lengths of a padded batch as a mask [b, 1, 1, nk]. */
static attn_view make_keep(const bench_shape *s)
{
    uint8_t *keep = cli_take((size_t)s->b * (size_t)s->nk);

    for (int64_t b = 0; b < s->b; b++)
        memset(keep + b * s->nk, 1, (size_t)bench_keep_length(s, b));
    return attn_view_bhsd(keep, ATTN_U8, s->b, 1, 1, s->nk);
}

static attn_view make_bias(const bench_shape *s)
{
    const int64_t size[3] = {s->hq, s->nq, s->nk};
    size_t bytes, element = attn_type_size(s->type);
    void *data = cli_bytes(size, 3, element, &bytes) ? cli_try(bytes) : NULL;

    if (data)
        bench_fill(data, s->type, bytes / element, 4);
    return attn_view_bhsd(data, s->type, 1, s->hq, s->nq, s->nk);
}

/* --- Calls ---------------------------------------------------------------------------------- */

typedef struct bench_call {
    const attn_ctx *ctx;
    attn_cache *cache; /* NULL: forward */
    attn_mask mask;
    attn_forward_args args, plain; /* plain: the same without statistics */
    attn_backward_args backward;
    attn_stats stats;
} bench_call;

static attn_status call_once(const void *call, attn_error *err)
{
    const bench_call *c = call;

    return c->cache ? attn_decode(c->ctx, c->cache, &c->args, err)
                    : attn_forward(c->ctx, &c->args, err);
}

static attn_status call_plain(const void *call, attn_error *err)
{
    const bench_call *c = call;

    return c->cache ? attn_decode(c->ctx, c->cache, &c->plain, err)
                    : attn_forward(c->ctx, &c->plain, err);
}

static attn_status call_backward(const void *call, attn_error *err)
{
    const bench_call *c = call;

    return attn_backward(c->ctx, &c->backward, err);
}

static attn_status call_both(const void *call, attn_error *err)
{
    attn_status status = call_once(call, err);

    return status == ATTN_OK ? call_backward(call, err) : status;
}

/* A contiguous cache in memory of its own, filled from the arrays. */
static attn_status make_cache(const bench_shape *s, bench_call *c, attn_view k, attn_view v,
                              attn_error *err)
{
    attn_cache_options options = ATTN_CACHE_OPTIONS_INIT;
    attn_status status;

    options.type = s->cache_type;
    options.batch = s->b;
    options.heads = s->hkv;
    options.dk = s->dk;
    options.dv = s->dv;
    options.capacity = s->nk;
    status = attn_cache_create(c->ctx, &options, &c->cache, err);
    return status == ATTN_OK ? attn_cache_append(c->cache, 0, &k, &v, err) : status;
}

static attn_status prepare(const bench_shape *s, const bench_settings *set, bench_call *c,
                           attn_error *err)
{
    attn_mask no_mask = ATTN_MASK_INIT;
    attn_forward_args no_args = ATTN_FORWARD_ARGS_INIT;
    attn_view k, v;

    c->ctx = set->ctx;
    c->mask = no_mask;
    c->args = no_args;
    c->args.q = make_array(s, set, s->hq, s->nq, s->dk, 1);
    c->args.out = make_array(s, set, s->hq, s->nq, s->dv, 5);
    k = make_array(s, set, s->hkv, s->nk, s->dk, 2);
    v = make_array(s, set, s->hkv, s->nk, s->dv, 3);
    if (s->keep)
        c->mask.keep = make_keep(s);
    if (s->bias)
        c->mask.bias = make_bias(s);
    if (!c->args.q.data || !c->args.out.data || !k.data || !v.data ||
        (s->bias && !c->mask.bias.data))
        return bench_fail(err, ATTN_E_MEMORY, "out of memory for the inputs");
    c->mask.causal = s->causal != 0;
    if (s->causal || s->keep || s->bias)
        c->args.mask = &c->mask;
    if (s->op == BENCH_DECODE) {
        /* The queries of a cache are its last rows unless an offset moves them. */
        c->mask.q_offset = s->causal == 1 ? s->nq - s->nk : 0;
        return make_cache(s, c, k, v, err);
    }
    c->mask.q_offset = s->causal == 2 ? s->nk - s->nq : 0;
    c->args.k = k;
    c->args.v = v;
    return ATTN_OK;
}

/* An output of statistics for every head; data is NULL if there is no memory. */
static attn_view make_output(const bench_shape *s, attn_type type, int64_t rows, int64_t columns)
{
    const int64_t size[4] = {s->b, s->hq, rows, columns};
    size_t bytes;
    void *data = cli_bytes(size, 4, attn_type_size(type), &bytes) ? cli_try(bytes) : NULL;

    return attn_view_bhsd(data, type, s->b, s->hq, rows, columns);
}

/* Statistics as `attn show` asks for them. */
static attn_status prepare_stats(const bench_shape *s, bench_call *c, attn_error *err)
{
    static const attn_stats none = ATTN_STATS_INIT;
    int64_t rows = s->nq < 1024 ? s->nq : 1024, columns = s->nk < 1024 ? s->nk : 1024;
    attn_stats *t = &c->stats;
    const attn_view *asked[] = {&t->entropy,  &t->peak,       &t->peak_key,
                                &t->map_sum,  &t->map_max,    &t->map_count,
                                &t->key_mass, &t->top_weight, &t->top_key};

    *t = none;
    if (s->stats == BENCH_ENTROPY) {
        t->entropy = make_output(s, ATTN_F32, s->nq, 1);
        t->peak = make_output(s, ATTN_F32, s->nq, 1);
        t->peak_key = make_output(s, ATTN_I64, s->nq, 1);
    } else {
        t->map_sum = make_output(s, ATTN_F32, rows, columns);
        t->map_max = make_output(s, ATTN_F32, rows, columns);
        t->map_count = make_output(s, ATTN_I64, rows, columns);
        t->key_mass = make_output(s, ATTN_F32, 1, s->nk);
        t->top_weight = make_output(s, ATTN_F32, s->nq, 8);
        t->top_key = make_output(s, ATTN_I64, s->nq, 8);
    }
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++)
        if (asked[i]->size[0] > 0 && !asked[i]->data)
            return bench_fail(err, ATTN_E_MEMORY, "out of memory for the statistics");
    c->args.stats = t;
    return ATTN_OK;
}

/* What a backward pass needs besides: a derivative, gradients, lse, and out as f32. */
static attn_status prepare_backward(const bench_shape *s, const bench_settings *set, bench_call *c,
                                    attn_error *err)
{
    attn_backward_args none = ATTN_BACKWARD_ARGS_INIT;
    bench_shape wide = *s;

    wide.type = s->type == ATTN_F64 ? ATTN_F64 : ATTN_F32;
    c->args.out = make_array(&wide, set, s->hq, s->nq, s->dv, 5);
    c->args.lse = make_array(&wide, set, s->hq, s->nq, 1, 6);
    c->backward = none;
    c->backward.forward = &c->args;
    c->backward.dout = make_array(s, set, s->hq, s->nq, s->dv, 7);
    c->backward.dq = make_array(s, set, s->hq, s->nq, s->dk, 8);
    c->backward.dk = make_array(s, set, s->hkv, s->nk, s->dk, 9);
    c->backward.dv = make_array(s, set, s->hkv, s->nk, s->dv, 10);
    if (!c->args.out.data || !c->args.lse.data || !c->backward.dout.data || !c->backward.dq.data ||
        !c->backward.dk.data || !c->backward.dv.data)
        return bench_fail(err, ATTN_E_MEMORY, "out of memory for the inputs");
    return attn_forward(c->ctx, &c->args, err);
}

/* --- Timing --------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *times, size_t n)
{
    qsort(times, n, sizeof *times, compare);
    return n % 2 ? times[n / 2] : (times[n / 2 - 1] + times[n / 2]) / 2;
}

/* One call warms up; one more tells how many fill the budget. */
attn_status bench_measure(attn_status (*call)(const void *arg, attn_error *err), const void *arg,
                          const bench_settings *set, double *middle, double *least, attn_error *err)
{
    double *times = cli_take((size_t)set->repeat * sizeof *times), start, once;
    attn_status status = call(arg, err);
    int64_t calls;

    start = cli_clock();
    if (status == ATTN_OK)
        status = call(arg, err);
    once = cli_clock() - start;
    calls = (int64_t)(set->budget / (once > 1e-7 ? once : 1e-7));
    calls = calls < 1 ? 1 : calls;
    for (int64_t r = 0; status == ATTN_OK && r < set->repeat; r++) {
        start = cli_clock();
        for (int64_t i = 0; status == ATTN_OK && i < calls; i++)
            status = call(arg, err);
        times[r] = 1e3 * (cli_clock() - start) / (double)calls;
    }
    if (status != ATTN_OK)
        return status;
    *middle = median(times, (size_t)set->repeat);
    *least = times[0];
    return ATTN_OK;
}

/* Calls with statistics and without, in turn in every repeat, so that what else the machine does
 * meets both alike. */
static attn_status time_stats(bench_call *c, const bench_settings *set, bench_result *result,
                              attn_error *err)
{
    bench_settings one = *set;
    size_t n = (size_t)set->repeat;
    double *with = cli_take(3 * n * sizeof *with), *without = with + n, *over = without + n, least;
    attn_status status = ATTN_OK;

    one.repeat = 1;
    c->plain = c->args;
    c->plain.stats = NULL;
    for (size_t r = 0; status == ATTN_OK && r < n; r++) {
        status = bench_measure(call_plain, c, &one, &without[r], &least, err);
        if (status == ATTN_OK)
            status = bench_measure(call_once, c, &one, &with[r], &least, err);
        over[r] = with[r] / without[r];
    }
    if (status != ATTN_OK)
        return status;
    result->ms_median = median(with, n);
    result->ms_min = with[0];
    result->ms_plain = median(without, n);
    result->over_plain = median(over, n);
    return ATTN_OK;
}

/* Memory for the calls of a plan; NULL with *err filled if there is none. */
static void *take_workspace(const attn_plan *plan, attn_error *err)
{
    void *memory = cli_try(plan->workspace_size + 1);

    if (!memory)
        bench_fail(err, ATTN_E_MEMORY, "out of memory for the workspace");
    return memory;
}

/* The backward pass alone, then with the forward pass before it. */
static attn_status time_backward(const bench_settings *set, bench_call *c, bench_result *result,
                                 attn_error *err)
{
    attn_backward_args *b = &c->backward;
    attn_status status = attn_backward_plan(c->ctx, b, &result->plan, err);
    double least;

    if (status != ATTN_OK)
        return status;
    b->workspace_size = result->plan.workspace_size;
    b->workspace = take_workspace(&result->plan, err);
    if (!b->workspace)
        return err->status;
    status = bench_measure(call_backward, c, set, &result->ms_median, &result->ms_min, err);
    if (status == ATTN_OK)
        status = bench_measure(call_both, c, set, &result->ms_both, &least, err);
    return status;
}

static attn_status time_attention(const bench_shape *shape, const bench_settings *set,
                                  bench_call *c, bench_result *result, attn_error *err)
{
    attn_status status = prepare(shape, set, c, err);

    if (status == ATTN_OK && shape->stats)
        status = prepare_stats(shape, c, err);
    if (status == ATTN_OK)
        status = c->cache ? attn_decode_plan(c->ctx, c->cache, &c->args, &result->plan, err)
                          : attn_forward_plan(c->ctx, &c->args, &result->plan, err);
    if (status != ATTN_OK)
        return status;
    c->args.workspace_size = result->plan.workspace_size;
    c->args.workspace = take_workspace(&result->plan, err);
    if (!c->args.workspace)
        return err->status;
    if (shape->op == BENCH_BACKWARD) {
        status = prepare_backward(shape, set, c, err);
        return status == ATTN_OK ? time_backward(set, c, result, err) : status;
    }
    if (shape->stats)
        return time_stats(c, set, result, err);
    return bench_measure(call_once, c, set, &result->ms_median, &result->ms_min, err);
}

attn_status bench_time(const bench_shape *shape, const bench_settings *settings,
                       bench_result *result, attn_error *err)
{
    size_t mark = cli_mark();
    bench_call c = {0};
    attn_plan plan = ATTN_PLAN_INIT;
    attn_status status;

    result->plan = plan;
    if (shape->op == BENCH_GEMM)
        status = bench_time_gemm(shape, settings, result, err);
    else if (shape->op == BENCH_TRAIN)
        status = bench_time_train(shape, settings, result, err);
    else
        status = time_attention(shape, settings, &c, result, err);
    attn_cache_destroy(c.cache);
    cli_release(mark);
    return status;
}
