/* small.c: a program as a user writes it, for the bare build and the installed package: two queries
 * over three keys, checked against values worked out by hand. */
#include <attn/attn.h>

#include <math.h>
#include <stdio.h>

int main(void)
{
    /* Scale ln 2: the weights of a row are 2^(q.k), so row 0 has 4, 1, 1 and row 1 has 1, 1, 2. */
    float q[2][2] = {{2, 0}, {0, 1}}, k[3][2] = {{1, 0}, {0, 0}, {0, 1}};
    float v[3][1] = {{6}, {12}, {18}}, out[2][1] = {{0}, {0}};
    const float expected[2] = {(4 * 6 + 12 + 18) / 6.0F, (6 + 12 + 2 * 18) / 4.0F};
    attn_ctx *ctx;
    attn_error err = {ATTN_OK, 0, ""};
    attn_forward_args args = ATTN_FORWARD_ARGS_INIT;
    int wrong = 0;

    if (attn_ctx_create(NULL, &ctx, &err) != ATTN_OK) {
        fprintf(stderr, "attn_ctx_create: %s\n", err.text);
        return 1;
    }
    args.q = attn_view_bhsd(q, ATTN_F32, 1, 1, 2, 2);
    args.k = attn_view_bhsd(k, ATTN_F32, 1, 1, 3, 2);
    args.v = attn_view_bhsd(v, ATTN_F32, 1, 1, 3, 1);
    args.out = attn_view_bhsd(out, ATTN_F32, 1, 1, 2, 1);
    args.has_scale = 1;
    args.scale = log(2);
    if (attn_forward(ctx, &args, &err) != ATTN_OK) {
        fprintf(stderr, "attn_forward: %s\n", err.text);
        wrong = 1;
    }
    attn_ctx_destroy(ctx);
    for (int i = 0; i < 2; i++)
        wrong |= !(fabs(out[i][0] - expected[i]) < 1e-5);
    printf("%s: %g %g, expected %g %g\n", attn_version(), out[0][0], out[1][0], expected[0],
           expected[1]);
    return wrong;
}
