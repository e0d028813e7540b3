/* pass.c: attn_model_plan, attn_model_forward, attn_model_backward: checks, and the order of
 * stacks. */
#include "src/nn/arena.h"
#include "src/nn/call_args.h"
#include "src/nn/pass.h"

#include "src/base/ctx.h"
#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/kernels/cpu.h"

#include <string.h>

enum { ALL_FLAGS = ATTN_PASS_BACKWARD | ATTN_PASS_DROPOUT | ATTN_PASS_RECOMPUTE };

/* --- Checks --------------------------------------------------------------------------------- */

static attn_status check_flags(int flags, attn_error *err)
{
    if (flags & ~ALL_FLAGS)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "flags: %d has bits that mean nothing", flags);
    if (flags & ATTN_PASS_RECOMPUTE && !(flags & ATTN_PASS_BACKWARD))
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "flags: RECOMPUTE without BACKWARD");
    return ATTN_OK;
}

void attn__open_run(attn__run *r, const attn_model *model, int flags, int64_t segments)
{
    memset(r, 0, sizeof *r);
    r->model = model;
    r->ctx = model->ctx;
    r->flags = flags;
    r->f64 = model->config.type == ATTN_F64;
    r->unit = attn_type_size(model->config.type);
    r->segments = segments;
    r->encoder.half = model->encoder.present ? &model->encoder : NULL;
    r->decoder.half = model->decoder.present ? &model->decoder : NULL;
    r->encoder.site = 0;
    r->decoder.site = 1u << 30;
}

static attn_status check_limit(int64_t value, int64_t low, int64_t high, const char *what,
                               attn_error *err)
{
    if (value < low || value > high)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s: %lld, expected %lld to %lld", what,
                          (long long)value, (long long)low, (long long)high);
    return ATTN_OK;
}

/* The decoder's rows where they are a table. */
static attn_status set_queries(attn__run *r, attn_error *err)
{
    int64_t n = r->model->config.queries;

    if (r->segments > INT32_MAX / n)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "segments: %lld with %lld queries each",
                          (long long)r->segments, (long long)n);
    r->decoder.rows = (size_t)(r->segments * n);
    r->decoder.longest = (size_t)n;
    return ATTN_OK;
}

static attn_status set_limits(attn__run *r, const attn_batch_limits *l, attn_error *err)
{
    TRY(check_limit(l->segments, 1, INT32_MAX, "segments", err));
    if (r->encoder.half) {
        TRY(check_limit(l->source_tokens, 0, INT32_MAX, "source_tokens", err));
        TRY(check_limit(l->longest_source, 0, l->source_tokens, "longest_source", err));
        r->encoder.rows = (size_t)l->source_tokens;
        r->encoder.longest = (size_t)l->longest_source;
    }
    if (r->model->config.queries > 0)
        return set_queries(r, err);
    if (r->decoder.half) {
        TRY(check_limit(l->target_tokens, 0, INT32_MAX, "target_tokens", err));
        TRY(check_limit(l->longest_target, 0, l->target_tokens, "longest_target", err));
        r->decoder.rows = (size_t)l->target_tokens;
        r->decoder.longest = (size_t)l->longest_target;
    }
    return ATTN_OK;
}

attn_status attn__check_ids(const attn__run *r, const int32_t *ids, const int64_t *starts,
                            int64_t vocabulary, const char *what, int64_t *longest, attn_error *err)
{
    *longest = 0;
    if (!starts || starts[0] != 0)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s_starts: NULL, or does not begin with 0",
                          what);
    for (int64_t i = 0; i < r->segments; i++) {
        int64_t n = starts[i + 1] - starts[i];
        if (starts[i + 1] < starts[i] || starts[i + 1] > INT32_MAX)
            return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s_starts[%lld]: %lld after %lld", what,
                              (long long)(i + 1), (long long)starts[i + 1], (long long)starts[i]);
        *longest = n > *longest ? n : *longest;
    }
    if (!ids && starts[r->segments] > 0)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s: NULL", what);
    for (int64_t i = 0; i < starts[r->segments]; i++)
        if (ids[i] < 0 || ids[i] >= vocabulary)
            return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s[%lld]: id %ld, expected 0 to %lld", what,
                              (long long)i, (long)ids[i], (long long)(vocabulary - 1));
    return ATTN_OK;
}

attn_status attn__check_places(const attn_model_config *c, int64_t longest, const char *what,
                               attn_error *err)
{
    if (c->positions == ATTN_POSITIONS_LEARNED && longest + c->position_offset > c->max_positions)
        return attn__fail(
            err, ATTN_E_ARGUMENT, 0,
            "%s: a sequence of %lld tokens, the table of positions has %lld rows, the "
            "first %lld unused",
            what, (long long)longest, (long long)c->max_positions, (long long)c->position_offset);
    return ATTN_OK;
}

static attn_status check_types(const attn__run *r, const int32_t *types, int64_t rows,
                               const char *what, attn_error *err)
{
    int64_t count = r->model->config.token_types;

    for (int64_t i = 0; count > 0 && types && i < rows; i++)
        if (types[i] < 0 || types[i] >= count)
            return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s_types[%lld]: %ld, expected 0 to %lld",
                              what, (long long)i, (long)types[i], (long long)(count - 1));
    return ATTN_OK;
}

/* Ids, starts and types of one side of a batch. */
static attn_status set_side(attn__run *r, attn__side *side, const int32_t *ids,
                            const int64_t *starts, const int32_t *types, int64_t vocabulary,
                            const char *what, attn_error *err)
{
    int64_t longest;

    if (!side->half)
        return ATTN_OK;
    TRY(attn__check_ids(r, ids, starts, vocabulary, what, &longest, err));
    TRY(attn__check_places(&r->model->config, longest, what, err));
    TRY(check_types(r, types, starts[r->segments], what, err));
    side->given = ids;
    side->starts = starts;
    side->types = types;
    side->rows = (size_t)starts[r->segments];
    side->longest = (size_t)longest;
    return ATTN_OK;
}

static attn_status set_batch(attn__run *r, const attn_batch *batch, attn_error *err)
{
    const attn_model_config *c = &r->model->config;
    bool both = r->encoder.half && r->decoder.half;

    r->batch = batch;
    TRY(check_limit(batch->segments, 1, INT32_MAX, "segments", err));
    TRY(check_limit(batch->first_segment, 0, INT32_MAX - batch->segments, "first_segment", err));
    TRY(set_side(r, &r->encoder, batch->source, batch->source_starts, batch->source_types,
                 both ? c->source_vocabulary : c->vocabulary, "source", err));
    if (c->queries > 0) {
        TRY(set_queries(r, err));
        TRY(attn__check_places(c, c->queries, "queries", err));
        r->decoder.types = batch->target_types;
        return check_types(r, batch->target_types, (int64_t)r->decoder.rows, "target", err);
    }
    return set_side(r, &r->decoder, batch->target, batch->target_starts, batch->target_types,
                    c->vocabulary, "target", err);
}

/* --- Rows ----------------------------------------------------------------------------------- */

/* The id that row i of a sequence shows to the model, -1 for a zero vector. */
static int32_t shown(const attn__run *r, const attn__side *side, int64_t first, int64_t i)
{
    const attn_model_config *c = &r->model->config;

    if (side->own_starts)
        return (int32_t)i;
    if (!side->half->causal || c->start == ATTN_START_NONE)
        return side->given[first + i];
    if (i > 0)
        return side->given[first + i - 1];
    return c->start == ATTN_START_TOKEN ? (int32_t)c->start_token : -1;
}

static void fill_rows(const attn__run *r, const attn__side *side)
{
    const attn_model_config *c = &r->model->config;
    int64_t offset = c->positions == ATTN_POSITIONS_LEARNED ? c->position_offset : 0;

    for (int64_t s = 0; side->half && s < r->segments; s++)
        for (int64_t first = side->starts[s], i = 0; first + i < side->starts[s + 1]; i++) {
            side->id[first + i] = shown(r, side, first, i);
            side->place[first + i] = (int32_t)i;
            side->sequence[first + i] = (int32_t)(r->batch->first_segment + s);
            side->at[first + i] = (int32_t)(i + offset);
        }
}

/* --- Calls ---------------------------------------------------------------------------------- */

attn_status attn_model_plan(const attn_model *model, const attn_batch_limits *limits, int flags,
                            size_t *bytes, attn_error *err)
{
    attn_batch_limits l;
    attn__run r;
    size_t size, work;

    if (!model || !bytes)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s: NULL", model ? "bytes" : "model");
    TRY(attn__take_struct(&l, sizeof l, limits, "limits", err));
    TRY(check_flags(flags, err));
    attn__open_run(&r, model, flags, l.segments);
    TRY(set_limits(&r, &l, err));
    size = attn__lay_out(&r, NULL);
    work = attn__estimate_work(&r);
    if (work == SIZE_MAX)
        return attn__fail(err, ATTN_E_MEMORY, 0, "plan: no memory for starts of %lld sequences",
                          (long long)l.segments);
    if (size == SIZE_MAX || !attn__add(size, work, &size))
        return attn__fail(err, ATTN_E_MEMORY, 0, "arena: its size exceeds the address space");
    *bytes = size;
    return ATTN_OK;
}

/* attn_forward checks the view itself; that of additive scores is checked here. */
static attn_status check_look(const attn__run *r, const attn_look *l, attn_error *err)
{
    const attn_model_config *c = &r->model->config;
    const attn__side *side = l->decoder ? &r->decoder : &r->encoder;
    const attn_view *w = &l->weights;

    if (!side->half || (l->cross && !(l->decoder && r->encoder.half)))
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "looks: the model has no such attention");
    if (l->layer < 0 || (size_t)l->layer >= side->half->layers)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "looks: layer %lld of %zu", (long long)l->layer,
                          side->half->layers);
    if (l->head < 0 || w->size[1] < 0 || l->head > c->heads - w->size[1])
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "looks: heads %lld to %lld of %lld",
                          (long long)l->head, (long long)(l->head + w->size[1] - 1),
                          (long long)c->heads);
    if (c->score != ATTN_SCORE_ADDITIVE)
        return ATTN_OK;
    if (l->stats)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "looks: additive scores have no statistics");
    if ((w->type != ATTN_F32 && w->type != ATTN_F64) || !w->data)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "looks: weights of type %s, or without data",
                          attn_type_name(w->type));
    if (w->size[0] != r->segments || w->size[2] != (int64_t)side->longest ||
        w->size[3] != (int64_t)(l->cross ? r->encoder.longest : side->longest))
        return attn__fail(err, ATTN_E_SHAPE, 0, "looks: weights of other sizes than the batch");
    return ATTN_OK;
}

static attn_status set_looks(attn__run *r, const attn_pass *pass, attn_error *err)
{
    r->looks = pass->looks;
    r->look_count = pass->looks ? pass->look_count : 0;
    for (size_t i = 0; i < r->look_count; i++)
        TRY(check_look(r, &r->looks[i], err));
    return ATTN_OK;
}

/* A run over the caller's arena. `batch` is the copy that the run points to. */
static attn_status open_pass(attn__run *r, const attn_model *model, const attn_pass *pass,
                             attn_batch *batch, attn_error *err)
{
    size_t size;

    TRY(attn__take_struct(batch, sizeof *batch, pass->batch, "batch", err));
    TRY(check_flags(pass->flags, err));
    attn__open_run(r, model, pass->flags, batch->segments);
    TRY(set_batch(r, batch, err));
    r->seed = pass->seed;
    size = attn__lay_out(r, NULL);
    if (size == SIZE_MAX || size > pass->arena_size)
        return attn__fail(err, ATTN_E_ARGUMENT, 0,
                          "arena_size: %zu, expected at least %zu (see attn_model_plan)",
                          pass->arena_size, size);
    if (!pass->arena || (uintptr_t)pass->arena % 64 != 0)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "arena: NULL, or not aligned to 64 bytes");
    attn__lay_out(r, pass->arena);
    for (int64_t i = 0; r->decoder.own_starts && i <= r->segments; i++)
        r->decoder.own_starts[i] = i * model->config.queries;
    if (r->decoder.own_starts)
        r->decoder.starts = r->decoder.own_starts;
    r->work = (char *)pass->arena + size;
    r->work_size = pass->arena_size - size;
    return ATTN_OK;
}

static attn_view hidden_view(const attn__run *r, const attn__side *side)
{
    return attn__matrix_view(r, side->hidden, side->rows, (size_t)r->model->config.d);
}

static attn_status forward(const attn__run *r, attn_pass *pass, attn_error *err)
{
    const attn__side *memory = r->encoder.half ? &r->encoder : NULL;

    fill_rows(r, &r->encoder);
    fill_rows(r, &r->decoder);
    if (memory)
        TRY(attn__stack_forward(r, memory, NULL, err));
    if (r->decoder.half)
        TRY(attn__stack_forward(r, &r->decoder, memory, err));
    pass->hidden = hidden_view(r, r->decoder.half ? &r->decoder : memory);
    pass->memory = (attn_view){0};
    if (memory && r->decoder.half)
        pass->memory = hidden_view(r, memory);
    return ATTN_OK;
}

static attn_status check_pass(const attn_model *model, const attn_pass *pass, attn_error *err)
{
    if (!model || !pass)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s: NULL", model ? "pass" : "model");
    if (pass->struct_size != sizeof *pass)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "pass.struct_size: %zu; use the _INIT macro",
                          pass->struct_size);
    return ATTN_OK;
}

attn_status attn__forward(const attn_model *model, attn_pass *pass, const attn__copies *copies,
                          attn__memory *memory, attn_error *err)
{
    attn__run r;
    attn_batch batch;
    uint64_t word;
    attn_status st;

    TRY(check_pass(model, pass, err));
    TRY(open_pass(&r, model, pass, &batch, err));
    TRY(set_looks(&r, pass, err));
    r.copies = copies;
    r.memory = memory;
    word = attn__fp_default();
    st = forward(&r, pass, err);
    attn__fp_restore(word);
    return st;
}

attn_status attn_model_forward(const attn_model *model, attn_pass *pass, attn_error *err)
{
    return attn__forward(model, pass, NULL, NULL, err);
}

static attn_status check_dhidden(const attn__run *r, const attn_view *dhidden, attn_error *err)
{
    const attn__side *side = r->decoder.half ? &r->decoder : &r->encoder;

    if (!dhidden)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "dhidden: NULL");
    if (dhidden->type != r->model->config.type)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "dhidden: type %s, expected %s",
                          attn_type_name(dhidden->type), attn_type_name(r->model->config.type));
    if (dhidden->size[0] != 1 || dhidden->size[1] != 1 || dhidden->size[2] != (int64_t)side->rows ||
        dhidden->size[3] != r->model->config.d)
        return attn__fail(err, ATTN_E_SHAPE, 0,
                          "dhidden: sizes [%lld, %lld, %lld, %lld], expected [1, 1, %zu, %lld]",
                          (long long)dhidden->size[0], (long long)dhidden->size[1],
                          (long long)dhidden->size[2], (long long)dhidden->size[3], side->rows,
                          (long long)r->model->config.d);
    if (dhidden->size[3] > 1 && dhidden->stride[3] != 1)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "dhidden: columns are not adjacent");
    if (!dhidden->data && side->rows > 0)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "dhidden: no data");
    return ATTN_OK;
}

static attn_status backward(const attn__run *r, const attn_view *dhidden, attn_error *err)
{
    const attn__side *memory = r->encoder.half ? &r->encoder : NULL;
    const attn__side *side = r->decoder.half ? &r->decoder : memory;
    size_t bytes = (size_t)r->model->config.d * r->unit;

    for (size_t i = 0; i < side->rows; i++)
        memcpy((char *)r->g + i * bytes,
               (const char *)dhidden->data + (ptrdiff_t)i * dhidden->stride[2] * (ptrdiff_t)r->unit,
               bytes);
    if (!r->decoder.half)
        return attn__stack_backward(r, memory, NULL, err);
    if (memory)
        memset(r->dmemory, 0, memory->rows * bytes);
    TRY(attn__stack_backward(r, side, memory, err));
    if (!memory)
        return ATTN_OK;
    memcpy(r->g, r->dmemory, memory->rows * bytes);
    return attn__stack_backward(r, memory, NULL, err);
}

attn_status attn_model_backward(const attn_model *model, attn_pass *pass, const attn_view *dhidden,
                                void *gradients, attn_error *err)
{
    attn__run r;
    attn_batch batch;
    uint64_t word;
    attn_status st;

    TRY(check_pass(model, pass, err));
    if (!gradients)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "gradients: NULL");
    if (!(pass->flags & ATTN_PASS_BACKWARD))
        return attn__fail(err, ATTN_E_ARGUMENT, 0,
                          "pass.flags: without ATTN_PASS_BACKWARD nothing was kept");
    TRY(open_pass(&r, model, pass, &batch, err));
    TRY(check_dhidden(&r, dhidden, err));
    r.gradients = gradients;
    word = attn__fp_default();
    st = backward(&r, dhidden, err);
    attn__fp_restore(word);
    return st;
}
