/* fuzz_label.c: tokens of any bytes, as every format but PNG shows them; the first byte picks kind
 * and format. */
#include "include/attn/viz.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What no format may hold, whatever the token. */
static int check(void *user, const void *bytes, size_t size)
{
    const unsigned char *p = bytes;
    int terminal = *(int *)user == ATTN_PICTURE_ANSI_256;

    for (size_t i = 0; i < size; i++)
        if ((p[i] < 0x20 && p[i] != '\n' && !(p[i] == 0x1b && terminal)) || p[i] == 0x7f)
            abort();
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const float weights[2] = {0.25f, 0.75f};
    static const int formats[] = {ATTN_PICTURE_SVG, ATTN_PICTURE_HTML, ATTN_PICTURE_ANSI_256,
                                  ATTN_PICTURE_ASCII};
    attn_panel panel = ATTN_PANEL_INIT;
    attn_figure figure = ATTN_FIGURE_INIT;
    attn_label tokens[2] = {{(const char *)data, size}, {(const char *)data, size / 2}};
    char *title = malloc(size + 1);
    int which = size > 0 ? data[0] : 0, format = formats[which % 4];

    if (!title)
        return 0;
    if (size > 0)
        memcpy(title, data, size);
    title[size] = '\0';
    panel.cells = attn_view_bhsd(weights, ATTN_F32, 1, 1, 1, 2);
    panel.name = title;
    figure.panels = &panel;
    figure.panel_count = 1;
    figure.title = figure.notes = title;
    figure.key_tokens = tokens;
    figure.kind = (attn_figure_kind)(which / 4 % 3);
    if (format == ATTN_PICTURE_HTML) /* a viewer's script is long; its text comes the same way */
        figure.kind = ATTN_FIGURE_LINES;
    if (attn_figure_emit(NULL, &figure, (attn_picture)format, check, &format, NULL) != ATTN_OK)
        abort();
    free(title);
    return 0;
}
