/* support.h: what every test program needs: a reporter, contexts for kernel sets, random numbers,
 * memory that catches stray accesses, and views with any layout. */
#ifndef ATTN_TESTS_SUPPORT_H
#define ATTN_TESTS_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "include/attn/attn.h"

/* --- Reporter ------------------------------------------------------------------------------- */

/* A test; with per_set it runs once for each kernel set, skipped where the set cannot run. */
typedef struct test_case {
    const char *name;
    void (*run)(void **state);
    int per_set;
} test_case;

/* Runs the tests whose name (with "/avx2" and the like) contains the filter and ends with the line
 * "N passed, N failed, N skipped". Arguments: [--seed N] [--set NAME] [--list] [filter]. A program
 * with arguments of its own removes them first. Returns the exit code. */
int test_main(int argc, char **argv, const test_case *tests, size_t n);

/* Takes "name value" out of the arguments, or (keep) leaves it there; NULL if it is not there. */
const char *test_option(int *argc, char **argv, const char *name, int keep);

/* Within a per_set test: the set at hand. Elsewhere: ATTN_SET_AUTO. */
attn_kernel_set test_set(void **state);

/* Which of the tests given to test_main this is. */
size_t test_index(void **state);

/* The seed of this run (printed; --seed). */
uint64_t test_seed(void);

/* --- Contexts ------------------------------------------------------------------------------- */

/* Kernel sets that run here, best first; returns how many. */
size_t sets_available(attn_kernel_set sets[4]);

/* The set called "scalar", "neon", ...; -1 if unknown. */
int set_from_name(const char *name);

/* A context of that set and width, made once and kept until the program ends. Fails the test if it
 * cannot be made. */
const attn_ctx *ctx_for(attn_kernel_set set, int threads);

/* --- Random numbers (splitmix64)
 * ----------------------------------------------------------------*/

typedef struct rng {
    uint64_t state;
} rng;

rng rng_make(uint64_t seed, uint64_t stream);
uint64_t rng_next(rng *r);
double rng_unit(rng *r);                           /* [0, 1) */
double rng_range(rng *r, double low, double high); /* [low, high) */
double rng_bell(rng *r); /* near Gaussian, mean 0, variance 1, |x| < 3.5 */
int64_t rng_int(rng *r, int64_t low, int64_t high); /* low .. high, both included */
int rng_chance(rng *r, int percent);

/* --- Memory --------------------------------------------------------------------------------- */

/* Memory freed together. Zeroed struct is empty. */
typedef struct arena {
    struct arena_block *blocks;
} arena;

void *arena_get(arena *a, size_t size); /* 64-byte aligned, not cleared; a test failure if none is
                                           left */
void arena_reset(arena *a);             /* frees everything, guarded memory too */

/* `size` bytes between two pages that fault: the first byte right after one (at_end 0), or the last
 * byte right before the other (at_end 1). Part of the arena. */
void *arena_guarded(arena *a, size_t size, int at_end);

/* --- Views ---------------------------------------------------------------------------------- */

/* How a view lies in memory. */
typedef enum layout {
    LAYOUT_BHSD,    /* contiguous */
    LAYOUT_BSHD,    /* contiguous, heads inside rows */
    LAYOUT_PACKED,  /* BSHD inside wider rows, as in a packed QKV */
    LAYOUT_PADDED,  /* BHSD with gaps after rows and heads */
    LAYOUT_COLUMNS, /* columns outside rows: column stride above 1 */
    LAYOUT_REVERSE, /* rows, heads and columns run backwards */
    LAYOUT_STEPS,   /* every stride with a gap of its own, columns included */
    LAYOUT_COUNT
} layout;

const char *layout_name(layout kind);

/* A view of new memory. Every byte outside the elements is poison (a NaN pattern for floats), and
 * the first element is aligned to its size and no more. */
attn_view view_new(arena *a, rng *r, attn_type type, int64_t b, int64_t h, int64_t n, int64_t d,
                   layout kind);

/* The same with exactly the bytes needed (BHSD), guarded at one end. */
attn_view view_guarded(arena *a, attn_type type, int64_t b, int64_t h, int64_t n, int64_t d,
                       int at_end);

/* Contiguous BHSD. */
attn_view view_plain(arena *a, attn_type type, int64_t b, int64_t h, int64_t n, int64_t d);

/* Copy of the values in another layout or type. */
attn_view view_copy(arena *a, rng *r, const attn_view *from, attn_type type, layout kind);

double view_get(const attn_view *v, int64_t b, int64_t h, int64_t i, int64_t j);
void view_set(const attn_view *v, int64_t b, int64_t h, int64_t i, int64_t j, double value);
void view_fill(const attn_view *v, double value);
void view_uniform(const attn_view *v, rng *r, double low, double high);
int64_t view_count(const attn_view *v);

/* Part of a view: rows (dimension 2) or heads (1) or batches (0) from..from+n-1. */
attn_view view_part(const attn_view *v, int dimension, int64_t from, int64_t n);

/* 1 if the logical elements of both have the same type, sizes and bits. */
int view_same_bits(const attn_view *a, const attn_view *b);

/* Hash of the bytes of a view's elements: to show that inputs stayed as they were. */
uint64_t view_hash(const attn_view *v);

/* 1 if all memory of the arena outside the elements of its views is still poison. */
int arena_poison_intact(const arena *a);

#endif
