/* 07_picture.c: computes attention weights and draws them.
 *
 *     07_picture FILE        FILE ends in .png, .svg, .html or .txt
 *
 * Each word attends to words like itself: the same first letter, or nearly the same length. */
#include <attn/attn.h>
#include <attn/viz.h>

#include <stdio.h>
#include <string.h>

enum { WORDS = 9, WIDTH = 27 };

static const char *const words[WORDS] = {"the",  "cat", "took", "the", "cream",
                                         "that", "a",   "tall", "chef"};

int main(int argc, char **argv)
{
    static float keys[WORDS][WIDTH], weights[WORDS][WORDS];
    attn_forward_args args = ATTN_FORWARD_ARGS_INIT;
    attn_panel panel = ATTN_PANEL_INIT;
    attn_figure figure = ATTN_FIGURE_INIT;
    attn_label tokens[WORDS];
    attn_error err = {ATTN_OK, 0, ""};
    attn_ctx *ctx = NULL;
    attn_status status;

    if (argc != 2)
        return 2;
    for (int i = 0; i < WORDS; i++) {
        tokens[i].text = words[i];
        tokens[i].size = strlen(words[i]);
        keys[i][words[i][0] - 'a'] = 4;
        keys[i][26] = (float)strlen(words[i]);
    }
    status = attn_ctx_create(NULL, &ctx, &err);
    args.q = args.k = args.v = attn_view_bhsd(keys, ATTN_F32, 1, 1, WORDS, WIDTH);
    args.weights = attn_view_bhsd(weights, ATTN_F32, 1, 1, WORDS, WORDS);
    if (status == ATTN_OK)
        status = attn_forward(ctx, &args, &err);
    panel.name = "";
    panel.cells = args.weights;
    figure.title = "Words that look alike";
    figure.panels = &panel;
    figure.panel_count = 1;
    figure.query_tokens = figure.key_tokens = tokens;
    if (status == ATTN_OK)
        status = attn_figure_write(NULL, &figure, ATTN_PICTURE_AUTO, argv[1], &err);
    attn_ctx_destroy(ctx);
    if (status != ATTN_OK)
        fprintf(stderr, "%s: %s\n", attn_status_text(status), err.text);
    return status != ATTN_OK;
}
