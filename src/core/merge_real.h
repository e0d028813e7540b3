/* merge_real.h: merging the records of one row, for one kind of number; see merge.c. Works through
 * a row in pieces of 256 columns, so that no memory is needed; the reference and the sum come out
 * the same for each piece. */
enum { E(PIECE) = 256 };

static void E(merge_row)(const merge_job *m, int64_t b, int64_t h, int64_t i)
{
    const attn_merge_args *a = &m->args;
    REAL piece[E(PIECE)], next[E(PIECE)], max = 0, sum = 0, sink = -(REAL)INFINITY;

    if (attn__present(&a->sink))
        sink = (REAL)attn__read(&a->sink, b, h, 0);
    for (size_t c = 0; c < m->dv; c += E(PIECE)) {
        size_t cols = m->dv - c < E(PIECE) ? m->dv - c : E(PIECE), width = (cols + 15) / 16 * 16;

        for (size_t part = 0; part < a->count; part++) {
            const attn_partial *r = &a->parts[part];
            REAL max2 = *(const REAL *)attn__cell(&r->max, b, h, i);
            REAL sum2 = *(const REAL *)attn__cell(&r->sum, b, h, i);
            const REAL *row =
                (const REAL *)attn__cell(&r->out, b, h, i) + (ptrdiff_t)c * r->out.stride[3];
            size_t held = sum2 == 0 ? 0 : cols; /* an empty record may hold anything */
            KERNELS(m->ctx)->load_rows(part == 0 ? piece : next, 0, 1, REAL_TYPE, row, 0,
                                       r->out.stride[3], held, width, 1);
            if (part == 0) {
                max = sum2 == 0 ? -(REAL)INFINITY : max2;
                sum = sum2;
            } else {
                KERNELS(m->ctx)->merge(piece, &max, &sum, next, max2, sum2, width);
            }
        }
        if (sink != -(REAL)INFINITY)
            KERNELS(m->ctx)->merge(piece, &max, &sum, NULL, sink, 1, width);
        if (a->partial) {
            REAL *to = (REAL *)attn__cell(&m->into.out, b, h, i);
            KERNELS(m->ctx)->store_row(to + (ptrdiff_t)c * m->into.out.stride[3], REAL_TYPE,
                                       m->into.out.stride[3], piece, cols, 1);
        }
        if (attn__present(&a->out)) {
            char *to = attn__cell(&a->out, b, h, i);
            KERNELS(m->ctx)->store_row(
                to + (ptrdiff_t)c * a->out.stride[3] * attn__element_size(a->out.type), a->out.type,
                a->out.stride[3], piece, cols, E(row_factor)(max, sum));
        }
    }
    if (a->partial) {
        *(REAL *)attn__cell(&m->into.max, b, h, i) = max;
        *(REAL *)attn__cell(&m->into.sum, b, h, i) = sum;
    }
    if (attn__present(&a->lse))
        attn__write(&a->lse, b, h, i, attn__row_lse((double)max, (double)sum));
}

#undef REAL
#undef E
#undef REAL_TYPE
#undef KERNELS
