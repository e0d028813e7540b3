/* gradient_real.h: the kernels of gradient_kernels.h, for one kind of number. Part of
 * kernels_real.h. */

/* Cells of one row from column c on, LANES of them. */
ATTN__INLINE void K(gradient_cells)(REAL *s, REAL *dp, VEC lse, VEC delta, bool masked,
                                    uint64_t allow)
{
    VEC p = K(exp)(V(sub)(V(load)(s), lse));
    VEC ds = V(mul)(p, V(sub)(V(load)(dp), delta));

    V(store)(s, masked ? V(keep)(allow, p) : p);
    V(store)(dp, masked ? V(keep)(allow, ds) : ds);
}

static void K(gradients)(REAL *s, REAL *dp, size_t mr, size_t c0, size_t c1, const uint64_t *allow,
                         const REAL *lse, const REAL *delta)
{
    for (size_t r = 0; r < mr; r++, s += TILE, dp += TILE) {
        VEC base = V(set1)(lse[r]), mean = V(set1)(delta[r]);

        if (!allow && c1 - c0 == TILE) {
            ATTN__UNROLL
            for (size_t c = 0; c < TILE; c += LANES)
                K(gradient_cells)(s + c, dp + c, base, mean, false, 0);
            continue;
        }
        for (size_t c = c0; c < c1; c += LANES) {
            uint64_t kept = allow ? allow[r] >> c : ~(uint64_t)0;
            K(gradient_cells)(s + c, dp + c, base, mean, true, kept);
        }
    }
}

static void K(softcap_slope)(REAL *dt, const REAL *s, size_t c0, size_t c1, uint64_t allow,
                             REAL cap)
{
    VEC one = V(set1)(1), limit = V(set1)(cap);

    for (size_t c = c0; c < c1; c += LANES) {
        VEC y = V(div)(V(load)(s + c), limit);
        VEC slope = V(mul)(V(sub)(one, y), V(add)(one, y));

        V(store)(dt + c, V(keep)(allow >> c, V(mul)(V(load)(dt + c), slope)));
    }
}

ATTN__INLINE void K(across_block)(int n, int nv, REAL *out, ptrdiff_t out_stride, const REAL *p,
                                  size_t rows, const REAL *x, ptrdiff_t x_stride)
{
    VEC sum[attn__group][NV];

    ATTN__UNROLL
    for (int j = 0; j < n; j++) {
        ATTN__UNROLL
        for (int i = 0; i < nv; i++)
            sum[j][i] = V(load)(out + j * out_stride + i * LANES);
    }
    for (size_t r = 0; r < rows; r++, p += TILE, x += x_stride) {
        VEC value[NV];

        ATTN__UNROLL
        for (int i = 0; i < nv; i++)
            value[i] = V(load)(x + i * LANES);
        ATTN__UNROLL
        for (int j = 0; j < n; j++) {
            VEC a = V(set1)(p[j]);
            ATTN__UNROLL
            for (int i = 0; i < nv; i++)
                sum[j][i] = V(fma)(a, value[i], sum[j][i]);
        }
    }
    ATTN__UNROLL
    for (int j = 0; j < n; j++) {
        ATTN__UNROLL
        for (int i = 0; i < nv; i++)
            V(store)(out + j * out_stride + i * LANES, sum[j][i]);
    }
}

static void K(across)(REAL *out, ptrdiff_t out_stride, size_t n, const REAL *p, size_t rows,
                      const REAL *x, ptrdiff_t x_stride, size_t width)
{
    size_t columns;

    for (size_t c = 0; c < width; c += columns) {
        columns = width - c < PANEL ? width - c : PANEL;
        for (size_t j = 0; j < n; j += attn__group) {
            size_t some = n - j < attn__group ? n - j : attn__group;
            REAL *to = out + (ptrdiff_t)j * out_stride + c;
            BY_SHAPE(some, columns / LANES, across_block, to, out_stride, p + j, rows, x + c,
                     x_stride)
        }
    }
}

static void K(add)(REAL *to, const REAL *from, size_t n)
{
    size_t i = 0;

    for (; i + LANES <= n; i += LANES)
        V(store)(to + i, V(add)(V(load)(to + i), V(load)(from + i)));
    for (; i < n; i++)
        to[i] += from[i];
}

/* 16 partial sums of what term gives for LANES cells from column c on. */
#define SUM_CELLS(c0, c1, term)                                                                    \
    REAL lanes_[16] = {0};                                                                         \
    for (size_t c = (c0); c < (c1); c += LANES)                                                    \
        V(store)(lanes_ + c % 16, V(add)(V(load)(lanes_ + c % 16), term));                         \
    return K(row_sum)(lanes_)

static REAL K(dot)(const REAL *a, const REAL *b, size_t n)
{
    SUM_CELLS(0, n, V(mul)(V(load)(a + c), V(load)(b + c)));
}

static REAL K(cell_sum)(const REAL *dt, size_t c0, size_t c1)
{
    SUM_CELLS(c0, c1, V(load)(dt + c));
}

static REAL K(distance_sum)(const REAL *dt, size_t c0, size_t c1, REAL distance)
{
    REAL first[LANES];
    VEC column, from = V(set1)(distance);

    for (int i = 0; i < LANES; i++)
        first[i] = (REAL)i;
    column = V(load)(first);
    SUM_CELLS(c0, c1,
              V(mul)(V(load)(dt + c), V(abs)(V(sub)(from, V(add)(column, V(set1)((REAL)c))))));
}

#undef SUM_CELLS
