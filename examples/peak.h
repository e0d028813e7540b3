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

#if defined(__x86_64__)
/* Each loop returns a sum of its chains, so that the compiler cannot drop them. */
__attribute__((target("avx512f"))) static float peak_loop_avx512(void)
{
    __m512 m = _mm512_set1_ps(0.999f), c = _mm512_set1_ps(1e-3f);
    __m512 x0 = _mm512_set1_ps(0.0f), x1 = _mm512_set1_ps(1.0f), x2 = _mm512_set1_ps(2.0f);
    __m512 x3 = _mm512_set1_ps(3.0f), x4 = _mm512_set1_ps(4.0f), x5 = _mm512_set1_ps(5.0f);
    __m512 x6 = _mm512_set1_ps(6.0f), x7 = _mm512_set1_ps(7.0f), x8 = _mm512_set1_ps(8.0f);
    __m512 x9 = _mm512_set1_ps(9.0f), xa = _mm512_set1_ps(10.0f), xb = _mm512_set1_ps(11.0f);
    for (long n = 0; n < peak_steps; n++) {
        x0 = _mm512_fmadd_ps(x0, m, c), x1 = _mm512_fmadd_ps(x1, m, c);
        x2 = _mm512_fmadd_ps(x2, m, c), x3 = _mm512_fmadd_ps(x3, m, c);
        x4 = _mm512_fmadd_ps(x4, m, c), x5 = _mm512_fmadd_ps(x5, m, c);
        x6 = _mm512_fmadd_ps(x6, m, c), x7 = _mm512_fmadd_ps(x7, m, c);
        x8 = _mm512_fmadd_ps(x8, m, c), x9 = _mm512_fmadd_ps(x9, m, c);
        xa = _mm512_fmadd_ps(xa, m, c), xb = _mm512_fmadd_ps(xb, m, c);
    }
    x0 = _mm512_add_ps(x0, x1), x2 = _mm512_add_ps(x2, x3), x4 = _mm512_add_ps(x4, x5);
    x6 = _mm512_add_ps(x6, x7), x8 = _mm512_add_ps(x8, x9), xa = _mm512_add_ps(xa, xb);
    x0 = _mm512_add_ps(_mm512_add_ps(x0, x2), _mm512_add_ps(x4, x6));
    x0 = _mm512_add_ps(x0, _mm512_add_ps(x8, xa));
    return _mm512_cvtss_f32(x0);
}

__attribute__((target("avx2,fma"))) static float peak_loop_avx2(void)
{
    __m256 m = _mm256_set1_ps(0.999f), c = _mm256_set1_ps(1e-3f);
    __m256 x0 = _mm256_set1_ps(0.0f), x1 = _mm256_set1_ps(1.0f), x2 = _mm256_set1_ps(2.0f);
    __m256 x3 = _mm256_set1_ps(3.0f), x4 = _mm256_set1_ps(4.0f), x5 = _mm256_set1_ps(5.0f);
    __m256 x6 = _mm256_set1_ps(6.0f), x7 = _mm256_set1_ps(7.0f), x8 = _mm256_set1_ps(8.0f);
    __m256 x9 = _mm256_set1_ps(9.0f), xa = _mm256_set1_ps(10.0f), xb = _mm256_set1_ps(11.0f);
    for (long n = 0; n < peak_steps; n++) {
        x0 = _mm256_fmadd_ps(x0, m, c), x1 = _mm256_fmadd_ps(x1, m, c);
        x2 = _mm256_fmadd_ps(x2, m, c), x3 = _mm256_fmadd_ps(x3, m, c);
        x4 = _mm256_fmadd_ps(x4, m, c), x5 = _mm256_fmadd_ps(x5, m, c);
        x6 = _mm256_fmadd_ps(x6, m, c), x7 = _mm256_fmadd_ps(x7, m, c);
        x8 = _mm256_fmadd_ps(x8, m, c), x9 = _mm256_fmadd_ps(x9, m, c);
        xa = _mm256_fmadd_ps(xa, m, c), xb = _mm256_fmadd_ps(xb, m, c);
    }
    x0 = _mm256_add_ps(x0, x1), x2 = _mm256_add_ps(x2, x3), x4 = _mm256_add_ps(x4, x5);
    x6 = _mm256_add_ps(x6, x7), x8 = _mm256_add_ps(x8, x9), xa = _mm256_add_ps(xa, xb);
    x0 = _mm256_add_ps(_mm256_add_ps(x0, x2), _mm256_add_ps(x4, x6));
    x0 = _mm256_add_ps(x0, _mm256_add_ps(x8, xa));
    return _mm256_cvtss_f32(x0);
}
#elif defined(__aarch64__)
static float peak_loop_neon(void)
{
    float32x4_t m = vdupq_n_f32(0.999f), c = vdupq_n_f32(1e-3f);
    float32x4_t x0 = vdupq_n_f32(0.0f), x1 = vdupq_n_f32(1.0f), x2 = vdupq_n_f32(2.0f);
    float32x4_t x3 = vdupq_n_f32(3.0f), x4 = vdupq_n_f32(4.0f), x5 = vdupq_n_f32(5.0f);
    float32x4_t x6 = vdupq_n_f32(6.0f), x7 = vdupq_n_f32(7.0f), x8 = vdupq_n_f32(8.0f);
    float32x4_t x9 = vdupq_n_f32(9.0f), xa = vdupq_n_f32(10.0f), xb = vdupq_n_f32(11.0f);
    for (long n = 0; n < peak_steps; n++) {
        x0 = vfmaq_f32(c, x0, m), x1 = vfmaq_f32(c, x1, m);
        x2 = vfmaq_f32(c, x2, m), x3 = vfmaq_f32(c, x3, m);
        x4 = vfmaq_f32(c, x4, m), x5 = vfmaq_f32(c, x5, m);
        x6 = vfmaq_f32(c, x6, m), x7 = vfmaq_f32(c, x7, m);
        x8 = vfmaq_f32(c, x8, m), x9 = vfmaq_f32(c, x9, m);
        xa = vfmaq_f32(c, xa, m), xb = vfmaq_f32(c, xb, m);
    }
    x0 = vaddq_f32(x0, x1), x2 = vaddq_f32(x2, x3), x4 = vaddq_f32(x4, x5);
    x6 = vaddq_f32(x6, x7), x8 = vaddq_f32(x8, x9), xa = vaddq_f32(xa, xb);
    x0 = vaddq_f32(vaddq_f32(x0, x2), vaddq_f32(x4, x6));
    x0 = vaddq_f32(x0, vaddq_f32(x8, xa));
    return vgetq_lane_f32(x0, 0);
}
#endif

/* The scalar set multiplies and adds in two steps, one number at a time. */
static float peak_loop_scalar(void)
{
    float m = 0.999f, c = 1e-3f;
    float x0 = 0.0f, x1 = 1.0f, x2 = 2.0f, x3 = 3.0f, x4 = 4.0f, x5 = 5.0f;
    float x6 = 6.0f, x7 = 7.0f, x8 = 8.0f, x9 = 9.0f, xa = 10.0f, xb = 11.0f;
    for (long n = 0; n < peak_steps; n++) {
        x0 = x0 * m + c, x1 = x1 * m + c, x2 = x2 * m + c;
        x3 = x3 * m + c, x4 = x4 * m + c, x5 = x5 * m + c;
        x6 = x6 * m + c, x7 = x7 * m + c, x8 = x8 * m + c;
        x9 = x9 * m + c, xa = xa * m + c, xb = xb * m + c;
    }
    return x0 + x1 + x2 + x3 + x4 + x5 + x6 + x7 + x8 + x9 + xa + xb;
}

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
