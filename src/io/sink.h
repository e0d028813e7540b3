/* sink.h: a new file that appears whole or not at all, and what the writers of the formats share;
 * private to src/io. */
#ifndef ATTN_IO_SINK_H
#define ATTN_IO_SINK_H

#include "include/attn/io.h"

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

/* Appends bytes. `sink` is an attn__sink; the type serves attn__gather. */
void attn__sink_put(void *sink, const void *bytes, size_t size);

/* Writes out, syncs, renames over the target, syncs the folder. */
attn_status attn__sink_commit(attn__sink *sink, attn_error *err);

/* Gives everything back; without a commit before it removes the temporary file. */
void attn__sink_close(attn__sink *sink);

/* What to write; checked by attn_file_write: names, types, ranks, sizes and metadata are sound. */
typedef struct attn__job {
    const attn_ctx *ctx;
    const attn_tensor *tensors;
    size_t count;
    const char *const *keys, *const *values;
    size_t meta_count;
} attn__job;

attn_status attn__npy_write(attn__sink *sink, const attn__job *job, attn_error *err);
attn_status attn__npz_write(attn__sink *sink, const attn__job *job, attn_error *err);
attn_status attn__safetensors_write(attn__sink *sink, const attn__job *job, attn_error *err);

/* Bytes of the elements of a checked tensor. */
size_t attn__tensor_bytes(const attn_tensor *tensor);

/* Calls put(arg, bytes, size) so that all elements pass by in C order. */
void attn__gather(const attn_tensor *tensor, void (*put)(void *arg, const void *bytes, size_t size),
                  void *arg);

#endif
