/* cpu.c: questions to the processor. The only file of the kernels that knows machine registers. */
#include "src/kernels/cpu.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <xmmintrin.h>

/* Which register files the operating system saves: XCR0. Only legal once OSXSAVE is seen. */
static uint64_t saved_state(void)
{
    uint32_t low, high;

    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

bool attn__cpu_has(attn_kernel_set set)
{
    const uint32_t leaf1 = bit_OSXSAVE | bit_AVX | bit_FMA | bit_F16C;
    const uint32_t leaf7_avx2 = bit_AVX2 | bit_BMI | bit_BMI2;
    const uint32_t leaf7_avx512 = bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL;
    uint32_t a, b, c, d;
    uint64_t state;

    if (set == ATTN_SET_SCALAR)
        return true;
    if (set != ATTN_SET_AVX2 && set != ATTN_SET_AVX512)
        return false;
    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & leaf1) != leaf1)
        return false;
    state = saved_state();
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (b & leaf7_avx2) != leaf7_avx2 ||
        (state & 0x6) != 0x6) /* xmm, ymm */
        return false;
    if (set == ATTN_SET_AVX2)
        return true;
    return (b & leaf7_avx512) == leaf7_avx512 && (state & 0xe6) == 0xe6; /* + masks, zmm */
}

uint64_t attn__fp_default(void)
{
    uint32_t word = _mm_getcsr();

    _mm_setcsr(0x1f80);
    return word;
}

void attn__fp_restore(uint64_t word)
{
    _mm_setcsr((uint32_t)word);
}

#elif defined(__aarch64__)

bool attn__cpu_has(attn_kernel_set set)
{
    return set == ATTN_SET_SCALAR || set == ATTN_SET_NEON; /* Advanced SIMD is part of AArch64 */
}

/* FPCR in the low half, FPSR (the sticky flags) in the high half. */
uint64_t attn__fp_default(void)
{
    uint64_t control, flags;

    __asm__ volatile("mrs %0, fpcr" : "=r"(control));
    __asm__ volatile("mrs %0, fpsr" : "=r"(flags));
    __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)0));
    return (control & 0xffffffffu) | flags << 32;
}

void attn__fp_restore(uint64_t word)
{
    __asm__ volatile("msr fpcr, %0" : : "r"(word & 0xffffffffu));
    __asm__ volatile("msr fpsr, %0" : : "r"(word >> 32));
}

#else

bool attn__cpu_has(attn_kernel_set set)
{
    return set == ATTN_SET_SCALAR;
}

uint64_t attn__fp_default(void)
{
    return 0;
}

void attn__fp_restore(uint64_t word)
{
    (void)word;
}
#endif
