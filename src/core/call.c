/* call.c: see call.h. */
#include "src/core/call.h"

#include "src/base/ctx.h"
#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/kernels/kernels.h"

#include <stdio.h>
#include <string.h>

attn_status attn__begin_workspace(attn__workspace *w, const attn_ctx *ctx, void *given, size_t size,
                                  size_t wanted, size_t least, const char *plan, attn_error *err)
{
    *w = (attn__workspace){.memory = given, .size = size};
    if (given) {
        if ((uintptr_t)given % 64 != 0)
            return attn__fail(err, ATTN_E_ARGUMENT, 0, "workspace: not aligned to 64 bytes");
        if (size < least)
            return attn__fail(err, ATTN_E_ARGUMENT, 0,
                              "workspace_size: %zu, expected at least %zu (see %s)", size, least,
                              plan);
        return ATTN_OK;
    }
    w->size = wanted;
    w->own = attn__alloc(ctx, wanted);
    if (!w->own && least < wanted) {
        w->size = least;
        w->own = attn__alloc(ctx, least);
    }
    w->memory = w->own;
    if (!w->own)
        return attn__fail(err, ATTN_E_MEMORY, 0, "workspace: no memory for %zu bytes", w->size);
    return ATTN_OK;
}

void attn__end_workspace(const attn_ctx *ctx, attn__workspace *w)
{
    attn__free(ctx, w->own);
}

attn_status attn__check_plan(const attn_plan *plan, attn_error *err)
{
    if (!plan || plan->struct_size < sizeof plan->struct_size)
        return attn__fail(err, ATTN_E_ARGUMENT, 0,
                          "plan: NULL or struct_size not set (use ATTN_PLAN_INIT)");
    return ATTN_OK;
}

void attn__fill_plan(attn_plan *plan, const attn_ctx *ctx, size_t full, size_t least,
                     size_t threads, const char *path, const char *why)
{
    attn_plan all = {.struct_size = sizeof all};

    all.workspace_size = full;
    all.workspace_least = least;
    all.kernels = ctx->kernels->set;
    all.threads = (int)threads;
    all.path = path;
    snprintf(all.why, sizeof all.why, "%s", why);
    if (plan->struct_size < sizeof all)
        all.struct_size = plan->struct_size;
    memcpy(plan, &all, all.struct_size);
}
