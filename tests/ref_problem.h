/* ref_problem.h: what the parts of the reference share: a call taken apart into sequences and
 * rows, masks and dropout (ref.c), for the forward pass (ref_row.h) and for gradients
 * (ref_backward.c). */
#ifndef ATTN_TESTS_REF_PROBLEM_H
#define ATTN_TESTS_REF_PROBLEM_H

#include "tests/ref.h"

/* Roundings of e^x per unit of x: the difference and the product each round once, and the f32
 * nearest to log2(e) is off by 0.22 u; twice that, to stay clear of the tripwire where nothing else
 * matters. */
#define REF_DISTANCE 4.5

/* One sequence: its rows in the buffers and where they stand. */
typedef struct seq {
    int64_t qb, kb;           /* batch index in q and out, in k and v */
    int64_t q_first, tq;      /* rows of q that are the sequence's */
    int64_t k_first, tk;      /* rows of k */
    int64_t q_count;          /* of these exist */
    int64_t k_start, k_count; /* of these exist, counted from k_first */
    int64_t q_pos, k_pos;     /* position of query row 0 and of the first key that exists */
} seq;

/* One query row. */
typedef struct row_place {
    int64_t b, h, i;   /* as in the formulas: sequence, head, row of the sequence */
    int64_t qb, q_row; /* in the buffers */
    int64_t row;       /* in ref.lse */
    int64_t pos_q;
    int absent; /* past q_count */
    int has_sink;
    double sink;
    int64_t n;        /* keys attended */
    double roundings; /* n of docs/numerics.md, blocked by splits */
    double lazy;      /* roundings that rescaling by up to 2^8 can add */
    double vanish;    /* weights of this size can meet a factor that is too small for normals */
} row_place;

typedef struct problem {
    const attn_forward_args *args;
    const attn_mask *mask;
    ref_options options;
    ref *r;
    int64_t sequences, longest_k, dk, group;
    double u, tiny, denormal; /* unit roundoff; a weight too small for normals; smallest denormal */
    seq seq;
    unsigned char *allowed; /* [longest_k] of the row at hand */
    double *tile;           /* [longest_k] */
    const int64_t *dbias;   /* sizes of the gradient of a bias */
} problem;

static inline int has_view(const attn_view *view)
{
    return view->data != NULL;
}

/* The call as a problem whose results go to *r, which ref_make_result has made. Give it back with
 * ref_problem_free. */
problem ref_problem(const attn_forward_args *args, const ref_options *options, ref *r);
void ref_problem_free(problem *p);
void ref_make_result(const attn_forward_args *args, ref *r);

/* Cleared memory; the program ends if there is none. */
void *ref_get(size_t size);

/* Sets p->seq. */
void ref_find_sequence(problem *p, int64_t b);

/* Of the sequence at hand. */
int64_t ref_key_position(const problem *p, int64_t j);
row_place ref_find_row(const problem *p, int64_t b, int64_t h, int64_t i);

/* Sets p->allowed, the tile function left out; then, once that is settled, what the order of the
 * work over the attended keys says about roundings. */
void ref_find_allowed(const problem *p, const row_place *at);
void ref_count_keys(const problem *p, row_place *at);

/* The row's existing keys as a tile whose logits are p->tile. */
attn_tile ref_row_tile(const problem *p, const row_place *at);

int ref_cell_dropped(const problem *p, const row_place *at, int64_t j);

/* Element of a record for the row. */
double ref_record_value(const attn_view *view, const row_place *at, int64_t c);

#endif
