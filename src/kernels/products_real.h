/* products_real.h: scores and values, the two matrix products of attention, for one kind of number.
 * Part of kernels_real.h. */

/* --- the two matrix products -------------------------------------------------------------------
 *
 * Both keep mr x nv vectors of sums in registers and take one broadcast of the left operand and nv
 * vectors of the right one per step; mr, nv and type are constants in every instance. Whole blocks
 * take several steps per turn of the loop: where a neighbour on the same core leaves few
 * instructions a cycle, those of the loop itself cost as much as the others. (Narrow types widen as
 * they load, and what asks for memory waits for it: both have other limits.) */
#define WHOLE_BLOCK(mr, nv, type) ((mr) == attn__group && (nv) == NV && (type) == REAL_TYPE)

/* One step against a panel of packed columns: keys here, weights in gemm_real.h. */
ATTN__INLINE void K(panel_step)(int mr, int nv, attn_type type, VEC (*sum)[NV], const REAL *q,
                                ptrdiff_t q_stride, const void *keys, const VEC *factor,
                                ptrdiff_t ahead)
{
    VEC key[NV];

    K(load_step)(nv, type, key, keys);
    if (ahead)
        K(prefetch)(type, keys, ahead, PANEL);
    ATTN__UNROLL
    for (int v = 0; v < nv; v++)
        key[v] = type == ATTN_I8 ? V(mul)(key[v], factor[v]) : key[v];
    ATTN__UNROLL
    for (int r = 0; r < mr; r++) {
        VEC a = V(set1)(q[r * q_stride]);
        ATTN__UNROLL
        for (int v = 0; v < nv; v++)
            sum[r][v] = V(fma)(a, key[v], sum[r][v]);
    }
}

ATTN__INLINE void K(scores_block)(int mr, int nv, attn_type type, REAL *s, const REAL *q,
                                  ptrdiff_t q_stride, const void *keys, const float *scale,
                                  size_t d, ptrdiff_t ahead)
{
    VEC sum[attn__group][NV], factor[NV];
    size_t c = 0;

    ATTN__UNROLL
    for (int v = 0; v < nv; v++)
        factor[v] = type == ATTN_I8 ? V(load)((const REAL *)scale + v * LANES) : V(zero)();
    ATTN__UNROLL
    for (int r = 0; r < mr; r++) {
        ATTN__UNROLL
        for (int v = 0; v < nv; v++)
            sum[r][v] = V(zero)();
    }
    for (; WHOLE_BLOCK(mr, nv, type) && !ahead && c + AT_ONCE <= d; c += AT_ONCE) {
        ATTN__UNROLL
        for (size_t i = 0; i < AT_ONCE; i++)
            K(panel_step)
        (mr, nv, type, sum, q + c + i, q_stride,
         K(advance)(type, keys, (ptrdiff_t)((c + i) * PANEL)), factor, 0);
    }
    for (; c < d; c++)
        K(panel_step)
    (mr, nv, type, sum, q + c, q_stride, K(advance)(type, keys, (ptrdiff_t)(c * PANEL)), factor,
     ahead);
    ATTN__UNROLL
    for (int r = 0; r < mr; r++) {
        ATTN__UNROLL
        for (int v = 0; v < nv; v++)
            V(store)(s + r * TILE + v * LANES, sum[r][v]);
    }
}

/* Sums of outputs, in the order of load_step. */
ATTN__INLINE void K(load_sums)(int nv, attn_type type, VEC *sum, const REAL *out)
{
    ATTN__UNROLL
    for (int v = 0; v < nv; v++)
        sum[v] = V(load)(out + v * LANES);
#if HAS_HALF
    if (type == ATTN_BF16 && nv % 2 == 0) {
        ATTN__UNROLL
        for (int v = 0; v < nv; v += 2)
            V(split_pairs)(&sum[v], &sum[v + 1]);
    }
#else
    (void)type;
#endif
}

ATTN__INLINE void K(store_sums)(int nv, attn_type type, REAL *out, VEC *sum)
{
#if HAS_HALF
    if (type == ATTN_BF16 && nv % 2 == 0) {
        ATTN__UNROLL
        for (int v = 0; v < nv; v += 2)
            V(join_pairs)(&sum[v], &sum[v + 1]);
    }
#else
    (void)type;
#endif
    ATTN__UNROLL
    for (int v = 0; v < nv; v++)
        V(store)(out + v * LANES, sum[v]);
}

ATTN__INLINE void K(values_step)(int mr, int nv, attn_type type, VEC (*sum)[2 * NV], const REAL *p,
                                 const void *row, const float *scale, ptrdiff_t ahead)
{
    VEC value[2 * NV], factor = V(set1)(type == ATTN_I8 ? (REAL)*scale : 0);

    K(load_step)(nv, type, value, row);
    if (ahead)
        K(prefetch)(type, row, ahead, (size_t)nv * LANES);
    ATTN__UNROLL
    for (int i = 0; i < nv; i++)
        value[i] = type == ATTN_I8 ? V(mul)(value[i], factor) : value[i];
    ATTN__UNROLL
    for (int r = 0; r < mr; r++) {
        VEC a = V(set1)(p[r * TILE]);
        ATTN__UNROLL
        for (int i = 0; i < nv; i++)
            sum[r][i] = V(fma)(a, value[i], sum[r][i]);
    }
}

ATTN__INLINE void K(values_block)(int mr, int nv, attn_type type, REAL *out, ptrdiff_t out_stride,
                                  const REAL *p, size_t keys, const void *v, ptrdiff_t v_stride,
                                  const float *scale, ptrdiff_t ahead)
{
    VEC sum[attn__group][2 * NV];
    size_t k = 0;

    ATTN__UNROLL
    for (int r = 0; r < mr; r++)
        K(load_sums)(nv, type, sum[r], out + r * out_stride);
    for (; WHOLE_BLOCK(mr, nv, type) && !ahead && k + AT_ONCE <= keys; k += AT_ONCE) {
        ATTN__UNROLL
        for (size_t i = 0; i < AT_ONCE; i++)
            K(values_step)
        (mr, nv, type, sum, p + k + i, K(advance)(type, v, (ptrdiff_t)(k + i) * v_stride), scale,
         0);
    }
    for (; k < keys; k++)
        K(values_step)
    (mr, nv, type, sum, p + k, K(advance)(type, v, (ptrdiff_t)k * v_stride),
     type == ATTN_I8 ? scale + k : scale, ahead);
    ATTN__UNROLL
    for (int r = 0; r < mr; r++)
        K(store_sums)(nv, type, out + r * out_stride, sum[r]);
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

ATTN__INLINE ptrdiff_t K(elements_ahead)(size_t mr, attn_type type, ptrdiff_t bytes)
{
    bool light = type == REAL_TYPE ? mr <= 2 : type == ATTN_BF16 && mr == 1;

    return light ? LIGHT_AHEAD : bytes / (ptrdiff_t)K(element_size)(type);
}

static void K(scores)(REAL *s, size_t mr, const REAL *q, ptrdiff_t q_stride, attn_type type,
                      const void *tile, const float *scale, size_t d, size_t c0, size_t c1,
                      bool fresh)
{
    ptrdiff_t ahead = fresh ? K(elements_ahead)(mr, type, KEYS_AHEAD) : 0;

    (void)scale; /* unused where there are no i8 keys */
    while (c0 < c1) {
        size_t panel = c0 / PANEL * PANEL, end = c1 < panel + PANEL ? c1 : panel + PANEL;
        const void *keys = K(advance)(type, tile, (ptrdiff_t)(panel * d));

        switch (type) {
#if HAS_HALF
        case ATTN_F16:
            BY_ROWS(mr, NV, scores_block, ATTN_F16, s + panel, q, q_stride, keys, NULL, d, ahead)
            break;
        case ATTN_BF16:
            BY_ROWS(mr, NV, scores_block, ATTN_BF16, s + panel, q, q_stride, keys, NULL, d, ahead)
            break;
        case ATTN_I8:
            BY_ROWS(mr, NV, scores_block, ATTN_I8, s + panel, q, q_stride, keys, scale + panel, d,
                    ahead)
            break;
#endif
        default:
            keys = (const REAL *)keys + (c0 - panel);
            BY_SHAPE(mr, (end - c0) / LANES, scores_block, REAL_TYPE, s + c0, q, q_stride, keys,
                     NULL, d, ahead)
            break;
        }
        c0 = end;
    }
}

/* All rows, for columns of one panel or (narrow types) one vector. */
static void K(values_panel)(REAL *out, ptrdiff_t out_stride, size_t mr, const REAL *p, size_t keys,
                            attn_type type, const void *v, ptrdiff_t v_stride, const float *scale,
                            ptrdiff_t ahead, size_t columns)
{
    (void)scale; /* unused where there are no i8 values */
#define NARROW(type)                                                                               \
    if (columns == PANEL)                                                                          \
        BY_ROWS(mr, NV, values_block, type, out, out_stride, p, keys, v, v_stride, scale, ahead)   \
    else                                                                                           \
        BY_ROWS(mr, 1, values_block, type, out, out_stride, p, keys, v, v_stride, scale, ahead)
    switch (type) {
#if HAS_HALF
    case ATTN_F16:
        NARROW(ATTN_F16)
        break;
    case ATTN_BF16:
        NARROW(ATTN_BF16)
        break;
    case ATTN_I8:
        NARROW(ATTN_I8)
        break;
#endif
    default:
        BY_SHAPE(mr, columns / LANES, values_block, REAL_TYPE, out, out_stride, p, keys, v,
                 v_stride, NULL, ahead)
        break;
    }
#undef NARROW
}

/* One or two rows over the columns of two panels. */
static void K(values_wide)(REAL *out, ptrdiff_t out_stride, size_t mr, const REAL *p, size_t keys,
                           attn_type type, const void *v, ptrdiff_t v_stride, const float *scale,
                           ptrdiff_t ahead)
{
#define WIDE(type)                                                                                 \
    if (mr == 1)                                                                                   \
        K(values_block)(1, 2 * NV, type, out, out_stride, p, keys, v, v_stride, scale, ahead);     \
    else                                                                                           \
        K(values_block)(2, 2 * NV, type, out, out_stride, p, keys, v, v_stride, scale, ahead);
    switch (type) {
#if HAS_HALF
    case ATTN_F16:
        WIDE(ATTN_F16)
        break;
    case ATTN_BF16:
        WIDE(ATTN_BF16)
        break;
    case ATTN_I8:
        WIDE(ATTN_I8)
        break;
#endif
    default:
        WIDE(REAL_TYPE)
        break;
    }
#undef WIDE
}

static void K(values)(REAL *out, ptrdiff_t out_stride, size_t mr, const REAL *p, size_t k0,
                      size_t k1, attn_type type, const void *v, ptrdiff_t v_stride,
                      const float *scale, size_t width, bool fresh)
{
    bool sweeps = fresh && mr > 2 && type == REAL_TYPE && width > PANEL;
    size_t step = sweeps ? SWEEP_ROWS : TILE, columns;
    ptrdiff_t ahead = K(elements_ahead)(mr, type, VALUES_AHEAD);

    if (v_stride <= 0 || v_stride > ahead / 8) /* far apart: eight rows */
        ahead = 8;
    else
        ahead /= v_stride;
    ahead = fresh ? ahead * v_stride : 0;
    for (size_t k = k0, keys; k < k1; k += keys) {
        const void *from = K(advance)(type, v, (ptrdiff_t)(k - k0) * v_stride);
        const float *factor = type == ATTN_I8 ? scale + (k - k0) : NULL;

        keys = k1 - k < step ? k1 - k : step;
        for (size_t c = 0; c < width; c += columns) {
            const void *at = K(advance)(type, from, (ptrdiff_t)c);

            columns = width - c < PANEL ? width - c : PANEL;
            if (mr <= 2 && width - c >= 2 * PANEL) {
                columns = 2 * PANEL;
                K(values_wide)
                (out + c, out_stride, mr, p + k, keys, type, at, v_stride, factor, ahead);
                continue;
            }
            if (type != REAL_TYPE && columns < PANEL)
                columns = LANES;
            K(values_panel)
            (out + c, out_stride, mr, p + k, keys, type, at, v_stride, factor, ahead, columns);
        }
    }
}
