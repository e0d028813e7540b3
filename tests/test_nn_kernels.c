/* test_nn_kernels.c: the kernels of layers (nn_kernels.h), every set, float and double, against
 * plain computations in a wider type; see test_kernels.c for the manner.
 *
 *     test_nn_kernels [--cases N] [--seed S] [--set NAME] [filter] */
#include "tests/kernel_check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define REAL float
#define WIDE double
#define N(x) f32_##x
#define TABLE nn_f32
#define NN attn__nn_f32
#define REAL_TYPE ATTN_F32
#define WIDE_EXP exp
#define WIDE_TANH tanh
#define WIDE_ERFC erfc
#define WIDE_SQRT sqrt
#define U 0x1p-24
#define DENORMAL 0x1p-149
#define NORMAL 0x1p-126
#include "tests/kernel_nn.h"

#undef REAL
#undef WIDE
#undef N
#undef TABLE
#undef NN
#undef REAL_TYPE
#undef WIDE_EXP
#undef WIDE_TANH
#undef WIDE_ERFC
#undef WIDE_SQRT
#undef U
#undef DENORMAL
#undef NORMAL

#define REAL double
#define WIDE long double
#define N(x) f64_##x
#define TABLE nn_f64
#define NN attn__nn_f64
#define REAL_TYPE ATTN_F64
#define WIDE_EXP expl
#define WIDE_TANH tanhl
#define WIDE_ERFC erfcl
#define WIDE_SQRT sqrtl
#define U 0x1p-53
#define DENORMAL 0x1p-1074
#define NORMAL 0x1p-1022
#include "tests/kernel_nn.h"

/* The generator as its authors have it. */
static uint32_t philox_word(uint32_t a, uint32_t b, uint32_t c, uint32_t d, uint64_t key, int word)
{
    uint32_t x[4] = {a, b, c, d}, k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);

    for (int i = 0; i < 10; i++) {
        uint64_t p = (uint64_t)0xd2511f53u * x[0], q = (uint64_t)0xcd9e8d57u * x[2];
        uint32_t y[4] = {(uint32_t)(q >> 32) ^ x[1] ^ k0, (uint32_t)q,
                         (uint32_t)(p >> 32) ^ x[3] ^ k1, (uint32_t)p};

        memcpy(x, y, sizeof x);
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
    return x[word];
}

static void drop_bits(void **state)
{
    attn__drop_bits_fn drop = attn__kernels_for(test_set(state))->drop_bits;

    cases_begin();
    case_set("the authors' test vector");
    CASE_CHECK(philox_word(0, 0, 0, 0, 0, 0) == 0x6627e8d5, "word %x",
               philox_word(0, 0, 0, 0, 0, 0));
    for (int64_t i = 0; i < kernel_cases; i++) {
        rng r = case_rng(state, i);
        size_t n = (size_t)rng_int(&r, 1, 300), words = (n + 63) / 64;
        uint64_t seed = rng_next(&r), *bits = slot_get(SLOT_A, words * 8, 8, &r);
        uint32_t at[3] = {(uint32_t)rng_next(&r), (uint32_t)rng_int(&r, 0, 9), 3};
        uint32_t below = rng_chance(&r, 20) ? 0 : (uint32_t)rng_int(&r, 0, 1 << 24);

        case_set("drop_bits: n %zu, below %u", n, below);
        slot_snap(SLOT_A);
        drop(bits, n, at, seed, below);
        for (size_t c = 0; c < words * 64; c++) {
            uint32_t x = (uint32_t)(c / 64 * 16 + c % 16);
            uint32_t word = philox_word(x, at[0], at[1], at[2], seed, (int)(c % 64 / 16));

            CASE_CHECK((bits[c / 64] >> c % 64 & 1) == (word >> 8 >= below), "bit %zu", c);
        }
        memcpy(slot_expected(SLOT_A), bits, words * 8);
        slot_check(SLOT_A);
    }
    cases_end(state);
}

int main(int argc, char **argv)
{
#define BOTH(name)                                                                                 \
    {"f32 " #name, f32_##name, 1},                                                                 \
    {                                                                                              \
        "f64 " #name, f64_##name, 1                                                                \
    }
    static const test_case tests[] = {
        BOTH(norm),       BOTH(norm_back), BOTH(norm_columns), BOTH(activation),
        BOTH(add_scaled), BOTH(rotate),    BOTH(additive),     {"drop_bits", drop_bits, 1},
    };
    const char *cases = test_option(&argc, argv, "--cases", 0);

    if (cases)
        kernel_cases = strtoll(cases, NULL, 10);
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
