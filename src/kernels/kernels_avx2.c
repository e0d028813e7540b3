/* kernels_avx2.c: the kernels for AVX2 with FMA and F16C. */
#if defined(__x86_64__)
#define SET avx2
#define SET_ID ATTN_SET_AVX2
#include "src/kernels/vec_avx2.h"
#include "src/base/half.h"
#include "src/kernels/kernels_impl.h"
#else
typedef int attn__no_avx2; /* ISO C wants a declaration in every file */
#endif
