/* lines.c: reading lines without waiting for more than are needed, and files that appear whole. */
#define _POSIX_C_SOURCE 200809L

#include "cli/lines.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/console.h"

enum { CHUNK = 1 << 16, ENOUGH = 4 << 20 };

/* --- Reading -------------------------------------------------------------------------------- */

int cli_lines_open(cli_lines *l, const char *path)
{
    struct stat about;

    memset(l, 0, sizeof *l);
    l->name = strcmp(path, "-") == 0 ? "standard input" : path;
    l->fd = strcmp(path, "-") == 0 ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (l->fd < 0)
        return cli_error("%s: %s", l->name, strerror(errno));
    if (fstat(l->fd, &about) == 0 && S_ISREG(about.st_mode))
        l->total = (uint64_t)about.st_size;
    return CLI_OK;
}

void cli_lines_close(cli_lines *l)
{
    if (l->fd > STDIN_FILENO)
        close(l->fd);
    free(l->data);
    memset(l, 0, sizeof *l);
}

static int is_ready(const cli_lines *l, int milliseconds)
{
    struct pollfd p = {l->fd, POLLIN, 0};

    return poll(&p, 1, milliseconds) > 0;
}

/* Waits for input, but not through a signal: read goes on after one. 0: it came. */
static int wait_for(const cli_lines *l)
{
    while (!cli_interrupted())
        if (is_ready(l, 200))
            return 1;
    return 0;
}

/* Reads what comes next; 0 after a message or when a signal came. */
static int read_more(cli_lines *l)
{
    ssize_t n;

    if (l->room - l->size < CHUNK) {
        size_t room = l->room < CHUNK ? 2 * CHUNK : 2 * l->room;
        char *grown = room > l->room ? realloc(l->data, room) : NULL;
        if (!grown) {
            cli_error("%s: line %llu: out of memory", l->name, (unsigned long long)l->number + 1);
            return 0;
        }
        l->data = grown;
        l->room = room;
    }
    if (!wait_for(l))
        return 0;
    n = read(l->fd, l->data + l->size, l->room - l->size);
    if (n < 0 && errno == EINTR)
        return 1;
    if (n < 0) {
        cli_error("%s: %s", l->name, strerror(errno));
        return 0;
    }
    l->ended = n == 0;
    l->size += (size_t)n;
    return 1;
}

/* The line that starts at `at`, if it is all there; what follows it otherwise. */
static int find_line(const cli_lines *l, size_t at, size_t *size)
{
    const char *end = at < l->size ? memchr(l->data + at, '\n', l->size - at) : NULL;

    *size = end ? (size_t)(end - (l->data + at)) : l->size - at;
    return end != NULL || (l->ended && at < l->size);
}

ptrdiff_t cli_lines_take(cli_lines *l, size_t least, size_t most, cli_line *out)
{
    size_t count = 0, at = 0, size;

    if (l->at > 0) { /* else data may be NULL */
        memmove(l->data, l->data + l->at, l->size - l->at);
        l->size -= l->at;
        l->at = 0;
    }
    /* Sizes first: reading may move the data. */
    while (count < most) {
        if (find_line(l, at, &size)) {
            out[count++].size = size;
            at += size + 1;
        } else if (l->ended || (count >= least && (at > ENOUGH || !is_ready(l, 0)))) {
            break;
        } else if (!read_more(l)) {
            return -1;
        }
    }
    at = at < l->size ? at : l->size;
    for (size_t i = 0, start = 0; i < count; start += out[i++].size + 1)
        out[i].text = l->data + start;
    l->at = at;
    l->taken += at;
    l->number += count;
    return (ptrdiff_t)count;
}

/* --- Writing -------------------------------------------------------------------------------- */

int cli_sink_begin(cli_sink *s, const char *path)
{
    struct stat about;
    size_t size;
    int fd;

    *s = (cli_sink){path, NULL, stdout};
    if (!path)
        return CLI_OK;
    if (stat(path, &about) == 0 && !S_ISREG(about.st_mode)) {
        s->file = fopen(path, "wb");
        return s->file ? CLI_OK : cli_error("%s: %s", path, strerror(errno));
    }
    size = strlen(path) + 8;
    s->temporary = cli_take(size);
    snprintf(s->temporary, size, "%s.XXXXXX", path);
    fd = mkstemp(s->temporary);
    if (fd >= 0) {
        mode_t mask = umask(0);
        umask(mask);
        fchmod(fd, 0666 & ~mask); /* mkstemp's own is 0600 */
    }
    s->file = fd < 0 ? NULL : fdopen(fd, "wb");
    if (s->file)
        return CLI_OK;
    if (fd >= 0) {
        close(fd);
        unlink(s->temporary);
    }
    s->temporary = NULL;
    return cli_error("%s: %s", path, strerror(errno));
}

int cli_sink_flush(cli_sink *s)
{
    if (fflush(s->file) == 0 && !ferror(s->file))
        return CLI_OK;
    /* Of standard output cli_finish says so. */
    return s->file == stdout ? CLI_FAILED : cli_error("%s: %s", s->path, strerror(errno));
}

int cli_sink_end(cli_sink *s, int keep)
{
    int bad;

    if (!s->file || s->file == stdout)
        return CLI_OK; /* cli_finish sees to it */
    bad = fflush(s->file) != 0 || ferror(s->file);
    if (!bad && s->temporary && keep)
        bad = fsync(fileno(s->file)) != 0;
    if (fclose(s->file) != 0)
        bad = 1;
    s->file = NULL;
    if (keep && !bad && s->temporary)
        bad = rename(s->temporary, s->path) != 0;
    if (s->temporary && (bad || !keep))
        unlink(s->temporary);
    return bad && keep ? cli_error("%s: %s", s->path, errno ? strerror(errno) : "write failed")
                       : CLI_OK;
}
