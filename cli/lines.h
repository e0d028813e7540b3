/* lines.h: lines of files, pipes and terminals, as many at a time as are there. */
#ifndef ATTN_CLI_LINES_H
#define ATTN_CLI_LINES_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Without its \n. It may hold anything else, NUL too. */
typedef struct cli_line {
    const char *text;
    size_t size;
} cli_line;

typedef struct cli_lines {
    const char *name;
    int fd;
    char *data;
    size_t room, size, at; /* bytes held, and how many of them were given out */
    int ended;
    uint64_t number; /* lines given out */
    uint64_t taken;  /* and their bytes */
    uint64_t total;  /* bytes of the file; 0: not known */
} cli_lines;

/* Opens a file, or standard input for "-". Returns 0 or an exit code after a message. */
int cli_lines_open(cli_lines *lines, const char *path);
void cli_lines_close(cli_lines *lines);

/* Gives out up to `most` lines, which stay until the next call. Waits until there are `least` or
 * the input ends; takes more only if they are there already, up to some megabytes. Returns how
 * many, 0 at the end, -1 after a message or when a signal came. */
ptrdiff_t cli_lines_take(cli_lines *lines, size_t least, size_t most, cli_line *out);

/* A file that is being written: a temporary one beside `path`, which takes its place at the end, or
 * (path NULL) standard output. What is no regular file is written as it is. */
typedef struct cli_sink {
    const char *path;
    char *temporary; /* or NULL */
    FILE *file;
} cli_sink;

/* All return 0 or an exit code after a message. After cli_sink_end(sink, 0) no file is left. */
int cli_sink_begin(cli_sink *sink, const char *path);
int cli_sink_flush(cli_sink *sink);
int cli_sink_end(cli_sink *sink, int keep);

#endif
