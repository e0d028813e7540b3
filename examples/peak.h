/* peak.h: the most multiply-adds a second this machine can do, to compare an example's speed with.
 *
 * Every worker runs twelve independent chains of fused multiply-adds in the widest vectors the
 * given kernel set uses, and nothing else: no memory, no softmax. No attention can be faster.
 * Twelve chains hide the latency of two vector units (4 steps each) with some to spare; they start
 * from different numbers, or the compiler would find that they are one. The loops are written out
 * because an array of chains would live in memory where a compiler does not unroll.
 */
#ifndef ATTN_EXAMPLES_PEAK_H
#define ATTN_EXAMPLES_PEAK_H

#include <attn/attn.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

enum { peak_steps = 1000000, peak_most_threads = 1024 };

/* Flops that one step of all chains makes, per lane. */
enum { peak_flops_a_lane = 2 * 12 };

static double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The loop of a kernel set: its vectors, how a number fills one, and what multiplies and adds, and
 * adds. It returns a sum of its chains, so that the compiler cannot drop them. */
#define PEAK_LOOP(target, name, vector, set1, fma, add)                                            \
    target static float name(void)                                                                 \
    {                                                                                              \
        vector m = set1(0.999f), c = set1(1e-3f);                                                  \
        vector x0 = set1(0.0f), x1 = set1(1.0f), x2 = set1(2.0f), x3 = set1(3.0f);                 \
        vector x4 = set1(4.0f), x5 = set1(5.0f), x6 = set1(6.0f), x7 = set1(7.0f);                 \
        vector x8 = set1(8.0f), x9 = set1(9.0f), xa = set1(10.0f), xb = set1(11.0f);               \
        float first;                                                                               \
        for (long n = 0; n < peak_steps; n++) {                                                    \
            x0 = fma(x0, m, c), x1 = fma(x1, m, c), x2 = fma(x2, m, c), x3 = fma(x3, m, c);        \
            x4 = fma(x4, m, c), x5 = fma(x5, m, c), x6 = fma(x6, m, c), x7 = fma(x7, m, c);        \
            x8 = fma(x8, m, c), x9 = fma(x9, m, c), xa = fma(xa, m, c), xb = fma(xb, m, c);        \
        }                                                                                          \
        x0 = add(x0, x1), x2 = add(x2, x3), x4 = add(x4, x5), x6 = add(x6, x7);                    \
        x8 = add(x8, x9), xa = add(xa, xb);                                                        \
        x0 = add(add(add(x0, x2), add(x4, x6)), add(x8, xa));                                      \
        memcpy(&first, &x0, sizeof first);                                                         \
        return first;                                                                              \
    }

/* The scalar set multiplies and adds in two steps, one number at a time. */
#define PEAK_ONE(x) x
#define PEAK_TWO_STEPS(x, m, c) ((x) * (m) + (c))
#define PEAK_ADD(x, y) ((x) + (y))

/* clang-format off */
PEAK_LOOP(, peak_loop_scalar, float, PEAK_ONE, PEAK_TWO_STEPS, PEAK_ADD)
#if defined(__x86_64__)
PEAK_LOOP(__attribute__((target("avx512f"))), peak_loop_avx512, __m512, _mm512_set1_ps,
          _mm512_fmadd_ps, _mm512_add_ps)
PEAK_LOOP(__attribute__((target("avx2,fma"))), peak_loop_avx2, __m256, _mm256_set1_ps,
          _mm256_fmadd_ps, _mm256_add_ps)
#elif defined(__aarch64__)
#define PEAK_FMA_NEON(x, m, c) vfmaq_f32(c, x, m)
PEAK_LOOP(, peak_loop_neon, float32x4_t, vdupq_n_f32, PEAK_FMA_NEON, vaddq_f32)
#endif
/* clang-format on */

typedef struct peak_worker {
    attn_kernel_set set;
    float result;
    double rate; /* GF/s */
} peak_worker;

static void *peak_work(void *arg)
{
    peak_worker *w = arg;
    double lanes = 1, start = seconds_now();

    switch (w->set) {
#if defined(__x86_64__)
    case ATTN_SET_AVX512:
        w->result = peak_loop_avx512();
        lanes = 16;
        break;
    case ATTN_SET_AVX2:
        w->result = peak_loop_avx2();
        lanes = 8;
        break;
#elif defined(__aarch64__)
    case ATTN_SET_NEON:
        w->result = peak_loop_neon();
        lanes = 4;
        break;
#endif
    default:
        w->result = peak_loop_scalar();
    }
    w->rate = lanes * peak_flops_a_lane * peak_steps / (seconds_now() - start) / 1e9;
    return NULL;
}

/* GF/s of `threads` workers at once, the best of thirty rounds of a millisecond or two: rounds that
 * short find a moment that no other program disturbs. */
static double peak_gflops(attn_kernel_set set, int threads)
{
    peak_worker w[peak_most_threads] = {0};
    pthread_t id[peak_most_threads];
    double best = 0;
    volatile float used = 0;

    if (threads > peak_most_threads)
        threads = peak_most_threads;
    for (int round = 0; round < 30; round++) {
        double rate = 0;
        int made = 0;
        for (int i = 0; i < threads; i++)
            w[i].set = set;
        while (made < threads - 1 && !pthread_create(&id[made], NULL, peak_work, &w[made]))
            made++;
        peak_work(&w[made]); /* the caller is a worker too */
        for (int i = 0; i < made; i++)
            pthread_join(id[i], NULL);
        for (int i = 0; i <= made; i++) {
            rate += w[i].rate;
            used = used + w[i].result;
        }
        best = rate > best ? rate : best;
    }
    return best;
}

#endif
