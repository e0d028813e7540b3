/* parallel.h: pieces of work that do not depend on one another. */
#ifndef ATTN_TRAIN_PARALLEL_H
#define ATTN_TRAIN_PARALLEL_H

#include "include/attn/attn.h"

/* Calls work(arg, i) once for each piece i in 0..n-1, on the context's workers, in any order, under
 * the default floating-point control word. What a piece computes must not depend on the order. */
void attn__every(const attn_ctx *ctx, size_t n, void (*work)(void *arg, size_t i), void *arg);

#endif
