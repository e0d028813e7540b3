/* vec_scalar.h: the vector vocabulary (see vec_avx512.h) in plain C. A vector is four numbers, so
 * that compilers may use what the base instruction set has. No fused step: fma here rounds twice.
 */
#include "src/base/half.h"

#define VF_LANES 4
#define VF_NV 2
#define VD_LANES 4
#define VD_NV 2
typedef struct vf {
    float x[4];
} vf;
typedef struct vd {
    double x[4];
} vd;

#define EACH(expression)                                                                           \
    for (int i = 0; i < 4; i++)                                                                    \
    expression

#define VOCABULARY(v, real, integer, magic)                                                        \
    static inline v v##_set1(real a)                                                               \
    {                                                                                              \
        return (v){{a, a, a, a}};                                                                  \
    }                                                                                              \
    static inline v v##_load(const real *p)                                                        \
    {                                                                                              \
        return (v){{p[0], p[1], p[2], p[3]}};                                                      \
    }                                                                                              \
    static inline void v##_store(real *p, v a)                                                     \
    {                                                                                              \
        EACH(p[i] = a.x[i];)                                                                       \
    }                                                                                              \
    static inline v v##_add(v a, v b)                                                              \
    {                                                                                              \
        EACH(a.x[i] += b.x[i];)                                                                    \
        return a;                                                                                  \
    }                                                                                              \
    static inline v v##_sub(v a, v b)                                                              \
    {                                                                                              \
        EACH(a.x[i] -= b.x[i];)                                                                    \
        return a;                                                                                  \
    }                                                                                              \
    static inline v v##_mul(v a, v b)                                                              \
    {                                                                                              \
        EACH(a.x[i] *= b.x[i];)                                                                    \
        return a;                                                                                  \
    }                                                                                              \
    static inline v v##_div(v a, v b)                                                              \
    {                                                                                              \
        EACH(a.x[i] /= b.x[i];)                                                                    \
        return a;                                                                                  \
    }                                                                                              \
    static inline v v##_max(v a, v b)                                                              \
    {                                                                                              \
        EACH(a.x[i] = a.x[i] > b.x[i] ? a.x[i] : b.x[i];)                                          \
        return a;                                                                                  \
    }                                                                                              \
    static inline v v##_min(v a, v b)                                                              \
    {                                                                                              \
        EACH(a.x[i] = a.x[i] < b.x[i] ? a.x[i] : b.x[i];)                                          \
        return a;                                                                                  \
    }                                                                                              \
    static inline v v##_fma(v a, v b, v c)                                                         \
    {                                                                                              \
        EACH(a.x[i] = a.x[i] * b.x[i] + c.x[i];)                                                   \
        return a;                                                                                  \
    }                                                                                              \
    static inline v v##_sqrt(v a)                                                                  \
    {                                                                                              \
        EACH(a.x[i] = (real)sqrt((double)a.x[i]);)                                                 \
        return a;                                                                                  \
    }                                                                                              \
    static inline v v##_abs(v a)                                                                   \
    {                                                                                              \
        EACH(a.x[i] = a.x[i] < 0 ? -a.x[i] : a.x[i];)                                              \
        return a;                                                                                  \
    }                                                                                              \
    static inline uint64_t v##_gt(v a, v b)                                                        \
    {                                                                                              \
        uint64_t bits = 0;                                                                         \
        EACH(bits |= (uint64_t)(a.x[i] > b.x[i]) << i;)                                            \
        return bits;                                                                               \
    }                                                                                              \
    static inline uint64_t v##_eq(v a, v b)                                                        \
    {                                                                                              \
        uint64_t bits = 0;                                                                         \
        EACH(bits |= (uint64_t)(a.x[i] == b.x[i]) << i;)                                           \
        return bits;                                                                               \
    }                                                                                              \
    static inline uint64_t v##_finite(v a)                                                         \
    {                                                                                              \
        uint64_t bits = 0;                                                                         \
        EACH(bits |= (uint64_t)(a.x[i] - a.x[i] == 0) << i;)                                       \
        return bits;                                                                               \
    }                                                                                              \
    static inline v v##_pick(uint64_t m, v a, v b)                                                 \
    {                                                                                              \
        EACH(a.x[i] = m >> i & 1 ? a.x[i] : b.x[i];)                                               \
        return a;                                                                                  \
    }                                                                                              \
    static inline real v##_reduce_max(v a)                                                         \
    {                                                                                              \
        real m = a.x[0];                                                                           \
        for (int i = 1; i < 4; i++)                                                                \
            m = m > a.x[i] ? m : a.x[i];                                                           \
        return m;                                                                                  \
    }                                                                                              \
    static inline void v##_transpose(v r[4])                                                       \
    {                                                                                              \
        for (int i = 0; i < 4; i++)                                                                \
            for (int j = i + 1; j < 4; j++) {                                                      \
                real swap = r[i].x[j];                                                             \
                r[i].x[j] = r[j].x[i];                                                             \
                r[j].x[i] = swap;                                                                  \
            }                                                                                      \
    }                                                                                              \
    /* Adding 1.5 times 2^23 (2^52) leaves no bits below 1. */                                     \
    static inline v v##_round(v a)                                                                 \
    {                                                                                              \
        EACH(a.x[i] = a.x[i] + (real)(magic) - (real)(magic);)                                     \
        return a;                                                                                  \
    }                                                                                              \
    /* See vec_avx2.h. */                                                                          \
    static inline v v##_scale(v p, v n)                                                            \
    {                                                                                              \
        for (int i = 0; i < 4; i++) {                                                              \
            real t = n.x[i] + (real)((magic) + (sizeof(real) == 4 ? 127 : 1023));                  \
            integer bits;                                                                          \
            memcpy(&bits, &t, sizeof bits);                                                        \
            bits <<= sizeof bits == 4 ? 23 : 52;                                                   \
            memcpy(&t, &bits, sizeof bits);                                                        \
            p.x[i] *= t;                                                                           \
        }                                                                                          \
        return p;                                                                                  \
    }

VOCABULARY(vf, float, uint32_t, 12582912.0f)
VOCABULARY(vd, double, uint64_t, 6755399441055744.0)
#undef VOCABULARY

#define vf_zero() vf_set1(0)
#define vd_zero() vd_set1(0)
#define vf_keep(m, a) vf_pick(m, a, vf_zero())
#define vd_keep(m, a) vd_pick(m, a, vd_zero())
#define vf_clamp(y) vf_max(vf_set1(-127.0f), y)
#define vd_clamp(y) vd_max(vd_set1(-1023.0), y)

static inline vd vd_load_f32(const float *p)
{
    return (vd){{(double)p[0], (double)p[1], (double)p[2], (double)p[3]}};
}

static inline vf vf_load_f16(const uint16_t *p)
{
    return (vf){{attn__f16_to_f32(p[0]), attn__f16_to_f32(p[1]), attn__f16_to_f32(p[2]),
                 attn__f16_to_f32(p[3])}};
}

static inline vf vf_load_bf16(const uint16_t *p)
{
    return (vf){{attn__bf16_to_f32(p[0]), attn__bf16_to_f32(p[1]), attn__bf16_to_f32(p[2]),
                 attn__bf16_to_f32(p[3])}};
}

static inline vf vf_load_raw(const void *p)
{
    vf a;

    memcpy(&a, p, sizeof a);
    return a;
}

static inline void vf_pairs_bf16(vf pairs, vf *even, vf *odd)
{
    uint16_t p[8];

    memcpy(p, &pairs, sizeof p);
    EACH(even->x[i] = attn__bf16_to_f32(p[2 * i]);)
    EACH(odd->x[i] = attn__bf16_to_f32(p[2 * i + 1]);)
}

static inline void vf_split_pairs(vf *a, vf *b)
{
    const vf first = *a, second = *b;

    *a = (vf){{first.x[0], first.x[2], second.x[0], second.x[2]}};
    *b = (vf){{first.x[1], first.x[3], second.x[1], second.x[3]}};
}

static inline void vf_join_pairs(vf *a, vf *b)
{
    const vf even = *a, odd = *b;

    *a = (vf){{even.x[0], odd.x[0], even.x[1], odd.x[1]}};
    *b = (vf){{even.x[2], odd.x[2], even.x[3], odd.x[3]}};
}

static inline vf vf_load_i8(const int8_t *p)
{
    return (vf){{p[0], p[1], p[2], p[3]}};
}

static inline void vf_store_f16(uint16_t *p, vf a)
{
    EACH(p[i] = attn__f32_to_f16(a.x[i]);)
}

static inline void vf_store_bf16(uint16_t *p, vf a)
{
    EACH(p[i] = attn__f32_to_bf16(a.x[i]);)
}
#undef EACH
