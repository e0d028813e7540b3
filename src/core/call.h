/* call.h: what every compute call does around its work: memory and plans. */
#ifndef ATTN_CORE_CALL_H
#define ATTN_CORE_CALL_H

#include "include/attn/attn.h"

/* Memory of a call: the caller's, or its own, which attn__end_workspace frees. */
typedef struct attn__workspace {
    char *memory;
    size_t size;
    void *own;
} attn__workspace;

/* Takes what the caller gave, `least` bytes or more; or, if that is NULL, allocates `wanted`, and
 * `least` if there is no memory for that. `plan` names the function that tells the size. */
attn_status attn__begin_workspace(attn__workspace *w, const attn_ctx *ctx, void *given, size_t size,
                                  size_t wanted, size_t least, const char *plan, attn_error *err);
void attn__end_workspace(const attn_ctx *ctx, attn__workspace *w);

/* Refuses a plan that is NULL or has no size. */
attn_status attn__check_plan(const attn_plan *plan, attn_error *err);

/* Fills as much of *plan as the caller knows of. `full` and `least` are bytes of workspace. */
void attn__fill_plan(attn_plan *plan, const attn_ctx *ctx, size_t full, size_t least,
                     size_t threads, const char *path, const char *why);

#endif
