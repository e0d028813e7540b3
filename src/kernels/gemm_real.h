/* gemm_real.h: the kernels of the matrix product (see gemm_kernels.h) for one kind of number.
 * Included by kernels_real.h, whose macros and helpers it uses. */

/* --- activations ---------------------------------------------------------------------------- */

/* x / (1 + e^-z), the exponential taken of -|z| so that it neither overflows nor cancels. */
ATTN__INLINE VEC K(gate)(VEC x, VEC z)
{
    VEC one = V(set1)(1), t = K(exp)(V(sub)(V(zero)(), V(abs)(z)));

    /* z and x have the same sign; a NaN compares false and stays. */
    return V(div)(V(pick)(V(gt)(V(zero)(), x), V(mul)(x, t), x), V(add)(one, t));
}

/* Phi(x), Phi the normal distribution. Phi(-|x|) = e^(-x^2/2) S(w) / (|x| + c) with
 * w = (|x| - c) / (|x| + c) and S a polynomial (interpolation at Chebyshev nodes in 60 digits,
 * coefficients rounded: 3.7e-8 and 7.5e-17, relative, up to |x| = 16 and 40, where the exponential
 * has vanished): accurate relative to the result on both sides. */
ATTN__INLINE VEC K(normal_below)(VEC x)
{
    static const REAL s[] = {GELU_COEFFICIENTS};
    VEC a = V(min)(V(set1)(GELU_LIMIT), V(abs)(x)), c = V(set1)(GELU_CENTRE);
    VEC inverse = V(div)(V(set1)(1), V(add)(a, c)), w = V(mul)(V(sub)(a, c), inverse);
    VEC square = V(mul)(a, a), minus_half = V(set1)((REAL)-0.5);
    VEC rest = V(fma)(a, a, V(sub)(V(zero)(), square)); /* what rounding the square lost */
    VEC e = K(exp)(V(mul)(square, minus_half));
    VEC q = V(set1)(s[sizeof s / sizeof *s - 1]);

    e = V(fma)(V(mul)(e, minus_half), rest, e);
    ATTN__UNROLL
    for (int i = (int)(sizeof s / sizeof *s) - 2; i >= 0; i--)
        q = V(fma)(q, w, V(set1)(s[i]));
    q = V(mul)(e, V(mul)(q, inverse));
    return V(pick)(V(gt)(V(zero)(), x), q, V(sub)(V(set1)(1), q));
}

ATTN__INLINE VEC K(activate)(attn_activation activation, VEC x)
{
    switch (activation) {
    case ATTN_ACT_RELU:
        return V(max)(V(zero)(), x); /* NaN, as second, stays */
    case ATTN_ACT_GELU:
        return V(mul)(x, K(normal_below)(x));
    case ATTN_ACT_GELU_TANH: { /* 1 + tanh u = 2 / (1 + e^-2u), u = sqrt(2/pi) (x + 0.044715 x^3) */
        const double twice = 1.5957691216057307117597842397375;
        VEC cubic = V(fma)(V(mul)(x, x), V(set1)((REAL)(0.044715 * twice)), V(set1)((REAL)twice));
        return K(gate)(x, V(mul)(x, cubic));
    }
    case ATTN_ACT_SILU:
        return K(gate)(x, x);
    default:
        return x;
    }
}

/* --- packing -------------------------------------------------------------------------------- */

/* `function` with a constant type, for which the compiler drops the loads of the others. */
#if HAS_HALF
#define BY_TYPE(type, function, ...)                                                               \
    switch (type) {                                                                                \
    case ATTN_F16:                                                                                 \
        K(function)(ATTN_F16, __VA_ARGS__);                                                        \
        break;                                                                                     \
    case ATTN_BF16:                                                                                \
        K(function)(ATTN_BF16, __VA_ARGS__);                                                       \
        break;                                                                                     \
    case ATTN_I8:                                                                                  \
        K(function)(ATTN_I8, __VA_ARGS__);                                                         \
        break;                                                                                     \
    default:                                                                                       \
        K(function)(ATTN_F32, __VA_ARGS__);                                                        \
        break;                                                                                     \
    }
#else
#define BY_TYPE(type, function, ...)                                                               \
    (void)(type);                                                                                  \
    K(function)(REAL_TYPE, __VA_ARGS__);
#endif

#define AHEAD 512 /* bytes */

ATTN__INLINE ptrdiff_t K(operand_size)(attn_type type)
{
    return type == ATTN_I8 ? 1 : (ptrdiff_t)K(element_size)(type);
}

ATTN__INLINE const void *K(operand_at)(attn_type type, const void *src, ptrdiff_t elements)
{
    return (const char *)src + elements * K(operand_size)(type);
}

ATTN__INLINE REAL K(operand)(attn_type type, const void *src, ptrdiff_t i)
{
    return type == ATTN_I8 ? (REAL)((const int8_t *)src)[i] : K(element)(type, src, i);
}

/* LANES elements, of which the first n exist; the others are 0. */
ATTN__INLINE VEC K(load_operand)(attn_type type, const void *src, size_t n)
{
#if HAS_HALF
    int8_t bytes[LANES] = {0};

    if (type == ATTN_I8 && n == LANES)
        return V(load_i8)(src);
    if (type == ATTN_I8) {
        memcpy(bytes, src, n);
        return V(load_i8)(bytes);
    }
#endif
    return K(load_typed)(type, src, n);
}

/* LANES x LANES elements. Rows of weights are too many streams for the processor to see them
 * coming, so what follows in each row is asked for here; an address past the end does no harm. */
ATTN__INLINE void K(load_square)(attn_type type, VEC *r, const void *src, ptrdiff_t row_stride)
{
    ATTN__UNROLL
    for (int i = 0; i < LANES; i++)
        ATTN__PREFETCH((const char *)K(operand_at)(type, src, i * row_stride) + AHEAD);
    ATTN__UNROLL
    for (int i = 0; i < LANES; i++)
        r[i] = K(load_operand)(type, K(operand_at)(type, src, i * row_stride), LANES);
}

/* n <= LANES columns of up to LANES rows; what is missing becomes 0. */
ATTN__INLINE void K(load_corner)(attn_type type, VEC *r, size_t rows, size_t n, const void *src,
                                 ptrdiff_t row_stride)
{
    for (int i = 0; i < LANES; i++)
        r[i] = (size_t)i < rows ? K(load_operand)(type, K(operand_at)(type, src, i * row_stride), n)
                                : V(zero)();
}

/* to[c * to_stride + r] = src[r * row_stride + c] for up to LANES rows; missing rows become 0. */
ATTN__INLINE void K(transpose_rows)(attn_type type, REAL *to, size_t to_stride, size_t rows,
                                    size_t cols, const void *src, ptrdiff_t row_stride)
{
    for (size_t c = 0; c < cols; c += LANES) {
        const void *from = K(operand_at)(type, src, (ptrdiff_t)c);
        size_t n = cols - c < LANES ? cols - c : LANES;
        VEC r[LANES];

        if (rows == LANES && n == LANES)
            K(load_square)(type, r, from, row_stride);
        else
            K(load_corner)(type, r, rows, n, from, row_stride);
        V(transpose)(r);
        if (n == LANES) {
            ATTN__UNROLL
            for (size_t i = 0; i < LANES; i++)
                V(store)(to + (c + i) * to_stride, r[i]);
        } else {
            for (size_t i = 0; i < n; i++)
                V(store)(to + (c + i) * to_stride, r[i]);
        }
    }
}

/* Steps are adjacent in memory. */
ATTN__INLINE void K(pack_rows)(attn_type type, REAL *tile, size_t n, size_t steps, const void *src,
                               ptrdiff_t n_stride)
{
    for (size_t c = 0; c < n; c += LANES) {
        const void *from = K(operand_at)(type, src, (ptrdiff_t)c * n_stride);

        REAL *to = K(tile_cell)(tile, c, steps);
        size_t rows = n - c < LANES ? n - c : LANES;

        K(transpose_rows)(type, to, PANEL, rows, steps, from, n_stride);
    }
}

/* Columns are adjacent in memory. */
ATTN__INLINE void K(pack_columns)(attn_type type, REAL *tile, size_t n, size_t steps,
                                  const void *src, ptrdiff_t step_stride)
{
    for (size_t s = 0; s < steps; s++) {
        const void *row = K(operand_at)(type, src, (ptrdiff_t)s * step_stride);

        for (size_t c = 0; c < n; c += LANES) {
            const void *from = K(operand_at)(type, row, (ptrdiff_t)c);
            REAL *to = K(tile_cell)(tile, c, steps) + s * PANEL;

            ATTN__PREFETCH(K(operand_at)(type, from, 32 * step_stride)); /* see load_square */

            if (n - c >= LANES)
                V(store)(to, K(load_operand)(type, from, LANES));
            else
                V(store)(to, K(load_operand)(type, from, n - c));
        }
    }
}

ATTN__INLINE void K(pack_typed)(attn_type type, REAL *tile, size_t n, size_t steps, const void *src,
                                ptrdiff_t n_stride, ptrdiff_t step_stride)
{
    if (step_stride == 1) {
        K(pack_rows)(type, tile, n, steps, src, n_stride);
        return;
    }
    if (n_stride == 1) {
        K(pack_columns)(type, tile, n, steps, src, step_stride);
        return;
    }
    for (size_t c = 0; c < (n + LANES - 1) / LANES * LANES; c++) {
        REAL *to = K(tile_cell)(tile, c, steps);

        for (size_t s = 0; s < steps; s++)
            to[s * PANEL] =
                c < n ? K(operand)(type, src, (ptrdiff_t)c * n_stride + (ptrdiff_t)s * step_stride)
                      : 0;
    }
}

static void K(pack)(REAL *tile, size_t n, size_t steps, attn_type type, const void *src,
                    ptrdiff_t n_stride, ptrdiff_t step_stride)
{
    BY_TYPE(type, pack_typed, tile, n, steps, src, n_stride, step_stride)
}

/* Elements move as bytes, one by one: packing once is not worth more code. */
static void K(pack_narrow)(void *tile, size_t n, size_t steps, attn_type type, const void *src,
                           ptrdiff_t n_stride, ptrdiff_t step_stride)
{
    size_t size = (size_t)K(operand_size)(type);

    for (size_t p = 0; p < n; p += PANEL) {
        for (size_t s = 0; s < steps; s++) {
            char *to = (char *)tile + (p * steps + s * PANEL) * size;
            const char *from =
                K(operand_at)(type, src, (ptrdiff_t)p * n_stride + (ptrdiff_t)s * step_stride);
            size_t cols = n - p < PANEL ? n - p : PANEL;

            for (size_t c = 0; c < cols; c++, from += n_stride * (ptrdiff_t)size)
                memcpy(to + c * size, from, size);
            memset(to + cols * size, 0, (PANEL - cols) * size);
        }
    }
}

ATTN__INLINE void K(widen_typed)(attn_type type, REAL *tile, size_t n, size_t steps,
                                 const void *narrow, size_t narrow_steps, size_t first)
{
    for (size_t p = 0; p < n; p += PANEL) {
        const void *from =
            K(operand_at)(type, narrow, (ptrdiff_t)(p * narrow_steps + first * PANEL));
        REAL *to = tile + p * steps;

        for (size_t i = 0; i < steps * PANEL; i += LANES)
            V(store)(to + i, K(load_operand)(type, K(operand_at)(type, from, (ptrdiff_t)i), LANES));
    }
}

static void K(widen)(REAL *tile, size_t n, size_t steps, attn_type type, const void *narrow,
                     size_t narrow_steps, size_t first){
    BY_TYPE(type, widen_typed, tile, n, steps, narrow, narrow_steps, first)}

ATTN__INLINE
    void K(load_columns_typed)(attn_type type, REAL *dst, ptrdiff_t dst_stride, size_t rows,
                               size_t cols, const void *src, ptrdiff_t col_stride)
{
    for (size_t c = 0; c < cols; c += LANES) {
        size_t n = cols - c < LANES ? cols - c : LANES;

        for (size_t r = 0; r < rows; r += LANES) {
            const void *from = K(operand_at)(type, src, (ptrdiff_t)r + (ptrdiff_t)c * col_stride);
            size_t m = rows - r < LANES ? rows - r : LANES;
            REAL *to = dst + (ptrdiff_t)r * dst_stride + (ptrdiff_t)c;

            if (n == LANES) {
                K(transpose_rows)(type, to, (size_t)dst_stride, LANES, m, from, col_stride);
                continue;
            }
            for (size_t i = 0; i < m; i++)
                for (size_t j = 0; j < n; j++)
                    to[(ptrdiff_t)i * dst_stride + (ptrdiff_t)j] =
                        K(operand)(type, from, (ptrdiff_t)i + (ptrdiff_t)j * col_stride);
        }
    }
}

static void K(load_columns)(REAL *dst, ptrdiff_t dst_stride, size_t rows, size_t cols,
                            attn_type type, const void *src, ptrdiff_t col_stride){
    BY_TYPE(type, load_columns_typed, dst, dst_stride, rows, cols, src, col_stride)}

/* --- product -------------------------------------------------------------------------------- */

ATTN__INLINE void K(tile_block)(int mr, int nv, REAL *acc, ptrdiff_t acc_stride, const REAL *a,
                                ptrdiff_t a_stride, const REAL *b, size_t steps, bool resume)
{
    VEC sum[attn__group][NV];
    size_t s = 0;

    ATTN__UNROLL
    for (int r = 0; r < mr; r++)
        ATTN__UNROLL
    for (int v = 0; v < nv; v++)
        sum[r][v] = resume ? V(load)(acc + r * acc_stride + v * LANES) : V(zero)();
    for (; WHOLE_BLOCK(mr, nv, REAL_TYPE) && s + AT_ONCE <= steps; s += AT_ONCE) {
        ATTN__UNROLL
        for (size_t i = 0; i < AT_ONCE; i++)
            K(panel_step)
        (mr, nv, REAL_TYPE, sum, a + s + i, a_stride, b + (s + i) * PANEL, NULL, 0);
    }
    for (; s < steps; s++)
        K(panel_step)(mr, nv, REAL_TYPE, sum, a + s, a_stride, b + s * PANEL, NULL, 0);
    ATTN__UNROLL
    for (int r = 0; r < mr; r++)
        ATTN__UNROLL
    for (int v = 0; v < nv; v++)
        V(store)(acc + r * acc_stride + v * LANES, sum[r][v]);
}

static void K(tile)(REAL *acc, ptrdiff_t acc_stride, size_t rows, size_t n, const REAL *a,
                    ptrdiff_t a_stride, const REAL *tile, size_t tile_steps, size_t first,
                    size_t steps, bool resume)
{
    for (size_t c = 0; c < n; c += PANEL) {
        size_t vectors = ((n - c < PANEL ? n - c : PANEL) + LANES - 1) / LANES;

        BY_SHAPE(rows, vectors, tile_block, acc + c, acc_stride, a, a_stride,
                 tile + c * tile_steps + first * PANEL, steps, resume)
    }
}

/* --- product with few rows ------------------------------------------------------------------
 *
 * Weights that are read once are not worth packing: they are turned in registers. */

/* bf16 is turned two steps at a time, as pairs of a lane each. LANES columns; returns the steps
 * done, all but a rest. */
ATTN__INLINE size_t K(thin_pairs)(int mr, attn_type type, VEC *sum, const REAL *a,
                                  ptrdiff_t a_stride, const void *src, ptrdiff_t n_stride,
                                  size_t steps)
{
    size_t s = 0;

#if HAS_HALF
    for (; type == ATTN_BF16 && s + 2 * LANES <= steps; s += 2 * LANES) {
        const char *from = K(operand_at)(type, src, (ptrdiff_t)s);
        VEC w[LANES];

        ATTN__UNROLL
        for (int i = 0; i < LANES; i++) {
            const char *row = K(operand_at)(type, from, i * n_stride);
            ATTN__PREFETCH((uintptr_t)row + AHEAD);
            w[i] = V(load_raw)(row);
        }
        V(transpose)(w);
        ATTN__UNROLL
        for (int i = 0; i < LANES; i++) {
            const REAL *x = a + (ptrdiff_t)s + (ptrdiff_t)2 * i;
            VEC even, odd;

            V(pairs_bf16)(w[i], &even, &odd);
            ATTN__UNROLL
            for (int r = 0; r < mr; r++) {
                sum[r] = V(fma)(V(set1)(x[r * a_stride]), even, sum[r]);
                sum[r] = V(fma)(V(set1)(x[r * a_stride + 1]), odd, sum[r]);
            }
        }
    }
#else
    (void)mr, (void)type, (void)sum, (void)a, (void)a_stride, (void)src, (void)n_stride,
        (void)steps;
#endif
    return s;
}

/* n <= LANES columns, whose weights are rows in memory. */
ATTN__INLINE void K(thin_rows)(int mr, attn_type type, REAL *acc, ptrdiff_t acc_stride, size_t n,
                               const REAL *a, ptrdiff_t a_stride, const void *src,
                               ptrdiff_t n_stride, size_t steps)
{
    VEC sum[attn__group];

    ATTN__UNROLL
    for (int r = 0; r < mr; r++)
        sum[r] = V(zero)();
    for (size_t s = n == LANES ? K(thin_pairs)(mr, type, sum, a, a_stride, src, n_stride, steps)
                               : 0;
         s < steps; s += LANES) {
        const void *from = K(operand_at)(type, src, (ptrdiff_t)s);
        size_t count = steps - s < LANES ? steps - s : LANES;
        VEC w[LANES];

        if (n == LANES && count == LANES) {
            K(load_square)(type, w, from, n_stride);
            V(transpose)(w);
            ATTN__UNROLL
            for (int i = 0; i < LANES; i++)
                ATTN__UNROLL
            for (int r = 0; r < mr; r++)
                sum[r] = V(fma)(V(set1)(a[r * a_stride + (ptrdiff_t)s + i]), w[i], sum[r]);
            continue;
        }
        K(load_corner)(type, w, n, count, from, n_stride);
        V(transpose)(w);
        for (size_t i = 0; i < count; i++)
            for (int r = 0; r < mr; r++)
                sum[r] = V(fma)(V(set1)(a[r * a_stride + (ptrdiff_t)(s + i)]), w[i], sum[r]);
    }
    ATTN__UNROLL
    for (int r = 0; r < mr; r++)
        V(store)(acc + r * acc_stride, sum[r]);
}

ATTN__INLINE void K(thin_typed)(attn_type type, REAL *acc, ptrdiff_t acc_stride, size_t rows,
                                size_t n, const REAL *a, ptrdiff_t a_stride, const void *src,
                                ptrdiff_t n_stride, size_t steps)
{
    for (size_t c = 0; c < n; c += LANES) {
        const void *from = K(operand_at)(type, src, (ptrdiff_t)c * n_stride);
        size_t count = n - c < LANES ? n - c : LANES;

#define THIN(mr)                                                                                   \
    case mr:                                                                                       \
        K(thin_rows)(mr, type, acc + c, acc_stride, count, a, a_stride, from, n_stride, steps);    \
        break;
        switch (rows) {
            THIN(1)
            THIN(2)
            THIN(3)
            THIN(4)
            THIN(5)
            THIN(6)
        }
#undef THIN
    }
}

static void K(thin)(REAL *acc, ptrdiff_t acc_stride, size_t rows, size_t n, const REAL *a,
                    ptrdiff_t a_stride, attn_type type, const void *src, ptrdiff_t n_stride,
                    size_t steps){
    BY_TYPE(type, thin_typed, acc, acc_stride, rows, n, a, a_stride, src, n_stride, steps)}

/* --- epilogue ------------------------------------------------------------------------------- */

ATTN__INLINE VEC K(load_spread)(attn_type type, const void *src, size_t n, ptrdiff_t stride)
{
    REAL lanes[LANES] = {0};

    if (stride == 1)
        return K(load_typed)(type, src, n);
    for (size_t i = 0; i < n; i++)
        lanes[i] = K(element)(type, src, (ptrdiff_t)i * stride);
    return V(load)(lanes);
}

ATTN__INLINE void K(store_spread)(attn_type type, void *dst, VEC x, size_t n, ptrdiff_t stride)
{
    REAL lanes[LANES];

    if (stride == 1 && n == LANES && type == REAL_TYPE) {
        V(store)(dst, x);
        return;
    }
#if HAS_HALF
    if (stride == 1 && n == LANES && type == ATTN_F16) {
        V(store_f16)((uint16_t *)dst, x);
        return;
    }
    if (stride == 1 && n == LANES && type == ATTN_BF16) {
        V(store_bf16)((uint16_t *)dst, x);
        return;
    }
#endif
    V(store)(lanes, x);
    for (size_t i = 0; i < n; i++)
        K(store_element)(dst, type, (ptrdiff_t)i * stride, lanes[i]);
}

/* One vector of results. */
ATTN__INLINE VEC K(finish_vector)(attn_activation activation, const REAL *acc, const REAL *scale,
                                  const REAL *bias)
{
    VEC x = V(load)(acc);

    if (scale)
        x = V(mul)(x, V(load)(scale));
    if (bias)
        x = V(add)(x, V(load)(bias));
    return K(activate)(activation, x);
}

ATTN__INLINE void K(finish_rows)(attn_activation activation, const attn__epilogue *e, char *out,
                                 const char *residual, const REAL *scale, const REAL *bias,
                                 const REAL *acc, ptrdiff_t acc_stride, size_t rows, size_t n)
{
    ptrdiff_t out_size = (ptrdiff_t)K(element_size)(e->out_type);
    ptrdiff_t residual_size = (ptrdiff_t)K(element_size)(e->residual_type);
    bool plain = e->out_type == REAL_TYPE && e->out_col == 1 && !residual && n % LANES == 0;

    for (size_t r = 0; r < rows; r++, acc += acc_stride) {
        for (size_t c = 0; plain && c < n; c += LANES) {
            const REAL *factor = scale ? scale + c : NULL, *addend = bias ? bias + c : NULL;
            V(store)((REAL *)out + c, K(finish_vector)(activation, acc + c, factor, addend));
        }
        for (size_t c = 0; !plain && c < n; c += LANES) {
            size_t lanes = n - c < LANES ? n - c : LANES;
            VEC x = K(finish_vector)(activation, acc + c, scale ? scale + c : NULL,
                                     bias ? bias + c : NULL);

            if (residual)
                x = V(add)(x,
                           K(load_spread)(e->residual_type,
                                          residual + (ptrdiff_t)c * e->residual_col * residual_size,
                                          lanes, e->residual_col));
            char *to = out + (ptrdiff_t)c * e->out_col * out_size;
            K(store_spread)(e->out_type, to, x, lanes, e->out_col);
        }
        out += e->out_row * out_size;
        if (residual)
            residual += e->residual_row * residual_size;
    }
}

static void K(finish)(const attn__epilogue *e, void *out, const void *residual, const REAL *scale,
                      const REAL *bias, const REAL *acc, ptrdiff_t acc_stride, size_t rows,
                      size_t n)
{
#define FINISH(activation)                                                                         \
    case activation:                                                                               \
        K(finish_rows)(activation, e, out, residual, scale, bias, acc, acc_stride, rows, n);       \
        break;
    switch (e->activation) {
        FINISH(ATTN_ACT_NONE)
        FINISH(ATTN_ACT_RELU)
        FINISH(ATTN_ACT_GELU)
        FINISH(ATTN_ACT_GELU_TANH)
        FINISH(ATTN_ACT_SILU)
    }
#undef FINISH
}

#undef BY_TYPE
#undef AHEAD
#undef GELU_COEFFICIENTS
#undef GELU_CENTRE
#undef GELU_LIMIT
