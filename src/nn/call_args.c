/* call_args.c: see call_args.h. */
#include "src/nn/call_args.h"

#include "src/base/error.h"
#include "src/base/mem.h"

#include <string.h>

attn_status attn__take_struct(void *to, size_t known, const void *from, const char *what,
                              attn_error *err)
{
    size_t size = 0;

    if (!from)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s: NULL", what);
    memcpy(&size, from, sizeof size);
    if (size < sizeof size || size > 1 << 16)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s.struct_size: %zu; use the _INIT macro", what,
                          size);
    for (size_t i = known; i < size; i++)
        if (((const char *)from)[i] != 0)
            return attn__fail(err, ATTN_E_ARGUMENT, 0,
                              "%s: has fields that this version does not know", what);
    memset(to, 0, known);
    memcpy(to, from, attn__min(size, known));
    return ATTN_OK;
}

attn_status attn__take_args(void *to, size_t known, const void *from, const attn_ctx *ctx,
                            attn_error *err)
{
    if (!ctx)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "ctx: NULL");
    return attn__take_struct(to, known, from, "args", err);
}

bool attn__is_there(const attn_view *v)
{
    return v->data || v->size[0] || v->size[1] || v->size[2] || v->size[3];
}

attn_status attn__open_shape(attn__shape *s, const attn_ctx *ctx, const attn_view *x,
                             const char *what, attn_error *err)
{
    if (x->type != ATTN_F32 && x->type != ATTN_F64)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s: type %s, expected f32 or f64", what,
                          attn_type_name(x->type));
    if (x->size[2] < 0 || x->size[3] < 1)
        return attn__fail(err, ATTN_E_SHAPE, 0, "%s: %lld rows of %lld", what,
                          (long long)x->size[2], (long long)x->size[3]);
    *s = (attn__shape){ctx, x->type == ATTN_F64, (size_t)x->size[2], (size_t)x->size[3]};
    return ATTN_OK;
}

attn_status attn__take_rows(const attn__shape *s, const attn_view *v, size_t rows, size_t cols,
                            bool optional, const char *what, attn__rows *to, attn_error *err)
{
    *to = (attn__rows){NULL, 0};
    if (optional && !attn__is_there(v))
        return ATTN_OK;
    if (v->type != (s->f64 ? ATTN_F64 : ATTN_F32))
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s: type %s in a call of %s", what,
                          attn_type_name(v->type), s->f64 ? "f64" : "f32");
    if (v->size[0] != 1 || v->size[1] != 1 || v->size[2] != (int64_t)rows ||
        v->size[3] != (int64_t)cols)
        return attn__fail(err, ATTN_E_SHAPE, 0,
                          "%s: shape [%lld, %lld, %lld, %lld], expected [1, 1, %zu, %zu]", what,
                          (long long)v->size[0], (long long)v->size[1], (long long)v->size[2],
                          (long long)v->size[3], rows, cols);
    if (cols > 1 && v->stride[3] != 1)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s: columns are not adjacent", what);
    if (!v->data && rows > 0)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s: no data", what);
    *to = (attn__rows){v->data, (ptrdiff_t)v->stride[2]};
    return ATTN_OK;
}

attn_status attn__take_vector(const attn__shape *s, const attn_view *v, size_t n, bool optional,
                              const char *what, void **to, attn_error *err)
{
    attn__rows rows;

    TRY(attn__take_rows(s, v, 1, n, optional, what, &rows, err));
    *to = rows.data;
    return ATTN_OK;
}

attn_status attn__check_heads(const attn__shape *s, const attn_view *v, int64_t heads, int64_t rows,
                              int64_t width, const char *what, attn_error *err)
{
    if (v->type != (s->f64 ? ATTN_F64 : ATTN_F32))
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s: type %s in a call of %s", what,
                          attn_type_name(v->type), s->f64 ? "f64" : "f32");
    if (v->size[0] != 1 || v->size[1] != heads || v->size[2] != rows || v->size[3] != width)
        return attn__fail(err, ATTN_E_SHAPE, 0,
                          "%s: shape [%lld, %lld, %lld, %lld], expected [1, %lld, %lld, %lld]",
                          what, (long long)v->size[0], (long long)v->size[1], (long long)v->size[2],
                          (long long)v->size[3], (long long)heads, (long long)rows,
                          (long long)width);
    if (width > 1 && v->stride[3] != 1)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s: columns are not adjacent", what);
    if (!v->data && heads > 0 && rows > 0 && width > 0)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s: no data", what);
    return ATTN_OK;
}

attn_status attn__check_starts(const int64_t *starts, int64_t segments, int64_t rows,
                               const char *what, attn_error *err)
{
    if (!starts || starts[0] != 0)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s: NULL, or does not begin with 0", what);
    for (int64_t i = 0; i < segments; i++)
        if (starts[i + 1] < starts[i])
            return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s[%lld]: %lld after %lld", what,
                              (long long)(i + 1), (long long)starts[i + 1], (long long)starts[i]);
    if (starts[segments] != rows)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s[%lld]: %lld, expected the %lld rows", what,
                          (long long)segments, (long long)starts[segments], (long long)rows);
    return ATTN_OK;
}
