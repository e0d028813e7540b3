/* test_generate_search.c: beam search against plain searches over whole passes, scores, samples. */
#include "include/attn/generate.h"
#include "include/attn/nn.h"
#include "src/nn/search.h"
#include "tests/generation.h"
#include "tests/nn_step.h"

#include <math.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static double penalty_of(const attn_generate_options *o, int64_t tokens, bool ended)
{
    double n = (double)(tokens + (ended && o->end_counted));

    return o->penalty == ATTN_LENGTH_GNMT             ? pow((5 + n) / 6, o->alpha)
           : o->penalty == ATTN_LENGTH_POWER && n > 0 ? pow(n, o->alpha)
                                                      : 1;
}

/* --- A plain search -------------------------------------------------------------------------- */

/* One hypothesis, ended or not. */
typedef struct plain {
    int32_t tokens[LONG];
    int64_t count;
    double sum, score;
    bool ended;
    int by; /* of candidates: hypothesis, token */
    int32_t token;
} plain;

static int by_sum(const void *a, const void *b)
{
    const plain *x = a, *y = b;

    if (x->sum != y->sum)
        return x->sum > y->sum ? -1 : 1;
    return x->by != y->by ? x->by - y->by : x->token - y->token;
}

static int by_score(const void *a, const void *b)
{
    const plain *x = a, *y = b;

    return x->score > y->score ? -1 : x->score < y->score;
}

/* Beam search to the longest length without any stop, each step by a whole pass. Returns what has
 * ended, best first. */
static int search(arena *memory, const attn_model *m, const sequence *s,
                  const attn_generate_options *o, int64_t longest, plain *ended)
{
    enum { CANDIDATES = MANY * WORDS };
    plain *live = arena_get(memory, MANY * sizeof *live);
    plain *next = arena_get(memory, CANDIDATES * sizeof *next);
    int lives = 1, ends_found = 0;

    memset(live, 0, sizeof *live);
    for (int64_t length = 0; lives > 0; length++) {
        int n = 0, kept = 0;

        for (int b = 0; b < lives; b++) {
            sequence all = {s->source, live[b].tokens, s->sources, live[b].count};
            double *p = whole_log_probabilities(memory, m, &all);
            for (int32_t t = 0; t < WORDS; t++) {
                if (t == PAD || (length == longest && t != END) ||
                    (t == END && length < o->shortest))
                    continue;
                next[n] = live[b];
                next[n].sum += p[t];
                next[n].by = b;
                next[n++].token = t;
            }
        }
        qsort(next, (size_t)n, sizeof *next, by_sum);
        n = n < 2 * o->beam ? n : (int)(2 * o->beam);
        for (int i = 0; i < n; i++) {
            plain x = next[i];
            if (x.token == END && i < o->beam) {
                x.score = x.sum / penalty_of(o, x.count, true);
                x.ended = true;
                ended[ends_found++] = x;
            } else if (x.token != END && kept < o->beam) {
                x.tokens[x.count++] = x.token;
                live[kept++] = x;
            }
        }
        lives = kept;
    }
    qsort(ended, (size_t)ends_found, sizeof *ended, by_score);
    return ends_found;
}

static void check_equal(const found *f, const plain *want, int wanted, int best, const char *what)
{
    CHECK_MSG(f->count == (wanted < best ? wanted : best), "%s: %d hypotheses, expected %d", what,
              f->count, wanted < best ? wanted : best);
    for (int i = 0; i < f->count; i++) {
        CHECK_MSG(fabs(f->at[i].score - want[i].score) < 1e-9,
                  "%s: hypothesis %d: %.12f, not %.12f", what, i, f->at[i].score, want[i].score);
        CHECK_MSG(f->at[i].count == want[i].count && f->at[i].end == END &&
                      memcmp(f->at[i].tokens, want[i].tokens,
                             (size_t)want[i].count * sizeof(int32_t)) == 0,
                  "%s: hypothesis %d has other tokens", what, i);
    }
}

static void penalty_number(attn_generate_options *o, int i)
{
    static const double alphas[] = {0.6, 1, 0, 2.5};

    o->penalty = (attn_length_penalty)(i % 3);
    o->alpha = alphas[i / 3 % 4];
    o->end_counted = i / 12 % 2;
}

/* With a beam as wide as all there is, the best of all sequences is found, whatever the penalty. */
static void wide_beams_are_exhaustive(void **state)
{
    rng r = rng_make(test_seed(), test_index(state));

    for (int i = 0; i < 24; i++) {
        arena memory = {0};
        attn_model *m = toy_model(i % 2 ? ATTN_STACK_DECODER : 0, ATTN_F64, (uint64_t)i, 1 + i % 5);
        attn_generator *g = toy_generator(m, 2 * MANY);
        plain *all = arena_get(&memory, 16 * MANY * sizeof *all);
        attn_generate_options o = toy_options();
        sequence s[3];
        found *f;

        toy_sequences(&memory, &r, s, 3, 5, 0);
        penalty_number(&o, i);
        o.beam = 160; /* 4 words that do not end, twice: 16 live at most before the last */
        o.best = 12;
        o.longest = 3;
        f = toy_generate(&memory, g, s, 3, &o);
        for (int k = 0; k < 3; k++) {
            int n = search(&memory, m, &s[k], &o, 3, all);
            CHECK(n == 1 + 4 + 16 + 64);
            check_equal(&f[k], all, n, 12, "exhaustive");
        }
        attn_generator_destroy(g);
        attn_model_destroy(m);
        arena_reset(&memory);
    }
}

/* Ends come early and often, or late and seldom. */
static void favour_ends(attn_model *m)
{
    attn_view w = attn_model_output_weight(m, attn_model_weights(m));

    for (int64_t c = 0; c < w.size[3]; c++)
        step_put(&w, END * w.size[3] + c, 3 * step_get(&w, END * w.size[3] + c));
}

/* Narrow beams find what the same search finds that never stops. */
static void beams_stop_in_time(void **state)
{
    rng r = rng_make(test_seed(), test_index(state));

    for (int i = 0; i < 48; i++) {
        arena memory = {0};
        attn_model *m =
            toy_model(i % 2 ? ATTN_STACK_DECODER : 0, ATTN_F64, 100 + (uint64_t)i, 1 + i % 6);
        attn_generator *g = (i % 3 ? (void)0 : favour_ends(m), toy_generator(m, 16));
        plain *all = arena_get(&memory, 16 * MANY * sizeof *all);
        attn_generate_options o = toy_options();
        sequence s[4];
        found *f;

        toy_sequences(&memory, &r, s, 4, 5, 0);
        penalty_number(&o, i);
        o.beam = 2 + i % 4;
        o.best = 1 + i % o.beam;
        o.longest = 9;
        o.shortest = i % 3;
        f = toy_generate(&memory, g, s, 4, &o);
        for (int k = 0; k < 4; k++) {
            int n = search(&memory, m, &s[k], &o, 9, all);
            check_equal(&f[k], all, n, (int)o.best, "narrow");
        }
        attn_generator_destroy(g);
        attn_model_destroy(m);
        arena_reset(&memory);
    }
}

/* --- One step by hand ------------------------------------------------------------------------ */

/* Two hypotheses, whose candidates are given: of the first `beam` those that end do, of what
 * follows only words live on; of equals the first hypothesis, then the lower token. */
static void one_step(void **state)
{
    attn_generate_options o = toy_options();
    attn__candidate merged[4];
    int32_t by[4], parents[2], tokens[2];
    attn__search_rules r = {.o = &o, .beam = 2, .best = 2, .room = 9, .merged = merged, .by = by};
    attn__search s = {0};
    arena memory = {0};
    attn__candidate begin[4] = {{-0.25, 2}, {-0.25, 3}};
    attn__candidate ending[8] = {{-0.5, 2}, {-0.625, END}, {0, 0}, {0, 0}, {-0.6875, END}, {-1, 4}};
    attn__candidate equal[8] = {{-0.5, 4}, {-0.5, 5}, {0, 0}, {0, 0}, {-0.5, 2}, {-0.5, 3}};
    size_t count[2] = {2, 2};

    (void)state;
    attn__search_size(&r, &s, arena_get(&memory, attn__search_size(&r, NULL, NULL)));
    for (int way = 0; way < 2; way++) {
        attn__search_open(&r, &s, 0, 9, NULL, NULL, 0);
        attn__search_advance(&r, &s, begin, 4, count, parents, tokens);
        CHECK(s.live_count == 2 && tokens[0] == 2 && tokens[1] == 3 && parents[1] == 0);
        attn__search_advance(&r, &s, way ? equal : ending, 4, count, parents, tokens);
        CHECK(s.live_count == 2 && !s.done);
        CHECK(parents[0] == 0 && tokens[0] == (way ? 4 : 2));
        CHECK(parents[1] == !way && tokens[1] == (way ? 5 : 4));
        CHECK(s.ended_count == (way ? 0 : 1));
        CHECK(way || (s.ended[0].tokens[0] == 2 && s.ended[0].count == 1));
        CHECK(way || s.ended[0].sum == -0.875);
    }
    arena_reset(&memory);
}

/* --- Greedy, n-best ------------------------------------------------------------------------- */

static void beam_of_one_is_greedy(void **state)
{
    rng r = rng_make(test_seed(), test_index(state));

    for (int i = 0; i < 24; i++) {
        arena memory = {0};
        attn_model *m = toy_model(i % 2 ? ATTN_STACK_DECODER : 0, i % 3 ? ATTN_F32 : ATTN_F64,
                                  200 + (uint64_t)i, 3);
        attn_generator *g = toy_generator(m, 3);
        attn_generate_options o = toy_options();
        sequence s[5];
        found *f;

        toy_sequences(&memory, &r, s, 5, 6, 0);
        penalty_number(&o, i);
        o.longest = 12;
        f = toy_generate(&memory, g, s, 5, &o);
        for (int k = 0; k < 5; k++) {
            int32_t said[LONG];
            int64_t n = 0;

            for (bool over = false; !over;) {
                sequence all = {s[k].source, said, s[k].sources, n};
                double *p = whole_log_probabilities(&memory, m, &all);
                int32_t best = 1;
                for (int32_t t = 1; t < WORDS; t++)
                    best = p[t] > p[best] ? t : best;
                over = n == 12 || best == END;
                if (!over)
                    said[n++] = best;
            }
            CHECK_MSG(f[k].at[0].count == n && memcmp(f[k].at[0].tokens, said, (size_t)n * 4) == 0,
                      "variant %d, source %d", i, k);
        }
        attn_generator_destroy(g);
        attn_model_destroy(m);
        arena_reset(&memory);
    }
}

static void the_best_are_ordered_and_distinct(void **state)
{
    rng r = rng_make(test_seed(), test_index(state));

    for (int i = 0; i < 12; i++) {
        arena memory = {0};
        attn_model *m = toy_model(i % 2 ? ATTN_STACK_DECODER : 0, ATTN_F32, 300 + (uint64_t)i, 2);
        attn_generator *g = toy_generator(m, 24);
        attn_generate_options o = toy_options();
        sequence s[4];
        found *f, *one;

        toy_sequences(&memory, &r, s, 4, 6, i % 3 ? 2 : 0); /* prefixes must not make twins */
        penalty_number(&o, i);
        o.beam = o.best = 6;
        o.longest = 8;
        o.stop = i % 4 == 3 ? ATTN_STOP_COUNT : ATTN_STOP_BOUND;
        f = toy_generate(&memory, g, s, 4, &o);
        o.best = 1;
        one = toy_generate(&memory, g, s, 4, &o);
        for (int k = 0; k < 4; k++) {
            CHECK_MSG(memcmp(&one[k].at[0], &f[k].at[0], sizeof one[k].at[0]) == 0,
                      "variant %d: how many are asked for changed the first", i);
            for (int a = 0; a < f[k].count; a++) {
                CHECK(a == 0 || f[k].at[a].score <= f[k].at[a - 1].score);
                for (int b = 0; b < a; b++)
                    CHECK_MSG(f[k].at[a].count != f[k].at[b].count ||
                                  memcmp(f[k].at[a].tokens, f[k].at[b].tokens,
                                         (size_t)f[k].at[a].count * 4) != 0,
                              "variant %d: hypotheses %d and %d are the same", i, a, b);
            }
        }
        attn_generator_destroy(g);
        attn_model_destroy(m);
        arena_reset(&memory);
    }
}

/* --- Bits ----------------------------------------------------------------------------------- */

/* Alone, in another order, a few at a time, with other threads: the same, to the bit. */
static void batch_mates_change_nothing(void **state)
{
    rng r = rng_make(test_seed(), test_index(state));
    enum { SOURCES = 13 };

    for (int i = 0; i < 18; i++) {
        arena memory = {0};
        attn_model_config c = generation_config(i);
        attn_generate_options o = toy_options();
        sequence s[SOURCES], turned[SOURCES];
        found *all = NULL;

        c.vocabulary = WORDS;
        c.source_vocabulary = 0;
        for (int k = 0; k < SOURCES; k++) {
            s[k].sources = k == 5 ? 0 : rng_int(&r, 1, k == 3 ? 30 : 8);
            s[k].source = random_ids(&memory, &r, s[k].sources, WORDS);
            s[k].targets = rng_int(&r, c.start == ATTN_START_NONE, 3);
            s[k].target = random_ids(&memory, &r, s[k].targets, WORDS);
        }
        penalty_number(&o, i);
        o.beam = i % 3 == 1 ? 1 : 3;
        o.best = o.beam;
        o.longest = 10;
        o.sample = i % 3 == 2;
        o.top_k = i % 6 == 5 ? 3 : 0;
        o.no_repeat = i % 4 == 1 ? 2 : 0;
        for (int way = 0; way < 5; way++) {
            static const int64_t hypotheses[] = {64, 3, 7, 12, 39};
            attn_model *m = step_model(&c, 1 + way % 3, 5);
            attn_generator *g = toy_generator(m, hypotheses[way]);
            found *f;

            for (int k = 0; k < SOURCES; k++) /* 4: backwards; samples go by number */
                turned[k] = s[way == 4 && !o.sample ? SOURCES - 1 - k : k];
            f = toy_generate(&memory, g, turned, SOURCES, &o);
            if (!all)
                all = f;
            for (int k = 0; k < SOURCES; k++)
                CHECK_MSG(memcmp(&all[k], &f[way == 4 && !o.sample ? SOURCES - 1 - k : k],
                                 sizeof *f) == 0,
                          "variant %d, way %d: source %d differs", i, way, k);
            for (int k = 0; way == 0 && k < SOURCES; k += 4) {
                attn_batch b = batch_of(&memory, &s[k], 1);
                found *alone = arena_get(&memory, sizeof *alone);
                memset(alone, 0, sizeof *alone);
                o.user = alone;
                b.first_segment = k;
                CHECK(attn_generate(g, &b, &o, NULL) == ATTN_OK);
                CHECK_MSG(memcmp(alone, &all[k], sizeof *alone) == 0, "variant %d: source %d alone",
                          i, k);
            }
            attn_generator_destroy(g);
            attn_model_destroy(m);
        }
        arena_reset(&memory);
    }
}

/* More than one first pass takes, forced prefixes too; then less, in the memory that is there. */
static void many_sources(void **state)
{
    enum { SOURCES = 130 };
    rng r = rng_make(test_seed(), test_index(state));
    arena memory = {0};
    attn_model *m = toy_model(0, ATTN_F32, 8, 2);
    attn_generator *few = toy_generator(m, 5), *many = toy_generator(m, 400);
    attn_generate_options o = toy_options();
    sequence s[SOURCES];
    found *a, *b;

    toy_sequences(&memory, &r, s, SOURCES, 60, 12);
    o.beam = o.best = 2;
    o.longest = 14;
    a = toy_generate(&memory, few, s, SOURCES, &o);
    for (int n = SOURCES; n > 1; n /= 3) {
        b = toy_generate(&memory, many, s, n, &o);
        CHECK_MSG(memcmp(a, b, (size_t)n * sizeof *a) == 0, "of %d sources some differ", n);
    }
    attn_generator_destroy(few);
    attn_generator_destroy(many);
    attn_model_destroy(m);
    arena_reset(&memory);
}

/* --- Scores --------------------------------------------------------------------------------- */

/* The numbers of a search are those of the finished output, to the bit, forced prefix and all; and
 * those of a plain softmax, nearly. */
static void scores_are_those_of_the_output(void **state)
{
    rng r = rng_make(test_seed(), test_index(state));

    for (int i = 0; i < GENERATION_VARIANTS; i += 3) {
        arena memory = {0};
        attn_model_config c = generation_config(i);
        attn_model *m;
        attn_generator *g;
        attn_generate_options o = toy_options();
        attn_score_args a = ATTN_SCORE_ARGS_INIT;
        attn_batch b;
        attn_error err = {0};
        sequence s[5], whole[5];
        double numbers[5 * (LONG + 2)], sums[5];
        int64_t at = 0;
        found *f;
        bool prompts = c.stack == ATTN_STACK_DECODER;

        c.vocabulary = WORDS;
        m = step_model(&c, 2, 77);
        g = toy_generator(m, 10);
        toy_sequences(&memory, &r, s, 5, 7, 3);
        for (int k = 0; c.start == ATTN_START_NONE && k < 5; k++)
            if (s[k].targets == 0) {
                s[k].targets = 1;
                s[k].target = random_ids(&memory, &r, 1, WORDS);
            }
        o.beam = 2;
        o.longest = 9;
        f = toy_generate(&memory, g, s, 5, &o);
        for (int k = 0; k < 5; k++) {
            int64_t before = prompts ? s[k].targets : 0, n = f[k].at[0].count;
            int32_t *said = arena_get(&memory, (size_t)(before + n + 1) * sizeof *said);

            memcpy(said, s[k].target, (size_t)before * sizeof *said);
            memcpy(said + before, f[k].at[0].tokens, (size_t)n * sizeof *said);
            said[before + n] = END;
            CHECK(f[k].at[0].end == END);
            for (int64_t t = 0; !prompts && t < s[k].targets; t++)
                CHECK(said[t] == s[k].target[t]);
            whole[k] = (sequence){s[k].source, said, s[k].sources, before + n + 1};
        }
        b = batch_of(&memory, whole, 5);
        a.batch = &b;
        a.of_tokens = numbers;
        a.sums = sums;
        CHECK_MSG(attn_generate_score(g, &a, &err) == ATTN_OK, "%s", err.text);
        for (int k = 0; k < 5; k++) {
            int64_t before = prompts ? s[k].targets : 0, n = f[k].at[0].count + 1;
            double sum = 0;

            CHECK_MSG(memcmp(numbers + at + before, f[k].at[0].of_tokens,
                             (size_t)n * sizeof *numbers) == 0,
                      "variant %d, source %d: other numbers", i, k);
            CHECK(prompts || sums[k] == f[k].at[0].sum);
            for (int64_t t = c.start == ATTN_START_NONE; t < whole[k].targets; t++) {
                sequence until = whole[k];
                until.targets = t;
                double want = whole_log_probabilities(&memory, m, &until)[whole[k].target[t]];
                CHECK_MSG(fabs(numbers[at + t] - want) < 1e-5, "variant %d: %g, not %g", i,
                          numbers[at + t], want);
                sum += numbers[at + t];
            }
            CHECK(c.start == ATTN_START_NONE ? numbers[at] == 0 : sum == sums[k]);
            at += whole[k].targets;
        }
        attn_generator_destroy(g);
        attn_model_destroy(m);
        arena_reset(&memory);
    }
}

/* --- Workers that share the sources ---------------------------------------------------------- */

enum { SHARED = 60, STOP_AT = 25 };

typedef struct audience {
    atomic_int inside;
    int done, stop_at, wrong; /* a check must not fail on a thread that is not the test's */
    found *found;
} audience;

static int listen(void *user, int64_t source, const attn_hypothesis *h, size_t count)
{
    audience *a = user;

    a->wrong += atomic_fetch_add(&a->inside, 1) != 0;
    a->wrong += a->stop_at != 0 && a->done >= a->stop_at;
    toy_collect(a->found, source, h, count);
    atomic_fetch_sub(&a->inside, 1);
    return ++a->done == a->stop_at;
}

/* A parallel-for without threads that counts calls of so many tasks. */
typedef struct counter {
    size_t wanted;
    int calls;
} counter;

static void one_by_one(void *user, size_t n, void (*task)(void *arg, size_t i), void *arg)
{
    counter *c = user;

    c->calls += n == c->wanted;
    for (size_t i = 0; i < n; i++)
        task(arg, i);
}

/* As many workers as there may be find what one finds; the caller hears one at a time, and after
 * the word to stop none. */
static void threads_share_the_sources(void **state)
{
    static const int threads[] = {1, 2, 3, 7, 5}; /* the last of the caller's parallel-for */
    enum { CONTEXTS = sizeof threads / sizeof *threads };
    rng r = rng_make(test_seed(), test_index(state));
    arena memory = {0};
    sequence s[SHARED];
    attn_batch b;

    toy_sequences(&memory, &r, s, SHARED, 9, 2);
    b = batch_of(&memory, s, SHARED);
    for (int kind = 0; kind < 3; kind++) {
        found *alone = NULL;

        for (int i = 0; i < CONTEXTS; i++) {
            counter tasks = {.wanted = (size_t)threads[i]};
            attn_ctx_options co = ATTN_CTX_OPTIONS_INIT;
            attn_ctx *ctx;
            attn_model *two = toy_model(0, ATTN_F32, 5, 2), *m;
            attn_generator *g;

            co.threads = threads[i];
            co.parallel_for = i == CONTEXTS - 1 ? one_by_one : NULL;
            co.parallel_user = &tasks;
            CHECK(attn_ctx_create(&co, &ctx, NULL) == ATTN_OK);
            CHECK(attn_model_create(ctx, attn_model_get_config(two), 5, &m, NULL) == ATTN_OK);
            memcpy(attn_model_weights(m), attn_model_weights(two),
                   (size_t)attn_model_elements(m) * sizeof(float));
            g = toy_generator(m, 64);
            for (int stop = 0; stop <= STOP_AT; stop += STOP_AT) {
                attn_generate_options o = toy_options();
                audience a = {.stop_at = stop};
                attn_error err = {0};

                a.found = arena_get(&memory, SHARED * sizeof *a.found);
                memset(a.found, 0, SHARED * sizeof *a.found);
                o.beam = kind == 0 ? 1 : 4;
                o.best = kind == 1 ? 3 : o.beam;
                o.sample = kind == 2;
                o.longest = LONG - 4;
                o.done = listen;
                o.user = &a;
                tasks.calls = 0;
                CHECK(attn_generate(g, &b, &o, &err) == (stop ? ATTN_E_CANCELLED : ATTN_OK));
                CHECK(a.wrong == 0 && a.done == (stop ? stop : SHARED));
                CHECK(!stop || strcmp(err.text, "done: the callback asked to stop") == 0);
                CHECK_MSG(!co.parallel_for || tasks.calls == 1, "%d calls of %d tasks", tasks.calls,
                          threads[i]); /* once for the whole search */
                if (!alone)
                    alone = a.found;
                CHECK_MSG(stop || memcmp(a.found, alone, SHARED * sizeof *alone) == 0,
                          "kind %d: %d threads find something else", kind, threads[i]);
            }
            attn_generator_destroy(g);
            attn_model_destroy(m);
            attn_model_destroy(two);
            attn_ctx_destroy(ctx);
        }
    }
    arena_reset(&memory);
}

int main(int argc, char **argv)
{
    static const test_case tests[] = {
        {"wide beams are exhaustive", wide_beams_are_exhaustive, 0},
        {"beams stop in time", beams_stop_in_time, 0},
        {"one step", one_step, 0},
        {"beam of one is greedy", beam_of_one_is_greedy, 0},
        {"the best are ordered and distinct", the_best_are_ordered_and_distinct, 0},
        {"batch mates change nothing", batch_mates_change_nothing, 0},
        {"many sources", many_sources, 0},
        {"scores are those of the output", scores_are_those_of_the_output, 0},
        {"threads share the sources", threads_share_the_sources, 0},
    };

    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
