/* arrays.c: files of tensors: opened once, picked from, read element by element. */
#define _POSIX_C_SOURCE 200809L

#include "cli/arrays.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "cli/console.h"

/* --- Files ---------------------------------------------------------------------------------- */

typedef struct open_file {
    struct open_file *next;
    const char *path;
    attn_file *file;
} open_file;

static open_file *files;

attn_file *cli_open(const char *path)
{
    attn_error err = {0};
    attn_status status;
    open_file *f;

    for (f = files; f; f = f->next)
        if (strcmp(f->path, path) == 0)
            return f->file;
    f = cli_take(sizeof *f);
    status = attn_file_open(NULL, path, NULL, &f->file, &err);
    if (status != ATTN_OK) {
        cli_failed(NULL, status, &err);
        return NULL;
    }
    f->path = path;
    f->next = files;
    files = f;
    return f->file;
}

void cli_close_files(void)
{
    for (open_file *f = files; f; f = f->next)
        attn_file_close(f->file);
    files = NULL;
}

/* "k, q, v": the first names of a file, for messages. */
static const char *names_of(const attn_file *file, char *buffer, size_t size)
{
    size_t used = 0, count = attn_file_count(file);

    buffer[0] = '\0';
    for (size_t i = 0; i < count && used < size; i++) {
        const char *name = attn_file_tensor(file, i)->name;
        if (used + strlen(name) + 8 > size) {
            snprintf(buffer + used, size - used, ", ...");
            break;
        }
        used += (size_t)snprintf(buffer + used, size - used, "%s%s", i ? ", " : "", name);
    }
    return buffer;
}

const attn_tensor *cli_pick(const char *path, const char *name, int strict, const char *asked)
{
    attn_file *file = cli_open(path);
    const attn_tensor *t;
    char names[200];

    if (!file)
        return NULL;
    if (!strict && attn_file_count(file) == 1)
        return attn_file_tensor(file, 0);
    t = attn_file_find(file, name);
    if (!t && attn_file_count(file) == 0)
        cli_error("%s: holds no tensor; %s needs one", path, asked);
    else if (!t && attn_file_format(file) == ATTN_FORMAT_NPY)
        cli_error("%s: a .npy file holds one tensor without a name; %s needs '%s' from a .npz or "
                  ".safetensors file",
                  path, asked, name);
    else if (!t)
        cli_error("%s: no tensor '%s' for %s; the file holds: %s", path, name, asked,
                  names_of(file, names, sizeof names));
    return t;
}

attn_format cli_ending(const char *path)
{
    static const struct {
        const char *ending;
        attn_format format;
    } known[] = {{".npy", ATTN_FORMAT_NPY},
                 {".npz", ATTN_FORMAT_NPZ},
                 {".safetensors", ATTN_FORMAT_SAFETENSORS}};
    const char *dot = strrchr(path, '.');

    for (size_t i = 0; dot && i < sizeof known / sizeof *known; i++)
        if (strcasecmp(dot, known[i].ending) == 0)
            return known[i].format;
    return ATTN_FORMAT_AUTO;
}

const char *cli_format_name(attn_format format)
{
    switch (format) {
    case ATTN_FORMAT_NPY:
        return "npy";
    case ATTN_FORMAT_NPZ:
        return "npz";
    case ATTN_FORMAT_SAFETENSORS:
        return "safetensors";
    case ATTN_FORMAT_AUTO:
        break;
    }
    return "?";
}

int cli_check_folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    size_t n = slash ? (size_t)(slash - path) : 0;
    char *folder = cli_take(n + 2);

    memcpy(folder, slash == path ? "/" : slash ? path : ".", slash && n ? n : 1);
    if (access(folder, W_OK | X_OK) != 0)
        return cli_error("%s: cannot write into folder '%s': %s", path, folder, strerror(errno));
    return 0;
}

/* --- Elements ------------------------------------------------------------------------------- */

int cli_is_float(attn_type type)
{
    return type == ATTN_F32 || type == ATTN_F16 || type == ATTN_BF16 || type == ATTN_F64;
}

int64_t cli_count(const attn_tensor *tensor)
{
    int64_t n = 1;

    for (int i = 0; i < tensor->rank; i++)
        if (tensor->size[i] == 0)
            return 0;
    for (int i = 0; i < tensor->rank; i++)
        n *= tensor->size[i];
    return n;
}

static const void *element(const attn_tensor *t, int64_t i)
{
    int64_t offset = 0;

    for (int axis = t->rank - 1; axis >= 0; axis--) {
        offset += i % t->size[axis] * t->stride[axis];
        i /= t->size[axis];
    }
    return (const char *)t->data + offset * (int64_t)attn_type_size(t->type);
}

static double half_number(uint16_t h)
{
    int exponent = h >> 10 & 31;
    double fraction = h & 1023;
    double x = exponent == 0    ? ldexp(fraction, -24)
               : exponent == 31 ? (fraction != 0 ? (double)NAN : (double)INFINITY)
                                : ldexp(fraction + 1024, exponent - 25);

    return h >> 15 ? -x : x;
}

int cli_integer_at(const attn_tensor *tensor, int64_t i, int64_t *out)
{
    union {
        int8_t i8;
        uint8_t u8;
        int16_t i16;
        uint16_t u16;
        int32_t i32;
        uint32_t u32;
        int64_t i64;
        uint64_t u64;
    } x;

    if (cli_is_float(tensor->type))
        return 0;
    memcpy(&x, element(tensor, i), attn_type_size(tensor->type));
    switch (tensor->type) {
    case ATTN_I8:
        *out = x.i8;
        return 1;
    case ATTN_U8:
    case ATTN_BOOL:
        *out = x.u8;
        return 1;
    case ATTN_I16:
        *out = x.i16;
        return 1;
    case ATTN_U16:
        *out = x.u16;
        return 1;
    case ATTN_I32:
        *out = x.i32;
        return 1;
    case ATTN_U32:
        *out = x.u32;
        return 1;
    case ATTN_I64:
        *out = x.i64;
        return 1;
    case ATTN_U64:
        *out = (int64_t)x.u64;
        return x.u64 <= INT64_MAX;
    default:
        return 0;
    }
}

double cli_number_at(const attn_tensor *tensor, int64_t i)
{
    uint16_t half;
    uint32_t bits;
    float single;
    double number;
    int64_t integer;

    switch (tensor->type) {
    case ATTN_F32:
        memcpy(&single, element(tensor, i), sizeof single);
        return (double)single;
    case ATTN_F64:
        memcpy(&number, element(tensor, i), sizeof number);
        return number;
    case ATTN_F16:
        memcpy(&half, element(tensor, i), sizeof half);
        return half_number(half);
    case ATTN_BF16:
        memcpy(&half, element(tensor, i), sizeof half);
        bits = (uint32_t)half << 16;
        memcpy(&single, &bits, sizeof single);
        return (double)single;
    default:
        return cli_integer_at(tensor, i, &integer) ? (double)integer : (double)NAN;
    }
}

/* --- Descriptions --------------------------------------------------------------------------- */

const char *cli_tensor_text(char *buffer, const attn_tensor *tensor)
{
    size_t size = 256, n = (size_t)snprintf(buffer, size, "%s [", attn_type_name(tensor->type));

    for (int i = 0; i < tensor->rank; i++)
        n += (size_t)snprintf(buffer + n, size - n, "%s%lld", i ? ", " : "",
                              (long long)tensor->size[i]);
    snprintf(buffer + n, size - n, "]");
    return buffer;
}

json_t *cli_shape_json(const attn_tensor *tensor)
{
    json_t *shape = json_array();

    for (int i = 0; i < tensor->rank; i++)
        json_array_append_new(shape, json_integer(tensor->size[i]));
    return shape;
}
