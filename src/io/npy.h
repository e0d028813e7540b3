/* npy.h: the .npy header, read and written; shared by npy.c and npz.c. */
#ifndef ATTN_IO_NPY_H
#define ATTN_IO_NPY_H

#include "include/attn/io.h"

#include <stdbool.h>

/* Largest header written: magic, dictionary with eight dimensions of 15 digits, padding. */
enum { ATTN__NPY_HEADER = 320 };

/* Parses the .npy file at `bytes`: fills all of *tensor but name and data, and says where the data
 * lies. `base` is the place of `bytes` in the outer file, for messages; `trailing`: accept bytes
 * after the data. */
attn_status attn__npy_parse(const unsigned char *bytes, size_t size, uint64_t base, bool trailing,
                            attn_tensor *tensor, size_t *data_at, size_t *data_size,
                            attn_error *err);

/* ATTN_E_ARGUMENT for the types the format has no name for. */
attn_status attn__npy_check(const attn_tensor *tensor, attn_error *err);

/* Writes the header of a checked tensor in C order; a multiple of 64 bytes. */
size_t attn__npy_header(const attn_tensor *tensor, unsigned char out[ATTN__NPY_HEADER]);

#endif
