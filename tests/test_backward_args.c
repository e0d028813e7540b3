/* test_backward_args.c: what attn_backward refuses: each wrong argument alone gives one clear
 * error, the same from plan and call, and nothing is written. */
#include "tests/gradient.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A valid call to be spoilt. */
typedef struct spoilt {
    gradient_call c;
    attn_mask mask;
    gradients outputs; /* before it is */
    attn_status want;
    const char *names; /* what the text must mention */
} spoilt;

static void keep_all(void *user, const attn_tile *tile)
{
    (void)user, (void)tile;
}

static void refuse(spoilt *x, attn_status st, const char *names)
{
    x->want = st;
    x->names = names;
}

static attn_view moved(attn_view v, int64_t bytes)
{
    v.data = (char *)v.data + bytes;
    return v;
}

static void drop(attn_view *v)
{
    memset(v, 0, sizeof *v);
}

/* Fault number n; 0 when there are no more. */
static int spoil_inputs(spoilt *x, int n)
{
    attn_forward_args *f = &x->c.f;
    attn_backward_args *a = &x->c.a;

    switch (n) {
    case 0:
        drop(&f->lse);
        refuse(x, ATTN_E_ARGUMENT, "lse");
        return 1;
    case 1:
        drop(&a->dout);
        refuse(x, ATTN_E_ARGUMENT, "dout");
        return 1;
    case 2:
        drop(&f->out);
        refuse(x, ATTN_E_ARGUMENT, "delta");
        return 1;
    case 3:
        f->out.type = ATTN_BF16;
        refuse(x, ATTN_E_ARGUMENT, "delta");
        return 1;
    case 4:
        f->out.type = ATTN_F16;
        refuse(x, ATTN_E_ARGUMENT, "delta");
        return 1;
    case 5:
        x->mask.tile = keep_all;
        refuse(x, ATTN_E_ARGUMENT, "tile_gradient");
        return 1;
    case 6:
        a->forward = NULL;
        refuse(x, ATTN_E_ARGUMENT, "forward");
        return 1;
    case 7:
        f->out = moved(f->q, 0);
        f->out.size[3] = f->q.size[3];
        refuse(x, ATTN_E_ARGUMENT | ATTN_E_SHAPE, "out");
        return 1;
    case 8:
        a->dout.type = ATTN_F64;
        refuse(x, ATTN_E_ARGUMENT, "dout");
        return 1;
    case 9:
        a->dout.type = ATTN_I8;
        refuse(x, ATTN_E_ARGUMENT, "dout");
        return 1;
    case 10:
        a->dout.size[2]--;
        refuse(x, ATTN_E_SHAPE, "dout");
        return 1;
    case 11:
        a->dout.size[3]--;
        refuse(x, ATTN_E_SHAPE, "dout");
        return 1;
    case 12:
        a->dlse.size[1]--;
        refuse(x, ATTN_E_SHAPE, "dlse");
        return 1;
    case 13:
        a->dlse.type = ATTN_F16;
        refuse(x, ATTN_E_ARGUMENT, "dlse");
        return 1;
    case 14:
        a->delta = a->dlse;
        a->delta.size[3] = 2;
        refuse(x, ATTN_E_SHAPE, "delta");
        return 1;
    case 15:
        a->delta = a->dlse;
        a->delta.type = ATTN_BF16;
        refuse(x, ATTN_E_ARGUMENT, "delta");
        return 1;
    case 16:
        a->dout = moved(a->dout, 1);
        refuse(x, ATTN_E_ARGUMENT, "dout");
        return 1;
    case 17:
        f->dropout = 1;
        refuse(x, ATTN_E_ARGUMENT, "dropout");
        return 1;
    case 18:
        f->k.size[2]--;
        refuse(x, ATTN_E_SHAPE, NULL);
        return 1;
    default:
        return 0;
    }
}

static int spoil_outputs(spoilt *x, int n)
{
    attn_forward_args *f = &x->c.f;
    attn_backward_args *a = &x->c.a;

    switch (n) {
    case 0:
        drop(&a->dq), drop(&a->dk), drop(&a->dv);
        drop(&a->dbias), drop(&a->dsink), drop(&a->dalibi);
        refuse(x, ATTN_E_ARGUMENT, "dq");
        return 1;
    case 1:
        drop(&f->sink);
        refuse(x, ATTN_E_ARGUMENT, "dsink");
        return 1;
    case 2:
        drop(&x->mask.alibi);
        refuse(x, ATTN_E_ARGUMENT, "dalibi");
        return 1;
    case 3:
        a->dq.size[3]--;
        refuse(x, ATTN_E_SHAPE, "dq");
        return 1;
    case 4:
        a->dk.size[1]--;
        refuse(x, ATTN_E_SHAPE, "dk");
        return 1;
    case 5:
        a->dv.size[2]--;
        refuse(x, ATTN_E_SHAPE, "dv");
        return 1;
    case 6:
        a->dbias.size[2] = 2;
        refuse(x, ATTN_E_SHAPE, "dbias");
        return 1;
    case 7:
        a->dsink.size[1] = 1;
        refuse(x, ATTN_E_SHAPE, "dsink");
        return 1;
    case 8:
        a->dalibi.size[1]--;
        refuse(x, ATTN_E_SHAPE, "dalibi");
        return 1;
    case 9:
        a->dq.type = ATTN_F64;
        refuse(x, ATTN_E_ARGUMENT, "dq");
        return 1;
    case 10:
        a->dk.type = ATTN_U8;
        refuse(x, ATTN_E_ARGUMENT, "dk");
        return 1;
    case 11:
        a->dbias.type = ATTN_BF16;
        refuse(x, ATTN_E_ARGUMENT, "dbias");
        return 1;
    case 12:
        a->dsink.type = ATTN_F64;
        refuse(x, ATTN_E_ARGUMENT, "dsink");
        return 1;
    case 13:
        a->dalibi.type = ATTN_F16;
        refuse(x, ATTN_E_ARGUMENT, "dalibi");
        return 1;
    case 14:
        a->dq.stride[2] = 0;
        refuse(x, ATTN_E_ARGUMENT, "dq");
        return 1;
    case 15:
        a->dbias.stride[3] = 0;
        refuse(x, ATTN_E_ARGUMENT, "dbias");
        return 1;
    case 16:
        a->dk.data = a->dq.data;
        refuse(x, ATTN_E_ARGUMENT, "dk");
        return 1;
    case 17:
        a->dq.data = f->q.data;
        refuse(x, ATTN_E_ARGUMENT, "dq");
        return 1;
    case 18:
        a->dv.data = f->v.data;
        refuse(x, ATTN_E_ARGUMENT, "dv");
        return 1;
    case 19:
        a->dq.data = a->dout.data;
        refuse(x, ATTN_E_ARGUMENT, "dq");
        return 1;
    case 20:
        a->dsink.data = f->lse.data;
        refuse(x, ATTN_E_ARGUMENT, "dsink");
        return 1;
    case 21:
        a->dbias.data = f->out.data;
        refuse(x, ATTN_E_ARGUMENT, "dbias");
        return 1;
    case 22:
        a->dk = moved(a->dk, 2);
        refuse(x, ATTN_E_ARGUMENT, "dk");
        return 1;
    case 23:
        a->dv.data = NULL; /* with sizes: a NULL that is meant */
        a->dv.type = ATTN_F32;
        drop(&a->dq), drop(&a->dk), drop(&a->dbias), drop(&a->dsink), drop(&a->dalibi);
        refuse(x, ATTN_E_ARGUMENT, "d");
        return 1;
    case 24:
        a->struct_size = 0;
        refuse(x, ATTN_E_ARGUMENT, "struct_size");
        return 1;
    default:
        return 0;
    }
}

/* Only the call looks at its workspace. */
static int spoil_workspace(spoilt *x, int n, const attn_ctx *ctx)
{
    attn_plan plan = ATTN_PLAN_INIT;
    attn_backward_args *a = &x->c.a;

    CHECK(attn_backward_plan(ctx, a, &plan, NULL) == ATTN_OK);
    CHECK(plan.workspace_least > 0 && plan.workspace_least <= plan.workspace_size);
    a->workspace = arena_get(&problem_mem, plan.workspace_size + 64);
    a->workspace_size = n == 0 ? plan.workspace_least - 1 : n == 1 ? 0 : plan.workspace_size;
    if (n == 2)
        a->workspace = (char *)a->workspace + 32;
    refuse(x, ATTN_E_ARGUMENT, "workspace");
    return n < 2;
}

static void expect_refused(const attn_ctx *ctx, spoilt *x, int plan_too, const char *what, int n)
{
    uint64_t before[GRADIENTS];
    attn_plan plan = ATTN_PLAN_INIT, untouched = ATTN_PLAN_INIT;
    attn_error err = {ATTN_OK, 0, ""};
    attn_status st, planned;

    for (int i = 0; i < GRADIENTS; i++)
        before[i] = view_hash(&x->outputs.of[i]);
    planned = attn_backward_plan(ctx, &x->c.a, &plan, NULL);
    st = attn_backward(ctx, &x->c.a, &err);
    CHECK_MSG(st != ATTN_OK && (st == x->want || x->want == (ATTN_E_ARGUMENT | ATTN_E_SHAPE)),
              "%s %d: got %s", what, n, attn_status_text(st));
    CHECK_MSG(!plan_too || planned == st, "%s %d: plan says %s", what, n,
              attn_status_text(planned));
    CHECK_MSG(!plan_too || memcmp(&plan, &untouched, sizeof plan) == 0, "%s %d: plan written", what,
              n);
    CHECK_MSG(err.status == st, "%s %d: err", what, n);
    CHECK_MSG(err.text[0] && err.text[strlen(err.text) - 1] != '.' && !strchr(err.text, '\n'),
              "%s %d: '%s'", what, n, err.text);
    CHECK_MSG(!x->names || strstr(err.text, x->names), "%s %d: '%s' does not name %s", what, n,
              err.text, x->names);
    CHECK_MSG(attn_backward(ctx, &x->c.a, NULL) == st, "%s %d: without err", what, n);
    for (int i = 0; i < GRADIENTS; i++)
        CHECK_MSG(view_hash(&x->outputs.of[i]) == before[i], "%s %d: %s written", what, n,
                  gradient_names[i]);
}

/* A call with sink, slopes and every output. */
static void make_valid(spoilt *x, subject *s, const way *w)
{
    problem *p = s->p;

    gradient_make(&x->c, s, w);
    x->mask = p->mask;
    x->mask.alibi = p->alibi;
    x->c.f.mask = &x->mask;
    x->c.f.sink = p->sink;
    x->c.a.forward = &x->c.f;
    x->c.a.dsink = view_plain(&problem_mem, ATTN_F32, 1, p->h, 1, 1);
    x->c.a.dalibi = view_plain(&problem_mem, ATTN_F32, 1, p->h, 1, 1);
    x->outputs =
        (gradients){{x->c.a.dq, x->c.a.dk, x->c.a.dv, x->c.a.dbias, x->c.a.dsink, x->c.a.dalibi}};
    gradient_forward(w->ctx, &x->c);
}

static void faults(void **state, int (*spoil)(spoilt *x, int n), const char *what)
{
    const attn_ctx *ctx = ctx_for(test_set(state), 2);
    int more = 1;

    for (int n = 0; more; n++) {
        problem p = problem_make(ctx, ATTN_F32, PLAIN, 2, 9, 70);
        subject s = subject_make(&p);
        way w = {.ctx = ctx, .n = 2};
        spoilt x;

        make_valid(&x, &s, &w);
        CHECK(attn_backward(ctx, &x.c.a, NULL) == ATTN_OK);
        more = spoil(&x, n);
        if (more)
            expect_refused(ctx, &x, 1, what, n);
        arena_reset(&problem_mem);
    }
}

static void inputs_are_checked(void **state)
{
    faults(state, spoil_inputs, "input");
}

static void outputs_are_checked(void **state)
{
    faults(state, spoil_outputs, "output");
}

static void workspace_is_checked(void **state)
{
    const attn_ctx *ctx = ctx_for(test_set(state), 2);
    int more = 1;

    for (int n = 0; more; n++) {
        problem p = problem_make(ctx, ATTN_F32, PLAIN, 2, 9, 70);
        subject s = subject_make(&p);
        way w = {.ctx = ctx, .n = 2};
        spoilt x;

        make_valid(&x, &s, &w);
        more = spoil_workspace(&x, n, ctx);
        expect_refused(ctx, &x, 0, "workspace", n);
        arena_reset(&problem_mem);
    }
}

static void no_context_and_no_arguments(void **state)
{
    attn_backward_args a = ATTN_BACKWARD_ARGS_INIT;
    attn_plan plan = ATTN_PLAN_INIT;
    attn_error err = {ATTN_OK, 0, ""};
    const attn_ctx *ctx = ctx_for(test_set(state), 1);

    CHECK(attn_backward(NULL, &a, &err) == ATTN_E_ARGUMENT && err.text[0]);
    CHECK(attn_backward(ctx, NULL, &err) == ATTN_E_ARGUMENT && err.text[0]);
    CHECK(attn_backward_plan(NULL, &a, &plan, &err) == ATTN_E_ARGUMENT);
    CHECK(attn_backward_plan(ctx, NULL, &plan, &err) == ATTN_E_ARGUMENT);
    CHECK(attn_backward_plan(ctx, &a, NULL, &err) == ATTN_E_ARGUMENT);
}

/* Fields after ours: zeros are what older libraries may ignore, anything else they may not. */
static void newer_structs(void **state)
{
    const attn_ctx *ctx = ctx_for(test_set(state), 2);
    problem p = problem_make(ctx, ATTN_F32, PLAIN, 1, 9, 70);
    subject s = subject_make(&p);
    way w = {.ctx = ctx, .n = 1};
    struct {
        attn_backward_args a;
        uint64_t tail[2];
    } newer = {.tail = {0, 0}};
    spoilt x;

    make_valid(&x, &s, &w);
    newer.a = x.c.a;
    newer.a.struct_size = sizeof newer;
    CHECK(attn_backward(ctx, &newer.a, NULL) == ATTN_OK);
    newer.tail[1] = 1;
    CHECK(attn_backward(ctx, &newer.a, NULL) == ATTN_E_ARGUMENT);
    arena_reset(&problem_mem);
}

int main(int argc, char **argv)
{
    static const test_case tests[] = {
        {"inputs are checked", inputs_are_checked, 1},
        {"outputs are checked", outputs_are_checked, 1},
        {"workspace is checked", workspace_is_checked, 1},
        {"no context and no arguments", no_context_and_no_arguments, 1},
        {"newer structs", newer_structs, 1},
    };

    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
