/* ref_backward.h: plain gradients in double precision (long double for all-f64 calls) of every
 * option of attn.h, with an error bound for each element, and their comparison with results.
 *
 * The formulas are those of attn.h at attn_backward, one query row after the other; the bounds
 * those of docs/numerics.md ("Gradients"). Logits, masks and the forward bounds come from ref.h; P
 * from the exact LSE, so that the error of the LSE and the O that a call is given, which are what
 * attn_forward wrote, is part of the bound. */
#ifndef ATTN_TESTS_REF_BACKWARD_H
#define ATTN_TESTS_REF_BACKWARD_H

#include "tests/ref.h"

/* Contiguous values and bounds, as those of `ref`. */
typedef struct ref_array {
    int64_t size[4];
    double *want, *bound;
} ref_array;

/* dq, dk, dv as q, k, v; dbias if args->dbias is there, as it; dsink and dalibi if the call has
 * sinks and slopes, as these; delta [batch, heads, tq, 1], which attn_forward can write. Others
 * have NULL. */
typedef struct ref_gradients {
    ref_array dq, dk, dv, dbias, dsink, dalibi, delta;
    int f64;
} ref_gradients;

/* Fills *r for a valid call; its outputs are not touched, nor are out, lse and delta read. The tile
 * function is as ref_forward wants it; its gradient must be linear in the gradients, with factors
 * between -1 and 1 that change by no more than their logit does, and accept ATTN_F64 tiles. */
void ref_backward(const attn_backward_args *args, const ref_options *options, ref_gradients *r);
void ref_gradients_free(ref_gradients *r);

/* Largest error / bound seen. Start from zeros. */
typedef struct ref_worst_gradients {
    double dq, dk, dv, dbias, dsink, dalibi, delta;
} ref_worst_gradients;

double ref_worst_gradient(const ref_worst_gradients *worst);

/* Compares what the outputs of args (those present) and `delta` (NULL or absent: not) hold with *r;
 * as ref_compare. */
int ref_compare_gradients(const attn_backward_args *args, const attn_view *delta,
                          const ref_gradients *r, ref_worst_gradients *worst, char *why, size_t n);

#endif
