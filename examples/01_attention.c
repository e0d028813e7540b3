/* 01_attention.c: one call, small enough to check by hand.
 *
 * Two keys point along the two axes; their values are 10 and 20. A query is a point of the plane.
 * Its answer is an average of the values, and the nearer a key's direction, the more its value
 * counts.
 */
#include "example.h"

#include <math.h>

int main(void)
{
    float k[2][2] = {{1, 0}, {0, 1}}, v[2][1] = {{10}, {20}};
    float q[4][2] = {{0, 0}, {1, 0}, {4, 0}, {0, 40}}, out[4][1];

    attn_ctx *ctx;
    attn_error err;
    must(attn_ctx_create(NULL, &ctx, &err), &err);

    attn_forward_args a = ATTN_FORWARD_ARGS_INIT;      /* sizes: batch, heads, rows, columns */
    a.q = attn_view_bhsd(q, ATTN_F32, 1, 1, 4, 2);     /* 4 queries of width 2 */
    a.k = attn_view_bhsd(k, ATTN_F32, 1, 1, 2, 2);     /* 2 keys of width 2 */
    a.v = attn_view_bhsd(v, ATTN_F32, 1, 1, 2, 1);     /* their 2 values of width 1 */
    a.out = attn_view_bhsd(out, ATTN_F32, 1, 1, 4, 1); /* 4 answers of width 1 */
    must(attn_forward(ctx, &a, &err), &err);

    printf("     query     answer   by hand\n");
    for (int i = 0; i < 4; i++) {
        /* softmax of two numbers; the scale is 1 / sqrt(2), for the width of a key is 2 */
        double e0 = exp((double)q[i][0] / sqrt(2)), e1 = exp((double)q[i][1] / sqrt(2));
        double by_hand = (e0 * 10 + e1 * 20) / (e0 + e1);
        printf("  (%2g, %2g)   %7.4f   %7.4f\n", (double)q[i][0], (double)q[i][1],
               (double)out[i][0], by_hand);
    }
    printf("\nA query of zeros likes both keys alike: the mean. A long one picks its key.\n");
    attn_ctx_destroy(ctx);
    return 0;
}
