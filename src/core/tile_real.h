/* tile_real.h: what an item works with, its memory, and how the keys and values of a tile get to
 * hand, for one kind of number. Part of engine_real.h. */

/* Running result of some rows; the same three arrays as attn_partial. */
typedef struct E(record) {
    REAL *out; /* [rows][width] */
    REAL *max; /* [rows] */
    REAL *sum; /* [rows] */
    /* With statistics of rows: */
    REAL *moment;      /* [rows] sum of e^(t - max) (t - max) */
    REAL *peak;        /* [rows] largest logit, */
    int64_t *peak_pos; /* and its position */
} E(record);

typedef struct E(tile) {
    int64_t pos;      /* position of lane 0 */
    int first, end;   /* lanes that hold keys */
    const void *keys; /* packed tile */
    attn_type key_type, value_type;
    const void *values; /* of lane `first` */
    ptrdiff_t value_stride;
    const float *key_scale;   /* i8: of lane 0 */
    const float *value_scale; /* i8: of lane `first` */
    uint64_t bad;             /* lanes whose values hold NaN or infinity, once looked at */
    bool looked;
    bool fresh_keys, fresh_values; /* read where they lie, and by no group yet */
    uint64_t keep; /* a keep-mask that is the same for all rows and heads; else all ones */
} E(tile);

/* Visible positions of a group of rows. */
typedef struct E(range) {
    int64_t low, high;         /* no row sees anything outside; low >= high: nothing at all */
    int64_t all_low, all_high; /* every row sees all between */
} E(range);

typedef struct E(work) {
    const attn__problem *p;
    const attn__layout *l;
    const E(attn__kernels) * k;
    attn__sequence seq;
    size_t b, key_head, rows;
    int64_t first_tile; /* of the sequence, on the grid */
    attn__slot *slot;
    E(tile) tile;

    REAL *q; /* [rows][q_stride], scaled */
    size_t q_stride;
    E(record) open, total;
    bool has_total;
    REAL (*sums)[16];             /* row sums of the open record, by key position mod 16 */
    REAL (*moments)[16];          /* and its moments */
    REAL *kept_max, *kept_factor; /* see attn__job */
    E(range) * range;             /* of each group */
    int64_t *low, *high;          /* visible positions of each row, */
    int64_t *row;                 /* its number within the sequence, */
    size_t *head;                 /* and its query head */
    REAL *factor;                 /* 1 / sum of each finished row */
    REAL *dout;                   /* [width] of the row at hand, to make delta */
    REAL *s;                      /* [6][64] scores, then weights */
    REAL *raw;                    /* NULL, or where to leave scores as they are, */
    REAL *capped;                 /* as softcap made them, */
    REAL *untiled;                /* and as the tile function got them */
    REAL *bias;                   /* [64] */
    REAL *keys, *values;          /* one packed tile */
} E(work);

/* --- memory --------------------------------------------------------------------------------- */

static size_t E(cut_record)(E(record) * r, const attn__problem *p, char *base, size_t at,
                            size_t rows)
{
    r->out = attn__cut(base, &at, rows * p->width * sizeof(REAL));
    r->max = attn__cut(base, &at, rows * sizeof(REAL));
    r->sum = attn__cut(base, &at, rows * sizeof(REAL));
    r->moment = r->peak = NULL;
    r->peak_pos = NULL;
    if (!p->row_stats)
        return at;
    r->moment = attn__cut(base, &at, rows * sizeof(REAL));
    r->peak = attn__cut(base, &at, rows * sizeof(REAL));
    r->peak_pos = attn__cut(base, &at, rows * sizeof *r->peak_pos);
    return at;
}

static size_t E(cut_scratch)(E(work) * w, const attn__problem *p, const attn__layout *l, char *base)
{
    size_t at = 0, rows = l->block_rows, real = sizeof(REAL);

    w->q = attn__cut(base, &at, rows * p->d * real);
    at = E(cut_record)(&w->open, p, base, at, rows);
    at = E(cut_record)(&w->total, p, base, at, rows);
    w->sums = attn__cut(base, &at, rows * sizeof *w->sums);
    w->moments = attn__cut(base, &at, p->row_stats ? rows * sizeof *w->moments : 0);
    w->range = attn__cut(base, &at, rows / attn__group * sizeof *w->range);
    w->low = attn__cut(base, &at, rows * sizeof *w->low);
    w->high = attn__cut(base, &at, rows * sizeof *w->high);
    w->row = attn__cut(base, &at, rows * sizeof *w->row);
    w->head = attn__cut(base, &at, rows * sizeof *w->head);
    w->factor = attn__cut(base, &at, rows * real);
    w->dout = attn__cut(base, &at, p->has_delta ? p->width * real : 0);
    w->s = attn__cut(base, &at, attn__group * attn__tile * real);
    w->bias = attn__cut(base, &at, attn__tile * real);
    w->keys = attn__cut(base, &at, attn__tile * p->d * real);
    w->values = attn__cut(base, &at, attn__tile * p->width * real);
    return at;
}

static size_t E(scratch_size)(const attn__problem *p, const attn__layout *l)
{
    E(work) w;

    return E(cut_scratch)(&w, p, l, NULL);
}

/* Memory of a slot that is shared: packed keys and values of all tiles, and for each split whether
 * it is packed. */
typedef struct E(packed) {
    REAL *keys, *values;
    atomic_int *state;
} E(packed);

enum { E(NOT_PACKED), E(PACKING), E(PACKED) };

static E(packed)
    E(slot_memory)(const attn__problem *p, const attn__layout *l, const attn__slot *slot)
{
    E(packed) m;
    size_t at = 0;

    m.keys = attn__cut(slot->memory, &at, l->tiles * attn__tile * p->d * sizeof(REAL));
    m.values = attn__cut(slot->memory, &at, l->tiles * attn__tile * p->width * sizeof(REAL));
    m.state = attn__cut(slot->memory, &at, l->splits * sizeof(atomic_int));
    return m;
}

/* Record of one split in the slot of a split-key call. */
static E(record) E(split_record)(const attn__problem *p, const attn__slot *slot, size_t split,
                                 size_t splits, size_t rows)
{
    E(record) r;

    E(cut_record)(&r, p, slot->memory, 0, splits * rows);
    r.out += split * rows * p->width;
    r.max += split * rows;
    r.sum += split * rows;
    if (p->row_stats) {
        r.moment += split * rows;
        r.peak += split * rows;
        r.peak_pos += split * rows;
    }
    return r;
}

static void E(open_slot)(const void *job, attn__slot *slot)
{
    const attn__job *j = job;

    if (j->layout->shared) {
        E(packed) m = E(slot_memory)(j->problem, j->layout, slot);
        for (size_t i = 0; i < j->layout->splits; i++)
            atomic_init(&m.state[i], E(NOT_PACKED));
    }
}

/* --- tiles ---------------------------------------------------------------------------------- */

/* Lanes of tile number t (on the grid) that hold keys of the sequence. */
static void E(tile_lanes)(const E(work) * w, int64_t t, int *first, int *end)
{
    int64_t low = w->seq.k_pos - t * attn__tile, high = low + w->seq.keys;

    *first = low > 0 ? (int)low : 0;
    *end = high < attn__tile ? (int)high : attn__tile;
}

/* Scales of the keys or values of tile t, by lane; only i8 caches have any. */
static const float *E(scales)(const E(work) * w, int64_t t, bool keys)
{
    const attn_cache *c = w->p->cache;
    int64_t pos = t * attn__tile > w->seq.k_pos ? t * attn__tile : w->seq.k_pos;

    if (!c || !c->k_scale)
        return no_scales;
    return attn__cache_scales(c, keys ? c->k_scale : c->v_scale, (int64_t)w->b,
                              (int64_t)w->key_head, pos);
}

/* n rows of values as REAL, padded to the width. */
static void E(widen_values)(const E(work) * w, REAL *to, const void *from, ptrdiff_t row_stride,
                            ptrdiff_t col_stride, size_t n, const float *scale)
{
    const attn__problem *p = w->p;
    attn_type type = p->v.type;

    if (type != ATTN_I8) {
        w->k->load_rows(to, (ptrdiff_t)p->width, n, type, from, row_stride, col_stride, p->dv,
                        p->width, 1);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        const int8_t *row = (const int8_t *)from + (ptrdiff_t)i * row_stride;
        w->k->load_rows(to + i * p->width, 0, 1, type, row, 0, 1, p->dv, p->width, (REAL)scale[i]);
    }
}

/* Tile t as the kernels want it; keys or values may be NULL: not wanted. Lanes without a key keep
 * what they held: nothing looks at the scores of such columns. */
static void E(pack_tile)(const E(work) * w, int64_t t, REAL *keys, REAL *values)
{
    const attn__problem *p = w->p;
    const attn_view *k = &p->k, *v = &p->v;
    int first, end;

    E(tile_lanes)(w, t, &first, &end);
    for (int lane = first; lane < end;) {
        const void *key, *value;
        size_t run =
            attn__key_run(p, w->b, &w->seq, w->key_head, t * attn__tile + lane - w->seq.k_pos,
                          (size_t)(end - lane), &key, &value);
        if (keys)
            w->k->pack_keys(keys, (size_t)lane, run, k->type, key, k->stride[2], k->stride[3],
                            p->d);
        if (values) {
            REAL *to = values + (size_t)lane * p->width;
            const float *scale = E(scales)(w, t, false) + lane;
            E(widen_values)(w, to, value, v->stride[2], v->stride[3], run, scale);
        }
        lane += (int)run;
    }
}

/* Packs split `split` of the slot's key head unless it is packed already. While another worker is
 * at it, packs later splits of the sequence rather than wait. */
static void E(need_split)(const E(work) * w, int64_t split)
{
    E(packed) m = E(slot_memory)(w->p, w->l, w->slot);
    int64_t first_split = w->seq.k_pos / attn__split;
    int64_t last = (w->seq.k_pos + w->seq.keys - 1) / attn__split, next = split;

    while (atomic_load_explicit(&m.state[split - first_split], memory_order_acquire) != E(PACKED)) {
        int expected = E(NOT_PACKED);
        int64_t tile, end;

        if (next > last) {
            attn__yield();
            continue;
        }
        if (!atomic_compare_exchange_strong(&m.state[next - first_split], &expected, E(PACKING))) {
            next++;
            continue;
        }
        tile = next * (attn__split / attn__tile);
        end = tile + attn__split / attn__tile;
        for (; tile < end; tile++) {
            size_t at = (size_t)(tile - w->first_tile) * attn__tile;
            if (tile < w->first_tile || tile * attn__tile >= w->seq.k_pos + w->seq.keys)
                continue;
            E(pack_tile)
            (w, tile, m.keys + at * w->p->d, w->p->width ? m.values + at * w->p->width : NULL);
        }
        atomic_store_explicit(&m.state[next - first_split], E(PACKED), memory_order_release);
    }
}

/* Values can be read where they lie if they are whole vectors in rows. Worth it when few rows share
 * the tile (more of them if nothing needs widening); with more, the copy pays (no widening again
 * and again, no cache conflicts of strided rows). */
static bool E(values_in_place)(E(work) * w, int64_t t)
{
    const attn__problem *p = w->p;
    const void *key, *value;
    size_t held = (size_t)(w->tile.end - w->tile.first);

    if (!p->width || w->rows >= (p->v.type == REAL_TYPE ? 2 * FEW_ROWS : FEW_ROWS) ||
        p->v.stride[3] != 1 || p->width != p->dv ||
        attn__key_run(p, w->b, &w->seq, w->key_head, t * attn__tile + w->tile.first - w->seq.k_pos,
                      held, &key, &value) < held)
        return false;
    w->tile.values = value;
    w->tile.value_type = p->v.type;
    w->tile.value_stride = p->v.stride[2];
    w->tile.value_scale = E(scales)(w, t, false) + w->tile.first;
    return true;
}

/* Keys of a tiled cache are packed already; half types are widened as they are read, or once if
 * many rows will read them. */
static bool E(keys_in_place)(E(work) * w, int64_t t)
{
    const attn__problem *p = w->p;

    if (!p->cache || !p->cache->tiled)
        return false;
    w->tile.keys = attn__cache_tile(p->cache, (int64_t)w->b, (int64_t)w->key_head,
                                    t * attn__tile + w->tile.first);
    w->tile.key_type = p->k.type;
    w->tile.key_scale = E(scales)(w, t, true);
    if (p->k.type != REAL_TYPE && w->rows >= FEW_ROWS) {
        w->k->widen_keys(w->keys, p->k.type, w->tile.keys, w->tile.key_scale, p->d);
        w->tile.keys = w->keys;
        w->tile.key_type = REAL_TYPE;
    }
    return true;
}

/* Keep-mask of row r over the lanes that hold keys. */
static uint64_t E(keep_bits)(const E(work) * w, size_t r)
{
    const E(tile) *t = &w->tile;
    int64_t column = w->seq.column + t->pos + t->first - w->seq.k_pos;

    return attn__keep_bits(w->p, w->b, w->head[r], w->row[r], column, (size_t)(t->end - t->first))
           << t->first;
}

/* Begins tile t of the sequence; false if a keep-mask leaves nothing of it. */
static bool E(start_tile)(E(work) * w, int64_t t)
{
    E(tile) *tile = &w->tile;

    *tile = (E(tile)){.pos = t * attn__tile,
                      .key_type = REAL_TYPE,
                      .value_type = REAL_TYPE,
                      .value_stride = (ptrdiff_t)w->p->width};
    E(tile_lanes)(w, t, &tile->first, &tile->end);
    tile->keep = w->p->keep_repeats ? E(keep_bits)(w, 0) : ~(uint64_t)0;
    return tile->keep != 0;
}

/* Puts tile t of the sequence into w->tile; false if a keep-mask leaves nothing of it. */
static bool E(set_tile)(E(work) * w, int64_t t)
{
    E(tile) *tile = &w->tile;
    bool keys, values;

    if (!E(start_tile)(w, t))
        return false;
    if (w->l->shared) {
        E(packed) m = E(slot_memory)(w->p, w->l, w->slot);
        size_t at = (size_t)(t - w->first_tile) * attn__tile;
        tile->keys = m.keys + at * w->p->d;
        tile->values = m.values + (at + (size_t)tile->first) * w->p->width;
        return true;
    }
    keys = tile->fresh_keys = E(keys_in_place)(w, t);
    values = tile->fresh_values = E(values_in_place)(w, t);
    if (!keys)
        tile->keys = w->keys;
    if (!values)
        tile->values = w->values + (size_t)tile->first * w->p->width;
    values |= w->p->width == 0; /* none are wanted */
    if (!keys || !values)
        E(pack_tile)(w, t, keys ? NULL : w->keys, values ? NULL : w->values);
    return true;
}

/* Looks for NaN and infinities among the values of the tile; values of half types are widened for
 * that. */
static void E(look_at_values)(E(work) * w)
{
    const attn__problem *p = w->p;
    E(tile) *t = &w->tile;
    size_t held = (size_t)(t->end - t->first);

    if (t->value_type != REAL_TYPE) {
        E(widen_values)(w, w->values, t->values, t->value_stride, 1, held, t->value_scale);
        t->values = w->values;
        t->value_type = REAL_TYPE;
        t->value_stride = (ptrdiff_t)p->width;
        t->fresh_values = false;
    }
    t->bad = w->k->nonfinite_rows(t->values, t->value_stride, held, p->width) << t->first;
    t->looked = true;
}

/* Weights of mr rows from row g on, for lanes from .. to-1, times their values. */
static void E(multiply_values)(E(work) * w, size_t g, size_t mr, const REAL *weights, int from,
                               int to)
{
    const attn__problem *p = w->p;
    E(tile) *t = &w->tile;
    const char *values = t->values;

    values += (from - t->first) * t->value_stride * attn__element_size(t->value_type);
    w->k->values(w->open.out + g * p->width, (ptrdiff_t)p->width, mr, weights, (size_t)from,
                 (size_t)to, t->value_type, values, t->value_stride,
                 t->value_type == ATTN_I8 ? t->value_scale + (from - t->first) : NULL, p->width,
                 t->fresh_values);
    t->fresh_values = false;
}
