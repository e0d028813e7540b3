/* gemm_item.h: one item of a matrix product, for one kind of number; see gemm.h. */

enum { G(WHOLE) = 16 }; /* columns that are whole vectors in every set */

typedef struct G(item) {
    const attn__gemm *g;
    const G(attn__gemm) * k;
    size_t row, rows, column, columns;
    ptrdiff_t a, w, residual, out; /* where the item's (batch, head) begins */
    REAL *scale, *bias;            /* of the item's columns, padded */
    REAL *tiles;                   /* ready for a block of k */
    REAL *left; /* copied rows of a: all of head `copied`, or a few for a while */
    size_t copied;
    REAL *acc;
    ptrdiff_t acc_stride;
} G(item);

static size_t G(cut)(G(item) * it, const attn__gemm *g, char *base)
{
    size_t at = 0, columns = g->item_tiles * attn__tile;
    bool waits = g->k_block < g->k && !(g->sums_in_out && g->n % G(WHOLE) == 0);
    size_t acc_rows = waits ? g->item_rows : attn__group;

    it->g = g;
    it->acc_stride = (ptrdiff_t)columns;
    it->scale = attn__cut(base, &at, columns * sizeof(REAL));
    it->bias = attn__cut(base, &at, columns * sizeof(REAL));
    it->acc = attn__cut(base, &at, acc_rows * columns * sizeof(REAL));
    it->tiles = attn__cut(base, &at, g->makes_tiles ? columns * g->k_block * sizeof(REAL) : 0);
    it->left = attn__cut(base, &at, g->copied_rows * g->left_stride * sizeof(REAL));
    return at;
}

size_t G(attn__gemm_scratch)(const attn__gemm *g)
{
    G(item) it;

    return G(cut)(&it, g, NULL);
}

/* A vector of the item's columns. */
static void G(load_vector)(const G(item) * it, REAL *to, const attn_view *view)
{
    const char *from = view->data;

    if (!attn__present(view))
        return;
    from += (ptrdiff_t)it->column * view->stride[3] * (ptrdiff_t)attn_type_size(view->type);
    KERNELS(it->g->schedule.ctx)
        ->load_rows(to, 0, 1, view->type, from, 0, view->stride[3], it->columns,
                    (it->columns + attn__tile - 1) / attn__tile * attn__tile, 1);
}

/* Rows row .. row + rows - 1 of a, steps k0 .. k0 + steps - 1, into `left`. */
static void G(copy_rows)(const G(item) * it, size_t row, size_t rows, size_t k0, size_t steps)
{
    const attn__gemm *g = it->g;
    const void *a = attn__at(&g->a, it->a + (ptrdiff_t)row * g->a.row + (ptrdiff_t)k0 * g->a.col);

    if (g->a.row == 1)
        it->k->load_columns(it->left, (ptrdiff_t)g->left_stride, rows, steps, g->a.type, a,
                            g->a.col);
    else
        KERNELS(g->schedule.ctx)
            ->load_rows(it->left, (ptrdiff_t)g->left_stride, rows, g->a.type, a, g->a.row, g->a.col,
                        steps, steps, 1);
}

static void G(open)(G(item) * it, const attn__item *item)
{
    const attn__gemm *g = it->g;
    size_t columns = item->index;
    ptrdiff_t h = (ptrdiff_t)(item->head / g->row_blocks % g->heads);
    ptrdiff_t b = (ptrdiff_t)(item->head / g->row_blocks / g->heads);

    it->row = item->head % g->row_blocks * g->item_rows;
    it->rows = g->m - it->row < g->item_rows ? g->m - it->row : g->item_rows;
    it->column = columns * g->item_tiles * attn__tile;
    it->columns = g->n - it->column < g->item_tiles * attn__tile ? g->n - it->column
                                                                 : g->item_tiles * attn__tile;
    it->a = b * g->a.batch + h * g->a.head;
    it->w = b * g->w.batch + h * g->w.head;
    it->residual = b * g->residual.batch + h * g->residual.head;
    it->out = b * g->out.batch + h * g->out.head;
    G(load_vector)(it, it->scale, &g->args.scale);
    G(load_vector)(it, it->bias, &g->args.bias);
    if (g->copies_whole && it->copied != item->head) {
        G(copy_rows)(it, it->row, it->rows, 0, g->k);
        it->copied = item->head;
    }
}

/* Tiles for steps k0 .. k0 + steps - 1. */
static void G(make_tiles)(const G(item) * it, size_t k0, size_t steps)
{
    const attn__gemm *g = it->g;
    const attn_packed *packed = g->args.packed;

    for (size_t c = 0; c < it->columns; c += attn__tile) {
        size_t n = it->columns - c < attn__tile ? it->columns - c : attn__tile;
        size_t tile = (it->column + c) / attn__tile;
        REAL *to = it->tiles + c * g->k_block;

        if (packed)
            it->k->widen(to, n, steps, packed->type, packed->tiles + tile * packed->tile_size, g->k,
                         k0);
        else
            it->k->pack(to, n, steps, g->w.type,
                        attn__at(&g->w, it->w + (ptrdiff_t)(it->column + c) * g->w.row +
                                            (ptrdiff_t)k0 * g->w.col),
                        g->w.row, g->w.col);
    }
}

static const REAL *G(ready_tile)(const attn__gemm *g, ptrdiff_t column)
{
    const attn_packed *packed = g->args.packed;

    return (const REAL *)(packed->tiles + (size_t)column / attn__tile * packed->tile_size);
}

/* Up to six rows past all tiles. */
static void G(rows)(const G(item) * it, size_t row, size_t rows, const REAL *a, ptrdiff_t a_stride,
                    size_t k0, size_t steps)
{
    const attn__gemm *g = it->g;
    ptrdiff_t r = (ptrdiff_t)(it->row + row);

    for (size_t c = 0; c < it->columns; c += attn__tile) {
        size_t n = it->columns - c < attn__tile ? it->columns - c : attn__tile;
        ptrdiff_t column = (ptrdiff_t)(it->column + c), acc_stride = it->acc_stride;
        void *out = attn__at(&g->out, it->out + r * g->out.row + column * g->out.col);
        bool in_out = g->sums_in_out && n % G(WHOLE) == 0;
        REAL *acc = out;

        if (in_out)
            acc_stride = g->out.row;
        else
            acc = it->acc + (g->k_block < g->k ? (ptrdiff_t)row * acc_stride : 0) + c;
        if (g->thin)
            it->k->thin(acc, acc_stride, rows, n, a, a_stride, g->w.type,
                        attn__at(&g->w, it->w + column * g->w.row), g->w.row, steps);
        else if (g->makes_tiles)
            it->k->tile(acc, acc_stride, rows, n, a, a_stride, it->tiles + c * g->k_block, steps, 0,
                        steps, k0 > 0);
        else
            it->k->tile(acc, acc_stride, rows, n, a, a_stride, G(ready_tile)(g, column), g->k, k0,
                        steps, k0 > 0);
        if (k0 + steps == g->k && !(in_out && g->only_sums))
            it->k->finish(&g->epilogue, out,
                          attn__at(&g->residual,
                                   it->residual + r * g->residual.row + column * g->residual.col),
                          attn__present(&g->args.scale) ? it->scale + c : NULL,
                          attn__present(&g->args.bias) ? it->bias + c : NULL, acc, acc_stride, rows,
                          n);
    }
}

/* Sixes, the last seven to eleven rows in halves: one row alone would wait for its own chain. */
static size_t G(next_rows)(size_t left)
{
    return left <= attn__group ? left : left < 2 * attn__group ? (left + 1) / 2 : attn__group;
}

static void G(block)(const G(item) * it, size_t k0, size_t steps)
{
    const attn__gemm *g = it->g;
    bool copies = g->copies_a && !g->copies_whole;
    size_t chunk = copies ? g->copied_rows : it->rows;

    if (g->makes_tiles)
        G(make_tiles)(it, k0, steps);
    for (size_t from = 0; from < it->rows; from += chunk) {
        size_t end = it->rows - from < chunk ? it->rows : from + chunk;
        const REAL *left = it->left + (g->copies_whole ? k0 : 0);
        ptrdiff_t stride = g->copies_a ? (ptrdiff_t)g->left_stride : g->a.row;

        if (copies)
            G(copy_rows)(it, it->row + from, end - from, k0, steps);
        if (!g->copies_a)
            left = (const REAL *)attn__at(&g->a, it->a + (ptrdiff_t)it->row * stride +
                                                     (ptrdiff_t)k0 * g->a.col);
        for (size_t r = from, n; r < end; r += n, left += (ptrdiff_t)n * stride) {
            n = G(next_rows)(end - r);
            G(rows)(it, r, n, left, stride, k0, steps);
        }
    }
}

void G(attn__gemm_work)(attn__gemm *g, size_t worker)
{
    G(item) it = {.k = &g->schedule.ctx->kernels->G(gemm), .copied = SIZE_MAX};
    attn__item item;

    G(cut)(&it, g, g->scratch + worker * g->scratch_size);
    while (attn__claim(&g->schedule, &item)) {
        size_t k0 = 0, steps;

        G(open)(&it, &item);
        do { /* once even if k is 0 */
            steps = g->k - k0 < g->k_block ? g->k - k0 : g->k_block;
            G(block)(&it, k0, steps);
            k0 += steps;
        } while (k0 < g->k);
        attn__item_done(&g->schedule, &item);
    }
}

#undef REAL
#undef G
#undef KERNELS
