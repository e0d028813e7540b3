/* test_backward_differential.c: random calls of attn_backward, every kernel set against the
 * reference gradients, by computed bounds.
 *
 *     test_backward_differential [--cases N] [--case I] [--threads T] [--seed S] [--set NAME]
 *
 * As test_differential.c: fails if any error exceeds its bound, and if the worst ratio of error to
 * bound passes 0.5. Each failure prints the command that repeats it. */
#include "tests/trial_backward.h"

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
    ref_worst_gradients all;
    double worst[GEN_COUNT];
    int64_t worst_case[GEN_COUNT];
} score;

static score scores[SET_COUNT];
static int64_t generator_cases[GEN_COUNT];
static int64_t cases = 10000, only_case = -1;
static int threads; /* 0: drawn */
static int only_set = ATTN_SET_AUTO;

static void rise(double *to, double value)
{
    if (value > *to)
        *to = value;
}

static void note_ratio(score *s, generator gen, int64_t index, const ref_worst_gradients *w)
{
    if (ref_worst_gradient(w) > s->worst[gen]) {
        s->worst[gen] = ref_worst_gradient(w);
        s->worst_case[gen] = index;
    }
    rise(&s->all.dq, w->dq);
    rise(&s->all.dk, w->dk);
    rise(&s->all.dv, w->dv);
    rise(&s->all.dbias, w->dbias);
    rise(&s->all.dsink, w->dsink);
    rise(&s->all.dalibi, w->dalibi);
    rise(&s->all.delta, w->delta);
}

static void show_failure(const backward_trial *x, attn_kernel_set set, int64_t index, int width,
                         const char *why)
{
    char text[600];

    backward_describe(x, text, sizeof text);
    printf("FAILED %s\n  %s\n  build/tests/test_backward_differential --seed %" PRIu64
           " --case %lld --set %s --threads %d\n",
           why, text, test_seed(), (long long)index, attn_kernel_set_name(set), width);
}

static void run_case(int64_t index)
{
    attn_kernel_set sets[4];
    size_t n = sets_available(sets);
    backward_trial x;
    int width;

    backward_draw(&x, test_seed(), (uint64_t)index);
    width = threads ? threads : index % 4 == 0 ? 3 : 1;
    generator_cases[x.t.gen]++;
    for (size_t i = 0; i < n; i++) {
        score *s = &scores[sets[i]];
        ref_worst_gradients worst = {0};
        char why[300] = "";

        if (only_set != ATTN_SET_AUTO && only_set != (int)sets[i])
            continue;
        s->calls++;
        if (backward_run(&x, ctx_for(sets[i], width), &worst, why, sizeof why) > 0 &&
            s->failures++ < SHOWN)
            show_failure(&x, sets[i], index, width, why);
        note_ratio(s, x.t.gen, index, &worst);
    }
    backward_free(&x);
}

static void print_scores(void)
{
    printf("\nworst error / bound by data, and its case\n%-16s %7s", "", "cases");
    for (int set = 0; set < SET_COUNT; set++)
        if (scores[set].calls)
            printf("  %-13s", attn_kernel_set_name((attn_kernel_set)set));
    for (int g = 0; g < GEN_COUNT; g++) {
        printf("\n%-16s %7lld", generator_name((generator)g), (long long)generator_cases[g]);
        for (int set = 0; set < SET_COUNT; set++)
            if (scores[set].calls)
                printf("  %.3f %7lld", scores[set].worst[g], (long long)scores[set].worst_case[g]);
    }
    printf("\n\n");
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
    const ref_worst_gradients *w = &s->all;

    assert_true(s->calls > 0);
    print_message("%s: %lld calls, %lld over the bound, worst ratios: dq %.3f dk %.3f dv %.3f "
                  "dbias %.3f dsink %.3f dalibi %.3f delta %.3f\n",
                  attn_kernel_set_name(test_set(state)), (long long)s->calls,
                  (long long)s->failures, w->dq, w->dk, w->dv, w->dbias, w->dsink, w->dalibi,
                  w->delta);
    assert_int_equal(s->failures, 0);
    assert_true(ref_worst_gradient(w) <= TRIPWIRE);
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
