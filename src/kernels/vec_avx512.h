/* vec_avx512.h: the vector vocabulary for AVX-512 (F, BW, DQ, VL). Turns the target on.
 *
 * Every vec_*.h defines the same names for float (vf_) and double (vd_):
 *   type, LANES, zero set1 load store add sub mul div sqrt max min fma, gt/eq -> bits of lanes,
 *   keep(bits, v): v where the bit is set, else +0;  pick(bits, a, b): a where set, else b
 *   finite -> bits; reduce_max; transpose of LANES vectors
 *   load_f16 load_bf16 load_i8 store_f16 store_bf16 (vf only), load_f32 (vd only)
 *   load_raw(p): bytes as they are, which transpose may move; pairs_bf16(raw, &a, &b): of their
 *   2 LANES bf16 the even ones and the odd ones; split_pairs(&a, &b) turns two vectors into that
 *   order, join_pairs back
 *   clamp, round, scale: y = clamp(y), n = round(y), scale(p, n) = p * 2^n, exactly 0 once 2^n
 *   vanishes; a NaN stays one
 *
 * max(a, b) and min(a, b) return b when either is NaN. NV is the width of the register block. */
#if defined(__clang__)
#pragma clang attribute push(                                                                      \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,bmi,bmi2"))),          \
    apply_to = function)
#define TARGET_PUSHED /* kernels_impl.h ends it */
#else
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,bmi,bmi2")
#endif
#include <immintrin.h>
#include <math.h>
#include <stdint.h>

#define VF_LANES 16
#define VF_NV 4
#define VD_LANES 8
#define VD_NV 4
typedef __m512 vf;
typedef __m512d vd;

#define vf_zero() _mm512_setzero_ps()
#define vf_set1(x) _mm512_set1_ps(x)
#define vf_load(p) _mm512_loadu_ps(p)
#define vf_load_raw(p) _mm512_loadu_ps((const void *)(p))
#define vf_store(p, a) _mm512_storeu_ps(p, a)
#define vf_add(a, b) _mm512_add_ps(a, b)
#define vf_sub(a, b) _mm512_sub_ps(a, b)
#define vf_mul(a, b) _mm512_mul_ps(a, b)
#define vf_div(a, b) _mm512_div_ps(a, b)
#define vf_max(a, b) _mm512_max_ps(a, b)
#define vf_min(a, b) _mm512_min_ps(a, b)
#define vf_fma(a, b, c) _mm512_fmadd_ps(a, b, c)
#define vf_sqrt(a) _mm512_sqrt_ps(a)
#define vf_abs(a) _mm512_abs_ps(a)
#define vf_gt(a, b) ((uint64_t)_mm512_cmp_ps_mask(a, b, _CMP_GT_OQ))
#define vf_eq(a, b) ((uint64_t)_mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ))
#define vf_keep(m, a) _mm512_maskz_mov_ps((__mmask16)(m), a)
#define vf_pick(m, a, b) _mm512_mask_mov_ps(b, (__mmask16)(m), a)
#define vf_reduce_max(a) _mm512_reduce_max_ps(a)
#define vf_clamp(y) (y)
#define vf_round(y) _mm512_roundscale_ps(y, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)
#define vf_scale(p, n) _mm512_scalef_ps(p, n)
#define vf_finite(a) vf_gt(_mm512_set1_ps(INFINITY), vf_abs(a))
#define vf_load_f16(p) _mm512_cvtph_ps(_mm256_loadu_si256((const void *)(p)))
#define vf_load_i8(p) _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const void *)(p))))
#define vf_load_bf16(p)                                                                            \
    _mm512_castsi512_ps(                                                                           \
        _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)(p))), 16))
static inline void vf_pairs_bf16(vf pairs, vf *even, vf *odd)
{
    __m512i x = _mm512_castps_si512(pairs);

    *even = _mm512_castsi512_ps(_mm512_slli_epi32(x, 16));
    *odd = _mm512_castsi512_ps(_mm512_and_si512(x, _mm512_set1_epi32((int)0xffff0000)));
}

static inline void vf_split_pairs(vf *a, vf *b)
{
    __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    vf first = *a, second = *b;

    *a = _mm512_permutex2var_ps(first, even, second);
    *b = _mm512_permutex2var_ps(first, _mm512_add_epi32(even, _mm512_set1_epi32(1)), second);
}

static inline void vf_join_pairs(vf *a, vf *b)
{
    __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    vf even = *a, odd = *b;

    *a = _mm512_permutex2var_ps(even, low, odd);
    *b = _mm512_permutex2var_ps(even, _mm512_add_epi32(low, _mm512_set1_epi32(8)), odd);
}

#define vf_store_f16(p, a)                                                                         \
    _mm256_storeu_si256((void *)(p), _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT))

/* Round to nearest even on the upper half; a NaN keeps its top bits and gets the quiet bit. */
static inline void vf_store_bf16(uint16_t *p, vf a)
{
    __m512i x = _mm512_castps_si512(a);
    __m512i odd = _mm512_and_si512(_mm512_srli_epi32(x, 16), _mm512_set1_epi32(1));
    __m512i r = _mm512_add_epi32(x, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    __mmask16 nan = _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q);

    r = _mm512_mask_or_epi32(r, nan, x, _mm512_set1_epi32(0x400000));
    _mm256_storeu_si256((void *)p, _mm512_cvtepi32_epi16(_mm512_srli_epi32(r, 16)));
}

static inline void vf_transpose(vf r[16])
{
    __m512 t[16];

    for (int i = 0; i < 16; i += 4) { /* 4x4 blocks inside 128-bit lanes */
        __m512 a = _mm512_unpacklo_ps(r[i], r[i + 1]), b = _mm512_unpackhi_ps(r[i], r[i + 1]);
        __m512 c = _mm512_unpacklo_ps(r[i + 2], r[i + 3]),
               d = _mm512_unpackhi_ps(r[i + 2], r[i + 3]);
        t[i] = _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(a), _mm512_castps_pd(c)));
        t[i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(a), _mm512_castps_pd(c)));
        t[i + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(b), _mm512_castps_pd(d)));
        t[i + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(b), _mm512_castps_pd(d)));
    }
    for (int i = 0; i < 4; i++) { /* then the 4x4 matrix of lanes */
        __m512 a = _mm512_shuffle_f32x4(t[i], t[i + 4], 0x88);
        __m512 b = _mm512_shuffle_f32x4(t[i], t[i + 4], 0xdd);
        __m512 c = _mm512_shuffle_f32x4(t[i + 8], t[i + 12], 0x88);
        __m512 d = _mm512_shuffle_f32x4(t[i + 8], t[i + 12], 0xdd);
        r[i] = _mm512_shuffle_f32x4(a, c, 0x88);
        r[i + 4] = _mm512_shuffle_f32x4(b, d, 0x88);
        r[i + 8] = _mm512_shuffle_f32x4(a, c, 0xdd);
        r[i + 12] = _mm512_shuffle_f32x4(b, d, 0xdd);
    }
}

#define vd_zero() _mm512_setzero_pd()
#define vd_set1(x) _mm512_set1_pd(x)
#define vd_load(p) _mm512_loadu_pd(p)
#define vd_load_f32(p) _mm512_cvtps_pd(_mm256_loadu_ps(p))
#define vd_store(p, a) _mm512_storeu_pd(p, a)
#define vd_add(a, b) _mm512_add_pd(a, b)
#define vd_sub(a, b) _mm512_sub_pd(a, b)
#define vd_mul(a, b) _mm512_mul_pd(a, b)
#define vd_div(a, b) _mm512_div_pd(a, b)
#define vd_max(a, b) _mm512_max_pd(a, b)
#define vd_min(a, b) _mm512_min_pd(a, b)
#define vd_fma(a, b, c) _mm512_fmadd_pd(a, b, c)
#define vd_sqrt(a) _mm512_sqrt_pd(a)
#define vd_abs(a) _mm512_abs_pd(a)
#define vd_gt(a, b) ((uint64_t)_mm512_cmp_pd_mask(a, b, _CMP_GT_OQ))
#define vd_eq(a, b) ((uint64_t)_mm512_cmp_pd_mask(a, b, _CMP_EQ_OQ))
#define vd_keep(m, a) _mm512_maskz_mov_pd((__mmask8)(m), a)
#define vd_pick(m, a, b) _mm512_mask_mov_pd(b, (__mmask8)(m), a)
#define vd_reduce_max(a) _mm512_reduce_max_pd(a)
#define vd_clamp(y) (y)
#define vd_round(y) _mm512_roundscale_pd(y, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)
#define vd_scale(p, n) _mm512_scalef_pd(p, n)
#define vd_finite(a) vd_gt(_mm512_set1_pd((double)INFINITY), vd_abs(a))

static inline void vd_transpose(vd r[8])
{
    __m512d t[8], u[8];

    for (int i = 0; i < 8; i += 2) {
        t[i] = _mm512_unpacklo_pd(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_pd(r[i], r[i + 1]);
    }
    for (int i = 0; i < 2; i++) { /* pairs of rows become quadruples, even and odd lanes apart */
        u[i] = _mm512_shuffle_f64x2(t[i], t[i + 2], 0x88);
        u[i + 2] = _mm512_shuffle_f64x2(t[i], t[i + 2], 0xdd);
        u[i + 4] = _mm512_shuffle_f64x2(t[i + 4], t[i + 6], 0x88);
        u[i + 6] = _mm512_shuffle_f64x2(t[i + 4], t[i + 6], 0xdd);
    }
    for (int i = 0; i < 2; i++) {
        r[i] = _mm512_shuffle_f64x2(u[i], u[i + 4], 0x88);
        r[i + 4] = _mm512_shuffle_f64x2(u[i], u[i + 4], 0xdd);
        r[i + 2] = _mm512_shuffle_f64x2(u[i + 2], u[i + 6], 0x88);
        r[i + 6] = _mm512_shuffle_f64x2(u[i + 2], u[i + 6], 0xdd);
    }
}
#define KEEP_BITS_VECTOR 64
#define vec_keep_bits(p)                                                                           \
    ((uint64_t)_mm512_test_epi8_mask(_mm512_loadu_si512(p), _mm512_loadu_si512(p)))

/* One round of Philox4x32 (see nn_bits.h) on eight lanes of 64 bits, whose lower halves count: a
 * product's upper half is shifted down, its lower half is where it belongs. */
static inline void vec_philox_round(__m512i x[4], __m512i key0, __m512i key1)
{
    enum { ODD = 0x96 }; /* a ^ b ^ c */
    __m512i a = _mm512_mul_epu32(x[0], _mm512_set1_epi64(0xd2511f53));
    __m512i b = _mm512_mul_epu32(x[2], _mm512_set1_epi64(0xcd9e8d57));

    x[0] = _mm512_ternarylogic_epi64(_mm512_srli_epi64(b, 32), x[1], key0, ODD);
    x[1] = b;
    x[2] = _mm512_ternarylogic_epi64(_mm512_srli_epi64(a, 32), x[3], key1, ODD);
    x[3] = a;
}

/* Bits of 64 columns, see nn_bits.h: the blocks `first` and the fifteen after it. */
#define DROP_VECTOR
static inline uint64_t vec_kept(uint32_t first, const uint32_t at[3], uint32_t key0, uint32_t key1,
                                uint32_t below)
{
    const __m512i limit = _mm512_set1_epi64(below), number = _mm512_set1_epi64(0xffffff);
    __m512i a[4], b[4];
    uint64_t kept = 0;

    a[0] = _mm512_add_epi64(_mm512_set1_epi64(first), _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7));
    b[0] = _mm512_add_epi64(a[0], _mm512_set1_epi64(8));
    for (int i = 0; i < 3; i++)
        a[i + 1] = b[i + 1] = _mm512_set1_epi64(at[i]);
    for (int round = 0; round < 10; round++) {
        __m512i k0 = _mm512_set1_epi64(key0), k1 = _mm512_set1_epi64(key1);

        vec_philox_round(a, k0, k1);
        vec_philox_round(b, k0, k1);
        key0 += 0x9e3779b9u;
        key1 += 0xbb67ae85u;
    }
    for (int i = 0; i < 4; i++) {
        __m512i low = _mm512_and_si512(_mm512_srli_epi64(a[i], 8), number);
        __m512i high = _mm512_and_si512(_mm512_srli_epi64(b[i], 8), number);

        kept |= (uint64_t)_mm512_cmpge_epu64_mask(low, limit) << (16 * i);
        kept |= (uint64_t)_mm512_cmpge_epu64_mask(high, limit) << (16 * i + 8);
    }
    return kept;
}
