/* vec_neon.h: the vector vocabulary (see vec_avx512.h) for AArch64 Advanced SIMD. */
#include "src/base/half.h"

#include <arm_neon.h>

#define VF_LANES 4
#define VF_NV 4
#define VD_LANES 2
#define VD_NV 4
typedef float32x4_t vf;
typedef float64x2_t vd;

/* max and min as x86 has them: b when either is NaN. */
static inline vf vf_max(vf a, vf b)
{
    return vbslq_f32(vcgtq_f32(a, b), a, b);
}

static inline vf vf_min(vf a, vf b)
{
    return vbslq_f32(vcltq_f32(a, b), a, b);
}

static inline vd vd_max(vd a, vd b)
{
    return vbslq_f64(vcgtq_f64(a, b), a, b);
}

static inline vd vd_min(vd a, vd b)
{
    return vbslq_f64(vcltq_f64(a, b), a, b);
}

static inline uint64_t vf_bits(uint32x4_t m)
{
    const uint32x4_t lane = {1, 2, 4, 8};

    return vaddvq_u32(vandq_u32(m, lane));
}

static inline uint64_t vd_bits(uint64x2_t m)
{
    const uint64x2_t lane = {1, 2};

    return vaddvq_u64(vandq_u64(m, lane));
}

static inline uint32x4_t vf_lanes(uint64_t bits)
{
    const uint32x4_t lane = {1, 2, 4, 8};

    return vtstq_u32(vdupq_n_u32((uint32_t)bits), lane);
}

static inline uint64x2_t vd_lanes(uint64_t bits)
{
    const uint64x2_t lane = {1, 2};

    return vtstq_u64(vdupq_n_u64(bits), lane);
}

#define vf_zero() vdupq_n_f32(0)
#define vf_set1(x) vdupq_n_f32(x)
#define vf_load(p) vld1q_f32(p)
#define vf_load_raw(p) vreinterpretq_f32_u8(vld1q_u8((const void *)(p)))
#define vf_store(p, a) vst1q_f32(p, a)
#define vf_add(a, b) vaddq_f32(a, b)
#define vf_sub(a, b) vsubq_f32(a, b)
#define vf_mul(a, b) vmulq_f32(a, b)
#define vf_div(a, b) vdivq_f32(a, b)
#define vf_fma(a, b, c) vfmaq_f32(c, a, b)
#define vf_sqrt(a) vsqrtq_f32(a)
#define vf_abs(a) vabsq_f32(a)
#define vf_gt(a, b) vf_bits(vcgtq_f32(a, b))
#define vf_eq(a, b) vf_bits(vceqq_f32(a, b))
#define vf_finite(a) vf_bits(vcltq_f32(vabsq_f32(a), vdupq_n_f32(INFINITY)))
#define vf_keep(m, a) vreinterpretq_f32_u32(vandq_u32(vf_lanes(m), vreinterpretq_u32_f32(a)))
#define vf_pick(m, a, b) vbslq_f32(vf_lanes(m), a, b)
#define vf_reduce_max(a) vmaxnmvq_f32(a)
#define vf_clamp(y) vf_max(vdupq_n_f32(-127.0f), y)
#define vf_round(y) vrndnq_f32(y)
#define vf_scale(p, n) /* see vec_avx2.h */                                                        \
    vmulq_f32(p, vreinterpretq_f32_s32(vshlq_n_s32(                                                \
                     vreinterpretq_s32_f32(vaddq_f32(n, vdupq_n_f32(12583039.0f))), 23)))
#define vf_load_f16(p) vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)))
#define vf_load_bf16(p) vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p), 16))

static inline void vf_pairs_bf16(vf pairs, vf *even, vf *odd)
{
    uint32x4_t x = vreinterpretq_u32_f32(pairs);

    *even = vreinterpretq_f32_u32(vshlq_n_u32(x, 16));
    *odd = vreinterpretq_f32_u32(vandq_u32(x, vdupq_n_u32(0xffff0000)));
}

static inline void vf_split_pairs(vf *a, vf *b)
{
    vf even = vuzp1q_f32(*a, *b);

    *b = vuzp2q_f32(*a, *b);
    *a = even;
}

static inline void vf_join_pairs(vf *a, vf *b)
{
    vf low = vzip1q_f32(*a, *b);

    *b = vzip2q_f32(*a, *b);
    *a = low;
}

#define vf_store_f16(p, a) vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32(a)))

static inline vf vf_load_i8(const int8_t *p)
{
    const int32x4_t x = {p[0], p[1], p[2], p[3]};

    return vcvtq_f32_s32(x);
}

static inline void vf_store_bf16(uint16_t *p, vf a)
{
    for (int i = 0; i < 4; i++)
        p[i] = attn__f32_to_bf16(a[i]);
}

static inline void vf_transpose(vf r[4])
{
    float32x4_t a = vtrn1q_f32(r[0], r[1]), b = vtrn2q_f32(r[0], r[1]);
    float32x4_t c = vtrn1q_f32(r[2], r[3]), d = vtrn2q_f32(r[2], r[3]);

#define HALVES(trn, x, y)                                                                          \
    vreinterpretq_f32_f64(trn(vreinterpretq_f64_f32(x), vreinterpretq_f64_f32(y)))
    r[0] = HALVES(vtrn1q_f64, a, c);
    r[1] = HALVES(vtrn1q_f64, b, d);
    r[2] = HALVES(vtrn2q_f64, a, c);
    r[3] = HALVES(vtrn2q_f64, b, d);
#undef HALVES
}

#define vd_zero() vdupq_n_f64(0)
#define vd_set1(x) vdupq_n_f64(x)
#define vd_load(p) vld1q_f64(p)
#define vd_load_f32(p) vcvt_f64_f32(vld1_f32(p))
#define vd_store(p, a) vst1q_f64(p, a)
#define vd_add(a, b) vaddq_f64(a, b)
#define vd_sub(a, b) vsubq_f64(a, b)
#define vd_mul(a, b) vmulq_f64(a, b)
#define vd_div(a, b) vdivq_f64(a, b)
#define vd_fma(a, b, c) vfmaq_f64(c, a, b)
#define vd_sqrt(a) vsqrtq_f64(a)
#define vd_abs(a) vabsq_f64(a)
#define vd_gt(a, b) vd_bits(vcgtq_f64(a, b))
#define vd_eq(a, b) vd_bits(vceqq_f64(a, b))
#define vd_finite(a) vd_bits(vcltq_f64(vabsq_f64(a), vdupq_n_f64((double)INFINITY)))
#define vd_keep(m, a) vreinterpretq_f64_u64(vandq_u64(vd_lanes(m), vreinterpretq_u64_f64(a)))
#define vd_pick(m, a, b) vbslq_f64(vd_lanes(m), a, b)
#define vd_reduce_max(a) vmaxnmvq_f64(a)
#define vd_clamp(y) vd_max(vdupq_n_f64(-1023.0), y)
#define vd_round(y) vrndnq_f64(y)
#define vd_scale(p, n)                                                                             \
    vmulq_f64(p, vreinterpretq_f64_s64(vshlq_n_s64(                                                \
                     vreinterpretq_s64_f64(vaddq_f64(n, vdupq_n_f64(6755399441056767.0))), 52)))

static inline void vd_transpose(vd r[2])
{
    vd a = vtrn1q_f64(r[0], r[1]), b = vtrn2q_f64(r[0], r[1]);

    r[0] = a;
    r[1] = b;
}
