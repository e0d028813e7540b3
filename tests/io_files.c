/* io_files.c: see io_files.h. Shares no code with src/io but the public header. */
#define _POSIX_C_SOURCE 200809L

#include "include/attn/io.h"
#include "tests/expect.h"
#include "tests/io_files.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

blob blob_new(arena *a)
{
    return (blob){a, arena_get(a, 64), 0, 64};
}

void blob_put(blob *b, const void *bytes, size_t size)
{
    if (size > b->room - b->size) {
        size_t room = 2 * (b->size + size);
        unsigned char *data = arena_get(b->home, room);

        memcpy(data, b->data, b->size);
        b->data = data;
        b->room = room;
    }
    if (size > 0)
        memcpy(b->data + b->size, bytes, size);
    b->size += size;
}

void blob_text(blob *b, const char *text)
{
    blob_put(b, text, strlen(text));
}

void blob_le(blob *b, uint64_t value, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)(value >> (8 * i));

        blob_put(b, &c, 1);
    }
}

void blob_fill(blob *b, int byte, size_t n)
{
    unsigned char c = (unsigned char)byte;

    for (size_t i = 0; i < n; i++)
        blob_put(b, &c, 1);
}

blob blob_load(arena *a, const char *path)
{
    blob b = blob_new(a);
    unsigned char chunk[4096];
    FILE *f = fopen(path, "rb");
    size_t n;

    CHECK_MSG(f != NULL, "cannot open %s (tests run in the root of the tree)", path);
    while ((n = fread(chunk, 1, sizeof chunk, f)) > 0)
        blob_put(&b, chunk, n);
    fclose(f);
    return b;
}

/* --- npy and safetensors -------------------------------------------------------------------- */

static void put_counted(blob *b, size_t n)
{
    for (size_t i = 1; i <= n; i++)
        blob_le(b, i & 0xff, 1);
}

blob npy_raw(arena *a, const char *header, size_t payload)
{
    blob b = blob_new(a);

    blob_put(&b, "\x93NUMPY\1\0", 8);
    blob_le(&b, strlen(header), 2);
    blob_text(&b, header);
    put_counted(&b, payload);
    return b;
}

blob npy_of(arena *a, const char *descr, const char *fortran, const char *shape, size_t payload)
{
    char text[512];
    int n = snprintf(text, sizeof text, "{'descr': %s, 'fortran_order': %s, 'shape': %s, }", descr,
                     fortran, shape);

    while ((n + 11) % 64 != 0)
        text[n++] = ' ';
    text[n++] = '\n';
    text[n] = '\0';
    return npy_raw(a, text, payload);
}

blob safetensors_of(arena *a, const char *header, size_t payload)
{
    blob b = blob_new(a);

    blob_le(&b, strlen(header), 8);
    blob_text(&b, header);
    put_counted(&b, payload);
    return b;
}

/* --- zip ------------------------------------------------------------------------------------ */

static blob deflate_raw(const blob *content)
{
    blob out = blob_new(content->home);
    unsigned char chunk[16384];
    z_stream z;
    int status;

    memset(&z, 0, sizeof z);
    CHECK(deflateInit2(&z, 9, Z_DEFLATED, -15, 9, Z_DEFAULT_STRATEGY) == Z_OK);
    z.next_in = content->data;
    z.avail_in = (uInt)content->size;
    do {
        z.next_out = chunk;
        z.avail_out = sizeof chunk;
        status = deflate(&z, Z_FINISH);
        blob_put(&out, chunk, sizeof chunk - z.avail_out);
    } while (status == Z_OK);
    CHECK(status == Z_STREAM_END);
    deflateEnd(&z);
    return out;
}

zip_member *zip_add(zip_file_of *z, const char *name, const blob *content, uint16_t method)
{
    zip_member *m = &z->members[z->count++];

    memset(m, 0, sizeof *m);
    m->body = method == 8 ? deflate_raw(content) : *content;
    m->extra = blob_new(content->home);
    m->local.method = method;
    m->local.crc = (uint32_t)crc32(0, content->data, (uInt)content->size);
    m->local.packed = (uint32_t)m->body.size;
    m->local.size = (uint32_t)content->size;
    m->local.name = name;
    m->local.name_size = strlen(name);
    m->central = m->local;
    z->entries = (uint32_t)z->count;
    return m;
}

static void put_says(blob *b, const zip_says *s, size_t extra)
{
    blob_le(b, 20, 2);
    blob_le(b, s->flags, 2);
    blob_le(b, s->method, 2);
    blob_le(b, 0x00210000, 4); /* 1 January 1980 */
    blob_le(b, s->crc, 4);
    blob_le(b, s->packed, 4);
    blob_le(b, s->size, 4);
    blob_le(b, s->name_size, 2);
    blob_le(b, extra, 2);
}

blob zip_bytes(arena *a, const zip_file_of *z)
{
    size_t at[ZIP_MEMBERS], directory_at, directory_size;
    blob b = blob_new(a);

    blob_fill(&b, 0, z->prefix);
    for (size_t i = 0; i < z->count; i++) {
        const zip_member *m = &z->members[i];

        at[i] = 0;
        if (m->hidden)
            continue;
        blob_fill(&b, 0, m->gap);
        at[i] = b.size;
        blob_put(&b, "PK\3\4", 4);
        put_says(&b, &m->local, m->extra.size);
        blob_put(&b, m->local.name, m->local.name_size);
        blob_put(&b, m->extra.data, m->extra.size);
        blob_put(&b, m->body.data, m->body.size);
    }
    blob_fill(&b, 0, z->before_directory);
    directory_at = b.size;
    for (size_t i = 0; i < z->count; i++) {
        const zip_member *m = &z->members[i];

        blob_put(&b, "PK\1\2\24\0", 6);
        put_says(&b, &m->central, m->extra.size);
        blob_fill(&b, 0, 2 + 2 + 2 + 4); /* comment, disk, attributes */
        blob_le(&b, (uint64_t)((int64_t)at[i] + m->shift), 4);
        blob_put(&b, m->central.name, m->central.name_size);
        blob_put(&b, m->extra.data, m->extra.size);
    }
    directory_size = b.size - directory_at;
    blob_fill(&b, 0, z->before_end);
    blob_put(&b, "PK\5\6\0\0\0\0", 8);
    blob_le(&b, z->entries, 2);
    blob_le(&b, z->entries, 2);
    blob_le(&b, (uint64_t)((int64_t)directory_size + z->directory_grow), 4);
    blob_le(&b, (uint64_t)((int64_t)directory_at + z->directory_shift), 4);
    blob_le(&b, z->comment_size, 2);
    blob_put(&b, z->comment, z->comment_size);
    blob_fill(&b, 0, z->suffix);
    return b;
}

/* --- Checks --------------------------------------------------------------------------------- */

int64_t tensor_count(const attn_tensor *t)
{
    int64_t n = 1;

    for (int i = 0; i < t->rank; i++)
        if (t->size[i] == 0)
            return 0;
    for (int i = 0; i < t->rank; i++)
        n *= t->size[i];
    return n;
}

void tensor_flatten(const attn_tensor *t, unsigned char *out)
{
    size_t width = attn_type_size(t->type);
    int64_t n = tensor_count(t);

    for (int64_t k = 0; k < n; k++) {
        const unsigned char *from = t->data;
        int64_t rest = k;

        for (int i = t->rank - 1; i >= 0; i--) {
            from += rest % t->size[i] * t->stride[i] * (int64_t)width;
            rest /= t->size[i];
        }
        memcpy(out + (size_t)k * width, from, width);
    }
}

int tensor_equal(const attn_tensor *a, const attn_tensor *b)
{
    arena memory = {0};
    unsigned char *x, *y;
    size_t bytes;
    int same;

    if (a->type != b->type || a->rank != b->rank ||
        memcmp(a->size, b->size, (size_t)a->rank * sizeof a->size[0]) != 0)
        return 0;
    bytes = (size_t)tensor_count(a) * attn_type_size(a->type);
    x = arena_get(&memory, bytes);
    y = arena_get(&memory, bytes);
    tensor_flatten(a, x);
    tensor_flatten(b, y);
    same = bytes == 0 || memcmp(x, y, bytes) == 0;
    arena_reset(&memory);
    return same;
}

char *folder_new(arena *a)
{
    static const char pattern[] = "/tmp/attn-io-XXXXXX";
    char *path = arena_get(a, sizeof pattern);

    memcpy(path, pattern, sizeof pattern);
    CHECK(mkdtemp(path) != NULL);
    return path;
}

char *path_in(arena *a, const char *folder, const char *name)
{
    size_t size = strlen(folder) + strlen(name) + 2;
    char *path = arena_get(a, size);

    snprintf(path, size, "%s/%s", folder, name);
    return path;
}

/* Calls unlink on every file in the folder if `remove_them`; counts them. */
static size_t walk(const char *folder, int remove_them)
{
    arena memory = {0};
    DIR *d = opendir(folder);
    struct dirent *e;
    size_t n = 0;

    CHECK_MSG(d != NULL, "cannot list %s", folder);
    while ((e = readdir(d)) != NULL) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        if (remove_them)
            remove(path_in(&memory, folder, e->d_name));
        n++;
    }
    closedir(d);
    arena_reset(&memory);
    return n;
}

size_t folder_count(const char *folder)
{
    return walk(folder, 0);
}

void folder_remove(const char *folder)
{
    walk(folder, 1);
    CHECK(rmdir(folder) == 0);
}

/* --- An allocator that counts, and fails on demand ------------------------------------------ */

/* In front of each block its size, in a whole alignment unit. */
enum { ROOM = 64 };

static void *meter_alloc(void *user, size_t size, size_t align)
{
    meter *m = user;
    unsigned char *p;

    m->calls++;
    if (m->fail_at && (m->calls == m->fail_at || (m->sticky && m->calls > m->fail_at)))
        return NULL;
    CHECK(align <= ROOM && size <= SIZE_MAX - 2 * ROOM);
    p = aligned_alloc(ROOM, (size + 2 * ROOM - 1) / ROOM * ROOM);
    if (!p)
        return NULL;
    memcpy(p, &size, sizeof size);
    m->live++;
    m->live_bytes += size;
    if (m->live_bytes > m->peak_bytes)
        m->peak_bytes = m->live_bytes;
    return p + ROOM;
}

static void meter_free(void *user, void *memory)
{
    meter *m = user;
    unsigned char *p = (unsigned char *)memory - ROOM;
    size_t size;

    memcpy(&size, p, sizeof size);
    m->live--;
    m->live_bytes -= size;
    free(p);
}

void meter_init(meter *m)
{
    memset(m, 0, sizeof *m);
    m->ctx.alloc = meter_alloc;
    m->ctx.free = meter_free;
    m->ctx.alloc_user = m;
}
