/* support.c: the reporter, contexts and random numbers of support.h; memory and views are in
 * views.c. */
#include "tests/support.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SETS 4
#define MAX_TESTS 512
#define MAX_CONTEXTS 64
#define NAME_SIZE 120

/* One test as cmocka sees it: a case, for one kernel set if it is a per_set case. */
typedef struct run {
    const test_case *test;
    attn_kernel_set set;
    char name[NAME_SIZE];
} run;

static run runs[MAX_TESTS];
static const test_case *all_tests;
static size_t passed;
static uint64_t seed = 1;

/* --- Reporter ------------------------------------------------------------------------------- */

static void run_one(void **state)
{
    const run *r = *state;

    if (r->set != ATTN_SET_AUTO && !attn_kernel_set_available(r->set)) {
        print_message("skipped: this machine or build has no %s\n", attn_kernel_set_name(r->set));
        skip();
    }
    r->test->run(state);
    passed++;
}

static size_t add_run(size_t n, const test_case *test, attn_kernel_set set, const char *filter)
{
    run *r = &runs[n];

    r->test = test;
    r->set = set;
    if (set == ATTN_SET_AUTO)
        snprintf(r->name, sizeof r->name, "%s", test->name);
    else
        snprintf(r->name, sizeof r->name, "%s/%s", test->name, attn_kernel_set_name(set));
    return n + (!filter || strstr(r->name, filter) != NULL);
}

static void bad_usage(const char *program, const char *argument)
{
    fprintf(stderr, "%s: unexpected %s\nusage: %s [--seed N] [--set NAME] [--list] [filter]\n",
            program, argument, program);
    exit(2);
}

static const char *read_arguments(int argc, char **argv, int *only, int *list)
{
    const char *filter = NULL;

    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--seed") && i + 1 < argc)
            seed = strtoull(argv[++i], NULL, 0);
        else if (!strcmp(argv[i], "--set") && i + 1 < argc) {
            if ((*only = set_from_name(argv[++i])) < 0)
                bad_usage(argv[0], argv[i]);
        } else if (!strcmp(argv[i], "--list"))
            *list = 1;
        else if (argv[i][0] != '-' && !filter)
            filter = argv[i];
        else
            bad_usage(argv[0], argv[i]);
    }
    return filter;
}

static size_t collect(const test_case *tests, size_t n, const char *filter, int only)
{
    size_t count = 0;

    for (size_t i = 0; i < n; i++) {
        if (!tests[i].per_set) {
            count = add_run(count, &tests[i], ATTN_SET_AUTO, filter);
            continue;
        }
        for (int set = ATTN_SET_SCALAR; set <= ATTN_SET_AVX512; set++)
            if (only == ATTN_SET_AUTO || only == set)
                count = add_run(count, &tests[i], (attn_kernel_set)set, filter);
        if (count + SETS >= MAX_TESTS) {
            fprintf(stderr, "more than %d tests in one program\n", MAX_TESTS);
            exit(2);
        }
    }
    return count;
}

const char *test_option(int *argc, char **argv, const char *name, int keep)
{
    for (int i = 1; i + 1 < *argc; i++)
        if (!strcmp(argv[i], name)) {
            const char *value = argv[i + 1];

            if (!keep) {
                memmove(argv + i, argv + i + 2, (size_t)(*argc - i - 1) * sizeof *argv);
                *argc -= 2;
            }
            return value;
        }
    return NULL;
}

int test_main(int argc, char **argv, const test_case *tests, size_t n)
{
    static struct CMUnitTest units[MAX_TESTS];
    int only = ATTN_SET_AUTO, list = 0;
    const char *filter = read_arguments(argc, argv, &only, &list);
    size_t count = collect(tests, n, filter, only), failed;

    all_tests = tests;
    setvbuf(stdout, NULL, _IOLBF, 0); /* cmocka's stderr must not land inside a line */
    for (size_t i = 0; i < count; i++) {
        if (list)
            printf("%s\n", runs[i].name);
        units[i] = (struct CMUnitTest){runs[i].name, run_one, NULL, NULL, &runs[i]};
    }
    if (list)
        return 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("seed %" PRIu64 "\n", seed);
    failed = (size_t)_cmocka_run_group_tests(argv[0], units, count, NULL, NULL);
    fflush(stderr);
    printf("%zu passed, %zu failed, %zu skipped\n", passed, failed, count - passed - failed);
    return failed != 0 || count == 0;
}

attn_kernel_set test_set(void **state)
{
    const run *r = *state;

    return r->set;
}

size_t test_index(void **state)
{
    const run *r = *state;

    return (size_t)(r->test - all_tests);
}

uint64_t test_seed(void)
{
    return seed;
}

/* --- Contexts ------------------------------------------------------------------------------- */

size_t sets_available(attn_kernel_set sets[4])
{
    size_t n = 0;

    for (int set = ATTN_SET_AVX512; set >= ATTN_SET_SCALAR; set--)
        if (attn_kernel_set_available((attn_kernel_set)set))
            sets[n++] = (attn_kernel_set)set;
    return n;
}

int set_from_name(const char *name)
{
    for (int set = ATTN_SET_SCALAR; set <= ATTN_SET_AVX512; set++)
        if (!strcmp(name, attn_kernel_set_name((attn_kernel_set)set)))
            return set;
    return -1;
}

static struct {
    attn_kernel_set set;
    int threads;
    attn_ctx *ctx;
} contexts[MAX_CONTEXTS];
static size_t context_count;

static void destroy_contexts(void)
{
    while (context_count)
        attn_ctx_destroy(contexts[--context_count].ctx);
}

const attn_ctx *ctx_for(attn_kernel_set set, int threads)
{
    attn_ctx_options options = ATTN_CTX_OPTIONS_INIT;
    attn_error err = {0};

    for (size_t i = 0; i < context_count; i++)
        if (contexts[i].set == set && contexts[i].threads == threads)
            return contexts[i].ctx;
    if (context_count == 0)
        atexit(destroy_contexts);
    assert_true(context_count < MAX_CONTEXTS);
    options.kernels = set;
    options.threads = threads;
    if (attn_ctx_create(&options, &contexts[context_count].ctx, &err) != ATTN_OK)
        fail_msg("attn_ctx_create: %s", err.text);
    contexts[context_count].set = set;
    contexts[context_count].threads = threads;
    return contexts[context_count++].ctx;
}

/* --- Random numbers ------------------------------------------------------------------------- */

rng rng_make(uint64_t from, uint64_t stream)
{
    rng r = {from * UINT64_C(0xD1342543DE82EF95) + stream};

    r.state = rng_next(&r) ^ (stream * UINT64_C(0xDA942042E4DD58B5));
    return r;
}

/* Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators" (2014). */
uint64_t rng_next(rng *r)
{
    uint64_t z = (r->state += UINT64_C(0x9E3779B97F4A7C15));

    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

double rng_unit(rng *r)
{
    return (double)(rng_next(r) >> 11) * 0x1p-53;
}

double rng_range(rng *r, double low, double high)
{
    return low + (high - low) * rng_unit(r);
}

/* The sum of four uniforms out of one draw: Box-Muller would cost more than the kernels under test.
 */
double rng_bell(rng *r)
{
    uint64_t x = rng_next(r);
    int64_t sum = 0;

    for (int i = 0; i < 4; i++, x >>= 16)
        sum += (int64_t)(x & 0xFFFF);
    return ((double)sum - 131070.0) * (1.7320508075688772 / 65536.0);
}

int64_t rng_int(rng *r, int64_t low, int64_t high)
{
    return low + (int64_t)(rng_next(r) % ((uint64_t)(high - low) + 1));
}

int rng_chance(rng *r, int percent)
{
    return (int)(rng_next(r) % 100) < percent;
}
