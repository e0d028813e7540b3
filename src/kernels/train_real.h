/* train_real.h: the kernels of train_kernels.h, for one kind of number. Part of kernels_real.h. */

/* --- Cross entropy -------------------------------------------------------------------------- */

enum { K(LOSS_BLOCK) = 512 };

/* Whether the target, which is as large as any, is the first such column. */
static bool K(is_first)(const REAL *x, size_t target)
{
    VEC value = V(set1)(x[target]);
    size_t c = 0;

    for (; c + LANES <= target; c += LANES)
        if (V(eq)(V(load)(x + c), value))
            return false;
    for (; c < target; c++)
        if (x[c] == x[target])
            return false;
    return true;
}

static REAL K(row_max)(const REAL *x, size_t padded)
{
    enum { PARTS = 16 / LANES };
    VEC top[PARTS];

    ATTN__UNROLL
    for (size_t i = 0; i < PARTS; i++)
        top[i] = V(set1)(MINUS_INF);
    for (size_t c = 0; c < padded; c += 16) {
        ATTN__UNROLL
        for (size_t i = 0; i < PARTS; i++)
            top[i] = V(max)(V(load)(x + c + i * LANES), top[i]);
    }
    ATTN__UNROLL
    for (size_t i = 1; i < PARTS; i++)
        top[0] = V(max)(top[i], top[0]);
    return V(reduce_max)(top[0]);
}

/* Columns 0..n-1, n a multiple of 16, of which `real` exist: x becomes e^(x - m). */
ATTN__INLINE void K(loss_block)(REAL *x, size_t n, size_t exist, VEC m, attn__row_loss *loss)
{
    enum { PARTS = 16 / LANES };
    REAL lanes[16];
    VEC sum[PARTS], all[PARTS];

    ATTN__UNROLL
    for (size_t i = 0; i < PARTS; i++)
        sum[i] = all[i] = V(zero)();
    for (size_t c = 0; c < n; c += 16) {
        ATTN__UNROLL
        for (size_t i = 0; i < PARTS; i++) {
            size_t at = c + i * LANES, left = exist > at ? exist - at : 0;
            VEC y = V(sub)(V(load)(x + at), m), e = K(exp)(y);

            if (left < LANES)
                y = V(keep)(((uint64_t)1 << left) - 1, y);
            V(store)(x + at, e);
            sum[i] = V(add)(sum[i], e);
            all[i] = V(add)(all[i], y);
        }
    }
    ATTN__UNROLL
    for (size_t i = 0; i < PARTS; i++)
        V(store)(lanes + i * LANES, sum[i]);
    loss->sum += (double)K(row_sum)(lanes);
    ATTN__UNROLL
    for (size_t i = 0; i < PARTS; i++)
        V(store)(lanes + i * LANES, all[i]);
    loss->all += (double)K(row_sum)(lanes);
}

static void K(cross_entropy)(REAL *x, size_t n, size_t target, const attn__row_goal *goal,
                             bool gradient, attn__row_loss *loss)
{
    size_t padded = (n + 15) / 16 * 16, block;
    REAL m, power;
    VEC top, by, off;

    for (size_t c = n; c < padded; c++)
        x[c] = MINUS_INF;
    m = K(row_max)(x, padded);
    *loss = (attn__row_loss){0};
    loss->right = x[target] == m && K(is_first)(x, target);
    loss->target = (double)x[target] - (double)m;
    top = V(set1)(m);
    for (size_t c = 0; c < padded; c += block) {
        block = padded - c < K(LOSS_BLOCK) ? padded - c : K(LOSS_BLOCK);
        K(loss_block)(x + c, block, n - c, top, loss);
    }
    if (!gradient)
        return;
    power = x[target];
    by = V(set1)((REAL)(goal->factor / loss->sum));
    off = V(set1)((REAL)(-goal->factor * goal->off));
    for (size_t c = 0; c < padded; c += LANES)
        V(store)(x + c, V(fma)(V(load)(x + c), by, off));
    x[target] = (REAL)(goal->factor * ((double)power / loss->sum - goal->on));
    memset(x + n, 0, (padded - n) * sizeof *x);
}

/* --- Flat memory ---------------------------------------------------------------------------- */

static void K(add_rows)(REAL *to, const REAL *rows, ptrdiff_t stride, size_t count, size_t n)
{
    enum { BLOCK = 4 * LANES };
    size_t c = 0;

    for (; c + BLOCK <= n; c += BLOCK) {
        VEC sum[4];

        ATTN__UNROLL
        for (size_t i = 0; i < 4; i++)
            sum[i] = V(load)(to + c + i * LANES);
        for (size_t r = 0; r < count; r++) {
            const REAL *row = rows + (ptrdiff_t)r * stride + (ptrdiff_t)c;

            ATTN__UNROLL
            for (size_t i = 0; i < 4; i++)
                sum[i] = V(add)(sum[i], V(load)(row + i * LANES));
        }
        ATTN__UNROLL
        for (size_t i = 0; i < 4; i++)
            V(store)(to + c + i * LANES, sum[i]);
    }
    for (; c < n; c++)
        for (size_t r = 0; r < count; r++)
            to[c] += rows[(ptrdiff_t)r * stride + (ptrdiff_t)c];
}

/* The numbers of a step, one in each lane. */
typedef struct K(adam_step) {
    VEC scale, beta1, beta2, rest1, rest2, rate, root, epsilon, keep;
} K(adam_step);

ATTN__INLINE void K(adam_cells)(REAL *w, const REAL *gradient, REAL *m, REAL *v,
                                const K(adam_step) * s)
{
    VEC g = V(mul)(V(load)(gradient), s->scale);
    VEC mean = V(fma)(s->beta1, V(load)(m), V(mul)(s->rest1, g));
    VEC square = V(fma)(s->beta2, V(load)(v), V(mul)(s->rest2, V(mul)(g, g)));
    VEC change = V(div)(mean, V(fma)(V(sqrt)(square), s->root, s->epsilon));

    V(store)(m, mean);
    V(store)(v, square);
    V(store)(w, V(sub)(V(mul)(V(load)(w), s->keep), V(mul)(s->rate, change)));
}

static void K(adam)(REAL *w, const REAL *gradient, REAL *m, REAL *v, size_t n,
                    const attn__adam *step)
{
    const K(adam_step) s = {
        .scale = V(set1)((REAL)step->scale),
        .beta1 = V(set1)((REAL)step->beta1),
        .beta2 = V(set1)((REAL)step->beta2),
        .rest1 = V(set1)((REAL)(1 - step->beta1)),
        .rest2 = V(set1)((REAL)(1 - step->beta2)),
        .rate = V(set1)((REAL)step->rate),
        .root = V(set1)((REAL)step->root),
        .epsilon = V(set1)((REAL)step->epsilon),
        .keep = V(set1)((REAL)step->keep),
    };
    REAL tail[4][LANES] = {{0}};
    size_t i = 0, left;

    for (; i + LANES <= n; i += LANES)
        K(adam_cells)(w + i, gradient + i, m + i, v + i, &s);
    left = (n - i) * sizeof *w;
    if (left == 0)
        return;
    memcpy(tail[0], w + i, left);
    memcpy(tail[1], gradient + i, left);
    memcpy(tail[2], m + i, left);
    memcpy(tail[3], v + i, left);
    K(adam_cells)(tail[0], tail[1], tail[2], tail[3], &s);
    memcpy(w + i, tail[0], left);
    memcpy(m + i, tail[2], left);
    memcpy(v + i, tail[3], left);
}

static double K(square_sum)(const REAL *x, size_t n)
{
    double part[16] = {0}, sum = 0;
    size_t i = 0;

    for (; i + 16 <= n; i += 16)
        for (size_t j = 0; j < 16; j++)
            part[j] += (double)x[i + j] * (double)x[i + j];
    for (size_t j = 0; i + j < n; j++)
        part[j] += (double)x[i + j] * (double)x[i + j];
    for (size_t j = 0; j < 16; j++)
        sum += part[j];
    return sum;
}

static void K(blend)(REAL *to, const REAL *from, size_t n, double rate)
{
    VEC by = V(set1)((REAL)rate);
    size_t i = 0;

    for (; i + LANES <= n; i += LANES) {
        VEC old = V(load)(to + i);

        V(store)(to + i, V(add)(old, V(mul)(by, V(sub)(V(load)(from + i), old))));
    }
    for (; i < n; i++)
        to[i] += (REAL)rate * (from[i] - to[i]);
}
