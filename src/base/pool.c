/* pool.c: a pool of pthreads. Calls from several threads share the workers: each call queues one
 * job and works on it itself, so no call waits for another one's work. */
#define _POSIX_C_SOURCE 200809L
#include "src/base/pool.h"

#include "src/base/ctx.h"
#include "src/base/mem.h"
#include "src/base/platform.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>

/* A thread that sleeps takes some ten microseconds to come back, as long as a small call takes; so
 * it looks out for so long first, if no other worker can want its CPU. Beam search on two threads
 * takes a tenth less time so. */
enum { LOOKS = 4000 };

typedef struct job {
    struct job *next;
    attn__work_fn work;
    void *arg;
    size_t width, taken;   /* calls wanted and begun; call 0 is the caller's */
    atomic_size_t running; /* begun by workers and not ended */
} job;

struct attn__pool {
    pthread_mutex_t lock;
    pthread_cond_t wake, ended; /* a job has calls to give; a worker ended a call */
    job *jobs;                  /* those with calls left to give */
    atomic_int job_count;
    int looks; /* before a thread sleeps */
    bool closing;
    int64_t process; /* the threads live in this process only */
    int threads;
    pthread_t thread[];
};

static void unlink_job(attn__pool *pool, const job *j)
{
    for (job **p = &pool->jobs; *p; p = &(*p)->next) {
        if (*p == j) {
            *p = j->next;
            atomic_fetch_sub(&pool->job_count, 1);
            return;
        }
    }
}

/* Both are called and return with the lock, and only make it likely that there is nothing to wait
 * for. */
static void look_for_job(attn__pool *pool)
{
    if (pool->jobs || pool->closing)
        return;
    pthread_mutex_unlock(&pool->lock);
    for (int i = 0; i < pool->looks && atomic_load(&pool->job_count) == 0; i++)
        attn__pause();
    pthread_mutex_lock(&pool->lock);
}

static void look_for_end(attn__pool *pool, const job *j)
{
    if (j->running == 0)
        return;
    pthread_mutex_unlock(&pool->lock);
    for (int i = 0; i < pool->looks && atomic_load(&j->running) > 0; i++)
        attn__pause();
    pthread_mutex_lock(&pool->lock);
}

static void *worker(void *arg)
{
    attn__pool *pool = arg;

    pthread_mutex_lock(&pool->lock);
    for (;;) {
        job *j;
        size_t index;

        look_for_job(pool);
        while (!pool->jobs && !pool->closing)
            pthread_cond_wait(&pool->wake, &pool->lock);
        if (pool->closing)
            break;
        j = pool->jobs;
        index = j->taken++;
        j->running++;
        if (j->taken == j->width)
            unlink_job(pool, j);
        pthread_mutex_unlock(&pool->lock);
        j->work(j->arg, index);
        pthread_mutex_lock(&pool->lock);
        if (--j->running == 0)
            pthread_cond_broadcast(&pool->ended);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

/* Workers must not run the host's signal handlers. */
static int start_thread(attn__pool *pool)
{
    sigset_t all, old;
    int failed;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    failed = pthread_create(&pool->thread[pool->threads], NULL, worker, pool);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return failed;
}

attn__pool *attn__pool_create(const attn_ctx *ctx, int workers, int *started)
{
    attn__pool *pool = attn__new(ctx, sizeof *pool + (size_t)workers * sizeof *pool->thread);

    *started = 0;
    if (!pool)
        return NULL;
    if (pthread_mutex_init(&pool->lock, NULL) != 0)
        goto no_lock;
    if (pthread_cond_init(&pool->wake, NULL) != 0)
        goto no_wake;
    if (pthread_cond_init(&pool->ended, NULL) != 0)
        goto no_ended;
    pool->process = attn__process();
    pool->looks = workers < attn__usable_cpus() ? LOOKS : 0;
    while (pool->threads < workers && start_thread(pool) == 0)
        pool->threads++;
    *started = pool->threads;
    return pool;
no_ended:
    pthread_cond_destroy(&pool->wake);
no_wake:
    pthread_mutex_destroy(&pool->lock);
no_lock:
    attn__free(ctx, pool);
    return NULL;
}

void attn__pool_destroy(const attn_ctx *ctx, attn__pool *pool)
{
    if (!pool)
        return;
    if (pool->process == attn__process()) { /* a forked child has neither threads nor usable locks
                                             */
        pthread_mutex_lock(&pool->lock);
        pool->closing = true;
        pthread_cond_broadcast(&pool->wake);
        pthread_mutex_unlock(&pool->lock);
        for (int i = 0; i < pool->threads; i++)
            pthread_join(pool->thread[i], NULL);
        pthread_cond_destroy(&pool->ended);
        pthread_cond_destroy(&pool->wake);
        pthread_mutex_destroy(&pool->lock);
    }
    attn__free(ctx, pool);
}

void attn__parallel(const attn_ctx *ctx, size_t width, attn__work_fn work, void *arg)
{
    attn__pool *pool = ctx->pool;
    job j = {.work = work, .arg = arg, .width = width, .taken = 1};

    if (ctx->parallel_for && width > 1) {
        ctx->parallel_for(ctx->parallel_user, width, work, arg);
        return;
    }
    if (!pool || width <= 1 || pool->process != attn__process()) {
        work(arg, 0);
        return;
    }
    pthread_mutex_lock(&pool->lock);
    j.next = pool->jobs;
    pool->jobs = &j;
    atomic_fetch_add(&pool->job_count, 1);
    if (width == 2)
        pthread_cond_signal(&pool->wake);
    else
        pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);

    work(arg, 0);

    pthread_mutex_lock(&pool->lock);
    if (j.taken < j.width)
        unlink_job(pool, &j);
    look_for_end(pool, &j);
    while (j.running > 0)
        pthread_cond_wait(&pool->ended, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
}
