/* kernels_real.h: the kernels for one kind of number. Included by kernels_impl.h, once with REAL
 * float and once with double; V(op) is the vector operation, K(name) the function's own name. */

#define PANEL (NV * LANES) /* keys side by side in a panel of packed keys */
#define TILE attn__tile
#define TILE_VECS (TILE / LANES)
/* A weight may exceed the row's reference by 2^8 before the row is rescaled. */
#define SLACK ((REAL)8 / LOG2E)
#define MINUS_INF (-(REAL)INFINITY)

/* --- exp and tanh --------------------------------------------------------------------------- */

/* (2^f - 1) / f for |f| <= 1/2. */
ATTN__INLINE VEC K(exp2_quotient)(VEC f)
{
    static const REAL c[EXP2_DEGREE] = {EXP2_COEFFICIENTS};
    VEC q = V(set1)(c[EXP2_DEGREE - 1]);

    ATTN__UNROLL
    for (int i = EXP2_DEGREE - 2; i >= 0; i--)
        q = V(fma)(q, f, V(set1)(c[i]));
    return q;
}

/* e^x for x <= 90; exactly 1 at 0, exactly 0 from about -104 (-745 in double) down to -inf, in sets
 * but AVX-512 from -87.7 (-708.7) already; NaN for NaN. The caller has subtracted the row's
 * reference: multiplying first and fusing the subtraction would weigh the largest logit by
 * 2^rounding error. For x = -inf, f is NaN; V(scale) still gives 0 there (scalef by its table of
 * special cases, the others because V(clamp) bounds y). */
ATTN__INLINE VEC K(exp)(VEC x)
{
    VEC y = V(clamp)(V(mul)(x, V(set1)(LOG2E)));
    VEC n = V(round)(y);
    VEC f = V(sub)(y, n);
    VEC p = V(fma)(K(exp2_quotient)(f), f, V(set1)(1));

    return V(scale)(p, n);
}

ATTN__INLINE REAL K(exp_one)(REAL x)
{
    REAL lanes[LANES];

    V(store)(lanes, K(exp)(V(set1)(x)));
    return lanes[0];
}

/* tanh(y) = e / (e + 2) with e = e^(2y) - 1 built so that small arguments keep their relative
 * accuracy: e = 2^n (2^f - 1) + (2^n - 1). */
ATTN__INLINE VEC K(tanh)(VEC y)
{
    VEC z = V(mul)(y, V(set1)(2 * LOG2E));
    VEC n, f, power, e;

    z = V(max)(V(set1)(-CAP_LIMIT), V(min)(V(set1)(CAP_LIMIT), z)); /* NaN passes, as second */
    n = V(round)(z);
    f = V(sub)(z, n);
    power = V(scale)(V(set1)(1), n);
    e = V(fma)(power, V(mul)(f, K(exp2_quotient)(f)), V(sub)(power, V(set1)(1)));
    return V(div)(e, V(add)(e, V(set1)(2)));
}

#include "src/kernels/rows_real.h"

#include "src/kernels/products_real.h"

#include "src/kernels/gemm_real.h"

/* --- changes to scores ---------------------------------------------------------------------- */

static void K(softcap)(REAL *s, size_t mr, size_t c0, size_t c1, REAL cap)
{
    VEC c = V(set1)(cap);

    for (size_t r = 0; r < mr; r++)
        for (size_t i = r * TILE + c0; i < r * TILE + c1; i += LANES)
            V(store)(s + i, V(mul)(c, K(tanh)(V(div)(V(load)(s + i), c))));
}

static uint64_t K(find_minus_inf)(const REAL *s, size_t c0, size_t c1)
{
    VEC low = V(set1)(MINUS_INF);
    uint64_t bits = 0;

    for (size_t c = c0; c < c1; c += LANES)
        bits |= V(eq)(V(load)(s + c), low) << c;
    return bits;
}

static uint64_t K(add_bias)(REAL *s, const REAL *b, size_t c0, size_t c1)
{
    VEC least = V(set1)((REAL)INFINITY);

    for (size_t c = c0; c < c1; c += LANES) {
        VEC x = V(load)(b + c);

        V(store)(s + c, V(add)(V(load)(s + c), x));
        least = V(min)(x, least); /* passes over NaN */
    }
    return V(eq)(least, V(set1)(MINUS_INF)) ? ~K(find_minus_inf)(b, c0, c1) : ~(uint64_t)0;
}

static void K(add_alibi)(REAL *s, size_t c0, size_t c1, REAL slope, REAL distance)
{
    REAL first[LANES];
    VEC column, step = V(set1)(slope), from = V(set1)(distance);

    for (int i = 0; i < LANES; i++)
        first[i] = (REAL)i;
    column = V(load)(first);
    for (size_t c = c0; c < c1; c += LANES) {
        VEC away = V(abs)(V(sub)(from, V(add)(column, V(set1)((REAL)c))));
        V(store)(s + c, V(sub)(V(load)(s + c), V(mul)(step, away)));
    }
}

/* --- softmax -------------------------------------------------------------------------------- */

ATTN__INLINE void K(scale_row)(REAL *row, size_t n, REAL factor)
{
    VEC f = V(set1)(factor);

    for (size_t c = 0; c < n; c += LANES)
        V(store)(row + c, V(mul)(V(load)(row + c), f));
}

static REAL K(row_sum)(const REAL *sum)
{
    REAL t[8];

    for (int i = 0; i < 8; i++)
        t[i] = sum[i] + sum[i + 8];
    for (int i = 0; i < 4; i++)
        t[i] += t[i + 4];
    return (t[0] + t[2]) + (t[1] + t[3]);
}

static bool K(is_zero)(const REAL *sum)
{
    uint64_t zeros = ~(uint64_t)0;

    ATTN__UNROLL
    for (size_t i = 0; i < 16; i += LANES)
        zeros &= V(eq)(V(load)(sum + i), V(zero)());
    return (zeros & (((uint64_t)1 << LANES) - 1)) == ((uint64_t)1 << LANES) - 1;
}

/* Scales down what a row has gathered, for a new reference. */
static ATTN__NOINLINE void K(rescale)(REAL by, REAL *sum, REAL *out, size_t width)
{
    REAL factor = K(exp_one)(by);

    K(scale_row)(sum, 16, factor);
    K(scale_row)(out, width, factor);
}

/* Makes the reference of a row fit its largest new score; returns what to subtract from scores. */
ATTN__INLINE REAL K(set_reference)(VEC top, REAL *max, REAL *sum, REAL *out, size_t width)
{
    if (V(gt)(top, V(set1)(*max + SLACK))) {
        REAL to = V(reduce_max)(top);
        /* Nothing seen yet is the usual case. A sum with max = -inf (scores of -inf, or NaN) goes
         * through the factor 0, which keeps a NaN. */
        if (*max != MINUS_INF || !K(is_zero)(sum))
            K(rescale)(*max - to, sum, out, width);
        *max = to;
    }
    if (*max == MINUS_INF) { /* allowed scores, all -inf or NaN: the row is not empty */
        sum[0] += 1;
        return 0;
    }
    return *max;
}

ATTN__INLINE VEC K(weight)(REAL *s, VEC base)
{
    return K(exp)(V(sub)(V(load)(s), base));
}

/* Rows of a whole tile without masks. Two passes, so that the rare call in the first does not make
 * the second reload its constants. */
static void K(softmax_whole)(REAL *s, size_t mr, REAL *max, REAL (*sum)[16], REAL *out,
                             ptrdiff_t out_stride, size_t width)
{
    enum { PARTS = 16 / LANES };
    REAL base[attn__group];

    for (size_t r = 0; r < mr; r++) {
        VEC top = V(load)(s + r * TILE);

        ATTN__UNROLL
        for (size_t i = 1; i < TILE_VECS; i++)
            top = V(max)(V(load)(s + r * TILE + i * LANES), top);
        base[r] = K(set_reference)(top, &max[r], sum[r], out + (ptrdiff_t)r * out_stride, width);
    }
    for (size_t r = 0; r < mr; r++) {
        VEC part[PARTS], from = V(set1)(base[r]);

        ATTN__UNROLL
        for (size_t i = 0; i < PARTS; i++)
            part[i] = V(load)(sum[r] + i * LANES);
        ATTN__UNROLL
        for (size_t i = 0; i < TILE_VECS; i++) {
            VEC p = K(weight)(s + r * TILE + i * LANES, from);

            V(store)(s + r * TILE + i * LANES, p);
            part[i % PARTS] = V(add)(part[i % PARTS], p);
        }
        ATTN__UNROLL
        for (size_t i = 0; i < PARTS; i++)
            V(store)(sum[r] + i * LANES, part[i]);
    }
}

/* One row, columns 0..n-1 of s, of which those in `allow` count. */
static void K(softmax_row)(REAL *s, size_t n, uint64_t allow, REAL *max, REAL *sum, REAL *out,
                           size_t width)
{
    enum { PARTS = 16 / LANES };
    VEC top = V(set1)(MINUS_INF), low = top, base, part[PARTS];

    for (size_t c = 0; c < n; c += LANES) {
        VEC x = V(pick)(allow >> c, V(load)(s + c), low);

        V(store)(s + c, x);
        top = V(max)(x, top); /* a NaN is passed over here; it reaches the sum below */
    }
    base = V(set1)(K(set_reference)(top, max, sum, out, width));
    for (size_t i = 0; i < PARTS; i++)
        part[i] = V(load)(sum + i * LANES);
    for (size_t c = 0; c < n; c += 16) {
        ATTN__UNROLL
        for (size_t i = 0; i < PARTS; i++) {
            size_t at = c + i * LANES;
            VEC p = V(keep)(allow >> at, K(weight)(s + at, base));

            V(store)(s + at, p);
            part[i] = V(add)(part[i], p);
        }
    }
    for (size_t i = 0; i < PARTS; i++)
        V(store)(sum + i * LANES, part[i]);
}

static void K(softmax)(REAL *s, size_t mr, size_t c0, size_t c1, const uint64_t *allow, REAL *max,
                       REAL (*sum)[16], REAL *out, ptrdiff_t out_stride, size_t width)
{
    if (!allow && c1 - c0 == TILE) {
        K(softmax_whole)(s, mr, max, sum, out, out_stride, width);
        return;
    }
    s += c0;
    for (size_t r = 0; r < mr; r++, s += TILE, out += out_stride) {
        uint64_t bits = allow ? allow[r] >> c0 : ~(uint64_t)0;

        if (bits)
            K(softmax_row)(s, c1 - c0, bits, &max[r], sum[r], out, width);
        else
            memset(s, 0, (c1 - c0) * sizeof *s);
    }
}

static void K(drop)(REAL *p, size_t c0, size_t c1, uint64_t keep, REAL factor)
{
    VEC f = V(set1)(factor);

    for (size_t c = c0; c < c1; c += LANES)
        V(store)(p + c, V(keep)(keep >> c, V(mul)(V(load)(p + c), f)));
}

static void K(weights)(REAL *s, size_t c0, size_t c1, uint64_t allow, REAL max, REAL factor)
{
    VEC m = V(set1)(max), f = V(set1)(factor);
    uint64_t wanted = ~(uint64_t)0 >> (TILE - (c1 - c0)) << c0;

    if ((allow & wanted) == wanted) {
        for (size_t c = c0; c < c1; c += LANES)
            V(store)(s + c, V(mul)(K(exp)(V(sub)(V(load)(s + c), m)), f));
        return;
    }
    for (size_t c = c0; c < c1; c += LANES) {
        VEC p = V(mul)(K(exp)(V(sub)(V(load)(s + c), m)), f);
        V(store)(s + c, V(keep)(allow >> c, p));
    }
}

static uint64_t K(nonfinite_rows)(const REAL *v, ptrdiff_t v_stride, size_t rows, size_t width)
{
    uint64_t bits = 0;

    for (size_t r = 0; r < rows; r++) {
        uint64_t finite = ((uint64_t)1 << LANES) - 1;

        for (size_t c = 0; c < width; c += LANES)
            finite &= V(finite)(V(load)(v + (ptrdiff_t)r * v_stride + (ptrdiff_t)c));
        bits |= (uint64_t)(finite != ((uint64_t)1 << LANES) - 1) << r;
    }
    return bits;
}

static void K(merge)(REAL *out, REAL *max, REAL *sum, const REAL *out2, REAL max2, REAL sum2,
                     size_t width)
{
    REAL m, w1, w2;

    if (sum2 == 0)
        return;
    if (*sum == 0) {
        *max = max2;
        *sum = sum2;
        if (out2)
            memcpy(out, out2, width * sizeof *out);
        return;
    }
    m = *max > max2 ? *max : max2;
    w1 = w2 = 1; /* both have seen nothing but -inf: their sums still count rows as not empty */
    if (m != MINUS_INF) {
        w1 = K(exp_one)(*max - m);
        w2 = K(exp_one)(max2 - m);
    }
    *max = m;
    *sum = *sum * w1 + sum2 * w2;
    for (size_t c = 0; c < width; c += LANES) {
        VEC a = V(mul)(V(load)(out + c), V(set1)(w1));
        V(store)(out + c, out2 ? V(fma)(V(load)(out2 + c), V(set1)(w2), a) : a);
    }
}

#include "src/kernels/gradient_real.h"

#include "src/kernels/train_real.h"
#include "src/kernels/nn_real.h"
#include "src/kernels/stats_kernels_real.h"

#undef PANEL
#undef TILE
#undef TILE_VECS
#undef SLACK
#undef MINUS_INF
#undef BY_VECTORS
#undef BY_SHAPE
#undef BY_ROWS
#undef WHOLE_BLOCK
#undef REAL
#undef VEC
#undef V
#undef K
#undef LANES
#undef NV
#undef REAL_TYPE
#undef HAS_HALF
#undef LOG2E
#undef CAP_LIMIT
#undef EXP_FAR
#undef LOAD_DOUBLES
#undef EXP2_DEGREE
#undef EXP2_COEFFICIENTS
