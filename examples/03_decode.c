/* 03_decode.c: writing a text token by token, with the bits of reading it at once.
 *
 * A language model reads a prompt in one call (prefill) and then goes on one token at a time
 * (decode), keeping keys and values in a cache. In most libraries the two give slightly different
 * numbers. Here the difference is nothing at all, and this program compares bytes to show it.
 */
#include "example.h"

#include <string.h>

enum { heads = 8, key_heads = 2, width = 64, tokens = 300 };

/* Rows first .. first + n - 1 of x, which is [heads][tokens][width]. */
static attn_view part(float *x, int64_t h, int64_t first, int64_t n)
{
    attn_view v = attn_view_bhsd(x + first * width, ATTN_F32, 1, h, n, width);
    v.stride[1] = (int64_t)tokens * width;
    return v;
}

static int same_rows(const float *a, const float *b)
{
    int same = 0;
    for (int t = 0; t < tokens; t++) {
        int equal = 1;
        for (int h = 0; h < heads; h++)
            equal &= memcmp(a + (h * tokens + t) * width, b + (h * tokens + t) * width,
                            width * sizeof *a) == 0;
        same += equal;
    }
    return same;
}

/* Feeds the tokens in steps of `step` through a cache and attends after each. */
static void decode(const attn_ctx *ctx, const attn_cache_options *options, const attn_mask *mask,
                   int step, float *q, float *k, float *v, float *out)
{
    attn_cache *cache;
    attn_error err;

    must(attn_cache_create(ctx, options, &cache, &err), &err);
    for (int t = 0; t < tokens; t += step) {
        int n = t + step <= tokens ? step : tokens - t;
        attn_view new_k = part(k, key_heads, t, n), new_v = part(v, key_heads, t, n);
        must(attn_cache_append(cache, 0, &new_k, &new_v, &err), &err);

        attn_forward_args a = ATTN_FORWARD_ARGS_INIT; /* k and v come from the cache */
        a.q = part(q, heads, t, n);
        a.out = part(out, heads, t, n);
        a.mask = mask;
        must(attn_decode(ctx, cache, &a, &err), &err);
    }
    attn_cache_destroy(cache);
}

static void prefill(const attn_ctx *ctx, const attn_mask *mask, float *q, float *k, float *v,
                    float *out)
{
    attn_forward_args a = ATTN_FORWARD_ARGS_INIT;
    attn_error err;

    a.q = part(q, heads, 0, tokens);
    a.k = part(k, key_heads, 0, tokens);
    a.v = part(v, key_heads, 0, tokens);
    a.out = part(out, heads, 0, tokens);
    a.mask = mask;
    must(attn_forward(ctx, &a, &err), &err);
}

int main(void)
{
    float *q = numbers((size_t)heads * tokens * width, 1), *k, *v, *whole, *steps;
    attn_cache_options options = ATTN_CACHE_OPTIONS_INIT;
    attn_mask mask = ATTN_MASK_INIT;
    attn_ctx *ctx;
    attn_error err;

    k = numbers((size_t)key_heads * tokens * width, 2); /* 8 query heads share 2 key heads */
    v = numbers((size_t)key_heads * tokens * width, 3);
    whole = numbers((size_t)heads * tokens * width, 4);
    steps = numbers((size_t)heads * tokens * width, 5);
    must(attn_ctx_create(NULL, &ctx, &err), &err);
    options.batch = 1;
    options.heads = key_heads;
    options.dk = options.dv = width;
    options.capacity = tokens;

    mask.causal = 1;
    prefill(ctx, &mask, q, k, v, whole);
    printf("%d tokens, causal; rows with the bits of one call over all of them:\n\n", tokens);
    decode(ctx, &options, &mask, 1, q, k, v, steps);
    printf("  one token at a time                           %3d of %d\n", same_rows(whole, steps),
           tokens);
    decode(ctx, &options, &mask, 7, q, k, v, steps);
    printf("  seven at a time                               %3d of %d\n", same_rows(whole, steps),
           tokens);

    options.kind = ATTN_CACHE_PAGED; /* pages of 16 rows, dealt out as they are needed */
    options.page = 16;
    options.pages = (tokens + 15) / 16;
    decode(ctx, &options, &mask, 1, q, k, v, steps);
    printf("  one at a time, from a paged cache             %3d of %d\n", same_rows(whole, steps),
           tokens);

    /* A ring keeps the last 32 rows only: enough for a window of 31 keys to the left and oneself.
     */
    mask.window = 1;
    mask.window_left = 31;
    mask.window_right = 0;
    prefill(ctx, &mask, q, k, v, whole);
    options.kind = ATTN_CACHE_RING;
    options.capacity = 32;
    decode(ctx, &options, &mask, 1, q, k, v, steps);
    printf("  window of 32, from a ring of 32 rows          %3d of %d\n", same_rows(whole, steps),
           tokens);

    attn_ctx_destroy(ctx);
    free(q);
    free(k);
    free(v);
    free(whole);
    free(steps);
    return 0;
}
