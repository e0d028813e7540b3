/* calls_mask.c: the mask of a call: lists, masks and block lists from words and files. */
#define _POSIX_C_SOURCE 200809L

#include "cli/calls.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/arrays.h"
#include "cli/console.h"

/* --- Lists of integers ---------------------------------------------------------------------- */

static int looks_like_list(const char *text)
{
    return strspn(text, "0123456789+-,") == strlen(text);
}

/* Whole tensor of integers as int64, in C order. NULL after a message. */
static int64_t *integers_of(const char *path, const attn_tensor *t)
{
    int64_t count = cli_count(t), *items = cli_take((size_t)count * sizeof *items);
    char text[256];

    for (int64_t i = 0; i < count; i++) {
        if (!cli_integer_at(t, i, &items[i])) {
            cli_error("%s: holds %s; expected integers", path, cli_tensor_text(text, t));
            return NULL;
        }
    }
    return items;
}

/* For words that are neither a list nor, it turns out, a file. */
static int check_readable(const char *flag, const char *path)
{
    if (access(path, R_OK) == 0)
        return 0;
    return cli_usage("--%s: '%s' is neither a list of numbers nor a file to read (%s)", flag, path,
                     strerror(errno));
}

/* One integer a sequence. A single one stands for all. */
static int sequence_list(const cli_call *c, int option, const int64_t **out)
{
    const char *flag = c->options[option].name, *text = c->o[option].text;
    int64_t *items, *all;
    size_t count, sequences = (size_t)c->sequences;
    char asked[64];
    int code;

    if (!c->o[option].given)
        return 0;
    if (looks_like_list(text)) {
        count = cli_read_integers(text, &items);
        if (count == 0)
            return cli_usage("--%s: '%s' is no list of integers such as 4,7,2", flag, text);
    } else {
        const attn_tensor *t;
        if ((code = check_readable(flag, text)) != 0)
            return code;
        snprintf(asked, sizeof asked, "--%s", flag);
        t = cli_pick(text, flag, 0, asked);
        items = t ? integers_of(text, t) : NULL;
        if (!items)
            return CLI_FAILED;
        count = (size_t)cli_count(t);
    }
    if (count != sequences && count != 1)
        return cli_error("--%s: got %zu values; expected 1, or one a sequence (here %zu)", flag,
                         count, sequences);
    all = cli_take((sequences + 1) * sizeof *all);
    for (size_t i = 0; i < sequences; i++)
        all[i] = items[count == 1 ? 0 : i];
    *out = all;
    return 0;
}

static int ascends(const int64_t *starts, size_t count)
{
    for (size_t i = 1; i < count; i++)
        if (starts[i] < starts[i - 1])
            return 0;
    return starts[0] == 0;
}

/* "0,3,7:0,5,9": first rows of the segments of queries and of keys, and the end. */
static int fill_segments(cli_call *c)
{
    const char *text = c->o[CALL_SEGMENTS].text, *colon;
    char *first;
    int64_t *q, *k;
    size_t nq, nk;

    if (!c->o[CALL_SEGMENTS].given)
        return 0;
    colon = strchr(text, ':');
    first = cli_take(strlen(text) + 1);
    memcpy(first, text, colon ? (size_t)(colon - text) : strlen(text));
    nq = cli_read_integers(first, &q);
    nk = cli_read_integers(colon ? colon + 1 : first, &k);
    if (nq < 2 || nk < 2)
        return cli_usage("--segments: '%s' should look like 0,3,7:0,5,9 (first rows of the "
                         "segments in q, then in k; each list ends with the number of rows)",
                         text);
    if (nq != nk)
        return cli_usage("--segments: %zu segments of queries but %zu of keys", nq - 1, nk - 1);
    if (!ascends(q, nq) || !ascends(k, nk))
        return cli_usage("--segments: '%s': each list must start with 0 and not descend", text);
    if (c->args.q.size[0] != 1)
        return cli_error("%s: --segments needs a batch of 1, not %lld", c->q_path,
                         (long long)c->args.q.size[0]);
    c->mask.segments = c->sequences = (int64_t)(nq - 1);
    c->mask.q_starts = q;
    c->mask.k_starts = k;
    return 0;
}

/* --- Positions ------------------------------------------------------------------------------ */

/* Sums of numbers that the library has yet to judge may wrap, but must not be undefined. */
static int64_t plus(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

static int64_t minus(int64_t a)
{
    return (int64_t)(0 - (uint64_t)a);
}

/* Rows of sequence b in q and in k. */
static void sequence_rows(const cli_call *c, int64_t b, int64_t *tq, int64_t *tk)
{
    const attn_mask *m = &c->mask;

    *tq = m->segments ? m->q_starts[b + 1] - m->q_starts[b] : c->tq;
    *tk = m->segments ? m->k_starts[b + 1] - m->k_starts[b] : c->tk;
}

/* First key row and the row past the last that exist, and the query rows that exist. */
static void sequence_ranges(const cli_call *c, int64_t b, int64_t *k_from, int64_t *k_to,
                            int64_t *q_rows)
{
    const attn_mask *m = &c->mask;
    int64_t tq, tk;

    sequence_rows(c, b, &tq, &tk);
    *k_from = m->k_start ? m->k_start[b] : 0;
    *k_to = m->k_count ? plus(*k_from, m->k_count[b]) : tk;
    *q_rows = m->q_count ? m->q_count[b] : tq;
}

static int64_t key_offset(const cli_call *c, int64_t b)
{
    return plus(c->mask.k_offset, c->mask.k_offsets ? c->mask.k_offsets[b] : 0);
}

/* "end": the last query of every sequence stands where its last key stands. */
static int align_ends(cli_call *c)
{
    int64_t *offsets = cli_take(((size_t)c->sequences + 1) * sizeof *offsets);

    if (c->mask.q_offsets)
        return cli_usage("--q-offset end and --q-offsets exclude each other");
    for (int64_t b = 0; b < c->sequences; b++) {
        int64_t from, to, rows;
        sequence_ranges(c, b, &from, &to, &rows);
        offsets[b] = plus(plus(key_offset(c, b), to), minus(rows));
    }
    c->mask.q_offsets = offsets;
    return 0;
}

static int fill_positions(cli_call *c)
{
    static const struct {
        int option;
        size_t field;
    } lists[] = {{CALL_Q_OFFSETS, offsetof(attn_mask, q_offsets)},
                 {CALL_K_OFFSETS, offsetof(attn_mask, k_offsets)},
                 {CALL_K_START, offsetof(attn_mask, k_start)},
                 {CALL_K_COUNT, offsetof(attn_mask, k_count)},
                 {CALL_Q_COUNT, offsetof(attn_mask, q_count)}};
    const cli_value *q_offset = &c->o[CALL_Q_OFFSET];

    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        const int64_t *items = NULL;
        int code = sequence_list(c, lists[i].option, &items);
        if (code)
            return code;
        memcpy((char *)&c->mask + lists[i].field, &items, sizeof items);
    }
    c->mask.k_offset = c->o[CALL_K_OFFSET].integer;
    if (!q_offset->given)
        return 0;
    if (strcmp(q_offset->text, "end") == 0)
        return align_ends(c);
    if (!cli_read_integer(q_offset->text, &c->mask.q_offset))
        return cli_usage("--q-offset: '%s' is neither an integer nor 'end'", q_offset->text);
    return 0;
}

static int fill_window(cli_call *c)
{
    int64_t *sides;

    if (!c->o[CALL_WINDOW].given)
        return 0;
    if (cli_read_integers(c->o[CALL_WINDOW].text, &sides) != 2 || sides[0] < -1 || sides[1] < -1)
        return cli_usage("--window: '%s' should be LEFT,RIGHT: keys before and after a query's own "
                         "position, -1 for no limit, such as 128,0",
                         c->o[CALL_WINDOW].text);
    c->mask.window = 1;
    c->mask.window_left = sides[0];
    c->mask.window_right = sides[1];
    return 0;
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static double smaller(double a, double b)
{
    return a < b ? a : b;
}

double cli_call_pairs(const cli_call *call)
{
    const attn_mask *m = &call->mask;
    double pairs = 0;

    for (int64_t b = 0; b < call->sequences; b++) {
        int64_t from, to, rows;
        double shift = (double)m->q_offset + (double)(m->q_offsets ? m->q_offsets[b] : 0) -
                       (double)key_offset(call, b);
        sequence_ranges(call, b, &from, &to, &rows);
        for (int64_t i = 0; i < rows; i++) {
            double first = (double)from, last = (double)to - 1, row = shift + (double)i;
            if (m->causal)
                last = smaller(last, row);
            if (m->window && m->window_left >= 0)
                first = larger(first, row - (double)m->window_left);
            if (m->window && m->window_right >= 0)
                last = smaller(last, row + (double)m->window_right);
            pairs += larger(0, last - first + 1);
        }
    }
    return pairs * (double)call->heads;
}

/* --- Arrays --------------------------------------------------------------------------------- */

/* A mask of 1 to 4 axes, aligned at the last: [keys], [queries, keys], [heads, queries, keys], ...
 */
static int mask_view(const attn_tensor *t, const char *path, attn_view *view)
{
    attn_error err = {0};
    attn_status status;

    if (t->rank == 1) {
        *view = attn_view_bhsd(t->data, t->type, 1, 1, 1, t->size[0]);
        view->stride[3] = t->stride[0];
        return 0;
    }
    status = attn_tensor_view(t, 0, view, &err);
    return status == ATTN_OK ? 0 : cli_failed(path, status, &err);
}

static int load_bytes(const cli_call *c, int option, attn_view *view)
{
    const char *path = c->o[option].text, *name = c->options[option].name;
    const attn_tensor *t;
    char asked[32], text[256];
    int code;

    snprintf(asked, sizeof asked, "--%s", name);
    t = cli_pick(path, name, 0, asked);
    if (!t)
        return CLI_FAILED;
    if (t->type != ATTN_U8 && t->type != ATTN_BOOL)
        return cli_error("%s: --%s is %s; expected u8 or bool (for numbers to be added: --bias)",
                         path, name, cli_tensor_text(text, t));
    code = mask_view(t, path, view);
    view->type = ATTN_U8;
    return code;
}

/* A mask of the other polarity, copied and turned. */
static int load_drop(const cli_call *c, attn_view *view)
{
    attn_view from;
    size_t count;
    uint8_t *keep, *p;
    int code = load_bytes(c, CALL_DROP, &from);

    if (code)
        return code;
    if (!cli_bytes(from.size, 4, 1, &count) || (keep = cli_try(count)) == NULL)
        return cli_error("%s: out of memory", c->o[CALL_DROP].text);
    p = keep;
    for (int64_t b = 0; b < from.size[0]; b++)
        for (int64_t h = 0; h < from.size[1]; h++)
            for (int64_t i = 0; i < from.size[2]; i++)
                for (int64_t j = 0; j < from.size[3]; j++)
                    *p++ = ((const uint8_t *)from.data)[b * from.stride[0] + h * from.stride[1] +
                                                        i * from.stride[2] + j * from.stride[3]];
    attn_keep_from_drop(keep, keep, count);
    *view = attn_view_bhsd(keep, ATTN_U8, from.size[0], from.size[1], from.size[2], from.size[3]);
    return 0;
}

static int fill_arrays(cli_call *c)
{
    int code = 0;

    if (c->o[CALL_KEEP].given && c->o[CALL_DROP].given)
        return cli_usage("--keep and --drop exclude each other");
    if (c->o[CALL_KEEP].given)
        code = load_bytes(c, CALL_KEEP, &c->mask.keep);
    if (c->o[CALL_DROP].given)
        code = load_drop(c, &c->mask.keep);
    if (!code && c->o[CALL_BIAS].given) {
        const char *path = c->o[CALL_BIAS].text;
        const attn_tensor *t = cli_pick(path, "bias", 0, "--bias");
        char text[256];
        if (!t)
            return CLI_FAILED;
        if (!cli_is_float(t->type))
            return cli_error("%s: --bias is %s; expected f32, f16, bf16 or f64 (for a mask of what "
                             "may be attended: --keep)",
                             path, cli_tensor_text(text, t));
        code = mask_view(t, path, &c->mask.bias);
    }
    return code;
}

/* Sizes and strides [B or 1, H] of numbers in C order, from the axes of their tensor. */
static int head_axes(const attn_tensor *t, int64_t size[2])
{
    int extra = t->rank > 2 ? t->rank - 2 : 0;

    for (int i = 2; i < t->rank; i++)
        if (t->rank != 4 || t->size[i] != 1)
            return 0;
    size[0] = t->rank - extra == 2 ? t->size[0] : 1;
    size[1] = t->rank - extra == 2 ? t->size[1] : t->rank == 1 ? t->size[0] : 1;
    return 1;
}

int cli_head_numbers(const cli_call *call, int option, const char *name, attn_view *view)
{
    const char *text = call->o[option].text;
    int64_t size[2] = {1, 0}, count;
    const attn_tensor *t = NULL;
    double *list = NULL;
    char asked[32], shape[256];
    void *numbers;

    size[1] = (int64_t)cli_read_numbers(text, &list);
    if (size[1] == 0) {
        int code = check_readable(name, text);
        if (code)
            return code;
        snprintf(asked, sizeof asked, "--%s", name);
        t = cli_pick(text, name, 0, asked);
        if (!t)
            return CLI_FAILED;
        if (!cli_is_float(t->type) || !head_axes(t, size))
            return cli_error("%s: --%s is %s; expected floating-point [heads], [batch, heads] or "
                             "[batch, heads, 1, 1]",
                             text, name, cli_tensor_text(shape, t));
    }
    if ((size[1] != 1 && size[1] != call->heads) || (size[0] != 1 && size[0] != call->sequences))
        return cli_error("--%s: got %lld values; expected 1, or one a head (here %lld)%s", name,
                         (long long)(size[0] * size[1]), (long long)call->heads,
                         t ? ", for one sequence or each" : "");
    count = size[0] * size[1];
    numbers = cli_take((size_t)count * sizeof(double));
    for (int64_t i = 0; i < count; i++) {
        double x = t ? cli_number_at(t, i) : list[i];
        if (call->all_f64)
            ((double *)numbers)[i] = x;
        else
            ((float *)numbers)[i] = (float)x;
    }
    *view =
        attn_view_bhsd(numbers, call->all_f64 ? ATTN_F64 : ATTN_F32, size[0], call->heads, 1, 1);
    view->stride[0] = size[0] == 1 ? 0 : size[1];
    view->stride[1] = size[1] == 1 ? 0 : 1;
    return 0;
}

static int fill_alibi(cli_call *c)
{
    float *slopes;

    if (!c->o[CALL_ALIBI].given)
        return 0;
    if (strcmp(c->o[CALL_ALIBI].text, "auto") != 0)
        return cli_head_numbers(c, CALL_ALIBI, "alibi", &c->mask.alibi);
    slopes = cli_take((size_t)(c->heads + 1) * sizeof *slopes);
    attn_alibi_slopes(slopes, (size_t)c->heads);
    c->mask.alibi = attn_view_bhsd(slopes, ATTN_F32, 1, c->heads, 1, 1);
    return 0;
}

/* --- Block lists ---------------------------------------------------------------------------- */

static int block_number(const char *path, const char *name, int64_t *out)
{
    const attn_tensor *t = cli_pick(path, name, 1, "--blocks");

    if (!t)
        return CLI_FAILED;
    if (cli_count(t) != 1 || !cli_integer_at(t, 0, out))
        return cli_error("%s: tensor '%s' should be one integer", path, name);
    return 0;
}

/* Blocks that the key positions of all sequences reach into. */
static int64_t key_blocks(const cli_call *c, int64_t side)
{
    int64_t most = 0;

    for (int64_t b = 0; b < c->sequences; b++) {
        int64_t tq, tk, end;
        sequence_rows(c, b, &tq, &tk);
        end = plus(key_offset(c, b), tk);
        most = end > most ? end : most;
    }
    return side > 0 ? most / side + (most % side != 0) : 0;
}

static int fill_blocks(cli_call *c)
{
    const char *path = c->o[CALL_BLOCKS].text;
    attn_block_list *l = &c->mask.blocks;
    const attn_tensor *start, *index;
    int64_t sequences, heads;
    char text[256];

    if (!c->o[CALL_BLOCKS].given)
        return 0;
    start = cli_pick(path, "start", 1, "--blocks");
    index = start ? cli_pick(path, "index", 1, "--blocks") : NULL;
    if (!index || block_number(path, "q_block", &l->q_block) ||
        block_number(path, "k_block", &l->k_block))
        return CLI_FAILED;
    if (start->rank < 1 || start->rank > 3 || start->size[start->rank - 1] < 1 || index->rank != 1)
        return cli_error(
            "%s: start is %s; expected [rows + 1], [heads, rows + 1] or [batch, heads, "
            "rows + 1], and index of one axis",
            path, cli_tensor_text(text, start));
    l->rows = start->size[start->rank - 1] - 1;
    heads = start->rank > 1 ? start->size[start->rank - 2] : 1;
    sequences = start->rank > 2 ? start->size[0] : 1;
    if ((heads != 1 && heads != c->heads) || (sequences != 1 && sequences != c->sequences))
        return cli_error("%s: start is %s; expected 1 or %lld heads and 1 or %lld sequences", path,
                         cli_tensor_text(text, start), (long long)c->heads,
                         (long long)c->sequences);
    l->head_stride = heads == 1 ? 0 : l->rows + 1;
    l->batch_stride = sequences == 1 ? 0 : heads * (l->rows + 1);
    l->start = integers_of(path, start);
    l->index = integers_of(path, index);
    l->index_count = cli_count(index);
    l->k_blocks = key_blocks(c, l->k_block);
    return l->start && l->index ? 0 : CLI_FAILED;
}

int cli_fill_mask(cli_call *call)
{
    static int (*const steps[])(cli_call *) = {fill_segments, fill_positions, fill_window,
                                               fill_arrays,   fill_alibi,     fill_blocks};
    attn_mask empty = ATTN_MASK_INIT;

    call->mask = empty;
    call->sequences = call->args.q.size[0];
    call->mask.causal = call->o[CALL_CAUSAL].given;
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        int code = steps[i](call);
        if (code)
            return code;
    }
    call->args.mask = &call->mask;
    return 0;
}
