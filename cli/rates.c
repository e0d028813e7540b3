/* rates.c: multiply-add peak and memory read rate of one core.
 *
 * Twelve independent chains keep two multiply-add units of four cycles latency busy, with room to
 * spare. The functions for instruction sets above the compiler's default carry target attributes,
 * so that no file needs flags of its own; only sets the library found available are called. */
#define _DEFAULT_SOURCE /* madvise */

#include "cli/rates.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#if defined(__unix__)
#include <sys/mman.h>
#endif

#include "cli/console.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define HAVE_X86 1
#else
#define HAVE_X86 0
#endif
#if defined(__aarch64__)
#include <arm_neon.h>
#define HAVE_NEON 1
#else
#define HAVE_NEON 0
#endif

enum { PEAK_STEPS = 100000 }; /* about a quarter of a millisecond */

static const double peak_seconds = 0.03;

/* Results go through here, so that no compiler can leave the work out. */
static volatile float result;

#if HAVE_X86
#define NAME(f) f##_avx512
#define TARGET __attribute__((target("avx512f")))
#define VEC __m512
#define LANES 16
#define SET _mm512_set1_ps
#define FMA _mm512_fmadd_ps
#define ADD _mm512_add_ps
#define LOAD _mm512_load_ps
#define LOWEST _mm512_cvtss_f32
#include "cli/rates_loops.h"

#define NAME(f) f##_avx2
#define TARGET __attribute__((target("avx2,fma")))
#define VEC __m256
#define LANES 8
#define SET _mm256_set1_ps
#define FMA _mm256_fmadd_ps
#define ADD _mm256_add_ps
#define LOAD _mm256_load_ps
#define LOWEST _mm256_cvtss_f32
#include "cli/rates_loops.h"
#endif

#if HAVE_NEON
#define NAME(f) f##_neon
#define TARGET
#define VEC float32x4_t
#define LANES 4
#define SET vdupq_n_f32
#define FMA(a, b, c) vfmaq_f32(c, a, b)
#define ADD vaddq_f32
#define LOAD vld1q_f32
#define LOWEST(a) vgetq_lane_f32(a, 0)
#include "cli/rates_loops.h"
#endif

/* Plain C: 48 chains in an array, which compilers turn into vectors if they can. */
static double peak_scalar(void)
{
    enum { CHAINS = 48 };
    float a[CHAINS];
    float sum = 0;

    for (int j = 0; j < CHAINS; j++)
        a[j] = (float)j;
    for (long i = 0; i < PEAK_STEPS / 2; i++)
        for (int j = 0; j < CHAINS; j++)
            a[j] = a[j] * 0.999f + 1e-3f;
    for (int j = 0; j < CHAINS; j++)
        sum += a[j];
    result = sum;
    return 2.0 * CHAINS * (PEAK_STEPS / 2);
}

/* Whole words, combined by exclusive or: float additions, one by one, would take longer than
 * memory. */
static void stream_scalar(const float *p, size_t n)
{
    uint64_t a = 0, b = 0, c = 0, d = 0;

    for (size_t i = 0; i < n; i += 8) {
        uint64_t words[4];
        memcpy(words, p + i, sizeof words);
        a ^= words[0], b ^= words[1], c ^= words[2], d ^= words[3];
    }
    result = (float)((a ^ b ^ c ^ d) & 1);
}

typedef struct loops {
    double (*peak)(void);
    void (*stream)(const float *p, size_t n);
} loops;

static loops loops_of(attn_kernel_set set)
{
#if HAVE_X86
    if (set == ATTN_SET_AVX512)
        return (loops){peak_avx512, stream_avx512};
    if (set == ATTN_SET_AVX2)
        return (loops){peak_avx2, stream_avx2};
#endif
#if HAVE_NEON
    if (set == ATTN_SET_NEON)
        return (loops){peak_neon, stream_neon};
#endif
    (void)set;
    return (loops){peak_scalar, stream_scalar};
}

double cli_peak_gflops(attn_kernel_set set)
{
    loops loop = loops_of(set);
    double best = 0, end = cli_clock() + peak_seconds;

    do {
        double start = cli_clock();
        double flops = loop.peak();
        double rate = flops / (cli_clock() - start) / 1e9;
        best = rate > best ? rate : best;
    } while (cli_clock() < end);
    return best;
}

static float *stream_memory;

double cli_stream_gb_s(attn_kernel_set set)
{
    const size_t n = (size_t)64 << 20;
    loops loop = loops_of(set);
    double best = 0;

    if (!stream_memory) {
        stream_memory = aligned_alloc((size_t)2 << 20, n * sizeof *stream_memory);
        if (!stream_memory)
            return 0;
#ifdef MADV_HUGEPAGE
        /* In small pages the sweep waits for page tables, and is no limit: caches of the library
         * lie in large ones. */
        (void)madvise(stream_memory, n * sizeof *stream_memory, MADV_HUGEPAGE);
#endif
        /* Untouched pages would all be the same page of zeros, from the cache. */
        for (size_t i = 0; i < n; i++)
            stream_memory[i] = 1;
    }
    for (int sweep = 0; sweep < 2; sweep++) {
        double start = cli_clock(), rate;
        loop.stream(stream_memory, n);
        rate = (double)(n * sizeof *stream_memory) / (cli_clock() - start) / 1e9;
        best = rate > best ? rate : best;
    }
    return best;
}

void cli_stream_release(void)
{
    free(stream_memory);
    stream_memory = NULL;
}
