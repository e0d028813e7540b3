/* write.c: attn_file_write: checks what the caller hands in, then lets the format write. */
#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/io/file.h"
#include "src/io/npy.h"
#include "src/io/write.h"

#include <stdlib.h>
#include <string.h>

size_t attn__tensor_bytes(const attn_tensor *tensor)
{
    attn_tensor t = *tensor;
    size_t bytes;

    attn__layout(&t, false, &bytes);
    return bytes;
}

static bool is_contiguous(const attn_tensor *t)
{
    int64_t expected = 1;

    for (int i = t->rank - 1; i >= 0; i--) {
        if (t->size[i] != 1 && t->stride[i] != expected)
            return false;
        expected *= t->size[i]; /* at most the checked product */
    }
    return true;
}

/* Moves index to the next position of all dimensions but the last; false after the last one. */
static bool next_row(const attn_tensor *t, int64_t *index, const unsigned char **row, int64_t width)
{
    for (int i = t->rank - 2; i >= 0; i--) {
        if (++index[i] < t->size[i]) {
            *row += t->stride[i] * width;
            return true;
        }
        index[i] = 0;
        *row -= t->stride[i] * (t->size[i] - 1) * width;
    }
    return false;
}

void attn__gather(const attn_tensor *t, void (*put)(void *arg, const void *bytes, size_t size),
                  void *arg)
{
    enum { CHUNK = 4096 };
    unsigned char chunk[CHUNK];
    size_t width = attn_type_size(t->type), used = 0;
    const unsigned char *row = t->data;
    int64_t index[ATTN_MAX_RANK] = {0};
    int64_t n = t->rank > 0 ? t->size[t->rank - 1] : 1;
    int64_t step = t->rank > 0 ? t->stride[t->rank - 1] * (int64_t)width : 0;

    if (attn__tensor_bytes(t) == 0)
        return;
    if (is_contiguous(t)) {
        put(arg, t->data, attn__tensor_bytes(t));
        return;
    }
    do {
        for (int64_t i = 0; i < n; i++) {
            if (used == CHUNK) {
                put(arg, chunk, used);
                used = 0;
            }
            memcpy(chunk + used, row + i * step, width);
            used += width;
        }
    } while (next_row(t, index, &row, (int64_t)width));
    put(arg, chunk, used);
}

attn_status attn__npy_write(attn__sink *sink, const attn__job *job, attn_error *err)
{
    unsigned char header[ATTN__NPY_HEADER];

    (void)err; /* all that can fail is in the sink */
    attn__sink_put(sink, header, attn__npy_header(job->tensors, header));
    attn__gather(job->tensors, attn__sink_put, sink);
    return ATTN_OK;
}

/* --- Checks --------------------------------------------------------------------------------- */

static attn_status check_tensor(const attn_tensor *t, attn_format format, attn_error *err)
{
    const char *name = t->name ? t->name : "";
    attn_tensor copy = *t;
    size_t bytes;

    if (format == ATTN_FORMAT_SAFETENSORS && !attn__name_is_plain(name))
        return attn__fail(
            err, ATTN_E_ARGUMENT, 0,
            "tensor name '%.64s': 1 to 4096 bytes of UTF-8 without control characters", name);
    if (format == ATTN_FORMAT_NPZ && !attn__name_is_member(name))
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "tensor name '%.64s' is not a plain member name",
                          name);
    if (attn_type_size(t->type) == 0)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "tensor '%.64s': type %d", name, (int)t->type);
    if (t->rank < 0 || t->rank > ATTN_MAX_RANK)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "tensor '%.64s': rank %d", name, t->rank);
    if (!attn__layout(&copy, false, &bytes))
        return attn__fail(err, ATTN_E_ARGUMENT, 0,
                          "tensor '%.64s': a size is negative or too large", name);
    if (!t->data && bytes > 0)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "tensor '%.64s': data is NULL", name);
    if (format == ATTN_FORMAT_SAFETENSORS)
        return ATTN_OK;
    return attn__npy_check(t, err);
}

static int compare_names(const void *a, const void *b)
{
    const char *const *x = a, *const *y = b;

    return strcmp(*x, *y);
}

static attn_status check_names_differ(const attn__job *job, attn_error *err)
{
    const char **names = NULL, *twice = NULL;
    size_t bytes;

    if (attn__mul(job->count, sizeof *names, &bytes))
        names = attn__alloc(job->ctx, bytes);
    if (!names)
        return attn__fail(err, ATTN_E_MEMORY, 0, "list of %zu tensors", job->count);
    for (size_t i = 0; i < job->count; i++)
        names[i] = job->tensors[i].name;
    if (job->count > 1)
        qsort(names, job->count, sizeof *names, compare_names);
    for (size_t i = 1; i < job->count; i++)
        if (strcmp(names[i - 1], names[i]) == 0)
            twice = names[i];
    attn__free(job->ctx, names);
    if (twice)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "two tensors are named '%.64s'", twice);
    return ATTN_OK;
}

static attn_status check_metadata(const attn__job *job, attn_format format, attn_error *err)
{
    if (job->meta_count == 0)
        return ATTN_OK;
    if (format != ATTN_FORMAT_SAFETENSORS)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "only .safetensors files hold metadata");
    if (!job->keys || !job->values)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "keys or values is NULL");
    for (size_t i = 0; i < job->meta_count; i++)
        if (!job->keys[i] || !job->values[i] || !attn__is_utf8(job->keys[i]) ||
            !attn__is_utf8(job->values[i]))
            return attn__fail(err, ATTN_E_ARGUMENT, 0, "metadata pair %zu is NULL or not UTF-8", i);
    return ATTN_OK;
}

static attn_status check_job(const attn__job *job, attn_format format, attn_error *err)
{
    attn_status st;

    if (!attn__little_endian())
        return attn__fail(err, ATTN_E_UNSUPPORTED, 0, "tensor files on a big-endian machine");
    if (!job->tensors && job->count > 0)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "tensors is NULL");
    if (format == ATTN_FORMAT_NPY && job->count != 1)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "a .npy file holds one tensor, not %zu",
                          job->count);
    for (size_t i = 0; i < job->count; i++)
        if ((st = check_tensor(&job->tensors[i], format, err)) != ATTN_OK)
            return st;
    if ((st = check_metadata(job, format, err)) != ATTN_OK)
        return st;
    return format == ATTN_FORMAT_NPY ? ATTN_OK : check_names_differ(job, err);
}

static attn_format format_of_path(const char *path)
{
    static const struct {
        attn_format format;
        const char *ending;
    } endings[] = {
        {ATTN_FORMAT_NPY, ".npy"},
        {ATTN_FORMAT_NPZ, ".npz"},
        {ATTN_FORMAT_SAFETENSORS, ".safetensors"},
    };
    size_t n = strlen(path);

    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        size_t tail = strlen(endings[i].ending);

        if (n >= tail && strcmp(path + (n - tail), endings[i].ending) == 0)
            return endings[i].format;
    }
    return ATTN_FORMAT_AUTO;
}

static attn_status write_job(const attn__job *job, const char *path, attn_format format,
                             attn_error *err)
{
    static attn_status (*const writers[])(attn__sink *, const attn__job *, attn_error *) = {
        [ATTN_FORMAT_NPY] = attn__npy_write,
        [ATTN_FORMAT_NPZ] = attn__npz_write,
        [ATTN_FORMAT_SAFETENSORS] = attn__safetensors_write,
    };
    attn__sink sink;
    attn_status st;

    if (format == ATTN_FORMAT_AUTO)
        format = format_of_path(path);
    if (format == ATTN_FORMAT_AUTO || (unsigned)format > ATTN_FORMAT_SAFETENSORS)
        return attn__fail(err, ATTN_E_ARGUMENT, 0,
                          "the path must end in .npy, .npz or .safetensors");
    if ((st = check_job(job, format, err)) != ATTN_OK)
        return st;
    if ((st = attn__sink_open(&sink, job->ctx, path, err)) != ATTN_OK)
        goto out;
    if ((st = writers[format](&sink, job, err)) != ATTN_OK)
        goto out;
    st = attn__sink_commit(&sink, err);
out:
    attn__sink_close(&sink);
    return st;
}

attn_status attn_file_write(const attn_ctx *ctx, const char *path, attn_format format,
                            const attn_tensor *tensors, size_t count, const char *const *keys,
                            const char *const *values, size_t meta_count, attn_error *err)
{
    const attn__job job = {ctx, tensors, count, keys, values, meta_count};
    attn_error inner = {ATTN_OK, 0, ""};
    attn_status st;

    if (!path)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "path is NULL");
    st = write_job(&job, path, format, &inner);
    return st == ATTN_OK ? st : attn__fail_path(err, path, &inner);
}
