/* stats_real.h: the second sweep of stats.h, for one kind of number. Part of engine.c, after
 * engine_real.h, whose rows, masks and logits it uses. */

/* Cells of one map row. */
typedef struct E(map_row) {
    int64_t number;
    double *sum, *max;
    int64_t *count;
} E(map_row);

/* What rows of one map row have gathered from the tile at hand, by column. */
typedef struct E(map_sums) {
    size_t slot; /* in E(stats_work).map */
    double sum[attn__tile];
    REAL max[attn__tile];
    size_t rows;                                /* so many rows, */
    uint64_t all, any, allow[attn__stats_rows]; /* what they all, any, and each of them attend, */
    uint64_t broken;                            /* and rows whose weights are NaN */
} E(map_sums);

typedef struct E(stats_work) {
    E(work) w; /* the rows of a block, and the tile they meet; must come first */
    const attn__stats *job;
    const attn_stats *ask;
    const E(attn__stats) * k;
    const E(attn__gradient) * g;
    attn__stats_item item;
    bool writes_logits, has_distance, has_first, has_previous, has_chosen, has_key_mass;
    bool weighs; /* wants weights; else logits are all */

    /* Of each row of the block. */
    REAL *max, *factor;
    int64_t *chosen;  /* its place in ask->rows, or -1 */
    int64_t *map_row; /* that it falls into, -1: none, */
    size_t *slot;     /* and where its cells are in `map` */
    double *weight, *one;
    double *distance, *first_mass, *previous_mass;
    double *class_mass; /* [rows][classes] */
    size_t classes;
    REAL *top; /* [rows][top_size] logits, descending */
    int64_t *top_key;
    size_t *top_count, top_size;

    /* Of the item. */
    int64_t base;     /* position of lane 0 of the sequence's first tile */
    double *key_mass; /* [heads][tiles * 64] */
    double *buckets;  /* [heads][bucket_count] */
    size_t bucket_count;
    attn__map_side side[2]; /* rows and columns of the map; no cells: none */
    E(map_row) held;        /* the item's first map row, if it is an earlier item's last one */
    bool has_held;
    E(map_row) * map; /* those that the block's rows fall into, in order, */
    size_t map_used;  /* so many */
    E(map_sums) sums;
    attn__map_span span[attn__tile]; /* the cells that the tile's columns fall into, */
    size_t spans;                    /* so many */
    bool carries;                    /* the last of the block before goes on in this one */
} E(stats_work);

/* --- memory --------------------------------------------------------------------------------- */

static void E(cut_map_row)(E(map_row) * m, char *base, size_t *at, size_t cells)
{
    m->sum = attn__cut(base, at, cells * sizeof *m->sum);
    m->max = attn__cut(base, at, cells * sizeof *m->max);
    m->count = attn__cut(base, at, cells * sizeof *m->count);
}

static void E(read_request)(E(stats_work) * s, const attn__problem *p)
{
    const attn_stats *ask = &p->stats;
    const attn_view *map[] = {&ask->map_sum, &ask->map_mean, &ask->map_max, &ask->map_count};

    s->ask = ask;
    s->classes = (size_t)ask->class_mass.size[3];
    s->top_size = (size_t)(attn__present(&ask->top_key) ? ask->top_key : ask->top_weight).size[3];
    s->bucket_count = attn__present(&ask->distance_mass) ? (size_t)ask->distance_mass.size[3] : 0;
    s->side[0] = (attn__map_side){.block = ask->map_query_block, .first = ask->map_first_query};
    s->side[1] = (attn__map_side){.block = ask->map_key_block, .first = ask->map_first_key};
    for (int i = 0; i < 4; i++)
        if (attn__present(map[i])) {
            s->side[0].cells = map[i]->size[2];
            s->side[1].cells = map[i]->size[3];
        }
    s->has_distance = attn__present(&ask->distance);
    s->has_first = attn__present(&ask->first_mass);
    s->has_previous = attn__present(&ask->previous_mass);
    s->has_chosen = attn__present(&ask->row_weights);
    s->has_key_mass = attn__present(&ask->key_mass);
    s->writes_logits = attn__present(&ask->raw_logits) || attn__present(&ask->capped_logits) ||
                       attn__present(&ask->logits);
    s->weighs = s->classes > 0 || s->bucket_count > 0 || s->side[1].cells > 0 || s->has_distance ||
                s->has_first || s->has_previous || s->has_chosen || s->has_key_mass;
}

/* What the engine needs of rows and tiles. */
static size_t E(cut_rows)(E(work) * w, const attn__problem *p, size_t rows, char *base)
{
    size_t at = 0, cells = attn__group * attn__tile * sizeof(REAL);

    w->q = attn__cut(base, &at, rows * p->d * sizeof(REAL));
    w->range = attn__cut(base, &at, rows / attn__group * sizeof *w->range);
    w->low = attn__cut(base, &at, rows * sizeof *w->low);
    w->high = attn__cut(base, &at, rows * sizeof *w->high);
    w->row = attn__cut(base, &at, rows * sizeof *w->row);
    w->head = attn__cut(base, &at, rows * sizeof *w->head);
    w->s = attn__cut(base, &at, cells);
    w->bias = attn__cut(base, &at, attn__tile * sizeof(REAL));
    w->keys = attn__cut(base, &at, attn__tile * p->d * sizeof(REAL));
    w->raw = w->capped = NULL;
    if (attn__present(&p->stats.raw_logits) && p->changes_scores)
        w->raw = attn__cut(base, &at, cells);
    if (attn__present(&p->stats.capped_logits) && p->changes_scores)
        w->capped = attn__cut(base, &at, cells);
    return at;
}

static size_t E(cut_stats)(E(stats_work) * s, const attn__problem *p, const attn__layout *l,
                           char *base)
{
    size_t rows = attn__stats_block(p), at, heads, map_rows;

    E(read_request)(s, p);
    at = E(cut_rows)(&s->w, p, rows, base);
    s->max = attn__cut(base, &at, rows * sizeof *s->max);
    s->factor = attn__cut(base, &at, rows * sizeof *s->factor);
    s->chosen = attn__cut(base, &at, rows * sizeof *s->chosen);
    s->map_row = attn__cut(base, &at, rows * sizeof *s->map_row);
    s->slot = attn__cut(base, &at, rows * sizeof *s->slot);
    s->weight = attn__cut(base, &at, rows * sizeof *s->weight);
    s->one = attn__cut(base, &at, attn__group * sizeof *s->one);
    s->distance = attn__cut(base, &at, rows * sizeof *s->distance);
    s->first_mass = attn__cut(base, &at, rows * sizeof *s->first_mass);
    s->previous_mass = attn__cut(base, &at, rows * sizeof *s->previous_mass);
    s->class_mass = attn__cut(base, &at, rows * s->classes * sizeof *s->class_mass);
    s->top = attn__cut(base, &at, rows * s->top_size * sizeof *s->top);
    s->top_key = attn__cut(base, &at, rows * s->top_size * sizeof *s->top_key);
    s->top_count = attn__cut(base, &at, rows * sizeof *s->top_count);

    heads = s->side[1].cells > 0 ? 1 : p->group; /* stats.c: joins_heads */
    s->key_mass = attn__cut(
        base, &at, s->has_key_mass ? heads * l->tiles * attn__tile * sizeof *s->key_mass : 0);
    s->buckets = attn__cut(base, &at, heads * s->bucket_count * sizeof *s->buckets);
    map_rows = attn__map_rows(p);
    s->map = attn__cut(base, &at, map_rows * sizeof *s->map);
    E(cut_map_row)(&s->held, base, &at, (size_t)s->side[1].cells);
    for (size_t i = 0; i < map_rows; i++) {
        E(map_row) row;

        E(cut_map_row)(&row, base, &at, (size_t)s->side[1].cells);
        if (base)
            s->map[i] = row;
    }
    return at;
}

size_t E(attn__stats_scratch)(const attn__problem *p, const attn__layout *l)
{
    E(stats_work) s;

    return E(cut_stats)(&s, p, l, NULL);
}

/* --- rows of a block ------------------------------------------------------------------------ */

static int64_t E(place_of_row)(const attn_stats *ask, int64_t row)
{
    int64_t low = 0, high = ask->row_count;

    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (ask->rows[middle] < row)
            low = middle + 1;
        else
            high = middle;
    }
    return low < ask->row_count && ask->rows[low] == row ? low : -1;
}

/* Rows number `at` .. of the item, head by head. */
static void E(place_item_rows)(E(stats_work) * s, size_t at, size_t rows)
{
    E(work) *w = &s->w;
    size_t per_head = (size_t)(s->item.i1 - s->item.i0);

    w->rows = rows;
    for (size_t r = 0; r < rows; r++) {
        w->head[r] = s->item.head + (at + r) / per_head;
        w->row[r] = s->item.i0 + (int64_t)((at + r) % per_head);
        attn__visible_range(w->p, &w->seq, w->row[r], &w->low[r], &w->high[r]);
    }
    E(set_ranges)(w);
}

static void E(start_row)(E(stats_work) * s, size_t r)
{
    E(work) *w = &s->w;
    const attn__problem *p = w->p;
    size_t index = attn__row_index(p, &w->seq, w->head[r], w->row[r]);
    const attn_view *weight = &s->ask->query_weight;

    s->max[r] = ((const REAL *)s->job->max)[index];
    s->factor[r] = ((const REAL *)s->job->factor)[index];
    s->chosen[r] = s->has_chosen ? E(place_of_row)(s->ask, w->row[r]) : -1;
    s->map_row[r] = s->side[0].cells > 0 ? attn__map_cell(&s->side[0], w->row[r]) : 0;
    s->weight[r] = attn__present(weight)
                       ? attn__read(weight, (int64_t)w->b, (int64_t)w->head[r], w->row[r])
                       : 1;
    s->distance[r] = s->first_mass[r] = s->previous_mass[r] = 0;
    for (size_t c = 0; c < s->classes; c++)
        s->class_mass[r * s->classes + c] = 0;
    s->top_count[r] = 0;
}

/* Rows that follow one another in one head lie a stride apart. */
static void E(load_item_rows)(E(stats_work) * s)
{
    E(work) *w = &s->w;
    const attn_view *q = &w->p->args.q;

    for (size_t r = 0, n; r < w->rows; r += n) {
        n = E(neighbours)(w, r, w->rows - r);
        w->k->load_rows(
            w->q + r * w->p->d, (ptrdiff_t)w->p->d, n, q->type,
            attn__cell(q, w->seq.q_batch, (int64_t)w->head[r], w->seq.q_row + w->row[r]),
            q->stride[2], q->stride[3], w->p->d, w->p->d, (REAL)w->p->args.scale);
    }
}

/* The largest logits of a row as weights. */
static void E(write_top)(const E(stats_work) * s, size_t r, int64_t h, int64_t i)
{
    const E(work) *w = &s->w;
    const attn_stats *ask = s->ask;
    size_t count = s->top_count[r], padded = (s->top_size + 15) / 16 * 16;
    bool broken = s->factor[r] != s->factor[r];
    REAL cell[attn__most_top];
    int64_t b = w->seq.q_batch;

    for (size_t c = 0; c < padded; c++)
        cell[c] = c < count ? s->top[r * s->top_size + c] : 0;
    w->k->weights(cell, 0, padded, lanes(0, (int64_t)count), s->max[r], s->factor[r]);
    for (size_t c = 0; c < s->top_size; c++) {
        if (attn__present(&ask->top_weight))
            attn__put(&ask->top_weight, b, h, i, (int64_t)c,
                      broken ? (double)NAN : (double)cell[c]);
        if (attn__present(&ask->top_key))
            attn__put_index(&ask->top_key, b, h, i, (int64_t)c,
                            c < count ? s->top_key[r * s->top_size + c] : -1);
    }
}

static void E(write_block)(const E(stats_work) * s)
{
    const E(work) *w = &s->w;
    const attn_stats *ask = s->ask;
    int64_t b = w->seq.q_batch;

    for (size_t r = 0; r < w->rows; r++) {
        int64_t h = (int64_t)w->head[r], i = w->seq.q_row + w->row[r];

        if (attn__present(&ask->distance))
            attn__put(&ask->distance, b, h, i, 0, s->distance[r]);
        if (attn__present(&ask->first_mass))
            attn__put(&ask->first_mass, b, h, i, 0, s->first_mass[r]);
        if (attn__present(&ask->previous_mass))
            attn__put(&ask->previous_mass, b, h, i, 0, s->previous_mass[r]);
        for (size_t c = 0; c < s->classes; c++)
            attn__put(&ask->class_mass, b, h, i, (int64_t)c, s->class_mass[r * s->classes + c]);
        if (s->top_size > 0)
            E(write_top)(s, r, h, i);
    }
}

/* --- map ------------------------------------------------------------------------------------ */

static void E(clear_map_row)(const E(map_row) * m, size_t cells)
{
    memset(m->sum, 0, cells * sizeof *m->sum);
    memset(m->max, 0, cells * sizeof *m->max);
    memset(m->count, 0, cells * sizeof *m->count);
}

static void E(swap_map_rows)(E(map_row) * a, E(map_row) * b)
{
    E(map_row) other = *a;

    *a = *b;
    *b = other;
}

static void E(begin_map)(E(stats_work) * s)
{
    size_t kept = s->carries;

    if (kept)
        E(swap_map_rows)(&s->map[0], &s->map[s->map_used - 1]);
    s->map_used = 0;
    for (size_t r = 0; r < s->w.rows; r++) {
        if (r == 0 || s->map_row[r] != s->map_row[r - 1]) {
            E(map_row) *m = &s->map[s->map_used++];

            m->number = s->map_row[r];
            if (s->map_used > kept)
                E(clear_map_row)(m, (size_t)s->side[1].cells);
        }
        s->slot[r] = s->map_used - 1;
    }
}

static void E(add_map_row)(const E(stats_work) * s, const E(map_row) * m)
{
    const attn_stats *ask = s->ask;
    int64_t b = (int64_t)s->w.b, h = (int64_t)s->item.head, row = m->number;
    int64_t cells = s->side[1].cells;

    if (row < 0)
        return;
    if (attn__present(&ask->map_sum))
        attn__add_to(&ask->map_sum, b, h, row, 0, m->sum, cells);
    if (attn__present(&ask->map_mean))
        attn__add_to(&ask->map_mean, b, h, row, 0, m->sum, cells);
    if (attn__present(&ask->map_max))
        attn__raise(&ask->map_max, b, h, row, m->max, cells);
    if (attn__present(&ask->map_count))
        attn__add_counts(&ask->map_count, b, h, row, m->count, cells);
}

/* Map row of query row i; none of them outside the sequence. */
static int64_t E(map_row_of)(const E(stats_work) * s, int64_t i)
{
    return i < 0 || i >= s->w.seq.rows ? -2 : attn__map_cell(&s->side[0], i);
}

/* Map rows that are complete go out; one that is shared with an earlier item waits for its turn,
 * and so does the item's last one. */
static void E(end_map)(E(stats_work) * s)
{
    const attn__stats_item *it = &s->item;
    int64_t end = s->w.row[s->w.rows - 1] + 1, before = E(map_row_of)(s, it->i0 - 1);
    const E(map_row) *last = &s->map[s->map_used - 1];

    s->carries = end < it->i1 && E(map_row_of)(s, end) == last->number;
    for (size_t i = 0; i < s->map_used; i++) {
        E(map_row) *m = &s->map[i];

        if (m == last && (s->carries || end == it->i1))
            continue;
        if (m->number == before) {
            E(swap_map_rows)(m, &s->held);
            s->has_held = true;
        } else {
            E(add_map_row)(s, m);
        }
    }
}

static void E(finish_map)(const E(stats_work) * s)
{
    if (s->has_held)
        E(add_map_row)(s, &s->held);
    E(add_map_row)(s, &s->map[s->map_used - 1]);
}

/* The cells that the columns of the tile fall into. */
static void E(set_spans)(E(stats_work) * s)
{
    const attn__map_side *side = &s->side[1];
    int64_t column = s->w.seq.column + s->w.tile.pos - s->w.seq.k_pos;

    s->spans = 0;
    for (int from = s->w.tile.first, to, end = s->w.tile.end; from < end; from = to) {
        int64_t cell = attn__map_cell(side, column + from);
        int64_t next = attn__map_end(side, cell) - column;

        if (cell < 0 && next <= from) /* past the map */
            break;
        to = next < end ? (int)next : end;
        if (cell >= 0)
            s->span[s->spans++] = (attn__map_span){.from = from, .to = to, .cell = cell};
    }
}

/* How many cells of these columns the rows attend. */
static int64_t E(count_cells)(const E(map_sums) * m, uint64_t columns)
{
    int64_t count = 0;

    for (size_t r = 0; r < m->rows; r++)
        count += __builtin_popcountll(m->allow[r] & columns);
    return count;
}

/* Columns of the tile, to their cell. */
static void E(add_to_cell)(const E(map_row) * m, const E(map_sums) * sums,
                           const attn__map_span *span)
{
    uint64_t columns = lanes(span->from, span->to);
    double sum = 0, *top = &m->max[span->cell];
    REAL max = 0;

    for (int c = span->from; c < span->to; c++)
        sum += sums->sum[c];
    for (int c = span->from; c < span->to; c++)
        max = sums->max[c] > max ? sums->max[c] : max;
    m->sum[span->cell] += sum;
    *top = (double)max > *top ? (double)max : *top; /* NaN stays */
    if (sums->broken & columns)
        *top = (double)NAN;
    m->count[span->cell] += (sums->all & columns) == columns
                                ? (int64_t)sums->rows * (span->to - span->from)
                                : E(count_cells)(sums, columns);
}

/* What rows of one map row have gathered in the columns of the tile goes to its cells. */
static void E(close_map_sums)(E(stats_work) * s)
{
    E(map_sums) *sums = &s->sums;

    if (sums->rows == 0)
        return;
    for (size_t i = 0; i < s->spans; i++)
        if (sums->any & lanes(s->span[i].from, s->span[i].to))
            E(add_to_cell)(&s->map[sums->slot], sums, &s->span[i]);
    memset(sums->sum, 0, sizeof sums->sum);
    memset(sums->max, 0, sizeof sums->max);
    sums->rows = 0;
    sums->any = sums->broken = 0;
}

/* n rows of a tile, all of one map row. */
static void E(add_to_map)(E(stats_work) * s, size_t r0, const REAL *p, const uint64_t *allow,
                          size_t n, size_t c0, size_t c1)
{
    E(map_sums) *sums = &s->sums;

    if (s->map[s->slot[r0]].number < 0) /* outside the map */
        return;
    if (s->slot[r0] != sums->slot)
        E(close_map_sums)(s);
    sums->slot = s->slot[r0];
    s->k->add_columns(sums->sum, p, n, c0, c1, s->one);
    s->k->max_columns(sums->max, p, n, c0, c1);
    for (size_t r = 0; r < n; r++) {
        sums->all = sums->rows == 0 ? allow[r] : sums->all & allow[r];
        sums->any |= allow[r];
        sums->allow[sums->rows++] = allow[r];
        if (s->factor[r0 + r] != s->factor[r0 + r])
            sums->broken |= allow[r];
    }
}

/* --- a group of rows against a tile --------------------------------------------------------- */

/* Keeps the largest logits of a row, ties in the order of their keys. */
static void E(take_top)(E(stats_work) * s, size_t r, const REAL *cells, uint64_t allow, size_t c0,
                        size_t c1)
{
    size_t count = s->top_count[r], size = s->top_size;
    REAL *top = s->top + r * size;
    int64_t *key = s->top_key + r * size;
    int64_t column = s->w.seq.column + s->w.tile.pos - s->w.seq.k_pos;

    if (s->factor[r] != s->factor[r])
        return;
    if (count == size)
        allow = s->k->find_above(cells, c0, c1, allow, top[size - 1]);
    for (; allow; allow &= allow - 1) {
        int lane = lowest(allow);
        REAL x = cells[lane];
        size_t at = count;

        if (count == size && !(x > top[size - 1]))
            continue;
        if (count < size)
            count++;
        else
            at--;
        for (; at > 0 && x > top[at - 1]; at--) {
            top[at] = top[at - 1];
            key[at] = key[at - 1];
        }
        top[at] = x;
        key[at] = column + lane;
    }
    s->top_count[r] = count;
}

/* The attended cells of a row, into the caller's array of logits. */
static void E(write_logits)(const E(stats_work) * s, const attn_view *to, size_t r,
                            const REAL *cells, uint64_t allow)
{
    const E(work) *w = &s->w;
    int64_t h = (int64_t)w->head[r] - s->ask->logits_head;
    int64_t column = w->seq.column + w->tile.pos - w->seq.k_pos;
    char *row;

    if (!attn__present(to) || h < 0 || h >= to->size[1])
        return;
    row = attn__cell(to, (int64_t)w->b, h, w->row[r]);
    while (allow) {
        int from = lowest(allow), end = from;

        while (end < attn__tile && allow >> end & 1)
            end++;
        w->k->store_row(row + (column + from) * to->stride[3] * attn__element_size(to->type),
                        to->type, to->stride[3], cells + from, (size_t)(end - from), 1);
        allow &= ~lanes(from, end);
    }
}

/* Weights of a row by how far their keys are behind it. */
static void E(add_to_buckets)(E(stats_work) * s, size_t r, const REAL *p, uint64_t allow, size_t c1)
{
    const E(work) *w = &s->w;
    const int64_t *edge = s->ask->distance_edges;
    int64_t n = (int64_t)s->bucket_count, at = n;
    int64_t behind = w->seq.q_pos + w->row[r] - w->tile.pos; /* of lane 0 */
    double *sum = s->buckets + (w->head[r] - s->item.head) * s->bucket_count;
    const uint64_t all = allow;

    while (allow) {
        int from = lowest(allow), end;
        int64_t low = 0, high = at;
        uint64_t past;

        while (low < high) { /* the last edge at or below this distance */
            int64_t middle = low + (high - low + 1) / 2;
            if (edge[middle] <= behind - from)
                low = middle;
            else
                high = middle - 1;
        }
        at = low;
        if (behind - from < edge[at])
            return;
        past = (uint64_t)behind - (uint64_t)edge[at]; /* edges may be anywhere */
        end = past < c1 ? (int)past + 1 : (int)c1;
        if (at < n && (lanes(from, end) & all) == all) { /* the usual case of wide buckets */
            sum[at] += (double)s->g->cell_sum(p, (size_t)from / 16 * 16, c1);
            return;
        }
        for (int c = from; at < n && c < end; c++)
            sum[at] += (double)p[c];
        allow &= ~lanes(0, end);
    }
}

static void E(add_to_classes)(E(stats_work) * s, size_t r, const REAL *p, uint64_t allow)
{
    const E(work) *w = &s->w;
    const attn_view *of = &s->ask->key_class;
    const uint8_t *class = attn__cell(of, (int64_t)w->b, (int64_t)w->head[r], 0);
    ptrdiff_t stride = of->size[3] > 1 ? of->stride[3] : 0;
    int64_t column = w->seq.column + w->tile.pos - w->seq.k_pos;
    double *sum = s->class_mass + r * s->classes;

    for (; allow; allow &= allow - 1) {
        int lane = lowest(allow);
        size_t number = class[(column + lane) * stride];

        if (number < s->classes)
            sum[number] += (double)p[lane];
    }
}

static void E(write_chosen)(const E(stats_work) * s, size_t r, const REAL *p, size_t c0, size_t c1)
{
    const E(work) *w = &s->w;
    const attn_view *to = &s->ask->row_weights;
    const E(tile) *t = &w->tile;
    int64_t first = t->first > (int)c0 ? t->first : (int)c0;
    int64_t end = t->end < (int)c1 ? t->end : (int)c1;
    int64_t column = w->seq.column + t->pos - w->seq.k_pos;
    char *row = attn__cell(to, (int64_t)w->b, (int64_t)w->head[r], s->chosen[r]);

    row += (column + first) * to->stride[3] * attn__element_size(to->type);
    w->k->store_row(row, to->type, to->stride[3], p + first, (size_t)(end - first), 1);
}

/* What row r gathers from its weights. */
static void E(add_to_row)(E(stats_work) * s, size_t r, const REAL *p, uint64_t allow, size_t c0,
                          size_t c1)
{
    const E(work) *w = &s->w;
    int64_t behind = w->seq.q_pos + w->row[r] - w->tile.pos, first = w->seq.k_pos - w->tile.pos;

    if (!allow)
        return;
    if (s->has_distance)
        s->distance[r] += (double)s->g->distance_sum(p, c0, c1, (REAL)behind);
    if (s->has_first && first >= 0 && first < attn__tile && allow >> first & 1)
        s->first_mass[r] = (double)p[first];
    if (s->has_previous && behind >= 1 && behind <= attn__tile && allow >> (behind - 1) & 1)
        s->previous_mass[r] = (double)p[behind - 1];
    if (s->classes > 0)
        E(add_to_classes)(s, r, p, allow);
    if (s->bucket_count > 0)
        E(add_to_buckets)(s, r, p, allow, c1);
}

/* The logits of row r, where asked for. */
static void E(write_all_logits)(const E(stats_work) * s, size_t g, size_t r, uint64_t allow)
{
    const E(work) *w = &s->w;
    const REAL *last = w->s + r * attn__tile;
    const REAL *raw = w->raw ? w->raw + r * attn__tile : last;
    const REAL *capped = w->capped ? w->capped + r * attn__tile : last;

    E(write_logits)(s, &s->ask->raw_logits, g + r, raw, allow);
    E(write_logits)(s, &s->ask->capped_logits, g + r, capped, allow);
    E(write_logits)(s, &s->ask->logits, g + r, last, allow);
}

/* What keys and map cells gather from the weights of rows g .. g+mr-1, in runs of one head and map
 * row. */
static void E(add_to_columns)(E(stats_work) * s, size_t g, size_t mr, const uint64_t *allow,
                              size_t c0, size_t c1)
{
    const E(work) *w = &s->w;
    size_t tiles = w->l->tiles * attn__tile;

    for (size_t r = 0, n; r < mr; r += n) {
        const REAL *p = w->s + r * attn__tile;
        double *mass = s->key_mass + (w->head[g + r] - s->item.head) * tiles;

        n = 1;
        while (r + n < mr && w->head[g + r + n] == w->head[g + r] &&
               s->map_row[g + r + n] == s->map_row[g + r])
            n++;
        if (s->has_key_mass)
            s->k->add_columns(mass + (w->tile.pos - s->base), p, n, c0, c1, s->weight + g + r);
        if (s->side[1].cells > 0)
            E(add_to_map)(s, g + r, p, allow + r, n, c0, c1);
    }
}

static void E(visit_stats)(E(stats_work) * s, size_t g, size_t mr)
{
    E(work) *w = &s->w;
    uint64_t allow[attn__group];
    size_t c0, c1;
    extent c;

    if (!E(logits)(w, g, mr, allow, &c))
        return;
    c0 = c.c0;
    c1 = c.c1;
    for (size_t r = 0; r < mr; r++) {
        REAL *cells = w->s + r * attn__tile;

        if (s->writes_logits)
            E(write_all_logits)(s, g, r, allow[r]);
        if (s->top_size > 0)
            E(take_top)(s, g + r, cells, allow[r], c0, c1);
        if (!s->weighs)
            continue;
        w->k->weights(cells, c0, c1, allow[r], s->max[g + r], s->factor[g + r]);
        E(add_to_row)(s, g + r, cells, allow[r], c0, c1);
        if (s->chosen[g + r] >= 0 && allow[r])
            E(write_chosen)(s, g + r, cells, c0, c1);
    }
    if (s->weighs)
        E(add_to_columns)(s, g, mr, allow, c0, c1);
}

/* --- an item -------------------------------------------------------------------------------- */

/* Puts the keys of tile t into w->tile; false if a keep-mask leaves nothing of it. */
static bool E(set_key_tile)(E(work) * w, int64_t t)
{
    if (!E(start_tile)(w, t))
        return false;
    if (!E(keys_in_place)(w, t)) {
        w->tile.keys = w->keys;
        E(pack_tile)(w, t, w->keys, NULL);
    }
    return true;
}

static void E(stats_block)(E(stats_work) * s, size_t at, size_t rows)
{
    E(work) *w = &s->w;
    int64_t first, last;

    E(place_item_rows)(s, at, rows);
    E(load_item_rows)(s);
    for (size_t r = 0; r < rows; r++)
        E(start_row)(s, r);
    if (s->side[1].cells > 0)
        E(begin_map)(s);
    E(visible_splits)(w, &first, &last);
    first *= attn__split / attn__tile;
    last = (last + 1) * (attn__split / attn__tile);
    for (int64_t t = first; t < last; t++) {
        int64_t pos = t * attn__tile;
        bool have = false;

        for (size_t g = 0; g < rows; g += attn__group) {
            const E(range) *range = &w->range[g / attn__group];
            if (range->low >= pos + attn__tile || range->high <= pos || range->low >= range->high)
                continue;
            if (!have && !E(set_key_tile)(w, t))
                break;
            if (!have && s->side[1].cells > 0)
                E(set_spans)(s);
            have = true;
            E(visit_stats)(s, g, E(group_rows)(w, g));
        }
        if (s->side[1].cells > 0)
            E(close_map_sums)(s);
    }
    E(write_block)(s);
    if (s->side[1].cells > 0)
        E(end_map)(s);
}

/* Sums of the item, to those of the items before. */
static void E(add_item)(const E(stats_work) * s)
{
    const E(work) *w = &s->w;
    const attn_stats *ask = s->ask;
    int64_t b = (int64_t)w->b;

    for (size_t n = 0; n < s->item.heads; n++) {
        int64_t h = (int64_t)(s->item.head + n);
        const double *mass = s->key_mass + n * w->l->tiles * attn__tile + (w->seq.k_pos - s->base);

        if (s->has_key_mass)
            attn__add_to(&ask->key_mass, b, h, 0, w->seq.column, mass, w->seq.keys);
        if (s->bucket_count > 0)
            attn__add_to(&ask->distance_mass, b, h, 0, 0, s->buckets + n * s->bucket_count,
                         (int64_t)s->bucket_count);
    }
    if (s->side[1].cells > 0)
        E(finish_map)(s);
}

static void E(stats_item)(E(stats_work) * s)
{
    E(work) *w = &s->w;
    size_t rows = (size_t)(s->item.i1 - s->item.i0) * s->item.heads, block;

    w->b = s->item.sequence;
    w->key_head = s->item.head / w->p->group;
    attn__get_sequence(w->p, w->b, &w->seq);
    w->first_tile = w->seq.k_pos / attn__tile;
    s->base = w->first_tile * attn__tile;
    s->side[0].all = w->seq.rows;
    s->side[1].all = attn__map_columns(w->p, w->b);
    s->has_held = s->carries = false;
    block = attn__stats_block(w->p);
    if (s->has_key_mass)
        memset(s->key_mass, 0, s->item.heads * w->l->tiles * attn__tile * sizeof *s->key_mass);
    memset(s->buckets, 0, s->item.heads * s->bucket_count * sizeof *s->buckets);
    for (size_t at = 0; at < rows; at += block)
        E(stats_block)(s, at, rows - at < block ? rows - at : block);
    attn__stats_await(s->job, &s->item);
    E(add_item)(s);
    attn__stats_done(s->job, &s->item);
}

void E(attn__stats_sweep)(attn__stats *job, size_t worker)
{
    const attn__problem *p = job->problem;
    E(stats_work) s = {.job = job};
    attn__item item;

    s.k = &p->ctx->kernels->E(stats);
    s.g = &p->ctx->kernels->E(gradient);
    s.w.p = p;
    s.w.l = job->layout;
    s.w.k = &p->ctx->kernels->REAL_NAME;
    s.w.q_stride = p->d;
    E(cut_stats)(&s, p, job->layout, job->scratch + worker * job->layout->stats_scratch);
    for (int r = 0; r < attn__group; r++)
        s.one[r] = 1;
    while (attn__claim(&job->schedule, &item)) {
        s.item = attn__stats_find(p, &item);
        E(stats_item)(&s);
        attn__item_done(&job->schedule, &item);
    }
}
