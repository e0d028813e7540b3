/* arena.h: the arena of a pass. */
#ifndef ATTN_NN_ARENA_H
#define ATTN_NN_ARENA_H

#include "src/nn/pass.h"

/* Fills the pointers of a run whose sides have their numbers (half, rows, longest), from `base` on;
 * NULL: only counts. The bytes taken; SIZE_MAX if they do not fit. */
size_t attn__lay_out(attn__run *r, char *base);

/* The scratch memory that products and attention calls of such a run, or of a smaller one, want;
 * SIZE_MAX: there is no memory to count with. */
size_t attn__estimate_work(const attn__run *r);

#endif
