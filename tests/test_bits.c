/* test_bits.c: the promise that an output row's bits depend on the row's own inputs and nothing
 * else (D0 to D3 of docs/numerics.md), by memcmp, for every storage type and kernel set.
 *
 * The yardstick of a problem is each sequence alone, on one thread, in contiguous memory, all
 * queries in one call. Everything else that computes the same rows must give the same bits: more
 * threads, the caller's workers, batch mates, padding, strides, other cuts of queries and keys,
 * caches, decode, any floating-point environment of the caller.
 */
#include "include/attn/attn.h"
#include "tests/yardstick.h"

#include <pthread.h>
#include <stdatomic.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const int widths[] = {1, 2, 3, 7, 16};

/* --- Threads and workers -------------------------------------------------------------------- */

static void threads_body(attn_kernel_set set, problem *p)
{
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
        problem_check(ctx_for(set, widths[i]), p, 0, p->b, "threads");
}

static void threads_change_nothing(void **state)
{
    problem_each(state, 2, threads_body);
}

/* One after the other, last first. */
static void for_backwards(void *user, size_t n, void (*task)(void *arg, size_t i), void *arg)
{
    (void)user;
    while (n-- > 0)
        task(arg, n);
}

typedef struct share {
    size_t n;
    atomic_size_t next;
    void (*task)(void *arg, size_t i);
    void *arg;
} share;

static void *share_worker(void *arg)
{
    share *s = arg;
    size_t i;

    while ((i = atomic_fetch_add(&s->next, 1)) < s->n)
        s->task(s->arg, i);
    return NULL;
}

static void for_with_new_threads(void *user, size_t n, void (*task)(void *arg, size_t i), void *arg)
{
    pthread_t threads[3];
    share s = {.n = n, .task = task, .arg = arg};
    int made = 0;

    (void)user;
    while (made < 3 && pthread_create(&threads[made], NULL, share_worker, &s) == 0)
        made++;
    share_worker(&s);
    while (made > 0)
        pthread_join(threads[--made], NULL);
}

static void parallel_for_body(attn_kernel_set set, problem *p)
{
    static const attn_parallel_for ways[] = {for_backwards, for_with_new_threads};

    for (int way = 0; way < 2; way++)
        for (int width = 1; width <= 16; width += 5) {
            attn_ctx_options o = ATTN_CTX_OPTIONS_INIT;
            attn_ctx *ctx;

            o.kernels = set;
            o.threads = width;
            o.parallel_for = ways[way];
            assert_int_equal(attn_ctx_create(&o, &ctx, NULL), ATTN_OK);
            problem_check(ctx, p, 0, p->b, way ? "threads of the caller" : "tasks backwards");
            attn_ctx_destroy(ctx);
        }
}

static void workers_of_the_caller_change_nothing(void **state)
{
    problem_each(state, 2, parallel_for_body);
}

static atomic_int stop_load;

static void *load_worker(void *arg)
{
    problem *p = arg;
    attn_view out = p->out; /* replaced: this thread's results have their own room */

    out.data = malloc((size_t)view_count(&out) * attn_type_size(out.type));
    while (out.data && !atomic_load(&stop_load)) {
        attn_forward_args a = problem_args(p, 0, p->b);

        a.out = out;
        attn_forward(ctx_for(ATTN_SET_AUTO, 3), &a, NULL);
    }
    free(out.data);
    return NULL;
}

static void repeats_under_load(void **state)
{
    attn_kernel_set set = test_set(state);
    problem p = problem_make(ctx_for(set, 1), ATTN_F32, POSITIONS, 2, 45, 700);
    problem theirs[2] = {p, p}; /* problem_args writes into its problem */
    pthread_t load[2];

    ctx_for(ATTN_SET_AUTO, 3); /* made here: the list of contexts is not for many threads */
    atomic_store(&stop_load, 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&load[i], NULL, load_worker, &theirs[i]), 0);
    attn_view out = problem_out(&p, p.b, p.tq);
    int differ = 0;
    for (int n = 0; n < (problem_full ? 1000 : 100); n++) {
        attn_forward_args a = problem_args(&p, 0, p.b);

        view_fill(&out, 77);
        a.out = out;
        differ += attn_forward(ctx_for(set, 3), &a, NULL) != ATTN_OK;
        differ += !view_same_bits(&out, &p.out);
    }
    atomic_store(&stop_load, 1);
    for (int i = 0; i < 2; i++)
        pthread_join(load[i], NULL);
    arena_reset(&problem_mem);
    CHECK_MSG(differ == 0, "%d of the repeats differ", differ);
}

/* --- Batch mates, padding, strides ---------------------------------------------------------- */

static void batch_body(attn_kernel_set set, problem *p)
{
    for (int64_t n = 1; n <= p->b; n++)
        problem_check(ctx_for(set, 3), p, (p->b - n) / 2, n, "composition");
    if (p->options == ADDED) /* dropout knows the sequence's number */
        return;
    attn_forward_args a = problem_args(p, 0, p->b); /* the last sequence first */
    attn_view *in[] = {&a.q, &a.k, &a.v}, want = p->out;
    for (int i = 0; i < 3; i++) {
        *in[i] = view_batches(in[i], p->b - 1, 1);
        in[i]->size[0] = p->b;
        in[i]->stride[0] = -in[i]->stride[0];
    }
    want = view_batches(&p->out, p->b - 1, 1);
    want.size[0] = p->b;
    want.stride[0] = -want.stride[0];
    a.out = problem_out(p, p->b, p->tq);
    problem_run(ctx_for(set, 3), &a);
    expect_same(&a.out, &want, "sequences in reverse order");
}

static void batch_mates_change_nothing(void **state)
{
    problem_each(state, 9, batch_body);
}

/* `v` inside a larger view of NaN: `before` rows (keys or queries) first, `after` behind. */
static attn_view padded(const attn_view *v, int64_t before, int64_t after)
{
    attn_view big = view_plain(&problem_mem, v->type, v->size[0], v->size[1],
                               v->size[2] + before + after, v->size[3]);

    view_fill(&big, v->type == ATTN_U8 ? 1 : (double)NAN);
    for (int64_t b = 0; b < v->size[0]; b++)
        for (int64_t h = 0; h < v->size[1]; h++)
            for (int64_t i = 0; i < v->size[2]; i++)
                for (int64_t j = 0; j < v->size[3]; j++)
                    view_set(&big, b, h, i + before, j, view_get(v, b, h, i, j));
    return big;
}

static attn_view padded_columns(const attn_view *v, int64_t before, int64_t after)
{
    attn_view turned = *v, big;

    turned.size[2] = v->size[3], turned.stride[2] = v->stride[3];
    turned.size[3] = v->size[2], turned.stride[3] = v->stride[2];
    big = padded(&turned, before, after);
    turned = big;
    turned.size[2] = big.size[3], turned.stride[2] = big.stride[3];
    turned.size[3] = big.size[2], turned.stride[3] = big.stride[2];
    return turned;
}

/* Key padding on the left moves no position; query padding on the right makes empty rows. */
static void padding_body(attn_kernel_set set, problem *p)
{
    static const int64_t pads[][3] = {{1, 0, 1}, {63, 5, 0}, {0, 64, 16}, {65, 449, 3}};

    for (size_t n = 0; n < sizeof pads / sizeof *pads; n++) {
        int64_t left = pads[n][0], right = pads[n][1], queries = pads[n][2];
        attn_forward_args a = problem_args(p, 0, p->b);
        int64_t start[2] = {left, left}, count[2] = {p->tk, p->tk}, q_count[2] = {p->tq, p->tq};

        a.q = padded(&p->q, 0, queries);
        a.k = padded(&p->k, left, right);
        a.v = padded(&p->v, left, right);
        p->mask.k_start = start;
        p->mask.k_count = count;
        p->mask.q_count = q_count;
        if (p->options == ADDED) {
            attn_view wide = padded_columns(&p->bias, left, right);

            p->mask.bias = padded(&wide, 0, queries);
            wide = padded_columns(&p->keep, left, right);
            p->mask.keep = padded(&wide, 0, queries);
        }
        a.out = problem_out(p, p->b, p->tq + queries);
        problem_run(ctx_for(set, 2), &a);
        attn_view got = view_rows(&a.out, 0, p->tq), rest = view_rows(&a.out, p->tq, queries);
        attn_view zero = problem_out(p, p->b, queries);
        view_fill(&zero, 0);
        expect_same(&got, &p->out, "padding %lld + %lld, options %d", (long long)left,
                    (long long)right, p->options);
        expect_same(&rest, &zero, "rows past q_count");
    }
}

static void padding_changes_nothing(void **state)
{
    problem_each(state, 2, padding_body);
}

static void strides_body(attn_kernel_set set, problem *p)
{
    rng r = rng_make(test_seed(), 77);
    arena own = {0};

    for (int i = 0; i < LAYOUT_COUNT; i++) {
        attn_forward_args a = problem_args(p, 0, p->b);
        layout kind[5];

        for (int n = 0; n < 5; n++)
            kind[n] = (layout)((i + n * (i % 3)) % LAYOUT_COUNT);
        a.q = view_copy(&own, &r, &p->q, p->type, kind[0]);
        a.k = view_copy(&own, &r, &p->k, p->type, kind[1]);
        a.v = view_copy(&own, &r, &p->v, p->type, kind[2]);
        if (p->options == ADDED) {
            p->mask.bias = view_copy(&own, &r, &p->bias, p->bias.type, kind[4]);
            p->mask.keep = view_copy(&own, &r, &p->keep, ATTN_U8, kind[0]);
        }
        a.out = view_new(&own, &r, p->type, p->b, p->h, p->tq, p->dv, kind[3]);
        a.lse = view_new(&own, &r, p->lse.type, p->b, p->h, p->tq, 1, kind[4]);
        problem_run(ctx_for(set, 2), &a);
        expect_same(&a.out, &p->out, "q %s, k %s, v %s, out %s", layout_name(kind[0]),
                    layout_name(kind[1]), layout_name(kind[2]), layout_name(kind[3]));
        expect_same(&a.lse, &p->lse, "LSE in layout %s", layout_name(kind[4]));
        CHECK_MSG(arena_poison_intact(&own), "wrote between the elements");
        arena_reset(&own);
    }
}

static void strides_change_nothing(void **state)
{
    problem_each(state, 2, strides_body);
}

/* --- Cuts of queries and keys --------------------------------------------------------------- */

/* Queries from..from+n-1 of the problem in a call of their own, keys up to `keys`. */
static void check_chunk(const attn_ctx *ctx, problem *p, int64_t from, int64_t n, int64_t keys)
{
    attn_forward_args a = problem_args(p, 0, p->b);
    attn_view want = view_rows(&p->out, from, n), want_lse = view_rows(&p->lse, from, n);

    a.q = view_rows(&a.q, from, n);
    a.k = view_rows(&a.k, 0, keys);
    a.v = view_rows(&a.v, 0, keys);
    if (p->options != ADDED)
        p->mask.q_offset += from;
    else { /* dropout counts by position, and the masks are by row */
        p->mask.q_offset = from;
        p->mask.keep = view_rows(&p->keep, from, n);
        p->mask.bias = view_rows(&p->bias, from, n);
    }
    a.out = problem_out(p, p->b, n);
    a.lse = problem_lse(p, p->b, n);
    problem_run(ctx, &a);
    expect_same(&a.out, &want, "queries %lld+%lld, options %d", (long long)from, (long long)n,
                p->options);
    expect_same(&a.lse, &want_lse, "LSE of queries %lld+%lld", (long long)from, (long long)n);
}

static void chunks_body(attn_kernel_set set, problem *p)
{
    static const int64_t sizes[] = {1, 3, 16, 17, 64};

    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int64_t from = 0; from < p->tq; from += sizes[s]) {
            int64_t n = from + sizes[s] < p->tq ? sizes[s] : p->tq - from;
            int64_t keys = p->tk;

            if (p->options == POSITIONS) /* what a prefill in chunks has so far */
                keys = p->tk - p->tq + from + n;
            check_chunk(ctx_for(set, 2), p, from, n, keys);
            if (!problem_full && sizes[s] == 1)
                from += 4;
        }
}

static void chunked_prefill_changes_nothing(void **state)
{
    problem_each(state, 1, chunks_body);
}

static void decode_sizes_body(attn_kernel_set set, problem *p)
{
    for (int64_t n = 1; n <= 17 && n <= p->tq; n++)
        check_chunk(ctx_for(set, 3), p, p->tq - n, n, p->tk);
}

static void few_queries_equal_many(void **state)
{
    problem_each(state, 2, decode_sizes_body);
}

/* The first `cut` keys hidden by a mask, against keys that start at position `cut`. */
static void key_offsets_body(attn_kernel_set set, problem *p)
{
    static const int64_t cuts[] = {0, 1, 17, 63, 64, 65, 511, 512, 513, 700, 1023, 1024};

    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        int64_t cut = cuts[i], n = p->tk - cut;
        attn_forward_args a = problem_args(p, 0, p->b);
        attn_view whole = problem_out(p, p->b, p->tq);
        attn_view hide = view_plain(&problem_mem, ATTN_U8, 1, 1, 1, p->tk);

        if (n <= 0)
            break;
        for (int64_t j = 0; j < p->tk; j++)
            view_set(&hide, 0, 0, 0, j, j >= cut);
        if (p->options == ADDED) { /* its own keep stays; the cut goes through the key range */
            int64_t start[2] = {cut, cut};

            p->mask.k_start = start;
            p->mask.k_offset = cut; /* k_start moves no position: say so here */
            a.out = whole;
            problem_run(ctx_for(set, 1), &a);
            p->mask.k_start = NULL;
            p->mask.keep = view_columns(&p->keep, cut, n);
            p->mask.bias = view_columns(&p->bias, cut, n);
        } else {
            p->mask.keep = hide;
            a.out = whole;
            problem_run(ctx_for(set, 1), &a);
            p->mask.keep = (attn_view){0};
            p->mask.k_offset = cut;
        }
        a.k = view_rows(&p->k, cut, n);
        a.v = view_rows(&p->v, cut, n);
        a.out = problem_out(p, p->b, p->tq);
        problem_run(ctx_for(set, 2), &a);
        expect_same(&a.out, &whole, "keys from position %lld, options %d", (long long)cut,
                    p->options);
    }
}

static void key_offset_sets_the_grid(void **state)
{
    problem_each(state, 2, key_offsets_body);
}

/* Positions moved by a multiple of the split move no grid line. */
static void shift_body(attn_kernel_set set, problem *p)
{
    attn_forward_args a = problem_args(p, 0, p->b);

    if (p->options == ADDED)
        a.dropout = 0; /* a function of the absolute positions */
    a.out = problem_out(p, p->b, p->tq);
    problem_run(ctx_for(set, 1), &a);
    attn_view want = a.out;
    for (int64_t shift = 512; shift < (int64_t)1 << 41; shift *= 1024) {
        p->mask.q_offset += shift;
        p->mask.k_offset += shift;
        a.out = problem_out(p, p->b, p->tq);
        problem_run(ctx_for(set, 2), &a);
        expect_same(&a.out, &want, "positions + %lld", (long long)shift);
    }
}

static void positions_shift_by_splits(void **state)
{
    problem_each(state, 2, shift_body);
}

static attn_partial new_record(const problem *p)
{
    attn_type wide = p->type == ATTN_F64 ? ATTN_F64 : ATTN_F32;
    attn_partial r;

    r.out = view_plain(&problem_mem, wide, p->b, p->h, p->tq, p->dv);
    r.sum = view_plain(&problem_mem, wide, p->b, p->h, p->tq, 1);
    r.max = view_plain(&problem_mem, wide, p->b, p->h, p->tq, 1);
    return r;
}

static attn_forward_args key_range_args(problem *p, int64_t from, int64_t n)
{
    attn_forward_args a = problem_args(p, 0, p->b);

    a.k = view_rows(&p->k, from, n);
    a.v = view_rows(&p->v, from, n);
    p->mask.k_offset = from;
    if (p->options == ADDED) {
        p->mask.keep = view_columns(&p->keep, from, n);
        p->mask.bias = view_columns(&p->bias, from, n);
    }
    return a;
}

/* One record a split, merged; and each part continued from the record of those before it. */
static void splits_body(attn_kernel_set set, problem *p)
{
    attn_partial parts[3];
    attn_merge_args m = ATTN_MERGE_ARGS_INIT;
    size_t count = 0;

    for (int64_t from = 0; from < p->tk; from += 512, count++) {
        int64_t n = p->tk - from < 512 ? p->tk - from : 512;
        attn_forward_args a = key_range_args(p, from, n);

        parts[count] = new_record(p);
        a.sink = (attn_view){0}; /* enters at the merge */
        a.partial = &parts[count];
        problem_run(ctx_for(set, 2), &a);
    }
    m.parts = parts;
    m.count = count;
    m.out = problem_out(p, p->b, p->tq);
    m.lse = problem_lse(p, p->b, p->tq);
    m.sink = problem_args(p, 0, p->b).sink;
    assert_int_equal(attn_merge(ctx_for(set, 2), &m, NULL), ATTN_OK);
    expect_same(&m.out, &p->out, "records merged, options %d", p->options);
    expect_same(&m.lse, &p->lse, "LSE of records merged");
    for (int64_t cut = 512; cut < p->tk; cut += 512) {
        attn_forward_args a = key_range_args(p, 0, cut);
        attn_partial before = new_record(p);

        a.sink = (attn_view){0};
        a.partial = &before;
        problem_run(ctx_for(set, 1), &a);
        a = key_range_args(p, cut, p->tk - cut);
        a.start = &before;
        a.out = problem_out(p, p->b, p->tq);
        a.lse = problem_lse(p, p->b, p->tq);
        problem_run(ctx_for(set, 2), &a);
        expect_same(&a.out, &p->out, "continued at %lld, options %d", (long long)cut, p->options);
        expect_same(&a.lse, &p->lse, "LSE continued at %lld", (long long)cut);
    }
}

static void splits_and_merges_change_nothing(void **state)
{
    problem_each(state, 2, splits_body);
}

/* Sequences one after the other in the rows of one batch, against each alone. */
static void packed_body(attn_kernel_set set, problem *p)
{
    attn_forward_args a = problem_args(p, 0, p->b);
    int64_t q_starts[4], k_starts[4];
    attn_view *in[] = {&a.q, &a.k, &a.v};

    for (int64_t s = 0; s <= 3; s++)
        q_starts[s] = s * p->tq, k_starts[s] = s * p->tk;
    for (int i = 0; i < 3; i++) {
        int64_t n = in[i]->size[2];
        attn_view one = problem_input(&(rng){1}, p->type, 1, in[i]->size[1], 3 * n, in[i]->size[3]);

        for (int64_t s = 0; s < 3; s++)
            for (int64_t h = 0; h < one.size[1]; h++)
                for (int64_t j = 0; j < n * one.size[3]; j++)
                    view_set(&one, 0, h, s * n + j / one.size[3], j % one.size[3],
                             view_get(in[i], s, h, j / one.size[3], j % one.size[3]));
        *in[i] = one;
    }
    p->mask.segments = 3;
    p->mask.q_starts = q_starts;
    p->mask.k_starts = k_starts;
    a.out = view_plain(&problem_mem, p->type, 1, p->h, 3 * p->tq, p->dv);
    problem_run(ctx_for(set, 3), &a);
    for (int64_t s = 0; s < 3; s++) {
        attn_view got = view_rows(&a.out, s * p->tq, p->tq), want = view_batches(&p->out, s, 1);

        expect_same(&got, &want, "segment %lld, options %d", (long long)s, p->options);
    }
}

static void packed_batches_change_nothing(void **state)
{
    problem_each(state, 3, packed_body);
}

/* Narrow heads with very many keys are not packed for all rows at once, and many rows make several
 * work items: each chunk of rows, taken alone, is scheduled otherwise. */
static void schedules_change_nothing(void **state)
{
    static const int64_t shapes[][4] = {{1100, 20000, 1, 1}, {700, 1100, 19, 21}, {300, 64, 8, 8}};
    static const int64_t chunks[][2] = {{0, 1}, {3, 16}, {17, 64}, {100, 130}, {0, 259}};
    attn_kernel_set set = test_set(state);

    for (size_t n = 0; n < 3; n++)
        for (int t = 0; t < (n ? 4 : 2); t++) {
            const int64_t *shape = shapes[n];
            attn_type type = (attn_type)(ATTN_F32 + t);
            attn_forward_args a = ATTN_FORWARD_ARGS_INIT;
            rng r = rng_make(test_seed(), n);

            a.q = problem_input(&r, type, 1, 2, shape[0], shape[2]);
            a.k = problem_input(&r, type, 1, 1, shape[1], shape[2]);
            a.v = problem_input(&r, type, 1, 1, shape[1], shape[3]);
            a.out = view_plain(&problem_mem, type, 1, 2, shape[0], shape[3]);
            problem_run(ctx_for(set, 1), &a);
            attn_view q = a.q, whole = a.out;
            a.out = view_plain(&problem_mem, type, 1, 2, shape[0], shape[3]);
            problem_run(ctx_for(set, 3), &a);
            expect_same(&a.out, &whole, "3 threads, %d queries", (int)shape[0]);
            for (size_t c = 0; c < sizeof chunks / sizeof *chunks; c++) {
                attn_view want = view_rows(&whole, chunks[c][0], chunks[c][1]);

                a.q = view_rows(&q, chunks[c][0], chunks[c][1]);
                a.out = view_plain(&problem_mem, type, 1, 2, chunks[c][1], shape[3]);
                problem_run(ctx_for(set, 2), &a);
                expect_same(&a.out, &want, "rows %d+%d of %d", (int)chunks[c][0], (int)chunks[c][1],
                            (int)shape[0]);
            }
            arena_reset(&problem_mem);
        }
}

int main(int argc, char **argv)
{
    static const test_case tests[] = {
        {"threads_change_nothing", threads_change_nothing, 1},
        {"workers_of_the_caller_change_nothing", workers_of_the_caller_change_nothing, 1},
        {"repeats_under_load", repeats_under_load, 1},
        {"batch_mates_change_nothing", batch_mates_change_nothing, 1},
        {"padding_changes_nothing", padding_changes_nothing, 1},
        {"strides_change_nothing", strides_change_nothing, 1},
        {"chunked_prefill_changes_nothing", chunked_prefill_changes_nothing, 1},
        {"few_queries_equal_many", few_queries_equal_many, 1},
        {"key_offset_sets_the_grid", key_offset_sets_the_grid, 1},
        {"positions_shift_by_splits", positions_shift_by_splits, 1},
        {"splits_and_merges_change_nothing", splits_and_merges_change_nothing, 1},
        {"schedules_change_nothing", schedules_change_nothing, 1},
        {"packed_batches_change_nothing", packed_batches_change_nothing, 1},
    };

    if (argc > 1 && strcmp(argv[1], "--full") == 0) {
        problem_full = 1;
        argv[1] = argv[0];
        argc--, argv++;
    }
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
