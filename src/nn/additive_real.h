/* additive_real.h: additive.c for one kind of number. */

static REAL *A(at)(const attn__grid *g, size_t row, size_t head)
{
    return (REAL *)g->data + (ptrdiff_t)row * g->row + (ptrdiff_t)head * g->head;
}

/* p[j] = e^(p[j] - max). The kernel takes whole tiles. */
static void A(exponentials)(const attn__additive_call *c, REAL *p, size_t n, REAL max)
{
    const attn__kernels *kernels = c->ctx->kernels;
    size_t whole = n / attn__tile * attn__tile;
    REAL last[attn__tile] = {0};

    for (size_t j = 0; j < whole; j += attn__tile)
        kernels->CORE.weights(p + j, 0, attn__tile, ~(uint64_t)0, max, 1);
    if (whole == n)
        return;
    memcpy(last, p + whole, (n - whole) * sizeof *p);
    kernels->CORE.weights(last, 0, attn__tile, ((uint64_t)1 << (n - whole)) - 1, max, 1);
    memcpy(p + whole, last, (n - whole) * sizeof *p);
}

static void A(weigh)(const attn__additive_call *c, REAL *p, size_t n, const REAL *q, size_t first,
                     size_t g, const REAL *w)
{
    const attn__kernels *kernels = c->ctx->kernels;
    REAL max = -(REAL)INFINITY, sum = 0;

    for (size_t j = 0; j < n; j++) {
        p[j] = kernels->NN.additive(q, A(at)(&c->k, first + j, g), w, c->dk);
        max = p[j] > max ? p[j] : max;
    }
    A(exponentials)(c, p, n, max);
    for (size_t j = 0; j < n; j++)
        sum += p[j];
    kernels->NN.add_scaled(p, NULL, p, 1 / sum, NULL, n);
}

static void A(forward)(const attn__additive_call *c, size_t segment, size_t h)
{
    const attn__kernels *kernels = c->ctx->kernels;
    size_t g = h / (c->heads / c->key_heads);
    size_t first = (size_t)c->k_starts[segment], keys = keys_of(c, segment);
    size_t from = (size_t)c->q_starts[segment], to = (size_t)c->q_starts[segment + 1];

    for (size_t i = from; i < to; i++) {
        size_t n = c->causal ? attn__min(keys, i - from + 1) : keys;
        REAL *p = A(at)(&c->p, i, h), *out = A(at)(&c->out, i, h);

        memset(out, 0, c->dv * sizeof *out);
        memset(p + n, 0, (c->longest - n) * sizeof *p);
        if (n == 0)
            continue;
        A(weigh)(c, p, n, A(at)(&c->q, i, h), first, g, (const REAL *)c->w + h * c->dk);
        for (size_t j = 0; j < n; j++)
            kernels->NN.add_scaled(out, out, A(at)(&c->v, first + j, g), p[j], NULL, c->dv);
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
    size_t g = h / (c->heads / c->key_heads);
    const REAL *p = A(at)(&c->p, i, h), *dout = A(at)(&c->dout, i, h);
    const REAL *q = A(at)(&c->q, i, h), *w = (const REAL *)c->w + h * c->dk;
    REAL delta = A(dot)(dout, A(at)(&c->out, i, h), c->dv);
    REAL *dq = A(at)(&c->dq, i, h), *dw = (REAL *)c->dw + h * c->dk;

    memset(dq, 0, c->dk * sizeof *dq);
    for (size_t j = first; j < first + n; j++) {
        REAL ds = p[j - first] * (A(dot)(dout, A(at)(&c->v, j, g), c->dv) - delta);
        REAL *dv = A(at)(&c->dvalues, j, g);

        kernels->NN.add_scaled(dv, dv, dout, p[j - first], NULL, c->dv);
        kernels->NN.additive_back(dq, A(at)(&c->dkeys, j, g), dw, q, A(at)(&c->k, j, g), w, ds,
                                  c->dk);
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
            memset(A(at)(&c->dkeys, j, g), 0, c->dk * sizeof(REAL));
            memset(A(at)(&c->dvalues, j, g), 0, c->dv * sizeof(REAL));
        }
        for (size_t h = g * group; h < (g + 1) * group; h++)
            for (size_t i = from; i < to; i++) {
                size_t n = c->causal ? attn__min(end - first, i - from + 1) : end - first;
                A(back_row)(c, i, h, first, n);
            }
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
