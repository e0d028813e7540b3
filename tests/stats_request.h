/* stats_request.h: random requests for statistics of a call, for the tests of attn_stats. */
#ifndef ATTN_TESTS_STATS_REQUEST_H
#define ATTN_TESTS_STATS_REQUEST_H

#include "tests/support.h"

enum { STATS_VIEWS = 19 };

typedef struct stats_request {
    attn_stats ask;
    int64_t rows[8], edges[12];
} stats_request;

/* The outputs of a request, in the order of attn_stats. */
attn_view *stats_view(attn_stats *s, int i);

/* Fills *q with statistics, each with `percent` in a hundred (at least one), for a call of these
 * sizes: sequences, longest lengths. `layouts`: views of any strides. */
void stats_draw(stats_request *q, arena *a, rng *r, const attn_forward_args *args,
                int64_t sequences, int64_t tq, int64_t tk, int percent, int layouts);

/* New memory for all outputs of a request, in *to; the lists and inputs stay those of *from. */
void stats_again(stats_request *to, const stats_request *from, arena *a);

/* Bytes that no result has, into all outputs. */
void stats_spoil(stats_request *q);

/* 1 if both requests hold the same bits; else *which is the output that differs. */
int stats_same(stats_request *a, stats_request *b, int *which);

#endif
