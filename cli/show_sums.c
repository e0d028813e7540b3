/* show_sums.c: the statistics of weights that are there: what show_call.c has the library find out
 * of queries and keys, summed from a file's numbers in double. */
#include <math.h>
#include <string.h>

#include "cli/arrays.h"
#include "cli/show.h"

/* One head, and its row at hand. */
typedef struct sums {
    show_job *job;
    const attn_tensor *tensor;
    int64_t b, h;            /* in the statistics */
    int64_t layer, head, i;  /* in the file */
    int64_t keys, position;  /* of the row's query, among the keys */
    int64_t seen;            /* keys that the row may attend */
    double *weight;          /* [keys] */
    double *mass, *distance; /* [keys], [buckets] of the head */
} sums;

static attn_tensor row_of(const sums *s, const attn_view *all)
{
    attn_tensor row = *s->tensor;

    row.data = (char *)all->data +
               (s->layer * all->stride[0] + s->head * all->stride[1] + s->i * all->stride[2]) *
                   (int64_t)attn_type_size(all->type);
    row.rank = 1;
    row.size[0] = s->keys;
    row.stride[0] = all->stride[3];
    return row;
}

/* Reads the row; an error if it cannot be weights. */
static int read_row(sums *s, const attn_view *all)
{
    attn_tensor row = row_of(s, all);

    for (int64_t j = 0; j < s->seen; j++) {
        s->weight[j] = cli_number_at(&row, j);
        if (!(s->weight[j] >= 0) || isinf(s->weight[j]))
            return cli_error(
                "layer %lld, head %lld, query %lld, key %lld is %g: no weight, and only "
                "weights have statistics",
                (long long)s->layer, (long long)s->head, (long long)s->i, (long long)j,
                s->weight[j]);
    }
    return CLI_OK;
}

static void put(const sums *s, const attn_view *to, double x)
{
    int64_t at = s->b * to->stride[0] + s->h * to->stride[1] +
                 (s->i - s->job->f.first_query) * to->stride[2];

    if (to->data)
        ((float *)to->data)[at] = (float)x;
}

static void put_key(const sums *s, int64_t key)
{
    const attn_view *to = &s->job->stats.peak_key;
    int64_t at = s->b * to->stride[0] + s->h * to->stride[1] +
                 (s->i - s->job->f.first_query) * to->stride[2];

    ((int64_t *)to->data)[at] = key;
}

/* The bucket of a distance; edges double, and reach further than any. */
static int64_t bucket_of(const attn_stats *t, int64_t distance)
{
    int64_t low = 0, high = t->distance_mass.size[3];

    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;

        if (t->distance_edges[middle] <= distance)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Returns the sum of the row. */
static double add_row(const sums *s)
{
    const attn_stats *t = &s->job->stats;
    double sum = 0, entropy = 0, peak = 0, distance = 0;
    int64_t peak_key = -1;

    for (int64_t j = 0; j < s->seen; j++) {
        double w = s->weight[j];

        if (w == 0)
            continue;
        sum += w;
        entropy -= w * log(w);
        distance += w * fabs((double)(s->position - j));
        if (w > peak) {
            peak = w;
            peak_key = j;
        }
        if (s->mass)
            s->mass[j] += w;
        if (s->distance)
            s->distance[bucket_of(t, s->position - j)] += w;
    }
    put(s, &t->entropy, entropy);
    put(s, &t->peak, peak);
    put(s, &t->distance, distance);
    put(s, &t->first_mass, s->seen > 0 ? s->weight[0] : 0);
    put(s, &t->previous_mass,
        s->position >= 1 && s->position - 1 < s->seen ? s->weight[s->position - 1] : 0);
    put_key(s, peak_key);
    return sum;
}

/* Numbers of one head in a view of doubles, all 0. */
static double *clear(const attn_view *view, int64_t b, int64_t h)
{
    double *of = view->data;

    if (!of)
        return NULL;
    of += b * view->stride[0] + h * view->stride[1];
    memset(of, 0, (size_t)view->size[3] * sizeof *of);
    return of;
}

static int add_head(sums *s, const attn_view *all, int causal, int64_t *odd)
{
    const attn_figure *f = &s->job->f;

    s->mass = clear(&s->job->stats.key_mass, s->b, s->h);
    s->distance = clear(&s->job->stats.distance_mass, s->b, s->h);
    for (s->i = f->first_query; s->i < f->first_query + f->queries; s->i++) {
        int code;
        double sum;

        if (cli_interrupted())
            return cli_error("interrupted; nothing was written");
        s->position = s->i + s->job->all[3] - s->job->all[2];
        s->seen = !causal ? s->keys : s->position < 0 ? 0 : s->position + 1;
        if ((code = read_row(s, all)) != CLI_OK)
            return code;
        sum = add_row(s);
        *odd += sum > 0 && fabs(sum - 1) > 0.01;
    }
    return CLI_OK;
}

int show_sums(show_job *job, const attn_tensor *tensor, const attn_view *all)
{
    const cli_value *o = job->o;
    sums s = {.job = job, .tensor = tensor, .keys = job->all[3]};
    int64_t layers = job->layers[1] - job->layers[0], heads = job->heads[1] - job->heads[0];
    int64_t odd = 0;
    int code;

    job->call.args.q.size[0] = layers;
    job->call.args.q.size[1] = heads;
    job->call.args.q.size[2] = job->f.queries;
    if ((code = show_ask_stats(job, layers, heads)) != CLI_OK)
        return code;
    s.weight = cli_take((size_t)(s.keys + 1) * sizeof *s.weight);
    for (s.b = 0; s.b < layers; s.b++)
        for (s.h = 0; s.h < heads; s.h++) {
            s.layer = job->layers[0] + s.b;
            s.head = job->heads[0] + s.h;
            if ((code = add_head(&s, all, job->call.o[CALL_CAUSAL].given, &odd)) != CLI_OK)
                return code;
        }
    if (odd > 0 && !o[SHOW_CALL + CALL_QUIET].given)
        cli_note(
            "note: %lld of %lld rows do not sum to 1; their numbers are of the weights as they "
            "are",
            (long long)odd, (long long)(layers * heads * job->f.queries));
    return CLI_OK;
}
