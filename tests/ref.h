/* ref.h: plain attention in double precision (long double for all-f64 calls), every option of
 * attn.h, with an error bound for each element; and the comparison that decides whether a result
 * passes.
 *
 * The reference shares no code with src/. It takes the formulas of attn.h literally: one query row
 * after the other, all logits of a row at once, no tiles. The bounds are those of
 * docs/numerics.md, computed for the row at hand, so they hold for any data and stay sharp. */
#ifndef ATTN_TESTS_REF_H
#define ATTN_TESTS_REF_H

#include "include/attn/attn.h"

/* Result and bounds. `out` and `lse` lie as the outputs of attn_forward: [batch, heads, tq, dv] and
 * [batch, heads, tq], contiguous (packed batches: batch is 1, tq all rows). `weights` lies as
 * [wb, wh, wq, wk], the sizes of args->weights, and is NULL if that is absent.
 *
 * A bound says how to compare: finite: |result - ref| <= bound + rounding to the output's type, and
 * 0 asks for equality; +inf: any non-finite result (infinity or NaN, which of them depends on the
 * order of the work); NaN: the contract leaves the element open. A NaN reference wants NaN, an
 * infinite one that infinity. */
typedef struct ref {
    int64_t batch, heads, tq, dv;
    int64_t wb, wh, wq, wk;
    double *out, *lse, *weights;
    double *bound_out, *bound_lse, *bound_weights;
    double *max;      /* [batch, heads, tq]: largest attended logit, -inf for an empty row */
    int64_t *allowed; /* [batch, heads, tq]: keys attended */
    int f64;          /* the call is all f64 */
} ref;

typedef struct ref_options {
    int wide;         /* compute in long double whatever the types */
    int narrow;       /* compute gradients in float: what the bounds must let through */
    int exact_scores; /* the caller vouches that the f32 logits of this data are exact */
    int merges;       /* merges of partial results beyond those at multiples of 512 positions */
    double denormals; /* factor of the bound's term for denormal results; 0 means 1 */
} ref_options;

/* Fills *r for a valid call. Outputs of args are not touched, `partial` and `workspace` are ignored
 * (a partial call's r: sinks left out), `start` enters as one more key. The tile function must
 * accept ATTN_F64 tiles, move no two logits further apart than they were, and is called row by row.
 */
void ref_forward(const attn_forward_args *args, ref *r);
void ref_forward_with(const attn_forward_args *args, const ref_options *options, ref *r);

/* 1 if the mask lets query row i of (b, h) attend key row j, the tile function left out; b, i and j
 * as in the formulas. */
int ref_allows(const attn_forward_args *args, int64_t b, int64_t h, int64_t i, int64_t j);

/* Frees what ref_forward allocated and clears *r. */
void ref_free(ref *r);

/* Largest error / bound seen, rounding to half types left out of both. Start from zeros. */
typedef struct ref_worst {
    double out, lse, weights;
} ref_worst;

double ref_worst_of(const ref_worst *worst);

/* Compares what args->out, lse and weights (those present) hold with *r. Returns the number of
 * violations and describes the first in why[0..n-1]; updates *worst (may be NULL). */
int ref_compare(const attn_forward_args *args, const ref *r, ref_worst *worst, char *why, size_t n);

/* What ref_compare does for one output: its view (absent: nothing), and values and bounds in the
 * same order. `before`: violations found so far; *ratio rises to the worst. */
typedef struct ref_part {
    const char *name;
    const attn_view *view;
    const double *want, *bound;
    int f64;
} ref_part;

int ref_compare_part(const ref_part *part, double *ratio, char *why, size_t n, int before);

/* The same for a record of a call without sinks: out / sum and max + ln(sum) against *r, and the
 * place of max against the largest logit. */
int ref_compare_partial(const attn_partial *partial, const ref *r, ref_worst *worst, char *why,
                        size_t n);

/* One element: 1 if `got` fails. `rounding` is half a unit of the output's type near the value.
 * *ratio rises to error / bound. */
int ref_check(double got, double want, double bound, double rounding, double *ratio);

/* 1 if the cell is dropped (docs/numerics.md), for tests that build expected masks. */
int ref_dropped(double p, uint64_t seed, int64_t batch, int64_t head, int64_t pos_q, int64_t pos_k);

/* Philox4x32-10 of Salmon et al. (2011): one block of four words. */
void ref_philox(const uint32_t key[2], const uint32_t counter[4], uint32_t out[4]);

/* Values <-> storage, for all floating types and u8. ref_store rounds to nearest even. */
double ref_load(const void *element, attn_type type);
void ref_store(void *element, attn_type type, double value);

/* Address of an element of a view whose sizes of 1 repeat. */
void *ref_at(const attn_view *view, int64_t b, int64_t h, int64_t i, int64_t j);

#endif
