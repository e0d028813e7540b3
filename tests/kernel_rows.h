/* kernel_rows.h: tests of load_rows and store_row, for one kind of number; part of
 * test_kernels.c. All results are exact. */

/* The types of the table. */
static attn_type N(type_draw)(rng *r)
{
    static const attn_type types[] = {REAL_TYPE, HALF_TYPES};

    return types[rng_int(r, 0, (int64_t)(sizeof types / sizeof *types) - 1)];
}

/* The same and i8, which some kernels take. */
static attn_type N(operand_draw)(rng *r)
{
    static const attn_type types[] = {REAL_TYPE, HALF_TYPES, BYTE_TYPES};

    return types[rng_int(r, 0, (int64_t)(sizeof types / sizeof *types) - 1)];
}

/* Bits, with all NaN alike. */
static bool N(same)(REAL a, REAL b)
{
    return (isnan(a) && isnan(b)) || memcmp(&a, &b, sizeof a) == 0;
}

static REAL N(factor_draw)(rng *r)
{
    static const REAL some[] = {1, 1, 0, (REAL)-0.125, -1};
    int64_t i = rng_int(r, 0, 6);

    return i < 5 ? some[i] : (REAL)rng_range(r, -3, 3);
}

static void N(load_rows_case)(const KERNELS *k, rng *r, size_t cols, int special, size_t lane)
{
    size_t rows = (size_t)rng_int(r, 0, 20), padded = cols + (size_t)rng_int(r, 0, 20);
    attn_type type = N(operand_draw)(r);
    matrix src = matrix_draw(SLOT_A, r, type, rows, cols, rng_chance(r, 60), true), dst;
    ptrdiff_t dst_stride = (ptrdiff_t)padded + rng_int(r, 0, 3);
    REAL factor = N(factor_draw)(r);

    matrix_fill(&src, r);
    for (size_t i = 0; special >= 0 && i < rows; i++)
        matrix_set(&src, i, lane, special_value(type, special));
    dst = matrix_new(SLOT_B, r, REAL_TYPE, rows, padded,
                     rng_chance(r, 20) ? -dst_stride : dst_stride, 1);
    case_set("load_rows %s: %zu x %zu, padded %zu, strides %td %td, to %td, factor %g",
             attn_type_name(type), rows, cols, padded, src.row_stride, src.col_stride,
             dst.row_stride, (double)factor);
    slot_snap(SLOT_A);
    slot_snap(SLOT_B);
    k->load_rows((REAL *)(void *)dst.data, dst.row_stride, rows, type, src.data, src.row_stride,
                 src.col_stride, cols, padded, factor);
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < padded; j++)
            matrix_expect(&dst, i, j,
                          j < cols ? (double)(factor * (REAL)matrix_get(&src, i, j)) : 0);
    slot_check(SLOT_B);
    slot_check(SLOT_A);
}

static void N(load_rows)(void **state)
{
    const KERNELS *k = &attn__kernels_for(test_set(state))->TABLE;

    cases_begin();
    for (int64_t i = 0; i < kernel_cases; i++) {
        rng r = case_rng(state, i);

        N(load_rows_case)(k, &r, (size_t)(i % 131), -1, 0);
    }
    for (int64_t i = 0; i < SPECIAL_COUNT * 40; i++) { /* every special at every place of 40 */
        rng r = case_rng(state, kernel_cases + i);

        N(load_rows_case)(k, &r, 40, (int)(i / 40), (size_t)(i % 40));
    }
    cases_end(state);
}

/* factor * src + 0 in the arithmetic of the table, then rounded to the type. */
static void N(store_row_case)(const KERNELS *k, rng *r, size_t cols, int special, size_t lane)
{
    static const ptrdiff_t strides[] = {1, 1, 1, 2, 7, -1, -3};
    attn_type type = N(operand_draw)(r);
    data_kind kind = data_draw(r);
    REAL *src = slot_get(SLOT_A, cols * sizeof *src, sizeof *src, r), factor = N(factor_draw)(r);
    matrix dst = matrix_new(SLOT_B, r, type, 1, cols, 0, strides[rng_int(r, 0, 6)]);

    for (size_t c = 0; c < cols; c++)
        src[c] = (REAL)data_value(r, kind, rng_chance(r, 50) ? type : REAL_TYPE);
    if (special >= 0)
        src[lane] = (REAL)special_value(type, special);
    if (type == ATTN_I8) { /* integers that fit come */
        factor = 1;
        for (size_t c = 0; c < cols; c++)
            src[c] = (REAL)rng_int(r, -128, 127);
    }
    case_set("store_row %s: %zu columns, stride %td, factor %g", attn_type_name(type), cols,
             dst.col_stride, (double)factor);
    slot_snap(SLOT_A);
    slot_snap(SLOT_B);
    k->store_row(dst.data, type, dst.col_stride, src, cols, factor);
    for (size_t c = 0; c < cols; c++)
        matrix_expect(&dst, 0, c, (double)(src[c] * factor + 0));
    slot_check(SLOT_B);
    slot_check(SLOT_A);
}

static void N(store_row)(void **state)
{
    const KERNELS *k = &attn__kernels_for(test_set(state))->TABLE;

    cases_begin();
    for (int64_t i = 0; i < kernel_cases; i++) {
        rng r = case_rng(state, i);

        N(store_row_case)(k, &r, (size_t)(i % 131), -1, 0);
    }
    for (int64_t i = 0; i < SPECIAL_COUNT * 40; i++) {
        rng r = case_rng(state, kernel_cases + i);

        N(store_row_case)(k, &r, 40, (int)(i / 40), (size_t)(i % 40));
    }
    cases_end(state);
}
