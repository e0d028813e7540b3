/* io.h: tensors in files, one face over .npy, .npz and .safetensors.
 *
 * Reading refuses by default: whatever a file claims is checked before it is believed, and a file
 * that breaks a rule of its format gives ATTN_E_FORMAT with the byte offset and the rule. Nothing
 * half-made remains. Values (NaN, infinities) are not rules.
 *
 * Files are mapped and tensors lie in the map, so that opening a large one costs no memory. What is
 * copied: members of .npz that are compressed, and single tensors that the file does not hold at a
 * multiple of their element size (NumPy's .npz members usually, NumPy's .npy and the files written
 * here never). All members of a .npz are read once at opening, for their checksums. If another
 * process cuts a mapped file short, touching the lost part raises SIGBUS; options.copy reads into
 * memory instead.
 *
 * The formats: NumPy NEP 1 (npy 1.0, 2.0, 3.0; little-endian plain numbers), zip with stored or
 * deflated members, one after the other from the first byte on, and the safetensors format of
 * huggingface/safetensors. A context is only needed for its allocator, and must outlive the files
 * opened with it: NULL is fine everywhere. jansson, libzip and the system's sort allocate for
 * themselves and give back before a function returns.
 *
 * An open file does not change; any number of threads may use it at the same time.
 */
#ifndef ATTN_IO_H
#define ATTN_IO_H

#include "attn.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ATTN_MAX_RANK 8

/* A named array in a file. `data` and `name` belong to the file and live until it is closed.
 * Strides count elements (Fortran order in .npy becomes strides; all are 0 when there are no
 * elements). `data` is aligned to the element type. No size is above 2^48. */
typedef struct attn_tensor {
    const char *name; /* UTF-8, terminated; "" in .npy */
    attn_type type;
    int rank;
    int64_t size[ATTN_MAX_RANK];
    int64_t stride[ATTN_MAX_RANK];
    const void *data; /* not NULL, even when there are no elements */
} attn_tensor;

typedef enum attn_format {
    ATTN_FORMAT_AUTO = 0, /* reading: by content; writing: by the ending of the path */
    ATTN_FORMAT_NPY,
    ATTN_FORMAT_NPZ,
    ATTN_FORMAT_SAFETENSORS
} attn_format;

typedef struct attn_file attn_file;

typedef struct attn_file_options {
    size_t struct_size;
    attn_format format;
    int copy;             /* non-zero: read into memory, do not map */
    size_t max_header;    /* bytes of JSON header accepted; 0: 32 MB */
    size_t max_values;    /* JSON containers and commas accepted, a bound on values; 0: 2 million */
    size_t max_members;   /* members of a .npz accepted; 0: 10,000 */
    uint64_t max_inflate; /* bytes all compressed members of a .npz may inflate to; 0: 16 GB */
    int allow_trailing;   /* .npy: accept bytes after the data */
} attn_file_options;
#define ATTN_FILE_OPTIONS_INIT ATTN_INIT(attn_file_options)

/* Opens a regular file (or a link to one). `options` may be NULL. On failure *out is NULL. Errors:
 * ATTN_E_IO, ATTN_E_FORMAT, ATTN_E_MEMORY, ATTN_E_ARGUMENT, and ATTN_E_UNSUPPORTED on a big-endian
 * machine; the text starts with the path. */
ATTN_API attn_status attn_file_open(const attn_ctx *ctx, const char *path,
                                    const attn_file_options *options, attn_file **out,
                                    attn_error *err);

/* The same over bytes in memory, which must outlive the file; only what must be is copied. */
ATTN_API attn_status attn_file_open_memory(const attn_ctx *ctx, const void *bytes, size_t size,
                                           const attn_file_options *options, attn_file **out,
                                           attn_error *err);
ATTN_API void attn_file_close(attn_file *file);

ATTN_API attn_format attn_file_format(const attn_file *file);

/* Number of tensors; the i-th in file order: that of the directory in .npz, that of the data in
 * .safetensors. NULL if i is out of range. */
ATTN_API size_t attn_file_count(const attn_file *file);
ATTN_API const attn_tensor *attn_file_tensor(const attn_file *file, size_t i);

/* By name, in time that grows with the logarithm of the count; NULL if there is none. A member
 * "q.npy" of a .npz is named "q". */
ATTN_API const attn_tensor *attn_file_find(const attn_file *file, const char *name);

/* Metadata of .safetensors: the i-th pair in the order of keys, or the value of a key; NULL past
 * the end or if absent. */
ATTN_API size_t attn_file_meta_count(const attn_file *file);
ATTN_API const char *attn_file_meta_key(const attn_file *file, size_t i);
ATTN_API const char *attn_file_meta(const attn_file *file, const char *key);

/* Fills a view of a tensor of rank 2 to 4, leading sizes 1 where it has fewer: rank 2 is [rows,
 * cols], rank 3 [heads, rows, cols] or, with bshd non-zero, [rows, heads, cols]; rank 4 [batch,
 * heads, rows, cols] or [batch, rows, heads, cols]. ATTN_BOOL becomes ATTN_U8, which a keep mask
 * wants; other types stay, also those that only files hold. Errors: ATTN_E_SHAPE; *view is then
 * untouched. */
ATTN_API attn_status attn_tensor_view(const attn_tensor *tensor, int bshd, attn_view *view,
                                      attn_error *err);

/* Writes tensors (any strides) in C order: to a temporary file in the same folder, synced, then
 * renamed over `path`, so that a reader sees the old file or the whole new one. An old file keeps
 * its permissions; a symbolic link is replaced, not followed; anything else that is not a regular
 * file is refused.
 *
 * .npy takes exactly one tensor and ignores its name. .npz and .safetensors want names that differ:
 * UTF-8 without control characters, in .npz also without backslash, leading slash, drive or "..".
 * .npz members are stored, not compressed. bf16 only fits .safetensors. `keys` and `values`:
 * meta_count pairs of UTF-8, .safetensors only. In .safetensors wider types come first, so that
 * each tensor is aligned; otherwise the order is the caller's. Equal arguments make equal bytes.
 *
 * Errors: ATTN_E_ARGUMENT, ATTN_E_IO, ATTN_E_MEMORY, and ATTN_E_UNSUPPORTED on a big-endian
 * machine; the text starts with the path. On failure `path` is as it was, with one exception: when
 * the last step, syncing the folder, fails (the text says "written, but"), the new file is in place
 * and may be lost in a power failure. A process without a handler for SIGXFSZ is killed by the
 * system when it exceeds its file size limit, and leaves the temporary file behind. */
ATTN_API attn_status attn_file_write(const attn_ctx *ctx, const char *path, attn_format format,
                                     const attn_tensor *tensors, size_t count,
                                     const char *const *keys, const char *const *values,
                                     size_t meta_count, attn_error *err);

#ifdef __cplusplus
}
#endif
#endif
