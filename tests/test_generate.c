/* test_generate.c: incremental decoding: every step's logits have the bits of a whole pass, however
 * hypotheses move; memory, errors. */
#include "include/attn/generate.h"
#include "include/attn/nn.h"
#include "tests/generation.h"
#include "tests/nn_step.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

enum { MOST = 12, LONGEST = 14 };

/* --- Cached = computed again ----------------------------------------------------------------- */

/* Hypotheses as a plain list: what each has said, and of which source. */
typedef struct forest {
    arena memory;
    sequence root[4];
    int32_t said[MOST][LONGEST + 1];
    int64_t length[MOST];
    int source[MOST], count;
} forest;

static void plant(forest *f, rng *r, const attn_model_config *c, int sources)
{
    memset(f, 0, sizeof *f);
    f->count = sources;
    for (int i = 0; i < sources; i++) {
        sequence *s = &f->root[i];
        s->sources = i == 2 ? 0 : rng_int(r, 1, 9); /* one is empty */
        s->source = random_ids(&f->memory, r, s->sources, c->source_vocabulary ? 19 : 19);
        s->targets = rng_int(r, c->start == ATTN_START_NONE, 3);
        s->target = random_ids(&f->memory, r, s->targets, 19);
        f->source[i] = i;
        f->length[i] = s->targets;
        for (int64_t j = 0; j < s->targets; j++)
            f->said[i][j] = s->target[j];
    }
}

static void check_logits(forest *f, const attn_model *m, const attn_view *logits, int variant,
                         int at)
{
    arena memory = {0};

    for (int i = 0; i < f->count; i++) {
        const sequence *root = &f->root[f->source[i]];
        sequence all = {root->source, f->said[i], root->sources, f->length[i]};
        attn_view mine = view_part(logits, 2, i, 1), whole = whole_logits(&memory, m, &all);

        CHECK_MSG(view_same_bits(&mine, &whole),
                  "variant %d, step %d: hypothesis %d of source %d has other logits", variant, at,
                  i, f->source[i]);
    }
    arena_reset(&memory);
}

/* Random children: some parents have none, some several. */
static void grow(forest *f, rng *r, int32_t *parents, int32_t *tokens)
{
    forest old = *f;
    int n = 0;

    for (int p = 0; p < old.count; p++)
        for (int64_t k = rng_int(r, 0, 2) + (old.count < 5); k > 0 && n < MOST; k--) {
            parents[n] = p;
            if (n > 0 && rng_chance(r, 30) && old.source[parents[n - 1]] == old.source[p]) {
                parents[n] = parents[n - 1]; /* not in the order of parents */
                parents[n - 1] = p;
            }
            n++;
        }
    f->count = n;
    for (int i = 0; i < n; i++) {
        int p = parents[i];
        tokens[i] = (int32_t)rng_int(r, 0, 18);
        memcpy(f->said[i], old.said[p], sizeof old.said[p]);
        f->said[i][old.length[p]] = tokens[i];
        f->length[i] = old.length[p] + 1;
        f->source[i] = old.source[p];
    }
}

static void cached_is_computed_again(void **state)
{
    rng r = rng_make(test_seed(), test_index(state));

    for (int i = 0; i < GENERATION_VARIANTS; i++) {
        attn_model_config c = generation_config(i);
        attn_model *m;
        attn_generator *g;
        attn_generator_options o = ATTN_GENERATOR_OPTIONS_INIT;
        attn_view logits;
        attn_error err = {0};
        attn_batch b;
        forest f;
        int32_t parents[MOST], tokens[MOST];

        c.type = i % 8 == 5 ? ATTN_F64 : ATTN_F32;
        m = step_model(&c, 1 + i % 3, (uint64_t)i);
        o.hypotheses = MOST;
        CHECK_MSG(attn_generator_create(m, &o, &g, &err) == ATTN_OK, "%s", err.text);
        for (int again = 0; again < 2; again++) { /* in the memory of the first time */
            plant(&f, &r, &c, 4 - again);
            b = batch_of(&f.memory, f.root, f.count);
            CHECK_MSG(attn_generator_start(g, &b, LONGEST, &logits, &err) == ATTN_OK, "%s",
                      err.text);
            check_logits(&f, m, &logits, i, 0);
            for (int at = 1; at < LONGEST - 3 && f.count > 0; at++) {
                grow(&f, &r, parents, tokens);
                CHECK_MSG(attn_generator_step(g, parents, tokens, f.count, &logits, &err) ==
                              ATTN_OK,
                          "variant %d, step %d: %s", i, at, err.text);
                check_logits(&f, m, &logits, i, at);
            }
            arena_reset(&f.memory);
        }
        attn_generator_destroy(g);
        attn_model_destroy(m);
    }
}

int main(int argc, char **argv)
{
    static const test_case tests[] = {
        {"cached is computed again", cached_is_computed_again, 0},
    };

    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
