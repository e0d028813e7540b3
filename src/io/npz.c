/* npz.c: .npz, a zip archive whose members are .npy files.
 *
 * libzip reads the archive and checks that directory and members agree. It does not look for bytes
 * that nothing accounts for, so this file demands on top of it that the archive be filled without
 * gaps, as every writer of .npz leaves it:
 *
 *     | header, member 0 | header, member 1 | ... | directory | end record |
 *     0                                           ^ where the last member ends
 *
 * That refuses nested and overlapping members, data before, between and behind them, and a second
 * directory hidden somewhere. libzip does not tell where a member lies; but it reads through the
 * source below, which notes where the bytes came from. Stored members are then used in place.
 *
 * The writer is our own, because libzip can neither align data nor write into a synced temporary
 * file. It always uses the 64-bit fields: one path, tested by every small archive. */
#include "src/base/bytes.h"
#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/io/file.h"
#include "src/io/npy.h"
#include "src/io/write.h"

#include <stdlib.h>
#include <string.h>
#include <zip.h>
#include <zlib.h>

enum {
    LOCAL_MARK = 0x04034b50,     /* "PK\3\4" */
    ENTRY_MARK = 0x02014b50,     /* "PK\1\2" */
    END_MARK = 0x06054b50,       /* "PK\5\6" */
    END64_MARK = 0x06064b50,     /* "PK\6\6" */
    LOCATOR64_MARK = 0x07064b50, /* "PK\6\7" */
    LOCAL_SIZE = 30,
    ENTRY_SIZE = 46,
    END_SIZE = 22,
    LOCATOR64_SIZE = 20,
    END64_SIZE = 56,
    FLAGS_LEVEL = 6, /* how hard the deflater tried */
    FLAG_DESCRIPTOR = 8,
    FLAG_UTF8 = 0x800,
};

/* --- Reading: the bytes libzip sees --------------------------------------------------------- */

/* A read-only file over memory that notes the run of bytes read since `seen` was cleared. */
typedef struct window {
    const unsigned char *bytes;
    uint64_t size, at;
    bool opening;      /* show one end record only */
    bool seen, broken; /* broken: the bytes read were not one run */
    uint64_t first, last;
    zip_error_t error;
} window;

/* libzip tries every end record it finds in the last 64 KB, and takes the one it likes best. While
 * it searches it is shown only the one at the very end, which find_directory has checked, so that
 * it cannot settle on another and a file full of them costs nothing: in the copy at `to` of n bytes
 * from `at`, others are blotted out. */
static void hide_end_marks(const window *w, unsigned char *to, uint64_t n)
{
    static const unsigned char mark[4] = {'P', 'K', 5, 6};
    uint64_t at = w->at < sizeof mark ? 0 : w->at - (sizeof mark - 1);

    for (; at < w->at + n && at < w->size - END_SIZE; at++)
        if (memcmp(w->bytes + at, mark, sizeof mark) == 0)
            to[at < w->at ? 0 : at - w->at] = 0;
}

static zip_int64_t window_read(window *w, void *to, uint64_t n)
{
    if (n > w->size - w->at)
        n = w->size - w->at;
    if (n == 0)
        return 0;
    if (!w->seen)
        w->first = w->last = w->at;
    w->broken = (w->seen && w->broken) || w->at != w->last;
    w->seen = true;
    memcpy(to, w->bytes + w->at, (size_t)n);
    if (w->opening)
        hide_end_marks(w, to, n);
    w->at += n;
    w->last = w->at;
    return (zip_int64_t)n;
}

static zip_int64_t window_seek(window *w, void *arg, uint64_t n)
{
    zip_int64_t at = zip_source_seek_compute_offset(w->at, w->size, arg, n, &w->error);

    if (at < 0)
        return -1;
    w->at = (uint64_t)at; /* libzip has checked it against the size */
    return 0;
}

static zip_int64_t window_serve(void *user, void *data, zip_uint64_t n, zip_source_cmd_t command)
{
    window *w = user;

    switch (command) {
    case ZIP_SOURCE_OPEN:
        w->at = 0;
        return 0;
    case ZIP_SOURCE_READ:
        return window_read(w, data, n);
    case ZIP_SOURCE_SEEK:
        return window_seek(w, data, n);
    case ZIP_SOURCE_TELL:
        return (zip_int64_t)w->at;
    case ZIP_SOURCE_STAT:
        zip_stat_init(data);
        ((zip_stat_t *)data)->size = w->size;
        ((zip_stat_t *)data)->valid = ZIP_STAT_SIZE;
        return (zip_int64_t)sizeof(zip_stat_t);
    case ZIP_SOURCE_ERROR:
        return zip_error_to_data(&w->error, data, n);
    case ZIP_SOURCE_SUPPORTS:
        return zip_source_make_command_bitmap(
            ZIP_SOURCE_OPEN, ZIP_SOURCE_READ, ZIP_SOURCE_CLOSE, ZIP_SOURCE_STAT, ZIP_SOURCE_ERROR,
            ZIP_SOURCE_FREE, ZIP_SOURCE_SEEK, ZIP_SOURCE_TELL, ZIP_SOURCE_SUPPORTS, -1);
    case ZIP_SOURCE_CLOSE:
    case ZIP_SOURCE_FREE:
        return 0;
    default:
        zip_error_set(&w->error, ZIP_ER_OPNOTSUPP, 0);
        return -1;
    }
}

/* --- Reading: the end of the archive -------------------------------------------------------- */

typedef struct directory {
    uint64_t at, size, entries;
} directory;

static attn_status refuse(uint64_t offset, const char *rule, attn_error *err)
{
    return attn__fail(err, ATTN_E_FORMAT, offset, "npz: %s", rule);
}

/* Reads n fields of the given widths; false when the block ends first. */
static bool read_fields(attn__bytes *b, const unsigned char *widths, size_t n, uint64_t *out)
{
    for (size_t i = 0; i < n; i++)
        if (!attn__bytes_le(b, widths[i], &out[i]))
            return false;
    return true;
}

/* The 64-bit end record in front of the locator, which lies in front of the end record at `end`. */
static bool find_end64(const attn_file *file, uint64_t end, directory *d, uint64_t *start)
{
    static const unsigned char locator_widths[] = {4, 4, 8, 4};
    static const unsigned char end64_widths[] = {4, 8, 2, 2, 4, 4, 8, 8, 8, 8};
    uint64_t l[4], e[10];
    attn__bytes b = attn__bytes_over(file->bytes, file->size, 0);

    if (end < LOCATOR64_SIZE + END64_SIZE || !attn__bytes_seek(&b, end - LOCATOR64_SIZE) ||
        !read_fields(&b, locator_widths, 4, l) || l[0] != LOCATOR64_MARK || l[1] != 0 || l[3] != 1)
        return false;
    *start = end - LOCATOR64_SIZE - END64_SIZE;
    if (l[2] != *start || !attn__bytes_seek(&b, *start) || !read_fields(&b, end64_widths, 10, e))
        return false;
    if (e[0] != END64_MARK || e[1] != END64_SIZE - 12 || e[4] != 0 || e[5] != 0 || e[6] != e[7])
        return false;
    *d = (directory){.at = e[9], .size = e[8], .entries = e[6]};
    return true;
}

/* Finds the directory from the last 22 bytes, which must be the end record without a comment, and
 * checks that it fills the file up to there. */
static attn_status find_directory(const attn_file *file, directory *d, attn_error *err)
{
    static const unsigned char widths[] = {4, 2, 2, 2, 2, 4, 4, 2};
    uint64_t f[8], end, start;
    attn__bytes b = attn__bytes_over(file->bytes, file->size, 0);

    if (file->size < END_SIZE || !attn__bytes_seek(&b, file->size - END_SIZE) ||
        !read_fields(&b, widths, 8, f) || f[0] != END_MARK)
        return refuse(file->size, "no end record at the end; cut off, or a comment or bytes follow",
                      err);
    start = end = file->size - END_SIZE;
    if (f[7] != 0)
        return refuse(end, "the archive has a comment", err);
    if (f[1] != 0 || f[2] != 0 || f[3] != f[4])
        return refuse(end, "the archive is split over several files", err);
    *d = (directory){.at = f[6], .size = f[5], .entries = f[4]};
    if ((d->at == UINT32_MAX || d->size == UINT32_MAX || d->entries == UINT16_MAX) &&
        !find_end64(file, end, d, &start))
        return refuse(end, "no 64-bit end record where there must be one", err);
    if (d->at > start || d->size != start - d->at)
        return refuse(end, "the directory does not end where the end record begins", err);
    if (d->entries > d->size / ENTRY_SIZE)
        return refuse(end, "more members than the directory has room for", err);
    return ATTN_OK;
}

/* --- Reading: members ----------------------------------------------------------------------- */

typedef struct member {
    const char *name; /* libzip's, with .npy */
    uint64_t size, packed, at;
    bool stored;
} member;

typedef struct reader {
    attn_file *file;
    zip_t *zip;
    window window;
    member *members;
    unsigned char *buffer; /* for bytes that are only checked */
    attn_error *err;
} reader;

enum { BUFFER = 1 << 16 };

static attn_status fail_zip(const reader *r, zip_error_t *why, const char *name)
{
    int code = zip_error_code_zip(why);

    if (code == ZIP_ER_MEMORY)
        return attn__fail(r->err, ATTN_E_MEMORY, 0, "npz: '%.64s'", name);
    return attn__fail(r->err, ATTN_E_FORMAT, r->window.first, "npz: '%.64s': %s", name,
                      zip_error_strerror(why));
}

/* "a/b.npy" is the tensor "a/b". */
static bool strip_ending(const char *name, char *out, size_t *length)
{
    static const char ending[] = ".npy";
    size_t tail = sizeof ending - 1, n = strlen(name);

    if (n <= tail || strcmp(name + (n - tail), ending) != 0)
        return false;
    *length = n - tail;
    memcpy(out, name, n - tail);
    out[n - tail] = '\0';
    return true;
}

/* Name, sizes and method of all members; sums up what they need. */
static attn_status list_members(reader *r, size_t count, size_t *text_size)
{
    uint64_t inflated = 0;
    size_t taken = END_SIZE;

    *text_size = 0;
    for (size_t i = 0; i < count; i++) {
        const uint64_t wanted = ZIP_STAT_NAME | ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE |
                                ZIP_STAT_COMP_METHOD | ZIP_STAT_ENCRYPTION_METHOD;
        member *m = &r->members[i];
        zip_stat_t s;

        if (zip_stat_index(r->zip, i, ZIP_FL_ENC_RAW, &s) != 0 || (s.valid & wanted) != wanted)
            return attn__fail(r->err, ATTN_E_FORMAT, 0, "npz: member %zu has no name or size", i);
        *m = (member){s.name, s.size, s.comp_size, 0, s.comp_method == ZIP_CM_STORE};
        if (!attn__name_is_member(s.name))
            return attn__fail(r->err, ATTN_E_FORMAT, 0, "npz: '%.64s' is not a plain name", s.name);
        if (s.encryption_method != ZIP_EM_NONE)
            return attn__fail(r->err, ATTN_E_FORMAT, 0, "npz: '%.64s' is encrypted", s.name);
        if (!m->stored && s.comp_method != ZIP_CM_DEFLATE)
            return attn__fail(r->err, ATTN_E_FORMAT, 0,
                              "npz: '%.64s' uses method %u; stored and deflated are read", s.name,
                              (unsigned)s.comp_method);
        if (m->stored && m->size != m->packed)
            return attn__fail(r->err, ATTN_E_FORMAT, 0, "npz: '%.64s' is stored with two sizes",
                              s.name);
        /* Deflate makes at most 1032 bytes out of one: a larger claim is not worth memory. */
        if (m->packed > r->file->size || m->size / 1032 > m->packed)
            return attn__fail(r->err, ATTN_E_FORMAT, 0, "npz: '%.64s' claims an impossible size",
                              s.name);
        if (!m->stored && m->size > r->file->options.max_inflate - inflated)
            return attn__fail(r->err, ATTN_E_FORMAT, 0,
                              "npz: the members inflate to more than %llu bytes",
                              (unsigned long long)r->file->options.max_inflate);
        inflated += m->stored ? 0 : m->size;
        /* Before anything is read, so that many entries for the same bytes cost no time. */
        if (!attn__add(taken, (size_t)m->packed, &taken) ||
            !attn__add(taken, LOCAL_SIZE + ENTRY_SIZE + 2 * strlen(s.name), &taken) ||
            taken > r->file->size)
            return attn__fail(r->err, ATTN_E_FORMAT, 0,
                              "npz: the members take more bytes than the file has");
        *text_size += strlen(s.name); /* less than what has just been counted */
    }
    return ATTN_OK;
}

/* Reads all of an opened member: a deflated one into `to`, a stored one only for its checksum. */
static attn_status drain(reader *r, const member *m, zip_file_t *f, unsigned char *to)
{
    uint64_t done = 0;
    zip_int64_t n;

    while (done < m->size) {
        uint64_t left = m->size - done;

        if (to)
            n = zip_fread(f, to + done, left);
        else
            n = zip_fread(f, r->buffer, left < BUFFER ? left : BUFFER);
        if (n < 0)
            return fail_zip(r, zip_file_get_error(f), m->name);
        if (n == 0)
            return attn__fail(r->err, ATTN_E_FORMAT, r->window.first,
                              "npz: '%.64s' is shorter than the archive says", m->name);
        done += (uint64_t)n;
    }
    /* The end must be here. libzip compares the checksum when it finds it. */
    n = zip_fread(f, r->buffer, 1);
    if (n < 0)
        return fail_zip(r, zip_file_get_error(f), m->name);
    if (n > 0)
        return attn__fail(r->err, ATTN_E_FORMAT, r->window.first,
                          "npz: '%.64s' is longer than the archive says", m->name);
    return ATTN_OK;
}

/* Makes the tensor of member i, whose bytes have been checked. */
static attn_status parse_member(reader *r, size_t i)
{
    attn_file *file = r->file;
    const member *m = &r->members[i];
    attn_tensor *t = &file->tensors[i];
    const unsigned char *bytes = m->stored ? file->bytes + m->at : file->blocks[i];
    size_t data_at, data_size;
    attn_error why;
    attn_status st;

    st = attn__npy_parse(bytes, (size_t)m->size, m->stored ? m->at : 0, false, t, &data_at,
                         &data_size, &why);
    if (st != ATTN_OK)
        return attn__fail(r->err, st, why.offset, "npz: '%.64s': %s", m->name, why.text);
    if (m->stored || data_size == 0)
        return attn__file_place(file, t, bytes + data_at, data_size, r->err);
    if (data_at % attn_type_size(t->type) != 0) { /* a header of odd length: data to the front */
        memmove(file->blocks[i], bytes + data_at, data_size);
        data_at = 0;
    }
    t->data = (unsigned char *)file->blocks[i] + data_at;
    return ATTN_OK;
}

static attn_status read_member(reader *r, size_t i)
{
    attn_file *file = r->file;
    member *m = &r->members[i];
    zip_file_t *f;
    attn_status st;

    if (!m->stored) {
        file->blocks[i] = attn__alloc(file->ctx, (size_t)m->size);
        if (!file->blocks[i])
            return attn__fail(r->err, ATTN_E_MEMORY, 0, "npz: '%.64s', %llu bytes", m->name,
                              (unsigned long long)m->size);
    }
    f = zip_fopen_index(r->zip, i, 0);
    if (!f)
        return fail_zip(r, zip_get_error(r->zip), m->name);
    r->window.seen = r->window.broken = false;
    st = drain(r, m, f, file->blocks[i]);
    zip_fclose(f);
    if (st != ATTN_OK)
        return st;
    m->at = r->window.first;
    if (!r->window.seen || r->window.broken || r->window.last - m->at > m->packed)
        return refuse(m->at, "a member without bytes of its own", r->err);
    return parse_member(r, i);
}

static int compare_places(const void *a, const void *b)
{
    const member *x = a, *y = b;

    return x->at < y->at ? -1 : x->at > y->at;
}

/* Steps over one local header and its data. The header's name must be the whole name libzip gave,
 * which is a C string and would hide what follows a NUL. */
static attn_status step_over(attn__bytes *b, const member *m, attn_error *err)
{
    static const unsigned char widths[] = {4, 2, 2, 2, 2, 2, 4, 4, 4, 2, 2};
    uint64_t f[11];
    size_t n = strlen(m->name);
    const unsigned char *name;

    if (!read_fields(b, widths, 11, f) || f[0] != LOCAL_MARK)
        return refuse(attn__bytes_offset(b), "gap or overlap: no member header here", err);
    if (f[2] & FLAG_DESCRIPTOR)
        return refuse(attn__bytes_offset(b),
                      "sizes behind the data (written to a pipe) are not read", err);
    if (f[2] & ~(uint64_t)(FLAGS_LEVEL | FLAG_UTF8))
        return refuse(attn__bytes_offset(b), "encryption and patches are not read", err);
    name = attn__bytes_take(b, f[9]);
    if (!name || f[9] != n || memcmp(name, m->name, n) != 0)
        return refuse(attn__bytes_offset(b), "two names for one member", err);
    if (!attn__bytes_take(b, f[10]) || attn__bytes_offset(b) != m->at ||
        !attn__bytes_take(b, m->packed))
        return refuse(attn__bytes_offset(b), "members overlap", err);
    return ATTN_OK;
}

/* Members from byte 0 on without gaps, the directory right behind the last. */
static attn_status check_layout(reader *r, size_t count, const directory *d)
{
    attn__bytes b = attn__bytes_over(r->file->bytes, r->file->size, 0);
    attn_status st;

    if (count > 1)
        qsort(r->members, count, sizeof *r->members, compare_places);
    for (size_t i = 0; i < count; i++)
        if ((st = step_over(&b, &r->members[i], r->err)) != ATTN_OK)
            return st;
    if (attn__bytes_offset(&b) != d->at)
        return refuse(attn__bytes_offset(&b), "bytes between the last member and the directory",
                      r->err);
    return ATTN_OK;
}

static attn_status read_archive(reader *r, const directory *d)
{
    zip_int64_t entries = zip_get_num_entries(r->zip, 0);
    size_t count = (size_t)entries, text_size, bytes;
    char *text;
    attn_status st;

    if (entries < 0 || (uint64_t)entries != d->entries)
        return refuse(d->at, "the end record and the directory count differently", r->err);
    r->buffer = attn__alloc(r->file->ctx, BUFFER);
    if (attn__mul(count, sizeof *r->members, &bytes))
        r->members = attn__alloc(r->file->ctx, bytes);
    if (!r->buffer || !r->members)
        return attn__fail(r->err, ATTN_E_MEMORY, 0, "list of %zu members", count);
    if ((st = list_members(r, count, &text_size)) != ATTN_OK)
        return st;
    if ((st = attn__file_reserve(r->file, count, text_size, r->err)) != ATTN_OK)
        return st;
    text = r->file->text;
    for (size_t i = 0; i < count; i++) {
        size_t length;

        if (!strip_ending(r->members[i].name, text, &length))
            return attn__fail(r->err, ATTN_E_FORMAT, 0, "npz: '%.64s' is not a .npy file",
                              r->members[i].name);
        r->file->tensors[i].name = text;
        text += length + 1;
        if ((st = read_member(r, i)) != ATTN_OK)
            return st;
    }
    return check_layout(r, count, d);
}

attn_status attn__npz_read(attn_file *file, attn_error *err)
{
    reader r = {.file = file, .err = err};
    zip_source_t *source = NULL;
    zip_error_t why;
    directory d = {0, 0, 0};
    attn_status st;

    if ((st = find_directory(file, &d, err)) != ATTN_OK)
        return st;
    if (d.entries > file->options.max_members)
        return refuse(file->size - END_SIZE, "more members than options.max_members", err);
    r.window.bytes = file->bytes;
    r.window.size = file->size;
    r.window.opening = true;
    zip_error_init(&r.window.error);
    zip_error_init(&why);
    source = zip_source_function_create(window_serve, &r.window, &why);
    if (source)
        r.zip = zip_open_from_source(source, ZIP_RDONLY | ZIP_CHECKCONS, &why);
    r.window.opening = false;
    if (r.zip) {
        st = read_archive(&r, &d);
        zip_discard(r.zip); /* and the source with it */
    } else {
        st = fail_zip(&r, &why, "archive");
        zip_source_free(source);
    }
    zip_error_fini(&why);
    zip_error_fini(&r.window.error);
    attn__free(file->ctx, r.members);
    attn__free(file->ctx, r.buffer);
    return st;
}

/* --- Writing -------------------------------------------------------------------------------- */

/* What the directory repeats of a member. */
typedef struct written {
    uint64_t header_at, size;
    uint32_t crc;
} written;

enum {
    VERSION = 45,         /* 4.5: 64-bit fields */
    DATE = 1 << 5 | 1,    /* 1 January 1980, so that equal tensors make equal files */
    ZIP64_EXTRA = 1,      /* kinds of extra field */
    ALIGN_EXTRA = 0xd935, /* Android's, for the same purpose: u16 alignment, then zeros */
    ALIGN = 64,
    MAX_NAME = ATTN__MAX_NAME + 4 /* with .npy */
};

static void add_crc(void *arg, const void *bytes, size_t size)
{
    uLong *crc = arg;

    *crc = crc32_z(*crc, bytes, size);
}

/* The fields that header and directory entry have in common, from the version needed to the length
 * of the extra field. */
static unsigned char *put_common(unsigned char *p, const written *w, size_t name, size_t extra)
{
    p = attn__put_le(p, VERSION, 2);
    p = attn__put_le(p, FLAG_UTF8, 2);
    p = attn__put_le(p, ZIP_CM_STORE, 2);
    p = attn__put_le(p, 0, 2);
    p = attn__put_le(p, DATE, 2);
    p = attn__put_le(p, w->crc, 4);
    p = attn__put_le(p, UINT32_MAX, 4); /* both sizes are in the extra field */
    p = attn__put_le(p, UINT32_MAX, 4);
    p = attn__put_le(p, name + 4, 2);
    return attn__put_le(p, extra, 2);
}

static unsigned char *put_name(unsigned char *p, const char *name, size_t length)
{
    memcpy(p, name, length);
    memcpy(p + length, ".npy", 4);
    return p + length + 4;
}

static attn_status put_member(attn__sink *sink, const attn_tensor *t, written *w, attn_error *err)
{
    enum { SIZES = 20, LEAD = 6 };
    unsigned char head[LOCAL_SIZE + MAX_NAME + SIZES + LEAD + ALIGN], npy[ATTN__NPY_HEADER], *p;
    size_t name = strlen(t->name), npy_size = attn__npy_header(t, npy), total, pad;
    uLong crc = crc32(0, Z_NULL, 0);

    if (!attn__add(npy_size, attn__tensor_bytes(t), &total))
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "tensor '%.64s' is larger than any file",
                          t->name);
    add_crc(&crc, npy, npy_size);
    attn__gather(t, add_crc, &crc);
    *w = (written){sink->total, total, (uint32_t)crc};

    /* Zeros so that the .npy file, and with it the data, starts at a multiple of 64. */
    pad = (size_t)(ALIGN - (sink->total + LOCAL_SIZE + name + 4 + SIZES + LEAD) % ALIGN) % ALIGN;
    p = attn__put_le(head, LOCAL_MARK, 4);
    p = put_common(p, w, name, SIZES + LEAD + pad);
    p = put_name(p, t->name, name);
    p = attn__put_le(p, ZIP64_EXTRA, 2);
    p = attn__put_le(p, SIZES - 4, 2);
    p = attn__put_le(p, total, 8);
    p = attn__put_le(p, total, 8);
    p = attn__put_le(p, ALIGN_EXTRA, 2);
    p = attn__put_le(p, LEAD - 4 + pad, 2);
    p = attn__put_le(p, ALIGN, 2);
    memset(p, 0, pad);
    p += pad;
    attn__sink_put(sink, head, (size_t)(p - head));
    attn__sink_put(sink, npy, npy_size);
    attn__gather(t, attn__sink_put, sink);
    return ATTN_OK;
}

static void put_entry(attn__sink *sink, const attn_tensor *t, const written *w)
{
    enum { EXTRA = 28 };
    unsigned char entry[ENTRY_SIZE + MAX_NAME + EXTRA], *p;
    size_t name = strlen(t->name);

    p = attn__put_le(entry, ENTRY_MARK, 4);
    p = attn__put_le(p, VERSION, 2);
    p = put_common(p, w, name, EXTRA);
    p = attn__put_le(p, 0, 2);          /* no comment */
    p = attn__put_le(p, 0, 8);          /* disk 0, no attributes */
    p = attn__put_le(p, UINT32_MAX, 4); /* the place is in the extra field */
    p = put_name(p, t->name, name);
    p = attn__put_le(p, ZIP64_EXTRA, 2);
    p = attn__put_le(p, EXTRA - 4, 2);
    p = attn__put_le(p, w->size, 8);
    p = attn__put_le(p, w->size, 8);
    p = attn__put_le(p, w->header_at, 8);
    attn__sink_put(sink, entry, (size_t)(p - entry));
}

static void put_end(attn__sink *sink, uint64_t directory_at, uint64_t count)
{
    unsigned char end[END64_SIZE + LOCATOR64_SIZE + END_SIZE], *p;
    uint64_t at = sink->total;

    p = attn__put_le(end, END64_MARK, 4);
    p = attn__put_le(p, END64_SIZE - 12, 8); /* of what follows */
    p = attn__put_le(p, VERSION, 2);
    p = attn__put_le(p, VERSION, 2);
    p = attn__put_le(p, 0, 8); /* disks */
    p = attn__put_le(p, count, 8);
    p = attn__put_le(p, count, 8);
    p = attn__put_le(p, at - directory_at, 8);
    p = attn__put_le(p, directory_at, 8);

    p = attn__put_le(p, LOCATOR64_MARK, 4);
    p = attn__put_le(p, 0, 4);
    p = attn__put_le(p, at, 8);
    p = attn__put_le(p, 1, 4);

    p = attn__put_le(p, END_MARK, 4);
    p = attn__put_le(p, 0, 4);
    p = attn__put_le(p, UINT32_MAX, 4); /* both counts: see the 64-bit record */
    p = attn__put_le(p, UINT32_MAX, 4);
    p = attn__put_le(p, UINT32_MAX, 4);
    p = attn__put_le(p, 0, 2);
    attn__sink_put(sink, end, (size_t)(p - end));
}

attn_status attn__npz_write(attn__sink *sink, const attn__job *job, attn_error *err)
{
    written *list = NULL;
    uint64_t directory_at;
    attn_status st = ATTN_OK;
    size_t bytes;

    if (attn__mul(job->count, sizeof *list, &bytes))
        list = attn__alloc(job->ctx, bytes);
    if (!list)
        return attn__fail(err, ATTN_E_MEMORY, 0, "list of %zu members", job->count);
    for (size_t i = 0; i < job->count && st == ATTN_OK; i++)
        st = put_member(sink, &job->tensors[i], &list[i], err);
    directory_at = sink->total;
    for (size_t i = 0; i < job->count && st == ATTN_OK; i++)
        put_entry(sink, &job->tensors[i], &list[i]);
    put_end(sink, directory_at, job->count);
    attn__free(job->ctx, list);
    return st;
}
