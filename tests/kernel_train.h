/* kernel_train.h: tests of the kernels of train_kernels.h, for one kind of number; part of
 * test_kernels_train.c. */

/* --- Cross entropy -------------------------------------------------------------------------- */

/* Logits: tame, wide, equal, of few values (so that the largest repeats), or with a special. */
static void N(draw_logits)(REAL *x, size_t n, rng *r)
{
    int64_t kind = rng_int(r, 0, 5);
    REAL shift = (REAL)rng_range(r, -50, 50);

    for (size_t c = 0; c < n; c++) {
        REAL z = (REAL)rng_bell(r);

        x[c] = kind < 2 ? 3 * z : kind == 2 ? 30 * z : kind == 3 ? shift : (REAL)(int)(2 * z);
    }
    if (rng_chance(r, 20))
        x[rng_int(r, 0, (int64_t)n - 1)] += 40;
    if (rng_chance(r, 10))
        x[rng_int(r, 0, (int64_t)n - 1)] = -(REAL)INFINITY;
}

static size_t N(first_largest)(const REAL *x, size_t n)
{
    size_t best = 0;

    for (size_t c = 1; c < n; c++)
        if (x[c] > x[best])
            best = c;
    return best;
}

static void N(check_gradient)(const REAL *got, const REAL *x, size_t n, size_t target, REAL m,
                              WIDE sum, WIDE moved, const attn__row_goal *goal)
{
    for (size_t c = 0; c < n; c++) {
        WIDE y = (WIDE)x[c] - (WIDE)m, e = WIDE_EXP(y);
        WIDE q = c == target ? (WIDE)goal->on : (WIDE)goal->off;
        WIDE want = (WIDE)goal->factor * (e / sum - q);
        WIDE bound = isinf(x[c]) ? 0 : e / sum * (12 + 3 * -y + moved);

        bound = (WIDE)fabs(goal->factor) * U * (bound + 4 * q) + (WIDE)NORMAL;
        case_near((double)got[c], (double)want, (double)((WIDE)got[c] - want), (double)bound, 0, c);
    }
    for (size_t c = n; c < (n + 15) / 16 * 16; c++)
        CASE_CHECK(got[c] == 0, "cell %zu behind the row is %g", c, (double)got[c]);
}

static void N(cross_entropy_case)(const KERNELS *k, rng *r, size_t n)
{
    size_t padded = (n + 15) / 16 * 16;
    REAL *x = slot_get(SLOT_A, padded * sizeof *x, sizeof *x, r), *before, m;
    size_t largest, target;
    bool gradient = rng_chance(r, 70);
    attn__row_goal goal = {rng_range(r, 0, 1), rng_range(r, 0, 0.1), rng_range(r, -2, 2)};
    attn__row_loss loss;
    WIDE sum = 0, all = 0, size = 0, error = 0;
    bool low = false;

    N(draw_logits)(x, n, r);
    slot_snap(SLOT_A);
    before = slot_expected(SLOT_A);
    largest = N(first_largest)(x, n);
    target = rng_chance(r, 50) ? largest : (size_t)rng_int(r, 0, (int64_t)n - 1);
    case_set("cross_entropy: %zu logits, target %zu, gradient %d", n, target, gradient);
    k->cross_entropy(x, n, target, &goal, gradient, &loss);
    m = before[largest];
    for (size_t c = 0; c < n && m > -(REAL)INFINITY; c++) {
        WIDE y = (WIDE)before[c] - (WIDE)m, e = WIDE_EXP(y);

        sum += e;
        all += y;
        if (isinf(before[c])) {
            low = true;
            continue;
        }
        size -= y;
        error += e * (12 + 3 * -y);
    }
    if (!(m > -(REAL)INFINITY)) {
        CASE_CHECK(isnan(loss.sum), "sum is %g", loss.sum);
        return;
    }
    /* Each e^y; then at most 32 additions in a lane and 4 of lanes. */
    error = U * (error + 36 * sum) + (WIDE)n * (WIDE)NORMAL;
    case_near(loss.sum, (double)sum, (double)((WIDE)loss.sum - sum), (double)error, 0, 0);
    if (low)
        CASE_CHECK(loss.all == -(double)INFINITY, "sum of y is %g", loss.all);
    else
        case_near(loss.all, (double)all, (double)((WIDE)loss.all - all), (double)(U * 37 * size), 0,
                  1);
    CASE_CHECK(loss.target == (double)before[target] - (double)m, "target %g", loss.target);
    CASE_CHECK(loss.right == (target == largest), "right is %d", loss.right);
    if (gradient)
        N(check_gradient)(x, before, n, target, m, sum, error / (U * sum), &goal);
    memcpy(before, x, padded * sizeof *x); /* only what lies around the row is left to compare */
    slot_check(SLOT_A);
}

static void N(cross_entropy)(void **state)
{
    const KERNELS *k = &attn__kernels_for(test_set(state))->TABLE;

    cases_begin();
    for (int64_t i = 0; i < kernel_cases; i++) {
        rng r = case_rng(state, i);

        N(cross_entropy_case)(k, &r, (size_t)(1 + i % 131));
    }
    for (int64_t i = 0; i < kernel_cases / 20; i++) {
        rng r = case_rng(state, kernel_cases + i);

        N(cross_entropy_case)(k, &r, (size_t)rng_int(&r, 500, 3000));
    }
    cases_end(state);
}

/* NaN or +inf anywhere shows in the sum. */
static void N(cross_entropy_specials)(void **state)
{
    const KERNELS *k = &attn__kernels_for(test_set(state))->TABLE;
    enum { N = 50 };

    cases_begin();
    for (int64_t i = 0; i < 2 * N; i++) {
        rng r = case_rng(state, i);
        REAL *x = slot_get(SLOT_A, 64 * sizeof *x, sizeof *x, &r);
        attn__row_goal goal = {1, 0, 1};
        attn__row_loss loss;

        for (size_t c = 0; c < N; c++)
            x[c] = (REAL)rng_bell(&r);
        x[i / 2] = i % 2 ? (REAL)NAN : (REAL)INFINITY;
        case_set("cross_entropy: special at %lld", (long long)i / 2);
        k->cross_entropy(x, N, (size_t)rng_int(&r, 0, N - 1), &goal, true, &loss);
        CASE_CHECK(isnan(loss.sum), "sum is %g", loss.sum);
    }
    cases_end(state);
}

/* --- Flat memory ---------------------------------------------------------------------------- */

static REAL *N(draw_flat)(int slot, size_t n, rng *r)
{
    REAL *x = slot_get(slot, n * sizeof *x, sizeof *x, r);
    data_kind kind = data_draw(r);

    for (size_t i = 0; i < n; i++)
        x[i] = (REAL)data_value(r, kind, REAL_TYPE);
    slot_snap(slot);
    return x;
}

static void N(add_rows)(void **state)
{
    const KERNELS *k = &attn__kernels_for(test_set(state))->TABLE;

    cases_begin();
    for (int64_t i = 0; i < kernel_cases; i++) {
        rng r = case_rng(state, i);
        size_t n = (size_t)(i % 131), count = (size_t)rng_int(&r, 0, 9);
        ptrdiff_t stride = (ptrdiff_t)n + rng_int(&r, 0, 20);
        size_t span = count ? (count - 1) * (size_t)stride + n : 0;
        REAL *rows = N(draw_flat)(SLOT_A, span, &r), *to = N(draw_flat)(SLOT_B, n, &r), *expected;

        expected = slot_expected(SLOT_B);
        case_set("add_rows: %zu of %zu, stride %td", count, n, stride);
        k->add_rows(to, rows, stride, count, n);
        for (size_t c = 0; c < n; c++) {
            for (size_t row = 0; row < count; row++)
                expected[c] += rows[(ptrdiff_t)row * stride + (ptrdiff_t)c];
            CASE_CHECK(N(same)(to[c], expected[c]), "[%zu] is %g, not %g", c, (double)to[c],
                       (double)expected[c]);
            expected[c] = to[c];
        }
        slot_check(SLOT_A);
        slot_check(SLOT_B);
    }
    cases_end(state);
}

static void N(adam_cell)(const attn__adam *s, size_t i, const REAL *g, const REAL *w, const REAL *m,
                         const REAL *v, const REAL *old_w, const REAL *old_m, const REAL *old_v)
{
    WIDE step = (WIDE)(REAL)s->scale * (WIDE)g[i], got, old, fresh;

    old = (WIDE)(REAL)s->beta1 * (WIDE)old_m[i];
    fresh = (WIDE)(REAL)(1 - s->beta1) * step;
    got = (WIDE)m[i];
    case_near((double)got, (double)(old + fresh), (double)(got - (old + fresh)),
              (double)(U * (2 * WIDE_ABS(old) + 3 * WIDE_ABS(fresh)) + 4 * NORMAL), 1, i);
    old = (WIDE)(REAL)s->beta2 * (WIDE)old_v[i];
    fresh = (WIDE)(REAL)(1 - s->beta2) * step * step;
    got = (WIDE)v[i];
    case_near((double)got, (double)(old + fresh), (double)(got - (old + fresh)),
              (double)(U * (2 * old + 6 * fresh) + 4 * NORMAL), 2, i);
    fresh = (WIDE)(REAL)s->rate * (WIDE)m[i] /
            ((WIDE)(REAL)s->root * WIDE_SQRT((WIDE)v[i]) + (WIDE)(REAL)s->epsilon);
    old = (WIDE)(REAL)s->keep * (WIDE)old_w[i];
    got = (WIDE)w[i];
    case_near((double)got, (double)(old - fresh), (double)(got - (old - fresh)),
              (double)(U * (2 * WIDE_ABS(old) + 6 * WIDE_ABS(fresh)) + 4 * NORMAL), 3, i);
}

static void N(adam)(void **state)
{
    const KERNELS *k = &attn__kernels_for(test_set(state))->TABLE;
    REAL old[3][MAX_WIDTH + 1];

    cases_begin();
    for (int64_t i = 0; i < kernel_cases; i++) {
        rng r = case_rng(state, i);
        size_t n = (size_t)(i % (MAX_WIDTH + 1));
        REAL *p[4];
        attn__adam s = {.scale = rng_range(&r, 0, 2),
                        .beta1 = 0.9,
                        .beta2 = 0.98,
                        .rate = rng_range(&r, 0, 0.1),
                        .root = rng_range(&r, 1, 8),
                        .epsilon = 1e-9,
                        .keep = rng_chance(&r, 50) ? 1 : 0.999};

        for (int j = 0; j < 4; j++) {
            p[j] = slot_get(SLOT_A + j, n * sizeof *p[j], sizeof *p[j], &r);
            for (size_t c = 0; c < n; c++)
                p[j][c] = (REAL)rng_bell(&r);
            if (j == 3)
                for (size_t c = 0; c < n; c++)
                    p[j][c] = rng_chance(&r, 10) ? 0 : p[j][c] * p[j][c];
            slot_snap(SLOT_A + j);
        }
        for (int j = 0; j < 3; j++)
            memcpy(old[j], p[j == 0 ? 0 : j + 1], n * sizeof **old);
        case_set("adam: %zu", n);
        k->adam(p[0], p[1], p[2], p[3], n, &s);
        for (size_t c = 0; c < n; c++)
            N(adam_cell)(&s, c, p[1], p[0], p[2], p[3], old[0], old[1], old[2]);
        for (int j = 0; j < 4; j++) {
            if (j != 1)
                memcpy(slot_expected(SLOT_A + j), p[j], n * sizeof *p[j]);
            slot_check(SLOT_A + j);
        }
    }
    cases_end(state);
}

static void N(square_sum)(void **state)
{
    const KERNELS *k = &attn__kernels_for(test_set(state))->TABLE;

    cases_begin();
    for (int64_t i = 0; i < kernel_cases; i++) {
        rng r = case_rng(state, i);
        size_t n = (size_t)(i % 400);
        REAL *x = N(draw_flat)(SLOT_A, n, &r);
        long double sum = 0, got;

        case_set("square_sum: %zu", n);
        got = (long double)k->square_sum(x, n);
        for (size_t c = 0; c < n; c++)
            sum += (long double)x[c] * (long double)x[c];
        /* Of doubles the squares overflow at the end of their range. */
        if (isnan(sum) || sum > (long double)DBL_MAX)
            CASE_CHECK(!isfinite((double)got), "sum is %g, not %g", (double)got, (double)sum);
        else
            case_near((double)got, (double)sum, (double)(got - sum),
                      (double)(0x1p-53L * 45 * sum) + (double)n * 0x1p-1074, 0, 0);
        slot_check(SLOT_A);
    }
    cases_end(state);
}

static void N(blend)(void **state)
{
    const KERNELS *k = &attn__kernels_for(test_set(state))->TABLE;

    cases_begin();
    for (int64_t i = 0; i < kernel_cases; i++) {
        rng r = case_rng(state, i);
        size_t n = (size_t)(i % 131);
        REAL *to = N(draw_flat)(SLOT_A, n, &r), *from = N(draw_flat)(SLOT_B, n, &r), *expected;
        double rate = rng_unit(&r);

        expected = slot_expected(SLOT_A);
        case_set("blend: %zu, rate %g", n, rate);
        k->blend(to, from, n, rate);
        for (size_t c = 0; c < n; c++) {
            REAL apart = from[c] - expected[c], part = (REAL)rate * apart;

            CASE_CHECK(N(same)(to[c], expected[c] + part), "[%zu] is %g, not %g", c, (double)to[c],
                       (double)(expected[c] + part));
            expected[c] = to[c];
        }
        slot_check(SLOT_A);
        slot_check(SLOT_B);
    }
    cases_end(state);
}
