/* layers_real.h: layers.c for one kind of number. */

static inline REAL *L(row)(const attn__rows *m, size_t r)
{
    return m->data ? (REAL *)m->data + (ptrdiff_t)r * m->stride : NULL;
}

static void L(norm_rows)(const attn__norm_call *c, size_t from, size_t to, bool back)
{
    const KERNELS *k = &c->shape.ctx->kernels->TABLE;
    size_t n = c->shape.n;
    bool centre = c->kind == ATTN_NORM_LAYER;
    REAL divisor = c->kind == ATTN_NORM_L2 ? 1 : (REAL)n;
    REAL eps = c->kind == ATTN_NORM_L2 ? 0 : (REAL)c->eps;
    REAL *mean = c->mean, *rstd = c->rstd;

    for (size_t r = from; r < to; r++) {
        if (back)
            k->norm_back(L(row)(&c->dx, r), L(row)(&c->dout, r), L(row)(&c->x, r),
                         L(row)(&c->add, r), n, centre, divisor, c->weight, (REAL)c->plus, mean[r],
                         rstd[r]);
        else
            k->norm(L(row)(&c->out, r), L(row)(&c->x, r), n, centre, divisor, eps, c->weight,
                    (REAL)c->plus, c->bias, &mean[r], &rstd[r]);
    }
}

static void L(norm_columns)(const attn__norm_call *c, size_t from, size_t to)
{
    REAL *dw = c->dweight, *db = c->dbias;

    c->shape.ctx->kernels->TABLE.norm_columns(dw ? dw + from : NULL, db ? db + from : NULL,
                                              (const REAL *)c->dout.data + from, c->dout.stride,
                                              (const REAL *)c->x.data + from, c->x.stride, c->mean,
                                              c->rstd, c->shape.rows, to - from);
}

static void L(sum_columns)(const attn__shape *s, const attn__rows *x, void *sum, size_t from,
                           size_t to)
{
    s->ctx->kernels->TABLE.norm_columns(NULL, (REAL *)sum + from, (const REAL *)x->data + from,
                                        x->stride, NULL, 0, NULL, NULL, s->rows, to - from);
}

static void L(activation_rows)(const attn__activation_call *c, size_t from, size_t to, bool back)
{
    const KERNELS *k = &c->shape.ctx->kernels->TABLE;

    for (size_t r = from; r < to; r++) {
        if (back)
            k->activation_back(L(row)(&c->dx, r), L(row)(&c->dtimes, r), L(row)(&c->dout, r),
                               L(row)(&c->x, r), L(row)(&c->times, r), c->activation, c->shape.n);
        else
            k->activation(L(row)(&c->out, r), L(row)(&c->x, r), L(row)(&c->times, r), c->activation,
                          c->shape.n);
    }
}

static void L(dropout_rows)(const attn__dropout_call *c, size_t from, size_t to)
{
    const attn__kernels *kernels = c->shape.ctx->kernels;
    size_t n = c->shape.n, words = (n + 63) / 64;
    REAL factor = (REAL)(c->rate > 0 ? 1 / (1 - c->rate) : 1);
    uint32_t below = (uint32_t)(c->rate * 0x1p24);

    for (size_t r = from; r < to; r++) {
        uint64_t *bits = c->rate > 0 ? c->bits + r * words : NULL;

        if (bits && c->make) {
            uint32_t at[3] = {c->positions ? (uint32_t)c->positions[r] : (uint32_t)r,
                              c->sequences ? (uint32_t)c->sequences[r] : 0, c->site};
            kernels->drop_bits(bits, n, at, c->seed, below);
        }
        kernels->TABLE.add_scaled(L(row)(&c->out, r), L(row)(&c->add, r), L(row)(&c->x, r), factor,
                                  bits, n);
    }
}

static void L(embedding_rows)(const attn__embedding_call *c, size_t from, size_t to)
{
    const KERNELS *k = &c->shape.ctx->kernels->TABLE;
    size_t n = c->shape.n;

    for (size_t t = from; t < to; t++) {
        REAL *out = L(row)(&c->out, t);
        const REAL *position = L(row)(&c->positions, c->at ? (size_t)c->at[t] : t);

        if (c->id[t] >= 0)
            k->add_scaled(out, position, L(row)(&c->table, (size_t)c->id[t]), (REAL)c->scale, NULL,
                          n);
        else if (position)
            memcpy(out, position, n * sizeof *out);
        else
            memset(out, 0, n * sizeof *out);
        if (c->kinds.data)
            k->add_scaled(out, out, L(row)(&c->kinds, c->kind ? (size_t)c->kind[t] : 0), 1, NULL,
                          n);
    }
}

/* Adds the rows of dout whose row of the table falls to this part. ids NULL: row numbers if
 * `rising`, else 0. */
static void L(scatter_table)(const attn__embedding_call *c, const attn__rows *table,
                             const int32_t *ids, bool rising, REAL scale, size_t part, size_t parts)
{
    for (size_t t = 0; table->data && t < c->shape.rows; t++) {
        size_t id = ids ? (size_t)ids[t] : rising ? t : 0;
        REAL *to;

        if ((ids && ids[t] < 0) || id % parts != part)
            continue;
        to = L(row)(table, id);
        c->shape.ctx->kernels->TABLE.add_scaled(to, to, L(row)(&c->dout, t), scale, NULL,
                                                c->shape.n);
    }
}

static void L(scatter_rows)(const attn__embedding_call *c, size_t part, size_t parts)
{
    L(scatter_table)(c, &c->dtable, c->id, true, (REAL)c->scale, part, parts);
    L(scatter_table)(c, &c->dpositions, c->at, true, 1, part, parts);
    L(scatter_table)(c, &c->dkinds, c->kind, false, 1, part, parts);
}

static void L(rotary_rows)(const attn__rotary_call *c, size_t from, size_t to)
{
    const KERNELS *k = &c->shape.ctx->kernels->TABLE;

    for (size_t r = from; r < to; r++) {
        size_t at = (c->at ? (size_t)c->at[r] : r) * c->pairs;
        const REAL *cosine = (const REAL *)c->cosine + at;
        const REAL *sine = (const REAL *)(c->back ? c->minus_sine : c->sine) + at;

        for (size_t h = 0; h < c->shape.n; h++)
            k->rotate(L(row)(&c->x, r) + (ptrdiff_t)h * c->width, cosine, sine, c->pairs,
                      c->adjacent);
    }
}

#undef REAL
#undef L
#undef KERNELS
#undef TABLE
