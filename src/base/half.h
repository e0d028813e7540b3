/* half.h: scalar conversions of f16 and bf16, round to nearest even, NaN kept and quietened. */
#ifndef ATTN_BASE_HALF_H
#define ATTN_BASE_HALF_H

#include "src/base/compiler.h"

#include <stdint.h>
#include <string.h>

ATTN__INLINE uint32_t attn__bits(float x)
{
    uint32_t b;

    memcpy(&b, &x, sizeof b);
    return b;
}

ATTN__INLINE float attn__from_bits(uint32_t b)
{
    float x;

    memcpy(&x, &b, sizeof x);
    return x;
}

ATTN__INLINE float attn__bf16_to_f32(uint16_t h)
{
    return attn__from_bits((uint32_t)h << 16);
}

ATTN__INLINE uint16_t attn__f32_to_bf16(float x)
{
    uint32_t b = attn__bits(x);

    if ((b & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)((b >> 16) | 0x40);
    return (uint16_t)((b + 0x7fff + ((b >> 16) & 1)) >> 16);
}

ATTN__INLINE float attn__f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, magnitude = h & 0x7fff;

    if (magnitude >= 0x7c00) /* infinity and NaN, made quiet as the hardware does */
        return attn__from_bits(sign | 0x7f800000u | (magnitude & 0x3ff ? 0x400000u : 0) |
                               ((magnitude & 0x3ff) << 13));
    if (magnitude >= 0x400)
        return attn__from_bits(sign | ((magnitude << 13) + (112u << 23)));
    /* subnormal: an integer times 2^-24, exact in float */
    return attn__from_bits(sign | attn__bits((float)magnitude * 0x1p-24f));
}

ATTN__INLINE uint16_t attn__f32_to_f16(float x)
{
    uint32_t b = attn__bits(x), sign = (b >> 16) & 0x8000, magnitude = b & 0x7fffffffu;

    if (magnitude > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00 | ((magnitude >> 13) & 0x3ff));
    if (magnitude >= 0x477ff000u) /* 65520 and above round to infinity */
        return (uint16_t)(sign | 0x7c00);
    if (magnitude >= 0x38800000u) /* normal: 2^-14 and above */
        return (uint16_t)(sign |
                          ((magnitude - (112u << 23) + 0xfff + ((magnitude >> 13) & 1)) >> 13));
    /* Subnormal: adding 0.5 puts the last place of the sum at 2^-24, so the addition rounds. */
    return (uint16_t)(sign | ((attn__bits(attn__from_bits(magnitude) + 0.5f)) - 0x3f000000u));
}

#endif
