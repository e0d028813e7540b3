/* 10_statistics.c: looking at attention without keeping it.
 *
 * 2048 queries meet 65,536 keys of random numbers, among which one key fits every query: the
 * needle. All weights would take 537 MB; what is asked for instead takes less than 1 MB. Where a
 * row has one large weight its entropy is low, its peak is near 1, and the map of the largest
 * weights, 8 x 32 cells, shows a stripe where the needle lies.
 */
#include "example.h"

#include <math.h>

enum { rows = 2048, keys = 65536, width = 32, needle = 40000, top = 3, high = 8, wide = 32 };

int main(void)
{
    static float entropy[rows], peak[rows], weight[rows][top], mass[keys], map[high][wide];
    static int32_t place[rows][top];
    float *q = numbers(rows * width, 1), *k = numbers(keys * width, 2);
    attn_ctx *ctx;
    attn_error err;

    for (int c = 0; c < width; c++) { /* what all queries have in common, and the needle's key */
        for (int i = 0; i < rows; i++)
            q[i * width + c] = 2 + q[i * width + c] / 2;
        k[needle * width + c] = 1.5f;
    }

    attn_stats s = ATTN_STATS_INIT;
    s.entropy = attn_view_bhsd(entropy, ATTN_F32, 1, 1, rows, 1);
    s.peak = attn_view_bhsd(peak, ATTN_F32, 1, 1, rows, 1);
    s.top_weight = attn_view_bhsd(weight, ATTN_F32, 1, 1, rows, top);
    s.top_key = attn_view_bhsd(place, ATTN_I32, 1, 1, rows, top);
    s.key_mass = attn_view_bhsd(mass, ATTN_F32, 1, 1, 1, keys);
    s.map_max = attn_view_bhsd(map, ATTN_F32, 1, 1, high, wide);

    attn_forward_args a = ATTN_FORWARD_ARGS_INIT; /* neither values nor output are needed */
    a.q = attn_view_bhsd(q, ATTN_F32, 1, 1, rows, width);
    a.k = attn_view_bhsd(k, ATTN_F32, 1, 1, keys, width);
    a.stats = &s;
    must(attn_ctx_create(NULL, &ctx, &err), &err);
    must(attn_forward(ctx, &a, &err), &err);

    printf("row   effective keys   peak     largest weights\n");
    for (int i = 0; i < rows; i += rows / 4) {
        printf("%4d  %14.1f   %.4f  ", i, exp((double)entropy[i]), (double)peak[i]);
        for (int n = 0; n < top; n++)
            printf("  %.4f at %d", (double)weight[i][n], (int)place[i][n]);
        putchar('\n');
    }
    printf("\nkey %d receives %.1f of %d rows; largest weights by block:\n\n", needle,
           (double)mass[needle], rows);
    for (int i = 0; i < high; i++) {
        printf("  ");
        for (int j = 0; j < wide; j++)
            putchar(map[i][j] > 0.5f ? '#' : map[i][j] > 0.01f ? '+' : '.');
        putchar('\n');
    }
    attn_ctx_destroy(ctx);
    free(q);
    free(k);
    return 0;
}
