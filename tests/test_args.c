/* test_args.c: what attn.h calls an error is one, says which argument, and writes nothing.
 *
 * Every row of the tables below is one change of one field of a call that is otherwise valid;
 * `with` names the options that must be present for the field to matter. The plan must fail exactly
 * when the call does. What is legal, and the fuzz, are in test_args_fuzz.c; errors of the cache's
 * own functions in test_cache.c.
 */
#include "tests/sample_call.h"

#include <math.h>
#include <stdlib.h>

static attn_ctx *ctx;

/* --- Errors of attn_forward ----------------------------------------------------------------- */

static void views_of_wrong_type_or_place(void **state)
{
    static const change list[] = {
        {INT(a.q.type, 99), 0, ARG, "q"},
        {INT(a.q.type, -1), 0, ARG, "q"},
        {INT(a.q.type, ATTN_U8), 0, ARG, "q"},
        {INT(a.k.type, ATTN_I32), 0, ARG, "k"},
        {INT(a.k.type, ATTN_BOOL), 0, ARG, "k"},
        {INT(a.v.type, 99), 0, ARG, "v"},
        {INT(a.out.type, ATTN_I32), 0, ARG, "out"},
        {INT(a.out.type, 1000000), 0, ARG, "out"},
        {INT(a.lse.type, ATTN_F16), LSE, ARG, "lse"},
        {INT(a.lse.type, ATTN_U8), LSE, ARG, "lse"},
        {INT(a.weights.type, ATTN_U8), WEIGHTS, ARG, "weights"},
        {INT(a.sink.type, ATTN_F16), SINK, ARG, "sink"},
        {INT(a.sink.type, ATTN_F64), SINK, ARG, "sink"},
        {INT(m.keep.type, ATTN_F32), KEEP, ARG, "keep"},
        {INT(m.bias.type, ATTN_U8), BIAS, ARG, "bias"},
        {INT(m.bias.type, ATTN_F64), BIAS, ARG, "bias"},
        {INT(m.alibi.type, ATTN_U8), ALIBI, ARG, "alibi"},
        {INT(partial.out.type, ATTN_F16), PARTIAL, ARG, "partial"},
        {INT(partial.sum.type, ATTN_F64), PARTIAL, ARG, "partial"},
        {INT(partial.max.type, ATTN_BF16), PARTIAL, ARG, "partial"},
        {INT(start.out.type, ATTN_F64), START, ARG, "start"},
        {INT(start.sum.type, ATTN_U8), START, ARG, "start"},
        {PTR(a.q.data, NOWHERE), 0, BAD, "q"},
        {PTR(a.k.data, NOWHERE), 0, BAD, "k"},
        {PTR(a.v.data, NOWHERE), 0, BAD, "v"},
        {PTR(a.out.data, NOWHERE), 0, ARG, "out"},
        {PTR(partial.out.data, NOWHERE), PARTIAL, ARG, "partial"},
        {PTR(partial.sum.data, NOWHERE), PARTIAL, ARG, "partial"},
        {PTR(partial.max.data, NOWHERE), PARTIAL, ARG, "partial"},
        {PTR(start.out.data, NOWHERE), START, ARG, "start"},
        {PTR(start.max.data, NOWHERE), START, ARG, "start"},
        {PTR(a.q.data, ODD), 0, ARG, "q"},
        {PTR(a.k.data, ODD), 0, ARG, "k"},
        {PTR(a.v.data, ODD), 0, ARG, "v"},
        {PTR(a.out.data, ODD), 0, ARG, "out"},
        {PTR(a.lse.data, ODD), LSE, ARG, "lse"},
        {PTR(a.weights.data, ODD), WEIGHTS, ARG, "weights"},
        {PTR(a.sink.data, ODD), SINK, ARG, "sink"},
        {PTR(m.bias.data, ODD), BIAS, ARG, "bias"},
        {PTR(m.alibi.data, ODD), ALIBI, ARG, "alibi"},
        {PTR(partial.sum.data, ODD), PARTIAL, ARG, "partial"},
        {PTR(start.out.data, ODD), START, ARG, "start"},
    };

    (void)state;
    RUN(list);
}

static void sizes_that_do_not_fit(void **state)
{
    static const change list[] = {
        {I64(a.q.size[0], -1), 0, BAD, "q"},
        {I64(a.q.size[1], -4), 0, BAD, "q"},
        {I64(a.q.size[2], -1), 0, BAD, "q"},
        {I64(a.q.size[3], -8), 0, BAD, "q"},
        {I64(a.q.size[3], 0), 0, BAD, ""},
        {I64(a.v.size[3], 0), 0, BAD, ""},
        {I64(a.q.size[0], 1), 0, SHAPE, ""},
        {I64(a.q.size[0], 3), 0, SHAPE, ""},
        {I64(a.q.size[1], 3), 0, SHAPE, ""},
        {I64(a.q.size[1], 6), 0, SHAPE, ""},
        {I64(a.q.size[2], 6), 0, SHAPE, "out"},
        {I64(a.q.size[3], 7), 0, SHAPE, ""},
        {I64(a.k.size[0], 1), 0, SHAPE, "k"},
        {I64(a.k.size[1], 3), 0, SHAPE, ""},
        {I64(a.k.size[1], 0), 0, SHAPE, ""},
        {I64(a.k.size[2], 69), 0, SHAPE, ""},
        {I64(a.k.size[3], 9), 0, SHAPE, "k"},
        {I64(a.k.size[2], -70), 0, BAD, "k"},
        {I64(a.v.size[0], 3), 0, SHAPE, "v"},
        {I64(a.v.size[1], 1), 0, SHAPE, "v"},
        {I64(a.v.size[2], 71), 0, SHAPE, "v"},
        {I64(a.v.size[3], 7), 0, SHAPE, ""},
        {I64(a.out.size[0], 1), 0, SHAPE, "out"},
        {I64(a.out.size[1], 2), 0, SHAPE, "out"},
        {I64(a.out.size[2], 4), 0, SHAPE, "out"},
        {I64(a.out.size[3], 7), 0, SHAPE, "out"},
        {I64(a.lse.size[0], 1), LSE, SHAPE, "lse"},
        {I64(a.lse.size[1], 2), LSE, SHAPE, "lse"},
        {I64(a.lse.size[2], 4), LSE, SHAPE, "lse"},
        {I64(a.lse.size[3], 2), LSE, BAD, "lse"},
        {I64(a.weights.size[0], 1), WEIGHTS, SHAPE, "weights"},
        {I64(a.weights.size[1], 5), WEIGHTS, BAD, "weights"},
        {I64(a.weights.size[2], 4), WEIGHTS, SHAPE, "weights"},
        {I64(a.weights.size[3], 69), WEIGHTS, SHAPE, "weights"},
        {I64(a.weights_head, 1), WEIGHTS, BAD, "weights"},
        {I64(a.weights_head, -1), WEIGHTS, BAD, "weights"},
        {I64(a.weights_head, INT64_MAX), WEIGHTS, BAD, "weights"},
        {I64(a.sink.size[0], 3), SINK, SHAPE, "sink"},
        {I64(a.sink.size[1], 3), SINK, SHAPE, "sink"},
        {I64(a.sink.size[2], 5), SINK, SHAPE, "sink"},
        {I64(a.sink.size[3], 2), SINK, SHAPE, "sink"},
        {I64(m.keep.size[0], 3), KEEP, SHAPE, "keep"},
        {I64(m.keep.size[1], 2), KEEP, SHAPE, "keep"},
        {I64(m.keep.size[2], 4), KEEP, SHAPE, "keep"},
        {I64(m.keep.size[3], 69), KEEP, SHAPE, "keep"},
        {I64(m.keep.size[3], -1), KEEP, BAD, "keep"},
        {I64(m.bias.size[0], 3), BIAS, SHAPE, "bias"},
        {I64(m.bias.size[1], 2), BIAS, SHAPE, "bias"},
        {I64(m.bias.size[2], 4), BIAS, SHAPE, "bias"},
        {I64(m.bias.size[3], 71), BIAS, SHAPE, "bias"},
        {I64(m.alibi.size[0], 3), ALIBI, SHAPE, "alibi"},
        {I64(m.alibi.size[1], 2), ALIBI, SHAPE, "alibi"},
        {I64(m.alibi.size[2], 5), ALIBI, SHAPE, "alibi"},
        {I64(m.alibi.size[3], 70), ALIBI, SHAPE, "alibi"},
        {I64(m.keep.size[2], 2), KEEP | PACKED, SHAPE, "keep"},
        {I64(m.bias.size[3], 39), BIAS | PACKED, SHAPE, "bias"},
        {I64(m.bias.size[0], 2), BIAS | PACKED, SHAPE, "bias"},
        {I64(a.weights.size[0], 1), WEIGHTS | PACKED, SHAPE, "weights"},
        {I64(a.weights.size[2], 5), WEIGHTS | PACKED, BAD, "weights"},
        {I64(partial.out.size[3], 7), PARTIAL, SHAPE, "partial"},
        {I64(partial.sum.size[2], 4), PARTIAL, SHAPE, "partial"},
        {I64(partial.max.size[3], 2), PARTIAL, BAD, "partial"},
        {I64(start.out.size[0], 1), START, SHAPE, "start"},
        {I64(start.sum.size[1], 2), START, SHAPE, "start"},
        {I64(start.max.size[2], 6), START, SHAPE, "start"},
    };

    (void)state;
    RUN(list);
}

static void options_out_of_range(void **state)
{
    static const change list[] = {
        {F64(a.scale, (double)NAN), SCALE, ARG, "scale"},
        {F64(a.scale, (double)INFINITY), SCALE, ARG, "scale"},
        {F64(a.scale, -(double)INFINITY), SCALE, ARG, "scale"},
        {F64(a.softcap, -1.0), 0, ARG, "softcap"},
        {F64(a.softcap, (double)NAN), 0, ARG, "softcap"},
        {F64(a.softcap, (double)INFINITY), 0, ARG, "softcap"},
        {F64(a.dropout, -0.25), 0, ARG, "dropout"},
        {F64(a.dropout, 1.0), 0, ARG, "dropout"},
        {F64(a.dropout, 1.5), 0, ARG, "dropout"},
        {F64(a.dropout, (double)NAN), 0, ARG, "dropout"},
        {F64(a.dropout, -(double)INFINITY), 0, ARG, "dropout"},
        {I64(m.window_left, -2), WINDOW, ARG, "window"},
        {I64(m.window_right, -2), WINDOW, ARG, "window"},
        {I64(m.window_left, INT64_MIN), WINDOW, ARG, "window"},
        {I64(m.k_offset, -1), 0, ARG, "k_offset"},
        {I64(m.k_offset, INT64_MIN), 0, ARG, "k_offset"},
        {I64(m.k_offset, INT64_MAX), 0, ARG, "k_offset"},
        {I64(m.k_offset, INT64_MAX - NK + 2), 0, ARG, "k_offset"},
        {I64(m.q_offset, INT64_MAX), 0, ARG, "q_offset"},
        {I64(m.k_offset, INT64_MAX), OFFSETS, ARG, "k_offset"},
        {I64(k_offsets[1], -1), OFFSETS, ARG, "k_offset"},
        {I64(k_offsets[0], INT64_MAX), OFFSETS, ARG, "k_offset"},
        {I64(q_offsets[1], INT64_MAX), OFFSETS, ARG, "q_offset"},
        {I64(k_start[1], -1), LENGTHS, BAD, "k_start"},
        {I64(k_start[0], NK + 1), LENGTHS, BAD, "k_"},
        {I64(k_start[0], 1), LENGTHS, BAD, "k_"},
        {I64(k_start[0], INT64_MAX), LENGTHS, BAD, "k_"},
        {I64(k_count[0], -1), LENGTHS, BAD, "k_count"},
        {I64(k_count[1], NK + 1), LENGTHS, BAD, "k_"},
        {I64(k_count[1], INT64_MAX), LENGTHS, BAD, "k_"},
        {I64(q_count[0], -1), LENGTHS, BAD, "q_count"},
        {I64(q_count[1], NQ + 1), LENGTHS, BAD, "q_count"},
        {SIZE(a.struct_size, 0), 0, ARG, "struct_size"},
        {SIZE(m.struct_size, 0), 0, ARG, "struct_size"},
    };

    (void)state;
    RUN(list);
}

static void packed_batches_with_bad_sums(void **state)
{
    static const change list[] = {
        {I64(m.segments, -1), 0, BAD, "segments"},
        {I64(a.q.size[0], 2), PACKED, SHAPE, ""},
        {I64(a.k.size[0], 0), PACKED, SHAPE, ""},
        {PTR(m.q_starts, NOWHERE), PACKED, ARG, "q_starts"},
        {PTR(m.k_starts, NOWHERE), PACKED, ARG, "k_starts"},
        {I64(q_starts[0], 1), PACKED, BAD, "q_starts"},
        {I64(q_starts[0], -1), PACKED, BAD, "q_starts"},
        {I64(q_starts[1], 4), PACKED, BAD, "q_starts"},
        {I64(q_starts[3], NQ - 1), PACKED, BAD, "q_starts"},
        {I64(q_starts[3], NQ + 1), PACKED, BAD, "q_starts"},
        {I64(k_starts[0], 1), PACKED, BAD, "k_starts"},
        {I64(k_starts[1], -5), PACKED, BAD, "k_starts"},
        {I64(k_starts[1], INT64_MAX), PACKED, BAD, "k_starts"},
        {I64(k_starts[2], 29), PACKED, BAD, "k_starts"},
        {I64(k_starts[3], NK + 1), PACKED, BAD, "k_starts"},
        {I64(k_starts[3], INT64_MIN), PACKED, BAD, "k_starts"},
    };

    (void)state;
    RUN(list);
}

static void bad_block_lists(void **state)
{
    static const change list[] = {
        {I64(m.blocks.q_block, 0), BLOCKS, ARG, "block"},
        {I64(m.blocks.q_block, 63), BLOCKS, ARG, "block"},
        {I64(m.blocks.q_block, -64), BLOCKS, ARG, "block"},
        {I64(m.blocks.k_block, 0), BLOCKS, ARG, "block"},
        {I64(m.blocks.k_block, 96), BLOCKS, ARG, "block"},
        {I64(m.blocks.k_block, INT64_MIN), BLOCKS, ARG, "block"},
        {I64(m.blocks.rows, -1), BLOCKS, BAD, "block"},
        {I64(m.blocks.k_blocks, -1), BLOCKS, BAD, "block"},
        {I64(m.blocks.k_blocks, 1), BLOCKS, BAD, "block"},
        {I64(m.blocks.index_count, 2), BLOCKS, BAD, "block"},
        {I64(m.blocks.index_count, -1), BLOCKS, BAD, "block"},
        {PTR(m.blocks.index, NOWHERE), BLOCKS, ARG, "block"},
        {I64(block_start[0], -1), BLOCKS, BAD, "block"},
        {I64(block_start[0], 3), BLOCKS, BAD, "block"},
        {I64(block_start[1], INT64_MAX), BLOCKS, BAD, "block"},
        {I64(block_start[2], 4), BLOCKS, BAD, "block"},
        {I64(block_start[2], 1), BLOCKS, BAD, "block"},
        {I64(block_index[0], 1), BLOCKS, BAD, "block"},  /* 1, 1: repeated */
        {I64(block_index[0], 2), BLOCKS, BAD, "block"},  /* 2, 1: descending */
        {I64(block_index[0], -1), BLOCKS, BAD, "block"}, /* below */
        {I64(block_index[1], 3), BLOCKS, BAD, "block"},  /* above */
        {I64(block_index[2], 3), BLOCKS, BAD, "block"},  /* in a row no query uses */
        {I64(block_index[1], INT64_MAX), BLOCKS, BAD, "block"},
    };

    (void)state;
    RUN(list);
}

static void overlapping_outputs(void **state)
{
    static const change list[] = {
        {I64(a.out.stride[0], 0), 0, BAD, "out"},
        {I64(a.out.stride[1], 0), 0, BAD, "out"},
        {I64(a.out.stride[2], 0), 0, BAD, "out"},
        {I64(a.out.stride[3], 0), 0, BAD, "out"},
        {I64(a.out.stride[2], ND - 1), 0, BAD, "out"},
        {I64(a.out.stride[2], -ND + 1), 0, BAD, "out"},
        {I64(a.lse.stride[2], 0), LSE, BAD, "lse"},
        {I64(a.lse.stride[0], 1), LSE, BAD, "lse"},
        {I64(a.weights.stride[3], 0), WEIGHTS, BAD, "weights"},
        {I64(a.weights.stride[1], 5), WEIGHTS, BAD, "weights"},
        {I64(partial.out.stride[2], 0), PARTIAL, BAD, "partial"},
        {I64(partial.sum.stride[1], 0), PARTIAL, BAD, "partial"},
        {PTR(a.out.data, IN_Q_LATER), 0, ARG, "out"},
        {PTR(a.out.data, IN_K), 0, ARG, "out"},
        {PTR(a.out.data, IN_V), 0, ARG, "out"},
        {PTR(a.out.data, IN_BIAS), BIAS, ARG, "out"},
        {PTR(a.out.data, IN_KEEP), KEEP, ARG, "out"},
        {PTR(a.lse.data, IN_OUT), LSE, ARG, "lse"},
        {PTR(a.lse.data, IN_Q), LSE, ARG, "lse"},
        {PTR(a.lse.data, IN_V), LSE, ARG, "lse"},
        {PTR(a.weights.data, IN_OUT), WEIGHTS, ARG, "weights"},
        {PTR(a.weights.data, IN_LSE), WEIGHTS | LSE, ARG, "weights"},
        {PTR(a.weights.data, IN_K), WEIGHTS, ARG, "weights"},
        {PTR(partial.out.data, IN_Q), PARTIAL, ARG, "partial"},
        {PTR(partial.max.data, IN_K), PARTIAL, ARG, "partial"},
    };

    (void)state;
    RUN(list);
}

static void workspaces_too_small_or_askew(void **state)
{
    static const change askew = {PTR(a.workspace, WORK_ODD), WORK, ARG, "workspace"};
    call c;
    attn_error err;

    (void)state;
    call_run_changes(ctx, &askew, 1);
    call_make(&c, LSE | WEIGHTS | BIAS);
    call_fill();
    call_give_workspace(ctx, &c, &askew);
    CHECK(attn_forward(ctx, &c.a, NULL) == ATTN_OK);
    call_fill();
    c.a.workspace_size--;
    CHECK(attn_forward(ctx, &c.a, &err) == ATTN_E_ARGUMENT);
    call_check_error(&err, ATTN_E_ARGUMENT, "workspace", "one byte short");
    CHECK(memcmp(call_mem.out, call_mem.was_out, REGION) == 0);
    c.a.workspace_size = 0;
    CHECK(attn_forward(ctx, &c.a, &err) == ATTN_E_ARGUMENT);
}

static void no_output_or_no_struct(void **state)
{
    attn_plan plan = ATTN_PLAN_INIT;
    attn_error err;
    call c;

    (void)state;
    call_make(&c, LSE);
    call_fill();
    c.a.out = c.a.lse = (attn_view){0};
    CHECK(attn_forward(ctx, &c.a, &err) == ATTN_E_ARGUMENT);
    call_check_error(&err, ATTN_E_ARGUMENT, "out", "nothing to write");
    CHECK(attn_forward(ctx, NULL, &err) == ATTN_E_ARGUMENT);
    call_check_error(&err, ATTN_E_ARGUMENT, NULL, "args NULL");
    CHECK(attn_forward(NULL, &c.a, &err) == ATTN_E_ARGUMENT);
    call_check_error(&err, ATTN_E_ARGUMENT, NULL, "ctx NULL");
    call_make(&c, 0);
    CHECK(attn_forward_plan(ctx, &c.a, NULL, &err) == ATTN_E_ARGUMENT);
    plan.struct_size = 0;
    CHECK(attn_forward_plan(ctx, &c.a, &plan, &err) == ATTN_E_ARGUMENT);
    CHECK(attn_forward_plan(ctx, NULL, &plan, &err) == ATTN_E_ARGUMENT);
}

static void sizes_whose_products_wrap(void **state)
{
    static const int64_t big[] = {INT64_MAX, INT64_MAX / 2, (int64_t)1 << 62,
                                  ((int64_t)1 << 61) + 1, (int64_t)1 << 60};
    attn_plan plan = ATTN_PLAN_INIT;
    attn_error err;
    call c;

    (void)state;
    for (size_t i = 0; i < sizeof big / sizeof *big; i++)
        for (int dim = 0; dim < 4; dim++) {
            call_make(&c, LSE);
            call_fill();
            c.a.q.size[dim] = c.a.out.size[dim] = c.a.lse.size[dim] = big[i];
            c.a.k.size[dim] = c.a.v.size[dim] = big[i];
            c.a.lse.size[3] = 1;
            for (int s = 0; s < 4; s++)
                c.a.q.stride[s] = c.a.k.stride[s] = c.a.v.stride[s] = 0;
            c.a.out.stride[3] = 1; /* contiguous, as a careless caller computes it */
            c.a.lse.stride[3] = 1;
            for (int s = 2; s >= 0; s--) {
                c.a.out.stride[s] =
                    (int64_t)((uint64_t)c.a.out.stride[s + 1] * (uint64_t)c.a.out.size[s + 1]);
                c.a.lse.stride[s] = c.a.out.stride[s];
            }
            attn_status st = attn_forward_plan(ctx, &c.a, &plan, &err);
            CHECK_MSG(1u << st & (BAD | MEM), "size[%d] = %lld: %s", dim, (long long)big[i],
                      attn_status_text(st));
            CHECK(1u << attn_forward(ctx, &c.a, &err) & (BAD | MEM));
            CHECK(memcmp(call_mem.out, call_mem.was_out, REGION) == 0);
        }
    call_make(&c, 0);
    c.a.k.size[2] = c.a.v.size[2] = (int64_t)1 << 46; /* legal, but for the memory it needs */
    c.a.k.stride[2] = c.a.v.stride[2] = 0;
    CHECK(1u << attn_forward(ctx, &c.a, &err) & (BAD | MEM));
    call_make(&c, 0);
    c.a.out.stride[0] = INT64_MAX; /* byte offsets past 2^63 */
    CHECK(1u << attn_forward(ctx, &c.a, &err) & BAD);
    call_make(&c, 0);
    c.a.k.stride[2] = INT64_MIN;
    CHECK(1u << attn_forward(ctx, &c.a, &err) & BAD);
}

/* --- Other calls ---------------------------------------------------------------------------- */

typedef struct merge_call {
    attn_merge_args a;
    attn_partial parts[3];
    attn_partial to;
    int64_t unused;
} merge_call;

static void merge_make(merge_call *m)
{
    memset(m, 0, sizeof *m);
    call_mem.in_used = call_mem.out_used = 64;
    m->a.struct_size = sizeof m->a;
    for (int i = 0; i < 3; i++)
        m->parts[i] = call_record(call_in, ATTN_F32, NB);
    m->a.parts = m->parts;
    m->a.count = 3;
    m->a.out = call_out(ATTN_F32, NB, NH, NQ, ND);
    m->a.lse = call_out(ATTN_F32, NB, NH, NQ, 1);
    m->a.sink = call_in(ATTN_F32, NB, NH, 1, 1);
    m->to = call_record(call_out, ATTN_F32, NB);
    call_fill();
}

static void expect_merge(const merge_call *m, unsigned want, const char *names, const char *what)
{
    attn_error err = {ATTN_OK, 0, ""};
    attn_status st = attn_merge(ctx, &m->a, &err);

    CHECK_MSG(1u << st & want, "%s: %s %s", what, attn_status_text(st), err.text);
    if (st == ATTN_OK)
        return;
    call_check_error(&err, st, names, what);
    CHECK_MSG(memcmp(call_mem.out, call_mem.was_out, REGION) == 0, "%s: output written", what);
}

#define EXPECT_MERGE(change, want, names)                                                          \
    (merge_make(&m), (change), expect_merge(&m, want, names, #change))

static void errors_of_merge(void **state)
{
    static const attn_view absent;
    merge_call m;

    (void)state;
    EXPECT_MERGE((void)0, OK, NULL);
    EXPECT_MERGE(m.a.struct_size = 0, ARG, "struct_size");
    EXPECT_MERGE(m.a.parts = NULL, ARG, "parts");
    EXPECT_MERGE(m.parts[1].out.data = NULL, ARG, "part");
    EXPECT_MERGE(m.parts[1].out.size[3] = 7, SHAPE, "part");
    EXPECT_MERGE(m.parts[2].sum.size[2] = 4, SHAPE, "part");
    EXPECT_MERGE(m.parts[2].max.size[3] = 2, SHAPE, "part");
    EXPECT_MERGE(m.parts[0].max.type = ATTN_F16, ARG, "part");
    EXPECT_MERGE(m.parts[1].out.type = ATTN_F64, ARG, "part");
    EXPECT_MERGE(m.a.out.type = ATTN_U8, ARG, "out");
    EXPECT_MERGE(m.a.out.size[3] = 9, BAD, "out");
    EXPECT_MERGE(m.a.out.stride[2] = 0, BAD, "out");
    EXPECT_MERGE(m.a.out.data = (char *)m.a.out.data + 2, ARG, "out");
    EXPECT_MERGE(m.a.lse.type = ATTN_BF16, ARG, "lse");
    EXPECT_MERGE(m.a.lse.size[3] = 2, BAD, "lse");
    EXPECT_MERGE(m.a.sink.size[1] = 3, SHAPE, "sink");
    EXPECT_MERGE(m.a.sink.type = ATTN_F16, ARG, "sink");
    EXPECT_MERGE((m.a.partial = &m.to, m.a.out = absent, m.a.lse = absent), ARG, "sink");
    EXPECT_MERGE((m.a.out = absent, m.a.lse = absent), ARG, "out");
    EXPECT_MERGE((m.a.partial = &m.to, m.a.sink = absent, m.a.out = absent, m.a.lse = absent), OK,
                 NULL);
    EXPECT_MERGE((m.a.partial = &m.to, m.a.sink = absent, m.a.out = absent, m.a.lse = absent,
                  m.to.sum.size[0] = 1),
                 SHAPE, "partial");
    EXPECT_MERGE((m.a.partial = m.parts, m.a.sink = absent, m.a.out = absent, m.a.lse = absent), OK,
                 NULL);
    CHECK(attn_merge(NULL, &m.a, NULL) == ATTN_E_ARGUMENT);
    CHECK(attn_merge(ctx, NULL, NULL) == ATTN_E_ARGUMENT);
}

static void *never_alloc(void *user, size_t size, size_t align)
{
    (void)user, (void)size, (void)align;
    return NULL;
}

static void expect_no_ctx(const attn_ctx_options *o, attn_status want, const char *names)
{
    attn_ctx *made = (attn_ctx *)(void *)call_mem.in;
    attn_error err;

    CHECK_MSG(attn_ctx_create(o, &made, &err) == want, "context with a bad %s", names);
    CHECK(made == NULL);
    call_check_error(&err, want, names, names);
}

static void errors_of_ctx_create(void **state)
{
    attn_ctx_options o = ATTN_CTX_OPTIONS_INIT;
    struct {
        attn_ctx_options o;
        uint64_t tail;
    } newer = {ATTN_CTX_OPTIONS_INIT, 1};
    attn_error err;

    (void)state;
    CHECK(attn_ctx_create(&o, NULL, &err) == ATTN_E_ARGUMENT);
    o.struct_size = 0;
    expect_no_ctx(&o, ATTN_E_ARGUMENT, "struct_size");
    o = (attn_ctx_options)ATTN_CTX_OPTIONS_INIT;
    o.threads = -1;
    expect_no_ctx(&o, ATTN_E_ARGUMENT, "threads");
    o.threads = 1025;
    expect_no_ctx(&o, ATTN_E_ARGUMENT, "threads");
    o.threads = 1;
    o.kernels = (attn_kernel_set)99;
    expect_no_ctx(&o, ATTN_E_ARGUMENT, "kernel");
    o.kernels = ATTN_SET_AUTO;
    o.alloc = never_alloc;
    expect_no_ctx(&o, ATTN_E_ARGUMENT, "free");
    newer.o.struct_size = sizeof newer;
    expect_no_ctx(&newer.o, ATTN_E_ARGUMENT, "options");
    for (int set = ATTN_SET_SCALAR; set <= ATTN_SET_AVX512; set++) {
        o = (attn_ctx_options)ATTN_CTX_OPTIONS_INIT;
        o.kernels = (attn_kernel_set)set;
        if (!attn_kernel_set_available(o.kernels))
            expect_no_ctx(&o, ATTN_E_UNSUPPORTED, attn_kernel_set_name(o.kernels));
    }
    attn_ctx_destroy(NULL);
}

static void texts_and_small_functions(void **state)
{
    static const uint8_t drop[] = {0, 1, 2, 255};
    uint8_t keep[] = {9, 9, 9, 9};

    (void)state;
    for (int st = -2; st < 100; st++)
        CHECK(attn_status_text((attn_status)st) && *attn_status_text((attn_status)st));
    CHECK(strcmp(attn_type_name((attn_type)99), "?") == 0);
    CHECK(strcmp(attn_type_name((attn_type)-1), "?") == 0);
    CHECK(attn_type_size((attn_type)99) == 0 && attn_type_size((attn_type)-1) == 0);
    CHECK(strcmp(attn_type_name(ATTN_BF16), "bf16") == 0 && attn_type_size(ATTN_F64) == 8);
    CHECK(strcmp(attn_kernel_set_name((attn_kernel_set)77), "?") == 0);
    CHECK(!attn_kernel_set_available((attn_kernel_set)77));
    CHECK(strcmp(attn_version(), ATTN_VERSION) == 0);
    attn_keep_from_drop(keep, drop, 4);
    CHECK(keep[0] && !keep[1] && !keep[2] && !keep[3]);
    attn_keep_from_drop(keep, keep, 4);
    CHECK(!keep[0] && keep[1] && keep[2] && keep[3]);
}

int main(int argc, char **argv)
{
    static const test_case tests[] = {
        {"views_of_wrong_type_or_place", views_of_wrong_type_or_place, 0},
        {"sizes_that_do_not_fit", sizes_that_do_not_fit, 0},
        {"options_out_of_range", options_out_of_range, 0},
        {"packed_batches_with_bad_sums", packed_batches_with_bad_sums, 0},
        {"bad_block_lists", bad_block_lists, 0},
        {"overlapping_outputs", overlapping_outputs, 0},
        {"workspaces_too_small_or_askew", workspaces_too_small_or_askew, 0},
        {"no_output_or_no_struct", no_output_or_no_struct, 0},
        {"sizes_whose_products_wrap", sizes_whose_products_wrap, 0},
        {"errors_of_merge", errors_of_merge, 0},
        {"errors_of_ctx_create", errors_of_ctx_create, 0},
        {"texts_and_small_functions", texts_and_small_functions, 0},
    };
    attn_ctx_options o = ATTN_CTX_OPTIONS_INIT;
    int failed;

    o.threads = 2;
    if (attn_ctx_create(&o, &ctx, NULL) != ATTN_OK)
        return 1;
    failed = test_main(argc, argv, tests, sizeof tests / sizeof *tests);
    attn_ctx_destroy(ctx);
    return failed;
}
