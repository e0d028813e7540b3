/* sample_call.c: see sample_call.h. */
#include "tests/sample_call.h"

call_memory call_mem;

/* --- Making a valid call -------------------------------------------------------------------- */

attn_view call_in(attn_type type, int64_t b, int64_t h, int64_t n, int64_t d)
{
    attn_view v = attn_view_bhsd(call_mem.in + call_mem.in_used, type, b, h, n, d);

    call_mem.in_used += (size_t)(b * h * n * d) * attn_type_size(type);
    call_mem.in_used = (call_mem.in_used + 127) & ~(size_t)63;
    CHECK(call_mem.in_used <= REGION);
    return v;
}

attn_view call_out(attn_type type, int64_t b, int64_t h, int64_t n, int64_t d)
{
    attn_view v = attn_view_bhsd(call_mem.out + call_mem.out_used, type, b, h, n, d);

    call_mem.out_used += (size_t)(b * h * n * d) * attn_type_size(type);
    call_mem.out_used = (call_mem.out_used + 127) & ~(size_t)63;
    CHECK(call_mem.out_used <= REGION);
    return v;
}

static void make_mask(call *c, unsigned with, attn_type type)
{
    static const int64_t q_starts[] = {0, 3, 3, NQ}, k_starts[] = {0, 30, NK, NK};
    static const int64_t start[] = {0, 2, 3}, index[] = {0, 1, 0};
    attn_mask *m = &c->m;
    int64_t b = with & PACKED ? NSEG : NB;
    int64_t q = with & PACKED ? 3 : NQ, k = with & PACKED ? 40 : NK;

    m->struct_size = sizeof *m;
    m->window = (with & WINDOW) != 0;
    m->window_left = m->window_right = 9;
    memcpy(c->q_starts, q_starts, sizeof q_starts);
    memcpy(c->k_starts, k_starts, sizeof k_starts);
    if (with & PACKED)
        m->segments = NSEG, m->q_starts = c->q_starts, m->k_starts = c->k_starts;
    if (with & OFFSETS)
        m->q_offsets = c->q_offsets, m->k_offsets = c->k_offsets;
    if (with & LENGTHS)
        m->k_start = c->k_start, m->k_count = c->k_count, m->q_count = c->q_count;
    if (with & KEEP)
        m->keep = call_in(ATTN_U8, b, NH, q, k);
    if (with & BIAS)
        m->bias = call_in(type, b, NH, q, k);
    if (with & ALIBI)
        m->alibi = call_in(type, b, NH, 1, 1);
    memcpy(c->block_start, start, sizeof start);
    memcpy(c->block_index, index, sizeof index);
    if (with & BLOCKS)
        m->blocks = (attn_block_list){.q_block = 64,
                                      .k_block = 64,
                                      .rows = 2,
                                      .k_blocks = 3,
                                      .start = c->block_start,
                                      .index = c->block_index,
                                      .index_count = 3};
}

attn_partial call_record(view_maker view, attn_type type, int64_t b)
{
    attn_partial p;

    p.out = view(type, b, NH, NQ, ND);
    p.sum = view(type, b, NH, NQ, 1);
    p.max = view(type, b, NH, NQ, 1);
    return p;
}

void call_make(call *c, unsigned with)
{
    attn_type type = with & ALL_F64 ? ATTN_F64 : ATTN_F32;
    int64_t b = with & PACKED ? 1 : NB;
    attn_forward_args *a = &c->a;

    memset(c, 0, sizeof *c);
    call_mem.in_used = call_mem.out_used = 64;
    a->struct_size = sizeof *a;
    a->q = call_in(type, b, NH, NQ, ND);
    a->k = call_in(type, b, NHK, NK, ND);
    a->v = call_in(type, b, NHK, NK, ND);
    a->out = call_out(type, b, NH, NQ, ND);
    a->mask = &c->m;
    for (int i = 0; i < SEQ; i++)
        c->k_count[i] = with & PACKED ? 0 : NK, c->q_count[i] = with & PACKED ? 0 : NQ;
    make_mask(c, with, type);
    a->has_scale = (with & SCALE) != 0;
    a->scale = 0.5;
    if (with & SINK)
        a->sink = call_in(type, with & PACKED ? NSEG : NB, NH, 1, 1);
    if (with & LSE)
        a->lse = call_out(type, b, NH, NQ, 1);
    if (with & WEIGHTS)
        a->weights = call_out(type, with & PACKED ? NSEG : NB, NH, with & PACKED ? 3 : NQ,
                              with & PACKED ? 40 : NK);
    if (with & PARTIAL)
        c->partial = call_record(call_out, type, b), a->partial = &c->partial;
    if (with & START)
        c->start = call_record(call_in, type, b), a->start = &c->start;
    if (with & PARTIAL)
        a->out = a->lse = a->weights = (attn_view){0};
}

void call_fill(void)
{
    float *f = (float *)(void *)call_mem.in;

    for (size_t i = 0; i < REGION / sizeof *f; i++)
        f[i] = (float)(i % 251) * 0.01f - 1.0f;
    memset(call_mem.out, 0xa5, REGION);
    memcpy(call_mem.was_in, call_mem.in, REGION);
    memcpy(call_mem.was_out, call_mem.out, REGION);
}

/* --- Changes -------------------------------------------------------------------------------- */

static void *place(const call *c, int64_t where, void *now)
{
    switch (where) {
    case ODD:
        return (char *)now + 1;
    case IN_Q:
        return c->a.q.data;
    case IN_Q_LATER:
        return (char *)c->a.q.data + 32;
    case IN_K:
        return c->a.k.data;
    case IN_V:
        return c->a.v.data;
    case IN_KEEP:
        return c->m.keep.data;
    case IN_BIAS:
        return c->m.bias.data;
    case IN_OUT:
        return c->a.out.data;
    case IN_LSE:
        return c->a.lse.data;
    case WORK_ODD:
        return call_mem.work + 32;
    default:
        return NULL;
    }
}

void call_apply(call *c, const change *x)
{
    char *at = (char *)c + x->at;
    int as_int = (int)x->i;
    size_t as_size = (size_t)x->i;
    void *p;

    if (x->kind == AS_I64)
        memcpy(at, &x->i, sizeof x->i);
    if (x->kind == AS_INT)
        memcpy(at, &as_int, sizeof as_int);
    if (x->kind == AS_SIZE)
        memcpy(at, &as_size, sizeof as_size);
    if (x->kind == AS_F64)
        memcpy(at, &x->f, sizeof x->f);
    if (x->kind == AS_PLACE) {
        memcpy(&p, at, sizeof p);
        p = place(c, x->i, p);
        memcpy(at, &p, sizeof p);
    }
}

/* strnlen of POSIX. */
static size_t strlen_within(const char *text, size_t n)
{
    const char *end = memchr(text, 0, n);

    return end ? (size_t)(end - text) : n;
}

/* Failed expectations are counted and printed, so that one run of a table shows all its wrong rows.
 */
static int wrong;

static void expect(int holds, const char *format, ...)
{
    char text[400];
    va_list args;

    if (holds)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    print_error("%s\n", text);
    wrong++;
}

/* The text is one plain line that says which argument. */
static void expect_error(const attn_error *err, attn_status st, const char *names, const char *what)
{
    size_t n = strlen_within(err->text, sizeof err->text);

    expect(err->status == st, "%s: err->status", what);
    expect(n > 0 && n < sizeof err->text, "%s: text terminated and not empty", what);
    expect(err->text[n - 1] != '.' && !strchr(err->text, '\n'), "%s: '%s'", what, err->text);
    expect(!names || strstr(err->text, names), "%s: '%s' does not name %s", what, err->text, names);
}

void call_check_error(const attn_error *err, attn_status st, const char *names, const char *what)
{
    wrong = 0;
    expect_error(err, st, names, what);
    CHECK(wrong == 0);
}

void call_give_workspace(const attn_ctx *ctx, call *c, const change *x)
{
    attn_plan plan = ATTN_PLAN_INIT;

    CHECK_MSG(attn_forward_plan(ctx, &c->a, &plan, NULL) == ATTN_OK, "%s: plan", x->name);
    CHECK(plan.workspace_size > 0 && plan.workspace_size <= sizeof call_mem.work);
    c->a.workspace = call_mem.work;
    c->a.workspace_size = plan.workspace_size;
}

static void try_change(const attn_ctx *ctx, const change *x)
{
    static call c;
    attn_error err, untouched;
    attn_plan plan = ATTN_PLAN_INIT, plan_was = ATTN_PLAN_INIT;
    attn_status st, planned;

    call_make(&c, x->with);
    call_fill();
    if (x->with & WORK)
        call_give_workspace(ctx, &c, x);
    call_apply(&c, x);
    memset(&err, 0x5a, sizeof err);
    memset(&untouched, 0x5a, sizeof untouched);
    planned = attn_forward_plan(ctx, &c.a, &plan, NULL);
    st = attn_forward(ctx, &c.a, &err);
    expect(1u << st & x->want, "%s: got %s", x->name, attn_status_text(st));
    expect(planned == st || st == ATTN_E_MEMORY || x->with & WORK, "%s: plan says %s, call %s",
           x->name, attn_status_text(planned), attn_status_text(st));
    expect(memcmp(call_mem.in, call_mem.was_in, REGION) == 0 || x->want == OK, "%s: input written",
           x->name);
    if (st == ATTN_OK) {
        expect(memcmp(&err, &untouched, sizeof err) == 0, "%s: err written", x->name);
        return;
    }
    expect(memcmp(call_mem.out, call_mem.was_out, REGION) == 0, "%s: output written", x->name);
    expect(planned == ATTN_OK || memcmp(&plan, &plan_was, sizeof plan) == 0,
           "%s: failed plan written", x->name);
    expect_error(&err, st, x->names, x->name);
    expect(attn_forward(ctx, &c.a, NULL) == st, "%s: without err", x->name);
}

void call_run_changes(const attn_ctx *ctx, const change *list, size_t n)
{
    wrong = 0;
    for (size_t i = 0; i < n; i++)
        try_change(ctx, &list[i]);
    CHECK_MSG(wrong == 0, "%d expectations failed", wrong);
}
