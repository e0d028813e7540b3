/* vec_avx2.h: the vector vocabulary (see vec_avx512.h) for AVX2 with FMA and F16C. */
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c,bmi,bmi2"))), apply_to = function)
#define TARGET_PUSHED /* kernels_impl.h ends it */
#else
#pragma GCC target("avx2,fma,f16c,bmi,bmi2")
#endif
#include <immintrin.h>
#include <math.h>
#include <stdint.h>

#define VF_LANES 8
#define VF_NV 2
#define VD_LANES 4
#define VD_NV 2
typedef __m256 vf;
typedef __m256d vd;

#define vf_zero() _mm256_setzero_ps()
#define vf_set1(x) _mm256_set1_ps(x)
#define vf_load(p) _mm256_loadu_ps(p)
#define vf_load_raw(p) _mm256_loadu_ps((const void *)(p))
#define vf_store(p, a) _mm256_storeu_ps(p, a)
#define vf_add(a, b) _mm256_add_ps(a, b)
#define vf_sub(a, b) _mm256_sub_ps(a, b)
#define vf_mul(a, b) _mm256_mul_ps(a, b)
#define vf_div(a, b) _mm256_div_ps(a, b)
#define vf_max(a, b) _mm256_max_ps(a, b)
#define vf_min(a, b) _mm256_min_ps(a, b)
#define vf_fma(a, b, c) _mm256_fmadd_ps(a, b, c)
#define vf_sqrt(a) _mm256_sqrt_ps(a)
#define vf_abs(a) _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a)
#define vf_gt(a, b) ((uint64_t)_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_GT_OQ)))
#define vf_eq(a, b) ((uint64_t)_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_EQ_OQ)))
#define vf_finite(a) vf_gt(_mm256_set1_ps(INFINITY), vf_abs(a))

static inline vf vf_lanes(uint64_t bits)
{
    __m256i lane = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    __m256i set = _mm256_and_si256(_mm256_set1_epi32((int)(bits & 0xff)), lane);

    return _mm256_castsi256_ps(_mm256_cmpeq_epi32(set, lane));
}
#define vf_keep(m, a) _mm256_and_ps(vf_lanes(m), a)
#define vf_pick(m, a, b) _mm256_blendv_ps(b, a, vf_lanes(m))

static inline float vf_reduce_max(vf a)
{
    __m128 m = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));

    m = _mm_max_ps(m, _mm_movehl_ps(m, m));
    return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
}

/* 2^n is built in the exponent of a float: n + 127 in bits 23 and up, taken from the low bits of
 * n + 1.5 * 2^23 + 127. n = -127 gives the bits of +0: scores further below vanish exactly. NaN
 * passes the clamp, as b. */
#define vf_clamp(y) _mm256_max_ps(_mm256_set1_ps(-127.0f), y)
#define vf_round(y) _mm256_round_ps(y, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)
#define vf_scale(p, n)                                                                             \
    _mm256_mul_ps(p, _mm256_castsi256_ps(_mm256_slli_epi32(                                        \
                         _mm256_castps_si256(_mm256_add_ps(n, _mm256_set1_ps(12583039.0f))), 23)))
#define vf_load_f16(p) _mm256_cvtph_ps(_mm_loadu_si128((const void *)(p)))
#define vf_load_i8(p) _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const void *)(p))))
#define vf_load_bf16(p)                                                                            \
    _mm256_castsi256_ps(                                                                           \
        _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)(p))), 16))
static inline void vf_pairs_bf16(vf pairs, vf *even, vf *odd)
{
    __m256i x = _mm256_castps_si256(pairs);

    *even = _mm256_castsi256_ps(_mm256_slli_epi32(x, 16));
    *odd = _mm256_castsi256_ps(_mm256_and_si256(x, _mm256_set1_epi32((int)0xffff0000)));
}

static inline vf vf_swap_middle(vf a)
{
    return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(a), 0xd8));
}

static inline void vf_split_pairs(vf *a, vf *b)
{
    vf even = _mm256_shuffle_ps(*a, *b, 0x88), odd = _mm256_shuffle_ps(*a, *b, 0xdd);

    *a = vf_swap_middle(even);
    *b = vf_swap_middle(odd);
}

static inline void vf_join_pairs(vf *a, vf *b)
{
    vf even = vf_swap_middle(*a), odd = vf_swap_middle(*b);

    *a = _mm256_unpacklo_ps(even, odd);
    *b = _mm256_unpackhi_ps(even, odd);
}

#define vf_store_f16(p, a)                                                                         \
    _mm_storeu_si128((void *)(p), _mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT))

/* Round to nearest even on the upper half; a NaN keeps its top bits and gets the quiet bit. */
static inline void vf_store_bf16(uint16_t *p, vf a)
{
    __m256i x = _mm256_castps_si256(a);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(x, 16), _mm256_set1_epi32(1));
    __m256i r = _mm256_add_epi32(x, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(a, a, _CMP_UNORD_Q));

    r = _mm256_blendv_epi8(r, _mm256_or_si256(x, _mm256_set1_epi32(0x400000)), nan);
    r = _mm256_srli_epi32(r, 16);
    r = _mm256_permute4x64_epi64(_mm256_packus_epi32(r, r), 0xd8);
    _mm_storeu_si128((void *)p, _mm256_castsi256_si128(r));
}

static inline void vf_transpose(vf r[8])
{
    __m256 t[8];

    for (int i = 0; i < 8; i += 4) {
        __m256 a = _mm256_unpacklo_ps(r[i], r[i + 1]), b = _mm256_unpackhi_ps(r[i], r[i + 1]);
        __m256 c = _mm256_unpacklo_ps(r[i + 2], r[i + 3]),
               d = _mm256_unpackhi_ps(r[i + 2], r[i + 3]);
        t[i] = _mm256_shuffle_ps(a, c, 0x44);
        t[i + 1] = _mm256_shuffle_ps(a, c, 0xee);
        t[i + 2] = _mm256_shuffle_ps(b, d, 0x44);
        t[i + 3] = _mm256_shuffle_ps(b, d, 0xee);
    }
    for (int i = 0; i < 4; i++) {
        r[i] = _mm256_permute2f128_ps(t[i], t[i + 4], 0x20);
        r[i + 4] = _mm256_permute2f128_ps(t[i], t[i + 4], 0x31);
    }
}

#define vd_zero() _mm256_setzero_pd()
#define vd_set1(x) _mm256_set1_pd(x)
#define vd_load(p) _mm256_loadu_pd(p)
#define vd_load_f32(p) _mm256_cvtps_pd(_mm_loadu_ps(p))
#define vd_store(p, a) _mm256_storeu_pd(p, a)
#define vd_add(a, b) _mm256_add_pd(a, b)
#define vd_sub(a, b) _mm256_sub_pd(a, b)
#define vd_mul(a, b) _mm256_mul_pd(a, b)
#define vd_div(a, b) _mm256_div_pd(a, b)
#define vd_max(a, b) _mm256_max_pd(a, b)
#define vd_min(a, b) _mm256_min_pd(a, b)
#define vd_fma(a, b, c) _mm256_fmadd_pd(a, b, c)
#define vd_sqrt(a) _mm256_sqrt_pd(a)
#define vd_abs(a) _mm256_andnot_pd(_mm256_set1_pd(-0.0), a)
#define vd_gt(a, b) ((uint64_t)_mm256_movemask_pd(_mm256_cmp_pd(a, b, _CMP_GT_OQ)))
#define vd_eq(a, b) ((uint64_t)_mm256_movemask_pd(_mm256_cmp_pd(a, b, _CMP_EQ_OQ)))
#define vd_finite(a) vd_gt(_mm256_set1_pd((double)INFINITY), vd_abs(a))

static inline vd vd_lanes(uint64_t bits)
{
    __m256i lane = _mm256_setr_epi64x(1, 2, 4, 8);
    __m256i set = _mm256_and_si256(_mm256_set1_epi64x((long long)(bits & 0xf)), lane);

    return _mm256_castsi256_pd(_mm256_cmpeq_epi64(set, lane));
}
#define vd_keep(m, a) _mm256_and_pd(vd_lanes(m), a)
#define vd_pick(m, a, b) _mm256_blendv_pd(b, a, vd_lanes(m))

static inline double vd_reduce_max(vd a)
{
    __m128d m = _mm_max_pd(_mm256_castpd256_pd128(a), _mm256_extractf128_pd(a, 1));

    return _mm_cvtsd_f64(_mm_max_sd(m, _mm_unpackhi_pd(m, m)));
}

#define vd_clamp(y) _mm256_max_pd(_mm256_set1_pd(-1023.0), y)
#define vd_round(y) _mm256_round_pd(y, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)
#define vd_scale(p, n) /* 1.5 * 2^52 + 1023 */                                                     \
    _mm256_mul_pd(                                                                                 \
        p, _mm256_castsi256_pd(_mm256_slli_epi64(                                                  \
               _mm256_castpd_si256(_mm256_add_pd(n, _mm256_set1_pd(6755399441056767.0))), 52)))

static inline void vd_transpose(vd r[4])
{
    __m256d a = _mm256_unpacklo_pd(r[0], r[1]), b = _mm256_unpackhi_pd(r[0], r[1]);
    __m256d c = _mm256_unpacklo_pd(r[2], r[3]), d = _mm256_unpackhi_pd(r[2], r[3]);

    r[0] = _mm256_permute2f128_pd(a, c, 0x20);
    r[1] = _mm256_permute2f128_pd(b, d, 0x20);
    r[2] = _mm256_permute2f128_pd(a, c, 0x31);
    r[3] = _mm256_permute2f128_pd(b, d, 0x31);
}
#define KEEP_BITS_VECTOR 32
#define vec_keep_bits(p)                                                                           \
    (~(uint64_t)(uint32_t)_mm256_movemask_epi8(                                                    \
         _mm256_cmpeq_epi8(_mm256_loadu_si256((const void *)(p)), _mm256_setzero_si256())) &       \
     0xffffffffu)

/* One round of Philox4x32 (see nn_bits.h) on eight lanes: products of even and of odd lanes, put
 * together again as upper and lower halves. */
static inline void vec_philox_round(__m256i x[4], __m256i key0, __m256i key1)
{
    const __m256i m0 = _mm256_set1_epi32((int)0xd2511f53), m1 = _mm256_set1_epi32((int)0xcd9e8d57);
    __m256i even0 = _mm256_mul_epu32(x[0], m0), even1 = _mm256_mul_epu32(x[2], m1);
    __m256i odd0 = _mm256_mul_epu32(_mm256_srli_epi64(x[0], 32), m0);
    __m256i odd1 = _mm256_mul_epu32(_mm256_srli_epi64(x[2], 32), m1);
    __m256i high0 = _mm256_blend_epi32(_mm256_srli_epi64(even0, 32), odd0, 0xaa);
    __m256i high1 = _mm256_blend_epi32(_mm256_srli_epi64(even1, 32), odd1, 0xaa);

    x[0] = _mm256_xor_si256(_mm256_xor_si256(high1, x[1]), key0);
    x[1] = _mm256_blend_epi32(even1, _mm256_slli_epi64(odd1, 32), 0xaa);
    x[2] = _mm256_xor_si256(_mm256_xor_si256(high0, x[3]), key1);
    x[3] = _mm256_blend_epi32(even0, _mm256_slli_epi64(odd0, 32), 0xaa);
}

/* Bits of 64 columns, see nn_bits.h: the blocks `first` and the fifteen after it. */
#define DROP_VECTOR
static inline uint64_t vec_kept(uint32_t first, const uint32_t at[3], uint32_t key0, uint32_t key1,
                                uint32_t below)
{
    const __m256i limit = _mm256_set1_epi32((int)below),
                  lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    __m256i a[4], b[4];
    uint64_t dropped = 0;

    a[0] = _mm256_add_epi32(_mm256_set1_epi32((int)first), lane);
    b[0] = _mm256_add_epi32(a[0], _mm256_set1_epi32(8));
    for (int i = 0; i < 3; i++)
        a[i + 1] = b[i + 1] = _mm256_set1_epi32((int)at[i]);
    for (int round = 0; round < 10; round++) {
        __m256i k0 = _mm256_set1_epi32((int)key0), k1 = _mm256_set1_epi32((int)key1);

        vec_philox_round(a, k0, k1);
        vec_philox_round(b, k0, k1);
        key0 += 0x9e3779b9u;
        key1 += 0xbb67ae85u;
    }
    for (int i = 0; i < 4; i++) { /* 24 bits are positive either way */
        __m256i low = _mm256_cmpgt_epi32(limit, _mm256_srli_epi32(a[i], 8));
        __m256i high = _mm256_cmpgt_epi32(limit, _mm256_srli_epi32(b[i], 8));
        uint64_t bits = (uint64_t)(uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(low));

        bits |= (uint64_t)(uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(high)) << 8;
        dropped |= bits << (16 * i);
    }
    return ~dropped;
}
