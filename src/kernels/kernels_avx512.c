/* kernels_avx512.c: the kernels for AVX-512 (F, BW, DQ, VL). */
#if defined(__x86_64__)
#define SET avx512
#define SET_ID ATTN_SET_AVX512
#include "src/kernels/vec_avx512.h"
#include "src/base/half.h"
#include "src/kernels/kernels_impl.h"
#else
typedef int attn__no_avx512; /* ISO C wants a declaration in every file */
#endif
