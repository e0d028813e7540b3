/* generate_score.c: log-probabilities of given outputs. */
#include "src/nn/generator.h"

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/nn/call_args.h"
#include "src/nn/choose.h"
#include "src/core/each.h"

#include <string.h>

enum { ROWS = 64 /* of logits at a time */ };

typedef struct scores {
    attn_generator *g;
    size_t count;
    int32_t token[ROWS];
    double *to[ROWS];
} scores;

static void score_row(const void *arg, size_t i)
{
    const scores *s = arg;
    attn__row r = {.ctx = s->g->ctx,
                   .f64 = s->g->model->config.type == ATTN_F64,
                   .x = attn__logit_row(s->g, i),
                   .n = s->g->vocabulary};

    attn__choose_given(&r, s->token[i], s->to[i]);
}

/* Rows that wait in g->last. */
static attn_status flush(scores *s, const attn__run *r, attn_error *err)
{
    attn_generator *g = s->g;

    if (s->count == 0)
        return ATTN_OK;
    TRY(attn__generator_project(g, r, g->last, s->count, err));
    attn__each(g->ctx, s->count, 4 * s->count * g->vocabulary, score_row, s);
    for (size_t i = 0; i < s->count; i++)
        if (*s->to[i] != *s->to[i])
            return attn__fail(err, ATTN_E_ARGUMENT, 0, "model: logits are not numbers");
    s->count = 0;
    return ATTN_OK;
}

attn_status attn__generator_score(attn_generator *g, const attn__run *r, const void *hidden,
                                  const attn_batch *batch, int64_t extra, double *of_tokens,
                                  attn_error *err)
{
    size_t bytes = (size_t)g->model->config.d * r->unit, most;
    int64_t behind = g->model->config.start == ATTN_START_NONE; /* of a token's own row */
    scores s = {.g = g};

    most = attn__min(ROWS, g->logit_rows);
    for (int64_t k = 0; k < batch->segments; k++) {
        int64_t first = batch->target_starts[k], end = batch->target_starts[k + 1] - extra;

        for (int64_t t = first; t < end; t++, of_tokens++) {
            *of_tokens = 0;
            if (t - behind < first)
                continue;
            memcpy((char *)g->last + s.count * bytes,
                   (const char *)hidden + (size_t)(t - behind) * bytes, bytes);
            s.token[s.count] = batch->target[t];
            s.to[s.count++] = of_tokens;
            if (s.count == most)
                TRY(flush(&s, r, err));
        }
    }
    return flush(&s, r, err);
}

/* --- attn_generate_score -------------------------------------------------------------------- */

static attn_status make_room(attn_generator *g, const attn_batch *b, int64_t longest_source,
                             int64_t longest_target, attn_error *err)
{
    attn__room room = {.segments = (size_t)b->segments,
                       .longest_source = (size_t)longest_source,
                       .longest_target = (size_t)longest_target,
                       .target_rows = (size_t)b->target_starts[b->segments]};

    if (b->source_starts)
        room.source_tokens = (size_t)b->source_starts[b->segments];
    TRY(attn__generator_passes(g, &room, err));
    return attn__generator_logits(g, ROWS, err);
}

static void add_up(const attn_batch *b, const double *of_tokens, double *sums)
{
    for (int64_t k = 0; k < b->segments; k++) {
        sums[k] = 0;
        for (int64_t t = b->target_starts[k]; t < b->target_starts[k + 1]; t++)
            sums[k] += of_tokens[t];
    }
}

static attn_status score(attn_generator *g, const attn_score_args *a, const attn_batch *b,
                         double *of_tokens, attn_error *err)
{
    attn_pass pass = ATTN_PASS_INIT;
    attn__run r;

    pass.batch = b;
    pass.arena = g->arena;
    pass.arena_size = g->arena_size;
    pass.looks = a->looks;
    pass.look_count = a->look_count;
    TRY(attn__forward(g->model, &pass, &g->copies, NULL, err));
    attn__open_run(&r, g->model, 0, b->segments);
    r.copies = &g->copies;
    TRY(attn__generator_score(g, &r, pass.hidden.data, b, 0, of_tokens, err));
    if (a->of_tokens)
        memcpy(a->of_tokens, of_tokens, (size_t)b->target_starts[b->segments] * sizeof *of_tokens);
    if (a->sums)
        add_up(b, of_tokens, a->sums);
    return ATTN_OK;
}

attn_status attn_generate_score(attn_generator *g, const attn_score_args *args, attn_error *err)
{
    attn_score_args a;
    attn_batch b;
    int64_t longest_source, longest_target;
    double *of_tokens;
    attn_status st;

    if (!g)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "generator: NULL");
    TRY(attn__take_struct(&a, sizeof a, args, "args", err));
    TRY(attn__generator_batch(g, a.batch, &b, &longest_source, &longest_target, err));
    if (!b.target_starts)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "target_starts: NULL");
    TRY(make_room(g, &b, longest_source, longest_target, err));
    of_tokens = attn__alloc(g->ctx, (size_t)b.target_starts[b.segments] * sizeof *of_tokens);
    if (!of_tokens)
        return attn__fail(err, ATTN_E_MEMORY, 0, "scores: no memory for %lld tokens",
                          (long long)b.target_starts[b.segments]);
    st = score(g, &a, &b, of_tokens, err);
    attn__free(g->ctx, of_tokens);
    return st;
}
