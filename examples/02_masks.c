/* 02_masks.c: who may look at whom, and how the ways to say so combine.
 *
 * Six queries, eight keys. The queries are zero, so every allowed key gets the same weight and
 * e^LSE is the number of allowed keys: each picture can be checked by counting its marks.
 */
#include "example.h"

#include <math.h>

enum { rows = 6, keys = 8, width = 4 };

static void draw(const attn_ctx *ctx, const char *title, const attn_mask *mask)
{
    static float q[rows][width]; /* zero */
    float *k = numbers(keys * width, 1), v[keys][1], out[rows][1], lse[rows], weights[rows][keys];
    attn_forward_args a = ATTN_FORWARD_ARGS_INIT;
    attn_error err;

    for (int j = 0; j < keys; j++)
        v[j][0] = (float)j; /* so the answer is the mean number of the allowed keys */
    a.q = attn_view_bhsd(q, ATTN_F32, 1, 1, rows, width);
    a.k = attn_view_bhsd(k, ATTN_F32, 1, 1, keys, width);
    a.v = attn_view_bhsd(v, ATTN_F32, 1, 1, keys, 1);
    a.out = attn_view_bhsd(out, ATTN_F32, 1, 1, rows, 1);
    a.lse = attn_view_bhsd(lse, ATTN_F32, 1, 1, rows, 1);
    a.weights = attn_view_bhsd(weights, ATTN_F32, 1, 1, rows, keys); /* off in real work */
    a.mask = mask;
    must(attn_forward(ctx, &a, &err), &err);

    printf("%s\n\n    key  0 1 2 3 4 5 6 7    e^LSE   mean key\n", title);
    for (int i = 0; i < rows; i++) {
        printf("  row %d ", i);
        for (int j = 0; j < keys; j++)
            printf(" %c", weights[i][j] > 0 ? '#' : '.');
        printf("    %5.2f      %5.2f\n", exp((double)lse[i]), (double)out[i][0]);
    }
    putchar('\n');
    free(k);
}

int main(void)
{
    uint8_t keep[keys] = {1, 1, 0, 1, 1, 1, 0, 1};
    float bias[rows][keys] = {{0}};
    attn_mask causal = ATTN_MASK_INIT, last = ATTN_MASK_INIT, window = ATTN_MASK_INIT;
    attn_mask padded = ATTN_MASK_INIT, biased = ATTN_MASK_INIT, all = ATTN_MASK_INIT;
    attn_ctx *ctx;
    attn_error err;

    must(attn_ctx_create(NULL, &ctx, &err), &err);

    causal.causal = 1;
    draw(ctx, "Causal: no key later than the query. Query row 0 stands at position 0.", &causal);

    last.causal = 1;
    last.q_offset = keys - rows;
    draw(ctx, "Causal, the queries being the last six of eight positions: q_offset = 2.", &last);

    window.window = 1;
    window.window_left = 2;
    window.window_right = 0;
    draw(ctx, "Window: two keys to the left, none to the right, and always the own one.", &window);

    /* One row for all queries, heads and sequences: a size of 1 repeats. */
    padded.keep = attn_view_bhsd(keep, ATTN_U8, 1, 1, 1, keys);
    draw(ctx, "Keep mask: bytes, one a key here; not zero means may be attended.", &padded);

    bias[0][0] = logf(5);
    bias[1][7] = -1e30f;
    for (int j = 0; j < keys; j++) {
        bias[2][j] = -1e30f;
        bias[3][j] = -INFINITY;
    }
    biased.bias = attn_view_bhsd(bias, ATTN_F32, 1, 1, rows, keys);
    draw(ctx, "Bias: a number added to the logit of a key.", &biased);
    printf("  Row 0: key 0 got ln 5 and counts as five keys.\n"
           "  Row 1: key 7 got -1e30. It is allowed, but weighs nothing beside the others.\n"
           "  Row 2: all keys got -1e30; what is alike for all changes nothing (but LSE).\n"
           "  Row 3: all keys got -inf, which forbids: an empty row, answer 0, LSE -inf.\n\n");

    all = window;
    all.causal = 1;
    all.q_offset = 2;
    all.keep = padded.keep;
    draw(ctx, "All at once: a key must pass window, causal and keep mask.", &all);

    attn_ctx_destroy(ctx);
    return 0;
}
