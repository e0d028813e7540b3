/* stats_kernels_real.h: the kernels of stats_kernels.h, for one kind of number. Part of
 * kernels_real.h. */

/* Below this e^x is exactly 0. A difference of scores may be as large as numbers go: bounded, its
 * product with the 0 is 0 too. */
#define FAR_BELOW ((REAL)(-EXP_FAR))

static void K(move_moment)(REAL *moment, REAL *sum, REAL from, REAL to)
{
    REAL x = from - to, factor;

    if (x == 0)
        return;
    factor = x < FAR_BELOW || from == MINUS_INF ? 0 : K(exp_one)(x);
    *moment = factor == 0 ? 0 : (*moment + *sum * x) * factor;
    *sum = factor == 0 ? 0 : *sum * factor;
}

/* Moves the partial moments of a row, whose sums are still those of the old reference. */
static ATTN__NOINLINE void K(move_moments)(REAL *moment, const REAL *sum, REAL from, REAL to)
{
    for (int i = 0; i < 16; i++) {
        REAL own = sum[i];

        K(move_moment)(&moment[i], &own, from, to);
    }
}

static void K(take_peak)(const REAL *s, size_t n, VEC top, REAL *peak, int64_t *place, int64_t at)
{
    REAL x = V(reduce_max)(top);

    for (size_t c = 0; c < n; c += LANES) {
        uint64_t bits = V(eq)(V(load)(s + c), V(set1)(x));

        if (bits) {
            *peak = x;
            *place = at + (int64_t)c + __builtin_ctzll(bits);
            return;
        }
    }
}

/* What changes when scores exceed all before them, which they do the less the more there were. */
static ATTN__NOINLINE REAL K(rise)(const REAL *s, size_t n, VEC top, REAL *max, REAL *sum,
                                   REAL *out, size_t width, REAL *moment, REAL *peak,
                                   int64_t *place, int64_t at)
{
    if (V(gt)(top, V(set1)(*peak)))
        K(take_peak)(s, n, top, peak, place, at);
    if (V(gt)(top, V(set1)(*max + SLACK)) && *max != MINUS_INF)
        K(move_moments)(moment, sum, *max, V(reduce_max)(top));
    return K(set_reference)(top, max, sum, out, width);
}

/* One comparison tells that nothing moves. */
ATTN__INLINE REAL K(set_reference_stats)(const REAL *s, size_t n, VEC top, REAL *max, REAL *sum,
                                         REAL *out, size_t width, REAL *moment, REAL *peak,
                                         int64_t *place, int64_t at)
{
    REAL limit = *max + SLACK;

    if (V(gt)(top, V(set1)(*peak < limit ? *peak : limit)) || *max == MINUS_INF)
        return K(rise)(s, n, top, max, sum, out, width, moment, peak, place, at);
    return *max;
}

/* A weight, and its step of the moment. */
ATTN__INLINE VEC K(weigh)(const REAL *s, VEC base, VEC *moment)
{
    VEC x = V(sub)(V(load)(s), base), p = K(exp)(x);

    *moment = V(fma)(p, V(max)(V(set1)(FAR_BELOW), x), *moment); /* NaN passes, as second */
    return p;
}

static void K(softmax_stats_whole)(REAL *s, size_t mr, REAL *max, REAL (*sum)[16], REAL *out,
                                   ptrdiff_t out_stride, size_t width, REAL (*moment)[16],
                                   REAL *peak, int64_t *place, int64_t at)
{
    enum { PARTS = 16 / LANES };
    REAL base[attn__group];

    for (size_t r = 0; r < mr; r++) {
        VEC top = V(load)(s + r * TILE);

        ATTN__UNROLL
        for (size_t i = 1; i < TILE_VECS; i++)
            top = V(max)(V(load)(s + r * TILE + i * LANES), top);
        base[r] = K(set_reference_stats)(s + r * TILE, TILE, top, &max[r], sum[r],
                                         out + (ptrdiff_t)r * out_stride, width, moment[r],
                                         &peak[r], &place[r], at);
    }
    for (size_t r = 0; r < mr; r++) {
        VEC part[PARTS], step[PARTS], from = V(set1)(base[r]);

        ATTN__UNROLL
        for (size_t i = 0; i < PARTS; i++) {
            part[i] = V(load)(sum[r] + i * LANES);
            step[i] = V(load)(moment[r] + i * LANES);
        }
        ATTN__UNROLL
        for (size_t i = 0; i < TILE_VECS; i++) {
            VEC p = K(weigh)(s + r * TILE + i * LANES, from, &step[i % PARTS]);

            V(store)(s + r * TILE + i * LANES, p);
            part[i % PARTS] = V(add)(part[i % PARTS], p);
        }
        ATTN__UNROLL
        for (size_t i = 0; i < PARTS; i++) {
            V(store)(sum[r] + i * LANES, part[i]);
            V(store)(moment[r] + i * LANES, step[i]);
        }
    }
}

static void K(softmax_stats_row)(REAL *s, size_t n, uint64_t allow, REAL *max, REAL *sum, REAL *out,
                                 size_t width, REAL *moment, REAL *peak, int64_t *place, int64_t at)
{
    enum { PARTS = 16 / LANES };
    VEC top = V(set1)(MINUS_INF), low = top, base, part[PARTS], step[PARTS];

    for (size_t c = 0; c < n; c += LANES) {
        VEC x = V(pick)(allow >> c, V(load)(s + c), low);

        V(store)(s + c, x);
        top = V(max)(x, top);
    }
    base =
        V(set1)(K(set_reference_stats)(s, n, top, max, sum, out, width, moment, peak, place, at));
    for (size_t i = 0; i < PARTS; i++) {
        part[i] = V(load)(sum + i * LANES);
        step[i] = V(load)(moment + i * LANES);
    }
    for (size_t c = 0; c < n; c += 16) {
        ATTN__UNROLL
        for (size_t i = 0; i < PARTS; i++) {
            size_t place_of = c + i * LANES;
            VEC p = V(keep)(allow >> place_of, K(weigh)(s + place_of, base, &step[i]));

            V(store)(s + place_of, p);
            part[i] = V(add)(part[i], p);
        }
    }
    for (size_t i = 0; i < PARTS; i++) {
        V(store)(sum + i * LANES, part[i]);
        V(store)(moment + i * LANES, step[i]);
    }
}

static void K(softmax_stats)(REAL *s, size_t mr, size_t c0, size_t c1, const uint64_t *allow,
                             REAL *max, REAL (*sum)[16], REAL *out, ptrdiff_t out_stride,
                             size_t width, REAL (*moment)[16], REAL *peak, int64_t *place,
                             int64_t at)
{
    if (!allow && c1 - c0 == TILE) {
        K(softmax_stats_whole)
        (s, mr, max, sum, out, out_stride, width, moment, peak, place, at);
        return;
    }
    s += c0;
    for (size_t r = 0; r < mr; r++, s += TILE, out += out_stride) {
        uint64_t bits = allow ? allow[r] >> c0 : ~(uint64_t)0;

        if (bits)
            K(softmax_stats_row)
        (s, c1 - c0, bits, &max[r], sum[r], out, width, moment[r], &peak[r], &place[r],
         at + (int64_t)c0);
        else memset(s, 0, (c1 - c0) * sizeof *s);
    }
}

static uint64_t K(find_above)(const REAL *s, size_t c0, size_t c1, uint64_t allow, REAL floor)
{
    VEC limit = V(set1)(floor), top = V(set1)(MINUS_INF);
    uint64_t bits = 0, wanted = ~(uint64_t)0 >> (TILE - (c1 - c0)) << c0;

    if ((allow & wanted) == wanted) { /* else some cells may never have been written */
        for (size_t c = c0; c < c1; c += LANES)
            top = V(max)(V(load)(s + c), top); /* passes over NaN */
        if (!V(gt)(top, limit))                /* the usual case */
            return 0;
    }
    for (size_t c = c0; c < c1; c += LANES)
        bits |= V(gt)(V(load)(s + c), limit) << c;
    return bits & allow;
}

static void K(add_columns)(double *to, const REAL *p, size_t mr, size_t c0, size_t c1,
                           const double *factor)
{
    enum { PARTS = 16 / VD_LANES };

    for (size_t c = c0; c < c1; c += 16) {
        vd part[PARTS];

        ATTN__UNROLL
        for (size_t i = 0; i < PARTS; i++)
            part[i] = vd_load(to + c + i * VD_LANES);
        for (size_t r = 0; r < mr; r++) {
            vd by = vd_set1(factor[r]);

            ATTN__UNROLL
            for (size_t i = 0; i < PARTS; i++)
                part[i] = vd_fma(by, LOAD_DOUBLES(p + r * TILE + c + i * VD_LANES), part[i]);
        }
        ATTN__UNROLL
        for (size_t i = 0; i < PARTS; i++)
            vd_store(to + c + i * VD_LANES, part[i]);
    }
}

static void K(max_columns)(REAL *to, const REAL *p, size_t mr, size_t c0, size_t c1)
{
    for (size_t c = c0; c < c1; c += LANES) {
        VEC top = V(load)(to + c);

        for (size_t r = 0; r < mr; r++)
            top = V(max)(V(load)(p + r * TILE + c), top);
        V(store)(to + c, top);
    }
}

#undef FAR_BELOW
