/* kernels_impl.h: all kernels of one set. Included once by each kernels_<set>.c, after its
 * vec_<set>.h and with SET defined; ends with the table attn__kernels_<set>. */
#include "src/base/compiler.h"
#include "src/kernels/kernels.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)

/* Tiles that come from memory: asking so many bytes ahead takes the two streams over the ends of
 * pages, where the processor's own prefetching stops, and over the time spent on the other one.
 * With little arithmetic a line its own prefetching leads, and asking far ahead would only disturb
 * it: then 1024 elements. Rows of values are read in columns of a panel; f32 so many rows at a time
 * past all columns, lest the stream rest while the second panel is computed from the cache. */
enum { KEYS_AHEAD = 8192, VALUES_AHEAD = 16384, LIGHT_AHEAD = 1024, SWEEP_ROWS = 16 };

/* Steps of a product in one turn of its loop, see products_real.h. */
enum { AT_ONCE = 4 };

#define REAL float
#define VEC vf
#define V(name) vf_##name
#define K(name) name##_f32
#define LANES VF_LANES
#define NV VF_NV
#define REAL_TYPE ATTN_F32
#define HAS_HALF 1
#define LOG2E 0x1.715476p+0f
#define CAP_LIMIT 64.0f
#define EXP_FAR 128
#define LOAD_DOUBLES vd_load_f32
/* (2^f - 1) / f on [-1/2, 1/2], near-minimax; with float coefficients 1 + f q(f) is within 9.2e-9
 * of 2^f, relative (interpolation at Chebyshev nodes in 60 digits). */
#define EXP2_DEGREE 6
#define EXP2_COEFFICIENTS                                                                          \
    0x1.62e430p-1f, 0x1.ebfbe0p-3f, 0x1.c6af6cp-5f, 0x1.3b2a54p-7f, 0x1.5f0890p-10f, 0x1.44138ap-13f
#define GELU_CENTRE 3
#define GELU_LIMIT 16
#define GELU_COEFFICIENTS                                                                          \
    0x1.754a76p-1f, -0x1.04c72ap-1f, 0x1.d71382p-3f, -0x1.832d42p-5f, -0x1.56d438p-7f,             \
        0x1.c8ca9p-8f, 0x1.0c8342p-10f, -0x1.0f430ep-10f, -0x1.00e72cp-12f, 0x1.17ed5p-13f,        \
        0x1.d2d54p-15f
#include "src/kernels/kernels_real.h"

#define REAL double
#define VEC vd
#define V(name) vd_##name
#define K(name) name##_f64
#define LANES VD_LANES
#define NV VD_NV
#define REAL_TYPE ATTN_F64
#define HAS_HALF 0
#define LOG2E 0x1.71547652b82fep+0
#define CAP_LIMIT 128.0
#define EXP_FAR 1024
#define LOAD_DOUBLES vd_load
/* The same, within 2.0e-17. */
#define EXP2_DEGREE 11
#define EXP2_COEFFICIENTS                                                                          \
    0x1.62e42fefa39efp-1, 0x1.ebfbdff82c598p-3, 0x1.c6b08d704a0c2p-5, 0x1.3b2ab6fba1ddap-7,        \
        0x1.5d87fe78a5276p-10, 0x1.430913096fd9fp-13, 0x1.ffcbfc670dcd4p-17,                       \
        0x1.62bfd47773353p-20, 0x1.b524fae627834p-24, 0x1.e6063f7217bc6p-28, 0x1.e9d3fe3952179p-32
#define GELU_CENTRE 6
#define GELU_LIMIT 40
#define GELU_COEFFICIENTS                                                                          \
    0x1.8e010d2b8a0eap-1, -0x1.66eaa7d09640ep-1, 0x1.234fe3fd925b9p-1, -0x1.a7d6577269c97p-2,      \
        0x1.1267d7383dc79p-2, -0x1.38b069dbb2846p-3, 0x1.33e77775f719cp-4, -0x1.fba9d531436cep-6,  \
        0x1.48a83bd4bebcep-7, -0x1.1764cd2cf587dp-9, 0x1.13bbc60161b6dp-15, 0x1.7c5713727f6c8p-13, \
        -0x1.0f96e695734e2p-14, 0x1.20d5d02a18a6p-20, 0x1.c81c253beb6e6p-18,                       \
        -0x1.e35c2d19dbdf4p-20, -0x1.ce4efeb499096p-22, 0x1.4eb770581940ap-22,                     \
        0x1.4bde0ba456086p-27, -0x1.7b3d5875a415fp-25, -0x1.7e380e76f5525p-33,                     \
        0x1.615ad08e2b02fp-28, 0x1.d86f629646f2bp-31
#include "src/kernels/kernels_real.h"

static uint64_t keep_bits(const uint8_t *bytes, size_t n)
{
    uint64_t bits = 0;
    size_t i = 0;

#ifdef KEEP_BITS_VECTOR
    for (; i + KEEP_BITS_VECTOR <= n; i += KEEP_BITS_VECTOR)
        bits |= vec_keep_bits(bytes + i) << i;
#endif
    for (; i < n; i++)
        bits |= (uint64_t)(bytes[i] != 0) << i;
    return bits;
}

#include "src/kernels/nn_bits.h"

static float plain_multiply_add(float a, float b, float c)
{
    return a * b + c;
}

#define FILL_F32(ret, name, args) name##_f32,
#define FILL_F64(ret, name, args) name##_f64,
const attn__kernels PASTE(attn__kernels_, SET);
const attn__kernels PASTE(attn__kernels_, SET) = {
    .set = SET_ID,
    .f32 = {ATTN__KERNEL_LIST(FILL_F32, float)},
    .f64 = {ATTN__KERNEL_LIST(FILL_F64, double)},
    .gemm_f32 = {ATTN__GEMM_LIST(FILL_F32, float)},
    .gemm_f64 = {ATTN__GEMM_LIST(FILL_F64, double)},
    .gradient_f32 = {ATTN__GRADIENT_LIST(FILL_F32, float)},
    .gradient_f64 = {ATTN__GRADIENT_LIST(FILL_F64, double)},
    .train_f32 = {ATTN__TRAIN_LIST(FILL_F32, float)},
    .train_f64 = {ATTN__TRAIN_LIST(FILL_F64, double)},
    .nn_f32 = {ATTN__NN_LIST(FILL_F32, float)},
    .nn_f64 = {ATTN__NN_LIST(FILL_F64, double)},
    .drop_bits = drop_bits,
    .stats_f32 = {ATTN__STATS_LIST(FILL_F32, float)},
    .stats_f64 = {ATTN__STATS_LIST(FILL_F64, double)},
    .keep_bits = keep_bits,
    .plain_multiply_add = plain_multiply_add,
};

#ifdef TARGET_PUSHED
#pragma clang attribute pop
#endif
