/* kernels_scalar.c: the kernels in plain C, for any machine. */
#include <math.h>
#include <stddef.h>

#define SET scalar
#define SET_ID ATTN_SET_SCALAR
#include "src/kernels/vec_scalar.h"
#include "src/kernels/kernels_impl.h"
