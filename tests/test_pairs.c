/* test_pairs.c: every option with every other, and random triples, against the reference on every
 * kernel set: an option that another one switches off, or that is applied in the wrong order, shows
 * here by name. The differential test mixes more options at once; this one leaves no pair to
 * chance. */
#include "tests/trial.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { TRIALS_A_PAIR = 6, TRIPLES = 1500 };

/* Runs one trial of exactly these options. Returns 0 if they exclude each other. */
static int run_options(void **state, uint32_t options, uint64_t index, const char *what)
{
    static const generator generators[] = {GEN_BELL,     GEN_LOGITS_20, GEN_UNIFORM,
                                           GEN_DOMINANT, GEN_CANCEL,    GEN_BELL};
    ref_worst worst = {0};
    char why[300], text[600];
    trial t;
    int held;

    trial_make(&t, test_seed(), index, options,
               generators[index % (sizeof generators / sizeof *generators)]);
    held = t.options == options;
    if (held && trial_run(&t, ctx_for(test_set(state), 1 + (int)(index % 2)), &worst, why,
                          sizeof why) > 0) {
        trial_describe(&t, text, sizeof text);
        trial_free(&t);
        fail_msg("%s, trial %" PRIu64 ": %s\n  %s", what, index, why, text);
    }
    assert_true(ref_worst_of(&worst) < 1);
    trial_free(&t);
    return held;
}

/* Pairs that trial.c calls exclusive, and why they may be: counted, so that none slips in unseen.
 */
enum { EXCLUSIVE_PAIRS = 16 };

static void every_pair(void **state)
{
    int excluded = 0;

    for (int a = 0; a < OPTION_COUNT; a++)
        for (int b = a + 1; b < OPTION_COUNT; b++) {
            uint32_t options = UINT32_C(1) << a | UINT32_C(1) << b;
            uint64_t first = (uint64_t)(a * OPTION_COUNT + b) * TRIALS_A_PAIR;
            char what[80];

            snprintf(what, sizeof what, "%s + %s", option_name(a), option_name(b));
            if (!run_options(state, options, first, what)) {
                excluded++;
                continue;
            }
            for (uint64_t i = 1; i < TRIALS_A_PAIR; i++)
                run_options(state, options, first + i, what);
        }
    print_message("%d pairs, %d of them exclude each other\n",
                  OPTION_COUNT * (OPTION_COUNT - 1) / 2, excluded);
    assert_int_equal(excluded, EXCLUSIVE_PAIRS);
}

static void single_options(void **state)
{
    for (int a = 0; a < OPTION_COUNT; a++)
        for (uint64_t i = 0; i < 4 * TRIALS_A_PAIR; i++)
            assert_true(run_options(state, UINT32_C(1) << a, 100000 + (uint64_t)a * 100 + i,
                                    option_name(a)));
}

static void random_triples(void **state)
{
    int ran = 0;

    for (uint64_t i = 0; i < TRIPLES; i++) {
        rng r = rng_make(test_seed(), UINT64_C(0x747269706C65) + i);
        uint32_t options = 0;
        char what[120] = "";

        for (int n = 0; n < 3; n++) {
            int bit = (int)rng_int(&r, 0, OPTION_COUNT - 1);
            size_t used = strlen(what);

            options |= UINT32_C(1) << bit;
            snprintf(what + used, sizeof what - used, " %s", option_name(bit));
        }
        ran += run_options(state, options, 200000 + i, what);
    }
    assert_true(ran > TRIPLES / 2);
}

int main(int argc, char **argv)
{
    static const test_case tests[] = {
        {"single options", single_options, 1},
        {"every pair of options", every_pair, 1},
        {"random triples of options", random_triples, 1},
    };

    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
