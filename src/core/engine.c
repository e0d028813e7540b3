/* engine.c: instances of engine_real.h, backward_real.h and stats_real.h, and what does not depend
 * on the kind of number. */
#include "src/core/engine.h"

#include "src/base/compiler.h"
#include "src/base/ctx.h"
#include "src/base/platform.h"
#include "src/core/backward.h"
#include "src/core/cache.h"
#include "src/core/stats.h"

#include <math.h>
#include <string.h>

double attn__log(double x)
{
    const double ln2_high = 0x1.62e42fee00000p-1, ln2_low = 0x1.a39ef35793c76p-33;
    int exponent;
    double m, s, z, series = 0;

    if (!(x > 0) || x == (double)INFINITY)
        return x == 0 ? -(double)INFINITY : x > 0 ? x : (double)NAN;
    m = frexp(x, &exponent); /* [1/2, 1) */
    if (m < 0x1.6a09e667f3bcdp-1) {
        m *= 2;
        exponent--;
    }
    /* ln m = 2 atanh(s), |s| <= 0.1716: terms to s^21 reach 2^-54 */
    s = (m - 1) / (m + 1);
    z = s * s;
    for (int k = 21; k >= 3; k -= 2)
        series = z * (1.0 / k + series);
    return exponent * ln2_high + (2 * s + (2 * s * series + exponent * ln2_low));
}

double attn__row_lse(double max, double sum)
{
    if (sum == 0)
        return -(double)INFINITY;
    return max == -(double)INFINITY ? (double)NAN : max + attn__log(sum);
}

/* Scales of keys and values that have none; never read. */
static const float no_scales[attn__tile];

/* Rows below which narrow types are widened as they are read; f32 values are read where they lie by
 * up to twice as many. */
enum { FEW_ROWS = 24 };

/* Bits of the lanes low .. high - 1 of 64; arguments may lie outside. */
static uint64_t lanes(int64_t low, int64_t high)
{
    if (low < 0)
        low = 0;
    if (high > 64)
        high = 64;
    if (low >= high)
        return 0;
    return ~(uint64_t)0 >> (64 - (high - low)) << low;
}

static int lowest(uint64_t bits) /* bits != 0 */
{
    return __builtin_ctzll(bits);
}

static int highest(uint64_t bits)
{
    return 63 - __builtin_clzll(bits);
}

/* What a group of rows computes of a tile: columns c0 .. c1-1, of which any row attends `any` and
 * every row `all`. */
typedef struct extent {
    size_t c0, c1;
    uint64_t any, all;
} extent;

static void sum_up(extent *c, const uint64_t *allow, size_t mr)
{
    c->any = 0;
    c->all = ~(uint64_t)0;
    for (size_t r = 0; r < mr; r++) {
        c->any |= allow[r];
        c->all &= allow[r];
    }
}

#define REAL float
#define E(name) name##_f32
#define REAL_TYPE ATTN_F32
#define REAL_NAME f32
#include "src/core/engine_real.h"

#include "src/core/backward_real.h"

#include "src/core/stats_real.h"

#undef REAL
#undef E
#undef REAL_TYPE
#undef REAL_NAME

#define REAL double
#define E(name) name##_f64
#define REAL_TYPE ATTN_F64
#define REAL_NAME f64
#include "src/core/engine_real.h"

#include "src/core/backward_real.h"

#include "src/core/stats_real.h"

#undef REAL
#undef E
#undef REAL_TYPE
#undef REAL_NAME

size_t attn__scratch_size(const attn__problem *p, const attn__layout *l)
{
    return p->f64 ? scratch_size_f64(p, l) : scratch_size_f32(p, l);
}

size_t attn__record_size(const attn__problem *p, size_t splits, size_t rows)
{
    record_f64 d;
    record_f32 f;

    return p->f64 ? cut_record_f64(&d, p, NULL, 0, splits * rows)
                  : cut_record_f32(&f, p, NULL, 0, splits * rows);
}

size_t attn__stats_scratch(const attn__problem *p, const attn__layout *l)
{
    return p->f64 ? attn__stats_scratch_f64(p, l) : attn__stats_scratch_f32(p, l);
}

void attn__open_slot(const void *job, attn__slot *slot)
{
    if (((const attn__job *)job)->problem->f64)
        open_slot_f64(job, slot);
    else
        open_slot_f32(job, slot);
}
