/* sink.h: a new file that appears whole or not at all. */
#ifndef ATTN_BASE_SINK_H
#define ATTN_BASE_SINK_H

#include "include/attn/attn.h"

#include <stdbool.h>

/* A temporary file in the folder of the target. Failure sticks: puts after it do nothing, and
 * commit reports it. Zeroed memory is a closed sink. */
typedef struct attn__sink {
    const attn_ctx *ctx;
    const char *path;
    char *folder;
    char *temp; /* NULL when there is no temporary file to remove */
    unsigned char *buffer;
    size_t used;
    uint64_t total; /* bytes put so far */
    int fd;
    bool open;
    attn_status status;
    attn_error error;
} attn__sink;

/* The caller's memory `path` must outlive the sink. After a failure only attn__sink_close may
 * follow. */
attn_status attn__sink_open(attn__sink *sink, const attn_ctx *ctx, const char *path,
                            attn_error *err);

/* Appends bytes. `sink` is an attn__sink; the type serves as a callback. */
void attn__sink_put(void *sink, const void *bytes, size_t size);

/* Writes out, syncs, renames over the target, syncs the folder. */
attn_status attn__sink_commit(attn__sink *sink, attn_error *err);

/* Gives everything back; without a commit before it removes the temporary file. */
void attn__sink_close(attn__sink *sink);

#endif
