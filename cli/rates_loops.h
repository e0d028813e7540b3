/* rates_loops.h: the two loops of rates.c over one vector type. Included once for each set,
 * with
 *
 *     NAME(f)    the function's name for this set         TARGET     its target attribute
 *     VEC        vector of LANES floats                   SET(x)     x in all lanes
 *     FMA(a,b,c) a * b + c                                ADD(a,b)   a + b
 *     LOAD(p)    from p, aligned                          LOWEST(a)  lane 0
 *
 * which it undefines again. No include guard: that is the point. */

TARGET static double NAME(peak)(void)
{
    VEC m = SET(0.999f), c = SET(1e-3f);
    VEC a0 = SET(0), a1 = SET(1), a2 = SET(2), a3 = SET(3), a4 = SET(4), a5 = SET(5);
    VEC a6 = SET(6), a7 = SET(7), a8 = SET(8), a9 = SET(9), aa = SET(10), ab = SET(11);

    for (long i = 0; i < PEAK_STEPS; i++) {
        a0 = FMA(a0, m, c), a1 = FMA(a1, m, c), a2 = FMA(a2, m, c), a3 = FMA(a3, m, c);
        a4 = FMA(a4, m, c), a5 = FMA(a5, m, c), a6 = FMA(a6, m, c), a7 = FMA(a7, m, c);
        a8 = FMA(a8, m, c), a9 = FMA(a9, m, c), aa = FMA(aa, m, c), ab = FMA(ab, m, c);
    }
    a0 = ADD(ADD(ADD(a0, a1), ADD(a2, a3)), ADD(ADD(a4, a5), ADD(a6, a7)));
    result = LOWEST(ADD(a0, ADD(ADD(a8, a9), ADD(aa, ab))));
    return 2.0 * 12 * LANES * PEAK_STEPS;
}

TARGET static void NAME(stream)(const float *p, size_t n)
{
    VEC a = SET(0), b = a, c = a, d = a;

    for (size_t i = 0; i < n; i += (size_t)4 * LANES) {
        a = ADD(a, LOAD(p + i)), b = ADD(b, LOAD(p + i + LANES));
        c = ADD(c, LOAD(p + i + 2 * LANES)), d = ADD(d, LOAD(p + i + 3 * LANES));
    }
    result = LOWEST(ADD(ADD(a, b), ADD(c, d)));
}

#undef NAME
#undef TARGET
#undef VEC
#undef LANES
#undef SET
#undef FMA
#undef ADD
#undef LOAD
#undef LOWEST
