/* kernel_cells.h: tests of what changes or looks at cells one by one: softcap, add_bias, add_alibi,
 * find_minus_inf, nonfinite_rows, for one kind of number; part of test_kernels.c. */

/* A row of 64 cells in slot A with specials at some lanes. */
static REAL *N(row_draw)(rng *r, int slot, int64_t i)
{
    REAL *s = slot_get(slot, TILE * sizeof *s, sizeof *s, r);
    data_kind kind = data_draw(r);

    for (size_t c = 0; c < TILE; c++)
        s[c] = (REAL)(10 * data_value(r, kind, REAL_TYPE));
    if (rng_chance(r, 70)) /* in turn, every special in every lane */
        s[i % TILE] = (REAL)special_value(REAL_TYPE, (int)(i / TILE % SPECIAL_COUNT));
    return s;
}

/* Enough cases for every special in every lane, several times. */
static int64_t N(row_cases)(void)
{
    return 4 * kernel_cases < 2 * SPECIAL_COUNT * TILE ? 2 * SPECIAL_COUNT * TILE
                                                       : 4 * kernel_cases;
}

static void N(add_bias)(void **state)
{
    const KERNELS *k = &attn__kernels_for(test_set(state))->TABLE;

    cases_begin();
    for (int64_t i = 0; i < N(row_cases)(); i++) {
        rng r = case_rng(state, i);
        REAL *s = N(row_draw)(&r, SLOT_A, i / 7), *b = N(row_draw)(&r, SLOT_B, i), *expected;
        uint64_t bits, want = 0;
        size_t c0, c1;

        draw_columns(&r, &c0, &c1);
        slot_snap(SLOT_A);
        slot_snap(SLOT_B);
        expected = slot_expected(SLOT_A);
        case_set("add_bias: columns %zu..%zu", c0, c1);
        bits = k->add_bias(s, b, c0, c1);
        for (size_t c = c0; c < c1; c++) {
            REAL sum = expected[c] + b[c];

            CASE_CHECK(N(same)(s[c], sum), "[%zu] is %g, not %g", c, (double)s[c], (double)sum);
            expected[c] = s[c];
            want |= (uint64_t)(b[c] != -(REAL)INFINITY) << c;
        }
        CASE_CHECK((bits & column_bits(c0, c1)) == want, "bits %llx, not %llx",
                   (unsigned long long)bits, (unsigned long long)want);
        slot_check(SLOT_A);
        slot_check(SLOT_B);
    }
    cases_end(state);
}

static void N(find_minus_inf)(void **state)
{
    const KERNELS *k = &attn__kernels_for(test_set(state))->TABLE;

    cases_begin();
    for (int64_t i = 0; i < N(row_cases)(); i++) {
        rng r = case_rng(state, i);
        REAL *s = N(row_draw)(&r, SLOT_A, i);
        uint64_t bits, want = 0, some = rng_chance(&r, 50) ? rng_next(&r) & rng_next(&r) : 0;
        size_t c0, c1;

        draw_columns(&r, &c0, &c1);
        for (size_t c = 0; c < TILE; c++) {
            if (some >> c & 1)
                s[c] = -(REAL)INFINITY;
            want |= (uint64_t)(c >= c0 && c < c1 && s[c] == -(REAL)INFINITY) << c;
        }
        slot_snap(SLOT_A);
        case_set("find_minus_inf: columns %zu..%zu", c0, c1);
        bits = k->find_minus_inf(s, c0, c1);
        CASE_CHECK(bits == want, "bits %llx, not %llx", (unsigned long long)bits,
                   (unsigned long long)want);
        slot_check(SLOT_A);
    }
    cases_end(state);
}

/* A cell of add_alibi: the difference of positions, the product and the sum round. */
static void N(alibi_check)(REAL got, REAL s, REAL slope, REAL distance, size_t c)
{
    WIDE away = (WIDE)distance - (WIDE)c, drop = (WIDE)slope * (away < 0 ? -away : away);
    WIDE want = (WIDE)s - drop;
    double bound = U * (2.01 * (double)drop + fabs((double)want)) + 2 * DENORMAL;

    if (isfinite(s) && fabs((double)s) < LARGEST / 2)
        case_near((double)got, (double)want, (double)((WIDE)got - want), bound, 0, c);
    else
        CASE_CHECK(N(same)(got, (REAL)want) || (!isnan(s) && fabs((double)s) <= fabs((double)got)),
                   "[%zu] of %g is %g", c, (double)s, (double)got);
}

static void N(add_alibi)(void **state)
{
    const KERNELS *k = &attn__kernels_for(test_set(state))->TABLE;

    cases_begin();
    for (int64_t i = 0; i < N(row_cases)(); i++) {
        rng r = case_rng(state, i);
        REAL *s = N(row_draw)(&r, SLOT_A, i), *expected, slope = (REAL)rng_unit(&r);
        REAL distance = (REAL)rng_int(&r, -200, 200);
        size_t c0, c1;

        if (rng_chance(&r, 20))
            distance = (REAL)rng_int(&r, -(INT64_C(1) << 40), INT64_C(1) << 40);
        if (rng_chance(&r, 10))
            slope = 0;
        draw_columns(&r, &c0, &c1);
        slot_snap(SLOT_A);
        expected = slot_expected(SLOT_A);
        case_set("add_alibi: columns %zu..%zu, slope %g, distance %.17g", c0, c1, (double)slope,
                 (double)distance);
        k->add_alibi(s, c0, c1, slope, distance);
        for (size_t c = c0; c < c1; c++) {
            N(alibi_check)(s[c], expected[c], slope, distance, c);
            expected[c] = s[c];
        }
        slot_check(SLOT_A);
    }
    cases_end(state);
}

/* Relative error of at most 8 u, and never above cap; what s / cap loses below the smallest normal
 * number is absolute. */
static void N(softcap_check)(REAL got, REAL s, REAL cap, size_t row, size_t c)
{
    WIDE want = (WIDE)cap * WIDE_TANH((WIDE)s / (WIDE)cap);

    CASE_CHECK(isnan(s) ? isnan(got) : fabs((double)got) <= (double)cap * (1 + 2 * U),
               "[%zu][%zu]: %g capped at %g is %g", row, c, (double)s, (double)cap, (double)got);
    if (isinf(s))
        CASE_CHECK(fabs((double)got) == (double)cap && (got > 0) == (s > 0),
                   "[%zu][%zu]: %g capped at %g is %g", row, c, (double)s, (double)cap,
                   (double)got);
    else if (!isnan(s))
        case_near((double)got, (double)want, (double)((WIDE)got - want),
                  8 * U * fabs((double)want) + 4 * (1 + (double)cap) * DENORMAL, row, c);
}

static void N(softcap)(void **state)
{
    const KERNELS *k = &attn__kernels_for(test_set(state))->TABLE;

    cases_begin();
    for (int64_t i = 0; i < N(row_cases)(); i++) {
        rng r = case_rng(state, i);
        size_t mr = (size_t)rng_int(&r, 1, GROUP), c0, c1;
        REAL *s = slot_get(SLOT_A, mr * TILE * sizeof *s, sizeof *s, &r), *expected;
        REAL cap = (REAL)ldexp(1 + rng_unit(&r), (int)rng_int(&r, -10, 10));
        int low = i % 2 ? -100 : -6, high = i % 2 ? 100 : 6;

        draw_columns(&r, &c0, &c1);
        for (size_t c = 0; c < mr * TILE; c++)
            s[c] = (REAL)ldexp(rng_range(&r, -2, 2), (int)rng_int(&r, low, high));
        s[i % TILE] = (REAL)special_value(REAL_TYPE, (int)(i / TILE % SPECIAL_COUNT));
        slot_snap(SLOT_A);
        expected = slot_expected(SLOT_A);
        case_set("softcap: %zu rows, columns %zu..%zu, cap %g", mr, c0, c1, (double)cap);
        k->softcap(s, mr, c0, c1, cap);
        for (size_t row = 0; row < mr; row++)
            for (size_t c = row * TILE + c0; c < row * TILE + c1; c++) {
                N(softcap_check)(s[c], expected[c], cap, row, c - row * TILE);
                expected[c] = s[c];
            }
        slot_check(SLOT_A);
    }
    cases_end(state);
}

/* A few specials in a matrix; with `every`, one of them in that column. */
static void N(nonfinite_case)(const KERNELS *k, rng *r, int64_t every)
{
    size_t rows = (size_t)rng_int(r, every >= 0, TILE), width = 16 * (size_t)rng_int(r, 1, 17);
    int64_t specials = rows == 0 ? 0 : every >= 0 ? 1 : rng_int(r, 0, 3);
    uint64_t bits, want = 0;
    matrix v;

    width = every >= 0 ? MAX_VALUES : width;
    v = matrix_draw(SLOT_A, r, REAL_TYPE, rows, width, true, false);
    for (size_t row = 0; row < rows; row++)
        for (size_t c = 0; c < width; c++)
            matrix_set(&v, row, c, rng_bell(r));
    for (; specials > 0; specials--) {
        size_t row = (size_t)rng_int(r, 0, (int64_t)rows - 1);
        int64_t column = every >= 0 ? every : rng_int(r, 0, (int64_t)width - 1);
        int special = (int)rng_int(r, 0, every >= 0 ? 2 : SPECIAL_COUNT - 1);

        matrix_set(&v, row, (size_t)column, special_value(REAL_TYPE, special));
    }
    for (size_t row = 0; row < rows; row++)
        for (size_t c = 0; c < width; c++)
            want |= (uint64_t)!isfinite(matrix_get(&v, row, c)) << row;
    case_set("nonfinite_rows: %zu x %zu, stride %td", rows, width, v.row_stride);
    bits = k->nonfinite_rows((const REAL *)(const void *)v.data, v.row_stride, rows, width);
    CASE_CHECK(bits == want, "bits %llx, not %llx", (unsigned long long)bits,
               (unsigned long long)want);
}

static void N(nonfinite_rows)(void **state)
{
    const KERNELS *k = &attn__kernels_for(test_set(state))->TABLE;

    cases_begin();
    for (int64_t i = 0; i < MAX_VALUES + kernel_cases; i++) {
        rng r = case_rng(state, i);

        N(nonfinite_case)(k, &r, i < MAX_VALUES ? i : -1);
    }
    cases_end(state);
}
