/* test_kernels_train.c: the kernels of training, of every set that this machine runs, against plain
 * computations in a wider type; the manner is that of test_kernels.c.
 *
 *     test_kernels_train [--cases N] [--seed S] [--set NAME] [filter]
 */
#include "tests/kernel_check.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define REAL float
#define WIDE double
#define N(x) f32_##x
#define TABLE train_f32
#define KERNELS attn__train_f32
#define REAL_TYPE ATTN_F32
#define WIDE_EXP exp
#define WIDE_SQRT sqrt
#define WIDE_ABS fabs
#define U 0x1p-24
#define NORMAL 0x1p-126
static bool f32_same(float a, float b)
{
    return (isnan(a) && isnan(b)) || memcmp(&a, &b, sizeof a) == 0;
}
#include "tests/kernel_train.h"

#undef REAL
#undef WIDE
#undef N
#undef TABLE
#undef KERNELS
#undef REAL_TYPE
#undef WIDE_EXP
#undef WIDE_SQRT
#undef WIDE_ABS
#undef U
#undef NORMAL

#define REAL double
#define WIDE long double
#define N(x) f64_##x
#define TABLE train_f64
#define KERNELS attn__train_f64
#define REAL_TYPE ATTN_F64
#define WIDE_EXP expl
#define WIDE_SQRT sqrtl
#define WIDE_ABS fabsl
#define U 0x1p-53L
#define NORMAL 0x1p-1022L
static bool f64_same(double a, double b)
{
    return (isnan(a) && isnan(b)) || memcmp(&a, &b, sizeof a) == 0;
}
#include "tests/kernel_train.h"

int main(int argc, char **argv)
{
#define BOTH(name)                                                                                 \
    {"f32 " #name, f32_##name, 1},                                                                 \
    {                                                                                              \
        "f64 " #name, f64_##name, 1                                                                \
    }
    static const test_case tests[] = {
        BOTH(cross_entropy), BOTH(cross_entropy_specials),
        BOTH(add_rows),      BOTH(adam),
        BOTH(square_sum),    BOTH(blend),
    };
    const char *cases = test_option(&argc, argv, "--cases", 0);

    if (cases)
        kernel_cases = strtoll(cases, NULL, 0);
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
