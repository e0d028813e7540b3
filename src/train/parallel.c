/* parallel.c: see parallel.h. */
#include "src/train/parallel.h"

#include "src/base/ctx.h"
#include "src/base/mem.h"
#include "src/base/pool.h"
#include "src/kernels/cpu.h"

#include <stdatomic.h>

typedef struct pieces {
    void (*work)(void *arg, size_t i);
    void *arg;
    size_t count;
    atomic_size_t next;
} pieces;

static void take_pieces(void *arg, size_t worker)
{
    pieces *p = arg;
    uint64_t word = attn__fp_default();
    size_t i;

    (void)worker;
    while ((i = atomic_fetch_add(&p->next, 1)) < p->count)
        p->work(p->arg, i);
    attn__fp_restore(word);
}

void attn__every(const attn_ctx *ctx, size_t n, void (*work)(void *arg, size_t i), void *arg)
{
    pieces p = {.work = work, .arg = arg, .count = n};

    atomic_init(&p.next, 0);
    attn__parallel(ctx, attn__min((size_t)ctx->threads, n), take_pieces, &p);
}
