/* nn_real.h: the kernels of nn_kernels.h, for one kind of number. Part of kernels_real.h. */

#define SUMS (16 / LANES)

/* --- parts of rows -------------------------------------------------------------------------- */

/* Up to LANES elements; those that are missing read as 0. */
ATTN__INLINE VEC K(load_part)(const REAL *p, size_t n)
{
    return K(load_typed)(REAL_TYPE, p, n < LANES ? n : LANES);
}

ATTN__INLINE void K(store_part)(REAL *p, VEC x, size_t n)
{
    REAL lanes[LANES];

    if (n >= LANES) {
        V(store)(p, x);
        return;
    }
    V(store)(lanes, x);
    memcpy(p, lanes, n * sizeof *p);
}

/* x where an element exists, else 0. */
ATTN__INLINE VEC K(existing)(VEC x, size_t n)
{
    return n >= LANES ? x : V(keep)(((uint64_t)1 << n) - 1, x);
}

ATTN__INLINE REAL K(total)(const VEC *s)
{
    REAL sum[16];

    for (size_t i = 0; i < SUMS; i++)
        V(store)(sum + i * LANES, s[i]);
    return K(row_sum)(sum);
}

/* Calls body(c, n, i) for the vectors of a row: from column c on, n >= 1 elements are left, and i
 * is the vector of partial sums. */
#define EACH_VECTOR(count, body)                                                                   \
    do {                                                                                           \
        size_t c = 0;                                                                              \
        for (; c + 16 <= (count); c += 16) {                                                       \
            ATTN__UNROLL                                                                           \
            for (size_t i = 0; i < SUMS; i++) {                                                    \
                body(c + i * LANES, LANES, i);                                                     \
            }                                                                                      \
        }                                                                                          \
        for (size_t i = 0; c < (count); c += LANES, i++) {                                         \
            body(c, (count)-c, i);                                                                 \
        }                                                                                          \
    } while (0)

/* --- norms ---------------------------------------------------------------------------------- */

static REAL K(sum_of)(const REAL *x, size_t n)
{
    VEC s[SUMS];

    for (size_t i = 0; i < SUMS; i++)
        s[i] = V(zero)();
#define BODY(at, left, i) s[i] = V(add)(s[i], K(load_part)(x + (at), left))
    EACH_VECTOR(n, BODY);
#undef BODY
    return K(total)(s);
}

static REAL K(deviation_sum)(const REAL *x, REAL mean, size_t n)
{
    VEC s[SUMS], m = V(set1)(mean);

    for (size_t i = 0; i < SUMS; i++)
        s[i] = V(zero)();
#define BODY(at, left, i)                                                                          \
    VEC difference = K(existing)(V(sub)(K(load_part)(x + (at), left), m), left);                   \
    s[i] = V(fma)(difference, difference, s[i])
    EACH_VECTOR(n, BODY);
#undef BODY
    return K(total)(s);
}

static void K(norm)(REAL *out, const REAL *x, size_t n, bool centre, REAL divisor, REAL eps,
                    const REAL *w, REAL plus, const REAL *b, REAL *mean, REAL *rstd)
{
    REAL m = centre ? K(sum_of)(x, n) / (REAL)n : 0;
    REAL v = K(deviation_sum)(x, m, n) / divisor + eps;
    /* the root of a float rounded twice is the float rounded once */
    REAL r = v > 0 ? 1 / (REAL)sqrt((double)v) : v;
    VEC centre_at = V(set1)(m), factor = V(set1)(r), more = V(set1)(plus);

    *mean = m;
    *rstd = r;
    for (size_t c = 0; c < n; c += LANES) {
        VEC y = V(mul)(V(sub)(K(load_part)(x + c, n - c), centre_at), factor);

        if (w)
            y = V(mul)(y, V(add)(K(load_part)(w + c, n - c), more));
        if (b)
            y = V(add)(y, K(load_part)(b + c, n - c));
        K(store_part)(out + c, y, n - c);
    }
}

ATTN__INLINE VEC K(norm_gradient)(const REAL *dy, const REAL *w, VEC plus, size_t c, size_t n)
{
    VEC g = K(load_part)(dy + c, n);

    return w ? V(mul)(g, V(add)(K(load_part)(w + c, n), plus)) : g;
}

static void K(norm_back)(REAL *dx, const REAL *dy, const REAL *x, const REAL *add, size_t n,
                         bool centre, REAL divisor, const REAL *w, REAL plus, REAL mean, REAL rstd)
{
    VEC s[SUMS], t[SUMS], m = V(set1)(mean), r = V(set1)(rstd), more = V(set1)(plus);
    VEC level, slope;

    for (size_t i = 0; i < SUMS; i++)
        s[i] = t[i] = V(zero)();
#define BODY(at, left, i)                                                                          \
    VEC g = K(norm_gradient)(dy, w, more, at, left);                                               \
    VEC y = V(mul)(V(sub)(K(load_part)(x + (at), left), m), r);                                    \
    s[i] = V(add)(s[i], g);                                                                        \
    t[i] = V(fma)(g, K(existing)(y, left), t[i])
    EACH_VECTOR(n, BODY);
#undef BODY
    level = V(set1)(centre ? K(total)(s) / (REAL)n : 0);
    slope = V(set1)(K(total)(t) / divisor);
    for (size_t c = 0; c < n; c += LANES) {
        VEC g = V(sub)(K(norm_gradient)(dy, w, more, c, n - c), level);
        VEC y = V(mul)(V(sub)(K(load_part)(x + c, n - c), m), r);
        VEC d = V(mul)(r, V(sub)(g, V(mul)(y, slope)));

        if (add)
            d = V(add)(d, K(load_part)(add + c, n - c));
        K(store_part)(dx + c, d, n - c);
    }
}

/* One vector of columns, up to 64 rows. */
ATTN__INLINE void K(norm_chunk)(REAL *dw, REAL *db, const REAL *dy, ptrdiff_t dy_stride,
                                const REAL *x, ptrdiff_t x_stride, const REAL *mean,
                                const REAL *rstd, size_t rows, size_t n)
{
    VEC sum = V(zero)(), products = V(zero)();

    for (size_t r = 0; r < rows; r++) {
        VEC g = K(load_part)(dy + (ptrdiff_t)r * dy_stride, n);

        sum = V(add)(sum, g);
        if (dw) {
            VEC y = V(sub)(K(load_part)(x + (ptrdiff_t)r * x_stride, n), V(set1)(mean[r]));
            products = V(fma)(g, V(mul)(y, V(set1)(rstd[r])), products);
        }
    }
    if (dw)
        K(store_part)(dw, V(add)(K(load_part)(dw, n), products), n);
    if (db)
        K(store_part)(db, V(add)(K(load_part)(db, n), sum), n);
}

/* nv whole vectors of columns: a row's cache lines are read once, where vector after vector would
 * read them again (rows a power of two apart share few places of the L1 cache). */
ATTN__INLINE void K(norm_block)(int nv, bool products, REAL *dw, REAL *db, const REAL *dy,
                                ptrdiff_t dy_stride, const REAL *x, ptrdiff_t x_stride,
                                const REAL *mean, const REAL *rstd, size_t rows)
{
    VEC sum[8], product[8];

    ATTN__UNROLL
    for (int v = 0; v < nv; v++)
        sum[v] = product[v] = V(zero)();
    for (size_t r = 0; r < rows; r++) {
        const REAL *from = dy + (ptrdiff_t)r * dy_stride;

        ATTN__UNROLL
        for (int v = 0; v < nv; v++) {
            VEC g = V(load)(from + v * LANES);

            sum[v] = V(add)(sum[v], g);
            if (products) {
                VEC y = V(sub)(V(load)(x + (ptrdiff_t)r * x_stride + v * LANES), V(set1)(mean[r]));
                product[v] = V(fma)(g, V(mul)(y, V(set1)(rstd[r])), product[v]);
            }
        }
    }
    for (int v = 0; v < nv; v++) {
        if (products)
            V(store)(dw + v * LANES, V(add)(V(load)(dw + v * LANES), product[v]));
        if (db)
            V(store)(db + v * LANES, V(add)(V(load)(db + v * LANES), sum[v]));
    }
}

static void K(norm_columns)(REAL *dw, REAL *db, const REAL *dy, ptrdiff_t dy_stride, const REAL *x,
                            ptrdiff_t x_stride, const REAL *mean, const REAL *rstd, size_t rows,
                            size_t n)
{
    for (size_t from = 0; from < rows; from += attn__row_chunk) {
        size_t some = rows - from < attn__row_chunk ? rows - from : attn__row_chunk, c = 0;
        const REAL *g = dy + (ptrdiff_t)from * dy_stride;
        const REAL *y = dw ? x + (ptrdiff_t)from * x_stride : NULL;

        for (; !dw && c + 8 * LANES <= n; c += 8 * LANES) {
            K(norm_block)(8, false, NULL, db + c, g + c, dy_stride, NULL, 0, NULL, NULL, some);
        }
        for (; dw && c + 4 * LANES <= n; c += 4 * LANES) {
            K(norm_block)
            (4, true, dw + c, db ? db + c : NULL, g + c, dy_stride, y + c, x_stride, mean + from,
             rstd + from, some);
        }
        for (; c < n; c += LANES) {
            K(norm_chunk)
            (dw ? dw + c : NULL, db ? db + c : NULL, g + c, dy_stride, dw ? y + c : NULL, x_stride,
             dw ? mean + from : NULL, dw ? rstd + from : NULL, some, n - c);
        }
    }
}

/* --- activations ---------------------------------------------------------------------------- */

#define OVER_ACTIVATIONS(call)                                                                     \
    switch (activation) {                                                                          \
    case ATTN_ACT_RELU:                                                                            \
        call(ATTN_ACT_RELU);                                                                       \
        break;                                                                                     \
    case ATTN_ACT_GELU:                                                                            \
        call(ATTN_ACT_GELU);                                                                       \
        break;                                                                                     \
    case ATTN_ACT_GELU_TANH:                                                                       \
        call(ATTN_ACT_GELU_TANH);                                                                  \
        break;                                                                                     \
    case ATTN_ACT_SILU:                                                                            \
        call(ATTN_ACT_SILU);                                                                       \
        break;                                                                                     \
    default:                                                                                       \
        call(ATTN_ACT_NONE);                                                                       \
        break;                                                                                     \
    }

ATTN__INLINE void K(activate_row)(attn_activation activation, REAL *out, const REAL *x,
                                  const REAL *times, size_t n)
{
    for (size_t c = 0; c < n; c += LANES) {
        VEC y = K(activate)(activation, K(load_part)(x + c, n - c));

        if (times)
            y = V(mul)(y, K(load_part)(times + c, n - c));
        K(store_part)(out + c, y, n - c);
    }
}

static void K(activation)(REAL *out, const REAL *x, const REAL *times, attn_activation activation,
                          size_t n){
#define CALL(act) K(activate_row)(act, out, x, times, n)
    OVER_ACTIVATIONS(CALL)
#undef CALL
}

/* 1 / (1 + e^-z) */
ATTN__INLINE VEC K(logistic)(VEC z)
{
    VEC one = V(set1)(1), t = K(exp)(V(sub)(V(zero)(), V(abs)(z)));

    return V(div)(V(pick)(V(gt)(V(zero)(), z), t, one), V(add)(one, t));
}

/* act'(x):
 *     gelu       Phi(x) + x e^(-x^2/2) / sqrt(2 pi)
 *     gelu tanh  g + 2 x z' g (1 - g), g = 1 / (1 + e^-2z)
 *     silu       g + x g (1 - g), g = 1 / (1 + e^-x)
 * 1 - g is made as 1 / (1 + e^z), which keeps its digits. Factors that grow are bounded where the
 * product has vanished, lest infinity meet 0. */
ATTN__INLINE VEC K(slope)(attn_activation activation, VEC x)
{
    const double twice = 1.5957691216057307117597842397375; /* 2 sqrt(2 / pi) */
    VEC one = V(set1)(1), far = V(set1)(CAP_LIMIT), g, h, near, rise;

    switch (activation) {
    case ATTN_ACT_RELU:
        return V(pick)(V(gt)(x, V(zero)()), one, V(keep)(~V(eq)(x, x), x));
    case ATTN_ACT_GELU:
        near = V(max)(V(sub)(V(zero)(), far), V(min)(far, x));
        h = K(exp)(V(mul)(V(mul)(near, near), V(set1)((REAL)-0.5)));
        h = V(mul)(h, V(set1)((REAL)0.3989422804014326779399460599343819));
        return V(fma)(near, h, K(normal_below)(near));
    case ATTN_ACT_GELU_TANH:
        near = V(max)(V(sub)(V(zero)(), far), V(min)(far, x));
        h = V(mul)(near, near);
        rise = V(fma)(h, V(set1)((REAL)(3 * 0.044715 * twice)), V(set1)((REAL)twice));
        h = V(mul)(near, V(fma)(h, V(set1)((REAL)(0.044715 * twice)), V(set1)((REAL)twice)));
        break;
    case ATTN_ACT_SILU:
        near =
            V(max)(V(sub)(V(zero)(), V(set1)(16 * CAP_LIMIT)), V(min)(V(set1)(16 * CAP_LIMIT), x));
        rise = one;
        h = near;
        break;
    default:
        return one;
    }
    g = K(logistic)(h);
    return V(fma)(V(mul)(V(mul)(near, rise), g), K(logistic)(V(sub)(V(zero)(), h)), g);
}

ATTN__INLINE void K(activate_row_back)(attn_activation activation, REAL *dx, REAL *dtimes,
                                       const REAL *dy, const REAL *x, const REAL *times, size_t n)
{
    for (size_t c = 0; c < n; c += LANES) {
        VEC in = K(load_part)(x + c, n - c), g = K(load_part)(dy + c, n - c);
        VEC d = V(mul)(g, K(slope)(activation, in));

        if (times) {
            d = V(mul)(d, K(load_part)(times + c, n - c));
            K(store_part)(dtimes + c, V(mul)(g, K(activate)(activation, in)), n - c);
        }
        K(store_part)(dx + c, d, n - c);
    }
}

static void K(activation_back)(REAL *dx, REAL *dtimes, const REAL *dy, const REAL *x,
                               const REAL *times, attn_activation activation, size_t n)
{
#define CALL(act) K(activate_row_back)(act, dx, dtimes, dy, x, times, n)
    OVER_ACTIVATIONS(CALL)
#undef CALL
}
#undef OVER_ACTIVATIONS

/* --- sums of rows, dropout, rotation -------------------------------------------------------- */

static void K(add_scaled)(REAL *out, const REAL *add, const REAL *x, REAL factor,
                          const uint64_t *bits, size_t n)
{
    VEC f = V(set1)(factor);

    for (size_t c = 0; c < n; c += LANES) {
        VEC y = V(mul)(K(load_part)(x + c, n - c), f);

        if (bits)
            y = V(keep)(bits[c / 64] >> c % 64, y);
        if (add)
            y = V(add)(K(load_part)(add + c, n - c), y);
        K(store_part)(out + c, y, n - c);
    }
}

static void K(rotate)(REAL *x, const REAL *cosine, const REAL *sine, size_t n, bool adjacent)
{
    size_t step = adjacent ? 2 : 1, apart = adjacent ? 1 : n;

    for (size_t i = 0; i < n; i++) {
        REAL *p = x + i * step, a = p[0], b = p[apart];

        p[0] = a * cosine[i] - b * sine[i];
        p[apart] = b * cosine[i] + a * sine[i];
    }
}

/* --- additive attention --------------------------------------------------------------------- */

static REAL K(additive)(const REAL *q, const REAL *k, const REAL *w, size_t n)
{
    VEC s[SUMS];

    for (size_t i = 0; i < SUMS; i++)
        s[i] = V(zero)();
#define BODY(at, left, i)                                                                          \
    VEC t = K(tanh)(V(add)(K(load_part)(q + (at), left), K(load_part)(k + (at), left)));           \
    s[i] = V(fma)(K(load_part)(w + (at), left), t, s[i])
    EACH_VECTOR(n, BODY);
#undef BODY
    return K(total)(s);
}

static void K(additive_back)(REAL *dq, REAL *dk, REAL *dw, const REAL *q, const REAL *k,
                             const REAL *w, REAL ds, size_t n)
{
    VEC d = V(set1)(ds), one = V(set1)(1);

    for (size_t c = 0; c < n; c += LANES) {
        size_t left = n - c;
        VEC t = K(tanh)(V(add)(K(load_part)(q + c, left), K(load_part)(k + c, left)));
        VEC square = V(mul)(V(sub)(one, t), V(add)(one, t));
        VEC dz = V(mul)(V(mul)(d, K(load_part)(w + c, left)), square);

        K(store_part)(dw + c, V(fma)(d, t, K(load_part)(dw + c, left)), left);
        K(store_part)(dq + c, V(add)(K(load_part)(dq + c, left), dz), left);
        K(store_part)(dk + c, V(add)(K(load_part)(dk + c, left), dz), left);
    }
}
#undef EACH_VECTOR
#undef SUMS
