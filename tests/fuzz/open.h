/* open.h: what the fuzz targets of the file readers do with their bytes. */
#ifndef ATTN_TESTS_FUZZ_OPEN_H
#define ATTN_TESTS_FUZZ_OPEN_H

#include "include/attn/io.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* What a file that opened must keep; a broken promise ends the run. */
static inline void fuzz__demand(int holds)
{
    if (!holds)
        abort();
}

/* Reads every element through the strides, so that a sanitizer sees a tensor that lies outside. */
static inline unsigned fuzz__sum(const attn_tensor *t)
{
    size_t width = attn_type_size(t->type);
    int64_t index[ATTN_MAX_RANK] = {0}, count = 1;
    unsigned sum = 0;

    fuzz__demand(width > 0 && t->data && (uintptr_t)t->data % width == 0);
    fuzz__demand(t->rank >= 0 && t->rank <= ATTN_MAX_RANK);
    for (int i = 0; i < t->rank; i++)
        if (t->size[i] == 0)
            return 0;
    for (int i = 0; i < t->rank; i++)
        count *= t->size[i];
    for (int64_t n = 0; n < count; n++) {
        const unsigned char *at = t->data;

        for (int i = 0; i < t->rank; i++)
            at += index[i] * t->stride[i] * (int64_t)width;
        sum += at[0] + at[width - 1];
        for (int i = t->rank - 1; i >= 0 && ++index[i] == t->size[i]; i--)
            index[i] = 0;
    }
    return sum;
}

static inline int fuzz_open(const uint8_t *data, size_t size, attn_format format)
{
    attn_file_options options = ATTN_FILE_OPTIONS_INIT;
    attn_error err = {ATTN_OK, 0, ""};
    attn_file *file = NULL;
    volatile unsigned sum = 0;
    attn_status st;

    options.format = format;
    options.max_inflate = (uint64_t)1 << 24;
    st = attn_file_open_memory(NULL, data, size, &options, &file, &err);
    if (st != ATTN_OK) {
        fuzz__demand(st == ATTN_E_FORMAT && err.status == st && err.text[0] != '\0' && !file);
        fuzz__demand(err.offset <= (uint64_t)1 << 26);
        return 0;
    }
    for (size_t i = 0; i < attn_file_count(file); i++) {
        const attn_tensor *t = attn_file_tensor(file, i);
        attn_view view;

        sum += fuzz__sum(t);
        fuzz__demand(attn_file_find(file, t->name) == t);
        fuzz__demand((attn_tensor_view(t, 1, &view, NULL) == ATTN_OK) ==
                     (t->rank >= 2 && t->rank <= 4));
    }
    for (size_t i = 0; i < attn_file_meta_count(file); i++)
        fuzz__demand(attn_file_meta(file, attn_file_meta_key(file, i)) != NULL);
    (void)sum; /* read only to be read */
    attn_file_close(file);
    return 0;
}

#endif
