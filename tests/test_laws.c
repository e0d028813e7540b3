/* test_laws.c: laws that hold whatever the numbers are (docs/numerics.md): two calls that must
 * agree, bit for bit where the arithmetic is the same, within the computed bounds where it is not.
 * No reference decides here, so a mistake shared by kernel and reference still shows. */
#include "tests/trial.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { TRIALS = 40 };

/* Options that change how a call is made, not what it computes: never part of a law's trial. */
#define PLAIN_CALLS                                                                                \
    (OPT_PARTIAL | OPT_CHAIN | OPT_MERGE | OPT_IN_PLACE | OPT_WORKSPACE | OPT_WEIGHTS | OPT_LSE)
#define ANY_OPTION (((UINT32_C(1) << OPTION_COUNT) - 1) & ~PLAIN_CALLS)
/* Options whose arrays or functions are tied to the numbers of batches, heads or keys. */
#define BY_BATCH (OPT_PACKED | OPT_LENGTHS | OPT_Q_OFFSETS | OPT_K_OFFSETS | OPT_BLOCKS)
#define BY_PLACE (OPT_TILE | OPT_DROPOUT | OPT_START)

/* The trial at hand and the kernels it runs on. */
typedef struct law {
    trial t;
    const attn_ctx *ctx;
} law;

/* What a call gave. */
typedef struct result {
    attn_view out, lse;
} result;

/* Runs the call with outputs of its own. */
static result run(law *x, const attn_forward_args *call)
{
    attn_forward_args args = *call;
    arena *a = &x->t.memory;
    attn_type wide = args.q.type == ATTN_F64 ? ATTN_F64 : ATTN_F32;
    const int64_t *n = args.q.size;
    attn_error err = {0};
    result r;

    r.out = view_plain(a, x->t.args.out.type, n[0], n[1], n[2], args.v.size[3]);
    r.lse = view_plain(a, wide, n[0], n[1], n[2], 1);
    args.out = r.out;
    args.lse = r.lse;
    if (attn_forward(x->ctx, &args, &err) != ATTN_OK)
        fail_msg("%s", err.text);
    return r;
}

static void same(const law *x, const result *a, const result *b)
{
    char text[600];

    if (view_same_bits(&a->out, &b->out) && view_same_bits(&a->lse, &b->lse))
        return;
    trial_describe(&x->t, text, sizeof text);
    fail_msg("%s differs: %s", view_same_bits(&a->lse, &b->lse) ? "out" : "lse", text);
}

/* |a - b| <= the bounds of both calls, in out and (shifted) in lse. Only for f32 outputs. */
static void near(const law *x, const result *a, const result *b, const ref *ra, const ref *rb,
                 double shift)
{
    int64_t rows = ra->batch * ra->heads * ra->tq;
    char text[600];

    trial_describe(&x->t, text, sizeof text);
    for (int64_t e = 0; e < rows * ra->dv; e++) {
        double got = (double)((float *)a->out.data)[e], other = (double)((float *)b->out.data)[e];

        if (!(fabs(got - other) <= ra->bound_out[e] + rb->bound_out[e]))
            fail_msg("out %.9g and %.9g, bounds %.3g: %s", got, other,
                     ra->bound_out[e] + rb->bound_out[e], text);
    }
    for (int64_t e = 0; e < rows; e++) {
        double got = (double)((float *)a->lse.data)[e] + shift;
        double other = (double)((float *)b->lse.data)[e];

        if (got != other && !(fabs(got - other) <= ra->bound_lse[e] + rb->bound_lse[e]))
            fail_msg("lse %.9g and %.9g: %s", got, other, text);
    }
}

/* Another array with the same sizes and values; `kind` is its layout. */
static attn_view copy(law *x, const attn_view *v, layout kind)
{
    return v->data ? view_copy(&x->t.memory, &x->t.random, v, v->type, kind) : *v;
}

/* The view with one dimension back to front. */
static attn_view turned(attn_view v, int dimension)
{
    if (v.data && v.size[dimension] > 1)
        v.data = ref_at(&v, dimension == 0 ? v.size[0] - 1 : 0, dimension == 1 ? v.size[1] - 1 : 0,
                        dimension == 2 ? v.size[2] - 1 : 0, 0);
    v.stride[dimension] = -v.stride[dimension];
    return v;
}

static void scale_by(const attn_view *v, double factor)
{
    for (int64_t b = 0; b < v->size[0]; b++)
        for (int64_t h = 0; h < v->size[1]; h++)
            for (int64_t i = 0; i < v->size[2]; i++)
                for (int64_t c = 0; c < v->size[3]; c++)
                    view_set(v, b, h, i, c, factor * view_get(v, b, h, i, c));
}

/* --- Exact laws --------------------------------------------------------------------------------
 */

static void turn_dimension(law *x, int d)
{
    attn_forward_args args = x->t.args;
    attn_mask mask = x->t.mask;
    result plain = run(x, &args), other;

    args.q = turned(args.q, d);
    args.k = turned(args.k, d);
    args.v = turned(args.v, d);
    args.sink = turned(args.sink, d);
    mask.keep = turned(mask.keep, d);
    mask.bias = turned(mask.bias, d);
    mask.alibi = turned(mask.alibi, d);
    args.mask = &mask;
    other = run(x, &args);
    other.out = turned(other.out, d);
    other.lse = turned(other.lse, d);
    same(x, &plain, &other);
}

static void batches_permute(law *x)
{
    turn_dimension(x, 0);
}

static void heads_permute(law *x)
{
    turn_dimension(x, 1);
}

static void queries_permute(law *x) /* without positions, rows do not know where they stand */
{
    attn_forward_args args = x->t.args;
    attn_mask mask = x->t.mask;
    result plain = run(x, &args), other;

    args.q = turned(args.q, 2);
    mask.keep = turned(mask.keep, 2);
    mask.bias = turned(mask.bias, 2);
    args.mask = &mask;
    other = run(x, &args);
    other.out = turned(other.out, 2);
    other.lse = turned(other.lse, 2);
    same(x, &plain, &other);
}

static void powers_of_two_cancel(law *x)
{
    attn_forward_args args = x->t.args;
    result plain = run(x, &args), other;

    args.q = copy(x, &args.q, LAYOUT_BHSD);
    args.k = copy(x, &args.k, LAYOUT_BHSD);
    scale_by(&args.q, 64);
    scale_by(&args.k, 1 / 64.0);
    other = run(x, &args);
    same(x, &plain, &other);
}

static void powers_of_two_scale_values(law *x)
{
    attn_forward_args args = x->t.args;
    result plain = run(x, &args), other;

    args.v = copy(x, &args.v, LAYOUT_BHSD);
    scale_by(&args.v, 0.25);
    other = run(x, &args);
    scale_by(&other.out, 4);
    same(x, &plain, &other);
}

static void layout_does_not_matter(law *x)
{
    attn_forward_args args = x->t.args;
    attn_mask mask = x->t.mask;
    result plain = run(x, &args), other;

    for (int kind = 0; kind < LAYOUT_COUNT; kind++) {
        args.q = copy(x, &x->t.args.q, (layout)kind);
        args.k = copy(x, &x->t.args.k, (layout)((kind + 1) % LAYOUT_COUNT));
        args.v = copy(x, &x->t.args.v, (layout)((kind + 3) % LAYOUT_COUNT));
        mask.keep = copy(x, &x->t.mask.keep, (layout)((kind + 2) % LAYOUT_COUNT));
        mask.bias = copy(x, &x->t.mask.bias, (layout)((kind + 4) % LAYOUT_COUNT));
        args.mask = &mask;
        other = run(x, &args);
        same(x, &plain, &other);
    }
}

static void groups_equal_repeated_heads(law *x)
{
    trial *t = &x->t;
    attn_forward_args args = t->args;
    result plain = run(x, &args), other;

    args.k = view_plain(&t->memory, args.k.type, t->b, t->h, t->tk, t->d);
    args.v = view_plain(&t->memory, args.v.type, t->b, t->h, t->tk, t->dv);
    for (int64_t b = 0; b < t->b; b++)
        for (int64_t h = 0; h < t->h; h++)
            for (int64_t j = 0; j < t->tk; j++) {
                for (int64_t c = 0; c < t->d; c++)
                    view_set(&args.k, b, h, j, c, view_get(&t->args.k, b, h / t->group, j, c));
                for (int64_t c = 0; c < t->dv; c++)
                    view_set(&args.v, b, h, j, c, view_get(&t->args.v, b, h / t->group, j, c));
            }
    other = run(x, &args);
    same(x, &plain, &other);
}

/* Any part of a mask that hides a key hides what it holds. */
static void hidden_keys_do_not_matter(law *x)
{
    trial *t = &x->t;
    attn_forward_args args = t->args;
    attn_mask mask = t->mask;
    int64_t cut = rng_int(&t->random, 0, t->tk), *counts;
    unsigned char *bytes = arena_get(&t->memory, (size_t)t->tk + 1);
    result plain, counted, kept;

    counts = arena_get(&t->memory, ((size_t)t->b + 1) * sizeof *counts);
    for (int64_t b = 0; b < t->b; b++)
        counts[b] = cut;
    for (int64_t j = 0; j < t->tk; j++)
        bytes[j] = j < cut;
    args.k = view_part(&t->args.k, 2, 0, cut);
    args.v = view_part(&t->args.v, 2, 0, cut);
    plain = run(x, &args);
    args.k = copy(x, &t->args.k, LAYOUT_BHSD);
    args.v = copy(x, &t->args.v, LAYOUT_BHSD);
    for (int64_t b = 0; b < t->b; b++)
        for (int64_t h = 0; h < t->hk; h++)
            for (int64_t j = cut; j < t->tk; j++) {
                for (int64_t c = 0; c < t->d; c++)
                    view_set(&args.k, b, h, j, c, (double)NAN);
                for (int64_t c = 0; c < t->dv; c++)
                    view_set(&args.v, b, h, j, c, c % 2 ? (double)NAN : HUGE_VAL);
            }
    args.mask = &mask;
    mask.k_count = counts;
    counted = run(x, &args);
    same(x, &plain, &counted);
    mask.k_count = NULL;
    mask.keep = attn_view_bhsd(bytes, ATTN_U8, 1, 1, 1, t->tk);
    kept = run(x, &args);
    same(x, &plain, &kept);
}

static void causal_rows_ignore_the_future(law *x)
{
    trial *t = &x->t;
    attn_forward_args args = t->args;
    result plain = run(x, &args), other;
    int64_t cut = rng_int(&t->random, 0, t->tk), rows = cut - t->mask.q_offset;

    args.k = copy(x, &args.k, LAYOUT_BHSD);
    args.v = copy(x, &args.v, LAYOUT_BHSD);
    for (int64_t b = 0; b < t->b; b++)
        for (int64_t h = 0; h < t->hk; h++)
            for (int64_t j = cut; j < t->tk; j++) {
                view_set(&args.k, b, h, j, 0, (double)NAN);
                view_set(&args.v, b, h, j, t->dv - 1, -HUGE_VAL);
            }
    other = run(x, &args);
    rows = rows < 0 ? 0 : rows > t->tq ? t->tq : rows;
    plain.out = view_part(&plain.out, 2, 0, rows);
    plain.lse = view_part(&plain.lse, 2, 0, rows);
    other.out = view_part(&other.out, 2, 0, rows);
    other.lse = view_part(&other.lse, 2, 0, rows);
    same(x, &plain, &other);
}

static void left_padding_moves_nothing(law *x)
{
    trial *t = &x->t;
    attn_forward_args args = t->args;
    attn_mask mask = t->mask;
    int64_t pad = rng_int(&t->random, 0, t->tk), *starts;
    result plain, padded;

    starts = arena_get(&t->memory, ((size_t)t->b + 1) * sizeof *starts);
    for (int64_t b = 0; b < t->b; b++)
        starts[b] = pad;
    args.k = view_part(&t->args.k, 2, pad, t->tk - pad);
    args.v = view_part(&t->args.v, 2, pad, t->tk - pad);
    plain = run(x, &args);
    args.k = t->args.k;
    args.v = t->args.v;
    mask.k_start = starts;
    args.mask = &mask;
    padded = run(x, &args);
    same(x, &plain, &padded);
}

static void packed_equals_one_call_a_segment(law *x)
{
    trial *t = &x->t;
    attn_forward_args args = t->args;
    result packed = run(x, &args);

    for (int64_t s = 0; s < t->sequences; s++) {
        int64_t q = t->mask.q_starts[s], tq = t->mask.q_starts[s + 1] - q;
        int64_t k = t->mask.k_starts[s], tk = t->mask.k_starts[s + 1] - k;
        attn_mask mask = t->mask;
        result alone, part;

        mask.segments = 0;
        mask.q_starts = mask.k_starts = NULL;
        mask.q_offset += mask.q_offsets ? mask.q_offsets[s] : 0;
        mask.k_offset += mask.k_offsets ? mask.k_offsets[s] : 0;
        mask.q_offsets = mask.k_offsets = NULL;
        if (mask.alibi.data && mask.alibi.size[0] > 1)
            mask.alibi = view_part(&mask.alibi, 0, s, 1);
        args = t->args;
        args.mask = &mask;
        args.dropout_batch += s;
        if (args.sink.data && args.sink.size[0] > 1)
            args.sink = view_part(&args.sink, 0, s, 1);
        args.q = view_part(&t->args.q, 2, q, tq);
        args.k = view_part(&t->args.k, 2, k, tk);
        args.v = view_part(&t->args.v, 2, k, tk);
        alone = run(x, &args);
        part.out = view_part(&packed.out, 2, q, tq);
        part.lse = view_part(&packed.lse, 2, q, tq);
        same(x, &alone, &part);
    }
}

static attn_view get_weights(law *x, const attn_forward_args *call, attn_view *out)
{
    attn_forward_args args = *call;
    trial *t = &x->t;
    attn_error err = {0};

    args.out = *out = view_plain(&t->memory, t->args.out.type, t->b, t->h, t->tq, t->dv);
    args.weights = view_plain(&t->memory, t->args.q.type == ATTN_F64 ? ATTN_F64 : ATTN_F32,
                              t->sequences, t->h, t->longest_q, t->longest_k);
    if (attn_forward(x->ctx, &args, &err) != ATTN_OK)
        fail_msg("%s", err.text);
    return args.weights;
}

/* Asking for LSE or weights changes no bit of O. */
static void asking_changes_nothing(law *x)
{
    attn_forward_args args = x->t.args;
    result both = run(x, &args), alone = both;
    attn_error err = {0};
    attn_view out;

    memset(&args.lse, 0, sizeof args.lse);
    args.out = alone.out =
        view_plain(&x->t.memory, both.out.type, x->t.b, x->t.h, x->t.tq, x->t.dv);
    assert_int_equal(attn_forward(x->ctx, &args, &err), ATTN_OK);
    same(x, &both, &alone);
    get_weights(x, &x->t.args, &out);
    alone.out = out;
    same(x, &both, &alone);
}

/* Zero queries weigh all allowed keys of a row alike. */
static void zero_queries_weigh_alike(law *x)
{
    trial *t = &x->t;
    attn_forward_args args = t->args;
    attn_view out, w;

    args.q = view_plain(&t->memory, args.q.type, t->b, t->h, t->tq, t->d);
    view_fill(&args.q, 0);
    w = get_weights(x, &args, &out);
    for (int64_t b = 0; b < t->b; b++)
        for (int64_t h = 0; h < t->h; h++)
            for (int64_t i = 0; i < t->tq; i++) {
                double first = 0;

                for (int64_t j = 0; j < t->tk; j++) {
                    double p = view_get(&w, b, h, i, j);

                    if (p > 0 && first == 0)
                        first = p;
                    assert_true(p == 0 || p == first);
                    assert_int_equal(p > 0, ref_allows(&args, b, h, i, j));
                }
            }
}

static void scale_zero_equals_zero_queries(law *x)
{
    attn_forward_args args = x->t.args;
    result zero, scaled;

    args.has_scale = 1;
    args.scale = 0;
    scaled = run(x, &args);
    args.scale = 0.5;
    args.q = copy(x, &args.q, LAYOUT_BHSD);
    view_fill(&args.q, 0);
    zero = run(x, &args);
    same(x, &scaled, &zero);
}

static void wide_window_equals_causal(law *x)
{
    attn_forward_args args = x->t.args;
    attn_mask mask = x->t.mask;
    result causal, window;

    args.mask = &mask;
    mask.causal = 1;
    causal = run(x, &args);
    mask.causal = 0;
    mask.window = 1;
    mask.window_left = x->t.top_q + x->t.top_k;
    mask.window_right = 0;
    window = run(x, &args);
    same(x, &causal, &window);
    mask.window_left = -1;
    window = run(x, &args);
    same(x, &causal, &window);
}

/* keep, bias and tile function can each say the same mask. */
static void keep_to_bias(const attn_view *keep, const attn_view *bias)
{
    for (int64_t b = 0; b < bias->size[0]; b++)
        for (int64_t h = 0; h < bias->size[1]; h++)
            for (int64_t i = 0; i < bias->size[2]; i++)
                for (int64_t j = 0; j < bias->size[3]; j++)
                    view_set(bias, b, h, i, j, view_get(keep, b, h, i, j) > 0 ? 0 : -HUGE_VAL);
}

static void keep_equals_infinite_bias(law *x)
{
    trial *t = &x->t;
    attn_forward_args args = t->args;
    attn_mask mask = t->mask;
    const int64_t *n = t->mask.keep.size;
    attn_type types[] = {ATTN_F32, ATTN_F16, ATTN_BF16};
    result kept = run(x, &args), added;

    args.mask = &mask;
    memset(&mask.keep, 0, sizeof mask.keep);
    mask.bias = view_plain(&t->memory,
                           t->args.q.type == ATTN_F64 ? ATTN_F64 : types[rng_int(&t->random, 0, 2)],
                           n[0], n[1], n[2], n[3]);
    keep_to_bias(&t->mask.keep, &mask.bias);
    added = run(x, &args);
    same(x, &kept, &added);
}

static void add_from_bias(void *user, const attn_tile *tile)
{
    const attn_view *bias = user;

    for (int64_t r = 0; r < tile->rows; r++)
        for (int64_t c = 0; c < tile->cols; c++) {
            double b = view_get(bias, tile->batch, tile->head, tile->q_row + r, tile->k_row + c);
            int64_t at = r * tile->stride + c;

            if (tile->type == ATTN_F64)
                ((double *)tile->logits)[at] += b;
            else
                ((float *)tile->logits)[at] += (float)b;
        }
}

static void tile_function_equals_bias(law *x)
{
    attn_forward_args args = x->t.args;
    attn_mask mask = x->t.mask;
    result added = run(x, &args), called;

    args.mask = &mask;
    memset(&mask.bias, 0, sizeof mask.bias);
    mask.tile = add_from_bias;
    mask.tile_user = &x->t.mask.bias;
    called = run(x, &args);
    same(x, &added, &called);
}

static void blocks_equal_keep(law *x)
{
    trial *t = &x->t;
    attn_forward_args args = t->args;
    attn_mask mask = t->mask;
    attn_view keep = view_plain(&t->memory, ATTN_U8, t->b, t->h, t->tq, t->tk);
    result blocks = run(x, &args), kept;

    for (int64_t b = 0; b < t->b; b++)
        for (int64_t h = 0; h < t->h; h++)
            for (int64_t i = 0; i < t->tq; i++)
                for (int64_t j = 0; j < t->tk; j++)
                    view_set(&keep, b, h, i, j, ref_allows(&args, b, h, i, j));
    args.mask = &mask;
    memset(&mask.blocks, 0, sizeof mask.blocks);
    mask.keep = keep;
    kept = run(x, &args);
    same(x, &blocks, &kept);
}

static void defaults_change_nothing(law *x)
{
    trial *t = &x->t;
    attn_forward_args args = t->args;
    attn_view sink =
        view_plain(&t->memory, t->args.q.type == ATTN_F64 ? ATTN_F64 : ATTN_F32, 1, t->h, 1, 1);
    attn_partial empty = {
        view_plain(&t->memory, sink.type, t->b, t->h, t->tq, t->dv),
        view_plain(&t->memory, sink.type, t->b, t->h, t->tq, 1),
        view_plain(&t->memory, sink.type, t->b, t->h, t->tq, 1),
    };
    result plain = run(x, &args), other;

    view_fill(&sink, -HUGE_VAL);
    view_fill(&empty.out, 0);
    view_fill(&empty.sum, 0);
    view_fill(&empty.max, -HUGE_VAL);
    args.sink = sink;
    args.dropout = 0;
    args.dropout_seed = 99;
    args.start = &empty;
    args.has_scale = 1;
    args.scale = 1 / sqrt((double)t->d);
    other = run(x, &args);
    same(x, &plain, &other);
    memset(&args.mask, 0, sizeof args.mask);
    other = run(x, &args);
    same(x, &plain, &other);
}

static void inputs_stay(law *x)
{
    const attn_forward_args *a = &x->t.args;
    const attn_view *inputs[] = {&a->q,          &a->k,          &a->v,          &a->sink,
                                 &a->mask->keep, &a->mask->bias, &a->mask->alibi};
    uint64_t before[7];

    for (int i = 0; i < 7; i++)
        before[i] = view_hash(inputs[i]);
    run(x, a);
    for (int i = 0; i < 7; i++)
        assert_true(before[i] == view_hash(inputs[i]));
    assert_true(arena_poison_intact(&x->t.memory));
}

/* --- Parts -------------------------------------------------------------------------------------
 */

static attn_partial make_record(law *x)
{
    trial *t = &x->t;
    attn_type type = t->args.q.type == ATTN_F64 ? ATTN_F64 : ATTN_F32;

    return (attn_partial){view_plain(&t->memory, type, t->b, t->h, t->tq, t->dv),
                          view_plain(&t->memory, type, t->b, t->h, t->tq, 1),
                          view_plain(&t->memory, type, t->b, t->h, t->tq, 1)};
}

/* Keys from..to-1 as a call of their own. The mask has neither columns nor lengths. */
static attn_forward_args part_of(law *x, attn_mask *mask, int64_t from, int64_t to)
{
    attn_forward_args args = x->t.args;

    *mask = x->t.mask;
    mask->k_offset += from;
    args.mask = mask;
    args.k = view_part(&x->t.args.k, 2, from, to - from);
    args.v = view_part(&x->t.args.v, 2, from, to - from);
    return args;
}

/* Where position 512 n lies among the keys, for cuts that keep the bits. */
static int64_t next_cut(const trial *t, int64_t from)
{
    int64_t cut = (t->mask.k_offset + from) / 512 * 512 + 512 - t->mask.k_offset;

    return cut < t->tk ? cut : t->tk;
}

static void parts_chain_to_the_whole(law *x)
{
    trial *t = &x->t;
    result whole = run(x, &t->args), last;
    attn_partial record = make_record(x);
    int64_t from = 0;
    attn_mask mask;

    for (int64_t cut; (cut = next_cut(t, from)) < t->tk; from = cut) {
        attn_forward_args args = part_of(x, &mask, from, cut);
        attn_partial next = make_record(x);
        attn_error err = {0};

        memset(&args.out, 0, sizeof args.out);
        memset(&args.sink, 0, sizeof args.sink);
        args.partial = &next;
        args.start = from > 0 ? &record : NULL;
        assert_int_equal(attn_forward(x->ctx, &args, &err), ATTN_OK);
        record = next;
    }
    {
        attn_forward_args args = part_of(x, &mask, from, t->tk);

        args.start = from > 0 ? &record : NULL;
        last = run(x, &args);
    }
    same(x, &whole, &last);
}

static void merge_into(law *x, const attn_partial *parts, size_t n, result *r)
{
    attn_merge_args merge = ATTN_MERGE_ARGS_INIT;
    attn_error err = {0};

    merge.parts = parts;
    merge.count = n;
    merge.out = r->out =
        view_plain(&x->t.memory, x->t.args.out.type, x->t.b, x->t.h, x->t.tq, x->t.dv);
    merge.lse = r->lse = view_plain(&x->t.memory, parts[0].sum.type, x->t.b, x->t.h, x->t.tq, 1);
    merge.sink = x->t.args.sink;
    if (attn_merge(x->ctx, &merge, &err) != ATTN_OK)
        fail_msg("%s", err.text);
}

/* One record per 512 positions, and empty ones in between. */
static void parts_merge_to_the_whole(law *x)
{
    trial *t = &x->t;
    result whole = run(x, &t->args), merged;
    attn_partial parts[12];
    size_t n = 0;
    attn_mask mask;

    for (int64_t from = 0; from < t->tk || n == 0;) {
        int64_t cut = next_cut(t, from);
        attn_forward_args args = part_of(x, &mask, from, cut);
        attn_error err = {0};

        memset(&args.out, 0, sizeof args.out);
        memset(&args.sink, 0, sizeof args.sink);
        assert_true(n + 2 <= 12);
        parts[n] = make_record(x);
        view_fill(&parts[n].out, 0);
        view_fill(&parts[n].sum, 0);
        view_fill(&parts[n].max, -HUGE_VAL);
        n += rng_chance(&t->random, 50);
        parts[n] = make_record(x);
        args.partial = &parts[n++];
        assert_int_equal(attn_forward(x->ctx, &args, &err), ATTN_OK);
        from = cut;
    }
    merge_into(x, parts, n, &merged);
    same(x, &whole, &merged);
}

/* --- Laws within the bound ---------------------------------------------------------------------
 */

static void equal_values_come_back(law *x)
{
    trial *t = &x->t;
    attn_forward_args args = t->args;
    result r;
    ref want;

    args.v = view_plain(&t->memory, ATTN_F32, t->b, t->hk, t->tk, t->dv);
    view_fill(&args.v, 1);
    r = run(x, &args);
    ref_forward(&args, &want);
    for (int64_t e = 0; e < want.batch * want.heads * want.tq * want.dv; e++) {
        double got = (double)((float *)r.out.data)[e];

        if (want.allowed[e / want.dv] == 0)
            assert_true(got == 0);
        else
            assert_true(fabs(got - 1) <= want.bound_out[e]);
    }
    ref_free(&want);
}

static void linear_in_values(law *x)
{
    trial *t = &x->t;
    attn_forward_args args = t->args;
    attn_view other = view_plain(&t->memory, ATTN_F32, t->b, t->hk, t->tk, t->dv);
    attn_view sum = view_plain(&t->memory, ATTN_F32, t->b, t->hk, t->tk, t->dv);
    ref bounds[3];
    result r[3];

    view_uniform(&other, &t->random, -1, 1);
    for (int64_t b = 0; b < t->b; b++)
        for (int64_t h = 0; h < t->hk; h++)
            for (int64_t j = 0; j < t->tk; j++)
                for (int64_t c = 0; c < t->dv; c++)
                    view_set(&sum, b, h, j, c,
                             view_get(&t->args.v, b, h, j, c) + view_get(&other, b, h, j, c));
    for (int i = 0; i < 3; i++) {
        args.v = i == 0 ? t->args.v : i == 1 ? other : sum;
        r[i] = run(x, &args);
        ref_forward(&args, &bounds[i]);
    }
    for (int64_t e = 0; e < bounds[0].batch * bounds[0].heads * bounds[0].tq * bounds[0].dv; e++) {
        double a = (double)((float *)r[0].out.data)[e], b = (double)((float *)r[1].out.data)[e];
        double both = (double)((float *)r[2].out.data)[e];

        /* The sums of values are rounded once more on their way into the third call. */
        assert_true(fabs(a + b - both) <=
                    2 * (bounds[0].bound_out[e] + bounds[1].bound_out[e] + bounds[2].bound_out[e]));
    }
    for (int i = 0; i < 3; i++)
        ref_free(&bounds[i]);
}

static void output_within_values(law *x)
{
    trial *t = &x->t;
    result r = run(x, &t->args);

    for (int64_t b = 0; b < t->b; b++)
        for (int64_t h = 0; h < t->h; h++)
            for (int64_t i = 0; i < t->tq; i++)
                for (int64_t c = 0; c < t->dv; c++) {
                    double low = HUGE_VAL, high = -HUGE_VAL;
                    int64_t e = ((b * t->h + h) * t->tq + i) * t->dv + c;

                    for (int64_t j = 0; j < t->tk; j++)
                        if (ref_allows(&t->args, b, h, i, j)) {
                            double v = view_get(&t->args.v, b, h / t->group, j, c);

                            low = fmin(low, v);
                            high = fmax(high, v);
                        }
                    if (low <= high) {
                        double got = view_get(&r.out, b, h, i, c);

                        assert_true(got >= low - t->want.bound_out[e]);
                        assert_true(got <= high + t->want.bound_out[e]);
                    }
                }
}

/* One more channel, 1 in q, adds a constant to all logits: O stays, LSE moves by it. */
static void shifted_logits(law *x)
{
    trial *t = &x->t;
    attn_forward_args args = t->args;
    double shift = rng_range(&t->random, -20, 20);
    result plain, other;
    ref a, b;

    args.has_scale = 1;
    args.scale = 0.25;
    shift = (double)(float)shift;
    plain = run(x, &args);
    ref_forward(&args, &a);
    args.q = view_plain(&t->memory, ATTN_F32, t->b, t->h, t->tq, t->d + 1);
    args.k = view_plain(&t->memory, ATTN_F32, t->b, t->hk, t->tk, t->d + 1);
    for (int64_t e = 0, n = t->b * t->h * t->tq * (t->d + 1); e < n; e++) {
        int64_t c = e % (t->d + 1), i = e / (t->d + 1) % t->tq, row = e / (t->d + 1) / t->tq;

        view_set(&args.q, row / t->h, row % t->h, i, c,
                 c < t->d ? view_get(&t->args.q, row / t->h, row % t->h, i, c) : 4);
    }
    for (int64_t e = 0, n = t->b * t->hk * t->tk * (t->d + 1); e < n; e++) {
        int64_t c = e % (t->d + 1), j = e / (t->d + 1) % t->tk, row = e / (t->d + 1) / t->tk;

        view_set(&args.k, row / t->hk, row % t->hk, j, c,
                 c < t->d ? view_get(&t->args.k, row / t->hk, row % t->hk, j, c) : shift);
    }
    other = run(x, &args);
    ref_forward(&args, &b);
    near(x, &plain, &other, &a, &b, shift);
    ref_free(&a);
    ref_free(&b);
}

static void keys_permute(law *x)
{
    trial *t = &x->t;
    attn_forward_args args = t->args;
    result plain = run(x, &args), other;
    attn_mask mask = t->mask;
    ref b;

    args.k = turned(args.k, 2);
    args.v = turned(args.v, 2);
    mask.keep = turned(mask.keep, 3);
    mask.bias = turned(mask.bias, 3);
    for (int d = 0; d < 2; d++) { /* turned() moves data along rows only */
        attn_view *v = d ? &mask.bias : &mask.keep;

        if (v->data && v->size[3] > 1)
            v->data = (char *)v->data -
                      (v->size[3] - 1) * v->stride[3] * (int64_t)attn_type_size(v->type);
    }
    args.mask = &mask;
    other = run(x, &args);
    ref_forward(&args, &b);
    near(x, &plain, &other, &t->want, &b, 0);
    ref_free(&b);
}

static void duplicated_keys(law *x)
{
    trial *t = &x->t;
    attn_forward_args args = t->args;
    result plain = run(x, &args), other;
    ref b;

    args.k = view_plain(&t->memory, ATTN_F32, t->b, t->hk, 2 * t->tk, t->d);
    args.v = view_plain(&t->memory, ATTN_F32, t->b, t->hk, 2 * t->tk, t->dv);
    for (int64_t n = 0; n < t->b * t->hk; n++)
        for (int64_t j = 0; j < 2 * t->tk; j++) {
            for (int64_t c = 0; c < t->d; c++)
                view_set(&args.k, n / t->hk, n % t->hk, j, c,
                         view_get(&t->args.k, n / t->hk, n % t->hk, j % t->tk, c));
            for (int64_t c = 0; c < t->dv; c++)
                view_set(&args.v, n / t->hk, n % t->hk, j, c,
                         view_get(&t->args.v, n / t->hk, n % t->hk, j % t->tk, c));
        }
    other = run(x, &args);
    ref_forward(&args, &b);
    near(x, &plain, &other, &t->want, &b, log(2));
    ref_free(&b);
}

static void huge_softcap_is_none(law *x)
{
    attn_forward_args args = x->t.args;
    result plain = run(x, &args), capped;
    ref b;

    args.softcap = 1e6;
    capped = run(x, &args);
    ref_forward(&args, &b);
    near(x, &plain, &capped, &x->t.want, &b, 0);
    ref_free(&b);
}

/* --- Table -------------------------------------------------------------------------------------
 */

/* Options every trial of the law has, and those it may have. */
static const struct {
    const char *name;
    void (*check)(law *x);
    uint32_t always, may;
} laws[] = {
    {"batches permute", batches_permute, 0, ANY_OPTION & ~(BY_BATCH | BY_PLACE)},
    {"heads permute", heads_permute, 0, ANY_OPTION & ~(OPT_BLOCKS | OPT_PACKED | BY_PLACE)},
    {"queries permute", queries_permute, 0,
     OPT_SCALE | OPT_SOFTCAP | OPT_KEEP | OPT_BIAS | OPT_SINK | OPT_TYPES | OPT_F64 | OPT_LAYOUTS |
         OPT_GROUPS | OPT_DV | OPT_LONG | OPT_K_OFFSETS},
    {"powers of two cancel in q and k", powers_of_two_cancel, 0, ANY_OPTION & ~OPT_TYPES},
    {"powers of two pass from v to out", powers_of_two_scale_values, 0,
     ANY_OPTION & ~(OPT_TYPES | OPT_START)},
    {"layout does not matter", layout_does_not_matter, OPT_LAYOUTS, ANY_OPTION},
    {"groups equal repeated heads", groups_equal_repeated_heads, OPT_GROUPS, ANY_OPTION},
    {"hidden keys do not matter", hidden_keys_do_not_matter, 0,
     ANY_OPTION & ~(OPT_PACKED | OPT_LENGTHS | OPT_KEEP | OPT_BIAS | OPT_TILE | OPT_POISON)},
    {"causal rows ignore the future", causal_rows_ignore_the_future, OPT_CAUSAL,
     ANY_OPTION & ~(BY_BATCH | OPT_POISON)},
    {"left padding moves nothing", left_padding_moves_nothing, 0,
     ANY_OPTION & ~(OPT_PACKED | OPT_LENGTHS | OPT_KEEP | OPT_BIAS | OPT_TILE)},
    {"packed equals one call a segment", packed_equals_one_call_a_segment, OPT_PACKED,
     ANY_OPTION & ~(OPT_LENGTHS | OPT_KEEP | OPT_BIAS | OPT_BLOCKS | OPT_TILE | OPT_START)},
    {"asking for lse or weights changes nothing", asking_changes_nothing, 0, ANY_OPTION},
    {"zero queries weigh alike", zero_queries_weigh_alike, 0,
     (OPT_KEEP | OPT_CAUSAL | OPT_WINDOW | BY_BATCH | OPT_SINK | OPT_GROUPS | OPT_DV | OPT_F64 |
      OPT_DROPOUT | OPT_SOFTCAP | OPT_LONG) &
         ~OPT_PACKED},
    {"scale 0 equals zero queries", scale_zero_equals_zero_queries, 0,
     ANY_OPTION & ~(OPT_SCALE | OPT_POISON)},
    {"wide window equals causal", wide_window_equals_causal, 0,
     ANY_OPTION & ~(OPT_CAUSAL | OPT_WINDOW | OPT_POISON)},
    {"keep equals infinite bias", keep_equals_infinite_bias, OPT_KEEP,
     ANY_OPTION & ~(OPT_BIAS | OPT_POISON)},
    {"tile function equals bias", tile_function_equals_bias, OPT_BIAS,
     ANY_OPTION & ~(OPT_TILE | OPT_ALIBI | OPT_POISON)},
    {"block list equals keep mask", blocks_equal_keep, OPT_BLOCKS,
     ANY_OPTION & ~(OPT_PACKED | OPT_KEEP | OPT_LENGTHS)},
    {"defaults given change nothing", defaults_change_nothing, 0,
     OPT_TYPES | OPT_F64 | OPT_LAYOUTS | OPT_GROUPS | OPT_DV | OPT_LONG},
    {"inputs stay as they were", inputs_stay, 0, ANY_OPTION},
    {"parts chain to the whole", parts_chain_to_the_whole, OPT_LONG,
     ANY_OPTION &
         ~(OPT_PACKED | OPT_LENGTHS | OPT_KEEP | OPT_BIAS | OPT_START | OPT_TILE | OPT_K_OFFSETS)},
    {"parts merge to the whole", parts_merge_to_the_whole, OPT_LONG,
     ANY_OPTION &
         ~(OPT_PACKED | OPT_LENGTHS | OPT_KEEP | OPT_BIAS | OPT_START | OPT_TILE | OPT_K_OFFSETS)},
    {"equal values come back", equal_values_come_back, 0,
     ANY_OPTION & ~(OPT_TYPES | OPT_F64 | OPT_SINK | OPT_DROPOUT | OPT_START | OPT_POISON)},
    {"linear in values", linear_in_values, 0,
     ANY_OPTION & ~(OPT_TYPES | OPT_F64 | OPT_START | OPT_POISON)},
    {"output within the range of values", output_within_values, 0,
     ANY_OPTION &
         ~(OPT_TYPES | OPT_F64 | OPT_SINK | OPT_DROPOUT | OPT_START | OPT_PACKED | OPT_TILE)},
    {"shifted logits move only lse", shifted_logits, 0,
     ANY_OPTION & ~(OPT_TYPES | OPT_F64 | OPT_SINK | OPT_START | OPT_SOFTCAP | OPT_SCALE |
                    OPT_TILE | OPT_POISON)},
    {"keys permute", keys_permute, 0,
     OPT_SCALE | OPT_SOFTCAP | OPT_KEEP | OPT_BIAS | OPT_SINK | OPT_LAYOUTS | OPT_GROUPS | OPT_DV |
         OPT_LONG},
    {"duplicated keys add ln 2 to lse", duplicated_keys, 0,
     OPT_SCALE | OPT_SOFTCAP | OPT_LAYOUTS | OPT_GROUPS | OPT_DV | OPT_LONG},
    {"huge softcap is none", huge_softcap_is_none, 0,
     ANY_OPTION & ~(OPT_TYPES | OPT_F64 | OPT_SOFTCAP | OPT_POISON)},
};

enum { LAWS = sizeof laws / sizeof *laws };

static void check_law(void **state)
{
    size_t which = test_index(state);

    for (uint64_t index = 0; index < TRIALS; index++) {
        uint64_t number = which * 1000 + index;
        rng r = rng_make(test_seed() ^ UINT64_C(0x6C617773), number);
        uint32_t draw = (uint32_t)rng_next(&r) & (uint32_t)rng_next(&r);
        law x;

        /* The first trial has nothing but the law needs; in the others an option is there in one of
         * four. */
        draw = index ? laws[which].may & draw : 0;
        trial_make(&x.t, test_seed(), number, draw | laws[which].always,
                   index % 4 == 3 ? GEN_LOGITS_20 : GEN_BELL);
        x.ctx = ctx_for(test_set(state), 1 + (int)(index % 3));
        laws[which].check(&x);
        trial_free(&x.t);
    }
}

int main(int argc, char **argv)
{
    test_case tests[LAWS];

    for (size_t i = 0; i < LAWS; i++)
        tests[i] = (test_case){laws[i].name, check_law, 1};
    return test_main(argc, argv, tests, LAWS);
}
