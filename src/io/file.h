/* file.h: what the readers and writers of the formats share; private to src/io. */
#ifndef ATTN_IO_FILE_H
#define ATTN_IO_FILE_H

#include "include/attn/io.h"

#include <stdbool.h>

/* No dimension of a tensor in a file may be larger: 2^48 elements are past any memory, and products
 * of two such numbers with an element size are caught by attn__mul. */
#define ATTN__MAX_DIM ((int64_t)1 << 48)

/* Bytes of a tensor's name. Real ones have fewer than 200. */
#define ATTN__MAX_NAME 4096

typedef struct attn__meta {
    const char *key, *value;
} attn__meta;

struct attn_file {
    const attn_ctx *ctx;
    attn_format format;
    attn_file_options options; /* limits filled in */

    const unsigned char *bytes; /* the whole file: mapped, copied or the caller's */
    size_t size;
    void *map;   /* to unmap, or NULL */
    void *whole; /* to free, or NULL */

    attn_tensor *tensors;
    size_t count;
    const attn_tensor **by_name; /* sorted */
    void **blocks;               /* per tensor its own memory, or NULL when it lies in `bytes` */
    char *text;                  /* all names and metadata */
    attn__meta *meta;            /* sorted by key */
    size_t meta_count;
};

/* map.c: makes file->bytes from a path. */
attn_status attn__file_load(attn_file *file, const char *path, attn_error *err);
void attn__file_unload(attn_file *file);

/* Allocates tensors, by_name and blocks for `count` tensors, and `text_size` bytes of text. */
attn_status attn__file_reserve(attn_file *file, size_t count, size_t text_size, attn_error *err);

/* Sets tensor->data to `at` if that is aligned to the element, else to a copy of the `size` bytes
 * there that belongs to the file. */
attn_status attn__file_place(attn_file *file, attn_tensor *tensor, const unsigned char *at,
                             size_t size, attn_error *err);

/* The readers: file->bytes to tensors. They may leave the file half-made on failure. */
attn_status attn__npy_read(attn_file *file, attn_error *err);
attn_status attn__npz_read(attn_file *file, attn_error *err);
attn_status attn__safetensors_read(attn_file *file, attn_error *err);

/* Fills the strides of a contiguous tensor from its type, rank and sizes (all strides 0 when it is
 * empty) and gives its bytes. False if a size is negative or too large or the product does not fit.
 */
bool attn__layout(attn_tensor *tensor, bool fortran, size_t *bytes);

/* Well-formed UTF-8. */
bool attn__is_utf8(const char *text);

/* UTF-8 without control characters, 1 to ATTN__MAX_NAME bytes. */
bool attn__name_is_plain(const char *name);

/* The same, and nothing that an unpacker could take for a path outside its folder. */
bool attn__name_is_member(const char *name);

/* Little-endian files are mapped as they are, so the machine must be little-endian too. */
bool attn__little_endian(void);

#endif
