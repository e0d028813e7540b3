/* test_kernels.c: every kernel of every set that this machine runs, scalar too, against plain
 * computations in a wider type.
 *
 *     test_kernels [--cases N] [--seed S] [--set NAME] [filter]
 *
 * What kernels.h defines to the bit (conversions, chains, sums, masks) is compared by bits; the
 * rest by bounds computed for the value at hand, which nothing may exceed and whose worst ratio is
 * printed. All memory is of exactly the size that the kernel may touch, next to pages that fault.
 * --cases: random cases a kernel; every special value in every lane comes on top. */
#include "tests/kernel_check.h"
#include "tests/ref.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define REAL float
#define WIDE double
#define N(x) f32_##x
#define TABLE f32
#define STATS stats_f32
#define KERNELS attn__kernels_f32
#define REAL_TYPE ATTN_F32
#define HALF_TYPES ATTN_F16, ATTN_BF16
#define BYTE_TYPES ATTN_I8
#define GEMM attn__gemm_f32
#define GEMM_TABLE gemm_f32
#define FMA fmaf
#define WIDE_EXP exp
#define WIDE_TANH tanh
#define WIDE_ERFC erfc
#define U 0x1p-24
#define DENORMAL 0x1p-149
#define NORMAL 0x1p-126
#define LARGEST ((double)FLT_MAX)
#define EXP_ZERO (-104.0)               /* e^x is 0 from here down */
#define SLACK_NATURAL 5.545177444479562 /* 8 ln 2 */
#include "tests/kernel_rows.h"
#include "tests/kernel_products.h"
#include "tests/kernel_softmax.h"
#include "tests/kernel_stats.h"
#include "tests/kernel_cells.h"
#include "tests/kernel_gemm.h"

#undef REAL
#undef WIDE
#undef N
#undef TABLE
#undef STATS
#undef KERNELS
#undef REAL_TYPE
#undef HALF_TYPES
#undef BYTE_TYPES
#undef GEMM
#undef GEMM_TABLE
#undef FMA
#undef WIDE_EXP
#undef WIDE_TANH
#undef WIDE_ERFC
#undef U
#undef DENORMAL
#undef NORMAL
#undef LARGEST
#undef EXP_ZERO

#define REAL double
#define WIDE long double
#define N(x) f64_##x
#define TABLE f64
#define STATS stats_f64
#define KERNELS attn__kernels_f64
#define REAL_TYPE ATTN_F64
#define HALF_TYPES ATTN_F64 /* no others */
#define BYTE_TYPES ATTN_F64
#define GEMM attn__gemm_f64
#define GEMM_TABLE gemm_f64
#define FMA fma
#define WIDE_EXP expl
#define WIDE_TANH tanhl
#define WIDE_ERFC erfcl
#define U 0x1p-53
#define DENORMAL 0x1p-1074
#define NORMAL 0x1p-1022
#define LARGEST DBL_MAX
#define EXP_ZERO (-746.0)
#include "tests/kernel_rows.h"
#include "tests/kernel_products.h"
#include "tests/kernel_softmax.h"
#include "tests/kernel_stats.h"
#include "tests/kernel_cells.h"
#include "tests/kernel_gemm.h"

/* --- conversions ---------------------------------------------------------------------------- */

enum { CHUNK = 4093 }; /* prime: chunks end in tails of every length */

/* Every bit pattern of a half type, in order, widened; the bits are those of the scalar set. */
static void widen_all(void **state, attn_type type, ptrdiff_t stride)
{
    const attn__kernels_f32 *k = &attn__kernels_for(test_set(state))->f32;
    const attn__kernels_f32 *plain = &attn__kernels_for(ATTN_SET_SCALAR)->f32;

    for (size_t first = 0; first < 65536; first += CHUNK) {
        size_t n = 65536 - first < CHUNK ? 65536 - first : CHUNK;
        rng r = case_rng(state, (int64_t)first);
        matrix src = matrix_new(SLOT_A, &r, type, 1, n, 0, stride);
        matrix dst = matrix_new(SLOT_B, &r, ATTN_F32, 1, n, 0, 1);
        float other[CHUNK];

        for (size_t i = 0; i < n; i++) {
            uint16_t bits = (uint16_t)(first + i);

            memcpy(src.data + (ptrdiff_t)i * stride * 2, &bits, sizeof bits);
        }
        case_set("%s patterns %zx.., stride %td", attn_type_name(type), first, stride);
        slot_snap(SLOT_B);
        k->load_rows((float *)(void *)dst.data, 0, 1, type, src.data, 0, stride, n, n, 1);
        plain->load_rows(other, 0, 1, type, src.data, 0, stride, n, n, 1);
        for (size_t i = 0; i < n; i++)
            matrix_expect(&dst, 0, i, matrix_get(&src, 0, i));
        slot_check(SLOT_B);
        CASE_CHECK(memcmp(dst.data, other, n * sizeof *other) == 0, "NaN bits differ from scalar");
    }
}

static void widening(void **state)
{
    cases_begin();
    for (int half = 0; half < 2; half++)
        for (ptrdiff_t stride = 1; stride <= 2; stride++)
            widen_all(state, half ? ATTN_F16 : ATTN_BF16, stride);
    cases_end(state);
}

static float float_from(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Six floats around number h of a half type: itself, the half-way point above it, their
 * neighbours, and one with a pattern of low bits. Of NaN patterns come NaNs. */
static void boundaries(attn_type type, uint16_t h, float x[6])
{
    uint16_t next = (uint16_t)(h + 1);
    double value = ref_load(&h, type), above = ref_load(&next, type);
    float half_way;

    if (type == ATTN_F16 && (h & 0x7fff) == 0x7bff) /* as if 65536 followed */
        above = h & 0x8000 ? -65536 : 65536;
    if (type == ATTN_BF16 || !isfinite(value)) {
        static const uint32_t low[] = {0, 1, 0x7fff, 0x8000, 0x8001, 0xffff};

        for (int i = 0; i < 6; i++)
            x[i] = float_from((uint32_t)h << 16 | low[i]);
        return;
    }
    half_way = (float)((value + above) / 2);
    x[0] = (float)value;
    x[1] = nextafterf(x[0], half_way);
    x[2] = nextafterf(half_way, x[0]);
    x[3] = half_way;
    x[4] = nextafterf(half_way, (float)above);
    x[5] = float_from(0x33000000u + (uint32_t)h * 0x9E3u); /* around the smallest denormal */
}

static void round_all(void **state, attn_type type, ptrdiff_t stride)
{
    const attn__kernels_f32 *k = &attn__kernels_for(test_set(state))->f32;
    const attn__kernels_f32 *plain = &attn__kernels_for(ATTN_SET_SCALAR)->f32;

    for (size_t first = 0; first < 65536; first += CHUNK) {
        size_t n = 65536 - first < CHUNK ? 65536 - first : CHUNK, count = 6 * n;
        rng r = case_rng(state, (int64_t)first);
        float *src = slot_get(SLOT_A, count * sizeof *src, sizeof *src, &r);
        matrix dst = matrix_new(SLOT_B, &r, type, 1, count, 0, stride);
        static uint16_t other[6 * CHUNK * 2];

        for (size_t i = 0; i < n; i++)
            boundaries(type, (uint16_t)(first + i), src + 6 * i);
        case_set("to %s, around patterns %zx.., stride %td", attn_type_name(type), first, stride);
        slot_snap(SLOT_B);
        k->store_row(dst.data, type, stride, src, count, 1);
        memset(other, 0xFF, sizeof other);
        plain->store_row(other, type, stride, src, count, 1);
        for (size_t i = 0; i < count; i++)
            matrix_expect(&dst, 0, i, (double)(src[i] + 0));
        slot_check(SLOT_B);
        CASE_CHECK(memcmp(dst.data, other, (count - 1) * (size_t)stride * 2 + 2) == 0,
                   "NaN bits differ from scalar");
    }
}

static void rounding(void **state)
{
    cases_begin();
    for (int half = 0; half < 2; half++)
        for (ptrdiff_t stride = 1; stride <= 2; stride++)
            round_all(state, half ? ATTN_F16 : ATTN_BF16, stride);
    cases_end(state);
}

/* --- the rest of the table ------------------------------------------------------------------ */

static void keep_bits(void **state)
{
    const attn__kernels *k = attn__kernels_for(test_set(state));

    cases_begin();
    for (int64_t i = 0; i < 65 * 64 + 4 * kernel_cases; i++) {
        rng r = case_rng(state, i);
        size_t n = (size_t)(i % 65), lane = (size_t)(i / 65 % 64);
        unsigned char *bytes = slot_get(SLOT_A, n, 1, &r);
        uint64_t bits, want = 0;

        for (size_t c = 0; c < n; c++) { /* first one byte at every place alone */
            bytes[c] = i < 65 * 64          ? c == lane
                       : rng_chance(&r, 50) ? 0
                                            : (unsigned char)rng_next(&r);
            if (bytes[c] && rng_chance(&r, 50))
                bytes[c] = (unsigned char)(1u << rng_int(&r, 0, 7));
            want |= (uint64_t)(bytes[c] != 0) << c;
        }
        case_set("keep_bits: %zu bytes", n);
        bits = k->keep_bits(bytes, n);
        CASE_CHECK(bits == want, "bits %llx, not %llx", (unsigned long long)bits,
                   (unsigned long long)want);
    }
    cases_end(state);
}

/* Product and sum are rounded each, as without contraction. */
static void plain_multiply_add(void **state)
{
    const attn__kernels *k = attn__kernels_for(test_set(state));
    int64_t fused_differs = 0;

    cases_begin();
    for (int64_t i = 0; i < 4 * kernel_cases; i++) {
        rng r = case_rng(state, i);
        float a = (float)rng_bell(&r), b = (float)rng_bell(&r), got, want;
        volatile float product = a * b, c = i % 2 ? (float)rng_bell(&r) : -product;

        got = k->plain_multiply_add(a, b, c);
        want = product + c;
        case_set("plain_multiply_add: %a * %a + %a", (double)a, (double)b, (double)c);
        CASE_CHECK(f32_same(got, want), "%a, not %a", (double)got, (double)want);
        fused_differs += fmaf(a, b, c) != want;
    }
    CHECK(fused_differs > kernel_cases); /* the values can tell */
    cases_end(state);
}

/* --- main ----------------------------------------------------------------------------------- */

/* Takes "--cases N" out of the arguments. */
static void take_cases(int *argc, char **argv)
{
    for (int i = 1; i + 1 < *argc; i++)
        if (!strcmp(argv[i], "--cases")) {
            kernel_cases = strtoll(argv[i + 1], NULL, 0);
            memmove(argv + i, argv + i + 2, (size_t)(*argc - i - 1) * sizeof *argv);
            *argc -= 2;
            return;
        }
}

int main(int argc, char **argv)
{
#define BOTH(name)                                                                                 \
    {"f32 " #name, f32_##name, 1},                                                                 \
    {                                                                                              \
        "f64 " #name, f64_##name, 1                                                                \
    }
    static const test_case tests[] = {
        BOTH(load_rows),
        BOTH(store_row),
        {"f32 widening of every pattern", widening, 1},
        {"f32 rounding at every boundary", rounding, 1},
        BOTH(pack_keys),
        BOTH(store_key),
        BOTH(values),
        BOTH(softcap),
        BOTH(add_bias),
        BOTH(add_alibi),
        BOTH(find_minus_inf),
        BOTH(softmax),
        BOTH(softmax_stats),
        BOTH(move_moment),
        BOTH(columns),
        BOTH(exponential),
        BOTH(weights),
        BOTH(drop),
        BOTH(nonfinite_rows),
        BOTH(row_sum),
        BOTH(merge),
        BOTH(gemm_products),
        BOTH(gemm_load_columns),
        BOTH(gemm_finish),
        {"keep_bits", keep_bits, 1},
        {"plain_multiply_add", plain_multiply_add, 1},
    };

    take_cases(&argc, argv);
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
