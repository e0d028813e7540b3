/* map.c: the bytes of a file, mapped or read into memory. */
#define _POSIX_C_SOURCE 200809L

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/io/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static attn_status read_all(attn_file *file, int fd, attn_error *err)
{
    const size_t step = (size_t)1 << 30; /* read() takes no more than 2 GB at once on Linux */
    unsigned char *to;
    size_t done = 0;

    file->whole = to = attn__alloc(file->ctx, file->size);
    if (!to)
        return attn__fail(err, ATTN_E_MEMORY, 0, "%zu bytes for the file", file->size);
    while (done < file->size) {
        size_t left = file->size - done;
        ssize_t n = read(fd, to + done, left < step ? left : step);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return attn__fail_system(err, done, "cannot read", errno);
        if (n == 0)
            return attn__fail(err, ATTN_E_IO, done, "the file became shorter while it was read");
        done += (size_t)n;
    }
    file->bytes = to;
    return ATTN_OK;
}

static attn_status load(attn_file *file, int fd, attn_error *err)
{
    struct stat st;
    void *map;

    if (fstat(fd, &st) != 0)
        return attn__fail_system(err, 0, "cannot stat", errno);
    if (!S_ISREG(st.st_mode))
        return attn__fail(err, ATTN_E_IO, 0, "not a regular file");
    if (st.st_size == 0)
        return attn__fail(err, ATTN_E_FORMAT, 0, "the file is empty");
    if (st.st_size < 0 || (uintmax_t)st.st_size > SIZE_MAX)
        return attn__fail(err, ATTN_E_MEMORY, 0, "the file is larger than the address space");
    file->size = (size_t)st.st_size;
    if (file->options.copy)
        return read_all(file, fd, err);
    map = mmap(NULL, file->size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED && errno == ENODEV)
        return read_all(file, fd, err); /* some file systems cannot map */
    if (map == MAP_FAILED)
        return attn__fail(err, ATTN_E_MEMORY, 0, "cannot map %zu bytes: error %d", file->size,
                          errno);
    file->map = map;
    file->bytes = map;
    return ATTN_OK;
}

attn_status attn__file_load(attn_file *file, const char *path, attn_error *err)
{
    attn_status st;
    int fd;

    /* Non-blocking, so that a FIFO is refused below instead of waited for. */
    do
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    while (fd < 0 && errno == EINTR);
    if (fd < 0)
        return attn__fail_system(err, 0, "cannot open", errno);
    st = load(file, fd, err);
    close(fd); /* only read from: nothing to lose */
    return st;
}

void attn__file_unload(attn_file *file)
{
    if (file->map)
        munmap(file->map, file->size);
    attn__free(file->ctx, file->whole);
}
