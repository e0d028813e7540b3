/* npy.c: the .npy format of NumPy (NEP 1, versions 1.0, 2.0 and 3.0).
 *
 *     "\x93NUMPY"  major  minor  header length (u16 in version 1, u32 after)  header  data
 *
 * The header is a Python dictionary as text, {'descr': '<f4', 'fortran_order': False, 'shape': (3,
 * 4), }, blanks and a newline. NumPy evaluates it as Python; this reader knows one small grammar in
 * which every key comes exactly once, and nothing else. */
#include "src/io/npy.h"

#include "src/base/bytes.h"
#include "src/base/error.h"
#include "src/io/file.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* More than any header NumPy writes for a plain type; its own limit is 10,000 characters. */
enum { MAX_HEADER = 65536, MAGIC = 6 };

static const char magic[] = "\x93NUMPY";

/* The types read and written. One table for both directions; bf16 has no name in NumPy. */
static const struct {
    const char *name; /* without the byte order */
    attn_type type;
} types[] = {
    {"f4", ATTN_F32}, {"f2", ATTN_F16}, {"f8", ATTN_F64}, {"u1", ATTN_U8},
    {"i1", ATTN_I8},  {"u2", ATTN_U16}, {"i2", ATTN_I16}, {"u4", ATTN_U32},
    {"i4", ATTN_I32}, {"u8", ATTN_U64}, {"i8", ATTN_I64}, {"b1", ATTN_BOOL},
};
enum { TYPES = sizeof types / sizeof *types };

typedef struct parser {
    attn__bytes text;
    attn_tensor *tensor;
    bool fortran;
    attn_error *err;
} parser;

static attn_status refuse(const parser *p, const char *rule)
{
    return attn__fail(p->err, ATTN_E_FORMAT, attn__bytes_offset(&p->text), "npy header: %s", rule);
}

static void skip_blanks(parser *p)
{
    while (attn__bytes_peek(&p->text) == ' ')
        attn__bytes_take(&p->text, 1);
}

/* Steps over the character c, with blanks before it, if it is next. */
static bool accept(parser *p, char c)
{
    skip_blanks(p);
    if (attn__bytes_peek(&p->text) != (unsigned char)c)
        return false;
    attn__bytes_take(&p->text, 1);
    return true;
}

static bool accept_word(parser *p, const char *word)
{
    attn__bytes ahead = p->text;
    size_t n = strlen(word);
    const unsigned char *s = attn__bytes_take(&ahead, n);

    if (!s || memcmp(s, word, n) != 0)
        return false;
    p->text = ahead;
    return true;
}

/* A quoted string of printable ASCII without escapes, shorter than `size`. */
static bool parse_string(parser *p, char *out, size_t size)
{
    int quote, c;
    size_t n = 0;

    skip_blanks(p);
    quote = attn__bytes_peek(&p->text);
    if (quote != '\'' && quote != '"')
        return false;
    attn__bytes_take(&p->text, 1);
    while ((c = attn__bytes_peek(&p->text)) != quote) {
        if (c < 0x20 || c >= 0x7f || c == '\\' || n + 1 >= size)
            return false;
        out[n++] = (char)c;
        attn__bytes_take(&p->text, 1);
    }
    attn__bytes_take(&p->text, 1);
    out[n] = '\0';
    return true;
}

static attn_status parse_descr(parser *p)
{
    char descr[16];

    skip_blanks(p);
    if (attn__bytes_peek(&p->text) == '[')
        return refuse(p, "structured types are not read, only plain numbers");
    if (!parse_string(p, descr, sizeof descr))
        return refuse(p, "descr must be a short string such as '<f4'");
    if (strcmp(descr, "|O") == 0 || strcmp(descr, "O") == 0)
        return refuse(p, "the array holds Python objects, which are never read");
    for (size_t i = 0; i < TYPES; i++) {
        bool single = attn_type_size(types[i].type) == 1;

        if (strcmp(descr + (descr[0] != '\0'), types[i].name) != 0)
            continue;
        if (descr[0] == '>' && !single)
            return refuse(p,
                          "big-endian numbers are not read; save with .astype('<f4') or the like");
        if (descr[0] != '<' && (descr[0] != '|' || !single))
            break;
        p->tensor->type = types[i].type;
        return ATTN_OK;
    }
    return attn__fail(p->err, ATTN_E_FORMAT, attn__bytes_offset(&p->text),
                      "npy header: type '%s' is not read; f2 f4 f8 i1 i2 i4 i8 u1 u2 u4 u8 b1 are",
                      descr);
}

static attn_status parse_fortran_order(parser *p)
{
    skip_blanks(p);
    if (accept_word(p, "True"))
        p->fortran = true;
    else if (accept_word(p, "False"))
        p->fortran = false;
    else
        return refuse(p, "fortran_order must be True or False");
    return ATTN_OK;
}

/* Plain decimal digits without a leading zero, at most ATTN__MAX_DIM. */
static attn_status parse_dimension(parser *p, int64_t *out)
{
    int64_t v = 0;
    int digits = 0, c;

    skip_blanks(p);
    while ((c = attn__bytes_peek(&p->text)) >= '0' && c <= '9') {
        if (digits > 0 && v == 0)
            return refuse(p, "a dimension has a leading zero");
        v = v * 10 + (c - '0'); /* v is at most 2^48 here */
        if (v > ATTN__MAX_DIM)
            return refuse(p, "a dimension is larger than 2^48");
        digits++;
        attn__bytes_take(&p->text, 1);
    }
    if (digits == 0)
        return refuse(p, "shape must be a tuple of plain decimal numbers");
    *out = v;
    return ATTN_OK;
}

static attn_status parse_shape(parser *p)
{
    attn_tensor *t = p->tensor;
    bool comma = true;
    attn_status st;

    if (!accept(p, '('))
        return refuse(p, "shape must be a tuple");
    t->rank = 0;
    while (!accept(p, ')')) {
        if (!comma)
            return refuse(p, "shape must be a tuple of plain decimal numbers");
        if (t->rank == ATTN_MAX_RANK)
            return refuse(p, "more than 8 dimensions");
        if ((st = parse_dimension(p, &t->size[t->rank])) != ATTN_OK)
            return st;
        t->rank++;
        comma = accept(p, ',');
    }
    if (t->rank == 1 && !comma)
        return refuse(p, "a tuple of one number needs a comma");
    return ATTN_OK;
}

static attn_status parse_dictionary(parser *p)
{
    static const struct {
        const char *name;
        attn_status (*parse)(parser *);
    } keys[] = {
        {"descr", parse_descr},
        {"fortran_order", parse_fortran_order},
        {"shape", parse_shape},
    };
    enum { KEYS = sizeof keys / sizeof *keys };
    bool seen[KEYS] = {false}, comma = true;
    attn_status st;

    if (attn__bytes_peek(&p->text) != '{')
        return refuse(p, "must start with '{'");
    accept(p, '{');
    while (!accept(p, '}')) {
        char name[16];
        size_t k = 0;

        if (!comma || !parse_string(p, name, sizeof name))
            return refuse(p, "expected a key, a comma or '}'");
        while (k < KEYS && strcmp(name, keys[k].name) != 0)
            k++;
        if (k == KEYS || seen[k])
            return refuse(p, "keys must be descr, fortran_order and shape, each once");
        seen[k] = true;
        if (!accept(p, ':'))
            return refuse(p, "expected ':' after a key");
        if ((st = keys[k].parse(p)) != ATTN_OK)
            return st;
        comma = accept(p, ',');
    }
    for (size_t k = 0; k < KEYS; k++)
        if (!seen[k])
            return refuse(p, "keys must be descr, fortran_order and shape, each once");
    skip_blanks(p);
    if (!accept_word(p, "\n") || attn__bytes_left(&p->text) > 0)
        return refuse(p, "must end with blanks and one newline");
    return ATTN_OK;
}

/* Cuts the header text out of the file and leaves `file` at the data. */
static attn_status find_header(attn__bytes *file, attn__bytes *header, attn_error *err)
{
    const unsigned char *mark = attn__bytes_take(file, MAGIC), *text;
    uint64_t major, minor, length, at;

    if (!mark || memcmp(mark, magic, MAGIC) != 0)
        return attn__fail(err, ATTN_E_FORMAT, file->base, "not a .npy file: no NUMPY mark");
    if (!attn__bytes_le(file, 1, &major) || !attn__bytes_le(file, 1, &minor))
        return attn__fail(err, ATTN_E_FORMAT, attn__bytes_offset(file),
                          "npy: cut off in the version");
    if (major < 1 || major > 3 || minor != 0)
        return attn__fail(err, ATTN_E_FORMAT, attn__bytes_offset(file),
                          "npy: version %u.%u; 1.0, 2.0 and 3.0 are read", (unsigned)major,
                          (unsigned)minor);
    if (!attn__bytes_le(file, major == 1 ? 2 : 4, &length))
        return attn__fail(err, ATTN_E_FORMAT, attn__bytes_offset(file),
                          "npy: cut off in the header length");
    at = attn__bytes_offset(file);
    if (length > MAX_HEADER)
        return attn__fail(err, ATTN_E_FORMAT, at,
                          "npy: a header of %" PRIu64 " bytes; the limit is %d", length,
                          MAX_HEADER);
    text = attn__bytes_take(file, length);
    if (!text)
        return attn__fail(err, ATTN_E_FORMAT, at,
                          "npy: the header reaches past the end of the file");
    *header = attn__bytes_over(text, (size_t)length, at);
    return ATTN_OK;
}

attn_status attn__npy_parse(const unsigned char *bytes, size_t size, uint64_t base, bool trailing,
                            attn_tensor *tensor, size_t *data_at, size_t *data_size,
                            attn_error *err)
{
    attn__bytes file = attn__bytes_over(bytes, size, base);
    parser p = {.tensor = tensor, .err = err};
    attn_status st;

    if ((st = find_header(&file, &p.text, err)) != ATTN_OK)
        return st;
    if ((st = parse_dictionary(&p)) != ATTN_OK)
        return st;
    *data_at = file.at;
    if (!attn__layout(tensor, p.fortran, data_size))
        return attn__fail(err, ATTN_E_FORMAT, attn__bytes_offset(&file),
                          "npy: the shape is larger than any memory");
    if (attn__bytes_left(&file) < *data_size)
        return attn__fail(err, ATTN_E_FORMAT, attn__bytes_offset(&file),
                          "npy: the shape takes %zu bytes, the file has %zu", *data_size,
                          attn__bytes_left(&file));
    if (attn__bytes_left(&file) > *data_size && !trailing)
        return attn__fail(err, ATTN_E_FORMAT, attn__bytes_offset(&file),
                          "npy: %zu bytes follow the data", attn__bytes_left(&file) - *data_size);
    return ATTN_OK;
}

attn_status attn__npy_read(attn_file *file, attn_error *err)
{
    size_t at, size;
    attn_status st;

    if ((st = attn__file_reserve(file, 1, 1, err)) != ATTN_OK)
        return st;
    file->tensors[0].name = file->text;
    st = attn__npy_parse(file->bytes, file->size, 0, file->options.allow_trailing != 0,
                         &file->tensors[0], &at, &size, err);
    if (st != ATTN_OK)
        return st;
    return attn__file_place(file, &file->tensors[0], file->bytes + at, size, err);
}

attn_status attn__npy_check(const attn_tensor *tensor, attn_error *err)
{
    for (size_t i = 0; i < TYPES; i++)
        if (types[i].type == tensor->type)
            return ATTN_OK;
    return attn__fail(
        err, ATTN_E_ARGUMENT, 0,
        "NumPy files cannot hold %s (tensor '%.64s'); write .safetensors or convert to f32",
        attn_type_name(tensor->type), tensor->name ? tensor->name : "");
}

size_t attn__npy_header(const attn_tensor *tensor, unsigned char out[ATTN__NPY_HEADER])
{
    enum { PREFIX = MAGIC + 4, ALIGN = 64 };
    char text[ATTN__NPY_HEADER - PREFIX];
    size_t i = 0, n, total;

    while (types[i].type != tensor->type)
        i++;
    /* No conversion here looks at the locale: only the ' flag would group digits. */
    n = (size_t)snprintf(text, sizeof text, "{'descr': '%c%s', 'fortran_order': False, 'shape': (",
                         attn_type_size(tensor->type) == 1 ? '|' : '<', types[i].name);
    for (int d = 0; d < tensor->rank; d++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%" PRId64, d ? ", " : "",
                              tensor->size[d]);
    n += (size_t)snprintf(text + n, sizeof text - n, "%s), }", tensor->rank == 1 ? "," : "");

    total = (PREFIX + n + 1 + ALIGN - 1) / ALIGN * ALIGN; /* the newline comes last */
    memset(out, ' ', total);
    memcpy(out, magic, MAGIC);
    out[MAGIC] = 1;
    out[MAGIC + 1] = 0;
    attn__put_le(out + MAGIC + 2, total - PREFIX, 2);
    memcpy(out + PREFIX, text, n);
    out[total - 1] = '\n';
    return total;
}
