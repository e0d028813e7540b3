/* test_laws.c: laws that hold whatever the numbers are (docs/numerics.md): two calls that must
 * agree bit for bit. No reference decides here, so a mistake shared by kernel and reference still
 * shows. */
#include "tests/law.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* Another array with the same sizes and values; `kind` is its layout. */
static attn_view copy(law *x, const attn_view *v, layout kind)
{
    return v->data ? view_copy(&x->t.memory, &x->t.random, v, v->type, kind) : *v;
}

static void scale_by(const attn_view *v, double factor)
{
    for (int64_t b = 0; b < v->size[0]; b++)
        for (int64_t h = 0; h < v->size[1]; h++)
            for (int64_t i = 0; i < v->size[2]; i++)
                for (int64_t c = 0; c < v->size[3]; c++)
                    view_set(v, b, h, i, c, factor * view_get(v, b, h, i, c));
}

/* --- Exact laws ----------------------------------------------------------------------------- */

static void turn_dimension(law *x, int d)
{
    attn_forward_args args = x->t.args;
    attn_mask mask = x->t.mask;
    result plain = law_run(x, &args), other;

    args.q = law_turned(args.q, d);
    args.k = law_turned(args.k, d);
    args.v = law_turned(args.v, d);
    args.sink = law_turned(args.sink, d);
    mask.keep = law_turned(mask.keep, d);
    mask.bias = law_turned(mask.bias, d);
    mask.alibi = law_turned(mask.alibi, d);
    args.mask = &mask;
    other = law_run(x, &args);
    other.out = law_turned(other.out, d);
    other.lse = law_turned(other.lse, d);
    law_same(x, &plain, &other);
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
    result plain = law_run(x, &args), other;

    args.q = law_turned(args.q, 2);
    mask.keep = law_turned(mask.keep, 2);
    mask.bias = law_turned(mask.bias, 2);
    args.mask = &mask;
    other = law_run(x, &args);
    other.out = law_turned(other.out, 2);
    other.lse = law_turned(other.lse, 2);
    law_same(x, &plain, &other);
}

static void powers_of_two_cancel(law *x)
{
    attn_forward_args args = x->t.args;
    result plain = law_run(x, &args), other;

    args.q = copy(x, &args.q, LAYOUT_BHSD);
    args.k = copy(x, &args.k, LAYOUT_BHSD);
    scale_by(&args.q, 64);
    scale_by(&args.k, 1 / 64.0);
    other = law_run(x, &args);
    law_same(x, &plain, &other);
}

static void powers_of_two_scale_values(law *x)
{
    attn_forward_args args = x->t.args;
    result plain = law_run(x, &args), other;

    args.v = copy(x, &args.v, LAYOUT_BHSD);
    scale_by(&args.v, 0.25);
    other = law_run(x, &args);
    scale_by(&other.out, 4);
    law_same(x, &plain, &other);
}

static void layout_does_not_matter(law *x)
{
    attn_forward_args args = x->t.args;
    attn_mask mask = x->t.mask;
    result plain = law_run(x, &args), other;

    for (int kind = 0; kind < LAYOUT_COUNT; kind++) {
        args.q = copy(x, &x->t.args.q, (layout)kind);
        args.k = copy(x, &x->t.args.k, (layout)((kind + 1) % LAYOUT_COUNT));
        args.v = copy(x, &x->t.args.v, (layout)((kind + 3) % LAYOUT_COUNT));
        mask.keep = copy(x, &x->t.mask.keep, (layout)((kind + 2) % LAYOUT_COUNT));
        mask.bias = copy(x, &x->t.mask.bias, (layout)((kind + 4) % LAYOUT_COUNT));
        args.mask = &mask;
        other = law_run(x, &args);
        law_same(x, &plain, &other);
    }
}

static void groups_equal_repeated_heads(law *x)
{
    trial *t = &x->t;
    attn_forward_args args = t->args;
    result plain = law_run(x, &args), other;

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
    other = law_run(x, &args);
    law_same(x, &plain, &other);
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
    plain = law_run(x, &args);
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
    counted = law_run(x, &args);
    law_same(x, &plain, &counted);
    mask.k_count = NULL;
    mask.keep = attn_view_bhsd(bytes, ATTN_U8, 1, 1, 1, t->tk);
    kept = law_run(x, &args);
    law_same(x, &plain, &kept);
}

static void causal_rows_ignore_the_future(law *x)
{
    trial *t = &x->t;
    attn_forward_args args = t->args;
    result plain = law_run(x, &args), other;
    int64_t cut = rng_int(&t->random, 0, t->tk), rows = cut - t->mask.q_offset;

    args.k = copy(x, &args.k, LAYOUT_BHSD);
    args.v = copy(x, &args.v, LAYOUT_BHSD);
    for (int64_t b = 0; b < t->b; b++)
        for (int64_t h = 0; h < t->hk; h++)
            for (int64_t j = cut; j < t->tk; j++) {
                view_set(&args.k, b, h, j, 0, (double)NAN);
                view_set(&args.v, b, h, j, t->dv - 1, -HUGE_VAL);
            }
    other = law_run(x, &args);
    rows = rows < 0 ? 0 : rows > t->tq ? t->tq : rows;
    plain.out = view_part(&plain.out, 2, 0, rows);
    plain.lse = view_part(&plain.lse, 2, 0, rows);
    other.out = view_part(&other.out, 2, 0, rows);
    other.lse = view_part(&other.lse, 2, 0, rows);
    law_same(x, &plain, &other);
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
    plain = law_run(x, &args);
    args.k = t->args.k;
    args.v = t->args.v;
    mask.k_start = starts;
    args.mask = &mask;
    padded = law_run(x, &args);
    law_same(x, &plain, &padded);
}

static void packed_equals_one_call_a_segment(law *x)
{
    trial *t = &x->t;
    attn_forward_args args = t->args;
    result packed = law_run(x, &args);

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
        alone = law_run(x, &args);
        part.out = view_part(&packed.out, 2, q, tq);
        part.lse = view_part(&packed.lse, 2, q, tq);
        law_same(x, &alone, &part);
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
    result both = law_run(x, &args), alone = both;
    attn_error err = {0};
    attn_view out;

    memset(&args.lse, 0, sizeof args.lse);
    args.out = alone.out =
        view_plain(&x->t.memory, both.out.type, x->t.b, x->t.h, x->t.tq, x->t.dv);
    assert_int_equal(attn_forward(x->ctx, &args, &err), ATTN_OK);
    law_same(x, &both, &alone);
    get_weights(x, &x->t.args, &out);
    alone.out = out;
    law_same(x, &both, &alone);
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
    scaled = law_run(x, &args);
    args.scale = 0.5;
    args.q = copy(x, &args.q, LAYOUT_BHSD);
    view_fill(&args.q, 0);
    zero = law_run(x, &args);
    law_same(x, &scaled, &zero);
}

static void wide_window_equals_causal(law *x)
{
    attn_forward_args args = x->t.args;
    attn_mask mask = x->t.mask;
    result causal, window;

    args.mask = &mask;
    mask.causal = 1;
    causal = law_run(x, &args);
    mask.causal = 0;
    mask.window = 1;
    mask.window_left = x->t.top_q + x->t.top_k;
    mask.window_right = 0;
    window = law_run(x, &args);
    law_same(x, &causal, &window);
    mask.window_left = -1;
    window = law_run(x, &args);
    law_same(x, &causal, &window);
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
    result kept = law_run(x, &args), added;

    args.mask = &mask;
    memset(&mask.keep, 0, sizeof mask.keep);
    mask.bias = view_plain(&t->memory,
                           t->args.q.type == ATTN_F64 ? ATTN_F64 : types[rng_int(&t->random, 0, 2)],
                           n[0], n[1], n[2], n[3]);
    keep_to_bias(&t->mask.keep, &mask.bias);
    added = law_run(x, &args);
    law_same(x, &kept, &added);
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
    result added = law_run(x, &args), called;

    args.mask = &mask;
    memset(&mask.bias, 0, sizeof mask.bias);
    mask.tile = add_from_bias;
    mask.tile_user = &x->t.mask.bias;
    called = law_run(x, &args);
    law_same(x, &added, &called);
}

static void blocks_equal_keep(law *x)
{
    trial *t = &x->t;
    attn_forward_args args = t->args;
    attn_mask mask = t->mask;
    attn_view keep = view_plain(&t->memory, ATTN_U8, t->b, t->h, t->tq, t->tk);
    result blocks = law_run(x, &args), kept;

    for (int64_t b = 0; b < t->b; b++)
        for (int64_t h = 0; h < t->h; h++)
            for (int64_t i = 0; i < t->tq; i++)
                for (int64_t j = 0; j < t->tk; j++)
                    view_set(&keep, b, h, i, j, ref_allows(&args, b, h, i, j));
    args.mask = &mask;
    memset(&mask.blocks, 0, sizeof mask.blocks);
    mask.keep = keep;
    kept = law_run(x, &args);
    law_same(x, &blocks, &kept);
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
    result plain = law_run(x, &args), other;

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
    other = law_run(x, &args);
    law_same(x, &plain, &other);
    memset(&args.mask, 0, sizeof args.mask);
    other = law_run(x, &args);
    law_same(x, &plain, &other);
}

static void inputs_stay(law *x)
{
    const attn_forward_args *a = &x->t.args;
    const attn_view *inputs[] = {&a->q,          &a->k,          &a->v,          &a->sink,
                                 &a->mask->keep, &a->mask->bias, &a->mask->alibi};
    uint64_t before[7];

    for (int i = 0; i < 7; i++)
        before[i] = view_hash(inputs[i]);
    law_run(x, a);
    for (int i = 0; i < 7; i++)
        assert_true(before[i] == view_hash(inputs[i]));
    assert_true(arena_poison_intact(&x->t.memory));
}

/* --- Parts ---------------------------------------------------------------------------------- */

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
    result whole = law_run(x, &t->args), last;
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
        last = law_run(x, &args);
    }
    law_same(x, &whole, &last);
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
    result whole = law_run(x, &t->args), merged;
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
    law_same(x, &whole, &merged);
}

int main(int argc, char **argv)
{
    static const law_entry laws[] = {
        {"batches permute", batches_permute, 0, ANY_OPTION & ~(BY_BATCH | BY_PLACE)},
        {"heads permute", heads_permute, 0, ANY_OPTION & ~(OPT_BLOCKS | OPT_PACKED | BY_PLACE)},
        {"queries permute", queries_permute, 0,
         OPT_SCALE | OPT_SOFTCAP | OPT_KEEP | OPT_BIAS | OPT_SINK | OPT_TYPES | OPT_F64 |
             OPT_LAYOUTS | OPT_GROUPS | OPT_DV | OPT_LONG | OPT_K_OFFSETS},
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
         ANY_OPTION & ~(OPT_PACKED | OPT_LENGTHS | OPT_KEEP | OPT_BIAS | OPT_START | OPT_TILE |
                        OPT_K_OFFSETS)},
        {"parts merge to the whole", parts_merge_to_the_whole, OPT_LONG,
         ANY_OPTION & ~(OPT_PACKED | OPT_LENGTHS | OPT_KEEP | OPT_BIAS | OPT_START | OPT_TILE |
                        OPT_K_OFFSETS)},
    };

    return law_main(argc, argv, laws, sizeof laws / sizeof *laws);
}
