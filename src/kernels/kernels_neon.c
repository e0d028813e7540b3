/* kernels_neon.c: the kernels for AArch64 Advanced SIMD. */
#if defined(__aarch64__)
#include <math.h>

#define SET neon
#define SET_ID ATTN_SET_NEON
#include "src/kernels/vec_neon.h"
#include "src/kernels/kernels_impl.h"
#else
typedef int attn__no_neon; /* ISO C wants a declaration in every file */
#endif
