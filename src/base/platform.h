/* platform.h: questions to the operating system. */
#ifndef ATTN_BASE_PLATFORM_H
#define ATTN_BASE_PLATFORM_H

#include <stddef.h>
#include <stdint.h>

/* CPUs this process may use: the smaller of its affinity set and its cgroup quota, rounded up; at
 * least 1. */
int attn__usable_cpus(void);

/* Bytes of a core's own second-level cache, or a usual size where nobody says. */
size_t attn__l2_size(void);

/* A number that differs between a process and the children it forks. */
int64_t attn__process(void);

/* Asks for memory, whole large pages that nothing has touched yet, to be backed by large pages. */
void attn__want_large_pages(void *memory, size_t size);

/* Lets another thread run. */
void attn__yield(void);

/* Inside a loop that waits for another thread: some ten nanoseconds that cost little power. */
void attn__pause(void);

#endif
