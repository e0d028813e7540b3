/* test_differential.c: random calls of attn_forward and attn_merge, every kernel set against the
 * reference, by computed bounds.
 *
 *     test_differential [--cases N] [--case I] [--threads T] [--seed S] [--set NAME]
 *
 * Fails if any error exceeds its bound, and if the worst ratio of error to bound passes 0.5: then a
 * bound has become too tight or a kernel has lost accuracy, and somebody should look. Each failure
 * prints the command that repeats it. */
#include "tests/trial.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRIPWIRE 0.5
#define SHOWN 20 /* failures printed in full */
#define SET_COUNT (ATTN_SET_AVX512 + 1)

/* What one set did. */
typedef struct score {
    int64_t calls, failures;
    ref_worst worst[GEN_COUNT];
    int64_t worst_case[GEN_COUNT];
} score;

static score scores[SET_COUNT];
static int64_t generator_cases[GEN_COUNT];
static int64_t cases = 20000, only_case = -1;
static int threads; /* 0: drawn */
static int only_set = ATTN_SET_AUTO;

static void note_ratio(score *s, const trial *t, int64_t index, const ref_worst *worst)
{
    ref_worst *best = &s->worst[t->gen];

    if (ref_worst_of(worst) > ref_worst_of(best))
        s->worst_case[t->gen] = index;
    best->out = worst->out > best->out ? worst->out : best->out;
    best->lse = worst->lse > best->lse ? worst->lse : best->lse;
    best->weights = worst->weights > best->weights ? worst->weights : best->weights;
}

static void show_failure(const trial *t, attn_kernel_set set, int64_t index, int width,
                         const char *why)
{
    char text[600];

    trial_describe(t, text, sizeof text);
    printf("FAILED %s\n  %s\n  build/tests/test_differential --seed %" PRIu64
           " --case %lld --set %s --threads %d\n",
           why, text, test_seed(), (long long)index, attn_kernel_set_name(set), width);
}

static void run_case(int64_t index)
{
    attn_kernel_set sets[4];
    size_t n = sets_available(sets);
    trial t;
    int width;

    trial_draw(&t, test_seed(), (uint64_t)index);
    width = threads ? threads : index % 4 == 0 ? 3 : 1;
    generator_cases[t.gen]++;
    for (size_t i = 0; i < n; i++) {
        score *s = &scores[sets[i]];
        ref_worst worst = {0};
        char why[300] = "";

        if (only_set != ATTN_SET_AUTO && only_set != (int)sets[i])
            continue;
        s->calls++;
        if (trial_run(&t, ctx_for(sets[i], width), &worst, why, sizeof why) > 0 &&
            s->failures++ < SHOWN)
            show_failure(&t, sets[i], index, width, why);
        note_ratio(s, &t, index, &worst);
    }
    trial_free(&t);
}

static void print_scores(void)
{
    printf("\nworst error / bound (out, lse, weights) by data\n%-16s %7s", "", "cases");
    for (int set = 0; set < SET_COUNT; set++)
        if (scores[set].calls)
            printf("  %-24s", attn_kernel_set_name((attn_kernel_set)set));
    for (int g = 0; g < GEN_COUNT; g++) {
        printf("\n%-16s %7lld", generator_name((generator)g), (long long)generator_cases[g]);
        for (int set = 0; set < SET_COUNT; set++) {
            const ref_worst *w = &scores[set].worst[g];

            if (scores[set].calls)
                printf("  %.3f %.3f %.3f %6lld", w->out, w->lse, w->weights,
                       (long long)scores[set].worst_case[g]);
        }
    }
    printf("\n(the last number is the case of the worst ratio)\n\n");
}

static void all_cases(void **state)
{
    int64_t done = 0;

    (void)state;
    if (only_case >= 0) {
        run_case(only_case);
        done = 1;
    }
    for (int64_t i = 0; only_case < 0 && i < cases; i++, done++)
        run_case(i);
    print_scores();
    assert_true(done > 0);
}

static void within_bounds(void **state)
{
    const score *s = &scores[test_set(state)];
    double worst = 0;

    assert_true(s->calls > 0);
    for (int g = 0; g < GEN_COUNT; g++)
        worst = ref_worst_of(&s->worst[g]) > worst ? ref_worst_of(&s->worst[g]) : worst;
    print_message("%s: %lld calls, %lld over the bound, worst ratio %.3f\n",
                  attn_kernel_set_name(test_set(state)), (long long)s->calls,
                  (long long)s->failures, worst);
    assert_int_equal(s->failures, 0);
    assert_true(worst <= TRIPWIRE);
}

int main(int argc, char **argv)
{
    static const test_case tests[] = {{"cases", all_cases, 0}, {"within bounds", within_bounds, 1}};
    const char *value;

    if ((value = test_option(&argc, argv, "--cases", 0)))
        cases = strtoll(value, NULL, 0);
    if ((value = test_option(&argc, argv, "--case", 0)))
        only_case = strtoll(value, NULL, 0);
    if ((value = test_option(&argc, argv, "--threads", 0)))
        threads = (int)strtol(value, NULL, 0);
    if ((value = test_option(&argc, argv, "--set", 1)))
        only_set = set_from_name(value);
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
