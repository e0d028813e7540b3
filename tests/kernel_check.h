/* kernel_check.h: what the tests of single kernels share: guarded memory, typed matrices of any
 * layout, values that hurt, and the worst ratio of error to bound. The tests themselves are
 * kernel_rows.h, kernel_products.h and kernel_softmax.h, templates that test_kernels.c includes
 * once for float and once for double; none of them uses anything of src/ but the table. */
#ifndef ATTN_TESTS_KERNEL_CHECK_H
#define ATTN_TESTS_KERNEL_CHECK_H

#include "src/kernels/kernels.h"
#include "tests/expect.h"

#include <stdbool.h>

enum { TILE = 64, GROUP = 6 };
enum { MAX_WIDTH = 130, MAX_VALUES = 272 }; /* widest key and value rows tried */

/* --- The case at hand ----------------------------------------------------------------------- */

extern int64_t kernel_cases; /* random cases a kernel (--cases) */
extern char kernel_case[240];

/* Remembers how to call the case, for messages. */
void case_set(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Fails the test with the description of the case unless `condition` holds. */
#define CASE_CHECK(condition, ...)                                                                 \
    ((condition)                                                                                   \
         ? (void)0                                                                                 \
         : (print_error("%s\n", kernel_case), check__failed(__FILE__, __LINE__, __VA_ARGS__)))

/* Fails if got is further from want than bound; NaN and infinities only equal themselves. Of
 * finite pairs the largest error / bound is kept. */
void case_near(double got, double want, double error, double bound, size_t row, size_t column);

/* Starts and ends the count of one test. The end prints cases and worst ratio (if bounds were
 * checked), and wants at least one case. */
void cases_begin(void);
void cases_end(void **state);

/* The random numbers of case i of a test. */
rng case_rng(void **state, int64_t i);

/* --- Memory --------------------------------------------------------------------------------- */

/* Guarded memory is mapped once per slot and handed out again and again. */
enum { SLOT_A, SLOT_B, SLOT_C, SLOT_D, SLOT_E, SLOT_COUNT };

/* `size` bytes, all 0xFF (NaN), that begin right after a page that faults, or end right before
 * one, or neither but `unit` times something into the page. What lies beside them is watched. */
void *slot_get(int slot, size_t size, size_t unit, rng *r);

/* Remembers the bytes of a slot, ... */
void slot_snap(int slot);
/* ... which the test then changes to what it expects, ... */
void *slot_expected(int slot);
/* ... and compares; the bytes around must be as they were. */
void slot_check(int slot);

/* --- Typed matrices ------------------------------------------------------------------------- */

/* Exactly the bytes that its elements span. */
typedef struct matrix {
    attn_type type;
    size_t rows, cols;
    ptrdiff_t row_stride, col_stride;
    int slot;
    unsigned char *data; /* element [0][0] */
    size_t first;        /* its byte within the slot */
} matrix;

matrix matrix_new(int slot, rng *r, attn_type type, size_t rows, size_t cols, ptrdiff_t row_stride,
                  ptrdiff_t col_stride);

/* Strides that an input (overlap: also those that repeat rows) or an output may have. */
matrix matrix_draw(int slot, rng *r, attn_type type, size_t rows, size_t cols, bool unit_columns,
                   bool overlap);

double matrix_get(const matrix *m, size_t row, size_t col);
void matrix_set(const matrix *m, size_t row, size_t col, double value);
void matrix_fill(const matrix *m, rng *r);

/* After slot_snap: what the element shall be. A NaN takes whatever NaN the kernel wrote. */
void matrix_expect(const matrix *m, size_t row, size_t col, double value);

/* --- Values --------------------------------------------------------------------------------- */

/* A kind of data for a whole case; a value of it. Most are tame; some cases are wide, denormal,
 * or hold NaN, infinities and the largest numbers. */
typedef enum data_kind { DATA_BELL, DATA_WIDE, DATA_TINY, DATA_SPECIAL, DATA_KINDS } data_kind;

data_kind data_draw(rng *r);
double data_value(rng *r, data_kind kind, attn_type type);

/* NaN, infinities, zeros, denormals, largest: special i of a type. */
enum { SPECIAL_COUNT = 9 };
double special_value(attn_type type, int i);

/* c0 < c1 <= 64, multiples of 16. */
void draw_columns(rng *r, size_t *c0, size_t *c1);
uint64_t column_bits(size_t c0, size_t c1);

#endif
