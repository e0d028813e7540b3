/* nn_step.c: see nn_step.h. */
#include "include/attn/nn.h"
#include "tests/nn_step.h"

#include <math.h>
#include <string.h>

attn_model *step_model(const attn_model_config *c, int threads, uint64_t seed)
{
    attn_model *m = NULL;
    attn_error err = {0};

    CHECK_MSG(attn_model_create(ctx_for(ATTN_SET_AUTO, threads), c, seed, &m, &err) == ATTN_OK,
              "%s", err.text);
    return m;
}

static int64_t draw_starts(rng *r, int64_t *starts, int64_t segments, int64_t longest)
{
    starts[0] = 0;
    for (int64_t i = 0; i < segments; i++)
        starts[i + 1] = starts[i] + (rng_chance(r, 10) ? 0 : rng_int(r, 1, longest));
    return starts[segments];
}

/* Types of source tokens; those of targets are all 0, by no list. */
static void draw_types(step *s, rng *r, int64_t types, int64_t n)
{
    if (types == 0)
        return;
    s->types = arena_get(&s->memory, (size_t)n * sizeof *s->types);
    for (int64_t i = 0; i < n; i++)
        s->types[i] = (int32_t)rng_int(r, 0, types - 1);
    s->batch.source_types = s->types;
}

void step_init(step *s, attn_model *model, rng *r, int64_t segments, int64_t longest)
{
    const attn_model_config *c = attn_model_get_config(model);
    int64_t sources, targets;
    int64_t rows = c->stack == ATTN_STACK_ENCODER ? c->vocabulary : c->source_vocabulary;

    memset(s, 0, sizeof *s);
    s->model = model;
    s->batch = (attn_batch)ATTN_BATCH_INIT;
    s->limits = (attn_batch_limits)ATTN_BATCH_LIMITS_INIT;
    s->pass = (attn_pass)ATTN_PASS_INIT;
    sources = draw_starts(r, s->source_starts, segments, longest);
    targets = draw_starts(r, s->target_starts, segments, longest);
    s->source = arena_get(&s->memory, (size_t)sources * sizeof *s->source);
    s->target = arena_get(&s->memory, (size_t)targets * sizeof *s->target);
    for (int64_t i = 0; i < sources; i++)
        s->source[i] = (int32_t)rng_int(r, 0, rows ? rows - 1 : 0);
    for (int64_t i = 0; i < targets; i++)
        s->target[i] = (int32_t)rng_int(r, 0, c->vocabulary - 1);
    draw_types(s, r, c->token_types, sources);
    s->batch.segments = s->limits.segments = segments;
    s->batch.source = s->source;
    s->batch.target = s->target;
    s->batch.source_starts = s->source_starts;
    s->batch.target_starts = s->target_starts;
    s->limits.source_tokens = sources;
    s->limits.target_tokens = targets;
    s->limits.longest_source = longest < sources ? longest : sources;
    s->limits.longest_target = longest < targets ? longest : targets;
    s->pass.batch = &s->batch;
    s->block_bytes = (size_t)attn_model_elements(model) * attn_type_size(c->type);
    s->gradients = arena_get(&s->memory, s->block_bytes);
}

double step_get(const attn_view *v, int64_t i)
{
    return v->type == ATTN_F64 ? ((const double *)v->data)[i] : (double)((const float *)v->data)[i];
}

void step_put(const attn_view *v, int64_t i, double x)
{
    if (v->type == ATTN_F64)
        ((double *)v->data)[i] = x;
    else
        ((float *)v->data)[i] = (float)x;
}

void step_forward(step *s, int flags, uint64_t seed)
{
    attn_error err = {0};
    size_t size = 0;

    CHECK_MSG(attn_model_plan(s->model, &s->limits, flags, &size, &err) == ATTN_OK, "%s", err.text);
    if (size > s->pass.arena_size) {
        s->pass.arena = arena_get(&s->memory, size);
        s->pass.arena_size = size;
    }
    memset(s->pass.arena, 0xff, s->pass.arena_size);
    s->pass.flags = flags;
    s->pass.seed = seed;
    CHECK_MSG(attn_model_forward(s->model, &s->pass, &err) == ATTN_OK, "%s", err.text);
}

void step_run(step *s, int flags, uint64_t seed)
{
    attn_error err = {0};
    attn_view d;

    step_forward(s, flags, seed);
    d = s->pass.hidden;
    if (!s->dhidden) {
        rng r = rng_make(5, 5);
        s->dhidden = d.data = arena_get(&s->memory, (size_t)view_count(&d) * sizeof(double));
        for (int64_t i = 0; i < view_count(&d); i++)
            step_put(&d, i, rng_bell(&r));
    }
    d.data = s->dhidden;
    if (!(flags & ATTN_PASS_BACKWARD))
        return;
    memset(s->gradients, 0, s->block_bytes);
    CHECK_MSG(attn_model_backward(s->model, &s->pass, &d, s->gradients, &err) == ATTN_OK, "%s",
              err.text);
}

static double loss_of(step *s)
{
    attn_view d = s->pass.hidden;
    double sum = 0;

    d.data = s->dhidden;
    for (int64_t i = 0; i < view_count(&d); i++)
        sum += step_get(&d, i) * step_get(&s->pass.hidden, i);
    return sum;
}

void step_differences(attn_model *m, rng *r, int variant)
{
    step s;
    double h = 1e-6;

    /* biases that begin at 0 would leave a zero vector (ATTN_START_ZERO) to be normalised */
    for (size_t i = 0; i < attn_model_param_count(m); i++) {
        const attn_param *p = attn_model_param(m, i);
        attn_view w = attn_param_view(m, p, attn_model_weights(m));
        for (int64_t j = 0; p->rank == 1 && j < p->count; j++)
            step_put(&w, j, step_get(&w, j) + 0.2 * rng_bell(r));
    }
    step_init(&s, m, r, 3, 6);
    step_run(&s, ATTN_PASS_BACKWARD | ATTN_PASS_DROPOUT, 77);
    for (size_t i = 0; i < attn_model_param_count(m); i++) {
        const attn_param *p = attn_model_param(m, i);
        attn_view w = attn_param_view(m, p, attn_model_weights(m));
        attn_view g = attn_param_view(m, p, s.gradients);
        double *direction = arena_get(&s.memory, (size_t)p->count * sizeof *direction);
        double want = 0, side[2], got;

        for (int64_t j = 0; j < p->count; j++) {
            direction[j] = rng_bell(r);
            want += direction[j] * step_get(&g, j);
        }
        for (int k = 0; k < 2; k++) {
            for (int64_t j = 0; j < p->count; j++)
                step_put(&w, j, step_get(&w, j) + (k ? -2 : 1) * h * direction[j]);
            step_forward(&s, ATTN_PASS_DROPOUT, 77);
            side[k] = loss_of(&s);
        }
        for (int64_t j = 0; j < p->count; j++)
            step_put(&w, j, step_get(&w, j) + h * direction[j]);
        got = (side[0] - side[1]) / (2 * h);
        CHECK_MSG(fabs(got - want) <= 1e-6 * (fabs(want) + 10), "variant %d, %s: %g, difference %g",
                  variant, p->name, want, got);
    }
    step_end(&s);
}

void step_end(step *s)
{
    arena_reset(&s->memory);
}

attn_model_config step_config(int variant)
{
    attn_model_config c = ATTN_MODEL_CONFIG_INIT;

    c.vocabulary = 19;
    c.stack = (attn_stack)(variant % 3);
    c.encoder_layers = variant % 3 == 1 ? 0 : 2;
    c.decoder_layers = variant % 3 == 2 ? 0 : 2;
    c.d = 20;
    c.ff = 37;
    c.heads = 4;
    c.kv_heads = variant % 2 ? 2 : 4;
    c.dk = variant / 2 % 2 ? 8 : 6; /* 8: projections that join in one product */
    c.dv = variant / 2 % 2 ? 8 : 5;
    c.biases = variant % 4 == 3 ? 0 : ATTN_BIAS_ALL;
    c.norm = (attn_norm)(variant / 3 % 2);
    c.place = (attn_place)(variant / 2 % 2);
    c.gated = variant / 5 % 2;
    c.activation = (attn_activation)(1 + variant % 4);
    c.positions = (attn_positions)(variant % 9);
    c.position_offset = variant % 3;
    c.max_positions = 20;
    c.t5_buckets = 8;
    c.t5_max_distance = 12;
    c.qk_norm = (attn_qk_norm)(variant / 4 % 4);
    c.qk_temperature = variant / 7 % 2;
    c.embedding_norm = (attn_choice)(variant % 5 == 0);
    c.final_norm = (attn_choice)(variant % 3);
    c.tie_embeddings = 1;
    c.dropout = 0.2;
    c.dropout_attention = variant % 2 ? 0.1 : 0;
    c.dropout_ff = variant % 3 ? 0.3 : 0;
    c.softcap = variant % 6 == 4 ? 3 : 0;
    if (variant == 23) {
        c.score = ATTN_SCORE_ADDITIVE;
        c.positions = ATTN_POSITIONS_PAPER;
        c.qk_norm = ATTN_QK_NONE;
        c.qk_temperature = 0;
        c.dropout_attention = c.softcap = 0;
    }
    if (variant >= 24)
        c.score = ATTN_SCORE_GATE;
    c.token_types = variant % 5 == 4 ? 3 : 0;
    return c;
}
