/* pass.h: one pass over a model: where everything lies in the arena, and the steps of stacks. */
#ifndef ATTN_NN_PASS_H
#define ATTN_NN_PASS_H

#include "src/nn/layers.h"
#include "src/nn/model.h"

typedef struct attn__run attn__run;
typedef struct attn__memory attn__memory;

/* A model's matrices as products like to read them; by the number of the weight's tensor, NULL
 * where there is no copy. A matrix that others join is there with all their rows. */
typedef struct attn__copies {
    attn_packed **packed;
    void **scale; /* of i8 copies: a factor for each row */
    size_t *rows;
} attn__copies;

/* A sublayer's norm. y: pre, what the sublayer reads (post: not there); sum: post, what is normed.
 */
typedef struct attn__norm_state {
    void *y, *sum;
    void *mean, *rstd; /* one of each row */
} attn__norm_state;

/* Queries, keys and values, or their gradients, [row][head][width]; rows lie so many elements
 * apart: what one matrix product makes lies side by side. */
typedef struct attn__heads {
    void *q, *k, *v;
    ptrdiff_t q_row, k_row, v_row;
} attn__heads;

/* In memory of attn__heads_size elements. */
attn__heads attn__place_heads(const attn__run *r, void *memory, size_t rows, size_t keys,
                              bool joined, bool cross);
size_t attn__heads_size(const attn_model_config *c, size_t rows, size_t keys);

typedef struct attn__attend_state {
    attn__norm_state norm;
    void *heads;         /* as attention reads them */
    void *raw_q, *raw_k; /* before their norms, or NULL */
    void *q_mean, *q_rstd, *k_mean, *k_rstd;
    void *even_q; /* q before the temperature, or NULL */
    void *o, *lse;
    uint64_t *bits;
    void *out; /* [rows][d]: the stream after the sublayer */
} attn__attend_state;

typedef struct attn__ff_state {
    attn__norm_state norm;
    void *up, *gate; /* before the activation; NULL where the result tells enough, or no gate */
    void *h;         /* what W2 reads */
    uint64_t *inner_bits, *bits;
    void *out;
} attn__ff_state;

typedef struct attn__block_state {
    void *x;
    attn__attend_state self, cross;
    attn__ff_state ff;
} attn__block_state;

/* The rows of one stack. */
typedef struct attn__side {
    const attn__half *half; /* NULL: the pass has no such stack */
    size_t rows, longest;
    const int32_t *given; /* the caller's ids */
    const int64_t *starts;
    const int32_t *types;           /* the caller's, or NULL */
    int64_t *own_starts;            /* of queries, which are in no batch; or NULL */
    int32_t *id, *place, *sequence; /* of each row: after the shift, -1 a zero vector; position in
                                     * its sequence; number of the sequence */
    int32_t *at;                    /* row of the table of positions */
    uint32_t site;                  /* dropout: first of this stack */

    void *positions;                                /* [longest][d] sines, or NULL */
    void *cosine, *sine, *minus_sine;               /* [longest][rotary / 2], or NULL */
    void *bias, *dbias;                             /* [heads][longest][longest] of T5, or NULL */
    void *slopes;                                   /* [heads] of ALiBi, or NULL */
    void *embedded, *embedded_mean, *embedded_rstd; /* before the embedding's norm, or NULL */
    uint64_t *bits;
    attn__block_state *block; /* one for each layer */
    void *last;               /* the stream at the end */
    void *hidden, *mean, *rstd;
} attn__side;

struct attn__run {
    const attn_model *model;
    const attn_ctx *ctx;
    const attn_batch *batch;
    int flags;
    uint64_t seed;
    bool f64;
    size_t unit; /* bytes of an element */
    int64_t segments;
    const attn_look *looks;
    size_t look_count;
    attn__side encoder, decoder;

    /* Generation (generate.h): copies of weights, and keys and values that outlive the pass; or
     * NULL. A step has one row for each hypothesis that memory holds; the encoder has none then. */
    const attn__copies *copies;
    attn__memory *memory;
    bool step;

    /* Scratch, of the longer side. */
    void *rest;          /* [rows][d] */
    void *g, *da, *dy;   /* [rows][d], backward */
    void *dmemory;       /* [encoder rows][d] */
    void *dout, *dheads; /* by what attention gives, and by what it reads */
    void *dh, *dgate;    /* [rows][ff] */
    void *work;          /* of products and attention */
    size_t work_size;
    char *gradients; /* backward: the caller's block */
};

/* Sites of dropout in a block: after self-attention, after cross-attention, within and after the
 * feed-forward layer. Site 0 of a stack is that of the embedding. */
enum { attn__site_self, attn__site_cross, attn__site_inner, attn__site_ff, attn__sites = 8 };

static inline uint32_t attn__site(size_t layer, int kind)
{
    return (uint32_t)(1 + layer) * attn__sites + (uint32_t)kind;
}

/* --- Helpers, in steps.c ---------------------------------------------------------------------- */

/* Tensor of the weights or (gradient) of the gradients; NULL if there is none. */
void *attn__tensor(const attn__run *r, int param, bool gradient);
attn_view attn__tensor_view(const attn__run *r, int param, bool gradient);

/* [1, 1, rows, cols] over dense memory. */
attn_view attn__matrix_view(const attn__run *r, const void *data, size_t rows, size_t cols);
attn__rows attn__dense(void *data, size_t cols);
attn__shape attn__shape_of(const attn__run *r, size_t rows, size_t n);

/* A product with the run's scratch memory; and its right side from the run's copies, if it is
 * there. */
attn_status attn__product(const attn__run *r, attn_gemm_args *g, attn_error *err);
void attn__use_copy(const attn__run *r, int weight, attn_gemm_args *g);

/* out = act(x W^T + b) + residual, x [rows, in]; out may be residual. `outs`: rows of W, more than
 * its own where others join it; 0: its own. */
attn_status attn__linear_forward(const attn__run *r, attn__linear l, size_t outs, const void *x,
                                 size_t rows, attn_activation activation, const void *residual,
                                 void *out, attn_error *err);
/* dW += dout^T x, db += sum dout, dx = factor * dout W + add. dx NULL: not wanted; add may be NULL
 * or dx. */
attn_status attn__linear_backward(const attn__run *r, attn__linear l, size_t outs, const void *x,
                                  const void *dout, size_t rows, double factor, const void *add,
                                  void *dx, attn_error *err);

/* A norm of whole rows: out = norm(x). */
void attn__norm_rows(const attn__run *r, attn__norm_layer l, size_t rows, const void *x,
                     const attn__norm_state *s, void *out);
/* dx = add + ...; weights' gradients are added. */
void attn__norm_rows_back(const attn__run *r, attn__norm_layer l, size_t rows, const void *x,
                          const attn__norm_state *s, const void *dout, const void *add, void *dx);

/* out = add + Drop(x) at a site of a side; `make` draws the bits. */
void attn__drop(const attn__run *r, const attn__side *side, uint32_t site, double rate,
                uint64_t *bits, bool make, size_t n, const void *x, const void *add, void *out);

/* Rate of a kind of dropout in this pass. */
double attn__rate(const attn__run *r, double configured);

/* A memory of `wanted` bytes for a call, or NULL: it shall allocate its own. */
void *attn__work(const attn__run *r, size_t wanted);

/* --- Sublayers ------------------------------------------------------------------------------ */

/* x + Drop(Attn(...)), norms where they belong, from x to s->out. `memory`: keys' side, NULL: self.
 * Backward turns r->g from the derivative by s->out into that by x. */
attn_status attn__attend_forward(const attn__run *r, const attn__side *side,
                                 const attn__side *memory, const attn__attention *a,
                                 attn__norm_layer norm, const void *x, const attn__attend_state *s,
                                 uint32_t site, attn_error *err);
attn_status attn__attend_backward(const attn__run *r, const attn__side *side,
                                  const attn__side *memory, const attn__attention *a,
                                  attn__norm_layer norm, const void *x, const attn__attend_state *s,
                                  uint32_t site, attn_error *err);

attn_status attn__ff_forward(const attn__run *r, const attn__side *side, const attn__block *b,
                             const void *x, const attn__ff_state *s, uint32_t site,
                             attn_error *err);
attn_status attn__ff_backward(const attn__run *r, const attn__side *side, const attn__block *b,
                              const void *x, const attn__ff_state *s, uint32_t site,
                              attn_error *err);

/* --- Stacks --------------------------------------------------------------------------------- */

/* From ids to side->hidden; backward from r->g. */
attn_status attn__stack_forward(const attn__run *r, const attn__side *side,
                                const attn__side *memory, attn_error *err);
attn_status attn__stack_backward(const attn__run *r, const attn__side *side,
                                 const attn__side *memory, attn_error *err);

/* Tables of positions of a side. */
void attn__make_positions(const attn__run *r, const attn__side *side);

/* T5: biases of keys before the query, [heads][longest]: of distance longest - 1 first, of 0 last.
 */
void attn__make_distances(const attn__run *r, const attn__side *side, void *to);

/* Adds dbias to the gradient of the table of buckets. */
void attn__add_buckets(const attn__run *r, const attn__side *side);

/* --- Passes --------------------------------------------------------------------------------- */

/* Starts, and ids below `vocabulary`, of one side of a batch; the length of its longest sequence.
 */
attn_status attn__check_ids(const attn__run *r, const int32_t *ids, const int64_t *starts,
                            int64_t vocabulary, const char *what, int64_t *longest,
                            attn_error *err);

/* Whether learned positions reach so far. */
attn_status attn__check_places(const attn_model_config *c, int64_t longest, const char *what,
                               attn_error *err);

/* A run of a model without anything in it. */
void attn__open_run(attn__run *r, const attn_model *model, int flags, int64_t segments);

/* attn_model_forward with what generation adds, either of which may be NULL. */
attn_status attn__forward(const attn_model *model, attn_pass *pass, const attn__copies *copies,
                          attn__memory *memory, attn_error *err);

#endif
