/* io_files.h: files for the tests of src/io: byte by byte, with any rule broken on purpose. */
#ifndef ATTN_TESTS_IO_FILES_H
#define ATTN_TESTS_IO_FILES_H

#include "include/attn/io.h"
#include "src/base/ctx.h"
#include "tests/support.h"

/* A growing block; memory of an arena, freed with it. */
typedef struct blob {
    arena *home;
    unsigned char *data;
    size_t size, room;
} blob;

blob blob_new(arena *a);
void blob_put(blob *b, const void *bytes, size_t size);
void blob_text(blob *b, const char *text);
void blob_le(blob *b, uint64_t value, size_t n);
void blob_fill(blob *b, int byte, size_t n);

/* A whole file of the disk. */
blob blob_load(arena *a, const char *path);

/* --- npy and safetensors -------------------------------------------------------------------- */

/* A .npy of version 1.0 with this header text, as it is, and `payload` bytes 1, 2, 3, ... */
blob npy_raw(arena *a, const char *header, size_t payload);

/* The same from the three values; blanks and newline are added. */
blob npy_of(arena *a, const char *descr, const char *fortran, const char *shape, size_t payload);

/* A .safetensors with this header text and `payload` bytes. */
blob safetensors_of(arena *a, const char *header, size_t payload);

/* --- zip ------------------------------------------------------------------------------------ */

/* What header and directory entry of a member say. */
typedef struct zip_says {
    uint16_t flags, method;
    uint32_t crc, packed, size;
    const char *name;
    size_t name_size;
} zip_says;

typedef struct zip_member {
    zip_says local, central;
    blob body;     /* as it lies in the file */
    size_t gap;    /* zero bytes before the header */
    int hidden;    /* no header and body: the directory gives `shift` as the place */
    int64_t shift; /* added to the place the directory gives */
    blob extra;    /* extra field of both */
} zip_member;

enum { ZIP_MEMBERS = 4 };

typedef struct zip_file_of {
    zip_member members[ZIP_MEMBERS];
    size_t count;
    size_t prefix, before_directory, before_end, suffix; /* zero bytes there */
    uint32_t entries;                                    /* claimed */
    int64_t directory_shift, directory_grow;
    const char *comment;
    size_t comment_size;
} zip_file_of;

/* Adds a member with true fields: stored (method 0) or deflated (8). */
zip_member *zip_add(zip_file_of *z, const char *name, const blob *content, uint16_t method);

blob zip_bytes(arena *a, const zip_file_of *z);

/* --- Checks --------------------------------------------------------------------------------- */

/* Size of a tensor in elements. */
int64_t tensor_count(const attn_tensor *t);

/* Copies the elements in C order; `out` has room for all. Every read is through the strides. */
void tensor_flatten(const attn_tensor *t, unsigned char *out);

/* Same type, shape and elements. */
int tensor_equal(const attn_tensor *a, const attn_tensor *b);

/* A new folder under /tmp, and its removal with the files in it. */
char *folder_new(arena *a);
void folder_remove(const char *folder);
size_t folder_count(const char *folder);
char *path_in(arena *a, const char *folder, const char *name);

/* --- An allocator that counts, and fails on demand ------------------------------------------ */

typedef struct meter {
    struct attn_ctx ctx; /* give &meter.ctx to the library */
    size_t calls, live, live_bytes, peak_bytes;
    size_t fail_at; /* the call that fails, from 1; 0: none */
    int sticky;     /* and all after it */
} meter;

void meter_init(meter *m);

#endif
