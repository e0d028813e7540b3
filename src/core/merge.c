/* merge.c: attn_merge, the public face of the kernel that also merges splits. */
#include "src/base/ctx.h"
#include "src/base/error.h"
#include "src/base/pool.h"
#include "src/core/engine.h"
#include "src/kernels/cpu.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>

typedef struct merge_job {
    const attn_ctx *ctx;
    attn_merge_args args;
    attn_partial into; /* args.partial, if given */
    bool f64;
    int64_t b, h, rows;
    size_t dv;
    atomic_int_least64_t next; /* (batch, head) pairs handed out */
} merge_job;

/* Views of a record, checked against the shape of the first part. */
static attn_status check_record(const merge_job *m, const attn_partial *r, const char *what,
                                bool output, attn_error *err)
{
    static const char *const name[] = {"out", "max", "sum"};
    const attn_view *view[] = {&r->out, &r->max, &r->sum};
    char text[48];

    for (int i = 0; i < 3; i++) {
        snprintf(text, sizeof text, "%s.%s", what, name[i]);
        TRY(attn__check_view(view[i], text, output, err));
        if (view[i]->type != (m->f64 ? ATTN_F64 : ATTN_F32))
            return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s: type %s, expected %s", text,
                              attn_type_name(view[i]->type), m->f64 ? "f64" : "f32");
        TRY(attn__check_size(view[i], text, m->b, m->h, m->rows, i == 0 ? (int64_t)m->dv : 1, err));
    }
    return ATTN_OK;
}

static attn_status check_outputs(merge_job *m, attn_error *err)
{
    attn_merge_args *a = &m->args;

    if (!attn__present(&a->out) && !attn__present(&a->lse) && !a->partial)
        return attn__fail(err, ATTN_E_ARGUMENT, 0,
                          "out: absent, and neither lse nor partial is given");
    if (a->partial) {
        if (attn__present(&a->out) || attn__present(&a->lse) || attn__present(&a->sink))
            return attn__fail(err, ATTN_E_ARGUMENT, 0, "partial: excludes out, lse and sink");
        m->into = *a->partial;
        TRY(check_record(m, &m->into, "partial", true, err));
    }
    if (attn__present(&a->out)) {
        TRY(attn__check_view(&a->out, "out", true, err));
        if (!attn__is_float(a->out.type) || (a->out.type == ATTN_F64) != m->f64)
            return attn__fail(err, ATTN_E_ARGUMENT, 0, "out: type %s, expected %s",
                              attn_type_name(a->out.type), m->f64 ? "f64" : "f32, f16 or bf16");
        TRY(attn__check_size(&a->out, "out", m->b, m->h, m->rows, (int64_t)m->dv, err));
    }
    if (attn__present(&a->lse)) {
        TRY(attn__check_view(&a->lse, "lse", true, err));
        if (a->lse.type != ATTN_F32 && a->lse.type != ATTN_F64)
            return attn__fail(err, ATTN_E_ARGUMENT, 0, "lse: type %s, expected f32 or f64",
                              attn_type_name(a->lse.type));
        TRY(attn__check_size(&a->lse, "lse", m->b, m->h, m->rows, 1, err));
    }
    if (attn__present(&a->sink)) {
        TRY(attn__check_view(&a->sink, "sink", false, err));
        if (a->sink.type != (m->f64 ? ATTN_F64 : ATTN_F32))
            return attn__fail(err, ATTN_E_ARGUMENT, 0, "sink: type %s, expected %s",
                              attn_type_name(a->sink.type), m->f64 ? "f64" : "f32");
        TRY(attn__check_size(&a->sink, "sink", a->sink.size[0] == 1 ? 1 : m->b, m->h, 1, 1, err));
    }
    return ATTN_OK;
}

/* Outputs may be parts[0] where that is allowed, and nothing else's memory. */
static attn_status check_overlap(const merge_job *m, attn_error *err)
{
    const attn_merge_args *a = &m->args;
    const attn_view *output[] = {&m->into.out, &m->into.max, &m->into.sum, &a->out, &a->lse};
    static const char *const name[] = {"partial.out", "partial.max", "partial.sum", "out", "lse"};

    for (size_t i = 0; i < 5; i++) {
        if (attn__clash(output[i], &a->sink, false))
            return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s: overlaps sink", name[i]);
        for (size_t j = 0; j < i; j++)
            if (attn__clash(output[i], output[j], false))
                return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s: overlaps %s", name[i], name[j]);
        for (size_t part = 0; part < a->count; part++) {
            const attn_partial *r = &a->parts[part];
            const attn_view *input[] = {&r->out, &r->max, &r->sum};
            for (size_t j = 0; j < 3; j++)
                if (attn__clash(output[i], input[j], part == 0 && i == j))
                    return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s: overlaps parts[%zu]", name[i],
                                      part);
        }
    }
    return ATTN_OK;
}

#define REAL float
#define E(name) name##_f32
#define REAL_TYPE ATTN_F32
#define KERNELS(ctx) (&(ctx)->kernels->f32)
#include "src/core/merge_real.h"

#define REAL double
#define E(name) name##_f64
#define REAL_TYPE ATTN_F64
#define KERNELS(ctx) (&(ctx)->kernels->f64)
#include "src/core/merge_real.h"

static void work(void *arg, size_t worker)
{
    merge_job *m = arg;
    uint64_t word = attn__fp_default();
    int64_t pair;

    (void)worker;
    while ((pair = atomic_fetch_add(&m->next, 1)) < m->b * m->h)
        for (int64_t i = 0; i < m->rows; i++)
            (m->f64 ? merge_row_f64 : merge_row_f32)(m, pair / m->h, pair % m->h, i);
    attn__fp_restore(word);
}

static attn_status merge(const attn_ctx *ctx, const attn_merge_args *args, attn_error *err)
{
    merge_job m = {.ctx = ctx};
    const attn_view *first;
    size_t threads;

    if (!ctx)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "ctx: NULL");
    TRY(attn__copy_struct(&m.args, sizeof m.args, args, "args", err));
    if (m.args.count == 0 || !m.args.parts)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "parts: none, expected at least one record");
    first = &m.args.parts[0].out;
    m.f64 = first->type == ATTN_F64;
    m.b = first->size[0];
    m.h = first->size[1];
    m.rows = first->size[2];
    m.dv = first->size[3] > 0 ? (size_t)first->size[3] : 0;
    for (size_t i = 0; i < m.args.count; i++) {
        char name[32];
        snprintf(name, sizeof name, "parts[%zu]", i);
        TRY(check_record(&m, &m.args.parts[i], name, false, err));
    }
    if (m.dv == 0)
        return attn__fail(err, ATTN_E_SHAPE, 0, "parts[0].out: columns = 0, expected at least 1");
    TRY(check_outputs(&m, err));
    TRY(check_overlap(&m, err));
    if (m.b == 0 || m.h == 0 || m.rows == 0)
        return ATTN_OK;
    threads = (double)m.rows * (double)m.dv * (double)m.args.count * (double)m.b * (double)m.h < 1e5
                  ? 1
                  : (size_t)ctx->threads;
    atomic_init(&m.next, 0);
    attn__parallel(ctx, threads, work, &m);
    return ATTN_OK;
}

attn_status attn_merge(const attn_ctx *ctx, const attn_merge_args *args, attn_error *err)
{
    uint64_t word = attn__fp_default();
    attn_status st = merge(ctx, args, err);

    attn__fp_restore(word);
    return st;
}
