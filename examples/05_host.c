/* 05_host.c: attn inside a program that has its own memory, its own threads and a user who may
 * press stop. The library allocates only through the host, computes on the host's workers,
 * allocates nothing at all in a call that gets a workspace, and can be cancelled.
 */
#define _POSIX_C_SOURCE 200809L

#include "example.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

enum { heads = 4, rows = 1500, width = 64, host_threads = 3 };

/* --- The host's memory: counts what is asked of it ------------------------------------------ */

typedef struct heap {
    atomic_long calls, in_use;
} heap;

static void *heap_alloc(void *user, size_t size, size_t align)
{
    heap *h = user;
    void *memory;

    if (posix_memalign(&memory, align, size ? size : 1))
        return NULL;
    h->calls++;
    h->in_use++;
    return memory;
}

static void heap_free(void *user, void *memory)
{
    heap *h = user;
    h->in_use--;
    free(memory);
}

/* --- The host's workers: here made for each call; a real host has a pool -------------------- */

typedef struct batch {
    size_t n;
    atomic_size_t next;
    void (*task)(void *arg, size_t i);
    void *arg;
} batch;

static void *work(void *arg)
{
    batch *b = arg;
    for (size_t i; (i = b->next++) < b->n;)
        b->task(b->arg, i);
    return NULL;
}

static void host_parallel_for(void *user, size_t n, void (*task)(void *arg, size_t i), void *arg)
{
    batch b = {.n = n, .task = task, .arg = arg};
    pthread_t id[host_threads - 1];
    int made = 0;

    while (made < host_threads - 1 && !pthread_create(&id[made], NULL, work, &b))
        made++;
    work(&b);
    for (int i = 0; i < made; i++)
        pthread_join(id[i], NULL);
    ++*(int *)user; /* how often we were asked */
}

/* --- The user: presses stop when `stop_at` percent are done --------------------------------- */

typedef struct user {
    double stop_at;
    int seen;
} user;

static int progress(void *arg, uint64_t done, uint64_t total)
{
    user *u = arg;
    u->seen++;
    return 100.0 * (double)done >= u->stop_at * (double)total;
}

int main(void)
{
    heap h = {0};
    int parallel_calls = 0;
    user u = {.stop_at = 1000};
    attn_ctx_options options = ATTN_CTX_OPTIONS_INIT;
    attn_ctx *ctx, *own;
    attn_error err;

    options.alloc = heap_alloc;
    options.free = heap_free;
    options.alloc_user = &h;
    options.parallel_for = host_parallel_for;
    options.parallel_user = &parallel_calls;
    options.threads = host_threads;
    options.progress = progress;
    options.progress_user = &u;
    must(attn_ctx_create(&options, &ctx, &err), &err);
    must(attn_ctx_create(NULL, &own, &err), &err);

    size_t n = (size_t)heads * rows * width;
    float *q = numbers(n, 1), *k = numbers(n, 2), *v = numbers(n, 3);
    float *out = numbers(n, 4), *out_own = numbers(n, 5);
    attn_forward_args a = ATTN_FORWARD_ARGS_INIT;
    a.q = attn_view_bhsd(q, ATTN_F32, 1, heads, rows, width);
    a.k = attn_view_bhsd(k, ATTN_F32, 1, heads, rows, width);
    a.v = attn_view_bhsd(v, ATTN_F32, 1, heads, rows, width);
    a.out = attn_view_bhsd(out, ATTN_F32, 1, heads, rows, width);

    attn_plan plan = ATTN_PLAN_INIT;
    must(attn_forward_plan(ctx, &a, &plan, &err), &err);
    printf("plan: %s kernels, path %s, %d threads, workspace %zu KB\n      (%s)\n",
           attn_kernel_set_name(plan.kernels), plan.path, plan.threads, plan.workspace_size / 1024,
           plan.why);

    long before = h.calls;
    must(attn_forward(ctx, &a, &err), &err);
    printf("without a workspace: %ld allocations in the call\n", h.calls - before);

    a.workspace = aligned_alloc(64, (plan.workspace_size + 63) / 64 * 64);
    a.workspace_size = plan.workspace_size;
    before = h.calls;
    must(attn_forward(ctx, &a, &err), &err);
    printf("with a workspace:    %ld allocations in the call\n", h.calls - before);
    printf("the host's workers were used %d times, progress was told %d times\n", parallel_calls,
           u.seen);

    a.out.data = out_own;
    a.workspace = (free(a.workspace), NULL);
    a.workspace_size = 0;
    must(attn_forward(own, &a, &err), &err);
    printf("same bits as with attn's own workers and memory: %s\n",
           memcmp(out, out_own, n * sizeof *out) ? "no" : "yes");

    u.stop_at = 30;
    attn_status status = attn_forward(ctx, &a, &err);
    printf("stopped at 30 %%: \"%s\"\n", attn_status_text(status));

    attn_ctx_destroy(own);
    attn_ctx_destroy(ctx);
    printf("allocations still held after the end: %ld\n", h.in_use);
    free(q);
    free(k);
    free(v);
    free(out);
    free(out_own);
    return 0;
}
