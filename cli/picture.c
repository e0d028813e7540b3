/* picture.c: where figures go. */
#define _POSIX_C_SOURCE 200809L

#include "cli/picture.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/console.h"

int64_t cli_columns(void)
{
    struct winsize w;

    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col >= 20 ? w.ws_col : 80;
}

/* What stdout can show, and how wide it is. */
static attn_picture terminal_format(int64_t *width)
{
    const char *term = getenv("TERM"), *depth = getenv("COLORTERM"), *plain = getenv("NO_COLOR");

    if (!isatty(STDOUT_FILENO))
        return ATTN_PICTURE_ASCII;
    if (*width == 0)
        *width = cli_columns();
    if ((plain && plain[0]) || !term || strcmp(term, "dumb") == 0)
        return ATTN_PICTURE_ASCII;
    return depth && (strcmp(depth, "truecolor") == 0 || strcmp(depth, "24bit") == 0)
               ? ATTN_PICTURE_ANSI_24BIT
               : ATTN_PICTURE_ANSI_256;
}

static int to_stdout(void *user, const void *bytes, size_t size)
{
    (void)user;
    return fwrite(bytes, 1, size, stdout) != size;
}

int cli_draw(attn_figure *f, attn_picture format, const char *path)
{
    attn_error err = {ATTN_OK, 0, ""};
    attn_status status;

    if (path) {
        status = attn_figure_write(NULL, f, format, path, &err);
    } else {
        if (format == ATTN_PICTURE_AUTO)
            format = terminal_format(&f->width);
        if (format < ATTN_PICTURE_ANSI_24BIT && isatty(STDOUT_FILENO))
            return cli_usage("a picture in this format does not go to a terminal: -o FILE");
        status = attn_figure_emit(NULL, f, format, to_stdout, NULL, &err);
    }
    return status == ATTN_OK ? CLI_OK : cli_failed(NULL, status, &err);
}

static int to_memory(void *user, const void *bytes, size_t size)
{
    return fwrite(bytes, 1, size, user) != size;
}

int cli_draw_beside(attn_figure *f, const attn_label *beside, size_t count)
{
    attn_error err = {ATTN_OK, 0, ""};
    char *text = NULL;
    size_t size = 0, at = 0;
    FILE *memory = open_memstream(&text, &size);
    attn_status status;

    if (!memory)
        return cli_error("no memory for a picture");
    status = attn_figure_emit(NULL, f, terminal_format(&f->width), to_memory, memory, &err);
    if (fclose(memory) != 0 && status == ATTN_OK)
        status = ATTN_E_MEMORY;
    for (size_t line = 0; status == ATTN_OK && at < size; line++) {
        const char *end = memchr(text + at, '\n', size - at);
        size_t n = end ? (size_t)(end - (text + at)) : size - at;
        fwrite(text + at, 1, n, stdout);
        if (line < count) {
            fputs("  ", stdout);
            cli_put(stdout, beside[line].text, beside[line].size);
        }
        putchar('\n');
        at += n + 1;
    }
    free(text);
    return status == ATTN_OK ? CLI_OK : cli_failed(NULL, status, &err);
}
