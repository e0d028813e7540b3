/* train_log.c: what a training run leaves for people: log.csv, loss.png, a line on the screen. */
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/console.h"
#include "cli/training.h"
#include "include/attn/viz.h"

/* --- CSV -------------------------------------------------------------------------------------- */

#define HEADER                                                                                     \
    "step,epoch,loss,nll,accuracy,norm,rate,tokens_s,held_loss,held_nll,held_accuracy,held_"       \
    "exact\n"

static char *join(const char *folder, const char *name)
{
    size_t size = strlen(folder) + strlen(name) + 2;
    char *path = cli_take(size);

    snprintf(path, size, "%s/%s", folder, name);
    return path;
}

/* Cuts the file behind the last whole line of a step up to `last`. */
static int keep_lines(FILE *f, int64_t last)
{
    char *line = NULL;
    size_t room = 0;
    long end = 0;
    ssize_t n;
    int code;

    while ((n = getline(&line, &room, f)) > 0 && line[n - 1] == '\n' &&
           (end == 0 || strtoll(line, NULL, 10) <= last))
        end = ftell(f);
    free(line);
    code = fflush(f) || ftruncate(fileno(f), end) || fseek(f, end, SEEK_SET);
    return code ? 0 : end > 0 ? 1 : 2;
}

int train_log_open(train_log *log, const char *folder, int64_t keep_to)
{
    int kept = 2; /* nothing there */

    log->path = join(folder, "log.csv");
    log->file = keep_to > 0 ? fopen(log->path, "r+") : NULL;
    if (log->file)
        kept = keep_lines(log->file, keep_to);
    else
        log->file = fopen(log->path, "w");
    if (!log->file || kept == 0 || (kept == 2 && fputs(HEADER, log->file) < 0))
        return cli_error("%s: %s", log->path, strerror(errno));
    return CLI_OK;
}

int train_log_add(train_log *log, const train_line *l)
{
    fprintf(log->file, "%lld,%lld,%.6f,%.6f,%.6f,%.6g,%.6g,%.0f", (long long)l->step,
            (long long)l->epoch, l->loss, l->nll, l->accuracy, l->norm, l->rate, l->tokens_s);
    if (l->evaluated)
        fprintf(log->file, ",%.6f,%.6f,%.6f,%.6f\n", l->held_loss, l->held_nll, l->held_accuracy,
                l->exact);
    else
        fputs(",,,,\n", log->file);
    return fflush(log->file) ? cli_error("%s: %s", log->path, strerror(errno)) : CLI_OK;
}

int train_log_close(train_log *log)
{
    int bad = log->file && fclose(log->file) != 0;

    log->file = NULL;
    return bad ? cli_error("%s: %s", log->path, strerror(errno)) : CLI_OK;
}

/* --- Picture ---------------------------------------------------------------------------------- */

typedef struct curve {
    double *x, *y;
    size_t count;
} curve;

/* Field i of a line of CSV; NaN if it is empty. */
static double field(const char *line, int i)
{
    char *end;
    double x;

    for (; i > 0 && line; i--) {
        line = strchr(line, ',');
        line = line ? line + 1 : NULL;
    }
    if (!line)
        return (double)NAN;
    x = strtod(line, &end);
    return end == line ? (double)NAN : x;
}

static size_t count_lines(FILE *f)
{
    size_t n = 0;
    int c;

    while ((c = getc(f)) != EOF)
        n += c == '\n';
    rewind(f);
    return n;
}

/* The curves of fields 3 (nll in training) and 9 (nll of what is held out) against field 0. */
static int read_curves(const char *path, curve curves[2])
{
    static const int fields[] = {3, 9};
    FILE *f = fopen(path, "r");
    char *line = NULL;
    size_t room = 0, lines;

    if (!f)
        return 0;
    lines = count_lines(f);
    for (int i = 0; i < 2; i++) {
        curves[i].x = cli_take((lines + 1) * sizeof(double));
        curves[i].y = cli_take((lines + 1) * sizeof(double));
        curves[i].count = 0;
    }
    while (getline(&line, &room, f) > 0)
        for (int i = 0; i < 2; i++) {
            double step = field(line, 0), y = field(line, fields[i]);

            if (isnan(step) || isnan(y) || curves[i].count == lines)
                continue;
            curves[i].x[curves[i].count] = step;
            curves[i].y[curves[i].count++] = y;
        }
    free(line);
    fclose(f);
    return 1;
}

void train_log_draw(const train_log *log, const char *folder)
{
    attn_figure figure = ATTN_FIGURE_INIT;
    attn_series series[2];
    attn_error err = {ATTN_OK, 0, ""};
    size_t mark = cli_mark();
    curve curves[2];

    if (read_curves(log->path, curves) && curves[0].count + curves[1].count > 1) {
        series[0] = (attn_series){"training", curves[0].x, curves[0].y, curves[0].count};
        series[1] = (attn_series){"held out", curves[1].x, curves[1].y, curves[1].count};
        figure.kind = ATTN_FIGURE_CURVES;
        figure.title = "Loss";
        figure.key_title = "step";
        figure.value_title = "nll of a token (nats)";
        figure.series = series;
        figure.series_count = curves[1].count > 0 ? 2 : 1;
        if (attn_figure_write(NULL, &figure, ATTN_PICTURE_PNG, join(folder, "loss.png"), &err) !=
            ATTN_OK)
            cli_note("no picture of the loss: %s", err.text);
    }
    cli_release(mark);
}

/* --- Progress --------------------------------------------------------------------------------- */

void train_progress_begin(train_progress *p, int quiet, int64_t step)
{
    *p = (train_progress){.quiet = quiet, .first = step, .start = cli_clock()};
    p->shown = p->start;
    p->terminal = isatty(STDERR_FILENO);
}

static const char *time_text(char *buffer, size_t size, double seconds)
{
    long s = (long)(seconds + 0.5);

    if (s >= 3600)
        snprintf(buffer, size, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
    else
        snprintf(buffer, size, "%ld:%02ld", s / 60, s % 60);
    return buffer;
}

void train_progress_step(train_progress *p, const train_line *l, int64_t steps)
{
    const double every = p->terminal ? 0.2 : 10;
    double now = cli_clock(), left;
    char text[200], eta[32];

    if (p->quiet || now - p->shown < every || l->step <= p->first)
        return;
    p->shown = now;
    left = (now - p->start) / (double)(l->step - p->first) * (double)(steps - l->step);
    snprintf(text, sizeof text,
             "step %lld/%lld  loss %.4f  nll %.4f  right %.1f %%  %.0f tokens/s  eta %s",
             (long long)l->step, (long long)steps, l->loss, l->nll, 100 * l->accuracy, l->tokens_s,
             time_text(eta, sizeof eta, left));
    if (!p->terminal) {
        cli_note("%s", text);
        return;
    }
    fprintf(stderr, "\r\033[K%s", text);
    fflush(stderr);
    p->on_screen = 1;
}

void train_progress_clear(train_progress *p)
{
    if (p->on_screen)
        fputs("\r\033[K", stderr);
    p->on_screen = 0;
}
