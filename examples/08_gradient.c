/* 08_gradient.c: attention that learns where to look.
 *
 * 64 tokens are random rows. Row i is to give back the token before it, x[i - 1], as an output of
 * attention whose values are the tokens themselves. Nobody says where to look: queries and keys are
 * one row for each position, random at first, and go down the gradient of the squared error, which
 * attn_backward computes from what attn_forward left. In the end each row looks at its neighbour.
 * (A Transformer grows such heads too: Olsson et al., "In-context Learning and Induction Heads".)
 */
#include "example.h"

#include <math.h>
#include <string.h>

enum { tokens = 64, width = 16, steps = 400 };

static const float rate = 1.0f;

/* out[i] - x[i - 1] into `error`, and the mean of its squares; row 0 has no token before it. */
static double compare(const float *out, const float *x, float *error)
{
    double sum = 0;

    memset(error, 0, width * sizeof *error);
    for (int i = width; i < tokens * width; i++) {
        error[i] = out[i] - x[i - width];
        sum += (double)error[i] * (double)error[i];
    }
    return sum / ((tokens - 1) * width);
}

static void descend(float *x, const float *gradient)
{
    for (int i = 0; i < tokens * width; i++)
        x[i] -= rate * gradient[i];
}

/* One number of q moved a little to both sides: what the loss does is the derivative, roughly. */
static double slope_by_hand(const attn_ctx *ctx, const attn_forward_args *forward, float *number,
                            const float *x, float *error)
{
    const float step = 1e-2f, at = *number;
    double loss[2];
    attn_error err;

    for (int side = 0; side < 2; side++) {
        *number = at + (side ? step : -step);
        must(attn_forward(ctx, forward, &err), &err);
        loss[side] = compare(forward->out.data, x, error) * (tokens - 1) * width / 2;
    }
    *number = at;
    return (loss[1] - loss[0]) / (2 * (double)step);
}

static float *room(size_t n)
{
    float *x = numbers(n, 0);
    memset(x, 0, n * sizeof *x);
    return x;
}

int main(void)
{
    float *q = numbers(tokens * width, 1), *k = numbers(tokens * width, 2);
    float *x = numbers(tokens * width, 3), *out = room(tokens * width), *lse = room(tokens);
    float *error = room(tokens * width), *dq = room(tokens * width), *dk = room(tokens * width);
    float *weights = room((size_t)tokens * tokens);
    attn_forward_args f = ATTN_FORWARD_ARGS_INIT;
    attn_backward_args b = ATTN_BACKWARD_ARGS_INIT;
    attn_mask mask = ATTN_MASK_INIT;
    attn_ctx *ctx;
    attn_error err;
    double by_hand;

    must(attn_ctx_create(NULL, &ctx, &err), &err);
    mask.causal = 1;
    f.mask = &mask;
    f.q = attn_view_bhsd(q, ATTN_F32, 1, 1, tokens, width);
    f.k = attn_view_bhsd(k, ATTN_F32, 1, 1, tokens, width);
    f.v = attn_view_bhsd(x, ATTN_F32, 1, 1, tokens, width);
    f.out = attn_view_bhsd(out, ATTN_F32, 1, 1, tokens, width);
    f.lse = attn_view_bhsd(lse, ATTN_F32, 1, 1, tokens, 1);

    /* The loss is half the sum of squares, so its derivative by out is the error itself. */
    b.forward = &f;
    b.dout = attn_view_bhsd(error, ATTN_F32, 1, 1, tokens, width);
    b.dq = attn_view_bhsd(dq, ATTN_F32, 1, 1, tokens, width);
    b.dk = attn_view_bhsd(dk, ATTN_F32, 1, 1, tokens, width);

    by_hand = slope_by_hand(ctx, &f, &q[20 * width], x, error);
    printf("step   mean squared error\n");
    for (int step = 0; step <= steps; step++) {
        double loss;

        must(attn_forward(ctx, &f, &err), &err);
        loss = compare(out, x, error);
        if (step % 50 == 0)
            printf("%4d   %.5f\n", step, loss);
        must(attn_backward(ctx, &b, &err), &err);
        if (step == 0)
            printf("       (a derivative: %.4f, by moving the number %.4f)\n",
                   (double)dq[20 * width], by_hand);
        descend(q, dq);
        descend(k, dk);
    }

    f.weights = attn_view_bhsd(weights, ATTN_F32, 1, 1, tokens, tokens);
    must(attn_forward(ctx, &f, &err), &err);
    printf("\nweight on the token before, and what is left for all others:\n");
    for (int i = 1; i < tokens; i += 21)
        printf("  row %2d   %.3f   %.3f\n", i, (double)weights[i * tokens + i - 1],
               1 - (double)weights[i * tokens + i - 1]);

    attn_ctx_destroy(ctx);
    free(q);
    free(k);
    free(x);
    free(out);
    free(lse);
    free(error);
    free(dq);
    free(dk);
    free(weights);
    return 0;
}
