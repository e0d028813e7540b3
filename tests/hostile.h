/* hostile.h: files that break one rule each, named by what they try. */
#ifndef ATTN_TESTS_HOSTILE_H
#define ATTN_TESTS_HOSTILE_H

#include "include/attn/io.h"
#include "tests/io_files.h"

typedef struct hostile {
    const char *name;
    attn_format format;
    blob file;
    const char *says; /* part of the error text, so that it is refused for this reason and no
                       * other; "" where libzip finds it; NULL: sound, must open */
} hostile;

typedef struct hostile_list {
    arena *home;
    hostile items[512];
    size_t count;
} hostile_list;

void hostile_add(hostile_list *list, const char *name, attn_format format, blob file,
                 const char *says);

/* Adds all of a format. */
void hostile_npy(hostile_list *list);
void hostile_safetensors(hostile_list *list);
void hostile_npz(hostile_list *list);

#endif
