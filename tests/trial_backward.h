/* trial_backward.h: random calls of attn_backward: a random call of attn_forward (trial.h), its
 * derivatives and the gradients asked for. */
#ifndef ATTN_TESTS_TRIAL_BACKWARD_H
#define ATTN_TESTS_TRIAL_BACKWARD_H

#include "tests/ref_backward.h"
#include "tests/trial.h"

/* Options of trial.h that a backward trial may have. */
#define BACKWARD_OPTIONS                                                                           \
    (((UINT32_C(1) << OPTION_COUNT) - 1) &                                                         \
     ~(OPT_LSE | OPT_WEIGHTS | OPT_PARTIAL | OPT_START | OPT_CHAIN | OPT_MERGE | OPT_IN_PLACE))

/* Options of its own. */
#define BACKWARD_EXTRAS(X)                                                                         \
    X(DLSE, "dlse")                                                                                \
    X(DELTA, "delta")   /* as attn_forward wrote it */                                             \
    X(NO_OUT, "no-out") /* delta without out */                                                    \
    X(DBIAS, "dbias")   /* of any shape, whether the call has a bias or not */                     \
    X(SOME, "some")     /* not every gradient is asked for */                                      \
    X(ALONG, "along")   /* dout parallel to values, or a single one of its elements is not 0 */

enum backward_extra_bit {
#define BACKWARD_BIT(name, text) EXTRA_BIT_##name,
    BACKWARD_EXTRAS(BACKWARD_BIT)
#undef BACKWARD_BIT
        EXTRA_COUNT
};

enum backward_extra {
#define BACKWARD_FLAG(name, text) EXTRA_##name = 1 << EXTRA_BIT_##name,
    BACKWARD_EXTRAS(BACKWARD_FLAG)
#undef BACKWARD_FLAG
};

const char *extra_name(int bit);

/* The tile function's user is the trial's rule. */
typedef struct backward_trial {
    trial t;
    uint32_t extras;
    attn_forward_args forward; /* of the call: writes out, lse and delta */
    attn_backward_args args;
    ref_gradients want;
} backward_trial;

/* Draws backward trial number `index` of a seed, with its reference. */
void backward_draw(backward_trial *x, uint64_t seed, uint64_t index);

/* The same with options, extras and data given. What cannot go with the rest is dropped. */
void backward_make(backward_trial *x, uint64_t seed, uint64_t index, uint32_t options,
                   uint32_t extras, generator gen);

/* Runs forward and backward and compares the gradients. Returns the number of violations, a failing
 * status counted as one, described in why[0..n-1]. */
int backward_run(backward_trial *x, const attn_ctx *ctx, ref_worst_gradients *worst, char *why,
                 size_t n);

/* One line: shape, generator, options. */
void backward_describe(const backward_trial *x, char *text, size_t n);

void backward_free(backward_trial *x);

#endif
