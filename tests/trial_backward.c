/* trial_backward.c: see trial_backward.h; running is in trial_backward_run.c, so that what draws
 * does not need attn_backward. */
#include "tests/trial_backward.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const char *extra_name(int bit)
{
    static const char *const names[EXTRA_COUNT] = {
#define BACKWARD_NAME(name, text) [EXTRA_BIT_##name] = text,
        BACKWARD_EXTRAS(BACKWARD_NAME)
#undef BACKWARD_NAME
    };

    return names[bit];
}

/* --- Derivatives ---------------------------------------------------------------------------- */

/* Values near the largest number are multiplied by it. */
static double derivative_size(const trial *t)
{
    return t->gen == GEN_HUGE_V ? (t->options & OPT_F64 ? 0x1p-300 : 0x1p-40) : 1;
}

static void fill_row_of_dout(backward_trial *x, int64_t b, int64_t h, int64_t i)
{
    trial *t = &x->t;
    const attn_view *v = &t->args.v, *dout = &x->args.dout;
    double size = derivative_size(t);
    int along = x->extras & EXTRA_ALONG && t->tk > 0 && t->gen != GEN_SPECIAL &&
                t->gen != GEN_HUGE_V && !(t->options & OPT_POISON);
    int64_t only = along && rng_chance(&t->random, 20) ? rng_int(&t->random, 0, t->dv - 1) : -1;
    int64_t j = along ? rng_int(&t->random, 0, t->tk - 1) : 0;

    for (int64_t c = 0; c < t->dv; c++) {
        double value = size * rng_bell(&t->random);

        if (only >= 0)
            value = c == only ? value : 0;
        else if (along)
            value = view_get(v, b, h / t->group, j, c);
        view_set(dout, b, h, i, c, value);
    }
}

static void fill_derivatives(backward_trial *x)
{
    trial *t = &x->t;

    for (int64_t b = 0; b < t->b; b++)
        for (int64_t h = 0; h < t->h; h++)
            for (int64_t i = 0; i < t->tq; i++) {
                fill_row_of_dout(x, b, h, i);
                if (x->args.dlse.data)
                    view_set(&x->args.dlse, b, h, i, 0, derivative_size(t) * rng_bell(&t->random));
            }
}

/* NaN and infinities where no derivative may look: rows that attend no key. */
static void poison_row(backward_trial *x, int64_t b, int64_t h, int64_t i, int exists)
{
    static const double bad[] = {(double)NAN, HUGE_VAL, -HUGE_VAL};
    trial *t = &x->t;
    rng *r = &t->random;

    for (int64_t c = 0; c < t->dv; c++)
        view_set(&x->args.dout, b, h, i, c, bad[rng_int(r, 0, 2)]);
    if (t->args.q.stride[0] != 0 && t->args.q.stride[1] != 0)
        for (int64_t c = 0; c < t->d; c++)
            view_set(&t->args.q, b, h, i, c, bad[rng_int(r, 0, 2)]);
    if (x->args.dlse.data && !(exists && t->args.sink.data))
        view_set(&x->args.dlse, b, h, i, 0, bad[rng_int(r, 0, 2)]);
}

static void poison_empty_rows(backward_trial *x)
{
    trial *t = &x->t;

    for (int64_t s = 0; s < t->sequences; s++) {
        trial_rows rows = trial_sequence(t, s);
        int64_t first = t->mask.segments > 0 ? t->mask.q_starts[s] : 0;

        for (int64_t h = 0; h < t->h; h++)
            for (int64_t i = 0; i < rows.tq; i++) {
                int used = 0;

                for (int64_t j = 0; j < rows.tk && !used; j++)
                    used = trial_attends(t, s, h, i, j);
                if (!used)
                    poison_row(x, t->mask.segments > 0 ? 0 : s, h, first + i,
                               !t->mask.q_count || i < t->mask.q_count[s]);
            }
    }
}

/* One of the derivatives is NaN or infinite. */
static void spoil_derivative(backward_trial *x)
{
    static const double bad[] = {(double)NAN, HUGE_VAL, -HUGE_VAL};
    trial *t = &x->t;
    rng *r = &t->random;
    const attn_view *v = x->args.dlse.data && rng_chance(r, 40) ? &x->args.dlse : &x->args.dout;

    if (view_count(v) > 0)
        view_set(v, rng_int(r, 0, v->size[0] - 1), rng_int(r, 0, v->size[1] - 1),
                 rng_int(r, 0, v->size[2] - 1), rng_int(r, 0, v->size[3] - 1),
                 bad[rng_int(r, 0, 2)]);
}

/* --- Views ---------------------------------------------------------------------------------- */

static void build_inputs(backward_trial *x)
{
    trial *t = &x->t;
    rng *r = &t->random;
    attn_type wide = t->options & OPT_F64 ? ATTN_F64 : ATTN_F32;

    x->forward = t->args;
    if (x->extras & EXTRA_NO_OUT || x->forward.out.type == ATTN_F16 ||
        x->forward.out.type == ATTN_BF16)
        x->extras |= EXTRA_DELTA;
    x->args.struct_size = sizeof x->args;
    x->args.forward = &x->forward;
    x->args.dout = trial_array(t, trial_type(t), t->b, t->h, t->tq, t->dv);
    x->forward.lse = trial_array(t, rng_chance(r, 30) ? ATTN_F64 : wide, t->b, t->h, t->tq, 1);
    if (x->extras & EXTRA_DLSE)
        x->args.dlse = trial_array(t, rng_chance(r, 30) ? ATTN_F64 : wide, t->b, t->h, t->tq, 1);
    if (x->extras & EXTRA_DELTA) {
        x->args.delta = trial_array(t, rng_chance(r, 30) ? ATTN_F64 : wide, t->b, t->h, t->tq, 1);
        x->forward.dout = x->args.dout;
        x->forward.delta = x->args.delta;
    }
    x->args.tile_gradient = t->mask.tile ? tile_gradient : NULL;
}

/* Any of the 16 shapes that broadcast. */
static attn_view bias_shape(trial *t, attn_type type)
{
    int64_t n[4] = {t->sequences, t->h, t->longest_q, t->longest_k};
    int pattern = rng_chance(&t->random, 40) ? 0 : (int)rng_int(&t->random, 0, 15);

    for (int d = 0; d < 4; d++)
        if (pattern >> d & 1)
            n[d] = 1;
    return trial_array(t, type, n[0], n[1], n[2], n[3]);
}

static void build_gradients(backward_trial *x)
{
    trial *t = &x->t;
    rng *r = &t->random;
    attn_type wide = t->options & OPT_F64 ? ATTN_F64 : ATTN_F32;
    const attn_view *sink = &t->args.sink, *alibi = &t->mask.alibi;
    attn_view *made[] = {&x->args.dq, &x->args.dk, &x->args.dv};

    x->args.dq = trial_array(t, trial_type(t), t->b, t->h, t->tq, t->d);
    x->args.dk = trial_array(t, trial_type(t), t->b, t->hk, t->tk, t->d);
    x->args.dv = trial_array(t, trial_type(t), t->b, t->hk, t->tk, t->dv);
    if (x->extras & EXTRA_DBIAS)
        x->args.dbias = bias_shape(t, wide);
    if (sink->data)
        x->args.dsink = trial_array(t, wide, sink->size[0], t->h, 1, 1);
    if (alibi->data)
        x->args.dalibi = trial_array(t, wide, alibi->size[0], t->h, 1, 1);
    if (!(x->extras & EXTRA_SOME))
        return;
    if (x->args.dsink.data && rng_chance(r, 50))
        memset(&x->args.dsink, 0, sizeof x->args.dsink);
    if (x->args.dalibi.data && rng_chance(r, 50))
        memset(&x->args.dalibi, 0, sizeof x->args.dalibi);
    for (int i = 0, keep = (int)rng_int(r, 0, 6); i < 3; i++)
        if (!(keep >> i & 1) && (x->args.dbias.data || x->args.dsink.data || keep > 0))
            memset(made[i], 0, sizeof *made[i]);
}

/* --- All together --------------------------------------------------------------------------- */

static void build(backward_trial *x)
{
    trial *t = &x->t;

    build_inputs(x);
    build_gradients(x);
    fill_derivatives(x);
    if (t->options & OPT_POISON)
        poison_empty_rows(x);
    if (t->gen == GEN_SPECIAL && rng_chance(&t->random, 50))
        spoil_derivative(x);
    ref_backward(&x->args, &t->how, &x->want);
    if (x->extras & EXTRA_NO_OUT)
        memset(&x->forward.out, 0, sizeof x->forward.out);
}

void backward_make(backward_trial *x, uint64_t seed, uint64_t index, uint32_t options,
                   uint32_t extras, generator gen)
{
    memset(x, 0, sizeof *x);
    x->extras = extras;
    trial_make(&x->t, seed ^ UINT64_C(0x6772616473), index, options & BACKWARD_OPTIONS,
               gen == GEN_TRAP ? GEN_BELL : gen); /* f32 has no LSE of such logits */
    build(x);
}

void backward_draw(backward_trial *x, uint64_t seed, uint64_t index)
{
    /* Percent. */
    static const int odds[OPTION_COUNT] = {
        [BIT_SCALE] = 25,     [BIT_SOFTCAP] = 25, [BIT_KEEP] = 25,      [BIT_BIAS] = 25,
        [BIT_ALIBI] = 20,     [BIT_CAUSAL] = 35,  [BIT_WINDOW] = 20,    [BIT_Q_OFFSETS] = 30,
        [BIT_K_OFFSETS] = 25, [BIT_LENGTHS] = 20, [BIT_PACKED] = 20,    [BIT_BLOCKS] = 12,
        [BIT_SINK] = 25,      [BIT_DROPOUT] = 15, [BIT_TILE] = 15,      [BIT_POISON] = 15,
        [BIT_TYPES] = 40,     [BIT_F64] = 5,      [BIT_LAYOUTS] = 50,   [BIT_GUARDS] = 5,
        [BIT_GROUPS] = 40,    [BIT_DV] = 35,      [BIT_WORKSPACE] = 30, [BIT_LONG] = 3,
    };
    rng r = rng_make(seed ^ UINT64_C(0x6261636B), index);
    uint32_t options = 0, extras = 0;
    generator gen;

    for (int bit = 0; bit < OPTION_COUNT; bit++)
        if (rng_chance(&r, odds[bit]))
            options |= UINT32_C(1) << bit;
    for (int bit = 0; bit < EXTRA_COUNT; bit++)
        if (rng_chance(&r, bit == EXTRA_BIT_ALONG ? 10 : 35))
            extras |= UINT32_C(1) << bit;
    gen = (generator)rng_int(&r, 0, GEN_COUNT - 1);
    if (gen == GEN_DENORMAL && rng_chance(&r, 75))
        gen = GEN_BELL;
    backward_make(x, seed, index, options, extras, gen);
}

void backward_describe(const backward_trial *x, char *text, size_t n)
{
    size_t used;

    trial_describe(&x->t, text, n);
    used = strlen(text);
    for (int bit = 0; bit < EXTRA_COUNT && used < n; bit++)
        if (x->extras >> bit & 1)
            used += (size_t)snprintf(text + used, n - used, " %s", extra_name(bit));
}

void backward_free(backward_trial *x)
{
    ref_gradients_free(&x->want);
    trial_free(&x->t);
}
