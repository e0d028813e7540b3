/* test_nn_pass.c: passes over models: finite differences, bits (threads, batch mates, what follows,
 * recomputation, memory), micro-batches, errors, allocations. Table 3: test_train_table3.c. */
#include "include/attn/nn.h"
#include "tests/nn_step.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { BACKWARD = ATTN_PASS_BACKWARD, DROPOUT = ATTN_PASS_DROPOUT };

/* --- Gradients ------------------------------------------------------------------------------ */

static void finite_differences(void **state)
{
    rng r = rng_make(test_seed(), test_index(state));

    for (int i = 0; i < STEP_VARIANTS; i++) {
        attn_model_config c = step_config(i);
        attn_model *m;

        c.type = ATTN_F64;
        m = step_model(&c, 1, (uint64_t)i);
        step_differences(m, &r, i);
        attn_model_destroy(m);
    }
}

/* The sum of two micro-batches' gradients is the gradient of both in one batch, dropout too. */
static void micro_batches(void **state)
{
    rng r = rng_make(test_seed(), test_index(state));

    for (int i = 0; i < STEP_VARIANTS; i++) {
        attn_model_config c = step_config(i);
        attn_model *m;
        step s;
        double *whole, error = 0, size = 0;
        attn_error err = {0};
        attn_view d, g;
        int64_t cut;

        c.type = ATTN_F64;
        m = step_model(&c, 1, 3);
        step_init(&s, m, &r, 4, 6);
        step_run(&s, BACKWARD | DROPOUT, 5);
        whole = arena_get(&s.memory, s.block_bytes);
        memcpy(whole, s.gradients, s.block_bytes);
        memset(s.gradients, 0, s.block_bytes);
        d = s.pass.hidden;
        d.data = s.dhidden;
        cut = (c.stack == ATTN_STACK_ENCODER ? s.source_starts : s.target_starts)[2];
        for (int part = 0; part < 2; part++) { /* two sequences each */
            attn_view some = view_part(&d, 2, part ? cut : 0, part ? d.size[2] - cut : cut);
            int64_t source = s.source_starts[2], target = s.target_starts[2];

            s.batch.segments = 2;
            s.batch.first_segment = 2 * part;
            if (part) {
                s.batch.source += source;
                s.batch.target += target;
                s.batch.source_types = s.types ? s.types + source : NULL;
                for (int k = 0; k <= 2; k++) {
                    s.source_starts[k] = s.source_starts[k + 2] - source;
                    s.target_starts[k] = s.target_starts[k + 2] - target;
                }
            }
            step_forward(&s, BACKWARD | DROPOUT, 5);
            CHECK_MSG(attn_model_backward(m, &s.pass, &some, s.gradients, &err) == ATTN_OK, "%s",
                      err.text);
        }
        g = attn_view_bhsd(s.gradients, ATTN_F64, 1, 1, 1, attn_model_elements(m));
        for (int64_t j = 0; j < attn_model_elements(m); j++) {
            error += pow(step_get(&g, j) - whole[j], 2);
            size += whole[j] * whole[j];
        }
        CHECK_MSG(error <= 1e-24 * size, "variant %d: %g of %g", i, sqrt(error), sqrt(size));
        step_end(&s);
        attn_model_destroy(m);
    }
}

/* --- Bits ----------------------------------------------------------------------------------- */

typedef struct result {
    arena memory;
    void *hidden, *gradients;
    size_t hidden_bytes, gradient_bytes;
} result;

static void keep(result *to, const step *s)
{
    to->hidden_bytes = (size_t)view_count(&s->pass.hidden) * attn_type_size(s->pass.hidden.type);
    to->gradient_bytes = s->block_bytes;
    to->hidden = arena_get(&to->memory, to->hidden_bytes);
    to->gradients = arena_get(&to->memory, to->gradient_bytes);
    memcpy(to->hidden, s->pass.hidden.data, to->hidden_bytes);
    memcpy(to->gradients, s->gradients, to->gradient_bytes);
}

static void check_same(const result *a, const step *s, const char *what, int variant)
{
    CHECK_MSG(memcmp(a->hidden, s->pass.hidden.data, a->hidden_bytes) == 0,
              "variant %d, %s: other hidden states", variant, what);
    CHECK_MSG(memcmp(a->gradients, s->gradients, a->gradient_bytes) == 0,
              "variant %d, %s: other gradients", variant, what);
}

/* Large enough for several workers to take part. */
static attn_model_config wide_config(int variant)
{
    attn_model_config c = step_config(variant);

    c.d = 68;
    c.ff = 150;
    return c;
}

static void threads_and_recomputation(void **state)
{
    for (int i = 0; i < STEP_VARIANTS; i++) {
        attn_model_config c = wide_config(i);
        result one = {0};

        for (int threads = 1; threads <= 4; threads *= 2) {
            rng r = rng_make(test_seed(), test_index(state));
            attn_model *m = step_model(&c, threads, 9);
            step s;

            step_init(&s, m, &r, STEP_SEGMENTS, 17);
            step_run(&s, BACKWARD | DROPOUT, 1234);
            if (threads == 1)
                keep(&one, &s);
            else
                check_same(&one, &s, "threads", i);
            if (threads != 2) {
                step_run(&s, BACKWARD | DROPOUT | ATTN_PASS_RECOMPUTE, 1234);
                check_same(&one, &s, "recomputation", i);
                step_forward(&s, DROPOUT, 1234);
                check_same(&one, &s, "no backward pass", i);
            }
            step_end(&s);
            attn_model_destroy(m);
        }
        arena_reset(&one.memory);
    }
}

/* Rows of sequence `k` in hidden. */
static attn_view rows_of(const step *s, int64_t k)
{
    const attn_model_config *c = attn_model_get_config(s->model);
    const int64_t *starts = c->stack == ATTN_STACK_ENCODER ? s->source_starts : s->target_starts;

    return view_part(&s->pass.hidden, 2, starts[k], starts[k + 1] - starts[k]);
}

/* Each sequence alone, under its number, has the bits it has among the others. */
static void batch_mates(void **state)
{
    rng r = rng_make(test_seed(), test_index(state));

    for (int i = 0; i < STEP_VARIANTS; i++) {
        attn_model_config c = step_config(i);
        attn_model *m = step_model(&c, 2, 9);
        step s, alone;

        step_init(&s, m, &r, STEP_SEGMENTS, 17);
        step_forward(&s, DROPOUT, 1);
        for (int64_t k = 0; k < STEP_SEGMENTS; k++) {
            attn_view mine = rows_of(&s, k);

            step_init(&alone, m, &r, 1, 17);
            alone.batch.source = s.source + s.source_starts[k];
            alone.batch.source_types = s.types ? s.types + s.source_starts[k] : NULL;
            alone.batch.target = s.target + s.target_starts[k];
            alone.batch.first_segment = k;
            alone.source_starts[1] = s.source_starts[k + 1] - s.source_starts[k];
            alone.target_starts[1] = s.target_starts[k + 1] - s.target_starts[k];
            alone.limits.source_tokens = alone.limits.longest_source = alone.source_starts[1];
            alone.limits.target_tokens = alone.limits.longest_target = alone.target_starts[1];
            step_forward(&alone, DROPOUT, 1);
            CHECK_MSG(view_same_bits(&mine, &alone.pass.hidden), "variant %d, sequence %lld", i,
                      (long long)k);
            step_end(&alone);
        }
        step_end(&s);
        attn_model_destroy(m);
    }
}

/* A target id is seen by later rows alone (the row after it, unless there is no shift); a source id
 * by its own sequence alone, but there by everyone. */
static void what_ids_reach(void **state)
{
    rng r = rng_make(test_seed(), test_index(state));

    for (int i = 0; i < STEP_VARIANTS; i++) {
        attn_model_config c = step_config(i);
        attn_model *m;
        step s;
        attn_view before, after;
        int64_t at, first;

        c.start = i % 4 == 1 ? ATTN_START_NONE : ATTN_START_ZERO;
        m = step_model(&c, 1, 9);
        step_init(&s, m, &r, 3, 9);
        s.source_starts[1] = s.target_starts[1] = 5 < s.source_starts[2] ? 5 : s.source_starts[2];
        if (s.source_starts[2] < 5 || s.target_starts[2] < 5) { /* a first sequence of 5 */
            step_end(&s);
            attn_model_destroy(m);
            continue;
        }
        step_forward(&s, 0, 0);
        before = view_copy(&s.memory, &r, &s.pass.hidden, s.pass.hidden.type, LAYOUT_BHSD);
        if (c.stack == ATTN_STACK_ENCODER) {
            s.source[2] = (s.source[2] + 1) % 19;
            at = s.source_starts[1]; /* rows from here on must not move */
            first = s.pass.hidden.size[2];
        } else {
            s.target[2] = (s.target[2] + 1) % 19;
            at = 0;
            first = c.start == ATTN_START_NONE ? 2 : 3; /* the first row that may */
        }
        step_forward(&s, 0, 0);
        after = view_part(&s.pass.hidden, 2, at, first - at);
        before = view_part(&before, 2, 0, s.pass.hidden.size[2]);
        {
            attn_view same = view_part(&before, 2, at, first - at);
            attn_view moved = view_part(&before, 2, c.stack == ATTN_STACK_ENCODER ? 0 : first, 1);
            attn_view now =
                view_part(&s.pass.hidden, 2, c.stack == ATTN_STACK_ENCODER ? 0 : first, 1);

            CHECK_MSG(view_same_bits(&same, &after), "variant %d: rows moved", i);
            CHECK_MSG(!view_same_bits(&moved, &now), "variant %d: nothing moved", i);
        }
        step_end(&s);
        attn_model_destroy(m);
    }
}

static void dropout_is_there(void **state)
{
    rng r = rng_make(test_seed(), test_index(state));
    attn_model_config c = step_config(0);
    attn_model *m = step_model(&c, 1, 2);
    result plain = {0}, one = {0};
    step s;

    step_init(&s, m, &r, 4, 9);
    step_run(&s, BACKWARD, 1);
    keep(&plain, &s);
    step_run(&s, BACKWARD, 2);
    check_same(&plain, &s, "seed without dropout", 0);
    step_run(&s, BACKWARD | DROPOUT, 1);
    keep(&one, &s);
    CHECK(memcmp(plain.hidden, one.hidden, one.hidden_bytes) != 0);
    step_run(&s, BACKWARD | DROPOUT, 2);
    CHECK(memcmp(one.hidden, s.pass.hidden.data, one.hidden_bytes) != 0);
    arena_reset(&plain.memory);
    arena_reset(&one.memory);
    step_end(&s);
    attn_model_destroy(m);
}

/* Weights of one attention: rows of 1 over their keys, nothing elsewhere. */
static void check_weights(const step *s, const attn_look *l, int variant)
{
    const int64_t *q = l->decoder ? s->target_starts : s->source_starts;
    const int64_t *k = l->decoder && !l->cross ? s->target_starts : s->source_starts;

    for (int64_t b = 0; b < l->weights.size[0]; b++)
        for (int64_t h = 0; h < l->weights.size[1]; h++)
            for (int64_t i = 0; i < l->weights.size[2]; i++) {
                int64_t keys = k[b + 1] - k[b], rows = q[b + 1] - q[b];
                double sum = 0, rest = 0;

                if (l->decoder && !l->cross && i + 1 < keys)
                    keys = i + 1;
                for (int64_t j = 0; j < l->weights.size[3]; j++)
                    *(i < rows && j < keys ? &sum : &rest) += view_get(&l->weights, b, h, i, j);
                CHECK_MSG(fabs(sum - (i < rows && keys > 0)) < 1e-5 && rest == 0,
                          "variant %d, [%lld][%lld][%lld]: %g, and %g outside", variant,
                          (long long)b, (long long)h, (long long)i, sum, rest);
            }
}

static int64_t longest_within(const int64_t *starts, int segments)
{
    int64_t longest = 0;

    for (int i = 0; i < segments; i++)
        if (starts[i + 1] - starts[i] > longest)
            longest = starts[i + 1] - starts[i];
    return longest;
}

static int64_t longest_of(const int64_t *starts)
{
    return longest_within(starts, STEP_SEGMENTS);
}

/* Every attention layer shown, without moving a bit of what comes out. */
static void looks(void **state)
{
    rng r = rng_make(test_seed(), test_index(state));

    for (int i = 0; i < STEP_VARIANTS; i++) {
        attn_model_config c = step_config(i);
        attn_model *m = step_model(&c, 2, 9);
        attn_look look[6];
        result plain = {0};
        size_t n = 0;
        step s;
        attn_error err = {0};

        step_init(&s, m, &r, STEP_SEGMENTS, 17);
        step_run(&s, BACKWARD | DROPOUT, 3);
        keep(&plain, &s);
        for (int kind = 0; kind < 3; kind++) /* encoder, decoder, cross */
            for (int64_t layer = 0; layer < 2; layer++) {
                attn_type type;
                bool has = kind == 0   ? c.stack != ATTN_STACK_DECODER
                           : kind == 1 ? c.stack != ATTN_STACK_ENCODER
                                       : c.stack == ATTN_STACK_ENCODER_DECODER;
                if (!has)
                    continue;
                look[n] = (attn_look){kind > 0, kind == 2, layer, layer, {0}, NULL};
                type = layer && c.type == ATTN_F64 ? ATTN_F64 : ATTN_F32;
                look[n++].weights = view_new(
                    &s.memory, &r, type, STEP_SEGMENTS, 3,
                    longest_of(kind ? s.target_starts : s.source_starts),
                    longest_of(kind == 1 ? s.target_starts : s.source_starts), LAYOUT_STEPS);
            }
        s.pass.looks = look;
        s.pass.look_count = n;
        step_run(&s, BACKWARD | DROPOUT | (i % 2 ? ATTN_PASS_RECOMPUTE : 0), 3);
        check_same(&plain, &s, "looks", i);
        for (size_t k = 0; k < n; k++)
            check_weights(&s, &look[k], i);
        look[0].layer = 2;
        CHECK(attn_model_forward(m, &s.pass, &err) == ATTN_E_ARGUMENT);
        CHECK_MSG(strncmp(err.text, "looks", 5) == 0, "%s", err.text);
        look[0].layer = 0;
        look[0].head = 2;
        CHECK(attn_model_forward(m, &s.pass, &err) == ATTN_E_ARGUMENT);
        arena_reset(&plain.memory);
        step_end(&s);
        attn_model_destroy(m);
    }
}

/* Entropies of every self-attention, without a bit of difference; ln n is the largest. */
static void statistics(void **state)
{
    rng r = rng_make(test_seed(), test_index(state));

    for (int i = 0; i < STEP_VARIANTS; i++) {
        attn_model_config c = step_config(i);
        attn_model *m = step_model(&c, 2, 9);
        attn_look look = {c.stack != ATTN_STACK_ENCODER, 0, 1, 0, {0}, NULL};
        attn_stats stats = ATTN_STATS_INIT;
        result plain = {0};
        attn_error err = {0};
        double most = 0;
        step s;

        step_init(&s, m, &r, STEP_SEGMENTS, 17);
        step_run(&s, BACKWARD | DROPOUT, 3);
        keep(&plain, &s);
        stats.entropy =
            view_new(&s.memory, &r, ATTN_F32, 1, 4, s.pass.hidden.size[2], 1, LAYOUT_BHSD);
        look.stats = &stats;
        s.pass.looks = &look;
        s.pass.look_count = 1;
        if (c.score == ATTN_SCORE_ADDITIVE) {
            CHECK(attn_model_forward(m, &s.pass, &err) == ATTN_E_ARGUMENT);
        } else {
            step_run(&s, BACKWARD | DROPOUT, 3);
            check_same(&plain, &s, "statistics", i);
            for (int64_t h = 0; h < 4; h++)
                for (int64_t row = 0; row < stats.entropy.size[2]; row++) {
                    double e = view_get(&stats.entropy, 0, h, row, 0);
                    CHECK_MSG(e > -1e-6 && e < log(17) + 1e-5, "variant %d: entropy %g", i, e);
                    most = e > most ? e : most;
                }
            CHECK_MSG(most > 0.1, "variant %d: entropies up to %g", i, most);
        }
        arena_reset(&plain.memory);
        step_end(&s);
        attn_model_destroy(m);
    }
}

/* --- Gates and types ------------------------------------------------------------------------ */

static double weight(const attn_model *m, const char *name, int64_t i)
{
    attn_view v = attn_param_view(m, attn_model_find_param(m, name), attn_model_weights(m));

    return step_get(&v, i);
}

/* z of a key: scale * score . (x Wk^T + bk), x the embedding and the row of its type. */
static double gate_of(const step *s, int64_t row, int64_t head)
{
    const attn_model_config *c = attn_model_get_config(s->model);
    double z = 0;

    for (int64_t i = head * c->dk; i < (head + 1) * c->dk; i++) {
        double k = weight(s->model, "encoder.layers.0.self.k.bias", i);

        for (int64_t j = 0; j < c->d; j++) {
            double x = weight(s->model, "embedding.weight", s->source[row] * c->d + j);

            x = x * sqrt((double)c->d) +
                weight(s->model, "encoder.types.weight", s->types[row] * c->d + j);
            k += x * weight(s->model, "encoder.layers.0.self.k.weight", i * c->d + j);
        }
        z += k * weight(s->model, "encoder.layers.0.self.score.weight", i);
    }
    return z / sqrt((double)c->dk);
}

/* The first layer's weights: softmax over a sequence of a function of the key alone. */
static void gates_by_formula(void **state)
{
    rng r = rng_make(test_seed(), test_index(state));
    attn_model_config c = ATTN_MODEL_CONFIG_INIT;
    attn_look look = {0};
    attn_model *m;
    step s;

    c.type = ATTN_F64;
    c.stack = ATTN_STACK_ENCODER;
    c.vocabulary = 19;
    c.encoder_layers = 1;
    c.d = 6;
    c.heads = 2;
    c.biases = ATTN_BIAS_ALL;
    c.positions = ATTN_POSITIONS_NONE;
    c.score = ATTN_SCORE_GATE;
    c.token_types = 3;
    m = step_model(&c, 1, 4);
    CHECK(!attn_model_find_param(m, "encoder.layers.0.self.q.weight"));
    step_init(&s, m, &r, 4, 7);
    look.weights = view_new(&s.memory, &r, ATTN_F64, 4, 2, 7, 7, LAYOUT_BHSD);
    look.weights.size[2] = look.weights.size[3] = longest_within(s.source_starts, 4);
    s.pass.looks = &look;
    s.pass.look_count = 1;
    step_forward(&s, 0, 0);
    for (int64_t b = 0; b < 4; b++)
        for (int64_t h = 0; h < 2; h++) {
            int64_t first = s.source_starts[b], n = s.source_starts[b + 1] - first;
            double sum = 0;

            for (int64_t j = 0; j < n; j++)
                sum += exp(gate_of(&s, first + j, h));
            for (int64_t i = 0; i < n; i++)
                for (int64_t j = 0; j < n; j++)
                    CHECK(fabs(view_get(&look.weights, b, h, i, j) -
                               exp(gate_of(&s, first + j, h)) / sum) < 1e-12);
        }
    s.types[0] = 3;
    {
        attn_error err = {0};
        CHECK(attn_model_forward(m, &s.pass, &err) == ATTN_E_ARGUMENT);
        CHECK_MSG(strncmp(err.text, "source_types[0]: 3", 18) == 0, "%s", err.text);
    }
    step_end(&s);
    attn_model_destroy(m);
}

/* --- Errors, memory ------------------------------------------------------------------------- */

static void wrong_calls(void **state)
{
    rng r = rng_make(test_seed(), test_index(state));
    attn_model_config c = step_config(0);
    attn_model *m = step_model(&c, 1, 2);
    step s;
    attn_error err = {0};
    size_t size;
    attn_view d;

#define FAILS(status, call, name)                                                                  \
    do {                                                                                           \
        CHECK_MSG((call) == (status), "%s went another way: %s", #call, err.text);                 \
        CHECK_MSG(strncmp(err.text, name, strlen(name)) == 0, "%s: %s", #call, err.text);          \
    } while (0)
#define FORWARD(change, undo, name)                                                                \
    do {                                                                                           \
        change;                                                                                    \
        FAILS(ATTN_E_ARGUMENT, attn_model_forward(m, &s.pass, &err), name);                        \
        undo;                                                                                      \
    } while (0)
    step_init(&s, m, &r, 3, 9);
    step_run(&s, BACKWARD, 1);
    d = s.pass.hidden;
    d.data = s.dhidden;
    FORWARD(s.pass.batch = NULL, s.pass.batch = &s.batch, "batch");
    FORWARD(s.batch.segments = 0, s.batch.segments = 3, "segments");
    FORWARD(s.batch.first_segment = -1, s.batch.first_segment = 0, "first_segment");
    FORWARD(s.batch.source = NULL, s.batch.source = s.source, "source: NULL");
    FORWARD(s.batch.target_starts = NULL, s.batch.target_starts = s.target_starts, "target_starts");
    FORWARD(s.target[1] = 19, s.target[1] = 0, "target[1]");
    FORWARD(s.source[0] = -1, s.source[0] = 0, "source[0]");
    FORWARD(s.source_starts[1] += 100, s.source_starts[1] -= 100, "source_starts[2]");
    FORWARD(s.pass.flags = 64, s.pass.flags = BACKWARD, "flags");
    FORWARD(s.pass.flags = ATTN_PASS_RECOMPUTE, s.pass.flags = BACKWARD, "flags");
    FORWARD(s.pass.arena_size = 64, s.pass.arena_size = 1 << 20, "arena_size");
    FORWARD(s.pass.arena = (char *)s.pass.arena + 8, s.pass.arena = (char *)s.pass.arena - 8,
            "arena");
    FORWARD(s.pass.struct_size = 3, s.pass.struct_size = sizeof s.pass, "pass.struct_size");
    FAILS(ATTN_E_ARGUMENT, attn_model_forward(NULL, &s.pass, &err), "model");
    FAILS(ATTN_E_ARGUMENT, attn_model_backward(m, &s.pass, &d, NULL, &err), "gradients");
    FAILS(ATTN_E_ARGUMENT, attn_model_backward(m, &s.pass, NULL, s.gradients, &err), "dhidden");
    d.size[2]++;
    FAILS(ATTN_E_SHAPE, attn_model_backward(m, &s.pass, &d, s.gradients, &err), "dhidden");
    s.pass.flags = 0;
    FAILS(ATTN_E_ARGUMENT, attn_model_backward(m, &s.pass, &d, s.gradients, &err), "pass.flags");
    s.limits.longest_source = INT32_MAX;
    FAILS(ATTN_E_ARGUMENT, attn_model_plan(m, &s.limits, 0, &size, &err), "longest_source");
    s.limits.segments = 0;
    FAILS(ATTN_E_ARGUMENT, attn_model_plan(m, &s.limits, 0, &size, &err), "segments");
#undef FORWARD
#undef FAILS
    step_end(&s);
    attn_model_destroy(m);
}

/* Counts what a context allocates. */
static void *counted(void *user, size_t size, size_t align)
{
    ++*(int64_t *)user;
    return aligned_alloc(align, (size + align - 1) / align * align);
}

static void counted_free(void *user, void *memory)
{
    (void)user;
    free(memory);
}

/* A random batch within limits: few or many sequences, short or long. */
static void draw_within(step *s, attn_model *m, rng *r, const attn_batch_limits *l)
{
    int64_t segments = rng_int(r, 1, l->segments), longest = rng_int(r, 1, l->longest_target);

    if (rng_chance(r, 40))
        longest = l->longest_target < 40 ? longest : rng_int(r, 1, 40);
    if (segments * longest > l->target_tokens)
        segments = l->target_tokens / longest;
    step_init(s, m, r, segments, longest);
    s->limits = *l;
}

static int64_t allocations_of(step *s, int flags, const int64_t *count)
{
    int64_t before;
    size_t size;

    CHECK(attn_model_plan(s->model, &s->limits, flags, &size, NULL) == ATTN_OK);
    s->pass.arena = arena_get(&s->memory, size);
    s->pass.arena_size = size;
    s->pass.flags = flags;
    before = *count;
    CHECK(attn_model_forward(s->model, &s->pass, NULL) == ATTN_OK);
    if (flags & BACKWARD)
        CHECK(attn_model_backward(s->model, &s->pass, &s->pass.hidden, s->gradients, NULL) ==
              ATTN_OK);
    return *count - before;
}

/* Limits, and 20 batches within them, for several numbers of workers. */
static void nothing_is_allocated(void **state)
{
    rng r = rng_make(test_seed(), test_index(state));
    int64_t count = 0;

    for (int i = 0; i < STEP_VARIANTS; i++) {
        attn_ctx_options o = ATTN_CTX_OPTIONS_INIT;
        attn_batch_limits l = ATTN_BATCH_LIMITS_INIT;
        attn_ctx *ctx;
        attn_model_config c = wide_config(i);
        attn_model *m;
        step s;

        o.threads = 1 + i % 4;
        o.alloc = counted;
        o.free = counted_free;
        o.alloc_user = &count;
        c.type = i % 5 ? ATTN_F32 : ATTN_F64;
        c.max_positions = 400;
        l.segments = 1 + i % STEP_SEGMENTS;
        l.longest_source = l.longest_target = i % 6 == 4 ? 300 : 20 + i;
        l.source_tokens = l.target_tokens = l.longest_target * (1 + l.segments / 2);
        CHECK(attn_ctx_create(&o, &ctx, NULL) == ATTN_OK);
        CHECK(attn_model_create(ctx, &c, 1, &m, NULL) == ATTN_OK);
        for (int batch = 0; batch < 20; batch++) {
            int flags = batch % 4 ? BACKWARD | (batch % 2 ? DROPOUT : 0) : 0;
            int64_t n;

            draw_within(&s, m, &r, &l);
            n = allocations_of(&s, flags, &count);
            CHECK_MSG(
                n == 0,
                "variant %d, %lld sequences of %lld and %lld tokens, limits %lld, %lld of %lld: "
                "%lld allocations",
                i, (long long)s.batch.segments, (long long)s.source_starts[s.batch.segments],
                (long long)s.target_starts[s.batch.segments], (long long)l.segments,
                (long long)l.target_tokens, (long long)l.longest_target, (long long)n);
            step_end(&s);
        }
        attn_model_destroy(m);
        attn_ctx_destroy(ctx);
    }
}

/* Products want most just below the numbers of rows where they are cut into more items: those of a
 * wide feed-forward layer a sixth more at 63 rows than at 64. */
static void rows_that_want_more(void **state)
{
    attn_ctx_options o = ATTN_CTX_OPTIONS_INIT;
    attn_model_config c = ATTN_MODEL_CONFIG_INIT;
    rng r = rng_make(test_seed(), test_index(state));
    int64_t count = 0;
    attn_ctx *ctx;
    attn_model *m;
    step s;

    o.threads = 2;
    o.alloc = counted;
    o.free = counted_free;
    o.alloc_user = &count;
    CHECK(attn_ctx_create(&o, &ctx, NULL) == ATTN_OK);
    c.stack = ATTN_STACK_DECODER;
    c.vocabulary = 9;
    c.decoder_layers = 1;
    c.d = 16;
    c.ff = 1024;
    c.heads = 2;
    CHECK(attn_model_create(ctx, &c, 1, &m, NULL) == ATTN_OK);
    step_init(&s, m, &r, STEP_SEGMENTS, 2);
    s.batch.target = s.target = arena_get(&s.memory, 63 * sizeof *s.target);
    for (int64_t i = 0; i < 63; i++)
        s.target[i] = (int32_t)(i % 9);
    for (int64_t i = 0; i <= STEP_SEGMENTS; i++)
        s.target_starts[i] = 63 * i / STEP_SEGMENTS;
    s.limits.target_tokens = 64;
    s.limits.longest_target = 13;
    CHECK(allocations_of(&s, BACKWARD, &count) == 0);
    step_end(&s);
    attn_model_destroy(m);
    attn_ctx_destroy(ctx);
}

static void recomputation_saves_memory(void **state)
{
    attn_model_config c = step_config(0);
    attn_batch_limits l = ATTN_BATCH_LIMITS_INIT;
    attn_model *m;
    size_t all, again, none;

    (void)state;
    c.encoder_layers = c.decoder_layers = 6;
    m = step_model(&c, 1, 1);
    l.segments = 10;
    l.source_tokens = l.target_tokens = 1000;
    l.longest_source = l.longest_target = 100;
    CHECK(attn_model_plan(m, &l, BACKWARD, &all, NULL) == ATTN_OK);
    CHECK(attn_model_plan(m, &l, BACKWARD | ATTN_PASS_RECOMPUTE, &again, NULL) == ATTN_OK);
    CHECK(attn_model_plan(m, &l, 0, &none, NULL) == ATTN_OK);
    CHECK_MSG(again < all / 2 && none < again, "%zu, %zu, %zu bytes", all, again, none);
    l.source_tokens = l.target_tokens = INT32_MAX;
    l.longest_source = l.longest_target = INT32_MAX;
    c.positions = ATTN_POSITIONS_T5;
    attn_model_destroy(m);
}

static void buckets(void **state)
{
    static const int first[2][16] = {
        {8, 9, 10, 11, 12, 13, 14, 15, -1},
        {16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31}};
    static const int at[2][16] = {
        {8, 12, 16, 23, 32, 46, 64, 91},
        {16, 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113}};

    (void)state;
    for (int one_way = 0; one_way < 2; one_way++)
        for (int i = 0; i < (one_way ? 16 : 8); i++) {
            int64_t a = at[one_way][i], b = first[one_way][i];

            CHECK(attn_relative_bucket(-a, !one_way, 32, 128) == b);
            CHECK(attn_relative_bucket(1 - a, !one_way, 32, 128) == b - 1);
            CHECK(attn_relative_bucket(a, !one_way, 32, 128) == (one_way ? 0 : 16 + b));
        }
    CHECK(attn_relative_bucket(0, 1, 32, 128) == 0 && attn_relative_bucket(5, 1, 32, 128) == 21);
    CHECK(attn_relative_bucket(-100000, 1, 32, 128) == 15);
}

int main(int argc, char **argv)
{
    static const test_case tests[] = {
        {"finite differences", finite_differences, 0},
        {"micro-batches", micro_batches, 0},
        {"threads and recomputation", threads_and_recomputation, 0},
        {"batch mates", batch_mates, 0},
        {"what ids reach", what_ids_reach, 0},
        {"dropout is there", dropout_is_there, 0},
        {"looks", looks, 0},
        {"statistics", statistics, 0},
        {"gates by formula", gates_by_formula, 0},
        {"wrong calls", wrong_calls, 0},
        {"nothing is allocated", nothing_is_allocated, 0},
        {"rows that want more", rows_that_want_more, 0},
        {"recomputation saves memory", recomputation_saves_memory, 0},
        {"buckets", buckets, 0},
    };

    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
