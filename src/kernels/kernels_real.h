/* kernels_real.h: the kernels for one kind of number. Included by kernels_impl.h, once with REAL
 * float and once with double; V(op) is the vector operation, K(name) the function's own name. */

#define PANEL (NV * LANES) /* keys side by side in a panel of packed keys */
#define TILE attn__tile
#define TILE_VECS (TILE / LANES)
/* A weight may exceed the row's reference by 2^8 before the row is rescaled. */
#define SLACK ((REAL)8 / LOG2E)
#define MINUS_INF (-(REAL)INFINITY)

/* --- exp and tanh ------------------------------------------------------------------------------
 */

/* (2^f - 1) / f for |f| <= 1/2. */
ATTN__INLINE VEC K(exp2_quotient)(VEC f)
{
    static const REAL c[EXP2_DEGREE] = {EXP2_COEFFICIENTS};
    VEC q = V(set1)(c[EXP2_DEGREE - 1]);

    ATTN__UNROLL
    for (int i = EXP2_DEGREE - 2; i >= 0; i--)
        q = V(fma)(q, f, V(set1)(c[i]));
    return q;
}

/* e^x for x <= 90; exactly 1 at 0, exactly 0 from about -104 (-745 in double) down to -inf; NaN for
 * NaN. The caller has subtracted the row's reference: multiplying first and fusing the subtraction
 * would weigh the largest logit by 2^rounding error. For x = -inf, f is NaN; V(scale) still gives 0
 * there (scalef by its table of special cases, the others because V(clamp) bounds y). */
ATTN__INLINE VEC K(exp)(VEC x)
{
    VEC y = V(clamp)(V(mul)(x, V(set1)(LOG2E)));
    VEC n = V(round)(y);
    VEC f = V(sub)(y, n);
    VEC p = V(fma)(K(exp2_quotient)(f), f, V(set1)(1));

    return V(scale)(p, n);
}

ATTN__INLINE REAL K(exp_one)(REAL x)
{
    REAL lanes[LANES];

    V(store)(lanes, K(exp)(V(set1)(x)));
    return lanes[0];
}

/* tanh(y) = e / (e + 2) with e = e^(2y) - 1 built so that small arguments keep their relative
 * accuracy: e = 2^n (2^f - 1) + (2^n - 1). */
ATTN__INLINE VEC K(tanh)(VEC y)
{
    VEC z = V(mul)(y, V(set1)(2 * LOG2E));
    VEC n, f, power, e;

    z = V(max)(V(set1)(-CAP_LIMIT), V(min)(V(set1)(CAP_LIMIT), z)); /* NaN passes, as second */
    n = V(round)(z);
    f = V(sub)(z, n);
    power = V(scale)(V(set1)(1), n);
    e = V(fma)(power, V(mul)(f, K(exp2_quotient)(f)), V(sub)(power, V(set1)(1)));
    return V(div)(e, V(add)(e, V(set1)(2)));
}

/* --- reading and writing of typed rows ---------------------------------------------------------
 */

ATTN__INLINE REAL K(element)(attn_type type, const void *src, ptrdiff_t i)
{
    switch (type) {
#if HAS_HALF
    case ATTN_F16:
        return attn__f16_to_f32(((const uint16_t *)src)[i]);
    case ATTN_BF16:
        return attn__bf16_to_f32(((const uint16_t *)src)[i]);
#endif
    default:
        return ((const REAL *)src)[i];
    }
}

ATTN__INLINE size_t K(element_size)(attn_type type)
{
    return type == REAL_TYPE ? sizeof(REAL) : sizeof(uint16_t);
}

/* LANES elements from src, of which only the first n < LANES exist. */
ATTN__INLINE VEC K(load_typed)(attn_type type, const void *src, size_t n)
{
    ATTN__ALIGNED(64) unsigned char buffer[LANES * sizeof(REAL)];

    if (n < LANES) {
        memset(buffer, 0, sizeof buffer);
        memcpy(buffer, src, n * K(element_size)(type));
        src = buffer;
    }
    switch (type) {
#if HAS_HALF
    case ATTN_F16:
        return V(load_f16)(src);
    case ATTN_BF16:
        return V(load_bf16)(src);
#endif
    default:
        return V(load)(src);
    }
}

ATTN__INLINE const void *K(advance)(attn_type type, const void *src, ptrdiff_t elements)
{
    return (const char *)src + elements * (ptrdiff_t)K(element_size)(type);
}

/* Asks for n elements from src + offset on, wherever that may be. */
ATTN__INLINE void K(prefetch)(attn_type type, const void *src, ptrdiff_t offset, size_t n)
{
    uintptr_t at = (uintptr_t)src + (uintptr_t)(offset * (ptrdiff_t)K(element_size)(type));

    ATTN__UNROLL
    for (size_t i = 0; i < n * K(element_size)(type); i += 64)
        ATTN__PREFETCH(at + i);
}

ATTN__INLINE void K(load_rows_typed)(REAL *dst, ptrdiff_t dst_stride, size_t rows, attn_type type,
                                     const void *src, ptrdiff_t row_stride, size_t cols,
                                     size_t padded, VEC factor)
{
    for (size_t r = 0; r < rows; r++) {
        const void *row = K(advance)(type, src, (ptrdiff_t)r * row_stride);
        REAL *to = dst + (ptrdiff_t)r * dst_stride;
        size_t c = 0;

        if (rows > 1) /* rows to come, which may be a stride of pages away */
            for (; c < cols; c += 64 / K(element_size)(type))
                K(prefetch)(type, row, 16 * row_stride + (ptrdiff_t)c, 1);
        c = 0;
        for (; c + LANES <= cols; c += LANES)
            V(store)
        (to + c, V(mul)(factor, K(load_typed)(type, K(advance)(type, row, (ptrdiff_t)c), LANES)));
        if (c < cols) {
            REAL tail[LANES];
            V(store)
            (tail,
             V(mul)(factor, K(load_typed)(type, K(advance)(type, row, (ptrdiff_t)c), cols - c)));
            memcpy(to + c, tail, (cols - c) * sizeof *to);
        }
        for (c = cols; c < padded; c++)
            to[c] = 0;
    }
}

static void K(load_rows)(REAL *dst, ptrdiff_t dst_stride, size_t rows, attn_type type,
                         const void *src, ptrdiff_t row_stride, ptrdiff_t col_stride, size_t cols,
                         size_t padded, REAL factor)
{
    VEC f = V(set1)(factor);

    if (col_stride != 1) {
        for (size_t r = 0; r < rows; r++)
            for (size_t c = 0; c < padded; c++)
                dst[(ptrdiff_t)r * dst_stride + (ptrdiff_t)c] =
                    c < cols
                        ? factor * K(element)(type, src,
                                              (ptrdiff_t)r * row_stride + (ptrdiff_t)c * col_stride)
                        : 0;
        return;
    }
    switch (type) { /* a constant type in each call: the compiler drops the other loads */
#if HAS_HALF
    case ATTN_F16:
        K(load_rows_typed)(dst, dst_stride, rows, ATTN_F16, src, row_stride, cols, padded, f);
        break;
    case ATTN_BF16:
        K(load_rows_typed)(dst, dst_stride, rows, ATTN_BF16, src, row_stride, cols, padded, f);
        break;
#endif
    default:
        K(load_rows_typed)(dst, dst_stride, rows, REAL_TYPE, src, row_stride, cols, padded, f);
        break;
    }
}

ATTN__INLINE void K(store_element)(void *dst, attn_type type, ptrdiff_t i, REAL x)
{
    switch (type) {
    case ATTN_F16:
        ((uint16_t *)dst)[i] = attn__f32_to_f16((float)x);
        break;
    case ATTN_BF16:
        ((uint16_t *)dst)[i] = attn__f32_to_bf16((float)x);
        break;
    case ATTN_F64:
        ((double *)dst)[i] = (double)x;
        break;
    default:
        ((float *)dst)[i] = (float)x;
        break;
    }
}

static void K(store_row)(void *dst, attn_type type, ptrdiff_t col_stride, const REAL *src,
                         size_t cols, REAL factor)
{
    VEC f = V(set1)(factor), zero = V(zero)();
    size_t c = 0;

    if (col_stride == 1 && type == REAL_TYPE) {
        for (; c + LANES <= cols; c += LANES)
            V(store)((REAL *)dst + c, V(fma)(V(load)(src + c), f, zero));
    }
#if HAS_HALF
    if (col_stride == 1 && type == ATTN_F16) {
        for (; c + LANES <= cols; c += LANES)
            V(store_f16)((uint16_t *)dst + c, V(fma)(V(load)(src + c), f, zero));
    }
    if (col_stride == 1 && type == ATTN_BF16) {
        for (; c + LANES <= cols; c += LANES)
            V(store_bf16)((uint16_t *)dst + c, V(fma)(V(load)(src + c), f, zero));
    }
#endif
    for (; c < cols; c++)
        K(store_element)(dst, type, (ptrdiff_t)c * col_stride, src[c] * factor + 0);
}

/* --- packing of keys ---------------------------------------------------------------------------
 *
 * A tile of 64 keys is 64 / PANEL panels; a panel holds, channel by channel, PANEL keys:
 *
 *     tile[(key / PANEL) * PANEL * d + channel * PANEL + key % PANEL]
 *
 * so that scores reads PANEL keys of one channel as NV full vectors. Keys arrive as rows, hence the
 * transposes. */
ATTN__INLINE REAL *K(tile_cell)(REAL *tile, size_t key, size_t d)
{
    return tile + key / PANEL * PANEL * d + key % PANEL;
}

/* n <= LANES keys into lanes `lane`.., lane a multiple of LANES. Lanes up to the next multiple
 * become 0. */
ATTN__INLINE void K(pack_block)(REAL *tile, size_t lane, size_t n, attn_type type, const void *src,
                                ptrdiff_t row_stride, size_t d)
{
    REAL *to = K(tile_cell)(tile, lane, d);

    for (size_t c = 0; c < d; c += LANES) {
        size_t channels = d - c < LANES ? d - c : LANES;
        VEC r[LANES];

        ATTN__UNROLL
        for (size_t i = 0; i < LANES; i++) /* the same channels a tile further on */
            ATTN__PREFETCH((uintptr_t)src +
                           (uintptr_t)(((ptrdiff_t)(i + TILE) * row_stride + (ptrdiff_t)c) *
                                       (ptrdiff_t)K(element_size)(type)));
        if (n == LANES && channels == LANES) {
            ATTN__UNROLL
            for (size_t i = 0; i < LANES; i++)
                r[i] = K(load_typed)(
                    type, K(advance)(type, src, (ptrdiff_t)i * row_stride + (ptrdiff_t)c), LANES);
        } else {
            for (size_t i = 0; i < LANES; i++)
                r[i] = i < n ? K(load_typed)(
                                   type,
                                   K(advance)(type, src, (ptrdiff_t)i * row_stride + (ptrdiff_t)c),
                                   channels)
                             : V(zero)();
        }
        V(transpose)(r);
        if (channels == LANES) {
            ATTN__UNROLL
            for (size_t i = 0; i < LANES; i++)
                V(store)(to + (c + i) * PANEL, r[i]);
        } else {
            for (size_t i = 0; i < channels; i++)
                V(store)(to + (c + i) * PANEL, r[i]);
        }
    }
}

ATTN__INLINE void K(pack_keys_typed)(REAL *tile, size_t lane, size_t n, attn_type type,
                                     const void *src, ptrdiff_t row_stride, size_t d)
{
    while (n > 0 && lane % LANES == 0) {
        size_t block = n < LANES ? n : LANES;

        K(pack_block)(tile, lane, block, type, src, row_stride, d);
        src = K(advance)(type, src, (ptrdiff_t)block * row_stride);
        lane += block;
        n -= block;
    }
}

static void K(store_key)(void *tile, attn_type type, size_t lane, size_t d, size_t c, size_t n,
                         const REAL *src)
{
    ptrdiff_t at = (ptrdiff_t)(lane / PANEL * PANEL * d + c * PANEL + lane % PANEL);

    for (size_t i = 0; i < n; i++)
        K(store_element)(tile, type, at + (ptrdiff_t)(i * PANEL), src[i]);
}

static void K(pack_keys)(REAL *tile, size_t lane, size_t n, attn_type type, const void *src,
                         ptrdiff_t row_stride, ptrdiff_t col_stride, size_t d)
{
    /* One key at a time up to the next multiple of LANES, and wherever channels are not adjacent.
     */
    while (n > 0 && (lane % LANES != 0 || col_stride != 1)) {
        REAL *to = K(tile_cell)(tile, lane, d);

        for (size_t c = 0; c < d; c++)
            to[c * PANEL] = K(element)(type, src, (ptrdiff_t)c * col_stride);
        src = K(advance)(type, src, row_stride);
        lane++;
        n--;
    }
    switch (type) {
#if HAS_HALF
    case ATTN_F16:
        K(pack_keys_typed)(tile, lane, n, ATTN_F16, src, row_stride, d);
        break;
    case ATTN_BF16:
        K(pack_keys_typed)(tile, lane, n, ATTN_BF16, src, row_stride, d);
        break;
#endif
    default:
        K(pack_keys_typed)(tile, lane, n, REAL_TYPE, src, row_stride, d);
        break;
    }
}

/* --- the two matrix products -------------------------------------------------------------------
 *
 * Both keep mr x nv vectors of sums in registers and take one broadcast of the left operand and nv
 * vectors of the right one per step; mr, nv and type are constants in every instance. */
ATTN__INLINE void K(scores_block)(int mr, int nv, attn_type type, REAL *s, const REAL *q,
                                  ptrdiff_t q_stride, const void *keys, size_t d)
{
    VEC sum[attn__group][NV];

    ATTN__UNROLL
    for (int r = 0; r < mr; r++)
        ATTN__UNROLL
    for (int v = 0; v < nv; v++)
        sum[r][v] = V(zero)();
    for (size_t c = 0; c < d; c++) {
        VEC key[NV];

        ATTN__UNROLL
        for (int v = 0; v < nv; v++)
            key[v] = K(load_typed)(type, K(advance)(type, keys, (ptrdiff_t)(c * PANEL) + v * LANES),
                                   LANES);
        ATTN__UNROLL
        for (int r = 0; r < mr; r++) {
            VEC a = V(set1)(q[r * q_stride + (ptrdiff_t)c]);
            ATTN__UNROLL
            for (int v = 0; v < nv; v++)
                sum[r][v] = V(fma)(a, key[v], sum[r][v]);
        }
    }
    ATTN__UNROLL
    for (int r = 0; r < mr; r++)
        ATTN__UNROLL
    for (int v = 0; v < nv; v++)
        V(store)(s + r * TILE + v * LANES, sum[r][v]);
}

ATTN__INLINE void K(values_block)(int mr, int nv, attn_type type, REAL *out, ptrdiff_t out_stride,
                                  const REAL *p, size_t keys, const void *v, ptrdiff_t v_stride)
{
    VEC sum[attn__group][2 * NV];

    ATTN__UNROLL
    for (int r = 0; r < mr; r++)
        ATTN__UNROLL
    for (int i = 0; i < nv; i++)
        sum[r][i] = V(load)(out + r * out_stride + i * LANES);
    for (size_t k = 0; k < keys; k++) {
        const void *row = K(advance)(type, v, (ptrdiff_t)k * v_stride);
        VEC value[2 * NV];

        ATTN__UNROLL
        for (int i = 0; i < nv; i++)
            value[i] = K(load_typed)(type, K(advance)(type, row, i * LANES), LANES);
        if (mr <= 2 && nv == 2 * NV && type == REAL_TYPE)
            K(prefetch)(type, row, TILE * v_stride, 2 * PANEL);
        ATTN__UNROLL
        for (int r = 0; r < mr; r++) {
            VEC a = V(set1)(p[(size_t)r * TILE + k]);
            ATTN__UNROLL
            for (int i = 0; i < nv; i++)
                sum[r][i] = V(fma)(a, value[i], sum[r][i]);
        }
    }
    ATTN__UNROLL
    for (int r = 0; r < mr; r++)
        ATTN__UNROLL
    for (int i = 0; i < nv; i++)
        V(store)(out + r * out_stride + i * LANES, sum[r][i]);
}

/* One instance per (mr, nv): `block` with constants in their place. */
#define BY_VECTORS(mr, nv, block, ...)                                                             \
    switch (nv) {                                                                                  \
    case 1:                                                                                        \
        K(block)(mr, 1, __VA_ARGS__);                                                              \
        break;                                                                                     \
    case 2:                                                                                        \
        K(block)(mr, NV < 2 ? 1 : 2, __VA_ARGS__);                                                 \
        break;                                                                                     \
    case 3:                                                                                        \
        K(block)(mr, NV < 3 ? 1 : 3, __VA_ARGS__);                                                 \
        break;                                                                                     \
    default:                                                                                       \
        K(block)(mr, NV, __VA_ARGS__);                                                             \
        break;                                                                                     \
    }
#define BY_SHAPE(mr, nv, block, ...)                                                               \
    switch (mr) {                                                                                  \
    case 1:                                                                                        \
        BY_VECTORS(1, nv, block, __VA_ARGS__) break;                                               \
    case 2:                                                                                        \
        BY_VECTORS(2, nv, block, __VA_ARGS__) break;                                               \
    case 3:                                                                                        \
        BY_VECTORS(3, nv, block, __VA_ARGS__) break;                                               \
    case 4:                                                                                        \
        BY_VECTORS(4, nv, block, __VA_ARGS__) break;                                               \
    case 5:                                                                                        \
        BY_VECTORS(5, nv, block, __VA_ARGS__) break;                                               \
    default:                                                                                       \
        BY_VECTORS(6, nv, block, __VA_ARGS__) break;                                               \
    }
/* The same where nv never varies: half types, whose tiles are always computed whole. */
#define BY_ROWS(mr, nv, block, ...)                                                                \
    switch (mr) {                                                                                  \
    case 1:                                                                                        \
        K(block)(1, nv, __VA_ARGS__);                                                              \
        break;                                                                                     \
    case 2:                                                                                        \
        K(block)(2, nv, __VA_ARGS__);                                                              \
        break;                                                                                     \
    case 3:                                                                                        \
        K(block)(3, nv, __VA_ARGS__);                                                              \
        break;                                                                                     \
    case 4:                                                                                        \
        K(block)(4, nv, __VA_ARGS__);                                                              \
        break;                                                                                     \
    case 5:                                                                                        \
        K(block)(5, nv, __VA_ARGS__);                                                              \
        break;                                                                                     \
    default:                                                                                       \
        K(block)(6, nv, __VA_ARGS__);                                                              \
        break;                                                                                     \
    }

static void K(scores)(REAL *s, size_t mr, const REAL *q, ptrdiff_t q_stride, attn_type type,
                      const void *tile, size_t d, size_t c0, size_t c1)
{
    while (c0 < c1) {
        size_t panel = c0 / PANEL * PANEL, end = c1 < panel + PANEL ? c1 : panel + PANEL;
        const void *keys = K(advance)(type, tile, (ptrdiff_t)(panel * d));

        switch (type) {
#if HAS_HALF
        case ATTN_F16:
            BY_ROWS(mr, NV, scores_block, ATTN_F16, s + panel, q, q_stride, keys, d)
            break;
        case ATTN_BF16:
            BY_ROWS(mr, NV, scores_block, ATTN_BF16, s + panel, q, q_stride, keys, d)
            break;
#endif
        default:
            keys = (const REAL *)keys + (c0 - panel);
            BY_SHAPE(mr, (end - c0) / LANES, scores_block, REAL_TYPE, s + c0, q, q_stride, keys, d)
            break;
        }
        c0 = end;
    }
}

/* All rows, for columns of one panel or (half types) one vector. */
static void K(values_panel)(REAL *out, ptrdiff_t out_stride, size_t mr, const REAL *p, size_t keys,
                            attn_type type, const void *v, ptrdiff_t v_stride, size_t columns)
{
    switch (type) {
#if HAS_HALF
    case ATTN_F16:
        if (columns == PANEL)
            BY_ROWS(mr, NV, values_block, ATTN_F16, out, out_stride, p, keys, v, v_stride)
        else
            BY_ROWS(mr, 1, values_block, ATTN_F16, out, out_stride, p, keys, v, v_stride)
        break;
    case ATTN_BF16:
        if (columns == PANEL)
            BY_ROWS(mr, NV, values_block, ATTN_BF16, out, out_stride, p, keys, v, v_stride)
        else
            BY_ROWS(mr, 1, values_block, ATTN_BF16, out, out_stride, p, keys, v, v_stride)
        break;
#endif
    default:
        BY_SHAPE(mr, columns / LANES, values_block, REAL_TYPE, out, out_stride, p, keys, v,
                 v_stride)
        break;
    }
}

/* One or two rows over the columns of two panels. */
static void K(values_wide)(REAL *out, ptrdiff_t out_stride, size_t mr, const REAL *p, size_t keys,
                           attn_type type, const void *v, ptrdiff_t v_stride)
{
#define WIDE(type)                                                                                 \
    do {                                                                                           \
        if (mr == 1)                                                                               \
            K(values_block)(1, 2 * NV, type, out, out_stride, p, keys, v, v_stride);               \
        else                                                                                       \
            K(values_block)(2, 2 * NV, type, out, out_stride, p, keys, v, v_stride);               \
    } while (0)
    switch (type) {
#if HAS_HALF
    case ATTN_F16:
        WIDE(ATTN_F16);
        break;
    case ATTN_BF16:
        WIDE(ATTN_BF16);
        break;
#endif
    default:
        WIDE(REAL_TYPE);
        break;
    }
#undef WIDE
}

static void K(values)(REAL *out, ptrdiff_t out_stride, size_t mr, const REAL *p, size_t k0,
                      size_t k1, attn_type type, const void *v, ptrdiff_t v_stride, size_t width)
{
    size_t columns;

    for (size_t c = 0; c < width; c += columns) {
        const void *at = K(advance)(type, v, (ptrdiff_t)c);

        /* Few rows: values come from memory, and are read as they lie there, row by row. */
        if (mr <= 4 && width - c >= 2 * PANEL) {
            columns = 2 * PANEL;
            for (size_t r = 0; r < mr; r += 2)
                K(values_wide)
            (out + (ptrdiff_t)r * out_stride + c, out_stride, mr - r < 2 ? mr - r : 2,
             p + r * TILE + k0, k1 - k0, type, at, v_stride);
            continue;
        }
        columns = width - c < PANEL ? width - c : PANEL;
        if (type != REAL_TYPE && columns < PANEL)
            columns = LANES;
        K(values_panel)(out + c, out_stride, mr, p + k0, k1 - k0, type, at, v_stride, columns);
    }
}

/* --- changes to scores -------------------------------------------------------------------------
 */

static void K(softcap)(REAL *s, size_t mr, size_t c0, size_t c1, REAL cap)
{
    VEC c = V(set1)(cap);

    for (size_t r = 0; r < mr; r++)
        for (size_t i = r * TILE + c0; i < r * TILE + c1; i += LANES)
            V(store)(s + i, V(mul)(c, K(tanh)(V(div)(V(load)(s + i), c))));
}

static uint64_t K(find_minus_inf)(const REAL *s, size_t c0, size_t c1)
{
    VEC low = V(set1)(MINUS_INF);
    uint64_t bits = 0;

    for (size_t c = c0; c < c1; c += LANES)
        bits |= V(eq)(V(load)(s + c), low) << c;
    return bits;
}

static uint64_t K(add_bias)(REAL *s, const REAL *b, size_t c0, size_t c1)
{
    for (size_t c = c0; c < c1; c += LANES)
        V(store)(s + c, V(add)(V(load)(s + c), V(load)(b + c)));
    return ~K(find_minus_inf)(b, c0, c1);
}

static void K(add_alibi)(REAL *s, size_t c0, size_t c1, REAL slope, REAL distance)
{
    REAL first[LANES];
    VEC column, step = V(set1)(slope), from = V(set1)(distance);

    for (int i = 0; i < LANES; i++)
        first[i] = (REAL)i;
    column = V(load)(first);
    for (size_t c = c0; c < c1; c += LANES) {
        VEC away = V(abs)(V(sub)(from, V(add)(column, V(set1)((REAL)c))));
        V(store)(s + c, V(sub)(V(load)(s + c), V(mul)(step, away)));
    }
}

/* --- softmax -----------------------------------------------------------------------------------
 */

ATTN__INLINE void K(scale_row)(REAL *row, size_t n, REAL factor)
{
    VEC f = V(set1)(factor);

    for (size_t c = 0; c < n; c += LANES)
        V(store)(row + c, V(mul)(V(load)(row + c), f));
}

static REAL K(row_sum)(const REAL *sum)
{
    REAL t[8];

    for (int i = 0; i < 8; i++)
        t[i] = sum[i] + sum[i + 8];
    for (int i = 0; i < 4; i++)
        t[i] += t[i + 4];
    return (t[0] + t[2]) + (t[1] + t[3]);
}

static bool K(is_zero)(const REAL *sum)
{
    uint64_t zeros = ~(uint64_t)0;

    ATTN__UNROLL
    for (size_t i = 0; i < 16; i += LANES)
        zeros &= V(eq)(V(load)(sum + i), V(zero)());
    return (zeros & (((uint64_t)1 << LANES) - 1)) == ((uint64_t)1 << LANES) - 1;
}

/* A score left the slack above the reference: the row's largest score becomes the reference. */
static ATTN__NOINLINE void K(raise)(REAL *max, REAL to, REAL *sum, REAL *out, size_t width)
{
    /* Nothing seen yet is the usual case. A sum with max = -inf (scores of -inf, or NaN) goes
     * through the factor 0 below, which keeps a NaN. */
    if (*max != MINUS_INF || !K(is_zero)(sum)) {
        REAL factor = K(exp_one)(*max - to);
        K(scale_row)(sum, 16, factor);
        K(scale_row)(out, width, factor);
    }
    *max = to;
}

/* Makes the reference of a row fit its largest new score; returns what to subtract from scores. */
ATTN__INLINE REAL K(set_reference)(VEC top, REAL *max, REAL *sum, REAL *out, size_t width)
{
    if (V(gt)(top, V(set1)(*max + SLACK)))
        K(raise)(max, V(reduce_max)(top), sum, out, width);
    if (*max == MINUS_INF) { /* allowed scores, all -inf or NaN: the row is not empty */
        sum[0] += 1;
        return 0;
    }
    return *max;
}

ATTN__INLINE VEC K(weight)(REAL *s, VEC base)
{
    return K(exp)(V(sub)(V(load)(s), base));
}

/* Rows of a whole tile without masks. Two passes, so that the rare call in the first does not make
 * the second reload its constants. */
static void K(softmax_whole)(REAL *s, size_t mr, REAL *max, REAL (*sum)[16], REAL *out,
                             ptrdiff_t out_stride, size_t width)
{
    enum { PARTS = 16 / LANES };
    REAL base[attn__group];

    for (size_t r = 0; r < mr; r++) {
        VEC top = V(load)(s + r * TILE);

        ATTN__UNROLL
        for (size_t i = 1; i < TILE_VECS; i++)
            top = V(max)(V(load)(s + r * TILE + i * LANES), top);
        base[r] = K(set_reference)(top, &max[r], sum[r], out + (ptrdiff_t)r * out_stride, width);
    }
    for (size_t r = 0; r < mr; r++) {
        VEC part[PARTS], from = V(set1)(base[r]);

        ATTN__UNROLL
        for (size_t i = 0; i < PARTS; i++)
            part[i] = V(load)(sum[r] + i * LANES);
        ATTN__UNROLL
        for (size_t i = 0; i < TILE_VECS; i++) {
            VEC p = K(weight)(s + r * TILE + i * LANES, from);

            V(store)(s + r * TILE + i * LANES, p);
            part[i % PARTS] = V(add)(part[i % PARTS], p);
        }
        ATTN__UNROLL
        for (size_t i = 0; i < PARTS; i++)
            V(store)(sum[r] + i * LANES, part[i]);
    }
}

/* One row, columns 0..n-1 of s, of which those in `allow` count. */
static void K(softmax_row)(REAL *s, size_t n, uint64_t allow, REAL *max, REAL *sum, REAL *out,
                           size_t width)
{
    VEC top = V(set1)(MINUS_INF), low = top, base;

    for (size_t c = 0; c < n; c += LANES) {
        VEC x = V(pick)(allow >> c, V(load)(s + c), low);

        V(store)(s + c, x);
        top = V(max)(x, top); /* a NaN is passed over here; it reaches the sum below */
    }
    base = V(set1)(K(set_reference)(top, max, sum, out, width));
    for (size_t c = 0; c < n; c += 16) {
        for (size_t i = 0; i < 16; i += LANES) {
            VEC p = V(keep)(allow >> (c + i), K(weight)(s + c + i, base));

            V(store)(s + c + i, p);
            V(store)(sum + i, V(add)(V(load)(sum + i), p));
        }
    }
}

static void K(softmax)(REAL *s, size_t mr, size_t c0, size_t c1, const uint64_t *allow, REAL *max,
                       REAL (*sum)[16], REAL *out, ptrdiff_t out_stride, size_t width)
{
    if (!allow && c1 - c0 == TILE) {
        K(softmax_whole)(s, mr, max, sum, out, out_stride, width);
        return;
    }
    s += c0;
    for (size_t r = 0; r < mr; r++, s += TILE, out += out_stride) {
        uint64_t bits = allow ? allow[r] >> c0 : ~(uint64_t)0;

        if (bits)
            K(softmax_row)(s, c1 - c0, bits, &max[r], sum[r], out, width);
        else
            memset(s, 0, (c1 - c0) * sizeof *s);
    }
}

static void K(drop)(REAL *p, size_t c0, size_t c1, uint64_t keep, REAL factor)
{
    VEC f = V(set1)(factor);

    for (size_t c = c0; c < c1; c += LANES)
        V(store)(p + c, V(keep)(keep >> c, V(mul)(V(load)(p + c), f)));
}

static void K(weights)(REAL *s, size_t c0, size_t c1, uint64_t allow, REAL max, REAL factor)
{
    VEC m = V(set1)(max), f = V(set1)(factor);

    for (size_t c = c0; c < c1; c += LANES) {
        VEC p = V(mul)(K(exp)(V(sub)(V(load)(s + c), m)), f);
        V(store)(s + c, V(keep)(allow >> c, p));
    }
}

static uint64_t K(nonfinite_rows)(const REAL *v, ptrdiff_t v_stride, size_t rows, size_t width)
{
    uint64_t bits = 0;

    for (size_t r = 0; r < rows; r++) {
        uint64_t finite = ((uint64_t)1 << LANES) - 1;

        for (size_t c = 0; c < width; c += LANES)
            finite &= V(finite)(V(load)(v + (ptrdiff_t)r * v_stride + (ptrdiff_t)c));
        bits |= (uint64_t)(finite != ((uint64_t)1 << LANES) - 1) << r;
    }
    return bits;
}

static void K(merge)(REAL *out, REAL *max, REAL *sum, const REAL *out2, REAL max2, REAL sum2,
                     size_t width)
{
    REAL m, w1, w2;

    if (sum2 == 0)
        return;
    if (*sum == 0) {
        *max = max2;
        *sum = sum2;
        if (out2)
            memcpy(out, out2, width * sizeof *out);
        return;
    }
    m = *max > max2 ? *max : max2;
    w1 = w2 = 1; /* both have seen nothing but -inf: their sums still count rows as not empty */
    if (m != MINUS_INF) {
        w1 = K(exp_one)(*max - m);
        w2 = K(exp_one)(max2 - m);
    }
    *max = m;
    *sum = *sum * w1 + sum2 * w2;
    for (size_t c = 0; c < width; c += LANES) {
        VEC a = V(mul)(V(load)(out + c), V(set1)(w1));
        V(store)(out + c, out2 ? V(fma)(V(load)(out2 + c), V(set1)(w2), a) : a);
    }
}

#undef PANEL
#undef TILE
#undef TILE_VECS
#undef SLACK
#undef MINUS_INF
#undef BY_VECTORS
#undef BY_SHAPE
#undef BY_ROWS
#undef REAL
#undef VEC
#undef V
#undef K
#undef LANES
#undef NV
#undef REAL_TYPE
#undef HAS_HALF
#undef LOG2E
#undef CAP_LIMIT
#undef EXP2_DEGREE
#undef EXP2_COEFFICIENTS
