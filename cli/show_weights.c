/* show_weights.c: what `attn show` draws of weights that are there: ranges, tokens, panels. */
#include <errno.h>
#include <string.h>

#include "cli/arrays.h"
#include "cli/show.h"

/* --- Selection ------------------------------------------------------------------------------ */

/* "A:B" within 0 .. size. */
static int read_range(const cli_value *v, const char *name, int64_t size, int64_t *from,
                      int64_t *to)
{
    const char *colon = v->given ? strchr(v->text, ':') : NULL;
    char first[32] = "";

    *from = 0;
    *to = size;
    if (!v->given)
        return CLI_OK;
    if (colon && (size_t)(colon - v->text) < sizeof first)
        memcpy(first, v->text, (size_t)(colon - v->text));
    if (!colon || !cli_read_integer(first, from) || !cli_read_integer(colon + 1, to) || *from < 0 ||
        *to <= *from || *to > size)
        return cli_usage("--%s %s: A:B with 0 <= A < B <= %lld", name, v->text, (long long)size);
    return CLI_OK;
}

static int read_one(const cli_value *v, const char *name, int64_t size, int64_t range[2])
{
    range[0] = 0;
    range[1] = size;
    if (!v->given)
        return CLI_OK;
    if (v->integer >= size)
        return cli_usage("--%s %lld: there are %lld", name, (long long)v->integer, (long long)size);
    range[1] = (range[0] = v->integer) + 1;
    return CLI_OK;
}

/* The lines of a file; *count is how many. NULL after a message. */
static attn_label *read_tokens(const char *path, int64_t *count)
{
    FILE *f = fopen(path, "rb");
    size_t room = 1 << 16, used = 0, n = 0;
    attn_label *labels;
    char *text = NULL;
    int failed;

    if (!f) {
        cli_error("%s: %s", path, strerror(errno));
        return NULL;
    }
    for (size_t got = 1; got > 0; used += got) { /* doubles until all is in */
        char *grown = text;

        if (!text || used == room) {
            room *= text ? 2 : 1;
            grown = cli_take(room);
            if (used > 0)
                memcpy(grown, text, used);
        }
        text = grown;
        got = fread(text + used, 1, room - used, f);
    }
    failed = ferror(f);
    fclose(f);
    if (failed) {
        cli_error("%s: cannot read", path);
        return NULL;
    }
    for (size_t i = 0; i < used; i++)
        n += text[i] == '\n';
    labels = cli_take((n + 1) * sizeof *labels);
    *count = 0;
    for (size_t from = 0; from < used;) {
        const char *end = memchr(text + from, '\n', used - from);
        size_t size = end ? (size_t)(end - text) - from : used - from;

        labels[(*count)++] = (attn_label){text + from, size};
        from += size + 1;
    }
    return labels;
}

/* Labels of `all` queries or keys, from `first` on; NULL after a message. */
static const attn_label *tokens_for(const char *path, const char *what, int64_t all, int64_t first)
{
    int64_t count;
    attn_label *labels = read_tokens(path, &count);

    if (!labels)
        return NULL;
    if (count != all) {
        cli_error("%s: %lld tokens, %lld %s", path, (long long)count, (long long)all, what);
        return NULL;
    }
    return labels + first;
}

static int read_labels(show_job *job)
{
    const cli_value *o = job->o;
    attn_figure *f = &job->f;

    if (o[SHOW_TOKENS].given) {
        f->query_tokens = tokens_for(o[SHOW_TOKENS].text, "queries", job->all[2], f->first_query);
        if (!f->query_tokens)
            return CLI_FAILED;
    }
    if (o[SHOW_KEY_TOKENS].given) {
        f->key_tokens = tokens_for(o[SHOW_KEY_TOKENS].text, "keys", job->all[3], f->first_key);
        if (!f->key_tokens)
            return CLI_FAILED;
    } else if (job->all[2] == job->all[3] && f->query_tokens) {
        f->key_tokens = f->query_tokens - f->first_query + f->first_key;
    }
    return CLI_OK;
}

int show_selection(show_job *job)
{
    const cli_value *o = job->o;
    attn_figure *f = &job->f;
    int64_t to;
    int code;

    if ((code = read_one(&o[SHOW_LAYER], "layer", job->all[0], job->layers)) != 0 ||
        (code = read_one(&o[SHOW_HEAD], "head", job->all[1], job->heads)) != 0 ||
        (code = read_range(&o[SHOW_QUERIES], "queries", job->all[2], &f->first_query, &to)) != 0)
        return code;
    f->queries = to - f->first_query;
    if ((code = read_range(&o[SHOW_KEYS], "keys", job->all[3], &f->first_key, &to)) != 0)
        return code;
    f->keys = to - f->first_key;
    job->panels = (size_t)((job->layers[1] - job->layers[0]) * (job->heads[1] - job->heads[0]));
    return read_labels(job);
}

/* --- Panels --------------------------------------------------------------------------------- */

/* Which pairs causal attention allows, of rows and columns shown. */
static attn_view causal(const show_job *job)
{
    const attn_figure *f = &job->f;
    int64_t offset = job->all[3] - job->all[2];
    uint8_t *keep = cli_take((size_t)f->queries * (size_t)f->keys);

    for (int64_t i = 0; i < f->queries; i++)
        for (int64_t j = 0; j < f->keys; j++)
            keep[i * f->keys + j] = f->first_key + j <= f->first_query + i + offset;
    return attn_view_bhsd(keep, ATTN_U8, 1, 1, f->queries, f->keys);
}

/* Options that only queries and keys understand: a mistake must not pass in silence. */
static int refuse_call_options(const show_job *job)
{
    static const int allowed[] = {SHOW_CALL + CALL_CAUSAL, SHOW_CALL + CALL_QUIET};
    static const int call_only[] = {SHOW_ROWS, SHOW_CELLS};

    for (int i = SHOW_CALL; i < SHOW_OPTIONS; i++)
        if (job->o[i].given && i != allowed[0] && i != allowed[1])
            return cli_usage("--%s is for queries and keys; this file holds weights",
                             show_options[i].name);
    for (size_t i = 0; i < sizeof call_only / sizeof *call_only; i++)
        if (job->o[call_only[i]].given)
            return cli_usage("--%s is for queries and keys; this file holds weights",
                             show_options[call_only[i]].name);
    return CLI_OK;
}

int show_weights(show_job *job, const char *path, const attn_tensor *tensor)
{
    attn_error err = {ATTN_OK, 0, ""};
    attn_figure *f = &job->f;
    attn_view all, allowed = {0};
    attn_panel *p;
    attn_status status;
    int code = refuse_call_options(job);

    if (code)
        return code;
    status = attn_tensor_view(tensor, 0, &all, &err);
    if (status != ATTN_OK)
        return cli_failed(path, status, &err);
    memcpy(job->all, all.size, sizeof job->all);
    if ((code = show_selection(job)) != CLI_OK)
        return code;
    if ((job->o[SHOW_STATS].given || job->kind >= SHOW_ENTROPY) &&
        (code = show_sums(job, tensor, &all)) != CLI_OK)
        return code;
    if (job->o[SHOW_CALL + CALL_CAUSAL].given)
        allowed = causal(job);
    f->panel_count = job->panels;
    f->panels = p = cli_take(job->panels * sizeof *p);
    for (int64_t l = job->layers[0]; l < job->layers[1]; l++)
        for (int64_t h = job->heads[0]; h < job->heads[1]; h++, p++) {
            *p = (attn_panel)ATTN_PANEL_INIT;
            p->layer = l;
            p->head = h;
            p->allowed = allowed;
            p->cells = all;
            p->cells.data =
                (char *)all.data + (l * all.stride[0] + h * all.stride[1] +
                                    f->first_query * all.stride[2] + f->first_key * all.stride[3]) *
                                       (int64_t)attn_type_size(all.type);
            p->cells.size[0] = p->cells.size[1] = 1;
            p->cells.size[2] = f->queries;
            p->cells.size[3] = f->keys;
        }
    return CLI_OK;
}
