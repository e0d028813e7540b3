/* view.c: where views lie in memory: what of them must hold, whether two meet. */
#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/core/problem.h"

#include <string.h>

enum { MAX_SIZE_BITS = 48 };

bool attn__is_float(attn_type type)
{
    return type == ATTN_F32 || type == ATTN_F16 || type == ATTN_BF16 || type == ATTN_F64;
}

bool attn__present(const attn_view *view)
{
    static const attn_view none;

    return view->data != NULL || memcmp(view->size, none.size, sizeof none.size) != 0;
}

/* First and last byte a view touches; empty views give an empty range. */
static void byte_range(const attn_view *view, uintptr_t *low, uintptr_t *high)
{
    int64_t below = 0, above = 0, size = (int64_t)attn_type_size(view->type);

    *low = *high = (uintptr_t)view->data;
    for (int i = 0; i < 4; i++) {
        int64_t reach;
        if (view->size[i] == 0)
            return;
        reach = (view->size[i] - 1) * view->stride[i];
        if (reach < 0)
            below += reach;
        else
            above += reach;
    }
    *low = (uintptr_t)view->data + (uintptr_t)(below * size);
    *high = (uintptr_t)view->data + (uintptr_t)((above + 1) * size);
}

/* The offsets of a view, in bytes, must be far from wrapping. */
static bool reach_fits(const attn_view *view)
{
    size_t sum = attn_type_size(view->type), reach;

    for (int i = 0; i < 4; i++) {
        uint64_t stride =
            view->stride[i] < 0 ? 0 - (uint64_t)view->stride[i] : (uint64_t)view->stride[i];
        if (view->size[i] <= 1)
            continue;
        if (!attn__mul((size_t)(view->size[i] - 1), stride, &reach) ||
            !attn__mul(reach, attn_type_size(view->type), &reach) || !attn__add(sum, reach, &sum) ||
            sum > (size_t)PTRDIFF_MAX)
            return false;
    }
    return true;
}

static uint64_t magnitude(int64_t x)
{
    return x < 0 ? 0 - (uint64_t)x : (uint64_t)x;
}

/* The axes of a view, smallest stride first. */
static void sort_axes(const attn_view *view, int order[4])
{
    for (int i = 0; i < 4; i++) {
        int j = i;

        for (; j > 0 && magnitude(view->stride[i]) < magnitude(view->stride[order[j - 1]]); j--)
            order[j] = order[j - 1];
        order[j] = i;
    }
}

/* Outputs: from the smallest stride up, each dimension must step over all that those before cover.
 */
static bool overlaps_itself(const attn_view *view)
{
    int order[4];
    uint64_t covered = 1;

    sort_axes(view, order);
    for (int i = 0; i < 4; i++) {
        int64_t size = view->size[order[i]];
        uint64_t stride = magnitude(view->stride[order[i]]);
        if (size <= 1)
            continue;
        if (stride < covered)
            return true;
        covered += (uint64_t)(size - 1) * stride;
    }
    return false;
}

attn_status attn__check_view(const attn_view *view, const char *what, bool output, attn_error *err)
{
    static const char *const axis[] = {"batch", "heads", "rows", "columns"};
    size_t size = attn_type_size(view->type);
    bool empty = false;

    if (size == 0)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s: type %d is not in attn_type", what,
                          (int)view->type);
    for (int i = 0; i < 4; i++) {
        if (view->size[i] < 0 || view->size[i] > INT64_C(1) << MAX_SIZE_BITS)
            return attn__fail(err, ATTN_E_SHAPE, 0, "%s: %s = %lld, expected 0 .. 2^%d", what,
                              axis[i], (long long)view->size[i], MAX_SIZE_BITS);
        empty |= view->size[i] == 0;
    }
    if (empty)
        return ATTN_OK;
    if (!view->data)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s: data is NULL but no size is 0", what);
    if ((uintptr_t)view->data % size != 0)
        return attn__fail(err, ATTN_E_ARGUMENT, 0,
                          "%s: data is not aligned to its element (%s, %zu bytes)", what,
                          attn_type_name(view->type), size);
    if (!reach_fits(view))
        return attn__fail(err, ATTN_E_SHAPE, 0, "%s: sizes times strides exceed the address space",
                          what);
    if (output && overlaps_itself(view))
        return attn__fail(
            err, ATTN_E_ARGUMENT, 0,
            "%s: elements overlap (an output needs strides that step over one another)", what);
    return ATTN_OK;
}

attn_status attn__check_size(const attn_view *view, const char *what, int64_t b, int64_t h,
                             int64_t i, int64_t j, attn_error *err)
{
    const int64_t *s = view->size;

    if (s[0] == b && s[1] == h && s[2] == i && s[3] == j)
        return ATTN_OK;
    return attn__fail(err, ATTN_E_SHAPE, 0,
                      "%s: shape [%lld, %lld, %lld, %lld], expected [%lld, %lld, %lld, %lld]", what,
                      (long long)s[0], (long long)s[1], (long long)s[2], (long long)s[3],
                      (long long)b, (long long)h, (long long)i, (long long)j);
}

/* Whether two views of the same strides, the second `distance` elements after the first, have an
 * element in common: whether distance is a sum of delta * stride with each delta between the index
 * ranges. The strides of an output step over one another, so from the largest down only the two
 * multiples next to what is left can do. `axes`: of the order, those left. */
static bool meet(const attn_view *a, const attn_view *b, const int order[4], int axes,
                 int64_t distance)
{
    int axis;
    int64_t stride, quotient;

    if (axes == 0)
        return distance == 0;
    axis = order[axes - 1];
    stride = a->stride[axis];
    if (stride == 0 || (a->size[axis] == 1 && b->size[axis] == 1))
        return meet(a, b, order, axes - 1, distance);
    quotient = distance / stride;
    for (int64_t delta = quotient - 1; delta <= quotient + 1; delta++)
        if (delta > -b->size[axis] && delta < a->size[axis] &&
            meet(a, b, order, axes - 1, distance - delta * stride))
            return true;
    return false;
}

bool attn__clash(const attn_view *output, const attn_view *other, bool may_equal)
{
    uintptr_t low1, high1, low2, high2;
    int order[4];
    ptrdiff_t bytes, size = (ptrdiff_t)attn_type_size(output->type);
    attn_view both = *output;

    if (!attn__present(output) || !attn__present(other))
        return false;
    byte_range(output, &low1, &high1);
    byte_range(other, &low2, &high2);
    if (low1 == high1 || low2 == high2 || high1 <= low2 || high2 <= low1)
        return false;
    if (attn_type_size(output->type) != attn_type_size(other->type) ||
        memcmp(output->stride, other->stride, sizeof output->stride) != 0)
        return true;
    if (output->data == other->data)
        return !(may_equal && output->type == other->type);
    bytes = (ptrdiff_t)((uintptr_t)other->data - (uintptr_t)output->data);
    if (bytes % size != 0)
        return true;
    /* The argument of meet needs strides that step over the larger of the two in each axis. */
    for (int i = 0; i < 4; i++)
        both.size[i] = other->size[i] > both.size[i] ? other->size[i] : both.size[i];
    if (overlaps_itself(&both))
        return true;
    sort_axes(output, order);
    return meet(output, other, order, 4, bytes / size);
}

void attn__tame(attn_view *view)
{
    for (int i = 0; i < 4; i++)
        if (view->size[i] <= 1)
            view->stride[i] = i == 3;
}

void attn__clear(const attn_view *view, int64_t b, int64_t h, int64_t from, int64_t to)
{
    size_t size = attn_type_size(view->type);

    for (int64_t i = from; i < to; i++) {
        char *row = attn__cell(view, b, h, i);

        if (view->stride[3] == 1) {
            memset(row, 0, (size_t)view->size[3] * size);
            continue;
        }
        for (int64_t j = 0; j < view->size[3]; j++)
            memset(row + j * view->stride[3] * (int64_t)size, 0, size);
    }
}
