/* kernel_gemm.h: tests of the kernels of the matrix product (src/kernels/gemm_kernels.h), for one
 * kind of number; part of test_kernels.c. */

static size_t N(whole_vectors)(size_t n)
{
    return (n + 15) / 16 * 16;
}

/* --- pack, pack_narrow, widen, tile, thin ---------------------------------------------------- */

typedef struct N(product) {
    attn_kernel_set set;
    size_t rows, n, steps;
    attn_type type;
    matrix w, a, acc; /* w is [n][steps], acc [rows][n, up to whole vectors] */
    REAL wide[TILE][MAX_WIDTH];
} N(product);

static void N(product_draw)(N(product) * x, rng *r, bool unit_steps)
{
    bool unit_columns = rng_chance(r, 30);

    x->rows = (size_t)rng_int(r, 1, GROUP);
    x->n = rng_chance(r, 30) ? TILE : (size_t)rng_int(r, 1, TILE);
    x->type = N(operand_draw)(r);
    if (!unit_steps && unit_columns)
        x->w =
            matrix_new(SLOT_A, r, x->type, x->n, x->steps, 1, (ptrdiff_t)x->n + rng_int(r, 0, 5));
    else
        x->w = matrix_draw(SLOT_A, r, x->type, x->n, x->steps, unit_steps, true);
    matrix_fill(&x->w, r);
    x->a = matrix_draw(SLOT_B, r, REAL_TYPE, x->rows, x->steps, true, true);
    matrix_fill(&x->a, r);
    x->acc = matrix_new(SLOT_C, r, REAL_TYPE, x->rows, N(whole_vectors)(x->n),
                        (ptrdiff_t)(N(whole_vectors)(x->n) + 16 * (size_t)rng_int(r, 0, 2)), 1);
    for (size_t c = 0; c < x->n; c++)
        for (size_t i = 0; i < x->steps; i++)
            x->wide[c][i] = (REAL)matrix_get(&x->w, c, i);
    case_set("%s weights, %zu rows, %zu columns, %zu steps, strides %td %td, a %td",
             attn_type_name(x->type), x->rows, x->n, x->steps, x->w.row_stride, x->w.col_stride,
             x->a.row_stride);
    slot_snap(SLOT_A);
    slot_snap(SLOT_B);
    slot_snap(SLOT_C);
}

static void N(product_check)(N(product) * x)
{
    for (size_t row = 0; row < x->rows; row++) {
        for (size_t c = 0; c < x->n; c++) {
            N(chain) sum = N(chain_start)(x->set, 0);
            REAL got = (REAL)matrix_get(&x->acc, row, c);

            for (size_t i = 0; i < x->steps; i++)
                N(chain_add)(&sum, (REAL)matrix_get(&x->a, row, i), x->wide[c][i]);
            N(chain_check)(&sum, got, row, c);
            matrix_expect(&x->acc, row, c, (double)got);
        }
        for (size_t c = x->n; c < N(whole_vectors)(x->n); c++) /* the kernel may fill a vector */
            matrix_expect(&x->acc, row, c, matrix_get(&x->acc, row, c));
    }
    for (int i = SLOT_A; i <= SLOT_C; i++)
        slot_check(i);
}

/* The steps in pieces, each going on with the sums of those before. */
static void N(product_pieces)(const GEMM *k, rng *r, N(product) * x, const REAL *tile,
                              const void *narrow)
{
    REAL *acc = (REAL *)(void *)x->acc.data, *part;
    const REAL *a = (const REAL *)(const void *)x->a.data;

    for (size_t first = 0, n; first < x->steps || x->steps == 0; first += n) {
        size_t left = x->steps - first;

        n = left == 0 || rng_chance(r, 50) ? left : (size_t)rng_int(r, 1, (int64_t)left);
        if (narrow) {
            part = slot_get(SLOT_D, TILE * n * sizeof *part, sizeof *part, r);
            k->widen(part, x->n, n, x->type, narrow, x->steps, first);
            k->tile(acc, x->acc.row_stride, x->rows, x->n, a + first, x->a.row_stride, part, n, 0,
                    n, first > 0);
        } else
            k->tile(acc, x->acc.row_stride, x->rows, x->n, a + first, x->a.row_stride, tile,
                    x->steps, first, n, first > 0);
        if (x->steps == 0)
            break;
    }
}

static void N(product_case)(const attn__kernels *all, rng *r, int64_t i)
{
    static N(product) x;
    const GEMM *k = &all->GEMM_TABLE;
    size_t unit;

    x.set = all->set;
    x.steps = (size_t)(i % (MAX_WIDTH + 1));
    N(product_draw)(&x, r, i % 3 == 2);
    unit = attn_type_size(x.type);
    if (i % 3 == 0) {
        REAL *tile = slot_get(SLOT_D, TILE * x.steps * sizeof *tile, sizeof *tile, r);

        k->pack(tile, x.n, x.steps, x.type, x.w.data, x.w.row_stride, x.w.col_stride);
        slot_snap(SLOT_D);
        N(product_pieces)(k, r, &x, tile, NULL);
        slot_check(SLOT_D);
    } else if (i % 3 == 1) {
        void *narrow = slot_get(SLOT_E, TILE * x.steps * unit, unit, r);

        k->pack_narrow(narrow, x.n, x.steps, x.type, x.w.data, x.w.row_stride, x.w.col_stride);
        slot_snap(SLOT_E);
        N(product_pieces)(k, r, &x, NULL, narrow);
        slot_check(SLOT_E);
    } else
        k->thin((REAL *)(void *)x.acc.data, x.acc.row_stride, x.rows, x.n,
                (const REAL *)(const void *)x.a.data, x.a.row_stride, x.type, x.w.data,
                x.w.row_stride, x.steps);
    N(product_check)(&x);
}

static void N(gemm_products)(void **state)
{
    const attn__kernels *all = attn__kernels_for(test_set(state));

    cases_begin();
    for (int64_t i = 0; i < 3 * kernel_cases; i++) {
        rng r = case_rng(state, i);

        N(product_case)(all, &r, i);
    }
    cases_end(state);
}

/* --- load_columns --------------------------------------------------------------------------- */

static void N(gemm_load_columns)(void **state)
{
    const GEMM *k = &attn__kernels_for(test_set(state))->GEMM_TABLE;

    cases_begin();
    for (int64_t i = 0; i < kernel_cases; i++) {
        rng r = case_rng(state, i);
        attn_type type = N(type_draw)(&r);
        size_t rows = (size_t)rng_int(&r, 1, 70), cols = (size_t)(1 + i % 70);
        ptrdiff_t stride = (ptrdiff_t)rows + rng_int(&r, 0, 5);
        matrix src, dst;

        stride = rng_chance(&r, 20) ? -stride : rng_chance(&r, 10) ? rng_int(&r, -2, 2) : stride;
        src = matrix_new(SLOT_A, &r, type, rows, cols, 1, stride);
        matrix_fill(&src, &r);
        dst = matrix_new(SLOT_B, &r, REAL_TYPE, rows, cols, (ptrdiff_t)cols + rng_int(&r, 0, 5), 1);
        case_set("load_columns %s: %zu x %zu, stride %td", attn_type_name(type), rows, cols,
                 stride);
        slot_snap(SLOT_A);
        slot_snap(SLOT_B);
        k->load_columns((REAL *)(void *)dst.data, dst.row_stride, rows, cols, type, src.data,
                        stride);
        for (size_t row = 0; row < rows; row++)
            for (size_t c = 0; c < cols; c++)
                matrix_expect(&dst, row, c, matrix_get(&src, row, c));
        slot_check(SLOT_A);
        slot_check(SLOT_B);
    }
    cases_end(state);
}

/* --- finish --------------------------------------------------------------------------------- */

typedef struct N(finish) {
    attn__epilogue e;
    size_t rows, n;
    matrix acc, out, residual; /* acc is rows of whole vectors */
    REAL *scale, *bias;        /* whole vectors too, or NULL */
    bool has_residual;
} N(finish);

/* An activation and the relative error that its steps may have, in u: each rounding of an exponent
 * z costs |z|. */
static WIDE N(activation)(attn_activation activation, WIDE x, double *relative)
{
    const WIDE root = (WIDE)0.797884560802865355879892119868763737L; /* sqrt(2 / pi) */
    WIDE z = root * (x + (WIDE)0.044715L * x * x * x);

    switch (activation) {
    case ATTN_ACT_RELU:
        *relative = 0;
        return x > 0 ? x : 0;
    case ATTN_ACT_GELU:
        *relative = 12 + (double)(x * x);
        return x / 2 * WIDE_ERFC(-x * (WIDE)0.707106781186547524400844362104849039L);
    case ATTN_ACT_GELU_TANH:
        *relative = 8 + 8 * fabs((double)z);
        return x / (1 + WIDE_EXP(-2 * z));
    case ATTN_ACT_SILU:
        *relative = 8 + 3 * fabs((double)x);
        return x / (1 + WIDE_EXP(-x));
    default:
        *relative = 0;
        return x;
    }
}

/* Half a unit in the last place of a type, relative, and its smallest number. */
static double N(out_rounding)(attn_type type, double value)
{
    double unit = type == ATTN_F16 ? 0x1p-11 : type == ATTN_BF16 ? 0x1p-8 : 0;
    double smallest = type == ATTN_F16 ? 0x1p-24 : type == ATTN_BF16 ? 0x1p-133 : DENORMAL;

    return unit * fabs(value) + smallest;
}

/* One result. Without an activation, or with relu, every operation is exact to the bit but for the
 * sign of a zero. */
static void N(finish_check)(const N(finish) * x, REAL acc, REAL residual, size_t row, size_t c)
{
    double got = matrix_get(&x->out, row, c), relative, bound;
    unsigned char cell[sizeof(double)];
    REAL in = acc;
    WIDE want;

    if (x->scale)
        in = in * x->scale[c];
    if (x->bias)
        in = in + x->bias[c];
    want = N(activation)(x->e.activation, (WIDE)in, &relative);
    if (isnan(in) || isnan(residual)) {
        CASE_CHECK(isnan(got), "[%zu][%zu] of NaN is %g", row, c, got);
        return;
    }
    if (relative == 0) {
        REAL exact = (REAL)want + (x->has_residual ? residual : 0);

        ref_store(cell, x->e.out_type, (double)exact);
        CASE_CHECK(got == ref_load(cell, x->e.out_type), "[%zu][%zu] of %g is %.17g, not %.17g",
                   row, c, (double)in, got, (double)exact);
        return;
    }
    bound = fmin(relative, 1e5) * U * fabs((double)want) + 2 * (1 + fabs((double)in)) * NORMAL;
    want += x->has_residual ? (WIDE)residual : 0;
    bound += U * (fabs((double)want) + bound);
    bound += N(out_rounding)(x->e.out_type, fabs((double)want) + bound);
    if (fabs((double)want) < (x->e.out_type == ATTN_F16 ? 65000 : LARGEST / 2))
        case_near(got, (double)want, (double)((WIDE)got - want), bound, row, c);
}

static REAL *N(vector_draw)(int slot, rng *r, size_t n)
{
    REAL *v = slot_get(slot, N(whole_vectors)(n) * sizeof *v, sizeof *v, r);

    for (size_t c = 0; c < N(whole_vectors)(n); c++)
        v[c] = (REAL)rng_bell(r);
    return v;
}

static void N(finish_draw)(N(finish) * x, rng *r)
{
    bool in_place = rng_chance(r, 20);
    double size = rng_chance(r, 20) ? 30 : 3;

    x->rows = (size_t)rng_int(r, 1, 9);
    x->n = (size_t)rng_int(r, 1, 70);
    x->e = (attn__epilogue){.activation = (attn_activation)rng_int(r, 0, ATTN_ACT_SILU),
                            .out_type = in_place ? REAL_TYPE : N(type_draw)(r),
                            .residual_type = N(type_draw)(r)};
    if (in_place) /* sums that wait in the output, which then has whole vectors */
        x->n = N(whole_vectors)(x->n);
    x->acc = matrix_new(SLOT_A, r, REAL_TYPE, x->rows, N(whole_vectors)(x->n),
                        (ptrdiff_t)N(whole_vectors)(x->n) + rng_int(r, 0, 5), 1);
    for (size_t row = 0; row < x->rows; row++)
        for (size_t c = 0; c < x->acc.cols; c++)
            matrix_set(&x->acc, row, c,
                       rng_chance(r, 1) ? special_value(REAL_TYPE, rng_chance(r, 50) ? 0 : 4)
                                        : size * rng_bell(r));
    x->out = x->acc;
    if (!in_place)
        x->out = matrix_draw(SLOT_B, r, x->e.out_type, x->rows, x->n, false, false);
    x->has_residual = rng_chance(r, 50);
    x->residual = matrix_draw(SLOT_C, r, x->e.residual_type, x->rows, x->n, false, true);
    matrix_fill(&x->residual, r);
    if (!in_place && rng_chance(r, 30)) { /* the residual in the output's place */
        matrix_fill(&x->out, r);
        x->e.residual_type = x->e.out_type;
        x->residual = x->out;
    }
    x->scale = rng_chance(r, 50) ? N(vector_draw)(SLOT_D, r, x->n) : NULL;
    x->bias = rng_chance(r, 50) ? N(vector_draw)(SLOT_E, r, x->n) : NULL;
    x->e.out_row = x->out.row_stride;
    x->e.out_col = x->out.col_stride;
    x->e.residual_row = x->residual.row_stride;
    x->e.residual_col = x->residual.col_stride;
}

static void N(finish_case)(const GEMM *k, rng *r)
{
    static REAL acc[9][TILE + 16], residual[9][TILE + 16];
    N(finish) x;

    N(finish_draw)(&x, r);
    case_set("finish: activation %d, %zu x %zu to %s, strides %td %td%s, residual %s%s%s%s",
             (int)x.e.activation, x.rows, x.n, attn_type_name(x.e.out_type), x.e.out_row,
             x.e.out_col, x.out.data == x.acc.data ? " in place" : "",
             x.has_residual ? attn_type_name(x.e.residual_type) : "none",
             x.residual.data == x.out.data ? " in place" : "", x.scale ? ", scale" : "",
             x.bias ? ", bias" : "");
    for (size_t row = 0; row < x.rows; row++)
        for (size_t c = 0; c < x.n; c++) {
            acc[row][c] = (REAL)matrix_get(&x.acc, row, c);
            residual[row][c] = (REAL)matrix_get(&x.residual, row, c);
        }
    for (int i = SLOT_A; i <= SLOT_C; i++)
        if (i != SLOT_B || x.out.slot == SLOT_B)
            slot_snap(i);
    k->finish(&x.e, x.out.data, x.has_residual ? x.residual.data : NULL, x.scale, x.bias,
              (const REAL *)(const void *)x.acc.data, x.acc.row_stride, x.rows, x.n);
    for (size_t row = 0; row < x.rows; row++)
        for (size_t c = 0; c < x.n; c++) {
            N(finish_check)(&x, acc[row][c], x.has_residual ? residual[row][c] : 0, row, c);
            matrix_expect(&x.out, row, c, matrix_get(&x.out, row, c));
        }
    for (int i = SLOT_A; i <= SLOT_C; i++)
        if (i != SLOT_B || x.out.slot == SLOT_B)
            slot_check(i);
}

static void N(gemm_finish)(void **state)
{
    const GEMM *k = &attn__kernels_for(test_set(state))->GEMM_TABLE;
    volatile long double one = 1;

    /* Valgrind computes long double in double, too coarse to judge an activation in double. */
    if (sizeof(REAL) == sizeof(double) && one + 0x1p-60L == one)
        skip();
    cases_begin();
    for (int64_t i = 0; i < 2 * kernel_cases; i++) {
        rng r = case_rng(state, i);

        N(finish_case)(k, &r);
    }
    cases_end(state);
}
