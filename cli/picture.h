/* picture.h: figures on a terminal, in a pipe, or in a file. */
#ifndef ATTN_CLI_PICTURE_H
#define ATTN_CLI_PICTURE_H

#include "include/attn/viz.h"

/* Writes to `path`, or without one to standard output: in colour if it is a terminal that has any,
 * and no wider than it. `format` AUTO: by the ending, or as the terminal can. May set f->width.
 * Returns 0 or an exit code after a message. */
int cli_draw(attn_figure *f, attn_picture format, const char *path);

/* Columns of the terminal at standard output; 80 if it is none. */
int64_t cli_columns(void);

/* Draws to standard output as cli_draw does, and puts a line of `beside` (`count` of them) after
 * each line of the picture from the first on. */
int cli_draw_beside(attn_figure *f, const attn_label *beside, size_t count);

#endif
