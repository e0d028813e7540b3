/* kernel_softmax.h: tests of softmax, weights, drop, merge and row_sum, for one kind of number;
 * part of test_kernels.c. */

/* Bound of the relative error of e^(s - m), x = s - m: the difference, the product and the constant
 * log2 e cost 2.25 u |x|, the polynomial and its last steps less than 4 u. */
static double N(exp_bound)(WIDE x)
{
    return (2.5 * fabs((double)x) + 4) * U;
}

/* One e^(s - m) * factor: exactly 1 (times factor) at 0, exactly 0 far below, and 0 may stand for
 * what is below the smallest normal number. */
static void N(exp_check)(REAL got, REAL s, REAL m, REAL factor, size_t row, size_t column)
{
    WIDE x = (WIDE)s - (WIDE)m, want = WIDE_EXP(x) * (WIDE)factor;
    double bound = (N(exp_bound)(x) + (factor == 1 ? 0 : U)) * fabs((double)want) +
                   (1 + fabs((double)factor)) * DENORMAL;

    if (x == 0) {
        CASE_CHECK(N(same)(got, factor), "[%zu][%zu]: e^0 times %g is %.17g", row, column,
                   (double)factor, (double)got);
        return;
    }
    if ((double)x <= EXP_ZERO || (got == 0 && WIDE_EXP(x) < (WIDE)NORMAL)) {
        CASE_CHECK(got == 0, "[%zu][%zu]: e^%g is %g, not 0", row, column, (double)x, (double)got);
        return;
    }
    case_near((double)got, (double)want, (double)((WIDE)got - want), bound, row, column);
}

static REAL N(add16)(const REAL *sum)
{
    REAL t[16];

    memcpy(t, sum, sizeof t);
    for (int half = 8; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            t[i] = t[i] + t[i + half];
    return t[0];
}

static void N(row_sum)(void **state)
{
    const KERNELS *k = &attn__kernels_for(test_set(state))->TABLE;

    cases_begin();
    for (int64_t i = 0; i < 4 * kernel_cases; i++) {
        rng r = case_rng(state, i);
        data_kind kind = i % 4 ? DATA_WIDE : data_draw(&r);
        REAL *sum = slot_get(SLOT_A, 16 * sizeof *sum, sizeof *sum, &r), got;

        for (int c = 0; c < 16; c++)
            sum[c] = (REAL)data_value(&r, kind, REAL_TYPE);
        slot_snap(SLOT_A);
        case_set("row_sum");
        got = k->row_sum(sum);
        CASE_CHECK(N(same)(got, N(add16)(sum)), "%.17g, not %.17g", (double)got,
                   (double)N(add16)(sum));
        slot_check(SLOT_A);
    }
    cases_end(state);
}

/* --- softmax -------------------------------------------------------------------------------- */

/* Arguments of one call, and what they were before it. */
typedef struct N(soft) {
    size_t mr, c0, c1, width;
    uint64_t allow[GROUP]; /* all ones in place of NULL */
    bool masked;
    REAL *s, *max, (*sum)[16];
    matrix out;
    const REAL *old_s, *old_max, (*old_sum)[16];
    size_t one[GROUP]; /* the column of out that holds 1: shows the factor */
} N(soft);

static uint64_t N(allow_draw)(rng *r, uint64_t columns)
{
    uint64_t bits = rng_next(r);

    switch (rng_int(r, 0, 5)) {
    case 0:
        return 0;
    case 1:
        return columns;
    case 2: /* one column */
        do
            bits = UINT64_C(1) << rng_int(r, 0, TILE - 1);
        while (!(bits & columns));
        return bits;
    case 3:
        return bits & rng_next(r) & rng_next(r) & columns;
    default:
        return bits & columns;
    }
}

/* State of a row: nothing seen, only -inf seen, or a reference with sums and an output. */
static void N(soft_row_state)(N(soft) * x, rng *r, size_t row)
{
    int64_t kind = rng_int(r, 0, 4);

    for (int i = 0; i < 16; i++)
        x->sum[row][i] = kind < 2 ? 0 : (REAL)rng_range(r, 0, 300);
    if (kind < 2) {
        x->max[row] = -(REAL)INFINITY;
        x->sum[row][0] = kind == 1 ? (REAL)rng_int(r, 1, 3) : 0;
        for (size_t c = 0; c < x->width; c++)
            matrix_set(&x->out, row, c, 0);
        return;
    }
    x->max[row] = (REAL)(rng_bell(r) * (rng_chance(r, 20) ? 1e4 : 10));
    for (size_t c = 0; c < x->width; c++)
        matrix_set(&x->out, row, c, rng_bell(r));
    x->one[row] = (size_t)rng_int(r, 0, (int64_t)x->width - 1);
    matrix_set(&x->out, row, x->one[row], 1);
}

/* Scores near, below, just around the slack above, and far above the reference. */
static void N(soft_row_scores)(N(soft) * x, rng *r, size_t row)
{
    static const double tops[] = {-30, 0, 5, SLACK_NATURAL - 0.01, SLACK_NATURAL + 0.01, 30, 1000};
    double reference = x->max[row] > -(REAL)INFINITY ? (double)x->max[row] : rng_range(r, -9, 9);
    double top = reference + (rng_chance(r, 20) ? SLACK_NATURAL : tops[rng_int(r, 0, 6)]);
    double spread = rng_chance(r, 25) ? 150 : rng_chance(r, 10) ? 1e6 : 8;
    int64_t minus_inf = rng_chance(r, 20) ? rng_chance(r, 50) ? 100 : 30 : 0;
    size_t peak = (size_t)rng_int(r, 0, TILE - 1);

    for (size_t c = 0; c < TILE; c++) {
        REAL *s = &x->s[row * TILE + c];

        *s = (REAL)(c == peak ? top : top - spread * rng_unit(r));
        if (rng_int(r, 0, 99) < minus_inf)
            *s = -(REAL)INFINITY;
        if (x->masked && !(x->allow[row] >> c & 1))
            *s = (REAL)special_value(REAL_TYPE, (int)rng_int(r, 0, SPECIAL_COUNT - 1));
    }
}

static void N(soft_draw)(N(soft) * x, rng *r)
{
    x->mr = (size_t)rng_int(r, 1, GROUP);
    draw_columns(r, &x->c0, &x->c1);
    x->width = 16 * (size_t)rng_int(r, 1, 17);
    x->masked = rng_chance(r, 70);
    x->s = slot_get(SLOT_A, x->mr * TILE * sizeof *x->s, sizeof *x->s, r);
    x->out = matrix_draw(SLOT_B, r, REAL_TYPE, x->mr, x->width, true, false);
    x->max = slot_get(SLOT_C, x->mr * sizeof *x->max, sizeof *x->max, r);
    x->sum = slot_get(SLOT_D, x->mr * sizeof *x->sum, sizeof(REAL), r);
    for (size_t row = 0; row < x->mr; row++) {
        x->allow[row] =
            x->masked ? N(allow_draw)(r, column_bits(x->c0, x->c1)) : column_bits(x->c0, x->c1);
        N(soft_row_state)(x, r, row);
        N(soft_row_scores)(x, r, row);
    }
}

/* A NaN among the attended: their places and the sum hold NaN, masked cells 0. The rest is left to
 * chance, as the row is lost. */
static void N(soft_check_nan)(N(soft) * x, size_t row)
{
    REAL *expected = slot_expected(SLOT_B);

    for (size_t c = x->c0; c < x->c1; c++) {
        REAL got = x->s[row * TILE + c], was = x->old_s[row * TILE + c];

        if (!(x->allow[row] >> c & 1))
            CASE_CHECK(N(same)(got, 0), "[%zu][%zu] is masked, but %g", row, c, (double)got);
        else if (!(was < (REAL)INFINITY))
            CASE_CHECK(isnan(got), "[%zu][%zu] was %g and is %g", row, c, (double)was, (double)got);
    }
    CASE_CHECK(isnan(N(add16)(x->sum[row])), "row %zu lost a NaN", row);
    expected += (ptrdiff_t)(x->out.first / sizeof(REAL)) + (ptrdiff_t)row * x->out.row_stride;
    memcpy(expected, (REAL *)(void *)x->out.data + (ptrdiff_t)row * x->out.row_stride,
           x->width * sizeof(REAL));
}

/* The reference moves only past the slack, and then to the largest score. Returns the factor by
 * which what was there is scaled, read off the output: exactly 1 if it stays. */
static REAL N(soft_check_max)(N(soft) * x, size_t row, REAL top)
{
    REAL was = x->old_max[row], now = x->max[row], factor;
    double limit = (double)was + SLACK_NATURAL,
           rounding = 4 * U * (fabs(limit) + fabs((double)was));

    if (now == was && (top == was || (double)top <= limit + rounding))
        return 1;
    CASE_CHECK(now == top, "row %zu: reference %.9g moved to %.9g, the largest is %.9g", row,
               (double)was, (double)now, (double)top);
    CASE_CHECK((double)top >= limit - rounding,
               "row %zu: reference %g moved to %g, within the slack", row, (double)was,
               (double)now);
    if (was == -(REAL)INFINITY)
        return 0;
    factor = (REAL)matrix_get(&x->out, row, x->one[row]);
    N(exp_check)(factor, was, now, 1, row, x->one[row]);
    return factor;
}

static void N(soft_check_row)(N(soft) * x, size_t row)
{
    REAL top = -(REAL)INFINITY, factor, sum[16], *out;
    bool dead;

    for (size_t c = x->c0; c < x->c1; c++) {
        REAL s = x->old_s[row * TILE + c];

        if (!(x->allow[row] >> c & 1))
            continue;
        if (!(s < (REAL)INFINITY)) {
            N(soft_check_nan)(x, row);
            return;
        }
        top = s > top ? s : top;
    }
    factor = N(soft_check_max)(x, row, top);
    dead = x->max[row] == -(REAL)INFINITY;
    for (int i = 0; i < 16; i++)
        sum[i] = factor == 1 ? x->old_sum[row][i] : x->old_sum[row][i] * factor;
    sum[0] += (REAL)(dead && x->allow[row]); /* the row is not empty */
    for (size_t c = x->c0; c < x->c1; c++) {
        REAL got = x->s[row * TILE + c];

        if (x->allow[row] >> c & 1 && !dead)
            N(exp_check)(got, x->old_s[row * TILE + c], x->max[row], 1, row, c);
        else
            CASE_CHECK(N(same)(got, 0), "[%zu][%zu] is %g, not 0", row, c, (double)got);
        sum[c % 16] += got;
    }
    for (int i = 0; i < 16; i++)
        CASE_CHECK(N(same)(x->sum[row][i], sum[i]), "row %zu: partial sum %d is %.9g, not %.9g",
                   row, i, (double)x->sum[row][i], (double)sum[i]);
    out = (REAL *)slot_expected(SLOT_B) + (ptrdiff_t)(x->out.first / sizeof(REAL)) +
          (ptrdiff_t)row * x->out.row_stride;
    for (size_t c = 0; c < x->width && factor != 1; c++)
        out[c] = out[c] * factor;
}

static void N(soft_run)(const KERNELS *k, N(soft) * x)
{
    REAL *s;

    case_set("softmax: %zu rows, columns %zu..%zu, %s, width %zu, out %td", x->mr, x->c0, x->c1,
             x->masked ? "masked" : "all allowed", x->width, x->out.row_stride);
    for (int i = SLOT_A; i <= SLOT_D; i++)
        slot_snap(i);
    x->old_s = s = slot_expected(SLOT_A);
    x->old_max = slot_expected(SLOT_C);
    x->old_sum = (const REAL(*)[16])slot_expected(SLOT_D);
    k->softmax(x->s, x->mr, x->c0, x->c1, x->masked ? x->allow : NULL, x->max, x->sum,
               (REAL *)(void *)x->out.data, x->out.row_stride, x->width);
    for (size_t row = 0; row < x->mr; row++)
        N(soft_check_row)(x, row);
    for (size_t row = 0; row < x->mr; row++) /* cells that no column of the call covers */
        memcpy(s + row * TILE + x->c0, x->s + row * TILE + x->c0, (x->c1 - x->c0) * sizeof *s);
    memcpy(slot_expected(SLOT_C), x->max, x->mr * sizeof *x->max);
    memcpy(slot_expected(SLOT_D), x->sum, x->mr * sizeof *x->sum);
    for (int i = SLOT_A; i <= SLOT_D; i++)
        slot_check(i);
}

/* Special i / 64 in lane i % 64 of every row, attended, or masked in the second half of the cases.
 */
static void N(soft_special)(const KERNELS *k, rng *r, int64_t i)
{
    N(soft) x = {0};
    size_t lane = (size_t)(i % TILE);
    bool hide = i >= SPECIAL_COUNT * TILE;

    N(soft_draw)(&x, r);
    x.masked |= hide;
    x.c0 = rng_chance(r, 50) ? 0 : lane / 16 * 16;
    x.c1 = rng_chance(r, 50) ? TILE : lane / 16 * 16 + 16;
    for (size_t row = 0; row < x.mr; row++) {
        uint64_t columns = column_bits(x.c0, x.c1), bit = UINT64_C(1) << lane;

        x.allow[row] = x.masked ? (rng_next(r) & columns) | bit : columns;
        N(soft_row_scores)(&x, r, row);
        x.s[row * TILE + lane] = (REAL)special_value(REAL_TYPE, (int)(i / TILE % SPECIAL_COUNT));
        if (hide)
            x.allow[row] &= ~bit;
    }
    N(soft_run)(k, &x);
}

static void N(softmax)(void **state)
{
    const KERNELS *k = &attn__kernels_for(test_set(state))->TABLE;
    int64_t drawn = 4 * kernel_cases;

    cases_begin();
    for (int64_t i = 0; i < drawn + 2 * SPECIAL_COUNT * TILE; i++) {
        rng r = case_rng(state, i);
        N(soft) x = {0};

        if (i >= drawn) {
            N(soft_special)(k, &r, i - drawn);
            continue;
        }
        N(soft_draw)(&x, &r);
        N(soft_run)(k, &x);
    }
    cases_end(state);
}

/* --- weights -------------------------------------------------------------------------------- */

static void N(weights_case)(const KERNELS *k, rng *r)
{
    REAL *s = slot_get(SLOT_A, TILE * sizeof *s, sizeof *s, r), *expected;
    REAL max = (REAL)(rng_bell(r) * 20), factor = rng_chance(r, 30) ? 1 : (REAL)rng_range(r, 0, 2);
    uint64_t allow = N(allow_draw)(r, ~UINT64_C(0));
    double spread = rng_chance(r, 25) ? 1e6 : rng_chance(r, 50) ? 150 : 8;
    size_t c0, c1;

    draw_columns(r, &c0, &c1);
    for (size_t c = 0; c < TILE; c++) {
        s[c] = rng_chance(r, 5) ? max : max + (REAL)(SLACK_NATURAL - spread * rng_unit(r));
        if (rng_chance(r, 5))
            s[c] = rng_chance(r, 50) ? -(REAL)INFINITY : (REAL)NAN;
    }
    slot_snap(SLOT_A);
    expected = slot_expected(SLOT_A);
    case_set("weights: columns %zu..%zu, max %g, factor %g", c0, c1, (double)max, (double)factor);
    k->weights(s, c0, c1, allow, max, factor);
    for (size_t c = c0; c < c1; c++) {
        if (!(allow >> c & 1))
            CASE_CHECK(N(same)(s[c], 0), "[%zu] is %g, not 0", c, (double)s[c]);
        else if (isnan(expected[c]))
            CASE_CHECK(isnan(s[c]), "[%zu] is %g, not NaN", c, (double)s[c]);
        else
            N(exp_check)(s[c], expected[c], max, factor, 0, c);
        expected[c] = s[c];
    }
    slot_check(SLOT_A);
}

static void N(weights)(void **state)
{
    const KERNELS *k = &attn__kernels_for(test_set(state))->TABLE;

    cases_begin();
    for (int64_t i = 0; i < 4 * kernel_cases; i++) {
        rng r = case_rng(state, i);

        N(weights_case)(k, &r);
    }
    cases_end(state);
}

/* e^x over a dense grid from where it is 0 to where softmax may use it, then down to -inf. */
static void N(exponential)(void **state)
{
    const KERNELS *k = &attn__kernels_for(test_set(state))->TABLE;
    int64_t tiles = 16 * kernel_cases;
    double step = (6 - EXP_ZERO * 1.02) / (double)(tiles * TILE), ulp_near = 0;
    REAL s[TILE], x[TILE];

    cases_begin();
    for (int64_t i = 0; i < tiles + 40; i++) {
        rng r = case_rng(state, i);

        for (int c = 0; c < TILE; c++)
            x[c] = i < tiles
                       ? (REAL)(6 - step * ((double)(i * TILE + c) + rng_unit(&r)))
                       : (REAL)(EXP_ZERO * pow(LARGEST / 1024,
                                               (double)((i - tiles) * TILE + c) / (40.0 * TILE)));
        x[0] = i < tiles ? x[0] : -(REAL)INFINITY;
        x[63] = 0;
        memcpy(s, x, sizeof s);
        case_set("e^x, %.17g to %.17g", (double)x[1], (double)x[TILE - 2]);
        k->weights(s, 0, TILE, ~UINT64_C(0), 0, 1);
        for (size_t c = 0; c < TILE; c++) {
            N(exp_check)(s[c], x[c], 0, 1, 0, c);
            if (x[c] > -1 && x[c] < 1) {
                WIDE want = WIDE_EXP((WIDE)x[c]);
                double ulp = 2 * U * ldexp(1, ilogb((double)want));

                ulp_near = fmax(ulp_near, fabs((double)((WIDE)s[c] - want)) / ulp);
            }
        }
    }
    print_message("e^x: worst error %.2f ulp for |x| < 1\n", ulp_near);
    CHECK(ulp_near < 2);
    cases_end(state);
}

/* --- drop ----------------------------------------------------------------------------------- */

static void N(drop)(void **state)
{
    const KERNELS *k = &attn__kernels_for(test_set(state))->TABLE;

    cases_begin();
    for (int64_t i = 0; i < 4 * kernel_cases; i++) {
        rng r = case_rng(state, i);
        REAL *p = slot_get(SLOT_A, TILE * sizeof *p, sizeof *p, &r), *expected;
        REAL factor = (REAL)rng_range(&r, 1, 3);
        uint64_t keep = N(allow_draw)(&r, ~UINT64_C(0));
        size_t c0, c1;

        draw_columns(&r, &c0, &c1);
        for (size_t c = 0; c < TILE; c++)
            p[c] = (REAL)(rng_chance(&r, 10) ? special_value(REAL_TYPE, (int)rng_int(&r, 0, 8))
                                             : rng_unit(&r));
        slot_snap(SLOT_A);
        expected = slot_expected(SLOT_A);
        case_set("drop: columns %zu..%zu, keep %llx", c0, c1, (unsigned long long)keep);
        k->drop(p, c0, c1, keep, factor);
        for (size_t c = c0; c < c1; c++) {
            REAL want = keep >> c & 1 ? expected[c] * factor : 0;

            CASE_CHECK(N(same)(p[c], want), "[%zu] is %g, not %g", c, (double)p[c], (double)want);
            expected[c] = p[c];
        }
        slot_check(SLOT_A);
    }
    cases_end(state);
}

/* --- merge ---------------------------------------------------------------------------------- */

/* Two records, a in place; the outputs as doubles where they are compared. */
typedef struct N(pair) {
    size_t width;
    REAL *out, max, sum;
    REAL *out2, max2, sum2;
    bool none2; /* out2 is NULL */
} N(pair);

static void N(pair_draw)(N(pair) * x, rng *r)
{
    static const double gaps[] = {0, 0, 1, -5, 60, -60, 300, -300};

    x->width = 16 * (size_t)rng_int(r, 1, 17);
    x->none2 = rng_chance(r, 20);
    x->out = slot_get(SLOT_A, x->width * sizeof *x->out, sizeof *x->out, r);
    x->out2 = slot_get(SLOT_B, x->width * sizeof *x->out2, sizeof *x->out2, r);
    x->max = (REAL)(rng_bell(r) * 20);
    x->max2 =
        (REAL)((double)x->max + gaps[rng_int(r, 0, 7)] * (rng_chance(r, 50) ? 1 : rng_unit(r)));
    x->sum = (REAL)rng_range(r, 0.5, 300);
    x->sum2 = (REAL)rng_range(r, 0.5, 300);
    for (size_t c = 0; c < x->width; c++) {
        x->out[c] = (REAL)rng_bell(r);
        x->out2[c] = x->none2 ? 0 : (REAL)rng_bell(r);
    }
    slot_snap(SLOT_A);
    slot_snap(SLOT_B);
}

static void N(pair_merge)(const KERNELS *k, N(pair) * x)
{
    case_set("merge: width %zu, records (%.9g, %.9g) and (%.9g, %.9g)", x->width, (double)x->max,
             (double)x->sum, (double)x->max2, (double)x->sum2);
    k->merge(x->out, &x->max, &x->sum, x->none2 ? NULL : x->out2, x->max2, x->sum2, x->width);
}

static void N(merge_case)(const KERNELS *k, rng *r)
{
    N(pair) x;
    REAL m, m1, s1;
    const REAL *old = slot_expected(SLOT_A);
    WIDE w1, w2, sum;
    double e1, e2;

    N(pair_draw)(&x, r);
    m1 = x.max;
    s1 = x.sum;
    m = m1 > x.max2 ? m1 : x.max2;
    N(pair_merge)(k, &x);
    CASE_CHECK(N(same)(x.max, m), "max is %g, not %g", (double)x.max, (double)m);
    w1 = WIDE_EXP((WIDE)m1 - (WIDE)m);
    w2 = WIDE_EXP((WIDE)x.max2 - (WIDE)m);
    e1 = (N(exp_bound)((WIDE)m1 - (WIDE)m) + U) * (double)w1 + NORMAL;
    e2 = (N(exp_bound)((WIDE)x.max2 - (WIDE)m) + U) * (double)w2 + NORMAL;
    sum = (WIDE)s1 * w1 + (WIDE)x.sum2 * w2;
    case_near((double)x.sum, (double)sum, (double)((WIDE)x.sum - sum),
              (double)s1 * e1 + (double)x.sum2 * e2 + U * (double)sum, 0, 0);
    for (size_t c = 0; c < x.width; c++) {
        WIDE want = (WIDE)old[c] * w1 + (WIDE)x.out2[c] * w2;

        case_near((double)x.out[c], (double)want, (double)((WIDE)x.out[c] - want),
                  fabs((double)old[c]) * e1 + fabs((double)x.out2[c]) * e2 +
                      U * fabs((double)want) + 2 * DENORMAL,
                  1, c);
    }
    memcpy(slot_expected(SLOT_A), x.out, x.width * sizeof *x.out);
    slot_check(SLOT_A);
    slot_check(SLOT_B);
}

/* An empty record changes no bit of the other, whatever lies in its output. */
static void N(merge_empty)(const KERNELS *k, rng *r)
{
    N(pair) x;
    REAL max, sum;

    N(pair_draw)(&x, r);
    x.sum2 = 0;
    x.max2 = rng_chance(r, 50) ? -(REAL)INFINITY : (REAL)NAN;
    memset(x.out2, 0xFF, x.width * sizeof *x.out2);
    max = x.max;
    sum = x.sum;
    N(pair_merge)(k, &x);
    CASE_CHECK(N(same)(x.max, max) && N(same)(x.sum, sum),
               "an empty second record changed max, sum");
    slot_check(SLOT_A);

    N(pair_draw)(&x, r);
    x.sum = 0;
    x.max = -(REAL)INFINITY;
    memset(x.out, 0, x.width * sizeof *x.out);
    N(pair_merge)(k, &x);
    CASE_CHECK(N(same)(x.max, x.max2) && N(same)(x.sum, x.sum2),
               "an empty first record changed max, sum");
    memcpy(slot_expected(SLOT_A), x.out2, x.width * sizeof *x.out2);
    slot_check(SLOT_A);
    slot_check(SLOT_B);
}

/* Equal maxima weigh exactly 1; so do two records that have seen only -inf; NaN stays. */
static void N(merge_equal)(const KERNELS *k, rng *r)
{
    REAL *expected = slot_expected(SLOT_A), sum;
    int nan = rng_int(r, 0, 5) == 0;
    N(pair) x;

    N(pair_draw)(&x, r);
    x.max2 = x.max = rng_chance(r, 30) ? -(REAL)INFINITY : x.max;
    if (nan)
        *(rng_chance(r, 50) ? &x.sum : &x.sum2) = (REAL)NAN;
    sum = x.sum + x.sum2;
    for (size_t c = 0; c < x.width; c++)
        expected[c] = x.out[c] + x.out2[c];
    N(pair_merge)(k, &x);
    CASE_CHECK(N(same)(x.max, x.max2) && N(same)(x.sum, sum), "sum is %g, not %g", (double)x.sum,
               (double)sum);
    slot_check(SLOT_A);
}

static void N(merge)(void **state)
{
    const KERNELS *k = &attn__kernels_for(test_set(state))->TABLE;

    cases_begin();
    for (int64_t i = 0; i < kernel_cases; i++) {
        rng r = case_rng(state, i);

        N(merge_case)(k, &r);
        N(merge_empty)(k, &r);
        N(merge_equal)(k, &r);
    }
    cases_end(state);
}
