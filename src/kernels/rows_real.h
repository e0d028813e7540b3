/* rows_real.h: reading, writing and packing of typed rows, for one kind of number. Part of
 * kernels_real.h. */

/* --- reading and writing of typed rows ------------------------------------------------------ */

ATTN__INLINE REAL K(element)(attn_type type, const void *src, ptrdiff_t i)
{
    switch (type) {
#if HAS_HALF
    case ATTN_F16:
        return attn__f16_to_f32(((const uint16_t *)src)[i]);
    case ATTN_BF16:
        return attn__bf16_to_f32(((const uint16_t *)src)[i]);
    case ATTN_I8:
        return ((const int8_t *)src)[i];
#endif
    default:
        return ((const REAL *)src)[i];
    }
}

ATTN__INLINE size_t K(element_size)(attn_type type)
{
    return type == REAL_TYPE ? sizeof(REAL) : type == ATTN_I8 ? 1 : sizeof(uint16_t);
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
    case ATTN_I8:
        return V(load_i8)(src);
#endif
    default:
        return V(load)(src);
    }
}

ATTN__INLINE const void *K(advance)(attn_type type, const void *src, ptrdiff_t elements)
{
    return (const char *)src + elements * (ptrdiff_t)K(element_size)(type);
}

/* nv vectors from src on, widened. Of two vectors of bf16 the first gets the even elements and the
 * second the odd ones: a shift and a mask, where natural order would take two shuffles and two
 * shifts. */
ATTN__INLINE void K(load_step)(int nv, attn_type type, VEC *to, const void *src)
{
#if HAS_HALF
    if (type == ATTN_BF16 && nv % 2 == 0) {
        ATTN__UNROLL
        for (int v = 0; v < nv; v += 2)
            V(pairs_bf16)(V(load_raw)(K(advance)(type, src, v * LANES)), &to[v], &to[v + 1]);
        return;
    }
#endif
    ATTN__UNROLL
    for (int v = 0; v < nv; v++)
        to[v] = K(load_typed)(type, K(advance)(type, src, v * LANES), LANES);
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
        for (; c + LANES <= cols; c += LANES) {
            VEC x = K(load_typed)(type, K(advance)(type, row, (ptrdiff_t)c), LANES);
            V(store)(to + c, V(mul)(factor, x));
        }
        if (c < cols) {
            VEC x = K(load_typed)(type, K(advance)(type, row, (ptrdiff_t)c), cols - c);
            REAL tail[LANES];
            V(store)(tail, V(mul)(factor, x));
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
    case ATTN_I8:
        K(load_rows_typed)(dst, dst_stride, rows, ATTN_I8, src, row_stride, cols, padded, f);
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
    case ATTN_I8: /* an integer already */
        ((int8_t *)dst)[i] = (int8_t)x;
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
            V(store)((REAL *)dst + c, V(add)(V(mul)(V(load)(src + c), f), zero));
    }
#if HAS_HALF
    if (col_stride == 1 && type == ATTN_F16) {
        for (; c + LANES <= cols; c += LANES)
            V(store_f16)((uint16_t *)dst + c, V(add)(V(mul)(V(load)(src + c), f), zero));
    }
    if (col_stride == 1 && type == ATTN_BF16) {
        for (; c + LANES <= cols; c += LANES)
            V(store_bf16)((uint16_t *)dst + c, V(add)(V(mul)(V(load)(src + c), f), zero));
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
    size_t place = lane % PANEL, pair = 2 * LANES;
    ptrdiff_t at;

    if (type == ATTN_BF16) /* two vectors, their elements in turn: see load_step */
        place = place / pair * pair + place % LANES * 2 + place / LANES % 2;
    at = (ptrdiff_t)(lane / PANEL * PANEL * d + c * PANEL + place);
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

ATTN__INLINE void K(widen_keys_typed)(attn_type type, REAL *tile, const void *src,
                                      const float *scale, size_t d)
{
    for (size_t key = 0; key < TILE; key += PANEL) {
        const void *from = K(advance)(type, src, (ptrdiff_t)(key * d));
        REAL *to = tile + key * d;

        for (size_t c = 0; c < d; c++) {
            VEC x[NV];

            K(load_step)(NV, type, x, K(advance)(type, from, (ptrdiff_t)(c * PANEL)));
            K(prefetch)
            (type, from, KEYS_AHEAD / (ptrdiff_t)K(element_size)(type) + (ptrdiff_t)(c * PANEL),
             PANEL);
            ATTN__UNROLL
            for (size_t v = 0; v < NV; v++) {
                if (type == ATTN_I8)
                    x[v] = V(mul)(x[v], V(load)((const REAL *)scale + key + v * LANES));
                V(store)(to + c * PANEL + v * LANES, x[v]);
            }
        }
    }
}

static void K(widen_keys)(REAL *tile, attn_type type, const void *src, const float *scale, size_t d)
{
#if HAS_HALF
    switch (type) {
    case ATTN_F16:
        K(widen_keys_typed)(ATTN_F16, tile, src, scale, d);
        break;
    case ATTN_BF16:
        K(widen_keys_typed)(ATTN_BF16, tile, src, scale, d);
        break;
    default:
        K(widen_keys_typed)(ATTN_I8, tile, src, scale, d);
        break;
    }
#else
    (void)tile, (void)type, (void)src, (void)scale,
        (void)d; /* there are narrow keys of float only */
#endif
}
