/* test_ctx.c: making, sharing, cancelling and forking contexts.
 *
 * Tests that change the process (affinity, limits, user) do so in a child; a child that hangs is
 * ended by its alarm and counts as a failure.
 */
#define _GNU_SOURCE /* affinity */
#include "include/attn/attn.h"
#include "tests/yardstick.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { CHILD_SKIPS = 77, CHILD_SECONDS = 20 };

#if defined(__SANITIZE_THREAD__)
#define UNDER_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define UNDER_TSAN 1
#endif
#endif
#ifndef UNDER_TSAN
#define UNDER_TSAN 0
#endif
#if defined(__SANITIZE_ADDRESS__)
#define UNDER_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define UNDER_ASAN 1
#endif
#endif
#ifndef UNDER_ASAN
#define UNDER_ASAN 0
#endif

static attn_ctx *create(attn_kernel_set set, int threads)
{
    attn_ctx_options o = ATTN_CTX_OPTIONS_INIT;
    attn_error err = {ATTN_OK, 0, ""};
    attn_ctx *ctx;

    o.kernels = set;
    o.threads = threads;
    CHECK_MSG(attn_ctx_create(&o, &ctx, &err) == ATTN_OK, "%s, %d threads: %s",
              attn_kernel_set_name(set), threads, err.text);
    return ctx;
}

/* Runs body(arg) in a child; its result, or the signal that ended it plus 128. */
static int in_child(int (*body)(void *arg), void *arg)
{
    int status;
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        alarm(CHILD_SECONDS);
        _exit(body(arg));
    }
    while (waitpid(child, &status, 0) < 0)
        assert_int_equal(errno, EINTR);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* 1 if one call on ctx gives the bits of the yardstick. Makes no assertion: for children and
 * threads. */
static int same_bits(const attn_ctx *ctx, problem *p, const attn_view *out)
{
    attn_forward_args a = problem_args(p, 0, p->b);

    a.out = *out;
    view_fill(out, 3);
    return attn_forward(ctx, &a, NULL) == ATTN_OK && view_same_bits(out, &p->out);
}

/* --- Making one ----------------------------------------------------------------------------- */

static void defaults(void **state)
{
    attn_ctx *ctx = NULL;
    attn_kernel_set best[4];

    (void)state;
    assert_int_equal(attn_ctx_create(NULL, &ctx, NULL), ATTN_OK);
    CHECK(sets_available(best) > 0);
    CHECK_MSG(attn_ctx_kernels(ctx) == best[0], "AUTO took %s",
              attn_kernel_set_name(attn_ctx_kernels(ctx)));
    CHECK(attn_ctx_threads(ctx) >= 1 && attn_ctx_threads(ctx) <= 1024);
    attn_ctx_destroy(ctx);
    attn_ctx_destroy(NULL);
}

static void set_and_threads_as_asked(void **state)
{
    static const int widths[] = {1, 2, 3, 16, 64, 1024};
    attn_kernel_set set = test_set(state);

    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        int width = UNDER_TSAN && widths[i] > 64 ? 64 : widths[i];
        attn_ctx *ctx = create(set, width);

        CHECK(attn_ctx_kernels(ctx) == set);
        CHECK_MSG(attn_ctx_threads(ctx) == width, "%d threads of %d", attn_ctx_threads(ctx), width);
        attn_ctx_destroy(ctx);
    }
    CHECK(attn_kernel_set_available(set) == 1);
}

static int one_cpu(void *arg)
{
    cpu_set_t cpus;
    attn_ctx *ctx = NULL;
    int cpu = 0;

    (void)arg;
    if (sched_getaffinity(0, sizeof cpus, &cpus) != 0)
        return CHILD_SKIPS;
    while (!CPU_ISSET(cpu, &cpus))
        cpu++;
    CPU_ZERO(&cpus);
    CPU_SET(cpu, &cpus);
    if (sched_setaffinity(0, sizeof cpus, &cpus) != 0)
        return CHILD_SKIPS;
    if (attn_ctx_create(NULL, &ctx, NULL) != ATTN_OK)
        return 1;
    int threads = attn_ctx_threads(ctx);
    attn_ctx_destroy(ctx);
    return threads == 1 ? 0 : 2;
}

static void default_width_follows_affinity(void **state)
{
    int result = in_child(one_cpu, NULL);

    (void)state;
    if (result == CHILD_SKIPS)
        skip();
    assert_int_equal(result, 0);
}

/* --- Threads that cannot be had ------------------------------------------------------------- */

typedef struct log_lines {
    int count;
    char last[240];
} log_lines;

static void keep_log(void *user, const char *text)
{
    log_lines *l = user;

    l->count++;
    snprintf(l->last, sizeof l->last, "%s", text);
}

static void *no_work(void *arg)
{
    return arg;
}

typedef struct scarce {
    problem p;
    attn_view out;
    rlim_t processes; /* the caller's own thread included */
} scarce;

/* As a user without other processes, who may have `processes` threads. */
static int few_threads(void *arg)
{
    scarce *s = arg;
    struct rlimit limit = {s->processes, s->processes};
    attn_ctx_options o = ATTN_CTX_OPTIONS_INIT;
    log_lines lines = {0, ""};
    pthread_t probe[4];
    rlim_t got = 1;
    attn_ctx *ctx;

    if (geteuid() == 0 && setuid(54321) != 0)
        return CHILD_SKIPS;
    if (setrlimit(RLIMIT_NPROC, &limit) != 0)
        return CHILD_SKIPS;
    while (got < 5 && pthread_create(&probe[got - 1], NULL, no_work, NULL) == 0)
        pthread_join(probe[got - 1], NULL), got++;
    if (s->processes == 1 && got != 1)
        return CHILD_SKIPS; /* the limit does not bind here */
    o.threads = 8;
    o.log = keep_log;
    o.log_user = &lines;
    if (attn_ctx_create(&o, &ctx, NULL) != ATTN_OK)
        return 1;
    if (attn_ctx_threads(ctx) != (int)s->processes)
        return 2;
    if (lines.count < 1 || lines.last[0] == 0 || strchr(lines.last, '\n'))
        return 3;
    if (!same_bits(ctx, &s->p, &s->out))
        return 4;
    attn_ctx_destroy(ctx);
    return 0;
}

static void missing_threads_are_a_log_line(void **state)
{
    scarce s;

    (void)state;
    if (UNDER_TSAN) /* has a thread of its own and refuses to start any after fork */
        skip();
    s.p = problem_make(ctx_for(ATTN_SET_AUTO, 1), ATTN_F32, POSITIONS, 2, 45, 700);
    s.out = problem_out(&s.p, 2, 45);
    for (s.processes = 1; s.processes <= 3; s.processes++) {
        int result = in_child(few_threads, &s);

        if (result == CHILD_SKIPS)
            skip();
        CHECK_MSG(result == 0, "%d threads allowed: %d", (int)s.processes, result);
    }
    arena_reset(&problem_mem);
}

/* --- Sharing -------------------------------------------------------------------------------- */

typedef struct sharer {
    pthread_t thread;
    const attn_ctx *ctx;
    problem p[3];
    attn_view out[3];
    pthread_barrier_t *start;
    int wrong;
} sharer;

enum { SHARERS = 8 };

static void *share(void *arg)
{
    sharer *s = arg;

    pthread_barrier_wait(s->start);
    for (int n = 0; n < 12; n++)
        s->wrong += !same_bits(s->ctx, &s->p[n % 3], &s->out[n % 3]);
    return NULL;
}

static void many_threads_share_a_context(void **state)
{
    static const int64_t queries[] = {3, 40, 100};
    attn_kernel_set set = test_set(state);
    const attn_ctx *one = ctx_for(set, 1);
    problem p[3];
    pthread_barrier_t start;

    for (int i = 0; i < 3; i++)
        p[i] = problem_make(one, i == 1 ? ATTN_F16 : ATTN_F32, i, 2, queries[i], 600);
    for (int width = 1; width <= 7; width += 3) {
        attn_ctx *ctx = create(set, width); /* used for the first time by all at once */
        sharer s[SHARERS];

        assert_int_equal(pthread_barrier_init(&start, NULL, SHARERS), 0);
        for (int t = 0; t < SHARERS; t++) {
            s[t] = (sharer){.ctx = ctx, .start = &start};
            for (int i = 0; i < 3; i++)
                s[t].p[i] = p[i], s[t].out[i] = problem_out(&p[i], 2, queries[i]);
            assert_int_equal(pthread_create(&s[t].thread, NULL, share, &s[t]), 0);
        }
        for (int t = 0; t < SHARERS; t++)
            pthread_join(s[t].thread, NULL);
        for (int t = 0; t < SHARERS; t++)
            CHECK_MSG(s[t].wrong == 0, "%d calls of 12 wrong, width %d", s[t].wrong, width);
        pthread_barrier_destroy(&start);
        attn_ctx_destroy(ctx);
    }
    arena_reset(&problem_mem);
}

static void *come_and_go(void *arg)
{
    int *wrong = arg;

    for (int n = 0; n < 20; n++) {
        attn_ctx *ctx = NULL;

        *wrong += attn_ctx_create(NULL, &ctx, NULL) != ATTN_OK;
        attn_ctx_destroy(ctx);
    }
    return NULL;
}

static void contexts_come_and_go(void **state)
{
    pthread_t threads[4];
    int wrong[4] = {0};

    (void)state;
    for (int t = 0; t < 4; t++)
        assert_int_equal(pthread_create(&threads[t], NULL, come_and_go, &wrong[t]), 0);
    for (int t = 0; t < 4; t++)
        pthread_join(threads[t], NULL);
    for (int t = 0; t < 4; t++)
        assert_int_equal(wrong[t], 0);
}

/* --- The caller's workers ------------------------------------------------------------------- */

typedef struct counted {
    size_t calls, tasks, widest;
} counted;

static void count_for(void *user, size_t n, void (*task)(void *arg, size_t i), void *arg)
{
    counted *c = user;

    c->calls++;
    c->tasks += n;
    c->widest = n > c->widest ? n : c->widest;
    for (size_t i = 0; i < n; i++)
        task(arg, i);
}

static void parallel_for_is_used(void **state)
{
    problem p = problem_make(ctx_for(ATTN_SET_AUTO, 1), ATTN_F32, PLAIN, 4, 200, 600);
    attn_ctx_options o = ATTN_CTX_OPTIONS_INIT;
    counted c = {0, 0, 0};
    attn_view out = problem_out(&p, 4, 200);
    attn_ctx *ctx;

    (void)state;
    o.threads = 5;
    o.parallel_for = count_for;
    o.parallel_user = &c;
    assert_int_equal(attn_ctx_create(&o, &ctx, NULL), ATTN_OK);
    assert_int_equal(attn_ctx_threads(ctx), 5);
    CHECK(same_bits(ctx, &p, &out));
    CHECK_MSG(c.calls > 0 && c.widest > 1, "%zu calls, %zu tasks at most", c.calls, c.widest);
    attn_ctx_destroy(ctx);
    arena_reset(&problem_mem);
}

/* --- Progress ------------------------------------------------------------------------------- */

typedef struct progress {
    atomic_int inside, overlaps;
    int calls, wrong, stop_at; /* cancel at that call; 0: never */
    uint64_t last, total;
} progress;

static int watch(void *user, uint64_t done, uint64_t total)
{
    progress *g = user;
    struct timespec moment = {0, 100000};

    if (atomic_fetch_add(&g->inside, 1) != 0)
        atomic_fetch_add(&g->overlaps, 1);
    g->calls++;
    g->wrong += done > total || done < g->last || total == 0 || (g->calls > 1 && total != g->total);
    g->last = done;
    g->total = total;
    nanosleep(&moment, NULL); /* long enough for another worker to come by */
    atomic_fetch_sub(&g->inside, 1);
    return g->stop_at && g->calls >= g->stop_at;
}

static attn_status watched(progress *g, int threads, attn_parallel_for workers, problem *p,
                           int *right)
{
    attn_ctx_options o = ATTN_CTX_OPTIONS_INIT;
    attn_error err = {ATTN_OK, 0, ""};
    attn_forward_args a = problem_args(p, 0, p->b);
    counted c = {0, 0, 0};
    attn_status st;
    attn_ctx *ctx;

    o.threads = threads;
    o.progress = watch;
    o.progress_user = g;
    o.parallel_for = workers;
    o.parallel_user = &c;
    assert_int_equal(attn_ctx_create(&o, &ctx, NULL), ATTN_OK);
    a.out = problem_out(p, p->b, p->tq);
    st = attn_forward(ctx, &a, &err);
    CHECK(st == ATTN_OK || (err.status == st && err.text[0]));
    *right = st != ATTN_OK || view_same_bits(&a.out, &p->out);
    g->stop_at = 0;
    g->calls = 0, g->last = 0;
    CHECK_MSG(same_bits(ctx, p, &a.out), "no right result after a cancelled call");
    attn_ctx_destroy(ctx);
    return st;
}

static void progress_counts_up(void **state)
{
    problem p = problem_make(ctx_for(ATTN_SET_AUTO, 1), ATTN_F32, ADDED, 6, 60, 700);

    (void)state;
    for (int threads = 1; threads <= 7; threads += 2)
        for (int own = 0; own < 2; own++) {
            progress g = {.stop_at = 0};
            int right;

            CHECK(watched(&g, threads, own ? count_for : NULL, &p, &right) == ATTN_OK && right);
            /* Others may finish everything while the first to report is held up. */
            CHECK_MSG(g.calls >= (threads == 1 ? 2 : 1), "called %d times", g.calls);
            CHECK_MSG(g.wrong == 0, "%d of %d calls count wrong", g.wrong, g.calls);
            CHECK_MSG(atomic_load(&g.overlaps) == 0, "calls overlap");
        }
    arena_reset(&problem_mem);
}

static void progress_cancels(void **state)
{
    problem p = problem_make(ctx_for(ATTN_SET_AUTO, 1), ATTN_F32, ADDED, 6, 60, 700);
    int cancelled = 0;

    (void)state;
    for (int stop = 1; stop <= 24; stop++) {
        progress g = {.stop_at = stop};
        int right;
        attn_status st = watched(&g, stop % 4 + 1, stop % 3 ? NULL : count_for, &p, &right);

        CHECK_MSG(st == ATTN_E_CANCELLED || (st == ATTN_OK && right), "cancelled at call %d: %s",
                  stop, attn_status_text(st));
        cancelled += st == ATTN_E_CANCELLED;
        CHECK_MSG(stop > 1 || st == ATTN_E_CANCELLED, "the first call does not cancel");
    }
    print_message("cancelled %d of 24 calls\n", cancelled);
    arena_reset(&problem_mem);
}

/* --- Fork ----------------------------------------------------------------------------------- */

typedef struct forked {
    attn_ctx *ctx;
    problem p;
    attn_view out;
} forked;

static int compute_in_child(void *arg)
{
    forked *f = arg;

    return same_bits(f->ctx, &f->p, &f->out) && same_bits(f->ctx, &f->p, &f->out) ? 0 : 1;
}

static forked fork_setup(attn_kernel_set set)
{
    forked f;

    f.p = problem_make(ctx_for(set, 1), ATTN_F32, POSITIONS, 3, 100, 700);
    f.ctx = create(set, 4);
    f.out = problem_out(&f.p, 3, 100);
    CHECK(same_bits(f.ctx, &f.p, &f.out)); /* the pool is running */
    return f;
}

static void a_forked_child_computes(void **state)
{
    if (UNDER_TSAN)
        skip();
    forked f = fork_setup(test_set(state));
    for (int n = 0; n < 8; n++)
        assert_int_equal(in_child(compute_in_child, &f), 0);
    CHECK(same_bits(f.ctx, &f.p, &f.out));
    attn_ctx_destroy(f.ctx);
    arena_reset(&problem_mem);
}

static int destroy_in_child(void *arg)
{
    forked *f = arg;

    attn_ctx_destroy(f->ctx);
    return 0;
}

static void a_forked_child_may_destroy(void **state)
{
    if (UNDER_TSAN)
        skip();
    forked f = fork_setup(test_set(state));
    for (int n = 0; n < 5; n++)
        assert_int_equal(in_child(destroy_in_child, &f), 0);
    CHECK(same_bits(f.ctx, &f.p, &f.out)); /* the parent's is untouched */
    attn_ctx_destroy(f.ctx);
    arena_reset(&problem_mem);
}

static atomic_int stop_busy, busy_wrong;

/* Short calls, so that the pool's lock is often held when the other thread forks. */
static void *busy(void *arg)
{
    forked f = *(forked *)arg;

    while (!atomic_load(&stop_busy))
        if (!same_bits(f.ctx, &f.p, &f.out))
            atomic_fetch_add(&busy_wrong, 1);
    return NULL;
}

enum { BUSY = 3 };

static void fork_while_another_thread_computes(void **state)
{
    /* TSan refuses; the allocator of ASan may be locked by another thread at the fork, for ever. */
    if (UNDER_TSAN || UNDER_ASAN)
        skip();
    forked f = fork_setup(test_set(state)), theirs[BUSY];
    problem small = problem_make(ctx_for(test_set(state), 1), ATTN_F32, PLAIN, 2, 5, 700);
    struct timespec pause = {0, 0};
    pthread_t thread[BUSY];
    int result = 0;

    atomic_store(&stop_busy, 0);
    atomic_store(&busy_wrong, 0);
    for (int t = 0; t < BUSY; t++) {
        theirs[t] = (forked){f.ctx, small, problem_out(&small, 2, 5)};
        assert_int_equal(pthread_create(&thread[t], NULL, busy, &theirs[t]), 0);
    }
    for (int n = 0; n < 40 && result == 0; n++) {
        pause.tv_nsec = n * 20000; /* at different moments of the others' calls */
        nanosleep(&pause, NULL);
        result = in_child(compute_in_child, &f);
    }
    atomic_store(&stop_busy, 1);
    for (int t = 0; t < BUSY; t++)
        pthread_join(thread[t], NULL);
    attn_ctx_destroy(f.ctx);
    arena_reset(&problem_mem);
    assert_int_equal(result, 0);
    assert_int_equal(atomic_load(&busy_wrong), 0);
}

int main(int argc, char **argv)
{
    static const test_case tests[] = {
        {"defaults", defaults, 0},
        {"set_and_threads_as_asked", set_and_threads_as_asked, 1},
        {"default_width_follows_affinity", default_width_follows_affinity, 0},
        {"missing_threads_are_a_log_line", missing_threads_are_a_log_line, 0},
        {"many_threads_share_a_context", many_threads_share_a_context, 1},
        {"contexts_come_and_go", contexts_come_and_go, 0},
        {"parallel_for_is_used", parallel_for_is_used, 0},
        {"progress_counts_up", progress_counts_up, 0},
        {"progress_cancels", progress_cancels, 0},
        {"a_forked_child_computes", a_forked_child_computes, 1},
        {"a_forked_child_may_destroy", a_forked_child_may_destroy, 1},
        {"fork_while_another_thread_computes", fork_while_another_thread_computes, 1},
    };

    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
