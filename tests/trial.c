/* trial.c: drawing, running and checking the random calls of trial.h; trial_build.c makes their
 * data. */
#include "tests/trial.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_PARTS 4

const char *generator_name(generator g)
{
    static const char *const names[GEN_COUNT] = {
        "bell",     "uniform",    "logits x20", "logits x30",  "logits 1e4",
        "dominant", "rows equal", "keys equal", "v cancels",   "k 2^10 v 2^20",
        "v 2^-140", "v huge",     "bf16 trap",  "masked rows", "nan and inf",
    };

    return names[g];
}

const char *option_name(int bit)
{
    static const char *const names[OPTION_COUNT] = {
#define TRIAL_NAME(name, text) [BIT_##name] = text,
        TRIAL_OPTIONS(TRIAL_NAME)
#undef TRIAL_NAME
    };

    return names[bit];
}

/* --- Options and shape ---------------------------------------------------------------------- */

/* The second gives way to the first: it would mean nothing or contradict it. */
static const struct {
    uint32_t stays, goes;
} exclusive[] = {
    {OPT_F64, OPT_TYPES},
    {OPT_PARTIAL, OPT_LSE | OPT_WEIGHTS | OPT_CHAIN | OPT_MERGE | OPT_IN_PLACE | OPT_SINK},
    {OPT_START, OPT_CHAIN | OPT_MERGE},
    {OPT_CHAIN, OPT_MERGE | OPT_WEIGHTS | OPT_WORKSPACE},
    {OPT_MERGE, OPT_WEIGHTS | OPT_IN_PLACE | OPT_WORKSPACE},
    {OPT_DV, OPT_IN_PLACE},
};

static uint32_t generator_excludes(generator g)
{
    switch (g) {
    case GEN_TRAP: /* only the dot products are exact */
        return OPT_SCALE | OPT_BIAS | OPT_ALIBI | OPT_TILE | OPT_F64 | OPT_START;
    case GEN_DENORMAL: /* half types cannot hold the values */
        return OPT_TYPES;
    case GEN_HUGE_V:
        return OPT_TYPES | OPT_START;
    default:
        return 0;
    }
}

static uint32_t settle_options(uint32_t options, generator g)
{
    options &= ~generator_excludes(g);
    for (size_t i = 0; i < sizeof exclusive / sizeof *exclusive; i++)
        if (options & exclusive[i].stays)
            options &= ~exclusive[i].goes;
    return g == GEN_MASKED_ROWS ? options | OPT_KEEP : options;
}

static int64_t draw_width(rng *r)
{
    static const int64_t widths[] = {1,  2,  3,  4,  5,  7,   8,   11,  13,  15, 16, 17,
                                     23, 24, 31, 32, 33, 40,  47,  48,  61,  63, 64, 64,
                                     65, 72, 80, 96, 97, 100, 127, 128, 131, 256};

    return rng_chance(r, 75) ? widths[rng_int(r, 0, sizeof widths / sizeof *widths - 1)]
                             : rng_int(r, 1, 256);
}

static int64_t draw_length(rng *r)
{
    if (rng_chance(r, 2))
        return 0;
    return rng_chance(r, 40) ? rng_int(r, 1, 17) : rng_int(r, 1, 100);
}

/* Makes the shape smaller until the work fits, so that small calls of any shape stay common. */
static void shrink(trial *t, double work)
{
    rng *r = &t->random;

    while ((double)t->b * (double)(t->hk * t->group * t->tq) * (double)(t->tk * (t->d + t->dv)) >
           work) {
        int64_t *sizes[] = {&t->b, &t->group, &t->hk, &t->tq, &t->tk, &t->d, &t->dv};
        int which = (int)rng_int(r, 0, t->gen == GEN_TRAP ? 4 : 6);
        int64_t floor = which == 1 && t->options & OPT_GROUPS ? 2 : 1;

        if (which == 4 && t->options & OPT_LONG)
            continue;
        if (*sizes[which] > floor)
            *sizes[which] = (*sizes[which] + floor) / 2;
    }
}

static void draw_shape(trial *t)
{
    rng *r = &t->random;

    t->b = t->options & OPT_PACKED ? 1 : rng_int(r, 1, 3) + rng_chance(r, 10);
    if (rng_chance(r, 1))
        t->b = t->options & OPT_PACKED ? 1 : 0;
    t->hk = rng_int(r, 1, 3);
    t->group = t->options & OPT_GROUPS ? rng_int(r, 2, 4) : 1;
    t->d = t->gen == GEN_TRAP ? 64 : draw_width(r);
    t->dv = draw_width(r);
    t->tq = draw_length(r);
    t->tk = draw_length(r);
    if (t->options & OPT_LONG) {
        t->tk = rng_int(r, 200, 1200);
        t->d = t->gen == GEN_TRAP ? 64 : 1 + t->d % 48;
        t->dv = 1 + t->dv % 48;
    }
    /* At least what the sizes shrink to. */
    shrink(t, exp2(t->options & OPT_LONG ? rng_range(r, 18.5, 20.5) : rng_range(r, 10, 19.5)));
    if (!(t->options & OPT_DV))
        t->dv = t->d;
    t->h = t->hk * t->group;
}

static void draw_random(trial *t, uint64_t seed, uint64_t index, uint32_t options, generator gen)
{
    memset(t, 0, sizeof *t);
    t->random = rng_make(seed, index);
    t->gen = gen;
    t->options = settle_options(options, gen);
    draw_shape(t);
    trial_build(t);
    ref_forward_with(&t->args, &t->how, &t->want);
}

void trial_make(trial *t, uint64_t seed, uint64_t index, uint32_t options, generator gen)
{
    draw_random(t, seed, index, options, gen);
}

void trial_draw(trial *t, uint64_t seed, uint64_t index)
{
    /* Percent. A handful of options a trial, so that most trials mix some and none drowns in masks.
     */
    static const int odds[OPTION_COUNT] = {
        [BIT_SCALE] = 25,     [BIT_SOFTCAP] = 20,   [BIT_KEEP] = 25,   [BIT_BIAS] = 25,
        [BIT_ALIBI] = 20,     [BIT_CAUSAL] = 35,    [BIT_WINDOW] = 20, [BIT_Q_OFFSETS] = 30,
        [BIT_K_OFFSETS] = 25, [BIT_LENGTHS] = 20,   [BIT_PACKED] = 20, [BIT_BLOCKS] = 12,
        [BIT_SINK] = 25,      [BIT_DROPOUT] = 15,   [BIT_TILE] = 12,   [BIT_LSE] = 50,
        [BIT_WEIGHTS] = 20,   [BIT_PARTIAL] = 10,   [BIT_START] = 8,   [BIT_CHAIN] = 8,
        [BIT_MERGE] = 10,     [BIT_POISON] = 15,    [BIT_TYPES] = 45,  [BIT_F64] = 5,
        [BIT_LAYOUTS] = 50,   [BIT_GUARDS] = 5,     [BIT_GROUPS] = 40, [BIT_DV] = 35,
        [BIT_IN_PLACE] = 8,   [BIT_WORKSPACE] = 15, [BIT_LONG] = 3,
    };
    rng r = rng_make(seed ^ UINT64_C(0x747269616C), index);
    uint32_t options = 0;
    generator gen;

    for (int bit = 0; bit < OPTION_COUNT; bit++)
        if (rng_chance(&r, odds[bit]))
            options |= UINT32_C(1) << bit;
    gen = (generator)rng_int(&r, 0, GEN_COUNT - 1);
    if (gen == GEN_DENORMAL && rng_chance(&r, 75)) /* slow on every machine, and all alike */
        gen = GEN_BELL;
    draw_random(t, seed, index, options, gen);
}

void trial_describe(const trial *t, char *text, size_t n)
{
    size_t used = (size_t)snprintf(
        text, n,
        "B %lld H %lld Hk %lld Tq %lld Tk %lld D %lld Dv %lld "
        "q %s k %s v %s, %s:",
        (long long)t->b, (long long)t->h, (long long)t->hk, (long long)t->tq, (long long)t->tk,
        (long long)t->d, (long long)t->dv, attn_type_name(t->args.q.type),
        attn_type_name(t->args.k.type), attn_type_name(t->args.v.type), generator_name(t->gen));

    for (int bit = 0; bit < OPTION_COUNT && used < n; bit++)
        if (t->options >> bit & 1)
            used += (size_t)snprintf(text + used, n - used, " %s", option_name(bit));
}

void trial_free(trial *t)
{
    ref_free(&t->want);
    arena_reset(&t->memory);
}

/* --- Calls in parts ------------------------------------------------------------------------- */

/* The keys of a call in parts by count: each part's mask is the whole one with other key ranges. */
typedef struct parts {
    size_t n;
    int64_t *start[MAX_PARTS], *count[MAX_PARTS], *offset[MAX_PARTS];
    attn_mask mask[MAX_PARTS];
    attn_partial record[MAX_PARTS];
} parts;

static attn_partial make_record(trial *t)
{
    attn_type type = t->options & OPT_F64 ? ATTN_F64 : ATTN_F32;
    attn_partial p = {
        .out = view_plain(&t->memory, type, t->b, t->h, t->tq, t->dv),
        .sum = view_plain(&t->memory, type, t->b, t->h, t->tq, 1),
        .max = view_plain(&t->memory, type, t->b, t->h, t->tq, 1),
    };

    return p;
}

static void cut_sequence(trial *t, parts *p, int64_t s)
{
    trial_rows rows = trial_sequence(t, s);
    int64_t from = 0, base = t->mask.k_offsets ? t->mask.k_offsets[s] : 0;

    for (size_t i = 0; i < p->n; i++) {
        int64_t to = i + 1 < p->n ? rng_int(&t->random, from, rows.k_count) : rows.k_count;

        p->start[i][s] = rows.k_start + from;
        p->count[i][s] = to - from;
        p->offset[i][s] = base + from; /* k_start does not move positions; this does */
        from = to;
    }
}

static void cut(trial *t, parts *p)
{
    size_t bytes = ((size_t)t->sequences + 1) * sizeof(int64_t);

    p->n = (size_t)rng_int(&t->random, 2, MAX_PARTS);
    for (size_t i = 0; i < p->n; i++) {
        p->start[i] = arena_get(&t->memory, bytes);
        p->count[i] = arena_get(&t->memory, bytes);
        p->offset[i] = arena_get(&t->memory, bytes);
        p->mask[i] = t->mask;
        p->mask[i].k_start = p->start[i];
        p->mask[i].k_count = p->count[i];
        p->mask[i].k_offsets = p->offset[i];
        p->record[i] = make_record(t);
    }
    for (int64_t s = 0; s < t->sequences; s++)
        cut_sequence(t, p, s);
}

/* A call that writes a record has no other output, and no sink: that enters at the merge. */
static void write_record(attn_forward_args *args, const attn_partial *record)
{
    static const attn_view absent;

    args->out = args->lse = args->weights = args->sink = absent;
    args->partial = record;
}

static attn_status run_chain(trial *t, const attn_ctx *ctx, attn_error *err)
{
    parts p = {0};
    attn_status st = ATTN_OK;

    cut(t, &p);
    for (size_t i = 0; i < p.n && st == ATTN_OK; i++) {
        attn_forward_args args = t->args;

        args.mask = &p.mask[i];
        args.start = i > 0 ? &p.record[i - 1] : NULL;
        if (i + 1 < p.n)
            write_record(&args, &p.record[i]);
        st = attn_forward(ctx, &args, err);
    }
    return st;
}

static attn_status run_merge(trial *t, const attn_ctx *ctx, attn_error *err)
{
    parts p = {0};
    attn_merge_args merge = ATTN_MERGE_ARGS_INIT;
    attn_status st = ATTN_OK;

    cut(t, &p);
    for (size_t i = 0; i < p.n && st == ATTN_OK; i++) {
        attn_forward_args args = t->args;

        args.mask = &p.mask[i];
        write_record(&args, &p.record[i]);
        st = attn_forward(ctx, &args, err);
    }
    merge.parts = p.record;
    merge.count = p.n;
    merge.out = t->args.out;
    merge.lse = t->args.lse;
    merge.sink = t->args.sink;
    return st == ATTN_OK ? attn_merge(ctx, &merge, err) : st;
}

/* --- One run -------------------------------------------------------------------------------- */

static void clear_outputs(trial *t)
{
    const attn_view *outputs[] = {&t->args.lse,    &t->args.weights, &t->partial.out,
                                  &t->partial.sum, &t->partial.max,  &t->args.out};
    size_t n = sizeof outputs / sizeof *outputs;

    for (size_t i = 0; i < n; i++)
        if (outputs[i]->data)
            view_fill(outputs[i], (double)NAN);
    if (t->options & OPT_IN_PLACE) {
        const attn_view *q = &t->args.q;

        for (int64_t b = 0; b < t->b; b++)
            for (int64_t h = 0; h < t->h; h++)
                for (int64_t i = 0; i < t->tq; i++)
                    for (int64_t c = 0; c < t->d; c++)
                        view_set(q, b, h, i, c, view_get(&t->q_copy, b, h, i, c));
    }
}

static attn_status run_whole(trial *t, const attn_ctx *ctx, attn_error *err)
{
    attn_forward_args args = t->args;
    attn_plan plan = ATTN_PLAN_INIT;
    attn_status st;

    if (!(t->options & OPT_WORKSPACE))
        return attn_forward(ctx, &args, err);
    if ((st = attn_forward_plan(ctx, &args, &plan, err)) != ATTN_OK)
        return st;
    args.workspace_size = plan.workspace_size;
    args.workspace = arena_guarded(&t->memory, plan.workspace_size, plan.workspace_size % 64 == 0);
    return attn_forward(ctx, &args, err);
}

/* Inputs a call might write to by mistake. */
static uint64_t hash_inputs(const trial *t)
{
    const attn_view *inputs[] = {&t->args.k,    &t->args.v,    &t->mask.keep, &t->mask.bias,
                                 &t->start.out, &t->start.sum, &t->start.max};
    uint64_t hash = t->options & OPT_IN_PLACE ? 0 : view_hash(&t->args.q);

    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++)
        hash = hash * 31 + view_hash(inputs[i]);
    return hash;
}

int trial_run(trial *t, const attn_ctx *ctx, ref_worst *worst, char *why, size_t n)
{
    int careful = rng_chance(&t->random, 8), bad;
    uint64_t before = careful ? hash_inputs(t) : 0;
    attn_error err = {0};
    attn_status st;

    clear_outputs(t);
    st = t->options & OPT_CHAIN   ? run_chain(t, ctx, &err)
         : t->options & OPT_MERGE ? run_merge(t, ctx, &err)
                                  : run_whole(t, ctx, &err);
    if (st != ATTN_OK) {
        snprintf(why, n, "%s: %s", attn_status_text(st), err.text);
        return 1;
    }
    bad = t->options & OPT_PARTIAL ? ref_compare_partial(&t->partial, &t->want, worst, why, n)
                                   : ref_compare(&t->args, &t->want, worst, why, n);
    if (bad == 0 && careful && hash_inputs(t) != before) {
        snprintf(why, n, "an input was written");
        bad++;
    }
    if (bad == 0 && careful && !arena_poison_intact(&t->memory)) {
        snprintf(why, n, "memory beside an output was written");
        bad++;
    }
    return bad;
}
