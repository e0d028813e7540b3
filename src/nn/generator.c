/* generator.c: see generator.h: memory, first passes, steps, logits. */
#include "src/nn/generator.h"

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/kernels/cpu.h"
#include "src/nn/arena.h"
#include "src/nn/call_args.h"
#include "src/nn/copies.h"

#include <string.h>

enum { HYPOTHESES = 256, POSITIONS_EACH = 128, COLUMNS = 64 };

/* --- Life ----------------------------------------------------------------------------------- */

static attn_status check_options(const attn_model *model, attn_generator_options *o,
                                 attn_error *err)
{
    if (!model->decoder.present || model->output < 0)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "model: has no %s",
                          model->decoder.present ? "output matrix" : "decoder");
    if (model->config.queries > 0)
        return attn__fail(err, ATTN_E_ARGUMENT, 0,
                          "model: its decoder reads a table of queries, which no token follows");
    if (o->weights != ATTN_F32 && o->weights != ATTN_F16 && o->weights != ATTN_BF16 &&
        o->weights != ATTN_I8)
        return attn__fail(err, ATTN_E_ARGUMENT, 0,
                          "options.weights: %s, expected f32, f16, bf16 or i8",
                          attn_type_name(o->weights));
    if (o->weights != ATTN_F32 && model->config.type != ATTN_F32)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "options.weights: %s of a model of type %s",
                          attn_type_name(o->weights), attn_type_name(model->config.type));
    if (o->hypotheses < 0 || o->hypotheses > 1 << 20)
        return attn__fail(err, ATTN_E_ARGUMENT, 0,
                          "options.hypotheses: %lld, expected 1 to %d (0: %d)",
                          (long long)o->hypotheses, 1 << 20, HYPOTHESES);
    if (o->positions < 0 || o->positions > INT32_MAX)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "options.positions: %lld, expected 1 to %d",
                          (long long)o->positions, INT32_MAX);
    o->hypotheses = o->hypotheses ? o->hypotheses : HYPOTHESES;
    o->positions = o->positions ? o->positions : POSITIONS_EACH * o->hypotheses;
    return ATTN_OK;
}

attn_status attn_generator_create(const attn_model *model, const attn_generator_options *options,
                                  attn_generator **out, attn_error *err)
{
    attn_generator_options o = ATTN_GENERATOR_OPTIONS_INIT;
    attn_generator *g;
    attn_status st;

    if (!out)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "out: NULL");
    *out = NULL;
    if (!model)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "model: NULL");
    if (options)
        TRY(attn__take_struct(&o, sizeof o, options, "options", err));
    TRY(check_options(model, &o, err));
    g = attn__new(model->ctx, sizeof *g);
    if (!g)
        return attn__fail(err, ATTN_E_MEMORY, 0, "generator object");
    g->model = model;
    g->ctx = model->ctx;
    g->options = o;
    g->limit = -1;
    g->vocabulary = (size_t)model->config.vocabulary;
    g->stride = (g->vocabulary + COLUMNS - 1) / COLUMNS * COLUMNS;
    g->factor = model->config.logit_scale;
    g->factor32 = (float)g->factor;
    g->nothing = (attn_batch)ATTN_BATCH_INIT;
    st = attn__copies_make(&g->copies, model, o.weights, g->factor, err);
    if (st != ATTN_OK) {
        attn_generator_destroy(g);
        return st;
    }
    *out = g;
    return ATTN_OK;
}

/* All memory but the copies of weights. */
static void drop_room(attn_generator *g)
{
    attn__memory_close(&g->memory);
    attn__free(g->ctx, g->arena);
    attn__free(g->ctx, g->ids);
    attn__free(g->ctx, g->starts);
    attn__free(g->ctx, g->steps);
    attn__free(g->ctx, g->last);
    attn__free(g->ctx, g->logits);
    g->arena = g->steps = g->last = g->logits = NULL;
    g->ids = NULL;
    g->starts = NULL;
    g->arena_size = g->logit_rows = 0;
    g->room = (attn__room){0};
    g->limit = -1;
}

static void drop_lanes(attn_generator *g)
{
    for (size_t i = 0; i < g->lane_count; i++)
        drop_room(&g->lanes[i].generator);
    attn__free(g->ctx, g->lanes);
    g->lanes = NULL;
    g->lane_count = 0;
}

attn_status attn__generator_lanes(attn_generator *g, size_t n, attn_error *err)
{
    if (n <= g->lane_count)
        return ATTN_OK;
    drop_lanes(g);
    g->lanes = attn__new(g->ctx, n * sizeof *g->lanes);
    if (!g->lanes)
        return attn__fail(err, ATTN_E_MEMORY, 0, "generator: no memory for %zu lanes", n);
    for (size_t i = 0; i < n; i++) {
        attn__lane *lane = &g->lanes[i];
        attn_generator *of = &lane->generator;

        lane->ctx = *g->ctx;
        lane->ctx.threads = 1;
        lane->ctx.pool = NULL;
        lane->ctx.parallel_for = NULL;
        lane->model = *g->model;
        lane->model.ctx = of->ctx = &lane->ctx;
        of->model = &lane->model;
        of->copies = g->copies;
        of->options = g->options;
        of->vocabulary = g->vocabulary;
        of->stride = g->stride;
        of->factor = g->factor;
        of->factor32 = g->factor32;
        of->nothing = g->nothing;
        of->limit = -1;
    }
    g->lane_count = n;
    return ATTN_OK;
}

void attn_generator_destroy(attn_generator *g)
{
    if (!g)
        return;
    drop_lanes(g);
    drop_room(g);
    attn__copies_free(&g->copies, g->model);
    attn__free(g->ctx, g);
}

/* --- Batches -------------------------------------------------------------------------------- */

static bool shifts(const attn_generator *g)
{
    return g->model->config.start != ATTN_START_NONE;
}

int64_t attn__given(const attn_batch *batch, int64_t i)
{
    return batch->target_starts ? batch->target_starts[i + 1] - batch->target_starts[i] : 0;
}

int64_t attn__rows_of(const attn_generator *g, int64_t tokens)
{
    return tokens + shifts(g);
}

attn_status attn__generator_batch(const attn_generator *g, const attn_batch *from, attn_batch *to,
                                  int64_t *longest_source, int64_t *longest_target, attn_error *err)
{
    const attn_model_config *c = &g->model->config;
    attn__run r;

    TRY(attn__take_struct(to, sizeof *to, from, "batch", err));
    if (to->segments < 1 || to->segments > INT32_MAX)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "segments: %lld, expected 1 to %d",
                          (long long)to->segments, INT32_MAX);
    if (to->first_segment < 0)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "first_segment: %lld, expected 0 or more",
                          (long long)to->first_segment);
    if (c->token_types > 0 && (to->source_types || to->target_types))
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s_types: generators know type 0 alone",
                          to->source_types ? "source" : "target");
    attn__open_run(&r, g->model, 0, to->segments);
    *longest_source = *longest_target = 0;
    if (g->model->encoder.present) {
        TRY(attn__check_ids(&r, to->source, to->source_starts, c->source_vocabulary, "source",
                            longest_source, err));
        TRY(attn__check_places(c, *longest_source, "source", err));
    } else {
        to->source = NULL;
        to->source_starts = NULL;
    }
    if (to->target || to->target_starts) {
        TRY(attn__check_ids(&r, to->target, to->target_starts, c->vocabulary, "target",
                            longest_target, err));
        TRY(attn__check_places(c, attn__rows_of(g, *longest_target), "target", err));
    }
    return ATTN_OK;
}

attn_status attn__generator_begins(const attn_generator *g, const attn_batch *batch,
                                   attn_error *err)
{
    for (int64_t i = 0; !shifts(g) && i < batch->segments; i++)
        if (attn__given(batch, i) < 1)
            return attn__fail(
                err, ATTN_E_ARGUMENT, 0,
                "target: none for sequence %lld; the model has no start, and wants at "
                "least one token",
                (long long)i);
    return ATTN_OK;
}

/* --- Room ----------------------------------------------------------------------------------- */

attn_status attn__generator_logits(attn_generator *g, size_t rows, attn_error *err)
{
    size_t unit = attn_type_size(g->model->config.type), d = (size_t)g->model->config.d;
    size_t last, logits;

    if (rows <= g->logit_rows)
        return ATTN_OK;
    attn__free(g->ctx, g->last);
    attn__free(g->ctx, g->logits);
    g->last = g->logits = NULL;
    g->logit_rows = 0;
    if (attn__mul(rows, d * unit, &last) && attn__mul(rows, g->stride * unit, &logits)) {
        g->last = attn__alloc(g->ctx, last);
        g->logits = attn__new(g->ctx, logits);
    }
    if (!g->last || !g->logits)
        return attn__fail(err, ATTN_E_MEMORY, 0, "logits: no memory for %zu rows of %zu words",
                          rows, g->vocabulary);
    g->logit_rows = rows;
    return ATTN_OK;
}

static attn_status open_passes(attn_generator *g, const attn__room *want, attn_error *err)
{
    attn_batch_limits l = ATTN_BATCH_LIMITS_INIT;
    size_t ids, starts;

    l.segments = (int64_t)want->segments;
    l.source_tokens = (int64_t)want->source_tokens;
    l.longest_source = (int64_t)attn__min(want->longest_source, want->source_tokens);
    l.target_tokens = (int64_t)want->target_rows;
    l.longest_target = (int64_t)attn__min(want->longest_target, want->target_rows);
    attn__free(g->ctx, g->arena);
    attn__free(g->ctx, g->ids);
    attn__free(g->ctx, g->starts);
    g->arena = NULL;
    g->ids = NULL;
    g->starts = NULL;
    g->room = (attn__room){0};
    TRY(attn_model_plan(g->model, &l, 0, &g->arena_size, err));
    g->arena = attn__alloc(g->ctx, g->arena_size);
    if (attn__add(want->source_tokens, want->target_rows, &ids) &&
        attn__mul(ids, sizeof *g->ids, &ids))
        g->ids = attn__alloc(g->ctx, ids);
    if (attn__mul(2 * (want->segments + 1), sizeof *g->starts, &starts))
        g->starts = attn__alloc(g->ctx, starts);
    if (!g->arena || !g->ids || !g->starts)
        return attn__fail(err, ATTN_E_MEMORY, 0, "first pass: no memory for %zu rows",
                          want->source_tokens + want->target_rows);
    g->room = *want;
    return ATTN_OK;
}

attn_status attn__generator_passes(attn_generator *g, const attn__room *want, attn_error *err)
{
    const attn__room *have = &g->room;

    if (g->arena && have->segments >= want->segments &&
        have->source_tokens >= want->source_tokens && have->target_rows >= want->target_rows &&
        have->longest_source >= want->longest_source &&
        have->longest_target >= want->longest_target)
        return ATTN_OK;
    return open_passes(g, want, err);
}

/* Addresses that only a plan sees: nothing is read or written there. */
static void *nowhere(int i)
{
    return (void *)(((uintptr_t)i + 1) << 44);
}

/* Scratch memory of a product with a copy. */
static size_t product_work(const attn_generator *g, size_t weight, size_t rows)
{
    const attn__run *r = &g->step;
    attn_gemm_args a = ATTN_GEMM_ARGS_INIT;
    attn_plan plan = ATTN_PLAN_INIT;

    a.packed = g->copies.packed[weight];
    a.a = attn__matrix_view(r, nowhere(0), rows, (size_t)g->model->param[weight].size[1]);
    a.out = attn__matrix_view(r, nowhere(1), rows, g->copies.rows[weight]);
    a.residual = attn__matrix_view(r, nowhere(2), rows, g->copies.rows[weight]);
    return attn_gemm_plan(r->ctx, &a, &plan, NULL) == ATTN_OK ? plan.workspace_size : 0;
}

/* Of self-attention, `rows` hypotheses as long as they may be. */
static size_t self_work(attn_generator *g, size_t rows)
{
    const attn_model_config *c = &g->model->config;
    const attn_cache *cache = g->memory.layer[0].cache;
    attn_forward_args f = ATTN_FORWARD_ARGS_INIT;
    attn_plan plan = ATTN_PLAN_INIT;

    f.q = attn_view_bshd(nowhere(0), c->type, (int64_t)rows, c->heads, 1, c->dk);
    f.out = attn_view_bshd(nowhere(1), c->type, (int64_t)rows, c->heads, 1, c->dv);
    return attn_decode_plan(g->ctx, cache, &f, &plan, NULL) == ATTN_OK ? plan.workspace_size : 0;
}

/* Of cross-attention, `rows` hypotheses of one source. */
static size_t cross_work(const attn_generator *g, size_t rows)
{
    const attn_model_config *c = &g->model->config;
    const attn__memory *m = &g->memory;
    attn_forward_args f = ATTN_FORWARD_ARGS_INIT;
    attn_mask mask = ATTN_MASK_INIT;
    attn_plan plan = ATTN_PLAN_INIT;
    int64_t q_starts[2] = {0, (int64_t)rows}, k_starts[2] = {0, (int64_t)m->longest_source};

    mask.segments = 1;
    mask.q_starts = q_starts;
    mask.k_starts = k_starts;
    f.q = attn_view_bshd(nowhere(0), c->type, 1, c->heads, q_starts[1], c->dk);
    f.k = attn_view_bshd(nowhere(1), c->type, 1, c->kv_heads, k_starts[1], c->dk);
    f.v = attn_view_bshd(nowhere(2), c->type, 1, c->kv_heads, k_starts[1], c->dv);
    f.out = attn_view_bshd(nowhere(3), c->type, 1, c->heads, q_starts[1], c->dv);
    f.mask = &mask;
    return attn_forward_plan(g->ctx, &f, &plan, NULL) == ATTN_OK ? plan.workspace_size : 0;
}

static size_t max(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Scratch memory that steps of any number of hypotheses want: powers of two stand for those
 * between them. */
static size_t step_work(attn_generator *g)
{
    attn__memory *m = &g->memory;
    size_t size = 0, rows = m->hypotheses;

    for (size_t i = 0; i < rows; i++)
        if (attn_cache_assign(m->layer[0].cache, (int64_t)i, 0, (int64_t)m->length, NULL) !=
            ATTN_OK)
            return 0;
    for (size_t n = 1; n <= rows; n = n < rows && 2 * n > rows ? rows : 2 * n) {
        for (size_t i = 0; i < g->model->param_count; i++)
            if (g->copies.packed[i])
                size = max(size, product_work(g, i, n));
        size = max(size, self_work(g, n));
        if (g->model->encoder.present)
            size = max(size, cross_work(g, n));
    }
    return (size + size / 8 + 63) / 64 * 64;
}

/* The run of steps over memory: its scratch, its tables. */
static attn_status make_steps(attn_generator *g, attn_error *err)
{
    attn__memory *m = &g->memory;
    attn__run *r = &g->step;
    size_t size, work;

    attn__open_run(r, g->model, 0, 1);
    r->batch = &g->nothing;
    r->copies = &g->copies;
    r->memory = m;
    r->step = true;
    r->decoder.rows = m->hypotheses;
    r->decoder.longest = m->length;
    r->encoder.longest = m->longest_source;
    size = attn__lay_out(r, NULL);
    work = step_work(g);
    attn__free(g->ctx, g->steps);
    g->steps = size < SIZE_MAX - work ? attn__alloc(g->ctx, size + work) : NULL;
    if (!g->steps)
        return attn__fail(err, ATTN_E_MEMORY, 0, "steps: no memory for %zu hypotheses",
                          m->hypotheses);
    attn__lay_out(r, g->steps);
    r->work = (char *)g->steps + size;
    r->work_size = work;
    r->decoder.positions = m->positions;
    r->decoder.cosine = m->cosine;
    r->decoder.sine = m->sine;
    r->decoder.minus_sine = m->minus_sine;
    r->decoder.slopes = m->slopes;
    return ATTN_OK;
}

static attn_status grow(attn_generator *g, const attn__room *want, attn_error *err)
{
    const attn__memory *m = &g->memory;

    if (!m->block || m->hypotheses < want->hypotheses || m->length < want->length ||
        m->tokens < want->tokens || m->longest_source < want->longest_source) {
        TRY(attn__memory_open(&g->memory, g->model, want->hypotheses, want->length, want->tokens,
                              want->longest_source, err));
        TRY(make_steps(g, err));
    }
    TRY(attn__generator_passes(g, want, err));
    attn__memory_clear(&g->memory);
    return attn__generator_logits(g, want->hypotheses, err);
}

attn_status attn__generator_room(attn_generator *g, const attn__room *room, attn_error *err)
{
    attn_status st = grow(g, room, err);

    if (st != ATTN_OK)
        drop_room(g);
    return st;
}

/* --- First passes --------------------------------------------------------------------------- */

/* The sequences which[0..n-1] one after the other; rows of targets as the model counts them: what
 * the last one says is not seen by any. */
static void gather(attn_generator *g, const attn_batch *from, const int64_t *which, size_t n,
                   attn_batch *to)
{
    int32_t *target;

    *to = (attn_batch)ATTN_BATCH_INIT;
    to->segments = (int64_t)n;
    to->source = g->ids;
    to->source_starts = g->starts;
    to->target_starts = g->starts + n + 1;
    g->starts[0] = g->starts[n + 1] = 0;
    for (size_t i = 0; i < n; i++) {
        int64_t at = which[i], rows = attn__rows_of(g, attn__given(from, at)), keys = 0;

        if (from->source_starts && from->source_starts[at + 1] > from->source_starts[at]) {
            keys = from->source_starts[at + 1] - from->source_starts[at];
            memcpy(g->ids + g->starts[i], from->source + from->source_starts[at],
                   (size_t)keys * sizeof *g->ids);
        }
        g->starts[i + 1] = g->starts[i] + keys;
        g->starts[n + 2 + i] = g->starts[n + 1 + i] + rows;
    }
    to->target = target = g->ids + g->starts[n];
    for (size_t i = 0; i < n; i++) {
        int64_t at = which[i], given = attn__given(from, at);

        if (given > 0)
            memcpy(target, from->target + from->target_starts[at], (size_t)given * sizeof *target);
        target += attn__rows_of(g, given);
        if (attn__rows_of(g, given) > given)
            target[-1] = 0;
    }
}

void *attn__logit_row(const attn_generator *g, size_t i)
{
    return (char *)g->logits + i * g->stride * attn_type_size(g->model->config.type);
}

attn_status attn__generator_project(attn_generator *g, const attn__run *r, const void *hidden,
                                    size_t rows, attn_error *err)
{
    const attn_model *m = g->model;
    attn_gemm_args a = ATTN_GEMM_ARGS_INIT;

    a.a = attn__matrix_view(r, hidden, rows, (size_t)m->config.d);
    a.w = attn__tensor_view(r, m->output, false);
    a.bias = attn__tensor_view(r, m->output_bias, false);
    a.out = attn__matrix_view(r, g->logits, rows, g->vocabulary);
    a.out.stride[2] = (int64_t)g->stride;
    if (g->factor != 1) {
        a.scale = attn__matrix_view(r, r->f64 ? (const void *)&g->factor : &g->factor32, 1,
                                    g->vocabulary);
        a.scale.stride[3] = 0;
    }
    attn__use_copy(r, m->output, &a);
    return attn__product(r, &a, err);
}

static attn_status first_pass(attn_generator *g, const attn_batch *batch, double *of_given,
                              attn_error *err)
{
    attn_pass pass = ATTN_PASS_INIT;
    attn__run r;
    size_t bytes = (size_t)g->model->config.d * attn_type_size(g->model->config.type);

    pass.batch = batch;
    pass.arena = g->arena;
    pass.arena_size = g->arena_size;
    attn__memory_add(&g->memory, (size_t)batch->segments,
                     g->model->encoder.present ? batch->source_starts : NULL, batch->target_starts);
    TRY(attn__forward(g->model, &pass, &g->copies, &g->memory, err));
    r = g->step; /* whose scratch memory may serve */
    if (of_given)
        TRY(attn__generator_score(g, &r, pass.hidden.data, batch, shifts(g), of_given, err));
    for (int64_t i = 0; i < batch->segments; i++)
        memcpy((char *)g->last + (size_t)i * bytes,
               (const char *)pass.hidden.data + (size_t)(batch->target_starts[i + 1] - 1) * bytes,
               bytes);
    return attn__generator_project(g, &r, g->last, (size_t)batch->segments, err);
}

attn_status attn__generator_add(attn_generator *g, const attn_batch *batch, const int64_t *which,
                                size_t n, double *of_given, attn_error *err)
{
    attn_batch first;
    attn_status st;

    gather(g, batch, which, n, &first);
    st = first_pass(g, &first, of_given, err);
    if (st != ATTN_OK)
        attn__memory_clear(&g->memory);
    return st;
}

/* --- Steps ---------------------------------------------------------------------------------- */

static void fill_step(attn_generator *g, const int32_t *tokens)
{
    const attn_model_config *c = &g->model->config;
    const attn__memory *m = &g->memory;
    attn__run *r = &g->step;
    int64_t offset = c->positions == ATTN_POSITIONS_LEARNED ? c->position_offset : 0;

    r->segments = (int64_t)m->sources;
    r->decoder.rows = m->count;
    r->decoder.starts = m->rows_from;
    r->encoder.rows = (size_t)m->keys_from[m->sources];
    r->encoder.starts = m->keys_from;
    for (size_t i = 0; i < m->count; i++) {
        r->decoder.id[i] = tokens[i];
        r->decoder.place[i] = (int32_t)m->held[i];
        r->decoder.at[i] = (int32_t)(m->held[i] + offset);
        r->decoder.sequence[i] = (int32_t)i;
    }
}

static attn_status make_step(attn_generator *g, const int32_t *tokens, attn_error *err)
{
    attn__run *r = &g->step;
    uint64_t word;
    attn_status st;

    if (g->memory.count == 0)
        return ATTN_OK;
    TRY(attn__memory_prepare(&g->memory, err));
    fill_step(g, tokens);
    word = attn__fp_default();
    st = attn__stack_forward(r, &r->decoder, g->model->encoder.present ? &r->encoder : NULL, err);
    attn__fp_restore(word);
    if (st != ATTN_OK)
        return st;
    attn__memory_advance(&g->memory);
    return attn__generator_project(g, r, r->decoder.hidden, g->memory.count, err);
}

void attn__generator_move(attn_generator *g, const int32_t *parents, size_t n)
{
    attn__memory_move(&g->memory, parents, n);
}

attn_status attn__generator_advance(attn_generator *g, const int32_t *parents,
                                    const int32_t *tokens, size_t n, attn_error *err)
{
    attn_status st;

    attn__memory_move(&g->memory, parents, n);
    st = make_step(g, tokens, err);
    if (st != ATTN_OK)
        attn__memory_clear(&g->memory);
    return st;
}

/* --- Step by step, for the public ----------------------------------------------------------- */

static attn_view logits_view(const attn_generator *g, size_t rows)
{
    attn_view v = attn_view_bhsd(g->logits, g->model->config.type, 1, 1, (int64_t)rows,
                                 (int64_t)g->vocabulary);

    v.stride[2] = (int64_t)g->stride;
    return v;
}

static attn_status start(attn_generator *g, const attn_batch *batch, int64_t longest,
                         int64_t longest_source, int64_t longest_target, attn_error *err)
{
    attn__room room = {.hypotheses = (size_t)g->options.hypotheses,
                       .length = (size_t)attn__rows_of(g, longest),
                       .segments = (size_t)batch->segments,
                       .longest_source = (size_t)longest_source,
                       .longest_target = (size_t)attn__rows_of(g, longest_target)};
    int64_t *which = attn__alloc(g->ctx, (size_t)batch->segments * sizeof *which);
    attn_status st;

    if (!which)
        return attn__fail(err, ATTN_E_MEMORY, 0, "batch: list of sequences");
    for (int64_t i = 0; i < batch->segments; i++) {
        which[i] = i;
        room.target_rows += (size_t)attn__rows_of(g, attn__given(batch, i));
    }
    if (batch->source_starts)
        room.tokens = room.source_tokens = (size_t)batch->source_starts[batch->segments];
    st = attn__generator_room(g, &room, err);
    if (st == ATTN_OK)
        st = attn__generator_add(g, batch, which, (size_t)batch->segments, NULL, err);
    attn__free(g->ctx, which);
    return st;
}

attn_status attn_generator_start(attn_generator *g, const attn_batch *batch, int64_t longest,
                                 attn_view *logits, attn_error *err)
{
    attn_batch b;
    int64_t longest_source, longest_target;

    if (!g || !logits)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s: NULL", g ? "logits" : "generator");
    TRY(attn__generator_batch(g, batch, &b, &longest_source, &longest_target, err));
    TRY(attn__generator_begins(g, &b, err));
    if (b.segments > g->options.hypotheses)
        return attn__fail(err, ATTN_E_ARGUMENT, 0,
                          "segments: %lld, the generator's options.hypotheses are %lld",
                          (long long)b.segments, (long long)g->options.hypotheses);
    if (longest < longest_target || longest > INT32_MAX - 1)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "longest: %lld, expected %lld (given) to %d",
                          (long long)longest, (long long)longest_target, INT32_MAX - 1);
    TRY(attn__check_places(&g->model->config, attn__rows_of(g, longest), "longest", err));
    g->limit = -1;
    TRY(start(g, &b, longest, longest_source, longest_target, err));
    g->limit = longest;
    *logits = logits_view(g, (size_t)b.segments);
    return ATTN_OK;
}

static attn_status check_step(const attn_generator *g, const int32_t *parents,
                              const int32_t *tokens, int64_t count, attn_error *err)
{
    const attn__memory *m = &g->memory;

    if (g->limit < 0)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "generator: not started");
    if (count < 0 || count > g->options.hypotheses)
        return attn__fail(err, ATTN_E_ARGUMENT, 0,
                          "count: %lld, the generator's options.hypotheses are %lld",
                          (long long)count, (long long)g->options.hypotheses);
    if (count > 0 && (!parents || !tokens))
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s: NULL", parents ? "tokens" : "parents");
    for (int64_t i = 0; i < count; i++) {
        if (parents[i] < 0 || (size_t)parents[i] >= m->count)
            return attn__fail(err, ATTN_E_ARGUMENT, 0, "parents[%lld]: %ld of %zu hypotheses",
                              (long long)i, (long)parents[i], m->count);
        if (i > 0 && m->source_of[parents[i]] < m->source_of[parents[i - 1]])
            return attn__fail(err, ATTN_E_ARGUMENT, 0,
                              "parents[%lld]: its source comes before that of the one before it",
                              (long long)i);
        if (tokens[i] < 0 || (size_t)tokens[i] >= g->vocabulary)
            return attn__fail(err, ATTN_E_ARGUMENT, 0, "tokens[%lld]: %ld, expected 0 to %zu",
                              (long long)i, (long)tokens[i], g->vocabulary - 1);
        if (m->held[parents[i]] >= attn__rows_of(g, g->limit))
            return attn__fail(err, ATTN_E_FULL, 0,
                              "parents[%lld]: has the %lld tokens that attn_generator_start was "
                              "told of",
                              (long long)i, (long long)g->limit);
    }
    return ATTN_OK;
}

attn_status attn_generator_step(attn_generator *g, const int32_t *parents, const int32_t *tokens,
                                int64_t count, attn_view *logits, attn_error *err)
{
    if (!g || !logits)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s: NULL", g ? "logits" : "generator");
    TRY(check_step(g, parents, tokens, count, err));
    TRY(attn__generator_advance(g, parents, tokens, (size_t)count, err));
    *logits = logits_view(g, (size_t)count);
    return ATTN_OK;
}
