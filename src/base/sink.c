/* sink.c: writing a file so that a reader sees the old one or the whole new one.
 *
 * Temporary file in the same folder, every byte written, fsync, close, rename, fsync of the folder.
 * A failed fsync is never tried again: the system may have dropped the pages and would then say
 * yes. */
#define _POSIX_C_SOURCE 200809L

#include "src/base/sink.h"

#include "src/base/error.h"
#include "src/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BUFFER = 1 << 18 };

/* The folder of a path, "." if it has none. */
static char *folder_of(const attn_ctx *ctx, const char *path)
{
    const char *slash = strrchr(path, '/');
    size_t n = !slash ? 1 : slash == path ? 1 : (size_t)(slash - path);
    char *folder = attn__alloc(ctx, n + 1);

    if (!folder)
        return NULL;
    memcpy(folder, slash ? path : ".", n);
    folder[n] = '\0';
    return folder;
}

/* A file that did not exist. Its name does not grow with the target's, which may be as long as the
 * system allows. Left-overs of a killed process are stepped over. */
static attn_status create_temp(attn__sink *sink, attn_error *err)
{
    enum { TRIES = 1000, TAIL = 64 };
    size_t size = strlen(sink->folder) + TAIL;
    char *name = attn__alloc(sink->ctx, size);
    int fd = -1, code = 0;

    if (!name)
        return attn__fail(err, ATTN_E_MEMORY, 0, "name of the temporary file");
    for (int i = 0; i < TRIES && fd < 0; i++) {
        snprintf(name, size, "%s/.attn-%ld-%d.tmp", sink->folder, (long)getpid(), i);
        fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
        code = errno;
        if (fd < 0 && code != EEXIST && code != EINTR)
            break;
    }
    if (fd < 0) {
        attn__free(sink->ctx, name);
        return attn__fail_system(err, 0, "cannot create a temporary file in the folder", code);
    }
    sink->temp = name;
    sink->fd = fd;
    sink->open = true;
    return ATTN_OK;
}

attn_status attn__sink_open(attn__sink *sink, const attn_ctx *ctx, const char *path,
                            attn_error *err)
{
    struct stat old;
    bool exists;
    attn_status st;

    memset(sink, 0, sizeof *sink);
    sink->ctx = ctx;
    sink->path = path;
    exists = lstat(path, &old) == 0;
    if (exists && !S_ISREG(old.st_mode) && !S_ISLNK(old.st_mode))
        return attn__fail(err, ATTN_E_IO, 0, "exists and is not a regular file");
    sink->folder = folder_of(ctx, path);
    sink->buffer = attn__alloc(ctx, BUFFER);
    if (!sink->folder || !sink->buffer)
        return attn__fail(err, ATTN_E_MEMORY, 0, "write buffer");
    if ((st = create_temp(sink, err)) != ATTN_OK)
        return st;
    /* A file that is replaced keeps its permissions; where that is not allowed, ours stand. */
    if (exists && S_ISREG(old.st_mode))
        (void)!fchmod(sink->fd, old.st_mode & 0777);
    return ATTN_OK;
}

static void write_all(attn__sink *sink, const unsigned char *bytes, size_t size)
{
    const size_t step = (size_t)1 << 30; /* write() takes no more than 2 GB at once on Linux */

    while (size > 0 && sink->status == ATTN_OK) {
        ssize_t n = write(sink->fd, bytes, size < step ? size : step);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            sink->status = attn__fail_system(&sink->error, sink->total, "cannot write",
                                             n < 0 ? errno : ENOSPC);
            return;
        }
        bytes += n;
        size -= (size_t)n;
    }
}

static void flush(attn__sink *sink)
{
    write_all(sink, sink->buffer, sink->used);
    sink->used = 0;
}

void attn__sink_put(void *arg, const void *bytes, size_t size)
{
    attn__sink *sink = arg;

    if (size > BUFFER - sink->used)
        flush(sink);
    if (size > BUFFER) {
        write_all(sink, bytes, size);
    } else if (size > 0) {
        memcpy(sink->buffer + sink->used, bytes, size);
        sink->used += size;
    }
    sink->total += size;
}

/* Some file systems have nothing to sync for a folder and say EINVAL. */
static attn_status sync_folder(const attn__sink *sink, attn_error *err)
{
    int fd = open(sink->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC), code = 0;

    if (fd < 0)
        return attn__fail_system(err, 0, "written, but cannot open the folder to sync it", errno);
    if (fsync(fd) != 0 && errno != EINVAL)
        code = errno;
    close(fd);
    if (code)
        return attn__fail_system(err, 0, "written, but cannot sync the folder", code);
    return ATTN_OK;
}

attn_status attn__sink_commit(attn__sink *sink, attn_error *err)
{
    flush(sink);
    if (sink->status != ATTN_OK) {
        if (err)
            *err = sink->error;
        return sink->status;
    }
    if (fsync(sink->fd) != 0)
        return attn__fail_system(err, 0, "cannot sync", errno);
    sink->open = false; /* closed even when close() fails */
    if (close(sink->fd) != 0 && errno != EINTR)
        return attn__fail_system(err, 0, "cannot close", errno);
    if (rename(sink->temp, sink->path) != 0)
        return attn__fail_system(err, 0, "cannot rename the temporary file", errno);
    attn__free(sink->ctx, sink->temp);
    sink->temp = NULL;
    return sync_folder(sink, err);
}

void attn__sink_close(attn__sink *sink)
{
    if (sink->open)
        close(sink->fd);
    if (sink->temp)
        unlink(sink->temp);
    attn__free(sink->ctx, sink->temp);
    attn__free(sink->ctx, sink->folder);
    attn__free(sink->ctx, sink->buffer);
}
