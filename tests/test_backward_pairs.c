/* test_backward_pairs.c: gradients with every option, every pair of them and random triples,
 * against the reference on every kernel set, as test_pairs.c does for the forward pass. */
#include "tests/trial_backward.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { ALL = OPTION_COUNT + EXTRA_COUNT, TRIALS_A_PAIR = 4, TRIPLES = 1000 };

/* Options of the forward call and of its gradients in one list; NULL for what no gradient has. */
static const char *name_of(int n)
{
    if (n >= OPTION_COUNT)
        return extra_name(n - OPTION_COUNT);
    return BACKWARD_OPTIONS >> n & 1 ? option_name(n) : NULL;
}

/* Runs one trial of exactly these options. Returns 0 if they exclude each other. */
static int run_options(void **state, uint64_t bits, uint64_t index, const char *what)
{
    static const generator generators[] = {GEN_BELL, GEN_LOGITS_20, GEN_UNIFORM, GEN_DOMINANT,
                                           GEN_CANCEL};
    uint32_t options = (uint32_t)bits & BACKWARD_OPTIONS, extras = (uint32_t)(bits >> OPTION_COUNT);
    ref_worst_gradients worst = {0};
    char why[300], text[600];
    backward_trial x;
    int held;

    backward_make(&x, test_seed(), index, options, extras,
                  generators[index % (sizeof generators / sizeof *generators)]);
    held = x.t.options == options && (x.extras & extras) == extras;
    if (held && backward_run(&x, ctx_for(test_set(state), 1 + (int)(index % 2)), &worst, why,
                             sizeof why) > 0) {
        backward_describe(&x, text, sizeof text);
        backward_free(&x);
        fail_msg("%s, trial %" PRIu64 ": %s\n  %s", what, index, why, text);
    }
    assert_true(ref_worst_gradient(&worst) < 1);
    backward_free(&x);
    return held;
}

static void single_options(void **state)
{
    for (int a = 0; a < ALL; a++)
        for (uint64_t i = 0; name_of(a) && i < 4 * TRIALS_A_PAIR; i++)
            assert_true(
                run_options(state, UINT64_C(1) << a, 100000 + (uint64_t)a * 100 + i, name_of(a)));
}

static void every_pair(void **state)
{
    int pairs = 0, excluded = 0;

    for (int a = 0; a < ALL; a++)
        for (int b = a + 1; b < ALL; b++) {
            uint64_t bits = UINT64_C(1) << a | UINT64_C(1) << b;
            uint64_t first = (uint64_t)(a * ALL + b) * TRIALS_A_PAIR;
            char what[80];

            if (!name_of(a) || !name_of(b))
                continue;
            pairs++;
            snprintf(what, sizeof what, "%s + %s", name_of(a), name_of(b));
            if (!run_options(state, bits, first, what)) {
                excluded++;
                continue;
            }
            for (uint64_t i = 1; i < TRIALS_A_PAIR; i++)
                run_options(state, bits, first + i, what);
        }
    print_message("%d pairs, %d of them exclude each other\n", pairs, excluded);
    assert_int_equal(excluded, 1); /* all f64, and types of their own */
}

static void random_triples(void **state)
{
    int ran = 0;

    for (uint64_t i = 0; i < TRIPLES; i++) {
        rng r = rng_make(test_seed(), UINT64_C(0x747269706C65) + i);
        uint64_t bits = 0;
        char what[120] = "";

        for (int n = 0; n < 3;) {
            int bit = (int)rng_int(&r, 0, ALL - 1);
            size_t used = strlen(what);

            if (!name_of(bit))
                continue;
            bits |= UINT64_C(1) << bit;
            snprintf(what + used, sizeof what - used, " %s", name_of(bit));
            n++;
        }
        ran += run_options(state, bits, 200000 + i, what);
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
