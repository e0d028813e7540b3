/* generation.c: see generation.h. */
#include "include/attn/nn.h"
#include "tests/generation.h"
#include "tests/nn_step.h"

#include <math.h>
#include <string.h>

attn_model_config generation_config(int variant)
{
    attn_model_config c = step_config(variant / 2);

    c.stack = variant % 2 ? ATTN_STACK_DECODER : ATTN_STACK_ENCODER_DECODER;
    c.encoder_layers = variant % 2 ? 0 : 2;
    c.decoder_layers = 2;
    c.max_positions = 40;
    c.start = (attn_start)(variant % 5 % 3);
    c.start_token = 3;
    c.logit_scale = variant % 7 == 2 ? 0.5 : 0;
    c.output_bias = variant % 4 < 2;
    c.tie_output = variant % 3 == 0;
    return c;
}

attn_batch batch_of(arena *memory, const sequence *s, int64_t n)
{
    attn_batch b = ATTN_BATCH_INIT;
    int64_t sources = 0, targets = 0;
    int32_t *source, *target;
    int64_t *starts = arena_get(memory, (size_t)(2 * n + 2) * sizeof *starts);

    for (int64_t i = 0; i < n; i++) {
        starts[i] = sources;
        starts[n + 1 + i] = targets;
        sources += s[i].sources;
        targets += s[i].targets;
    }
    starts[n] = sources;
    starts[2 * n + 1] = targets;
    b.segments = n;
    b.source = source = arena_get(memory, (size_t)(sources + 1) * sizeof *source);
    b.target = target = arena_get(memory, (size_t)(targets + 1) * sizeof *target);
    b.source_starts = starts;
    b.target_starts = starts + n + 1;
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < s[i].sources; j++)
            source[starts[i] + j] = s[i].source[j];
        for (int64_t j = 0; j < s[i].targets; j++)
            target[starts[n + 1 + i] + j] = s[i].target[j];
    }
    return b;
}

attn_view whole_logits(arena *memory, const attn_model *m, const sequence *s)
{
    const attn_model_config *c = attn_model_get_config(m);
    const attn_ctx *ctx = attn_model_ctx(m);
    sequence all = *s;
    int32_t *target = arena_get(memory, (size_t)(s->targets + 1) * sizeof *target);
    attn_batch b;
    attn_batch_limits l = ATTN_BATCH_LIMITS_INIT;
    attn_pass pass = ATTN_PASS_INIT;
    attn_gemm_args g = ATTN_GEMM_ARGS_INIT;
    attn_error err = {0};

    for (int64_t i = 0; i < s->targets; i++)
        target[i] = s->target[i];
    target[s->targets] = 1; /* seen by no row */
    all.target = target;
    all.targets += c->start != ATTN_START_NONE;
    b = batch_of(memory, &all, 1);
    l.segments = 1;
    l.source_tokens = l.longest_source = all.sources;
    l.target_tokens = l.longest_target = all.targets;
    CHECK_MSG(attn_model_plan(m, &l, 0, &pass.arena_size, &err) == ATTN_OK, "%s", err.text);
    pass.arena = arena_get(memory, pass.arena_size);
    pass.batch = &b;
    CHECK_MSG(attn_model_forward(m, &pass, &err) == ATTN_OK, "%s", err.text);
    g.a = view_part(&pass.hidden, 2, all.targets - 1, 1);
    g.w = attn_model_output_weight(m, attn_model_weights(m));
    g.bias = attn_model_output_bias(m, attn_model_weights(m));
    if (c->logit_scale != 1) {
        g.scale = view_plain(memory, c->type, 1, 1, 1, c->vocabulary);
        view_fill(&g.scale, c->logit_scale);
    }
    g.out = view_plain(memory, c->type, 1, 1, 1, c->vocabulary);
    CHECK_MSG(attn_gemm(ctx, &g, &err) == ATTN_OK, "%s", err.text);
    return g.out;
}

double *whole_log_probabilities(arena *memory, const attn_model *m, const sequence *s)
{
    attn_view x = whole_logits(memory, m, s);
    size_t n = (size_t)view_count(&x);
    double *p = arena_get(memory, n * sizeof *p), top = -(double)INFINITY, sum = 0;

    for (size_t i = 0; i < n; i++)
        top = fmax(top, p[i] = step_get(&x, (int64_t)i));
    for (size_t i = 0; i < n; i++)
        sum += exp(p[i] - top);
    for (size_t i = 0; i < n; i++)
        p[i] -= top + log(sum);
    return p;
}

int32_t *random_ids(arena *memory, rng *r, int64_t n, int64_t words)
{
    int32_t *ids = arena_get(memory, (size_t)(n + 1) * sizeof *ids);

    for (int64_t i = 0; i < n; i++)
        ids[i] = (int32_t)rng_int(r, 0, words - 1);
    return ids;
}

/* --- Toys --- */

attn_model *toy_model(attn_stack stack, attn_type type, uint64_t seed, double sharp)
{
    attn_model_config c = ATTN_MODEL_CONFIG_INIT;
    attn_model *m;
    attn_view w;

    c.type = type;
    c.stack = stack;
    c.vocabulary = WORDS;
    c.encoder_layers = stack == ATTN_STACK_DECODER ? 0 : 1;
    c.decoder_layers = 1;
    c.d = 16;
    c.ff = 24;
    c.heads = 2;
    c.start = ATTN_START_TOKEN;
    m = step_model(&c, 2, seed);
    w = attn_model_output_weight(m, attn_model_weights(m));
    for (int64_t i = 0; i < view_count(&w); i++)
        step_put(&w, i, step_get(&w, i) * sharp);
    return m;
}

int toy_collect(void *user, int64_t source, const attn_hypothesis *h, size_t count)
{
    found *f = (found *)user + source;

    CHECK(f->count == 0 && count <= MANY);
    for (size_t i = 0; i < count; i++) {
        CHECK(h[i].count <= LONG);
        memcpy(f->at[i].tokens, h[i].tokens, (size_t)h[i].count * sizeof *h[i].tokens);
        memcpy(f->at[i].of_tokens, h[i].of_tokens,
               (size_t)(h[i].count + (h[i].end >= 0)) * sizeof *h[i].of_tokens);
        f->at[i].count = h[i].count;
        f->at[i].end = h[i].end;
        f->at[i].score = h[i].score;
        f->at[i].sum = h[i].log_probability;
    }
    f->count = (int)count;
    return 0;
}

attn_generate_options toy_options(void)
{
    static const int32_t ends[] = {END}, banned[] = {PAD};
    attn_generate_options o = ATTN_GENERATE_OPTIONS_INIT;

    o.ends = ends;
    o.end_count = 1;
    o.banned = banned;
    o.banned_count = 1;
    o.done = toy_collect;
    return o;
}

found *toy_generate(arena *memory, attn_generator *g, const sequence *s, int64_t n,
                    attn_generate_options *o)
{
    found *f = arena_get(memory, (size_t)n * sizeof *f);
    attn_batch b = batch_of(memory, s, n);
    attn_error err = {0};

    memset(f, 0, (size_t)n * sizeof *f);
    o->user = f;
    CHECK_MSG(attn_generate(g, &b, o, &err) == ATTN_OK, "%s", err.text);
    for (int64_t i = 0; i < n; i++)
        CHECK_MSG(f[i].count > 0, "sequence %lld was not handed out", (long long)i);
    return f;
}

attn_generator *toy_generator(const attn_model *m, int64_t hypotheses)
{
    attn_generator_options o = ATTN_GENERATOR_OPTIONS_INIT;
    attn_generator *g = NULL;
    attn_error err = {0};

    o.hypotheses = hypotheses;
    CHECK_MSG(attn_generator_create(m, &o, &g, &err) == ATTN_OK, "%s", err.text);
    return g;
}

void toy_sequences(arena *memory, rng *r, sequence *s, int n, int64_t longest, int64_t prefix)
{
    for (int i = 0; i < n; i++) {
        s[i].sources = rng_int(r, 0, longest);
        s[i].source = random_ids(memory, r, s[i].sources, WORDS);
        s[i].targets = prefix ? rng_int(r, 0, prefix) : 0;
        s[i].target = random_ids(memory, r, s[i].targets, WORDS);
    }
}
