/* yardstick.c: see yardstick.h. */
#include "tests/yardstick.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const attn_type types[] = {ATTN_F32, ATTN_F16, ATTN_BF16, ATTN_F64};
arena problem_mem;
int problem_full;

attn_view view_columns(const attn_view *v, int64_t from, int64_t n)
{
    attn_view part = *v;

    if (v->size[3] == 1 || !v->data)
        return part;
    part.data = (char *)v->data + from * v->stride[3] * (int64_t)attn_type_size(v->type);
    part.size[3] = n;
    return part;
}

attn_view view_rows(const attn_view *v, int64_t from, int64_t n)
{
    return v->data ? view_part(v, 2, from, n) : *v;
}

attn_view view_batches(const attn_view *v, int64_t from, int64_t n)
{
    return v->data ? view_part(v, 0, from, n) : *v;
}

/* Arguments for sequences b0 .. b0 + n - 1, without outputs. */
attn_forward_args problem_args(problem *p, int64_t b0, int64_t n)
{
    attn_forward_args a = ATTN_FORWARD_ARGS_INIT;
    attn_mask *m = &p->mask;

    memset(m, 0, sizeof *m);
    m->struct_size = sizeof *m;
    a.q = view_batches(&p->q, b0, n);
    a.k = view_batches(&p->k, b0, n);
    a.v = view_batches(&p->v, b0, n);
    a.mask = m;
    a.dropout_batch = b0;
    if (p->options == POSITIONS) {
        m->causal = 1;
        m->window = 1;
        m->window_left = 530;
        m->window_right = 2;
        m->q_offset = p->tk - p->tq;
        m->alibi = p->alibi;
        a.softcap = 20;
    }
    if (p->options == ADDED) {
        m->keep = view_batches(&p->keep, b0, n);
        m->bias = view_batches(&p->bias, b0, n);
        a.sink = p->sink;
        a.dropout = 0.2;
        a.dropout_seed = 5;
        a.has_scale = 1;
        a.scale = 0.7;
    }
    return a;
}

int64_t problem_decode_offset(const problem *p)
{
    return p->options == POSITIONS ? 0 : p->tq - p->tk;
}

void problem_run(const attn_ctx *ctx, const attn_forward_args *a)
{
    attn_error err = {ATTN_OK, 0, ""};

    CHECK_MSG(attn_forward(ctx, a, &err) == ATTN_OK, "attn_forward: %s", err.text);
}

attn_view problem_out(const problem *p, int64_t b, int64_t tq)
{
    attn_view v = view_plain(&problem_mem, p->type, b, p->h, tq, p->dv);

    view_fill(&v, 77);
    return v;
}

attn_view problem_lse(const problem *p, int64_t b, int64_t tq)
{
    return view_plain(&problem_mem, p->type == ATTN_F64 ? ATTN_F64 : ATTN_F32, b, p->h, tq, 1);
}

void expect_same(const attn_view *got, const attn_view *want, const char *format, ...)
{
    char text[200];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    CHECK_MSG(view_same_bits(got, want), "bits differ: %s %s", attn_type_name(got->type), text);
}

attn_view problem_input(rng *r, attn_type type, int64_t b, int64_t h, int64_t n, int64_t d)
{
    attn_view v = view_plain(&problem_mem, type, b, h, n, d);

    view_uniform(&v, r, -1.5, 1.5);
    return v;
}

problem problem_make(const attn_ctx *one, attn_type type, int options, int64_t b, int64_t tq,
                     int64_t tk)
{
    problem p = {.type = type, .options = options, .b = b, .h = 4, .hk = 2, .tq = tq, .tk = tk};
    rng r = rng_make(test_seed(), (uint64_t)(type * 64 + options * 16) + (uint64_t)tk);
    attn_type wide = type == ATTN_F64 ? ATTN_F64 : ATTN_F32;

    p.d = 19, p.dv = 21;
    p.q = problem_input(&r, type, b, p.h, tq, p.d);
    p.k = problem_input(&r, type, b, p.hk, tk, p.d);
    p.v = problem_input(&r, type, b, p.hk, tk, p.dv);
    p.bias = problem_input(&r, wide, b, p.h, tq, tk);
    p.alibi = problem_input(&r, wide, 1, p.h, 1, 1);
    p.sink = problem_input(&r, wide, 1, p.h, 1, 1);
    p.keep = view_plain(&problem_mem, ATTN_U8, b, 1, tq, tk);
    view_uniform(&p.keep, &r, 0, 3.999);
    p.out = problem_out(&p, b, tq);
    p.lse = problem_lse(&p, b, tq);
    for (int64_t s = 0; s < b; s++) {
        attn_forward_args a = problem_args(&p, s, 1);

        a.out = view_batches(&p.out, s, 1);
        a.lse = view_batches(&p.lse, s, 1);
        problem_run(one, &a);
    }
    return p;
}

/* Computes all rows of sequences b0.. in one call on ctx and holds them to the yardstick. */
void problem_check(const attn_ctx *ctx, problem *p, int64_t b0, int64_t n, const char *what)
{
    attn_forward_args a = problem_args(p, b0, n);
    attn_view want = view_batches(&p->out, b0, n), want_lse = view_batches(&p->lse, b0, n);

    a.out = problem_out(p, n, p->tq);
    a.lse = problem_lse(p, n, p->tq);
    problem_run(ctx, &a);
    expect_same(&a.out, &want, "%s, batch %lld+%lld, options %d", what, (long long)b0, (long long)n,
                p->options);
    expect_same(&a.lse, &want_lse, "LSE: %s, batch %lld+%lld", what, (long long)b0, (long long)n);
}

/* Runs `body` on a many-query and a few-query problem of each type and option set. */
void problem_each(void **state, int64_t b, void (*body)(attn_kernel_set set, problem *p))
{
    static const int64_t lengths[][2] = {{45, 1090}, {5, 1090}, {150, 600}, {70, 70}};
    static const int64_t lengths_of_many[][2] = {{18, 600}, {5, 600}, {140, 64}, {66, 66}};
    attn_kernel_set set = test_set(state);

    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (int options = 0; options < OPTION_SETS; options++)
            for (size_t n = 0; n < sizeof lengths / sizeof *lengths; n++) {
                if (!problem_full && (t + (size_t)options + n) % 2)
                    continue;
                const int64_t *length = b > 4 ? lengths_of_many[n] : lengths[n];
                problem p =
                    problem_make(ctx_for(set, 1), types[t], options, b, length[0], length[1]);

                body(set, &p);
                arena_reset(&problem_mem);
            }
}
