/* file.c: the face of io.h for reading: opening, listing, finding, viewing.
 *
 * The formats themselves are in npy.c, npz.c and safetensors.c; getting the bytes is in map.c. */
#include "src/io/file.h"

#include "src/base/error.h"
#include "src/base/mem.h"

#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

/* What `data` of a tensor without elements points to. */
static const max_align_t nothing;

bool attn__little_endian(void)
{
    const uint16_t one = 1;
    unsigned char first;

    memcpy(&first, &one, 1);
    return first == 1;
}

bool attn__layout(attn_tensor *tensor, bool fortran, size_t *bytes)
{
    size_t n = attn_type_size(tensor->type);
    bool empty = false;

    for (int i = 0; i < tensor->rank; i++) {
        if (tensor->size[i] < 0 || tensor->size[i] > ATTN__MAX_DIM)
            return false;
        empty |= tensor->size[i] == 0;
    }
    memset(tensor->stride, 0, sizeof tensor->stride);
    *bytes = 0;
    /* Decided before any product, so that the order of a zero and of huge sizes does not matter. */
    if (empty)
        return true;
    for (int k = 0; k < tensor->rank; k++) {
        int i = fortran ? k : tensor->rank - 1 - k;
        tensor->stride[i] = (int64_t)(n / attn_type_size(tensor->type));
        if (!attn__mul(n, (size_t)tensor->size[i], &n) || n > INT64_MAX)
            return false;
    }
    *bytes = n;
    return true;
}

/* Bytes of the UTF-8 character at s, which starts with a byte >= 0x80; 0 if it is malformed,
 * overlong, a surrogate or above U+10FFFF. Stops at the terminator by itself. */
static size_t utf8_length(const unsigned char *s)
{
    unsigned c = s[0], second_low = 0x80, second_high = 0xbf;
    size_t n = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;

    if (c < 0xc2 || c > 0xf4)
        return 0;
    if (c == 0xe0)
        second_low = 0xa0;
    else if (c == 0xf0)
        second_low = 0x90;
    else if (c == 0xed)
        second_high = 0x9f;
    else if (c == 0xf4)
        second_high = 0x8f;
    if (s[1] < second_low || s[1] > second_high)
        return 0;
    for (size_t i = 2; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    return n;
}

bool attn__is_utf8(const char *text)
{
    for (const unsigned char *s = (const unsigned char *)text; *s;) {
        size_t n = *s < 0x80 ? 1 : utf8_length(s);

        if (n == 0)
            return false;
        s += n;
    }
    return true;
}

bool attn__name_is_plain(const char *name)
{
    size_t n = strlen(name);

    if (n == 0 || n > ATTN__MAX_NAME || !attn__is_utf8(name))
        return false;
    for (const unsigned char *s = (const unsigned char *)name; *s; s++)
        if (*s < 0x20 || *s == 0x7f || (*s == 0xc2 && s[1] < 0xa0)) /* C0, DEL, C1 */
            return false;
    return true;
}

bool attn__name_is_member(const char *name)
{
    if (!attn__name_is_plain(name) || name[0] == '/' || strchr(name, '\\'))
        return false;
    if (name[1] == ':') /* a drive */
        return false;
    for (const char *part = name; part; part = strchr(part, '/')) {
        part += *part == '/';
        if (strncmp(part, "..", 2) == 0 && (part[2] == '/' || part[2] == '\0'))
            return false;
    }
    return true;
}

attn_status attn__file_reserve(attn_file *file, size_t count, size_t text_size, attn_error *err)
{
    size_t tensors, pointers;

    if (attn__mul(count, sizeof *file->tensors, &tensors) &&
        attn__mul(count, sizeof *file->by_name, &pointers)) {
        file->tensors = attn__new(file->ctx, tensors);
        file->by_name = attn__new(file->ctx, pointers);
        file->blocks = attn__new(file->ctx, pointers);
        file->text = attn__new(file->ctx, text_size);
    }
    if (!file->tensors || !file->by_name || !file->blocks || !file->text)
        return attn__fail(err, ATTN_E_MEMORY, 0, "list of %zu tensors", count);
    file->count = count;
    return ATTN_OK;
}

attn_status attn__file_place(attn_file *file, attn_tensor *tensor, const unsigned char *at,
                             size_t size, attn_error *err)
{
    void *copy;

    if (size == 0) {
        tensor->data = &nothing;
        return ATTN_OK;
    }
    if ((uintptr_t)at % attn_type_size(tensor->type) == 0) {
        tensor->data = at;
        return ATTN_OK;
    }
    copy = attn__alloc(file->ctx, size);
    if (!copy)
        return attn__fail(err, ATTN_E_MEMORY, 0, "aligned copy of tensor '%.64s', %zu bytes",
                          tensor->name, size);
    memcpy(copy, at, size);
    file->blocks[tensor - file->tensors] = copy;
    tensor->data = copy;
    return ATTN_OK;
}

static int compare_names(const void *a, const void *b)
{
    const attn_tensor *const *x = a, *const *y = b;

    return strcmp((*x)->name, (*y)->name);
}

/* A sorted list and not a hash: no seed to keep secret, and no names that make it slow. */
static attn_status index_names(attn_file *file, attn_error *err)
{
    for (size_t i = 0; i < file->count; i++)
        file->by_name[i] = &file->tensors[i];
    if (file->count > 1)
        qsort(file->by_name, file->count, sizeof *file->by_name, compare_names);
    for (size_t i = 1; i < file->count; i++)
        if (compare_names(&file->by_name[i - 1], &file->by_name[i]) == 0)
            return attn__fail(err, ATTN_E_FORMAT, 0, "two tensors are named '%.64s'",
                              file->by_name[i]->name);
    return ATTN_OK;
}

static attn_status recognise(attn_file *file, attn_error *err)
{
    static const struct {
        attn_format format;
        size_t at, size;
        const char *bytes;
    } marks[] = {
        {ATTN_FORMAT_NPY, 0, 6, "\x93NUMPY"},
        {ATTN_FORMAT_NPZ, 0, 4, "PK\3\4"},
        {ATTN_FORMAT_NPZ, 0, 4, "PK\5\6"}, /* an archive without members */
        {ATTN_FORMAT_SAFETENSORS, 8, 1, "{"},
    };

    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (file->size >= marks[i].at + marks[i].size &&
            memcmp(file->bytes + marks[i].at, marks[i].bytes, marks[i].size) == 0) {
            file->format = marks[i].format;
            return ATTN_OK;
        }
    return attn__fail(err, ATTN_E_FORMAT, 0, "not a .npy, .npz or .safetensors file");
}

static attn_status read_tensors(attn_file *file, attn_error *err)
{
    static attn_status (*const readers[])(attn_file *, attn_error *) = {
        [ATTN_FORMAT_NPY] = attn__npy_read,
        [ATTN_FORMAT_NPZ] = attn__npz_read,
        [ATTN_FORMAT_SAFETENSORS] = attn__safetensors_read,
    };
    attn_status st;

    if (!attn__little_endian())
        return attn__fail(err, ATTN_E_UNSUPPORTED, 0, "tensor files on a big-endian machine");
    if (file->size == 0)
        return attn__fail(err, ATTN_E_FORMAT, 0, "the file is empty");
    file->format = file->options.format;
    if (file->format == ATTN_FORMAT_AUTO && (st = recognise(file, err)) != ATTN_OK)
        return st;
    if ((st = readers[file->format](file, err)) != ATTN_OK)
        return st;
    return index_names(file, err);
}

/* Fields past the caller's struct_size keep their defaults; fields that a newer program sets and
 * this library does not know are refused rather than ignored. */
static attn_status take_options(attn_file_options *to, const attn_file_options *from,
                                attn_error *err)
{
    static const attn_file_options none = ATTN_FILE_OPTIONS_INIT;

    *to = none;
    if (from) {
        const unsigned char *bytes = (const unsigned char *)from;

        if (from->struct_size < sizeof from->struct_size)
            return attn__fail(err, ATTN_E_ARGUMENT, 0, "options: struct_size is not set");
        for (size_t i = sizeof *to; i < from->struct_size; i++)
            if (bytes[i])
                return attn__fail(err, ATTN_E_ARGUMENT, 0,
                                  "options: field unknown to this version");
        memcpy(to, from, from->struct_size < sizeof *to ? from->struct_size : sizeof *to);
    }
    if ((unsigned)to->format > ATTN_FORMAT_SAFETENSORS)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "options: format %d", (int)to->format);
    if (!to->max_header)
        to->max_header = (size_t)32 << 20;
    if (!to->max_values)
        to->max_values = 2000000;
    if (!to->max_members)
        to->max_members = 10000;
    if (!to->max_inflate)
        to->max_inflate = (uint64_t)16 << 30;
    return ATTN_OK;
}

static attn_status open_any(const attn_ctx *ctx, const char *path, const void *bytes, size_t size,
                            const attn_file_options *options, attn_file **out, attn_error *err)
{
    attn_file_options filled;
    attn_file *file;
    attn_status st;

    if ((st = take_options(&filled, options, err)) != ATTN_OK)
        return st;
    file = attn__new(ctx, sizeof *file);
    if (!file)
        return attn__fail(err, ATTN_E_MEMORY, 0, "file object");
    file->ctx = ctx;
    file->options = filled;
    file->bytes = bytes;
    file->size = size;
    if (path && (st = attn__file_load(file, path, err)) != ATTN_OK)
        goto out;
    if ((st = read_tensors(file, err)) != ATTN_OK)
        goto out;
    *out = file;
    file = NULL; /* the caller's now */
out:
    attn_file_close(file);
    return st;
}

attn_status attn_file_open(const attn_ctx *ctx, const char *path, const attn_file_options *options,
                           attn_file **out, attn_error *err)
{
    attn_error inner = {ATTN_OK, 0, ""};
    attn_status st;

    if (!out)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "out is NULL");
    *out = NULL;
    if (!path)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "path is NULL");
    st = open_any(ctx, path, NULL, 0, options, out, &inner);
    return st == ATTN_OK ? st : attn__fail_path(err, path, &inner);
}

attn_status attn_file_open_memory(const attn_ctx *ctx, const void *bytes, size_t size,
                                  const attn_file_options *options, attn_file **out,
                                  attn_error *err)
{
    if (!out)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "out is NULL");
    *out = NULL;
    if (!bytes && size > 0)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "bytes is NULL");
    return open_any(ctx, NULL, bytes, size, options, out, err);
}

void attn_file_close(attn_file *file)
{
    if (!file)
        return;
    for (size_t i = 0; i < file->count; i++)
        attn__free(file->ctx, file->blocks[i]);
    attn__free(file->ctx, file->blocks);
    attn__free(file->ctx, file->by_name);
    attn__free(file->ctx, file->tensors);
    attn__free(file->ctx, file->text);
    attn__free(file->ctx, file->meta);
    attn__file_unload(file);
    attn__free(file->ctx, file);
}

attn_format attn_file_format(const attn_file *file)
{
    return file->format;
}

size_t attn_file_count(const attn_file *file)
{
    return file->count;
}

const attn_tensor *attn_file_tensor(const attn_file *file, size_t i)
{
    return i < file->count ? &file->tensors[i] : NULL;
}

static int compare_name_to_tensor(const void *key, const void *item)
{
    const attn_tensor *const *tensor = item;

    return strcmp(key, (*tensor)->name);
}

const attn_tensor *attn_file_find(const attn_file *file, const char *name)
{
    const attn_tensor *const *found;

    if (!name || file->count == 0)
        return NULL;
    found =
        bsearch(name, file->by_name, file->count, sizeof *file->by_name, compare_name_to_tensor);
    return found ? *found : NULL;
}

size_t attn_file_meta_count(const attn_file *file)
{
    return file->meta_count;
}

const char *attn_file_meta_key(const attn_file *file, size_t i)
{
    return i < file->meta_count ? file->meta[i].key : NULL;
}

static int compare_key_to_meta(const void *key, const void *item)
{
    const attn__meta *meta = item;

    return strcmp(key, meta->key);
}

const char *attn_file_meta(const attn_file *file, const char *key)
{
    const attn__meta *found;

    if (!key || file->meta_count == 0)
        return NULL;
    found = bsearch(key, file->meta, file->meta_count, sizeof *file->meta, compare_key_to_meta);
    return found ? found->value : NULL;
}

attn_status attn_tensor_view(const attn_tensor *tensor, int bshd, attn_view *view, attn_error *err)
{
    attn_view v = {.size = {1, 1, 1, 1}};
    int lead;

    if (!tensor || !view)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s is NULL", tensor ? "view" : "tensor");
    if (tensor->rank < 2 || tensor->rank > 4)
        return attn__fail(err, ATTN_E_SHAPE, 0, "tensor '%.64s' has rank %d; 2 to 4 is expected",
                          tensor->name, tensor->rank);
    lead = 4 - tensor->rank;
    for (int i = 0; i < tensor->rank; i++) {
        int to = lead + i;

        if (bshd && tensor->rank > 2 && (to == 1 || to == 2))
            to = 3 - to;
        v.size[to] = tensor->size[i];
        v.stride[to] = tensor->stride[i];
    }
    v.data = (void *)(uintptr_t)tensor->data; /* views are never const; inputs are never written */
    v.type = tensor->type == ATTN_BOOL ? ATTN_U8 : tensor->type;
    *view = v;
    return ATTN_OK;
}
