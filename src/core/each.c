/* each.c: see each.h. */
#include "src/core/each.h"

#include "src/base/ctx.h"
#include "src/base/mem.h"
#include "src/base/pool.h"
#include "src/kernels/cpu.h"

#include <stdatomic.h>

enum { SMALL = 1 << 14 }; /* elements: some microseconds */

typedef struct job {
    size_t n;
    void (*item)(const void *arg, size_t i);
    const void *arg;
    atomic_size_t next;
} job;

static void work_on(void *arg, size_t worker)
{
    job *j = arg;
    uint64_t word = attn__fp_default();
    size_t i;

    (void)worker;
    while ((i = atomic_fetch_add(&j->next, 1)) < j->n)
        j->item(j->arg, i);
    attn__fp_restore(word);
}

void attn__each(const attn_ctx *ctx, size_t n, size_t work, void (*item)(const void *arg, size_t i),
                const void *arg)
{
    job j = {.n = n, .item = item, .arg = arg};
    size_t width = work < SMALL ? 1 : attn__min(n, (size_t)ctx->threads);

    atomic_init(&j.next, 0);
    if (width <= 1)
        work_on(&j, 0);
    else
        attn__parallel(ctx, width, work_on, &j);
}
