/* test_generate_edges.c: samples, narrow weights, limits, memory that fails or is not asked for,
 * callbacks, arguments. */
#include "include/attn/generate.h"
#include "include/attn/nn.h"
#include "tests/generation.h"
#include "tests/heap.h"
#include "tests/nn_step.h"

#include <math.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* --- Sampling ------------------------------------------------------------------------------- */

/* First words of many samples against their probabilities. */
static void check_frequencies(const double *weight, attn_generator *g, const sequence *s,
                              attn_generate_options *o, const char *what)
{
    enum { SOURCES = 100 };
    arena memory = {0};
    sequence all[SOURCES];
    double sum = 0, seen[WORDS] = {0}, off = 0;
    found *f;
    int drawn = 0, kinds = 0;

    for (int i = 0; i < SOURCES; i++)
        all[i] = *s;
    o->sample = 1;
    o->beam = 100;
    o->longest = 1;
    f = toy_generate(&memory, g, all, SOURCES, o);
    for (int i = 0; i < SOURCES; i++)
        for (int k = 0; k < f[i].count; k++, drawn++)
            seen[f[i].at[k].count > 0 ? f[i].at[k].tokens[0] : END]++;
    CHECK(drawn == SOURCES * 100);
    for (int t = 0; t < WORDS; t++)
        sum += weight[t];
    for (int t = 0; t < WORDS; t++) {
        double want = weight[t] / sum * drawn;
        CHECK_MSG(weight[t] > 0 || seen[t] == 0, "%s: word %d came up %g times", what, t, seen[t]);
        off += want > 0 ? (seen[t] - want) * (seen[t] - want) / want : 0;
        kinds += want > 0;
    }
    /* chi-square with kinds - 1 degrees: mean kinds - 1, 30 is passed once in 10^5 with 5 */
    CHECK_MSG(off < 30 && kinds > (o->top_p <= 0), "%s: chi-square %g of %d kinds", what, off,
              kinds);
    arena_reset(&memory);
}

static int heavier(const void *a, const void *b)
{
    const double *x = a, *y = b;

    return *x < *y ? 1 : *x > *y ? -1 : 0;
}

static void samples_come_up_as_often_as_they_should(void **state)
{
    rng r = rng_make(test_seed(), test_index(state));

    for (int i = 0; i < 8; i++) {
        arena memory = {0};
        attn_model *m =
            toy_model(i % 2 ? ATTN_STACK_DECODER : 0, i % 3 ? ATTN_F32 : ATTN_F64, 40 + i, 2);
        attn_generator *g = toy_generator(m, 200);
        attn_generate_options o = toy_options();
        sequence s;
        double *p, weight[WORDS], sorted[WORDS], all = 0, sum = 0;
        int kept = 0;

        toy_sequences(&memory, &r, &s, 1, 4, 0);
        p = whole_log_probabilities(&memory, m, &s);
        o.seed = (uint64_t)i;
        o.temperature = i % 4 == 1 ? 0.7 : i % 4 == 2 ? 1.5 : 0;
        o.top_k = i % 4 == 3 ? 3 : 0;
        o.top_p = i >= 4 ? 0.8 : 0;
        for (int t = 0; t < WORDS; t++) {
            weight[t] = t == PAD ? 0 : exp(p[t] / (o.temperature > 0 ? o.temperature : 1));
            sorted[t] = weight[t];
        }
        qsort(sorted, WORDS, sizeof *sorted, heavier);
        for (int t = 0; t < (o.top_k ? 3 : WORDS); t++)
            all += sorted[t];
        for (; kept < (o.top_k ? 3 : WORDS) && (kept == 0 || sum < (i >= 4 ? 0.8 : 1) * all);)
            sum += sorted[kept++];
        for (int t = 0; t < WORDS; t++)
            weight[t] = weight[t] >= sorted[kept - 1] ? weight[t] : 0;
        check_frequencies(weight, g, &s, &o, i >= 4 ? "top_p" : "samples");
        attn_generator_destroy(g);
        attn_model_destroy(m);
        arena_reset(&memory);
    }
}

/* A vocabulary of several tiles, wide nuclei among it: the same frequencies, by mass of thirds. */
static void samples_of_many_words(void **state)
{
    rng r = rng_make(test_seed(), test_index(state));
    attn_model_config c = ATTN_MODEL_CONFIG_INIT;
    arena memory = {0};
    attn_model *m;
    attn_generator *g;
    sequence s[50];
    double *p, want[3] = {0};
    static const struct {
        double top_p;
        int64_t top_k;
    } how[] = {{0, 0}, {0.9999, 0}, {0, 700}, {0, 690}};

    c.stack = ATTN_STACK_DECODER;
    c.vocabulary = 700;
    c.decoder_layers = 1;
    c.d = 16;
    c.ff = 16;
    c.heads = 2;
    m = step_model(&c, 1, 6);
    g = toy_generator(m, 200);
    for (int i = 0; i < 50; i++)
        s[i] = (sequence){NULL, NULL, 0, 0};
    (void)r;
    p = whole_log_probabilities(&memory, m, s);
    for (int t = 0; t < 700; t++)
        want[t * 3 / 700] += exp(p[t]);
    for (size_t i = 0; i < sizeof how / sizeof *how; i++) {
        attn_generate_options o = toy_options();
        double seen[3] = {0};
        found *f;

        o.end_count = o.banned_count = 0;
        o.sample = 1;
        o.beam = 200;
        o.longest = 1;
        o.top_k = how[i].top_k;
        o.top_p = how[i].top_p;
        f = toy_generate(&memory, g, s, 50, &o);
        for (int k = 0; k < 50; k++)
            for (int n = 0; n < f[k].count; n++) {
                CHECK(f[k].at[n].count == 1 && f[k].at[n].end == -1);
                CHECK(fabs(f[k].at[n].sum - p[f[k].at[n].tokens[0]]) < 1e-5);
                seen[f[k].at[n].tokens[0] * 3 / 700]++;
            }
        for (int t = 0; t < 3; t++)
            CHECK_MSG(fabs(seen[t] / 10000 - want[t]) < 0.03, "way %zu, third %d: %g, not %g", i, t,
                      seen[t] / 10000, want[t]);
    }
    attn_generator_destroy(g);
    attn_model_destroy(m);
    arena_reset(&memory);
}

/* --- Narrow weights ------------------------------------------------------------------------- */

static void narrow_weights_are_near(void **state)
{
    static const struct {
        attn_type type;
        double near;
    } narrow[] = {{ATTN_F16, 0.01}, {ATTN_BF16, 0.1}, {ATTN_I8, 0.1}};
    rng r = rng_make(test_seed(), test_index(state));
    attn_model_config c = generation_config(12);
    attn_model *m;
    arena memory = {0};
    sequence s[6];
    attn_batch b;
    attn_view exact;
    double most;

    c.start = ATTN_START_ZERO;
    m = step_model(&c, 1, 3);
    toy_sequences(&memory, &r, s, 6, 8, 3);
    b = batch_of(&memory, s, 6);
    for (size_t i = 0; i < 3; i++) {
        attn_generator_options o = ATTN_GENERATOR_OPTIONS_INIT;
        attn_generator *g;
        attn_view logits;
        attn_error err = {0};
        found *f;
        attn_generate_options q = toy_options();

        o.weights = narrow[i].type;
        CHECK_MSG(attn_generator_create(m, &o, &g, &err) == ATTN_OK, "%s", err.text);
        CHECK_MSG(attn_generator_start(g, &b, 9, &logits, &err) == ATTN_OK, "%s", err.text);
        most = 0;
        for (int64_t k = 0; k < 6; k++) {
            exact = whole_logits(&memory, m, &s[k]);
            for (int64_t t = 0; t < 19; t++)
                most = fmax(most, fabs(view_get(&logits, 0, 0, k, t) - step_get(&exact, t)));
        }
        CHECK_MSG(most > 0 && most < narrow[i].near, "%s: %g away", attn_type_name(narrow[i].type),
                  most);
        q.longest = 6;
        q.beam = 2;
        f = toy_generate(&memory, g, s, 6, &q);
        CHECK(f[0].count == 1);
        attn_generator_destroy(g);
    }
    attn_model_destroy(m);
    arena_reset(&memory);
}

/* --- Limits --------------------------------------------------------------------------------- */

static void lengths_are_kept(void **state)
{
    rng r = rng_make(test_seed(), test_index(state));
    arena memory = {0};

    for (int i = 0; i < 4; i++) {
        attn_model *m = toy_model(i % 2 ? ATTN_STACK_DECODER : 0, ATTN_F32, 9, 0.2);
        attn_generator *g = toy_generator(m, 6);
        attn_generate_options o = toy_options();
        sequence s[3];
        found *f;

        toy_sequences(&memory, &r, s, 3, 4, 0);
        o.beam = i < 2 ? 1 : 3;
        o.longest = 5;
        o.shortest = 4;
        f = toy_generate(&memory, g, s, 3, &o);
        for (int k = 0; k < 3; k++)
            CHECK(f[k].at[0].count >= 4 && f[k].at[0].count <= 5 && f[k].at[0].end == END);
        o.end_count = 0; /* nothing ends: cut off */
        o.no_repeat = 2;
        o.longest = 20;
        f = toy_generate(&memory, g, s, 3, &o);
        for (int k = 0; k < 3; k++) {
            int n = (int)f[k].at[0].count;
            CHECK(n > 4 && n <= 20 && f[k].at[0].end == -1); /* 20, or until no word is left */
            for (int a = 0; a + 1 < n; a++)
                for (int b = 0; b < a; b++)
                    CHECK_MSG(memcmp(f[k].at[0].tokens + a, f[k].at[0].tokens + b, 8) != 0,
                              "two words come twice: %d, %d", a, b);
        }
        attn_generator_destroy(g);
        attn_model_destroy(m);
    }
    arena_reset(&memory);
}

static int length_of(void *user, int64_t source, const attn_hypothesis *h, size_t count)
{
    (void)count;
    ((int64_t *)user)[source] = h->count;
    return 0;
}

/* Default lengths, and learned positions that end before. */
static void lengths_by_default(void **state)
{
    static const int64_t sources[] = {0, 3, 7};
    rng r = rng_make(test_seed(), test_index(state));
    arena memory = {0};

    for (int i = 0; i < 4; i++) {
        attn_model_config c = ATTN_MODEL_CONFIG_INIT;
        attn_generate_options o = toy_options();
        attn_error err = {0};
        attn_model *m;
        attn_generator *g;
        sequence s[3];
        attn_batch b;
        int64_t length[3];

        c.stack = i % 2 ? ATTN_STACK_DECODER : 0;
        c.vocabulary = WORDS;
        c.encoder_layers = !(i % 2);
        c.decoder_layers = 1;
        c.d = 8;
        c.ff = 8;
        c.heads = 2;
        c.positions = i < 2 ? ATTN_POSITIONS_PAPER : ATTN_POSITIONS_LEARNED;
        c.max_positions = 41;
        c.position_offset = 1;
        m = step_model(&c, 1, 5);
        g = toy_generator(m, 4);
        for (int k = 0; k < 3; k++) {
            s[k].sources = s[k].targets = sources[k];
            s[k].source = s[k].target = random_ids(&memory, &r, sources[k], WORDS);
            s[k].targets = i % 2 ? sources[k] : 0;
        }
        b = batch_of(&memory, s, 3);
        o.end_count = 0;
        o.done = length_of;
        o.user = length;
        CHECK_MSG(attn_generate(g, &b, &o, &err) == ATTN_OK, "%s", err.text);
        for (int k = 0; k < 3; k++) {
            int64_t want = i == 0 ? sources[k] + 50 : i == 1 ? 256 : i == 2 ? 39 : 39 - sources[k];
            CHECK_MSG(length[k] == want, "kind %d, source %d: %lld, not %lld", i, k,
                      (long long)length[k], (long long)want);
        }
        o.longest = 40;
        CHECK(attn_generate(g, &b, &o, &err) == (i < 2 ? ATTN_OK : ATTN_E_ARGUMENT));
        CHECK(i < 2 || strncmp(err.text, "longest: 40", 11) == 0);
        attn_generator_destroy(g);
        attn_model_destroy(m);
    }
    arena_reset(&memory);
}

/* --- Looks ---------------------------------------------------------------------------------- */

/* What a found hypothesis looked at: that of a pass over it, rows of 1, and numbers with the same
 * bits as without. */
static void looks_at_what_was_found(void **state)
{
    rng r = rng_make(test_seed(), test_index(state));
    arena memory = {0};
    attn_model *m = toy_model(0, ATTN_F32, 4, 2);
    attn_generator *g = toy_generator(m, 8);
    attn_generate_options o = toy_options();
    attn_score_args a = ATTN_SCORE_ARGS_INIT;
    attn_look look = {1, 1, 0, 0, {0}, NULL};
    sequence s[4], whole[4];
    int64_t targets = 0, sources = 0;
    double numbers[4 * LONG];
    attn_batch b;
    attn_error err = {0};
    found *f;

    toy_sequences(&memory, &r, s, 4, 6, 0);
    s[1].sources = 5;
    s[1].source = random_ids(&memory, &r, 5, WORDS);
    o.beam = 4;
    o.longest = 12;
    f = toy_generate(&memory, g, s, 4, &o);
    for (int k = 0; k < 4; k++) {
        f[k].at[0].tokens[f[k].at[0].count] = END;
        whole[k] = (sequence){s[k].source, f[k].at[0].tokens, s[k].sources, f[k].at[0].count + 1};
        targets = whole[k].targets > targets ? whole[k].targets : targets;
        sources = whole[k].sources > sources ? whole[k].sources : sources;
    }
    b = batch_of(&memory, whole, 4);
    look.weights = view_plain(&memory, ATTN_F32, 4, 2, targets, sources);
    a.batch = &b;
    a.looks = &look;
    a.look_count = 1;
    a.of_tokens = numbers;
    CHECK_MSG(attn_generate_score(g, &a, &err) == ATTN_OK, "%s", err.text);
    for (int k = 0, at = 0; k < 4; at += (int)whole[k++].targets) {
        CHECK(memcmp(numbers + at, f[k].at[0].of_tokens,
                     (size_t)whole[k].targets * sizeof *numbers) == 0);
        for (int64_t i = 0; i < whole[k].targets; i++) {
            double sum = 0;
            for (int64_t j = 0; j < sources; j++)
                sum += view_get(&look.weights, k, 1, i, j);
            CHECK(fabs(sum - (whole[k].sources > 0)) < 1e-5);
        }
    }
    attn_generator_destroy(g);
    attn_model_destroy(m);
    arena_reset(&memory);
}

/* --- Memory --------------------------------------------------------------------------------- */

enum { MANY_SOURCES = 24 };

static int ignore(void *user, int64_t source, const attn_hypothesis *h, size_t count)
{
    (void)source;
    (void)h;
    (void)count;
    ++*(int *)user;
    return 0;
}

/* Everything with its 1st, 2nd, ... allocation failing, once or from then on; with `threads` of
 * `count` sources shares. */
static void fail_allocations(void **state, int threads, int count, int variants)
{
    rng r = rng_make(test_seed(), test_index(state));
    arena memory = {0};
    heap h = {0};
    const attn_ctx *ctx = heap_ctx(&h, ATTN_SET_AUTO, threads);
    sequence s[MANY_SOURCES];
    attn_batch b;
    long failures = 0;

    toy_sequences(&memory, &r, s, count, 4, 2);
    for (int k = 0; k < count; k++)
        if (s[k].targets == 0)
            s[k] = (sequence){s[k].source, s[k].source, s[k].sources, s[k].sources > 0};
    b = batch_of(&memory, s, count);
    for (int i = 0; i < variants; i++) {
        attn_model_config c = generation_config(i < 2 ? 12 + i : 2 * i);
        attn_model *m;
        long before;

        c.vocabulary = WORDS;
        c.start = ATTN_START_ZERO;
        c.encoder_layers = c.encoder_layers > 0;
        c.decoder_layers = 1;
        CHECK(attn_model_create(ctx, &c, 1, &m, NULL) == ATTN_OK);
        before = h.live;
        for (int all = 0; all < 2; all++)
            for (long at = 1, over = 0; !over; at++) {
                attn_generator_options go = ATTN_GENERATOR_OPTIONS_INIT;
                attn_generate_options o = toy_options();
                attn_score_args a = ATTN_SCORE_ARGS_INIT;
                attn_generator *g;
                attn_error err = {0};
                attn_status st;
                int done = 0;

                go.hypotheses = count > 3 ? 8 * threads : 4;
                go.weights = i == 1 ? ATTN_I8 : ATTN_F32;
                o.beam = 2;
                o.longest = 4;
                o.done = ignore;
                o.user = &done;
                a.batch = &b;
                h.calls = 0;
                h.sticky = all;
                h.fail_at = at;
                st = attn_generator_create(m, &go, &g, &err);
                if (st == ATTN_OK)
                    st = attn_generate(g, &b, &o, &err);
                if (st == ATTN_OK)
                    st = attn_generate_score(g, &a, &err);
                over = st == ATTN_OK && (h.calls < at || h.calls == 0);
                CHECK_MSG(st == ATTN_OK ? done == count : st == ATTN_E_MEMORY,
                          "variant %d, allocation %ld: %s", i, at, err.text);
                failures += st != ATTN_OK;
                h.fail_at = 0;
                if (g && st != ATTN_OK) { /* and again */
                    done = 0;
                    CHECK_MSG(attn_generate(g, &b, &o, &err) == ATTN_OK && done == count,
                              "variant %d, allocation %ld, again: %s", i, at, err.text);
                }
                attn_generator_destroy(g);
                CHECK_MSG(h.live == before, "variant %d, allocation %ld: %ld are left", i, at,
                          h.live - before);
            }
        attn_model_destroy(m);
    }
    CHECK(failures > 100);
    attn_ctx_destroy((attn_ctx *)(uintptr_t)ctx);
    arena_reset(&memory);
}

static void every_allocation_may_fail(void **state)
{
    fail_allocations(state, 1, 3, 4);
    fail_allocations(state, 3, MANY_SOURCES, 1);
}

/* After the first call for such lengths steps ask for nothing. */
static void steps_allocate_nothing(void **state)
{
    rng r = rng_make(test_seed(), test_index(state));

    for (int i = 0; i < GENERATION_VARIANTS; i += 5) {
        arena memory = {0};
        heap h = {0};
        const attn_ctx *ctx = heap_ctx(&h, ATTN_SET_AUTO, 1 + i % 3);
        attn_model_config c = generation_config(i);
        attn_generator_options o = ATTN_GENERATOR_OPTIONS_INIT;
        attn_generator *g;
        attn_model *m;
        attn_view logits;
        sequence s[4];
        attn_batch b;
        int32_t parents[12], tokens[12];
        int count = 4;

        c.d = 68;
        c.ff = 150;
        CHECK(attn_model_create(ctx, &c, 1, &m, NULL) == ATTN_OK);
        o.hypotheses = 12;
        o.weights = i % 2 ? ATTN_BF16 : ATTN_F32;
        CHECK(attn_generator_create(m, &o, &g, NULL) == ATTN_OK);
        toy_sequences(&memory, &r, s, 4, 9, 0);
        for (int k = 0; k < 4; k++) {
            s[k].targets = 1;
            s[k].target = random_ids(&memory, &r, 1, WORDS);
        }
        b = batch_of(&memory, s, 4);
        CHECK(attn_generator_start(g, &b, 20, &logits, NULL) == ATTN_OK);
        for (int at = 0; at < 19; at++) {
            long before = h.calls;
            int next = at % 5 == 4 ? 2 : at % 3 == 2 ? 4 : 12;
            for (int k = 0; k < next; k++) {
                parents[k] = (int32_t)(k * count / next);
                tokens[k] = (int32_t)rng_int(&r, 0, 18);
            }
            count = next;
            CHECK(attn_generator_step(g, parents, tokens, count, &logits, NULL) == ATTN_OK);
            CHECK_MSG(h.calls == before, "variant %d, step %d: %ld allocations", i, at,
                      h.calls - before);
        }
        attn_generator_destroy(g);
        attn_model_destroy(m);
        attn_ctx_destroy((attn_ctx *)(uintptr_t)ctx);
        arena_reset(&memory);
    }
}

/* --- Callbacks ------------------------------------------------------------------------------ */

typedef struct calls {
    int32_t said[4][LONG];
    int count[4], done, stop_at;
} calls;

static int on_token(void *user, int64_t source, int64_t number, int32_t token)
{
    calls *c = user;

    CHECK(number == 0 && c->count[source] < LONG);
    c->said[source][c->count[source]++] = token;
    return c->stop_at == -1;
}

static int on_done(void *user, int64_t source, const attn_hypothesis *h, size_t count)
{
    calls *c = user;

    CHECK(count == 1 && c->count[source] == h->count + (h->end >= 0));
    CHECK(memcmp(c->said[source], h->tokens, (size_t)h->count * sizeof *h->tokens) == 0);
    CHECK(h->end < 0 || c->said[source][h->count] == h->end);
    return ++c->done == c->stop_at;
}

static int stop_now(void *user, uint64_t done, uint64_t total)
{
    (void)done;
    (void)total;
    return ++*(int *)user > 40;
}

static void callbacks(void **state)
{
    rng r = rng_make(test_seed(), test_index(state));
    arena memory = {0};
    attn_model *m = toy_model(0, ATTN_F32, 4, 2);
    attn_generator *g = toy_generator(m, 2);
    attn_ctx_options co = ATTN_CTX_OPTIONS_INIT;
    attn_ctx *ctx;
    attn_model_config config = *attn_model_get_config(m);
    int progress = 0;
    sequence s[4];
    attn_batch b;
    attn_error err = {0};

    toy_sequences(&memory, &r, s, 4, 6, 0);
    b = batch_of(&memory, s, 4);
    for (int sample = 0; sample < 2; sample++)
        for (int stop = 0; stop < 4; stop++) {
            attn_generate_options o = toy_options();
            calls c = {.stop_at = stop == 3 ? -1 : stop};

            o.done = on_done;
            o.token = on_token;
            o.user = &c;
            o.sample = sample;
            o.longest = 10;
            CHECK(attn_generate(g, &b, &o, &err) == (stop ? ATTN_E_CANCELLED : ATTN_OK));
            CHECK(c.done == (stop == 3 ? 0 : stop ? stop : 4));
        }
    attn_generator_destroy(g);
    attn_model_destroy(m);

    co.progress = stop_now;
    co.progress_user = &progress;
    CHECK(attn_ctx_create(&co, &ctx, NULL) == ATTN_OK);
    CHECK(attn_model_create(ctx, &config, 3, &m, NULL) == ATTN_OK);
    g = toy_generator(m, 2);
    {
        attn_generate_options o = toy_options();
        found f[4];

        memset(f, 0, sizeof f);
        o.user = f;
        CHECK(attn_generate(g, &b, &o, &err) == ATTN_E_CANCELLED);
    }
    attn_generator_destroy(g);
    attn_model_destroy(m);
    attn_ctx_destroy(ctx);
    arena_reset(&memory);
}

/* --- Arguments ------------------------------------------------------------------------------ */

#define FAILS(status, call, name)                                                                  \
    do {                                                                                           \
        CHECK_MSG((call) == (status), "%s went another way: %s", #call, err.text);                 \
        CHECK_MSG(strncmp(err.text, name, strlen(name)) == 0, "%s: %s", #call, err.text);          \
    } while (0)

static void wrong_options(void **state)
{
    rng r = rng_make(test_seed(), test_index(state));
    arena memory = {0};
    attn_model *m = toy_model(0, ATTN_F32, 4, 2);
    attn_generator *g = toy_generator(m, 4);
    attn_generate_options o = toy_options();
    attn_error err = {0};
    int32_t wrong = WORDS;
    sequence s[2] = {{0}};
    attn_batch b;

#define OPTION(change, undo, name)                                                                 \
    do {                                                                                           \
        change;                                                                                    \
        FAILS(ATTN_E_ARGUMENT, attn_generate(g, &b, &o, &err), name);                              \
        undo;                                                                                      \
    } while (0)
    toy_sequences(&memory, &r, s, 2, 6, 2);
    b = batch_of(&memory, s, 2);
    OPTION(o.beam = 5, o.beam = 0, "beam");
    OPTION(o.beam = -1, o.beam = 0, "beam");
    OPTION(o.best = 2, o.best = 0, "best");
    OPTION(o.penalty = (attn_length_penalty)3, o.penalty = 0, "penalty");
    OPTION(o.stop = (attn_stop)2, o.stop = 0, "stop");
    OPTION(o.alpha = -1, o.alpha = 0, "alpha");
    OPTION(o.alpha = (double)NAN, o.alpha = 0, "alpha");
    OPTION(o.ends = &wrong, o.ends = NULL, "ends[0]: 6, expected 0 to 5");
    OPTION(o.banned = &wrong, o.banned = NULL, "banned[0]");
    OPTION(o.longest = -1, o.longest = 0, "longest");
    OPTION(o.shortest = -1, o.shortest = 0, "shortest");
    OPTION(o.no_repeat = -1, o.no_repeat = 0, "no_repeat");
    OPTION(o.temperature = 1, o.temperature = 0, "sample: 0");
    o.sample = 1;
    OPTION(o.temperature = -1, o.temperature = 0, "temperature");
    OPTION(o.top_p = 1.5, o.top_p = 0, "top_p");
    OPTION(o.top_k = 7, o.top_k = 0, "top_k");
    o.sample = 0;
    OPTION(o.done = NULL, o.done = ignore, "done");
    OPTION((o.token = on_token, o.beam = 2), (o.token = NULL, o.beam = 0), "token");
    OPTION(o.struct_size = 1, o.struct_size = sizeof o, "options.struct_size");
    OPTION(b.segments = 0, b.segments = 2, "segments");
    OPTION(b.source_starts = NULL, b = batch_of(&memory, s, 2), "source_starts");
    FAILS(ATTN_E_ARGUMENT, attn_generate(NULL, &b, &o, &err), "generator");
    FAILS(ATTN_E_ARGUMENT, attn_generate(g, NULL, &o, &err), "batch");
    FAILS(ATTN_E_ARGUMENT, attn_generate(g, &b, NULL, &err), "options");
    ((int32_t *)(uintptr_t)b.target)[0] = 17;
    s[0].targets = 1;
    b.target_starts = (const int64_t[]){0, 1, 2};
    OPTION((void)0, b = batch_of(&memory, s, 2), "target[0]");
    s[0].targets = 4;
    s[0].target = random_ids(&memory, &r, 4, WORDS);
    OPTION((b = batch_of(&memory, s, 2), o.longest = 3), o.longest = 0, "target: sequence 0 has 4");
#undef OPTION
    attn_generator_destroy(g);
    attn_model_destroy(m);
    arena_reset(&memory);
}

static void wrong_steps(void **state)
{
    rng r = rng_make(test_seed(), test_index(state));
    arena memory = {0};
    attn_model *m = toy_model(0, ATTN_F32, 4, 2);
    attn_generator *g = toy_generator(m, 3);
    attn_generator_options o = ATTN_GENERATOR_OPTIONS_INIT;
    attn_generator *none;
    attn_model_config c = step_config(2);
    attn_model *other = step_model(&c, 1, 1);
    attn_view logits;
    attn_error err = {0};
    sequence s[4];
    attn_batch b, two;
    int32_t parents[] = {0, 1, 1}, tokens[] = {2, 3, 4};

    toy_sequences(&memory, &r, s, 4, 6, 2);
    b = batch_of(&memory, s, 4);
    two = batch_of(&memory, s, 2);
    FAILS(ATTN_E_ARGUMENT, attn_generator_create(other, NULL, &none, &err),
          "model: has no decoder");
    FAILS(ATTN_E_ARGUMENT, attn_generator_create(NULL, NULL, &none, &err), "model");
    FAILS(ATTN_E_ARGUMENT, attn_generator_create(m, NULL, NULL, &err), "out");
    o.weights = ATTN_U8;
    FAILS(ATTN_E_ARGUMENT, attn_generator_create(m, &o, &none, &err), "options.weights");
    o.weights = ATTN_F32;
    o.hypotheses = -1;
    FAILS(ATTN_E_ARGUMENT, attn_generator_create(m, &o, &none, &err), "options.hypotheses");
    FAILS(ATTN_E_ARGUMENT, attn_generator_step(g, parents, tokens, 2, &logits, &err), "generator");
    FAILS(ATTN_E_ARGUMENT, attn_generator_start(g, &b, 9, &logits, &err), "segments");
    FAILS(ATTN_E_ARGUMENT, attn_generator_start(g, &two, -1, &logits, &err), "longest");
    CHECK(attn_generator_start(g, &two, 4, &logits, &err) == ATTN_OK);
    CHECK(logits.size[2] == 2 && logits.size[3] == WORDS);
    FAILS(ATTN_E_ARGUMENT, attn_generator_step(g, parents, tokens, 4, &logits, &err), "count");
    FAILS(ATTN_E_ARGUMENT, attn_generator_step(g, NULL, tokens, 2, &logits, &err), "parents");
    parents[1] = 2;
    FAILS(ATTN_E_ARGUMENT, attn_generator_step(g, parents, tokens, 2, &logits, &err), "parents[1]");
    parents[1] = 1;
    parents[2] = 0;
    FAILS(ATTN_E_ARGUMENT, attn_generator_step(g, parents, tokens, 3, &logits, &err), "parents[2]");
    parents[2] = 1;
    tokens[2] = -1;
    FAILS(ATTN_E_ARGUMENT, attn_generator_step(g, parents, tokens, 3, &logits, &err), "tokens[2]");
    tokens[2] = 5;
    for (int at = 0;; at++) {
        attn_status st = attn_generator_step(g, parents, tokens, 2, &logits, &err);
        if (st != ATTN_OK) {
            CHECK_MSG(st == ATTN_E_FULL && at >= 2 && at <= 4, "%s", err.text);
            break;
        }
    }
    CHECK(attn_generator_step(g, NULL, NULL, 0, &logits, &err) == ATTN_OK && logits.size[2] == 0);
    attn_generator_destroy(g);
    attn_generator_destroy(NULL);
    attn_model_destroy(other);
    attn_model_destroy(m);
    arena_reset(&memory);
}

/* A model whose logits are no numbers says so. */
static void broken_models(void **state)
{
    rng r = rng_make(test_seed(), test_index(state));
    arena memory = {0};
    sequence s[2];
    attn_batch b;

    toy_sequences(&memory, &r, s, 2, 4, 0);
    b = batch_of(&memory, s, 2);
    for (int i = 0; i < 2; i++) {
        attn_model *m = toy_model(0, ATTN_F32, 4, 2);
        attn_generator *g;
        attn_generate_options o = toy_options();
        attn_view w = attn_model_output_weight(m, attn_model_weights(m));
        attn_error err = {0};
        int done = 0;

        step_put(&w, 3, (double)NAN);
        g = toy_generator(m, 4);
        o.done = ignore;
        o.user = &done;
        o.sample = i;
        FAILS(ATTN_E_ARGUMENT, attn_generate(g, &b, &o, &err), "model: logits of sequence");
        attn_generator_destroy(g);
        attn_model_destroy(m);
    }
    arena_reset(&memory);
}

int main(int argc, char **argv)
{
    static const test_case tests[] = {
        {"samples come up as often as they should", samples_come_up_as_often_as_they_should, 0},
        {"samples of many words", samples_of_many_words, 0},
        {"narrow weights are near", narrow_weights_are_near, 0},
        {"lengths are kept", lengths_are_kept, 0},
        {"lengths by default", lengths_by_default, 0},
        {"looks at what was found", looks_at_what_was_found, 0},
        {"every allocation may fail", every_allocation_may_fail, 0},
        {"steps allocate nothing", steps_allocate_nothing, 0},
        {"callbacks", callbacks, 0},
        {"wrong options", wrong_options, 0},
        {"wrong steps", wrong_steps, 0},
        {"broken models", broken_models, 0},
    };

    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
