/* test_args_fuzz.c: legal edge values of every argument, structs of other sizes, and many random
 * changes at once: nothing crashes, plan and call agree, a refused call writes nothing. The same
 * tables' errors one by one are in test_args.c. */
#include "tests/sample_call.h"

#include <math.h>
#include <stdlib.h>

static attn_ctx *ctx;

/* --- What is legal -------------------------------------------------------------------------- */

static void legal_edges(void **state)
{
    static const change list[] = {
        {F64(a.scale, 0.0), SCALE, OK, NULL},
        {F64(a.scale, -2.0), SCALE, OK, NULL},
        {F64(a.scale, (double)NAN), 0, OK, NULL}, /* not given: has_scale is 0 */
        {F64(a.softcap, 1e-3), 0, OK, NULL},
        {F64(a.softcap, 1e30), 0, OK, NULL},
        {F64(a.dropout, 0.999), 0, OK, NULL},
        {I64(a.dropout_head, INT64_MIN), 0, OK, NULL},
        {I64(m.window_left, -1), WINDOW, OK, NULL},
        {I64(m.window_left, INT64_MAX), WINDOW, OK, NULL},
        {I64(m.window_right, INT64_MAX), WINDOW, OK, NULL},
        {I64(m.window_right, 0), WINDOW, OK, NULL},
        {I64(m.window_left, -99), 0, OK, NULL}, /* window is 0 */
        {I64(m.q_offset, -1000), 0, OK, NULL},
        {I64(m.q_offset, (int64_t)1 << 40), 0, OK, NULL},
        {I64(m.k_offset, (int64_t)1 << 40), 0, OK, NULL},
        {I64(q_offsets[1], -77), OFFSETS, OK, NULL},
        {I64(k_offsets[1], 77), OFFSETS, OK, NULL},
        {I64(k_count[0], 0), LENGTHS, OK, NULL},
        {I64(q_count[1], 0), LENGTHS, OK, NULL},
        {I64(m.keep.size[0], 1), KEEP, OK, NULL},
        {I64(m.keep.size[3], 1), KEEP, OK, NULL},
        {I64(m.keep.stride[2], 0), KEEP, OK, NULL},
        {I64(m.bias.size[1], 1), BIAS, OK, NULL},
        {I64(m.bias.stride[3], 0), BIAS, OK, NULL},
        {I64(m.alibi.size[0], 1), ALIBI, OK, NULL},
        {I64(m.blocks.rows, 0), BLOCKS, OK, NULL},
        {I64(block_start[0], 2), BLOCKS, OK, NULL},
        {I64(a.sink.size[0], 1), SINK, OK, NULL},
        {I64(a.weights.size[1], 2), WEIGHTS, OK, NULL},
        {I64(a.weights.size[1], 0), WEIGHTS, OK, NULL},
        {I64(a.q.stride[2], 0), 0, OK, NULL},
        {I64(a.k.stride[0], 0), 0, OK, NULL},
        {I64(q_starts[1], 0), PACKED, OK, NULL},
        {I64(k_starts[1], NK - 40), PACKED, OK, NULL},
        {PTR(a.out.data, IN_Q), 0, OK, NULL},
        {INT(a.weights.type, ATTN_F16), WEIGHTS, OK, NULL},
        {INT(m.causal, -5), 0, OK, NULL},
    };

    (void)state;
    RUN(list);
    for (unsigned with = 1; with < EVERY; with *= 2) {
        change nothing = {"nothing changed", AS_IS, 0, 0, 0, with, OK, NULL};

        call_run_changes(ctx, &nothing, 1);
    }
}

static void zero_sizes_succeed(void **state)
{
    int64_t nothing = 0;
    call c;

    (void)state;
    for (unsigned empty = 1; empty < 16; empty++) { /* bits: B, H, Tq, Tk */
        attn_forward_args *a = &c.a;

        call_make(&c, LSE | WEIGHTS);
        call_fill();
        if (empty & 1)
            a->q.size[0] = a->k.size[0] = a->v.size[0] = a->out.size[0] = a->lse.size[0] =
                a->weights.size[0] = 0;
        if (empty & 2)
            a->q.size[1] = a->k.size[1] = a->v.size[1] = a->out.size[1] = a->lse.size[1] =
                a->weights.size[1] = 0;
        if (empty & 4)
            a->q.size[2] = a->out.size[2] = a->lse.size[2] = a->weights.size[2] = 0;
        if (empty & 8)
            a->k.size[2] = a->v.size[2] = a->weights.size[3] = 0, a->k.data = a->v.data = NULL;
        if (empty & 7)
            a->q.data = a->out.data = a->lse.data = a->weights.data = NULL;
        attn_error err = {ATTN_OK, 0, ""};
        CHECK_MSG(attn_forward(ctx, a, &err) == ATTN_OK, "empty %x: %s", empty, err.text);
        if (empty & 7) {
            CHECK(memcmp(call_mem.out, call_mem.was_out, REGION) == 0);
            continue;
        }
        for (int64_t i = 0; i < NB * NH * NQ * ND; i++) /* no key: +0, and LSE -inf */
            CHECK(memcmp((float *)a->out.data + i, &nothing, sizeof(float)) == 0);
        for (int64_t i = 0; i < NB * NH * NQ; i++)
            CHECK(view_get(&a->lse, i / (NH * NQ), i / NQ % NH, i % NQ, 0) == -(double)INFINITY);
    }
}

static void every_mix_of_types(void **state)
{
    static const attn_type types[] = {ATTN_F32, ATTN_F16, ATTN_BF16, ATTN_F64, ATTN_U8, ATTN_I64};
    call c;

    (void)state;
    for (int n = 0; n < 6 * 6 * 6 * 6; n++) {
        attn_type t[4] = {types[n % 6], types[n / 6 % 6], types[n / 36 % 6], types[n / 216]};
        int wide = 0, floats = 1;

        for (int i = 0; i < 4; i++)
            wide += t[i] == ATTN_F64, floats &= t[i] <= ATTN_F64;
        call_make(&c, ALL_F64); /* rooms for the largest */
        call_fill();
        memset(call_mem.in, 0, REGION);
        c.a.q.type = t[0], c.a.k.type = t[1], c.a.v.type = t[2], c.a.out.type = t[3];
        attn_status want = floats && (wide == 0 || wide == 4) ? ATTN_OK : ATTN_E_ARGUMENT;
        CHECK_MSG(attn_forward(ctx, &c.a, NULL) == want, "q %s k %s v %s out %s",
                  attn_type_name(t[0]), attn_type_name(t[1]), attn_type_name(t[2]),
                  attn_type_name(t[3]));
    }
}

/* An old program's struct ends early; a newer one's is longer and zero in what we do not know. */
static void structs_of_other_sizes(void **state)
{
    attn_error err;
    call c;

    (void)state;
    call_make(&c, LSE);
    call_fill();
    c.a.struct_size = offsetof(attn_forward_args, softcap);
    memset((char *)&c.a + c.a.struct_size, 0xee, sizeof c.a - c.a.struct_size);
    c.m.struct_size = offsetof(attn_mask, segments);
    memset((char *)&c.m + c.m.struct_size, 0xee, sizeof c.m - c.m.struct_size);
    CHECK_MSG(attn_forward(ctx, &c.a, &err) == ATTN_OK, "older structs: %s", err.text);

    call_make(&c, LSE);
    call_fill();
    c.a.struct_size += sizeof c.tail;
    c.m.struct_size += sizeof c.mask_tail;
    CHECK(attn_forward(ctx, &c.a, &err) == ATTN_OK);
    c.tail[7] = 1;
    call_fill();
    CHECK(attn_forward(ctx, &c.a, &err) == ATTN_E_ARGUMENT);
    call_check_error(&err, ATTN_E_ARGUMENT, "args", "newer field in use");
    CHECK(memcmp(call_mem.out, call_mem.was_out, REGION) == 0);
    c.tail[7] = 0;
    c.mask_tail[0] = 1;
    CHECK(attn_forward(ctx, &c.a, &err) == ATTN_E_ARGUMENT);
    call_check_error(&err, ATTN_E_ARGUMENT, "mask", "newer field of the mask in use");
    c.m.struct_size = sizeof c.m;
    CHECK(attn_forward(ctx, &c.a, &err) == ATTN_OK);
}

/* --- Fuzz ----------------------------------------------------------------------------------- */

/* 1 if every element of the view lies in the region (or the view is absent or empty). Sizes and
 * strides that doubles cannot hold exactly count as outside. */
static int view_inside(const attn_view *v, const unsigned char *region)
{
    double low = 0, high = 0, size = (double)attn_type_size(v->type);
    double base = (double)((intptr_t)v->data - (intptr_t)region);

    if (!v->data)
        return 1;
    for (int d = 0; d < 4; d++) {
        double reach = ((double)v->size[d] - 1) * (double)v->stride[d];

        if (v->size[d] == 0)
            return 1;
        if (fabs((double)v->size[d]) > 1e12 || fabs((double)v->stride[d]) > 1e12)
            return 0;
        low += reach < 0 ? reach : 0;
        high += reach > 0 ? reach : 0;
    }
    return base + low * size >= 0 && base + (high + 1) * size <= REGION;
}

/* 1 if the library may really read and write all that the call names, in little time. */
static int call_inside(const call *c)
{
    const attn_forward_args *a = &c->a;
    const attn_view *in[] = {&a->q,      &a->k,       &a->v,         &a->sink,      &c->m.keep,
                             &c->m.bias, &c->m.alibi, &c->start.out, &c->start.sum, &c->start.max};
    const attn_view *out[] = {&a->out,         &a->lse,         &a->weights,
                              &c->partial.out, &c->partial.sum, &c->partial.max};
    double work = 1;

    for (int d = 0; d < 3; d++)
        work *= (double)a->q.size[d] > 1 ? (double)a->q.size[d] : 1;
    if (work * (double)(a->k.size[2] + 1) > 1e5)
        return 0;
    for (size_t i = 0; i < sizeof in / sizeof *in; i++)
        if (!view_inside(in[i], call_mem.in) && !view_inside(in[i], call_mem.out))
            return 0;
    for (size_t i = 0; i < sizeof out / sizeof *out; i++)
        if (!view_inside(out[i], call_mem.out) && !view_inside(out[i], call_mem.in))
            return 0;
    return 1;
}

/* The library reads as many entries of the index arrays as sequences and rows say; those are ours
 * to keep inside the arrays, as a caller must. */
static void keep_arrays_inside(call *c)
{
    attn_mask *m = &c->m;
    attn_block_list *l = &m->blocks;
    int64_t b = m->segments > 0 ? m->segments : c->a.q.size[0];

    if (b > SEQ - 1) {
        m->q_offsets = m->k_offsets = m->k_start = m->k_count = m->q_count = NULL;
        m->q_starts = m->k_starts = NULL;
    }
    if (l->index_count > SEQ)
        l->index_count = SEQ;
    if (l->rows > 3 || l->batch_stride || l->head_stride)
        l->start = NULL;
}

static const change fields[] = {
    {I64(a.q.size[0], 0), 0, 0, 0},
    {I64(a.q.size[1], 0), 0, 0, 0},
    {I64(a.q.size[2], 0), 0, 0, 0},
    {I64(a.q.size[3], 0), 0, 0, 0},
    {I64(a.k.size[0], 0), 0, 0, 0},
    {I64(a.k.size[1], 0), 0, 0, 0},
    {I64(a.k.size[2], 0), 0, 0, 0},
    {I64(a.k.size[3], 0), 0, 0, 0},
    {I64(a.v.size[1], 0), 0, 0, 0},
    {I64(a.v.size[2], 0), 0, 0, 0},
    {I64(a.v.size[3], 0), 0, 0, 0},
    {I64(a.out.size[0], 0), 0, 0, 0},
    {I64(a.out.size[2], 0), 0, 0, 0},
    {I64(a.out.size[3], 0), 0, 0, 0},
    {I64(a.q.stride[0], 0), 0, 0, 0},
    {I64(a.q.stride[2], 0), 0, 0, 0},
    {I64(a.q.stride[3], 0), 0, 0, 0},
    {I64(a.k.stride[1], 0), 0, 0, 0},
    {I64(a.k.stride[2], 0), 0, 0, 0},
    {I64(a.v.stride[2], 0), 0, 0, 0},
    {I64(a.v.stride[3], 0), 0, 0, 0},
    {I64(a.out.stride[0], 0), 0, 0, 0},
    {I64(a.out.stride[1], 0), 0, 0, 0},
    {I64(a.out.stride[2], 0), 0, 0, 0},
    {I64(a.out.stride[3], 0), 0, 0, 0},
    {I64(a.lse.size[2], 0), 0, 0, 0},
    {I64(a.lse.stride[2], 0), 0, 0, 0},
    {I64(a.weights.size[1], 0), 0, 0, 0},
    {I64(a.weights.size[3], 0), 0, 0, 0},
    {I64(a.weights.stride[2], 0), 0, 0, 0},
    {I64(a.weights_head, 0), 0, 0, 0},
    {I64(a.sink.size[0], 0), 0, 0, 0},
    {I64(a.sink.stride[1], 0), 0, 0, 0},
    {I64(m.segments, 0), 0, 0, 0},
    {I64(m.window_left, 0), 0, 0, 0},
    {I64(m.window_right, 0), 0, 0, 0},
    {I64(m.q_offset, 0), 0, 0, 0},
    {I64(m.k_offset, 0), 0, 0, 0},
    {I64(m.keep.size[0], 0), 0, 0, 0},
    {I64(m.keep.size[3], 0), 0, 0, 0},
    {I64(m.keep.stride[3], 0), 0, 0, 0},
    {I64(m.bias.size[2], 0), 0, 0, 0},
    {I64(m.bias.stride[1], 0), 0, 0, 0},
    {I64(m.alibi.size[1], 0), 0, 0, 0},
    {I64(m.blocks.q_block, 0), 0, 0, 0},
    {I64(m.blocks.k_block, 0), 0, 0, 0},
    {I64(m.blocks.rows, 0), 0, 0, 0},
    {I64(m.blocks.k_blocks, 0), 0, 0, 0},
    {I64(m.blocks.index_count, 0), 0, 0, 0},
    {I64(block_start[0], 0), 0, 0, 0},
    {I64(block_start[1], 0), 0, 0, 0},
    {I64(block_index[1], 0), 0, 0, 0},
    {I64(q_offsets[0], 0), 0, 0, 0},
    {I64(k_offsets[1], 0), 0, 0, 0},
    {I64(k_start[0], 0), 0, 0, 0},
    {I64(k_count[0], 0), 0, 0, 0},
    {I64(q_count[1], 0), 0, 0, 0},
    {I64(q_starts[1], 0), 0, 0, 0},
    {I64(q_starts[3], 0), 0, 0, 0},
    {I64(k_starts[0], 0), 0, 0, 0},
    {I64(k_starts[2], 0), 0, 0, 0},
    {I64(start.out.size[2], 0), 0, 0, 0},
    {I64(start.sum.stride[1], 0), 0, 0, 0},
    {I64(partial.out.size[1], 0), 0, 0, 0},
    {I64(partial.max.stride[2], 0), 0, 0, 0},
    {INT(a.q.type, 0), 0, 0, 0},
    {INT(a.k.type, 0), 0, 0, 0},
    {INT(a.v.type, 0), 0, 0, 0},
    {INT(a.out.type, 0), 0, 0, 0},
    {INT(a.lse.type, 0), 0, 0, 0},
    {INT(a.weights.type, 0), 0, 0, 0},
    {INT(m.keep.type, 0), 0, 0, 0},
    {INT(m.bias.type, 0), 0, 0, 0},
    {INT(m.causal, 0), 0, 0, 0},
    {INT(m.window, 0), 0, 0, 0},
    {INT(a.has_scale, 0), 0, 0, 0},
    {F64(a.scale, 0), 0, 0, 0},
    {F64(a.softcap, 0), 0, 0, 0},
    {F64(a.dropout, 0), 0, 0, 0},
    {PTR(a.q.data, 0), 0, 0, 0},
    {PTR(a.k.data, 0), 0, 0, 0},
    {PTR(a.v.data, 0), 0, 0, 0},
    {PTR(a.out.data, 0), 0, 0, 0},
    {PTR(a.lse.data, 0), 0, 0, 0},
    {PTR(a.weights.data, 0), 0, 0, 0},
    {PTR(a.sink.data, 0), 0, 0, 0},
    {PTR(m.keep.data, 0), 0, 0, 0},
    {PTR(m.bias.data, 0), 0, 0, 0},
};

static int64_t hostile_int(rng *r)
{
    static const int64_t list[] = {0,
                                   1,
                                   2,
                                   3,
                                   4,
                                   5,
                                   7,
                                   8,
                                   9,
                                   30,
                                   40,
                                   64,
                                   69,
                                   70,
                                   71,
                                   -1,
                                   -2,
                                   -8,
                                   128,
                                   560,
                                   -70,
                                   INT64_MAX,
                                   INT64_MIN,
                                   INT64_MAX - 69,
                                   (int64_t)1 << 31,
                                   (int64_t)1 << 32,
                                   (int64_t)1 << 62,
                                   -((int64_t)1 << 61)};

    return list[rng_int(r, 0, (int64_t)(sizeof list / sizeof *list) - 1)];
}

static void mutate(call *c, rng *r)
{
    static const double list[] = {
        0, 1, -1, 0.5, 1e-300, 1e300, (double)NAN, (double)INFINITY, -(double)INFINITY};
    change x = fields[rng_int(r, 0, (int64_t)(sizeof fields / sizeof *fields) - 1)];

    x.i = hostile_int(r);
    if (x.kind == AS_INT)
        x.i = rng_int(r, -1, 13);
    if (x.kind == AS_PLACE)
        x.i = rng_int(r, NOWHERE, IN_LSE);
    x.f = list[rng_int(r, 0, (int64_t)(sizeof list / sizeof *list) - 1)];
    call_apply(c, &x);
}

static long fuzz_count = 100000;

static void fuzzed_arguments(void **state)
{
    static call c;
    long ran = 0, refused = 0;

    (void)state;
    for (long n = 0; n < fuzz_count; n++) {
        rng r = rng_make(test_seed(), (uint64_t)n);
        attn_plan plan = ATTN_PLAN_INIT;
        attn_error err = {ATTN_OK, 0, ""};

        call_make(&c, (unsigned)rng_int(&r, 0, WORK - 1));
        call_fill();
        for (int64_t i = rng_int(&r, 0, 4); i > 0; i--)
            mutate(&c, &r);
        keep_arrays_inside(&c);
        attn_status planned = attn_forward_plan(ctx, &c.a, &plan, &err);
        CHECK_MSG(planned == ATTN_OK || err.text[0], "case %ld: no text", n);
        if (planned == ATTN_OK && !call_inside(&c))
            continue;
        attn_status st = attn_forward(ctx, &c.a, &err);
        CHECK_MSG(st == planned, "case %ld (seed %llu): plan says %s, call says %s: %s", n,
                  (unsigned long long)test_seed(), attn_status_text(planned), attn_status_text(st),
                  err.text);
        CHECK_MSG(st == ATTN_OK || memcmp(call_mem.out, call_mem.was_out, REGION) == 0,
                  "case %ld: output written", n);
        ran += st == ATTN_OK;
        refused += st != ATTN_OK;
    }
    print_message("fuzz: %ld ran, %ld refused\n", ran, refused);
    CHECK(ran > fuzz_count / 20 && refused > fuzz_count / 20);
}

int main(int argc, char **argv)
{
    static const test_case tests[] = {
        {"legal_edges", legal_edges, 0},
        {"zero_sizes_succeed", zero_sizes_succeed, 0},
        {"every_mix_of_types", every_mix_of_types, 0},
        {"structs_of_other_sizes", structs_of_other_sizes, 0},
        {"fuzzed_arguments", fuzzed_arguments, 0},
    };
    attn_ctx_options o = ATTN_CTX_OPTIONS_INIT;
    int failed;

    if (argc > 1 && strcmp(argv[1], "--full") == 0)
        argc--, argv++, fuzz_count *= 20;
    o.threads = 2;
    if (attn_ctx_create(&o, &ctx, NULL) != ATTN_OK)
        return 1;
    failed = test_main(argc, argv, tests, sizeof tests / sizeof *tests);
    attn_ctx_destroy(ctx);
    return failed;
}
