/* choose.c: see choose.h. Log-probabilities are x - top - ln(sum), in double, of the logits as they
 * are; the sum is that of the training loss. */
#include "src/nn/choose.h"

#include "src/base/ctx.h"
#include "src/base/mem.h"
#include "src/kernels/kernels.h"

#include <math.h>
#include <stdlib.h>

enum {
    TILE = attn__tile,
    LANES = 16,
    FEW = 256 /* candidates that are cheaper to keep in order than to sort afterwards */
};

static size_t lowest(uint64_t bits)
{
    size_t n = 0;

    for (; !(bits & 0xff); bits >>= 8)
        n += 8;
    for (; !(bits & 1); bits >>= 1)
        n++;
    return n;
}

static int better_first(const void *a, const void *b)
{
    const attn__candidate *x = a, *y = b;

    if (x->log_probability != y->log_probability)
        return x->log_probability > y->log_probability ? -1 : 1;
    return x->token < y->token ? -1 : x->token > y->token;
}

#define REAL float
#define C(name) name##_f32
#define CORE f32
#define STATS stats_f32
#define TRAIN train_f32
#include "src/nn/choose_real.h"

#define REAL double
#define C(name) name##_f64
#define CORE f64
#define STATS stats_f64
#define TRAIN train_f64
#include "src/nn/choose_real.h"

bool attn__choose_best(const attn__row *r, size_t k, attn__candidate *best, size_t *count)
{
    return (r->f64 ? choose_best_f64 : choose_best_f32)(r, k, best, count);
}

bool attn__choose_drawn(const attn__row *r, const attn__drawing *d, const double *uniform,
                        attn__candidate *drawn, size_t *count)
{
    return (r->f64 ? choose_drawn_f64 : choose_drawn_f32)(r, d, uniform, drawn, count);
}

bool attn__choose_given(const attn__row *r, int32_t token, double *log_probability)
{
    return (r->f64 ? choose_given_f64 : choose_given_f32)(r, token, log_probability);
}
