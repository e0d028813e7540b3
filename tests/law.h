/* law.h: what test_laws.c and test_laws_bounds.c share: a law is a function that makes two calls
 * out of one random trial (trial.h) and compares them. */
#ifndef ATTN_TESTS_LAW_H
#define ATTN_TESTS_LAW_H

#include "tests/trial.h"

/* Options that change how a call is made, not what it computes: never part of a law's trial. */
#define PLAIN_CALLS                                                                                \
    (OPT_PARTIAL | OPT_CHAIN | OPT_MERGE | OPT_IN_PLACE | OPT_WORKSPACE | OPT_WEIGHTS | OPT_LSE)
#define ANY_OPTION (((UINT32_C(1) << OPTION_COUNT) - 1) & ~PLAIN_CALLS)
/* Options whose arrays or functions are tied to the numbers of batches, heads or keys. */
#define BY_BATCH (OPT_PACKED | OPT_LENGTHS | OPT_Q_OFFSETS | OPT_K_OFFSETS | OPT_BLOCKS)
#define BY_PLACE (OPT_TILE | OPT_DROPOUT | OPT_START)

/* The trial at hand and the kernels it runs on. */
typedef struct law {
    trial t;
    const attn_ctx *ctx;
} law;

/* A law, the options that each of its trials has, and those it may have. */
typedef struct law_entry {
    const char *name;
    void (*check)(law *x);
    uint32_t always, may;
} law_entry;

/* Runs every law on every kernel set; see test_main. */
int law_main(int argc, char **argv, const law_entry *laws, size_t n);

/* What a call gave. */
typedef struct result {
    attn_view out, lse;
} result;

/* Runs the call with outputs of its own. */
result law_run(law *x, const attn_forward_args *call);

/* Fails unless both results have the same bits. */
void law_same(const law *x, const result *a, const result *b);

/* The view with one dimension back to front. */
attn_view law_turned(attn_view v, int dimension);

#endif
