/* ref_backward.c: the gradients of ref_backward.h: what needs no arithmetic here, the rest in
 * ref_backward_row.h. */
#include "tests/ref_backward.h"
#include "tests/ref_problem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* States of a sum. */
enum { SUM_NAN = 1, SUM_WILD = 2, SUM_OPEN = 4 };

typedef struct backward {
    const attn_backward_args *args;
    ref_gradients *result;
    double lse_unit, delta_unit; /* of their storage, where that is coarser than the arithmetic */
} backward;

/* NaN; any result that is not finite; or any result at all. */
static void sum_special(int state, double *want, double *bound)
{
    if (state & SUM_OPEN)
        *bound = (double)NAN;
    else if (state) {
        *want = (double)NAN;
        *bound = state & SUM_NAN ? 0 : HUGE_VAL;
    }
}

static int64_t count_of(const ref_array *a)
{
    return a->size[0] * a->size[1] * a->size[2] * a->size[3];
}

/* --- Where a cell adds up ------------------------------------------------------------------- */

static int64_t head_cell(const attn_view *v, const row_place *at)
{
    return (v->size[0] > 1 ? at->b : 0) * v->size[1] + at->h;
}

static int64_t bias_cell(const problem *p, const row_place *at, int64_t j)
{
    const int64_t *n = p->dbias, place[4] = {at->b, at->h, at->i, j};
    int64_t cell = 0;

    for (int d = 0; d < 4; d++)
        cell = cell * n[d] + (n[d] > 1 ? place[d] : 0);
    return cell;
}

/* --- The rows, once for each arithmetic ----------------------------------------------------- */

#define REF_REAL double
#define REF_NAME(x) double_##x
#define REF_EXP exp
#define REF_LOG log
#define REF_TANH tanh
#define REF_SQRT sqrt
#include "tests/ref_backward_row.h"
#undef REF_REAL
#undef REF_NAME
#undef REF_EXP
#undef REF_LOG
#undef REF_TANH
#undef REF_SQRT

#define REF_REAL long double
#define REF_NAME(x) wide_##x
#define REF_EXP expl
#define REF_LOG logl
#define REF_TANH tanhl
#define REF_SQRT sqrtl
#include "tests/ref_backward_row.h"
#undef REF_REAL
#undef REF_NAME
#undef REF_EXP
#undef REF_LOG
#undef REF_TANH
#undef REF_SQRT

#define REF_REAL float
#define REF_NAME(x) narrow_##x
#define REF_EXP expf
#define REF_LOG logf
#define REF_TANH tanhf
#define REF_SQRT sqrtf
#include "tests/ref_backward_row.h"

/* --- Entry ---------------------------------------------------------------------------------- */

static void make_array(ref_array *a, const int64_t size[4], int present)
{
    memcpy(a->size, size, sizeof a->size);
    if (!present)
        return;
    a->want = ref_get((size_t)count_of(a) * sizeof *a->want);
    a->bound = ref_get((size_t)count_of(a) * sizeof *a->bound);
}

static void make_gradients(const attn_backward_args *args, ref_gradients *r)
{
    const attn_forward_args *f = args->forward;
    const int64_t *q = f->q.size, rows[4] = {q[0], q[1], q[2], 1};

    memset(r, 0, sizeof *r);
    r->f64 = f->q.type == ATTN_F64;
    make_array(&r->dq, q, 1);
    make_array(&r->dk, f->k.size, 1);
    make_array(&r->dv, f->v.size, 1);
    make_array(&r->delta, rows, 1);
    make_array(&r->dbias, args->dbias.size, has_view(&args->dbias));
    make_array(&r->dsink, f->sink.size, has_view(&f->sink));
    if (f->mask)
        make_array(&r->dalibi, f->mask->alibi.size, has_view(&f->mask->alibi));
}

static double unit_of(const attn_view *v, int f64)
{
    return has_view(v) && f64 && v->type == ATTN_F32 ? 0x1p-24 : 0;
}

void ref_backward(const attn_backward_args *args, const ref_options *options, ref_gradients *r)
{
    static const attn_view absent;
    attn_forward_args call = *args->forward;
    backward w = {.args = args, .result = r};
    problem p;
    ref forward;

    call.weights = absent;
    call.partial = call.start = NULL;
    make_gradients(args, r);
    w.lse_unit = unit_of(&call.lse, r->f64);
    w.delta_unit = unit_of(&args->delta, r->f64);
    ref_forward_with(&call, options, &forward);
    p = ref_problem(&call, options, &forward);
    p.dbias = args->dbias.size;
    if (options->narrow)
        narrow_gradients(&p, &w);
    else if (r->f64 || options->wide)
        wide_gradients(&p, &w);
    else
        double_gradients(&p, &w);
    ref_problem_free(&p);
    ref_free(&forward);
}

void ref_gradients_free(ref_gradients *r)
{
    ref_array *all[] = {&r->dq, &r->dk, &r->dv, &r->dbias, &r->dsink, &r->dalibi, &r->delta};

    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        free(all[i]->want);
        free(all[i]->bound);
    }
    memset(r, 0, sizeof *r);
}

/* --- Comparison ----------------------------------------------------------------------------- */

double ref_worst_gradient(const ref_worst_gradients *w)
{
    return fmax(fmax(fmax(w->dq, w->dk), fmax(w->dv, w->dbias)),
                fmax(fmax(w->dsink, w->dalibi), w->delta));
}

int ref_compare_gradients(const attn_backward_args *args, const attn_view *delta,
                          const ref_gradients *r, ref_worst_gradients *worst, char *why, size_t n)
{
    static const attn_view absent;
    ref_worst_gradients none = {0}, *w = worst ? worst : &none;
    const struct {
        const char *name;
        const attn_view *view;
        const ref_array *ref;
        double *ratio;
    } parts[] = {
        {"delta", delta ? delta : &absent, &r->delta, &w->delta},
        {"dq", &args->dq, &r->dq, &w->dq},
        {"dk", &args->dk, &r->dk, &w->dk},
        {"dv", &args->dv, &r->dv, &w->dv},
        {"dbias", &args->dbias, &r->dbias, &w->dbias},
        {"dsink", &args->dsink, &r->dsink, &w->dsink},
        {"dalibi", &args->dalibi, &r->dalibi, &w->dalibi},
    };
    int bad = 0;

    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const ref_part part = {parts[i].name, parts[i].view, parts[i].ref->want,
                               parts[i].ref->bound, r->f64};

        bad += ref_compare_part(&part, parts[i].ratio, why, n, bad);
    }
    return bad;
}
