/* kernel_nn.h: tests of the kernels of layers, for one kind of number; part of test_nn_kernels.c.
 */

enum { N(SUMS) = 16, N(LONGEST) = 200 };

/* Bits, with all NaN alike. */
static bool N(same)(REAL a, REAL b)
{
    return (isnan(a) && isnan(b)) || memcmp(&a, &b, sizeof a) == 0;
}

static void N(near)(REAL got, WIDE want, double bound, size_t row, size_t column)
{
    case_near((double)got, (double)want, (double)((WIDE)got - want), bound, row, column);
}

/* n elements of exactly that size. */
static REAL *N(row)(rng *r, int slot, size_t n, double size)
{
    REAL *x = slot_get(slot, n * sizeof *x, sizeof *x, r);

    for (size_t i = 0; i < n; i++)
        x[i] = (REAL)(size * rng_bell(r));
    slot_snap(slot);
    return x;
}

/* The slot changes only where out is; the rest of the check is the caller's. */
static void N(wrote)(int slot, const REAL *out, size_t n)
{
    memcpy(slot_expected(slot), out, n * sizeof *out);
    slot_check(slot);
}

static size_t N(length)(rng *r)
{
    return (size_t)rng_int(r, 1, rng_chance(r, 50) ? 40 : N(LONGEST));
}

/* Roundings of a sum of n terms in 16 parts. */
static double N(steps)(size_t n)
{
    return (double)(n / N(SUMS)) + 8;
}

typedef struct N(norm_case) {
    size_t n;
    bool centre, has_w, has_b;
    REAL divisor, eps, plus;
} N(norm_case);

static N(norm_case) N(norm_draw)(rng *r)
{
    N(norm_case) c = {.n = N(length)(r), .has_w = rng_chance(r, 70), .has_b = rng_chance(r, 50)};
    int64_t kind = rng_int(r, 0, 2);

    c.centre = kind == 0;
    c.divisor = kind == 2 ? 1 : (REAL)c.n;
    c.eps = kind == 2 ? 0 : (REAL)1e-5;
    c.plus = rng_chance(r, 30) ? 1 : 0;
    return c;
}

static REAL N(factor_draw)(rng *r)
{
    static const REAL some[] = {1, 0, (REAL)-0.125, -1};
    int64_t i = rng_int(r, 0, 5);

    return i < 4 ? some[i] : (REAL)rng_range(r, -3, 3);
}

static void N(norm_one)(const NN *k, rng *r)
{
    N(norm_case) c = N(norm_draw)(r);
    double size = rng_chance(r, 30) ? 100 : 1, shift = rng_chance(r, 30) ? 5 * rng_bell(r) : 0;
    REAL *x = N(row)(r, SLOT_A, c.n, size), *w = N(row)(r, SLOT_B, c.n, 1);
    REAL *b = N(row)(r, SLOT_C, c.n, 1), *out = N(row)(r, SLOT_D, c.n, 1), mean = -1, rstd = -1;
    WIDE m = 0, v = 0, magnitude = 0;
    double em, ev, u = U;

    for (size_t i = 0; i < c.n; i++)
        x[i] = rng_chance(r, 1) && c.n == 1 ? 0 : x[i] + (REAL)shift;
    slot_snap(SLOT_A);
    case_set("norm: n %zu, centre %d, divisor %g, plus %g, w %d, b %d", c.n, c.centre,
             (double)c.divisor, (double)c.plus, c.has_w, c.has_b);
    k->norm(out, x, c.n, c.centre, c.divisor, c.eps, c.has_w ? w : NULL, c.plus, c.has_b ? b : NULL,
            &mean, &rstd);
    for (size_t i = 0; i < c.n; i++) {
        m += c.centre ? (WIDE)x[i] / (WIDE)c.n : 0;
        magnitude += (WIDE)fabs((double)x[i]) / (WIDE)c.n;
    }
    for (size_t i = 0; i < c.n; i++)
        v += ((WIDE)x[i] - m) * ((WIDE)x[i] - m) / (WIDE)c.divisor;
    v += (WIDE)c.eps;
    em = c.centre ? N(steps)(c.n) * u * (double)magnitude : 0;
    N(near)(mean, m, em, 0, 0);
    /* variance: its own sum, and a mean that is off by em */
    ev = (N(steps)(c.n) + 4) * u;
    if (v > 0) /* the L2 norm of zeros is exact */
        ev += (double)c.n * em * em / (double)((WIDE)c.divisor * v) +
              2 * u * em * (double)(magnitude * (WIDE)c.n / ((WIDE)c.divisor * v));
    for (size_t i = 0; i < c.n; i++) {
        WIDE rs = v > 0 ? 1 / (WIDE)WIDE_SQRT(v) : 0, y = ((WIDE)x[i] - m) * rs;
        WIDE factor = c.has_w ? (WIDE)w[i] + (WIDE)c.plus : 1;
        WIDE want = y * factor + (c.has_b ? (WIDE)b[i] : 0);
        double bound =
            (fabs((double)y) * (ev / 2 + 6 * u) + em * (double)rs) * fabs((double)factor) +
            fabs((double)y) * u * (c.has_w ? fabs((double)w[i]) + 1 : 0);

        /* the last rounding, which results much larger than y reach: ratios near 1 are theirs */
        bound += u * fabs((double)want) + DENORMAL;
        N(near)(out[i], want, bound, 0, i);
    }
    N(wrote)(SLOT_D, out, c.n);
    for (int i = SLOT_A; i <= SLOT_C; i++)
        slot_check(i);
}

static void N(norm)(void **state)
{
    cases_begin();
    for (int64_t i = 0; i < 4 * kernel_cases; i++) {
        rng r = case_rng(state, i);
        N(norm_one)(&attn__kernels_for(test_set(state))->TABLE, &r);
    }
    cases_end(state);
}

static void N(norm_back_one)(const NN *k, rng *r)
{
    N(norm_case) c = N(norm_draw)(r);
    bool has_add = rng_chance(r, 50);
    REAL *x = N(row)(r, SLOT_A, c.n, 2), *w = N(row)(r, SLOT_B, c.n, 1);
    REAL *dy = N(row)(r, SLOT_C, c.n, 1), *add = N(row)(r, SLOT_D, c.n, 1);
    REAL *dx = N(row)(r, SLOT_E, c.n, 1), mean = c.centre ? (REAL)rng_bell(r) : 0;
    REAL rstd = (REAL)rng_range(r, 0.1, 3);
    WIDE level = 0, slope = 0;
    double level_size = 0, slope_size = 0, u = U, steps = N(steps)(c.n) + 6;

    case_set("norm_back: n %zu, centre %d, divisor %g, plus %g, w %d, add %d", c.n, c.centre,
             (double)c.divisor, (double)c.plus, c.has_w, has_add);
    k->norm_back(dx, dy, x, has_add ? add : NULL, c.n, c.centre, c.divisor, c.has_w ? w : NULL,
                 c.plus, mean, rstd);
#define G(i) ((WIDE)dy[i] * (c.has_w ? (WIDE)w[i] + (WIDE)c.plus : 1))
#define Y(i) (((WIDE)x[i] - (WIDE)mean) * (WIDE)rstd)
    for (size_t i = 0; i < c.n; i++) {
        level += c.centre ? G(i) / (WIDE)c.n : 0;
        level_size += c.centre ? fabs((double)G(i)) / (double)c.n : 0;
        slope += G(i) * Y(i) / (WIDE)c.divisor;
        slope_size += fabs((double)(G(i) * Y(i))) / (double)c.divisor;
    }
    for (size_t i = 0; i < c.n; i++) {
        WIDE want = (WIDE)rstd * (G(i) - level - Y(i) * slope) + (has_add ? (WIDE)add[i] : 0);
        double y = fabs((double)Y(i)), g = fabs((double)G(i)) + fabs((double)dy[i]);
        double bound = u * (double)rstd *
                       (6 * g + 4 * fabs((double)level) + 8 * y * fabs((double)slope) +
                        steps * level_size + steps * y * slope_size);

        bound += 2 * u * fabs((double)want) + 4 * DENORMAL;
        N(near)(dx[i], want, bound, 0, i);
    }
#undef G
#undef Y
    N(wrote)(SLOT_E, dx, c.n);
    for (int i = SLOT_A; i <= SLOT_D; i++)
        slot_check(i);
}

static void N(norm_back)(void **state)
{
    cases_begin();
    for (int64_t i = 0; i < 4 * kernel_cases; i++) {
        rng r = case_rng(state, i);
        N(norm_back_one)(&attn__kernels_for(test_set(state))->TABLE, &r);
    }
    cases_end(state);
}

static void N(norm_columns_one)(const NN *k, rng *r)
{
    size_t n = (size_t)rng_int(r, 1, 40), rows = (size_t)rng_int(r, 0, 150), row;
    ptrdiff_t stride = (ptrdiff_t)n + rng_int(r, 0, 3);
    matrix x = matrix_new(SLOT_A, r, REAL_TYPE, rows, n, stride, 1);
    matrix dy = matrix_new(SLOT_B, r, REAL_TYPE, rows, n, stride, 1);
    REAL mean[150], rstd[150], *dw, *db;
    bool has_w = rng_chance(r, 60), has_b = !has_w || rng_chance(r, 60);

    for (row = 0; row < rows; row++) {
        mean[row] = (REAL)rng_bell(r);
        rstd[row] = (REAL)rng_range(r, 0.5, 2);
        for (size_t i = 0; i < n; i++) {
            matrix_set(&x, row, i, rng_bell(r));
            matrix_set(&dy, row, i, rng_bell(r));
        }
    }
    dw = N(row)(r, SLOT_C, n, 1);
    db = N(row)(r, SLOT_D, n, 1);
    case_set("norm_columns: %zu x %zu, w %d, b %d", rows, n, has_w, has_b);
    k->norm_columns(has_w ? dw : NULL, has_b ? db : NULL, (const REAL *)(const void *)dy.data,
                    stride, has_w ? (const REAL *)(const void *)x.data : NULL, stride, mean, rstd,
                    rows, n);
    for (size_t i = 0; i < n; i++) {
        WIDE w = (WIDE)((REAL *)slot_expected(SLOT_C))[i];
        WIDE b = (WIDE)((REAL *)slot_expected(SLOT_D))[i];
        double ws = fabs((double)w), bs = fabs((double)b), steps = 70 + (double)rows / 64;

        for (row = 0; row < rows; row++) {
            WIDE g = (WIDE)matrix_get(&dy, row, i);
            WIDE y = ((WIDE)matrix_get(&x, row, i) - (WIDE)mean[row]) * (WIDE)rstd[row];

            w += has_w ? g * y : 0;
            b += has_b ? g : 0;
            ws += has_w ? fabs((double)(g * y)) : 0;
            bs += has_b ? fabs((double)g) : 0;
        }
        N(near)(dw[i], w, U * steps * ws, 0, i);
        N(near)(db[i], b, U * steps * bs, 1, i);
    }
    N(wrote)(SLOT_C, dw, n);
    N(wrote)(SLOT_D, db, n);
}

/* Any cut of the columns, and of the rows at a multiple of 64, has the same bits. */
static void N(norm_columns_cut)(const NN *k, rng *r)
{
    enum { ROWS = 150, COLS = 37 };
    static REAL dy[ROWS * COLS], x[ROWS * COLS];
    REAL mean[ROWS], rstd[ROWS], whole[2][COLS] = {{0}}, part[2][COLS] = {{0}};
    size_t at = (size_t)rng_int(r, 1, COLS - 1);

    for (size_t i = 0; i < ROWS * COLS; i++) {
        dy[i] = (REAL)rng_bell(r);
        x[i] = (REAL)rng_bell(r);
        mean[i / COLS] = dy[i];
        rstd[i / COLS] = x[i];
    }
    case_set("norm_columns: cut at column %zu and row 64", at);
    k->norm_columns(whole[0], whole[1], dy, COLS, x, COLS, mean, rstd, ROWS, COLS);
    for (size_t row = 0; row < ROWS; row += 64) {
        size_t some = ROWS - row < 64 ? ROWS - row : 64, from = row * COLS;

        k->norm_columns(part[0], part[1], dy + from, COLS, x + from, COLS, mean + row, rstd + row,
                        some, at);
        k->norm_columns(part[0] + at, part[1] + at, dy + from + at, COLS, x + from + at, COLS,
                        mean + row, rstd + row, some, COLS - at);
    }
    CASE_CHECK(memcmp(whole, part, sizeof whole) == 0, "other bits");
}

static void N(norm_columns)(void **state)
{
    cases_begin();
    for (int64_t i = 0; i < kernel_cases; i++) {
        rng r = case_rng(state, i);
        N(norm_columns_one)(&attn__kernels_for(test_set(state))->TABLE, &r);
        N(norm_columns_cut)(&attn__kernels_for(test_set(state))->TABLE, &r);
    }
    cases_end(state);
}

/* act(x) with its relative error in u, and act'(x) with its absolute error in u. */
static void N(curve)(attn_activation act, WIDE x, WIDE *y, WIDE *slope, double *relative,
                     double *error)
{
    const WIDE root = (WIDE)0.797884560802865355879892119868763737L; /* sqrt(2 / pi) */
    const WIDE half = (WIDE)0.707106781186547524400844362104849039L;
    WIDE z = root * (x + (WIDE)0.044715L * x * x * x), g, rise;

    *y = x;
    *slope = 1;
    *relative = *error = 0;
    if (act == ATTN_ACT_RELU) {
        *y = x > 0 ? x : 0;
        *slope = x > 0;
    } else if (act == ATTN_ACT_GELU) {
        g = WIDE_ERFC(-x * half) / 2;
        rise = x * root / 2 * WIDE_EXP(-x * x / 2);
        *y = x * g;
        *slope = g + rise;
        *relative = 12 + (double)(x * x);
        *error = (14 + 2 * (double)(x * x)) * (double)(g + (rise < 0 ? -rise : rise));
    } else if (act != ATTN_ACT_NONE) {
        rise = act == ATTN_ACT_SILU ? 1 : 2 * root * (1 + (WIDE)(3 * 0.044715L) * x * x);
        z = act == ATTN_ACT_SILU ? x : 2 * z;
        g = 1 / (1 + WIDE_EXP(-z));
        *y = x * g;
        rise *= x * g / (1 + WIDE_EXP(z));
        *slope = g + rise;
        *relative = 8 + 4 * fabs((double)z);
        *error = (16 + 8 * fabs((double)z)) * (double)(g + (rise < 0 ? -rise : rise));
    }
}

static void N(activation_one)(const NN *k, rng *r)
{
    size_t n = N(length)(r);
    attn_activation act = (attn_activation)rng_int(r, 0, ATTN_ACT_SILU);
    double size = rng_chance(r, 20) ? 40 : 3;
    REAL *x = N(row)(r, SLOT_A, n, size), *t = N(row)(r, SLOT_B, n, 1);
    REAL *dy = N(row)(r, SLOT_C, n, 1), *out = N(row)(r, SLOT_D, n, 1);
    REAL *dt = N(row)(r, SLOT_E, n, 1), forward[N(LONGEST)];
    bool times = rng_chance(r, 50);

    if (rng_chance(r, 20))
        x[0] = 0;
    slot_snap(SLOT_A);
    case_set("activation %d: n %zu, times %d", (int)act, n, times);
    k->activation(out, x, times ? t : NULL, act, n);
    memcpy(forward, out, n * sizeof *out);
    N(wrote)(SLOT_D, out, n);
    k->activation_back(out, dt, dy, x, times ? t : NULL, act, n);
    for (size_t i = 0; i < n; i++) {
        WIDE y, slope, factor = times ? (WIDE)t[i] : 1, g = (WIDE)dy[i];
        double relative, error, small = 2 * (1 + fabs((double)x[i])) * NORMAL, bound;
        /* The slope has x dz/dx times the exponential that may vanish. */
        double steep =
            act == ATTN_ACT_GELU_TANH ? 1.6 * (1 + 0.135 * (double)x[i] * (double)x[i]) : 1;
        double lost = 2 * (1 + fabs((double)x[i]) * steep) * NORMAL * (1 + fabs((double)g));

        N(curve)(act, (WIDE)x[i], &y, &slope, &relative, &error);
        bound = (U * (relative + 2) * fabs((double)y) + small) * (1 + fabs((double)factor));
        N(near)(forward[i], y * factor, bound, 0, i);
        bound = (U * (error + 4 * fabs((double)slope)) * fabs((double)g) + lost) *
                (1 + fabs((double)factor));
        N(near)(out[i], g * slope * factor, bound, 1, i);
        if (!times)
            continue;
        bound = (U * (relative + 2) * fabs((double)y) + small) * (1 + fabs((double)g));
        N(near)(dt[i], g * y, bound, 2, i);
    }
    N(wrote)(SLOT_D, out, n);
    N(wrote)(SLOT_E, dt, n);
}

static void N(activation_specials)(const NN *k)
{
    for (int act = ATTN_ACT_RELU; act <= ATTN_ACT_SILU; act++) {
        REAL x[3] = {(REAL)NAN, (REAL)1e30, (REAL)-1e30}, one[3] = {1, 1, 1}, dx[3], dt[3];

        case_set("activation %d of NaN and 1e30", act);
        k->activation_back(dx, dt, one, x, one, (attn_activation)act, 3);
        CASE_CHECK(isnan(dx[0]) && isnan(dt[0]), "%g %g", (double)dx[0], (double)dt[0]);
        CASE_CHECK(dx[1] == 1 && dx[2] == 0, "%g %g", (double)dx[1], (double)dx[2]);
    }
}

static void N(activation)(void **state)
{
    cases_begin();
    N(activation_specials)(&attn__kernels_for(test_set(state))->TABLE);
    for (int64_t i = 0; i < 2 * kernel_cases; i++) {
        rng r = case_rng(state, i);
        N(activation_one)(&attn__kernels_for(test_set(state))->TABLE, &r);
    }
    cases_end(state);
}

static void N(add_scaled_one)(const NN *k, rng *r)
{
    size_t n = N(length)(r);
    REAL *x = N(row)(r, SLOT_A, n, 1), *add = N(row)(r, SLOT_B, n, 1);
    REAL *out = N(row)(r, SLOT_C, n, 1), factor = N(factor_draw)(r), *expected;
    uint64_t bits[N(LONGEST) / 64 + 1];
    bool has_bits = rng_chance(r, 60), has_add = rng_chance(r, 60), over = rng_chance(r, 40);

    for (size_t i = 0; i < sizeof bits / sizeof *bits; i++)
        bits[i] = rng_next(r);
    x[rng_int(r, 0, (int64_t)n - 1)] = (REAL)special_value(REAL_TYPE, (int)rng_int(r, 0, 8));
    slot_snap(SLOT_A);
    if (over)
        out = has_add && rng_chance(r, 50) ? add : x;
    case_set("add_scaled: n %zu, bits %d, add %d, over %d, factor %g", n, has_bits, has_add, over,
             (double)factor);
    expected = slot_expected(out == x ? SLOT_A : out == add ? SLOT_B : SLOT_C);
    for (size_t i = 0; i < n; i++) {
        REAL y = has_bits && !(bits[i / 64] >> i % 64 & 1) ? 0 : x[i] * factor;
        expected[i] = has_add ? add[i] + y : y;
    }
    k->add_scaled(out, has_add ? add : NULL, x, factor, has_bits ? bits : NULL, n);
    for (size_t i = 0; i < n; i++) {
        CASE_CHECK(N(same)(out[i], expected[i]), "[%zu] is %g, not %g", i, (double)out[i],
                   (double)expected[i]);
        expected[i] = out[i];
    }
    for (int i = SLOT_A; i <= SLOT_C; i++)
        slot_check(i);
}

static void N(add_scaled)(void **state)
{
    cases_begin();
    for (int64_t i = 0; i < 4 * kernel_cases; i++) {
        rng r = case_rng(state, i);
        N(add_scaled_one)(&attn__kernels_for(test_set(state))->TABLE, &r);
    }
    cases_end(state);
}

static void N(rotate)(void **state)
{
    const NN *k = &attn__kernels_for(test_set(state))->TABLE;

    cases_begin();
    for (int64_t i = 0; i < kernel_cases; i++) {
        rng r = case_rng(state, i);
        size_t n = (size_t)rng_int(&r, 1, 70);
        bool adjacent = rng_chance(&r, 50);
        REAL *x = N(row)(&r, SLOT_A, 2 * n, 1), *c = N(row)(&r, SLOT_B, n, 1);
        REAL *s = N(row)(&r, SLOT_C, n, 1), *to = slot_expected(SLOT_A);

        case_set("rotate: %zu pairs, adjacent %d", n, adjacent);
        for (size_t j = 0; j < n; j++) {
            size_t first = adjacent ? 2 * j : j, second = adjacent ? first + 1 : j + n;
            to[first] = x[first] * c[j] - x[second] * s[j];
            to[second] = x[second] * c[j] + x[first] * s[j];
        }
        k->rotate(x, c, s, n, adjacent);
        for (int slot = SLOT_A; slot <= SLOT_C; slot++)
            slot_check(slot);
    }
    cases_end(state);
}

static void N(additive_one)(const NN *k, rng *r)
{
    size_t n = N(length)(r);
    REAL *q = N(row)(r, SLOT_A, n, 1), *key = N(row)(r, SLOT_B, n, 2);
    REAL *w = N(row)(r, SLOT_C, n, 1), *to = N(row)(r, SLOT_D, 3 * n, 1), ds = (REAL)rng_bell(r);
    REAL got;
    WIDE sum = 0;
    double error = 0;

    case_set("additive: n %zu", n);
    got = k->additive(q, key, w, n);
    k->additive_back(to, to + n, to + 2 * n, q, key, w, ds, n);
    for (size_t i = 0; i < n; i++) {
        const REAL *before = slot_expected(SLOT_D);
        WIDE z = (WIDE)q[i] + (WIDE)key[i], t = WIDE_TANH(z),
             dz = (WIDE)ds * (WIDE)w[i] * (1 - t * t);
        double off = U * (8 * fabs((double)t) + fabs((double)(z * (1 - t * t))));

        sum += (WIDE)w[i] * t;
        error += fabs((double)w[i]) * (off + N(steps)(n) * U * fabs((double)t));
        for (size_t part = 0; part < 3; part++) {
            WIDE add = part == 2 ? (WIDE)ds * t : dz, want = (WIDE)before[part * n + i] + add;
            double bound = 4 * U * (fabs((double)want) + fabs((double)add)) +
                           fabs((double)ds) * off * (part == 2 ? 1 : 4 * fabs((double)w[i]));

            N(near)(to[part * n + i], want, bound, part, i);
        }
    }
    N(near)(got, sum, error, 3, 0);
    N(wrote)(SLOT_D, to, 3 * n);
    for (int i = SLOT_A; i <= SLOT_C; i++)
        slot_check(i);
}

static void N(additive)(void **state)
{
    cases_begin();
    for (int64_t i = 0; i < kernel_cases; i++) {
        rng r = case_rng(state, i);
        N(additive_one)(&attn__kernels_for(test_set(state))->TABLE, &r);
    }
    cases_end(state);
}
