/* each.h: work that is cut into independent items, for a context's workers. */
#ifndef ATTN_CORE_EACH_H
#define ATTN_CORE_EACH_H

#include "include/attn/attn.h"

/* Calls item(arg, i) once for each i < n, on any of the context's workers, under the default
 * floating-point environment; one worker alone if `work`, about the number of elements handled, is
 * not worth waking others. Items must write to different places. */
void attn__each(const attn_ctx *ctx, size_t n, size_t work, void (*item)(const void *arg, size_t i),
                const void *arg);

#endif
