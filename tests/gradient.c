/* gradient.c: see gradient.h. */
#include "tests/gradient.h"

#include <string.h>

const char *const gradient_names[GRADIENTS] = {"dq", "dk", "dv", "dbias", "dsink", "dalibi"};

subject subject_make(problem *p)
{
    rng r = rng_make(test_seed(), (uint64_t)(p->tq * 7 + p->tk));
    attn_type wide = p->type == ATTN_F64 ? ATTN_F64 : ATTN_F32;
    subject s = {.p = p};

    s.dout = problem_input(&r, p->type, p->b, p->h, p->tq, p->dv);
    s.dlse = problem_input(&r, wide, p->b, p->h, p->tq, 1);
    return s;
}

static void lay(attn_view *v, layout kind)
{
    rng r = rng_make(test_seed(), (uint64_t)kind);

    if (v->data && kind != LAYOUT_BHSD)
        *v = view_copy(&problem_mem, &r, v, v->type, kind);
}

static attn_view output(const way *w, attn_type type, int64_t b, int64_t h, int64_t n, int64_t d)
{
    rng r = rng_make(test_seed(), (uint64_t)(n * 100 + d));
    attn_view v = view_new(&problem_mem, &r, type, b, h, n, d, w->kind);

    view_fill(&v, 77);
    return v;
}

static attn_view *gradient_view(attn_backward_args *a, int i)
{
    attn_view *views[GRADIENTS] = {&a->dq, &a->dk, &a->dv, &a->dbias, &a->dsink, &a->dalibi};

    return views[i];
}

static void make_outputs(gradient_call *c, const subject *s, const way *w)
{
    const problem *p = s->p;
    attn_backward_args *a = &c->a;
    attn_type wide = p->type == ATTN_F64 ? ATTN_F64 : ATTN_F32;

    c->f.out = output(w, wide, w->n, p->h, p->tq, p->dv);
    c->f.lse = output(w, wide, w->n, p->h, p->tq, 1);
    a->dq = output(w, p->type, w->n, p->h, p->tq, p->d);
    a->dk = output(w, p->type, w->n, p->hk, c->f.k.size[2], p->d);
    a->dv = output(w, p->type, w->n, p->hk, c->f.k.size[2], p->dv);
    a->dbias = w->bias_sums ? output(w, wide, 1, 1, 1, c->f.k.size[2])
                            : output(w, wide, w->n, p->h, p->tq, c->f.k.size[2]);
    if (c->f.sink.data)
        a->dsink = output(w, wide, c->f.sink.size[0], p->h, 1, 1);
    if (p->mask.alibi.data)
        a->dalibi = output(w, wide, p->mask.alibi.size[0], p->h, 1, 1);
    for (int i = 0; i < GRADIENTS; i++)
        if (w->without >> i & 1)
            memset(gradient_view(a, i), 0, sizeof(attn_view));
}

void gradient_make(gradient_call *c, subject *s, const way *w)
{
    attn_mask *m = &s->p->mask;

    *c = (gradient_call){.a = ATTN_BACKWARD_ARGS_INIT};
    c->f = problem_args(s->p, w->b0, w->n);
    if (s->given[0].data) {
        c->f.k = s->given[0];
        c->f.v = s->given[1];
    }
    c->a.dout = view_batches(&s->dout, w->b0, w->n);
    c->a.dlse = view_batches(&s->dlse, w->b0, w->n);
    attn_view *all[] = {&c->f.q,  &c->f.k,   &c->f.v,    &c->f.sink, &m->keep,
                        &m->bias, &m->alibi, &c->a.dout, &c->a.dlse};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        lay(all[i], w->kind);
    make_outputs(c, s, w);
}

void gradient_forward(const attn_ctx *ctx, gradient_call *c)
{
    problem_run(ctx, &c->f);
}

gradients gradient_backward(gradient_call *c, const way *w)
{
    attn_plan plan = ATTN_PLAN_INIT;
    attn_error err = {ATTN_OK, 0, ""};
    gradients g;

    c->a.forward = &c->f;
    if (w->memory != NO_WORKSPACE) {
        CHECK(attn_backward_plan(w->ctx, &c->a, &plan, NULL) == ATTN_OK);
        c->a.workspace_size =
            w->memory == FULL_WORKSPACE ? plan.workspace_size : plan.workspace_least;
        c->a.workspace = arena_get(&problem_mem, c->a.workspace_size);
        memset(c->a.workspace, 0xcd, c->a.workspace_size);
    }
    CHECK_MSG(attn_backward(w->ctx, &c->a, &err) == ATTN_OK, "attn_backward: %s", err.text);
    for (int i = 0; i < GRADIENTS; i++)
        g.of[i] = *gradient_view(&c->a, i);
    return g;
}

gradients gradient_run(subject *s, const way *w)
{
    gradient_call c;

    gradient_make(&c, s, w);
    gradient_forward(w->ctx, &c);
    return gradient_backward(&c, w);
}

void expect_same_gradients(const gradients *got, const gradients *want, const char *what)
{
    for (int i = 0; i < GRADIENTS; i++)
        if (got->of[i].data && want->of[i].data)
            expect_same(&got->of[i], &want->of[i], "%s: %s", gradient_names[i], what);
}

void expect_within_bounds(const gradient_call *c, const char *what)
{
    ref_options options = {0};
    ref_gradients r;
    char why[300] = "";
    int bad;

    ref_backward(&c->a, &options, &r);
    bad = ref_compare_gradients(&c->a, NULL, &r, NULL, why, sizeof why);
    ref_gradients_free(&r);
    CHECK_MSG(bad == 0, "%s: %d elements, %s", what, bad, why);
}
