/* yardstick.h: a batch of sequences and the bits each gets alone, to hold every other way of
 * computing the same rows against (test_bits.c, test_bits_host.c, test_cache.c).
 *
 * The yardstick is each sequence alone, on one thread, in contiguous memory, all queries in one
 * call. */
#ifndef ATTN_TESTS_YARDSTICK_H
#define ATTN_TESTS_YARDSTICK_H

#include "tests/expect.h"

/* Option sets of a problem: none; causal, window, ALiBi and softcap; keep mask, bias, sink, dropout
 * and scale. */
enum { PLAIN, POSITIONS, ADDED, OPTION_SETS };

typedef struct problem {
    attn_type type;
    int options;
    int64_t b, h, hk, tq, tk, d, dv;
    attn_view q, k, v, keep, bias, alibi, sink;
    attn_view out, lse; /* the yardstick */
    attn_mask mask;     /* scratch of problem_args */
} problem;

/* Memory of the problem at hand; problem_each clears it after each. */
extern arena problem_mem;

/* Part of a view, as view_part; an absent view stays absent. */
attn_view view_columns(const attn_view *v, int64_t from, int64_t n);
attn_view view_rows(const attn_view *v, int64_t from, int64_t n);
attn_view view_batches(const attn_view *v, int64_t from, int64_t n);

/* Arguments for sequences b0 .. b0 + n - 1, without outputs; the mask lives in *p. */
attn_forward_args problem_args(problem *p, int64_t b0, int64_t n);

/* q_offset of the mask for decoding the last n of the problem's queries, so that they stand where
 * the yardstick had them. */
int64_t problem_decode_offset(const problem *p);

/* attn_forward that must succeed. */
void problem_run(const attn_ctx *ctx, const attn_forward_args *a);

/* New outputs for b sequences of tq queries. */
attn_view problem_out(const problem *p, int64_t b, int64_t tq);
attn_view problem_lse(const problem *p, int64_t b, int64_t tq);

/* Fails the test with the formatted text unless the bits are equal. */
void expect_same(const attn_view *got, const attn_view *want, const char *format, ...);

/* Uniform values in -1.5 .. 1.5. */
attn_view problem_input(rng *r, attn_type type, int64_t b, int64_t h, int64_t n, int64_t d);

/* b sequences of tq queries and tk keys, and their yardstick computed on `one`. */
problem problem_make(const attn_ctx *one, attn_type type, int options, int64_t b, int64_t tq,
                     int64_t tk);

/* Computes all rows of sequences b0.. in one call on ctx and holds them to the yardstick. */
void problem_check(const attn_ctx *ctx, problem *p, int64_t b0, int64_t n, const char *what);

/* Every combination in problem_each; else every pair of type, option set and lengths. */
extern int problem_full;

/* Runs `body` for each type and option set, with lengths that take the library through its paths:
 * many rows a key head, few, keys split among workers, as many queries as keys. All are large
 * enough to be shared among workers. */
void problem_each(void **state, int64_t b, void (*body)(attn_kernel_set set, problem *p));

#endif
