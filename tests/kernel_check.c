/* kernel_check.c: see kernel_check.h. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */

#include "tests/kernel_check.h"
#include "tests/ref.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* --- The case at hand ----------------------------------------------------------------------- */

int64_t kernel_cases = 600;
char kernel_case[240];
static int64_t cases_run, bounds_checked;
static double worst;

void case_set(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(kernel_case, sizeof kernel_case, format, args);
    va_end(args);
}

void case_near(double got, double want, double error, double bound, size_t row, size_t column)
{
    if (isnan(want) || isinf(want)) {
        CASE_CHECK(isnan(want) ? isnan(got) : got == want, "[%zu][%zu] is %g, not %g", row, column,
                   got, want);
        return;
    }
    CASE_CHECK(fabs(error) <= bound, "[%zu][%zu] is %.17g, not %.17g: error %g, bound %g", row,
               column, got, want, error, bound);
    bounds_checked++;
    if (bound > 0 && fabs(error) / bound > worst)
        worst = fabs(error) / bound;
}

void cases_begin(void)
{
    cases_run = bounds_checked = 0;
    worst = 0;
}

void cases_end(void **state)
{
    const char *set = attn_kernel_set_name(test_set(state));

    CHECK(cases_run > 0);
    if (bounds_checked)
        print_message("%s: %lld cases, worst error / bound %.3f\n", set, (long long)cases_run,
                      worst);
    else
        print_message("%s: %lld cases, exact\n", set, (long long)cases_run);
}

rng case_rng(void **state, int64_t i)
{
    cases_run++;
    return rng_make(test_seed(), (uint64_t)test_index(state) * 1000003 + (uint64_t)i);
}

/* --- Memory --------------------------------------------------------------------------------- */

enum { SLOT_BYTES = 1 << 20, CANARY = 0xA5, CANARY_BYTES = 128 };

static struct {
    unsigned char *base, *at;
    size_t size, before, after; /* watched bytes on either side */
    unsigned char expected[SLOT_BYTES];
} slots[SLOT_COUNT];

static unsigned char *slot_map(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char *map =
        mmap(NULL, SLOT_BYTES + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    CHECK(map != MAP_FAILED);
    CHECK(mprotect(map + page, SLOT_BYTES, PROT_READ | PROT_WRITE) == 0);
    return map + page;
}

void *slot_get(int slot, size_t size, size_t unit, rng *r)
{
    int64_t where = rng_int(r, 0, 4);
    size_t offset, room;

    if (!slots[slot].base)
        slots[slot].base = slot_map();
    CHECK_MSG(size + 64 * unit <= SLOT_BYTES, "slots are too small for %zu bytes", size);
    room = SLOT_BYTES - size;
    if (where < 2)
        offset = 0;
    else if (where < 4)
        offset = room;
    else
        offset = unit * (size_t)rng_int(r, 0, 63);
    slots[slot].at = slots[slot].base + offset;
    slots[slot].size = size;
    slots[slot].before = offset < CANARY_BYTES ? offset : CANARY_BYTES;
    slots[slot].after = room - offset < CANARY_BYTES ? room - offset : CANARY_BYTES;
    memset(slots[slot].at - slots[slot].before, CANARY, slots[slot].before);
    memset(slots[slot].at, 0xFF, size);
    memset(slots[slot].at + size, CANARY, slots[slot].after);
    return slots[slot].at;
}

void slot_snap(int slot)
{
    memcpy(slots[slot].expected, slots[slot].at, slots[slot].size);
}

void *slot_expected(int slot)
{
    return slots[slot].expected;
}

void slot_check(int slot)
{
    const unsigned char *at = slots[slot].at;
    size_t size = slots[slot].size;

    for (size_t i = 0; i < slots[slot].before; i++)
        CASE_CHECK(at[-1 - (ptrdiff_t)i] == CANARY, "byte %zu before the memory changed", i + 1);
    for (size_t i = 0; i < slots[slot].after; i++)
        CASE_CHECK(at[size + i] == CANARY, "byte %zu after the memory changed", i);
    if (memcmp(at, slots[slot].expected, size) == 0)
        return;
    for (size_t i = 0; i < size; i++)
        CASE_CHECK(at[i] == slots[slot].expected[i], "byte %zu of %zu is %02x, not %02x", i, size,
                   at[i], slots[slot].expected[i]);
}

/* --- Typed matrices ------------------------------------------------------------------------- */

matrix matrix_new(int slot, rng *r, attn_type type, size_t rows, size_t cols, ptrdiff_t row_stride,
                  ptrdiff_t col_stride)
{
    ptrdiff_t low = 0, high = 0, unit = (ptrdiff_t)attn_type_size(type);
    ptrdiff_t row_end = rows ? (ptrdiff_t)(rows - 1) * row_stride : 0;
    ptrdiff_t col_end = cols ? (ptrdiff_t)(cols - 1) * col_stride : 0;
    matrix m = {type, rows, cols, row_stride, col_stride, slot, NULL, 0};
    size_t size;

    low += row_end < 0 ? row_end : 0;
    low += col_end < 0 ? col_end : 0;
    high += row_end > 0 ? row_end : 0;
    high += col_end > 0 ? col_end : 0;
    size = rows && cols ? (size_t)((high - low + 1) * unit) : 0;
    m.first = size ? (size_t)(-low * unit) : 0;
    m.data = (unsigned char *)slot_get(slot, size, (size_t)unit, r) + m.first;
    return m;
}

matrix matrix_draw(int slot, rng *r, attn_type type, size_t rows, size_t cols, bool unit_columns,
                   bool overlap)
{
    ptrdiff_t gap = rng_int(r, 0, 9), width = (ptrdiff_t)cols + gap, row = width, col = 1;

    switch (rng_int(r, 0, 7)) {
    case 0:
        row = (ptrdiff_t)cols;
        break;
    case 1:
        row = -width;
        break;
    case 2: /* columns apart */
        col = unit_columns ? 1 : 3;
        row = 3 * width + 1;
        break;
    case 3: /* columns outside rows */
        if (!unit_columns) {
            col = (ptrdiff_t)rows + gap;
            row = 1;
        }
        break;
    case 4:
        col = unit_columns ? 1 : -1;
        row = rng_chance(r, 50) ? -width : width;
        break;
    case 5:
        row = overlap ? 0 : width;
        break;
    case 6: /* rows that share elements */
        row = overlap ? rng_int(r, -2, 2) : width;
        break;
    default:
        break;
    }
    return matrix_new(slot, r, type, rows, cols, row, col);
}

static ptrdiff_t element_offset(const matrix *m, size_t row, size_t col)
{
    return ((ptrdiff_t)row * m->row_stride + (ptrdiff_t)col * m->col_stride) *
           (ptrdiff_t)attn_type_size(m->type);
}

static void element_store(unsigned char *element, attn_type type, double value)
{
    if (type == ATTN_I8)
        *element = (unsigned char)(int)value;
    else
        ref_store(element, type, value);
}

double matrix_get(const matrix *m, size_t row, size_t col)
{
    const unsigned char *element = m->data + element_offset(m, row, col);

    return m->type == ATTN_I8 ? (double)(int8_t)*element : ref_load(element, m->type);
}

void matrix_set(const matrix *m, size_t row, size_t col, double value)
{
    element_store(m->data + element_offset(m, row, col), m->type, value);
}

void matrix_fill(const matrix *m, rng *r)
{
    data_kind kind = data_draw(r);

    for (size_t i = 0; i < m->rows; i++)
        for (size_t j = 0; j < m->cols; j++)
            matrix_set(m, i, j, data_value(r, kind, m->type));
}

void matrix_expect(const matrix *m, size_t row, size_t col, double value)
{
    ptrdiff_t at = (ptrdiff_t)m->first + element_offset(m, row, col);
    unsigned char *expected = slots[m->slot].expected + at;

    element_store(expected, m->type, value);
    if (isnan(value)) {
        CASE_CHECK(isnan(matrix_get(m, row, col)), "[%zu][%zu] is %g, not NaN", row, col,
                   matrix_get(m, row, col));
        memcpy(expected, slots[m->slot].at + at, attn_type_size(m->type));
    }
}

/* --- Values --------------------------------------------------------------------------------- */

data_kind data_draw(rng *r)
{
    int64_t x = rng_int(r, 0, 9);

    return x < 6 ? DATA_BELL : x < 8 ? DATA_WIDE : x < 9 ? DATA_TINY : DATA_SPECIAL;
}

/* Largest finite, smallest denormal. */
static const double type_limits[][2] = {
    [ATTN_F32] = {(double)FLT_MAX, 0x1p-149},
    [ATTN_F16] = {65504, 0x1p-24},
    [ATTN_BF16] = {0x1.fep127, 0x1p-133},
    [ATTN_F64] = {DBL_MAX, 0x1p-1074},
    [ATTN_I8] = {127, 1},
};

double special_value(attn_type type, int i)
{
    double largest = type_limits[type][0], smallest = type_limits[type][1];
    const double values[SPECIAL_COUNT] = {(double)NAN, HUGE_VAL, -HUGE_VAL, 0,        -0.0,
                                          largest,     -largest, smallest,  -smallest};

    return type == ATTN_I8 && i < 3 ? -128 : values[i];
}

double data_value(rng *r, data_kind kind, attn_type type)
{
    double x = rng_bell(r);

    if (type == ATTN_I8)
        return (double)rng_int(r, -128, 127);
    switch (kind) {
    case DATA_WIDE:
        return ldexp(x, (int)rng_int(r, -20, type == ATTN_F16 ? 10 : 20));
    case DATA_TINY:
        return x * type_limits[type][1] * 16;
    case DATA_SPECIAL:
        return rng_chance(r, 2) ? special_value(type, (int)rng_int(r, 0, SPECIAL_COUNT - 1)) : x;
    default:
        return x;
    }
}

void draw_columns(rng *r, size_t *c0, size_t *c1)
{
    int64_t from = rng_int(r, 0, 3);

    *c0 = 16 * (size_t)from;
    *c1 = 16 * (size_t)rng_int(r, from + 1, 4);
    if (rng_chance(r, 30)) {
        *c0 = 0;
        *c1 = TILE;
    }
}

uint64_t column_bits(size_t c0, size_t c1)
{
    return (~UINT64_C(0) >> (TILE - (c1 - c0))) << c0;
}
