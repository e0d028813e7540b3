/* kernel_products.h: tests of pack_keys, store_key, scores and values, for one kind of number; part
 * of test_kernels.c.
 *
 * Each score and each output is held to two things: the bound of a chain of n steps, n u sum|ab|,
 * against the exact sum; and the bits of the very chain that kernels.h describes, so that no
 * blocking of rows, columns or keys can show. */

/* One step of a chain in the arithmetic of the set. */
static REAL N(step)(attn_kernel_set set, REAL a, REAL b, REAL c)
{
    return set == ATTN_SET_SCALAR ? a * b + c : FMA(a, b, c);
}

/* A chain beside its exact value and the sum of its terms' sizes. */
typedef struct N(chain) {
    attn_kernel_set set;
    REAL sum;
    WIDE exact, size;
    size_t steps;
} N(chain);

static N(chain) N(chain_start)(attn_kernel_set set, REAL from)
{
    return (N(chain)){set, from, (WIDE)from, (WIDE)fabs((double)from), 0};
}

static void N(chain_add)(N(chain) * x, REAL a, REAL b)
{
    WIDE product = (WIDE)a * (WIDE)b;

    x->sum = N(step)(x->set, a, b, x->sum);
    x->exact += product;
    x->size += product < 0 ? -product : product;
    x->steps++;
}

/* One rounding a step, two where the product is rounded by itself; sums that overflowed or hold
 * NaN have no bound, their bits decide. */
static void N(chain_check)(const N(chain) * x, REAL got, size_t row, size_t col)
{
    double bound = ((double)x->steps + (x->set == ATTN_SET_SCALAR)) * U * (double)x->size +
                   2 * (double)x->steps * DENORMAL;

    CASE_CHECK(N(same)(got, x->sum), "[%zu][%zu] is %.17g, the chain gives %.17g", row, col,
               (double)got, (double)x->sum);
    if (isfinite(x->sum) && (double)x->size < LARGEST)
        case_near((double)got, (double)x->exact, (double)((WIDE)got - x->exact), bound, row, col);
}

/* --- scores --------------------------------------------------------------------------------- */

typedef struct N(score_case) {
    size_t mr, d, c0, c1;
    size_t first, end; /* lanes that hold keys */
    REAL key[TILE][MAX_WIDTH];
    matrix q;
    const float *scale; /* of each lane, for i8; in slot A */
    REAL *s;
} N(score_case);

static void N(score_queries)(N(score_case) * x, rng *r)
{
    x->mr = (size_t)rng_int(r, 1, GROUP);
    x->q = matrix_draw(SLOT_B, r, REAL_TYPE, x->mr, x->d, true, true);
    matrix_fill(&x->q, r);
    x->s = slot_get(SLOT_C, x->mr * TILE * sizeof *x->s, sizeof *x->s, r);
}

/* Runs scores over the tile (of `type`) and compares. `whole`: cells outside c0..c1-1 may change,
 * as far as kernels.h allows for half types. */
static void N(score_run)(const KERNELS *k, attn_kernel_set set, N(score_case) * x, attn_type type,
                         const void *tile)
{
    bool panels = type != REAL_TYPE;
    REAL *expected;

    slot_snap(SLOT_B);
    slot_snap(SLOT_C);
    expected = slot_expected(SLOT_C);
    k->scores(x->s, x->mr, (const REAL *)(const void *)x->q.data, x->q.row_stride, type, tile,
              type == ATTN_I8 ? x->scale : NULL, x->d, x->c0, x->c1, x->mr % 2);
    for (size_t row = 0; row < x->mr; row++)
        for (size_t c = 0; c < TILE; c++) {
            N(chain) sum = N(chain_start)(set, 0);
            bool inside = c >= x->c0 && c < x->c1, key = c >= x->first && c < x->end;
            REAL got = x->s[row * TILE + c];

            if ((inside && !key) || (!inside && panels))
                expected[row * TILE + c] = got; /* whatever lies there */
            if (!inside || !key)
                continue;
            for (size_t i = 0; i < x->d; i++)
                N(chain_add)(&sum, (REAL)matrix_get(&x->q, row, i), x->key[c][i]);
            N(chain_check)(&sum, got, row, c);
            expected[row * TILE + c] = got;
        }
    slot_check(SLOT_C);
    slot_check(SLOT_B);
}

/* Packs the keys in ascending runs, as pages of a cache come. */
static void N(pack_runs)(const KERNELS *k, rng *r, const N(score_case) * x, const matrix *keys,
                         REAL *tile)
{
    ptrdiff_t unit = (ptrdiff_t)attn_type_size(keys->type);
    bool single = rng_chance(r, 50);

    for (size_t lane = x->first; lane < x->end;) {
        size_t left = x->end - lane, n = single ? left : (size_t)rng_int(r, 1, (int64_t)left);

        k->pack_keys(tile, lane, n, keys->type,
                     keys->data + (ptrdiff_t)(lane - x->first) * keys->row_stride * unit,
                     keys->row_stride, keys->col_stride, x->d);
        lane += n;
    }
}

static void N(pack_case)(const KERNELS *k, attn_kernel_set set, rng *r, size_t d, int special,
                         size_t lane)
{
    static N(score_case) x;
    attn_type type = N(type_draw)(r);
    matrix keys;
    REAL *tile;

    x.d = d;
    draw_columns(r, &x.c0, &x.c1);
    x.first = rng_chance(r, 50) ? 0 : (size_t)rng_int(r, 0, TILE - 1);
    x.end = rng_chance(r, 40) ? TILE : (size_t)rng_int(r, (int64_t)x.first + 1, TILE);
    if (special >= 0) {
        x.first = x.c0 = 0;
        x.end = x.c1 = TILE;
    }
    keys = matrix_draw(SLOT_A, r, type, x.end - x.first, d, rng_chance(r, 70), true);
    matrix_fill(&keys, r);
    if (special >= 0)
        matrix_set(&keys, lane, (size_t)rng_int(r, 0, (int64_t)d - 1),
                   special_value(type, special));
    for (size_t c = x.first; c < x.end; c++)
        for (size_t i = 0; i < d; i++)
            x.key[c][i] = (REAL)matrix_get(&keys, c - x.first, i);
    N(score_queries)(&x, r);
    case_set("pack_keys %s, scores: %zu rows, d %zu, columns %zu..%zu, keys %zu..%zu, strides %td "
             "%td, q %td",
             attn_type_name(type), x.mr, d, x.c0, x.c1, x.first, x.end, keys.row_stride,
             keys.col_stride, x.q.row_stride);
    tile = slot_get(SLOT_D, TILE * d * sizeof *tile, sizeof *tile, r);
    slot_snap(SLOT_A);
    N(pack_runs)(k, r, &x, &keys, tile);
    slot_check(SLOT_A);
    slot_snap(SLOT_D);
    N(score_run)(k, set, &x, REAL_TYPE, tile);
    slot_check(SLOT_D);
}

static void N(pack_keys)(void **state)
{
    attn_kernel_set set = test_set(state);
    const KERNELS *k = &attn__kernels_for(set)->TABLE;

    cases_begin();
    for (int64_t i = 0; i < kernel_cases; i++) {
        rng r = case_rng(state, i);

        N(pack_case)(k, set, &r, (size_t)(1 + i % MAX_WIDTH), -1, 0);
    }
    for (int64_t i = 0; i < SPECIAL_COUNT * TILE; i++) { /* every special in every lane */
        rng r = case_rng(state, kernel_cases + i);

        N(pack_case)(k, set, &r, (size_t)rng_int(&r, 1, 20), (int)(i / TILE), (size_t)(i % TILE));
    }
    cases_end(state);
}

/* --- store_key ------------------------------------------------------------------------------ */

/* Writes all keys of the case into the tile in pieces, all keys' pieces mixed. */
static void N(store_keys)(const KERNELS *k, rng *r, const N(score_case) * x, attn_type type,
                          void *tile, REAL (*source)[MAX_WIDTH])
{
    size_t at[TILE] = {0}, left = (x->end - x->first) * x->d;

    while (left > 0) {
        size_t lane = (size_t)rng_int(r, (int64_t)x->first, (int64_t)x->end - 1), c = at[lane];
        size_t n = (size_t)rng_int(r, 0, (int64_t)(x->d - c));
        REAL *src;

        if (c == x->d)
            continue;
        if (rng_chance(r, 70))
            n = x->d - c;
        src = slot_get(SLOT_A, n * sizeof *src, sizeof *src, r);
        memcpy(src, source[lane] + c, n * sizeof *src);
        k->store_key(tile, type, lane, x->d, c, n, src);
        at[lane] += n;
        left -= n;
    }
}

/* What a key of the tile counts as: rounded to the type, i8 times its scale. */
static REAL N(stored)(attn_type type, REAL value, float scale)
{
    unsigned char cell[sizeof(double)];

    if (type == ATTN_I8)
        return value * (REAL)scale;
    ref_store(cell, type, (double)value);
    return (REAL)ref_load(cell, type);
}

static void N(store_key_case)(const KERNELS *k, attn_kernel_set set, rng *r, size_t d)
{
    static N(score_case) x;
    static REAL source[TILE][MAX_WIDTH];
    attn_type type = N(operand_draw)(r);
    size_t unit = attn_type_size(type);
    data_kind kind = data_draw(r);
    float *scale, scales[TILE];
    void *tile = slot_get(SLOT_D, TILE * d * unit, unit, r);

    x.d = d;
    draw_columns(r, &x.c0, &x.c1);
    x.first = rng_chance(r, 60) ? 0 : (size_t)rng_int(r, 0, TILE - 1);
    x.end = rng_chance(r, 60) ? TILE : (size_t)rng_int(r, (int64_t)x.first + 1, TILE);
    for (size_t c = 0; c < TILE; c++) {
        scales[c] = (float)rng_range(r, 0.001, 0.1);
        for (size_t i = 0; i < d; i++) {
            source[c][i] = (REAL)data_value(r, kind, type);
            x.key[c][i] = N(stored)(type, source[c][i], scales[c]);
        }
    }
    N(score_queries)(&x, r);
    case_set("store_key %s, scores: %zu rows, d %zu, columns %zu..%zu, keys %zu..%zu, q %td",
             attn_type_name(type), x.mr, d, x.c0, x.c1, x.first, x.end, x.q.row_stride);
    N(store_keys)(k, r, &x, type, tile, source);
    scale = slot_get(SLOT_A, sizeof scales, sizeof *scale, r);
    memcpy(scale, scales, sizeof scales);
    x.scale = scale;
    slot_snap(SLOT_D);
    N(score_run)(k, set, &x, type, tile);
    slot_check(SLOT_D);
    if (type != REAL_TYPE) { /* a tile of another type, widened whole, is a tile of pack_keys */
        REAL *wide = slot_get(SLOT_E, TILE * d * sizeof *wide, sizeof *wide, r);

        k->widen_keys(wide, type, tile, scale, d);
        N(score_run)(k, set, &x, REAL_TYPE, wide);
    }
}

static void N(store_key)(void **state)
{
    attn_kernel_set set = test_set(state);
    const KERNELS *k = &attn__kernels_for(set)->TABLE;

    cases_begin();
    for (int64_t i = 0; i < kernel_cases; i++) {
        rng r = case_rng(state, i);

        N(store_key_case)(k, set, &r, (size_t)(1 + i % MAX_WIDTH));
    }
    cases_end(state);
}

/* --- values --------------------------------------------------------------------------------- */

/* Every output: one chain over the rows of v (i8: times their scale), from what was there. */
static void N(values_check)(attn_kernel_set set, const matrix *out, const REAL *p, const matrix *v,
                            const float *scale)
{
    matrix before = *out;

    before.data = (unsigned char *)slot_expected(out->slot) + out->first;
    for (size_t row = 0; row < out->rows; row++)
        for (size_t c = 0; c < out->cols; c++) {
            N(chain) sum = N(chain_start)(set, (REAL)matrix_get(&before, row, c));

            for (size_t i = 0; i < v->rows; i++)
                N(chain_add)
            (&sum, p[row * TILE + i],
             (REAL)matrix_get(v, i, c) * (v->type == ATTN_I8 ? (REAL)scale[i] : 1));
            N(chain_check)(&sum, (REAL)matrix_get(out, row, c), row, c);
            matrix_expect(out, row, c, (double)sum.sum);
        }
}

/* p holds NaN wherever the kernel has nothing to read. */
static void N(values_case)(const KERNELS *k, attn_kernel_set set, rng *r, size_t width, int special,
                           size_t column)
{
    attn_type type = N(operand_draw)(r);
    float *scale;
    size_t mr = (size_t)rng_int(r, 1, GROUP), k0 = (size_t)rng_int(r, 0, TILE);
    size_t k1 = (size_t)rng_int(r, (int64_t)k0, TILE), keys;
    data_kind kind = data_draw(r);
    matrix v, out = matrix_draw(SLOT_B, r, REAL_TYPE, mr, width, true, false);
    REAL *p = slot_get(SLOT_C, mr * TILE * sizeof *p, sizeof *p, r);

    if (rng_chance(r, 20) || special >= 0) {
        k0 = 0;
        k1 = TILE;
    }
    keys = k1 - k0;
    scale = slot_get(SLOT_D, keys * sizeof *scale, sizeof *scale, r);
    for (size_t i = 0; i < keys; i++)
        scale[i] = (float)rng_range(r, 0.001, 0.1);
    v = matrix_draw(SLOT_A, r, type, keys, width, true, true);
    matrix_fill(&v, r);
    matrix_fill(&out, r);
    for (size_t row = 0; row < mr; row++)
        for (size_t i = k0; i < k1; i++)
            p[row * TILE + i] = (REAL)fabs(data_value(r, kind, REAL_TYPE));
    if (special >= 0)
        matrix_set(&v, (size_t)rng_int(r, 0, TILE - 1), column, special_value(type, special));
    case_set("values %s: %zu rows, keys %zu..%zu, width %zu, strides %td, out %td",
             attn_type_name(type), mr, k0, k1, width, v.row_stride, out.row_stride);
    for (int i = SLOT_A; i <= SLOT_C; i++)
        slot_snap(i);
    k->values((REAL *)(void *)out.data, out.row_stride, mr, p, k0, k1, type, v.data, v.row_stride,
              type == ATTN_I8 ? scale : NULL, width, rng_chance(r, 50));
    N(values_check)(set, &out, p + k0, &v, scale);
    for (int i = SLOT_A; i <= SLOT_C; i++)
        slot_check(i);
}

static void N(values)(void **state)
{
    attn_kernel_set set = test_set(state);
    const KERNELS *k = &attn__kernels_for(set)->TABLE;

    cases_begin();
    for (int64_t i = 0; i < kernel_cases; i++) {
        rng r = case_rng(state, i);

        N(values_case)(k, set, &r, (size_t)(16 + 16 * (i % (MAX_VALUES / 16))), -1, 0);
    }
    for (int64_t i = 0; i < SPECIAL_COUNT * 16; i++) { /* every special in every place of 16 */
        rng r = case_rng(state, kernel_cases + i);

        N(values_case)
        (k, set, &r, (size_t)(16 * rng_int(&r, 1, 3)), (int)(i / 16), (size_t)(i % 16));
    }
    cases_end(state);
}
