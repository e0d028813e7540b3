/* 06_scale.c: why the paper divides by the square root of the width.
 *
 * 2000 random queries meet 64 random keys whose components have mean 0 and variance 1. A dot
 * product of width d then has variance d: without a scale, the wider the vectors, the further apart
 * the logits, until softmax gives all the weight to one key and its slope, the sum of p (1 - p), is
 * nearly zero, so that there is nothing left to learn from. Divided by sqrt(d), width does not
 * matter.
 */
#include "example.h"

#include <math.h>

enum { rows = 2000, keys = 64 };

/* n numbers of mean 0, variance 1, nearly normal: sums of twelve even ones of variance 1/12 each.
 */
static float *normals(size_t n, uint64_t seed)
{
    float *even = numbers(12 * n, seed), *x = numbers(n, seed);
    for (size_t i = 0; i < n; i++) {
        x[i] = 0;
        for (size_t j = 0; j < 12; j++)
            x[i] += even[12 * i + j] / 2;
    }
    free(even);
    return x;
}

/* Mean over all queries of the largest weight and of the slope, at one scale. */
static void measure(const attn_ctx *ctx, float *q, float *k, int64_t d, double scale,
                    double *largest, double *slope)
{
    static float weights[rows][keys];
    float v[keys] = {0};
    attn_forward_args a = ATTN_FORWARD_ARGS_INIT; /* no `out`: only the weights are asked for */
    attn_error err;

    a.q = attn_view_bhsd(q, ATTN_F32, 1, 1, rows, d);
    a.k = attn_view_bhsd(k, ATTN_F32, 1, 1, keys, d);
    a.v = attn_view_bhsd(v, ATTN_F32, 1, 1, keys, 1);
    a.weights = attn_view_bhsd(weights, ATTN_F32, 1, 1, rows, keys);
    a.has_scale = 1;
    a.scale = scale;
    must(attn_forward(ctx, &a, &err), &err);

    *largest = *slope = 0;
    for (int i = 0; i < rows; i++) {
        double top = 0;
        for (int j = 0; j < keys; j++) {
            double p = (double)weights[i][j];
            top = fmax(top, p);
            *slope += p * (1 - p) / rows;
        }
        *largest += top / rows;
    }
}

static double spread_of_logits(const float *q, const float *k, int64_t d)
{
    double square = 0;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < keys; j++) {
            double s = 0;
            for (int64_t c = 0; c < d; c++)
                s += (double)q[i * d + c] * (double)k[j * d + c];
            square += s * s / (rows * keys);
        }
    return sqrt(square);
}

int main(void)
{
    attn_ctx *ctx;
    attn_error err;

    must(attn_ctx_create(NULL, &ctx, &err), &err);
    printf("               spread of       scale 1            scale 1/sqrt(d)\n"
           "  d   sqrt(d)  the logits   largest   slope       largest   slope\n");
    for (int64_t d = 4; d <= 1024; d *= 4) {
        float *q = normals((size_t)(rows * d), 1), *k = normals((size_t)(keys * d), 2);
        double top[2], slope[2];
        measure(ctx, q, k, d, 1, &top[0], &slope[0]);
        measure(ctx, q, k, d, 1 / sqrt((double)d), &top[1], &slope[1]);
        printf("%4d  %6.2f      %6.2f      %5.3f   %5.3f         %5.3f   %5.3f\n", (int)d,
               sqrt((double)d), spread_of_logits(q, k, d), top[0], slope[0], top[1], slope[1]);
        free(q);
        free(k);
    }
    printf("\nlargest: mean of the largest of 64 weights; slope: mean of the sum of p (1 - p)\n");
    attn_ctx_destroy(ctx);
    return 0;
}
