/* cpu.h: what this processor and its operating system allow, and the floating-point environment. */
#ifndef ATTN_KERNELS_CPU_H
#define ATTN_KERNELS_CPU_H

#include "include/attn/attn.h"

#include <stdbool.h>

/* True if code of this set may run here. */
bool attn__cpu_has(attn_kernel_set set);

/* Sets this thread's floating-point control word to the default (round to nearest, denormals kept,
 * no traps, no flags) and returns what it was; the other puts that back, flags included. */
uint64_t attn__fp_default(void);
void attn__fp_restore(uint64_t word);

#endif
