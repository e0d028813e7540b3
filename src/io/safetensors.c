/* safetensors.c: the format of huggingface/safetensors.
 *
 *     u64 header length  |  JSON header, padded with blanks  |  data
 *
 *     {"__metadata__": {"key": "value"}, "name": {"dtype": "F32", "shape": [2, 3], "data_offsets":
 * [0, 24]}}
 *
 * Offsets count from the start of the data. Sorted, they must cover it without hole or overlap. */
#include "src/base/bytes.h"
#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/io/file.h"
#include "src/io/json.h"
#include "src/io/write.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    attn_type type;
} types[] = {
    {"F32", ATTN_F32}, {"F16", ATTN_F16}, {"BF16", ATTN_BF16}, {"F64", ATTN_F64}, {"U8", ATTN_U8},
    {"I8", ATTN_I8},   {"U16", ATTN_U16}, {"I16", ATTN_I16},   {"U32", ATTN_U32}, {"I32", ATTN_I32},
    {"U64", ATTN_U64}, {"I64", ATTN_I64}, {"BOOL", ATTN_BOOL},
};
enum { TYPES = sizeof types / sizeof *types };

static const char metadata[] = "__metadata__";

/* --- Reading -------------------------------------------------------------------------------- */

/* One entry of the header, before the entries are put in the order of the data. */
typedef struct entry {
    attn_tensor tensor;
    uint64_t begin, end;
    size_t bytes; /* what shape and type take */
} entry;

static attn_status refuse(const char *name, const char *rule, attn_error *err)
{
    return attn__fail(err, ATTN_E_FORMAT, 8, "safetensors: '%.64s': %s", name, rule);
}

static attn_status read_shape(const json_t *shape, attn_tensor *t, attn_error *err)
{
    if (!json_is_array(shape))
        return refuse(t->name, "shape must be an array", err);
    if (json_array_size(shape) > ATTN_MAX_RANK)
        return refuse(t->name, "more than 8 dimensions", err);
    t->rank = (int)json_array_size(shape);
    for (int i = 0; i < t->rank; i++) {
        const json_t *n = json_array_get(shape, (size_t)i);

        if (!json_is_integer(n) || json_integer_value(n) < 0 ||
            json_integer_value(n) > ATTN__MAX_DIM)
            return refuse(t->name, "a dimension is not a whole number of 0 to 2^48", err);
        t->size[i] = json_integer_value(n);
    }
    return ATTN_OK;
}

static attn_status read_type(const json_t *dtype, attn_tensor *t, attn_error *err)
{
    if (!json_is_string(dtype))
        return refuse(t->name, "dtype must be a string", err);
    for (size_t i = 0; i < TYPES; i++)
        if (strcmp(json_string_value(dtype), types[i].name) == 0) {
            t->type = types[i].type;
            return ATTN_OK;
        }
    return attn__fail(err, ATTN_E_FORMAT, 8, "safetensors: '%.64s': dtype '%.16s' is not read",
                      t->name, json_string_value(dtype));
}

static attn_status read_entry(const char *name, const json_t *value, entry *e, attn_error *err)
{
    const json_t *offsets = json_object_get(value, "data_offsets");
    const json_t *begin = json_array_get(offsets, 0), *end = json_array_get(offsets, 1);
    attn_status st;

    e->tensor.name = name;
    if (!attn__name_is_plain(name))
        return refuse(name, "names are 1 to 4096 bytes without control characters", err);
    if (!json_is_object(value) || json_object_size(value) != 3)
        return refuse(name, "expected exactly dtype, shape and data_offsets", err);
    if ((st = read_type(json_object_get(value, "dtype"), &e->tensor, err)) != ATTN_OK)
        return st;
    if ((st = read_shape(json_object_get(value, "shape"), &e->tensor, err)) != ATTN_OK)
        return st;
    if (json_array_size(offsets) != 2 || !json_is_integer(begin) || !json_is_integer(end) ||
        json_integer_value(begin) < 0 || json_integer_value(end) < json_integer_value(begin))
        return refuse(name, "data_offsets must be two whole numbers, 0 <= begin <= end", err);
    e->begin = (uint64_t)json_integer_value(begin);
    e->end = (uint64_t)json_integer_value(end);
    if (!attn__layout(&e->tensor, false, &e->bytes))
        return refuse(name, "the shape is larger than any memory", err);
    if (e->bytes != e->end - e->begin)
        return refuse(name, "data_offsets span another number of bytes than shape and dtype", err);
    return ATTN_OK;
}

/* By place; empty tensors, which share theirs with a neighbour, before it and among themselves by
 * name, so that the order does not depend on the sort. */
static int compare_places(const void *a, const void *b)
{
    const entry *x = a, *y = b;

    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    if (x->end != y->end)
        return x->end < y->end ? -1 : 1;
    return strcmp(x->tensor.name, y->tensor.name);
}

static int compare_keys(const void *a, const void *b)
{
    const attn__meta *x = a, *y = b;

    return strcmp(x->key, y->key);
}

/* Appends a copy of s to the file's text, which is large enough. */
static const char *keep(char **text, const char *s)
{
    size_t n = strlen(s) + 1;
    char *copy = *text;

    memcpy(copy, s, n);
    *text += n;
    return copy;
}

static attn_status read_metadata(attn_file *file, json_t *object, char **text, attn_error *err)
{
    const char *key;
    json_t *value;
    size_t bytes, i = 0;

    if (!object)
        return ATTN_OK;
    if (!json_is_object(object))
        return refuse(metadata, "must be an object", err);
    if (attn__mul(json_object_size(object), sizeof *file->meta, &bytes))
        file->meta = attn__alloc(file->ctx, bytes);
    if (!file->meta)
        return attn__fail(err, ATTN_E_MEMORY, 0, "metadata");
    json_object_foreach(object, key, value)
    {
        if (!json_is_string(value))
            return refuse(metadata, "every value must be a string", err);
        file->meta[i].key = keep(text, key);
        file->meta[i++].value = keep(text, json_string_value(value));
    }
    file->meta_count = i;
    if (i > 1)
        qsort(file->meta, i, sizeof *file->meta, compare_keys);
    return ATTN_OK;
}

/* Sorts the entries and hands out tensors that lie in the data, which starts at file byte data_at.
 */
static attn_status place_entries(attn_file *file, entry *entries, size_t count, size_t data_at,
                                 char **text, attn_error *err)
{
    attn__bytes data = attn__bytes_over(file->bytes + data_at, file->size - data_at, data_at);
    attn_status st;

    if (count > 1)
        qsort(entries, count, sizeof *entries, compare_places);
    for (size_t i = 0; i < count; i++) {
        const entry *e = &entries[i];
        const unsigned char *at;

        if (e->begin != data.at)
            return attn__fail(err, ATTN_E_FORMAT, attn__bytes_offset(&data),
                              "safetensors: hole or overlap in the data before '%.64s'",
                              e->tensor.name);
        at = attn__bytes_take(&data, e->bytes);
        if (!at)
            return attn__fail(err, ATTN_E_FORMAT, attn__bytes_offset(&data),
                              "safetensors: '%.64s' reaches past the end of the file",
                              e->tensor.name);
        file->tensors[i] = e->tensor;
        file->tensors[i].name = keep(text, e->tensor.name);
        if ((st = attn__file_place(file, &file->tensors[i], at, e->bytes, err)) != ATTN_OK)
            return st;
    }
    if (attn__bytes_left(&data) > 0)
        return attn__fail(err, ATTN_E_FORMAT, attn__bytes_offset(&data),
                          "safetensors: %zu bytes follow the last tensor", attn__bytes_left(&data));
    return ATTN_OK;
}

static attn_status read_header(attn_file *file, json_t *header, size_t header_size, size_t data_at,
                               attn_error *err)
{
    json_t *meta = json_object_get(header, metadata), *value;
    size_t count = json_object_size(header) - (meta ? 1 : 0), bytes, i = 0;
    entry *entries = NULL;
    const char *name;
    char *text;
    attn_status st;

    /* Unescaped text never takes more room than the header, and each string's two quotes leave room
     * for its terminator. */
    if ((st = attn__file_reserve(file, count, header_size, err)) != ATTN_OK)
        return st;
    text = file->text;
    if (attn__mul(count, sizeof *entries, &bytes))
        entries = attn__new(file->ctx, bytes);
    if (!entries)
        return attn__fail(err, ATTN_E_MEMORY, 0, "list of %zu tensors", count);
    json_object_foreach(header, name, value)
    {
        if (strcmp(name, metadata) == 0)
            continue;
        if ((st = read_entry(name, value, &entries[i++], err)) != ATTN_OK)
            goto out;
    }
    if ((st = read_metadata(file, meta, &text, err)) != ATTN_OK)
        goto out;
    st = place_entries(file, entries, count, data_at, &text, err);
out:
    attn__free(file->ctx, entries);
    return st;
}

attn_status attn__safetensors_read(attn_file *file, attn_error *err)
{
    attn__bytes b = attn__bytes_over(file->bytes, file->size, 0);
    const unsigned char *text;
    json_t *header;
    uint64_t size;
    attn_status st;

    if (!attn__bytes_le(&b, 8, &size))
        return attn__fail(err, ATTN_E_FORMAT, 0, "safetensors: cut off in the header length");
    if (size > attn__bytes_left(&b))
        return attn__fail(
            err, ATTN_E_FORMAT, 0,
            "safetensors: a header of %" PRIu64 " bytes reaches past the end of the file", size);
    if (size > file->options.max_header)
        return attn__fail(err, ATTN_E_FORMAT, 0,
                          "safetensors: a header of %" PRIu64 " bytes; the limit is %zu", size,
                          file->options.max_header);
    text = attn__bytes_take(&b, size);
    if (size == 0 || text[0] != '{')
        return attn__fail(err, ATTN_E_FORMAT, 8, "safetensors: the header must start with '{'");
    st = attn__json_load((const char *)text, (size_t)size, 8, file->options.max_values, &header,
                         err);
    if (st != ATTN_OK)
        return st;
    st = read_header(file, header, (size_t)size, b.at, err);
    json_decref(header);
    return st;
}

/* --- Writing -------------------------------------------------------------------------------- */

static json_t *describe(const attn_tensor *t, size_t begin, size_t end)
{
    json_t *shape = json_array(), *e = NULL;
    size_t k = 0;
    int failed = 0;

    while (types[k].type != t->type)
        k++;
    for (int i = 0; i < t->rank; i++)
        failed |= json_array_append_new(shape, json_integer(t->size[i]));
    if (!failed)
        e = json_pack("{s:s, s:O, s:[I, I]}", "dtype", types[k].name, "shape", shape,
                      "data_offsets", (json_int_t)begin, (json_int_t)end);
    json_decref(shape);
    return e;
}

/* The tensors in the order of the data: wider types first, so that each is aligned to its element
 * without padding, which the format does not have. */
static void order_by_width(const attn_tensor *tensors, size_t count, const attn_tensor **order)
{
    size_t n = 0;

    for (size_t width = 8; width > 0; width /= 2)
        for (size_t i = 0; i < count; i++)
            if (attn_type_size(tensors[i].type) == width)
                order[n++] = &tensors[i];
}

/* Each json_..._new takes over the value it gets, also when it fails: nothing may touch it after.
 */
static attn_status describe_metadata(const attn__job *job, json_t *header, attn_error *err)
{
    json_t *meta = json_object();

    if (json_object_set_new(header, metadata, meta) != 0)
        return attn__fail(err, ATTN_E_MEMORY, 0, "safetensors header");
    for (size_t i = 0; i < job->meta_count; i++) {
        if (json_object_get(meta, job->keys[i]))
            return attn__fail(err, ATTN_E_ARGUMENT, 0, "metadata key '%.64s' comes twice",
                              job->keys[i]);
        /* The texts are known to be UTF-8, so only memory can fail. */
        if (json_object_set_new(meta, job->keys[i], json_string(job->values[i])) != 0)
            return attn__fail(err, ATTN_E_MEMORY, 0, "safetensors header");
    }
    return ATTN_OK;
}

static attn_status describe_all(const attn_tensor *const *order, const attn__job *job,
                                json_t *header, attn_error *err)
{
    size_t begin = 0, end;
    attn_status st;

    if (job->meta_count > 0 && (st = describe_metadata(job, header, err)) != ATTN_OK)
        return st;
    for (size_t i = 0; i < job->count; i++, begin = end) {
        const attn_tensor *t = order[i];

        if (strcmp(t->name, metadata) == 0)
            return attn__fail(err, ATTN_E_ARGUMENT, 0, "no tensor can be named %s", metadata);
        if (!attn__add(begin, attn__tensor_bytes(t), &end) || end > INT64_MAX)
            return attn__fail(err, ATTN_E_ARGUMENT, 0, "the tensors are larger than any file");
        if (json_object_set_new(header, t->name, describe(t, begin, end)) != 0)
            return attn__fail(err, ATTN_E_MEMORY, 0, "safetensors header");
    }
    return ATTN_OK;
}

static int count_bytes(const char *text, size_t size, void *user)
{
    size_t *total = user;

    (void)text;
    return attn__add(*total, size, total) ? 0 : -1;
}

static int put_bytes(const char *text, size_t size, void *user)
{
    attn__sink_put(user, text, size);
    return 0; /* the sink remembers its failure */
}

static attn_status put_header(attn__sink *sink, const json_t *header, attn_error *err)
{
    static const char blanks[] = "                                                                ";
    unsigned char prefix[8];
    size_t size = 0, pad;

    if (json_dump_callback(header, count_bytes, &size, JSON_COMPACT) != 0)
        return attn__fail(err, ATTN_E_MEMORY, 0, "safetensors header");
    pad = (64 - (8 + size) % 64) % 64;
    attn__put_le(prefix, size + pad, sizeof prefix);
    attn__sink_put(sink, prefix, sizeof prefix);
    if (json_dump_callback(header, put_bytes, sink, JSON_COMPACT) != 0)
        return attn__fail(err, ATTN_E_MEMORY, 0, "safetensors header");
    attn__sink_put(sink, blanks, pad);
    return ATTN_OK;
}

attn_status attn__safetensors_write(attn__sink *sink, const attn__job *job, attn_error *err)
{
    const attn_tensor **order = NULL;
    json_t *header = json_object();
    attn_status st = ATTN_E_MEMORY;
    size_t bytes;

    if (attn__mul(job->count, sizeof *order, &bytes))
        order = attn__alloc(job->ctx, bytes);
    if (!order || !header) {
        attn__fail(err, st, 0, "list of %zu tensors", job->count);
        goto out;
    }
    order_by_width(job->tensors, job->count, order);
    if ((st = describe_all(order, job, header, err)) != ATTN_OK)
        goto out;
    if ((st = put_header(sink, header, err)) != ATTN_OK)
        goto out;
    for (size_t i = 0; i < job->count; i++)
        attn__gather(order[i], attn__sink_put, sink);
out:
    json_decref(header);
    attn__free(job->ctx, order);
    return st;
}
