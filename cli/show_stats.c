/* show_stats.c: statistics that `attn show` found out, as curves and as files. */
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "cli/show.h"

enum { BINS = 512 /* points of a curve along the queries */ };

/* Layers and heads shown; the numbers of one of them. */
typedef struct head_stats {
    int64_t layer, head;
    int64_t b, h; /* in the statistics */
    int64_t rows; /* of its sequence */
} head_stats;

static head_stats head_of(const show_job *job, size_t panel)
{
    const attn_mask *m = &job->call.mask;
    int64_t heads = job->heads[1] - job->heads[0];
    head_stats s = {.b = (int64_t)panel / heads, .h = (int64_t)panel % heads};

    s.layer = job->layers[0] + s.b;
    s.head = job->heads[0] + s.h;
    s.rows = m->segments ? m->q_starts[s.b + 1] - m->q_starts[s.b] : job->f.queries;
    return s;
}

static double number_at(const attn_view *view, int64_t i)
{
    return (double)((const float *)view->data)[i * view->stride[2]];
}

static int64_t key_at(const attn_view *view, int64_t i)
{
    return ((const int64_t *)view->data)[i * view->stride[2]];
}

static double mass_at(const attn_view *view, int64_t j)
{
    return ((const double *)view->data)[j * view->stride[3]];
}

static attn_view columns_of(const attn_view *view, const head_stats *s)
{
    attn_view part = *view;

    part.data = (double *)part.data + s->b * part.stride[0] + s->h * part.stride[1];
    return part;
}

/* Mean over the rows first .. end-1 that attend any key; NAN if none does. */
static double mean_of(const show_job *job, const head_stats *s, const attn_view *of, int64_t first,
                      int64_t end)
{
    attn_view numbers = show_rows_of(job, of, s->b, s->h);
    attn_view keys = show_rows_of(job, &job->stats.peak_key, s->b, s->h);
    double sum = 0;
    int64_t n = 0;

    for (int64_t i = first; i < end; i++)
        if (key_at(&keys, i) >= 0) {
            sum += number_at(&numbers, i);
            n++;
        }
    return n > 0 ? sum / (double)n : (double)NAN;
}

static int64_t attending_rows(const show_job *job, const head_stats *s)
{
    attn_view keys = show_rows_of(job, &job->stats.peak_key, s->b, s->h);
    int64_t n = 0;

    for (int64_t i = 0; i < s->rows; i++)
        n += key_at(&keys, i) >= 0;
    return n;
}

/* --- Curves --------------------------------------------------------------------------------- */

/* "head 1", or "layer 0, head 1" if layer is not negative; and what comes after. */
static const char *series_name(int64_t layer, int64_t head, const char *after)
{
    char *name = cli_take(96), first[40] = "";

    if (layer >= 0)
        snprintf(first, sizeof first, "layer %lld, ", (long long)layer);
    snprintf(name, 96, "%shead %lld%s", first, (long long)head, after);
    return name;
}

/* Mean entropy of every head, by layer. */
static void entropy_by_layer(show_job *job)
{
    int64_t layers = job->layers[1] - job->layers[0], heads = job->heads[1] - job->heads[0];
    attn_series *series = cli_take((size_t)heads * sizeof *series);
    double *x = cli_take((size_t)layers * sizeof *x);

    for (int64_t l = 0; l < layers; l++)
        x[l] = (double)(job->layers[0] + l);
    for (int64_t h = 0; h < heads; h++) {
        double *y = cli_take((size_t)layers * sizeof *y);

        for (int64_t l = 0; l < layers; l++) {
            head_stats s = head_of(job, (size_t)(l * heads + h));
            y[l] = mean_of(job, &s, &job->stats.entropy, 0, s.rows);
        }
        series[h] = (attn_series){series_name(-1, job->heads[0] + h, ""), x, y, (size_t)layers};
    }
    job->f.series = series;
    job->f.series_count = (size_t)heads;
    job->f.key_title = "layer";
}

/* Entropy of every head along the queries, in bins of a mean. */
static void entropy_by_query(show_job *job)
{
    size_t heads = job->panels;
    attn_series *series = cli_take(heads * sizeof *series);

    for (size_t h = 0; h < heads; h++) {
        head_stats s = head_of(job, h);
        int64_t each = (s.rows + BINS - 1) / BINS, n = each > 0 ? (s.rows + each - 1) / each : 0;
        double *x = cli_take((size_t)(n + 1) * sizeof *x),
               *y = cli_take((size_t)(n + 1) * sizeof *y);

        for (int64_t i = 0; i < n; i++) {
            int64_t end = (i + 1) * each < s.rows ? (i + 1) * each : s.rows;

            x[i] = (double)job->f.first_query + 0.5 * (double)(i * each + end - 1);
            y[i] = mean_of(job, &s, &job->stats.entropy, i * each, end);
        }
        series[h] = (attn_series){series_name(-1, s.head, ""), x, y, (size_t)n};
    }
    job->f.series = series;
    job->f.series_count = heads;
    job->f.key_title = job->f.query_title ? job->f.query_title : "query";
}

/* Part of all weight in every bucket of distances: keys before the query and after it. */
static void weight_by_distance(show_job *job)
{
    const attn_view *mass = &job->stats.distance_mass;
    const int64_t *edge = job->stats.distance_edges;
    int64_t buckets = mass->size[3], zero = 0;
    size_t used = 0;
    int layered = job->layers[1] - job->layers[0] > 1;
    attn_series *series = cli_take(2 * job->panels * sizeof *series);

    while (edge[zero] < 0)
        zero++;
    for (size_t p = 0; p < job->panels; p++) {
        head_stats s = head_of(job, p);
        attn_view part = columns_of(mass, &s);
        double rows = (double)attending_rows(job, &s);

        for (int after = 0; after < 2; after++) {
            int64_t n = after ? zero : buckets - zero, last = 0;
            double *x = cli_take((size_t)(n + 1) * sizeof *x);
            double *y = cli_take((size_t)(n + 1) * sizeof *y);

            for (int64_t i = 0; i < n; i++) {
                int64_t c = after ? zero - 1 - i : zero + i;
                double least = fabs((double)(after ? edge[c + 1] - 1 : edge[c]));
                double most = fabs((double)(after ? edge[c] : edge[c + 1] - 1));

                x[i] = sqrt((least + 1) * (most + 1));
                y[i] = rows > 0 ? mass_at(&part, c) / rows : (double)NAN;
                last = y[i] > 0 ? i + 1 : last;
            }
            if (after && last == 0) /* causal */
                continue;
            series[used++] = (attn_series){
                series_name(layered ? s.layer : -1, s.head, after ? ", keys after" : ""), x, y,
                (size_t)last};
        }
    }
    job->f.series = series;
    job->f.series_count = used;
    job->f.log_x = 1;
    job->f.key_title = "distance from query to key, plus 1";
}

int show_curves(show_job *job)
{
    if (job->kind == SHOW_DISTANCE)
        weight_by_distance(job);
    else if (job->layers[1] - job->layers[0] > 1)
        entropy_by_layer(job);
    else
        entropy_by_query(job);
    job->f.value_title = job->kind == SHOW_DISTANCE ? "part of the weight" : "entropy, nats";
    job->f.panels = NULL;
    job->f.panel_count = 0;
    return CLI_OK;
}

/* --- Files ---------------------------------------------------------------------------------- */

static int is_csv(const char *path)
{
    const char *dot = strrchr(path, '.');

    return dot && strcasecmp(dot, ".csv") == 0;
}

int show_check_stats(const show_job *job)
{
    const char *path = job->o[SHOW_STATS].text, *dot = path ? strrchr(path, '.') : NULL;

    if (path && !is_csv(path) && !(dot && strcasecmp(dot, ".json") == 0))
        return cli_usage("--stats: '%s' should end in .json or .csv", path);
    return CLI_OK;
}

/* Nine digits give back any float. */
static void put_number(FILE *f, double x, const char *none)
{
    if (isfinite(x))
        fprintf(f, "%.9g", x);
    else
        fputs(none, f);
}

typedef struct column {
    const char *name;
    const attn_view *view;
} column;

enum { COLUMNS = 5 };

static void columns_to_write(const show_job *job, column columns[COLUMNS])
{
    const attn_stats *s = &job->stats;
    const column all[COLUMNS] = {{"entropy", &s->entropy},
                                 {"peak", &s->peak},
                                 {"distance", &s->distance},
                                 {"first_mass", &s->first_mass},
                                 {"previous_mass", &s->previous_mass}};

    memcpy(columns, all, sizeof all);
}

static void write_csv(const show_job *job, FILE *f)
{
    column columns[COLUMNS];

    columns_to_write(job, columns);
    fputs("layer,head,query,peak_key", f);
    for (int c = 0; c < COLUMNS; c++)
        fprintf(f, ",%s", columns[c].name);
    fputc('\n', f);
    for (size_t p = 0; p < job->panels; p++) {
        head_stats s = head_of(job, p);
        attn_view key = show_rows_of(job, &job->stats.peak_key, s.b, s.h), numbers[COLUMNS];

        for (int c = 0; c < COLUMNS; c++)
            numbers[c] = show_rows_of(job, columns[c].view, s.b, s.h);
        for (int64_t i = 0; i < s.rows; i++) {
            fprintf(f, "%lld,%lld,%lld,%lld", (long long)s.layer, (long long)s.head,
                    (long long)(job->f.first_query + i), (long long)key_at(&key, i));
            for (int c = 0; c < COLUMNS; c++) {
                fputc(',', f);
                put_number(f, number_at(&numbers[c], i), "");
            }
            fputc('\n', f);
        }
    }
}

static void write_means(const show_job *job, const head_stats *s, const column *columns, FILE *f)
{
    double entropy = mean_of(job, s, &job->stats.entropy, 0, s->rows);

    fprintf(f, "   \"rows_with_keys\": %lld,\n   \"mean\": {\"effective_keys\": ",
            (long long)attending_rows(job, s));
    put_number(f, exp(entropy), "null");
    for (int c = 0; c < COLUMNS; c++) {
        fprintf(f, ", \"%s\": ", columns[c].name);
        put_number(f, mean_of(job, s, columns[c].view, 0, s->rows), "null");
    }
    fputs("},\n", f);
}

static void write_distances(const show_job *job, const head_stats *s, FILE *f)
{
    const attn_stats *t = &job->stats;
    attn_view mass = columns_of(&t->distance_mass, s);
    const char *comma = "";

    fputs("   \"distance_profile\": [", f);
    for (int64_t c = 0; c < mass.size[3]; c++)
        if (mass_at(&mass, c) != 0) {
            fprintf(f, "%s{\"from\": %lld, \"to\": %lld, \"mass\": ", comma,
                    (long long)t->distance_edges[c], (long long)(t->distance_edges[c + 1] - 1));
            put_number(f, mass_at(&mass, c), "null");
            fputc('}', f);
            comma = ", ";
        }
    fputs("],\n", f);
}

static void write_head(const show_job *job, size_t panel, FILE *f)
{
    column columns[COLUMNS];
    head_stats s = head_of(job, panel);
    attn_view key = show_rows_of(job, &job->stats.peak_key, s.b, s.h);
    attn_view mass = columns_of(&job->stats.key_mass, &s);

    columns_to_write(job, columns);
    fprintf(f, "  {\"layer\": %lld, \"head\": %lld, \"first_query\": %lld, \"queries\": %lld,\n",
            (long long)s.layer, (long long)s.head, (long long)job->f.first_query,
            (long long)s.rows);
    write_means(job, &s, columns, f);
    write_distances(job, &s, f);
    for (int c = 0; c < COLUMNS; c++) {
        attn_view numbers = show_rows_of(job, columns[c].view, s.b, s.h);

        fprintf(f, "   \"%s\": [", columns[c].name);
        for (int64_t i = 0; i < s.rows; i++) {
            fputs(i ? "," : "", f);
            put_number(f, number_at(&numbers, i), "null");
        }
        fputs("],\n", f);
    }
    fputs("   \"peak_key\": [", f);
    for (int64_t i = 0; i < s.rows; i++)
        fprintf(f, "%s%lld", i ? "," : "", (long long)key_at(&key, i));
    fputs("],\n   \"key_mass\": [", f);
    for (int64_t j = 0; j < mass.size[3]; j++) {
        fputs(j ? "," : "", f);
        put_number(f, mass_at(&mass, j), "null");
    }
    fputs("]}", f);
}

static void write_json(const show_job *job, FILE *f)
{
    fputs("{\"entropy_unit\": \"nats\", \"heads\": [\n", f);
    for (size_t p = 0; p < job->panels; p++) {
        fputs(p ? ",\n" : "", f);
        write_head(job, p, f);
    }
    fputs("\n]}\n", f);
}

/* Beside the name, then over it: a reader sees the old file or the whole new one. */
int show_write_stats(const show_job *job)
{
    const char *path = job->o[SHOW_STATS].text;
    size_t size = strlen(path) + 16;
    char *beside = cli_take(size);
    FILE *f;
    int failed;

    snprintf(beside, size, "%s.%ld", path, (long)getpid() % 1000000);
    f = fopen(beside, "wb");
    if (!f)
        return cli_error("%s: %s", path, strerror(errno));
    (is_csv(path) ? write_csv : write_json)(job, f);
    failed = fflush(f) != 0 || ferror(f) || fsync(fileno(f)) != 0;
    failed |= fclose(f) != 0;
    if (!failed && rename(beside, path) == 0)
        return CLI_OK;
    cli_error("%s: %s", path, strerror(errno));
    remove(beside);
    return CLI_FAILED;
}
