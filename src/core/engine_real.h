/* engine_real.h: attention of one work item, for one kind of number. Included by engine.c, once
 * with REAL float and once with double; E(name) is a function's own name.
 *
 * An item is a block of query rows of one key head (rows of all its query heads, head by head),
 * over all keys that any of the rows may see:
 *
 *     for each split of 512 positions:       a partial result is opened ...
 *         for each tile of 64 positions:     keys packed, values at hand
 *             for each group of 6 rows:      scores -> changed -> weights -> added to out
 *         ... closed, and merged with what came before
 *     divided by the sums, written
 *
 * Tiles and splits lie on the grid of key positions, so a row meets the same tiles whatever block,
 * batch or cache it is part of. In a split-key call an item is one split over all rows, and the
 * worker that ends last merges the records of the head. */

#include "src/core/tile_real.h"

/* --- one group of rows against one tile ----------------------------------------------------- */

/* What the structural masks leave of the tile to row r. */
static uint64_t E(allowed)(const E(work) * w, size_t r)
{
    const attn__problem *p = w->p;
    const E(tile) *t = &w->tile;
    uint64_t bits = lanes(w->low[r] - t->pos, w->high[r] - t->pos) & t->keep;

    if (bits && p->mask.blocks.start &&
        !attn__block_visible(p, w->b, w->head[r], w->seq.q_pos + w->row[r], t->pos))
        return 0;
    if (bits && p->has_keep && !p->keep_repeats)
        bits &= E(keep_bits)(w, r);
    return bits;
}

static uint64_t E(add_bias)(E(work) * w, size_t r, REAL *s, size_t c0, size_t c1)
{
    const attn__problem *p = w->p;
    const attn_view *bias = &p->mask.bias;
    const E(tile) *t = &w->tile;
    int64_t column = w->seq.column + t->pos + t->first - w->seq.k_pos;
    ptrdiff_t stride = bias->size[3] > 1 ? bias->stride[3] : 0;
    ptrdiff_t size = attn__element_size(bias->type);
    size_t held = (size_t)(t->end - t->first);
    const char *row = attn__cell(bias, (int64_t)w->b, (int64_t)w->head[r], w->row[r]);

    row += column * stride * size;
    for (ptrdiff_t line = 0; line < attn__tile * size; line += 64) /* what the next group adds */
        ATTN__PREFETCH_NEAR((uintptr_t)row +
                            (uintptr_t)(attn__group * bias->stride[2] * size + line));
    if (bias->type == REAL_TYPE && stride == 1 && held == attn__tile)
        return w->k->add_bias(s, (const REAL *)row, c0, c1);
    memset(w->bias, 0, attn__tile * sizeof *w->bias);
    w->k->load_rows(w->bias + t->first, 0, 1, bias->type, row, 0, stride, held, held, 1);
    return w->k->add_bias(s, w->bias, c0, c1);
}

/* How many of the `most` rows from r on follow one another in one head. */
static size_t E(neighbours)(const E(work) * w, size_t r, size_t most)
{
    size_t n = 1;

    while (n < most && w->head[r + n] == w->head[r] && w->row[r + n] == w->row[r] + (int64_t)n)
        n++;
    return n;
}

/* What the caller's tile function is told of rows r0 .. r0+n-1, which follow one another in one
 * head: their cells in columns c0..c1-1 that hold keys. */
static attn_tile E(describe_tile)(const E(work) * w, size_t r0, size_t n, REAL *s, size_t c0,
                                  size_t c1)
{
    const E(tile) *t = &w->tile;
    int64_t first = t->first > (int)c0 ? t->first : (int)c0;
    int64_t end = t->end < (int)c1 ? t->end : (int)c1;

    return (attn_tile){
        .batch = (int64_t)w->b,
        .head = (int64_t)w->head[r0],
        .q_row = w->row[r0],
        .k_row = w->seq.column + t->pos + first - w->seq.k_pos,
        .q_pos = w->seq.q_pos + w->row[r0],
        .k_pos = t->pos + first,
        .rows = (int64_t)n,
        .cols = end - first,
        .stride = attn__tile,
        .logits = s + first,
        .type = REAL_TYPE,
    };
}

/* Calls the caller's tile function on these rows. */
static void E(call_tile)(E(work) * w, size_t r0, size_t n, REAL *s, uint64_t *allow, size_t c0,
                         size_t c1)
{
    const attn__problem *p = w->p;
    attn_tile tile = E(describe_tile)(w, r0, n, s, c0, c1);

    p->mask.tile(p->mask.tile_user, &tile);
    for (size_t r = 0; r < n; r++)
        allow[r] &= ~w->k->find_minus_inf(s + r * attn__tile, c0, c1);
}

/* Softcap, bias, ALiBi, tile function, in this order; takes from allow what they mask. */
static void E(change_scores)(E(work) * w, size_t g, size_t mr, uint64_t *allow, size_t c0,
                             size_t c1)
{
    const attn__problem *p = w->p;
    const attn_mask *m = &p->mask;

    if (w->raw)
        memcpy(w->raw, w->s, mr * attn__tile * sizeof *w->s);
    if (p->args.softcap > 0)
        w->k->softcap(w->s, mr, c0, c1, (REAL)p->args.softcap);
    if (w->capped)
        memcpy(w->capped, w->s, mr * attn__tile * sizeof *w->s);
    for (size_t r = 0; r < mr; r++) {
        REAL *s = w->s + r * attn__tile;
        if (p->has_bias)
            allow[r] &= E(add_bias)(w, g + r, s, c0, c1);
        if (p->has_alibi)
            w->k->add_alibi(s, c0, c1,
                            (REAL)attn__read(&m->alibi, (int64_t)w->b, (int64_t)w->head[g + r], 0),
                            (REAL)(w->seq.q_pos + w->row[g + r] - w->tile.pos));
    }
    if (w->untiled)
        memcpy(w->untiled, w->s, mr * attn__tile * sizeof *w->s);
    for (size_t r = 0; m->tile && r < mr;) {
        size_t n = E(neighbours)(w, g + r, mr - r);
        E(call_tile)(w, g + r, n, w->s + r * attn__tile, allow + r, c0, c1);
        r += n;
    }
}

/* Final logits of rows g .. g+mr-1 into w->s. allow[r] gets the lanes that row r attends. False if
 * the group sees nothing of the tile. */
static bool E(logits)(E(work) * w, size_t g, size_t mr, uint64_t *allow, extent *c)
{
    const attn__problem *p = w->p;
    const E(range) *range = &w->range[g / attn__group];
    int64_t pos = w->tile.pos;
    bool alike = (range->low == range->all_low && range->high == range->all_high) ||
                 (range->all_low <= pos && pos + attn__tile <= range->all_high);

    if (alike && !p->masks_cells) { /* rows that see the same keys, of this tile at least */
        c->any = c->all = lanes(range->all_low - pos, range->all_high - pos);
        for (size_t r = 0; r < mr; r++)
            allow[r] = c->all;
    } else {
        for (size_t r = 0; r < mr; r++)
            allow[r] = E(allowed)(w, g + r);
        sum_up(c, allow, mr);
    }
    if (!c->any)
        return false;
    c->c0 = (size_t)lowest(c->any) / 16 * 16;
    c->c1 = (size_t)highest(c->any) / 16 * 16 + 16;
    w->k->scores(w->s, mr, w->q + g * w->q_stride, (ptrdiff_t)w->q_stride, w->tile.key_type,
                 w->tile.keys, w->tile.key_scale, p->d, c->c0, c->c1, w->tile.fresh_keys);
    w->tile.fresh_keys = false;
    if (p->changes_scores) {
        E(change_scores)(w, g, mr, allow, c->c0, c->c1);
        sum_up(c, allow, mr);
    }
    return true;
}

/* out += weights x values. A value row that holds NaN or infinity must not meet the zero weight of
 * a row that may not see it: such tiles go row by row over the runs of keys that each row sees. For
 * finite values both ways give the same bits, as adding +-0 to a sum that began at +0 changes
 * nothing. */
static void E(add_values)(E(work) * w, size_t g, size_t mr, const uint64_t *allow, const extent *c)
{
    E(tile) *t = &w->tile;
    uint64_t span, unsafe = 0;
    int k0, k1;

    if (!c->any)
        return;
    k0 = lowest(c->any);
    k1 = highest(c->any) + 1;
    span = lanes(k0, k1);
    if ((c->all & span) != span) {
        if (!t->looked)
            E(look_at_values)(w);
        unsafe = t->bad & span & ~c->all;
    }
    if (!unsafe) {
        E(multiply_values)(w, g, mr, w->s, k0, k1);
        return;
    }
    for (size_t r = 0; r < mr; r++) {
        for (uint64_t left = allow[r]; left;) {
            int from = lowest(left), to = from;
            while (to < attn__tile && left >> to & 1)
                to++;
            E(multiply_values)(w, g + r, 1, w->s + r * attn__tile, from, to);
            left &= ~lanes(from, to);
        }
    }
}

static void E(visit_group)(E(work) * w, size_t g, size_t mr)
{
    const attn__problem *p = w->p;
    uint64_t allow[attn__group], needed;
    const uint64_t *some;
    extent c;

    if (!E(logits)(w, g, mr, allow, &c))
        return;
    needed = lanes((int64_t)c.c0, (int64_t)c.c1);
    some = (c.all & needed) == needed ? NULL : allow;
    if (p->row_stats)
        p->ctx->kernels->E(stats).softmax_stats(
            w->s, mr, c.c0, c.c1, some, w->open.max + g, w->sums + g, w->open.out + g * p->width,
            (ptrdiff_t)p->width, p->width, w->moments + g, w->open.peak + g, w->open.peak_pos + g,
            w->tile.pos);
    else
        w->k->softmax(w->s, mr, c.c0, c.c1, some, w->open.max + g, w->sums + g,
                      w->open.out + g * p->width, (ptrdiff_t)p->width, p->width);
    if (!p->width)
        return;
    for (size_t r = 0; p->drop_below && r < mr; r++)
        if (allow[r])
            w->k->drop(w->s + r * attn__tile, c.c0, c.c1,
                       attn__dropout_bits(p, w->b, w->head[g + r], w->seq.q_pos + w->row[g + r],
                                          w->tile.pos),
                       (REAL)(1 / (1 - p->args.dropout)));
    E(add_values)(w, g, mr, allow, &c);
}

/* --- an item -------------------------------------------------------------------------------- */

static size_t E(group_rows)(const E(work) * w, size_t g)
{
    return w->rows - g < attn__group ? w->rows - g : attn__group;
}

/* Calls visit for each tile of one split that some group sees, and each such group. */
static void E(sweep_split)(E(work) * w, int64_t split, void (*visit)(E(work) *, size_t, size_t))
{
    int64_t t = split * (attn__split / attn__tile), end = t + attn__split / attn__tile;

    for (; t < end; t++) {
        int64_t pos = t * attn__tile;
        bool have = false;
        for (size_t g = 0; g < w->rows; g += attn__group) {
            const E(range) *range = &w->range[g / attn__group];
            if (range->low >= pos + attn__tile || range->high <= pos || range->low >= range->high)
                continue;
            if (!have && w->l->shared)
                E(need_split)(w, split);
            if (!have && !E(set_tile)(w, t))
                break;
            have = true;
            visit(w, g, E(group_rows)(w, g));
        }
    }
}

/* Splits first .. last that the rows see; none if first > last. */
static void E(visible_splits)(const E(work) * w, int64_t *first, int64_t *last)
{
    int64_t low = INT64_MAX, high = INT64_MIN;

    for (size_t g = 0; g < w->rows; g += attn__group) {
        const E(range) *range = &w->range[g / attn__group];
        low = range->low < low ? range->low : low;
        high = range->high > high ? range->high : high;
    }
    *first = 0;
    *last = -1;
    if (low < high) {
        *first = low / attn__split;
        *last = (high - 1) / attn__split;
    }
}

static void E(open_record)(E(work) * w)
{
    size_t width = w->p->width;

    memset(w->open.out, 0, w->rows * width * sizeof(REAL));
    memset(w->sums, 0, w->rows * sizeof *w->sums);
    for (size_t r = 0; r < w->rows; r++)
        w->open.max[r] = -(REAL)INFINITY;
    if (!w->p->row_stats)
        return;
    memset(w->moments, 0, w->rows * sizeof *w->moments);
    for (size_t r = 0; r < w->rows; r++) { /* only what exceeds the records before matters */
        w->open.peak[r] = w->has_total ? w->total.peak[r] : -(REAL)INFINITY;
        w->open.peak_pos[r] = w->has_total ? w->total.peak_pos[r] : -1;
    }
}

static void E(close_record)(E(work) * w)
{
    for (size_t r = 0; r < w->rows; r++)
        w->open.sum[r] = w->k->row_sum(w->sums[r]);
    for (size_t r = 0; w->p->row_stats && r < w->rows; r++)
        w->open.moment[r] = w->k->row_sum(w->moments[r]);
}

/* Row r of two records, whose moments and peaks become one; before the rest of them does. */
static void E(merge_row_stats)(const E(work) * w, E(record) * into, const E(record) * next,
                               size_t r)
{
    const E(attn__stats) *k = &w->p->ctx->kernels->E(stats);
    REAL max = next->max[r] > into->max[r] ? next->max[r] : into->max[r];
    REAL sum = into->sum[r], sum2 = next->sum[r], moment2 = next->moment[r];

    if (sum2 == 0)
        return;
    k->move_moment(&into->moment[r], &sum, into->max[r], max);
    k->move_moment(&moment2, &sum2, next->max[r], max);
    into->moment[r] += moment2;
    if (next->peak[r] > into->peak[r]) {
        into->peak[r] = next->peak[r];
        into->peak_pos[r] = next->peak_pos[r];
    }
}

static void E(merge_records)(const E(work) * w, E(record) * into, const E(record) * next)
{
    size_t width = w->p->width;

    for (size_t r = 0; r < w->rows; r++) {
        if (w->p->row_stats)
            E(merge_row_stats)(w, into, next, r);
        w->k->merge(into->out + r * width, &into->max[r], &into->sum[r], next->out + r * width,
                    next->max[r], next->sum[r], width);
    }
}

/* The open record, closed, joins the total; the first one becomes it. */
static void E(add_to_total)(E(work) * w)
{
    if (w->has_total) {
        E(merge_records)(w, &w->total, &w->open);
    } else {
        E(record) swap = w->total;
        w->total = w->open;
        w->open = swap;
        w->has_total = true;
    }
}

static void E(load_start)(E(work) * w)
{
    const attn__problem *p = w->p;
    const attn_partial *s = &p->start;

    for (size_t r = 0; r < w->rows; r++) {
        int64_t b = w->seq.q_batch, h = (int64_t)w->head[r], i = w->seq.q_row + w->row[r];
        REAL sum = *(const REAL *)attn__cell(&s->sum, b, h, i);
        /* A row that does not exist has no past either; an empty record may hold anything. */
        if (w->row[r] >= w->seq.live_rows || sum == 0) {
            memset(w->total.out + r * p->width, 0, p->width * sizeof(REAL));
            w->total.max[r] = -(REAL)INFINITY;
            w->total.sum[r] = 0;
            continue;
        }
        w->k->load_rows(w->total.out + r * p->width, 0, 1, REAL_TYPE, attn__cell(&s->out, b, h, i),
                        0, s->out.stride[3], p->width ? p->dv : 0, p->width, 1);
        w->total.max[r] = *(const REAL *)attn__cell(&s->max, b, h, i);
        w->total.sum[r] = sum;
    }
    w->has_total = true;
}

static void E(set_ranges)(E(work) * w)
{
    for (size_t g = 0; g < w->rows; g += attn__group) {
        E(range) range = {INT64_MAX, INT64_MIN, INT64_MIN, INT64_MAX};

        for (size_t r = g; r < g + E(group_rows)(w, g); r++) {
            int64_t low = w->low[r], high = w->high[r];
            range.all_low = low > range.all_low ? low : range.all_low;
            range.all_high = high < range.all_high ? high : range.all_high;
            if (low == high)
                continue;
            range.low = low < range.low ? low : range.low;
            range.high = high > range.high ? high : range.high;
        }
        w->range[g / attn__group] = range;
    }
}

/* Rows r0 .. of the key head: query head, row, visible keys. */
static void E(place_rows)(E(work) * w, size_t r0, size_t rows)
{
    const attn__problem *p = w->p;
    size_t per_head = (size_t)w->seq.rows;
    bool moves = p->mask.causal || p->mask.window;
    size_t head = w->key_head * p->group + r0 / per_head;
    int64_t row = (int64_t)(r0 % per_head), low = 0, high = 0;

    w->rows = rows;
    for (size_t r = 0; r < rows; r++) {
        if (moves || r == 0 || row == 0 || row == w->seq.live_rows)
            attn__visible_range(p, &w->seq, row, &low, &high);
        w->head[r] = head;
        w->row[r] = row;
        w->low[r] = low;
        w->high[r] = high;
        if (++row == w->seq.rows) {
            row = 0;
            head++;
        }
    }
    E(set_ranges)(w);
}

/* The rows of `view` that belong to the rows at hand, widened, times a factor. */
static void E(load_block)(const E(work) * w, REAL *to, const attn_view *view, size_t cols,
                          size_t padded, REAL factor)
{
    for (size_t r = 0; r < w->rows;) { /* up to the end of a head, rows are a stride apart */
        size_t n = (size_t)(w->seq.rows - w->row[r]);

        n = n < w->rows - r ? n : w->rows - r;
        w->k->load_rows(
            to + r * padded, (ptrdiff_t)padded, n, view->type,
            attn__cell(view, w->seq.q_batch, (int64_t)w->head[r], w->seq.q_row + w->row[r]),
            view->stride[2], view->stride[3], cols, padded, factor);
        r += n;
    }
}

static void E(set_rows)(E(work) * w, size_t r0, size_t rows)
{
    const attn__problem *p = w->p;

    E(place_rows)(w, r0, rows);
    E(load_block)(w, w->q, &p->args.q, p->d, p->d, (REAL)p->args.scale);
}

static void E(write_partial)(E(work) * w)
{
    const attn_partial *to = &w->p->partial;

    for (size_t r = 0; r < w->rows; r++) {
        int64_t b = w->seq.q_batch, h = (int64_t)w->head[r], i = w->seq.q_row + w->row[r];
        w->k->store_row(attn__cell(&to->out, b, h, i), REAL_TYPE, to->out.stride[3],
                        w->total.out + r * w->p->width, w->p->dv, 1);
        *(REAL *)attn__cell(&to->max, b, h, i) = w->total.max[r];
        *(REAL *)attn__cell(&to->sum, b, h, i) = w->total.sum[r];
    }
}

/* sum of dout * out of row r, from its sums. */
static REAL E(finished_delta)(const E(work) * w, size_t r, const REAL *sums)
{
    const attn__problem *p = w->p;
    const attn_view *by = &p->args.dout;

    w->k->load_rows(w->dout, 0, 1, by->type,
                    attn__cell(by, w->seq.q_batch, (int64_t)w->head[r], w->seq.q_row + w->row[r]),
                    0, by->stride[3], p->dv, p->width, 1);
    return w->factor[r] * p->ctx->kernels->E(gradient).dot(sums, w->dout, p->width);
}

/* Entropy and peak of row r. With the weights w = e^(t - max) of its keys, their sum l, and L with
 * the sink's:
 *
 *     -sum P ln P = -sum w/L (t - max - ln L) = (l ln L - moment) / L */
static void E(write_row_stats)(E(work) * w, size_t r, REAL l, REAL moment)
{
    const attn__problem *p = w->p;
    const attn_stats *to = &p->stats;
    int64_t b = w->seq.q_batch, h = (int64_t)w->head[r], i = w->seq.q_row + w->row[r];
    int64_t pos = w->total.peak_pos[r];
    double all = (double)w->total.sum[r], entropy = 0, broken = (double)w->factor[r];
    ATTN__ALIGNED(64) REAL peak[16] = {w->total.peak[r]};

    w->k->weights(peak, 0, 16, pos >= 0, w->total.max[r], w->factor[r]);
    if (l > 0)
        entropy = ((double)l * attn__log(all) - (double)moment) / all;
    if (broken != broken) {
        entropy = broken;
        peak[0] = (REAL)broken;
        pos = -1;
    }
    if (attn__present(&to->entropy))
        attn__put(&to->entropy, b, h, i, 0, entropy < 0 ? 0 : entropy);
    if (attn__present(&to->peak))
        attn__put(&to->peak, b, h, i, 0, (double)peak[0]);
    if (attn__present(&to->peak_key))
        attn__put_index(&to->peak_key, b, h, i, 0,
                        pos < 0 ? -1 : w->seq.column + pos - w->seq.k_pos);
}

/* Sink, division, outputs. */
static void E(finish)(E(work) * w)
{
    const attn__problem *p = w->p;
    const attn_forward_args *a = &p->args;
    const attn_view *out = &a->out;
    ptrdiff_t step = out->stride[2] * attn__element_size(out->type);
    char *to = NULL;

    for (size_t r = 0; r < w->rows; r++) {
        int64_t b = w->seq.q_batch, h = (int64_t)w->head[r], i = w->seq.q_row + w->row[r];
        REAL *from = w->total.out + r * p->width, *max = &w->total.max[r], *sum = &w->total.sum[r];
        REAL sink = -(REAL)INFINITY, before = *max, keys = *sum;
        bool empty = *sum == 0;

        if (p->has_sink)
            sink = (REAL)attn__read(&a->sink, (int64_t)w->b, h, 0);
        if (sink != -(REAL)INFINITY)
            w->k->merge(from, max, sum, NULL, sink, 1, p->width);
        w->factor[r] = E(row_factor)(*max, *sum);
        if (p->row_stats) {
            REAL moment = w->total.moment[r];
            if (before != *max)
                p->ctx->kernels->E(stats).move_moment(&moment, &keys, before, *max);
            E(write_row_stats)(w, r, keys, moment);
        }
        if (w->kept_max) {
            size_t at = attn__row_index(p, &w->seq, (size_t)h, w->row[r]);
            w->kept_max[at] = *max;
            w->kept_factor[at] = w->factor[r];
        }
        if (p->has_out) {
            to = r > 0 && w->row[r] > 0 ? to + step : attn__cell(out, b, h, i);
            for (int64_t at = 0; at < (int64_t)p->dv * attn__element_size(out->type); at += 64)
                ATTN__PREFETCH_WRITE((uintptr_t)to + (uintptr_t)(4 * step + at));
            w->k->store_row(to, out->type, out->stride[3], from, p->dv, w->factor[r]);
        }
        if (p->has_delta)
            attn__write(&a->delta, b, h, i, /* of an empty row, whatever dout holds */
                        empty ? 0 : (double)E(finished_delta)(w, r, from));
        if (p->has_lse)
            attn__write(&a->lse, b, h, i, attn__row_lse((double)*max, (double)*sum));
    }
}

/* Second sweep: weights of a group from the final max and sum, into the caller's array. */
static void E(visit_weights)(E(work) * w, size_t g, size_t mr)
{
    const attn__problem *p = w->p;
    const attn_view *to = &p->args.weights;
    const E(tile) *t = &w->tile;
    uint64_t allow[attn__group];
    extent c;

    if (!E(logits)(w, g, mr, allow, &c))
        return;
    for (size_t r = 0; r < mr; r++) {
        int64_t h = (int64_t)w->head[g + r] - p->args.weights_head;
        int64_t first = t->first > (int)c.c0 ? t->first : (int)c.c0;
        int64_t end = t->end < (int)c.c1 ? t->end : (int)c.c1;
        char *row;

        if (h < 0 || h >= to->size[1] || !allow[r])
            continue;
        w->k->weights(w->s + r * attn__tile, c.c0, c.c1, allow[r], w->total.max[g + r],
                      w->factor[g + r]);
        row = attn__cell(to, (int64_t)w->b, h, w->row[g + r]);
        row += (w->seq.column + t->pos + first - w->seq.k_pos) * to->stride[3] *
               attn__element_size(to->type);
        w->k->store_row(row, to->type, to->stride[3], w->s + r * attn__tile + first,
                        (size_t)(end - first), 1);
    }
}

static void E(write_rows)(E(work) * w)
{
    const attn__problem *p = w->p;

    if (p->args.partial) {
        E(write_partial)(w);
        return;
    }
    E(finish)(w);
    if (p->has_weights) {
        int64_t split, last;
        for (E(visible_splits)(w, &split, &last); split <= last; split++)
            E(sweep_split)(w, split, E(visit_weights));
    }
}

/* A block of rows over all keys. */
static void E(row_block)(E(work) * w, size_t block, size_t blocks)
{
    size_t rows = (size_t)w->seq.rows * w->p->group;
    size_t each = ((rows + blocks - 1) / blocks + attn__group - 1) / attn__group * attn__group;
    size_t r0 = block * each;
    int64_t split, last;

    if (r0 >= rows)
        return;
    E(set_rows)(w, r0, rows - r0 < each ? rows - r0 : each);
    if (w->p->args.start)
        E(load_start)(w);
    for (E(visible_splits)(w, &split, &last); split <= last; split++) {
        E(open_record)(w);
        E(sweep_split)(w, split, E(visit_group));
        E(close_record)(w);
        E(add_to_total)(w);
    }
    if (!w->has_total) {
        E(open_record)(w);
        E(close_record)(w);
        E(add_to_total)(w);
    }
    E(write_rows)(w);
}

/* All rows over one split; the record goes to the slot. */
static void E(key_split)(E(work) * w, size_t split, size_t splits)
{
    size_t rows = (size_t)w->seq.rows * w->p->group;
    E(record) own = w->open;

    E(set_rows)(w, 0, rows);
    w->open = E(split_record)(w->p, w->slot, split, splits, rows);
    E(open_record)(w);
    E(sweep_split)(w, w->seq.k_pos / attn__split + (int64_t)split, E(visit_group));
    E(close_record)(w);
    w->open = own;
}

static void E(merge_splits)(E(work) * w, size_t splits)
{
    E(record) own = w->total, first = E(split_record)(w->p, w->slot, 0, splits, w->rows);

    if (w->p->args.start) {
        E(load_start)(w);
        E(merge_records)(w, &w->total, &first);
    } else {
        w->total = first;
    }
    for (size_t i = 1; i < splits; i++) {
        E(record) next = E(split_record)(w->p, w->slot, i, splits, w->rows);
        E(merge_records)(w, &w->total, &next);
    }
    E(write_rows)(w);
    w->total = own;
}

/* Asks for the first keys and values of a head. Where few rows read each once, waiting for them
 * takes longer than all else. */
static void E(ask_for)(const E(work) * w, size_t head)
{
    const attn__problem *p = w->p;
    size_t b = head / p->key_heads;
    ptrdiff_t key_size = attn__element_size(p->k.type), value_size = attn__element_size(p->v.type);
    attn__sequence seq;
    int64_t keys;

    if (b >= p->sequences)
        return;
    attn__get_sequence(p, b, &seq);
    keys = seq.keys < attn__tile ? seq.keys : attn__tile;
    for (int64_t j = 0; j < keys;) {
        const char *key, *value;
        const void *k, *v;
        size_t run = attn__key_run(p, b, &seq, head % p->key_heads, j, (size_t)(keys - j), &k, &v);

        key = k;
        value = v;
        for (size_t i = 0; i < run; i++) {
            for (ptrdiff_t at = 0; at < (ptrdiff_t)p->d * key_size; at += 64)
                ATTN__PREFETCH((uintptr_t)(key + at));
            for (ptrdiff_t at = 0; at < (ptrdiff_t)p->dv * value_size; at += 64)
                ATTN__PREFETCH((uintptr_t)(value + at));
            key += p->k.stride[2] * key_size;
            value += p->v.stride[2] * value_size;
        }
        j += (int64_t)run;
    }
}

void E(attn__engine)(attn__job *job, size_t worker)
{
    const attn__problem *p = job->problem;
    E(work) w = {.p = p, .l = job->layout, .k = &p->ctx->kernels->REAL_NAME};
    attn__item item;

    bool asks = (size_t)p->rows * p->group < FEW_ROWS && !w.l->split_key && !w.l->shared &&
                !(p->cache && p->cache->tiled) && p->width > 0;

    w.q_stride = p->d;
    w.kept_max = job->kept_max;
    w.kept_factor = job->kept_factor;
    E(cut_scratch)(&w, p, w.l, job->scratch + worker * w.l->scratch_size);
    while (attn__claim(&job->schedule, &item)) {
        bool last;

        w.b = item.head / p->key_heads;
        w.key_head = item.head % p->key_heads;
        w.slot = item.slot;
        w.has_total = false;
        if (asks)
            E(ask_for)(&w, item.head + w.l->threads);
        attn__get_sequence(p, w.b, &w.seq);
        w.first_tile = w.seq.k_pos / attn__tile;
        if (w.l->split_key)
            E(key_split)(&w, item.index, item.of);
        else /* the last rows first: under a causal mask they take longest */
            E(row_block)(&w, item.of - 1 - item.index, item.of);
        last = attn__item_done(&job->schedule, &item);
        if (last && w.l->split_key)
            E(merge_splits)(&w, item.of);
        if (last)
            attn__release(&job->schedule, &item);
    }
}
