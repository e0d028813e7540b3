/* platform.c: the only file of base that knows which operating system this is. */
#define _GNU_SOURCE /* sched_getaffinity, madvise */
#include "src/base/platform.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#if defined(__linux__)
#include <sys/mman.h>
#endif
#include <unistd.h>

#if defined(__linux__)
/* CPUs that a cgroup file grants: "quota period" (v2, "max" for none) or a lone quota (v1, -1 for
 * none) with its period in a second file. 0: no limit found. */
static double quota_from(const char *path, const char *period_path)
{
    double quota = 0, period = 0;
    FILE *f = fopen(path, "re");

    if (!f)
        return 0;
    int n = fscanf(f, "%lf %lf", &quota, &period);
    fclose(f);
    if (n == 1 && period_path && (f = fopen(period_path, "re"))) {
        n += fscanf(f, "%lf", &period) == 1;
        fclose(f);
    }
    return n == 2 && quota > 0 && period > 0 ? quota / period : 0;
}

/* The quota of this process's own cgroup, or of the root as a container sees it. */
static double cgroup_cpus(void)
{
    char line[512], path[640], period[640];
    double cpus = quota_from("/sys/fs/cgroup/cpu.max", NULL);
    FILE *f = fopen("/proc/self/cgroup", "re");

    if (cpus == 0)
        cpus = quota_from("/sys/fs/cgroup/cpu/cpu.cfs_quota_us",
                          "/sys/fs/cgroup/cpu/cpu.cfs_period_us");
    while (f && cpus == 0 && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        if (strncmp(line, "0::", 3) == 0) {
            snprintf(path, sizeof path, "/sys/fs/cgroup%s/cpu.max", line + 3);
            cpus = quota_from(path, NULL);
        } else if (strstr(line, ":cpu,cpuacct:") || strstr(line, ":cpu:")) {
            const char *group = strchr(strchr(line, ':') + 1, ':') + 1;
            snprintf(path, sizeof path, "/sys/fs/cgroup/cpu%s/cpu.cfs_quota_us", group);
            snprintf(period, sizeof period, "/sys/fs/cgroup/cpu%s/cpu.cfs_period_us", group);
            cpus = quota_from(path, period);
        }
    }
    if (f)
        fclose(f);
    return cpus;
}

static int affinity_cpus(void)
{
    cpu_set_t set;

    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
}
#else
static double cgroup_cpus(void)
{
    return 0;
}

static int affinity_cpus(void)
{
    return 0;
}
#endif

int attn__usable_cpus(void)
{
    double quota = cgroup_cpus();
    int cpus = affinity_cpus();

    if (cpus < 1)
        cpus = (int)sysconf(_SC_NPROCESSORS_ONLN);
    if (quota > 0 && quota <= cpus - 1)
        cpus = (int)quota + (quota > (int)quota); /* rounded up */
    return cpus < 1 ? 1 : cpus;
}

size_t attn__l2_size(void)
{
    long size = 0;

#if defined(_SC_LEVEL2_CACHE_SIZE)
    size = sysconf(_SC_LEVEL2_CACHE_SIZE);
#endif
    return size > 0 ? (size_t)size : (size_t)1 << 20;
}

int64_t attn__process(void)
{
    return getpid();
}

void attn__want_large_pages(void *memory, size_t size)
{
#if defined(__linux__)
    (void)madvise(memory, size, MADV_HUGEPAGE); /* no is an answer: the memory is there */
#else
    (void)memory, (void)size;
#endif
}

void attn__yield(void)
{
    sched_yield();
}

void attn__pause(void)
{
#if defined __x86_64__ || defined __i386__
    __builtin_ia32_pause();
#elif defined __aarch64__
    __asm__ volatile("yield");
#endif
}
