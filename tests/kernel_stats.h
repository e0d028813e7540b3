/* kernel_stats.h: tests of the kernels of attn_stats, for one kind of number; part of
 * test_kernels.c, after kernel_softmax.h, whose rows it draws. */

/* What one row of softmax_stats may add to its moments. */
static void N(moment_check)(const N(soft) * x, size_t row, const REAL *was, const REAL *now)
{
    WIDE from = (WIDE)x->old_max[row], to = (WIDE)x->max[row], sum = 0, got = 0, size = 0;
    WIDE move = from - to, factor = move == 0 ? 1 : isfinite((double)from) ? WIDE_EXP(move) : 0;
    double error = 0;

    for (int i = 0; i < 16; i++) {
        WIDE step = (WIDE)x->old_sum[row][i] * move;

        got += (WIDE)now[i];
        if (factor == 0)
            continue;
        sum += ((WIDE)was[i] + step) * factor;
        step = (WIDE)fabs((double)was[i]) + (WIDE)fabs((double)step);
        size += step * factor;
        error += move == 0 ? 0 : (double)(step * factor) * (N(exp_bound)(move) + 3 * U);
        error += 2 * NORMAL * (double)step; /* the factor may vanish below normal numbers */
    }
    for (size_t c = x->c0; c < x->c1; c++) {
        WIDE s = (WIDE)x->old_s[row * TILE + c] - to, p;

        if (!(x->allow[row] >> c & 1) || !isfinite((double)s) || !((double)s > EXP_ZERO))
            continue;
        p = WIDE_EXP(s) * s;
        sum += p;
        size += p < 0 ? -p : p;
        error += fabs((double)p) * (N(exp_bound)(s) + 2 * U) + 1100 * NORMAL;
    }
    case_near((double)got, (double)sum, (double)(got - sum),
              error + 8 * U * (double)size + 1100 * NORMAL, row, 0);
}

/* The largest attended score, if it exceeds the peak so far, and the first place it stands at. */
static void N(peak_check)(const N(soft) * x, size_t row, REAL was, int64_t was_at, REAL now,
                          int64_t now_at, int64_t at)
{
    for (size_t c = x->c0; c < x->c1; c++) {
        REAL s = x->old_s[row * TILE + c];

        if (x->allow[row] >> c & 1 && s > was) {
            was = s;
            was_at = at + (int64_t)c;
        }
    }
    CASE_CHECK(N(same)(now, was) && now_at == was_at, "row %zu: peak %g at %lld, not %g at %lld",
               row, (double)now, (long long)now_at, (double)was, (long long)was_at);
}

static bool N(row_has_nan)(const N(soft) * x, size_t row)
{
    for (size_t c = x->c0; c < x->c1; c++)
        if (x->allow[row] >> c & 1 && !(x->old_s[row * TILE + c] < (REAL)INFINITY))
            return true;
    return false;
}

/* The bits of softmax, and what is gathered beside them. */
static void N(softmax_stats_case)(const attn__kernels *set, rng *r)
{
    static REAL plain_s[GROUP * TILE], plain_out[GROUP * MAX_VALUES];
    REAL plain_max[GROUP], plain_sum[GROUP][16], moment[GROUP][16], was[GROUP][16];
    REAL peak[GROUP], peak_was[GROUP], *out;
    int64_t place[GROUP], at = rng_int(r, 0, 1000) * TILE;
    N(soft) x = {0};

    N(soft_draw)(&x, r);
    out = (REAL *)(void *)x.out.data;
    case_set("softmax_stats: %zu rows, columns %zu..%zu, %s", x.mr, x.c0, x.c1,
             x.masked ? "masked" : "all allowed");
    for (size_t row = 0; row < x.mr; row++) {
        peak[row] =
            x.max[row] > -(REAL)INFINITY ? x.max[row] + (REAL)rng_range(r, -3, 9) : -(REAL)INFINITY;
        place[row] = row == 0 ? -1 : (int64_t)row;
        for (int i = 0; i < 16; i++)
            moment[row][i] =
                x.max[row] > -(REAL)INFINITY ? x.sum[row][i] * (REAL)rng_range(r, -4, 2) : 0;
        memcpy(plain_out + row * x.width, out + (ptrdiff_t)row * x.out.row_stride,
               x.width * sizeof *out);
    }
    memcpy(was, moment, sizeof was);
    memcpy(peak_was, peak, sizeof peak_was);
    memcpy(plain_s, x.s, x.mr * TILE * sizeof *x.s);
    memcpy(plain_max, x.max, x.mr * sizeof *x.max);
    memcpy(plain_sum, x.sum, x.mr * sizeof *x.sum);
    for (int i = SLOT_A; i <= SLOT_D; i++)
        slot_snap(i);
    x.old_s = slot_expected(SLOT_A);
    x.old_max = slot_expected(SLOT_C);
    x.old_sum = (const REAL(*)[16])slot_expected(SLOT_D);
    set->TABLE.softmax(plain_s, x.mr, x.c0, x.c1, x.masked ? x.allow : NULL, plain_max, plain_sum,
                       plain_out, (ptrdiff_t)x.width, x.width);
    set->STATS.softmax_stats(x.s, x.mr, x.c0, x.c1, x.masked ? x.allow : NULL, x.max, x.sum, out,
                             x.out.row_stride, x.width, moment, peak, place, at);
    CASE_CHECK(memcmp(plain_max, x.max, x.mr * sizeof *x.max) == 0, "other references");
    CASE_CHECK(memcmp(plain_sum, x.sum, x.mr * sizeof *x.sum) == 0, "other sums");
    for (size_t row = 0; row < x.mr; row++) {
        CASE_CHECK(memcmp(plain_s + row * TILE + x.c0, x.s + row * TILE + x.c0,
                          (x.c1 - x.c0) * sizeof *x.s) == 0,
                   "row %zu: other weights", row);
        CASE_CHECK(memcmp(plain_out + row * x.width, out + (ptrdiff_t)row * x.out.row_stride,
                          x.width * sizeof *out) == 0,
                   "row %zu: other output", row);
        if (N(row_has_nan)(&x, row))
            continue;
        N(moment_check)(&x, row, was[row], moment[row]);
        N(peak_check)
        (&x, row, peak_was[row], row == 0 ? -1 : (int64_t)row, peak[row], place[row], at);
    }
}

static void N(softmax_stats)(void **state)
{
    const attn__kernels *set = attn__kernels_for(test_set(state));

    cases_begin();
    for (int64_t i = 0; i < 4 * kernel_cases; i++) {
        rng r = case_rng(state, i);

        N(softmax_stats_case)(set, &r);
    }
    cases_end(state);
}

static void N(move_moment)(void **state)
{
    const attn__kernels *set = attn__kernels_for(test_set(state));

    cases_begin();
    for (int64_t i = 0; i < 4 * kernel_cases; i++) {
        rng r = case_rng(state, i);
        REAL to = (REAL)rng_bell(&r),
             from = to - (REAL)rng_range(&r, -5, rng_chance(&r, 20) ? 2000 : 90);
        REAL sum = (REAL)rng_range(&r, 0, 300), moment = sum * (REAL)rng_range(&r, -9, 2);
        REAL l = sum, m = moment;
        WIDE x, factor;

        if (i % 7 == 0)
            from = i % 2 ? to : i % 4 ? -(REAL)INFINITY : -(REAL)(LARGEST);
        x = (WIDE)from - (WIDE)to;
        factor = (double)x > EXP_ZERO ? WIDE_EXP(x) : 0;
        case_set("move_moment: %g and %g from %g to %g", (double)moment, (double)sum, (double)from,
                 (double)to);
        set->STATS.move_moment(&m, &l, from, to);
        if (factor == 0) {
            CASE_CHECK(m == 0 && l == 0, "%g and %g are left", (double)m, (double)l);
            continue;
        }
        {
            WIDE size = (WIDE)fabs((double)moment) + (WIDE)sum * (x < 0 ? -x : x);
            WIDE want = ((WIDE)moment + (WIDE)sum * x) * factor;
            double e = (x == 0 ? 0 : N(exp_bound)(x) + 4 * U) * (double)factor,
                   tiny = 2 * NORMAL * (1 + (double)size);

            case_near((double)m, (double)want, (double)((WIDE)m - want), e * (double)size + tiny, 0,
                      0);
            case_near((double)l, (double)((WIDE)sum * factor),
                      (double)((WIDE)l - (WIDE)sum * factor), e * (double)sum + tiny, 0, 1);
        }
    }
    cases_end(state);
}

/* find_above, add_columns and max_columns. NaN in cells that do not count must hide nothing. */
static void N(columns)(void **state)
{
    const attn__kernels *set = attn__kernels_for(test_set(state));

    cases_begin();
    for (int64_t i = 0; i < 4 * kernel_cases; i++) {
        rng r = case_rng(state, i);
        size_t mr = (size_t)rng_int(&r, 1, GROUP), c0, c1;
        REAL *p = slot_get(SLOT_A, mr * TILE * sizeof *p, sizeof *p, &r);
        double *to = slot_get(SLOT_B, TILE * sizeof *to, sizeof *to, &r), *expected, factor[GROUP];
        REAL *top = slot_get(SLOT_C, TILE * sizeof *top, sizeof *top, &r), *top_expected;
        REAL floor = rng_chance(&r, 10) ? -(REAL)INFINITY : (REAL)rng_unit(&r);
        uint64_t above = 0, allow = rng_chance(&r, 50) ? ~UINT64_C(0) : rng_next(&r);

        draw_columns(&r, &c0, &c1);
        for (size_t c = 0; c < mr * TILE; c++)
            p[c] = (REAL)(rng_chance(&r, 3) ? (double)NAN : rng_unit(&r));
        for (size_t c = 0; c < TILE; c++) {
            to[c] = rng_bell(&r);
            top[c] = (REAL)(rng_chance(&r, 3) ? (double)NAN : rng_unit(&r) / 2);
        }
        for (size_t row = 0; row < mr; row++)
            factor[row] = rng_bell(&r);
        case_set("columns %zu..%zu of %zu rows", c0, c1, mr);
        for (int slot = SLOT_A; slot <= SLOT_C; slot++)
            slot_snap(slot);
        expected = slot_expected(SLOT_B);
        top_expected = slot_expected(SLOT_C);
        for (size_t c = c0; c < c1; c++) {
            above |= (uint64_t)(p[c] > floor && allow >> c & 1) << c;
            for (size_t row = 0; row < mr; row++)
                if (p[row * TILE + c] > top_expected[c])
                    top_expected[c] = p[row * TILE + c];
        }
        CASE_CHECK(set->STATS.find_above(p, c0, c1, allow, floor) == above, "bits above %g",
                   (double)floor);
        set->STATS.max_columns(top, p, mr, c0, c1);
        set->STATS.add_columns(to, p, mr, c0, c1, factor);
        for (size_t c = c0; c < c1; c++) {
            long double want = (long double)expected[c], size = fabsl(want);

            for (size_t row = 0; row < mr; row++) {
                want += (long double)factor[row] * (long double)p[row * TILE + c];
                size += fabsl((long double)factor[row] * (long double)p[row * TILE + c]);
            }
            case_near(to[c], (double)want, (double)((long double)to[c] - want),
                      (double)(2 * mr + 1) * 0x1p-53 * (double)size, 0, c);
            expected[c] = to[c];
        }
        for (int slot = SLOT_A; slot <= SLOT_C; slot++)
            slot_check(slot);
    }
    cases_end(state);
}
