/* backward_real.h: the sweeps of backward.h, for one kind of number. Part of engine.c, after
 * engine_real.h, whose rows, masks and logits it uses. */

/* A tile of keys of the pass at hand. */
typedef struct E(key_tile) {
    int64_t number;      /* on the grid */
    int first, end;      /* lanes that hold keys */
    uint64_t bad;        /* lanes whose keys hold NaN or infinity */
    REAL *keys, *values; /* packed, as the kernel `scores` reads them */
    REAL *rows;          /* keys [64][key_width] */
    REAL *dk, *dv;       /* [64][key_width], [64][width] */
} E(key_tile);

typedef struct E(sweep) {
    E(work) w; /* the rows of a block, and the tile they meet */
    const attn__backward *job;
    const E(attn__gradient) * g;
    bool keys; /* key sweep: keeps a block's weights to sum dk and dv */
    E(key_tile) pass[attn__most_tiles];

    /* Of the rows at hand. */
    REAL *dout;              /* [rows][width] */
    const REAL *lse, *delta; /* [rows] */
    REAL *p, *ds;            /* [rows][64], in the query sweep [6][64] */
    uint64_t *allow;         /* [rows] lanes a row attends */
    uint64_t *seen;          /* [groups] lanes any row of the group attends, */
    uint64_t *whole;         /* and lanes all of them do */
    uint64_t *bad; /* [rows / 64] rows of q or dout that hold NaN or infinity, once looked at */
    bool looked;

    REAL *room;     /* two rows, to prepare others */
    REAL *queries;  /* rows of the key head: w.q of row 0, */
    REAL *douts;    /* and dout; NULL: blocks load their own */
    REAL *dq;       /* of the chunk at hand, [rows][key_width] */
    REAL *total;    /* query sweep: of the chunks before */
    double *slopes; /* [group] sums for dalibi, of the chunk */
} E(sweep);

static size_t E(cut_sweep)(E(sweep) * s, const attn__backward *b, bool keys, char *base)
{
    const attn__problem *p = &b->problem;
    size_t rows = keys ? attn__block_rows : b->sweep_rows, real = sizeof(REAL), at = 0;
    size_t kept = keys ? rows : attn__group;
    E(work) *w = &s->w;

    s->job = b;
    s->keys = keys;
    w->q_stride = b->key_width;
    s->queries = s->douts = NULL;
    if (keys && b->copies && b->in_turn) {
        s->queries = attn__cut(base, &at, b->rows_kept * b->key_width * real);
        s->douts = attn__cut(base, &at, b->rows_kept * p->width * real);
    } else if (!keys || !b->copies) {
        w->q = attn__cut(base, &at, rows * b->key_width * real);
        s->dout = attn__cut(base, &at, rows * p->width * real);
    }
    s->p = attn__cut(base, &at, kept * attn__tile * real);
    s->ds = attn__cut(base, &at, kept * attn__tile * real);
    s->allow = attn__cut(base, &at, rows * sizeof *s->allow);
    s->seen = attn__cut(base, &at, rows / attn__group * sizeof *s->seen);
    s->whole = attn__cut(base, &at, rows / attn__group * sizeof *s->whole);
    s->bad = attn__cut(base, &at, (rows + 63) / 64 * sizeof *s->bad);
    s->room = attn__cut(base, &at, 2 * p->width * real);
    w->range = attn__cut(base, &at, rows / attn__group * sizeof *w->range);
    w->low = attn__cut(base, &at, rows * sizeof *w->low);
    w->high = attn__cut(base, &at, rows * sizeof *w->high);
    w->row = attn__cut(base, &at, rows * sizeof *w->row);
    w->head = attn__cut(base, &at, rows * sizeof *w->head);
    w->bias = attn__cut(base, &at, attn__tile * real);
    w->capped = w->untiled = NULL;
    if (p->args.softcap > 0)
        w->capped = attn__cut(base, &at, attn__group * attn__tile * real);
    if (p->mask.tile)
        w->untiled = attn__cut(base, &at, attn__group * attn__tile * real);
    s->slopes = attn__cut(base, &at, p->group * sizeof *s->slopes);
    for (size_t i = 0; i < (keys ? b->pass_tiles : 1); i++) {
        E(key_tile) *t = &s->pass[i];

        t->keys = attn__cut(base, &at, attn__tile * p->d * real);
        t->values = attn__cut(base, &at, attn__tile * p->dv * real);
        t->rows = attn__cut(base, &at, attn__tile * b->key_width * real);
        t->dk = attn__cut(base, &at, keys ? attn__tile * b->key_width * real : 0);
        t->dv = attn__cut(base, &at, keys ? attn__tile * p->width * real : 0);
    }
    if (!keys) {
        s->dq = attn__cut(base, &at, rows * b->key_width * real);
        s->total = attn__cut(base, &at, rows * b->key_width * real);
    }
    return at;
}

size_t E(attn__backward_scratch)(const attn__backward *b)
{
    E(sweep) s;
    size_t size = 2 * b->problem.width * sizeof(REAL), other;

    if (b->key_sweep && (other = E(cut_sweep)(&s, b, true, NULL)) > size)
        size = other;
    if (b->query_sweep && (other = E(cut_sweep)(&s, b, false, NULL)) > size)
        size = other;
    return size;
}

/* --- before the sweeps ---------------------------------------------------------------------- */

/* delta of a row from out and dout. A row that attends nothing has an out of zeros, which no dout
 * turns into anything else. `room` is for out. */
static REAL E(row_delta)(const attn__backward *b, int64_t batch, int64_t head, int64_t row,
                         const REAL *dout, REAL *room)
{
    const attn__problem *p = &b->problem;
    const attn_view *out = &p->args.out;
    REAL delta;

    p->ctx->kernels->REAL_NAME.load_rows(room, 0, 1, out->type, attn__cell(out, batch, head, row),
                                         0, out->stride[3], p->dv, p->width, 1);
    delta = p->ctx->kernels->E(gradient).dot(room, dout, p->width);
    if (delta == delta)
        return delta;
    for (size_t c = 0; c < p->dv; c++)
        if (room[c] != 0)
            return delta;
    return 0;
}

/* queries, douts: where the copies of the head's rows go, or NULL. */
static void E(prepare_head)(const attn__backward *b, const attn__sequence *s, size_t sequence,
                            size_t head, REAL *queries, REAL *douts, REAL *room)
{
    const attn__problem *p = &b->problem;
    const E(attn__kernels) *k = &p->ctx->kernels->REAL_NAME;
    const attn_view *q = &p->args.q, *by = &b->args.dout;
    int64_t batch = s->q_batch, h = (int64_t)head;
    size_t at = attn__row_index(p, s, head, 0), rows = (size_t)s->live_rows;
    REAL *lse = (REAL *)b->lse + at, *delta = (REAL *)b->delta + at;
    REAL sink = -(REAL)INFINITY;
    double sum = 0;

    if (p->has_sink)
        sink = (REAL)attn__read(&p->args.sink, (int64_t)sequence, h, 0);
    if (queries) { /* of rows that do not exist, something finite */
        size_t dead = (size_t)s->rows - rows;
        memset(queries + rows * b->key_width, 0, dead * b->key_width * sizeof(REAL));
        memset(douts + rows * p->width, 0, dead * p->width * sizeof(REAL));
    }
    if (queries && rows > 0) {
        k->load_rows(queries, (ptrdiff_t)b->key_width, rows, q->type,
                     attn__cell(q, batch, h, s->q_row), q->stride[2], q->stride[3], p->d,
                     b->key_width, (REAL)p->args.scale);
        k->load_rows(douts, (ptrdiff_t)p->width, rows, by->type, attn__cell(by, batch, h, s->q_row),
                     by->stride[2], by->stride[3], p->dv, p->width, 1);
    }
    for (int64_t i = 0; i < s->live_rows; i++) {
        int64_t row = s->q_row + i;
        const REAL *dout = queries ? douts + (size_t)i * p->width : room + p->width;

        lse[i] = (REAL)attn__read(&p->args.lse, batch, h, row);
        if (!queries && !b->has_delta)
            k->load_rows(room + p->width, 0, 1, by->type, attn__cell(by, batch, h, row), 0,
                         by->stride[3], p->dv, p->width, 1);
        delta[i] = b->has_delta ? (REAL)attn__read(&b->args.delta, batch, h, row)
                                : E(row_delta)(b, batch, h, row, dout, room);
        if (b->has_dlse)
            delta[i] -= (REAL)attn__read(&b->args.dlse, batch, h, row);
        if (b->wants_dsink && sink != -(REAL)INFINITY) {
            ATTN__ALIGNED(64) REAL share[16] = {-lse[i]};
            k->weights(share, 0, 16, 1, -sink, 1);
            sum -= (double)share[0] * (double)delta[i];
        }
    }
    if (b->wants_dsink)
        b->sink_sum[sequence * p->heads + head] = sum;
}

void E(attn__backward_prepare)(const attn__backward *b, size_t sequence, size_t head, void *room)
{
    REAL *queries = NULL, *douts = NULL;
    attn__sequence s;

    attn__get_sequence(&b->problem, sequence, &s);
    if (b->copies && !b->in_turn) {
        size_t at = attn__row_index(&b->problem, &s, head, 0);
        queries = (REAL *)b->q + at * b->key_width;
        douts = (REAL *)b->dout + at * b->problem.width;
    }
    E(prepare_head)(b, &s, sequence, head, queries, douts, room);
}

/* --- rows and tiles ------------------------------------------------------------------------- */

/* Rows r0 .. of the key head, which place_rows has placed: queries, dout, lse and delta. */
static void E(load_queries)(E(sweep) * s, size_t r0)
{
    E(work) *w = &s->w;
    const attn__problem *p = w->p;
    size_t at = attn__row_index(p, &w->seq, w->key_head * p->group, 0) + r0;

    s->lse = (const REAL *)s->job->lse + at;
    s->delta = (const REAL *)s->job->delta + at;
    s->looked = false;
    if (s->queries) {
        w->q = s->queries + r0 * w->q_stride;
        s->dout = s->douts + r0 * p->width;
        return;
    }
    E(load_block)(w, w->q, &p->args.q, p->d, w->q_stride, (REAL)p->args.scale);
    E(load_block)(w, s->dout, &s->job->args.dout, p->dv, p->width, 1);
}

/* Rows of q or dout with NaN or infinity. */
static bool E(bad_row)(E(sweep) * s, size_t r)
{
    const E(work) *w = &s->w;
    size_t width = s->job->problem.width, key_width = s->job->key_width;

    for (size_t at = 0; !s->looked && at < w->rows; at += 64) {
        size_t n = w->rows - at < 64 ? w->rows - at : 64;
        s->bad[at / 64] =
            w->k->nonfinite_rows(w->q + at * key_width, (ptrdiff_t)key_width, n, key_width) |
            w->k->nonfinite_rows(s->dout + at * width, (ptrdiff_t)width, n, width);
    }
    s->looked = true;
    return s->bad[r / 64] >> (r % 64) & 1;
}

static void E(take_tile)(E(sweep) * s, E(key_tile) * t, int64_t number)
{
    E(work) *w = &s->w;
    const attn__problem *p = w->p;
    size_t lane, n, key_width = s->job->key_width;
    const void *key, *value;
    REAL *rows;

    t->number = number;
    E(tile_lanes)(w, number, &t->first, &t->end);
    lane = (size_t)t->first;
    n = (size_t)(t->end - t->first);
    attn__key_run(p, w->b, &w->seq, w->key_head, number * attn__tile + t->first - w->seq.k_pos, n,
                  &key, &value);
    w->k->pack_keys(t->keys, lane, n, p->k.type, key, p->k.stride[2], p->k.stride[3], p->d);
    w->k->pack_keys(t->values, lane, n, p->v.type, value, p->v.stride[2], p->v.stride[3], p->dv);
    rows = t->rows + lane * key_width;
    w->k->load_rows(rows, (ptrdiff_t)key_width, n, p->k.type, key, p->k.stride[2], p->k.stride[3],
                    p->d, key_width, 1);
    t->bad = w->k->nonfinite_rows(rows, (ptrdiff_t)key_width, n, key_width) << lane;
    if (s->keys) {
        memset(t->dk + lane * key_width, 0, n * key_width * sizeof(REAL));
        memset(t->dv + lane * p->width, 0, n * p->width * sizeof(REAL));
    }
}

/* Whether any of the rows placed sees positions low .. high-1. */
static bool E(rows_see)(const E(work) * w, int64_t low, int64_t high)
{
    for (size_t g = 0; g < w->rows; g += attn__group) {
        const E(range) *range = &w->range[g / attn__group];
        if (range->low < range->high && range->low < high && range->high > low)
            return true;
    }
    return false;
}

/* --- what else is differentiated ------------------------------------------------------------ */

static void E(add_to_bias)(const E(sweep) * s, size_t r, const REAL *dt, size_t c0, size_t c1)
{
    const E(work) *w = &s->w;
    const attn_view *to = &s->job->args.dbias;
    const E(tile) *t = &w->tile;
    int64_t first = t->first > (int)c0 ? t->first : (int)c0;
    int64_t end = t->end < (int)c1 ? t->end : (int)c1;
    REAL *cell = attn__cell(to, (int64_t)w->b, (int64_t)w->head[r], w->row[r]);

    if (to->size[3] == 1) {
        *cell += s->g->cell_sum(dt, c0, c1);
        return;
    }
    cell += (w->seq.column + t->pos + first - w->seq.k_pos) * to->stride[3];
    if (to->stride[3] == 1) {
        s->g->add(cell, dt + first, (size_t)(end - first));
        return;
    }
    for (int64_t c = first; c < end; c++, cell += to->stride[3])
        *cell += dt[c];
}

/* From derivatives by the last logits to those by scores before softcap, rows g .. g+mr-1. */
static void E(pass_back)(E(sweep) * s, size_t g, size_t mr, REAL *ds, size_t c0, size_t c1)
{
    E(work) *w = &s->w;
    const attn__problem *p = w->p;
    const uint64_t *allow = s->allow + g;

    for (size_t r = 0; p->mask.tile && r < mr;) {
        size_t n = E(neighbours)(w, g + r, mr - r);
        attn_tile tile = E(describe_tile)(w, g + r, n, w->untiled + r * attn__tile, c0, c1);
        REAL *cells = ds + r * attn__tile + (tile.k_pos - w->tile.pos);

        s->job->args.tile_gradient(p->mask.tile_user, &tile, cells);
        for (size_t i = r; i < r + n; i++) /* whatever it made of cells without meaning */
            w->k->drop(ds + i * attn__tile, c0, c1, allow[i], 1);
        r += n;
    }
    for (size_t r = 0; r < mr; r++, ds += attn__tile) {
        if (!allow[r])
            continue;
        if (s->keys && s->job->wants_dbias)
            E(add_to_bias)(s, g + r, ds, c0, c1);
        if (s->keys && s->job->wants_dalibi)
            s->slopes[w->head[g + r] - w->key_head * p->group] -= (double)s->g->distance_sum(
                ds, c0, c1, (REAL)(w->seq.q_pos + w->row[g + r] - w->tile.pos));
        if (w->capped)
            s->g->softcap_slope(ds, w->capped + r * attn__tile, c0, c1, allow[r],
                                (REAL)p->args.softcap);
    }
}

/* --- a block of rows against a tile --------------------------------------------------------- */

/* dq += ds x keys, with the care that engine_real.h takes of values. */
static void E(add_to_queries)(E(sweep) * s, const E(key_tile) * t, size_t g, size_t mr,
                              const REAL *ds, REAL *dq)
{
    size_t width = s->job->key_width;
    const uint64_t *allow = s->allow + g;
    uint64_t any = s->seen[g / attn__group], all = s->whole[g / attn__group], span;
    int k0 = lowest(any), k1 = highest(any) + 1;

    span = lanes(k0, k1);
    if (!(t->bad & span & ~all)) {
        s->w.k->values(dq, (ptrdiff_t)width, mr, ds, (size_t)k0, (size_t)k1, REAL_TYPE,
                       t->rows + (size_t)k0 * width, (ptrdiff_t)width, NULL, width, false);
        return;
    }
    for (size_t r = 0; r < mr; r++) {
        for (uint64_t left = allow[r]; left;) {
            int from = lowest(left), to = from;
            while (to < attn__tile && left >> to & 1)
                to++;
            s->w.k->values(dq + r * width, (ptrdiff_t)width, 1, ds + r * attn__tile, (size_t)from,
                           (size_t)to, REAL_TYPE, t->rows + (size_t)from * width, (ptrdiff_t)width,
                           NULL, width, false);
            left &= ~lanes(from, to);
        }
    }
}

/* Rows g .. g+mr-1: weights and derivatives of their cells, and dq. */
static void E(visit_cells)(E(sweep) * s, const E(key_tile) * t, size_t g, size_t mr, REAL *dq)
{
    const attn__backward *b = s->job;
    E(work) *w = &s->w;
    const attn__problem *p = w->p;
    uint64_t *allow = s->allow + g, needed;
    uint64_t kept[attn__group];
    REAL factor = (REAL)(1 / (1 - p->args.dropout));
    REAL *weights = s->p + (s->keys ? g * attn__tile : 0);
    REAL *ds = s->ds + (s->keys ? g * attn__tile : 0);
    size_t c0, c1;
    extent c;

    s->seen[g / attn__group] = s->whole[g / attn__group] = 0;
    w->s = weights;
    if (!E(logits)(w, g, mr, allow, &c) || !c.any)
        return;
    s->seen[g / attn__group] = c.any;
    s->whole[g / attn__group] = c.all;
    c0 = c.c0;
    c1 = c.c1;
    if (b->wants_ds)
        w->k->scores(ds, mr, s->dout + g * p->width, (ptrdiff_t)p->width, REAL_TYPE, t->values,
                     NULL, p->dv, c0, c1, false);
    for (size_t r = 0; p->drop_below && r < mr; r++) {
        kept[r] = allow[r] ? attn__dropout_bits(p, w->b, w->head[g + r],
                                                w->seq.q_pos + w->row[g + r], w->tile.pos)
                           : 0;
        w->k->drop(ds + r * attn__tile, c0, c1, kept[r], factor);
    }
    needed = lanes((int64_t)c0, (int64_t)c1);
    s->g->gradients(weights, ds, mr, c0, c1, (c.all & needed) == needed ? NULL : allow, s->lse + g,
                    s->delta + g);
    if (b->wants_ds)
        E(pass_back)(s, g, mr, ds, c0, c1);
    for (size_t r = 0; p->drop_below && r < mr; r++)
        w->k->drop(weights + r * attn__tile, c0, c1, kept[r], factor);
    for (size_t r = 0; s->keys && c1 - c0 < attn__tile && r < mr; r++) {
        memset(weights + r * attn__tile, 0, c0 * sizeof(REAL));
        memset(weights + r * attn__tile + c1, 0, (attn__tile - c1) * sizeof(REAL));
        memset(ds + r * attn__tile, 0, c0 * sizeof(REAL));
        memset(ds + r * attn__tile + c1, 0, (attn__tile - c1) * sizeof(REAL));
    }
    if (dq)
        E(add_to_queries)(s, t, g, mr, ds, dq + g * b->key_width);
}

/* dv and dk of n lanes from lane j on += what rows r .. r+rows-1 of the block give them. */
static void E(add_to_keys)(E(sweep) * s, const E(key_tile) * t, size_t j, size_t n, size_t r,
                           size_t rows)
{
    size_t width = s->job->problem.width, key_width = s->job->key_width;

    if (s->job->wants_dv)
        s->g->across(t->dv + j * width, (ptrdiff_t)width, n, s->p + r * attn__tile + j, rows,
                     s->dout + r * width, (ptrdiff_t)width, width);
    if (s->job->wants_dk)
        s->g->across(t->dk + j * key_width, (ptrdiff_t)key_width, n, s->ds + r * attn__tile + j,
                     rows, s->w.q + r * key_width, (ptrdiff_t)key_width, key_width);
}

/* The same for lanes that some rows do not attend: what such rows hold must not reach them, should
 * it be NaN or infinite. */
static void E(add_with_care)(E(sweep) * s, const E(key_tile) * t, size_t j, size_t n, size_t r,
                             size_t rows)
{
    size_t from = r;

    for (size_t end = r + rows; r < end; r++) {
        uint64_t left;

        if (!E(bad_row)(s, r))
            continue;
        if (r > from)
            E(add_to_keys)(s, t, j, n, from, r - from);
        from = r + 1;
        left = s->allow[r] & lanes((int64_t)j, (int64_t)(j + n));
        for (; left; left &= left - 1)
            E(add_to_keys)(s, t, (size_t)lowest(left), 1, r, 1);
    }
    if (r > from)
        E(add_to_keys)(s, t, j, n, from, r - from);
}

/* dv and dk of a tile, from the block's cells. */
static void E(sum_keys)(E(sweep) * s, const E(key_tile) * t)
{
    size_t rows = s->w.rows, groups = (rows + attn__group - 1) / attn__group;
    uint64_t exist = lanes(t->first, t->end), all = exist;

    for (size_t g = 0; g < groups; g++)
        all &= s->whole[g];
    if (all == exist) {
        E(add_to_keys)(s, t, (size_t)t->first, (size_t)(t->end - t->first), 0, rows);
        return;
    }
    for (size_t j = (size_t)t->first; j < (size_t)t->end; j += attn__group) {
        size_t n = (size_t)t->end - j < attn__group ? (size_t)t->end - j : attn__group;
        uint64_t mine = lanes((int64_t)j, (int64_t)(j + n));

        for (size_t g = 0; g < groups; g++) {
            size_t from = g;
            uint64_t common = mine;

            for (; g < groups && s->seen[g] & mine; g++)
                common &= s->whole[g];
            if (g > from) {
                size_t r = from * attn__group, end = g * attn__group;
                end = end < rows ? end : rows;
                (common == mine ? E(add_to_keys) : E(add_with_care))(s, t, j, n, r, end - r);
            }
        }
    }
}

/* The rows at hand against a tile. dq: where the first of them has its running sum, or NULL. */
static void E(visit_tile)(E(sweep) * s, const E(key_tile) * t, REAL *dq)
{
    E(work) *w = &s->w;
    int64_t pos = t->number * attn__tile;

    w->tile = (E(tile)){.pos = pos,
                        .first = t->first,
                        .end = t->end,
                        .keys = t->keys,
                        .key_type = REAL_TYPE,
                        .keep = ~(uint64_t)0};
    if (w->p->keep_repeats)
        w->tile.keep = E(keep_bits)(w, 0);
    if (!w->tile.keep || !E(rows_see)(w, pos, pos + attn__tile))
        return;
    for (size_t g = 0; g < w->rows; g += attn__group)
        E(visit_cells)(s, t, g, E(group_rows)(w, g), dq);
    if (s->keys)
        E(sum_keys)(s, t);
}

/* --- items ---------------------------------------------------------------------------------- */

static void E(ask_for_sequence)(const E(sweep) * s)
{
    const attn__problem *p = s->w.p;
    const attn_backward_args *a = &s->job->args;
    const attn_view *of_queries[] = {&p->args.q, &a->dout, &p->args.out, &a->dq};
    const attn_view *of_keys[] = {&p->k, &p->v, &a->dk, &a->dv};

    for (int i = 0; i < 4; i++) {
        attn__ask_for(of_queries[i], &s->w.seq, true);
        attn__ask_for(of_keys[i], &s->w.seq, false);
    }
}

static void E(begin_item)(E(sweep) * s, const attn__item *item)
{
    E(work) *w = &s->w;
    const attn__problem *p = w->p;

    w->b = item->head / p->key_heads;
    w->key_head = item->head % p->key_heads;
    attn__get_sequence(p, w->b, &w->seq);
    if (w->key_head == 0 && attn__is_short(p, &w->seq))
        E(ask_for_sequence)(s);
    if (s->keys && s->job->in_turn) /* one worker has all of the head: its rows are read once */
        for (size_t h = 0; h < p->group; h++) {
            size_t row = h * (size_t)w->seq.rows, head = w->key_head * p->group + h;
            REAL *q = s->queries ? s->queries + row * s->job->key_width : NULL;
            REAL *dout = s->queries ? s->douts + row * p->width : NULL;
            E(prepare_head)(s->job, &w->seq, w->b, head, q, dout, s->room);
        }
    else if (s->keys && s->job->copies) {
        size_t row = attn__row_index(p, &w->seq, w->key_head * p->group, 0);
        s->queries = (REAL *)s->job->q + row * s->job->key_width;
        s->douts = (REAL *)s->job->dout + row * p->width;
    }
}

static void E(store_queries)(const E(sweep) * s, size_t r0, size_t rows, const REAL *dq)
{
    const E(work) *w = &s->w;
    const attn__problem *p = w->p;
    const attn_view *to = &s->job->args.dq;

    for (size_t r = r0; r < r0 + rows; r++, dq += s->job->key_width) {
        size_t head = w->key_head * p->group + r / (size_t)w->seq.rows;
        int64_t row = w->seq.q_row + (int64_t)(r % (size_t)w->seq.rows);
        w->k->store_row(attn__cell(to, w->seq.q_batch, (int64_t)head, row), to->type, to->stride[3],
                        dq, p->d, (REAL)p->args.scale);
    }
}

static void E(store_keys)(const E(sweep) * s, const E(key_tile) * t)
{
    const E(work) *w = &s->w;
    const attn__backward *b = s->job;
    const attn_view *dk = &b->args.dk, *dv = &b->args.dv;
    int64_t batch = w->seq.k_batch, head = (int64_t)w->key_head;
    int64_t row = w->seq.k_row + t->number * attn__tile - w->seq.k_pos;

    for (int j = t->first; j < t->end; j++) {
        if (b->wants_dk)
            w->k->store_row(attn__cell(dk, batch, head, row + j), dk->type, dk->stride[3],
                            t->dk + (size_t)j * b->key_width, w->p->d, 1);
        if (b->wants_dv)
            w->k->store_row(attn__cell(dv, batch, head, row + j), dv->type, dv->stride[3],
                            t->dv + (size_t)j * w->p->width, w->p->dv, 1);
    }
}

/* Tiles first .. first+n-1 past all rows of the key head. */
static void E(sweep_pass)(E(sweep) * s, int64_t first, size_t n)
{
    E(work) *w = &s->w;
    const attn__problem *p = w->p;
    size_t rows = (size_t)w->seq.rows * p->group;
    REAL *dq = s->job->wants_dq && !s->job->query_sweep ? s->dq : NULL;

    for (size_t i = 0; i < n; i++)
        E(take_tile)(s, &s->pass[i], first + (int64_t)i);
    for (size_t r0 = 0; r0 < rows; r0 += attn__block_rows) {
        E(place_rows)(w, r0, rows - r0 < attn__block_rows ? rows - r0 : attn__block_rows);
        if (!E(rows_see)(w, first * attn__tile, (first + (int64_t)n) * attn__tile))
            continue;
        E(load_queries)(s, r0);
        for (size_t i = 0; i < n; i++)
            E(visit_tile)(s, &s->pass[i], dq ? dq + r0 * s->job->key_width : NULL);
    }
    for (size_t i = 0; i < n; i++)
        E(store_keys)(s, &s->pass[i]);
}

/* Running dq of chunk `chunk`, or in turn the total and that of the chunk at hand. */
static REAL *E(slot_dq)(const attn__backward *b, const attn__slot *slot, size_t chunk)
{
    return (REAL *)slot->memory + chunk * b->rows_kept * b->key_width;
}

static void E(sweep_chunk)(E(sweep) * s, const attn__chunks *c, size_t chunk, REAL *dq)
{
    const attn__backward *b = s->job;
    const E(work) *w = &s->w;
    size_t at = chunk * c->each, end = at + c->each < c->tiles ? at + c->each : c->tiles;
    size_t group = w->p->group, head = w->b * w->p->heads + w->key_head * group;

    s->dq = dq;
    if (dq)
        memset(dq, 0, (size_t)w->seq.rows * group * b->key_width * sizeof *dq);
    memset(s->slopes, 0, group * sizeof *s->slopes);
    while (at < end) {
        size_t n = end - at < b->pass_tiles ? end - at : b->pass_tiles;
        E(sweep_pass)(s, c->first_tile + (int64_t)at, n);
        at += n;
    }
    for (size_t h = 0; b->wants_dalibi && h < group; h++)
        b->slope_sum[(head + h) * b->most_chunks + chunk] = s->slopes[h];
}

/* Chunks of keys, one or all in turn. */
static void E(key_item)(E(sweep) * s, const attn__item *item)
{
    const attn__backward *b = s->job;
    E(work) *w = &s->w;
    const attn__problem *p = w->p;
    attn__chunks c = attn__get_chunks(&w->seq);
    size_t cells = (size_t)w->seq.rows * p->group * b->key_width;
    bool dq = b->slot_size > 0;

    if (b->takes_turns)
        attn__await_turn(b, item);
    if (!b->in_turn) {
        E(sweep_chunk)(s, &c, item->index, dq ? E(slot_dq)(b, item->slot, item->index) : NULL);
    } else {
        for (size_t i = 0; i < c.count; i++) {
            E(sweep_chunk)(s, &c, i, dq ? E(slot_dq)(b, item->slot, i > 0) : NULL);
            if (dq && i > 0)
                s->g->add(E(slot_dq)(b, item->slot, 0), s->dq, cells);
        }
    }
    if (b->takes_turns)
        attn__end_turn(b, item);
    if (item->index == 0)
        attn__clear_missing_keys(b, w->b, w->key_head);
}

/* The last item of a head: all chunks' sums are there. */
static void E(finish_queries)(E(sweep) * s, const attn__item *item)
{
    const attn__backward *b = s->job;
    size_t rows = (size_t)s->w.seq.rows * s->w.p->group;
    REAL *total = E(slot_dq)(b, item->slot, 0);

    for (size_t i = 1; !b->in_turn && i < item->of; i++)
        s->g->add(total, E(slot_dq)(b, item->slot, i), rows * b->key_width);
    E(store_queries)(s, 0, rows, total);
}

void E(attn__key_sweep)(attn__backward *b, size_t worker)
{
    E(sweep) s = {0};
    attn__item item;

    s.w.p = &b->problem;
    s.w.k = &b->problem.ctx->kernels->REAL_NAME;
    s.g = &b->problem.ctx->kernels->E(gradient);
    E(cut_sweep)(&s, b, true, b->scratch + worker * b->scratch_size);
    memset(s.ds, 0, attn__block_rows * attn__tile * sizeof *s.ds); /* read though not used for dv */
    while (attn__claim(&b->schedule, &item)) {
        E(begin_item)(&s, &item);
        E(key_item)(&s, &item);
        if (attn__item_done(&b->schedule, &item)) {
            E(finish_queries)(&s, &item);
            attn__release(&b->schedule, &item);
        }
    }
}

/* dq of a block of rows. */
static void E(query_item)(E(sweep) * s, const attn__item *item)
{
    const attn__backward *b = s->job;
    E(work) *w = &s->w;
    attn__chunks c = attn__get_chunks(&w->seq);
    size_t rows = (size_t)w->seq.rows * w->p->group, r0 = item->index * b->sweep_rows;
    size_t n = rows - r0 < b->sweep_rows ? rows - r0 : b->sweep_rows;

    E(place_rows)(w, r0, n);
    E(load_queries)(s, r0);
    memset(s->total, 0, n * b->key_width * sizeof *s->total);
    for (size_t i = 0; i < c.count; i++) {
        size_t at = i * c.each, end = at + c.each < c.tiles ? at + c.each : c.tiles;
        REAL *dq = i == 0 ? s->total : s->dq;

        if (i > 0)
            memset(dq, 0, n * b->key_width * sizeof *dq);
        for (; at < end; at++) {
            int64_t tile = c.first_tile + (int64_t)at, pos = tile * attn__tile;
            if (!E(rows_see)(w, pos, pos + attn__tile))
                continue;
            E(take_tile)(s, &s->pass[0], tile);
            E(visit_tile)(s, &s->pass[0], dq);
        }
        if (i > 0)
            s->g->add(s->total, dq, n * b->key_width);
    }
    E(store_queries)(s, r0, n, s->total);
}

void E(attn__query_sweep)(attn__backward *b, size_t worker)
{
    E(sweep) s = {0};
    attn__item item;

    s.w.p = &b->problem;
    s.w.k = &b->problem.ctx->kernels->REAL_NAME;
    s.g = &b->problem.ctx->kernels->E(gradient);
    E(cut_sweep)(&s, b, false, b->scratch + worker * b->scratch_size);
    while (attn__claim(&b->schedule, &item)) {
        E(begin_item)(&s, &item);
        E(query_item)(&s, &item);
        attn__item_done(&b->schedule, &item);
    }
}
