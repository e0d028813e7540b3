/* trainer.c: the steps of a training run, and evaluation. */
#include "src/train/trainer.h"

#include "src/base/error.h"
#include "src/base/mem.h"

#include <math.h>
#include <string.h>

/* --- Checks --------------------------------------------------------------------------------- */

static attn_status check_ids(const int32_t *ids, const int64_t *starts, int64_t count,
                             int64_t vocabulary, const char *what, attn_error *err)
{
    if (!starts || starts[0] != 0)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s: starts are NULL or do not begin with 0",
                          what);
    for (int64_t i = 0; i < count; i++)
        if (starts[i + 1] <= starts[i])
            return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s: sequence %lld is empty", what,
                              (long long)i);
    if (!ids)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s: NULL", what);
    for (int64_t i = 0; i < starts[count]; i++)
        if (ids[i] < 0 || ids[i] >= vocabulary)
            return attn__fail(err, ATTN_E_ARGUMENT, 0,
                              "%s: id %ld, but the model knows those below %lld", what,
                              (long)ids[i], (long long)vocabulary);
    return ATTN_OK;
}

static attn_status check_corpus(const attn_trainer *t, const attn_corpus *c, attn_error *err)
{
    const attn_model_config *m = attn_model_get_config(t->model);

    if (!c || c->count < 1)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "corpus: no sequences");
    if (t->encodes)
        TRY(check_ids(c->source, c->source_starts, c->count, m->source_vocabulary, "source", err));
    else if (c->source_starts)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "source: the model has one stack only");
    return check_ids(c->target, c->target_starts, c->count, m->vocabulary, "target", err);
}

static bool within(double x, double least, double most)
{
    return x >= least && x <= most;
}

static attn_status complete(attn_trainer *t, attn_error *err)
{
    attn_trainer_options *o = &t->options;
    double rate;

    if (o->batch_tokens == 0)
        o->batch_tokens = 4096;
    if (o->part_tokens == 0)
        o->part_tokens = o->batch_tokens;
    if (o->batch_tokens < 1 || o->part_tokens < 1 || o->bucket < 0)
        return attn__fail(err, ATTN_E_ARGUMENT, 0,
                          "batch_tokens, part_tokens or bucket is negative");
    if (!within(o->average, 0, 1) || o->average == 1)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "average: %g, expected 0 <= average < 1",
                          o->average);
    if (!within(o->epsilon, 0, 1) || o->epsilon == 1)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "epsilon: %g, expected 0 <= epsilon < 1",
                          o->epsilon);
    return attn_schedule_rate(&o->schedule, 1, &rate, err);
}

/* --- Making --------------------------------------------------------------------------------- */

static void find_kept(attn_trainer *t)
{
    for (size_t i = 0; i < attn_model_param_count(t->model); i++) {
        const attn_param *p = attn_model_param(t->model, i);

        if (!(p->flags & ATTN_PARAM_DECAY))
            t->kept[t->kept_count++] = (attn_span){p->offset, p->count};
    }
}

/* The largest parts of a corpus: any order may come. */
static void widen_limits(attn__limits *l, const attn_corpus *c, int64_t part_tokens)
{
    int64_t shortest = INT64_MAX, source = 0, target = 0, most;

    for (int64_t i = 0; i < c->count; i++) {
        int64_t s = attn__source_length(c, i), g = attn__target_length(c, i);

        source = s > source ? s : source;
        target = g > target ? g : target;
        shortest = g < shortest ? g : shortest;
    }
    l->longest_source = source > l->longest_source ? source : l->longest_source;
    l->longest_target = target > l->longest_target ? target : l->longest_target;
    source = source > part_tokens ? source : part_tokens;
    target = target > part_tokens ? target : part_tokens;
    most = part_tokens / shortest;
    most = most < 1 ? 1 : most > c->count ? c->count : most;
    l->sequences = most > l->sequences ? most : l->sequences;
    l->source_tokens = source > l->source_tokens ? source : l->source_tokens;
    l->target_tokens = target > l->target_tokens ? target : l->target_tokens;
}

static void free_part(attn_trainer *t)
{
    attn__part *p = &t->part;

    attn__free(t->ctx, p->source_starts);
    attn__free(t->ctx, p->target_starts);
    attn__free(t->ctx, p->source);
    attn__free(t->ctx, p->target);
    attn__free(t->ctx, p->goals);
    attn__free(t->ctx, p->hits);
    attn__free(t->ctx, t->arena);
    attn__free(t->ctx, t->loss_memory);
    *p = (attn__part){0};
    t->arena = t->loss_memory = NULL;
}

/* The projection's arguments for a part whose hidden states are `hidden`. */
static attn_cross_entropy_args loss_args(const attn_trainer *t, const attn_view *hidden)
{
    attn_cross_entropy_args a = ATTN_CROSS_ENTROPY_ARGS_INIT;
    const void *weights = attn_model_weights(t->model);

    a.hidden = *hidden;
    a.weight = attn_model_output_weight(t->model, weights);
    a.bias = attn_model_output_bias(t->model, weights);
    a.scale = attn_model_get_config(t->model)->logit_scale;
    a.targets = t->part.goals;
    a.smoothing = t->options.smoothing;
    a.epsilon = t->options.epsilon;
    a.workspace = t->loss_memory;
    a.workspace_size = t->loss_size;
    return a;
}

static void want_gradients(const attn_trainer *t, attn_cross_entropy_args *a, double factor)
{
    a->factor = factor;
    a->dhidden = a->hidden;
    a->dweight = attn_model_output_weight(t->model, t->gradients);
    a->dbias = attn_model_output_bias(t->model, t->gradients);
}

static attn_status plan_loss(attn_trainer *t, attn_error *err)
{
    int64_t d = attn_model_get_config(t->model)->d, rows = t->limits.target_tokens;
    attn_view hidden = attn_view_bhsd(t->arena, t->type, 1, 1, rows, d);
    attn_cross_entropy_args a;

    for (int64_t i = 0; i < rows; i++)
        t->part.goals[i] = -1;
    a = loss_args(t, &hidden);
    want_gradients(t, &a, 1);
    return attn_cross_entropy_plan(t->ctx, &a, &t->loss_size, err);
}

/* Memory for parts within the limits; what there was is given back. Without an arena there is none.
 */
static attn_status fill_room(attn_trainer *t, attn_error *err)
{
    attn__part *p = &t->part;
    size_t sequences = (size_t)t->limits.sequences + 1;
    size_t source = (size_t)t->limits.source_tokens, target = (size_t)t->limits.target_tokens;

    free_part(t);
    p->source_starts = attn__alloc(t->ctx, sequences * sizeof *p->source_starts);
    p->target_starts = attn__alloc(t->ctx, sequences * sizeof *p->target_starts);
    p->source = attn__alloc(t->ctx, source * sizeof *p->source);
    p->target = attn__alloc(t->ctx, target * sizeof *p->target);
    p->goals = attn__alloc(t->ctx, target * sizeof *p->goals);
    p->hits = attn__alloc(t->ctx, target);
    if (!p->source_starts || !p->target_starts || !p->source || !p->target || !p->goals || !p->hits)
        return attn__fail(err, ATTN_E_MEMORY, 0, "ids of %zu tokens", source + target);
    TRY(attn__passes_plan(t, err));
    t->arena = attn__alloc(t->ctx, t->arena_size);
    if (!t->arena)
        return attn__fail(err, ATTN_E_MEMORY, 0, "activations: %zu bytes", t->arena_size);
    TRY(plan_loss(t, err));
    t->loss_memory = attn__alloc(t->ctx, t->loss_size);
    if (!t->loss_memory)
        return attn__fail(err, ATTN_E_MEMORY, 0, "logits: %zu bytes", t->loss_size);
    return ATTN_OK;
}

static attn_status make_room(attn_trainer *t, attn_error *err)
{
    attn_status st = fill_room(t, err);

    if (st != ATTN_OK)
        free_part(t);
    return st;
}

static attn_status make_blocks(attn_trainer *t, attn_error *err)
{
    t->gradients = attn__new(t->ctx, t->bytes);
    t->m = attn__new(t->ctx, t->bytes);
    t->v = attn__new(t->ctx, t->bytes);
    if (t->options.average > 0)
        t->average = attn__alloc(t->ctx, t->bytes);
    t->kept = attn__alloc(t->ctx, attn_model_param_count(t->model) * sizeof *t->kept);
    if (!t->gradients || !t->m || !t->v || !t->kept || (t->options.average > 0 && !t->average))
        return attn__fail(err, ATTN_E_MEMORY, 0, "gradients and moments of %lld elements",
                          (long long)t->elements);
    if (t->average)
        memcpy(t->average, attn_model_weights(t->model), t->bytes);
    find_kept(t);
    return ATTN_OK;
}

static attn_status make(attn_trainer *t, attn_error *err)
{
    const attn_model_config *m = attn_model_get_config(t->model);
    attn_view output = attn_model_output_weight(t->model, attn_model_weights(t->model));

    if (!output.data)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "model: it has no output matrix");
    if (m->queries > 0)
        return attn__fail(err, ATTN_E_ARGUMENT, 0,
                          "model: its decoder reads queries, a corpus has targets for ids alone");
    t->type = m->type;
    t->elements = attn_model_elements(t->model);
    t->bytes = (size_t)t->elements * attn_type_size(t->type);
    t->encodes = m->stack == ATTN_STACK_ENCODER_DECODER;
    t->decodes = m->stack != ATTN_STACK_ENCODER;
    t->shifts = t->decodes && m->start == ATTN_START_NONE;
    if (!t->decodes)
        return attn__fail(err, ATTN_E_UNSUPPORTED, 0, "model: an encoder alone says no sequence");
    TRY(complete(t, err));
    TRY(check_corpus(t, &t->options.corpus, err));
    TRY(make_blocks(t, err));
    widen_limits(&t->limits, &t->options.corpus, t->options.part_tokens);
    TRY(attn__batches_init(&t->batches, t->ctx, &t->options.corpus, t->options.batch_tokens,
                           t->options.bucket, t->options.seed, err));
    return make_room(t, err);
}

attn_status attn_trainer_create(attn_model *model, const attn_trainer_options *options,
                                attn_trainer **out, attn_error *err)
{
    const attn_ctx *ctx;
    attn_trainer *t;
    attn_status st;

    if (!out)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "out: NULL");
    *out = NULL;
    if (!model || !options || options->struct_size != sizeof *options)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "model or options: NULL, or another version");
    ctx = attn_model_ctx(model);
    t = attn__new(ctx, sizeof *t);
    if (!t)
        return attn__fail(err, ATTN_E_MEMORY, 0, "a trainer");
    t->ctx = ctx;
    t->model = model;
    t->options = *options;
    if ((st = make(t, err)) == ATTN_OK) {
        *out = t;
        return ATTN_OK;
    }
    attn_trainer_destroy(t);
    return st;
}

void attn_trainer_destroy(attn_trainer *t)
{
    if (!t)
        return;
    free_part(t);
    attn__batches_free(&t->batches);
    attn__free(t->ctx, t->kept);
    attn__free(t->ctx, t->average);
    attn__free(t->ctx, t->v);
    attn__free(t->ctx, t->m);
    attn__free(t->ctx, t->gradients);
    attn__free(t->ctx, t);
}

/* --- Parts of a batch ----------------------------------------------------------------------- */

/* Sequences order[run.from .. run.to - 1], or those numbers themselves if order is NULL. */
static void gather(attn_trainer *t, const attn_corpus *c, const int64_t *order, attn__run run)
{
    attn__part *p = &t->part;
    int64_t source = 0, target = 0;

    for (int64_t i = run.from; i < run.to; i++) {
        int64_t which = order[i], n = attn__source_length(c, which);
        int64_t k = attn__target_length(c, which);
        const int32_t *ids = c->target + c->target_starts[which];

        p->source_starts[i - run.from] = source;
        p->target_starts[i - run.from] = target;
        if (n > 0)
            memcpy(p->source + source, c->source + c->source_starts[which],
                   (size_t)n * sizeof *p->source);
        memcpy(p->target + target, ids, (size_t)k * sizeof *ids);
        for (int64_t j = 0; j < k; j++)
            p->goals[target + j] = !t->shifts ? ids[j] : j + 1 < k ? ids[j + 1] : -1;
        source += n;
        target += k;
    }
    p->sequences = run.to - run.from;
    p->source_starts[p->sequences] = p->source_tokens = source;
    p->target_starts[p->sequences] = p->target_tokens = target;
}

/* Tokens of a batch that have a goal, and all its tokens. */
static int64_t count_goals(const attn_trainer *t, attn__run run, int64_t *all)
{
    const attn_corpus *c = &t->options.corpus;
    int64_t goals = 0;

    *all = 0;
    for (int64_t i = run.from; i < run.to; i++) {
        int64_t n = attn__target_length(c, t->batches.order[i]);

        goals += t->shifts ? n - 1 : n;
        *all += n + attn__source_length(c, t->batches.order[i]);
    }
    return goals;
}

static void add_loss(attn_loss *to, const attn_loss *from)
{
    to->loss += from->loss;
    to->nll += from->nll;
    to->tokens += from->tokens;
    to->right += from->right;
}

/* --- Steps ---------------------------------------------------------------------------------- */

static attn_status train_part(attn_trainer *t, uint64_t seed, double factor, attn_loss *sums,
                              attn_error *err)
{
    attn_cross_entropy_args a;
    attn_loss loss;

    TRY(attn__passes_forward(t, true, seed, err));
    a = loss_args(t, &t->pass.hidden);
    want_gradients(t, &a, factor);
    TRY(attn_cross_entropy(t->ctx, &a, &loss, err));
    add_loss(sums, &loss);
    return attn_model_backward(t->model, &t->pass, &a.dhidden, t->gradients, err);
}

static attn_status update(attn_trainer *t, attn_step *report, attn_error *err)
{
    const attn_trainer_options *o = &t->options;
    attn_adam_args a = ATTN_ADAM_ARGS_INIT;

    a.type = t->type;
    a.count = t->elements;
    a.weights = attn_model_weights(t->model);
    a.gradients = t->gradients;
    a.m = t->m;
    a.v = t->v;
    a.clear = 1;
    a.step = t->step + 1;
    a.has_betas = o->has_betas;
    a.beta1 = o->beta1;
    a.beta2 = o->beta2;
    a.epsilon = o->adam_epsilon;
    a.decay = o->decay;
    a.max_norm = o->max_norm;
    a.kept = t->kept;
    a.kept_count = t->kept_count;
    TRY(attn_schedule_rate(&o->schedule, a.step, &a.rate, err));
    report->rate = a.rate;
    TRY(attn_adam_step(t->ctx, &a, &report->norm, err));
    if (!t->average)
        return ATTN_OK;
    return attn_average_blend(t->ctx, t->type, t->elements, t->average, a.weights, 1 - o->average,
                              err);
}

static attn_status step(attn_trainer *t, attn_step *report, attn_error *err)
{
    const attn_corpus *c = &t->options.corpus;
    uint64_t seed = attn__mix(attn__mix(t->options.seed, 0xd0), (uint64_t)t->step);
    attn__run batch, part;
    int64_t goals;

    if (!t->arena)
        TRY(make_room(t, err));
    attn__batches_epoch(&t->batches, t->epoch);
    batch = t->batches.batch[t->position];
    goals = count_goals(t, batch, &report->tokens);
    for (int64_t at = batch.from; at < batch.to; at = part.to) {
        part = attn__cut_run(c, t->batches.order, at, batch.to, t->options.part_tokens);
        gather(t, c, t->batches.order, part);
        t->part.first = at - batch.from;
        TRY(train_part(t, seed, goals > 0 ? 1 / (double)goals : 0, &report->sums, err));
    }
    TRY(update(t, report, err));
    report->step = ++t->step;
    report->epoch = t->epoch;
    if (++t->position == t->batches.count) {
        t->position = 0;
        t->epoch++;
    }
    return ATTN_OK;
}

attn_status attn_trainer_step(attn_trainer *t, attn_step *report, attn_error *err)
{
    attn_step mine = {0};
    attn_status st;

    if (!t)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "trainer: NULL");
    st = step(t, &mine, err);
    if (st != ATTN_OK)
        memset(t->gradients, 0, t->bytes);
    else if (report)
        *report = mine;
    return st;
}

int64_t attn_trainer_steps(const attn_trainer *t)
{
    return t->step;
}

int64_t attn_trainer_epochs(const attn_trainer *t)
{
    return t->epoch;
}

const void *attn_trainer_average(const attn_trainer *t)
{
    return t->average;
}

/* --- Evaluation ----------------------------------------------------------------------------- */

static attn_status evaluate_part(attn_trainer *t, attn_evaluation *out, attn_error *err)
{
    const attn__part *p = &t->part;
    attn_cross_entropy_args a;
    attn_loss loss;

    TRY(attn__passes_forward(t, false, 0, err));
    a = loss_args(t, &t->pass.hidden);
    a.hits = p->hits;
    TRY(attn_cross_entropy(t->ctx, &a, &loss, err));
    add_loss(&out->sums, &loss);
    for (int64_t i = 0; i < p->sequences; i++) {
        bool exact = true;

        for (int64_t j = p->target_starts[i]; j < p->target_starts[i + 1]; j++)
            exact = exact && (p->hits[j] || p->goals[j] < 0);
        out->exact += exact;
    }
    out->sequences += p->sequences;
    return ATTN_OK;
}

static attn_status evaluate(attn_trainer *t, const attn_corpus *c, int64_t *order,
                            attn_evaluation *out, attn_error *err)
{
    attn__limits before = t->limits;
    attn__run part;

    widen_limits(&t->limits, c, t->options.part_tokens);
    if (!t->arena || memcmp(&before, &t->limits, sizeof before) != 0)
        TRY(make_room(t, err));
    for (int64_t i = 0; i < c->count; i++)
        order[i] = i;
    for (int64_t at = 0; at < c->count; at = part.to) {
        part = attn__cut_run(c, order, at, c->count, t->options.part_tokens);
        gather(t, c, order, part);
        t->part.first = at;
        TRY(evaluate_part(t, out, err));
    }
    return ATTN_OK;
}

static void swap_blocks(void *a, void *b, size_t bytes)
{
    char chunk[4096];

    for (size_t at = 0, n; at < bytes; at += n) {
        n = attn__min(bytes - at, sizeof chunk);
        memcpy(chunk, (char *)a + at, n);
        memcpy((char *)a + at, (char *)b + at, n);
        memcpy((char *)b + at, chunk, n);
    }
}

attn_status attn_trainer_evaluate(attn_trainer *t, const attn_corpus *corpus, int averaged,
                                  attn_evaluation *out, attn_error *err)
{
    attn_evaluation sums = {0};
    int64_t *order;
    size_t bytes;
    attn_status st;

    if (!t || !out)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s: NULL", t ? "out" : "trainer");
    if (averaged && !t->average)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "averaged: the trainer keeps no average");
    TRY(check_corpus(t, corpus, err));
    order =
        attn__mul((size_t)corpus->count, sizeof *order, &bytes) ? attn__alloc(t->ctx, bytes) : NULL;
    if (!order)
        return attn__fail(err, ATTN_E_MEMORY, 0, "order of %lld sequences",
                          (long long)corpus->count);
    if (averaged)
        swap_blocks(attn_model_weights(t->model), t->average, t->bytes);
    st = evaluate(t, corpus, order, &sums, err);
    if (averaged)
        swap_blocks(attn_model_weights(t->model), t->average, t->bytes);
    attn__free(t->ctx, order);
    if (st == ATTN_OK)
        *out = sums;
    return st;
}
