/* 04_merge.c: the keys lie in pieces, say one a machine; the answer is as if they lay together.
 *
 * Each piece gives a record: a sum of values, a sum of weights, and the reference both are relative
 * to. A record is small, [rows][width + 2], whatever the number of keys. One call over all keys
 * works in chunks of 512 key positions and adds their records up in ascending order; so whoever
 * does the same gets the same bits, and any other way to cut and add differs by rounding only.
 */
#include "example.h"

#include <math.h>
#include <string.h>

enum { rows = 5, width = 64, keys = 3000, most_pieces = 6 };

typedef struct record {
    float out[rows][width], sum[rows], max[rows];
} record;

static attn_partial view_of(record *r)
{
    attn_partial p;
    p.out = attn_view_bhsd(r->out, ATTN_F32, 1, 1, rows, width);
    p.sum = attn_view_bhsd(r->sum, ATTN_F32, 1, 1, rows, 1);
    p.max = attn_view_bhsd(r->max, ATTN_F32, 1, 1, rows, 1);
    return p;
}

/* Attention over keys first .. end - 1, and those of the record `start` if there is one. Writes the
 * answer to out, or a record to partial. */
static void attend(const attn_ctx *ctx, float *q, float *k, float *v, int64_t first, int64_t end,
                   float *out, const attn_partial *partial, const attn_partial *start)
{
    attn_forward_args a = ATTN_FORWARD_ARGS_INIT;
    attn_mask mask = ATTN_MASK_INIT;
    attn_error err;

    mask.k_offset = first; /* where this piece's first key stands; masks and bits depend on it */
    a.q = attn_view_bhsd(q, ATTN_F32, 1, 1, rows, width);
    a.k = attn_view_bhsd(k + first * width, ATTN_F32, 1, 1, end - first, width);
    a.v = attn_view_bhsd(v + first * width, ATTN_F32, 1, 1, end - first, width);
    if (!partial)
        a.out = attn_view_bhsd(out, ATTN_F32, 1, 1, rows, width);
    a.partial = partial;
    a.start = start;
    a.mask = &mask;
    must(attn_forward(ctx, &a, &err), &err);
}

static void compare(const char *how, const float *out, const float *whole)
{
    double worst = 0;
    for (int i = 0; i < rows * width; i++) {
        double difference = fabs((double)out[i] - (double)whole[i]);
        worst = difference > worst ? difference : worst;
    }
    printf("  %-42s bits %-9s difference %.1e\n", how,
           memcmp(out, whole, rows * width * sizeof *out) ? "differ" : "identical", worst);
}

/* One record a piece, then the sum of all. cuts: first key of each piece, then the number of keys.
 */
static void merge(const attn_ctx *ctx, float *q, float *k, float *v, const int64_t *cuts,
                  size_t pieces, float *out)
{
    static record records[most_pieces];
    attn_partial parts[most_pieces];
    attn_merge_args m = ATTN_MERGE_ARGS_INIT;
    attn_error err;

    for (size_t i = 0; i < pieces; i++) {
        parts[i] = view_of(&records[i]);
        attend(ctx, q, k, v, cuts[i], cuts[i + 1], NULL, &parts[i], NULL);
    }
    m.parts = parts;
    m.count = pieces;
    m.out = attn_view_bhsd(out, ATTN_F32, 1, 1, rows, width);
    must(attn_merge(ctx, &m, &err), &err);
}

int main(void)
{
    float *q = numbers(rows * width, 1), *k = numbers(keys * width, 2);
    float *v = numbers(keys * width, 3), whole[rows * width], out[rows * width];
    record first, second;
    attn_partial a = view_of(&first), b = view_of(&second);
    attn_ctx *ctx;
    attn_error err;

    must(attn_ctx_create(NULL, &ctx, &err), &err);
    attend(ctx, q, k, v, 0, keys, whole, NULL, NULL);
    printf("%d keys in pieces, against one call over all of them:\n\n", keys);

    merge(ctx, q, k, v, (const int64_t[]){0, 512, 1024, 1536, 2048, 2560, keys}, 6, out);
    compare("merged, one record per 512 keys", out, whole);

    merge(ctx, q, k, v, (const int64_t[]){0, 1536, keys}, 2, out);
    compare("merged, two records of 1536 and 1464 keys", out, whole);

    merge(ctx, q, k, v, (const int64_t[]){0, 7, 700, 2001, keys}, 4, out);
    compare("merged, cut anywhere", out, whole);

    /* Handed from one to the next instead: each machine goes on from the record it gets. */
    attend(ctx, q, k, v, 0, 512, NULL, &a, NULL);
    attend(ctx, q, k, v, 512, 2048, NULL, &b, &a);
    attend(ctx, q, k, v, 2048, keys, out, NULL, &b);
    compare("continued at 512 and 2048", out, whole);

    attn_ctx_destroy(ctx);
    free(q);
    free(k);
    free(v);
    return 0;
}
