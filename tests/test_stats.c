/* test_stats.c: statistics against the reference: every option of a call with random requests, and
 * what must not change: the bits of the output, and any bit with the number of threads, with what
 * else is asked for, and with a workspace of the caller's. */
#include "tests/ref_stats.h"
#include "tests/stats_request.h"
#include "tests/trial.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Options that make other calls: records cannot be combined with statistics. */
#define NO_STATS (OPT_PARTIAL | OPT_START | OPT_CHAIN | OPT_MERGE | OPT_IN_PLACE)

enum { TRIALS = 2 };

static attn_status run(const trial *t, const attn_ctx *ctx, attn_forward_args *call, arena *memory,
                       attn_error *err)
{
    attn_plan plan = ATTN_PLAN_INIT;
    attn_status st = attn_forward_plan(ctx, call, &plan, err);

    if (st != ATTN_OK)
        return st;
    call->workspace = NULL;
    if (t->options & OPT_WORKSPACE) {
        call->workspace_size = plan.workspace_size;
        call->workspace = arena_guarded(memory, plan.workspace_size, plan.workspace_size % 64 == 0);
    }
    return attn_forward(ctx, call, err);
}

/* Outputs without statistics, to compare with. */
static attn_view plain_output(const trial *t, const attn_ctx *ctx, arena *memory)
{
    attn_forward_args call = t->args;
    attn_error err = {0};
    rng r = rng_make(1, 1);

    if (!call.out.data)
        return call.out;
    memset(&call.lse, 0, sizeof call.lse);
    memset(&call.weights, 0, sizeof call.weights);
    view_fill(&call.out, (double)NAN);
    if (attn_forward(ctx, &call, &err) != ATTN_OK)
        fail_msg("without statistics: %s", err.text);
    return view_copy(memory, &r, &call.out, call.out.type, LAYOUT_BHSD);
}

static int compare(trial *t, const attn_forward_args *call, const attn_view *plain, double *ratio,
                   ref_worst *worst, char *why, size_t n)
{
    ref_stats want;
    int bad;

    if (call->out.data && !view_same_bits(&call->out, plain)) {
        snprintf(why, n, "out has other bits than without statistics");
        return 1;
    }
    bad = ref_compare(call, &t->want, worst, why, n);
    if (bad)
        return bad;
    ref_stats_make(&t->args, &t->how, &want);
    bad = ref_stats_compare(call, &want, ratio, why, n);
    ref_stats_free(&want);
    return bad;
}

/* One request of one trial; what is wrong in why. */
static int try_request(trial *t, attn_kernel_set set, uint64_t index, int percent, double *ratio,
                       char *why, size_t n)
{
    rng r = rng_make(test_seed() ^ UINT64_C(0x7374617473), index);
    attn_forward_args call = t->args;
    stats_request first, second;
    arena memory = {0};
    ref_worst worst = {0};
    attn_error err = {0};
    int threads = 2 + (int)(index % 3), bad = 0, which;
    attn_view plain = plain_output(t, ctx_for(set, 1), &memory);

    stats_draw(&first, &memory, &r, &t->args, t->sequences, t->longest_q, t->longest_k, percent,
               (t->options & OPT_LAYOUTS) != 0);
    stats_again(&second, &first, &memory);
    stats_spoil(&first);
    stats_spoil(&second);
    if (rng_chance(&r, 30)) { /* nothing but statistics; then values are not needed */
        memset(&call.out, 0, sizeof call.out);
        memset(&call.v, 0, sizeof call.v);
    }
    call.stats = &first.ask;
    if (run(t, ctx_for(set, 1), &call, &memory, &err) != ATTN_OK) {
        snprintf(why, n, "%s", err.text);
        bad = 1;
    }
    if (!bad)
        bad = compare(t, &call, &plain, ratio, &worst, why, n);
    call.stats = &second.ask;
    if (!bad && run(t, ctx_for(set, threads), &call, &memory, &err) != ATTN_OK) {
        snprintf(why, n, "on %d threads: %s", threads, err.text);
        bad = 1;
    }
    if (!bad && !stats_same(&first, &second, &which)) {
        snprintf(why, n, "output %d has other bits on %d threads", which, threads);
        bad = 1;
    }
    if (!bad && !arena_poison_intact(&memory)) {
        snprintf(why, n, "memory beside an output was written");
        bad = 1;
    }
    arena_reset(&memory);
    return bad;
}

static int run_options(void **state, uint32_t options, uint64_t index, generator g, double *ratio)
{
    char why[400] = "", text[600];
    trial t;
    int held, bad = 0;

    trial_make(&t, test_seed(), index, options, g);
    held = t.options == options;
    if (held)
        bad = try_request(&t, test_set(state), index, index % 4 ? 30 : 90, ratio, why, sizeof why);
    if (bad)
        trial_describe(&t, text, sizeof text);
    trial_free(&t);
    if (bad)
        fail_msg("trial %" PRIu64 ": %s\n  %s", index, why, text);
    return held;
}

static generator generator_of(uint64_t index)
{
    static const generator list[] = {GEN_BELL,       GEN_LOGITS_20,   GEN_DOMINANT, GEN_ROWS_EQUAL,
                                     GEN_KEYS_EQUAL, GEN_MASKED_ROWS, GEN_BELL,     GEN_LOGITS_30};

    return list[index % (sizeof list / sizeof *list)];
}

static void end(double ratio)
{
    print_message("worst error / bound %.3f\n", ratio);
    assert_true(ratio <= 0.5);
}

static void every_pair(void **state)
{
    double ratio = 0;

    for (int a = 0; a < OPTION_COUNT; a++)
        for (int b = a; b < OPTION_COUNT; b++) {
            uint32_t options = UINT32_C(1) << a | UINT32_C(1) << b;

            if (options & NO_STATS)
                continue;
            for (uint64_t i = 0; i < TRIALS; i++) {
                uint64_t index = (uint64_t)(a * OPTION_COUNT + b) * TRIALS + i;
                generator g = generator_of(index);

                if (g == GEN_MASKED_ROWS)
                    options |= OPT_KEEP;
                if (!run_options(state, options, index, g, &ratio))
                    break; /* they exclude each other */
            }
        }
    end(ratio);
}

/* Every kind of data, with a handful of options. */
static void every_data(void **state)
{
    double ratio = 0;

    for (uint64_t i = 0; i < 400; i++) {
        rng r = rng_make(test_seed(), UINT64_C(0x64617461) + i);
        uint32_t options = (uint32_t)rng_next(&r) & (uint32_t)rng_next(&r) & ~(uint32_t)NO_STATS;

        options &= (UINT32_C(1) << OPTION_COUNT) - 1;
        run_options(state, options, 500000 + i, (generator)(i % GEN_COUNT), &ratio);
    }
    end(ratio);
}

int main(int argc, char **argv)
{
    static const test_case tests[] = {
        {"every pair of options", every_pair, 1},
        {"every kind of data", every_data, 1},
    };

    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
