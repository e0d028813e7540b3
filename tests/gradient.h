/* gradient.h: the gradients of one problem of yardstick.h, computed in any way that must not change
 * their bits (test_backward.c, test_backward_bits.c). */
#ifndef ATTN_TESTS_GRADIENT_H
#define ATTN_TESTS_GRADIENT_H

#include "tests/ref_backward.h"
#include "tests/yardstick.h"

enum { DQ, DK, DV, DBIAS, DSINK, DALIBI, GRADIENTS };

extern const char *const gradient_names[GRADIENTS];

/* A problem and the derivatives of its loss. */
typedef struct subject {
    problem *p;
    attn_view dout, dlse;
    attn_view given[2]; /* if present, taken in the place of k and v */
} subject;

typedef struct gradients {
    attn_view of[GRADIENTS]; /* absent: not asked for */
} gradients;

enum memory { NO_WORKSPACE, FULL_WORKSPACE, LEAST_WORKSPACE };

/* A way to compute: all zero but the context, and n, is the plain way. */
typedef struct way {
    const attn_ctx *ctx;
    int64_t b0, n; /* sequences */
    layout kind;   /* of every array */
    enum memory memory;
    unsigned without; /* bits of gradients that are not asked for */
    int bias_sums;    /* dbias is [1, 1, 1, Tk] instead of [n, H, Tq, Tk] */
} way;

subject subject_make(problem *p);

/* A call with its arrays; the mask lives in the problem, so one is in use at a time. */
typedef struct gradient_call {
    attn_forward_args f;
    attn_backward_args a;
} gradient_call;

/* Fills *c: outputs hold 77. gradient_forward then makes out and lse; gradient_backward must
 * succeed. */
void gradient_make(gradient_call *c, subject *s, const way *w);
void gradient_forward(const attn_ctx *ctx, gradient_call *c);
gradients gradient_backward(gradient_call *c, const way *w);

/* All three. */
gradients gradient_run(subject *s, const way *w);

/* Fails the test with the formatted text unless what both hold is equal bit for bit. */
void expect_same_gradients(const gradients *got, const gradients *want, const char *what);

/* Holds the outputs of a call that ran to the reference. */
void expect_within_bounds(const gradient_call *c, const char *what);

#endif
