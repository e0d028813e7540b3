/* problem.c: answers about a checked call. The checks themselves are in check.c. */
#include "src/core/problem.h"

#include "src/base/ctx.h"
#include "src/base/half.h"
#include "src/core/cache.h"

double attn__read(const attn_view *view, int64_t b, int64_t h, int64_t i)
{
    const void *p = attn__cell(view, b, h, i);

    switch (view->type) {
    case ATTN_F16:
        return (double)attn__f16_to_f32(*(const uint16_t *)p);
    case ATTN_BF16:
        return (double)attn__bf16_to_f32(*(const uint16_t *)p);
    case ATTN_F64:
        return *(const double *)p;
    default:
        return (double)*(const float *)p;
    }
}

void attn__write(const attn_view *view, int64_t b, int64_t h, int64_t i, double x)
{
    void *p = attn__cell(view, b, h, i);

    if (view->type == ATTN_F64)
        *(double *)p = x;
    else
        *(float *)p = (float)x;
}

bool attn__sequences_differ(const attn__problem *p)
{
    const attn_mask *m = &p->mask;

    return p->cache || m->segments > 0 || m->q_offsets || m->k_offsets || m->k_start ||
           m->k_count || m->q_count;
}

void attn__get_sequence(const attn__problem *p, size_t b, attn__sequence *s)
{
    const attn_mask *m = &p->mask;
    int64_t start = m->k_start ? m->k_start[b] : 0;

    *s = (attn__sequence){.q_batch = (int64_t)b, .k_batch = (int64_t)b};
    s->rows = p->args.q.size[2];
    s->keys = p->k.size[2];
    if (m->segments > 0) {
        s->q_batch = s->k_batch = 0;
        s->q_row = m->q_starts[b];
        s->rows = m->q_starts[b + 1] - s->q_row;
        s->k_row = m->k_starts[b];
        s->keys = m->k_starts[b + 1] - s->k_row;
    }
    s->live_rows = m->q_count ? m->q_count[b] : s->rows;
    s->k_row += start;
    s->keys -= start;
    s->column = start;
    if (m->k_count)
        s->keys = m->k_count[b];
    s->q_pos = m->q_offset + (m->q_offsets ? m->q_offsets[b] : 0);
    s->k_pos = m->k_offset + (m->k_offsets ? m->k_offsets[b] : 0);
    if (p->cache) {
        s->k_pos = p->cache->first[b];
        s->keys = p->cache->length[b];
        s->q_pos += s->k_pos + s->keys - s->rows;
    }
}

bool attn__is_short(const attn__problem *p, const attn__sequence *s)
{
    const double most = 1 << 16; /* elements, all heads' together: half of a small L2 cache */

    return (double)(s->rows + s->keys) * (double)(p->d + p->dv) * (double)p->heads <= most;
}

void attn__ask_for(const attn_view *view, const attn__sequence *s, bool queries)
{
    int64_t first = queries ? s->q_row : s->k_row, rows = queries ? s->rows : s->keys;
    int64_t bytes = view->size[1] * view->size[3] * (int64_t)attn_type_size(view->type);

    if (!attn__present(view) || view->stride[3] != 1 || view->stride[1] != view->size[3])
        return;
    for (int64_t i = first; i < first + rows; i++) {
        const char *row = attn__cell(view, queries ? s->q_batch : s->k_batch, 0, i);
        for (int64_t at = 0; at < bytes; at += 64)
            ATTN__PREFETCH(row + at);
    }
}

void attn__visible_range(const attn__problem *p, const attn__sequence *s, int64_t i, int64_t *lo,
                         int64_t *hi)
{
    const attn_mask *m = &p->mask;
    int64_t pos = s->q_pos + i;

    *lo = s->k_pos;
    *hi = s->k_pos + s->keys;
    if (m->causal && *hi > pos + 1)
        *hi = pos + 1;
    /* Positions stay within 2^62 of zero (check.c), so a window that long is open. */
    if (m->window && m->window_left >= 0 && m->window_left < INT64_C(1) << 62 &&
        *lo < pos - m->window_left)
        *lo = pos - m->window_left;
    if (m->window && m->window_right >= 0 && m->window_right < INT64_C(1) << 62 &&
        *hi > pos + m->window_right + 1)
        *hi = pos + m->window_right + 1;
    if (*hi < *lo || i >= s->live_rows)
        *hi = *lo;
}

bool attn__block_visible(const attn__problem *p, size_t b, size_t h, int64_t pos_q,
                         int64_t tile_pos)
{
    const attn_block_list *l = &p->mask.blocks;
    int64_t row = pos_q / l->q_block, column = tile_pos / l->k_block, low, high;
    const int64_t *start;

    if (pos_q < 0 || row >= l->rows)
        return false;
    start = l->start + (int64_t)b * l->batch_stride + (int64_t)h * l->head_stride + row;
    low = start[0];
    high = start[1];
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (l->index[middle] < column)
            low = middle + 1;
        else
            high = middle;
    }
    return low < start[1] && l->index[low] == column;
}

uint64_t attn__keep_bits(const attn__problem *p, size_t b, size_t h, int64_t i, int64_t column,
                         size_t n)
{
    const attn_view *keep = &p->mask.keep;
    const uint8_t *row = attn__cell(keep, (int64_t)b, (int64_t)h, i);
    int64_t stride = keep->size[3] > 1 ? keep->stride[3] : 0;
    uint64_t bits = 0;

    row += column * stride;
    if (stride == 1)
        return p->ctx->kernels->keep_bits(row, n);
    if (stride == 0)
        return *row ? ~(uint64_t)0 >> (64 - n) : 0;
    for (size_t c = 0; c < n; c++)
        bits |= (uint64_t)(row[(int64_t)c * stride] != 0) << c;
    return bits;
}

/* Philox4x32-10 of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3"
 * (2011): a block of four words as a function of a counter and a key. */
static void philox(uint32_t x[4], uint32_t key0, uint32_t key1)
{
    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)0xd2511f53u * x[0], b = (uint64_t)0xcd9e8d57u * x[2];
        uint32_t y1 = x[1], y3 = x[3];

        x[0] = (uint32_t)(b >> 32) ^ y1 ^ key0;
        x[1] = (uint32_t)b;
        x[2] = (uint32_t)(a >> 32) ^ y3 ^ key1;
        x[3] = (uint32_t)a;
        key0 += 0x9e3779b9u;
        key1 += 0xbb67ae85u;
    }
}

uint64_t attn__dropout_bits(const attn__problem *p, size_t b, size_t h, int64_t pos_q,
                            int64_t tile_pos)
{
    const attn_forward_args *a = &p->args;
    uint32_t head = (uint32_t)((uint64_t)h + (uint64_t)a->dropout_head);
    uint32_t batch = (uint32_t)((uint64_t)b + (uint64_t)a->dropout_batch);
    uint64_t bits = 0;

    for (int c = 0; c < 64; c += 4) {
        uint32_t word[4] = {(uint32_t)((uint64_t)(tile_pos + c) >> 2), (uint32_t)pos_q, head,
                            batch};
        philox(word, (uint32_t)a->dropout_seed, (uint32_t)(a->dropout_seed >> 32));
        for (int i = 0; i < 4; i++)
            bits |= (uint64_t)(word[i] >= p->drop_below) << (c + i);
    }
    return bits;
}

size_t attn__key_run(const attn__problem *p, size_t b, const attn__sequence *s, size_t key_head,
                     int64_t j, size_t n, const void **k, const void **v)
{
    if (p->cache) {
        void *key, *value;
        size_t run =
            attn__cache_run(p->cache, (int64_t)b, (int64_t)key_head, s->k_pos + j, n, &key, &value);
        *k = key;
        *v = value;
        return run;
    }
    *k = attn__cell(&p->k, s->k_batch, (int64_t)key_head, s->k_row + j);
    *v = attn__cell(&p->v, s->k_batch, (int64_t)key_head, s->k_row + j);
    return n;
}
