/* gate_real.h: gate.c for one kind of number. */

static REAL *L(cell)(const attn__rows *m, size_t r, size_t c)
{
    return (REAL *)m->data + (ptrdiff_t)r * m->stride + c;
}

/* w = e^(z - max), or e^-|z| without a maximum, for up to a tile of rows from `row` on. */
static void L(exponentials)(const attn__gate_call *c, size_t row, size_t n, size_t g,
                            const REAL *max)
{
    REAL tile[attn__tile] = {0};

    for (size_t j = 0; j < n; j++) {
        REAL z = *L(cell)(&c->z, row + j, g);
        tile[j] = max ? z : z > 0 ? -z : z;
    }
    c->shape.ctx->kernels->CORE.weights(tile, 0, attn__tile, ~(uint64_t)0, max ? *max : 0, 1);
    for (size_t j = 0; j < n; j++)
        *L(cell)(&c->w, row + j, g) = tile[j];
}

static void L(softmax)(const attn__gate_call *c, size_t from, size_t to, size_t g)
{
    REAL max = -(REAL)INFINITY, sum = 0;

    for (size_t j = from; j < to; j++)
        max = *L(cell)(&c->z, j, g) > max ? *L(cell)(&c->z, j, g) : max;
    for (size_t j = from; j < to; j += attn__tile)
        L(exponentials)(c, j, attn__min(to - j, attn__tile), g, &max);
    for (size_t j = from; j < to; j++)
        sum += *L(cell)(&c->w, j, g);
    for (size_t j = from; j < to; j++)
        *L(cell)(&c->w, j, g) /= sum;
}

/* Of e = e^-|z|: 1 / (1 + e) for z >= 0, else e / (1 + e). */
static void L(logistic)(const attn__gate_call *c, size_t from, size_t to, size_t g)
{
    for (size_t j = from; j < to; j += attn__tile)
        L(exponentials)(c, j, attn__min(to - j, attn__tile), g, NULL);
    for (size_t j = from; j < to; j++) {
        REAL *w = L(cell)(&c->w, j, g);
        *w = (*L(cell)(&c->z, j, g) < 0 ? *w : 1) / (1 + *w);
    }
}

/* One gate of one sequence. */
static void L(gate_forward)(const attn__gate_call *c, size_t segment, size_t g)
{
    size_t from = (size_t)c->starts[segment], to = (size_t)c->starts[segment + 1];
    REAL *out = L(cell)(&c->out, segment * c->gates + g, 0);

    memset(out, 0, c->shape.n * sizeof *out);
    (c->gate == ATTN_GATE_SOFTMAX ? L(softmax) : L(logistic))(c, from, to, g);
    for (size_t j = from; j < to; j++)
        c->shape.ctx->kernels->TABLE.add_scaled(out, out, L(cell)(&c->x, j, 0),
                                                *L(cell)(&c->w, j, g), NULL, c->shape.n);
}

static REAL L(product)(const REAL *a, const REAL *b, size_t n)
{
    REAL sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

/* softmax: dz = w (dout . x - dout . out); logistic: dz = w (1 - w) dout . x */
static void L(gate_row)(const attn__gate_call *c, size_t segment, size_t j)
{
    size_t n = c->shape.n;
    REAL *dx = c->dx.data ? L(cell)(&c->dx, j, 0) : NULL;

    if (dx)
        memset(dx, 0, n * sizeof *dx);
    for (size_t g = 0; g < c->gates; g++) {
        const REAL *dout = L(cell)(&c->dout, segment * c->gates + g, 0);
        REAL w = *L(cell)(&c->w, j, g);

        if (dx)
            c->shape.ctx->kernels->TABLE.add_scaled(dx, dx, dout, w, NULL, n);
        if (c->dz.data) {
            REAL dw = L(product)(dout, L(cell)(&c->x, j, 0), n);
            bool mean = c->gate == ATTN_GATE_SOFTMAX;
            const REAL *out = L(cell)(&c->out, segment * c->gates + g, 0);

            *L(cell)(&c->dz, j, g) = mean ? w * (dw - L(product)(dout, out, n)) : w * (1 - w) * dw;
        }
    }
}

static void L(gate_backward)(const attn__gate_call *c, size_t from, size_t to)
{
    size_t segment = 0;

    for (size_t j = from; j < to; j++) {
        while ((size_t)c->starts[segment + 1] <= j)
            segment++;
        L(gate_row)(c, segment, j);
    }
}

#undef REAL
#undef L
#undef TABLE
#undef CORE
