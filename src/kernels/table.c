/* table.c: the kernel sets of this build, best first. */
#include "src/kernels/cpu.h"
#include "src/kernels/kernels.h"

extern const attn__kernels attn__kernels_scalar;
#if defined(__x86_64__)
extern const attn__kernels attn__kernels_avx2, attn__kernels_avx512;
#elif defined(__aarch64__)
extern const attn__kernels attn__kernels_neon;
#endif

static const attn__kernels *const sets[] = {
#if defined(__x86_64__)
    &attn__kernels_avx512,
    &attn__kernels_avx2,
#elif defined(__aarch64__)
    &attn__kernels_neon,
#endif
    &attn__kernels_scalar,
};

const attn__kernels *attn__kernels_for(attn_kernel_set set)
{
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
        if ((set == ATTN_SET_AUTO || set == sets[i]->set) && attn__cpu_has(sets[i]->set))
            return sets[i];
    return NULL;
}

const char *attn_kernel_set_name(attn_kernel_set set)
{
    static const char *const names[] = {"auto", "scalar", "neon", "avx2", "avx512"};
    size_t i = (size_t)set;

    return i < sizeof names / sizeof *names ? names[i] : "?";
}

int attn_kernel_set_available(attn_kernel_set set)
{
    return attn__kernels_for(set) != NULL;
}
