/* additive_real.h: additive.c for one kind of number. */

static void A(weigh)(const attn__additive_call *c, REAL *p, size_t n, const REAL *q, const REAL *k,
                     const REAL *w)
{
    const attn__kernels *kernels = c->ctx->kernels;
    ptrdiff_t stride = (ptrdiff_t)(c->key_heads * c->dk);
    REAL max = -(REAL)INFINITY, sum = 0;

    for (size_t j = 0; j < n; j++) {
        p[j] = kernels->NN.additive(q, k + (ptrdiff_t)j * stride, w, c->dk);
        max = p[j] > max ? p[j] : max;
    }
    for (size_t j = n; j % attn__tile != 0; j++)
        p[j] = 0;
    for (size_t j = 0; j < n; j += attn__tile) {
        uint64_t allow = n - j < attn__tile ? ((uint64_t)1 << (n - j)) - 1 : ~(uint64_t)0;
        kernels->CORE.weights(p + j, 0, attn__tile, allow, max, 1);
    }
    for (size_t j = 0; j < n; j++)
        sum += p[j];
    kernels->NN.add_scaled(p, NULL, p, 1 / sum, NULL, n);
}

static void A(forward)(const attn__additive_call *c, size_t segment, size_t h)
{
    const attn__kernels *kernels = c->ctx->kernels;
    size_t g = h / (c->heads / c->key_heads), width = p_width(c->longest);
    size_t first = (size_t)c->k_starts[segment], keys = (size_t)c->k_starts[segment + 1] - first;
    size_t from = (size_t)c->q_starts[segment], to = (size_t)c->q_starts[segment + 1];
    const REAL *k = (const REAL *)c->k + (first * c->key_heads + g) * c->dk;
    const REAL *v = (const REAL *)c->v + (first * c->key_heads + g) * c->dv;

    for (size_t i = from; i < to; i++) {
        size_t n = c->causal ? attn__min(keys, i - from + 1) : keys;
        REAL *p = (REAL *)c->p + (h * c->rows + i) * width;
        REAL *out = (REAL *)c->out + (i * c->heads + h) * c->dv;

        memset(out, 0, c->dv * sizeof *out);
        if (n == 0)
            continue;
        A(weigh)
        (c, p, n, (const REAL *)c->q + (i * c->heads + h) * c->dk, k,
         (const REAL *)c->w + h * c->dk);
        for (size_t j = 0; j < n; j++)
            kernels->NN.add_scaled(out, out, v + j * c->key_heads * c->dv, p[j], NULL, c->dv);
    }
}

static REAL A(dot)(const REAL *a, const REAL *b, size_t n)
{
    REAL sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

/* One query row of head h against the keys of its sequence, the first of which is row `first`. */
static void A(back_row)(const attn__additive_call *c, size_t i, size_t h, size_t first, size_t n)
{
    const attn__kernels *kernels = c->ctx->kernels;
    size_t g = h / (c->heads / c->key_heads), at = i * c->heads + h;
    const REAL *p = (const REAL *)c->p + (h * c->rows + i) * p_width(c->longest);
    const REAL *dout = (const REAL *)c->dout + at * c->dv;
    const REAL *q = (const REAL *)c->q + at * c->dk, *w = (const REAL *)c->w + h * c->dk;
    REAL delta = A(dot)(dout, (const REAL *)c->out + at * c->dv, c->dv);
    REAL *dq = (REAL *)c->dq + at * c->dk, *dw = (REAL *)c->dw + h * c->dk;

    memset(dq, 0, c->dk * sizeof *dq);
    for (size_t j = 0; j < n; j++) {
        size_t key = (first + j) * c->key_heads + g;
        const REAL *k = (const REAL *)c->k + key * c->dk, *v = (const REAL *)c->v + key * c->dv;
        REAL *dk = (REAL *)c->dkeys + key * c->dk, *dv = (REAL *)c->dvalues + key * c->dv;
        REAL ds = p[j] * (A(dot)(dout, v, c->dv) - delta);

        kernels->NN.add_scaled(dv, dv, dout, p[j], NULL, c->dv);
        kernels->NN.additive_back(dq, dk, dw, q, k, w, ds, c->dk);
    }
}

/* All that adds to the gradients of key head g, in order. */
static void A(backward)(const attn__additive_call *c, size_t g)
{
    size_t group = c->heads / c->key_heads;

    for (size_t segment = 0; segment < c->segments; segment++) {
        size_t first = (size_t)c->k_starts[segment], end = (size_t)c->k_starts[segment + 1];
        size_t from = (size_t)c->q_starts[segment], to = (size_t)c->q_starts[segment + 1];

        for (size_t j = first; j < end; j++) {
            size_t key = j * c->key_heads + g;
            memset((REAL *)c->dkeys + key * c->dk, 0, c->dk * sizeof(REAL));
            memset((REAL *)c->dvalues + key * c->dv, 0, c->dv * sizeof(REAL));
        }
        for (size_t h = g * group; h < (g + 1) * group; h++)
            for (size_t i = from; i < to; i++)
                A(back_row)
        (c, i, h, first, c->causal ? attn__min(end - first, i - from + 1) : end - first);
    }
}

static void A(temper)(const temper_job *t, size_t h)
{
    size_t heads = (size_t)t->r->model->config.heads, n = (size_t)t->r->model->config.dk;
    REAL factor = ((const REAL *)t->factor)[h];
    double sum = 0;

    for (size_t row = 0; row < t->rows; row++) {
        size_t at = (row * heads + h) * n;
        const REAL *x = (const REAL *)t->x + at;
        REAL *out = (REAL *)t->out + at;

        if (t->sum) {
            sum += (double)A(dot)(x, out, n);
            x = out;
        }
        t->r->ctx->kernels->NN.add_scaled(out, NULL, x, factor, NULL, n);
    }
    if (t->sum)
        ((REAL *)t->sum)[h] += (REAL)sum;
}

#undef REAL
#undef A
#undef NN
#undef CORE
