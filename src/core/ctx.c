/* ctx.c: making of contexts, and two small helpers that need none. */
#include "src/base/ctx.h"

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/base/platform.h"
#include "src/base/pool.h"
#include "src/core/problem.h"
#include "src/kernels/cpu.h"
#include "src/kernels/kernels.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* (1 + 2^-12)^2 = 1 + 2^-11 + 2^-24 rounds to 1 + 2^-11, so the plain expression gives 0 and a
 * fused one 2^-24. Values come through volatile variables, or the compiler would work it out
 * itself. */
static bool fuses(const attn__kernels *k)
{
    volatile float a = 1 + 0x1p-12f, c = -(1 + 0x1p-11f);

    return k->plain_multiply_add(a, a, c) != 0;
}

/* Infinities must survive, and exp must be exactly 1 at the maximum and 0 far below: what masks
 * rely on and what -ffast-math breaks. */
static bool softmax_is_sound(const attn__kernels *k)
{
    float s[attn__tile], sum[1][16] = {{0}}, out[16] = {0}, max = -INFINITY;
    volatile float far = -INFINITY;

    for (int i = 0; i < 16; i++)
        s[i] = i == 3 ? 1e8f : i == 4 ? far : -3e38f;
    k->f32.softmax(s, 1, 0, 16, NULL, &max, sum, out, 16, 16);
    return max == 1e8f && s[3] == 1 && s[4] == 0 && s[5] == 0 && k->f32.row_sum(sum[0]) == 1;
}

static attn_status start_workers(attn_ctx *ctx, attn_error *err)
{
    int started = 0;
    char line[120];

    if (ctx->threads == 1 || ctx->parallel_for)
        return ATTN_OK;
    ctx->pool = attn__pool_create(ctx, ctx->threads - 1, &started);
    if (!ctx->pool)
        return attn__fail(err, ATTN_E_MEMORY, 0, "worker pool of %d threads", ctx->threads);
    if (started < ctx->threads - 1 && ctx->log) {
        snprintf(line, sizeof line, "attn: only %d of %d worker threads could be started",
                 started + 1, ctx->threads);
        ctx->log(ctx->log_user, line);
    }
    ctx->threads = started + 1;
    return ATTN_OK;
}

static attn_status check_options(const attn_ctx_options *o, attn_error *err)
{
    if (o->threads < 0 || o->threads > attn__max_threads)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "options.threads: %d, expected 0 .. %d",
                          o->threads, attn__max_threads);
    if (!o->alloc != !o->free)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "options: alloc and free go together");
    if ((int)o->kernels < ATTN_SET_AUTO || o->kernels > ATTN_SET_AVX512)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "options.kernels: %d is not in attn_kernel_set",
                          (int)o->kernels);
    return ATTN_OK;
}

static attn_status create(const attn_ctx_options *options, attn_ctx **out, attn_error *err)
{
    attn_ctx_options o = ATTN_CTX_OPTIONS_INIT;
    attn_ctx *ctx, seed = {0};
    attn_status st;

    if (options && (st = attn__copy_struct(&o, sizeof o, options, "options", err)) != ATTN_OK)
        return st;
    if ((st = check_options(&o, err)) != ATTN_OK)
        return st;
    seed.alloc = o.alloc;
    seed.free = o.free;
    seed.alloc_user = o.alloc_user;
    seed.log = o.log;
    seed.log_user = o.log_user;
    seed.progress = o.progress;
    seed.progress_user = o.progress_user;
    seed.parallel_for = o.parallel_for;
    seed.parallel_user = o.parallel_user;
    seed.threads = o.threads > 0 ? o.threads : attn__usable_cpus();
    if (seed.threads > attn__max_threads)
        seed.threads = attn__max_threads;
    seed.l2_size = attn__l2_size();
    seed.kernels = attn__kernels_for(o.kernels);
    if (!seed.kernels)
        return attn__fail(err, ATTN_E_UNSUPPORTED, 0,
                          "options.kernels: this build or machine cannot run %s",
                          attn_kernel_set_name(o.kernels));
    if (fuses(seed.kernels) || !softmax_is_sound(seed.kernels))
        return attn__fail(err, ATTN_E_BUILD, 0,
                          "the %s kernels were compiled with contracted or fast floating-point "
                          "arithmetic; compile with -ffp-contract=off and without -ffast-math",
                          attn_kernel_set_name(seed.kernels->set));
    ctx = attn__alloc(&seed, sizeof *ctx);
    if (!ctx)
        return attn__fail(err, ATTN_E_MEMORY, 0, "context");
    *ctx = seed;
    st = start_workers(ctx, err);
    if (st != ATTN_OK) {
        attn__free(&seed, ctx);
        return st;
    }
    *out = ctx;
    return ATTN_OK;
}

attn_status attn_ctx_create(const attn_ctx_options *options, attn_ctx **out, attn_error *err)
{
    uint64_t word;
    attn_status st;

    if (!out)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "out: NULL");
    *out = NULL;
    word = attn__fp_default();
    st = create(options, out, err);
    attn__fp_restore(word);
    return st;
}

void attn_ctx_destroy(attn_ctx *ctx)
{
    attn_ctx last;

    if (!ctx)
        return;
    attn__pool_destroy(ctx, ctx->pool);
    last = *ctx; /* the allocator outlives the memory it is kept in */
    attn__free(&last, ctx);
}

attn_kernel_set attn_ctx_kernels(const attn_ctx *ctx)
{
    return ctx->kernels->set;
}

int attn_ctx_threads(const attn_ctx *ctx)
{
    return ctx->threads;
}

attn_view attn_view_bhsd(const void *data, attn_type type, int64_t b, int64_t h, int64_t n,
                         int64_t d)
{
    attn_view v = {.type = type, .size = {b, h, n, d}, .stride = {h * n * d, n * d, d, 1}};

    memcpy(&v.data, &data, sizeof data); /* inputs are const to the caller, and stay unwritten */
    return v;
}

attn_view attn_view_bshd(const void *data, attn_type type, int64_t b, int64_t h, int64_t n,
                         int64_t d)
{
    attn_view v = {.type = type, .size = {b, h, n, d}, .stride = {n * h * d, d, h * d, 1}};

    memcpy(&v.data, &data, sizeof data);
    return v;
}

void attn_keep_from_drop(uint8_t *dst, const uint8_t *src, size_t n)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = !src[i];
}

void attn_alibi_slopes(float *slopes, size_t heads)
{
    size_t power = 1;

    while (power * 2 <= heads)
        power *= 2;
    for (size_t h = 0; h < heads; h++) {
        /* the first `power` of the sequence for `power`, then every second one of that for twice it
         */
        double exponent = h < power ? 8.0 * (double)(h + 1) / (double)power
                                    : 4.0 * (double)(2 * (h - power) + 1) / (double)power;
        slopes[h] = (float)exp2(-exponent);
    }
}
