/* trial_backward_run.c: running the random calls of trial_backward.h. */
#include "tests/trial_backward.h"

#include <math.h>
#include <stdio.h>

static void clear(const attn_view *v)
{
    if (v->data)
        view_fill(v, (double)NAN);
}

static void clear_outputs(const backward_trial *x)
{
    const attn_backward_args *a = &x->args;
    const attn_view *outputs[] = {&x->forward.out, &x->forward.lse, &x->forward.delta,
                                  &a->dq,          &a->dk,          &a->dv,
                                  &a->dbias,       &a->dsink,       &a->dalibi};

    for (size_t i = 0; i < sizeof outputs / sizeof *outputs; i++)
        clear(outputs[i]);
}

static uint64_t hash_inputs(const backward_trial *x)
{
    const attn_view *inputs[] = {&x->t.args.q,    &x->t.args.k,   &x->t.args.v,  &x->t.mask.keep,
                                 &x->t.mask.bias, &x->args.dout,  &x->args.dlse, &x->args.delta,
                                 &x->forward.out, &x->forward.lse};
    uint64_t hash = 0;

    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++)
        hash = hash * 31 + view_hash(inputs[i]);
    return hash;
}

static attn_status run_backward(backward_trial *x, const attn_ctx *ctx, attn_error *err)
{
    attn_backward_args args = x->args;
    attn_plan plan = ATTN_PLAN_INIT;
    attn_status st;

    if (!(x->t.options & OPT_WORKSPACE))
        return attn_backward(ctx, &args, err);
    if ((st = attn_backward_plan(ctx, &args, &plan, err)) != ATTN_OK)
        return st;
    args.workspace_size = rng_chance(&x->t.random, 50) ? plan.workspace_size : plan.workspace_least;
    args.workspace =
        arena_guarded(&x->t.memory, args.workspace_size, args.workspace_size % 64 == 0);
    return attn_backward(ctx, &args, err);
}

int backward_run(backward_trial *x, const attn_ctx *ctx, ref_worst_gradients *worst, char *why,
                 size_t n)
{
    int careful = rng_chance(&x->t.random, 8), bad;
    attn_error err = {0};
    uint64_t before;
    attn_status st;

    clear_outputs(x);
    st = attn_forward(ctx, &x->forward, &err);
    before = careful ? hash_inputs(x) : 0;
    if (st == ATTN_OK)
        st = run_backward(x, ctx, &err);
    if (st != ATTN_OK) {
        snprintf(why, n, "%s: %s", attn_status_text(st), err.text);
        return 1;
    }
    bad = ref_compare_gradients(&x->args, &x->forward.delta, &x->want, worst, why, n);
    if (bad == 0 && careful && hash_inputs(x) != before) {
        snprintf(why, n, "an input was written");
        bad++;
    }
    if (bad == 0 && careful && !arena_poison_intact(&x->t.memory)) {
        snprintf(why, n, "memory beside an output was written");
        bad++;
    }
    return bad;
}
