/* write.h: what the writers of the formats share; private to src/io. */
#ifndef ATTN_IO_WRITE_H
#define ATTN_IO_WRITE_H

#include "include/attn/io.h"
#include "src/base/sink.h"

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
