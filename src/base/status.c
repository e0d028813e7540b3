/* status.c: texts of statuses and types, and the filling of attn_error. */
#define _POSIX_C_SOURCE 200809L /* strerror_r */

#include "src/base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *attn_status_text(attn_status status)
{
    static const char *const text[] = {
#define ITEM(name, words) [name] = words,
        ATTN_STATUS_LIST(ITEM)
#undef ITEM
    };
    size_t i = (size_t)status;

    return i < sizeof text / sizeof *text ? text[i] : "unknown status";
}

const char *attn_version(void)
{
    return ATTN_VERSION;
}

static const struct {
    size_t size;
    const char *name;
} types[] = {
    [ATTN_F32] = {4, "f32"},   [ATTN_F16] = {2, "f16"}, [ATTN_BF16] = {2, "bf16"},
    [ATTN_F64] = {8, "f64"},   [ATTN_U8] = {1, "u8"},   [ATTN_I8] = {1, "i8"},
    [ATTN_U16] = {2, "u16"},   [ATTN_I16] = {2, "i16"}, [ATTN_U32] = {4, "u32"},
    [ATTN_I32] = {4, "i32"},   [ATTN_U64] = {8, "u64"}, [ATTN_I64] = {8, "i64"},
    [ATTN_BOOL] = {1, "bool"},
};

size_t attn_type_size(attn_type type)
{
    size_t i = (size_t)type;

    return i < sizeof types / sizeof *types ? types[i].size : 0;
}

const char *attn_type_name(attn_type type)
{
    size_t i = (size_t)type;

    return i < sizeof types / sizeof *types ? types[i].name : "?";
}

attn_status attn__fail(attn_error *err, attn_status status, uint64_t offset, const char *format,
                       ...)
{
    va_list args;

    if (!err)
        return status;
    err->status = status;
    err->offset = offset;
    va_start(args, format);
    vsnprintf(err->text, sizeof err->text, format, args);
    va_end(args);
    for (char *p = err->text; *p; p++) {
        unsigned char c = (unsigned char)*p;
        if (c < 0x20 || c >= 0x7f)
            *p = '?';
    }
    return status;
}

attn_status attn__fail_system(attn_error *err, uint64_t offset, const char *what, int code)
{
    char text[128];

    if (strerror_r(code, text, sizeof text) != 0)
        return attn__fail(err, ATTN_E_IO, offset, "%s: error %d", what, code);
    return attn__fail(err, ATTN_E_IO, offset, "%s: %s", what, text);
}

attn_status attn__fail_path(attn_error *err, const char *path, const attn_error *inner)
{
    enum { SHOWN = 100 };
    size_t n = strlen(path);

    return attn__fail(err, inner->status, inner->offset, "%s%s: %s", n > SHOWN ? "..." : "",
                      n > SHOWN ? path + (n - SHOWN) : path, inner->text);
}
