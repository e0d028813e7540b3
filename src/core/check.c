/* check.c: what a call must satisfy before anything is computed or written. */
#include "src/core/problem.h"

#include "src/base/ctx.h"
#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/core/cache.h"
#include "src/core/stats.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Positions and offsets stay this far from the ends of int64, so that sums of two cannot wrap. */
#define POSITION_LIMIT (INT64_C(1) << 60)

attn_status attn__copy_struct(void *to, size_t known, const void *from, const char *what,
                              attn_error *err)
{
    size_t size;

    if (!from)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s: NULL, expected a struct", what);
    memcpy(&size, from, sizeof size);
    if (size < sizeof size)
        return attn__fail(err, ATTN_E_ARGUMENT, 0,
                          "%s.struct_size: %zu, expected sizeof the struct (use the _INIT macro)",
                          what, size);
    for (size_t i = known; i < size; i++)
        if (((const unsigned char *)from)[i] != 0)
            return attn__fail(err, ATTN_E_ARGUMENT, 0,
                              "%s: sets a field that this version (" ATTN_VERSION ") does not know",
                              what);
    memset(to, 0, known);
    memcpy(to, from, size < known ? size : known);
    return ATTN_OK;
}

attn_status attn__check_broadcast(const attn_view *view, const char *what, const int64_t full[4],
                                  bool packed, attn_error *err)
{
    static const char *const axis[] = {"batch", "heads", "rows", "columns"};

    for (int i = 0; i < 4; i++) {
        int64_t size = view->size[i];
        if (size == 1 || size == full[i] || (packed && i >= 2 && size > full[i]))
            continue;
        return attn__fail(err, ATTN_E_SHAPE, 0, "%s: %s = %lld, expected 1 or %lld%s", what,
                          axis[i], (long long)size, (long long)full[i],
                          packed && i >= 2 ? " or more" : "");
    }
    return ATTN_OK;
}

attn_status attn__check_tensor(const attn_view *view, const char *what, bool output,
                               attn_error *err)
{
    TRY(attn__check_view(view, what, output, err));
    if (!attn__is_float(view->type))
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s: type %s, expected f32, f16, bf16 or f64",
                          what, attn_type_name(view->type));
    return ATTN_OK;
}

attn_status attn__check_matching(const attn__problem *p, const attn_view *view, const char *what,
                                 bool output, const int64_t size[4], attn_error *err)
{
    TRY(attn__check_tensor(view, what, output, err));
    TRY(attn__check_size(view, what, size[0], size[1], size[2], size[3], err));
    if ((view->type == ATTN_F64) != p->f64)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s: type %s with q of type %s", what,
                          attn_type_name(view->type), attn_type_name(p->args.q.type));
    return ATTN_OK;
}

static attn_status check_types(const attn__problem *p, attn_error *err)
{
    const attn_view *view[] = {&p->args.q, &p->k, &p->v, &p->args.out};
    static const char *const name[] = {"q", "k", "v", "out"};

    for (int i = 1; i < 4; i++)
        if (attn__present(view[i]) && (view[i]->type == ATTN_F64) != p->f64)
            return attn__fail(err, ATTN_E_ARGUMENT, 0,
                              "%s: type %s with q of type %s (f64 goes with f64 only)", name[i],
                              attn_type_name(view[i]->type), attn_type_name(p->args.q.type));
    return ATTN_OK;
}

attn_status attn__check_per_head(const attn__problem *p, const attn_view *view, const char *what,
                                 bool half, bool output, attn_error *err)
{
    TRY(attn__check_tensor(view, what, output, err));
    if ((view->type == ATTN_F64) != p->f64 || (!half && view->type != ATTN_F32 && !p->f64))
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s: type %s, expected %s", what,
                          attn_type_name(view->type),
                          p->f64 ? "f64"
                          : half ? "f32, f16 or bf16"
                                 : "f32");
    if (view->size[0] != 1)
        return attn__check_size(view, what, (int64_t)p->sequences, (int64_t)p->heads, 1, 1, err);
    return attn__check_size(view, what, 1, (int64_t)p->heads, 1, 1, err);
}

attn_status attn__check_row_output(const attn__problem *p, const attn_view *view, const char *what,
                                   bool output, bool either, attn_error *err)
{
    TRY(attn__check_view(view, what, output, err));
    if (view->type != (p->f64 ? ATTN_F64 : ATTN_F32) &&
        !(either && (view->type == ATTN_F64 || view->type == ATTN_F32)))
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s: type %s, expected %s", what,
                          attn_type_name(view->type),
                          either   ? "f32 or f64"
                          : p->f64 ? "f64"
                                   : "f32");
    return attn__check_size(view, what, p->args.q.size[0], (int64_t)p->heads, p->args.q.size[2], 1,
                            err);
}

static attn_status check_partial(const attn__problem *p, const attn_partial *partial,
                                 const char *what, bool output, attn_error *err)
{
    char name[32];

    snprintf(name, sizeof name, "%s.out", what);
    TRY(attn__check_view(&partial->out, name, output, err));
    if (partial->out.type != (p->f64 ? ATTN_F64 : ATTN_F32))
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s: type %s, expected %s", name,
                          attn_type_name(partial->out.type), p->f64 ? "f64" : "f32");
    TRY(attn__check_size(&partial->out, name, p->args.q.size[0], (int64_t)p->heads,
                         p->args.q.size[2], (int64_t)p->dv, err));
    snprintf(name, sizeof name, "%s.max", what);
    TRY(attn__check_row_output(p, &partial->max, name, output, false, err));
    snprintf(name, sizeof name, "%s.sum", what);
    return attn__check_row_output(p, &partial->sum, name, output, false, err);
}

static attn_status check_prefix_sums(const int64_t *starts, int64_t segments, int64_t last,
                                     const char *what, int64_t *longest, attn_error *err)
{
    if (!starts)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s: NULL in a packed batch of %lld segments",
                          what, (long long)segments);
    if (starts[0] != 0)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s[0]: %lld, expected 0", what,
                          (long long)starts[0]);
    *longest = 0;
    for (int64_t i = 0; i < segments; i++) {
        if (starts[i + 1] < starts[i] || starts[i + 1] > last)
            return attn__fail(err, ATTN_E_ARGUMENT, 0,
                              "%s[%lld]: %lld, expected ascending numbers up to %lld", what,
                              (long long)(i + 1), (long long)starts[i + 1], (long long)last);
        if (starts[i + 1] - starts[i] > *longest)
            *longest = starts[i + 1] - starts[i];
    }
    if (starts[segments] != last)
        return attn__fail(err, ATTN_E_ARGUMENT, 0,
                          "%s[%lld]: %lld, expected the %lld rows there are", what,
                          (long long)segments, (long long)starts[segments], (long long)last);
    return ATTN_OK;
}

static attn_status out_of_range(const char *what, size_t b, int64_t value, int64_t low,
                                int64_t high, attn_error *err)
{
    return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s of sequence %zu: %lld, expected %lld .. %lld",
                      what, b, (long long)value, (long long)low, (long long)high);
}

/* a + b without wrapping; false unless both and the sum are within the limit. */
static bool add_positions(int64_t a, int64_t b, int64_t *sum)
{
    if (a < -POSITION_LIMIT || a > POSITION_LIMIT || b < -POSITION_LIMIT || b > POSITION_LIMIT)
        return false;
    *sum = a + b;
    return *sum >= -POSITION_LIMIT && *sum <= POSITION_LIMIT;
}

static attn_status check_sequence(const attn__problem *p, size_t b, attn_error *err)
{
    const attn_mask *m = &p->mask;
    int64_t rows = p->args.q.size[2], keys = p->k.size[2], start = 0, position;

    if (m->segments > 0) {
        rows = m->q_starts[b + 1] - m->q_starts[b];
        keys = m->k_starts[b + 1] - m->k_starts[b];
    }
    if (m->k_start) {
        start = m->k_start[b];
        if (start < 0 || start > keys)
            return out_of_range("mask.k_start", b, start, 0, keys, err);
    }
    if (m->k_count && (m->k_count[b] < 0 || m->k_count[b] > keys - start))
        return out_of_range("mask.k_count", b, m->k_count[b], 0, keys - start, err);
    if (m->q_count && (m->q_count[b] < 0 || m->q_count[b] > rows))
        return out_of_range("mask.q_count", b, m->q_count[b], 0, rows, err);
    if (!add_positions(m->q_offset, m->q_offsets ? m->q_offsets[b] : 0, &position))
        return attn__fail(err, ATTN_E_ARGUMENT, 0,
                          "mask.q_offset of sequence %zu: beyond 2^60 from position 0", b);
    if (!add_positions(m->k_offset, m->k_offsets ? m->k_offsets[b] : 0, &position) || position < 0)
        return attn__fail(err, ATTN_E_ARGUMENT, 0,
                          "mask.k_offset of sequence %zu: key positions must be 0 .. 2^60", b);
    return ATTN_OK;
}

static attn_status check_blocks(const attn__problem *p, attn_error *err)
{
    const attn_block_list *l = &p->mask.blocks;

    if (l->q_block <= 0 || l->q_block % 64 || l->k_block <= 0 || l->k_block % 64)
        return attn__fail(err, ATTN_E_ARGUMENT, 0,
                          "mask.blocks: sides %lld x %lld, expected positive multiples of 64",
                          (long long)l->q_block, (long long)l->k_block);
    if (l->rows < 0 || l->k_blocks < 0 || l->index_count < 0 || (l->index_count > 0 && !l->index))
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "mask.blocks: negative count or NULL index");
    for (size_t b = 0; b < (l->batch_stride ? p->sequences : 1); b++) {
        for (size_t h = 0; h < (l->head_stride ? p->heads : 1); h++) {
            const int64_t *start =
                l->start + (int64_t)b * l->batch_stride + (int64_t)h * l->head_stride;
            for (int64_t r = 0; r < l->rows; r++) {
                if (start[r] < 0 || start[r + 1] < start[r] || start[r + 1] > l->index_count)
                    return attn__fail(
                        err, ATTN_E_ARGUMENT, 0,
                        "mask.blocks.start: entry %lld of (%zu, %zu) is not ascending "
                        "within 0 .. %lld",
                        (long long)(r + 1), b, h, (long long)l->index_count);
                for (int64_t i = start[r]; i < start[r + 1]; i++)
                    if (l->index[i] < 0 || l->index[i] >= l->k_blocks ||
                        (i > start[r] && l->index[i] <= l->index[i - 1]))
                        return attn__fail(
                            err, ATTN_E_ARGUMENT, 0,
                            "mask.blocks.index[%lld]: %lld, expected ascending numbers "
                            "below %lld",
                            (long long)i, (long long)l->index[i], (long long)l->k_blocks);
            }
        }
    }
    return ATTN_OK;
}

/* Number of sequences, longest lengths; needs the shapes of q and k. */
static attn_status check_batch(attn__problem *p, attn_error *err)
{
    const attn_mask *m = &p->mask;

    p->sequences = (size_t)p->args.q.size[0];
    p->rows = p->args.q.size[2];
    p->columns = p->k.size[2];
    if (m->segments < 0)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "mask.segments: %lld, expected 0 or more",
                          (long long)m->segments);
    if (p->cache && (m->segments || m->k_offset || m->k_offsets || m->k_start || m->k_count))
        return attn__fail(err, ATTN_E_ARGUMENT, 0,
                          "mask: segments, k_offset, k_offsets, k_start and k_count belong to the "
                          "cache in attn_decode");
    if (p->cache) {
        p->columns = 0;
        for (size_t b = 0; b < p->sequences; b++) {
            if (p->cache->length[b] > p->columns)
                p->columns = p->cache->length[b];
            TRY(attn__cache_check_pages(p->cache, (int64_t)b, p->cache->first[b],
                                        p->cache->length[b], err));
        }
    }
    if (m->segments == 0) {
        if (m->q_starts || m->k_starts)
            return attn__fail(err, ATTN_E_ARGUMENT, 0,
                              "mask.segments: 0, but q_starts or k_starts is given");
    } else {
        if (p->args.q.size[0] != 1)
            return attn__fail(err, ATTN_E_SHAPE, 0, "q: batch = %lld, expected 1 in a packed batch",
                              (long long)p->args.q.size[0]);
        p->sequences = (size_t)m->segments;
        TRY(check_prefix_sums(m->q_starts, m->segments, p->args.q.size[2], "mask.q_starts",
                              &p->rows, err));
        TRY(check_prefix_sums(m->k_starts, m->segments, p->k.size[2], "mask.k_starts", &p->columns,
                              err));
    }
    /* Sequences that nothing tells apart pass or fail together. */
    for (size_t b = 0; b < p->sequences && (b == 0 || attn__sequences_differ(p)); b++)
        TRY(check_sequence(p, b, err));
    return ATTN_OK;
}

static attn_status check_mask(attn__problem *p, attn_error *err)
{
    attn_mask *m = &p->mask;
    int64_t full[4] = {(int64_t)p->sequences, (int64_t)p->heads, p->rows, p->columns};

    if (m->window && (m->window_left < -1 || m->window_right < -1))
        return attn__fail(err, ATTN_E_ARGUMENT, 0,
                          "mask.window: (%lld, %lld), expected -1 (open) or more on each side",
                          (long long)m->window_left, (long long)m->window_right);
    if (p->has_keep) {
        TRY(attn__check_view(&m->keep, "mask.keep", false, err));
        if (m->keep.type != ATTN_U8 && m->keep.type != ATTN_BOOL)
            return attn__fail(
                err, ATTN_E_ARGUMENT, 0,
                "mask.keep: type %s, expected u8 or bool (numbers to be added go to mask.bias)",
                attn_type_name(m->keep.type));
        TRY(attn__check_broadcast(&m->keep, "mask.keep", full, m->segments > 0, err));
    }
    if (p->has_bias) {
        TRY(attn__check_tensor(&m->bias, "mask.bias", false, err));
        if ((m->bias.type == ATTN_F64) != p->f64)
            return attn__fail(err, ATTN_E_ARGUMENT, 0, "mask.bias: type %s with q of type %s",
                              attn_type_name(m->bias.type), attn_type_name(p->args.q.type));
        TRY(attn__check_broadcast(&m->bias, "mask.bias", full, m->segments > 0, err));
    }
    if (p->has_alibi)
        TRY(attn__check_per_head(p, &m->alibi, "mask.alibi", true, false, err));
    if (m->blocks.start)
        TRY(check_blocks(p, err));
    return ATTN_OK;
}

static attn_status check_numbers(attn__problem *p, attn_error *err)
{
    attn_forward_args *a = &p->args;

    if (!a->has_scale)
        a->scale = 1 / sqrt((double)p->d);
    if (!isfinite(a->scale))
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "scale: %g, expected a finite number", a->scale);
    if (!isfinite(a->softcap) || a->softcap < 0)
        return attn__fail(err, ATTN_E_ARGUMENT, 0,
                          "softcap: %g, expected 0 (none) or a positive number", a->softcap);
    if (!p->f64 && (!isfinite((float)a->scale) || !isfinite((float)a->softcap) ||
                    (a->softcap > 0 && (float)a->softcap == 0)))
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "scale or softcap: out of the range of f32");
    if (!(a->dropout >= 0 && a->dropout < 1))
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "dropout: %g, expected 0 <= p < 1", a->dropout);
    p->drop_below = (uint64_t)(a->dropout * 0x1p32);
    return ATTN_OK;
}

static bool needs_values(const attn__problem *p)
{
    return p->has_out || p->has_delta || p->args.partial || p->args.start;
}

static attn_status check_inputs(attn__problem *p, attn_error *err)
{
    const attn_view *q = &p->args.q, *k = &p->k, *v = &p->v;
    bool has_v = attn__present(v);

    TRY(attn__check_tensor(q, "q", false, err));
    if (!p->cache) { /* a cache has seen to its own */
        TRY(attn__check_tensor(k, "k", false, err));
        if (has_v)
            TRY(attn__check_tensor(v, "v", false, err));
    }
    if (!has_v && needs_values(p))
        return attn__fail(err, ATTN_E_ARGUMENT, 0,
                          "v: absent, but out, delta, partial or start is given");
    p->f64 = q->type == ATTN_F64;
    p->heads = (size_t)q->size[1];
    p->key_heads = (size_t)k->size[1];
    p->d = (size_t)q->size[3];
    p->dv = (size_t)v->size[3];
    p->width = (p->dv + 15) / 16 * 16;
    if (p->d == 0 || (p->dv == 0 && has_v))
        return attn__fail(err, ATTN_E_SHAPE, 0, "%s: columns = 0, expected at least 1",
                          p->d == 0 ? "q" : "v");
    if (k->size[3] != q->size[3])
        return attn__fail(err, ATTN_E_SHAPE, 0, "k: columns = %lld, expected q's %lld",
                          (long long)k->size[3], (long long)q->size[3]);
    if (has_v && (k->size[2] != v->size[2] || k->size[1] != v->size[1] || k->size[0] != v->size[0]))
        return attn__fail(err, ATTN_E_SHAPE, 0,
                          "v: [%lld, %lld, %lld, ...], expected k's [%lld, %lld, %lld, ...]",
                          (long long)v->size[0], (long long)v->size[1], (long long)v->size[2],
                          (long long)k->size[0], (long long)k->size[1], (long long)k->size[2]);
    if (!p->cache && k->size[0] != q->size[0])
        return attn__fail(err, ATTN_E_SHAPE, 0, "k: batch = %lld, expected q's %lld",
                          (long long)k->size[0], (long long)q->size[0]);
    if (p->cache && p->cache->options.batch < q->size[0])
        return attn__fail(err, ATTN_E_SHAPE, 0, "q: batch = %lld, the cache has %lld sequences",
                          (long long)q->size[0], (long long)p->cache->options.batch);
    if (p->heads > 0 && (p->key_heads == 0 || p->heads % p->key_heads != 0))
        return attn__fail(err, ATTN_E_SHAPE, 0, "q: heads = %lld, expected a multiple of k's %lld",
                          (long long)q->size[1], (long long)k->size[1]);
    p->group = p->heads > 0 ? p->heads / p->key_heads : 1;
    return ATTN_OK;
}

static attn_status check_outputs(attn__problem *p, attn_error *err)
{
    attn_forward_args *a = &p->args;
    const int64_t rows[4] = {a->q.size[0], a->q.size[1], a->q.size[2], (int64_t)p->dv};

    if (!p->has_out && !p->has_lse && !p->has_weights && !p->has_delta && !p->has_stats &&
        !a->partial)
        return attn__fail(
            err, ATTN_E_ARGUMENT, 0,
            "out: absent, and no other output (lse, weights, delta, stats, partial) is asked for");
    if (a->partial && (p->has_out || p->has_lse || p->has_weights))
        return attn__fail(err, ATTN_E_ARGUMENT, 0,
                          "partial: excludes out, lse and weights (attn_merge makes them)");
    if (a->partial && p->has_sink)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "sink: enters at the merge, not in a partial");
    if (p->has_out) {
        TRY(attn__check_tensor(&a->out, "out", true, err));
        TRY(attn__check_size(&a->out, "out", a->q.size[0], a->q.size[1], a->q.size[2],
                             (int64_t)p->dv, err));
    }
    if (p->has_lse)
        TRY(attn__check_row_output(p, &a->lse, "lse", true, true, err));
    if (p->has_weights) {
        TRY(attn__check_tensor(&a->weights, "weights", true, err));
        if (a->weights_head < 0 || a->weights.size[1] > (int64_t)p->heads - a->weights_head)
            return attn__fail(
                err, ATTN_E_SHAPE, 0,
                "weights: %lld heads from %lld on, expected some of the %zu there are",
                (long long)a->weights.size[1], (long long)a->weights_head, p->heads);
        TRY(attn__check_size(&a->weights, "weights", (int64_t)p->sequences, a->weights.size[1],
                             p->rows, p->columns, err));
    }
    if (a->partial) {
        p->partial = *a->partial;
        TRY(check_partial(p, &p->partial, "partial", true, err));
    }
    if (a->start) {
        p->start = *a->start;
        TRY(check_partial(p, &p->start, "start", false, err));
    }
    if (p->has_delta) {
        if (a->partial)
            return attn__fail(err, ATTN_E_ARGUMENT, 0, "delta: not with partial");
        TRY(attn__check_row_output(p, &a->delta, "delta", true, true, err));
        TRY(attn__check_matching(p, &a->dout, "dout", false, rows, err));
    }
    if (p->has_sink)
        TRY(attn__check_per_head(p, &a->sink, "sink", false, false, err));
    return ATTN_OK;
}

static attn_status check_overlap(const attn__problem *p, attn_error *err)
{
    const attn_forward_args *a = &p->args;
    const attn_view *output[] = {&a->out,         &a->lse,         &a->weights,    &a->delta,
                                 &p->partial.out, &p->partial.max, &p->partial.sum};
    static const char *const output_name[] = {"out",         "lse",         "weights",    "delta",
                                              "partial.out", "partial.max", "partial.sum"};
    const attn_view *input[] = {&a->q,         &p->k,         &p->v,         &a->sink,
                                &a->dout,      &p->mask.keep, &p->mask.bias, &p->mask.alibi,
                                &p->start.out, &p->start.max, &p->start.sum};
    static const char *const input_name[] = {"q",         "k",         "v",         "sink",
                                             "dout",      "mask.keep", "mask.bias", "mask.alibi",
                                             "start.out", "start.max", "start.sum"};

    for (size_t i = 0; i < sizeof output / sizeof *output; i++) {
        for (size_t j = 0; j < sizeof input / sizeof *input; j++) {
            /* out over q, unless q is read again; a record continued in place */
            bool may_equal =
                (i == 0 && j == 0 && p->d == p->dv && !p->second_sweep) || (i >= 4 && j == i + 4);
            if (attn__clash(output[i], input[j], may_equal))
                return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s: overlaps %s", output_name[i],
                                  input_name[j]);
        }
        for (size_t j = 0; j < i; j++)
            if (attn__clash(output[i], output[j], false))
                return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s: overlaps %s", output_name[i],
                                  output_name[j]);
    }
    if (!p->has_stats)
        return ATTN_OK;
    return attn__check_stats_overlap(p, output, output_name, sizeof output / sizeof *output, input,
                                     input_name, sizeof input / sizeof *input, err);
}

static bool repeats(const attn_view *view, int axis)
{
    return view->size[axis] == 1 || view->stride[axis] == 0;
}

attn_status attn__problem_init(attn__problem *p, const attn_ctx *ctx, const attn_cache *cache,
                               const attn_forward_args *args, attn_error *err)
{
    attn_forward_args *a = &p->args;

    memset(p, 0, sizeof *p);
    if (!ctx)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "ctx: NULL");
    p->ctx = ctx;
    p->cache = cache;
    TRY(attn__copy_struct(a, sizeof *a, args, "args", err));
    if (a->mask)
        TRY(attn__copy_struct(&p->mask, sizeof p->mask, a->mask, "mask", err));
    if (cache && (attn__present(&a->k) || attn__present(&a->v)))
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "k, v: must be absent in attn_decode");
    if (cache && cache->tiled && cache->ctx->kernels != ctx->kernels)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "cache: made for %s, the context uses %s",
                          attn_kernel_set_name(cache->ctx->kernels->set),
                          attn_kernel_set_name(ctx->kernels->set));
    p->k = cache ? cache->k : a->k;
    p->v = cache ? cache->v : a->v;
    p->has_keep = attn__present(&p->mask.keep);
    p->has_bias = attn__present(&p->mask.bias);
    p->has_alibi = attn__present(&p->mask.alibi);
    p->has_sink = attn__present(&a->sink);
    p->has_out = attn__present(&a->out);
    p->has_lse = attn__present(&a->lse);
    p->has_weights = attn__present(&a->weights);
    p->has_delta = attn__present(&a->delta);
    if (a->stats) {
        TRY(attn__copy_struct(&p->stats, sizeof p->stats, a->stats, "stats", err));
        p->has_stats = true;
    }
    TRY(check_inputs(p, err));
    TRY(check_types(p, err));
    TRY(check_batch(p, err));
    TRY(check_numbers(p, err));
    TRY(check_mask(p, err));
    TRY(check_outputs(p, err));
    if (p->has_stats)
        TRY(attn__check_stats(p, err));
    TRY(check_overlap(p, err));
    attn__tame(&a->q);
    attn__tame(&a->out);
    attn__tame(&a->dout);
    if (!cache) { /* blocks of a cache have rows behind sizes of 1 */
        attn__tame(&p->k);
        attn__tame(&p->v);
    }
    p->keep_repeats = p->has_keep && repeats(&p->mask.keep, 1) && repeats(&p->mask.keep, 2);
    p->masks_cells = p->has_keep || p->mask.blocks.start;
    p->changes_scores = a->softcap > 0 || p->has_bias || p->has_alibi || p->mask.tile;
    return ATTN_OK;
}
