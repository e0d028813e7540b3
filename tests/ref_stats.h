/* ref_stats.h: the statistics of attn_stats from weights and logits in long double, cell by cell,
 * with an error bound for each number, and their comparison with results. Shares no code with src/:
 * every statistic is summed literally over the Tq x Tk cells of ref.h's weights. */
#ifndef ATTN_TESTS_REF_STATS_H
#define ATTN_TESTS_REF_STATS_H

#include "tests/ref.h"

/* All cells of a call: [sequences, heads, tq, tk] of the longest lengths. */
typedef struct ref_stats {
    ref r; /* weights of all heads and their bounds */
    int64_t sequences, heads, tq, tk;
    unsigned char *allowed;
    double *logit[3], *logit_bound[3];                           /* raw, capped, final */
    int64_t *q_pos, *k_pos, *k_start, *k_count, *rows, *columns; /* [sequences] */
} ref_stats;

/* args->stats and the outputs are not looked at. */
void ref_stats_make(const attn_forward_args *args, const ref_options *options, ref_stats *s);
void ref_stats_free(ref_stats *s);

/* Compares every output of args->stats with *s. Returns the number of violations, the first
 * described in why; *ratio rises to the worst error / bound. */
int ref_stats_compare(const attn_forward_args *args, const ref_stats *s, double *ratio, char *why,
                      size_t n);

/* An element of i32 or i64. */
int64_t ref_index(const attn_view *v, int64_t b, int64_t h, int64_t i, int64_t j);

#endif
