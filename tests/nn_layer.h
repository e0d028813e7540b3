/* nn_layer.h: what tests of single layers share: random views, gradients by differences,
 * refusals. */
#ifndef ATTN_TESTS_NN_LAYER_H
#define ATTN_TESTS_NN_LAYER_H

#include "include/attn/nn.h"
#include "tests/expect.h"

#include <string.h>

/* Of views below; a test resets it. */
extern arena layer_memory;

/* [1, 1, rows, n] with gaps between rows; [1, heads, rows, n] of any layout. Random, or zeros. */
attn_view bells(rng *r, attn_type type, int64_t rows, int64_t n);
attn_view head_bells(rng *r, attn_type type, int64_t heads, int64_t rows, int64_t n, layout kind);
attn_view zeros(rng *r, attn_type type, int64_t rows, int64_t n);

/* Sum of products of two views of one shape. */
double view_dot(const attn_view *a, const attn_view *b);

/* The loss of a call: dout . out, as a function of the views it reads. */
typedef double (*loss_fn)(void *call);

/* d(loss)/d(view) along a random direction, by differences, against `gradient`. f64. */
void check_gradient(rng *r, loss_fn loss, void *call, const attn_view *view,
                    const attn_view *gradient, const char *what);

/* REFUSES(a change of `a`, which begins as `good`; the call; status and beginning of the text in
 * `err`) */
#define REFUSES(change, call, status, start)                                                       \
    do {                                                                                           \
        a = good;                                                                                  \
        change;                                                                                    \
        CHECK_MSG((call) == (status), "%s: went another way: %s", #change, err.text);              \
        CHECK_MSG(strncmp(err.text, start, strlen(start)) == 0, "%s: %s", #change, err.text);      \
    } while (0)

/* Two workers. */
const attn_ctx *layer_ctx(void);

#endif
