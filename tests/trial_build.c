/* trial_build.c: views, masks and data of the random calls of trial.h. */
#include "tests/trial.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* --- Tile function -------------------------------------------------------------------------- */

/* Rules: relative positions with a band; contractions by batch and head, and by the logit's size;
 * masks by rows. */
enum { RULE_BAND, RULE_HALVE, RULE_ROWS, RULE_COLUMNS, RULE_BEND, RULE_COUNT };

int tile_masks(const tile_rule *rule, const attn_tile *tile, int64_t r, int64_t c)
{
    int64_t distance = tile->k_pos + c - tile->q_pos - r;

    switch (rule->kind) {
    case RULE_BAND:
        return distance > rule->band || distance < -rule->band;
    case RULE_ROWS:
        return (tile->q_row + r + tile->k_row + c + tile->batch + tile->head) % 3 == 0;
    case RULE_COLUMNS:
        return (tile->k_row + c) % 7 == rule->band % 7;
    default:
        return 0;
    }
}

static double tile_value(const tile_rule *rule, const attn_tile *tile, int64_t r, int64_t c,
                         double x)
{
    int64_t distance = tile->k_pos + c - tile->q_pos - r;

    if (tile_masks(rule, tile, r, c))
        return -HUGE_VAL;
    if (rule->kind == RULE_BAND)
        return x + (double)(distance % 5) * 0.125;
    if (rule->kind == RULE_HALVE)
        return x * 0.5 + (double)tile->head * 0.25 + (double)tile->batch * 0.125;
    if (rule->kind == RULE_BEND)
        return 0.5 * x + 0.5 * x / sqrt(1 + x * x);
    return x;
}

/* Derivative of tile_value by x; 0 where it masks. */
static double tile_slope(const tile_rule *rule, const attn_tile *tile, int64_t r, int64_t c,
                         double x)
{
    if (tile_masks(rule, tile, r, c))
        return 0;
    if (rule->kind == RULE_BEND)
        return 0.5 + 0.5 / ((1 + x * x) * sqrt(1 + x * x));
    return rule->kind == RULE_HALVE ? 0.5 : 1;
}

void tile_apply(void *user, const attn_tile *tile)
{
    const tile_rule *rule = user;

    for (int64_t r = 0; r < tile->rows; r++)
        for (int64_t c = 0; c < tile->cols; c++) {
            int64_t at = r * tile->stride + c;

            if (tile->type == ATTN_F64) {
                double *cell = (double *)tile->logits + at;

                *cell = tile_value(rule, tile, r, c, *cell);
            } else {
                float *cell = (float *)tile->logits + at;

                *cell = (float)tile_value(rule, tile, r, c, (double)*cell);
            }
        }
}

void tile_gradient(void *user, const attn_tile *tile, void *gradient)
{
    const tile_rule *rule = user;

    for (int64_t r = 0; r < tile->rows; r++)
        for (int64_t c = 0; c < tile->cols; c++) {
            int64_t at = r * tile->stride + c;

            if (tile->type == ATTN_F64)
                ((double *)gradient)[at] *=
                    tile_slope(rule, tile, r, c, ((double *)tile->logits)[at]);
            else {
                double x = (double)((float *)tile->logits)[at];
                float *cell = (float *)gradient + at;

                *cell = (float)((double)*cell * tile_slope(rule, tile, r, c, x));
            }
        }
}

/* --- Sequences ------------------------------------------------------------------------------ */

trial_rows trial_sequence(const trial *t, int64_t s)
{
    const attn_mask *m = &t->mask;
    trial_rows rows = {t->tq, t->tk, 0, 0, 0};

    if (m->segments > 0) {
        rows.tq = m->q_starts[s + 1] - m->q_starts[s];
        rows.k_first = m->k_starts[s];
        rows.tk = m->k_starts[s + 1] - m->k_starts[s];
    }
    rows.k_start = m->k_start ? m->k_start[s] : 0;
    rows.k_count = m->k_count ? m->k_count[s] : rows.tk - rows.k_start;
    return rows;
}

static int64_t *numbers(trial *t, int64_t n)
{
    return arena_get(&t->memory, ((size_t)n + 1) * sizeof(int64_t));
}

/* Ascending row numbers 0 .. total; some segments are empty. */
static int64_t *draw_starts(trial *t, int64_t total, int64_t *longest)
{
    int64_t *starts = numbers(t, t->sequences);

    starts[0] = 0;
    *longest = 0;
    for (int64_t s = 0; s < t->sequences; s++) {
        int64_t left = total - starts[s], here = rng_int(&t->random, 0, left);

        if (rng_chance(&t->random, 20))
            here = 0;
        if (s + 1 == t->sequences)
            here = left;
        starts[s + 1] = starts[s] + here;
        *longest = here > *longest ? here : *longest;
    }
    return starts;
}

static void build_sequences(trial *t)
{
    t->sequences = t->b;
    t->longest_q = t->tq;
    t->longest_k = t->tk;
    if (!(t->options & OPT_PACKED))
        return;
    t->sequences = t->mask.segments = rng_int(&t->random, 1, 5);
    t->mask.q_starts = draw_starts(t, t->tq, &t->longest_q);
    t->mask.k_starts = draw_starts(t, t->tk, &t->longest_k);
}

static void build_lengths(trial *t)
{
    rng *r = &t->random;
    int64_t *start = numbers(t, t->sequences), *count = numbers(t, t->sequences);
    int64_t *queries = numbers(t, t->sequences);
    int which = (int)rng_int(r, 1, 7);

    for (int64_t s = 0; s < t->sequences; s++) {
        trial_rows rows = trial_sequence(t, s);

        start[s] = rng_int(r, 0, rng_chance(r, 70) ? rows.tk / 4 : rows.tk);
        count[s] = rng_chance(r, 10) ? 0 : rng_int(r, 0, rows.tk - (which & 1 ? start[s] : 0));
        queries[s] = rng_int(r, rng_chance(r, 70) ? rows.tq / 2 : 0, rows.tq);
    }
    if (which & 1)
        t->mask.k_start = start;
    if (which & 2)
        t->mask.k_count = count;
    if (which & 4)
        t->mask.q_count = queries;
}

/* Positions of keys: anywhere, and often so that 64-key tiles and 512-key splits begin inside. */
static int64_t draw_key_position(trial *t)
{
    rng *r = &t->random;
    int64_t back = rng_int(r, 0, t->longest_k);

    switch (rng_int(r, 0, 3)) {
    case 0:
        return rng_int(r, 0, 100);
    case 1:
        return 64 * rng_int(r, 1, 9);
    case 2:
        return back < 512 ? 512 - back : 0;
    default:
        return rng_int(r, 0, 3000);
    }
}

static void build_positions(trial *t)
{
    rng *r = &t->random;
    attn_mask *m = &t->mask;
    int64_t *queries = numbers(t, t->sequences), *keys = numbers(t, t->sequences);
    int each = rng_chance(r, 60);

    if (t->options & OPT_K_OFFSETS) {
        m->k_offset = draw_key_position(t);
        for (int64_t s = 0; s < t->sequences; s++)
            keys[s] = rng_chance(r, 30) ? 0 : draw_key_position(t) - m->k_offset;
        m->k_offsets = each ? keys : NULL;
    }
    if (t->options & (OPT_Q_OFFSETS | OPT_K_OFFSETS)) {
        m->q_offset = m->k_offset + rng_int(r, -3, t->longest_k);
        for (int64_t s = 0; s < t->sequences; s++)
            queries[s] = (m->k_offsets ? keys[s] : 0) + rng_int(r, -5, 5);
        m->q_offsets = rng_chance(r, 60) ? queries : NULL;
    }
    for (int64_t s = 0; s < t->sequences; s++) {
        int64_t q = m->q_offset + (m->q_offsets ? m->q_offsets[s] : 0) + t->longest_q;
        int64_t k = m->k_offset + (m->k_offsets ? m->k_offsets[s] : 0) + t->longest_k;

        t->top_q = q > t->top_q ? q : t->top_q;
        t->top_k = k > t->top_k ? k : t->top_k;
    }
}

/* --- Masks ---------------------------------------------------------------------------------- */

/* A view of [B or 1, H or 1, Tq or 1, Tk or 1]; sizes of 1 and strides of 0 take turns. */
static attn_view mask_view(trial *t, attn_type type)
{
    rng *r = &t->random;
    int64_t full[4] = {t->sequences, t->h, t->longest_q, t->longest_k}, made[4];
    int pattern = (int)rng_int(r, 0, 15), size_one = rng_chance(r, 50);
    layout kind = t->options & OPT_LAYOUTS ? (layout)rng_int(r, 0, LAYOUT_COUNT - 1) : LAYOUT_BHSD;
    attn_view view;

    if (rng_chance(r, 50))
        pattern = 0;
    for (int d = 0; d < 4; d++)
        made[d] = pattern >> d & 1 ? 1 : full[d];
    view = view_new(&t->memory, r, type, made[0], made[1], made[2], made[3], kind);
    for (int d = 0; d < 4 && !size_one; d++)
        if (pattern >> d & 1) {
            view.size[d] = full[d];
            view.stride[d] = 0;
        }
    return view;
}

static void build_keep(trial *t)
{
    static const int densities[] = {3, 50, 90};
    rng *r = &t->random;
    int percent = densities[rng_int(r, t->gen == GEN_MASKED_ROWS ? 0 : 1, 2)];
    attn_view v = t->mask.keep = mask_view(t, ATTN_U8);

    for (int64_t b = 0; b < v.size[0]; b++)
        for (int64_t h = 0; h < v.size[1]; h++)
            for (int64_t i = 0; i < v.size[2]; i++) {
                int blank = rng_chance(r, t->gen == GEN_MASKED_ROWS ? 40 : 5);

                for (int64_t j = 0; j < v.size[3]; j++)
                    view_set(&v, b, h, i, j,
                             !blank && rng_chance(r, percent) ? (double)rng_int(r, 1, 255) : 0);
            }
}

static double lowest(attn_type type)
{
    return type == ATTN_F16    ? -65504.0
           : type == ATTN_BF16 ? -0x1.FEp127
           : type == ATTN_F32  ? -(double)FLT_MAX
                               : -DBL_MAX;
}

static double draw_bias(rng *r, int kind, attn_type type)
{
    if (kind == 1 && rng_chance(r, 20))
        return -HUGE_VAL;
    if (kind == 2)
        return rng_chance(r, 60) ? lowest(type) : rng_chance(r, 50) ? -HUGE_VAL : 0;
    return kind == 3 ? rng_range(r, -30, 30) : rng_range(r, -2, 2);
}

static void build_bias(trial *t)
{
    static const attn_type types[] = {ATTN_F32, ATTN_F16, ATTN_BF16};
    rng *r = &t->random;
    attn_type type = t->options & OPT_F64 ? ATTN_F64 : types[rng_int(r, 0, 2)];
    attn_view v = t->mask.bias = mask_view(t, type);
    int kind = (int)rng_int(r, 0, 3);

    for (int64_t b = 0; b < v.size[0]; b++)
        for (int64_t h = 0; h < v.size[1]; h++)
            for (int64_t i = 0; i < v.size[2]; i++)
                for (int64_t j = 0; j < v.size[3]; j++)
                    view_set(&v, b, h, i, j, draw_bias(r, kind, type));
}

/* [B or 1, H, 1, 1] */
static attn_view head_view(trial *t, double low, double high)
{
    attn_type type = t->options & OPT_F64 ? ATTN_F64 : ATTN_F32;
    /* A merge knows nothing of the segments of a packed batch. */
    int one = t->options & OPT_PACKED && t->options & OPT_MERGE;
    int64_t batches = !one && rng_chance(&t->random, 50) ? t->sequences : 1;
    attn_view v = view_new(&t->memory, &t->random, type, batches, t->h, 1, 1, LAYOUT_PADDED);

    view_uniform(&v, &t->random, low, high);
    return v;
}

static void build_sink(trial *t)
{
    attn_view v = t->args.sink = head_view(t, -3, 3);

    for (int64_t b = 0; b < v.size[0]; b++)
        for (int64_t h = 0; h < t->h; h++)
            if (rng_chance(&t->random, 15))
                view_set(&v, b, h, 0, 0, rng_chance(&t->random, 60) ? -HUGE_VAL : 60);
}

static void build_blocks(trial *t)
{
    rng *r = &t->random;
    attn_block_list *l = &t->mask.blocks;
    int64_t lists, used = 0, *start, *index;
    int by_batch = rng_chance(r, 50), by_head = rng_chance(r, 50),
        percent = (int)rng_int(r, 30, 90);

    l->q_block = 64 * rng_int(r, 1, 3);
    l->k_block = 64 * rng_int(r, 1, 3);
    l->rows = t->top_q / l->q_block + 1;
    l->rows = rng_chance(r, 85) ? l->rows : rng_int(r, 1, l->rows);
    l->k_blocks = t->top_k / l->k_block + rng_int(r, 1, 2);
    lists = (by_batch ? t->sequences : 1) * (by_head ? t->h : 1);
    start = numbers(t, lists * (l->rows + 1));
    index = numbers(t, lists * l->rows * l->k_blocks);
    for (int64_t list = 0; list < lists; list++) {
        int64_t *row = start + list * (l->rows + 1);

        for (int64_t i = 0; i < l->rows; i++) {
            row[i] = used;
            for (int64_t c = 0; c < l->k_blocks; c++)
                if (rng_chance(r, percent))
                    index[used++] = c;
        }
        row[l->rows] = used;
    }
    l->start = start;
    l->index = index;
    l->index_count = used;
    l->head_stride = by_head ? l->rows + 1 : 0;
    l->batch_stride = by_batch ? (l->rows + 1) * (by_head ? t->h : 1) : 0;
}

static int64_t draw_side(trial *t)
{
    rng *r = &t->random;

    return rng_chance(r, 50) ? rng_int(r, -1, 2) : rng_int(r, 0, t->longest_k);
}

static void build_masks(trial *t)
{
    rng *r = &t->random;
    attn_mask *m = &t->mask;

    m->struct_size = sizeof *m;
    build_sequences(t);
    if (t->options & OPT_LENGTHS)
        build_lengths(t);
    build_positions(t);
    m->causal = (t->options & OPT_CAUSAL) != 0;
    if (t->options & OPT_WINDOW) {
        m->window = 1;
        m->window_left = draw_side(t);
        m->window_right = draw_side(t);
    }
    if (t->options & OPT_KEEP)
        build_keep(t);
    if (t->options & OPT_BIAS)
        build_bias(t);
    if (t->options & OPT_ALIBI)
        m->alibi = head_view(t, 0, 0.4);
    if (t->options & OPT_BLOCKS)
        build_blocks(t);
    if (t->options & OPT_TILE) {
        t->rule.kind = (int)rng_int(r, 0, RULE_COUNT - 1);
        t->rule.band = rng_int(r, 0, t->longest_k);
        m->tile = tile_apply;
        m->tile_user = &t->rule;
    }
}

/* --- Arrays --------------------------------------------------------------------------------- */

attn_type trial_type(trial *t)
{
    static const attn_type types[] = {ATTN_F32, ATTN_F16, ATTN_BF16};

    if (t->options & OPT_F64)
        return ATTN_F64;
    if (!(t->options & OPT_TYPES))
        return ATTN_F32;
    return t->gen == GEN_TRAP ? (rng_chance(&t->random, 70) ? ATTN_BF16 : ATTN_F32)
                              : types[rng_int(&t->random, 0, 2)];
}

attn_view trial_array(trial *t, attn_type type, int64_t b, int64_t h, int64_t n, int64_t d)
{
    rng *r = &t->random;

    if (t->options & OPT_GUARDS)
        return view_guarded(&t->memory, type, b, h, n, d, rng_chance(r, 50));
    if (t->options & OPT_LAYOUTS)
        return view_new(&t->memory, r, type, b, h, n, d, (layout)rng_int(r, 0, LAYOUT_COUNT - 1));
    return view_plain(&t->memory, type, b, h, n, d);
}

/* An input; sometimes all batches or heads are the same memory. */
static attn_view input(trial *t, int64_t h, int64_t n, int64_t d, int may_repeat)
{
    rng *r = &t->random;
    int repeat =
        may_repeat && t->options & OPT_LAYOUTS && rng_chance(r, 12) ? (int)rng_int(r, 0, 1) : -1;
    attn_view v = trial_array(t, trial_type(t), repeat == 0 && t->b > 0 ? 1 : t->b,
                              repeat == 1 ? 1 : h, n, d);

    if (repeat == 0) {
        v.size[0] = t->b;
        v.stride[0] = 0;
    } else if (repeat == 1) {
        v.size[1] = h;
        v.stride[1] = 0;
    }
    return v;
}

static void build_outputs(trial *t)
{
    static const attn_type types[] = {ATTN_F32, ATTN_F16, ATTN_BF16, ATTN_F64};
    rng *r = &t->random;
    attn_forward_args *a = &t->args;
    attn_type wide = t->options & OPT_F64 ? ATTN_F64 : ATTN_F32;

    if (t->options & OPT_PARTIAL) {
        t->partial.out = trial_array(t, wide, t->b, t->h, t->tq, t->dv);
        t->partial.sum = trial_array(t, wide, t->b, t->h, t->tq, 1);
        t->partial.max = trial_array(t, wide, t->b, t->h, t->tq, 1);
        a->partial = &t->partial;
        return;
    }
    if (t->options & OPT_IN_PLACE)
        a->out = a->q;
    else
        a->out = trial_array(t, trial_type(t), t->b, t->h, t->tq, t->dv);
    if (t->options & OPT_LSE)
        a->lse = trial_array(t, rng_chance(r, 30) ? ATTN_F64 : wide, t->b, t->h, t->tq, 1);
    if (t->options & OPT_WEIGHTS) {
        int64_t heads = rng_int(r, 1, t->h);
        attn_type type = t->options & (OPT_TYPES | OPT_F64) ? types[rng_int(r, 0, 3)] : ATTN_F32;

        a->weights_head = rng_int(r, 0, t->h - heads);
        a->weights = trial_array(t, type, t->sequences, heads, t->longest_q, t->longest_k);
    }
    if (t->options & (OPT_LSE | OPT_WEIGHTS) && !(t->options & OPT_IN_PLACE) && rng_chance(r, 5))
        memset(&a->out, 0, sizeof a->out);
}

/* --- Data ----------------------------------------------------------------------------------- */

static double v_value(trial *t, int64_t j, double row_factor)
{
    rng *r = &t->random;

    switch (t->gen) {
    case GEN_UNIFORM:
        return rng_range(r, -1, 1);
    case GEN_KEYS_EQUAL:
        return rng_range(r, 0.5, 1);
    case GEN_CANCEL:
        return j % 2 ? 1000.0 : -1000.0;
    case GEN_DENORMAL:
        return rng_bell(r) * (t->options & OPT_F64 ? 0x1p-1060 : 0x1p-140);
    case GEN_HUGE_V:
        return rng_range(r, -1, 1) * row_factor;
    default:
        return rng_bell(r) * row_factor;
    }
}

static double v_factor(trial *t, attn_type type)
{
    double n = (double)t->tk + 1;

    if (t->gen == GEN_RANGES)
        return exp2((double)rng_int(&t->random, -20, type == ATTN_F16 ? 8 : 20));
    if (t->gen == GEN_HUGE_V) /* dropout may multiply by 10 */
        return (type == ATTN_F64 ? DBL_MAX : (double)FLT_MAX) / (256 * 16 * n);
    return 1;
}

static void fill_values(trial *t)
{
    const attn_view *v = &t->args.v;

    for (int64_t b = 0; b < t->b; b++)
        for (int64_t h = 0; h < t->hk; h++)
            for (int64_t j = 0; j < t->tk; j++) {
                double factor = v_factor(t, v->type);

                for (int64_t c = 0; c < t->dv; c++)
                    view_set(v, b, h, j, c, v_value(t, j, factor));
            }
}

/* Factors of q and k as a whole. */
static double q_factor(const trial *t)
{
    return t->gen == GEN_LOGITS_20    ? 20
           : t->gen == GEN_LOGITS_30  ? 30
           : t->gen == GEN_LOGITS_1E4 ? 100
                                      : 1;
}

/* One row of q or k. `first` is the row it must repeat in the generators of equal rows. */
static void fill_row(trial *t, const attn_view *v, const int64_t at[3], double factor, int equal)
{
    rng *r = &t->random;

    for (int64_t c = 0; c < v->size[3]; c++) {
        double x = t->gen == GEN_UNIFORM ? rng_range(r, -1, 1) : rng_bell(r);

        if (t->gen == GEN_TRAP)
            x = 133120;
        else if (equal && at[2] > 0)
            x = view_get(v, at[0], at[1], 0, c);
        else
            x *= factor;
        view_set(v, at[0], at[1], at[2], c, x);
    }
}

static void fill_queries(trial *t)
{
    const attn_view *q = &t->args.q;

    for (int64_t b = 0; b < t->b; b++)
        for (int64_t h = 0; h < t->h; h++)
            for (int64_t i = 0; i < t->tq; i++)
                fill_row(t, q, (int64_t[3]){b, h, i}, q_factor(t), t->gen == GEN_ROWS_EQUAL);
}

static void fill_keys(trial *t)
{
    const attn_view *k = &t->args.k;
    int equal = t->gen == GEN_ROWS_EQUAL || t->gen == GEN_KEYS_EQUAL;

    for (int64_t b = 0; b < t->b; b++)
        for (int64_t h = 0; h < t->hk; h++) {
            int64_t strong = rng_int(&t->random, 0, t->tk);

            for (int64_t j = 0; j < t->tk; j++) {
                double factor = t->gen == GEN_LOGITS_1E4 ? 100 : 1;

                if (t->gen == GEN_RANGES)
                    factor = exp2((double)rng_int(&t->random, -10, 10));
                fill_row(t, k, (int64_t[3]){b, h, j}, factor, equal);
                for (int64_t c = 0; t->gen == GEN_DOMINANT && j == strong && t->tq > 0 && c < t->d;
                     c++)
                    view_set(k, b, h, j, c, 5 * view_get(&t->args.q, b, h * t->group, 0, c));
            }
        }
}

static double draw_special(rng *r)
{
    switch (rng_int(r, 0, 3)) {
    case 0:
        return HUGE_VAL;
    case 1:
        return -HUGE_VAL;
    default:
        return (double)NAN;
    }
}

/* A NaN or infinity somewhere among the elements. */
static void spoil(trial *t, const attn_view *v)
{
    rng *r = &t->random;

    if (!v->data || view_count(v) == 0)
        return;
    view_set(v, rng_int(r, 0, v->size[0] - 1), rng_int(r, 0, v->size[1] - 1),
             rng_int(r, 0, v->size[2] - 1), rng_int(r, 0, v->size[3] - 1), draw_special(r));
}

static void spoil_some(trial *t)
{
    const attn_view *views[] = {&t->args.q, &t->args.k, &t->args.v, &t->mask.bias};
    int64_t n = rng_int(&t->random, 1, 3);

    while (n-- > 0)
        spoil(t, views[rng_int(&t->random, 0, 3)]);
}

/* --- Poison --------------------------------------------------------------------------------- */

static int repeats(const attn_view *v)
{
    for (int d = 0; d < 4; d++)
        if (v->size[d] > 1 && v->stride[d] == 0)
            return 1;
    return 0;
}

int trial_attends(const trial *t, int64_t s, int64_t h, int64_t i, int64_t j)
{
    const attn_mask *m = &t->mask;
    attn_tile tile = {.batch = s, .head = h, .q_row = i, .k_row = j};

    if (!ref_allows(&t->args, s, h, i, j))
        return 0;
    tile.q_pos = m->q_offset + (m->q_offsets ? m->q_offsets[s] : 0) + i;
    tile.k_pos =
        m->k_offset + (m->k_offsets ? m->k_offsets[s] : 0) + j - (m->k_start ? m->k_start[s] : 0);
    return !m->tile || !tile_masks(&t->rule, &tile, 0, 0);
}

/* A bias is poisoned where other parts of the mask hide it: what it says there must not matter. */
static void poison_bias(trial *t, int64_t s, int64_t h, int64_t i, int64_t j)
{
    const attn_view *bias = &t->mask.bias;

    if (bias->data && !repeats(bias) && bias->size[0] == t->sequences && bias->size[1] == t->h &&
        bias->size[2] == t->longest_q && bias->size[3] == t->longest_k &&
        view_get(bias, s, h, i, j) != -HUGE_VAL && rng_chance(&t->random, 50))
        view_set(bias, s, h, i, j, draw_special(&t->random));
}

static void poison_key(trial *t, int64_t s, int64_t hk, int64_t row)
{
    rng *r = &t->random;
    int64_t b = t->mask.segments > 0 ? 0 : s;

    if (!repeats(&t->args.k))
        view_set(&t->args.k, b, hk, row, rng_int(r, 0, t->d - 1), draw_special(r));
    if (repeats(&t->args.v))
        return;
    for (int64_t c = 0; c < t->dv; c++)
        view_set(&t->args.v, b, hk, row, c, draw_special(r));
}

static void poison(trial *t)
{
    for (int64_t s = 0; s < t->sequences; s++) {
        trial_rows rows = trial_sequence(t, s);

        for (int64_t hk = 0; hk < t->hk; hk++)
            for (int64_t j = 0; j < rows.tk; j++) {
                int used = 0;

                for (int64_t h = hk * t->group; h < (hk + 1) * t->group; h++)
                    for (int64_t i = 0; i < rows.tq; i++) {
                        if (trial_attends(t, s, h, i, j))
                            used = 1;
                        else if (!ref_allows(&t->args, s, h, i, j))
                            poison_bias(t, s, h, i, j);
                    }
                if (!used)
                    poison_key(t, s, hk, rows.k_first + j);
            }
    }
}

/* --- All together --------------------------------------------------------------------------- */

/* A record from elsewhere; some rows are empty. */
static void build_start(trial *t)
{
    rng *r = &t->random;
    attn_type type = t->options & OPT_F64 ? ATTN_F64 : ATTN_F32;
    attn_partial *p = &t->start;

    p->out = trial_array(t, type, t->b, t->h, t->tq, t->dv);
    p->sum = trial_array(t, type, t->b, t->h, t->tq, 1);
    p->max = trial_array(t, type, t->b, t->h, t->tq, 1);
    for (int64_t b = 0; b < t->b; b++)
        for (int64_t h = 0; h < t->h; h++)
            for (int64_t i = 0; i < t->tq; i++) {
                double sum = rng_chance(r, 15) ? 0 : rng_range(r, 0.5, 3);

                view_set(&p->sum, b, h, i, 0, sum);
                view_set(&p->max, b, h, i, 0, sum > 0 ? q_factor(t) * rng_bell(r) : -HUGE_VAL);
                for (int64_t c = 0; c < t->dv; c++)
                    view_set(&p->out, b, h, i, c, sum * rng_bell(r));
            }
    t->args.start = p;
}

static void build_numbers(trial *t)
{
    static const double drops[] = {0.001, 0.1, 0.5, 0.9};
    rng *r = &t->random;
    attn_forward_args *a = &t->args;

    if (t->options & OPT_SCALE) {
        a->has_scale = 1;
        a->scale = rng_chance(r, 20) ? 0 : rng_range(r, -1, 1);
    }
    if (t->options & OPT_SOFTCAP)
        a->softcap = rng_chance(r, 50) ? rng_range(r, 0.5, 5) : rng_range(r, 5, 60);
    if (t->options & OPT_SINK)
        build_sink(t);
    if (t->options & OPT_DROPOUT) {
        a->dropout = drops[rng_int(r, 0, 3)];
        a->dropout_seed = rng_next(r);
        a->dropout_batch = rng_chance(r, 50) ? 0 : rng_int(r, -3, INT64_C(1) << 33);
        a->dropout_head = rng_chance(r, 50) ? 0 : rng_int(r, -3, 1000);
    }
}

void trial_build(trial *t)
{
    attn_forward_args *a = &t->args;
    int in_place = (t->options & OPT_IN_PLACE) != 0;

    a->struct_size = sizeof *a;
    build_masks(t);
    a->mask = &t->mask;
    a->q = input(t, t->h, t->tq, t->d, !in_place);
    a->k = input(t, t->hk, t->tk, t->d, 1);
    a->v = input(t, t->hk, t->tk, t->dv, 1);
    build_numbers(t);
    fill_queries(t);
    fill_keys(t);
    fill_values(t);
    if (t->options & OPT_START)
        build_start(t);
    if (t->gen == GEN_SPECIAL)
        spoil_some(t);
    if (t->options & OPT_POISON)
        poison(t);
    build_outputs(t);
    if (in_place)
        t->q_copy = view_copy(&t->memory, &t->random, &a->q, a->q.type, LAYOUT_BHSD);
    t->how.exact_scores = t->gen == GEN_TRAP;
    t->how.denormals = t->gen == GEN_DENORMAL ? 2 : 1;
    t->how.merges = t->options & (OPT_CHAIN | OPT_MERGE) ? 4 : 0;
}
