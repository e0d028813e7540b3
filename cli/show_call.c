/* show_call.c: what `attn show` draws of queries and keys: one call of the library that pools the
 * weights into maps as it computes them. */
#include <string.h>

#include "cli/arrays.h"
#include "cli/show.h"

enum {
    CELLS = 1024,        /* rows and columns of a map, at most, unless --cells says otherwise */
    ALL_CELLS = 1 << 26, /* of all maps together */
    TOP = 8              /* heaviest keys kept of a query, where the map is pooled */
};

/* --- Input ---------------------------------------------------------------------------------- */

static const char *name_of(const show_job *job, int option, const char *otherwise)
{
    const cli_value *v = &job->call.o[option];

    return v->given ? v->text : otherwise;
}

int show_is_call(const show_job *job, char **paths, size_t count)
{
    const attn_file *file;

    if (count == 2 || job->call.o[CALL_Q].given || job->call.o[CALL_K].given)
        return 1;
    if (job->o[SHOW_TENSOR].given || (file = cli_open(paths[0])) == NULL)
        return 0;
    return attn_file_find(file, "q") && attn_file_find(file, "k");
}

static int read_inputs(show_job *job, char **paths, size_t count)
{
    cli_call *c = &job->call;
    attn_forward_args empty = ATTN_FORWARD_ARGS_INIT;
    int code;

    c->args = empty;
    c->layout = (call_layout)c->o[CALL_LAYOUT].integer;
    c->q_path = paths[0];
    c->k_path = paths[count - 1];
    if ((code = cli_call_input(c, c->q_path, name_of(job, CALL_Q, "q"),
                               count == 1 || c->o[CALL_Q].given, "q", &c->args.q)) != 0 ||
        (code = cli_call_input(c, c->k_path, name_of(job, CALL_K, "k"),
                               count == 1 || c->o[CALL_K].given, "k", &c->args.k)) != 0)
        return code;
    return cli_call_fill(c);
}

/* Longest segment, or all. */
static int64_t longest(const int64_t *starts, int64_t segments, int64_t all)
{
    int64_t most = 0;

    for (int64_t s = 0; s < segments; s++)
        most = starts[s + 1] - starts[s] > most ? starts[s + 1] - starts[s] : most;
    return segments > 0 ? most : all;
}

/* Items from .. from + n - 1 of an axis, unless the view repeats its only one. */
static void narrow(attn_view *view, int axis, int64_t from, int64_t n)
{
    if (!view->data || view->size[axis] == 1)
        return;
    view->data =
        (char *)view->data + from * view->stride[axis] * (int64_t)attn_type_size(view->type);
    view->size[axis] = n;
}

static void narrow_layer(cli_call *c, int64_t layer)
{
    const int64_t **lists[] = {&c->mask.q_offsets, &c->mask.k_offsets, &c->mask.k_start,
                               &c->mask.k_count, &c->mask.q_count};
    attn_view *views[] = {&c->args.q,    &c->args.k,    &c->args.sink,
                          &c->mask.keep, &c->mask.bias, &c->mask.alibi};

    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        if (*lists[i])
            *lists[i] += layer;
    for (size_t i = 0; i < sizeof views / sizeof *views; i++)
        narrow(views[i], 0, layer, 1);
    if (c->mask.blocks.start)
        c->mask.blocks.start += layer * c->mask.blocks.batch_stride;
}

static void narrow_head(cli_call *c, int64_t head)
{
    attn_view *views[] = {&c->args.q, &c->args.sink, &c->mask.keep, &c->mask.bias, &c->mask.alibi};
    int64_t group = c->args.k.size[1] > 0 ? c->heads / c->args.k.size[1] : 1;

    for (size_t i = 0; i < sizeof views / sizeof *views; i++)
        narrow(views[i], 1, head, 1);
    narrow(&c->args.k, 1, group > 0 ? head / group : 0, 1);
    if (c->mask.blocks.start)
        c->mask.blocks.start += head * c->mask.blocks.head_stride;
}

/* Queries from .. from + n - 1 alone: no other row has a part in theirs. */
static void narrow_queries(cli_call *c, int64_t from, int64_t n)
{
    narrow(&c->args.q, 2, from, n);
    narrow(&c->mask.keep, 2, from, n);
    narrow(&c->mask.bias, 2, from, n);
    c->mask.q_offset += from;
    if (c->mask.q_count) {
        int64_t *count = cli_take((size_t)c->args.q.size[0] * sizeof *count);

        for (int64_t b = 0; b < c->args.q.size[0]; b++) {
            count[b] = c->mask.q_count[b] - from;
            count[b] = count[b] < 0 ? 0 : count[b] > n ? n : count[b];
        }
        c->mask.q_count = count;
    }
}

/* --rows as numbers of the queries shown, ascending. */
static int check_rows(show_job *job)
{
    const char *text = job->o[SHOW_ROWS].text;
    const attn_figure *f = &job->f;
    int64_t *rows;
    size_t n;

    if (!job->o[SHOW_ROWS].given)
        return CLI_OK;
    n = cli_read_integers(text, &rows);
    if (n == 0)
        return cli_usage("--rows: '%s' is no list of integers such as 4,7,12", text);
    for (size_t i = 0; i < n; i++) {
        rows[i] -= f->first_query;
        if (rows[i] < 0 || rows[i] >= f->queries || (i > 0 && rows[i] <= rows[i - 1]))
            return cli_usage("--rows: '%s': ascending numbers of queries, from %lld to %lld", text,
                             (long long)f->first_query,
                             (long long)(f->first_query + f->queries - 1));
    }
    job->stats.rows = rows;
    job->stats.row_count = (int64_t)n;
    return CLI_OK;
}

static int select_parts(show_job *job)
{
    cli_call *c = &job->call;
    int segments = c->mask.segments > 0, code;

    job->all[0] = c->sequences;
    job->all[1] = c->heads;
    job->all[2] = longest(c->mask.q_starts, c->mask.segments, c->tq);
    job->all[3] = longest(c->mask.k_starts, c->mask.segments, c->tk);
    if ((code = show_selection(job)) != CLI_OK)
        return code;
    if (job->f.queries == 0 || job->f.keys == 0 || job->panels == 0)
        return cli_error("%s: nothing to show: %lld queries, %lld keys, %lld heads", c->q_path,
                         (long long)job->all[2], (long long)job->all[3], (long long)job->all[1]);
    if (segments && (job->o[SHOW_QUERIES].given || job->o[SHOW_LAYER].given))
        return cli_usage("--segments shows all of them, without --layer and --queries");
    if (job->o[SHOW_LAYER].given)
        narrow_layer(c, job->layers[0]);
    if (job->o[SHOW_HEAD].given)
        narrow_head(c, job->heads[0]);
    if (job->kind == SHOW_OVERLAY && !segments)
        job->f.queries = 1;
    if (job->f.queries < job->all[2])
        narrow_queries(c, job->f.first_query, job->f.queries);
    return check_rows(job);
}

/* --- Statistics ----------------------------------------------------------------------------- */

static attn_view take_view(attn_type type, int64_t b, int64_t h, int64_t n, int64_t d)
{
    const int64_t size[4] = {b, h, n, d};
    size_t bytes;
    void *memory = NULL;

    if (cli_bytes(size, 4, attn_type_size(type), &bytes))
        memory = cli_try(bytes);
    if (!memory)
        cli_error("no memory for [%lld, %lld, %lld, %lld] numbers", (long long)b, (long long)h,
                  (long long)n, (long long)d);
    return memory ? attn_view_bhsd(memory, type, b, h, n, d) : (attn_view){0};
}

/* A statistic of every query row: laid out as lse. */
static int take_rows(show_job *job, attn_view *view, attn_type type, int64_t columns)
{
    const attn_view *q = &job->call.args.q;

    *view = take_view(type, q->size[0], q->size[1], q->size[2], columns);
    return view->data ? CLI_OK : CLI_FAILED;
}

static int64_t share_of(int64_t n, int64_t parts)
{
    return (n + parts - 1) / parts;
}

/* Cells: single weights where there is room for all, else blocks. The patches of an overlay are
 * always single weights: those of one query. */
static int ask_map(show_job *job, int64_t b, int64_t h)
{
    attn_figure *f = &job->f;
    attn_stats *s = &job->stats;
    attn_view *sum[] = {&s->map_max, &s->map_mean, &s->map_sum};
    int64_t side = job->o[SHOW_CELLS].given ? job->o[SHOW_CELLS].integer : CELLS, rows, cols;
    attn_type count;

    while (!job->o[SHOW_CELLS].given && side > 64 && b * h * side * side > ALL_CELLS)
        side = side * 7 / 8;
    if (job->kind == SHOW_OVERLAY)
        side = f->queries > f->keys ? f->queries : f->keys;
    f->query_block = share_of(f->queries, side);
    f->key_block = share_of(f->keys, side);
    rows = share_of(f->queries, f->query_block);
    cols = share_of(f->keys, f->key_block);
    s->map_query_block = f->query_block;
    s->map_key_block = f->key_block;
    s->map_first_key = f->first_key;
    count = f->query_block * f->key_block > INT32_MAX ? ATTN_I64 : ATTN_I32;
    *sum[f->reduction] = take_view(ATTN_F32, b, h, rows, cols);
    s->map_count = take_view(count, b, h, rows, cols);
    return sum[f->reduction]->data && s->map_count.data ? CLI_OK : CLI_FAILED;
}

/* Buckets that double: ..., -3 to -2, -1, 0, 1, 2 to 3, 4 to 7, ... */
static int ask_distances(show_job *job, int64_t b, int64_t h)
{
    attn_stats *s = &job->stats;
    int64_t *edges = cli_take(130 * sizeof *edges);
    int64_t most = job->all[2] + job->all[3], n = 0, octaves = 1;

    while (octaves < 60 && ((int64_t)1 << octaves) <= most)
        octaves++;
    for (int64_t i = octaves; i > 0; i--)
        edges[n++] = 1 - ((int64_t)1 << i);
    edges[n++] = 0;
    for (int64_t i = 0; i <= octaves; i++)
        edges[n++] = (int64_t)1 << i;
    s->distance_edges = edges;
    s->distance_mass = take_view(ATTN_F64, b, h, 1, n - 1);
    return s->distance_mass.data ? CLI_OK : CLI_FAILED;
}

int show_ask_stats(show_job *job, int64_t b, int64_t h)
{
    attn_stats *s = &job->stats;
    int stats = job->o[SHOW_STATS].given, curves = job->kind >= SHOW_ENTROPY, code = CLI_OK;

    if (stats || job->kind == SHOW_ENTROPY)
        code = take_rows(job, &s->entropy, ATTN_F32, 1);
    if (!code && (stats || curves))
        code = take_rows(job, &s->peak_key, ATTN_I64, 1);
    if (!code && stats &&
        ((code = take_rows(job, &s->peak, ATTN_F32, 1)) != 0 ||
         (code = take_rows(job, &s->distance, ATTN_F32, 1)) != 0 ||
         (code = take_rows(job, &s->first_mass, ATTN_F32, 1)) != 0 ||
         (code = take_rows(job, &s->previous_mass, ATTN_F32, 1)) != 0))
        return code;
    if (!code && stats) {
        s->key_mass = take_view(ATTN_F64, b, h, 1, job->all[3]);
        code = s->key_mass.data ? CLI_OK : CLI_FAILED;
    }
    if (!code && (stats || job->kind == SHOW_DISTANCE))
        code = ask_distances(job, b, h);
    return code;
}

/* Everything that will be drawn or written, and nothing else. */
static int ask(show_job *job)
{
    attn_stats *s = &job->stats;
    int64_t b = job->call.mask.segments ? job->call.sequences : job->call.args.q.size[0];
    int64_t h = job->call.args.q.size[1];
    int curves = job->kind >= SHOW_ENTROPY, code = CLI_OK;

    if (!curves)
        code = ask_map(job, b, h);
    if (!code && job->f.drop_keys > 0 && job->f.query_block * job->f.key_block > 1)
        return cli_usage("--drop-keys: this map is pooled; more --cells, or a part (--queries, "
                         "--keys), leave single weights");
    if (!code && !curves && job->f.query_block * job->f.key_block > 1) {
        code = take_rows(job, &s->top_weight, ATTN_F32, TOP);
        if (!code)
            code = take_rows(job, &s->top_key, ATTN_I32, TOP);
        if (!code && s->row_count > 0) {
            s->row_weights = take_view(ATTN_F32, b, h, s->row_count, job->all[3]);
            code = s->row_weights.data ? CLI_OK : CLI_FAILED;
        }
    }
    job->call.args.stats = s;
    return code ? code : show_ask_stats(job, b, h);
}

static int compute(show_job *job)
{
    cli_progress progress = {0};
    attn_error err = {ATTN_OK, 0, ""};
    attn_ctx *ctx = cli_call_context(&job->call, &progress);
    attn_status status;

    if (!ctx)
        return CLI_FAILED;
    cli_call_note(&job->call);
    cli_progress_begin(&progress);
    status = attn_forward(ctx, &job->call.args, &err);
    cli_progress_end(&progress);
    attn_ctx_destroy(ctx);
    if (cli_interrupted())
        return cli_error("interrupted; nothing was written");
    if (status != ATTN_OK)
        return cli_call_failed(&job->call, show_options, SHOW_OPTIONS, status, &err);
    return CLI_OK;
}

/* --- Panels --------------------------------------------------------------------------------- */

/* One (batch, head) of a view. */
static attn_view part_of(const attn_view *view, int64_t b, int64_t h)
{
    attn_view part = *view;

    if (!part.data)
        return part;
    part.data = (char *)part.data +
                (b * part.stride[0] + h * part.stride[1]) * (int64_t)attn_type_size(part.type);
    part.size[0] = part.size[1] = 1;
    return part;
}

attn_view show_rows_of(const show_job *job, const attn_view *view, int64_t b, int64_t h)
{
    const attn_mask *m = &job->call.mask;
    attn_view part;

    if (m->segments == 0)
        return part_of(view, b, h);
    part = part_of(view, 0, h);
    narrow(&part, 2, m->q_starts[b], m->q_starts[b + 1] - m->q_starts[b]);
    return part;
}

/* Keys numbered from the first one shown; those that are not shown become none. */
static void shift_keys(show_job *job, attn_view *keys)
{
    int32_t *key = keys->data;
    int64_t n = keys->data ? keys->size[0] * keys->size[1] * keys->size[2] * keys->size[3] : 0;

    for (int64_t i = 0; i < n && job->o[SHOW_KEYS].given; i++) {
        key[i] = key[i] < 0 ? -1 : (int32_t)(key[i] - job->f.first_key);
        if (key[i] < 0 || key[i] >= job->f.keys)
            key[i] = -1;
    }
}

static void make_panels(show_job *job)
{
    attn_figure *f = &job->f;
    attn_stats *s = &job->stats;
    const attn_view *cells[] = {&s->map_max, &s->map_mean, &s->map_sum};
    attn_panel *p = cli_take(job->panels * sizeof *p);

    f->panels = p;
    f->panel_count = job->panels;
    shift_keys(job, &s->top_key);
    for (int64_t b = 0; b < job->layers[1] - job->layers[0]; b++)
        for (int64_t h = 0; h < job->heads[1] - job->heads[0]; h++, p++) {
            *p = (attn_panel)ATTN_PANEL_INIT;
            p->layer = job->layers[0] + b;
            p->head = job->heads[0] + h;
            p->cells = part_of(cells[f->reduction], b, h);
            p->allowed = part_of(&s->map_count, b, h);
            if (s->top_key.data && job->call.mask.segments == 0) {
                p->top_keys = part_of(&s->top_key, b, h);
                p->top_weights = part_of(&s->top_weight, b, h);
            }
            if (s->row_weights.data) {
                p->rows = part_of(&s->row_weights, b, h);
                narrow(&p->rows, 3, f->first_key, f->keys);
                p->row_index = s->rows;
            }
        }
}

int show_call(show_job *job, char **paths, size_t count)
{
    int code;

    if ((code = read_inputs(job, paths, count)) != 0 || (code = select_parts(job)) != 0 ||
        (code = ask(job)) != 0 || (code = compute(job)) != 0)
        return code;
    if (job->kind < SHOW_ENTROPY)
        make_panels(job);
    return CLI_OK;
}
