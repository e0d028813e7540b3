/* scene.h: a small random call to which a test adds options, and what is asked of its result
 * (test_contract.c, test_contract_options.c). */
#ifndef ATTN_TESTS_SCENE_H
#define ATTN_TESTS_SCENE_H

#include "tests/expect.h"

/* Memory of the scene at hand, cleared by the next scene_start. */
extern arena scene_mem;

/* A call with room for every option; an absent view is not passed. */
typedef struct scene {
    const attn_ctx *ctx;
    attn_forward_args a;
    attn_mask m;
    rng r;
} scene;

/* Shape is B, H, Hk, Tq, Tk, D, Dv; q, k, v uniform; out and lse in f32 (f64). The context is that
 * of the test's kernel set, two threads. */
void scene_start(scene *s, void **state, attn_type type, const int64_t shape[7]);
#define START(s, state, type, ...) scene_start(s, state, type, (const int64_t[7]){__VA_ARGS__})

attn_view scene_uniform(scene *s, attn_type type, int64_t b, int64_t h, int64_t n, int64_t d);

/* f64 for f64, else f32. */
attn_type scene_wide(attn_type type);

/* Computes; must succeed. scene_result gives the output in memory of its own. */
void scene_run(scene *s);
attn_view scene_result(scene *s);

/* Computes and holds every output to the double reference. */
void scene_within_bound(scene *s, const char *what);

/* A keep mask of ones, [B, H, Tq, Tk]. */
attn_view scene_keep_all(const scene *s);
void scene_ask_for_weights(scene *s);

/* How many keys row i of (0, 0) gives a weight, and the first of them. */
int64_t scene_attended(const scene *s, int64_t i, int64_t *first);

/* 1 if row i of head h of sequence 0 is all +0. */
int row_is_plus_zero(const attn_view *v, int64_t h, int64_t i);

#endif
