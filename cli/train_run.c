/* train_run.c: the loop of `attn train`: steps, evaluations, checkpoints, and when to stop. */
#define _POSIX_C_SOURCE 200809L

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/console.h"
#include "cli/training.h"

enum { MAX_PAIRS = TRAIN_OPTIONS + 8, TEXT = 40 };

static int64_t integer(const cli_value *v, int64_t otherwise)
{
    return v->given ? v->integer : otherwise;
}

/* --- Checkpoints ------------------------------------------------------------------------------ */

/* The options of the run and how its evaluations went, as text. */
static int save(const train_run *run)
{
    const char *keys[MAX_PAIRS], *values[MAX_PAIRS];
    char names[TRAIN_OPTIONS][TEXT], best[TEXT], worse[TEXT], since[4 * TEXT];
    attn_error err = {ATTN_OK, 0, ""};
    size_t n = 0;

    for (size_t i = TRAIN_OF_RUN; i < TRAIN_OPTIONS; i++) {
        if (!run->o[i].given)
            continue;
        snprintf(names[i], sizeof names[i], "option.%s", cli_train_command.options[i].name);
        keys[n] = names[i];
        values[n++] = run->o[i].text;
    }
    snprintf(best, sizeof best, "%a", run->best);
    snprintf(worse, sizeof worse, "%" PRId64, run->worse);
    keys[n] = "run.best";
    values[n++] = best;
    keys[n] = "run.worse";
    values[n++] = worse;
    snprintf(since, sizeof since, "%a %a %" PRId64 " %" PRId64, run->since.loss, run->since.nll,
             run->since.tokens, run->since.right);
    keys[n] = "run.since";
    values[n++] = since;
    keys[n] = "run.done";
    values[n++] = run->done ? "1" : "0";
    if (attn_trainer_save(run->trainer, run->folder, integer(&run->o[TRAIN_KEEP], 2), keys, values,
                          n, &err) != ATTN_OK)
        return cli_failed(NULL, err.status, &err);
    return CLI_OK;
}

/* The model alone, for use: the average if there is one. Resuming never reads it. */
static int save_model(const train_run *run)
{
    size_t size = strlen(run->folder) + 24;
    char *path = cli_take(size);
    attn_error err = {ATTN_OK, 0, ""};

    snprintf(path, size, "%s/model.safetensors", run->folder);
    if (attn_model_save(run->model, attn_trainer_average(run->trainer), path, &err) != ATTN_OK)
        return cli_failed(NULL, err.status, &err);
    return CLI_OK;
}

/* --- Evaluation ------------------------------------------------------------------------------- */

/* Tries the model on what is held out, and decides whether to go on. */
static int evaluate(train_run *run)
{
    attn_evaluation e;
    attn_error err = {ATTN_OK, 0, ""};
    double tokens;
    int averaged = attn_trainer_average(run->trainer) != NULL;

    if (attn_trainer_evaluate(run->trainer, &run->data.held_out, averaged, &e, &err) != ATTN_OK)
        return cli_failed(NULL, err.status, &err);
    tokens = (double)e.sums.tokens;
    run->line.evaluated = 1;
    run->line.held_loss = e.sums.loss / tokens;
    run->line.held_nll = e.sums.nll / tokens;
    run->line.held_accuracy = (double)e.sums.right / tokens;
    run->line.exact = (double)e.exact / (double)e.sequences;
    if (run->line.held_nll < run->best) {
        run->best = run->line.held_nll;
        run->worse = 0;
    } else {
        run->worse++;
    }
    if (run->o[TRAIN_PATIENCE].given && run->worse >= run->o[TRAIN_PATIENCE].integer)
        run->done = 1;
    if (run->o[TRAIN_TASK].given && e.exact == e.sequences)
        run->done = 1;
    return CLI_OK;
}

static void print_line(const train_run *run)
{
    const train_line *l = &run->line;
    json_t *json;

    if (!run->o[TRAIN_JSON].given) {
        cli_print("step %6lld  loss %.4f  nll %.4f  right %6.2f %%   held out: nll %.4f  right "
                  "%6.2f %%  exact %6.2f %%",
                  (long long)l->step, l->loss, l->nll, 100 * l->accuracy, l->held_nll,
                  100 * l->held_accuracy, 100 * l->exact);
        return;
    }
    json = json_object();
    json_object_set_new(json, "step", json_integer(l->step));
    json_object_set_new(json, "epoch", json_integer(l->epoch));
    json_object_set_new(json, "loss", cli_json_number(l->loss, 6));
    json_object_set_new(json, "nll", cli_json_number(l->nll, 6));
    json_object_set_new(json, "accuracy", cli_json_number(l->accuracy, 6));
    json_object_set_new(json, "rate", cli_json_number(l->rate, 9));
    json_object_set_new(json, "tokens_s", cli_json_number(l->tokens_s, 0));
    json_object_set_new(json, "held_nll", cli_json_number(l->held_nll, 6));
    json_object_set_new(json, "held_accuracy", cli_json_number(l->held_accuracy, 6));
    json_object_set_new(json, "exact", cli_json_number(l->exact, 6));
    cli_print_json(json);
}

/* --- Steps ------------------------------------------------------------------------------------ */

/* For the speed of the last steps. */
typedef struct window {
    int64_t tokens;
    double since; /* clock */
} window;

static void add_step(train_run *run, window *w, const attn_step *s)
{
    attn_loss *sums = &run->since;
    train_line *line = &run->line;
    double tokens;

    sums->loss += s->sums.loss;
    sums->nll += s->sums.nll;
    sums->tokens += s->sums.tokens;
    sums->right += s->sums.right;
    w->tokens += s->tokens;
    tokens = (double)(sums->tokens > 0 ? sums->tokens : 1);
    line->step = s->step;
    line->epoch = s->epoch;
    line->loss = sums->loss / tokens;
    line->nll = sums->nll / tokens;
    line->accuracy = (double)sums->right / tokens;
    line->norm = s->norm;
    line->rate = s->rate;
    line->tokens_s = (double)w->tokens / (cli_clock() - w->since);
    line->evaluated = 0;
}

static int one_step(train_run *run, train_log *log, train_progress *progress, window *w)
{
    int64_t log_every = integer(&run->o[TRAIN_LOG_EVERY], 20);
    int64_t evaluate_every = integer(&run->o[TRAIN_EVALUATE], 200);
    attn_error err = {ATTN_OK, 0, ""};
    attn_step step;
    int last, code = CLI_OK;

    if (attn_trainer_step(run->trainer, &step, &err) != ATTN_OK) {
        train_progress_clear(progress);
        return cli_failed(NULL, err.status, &err);
    }
    add_step(run, w, &step);
    train_progress_step(progress, &run->line, run->steps);
    last = step.step == run->steps;
    if (last || step.step % evaluate_every == 0)
        code = evaluate(run);
    if (code == CLI_OK && (run->line.evaluated || step.step % log_every == 0)) {
        code = train_log_add(log, &run->line);
        if (run->line.evaluated) {
            train_progress_clear(progress);
            print_line(run);
        }
        *w = (window){.since = cli_clock()};
        run->since = (attn_loss){0};
    }
    return code;
}

static int loop(train_run *run, train_log *log)
{
    int64_t save_every = integer(&run->o[TRAIN_SAVE_EVERY], 500);
    int64_t step = attn_trainer_steps(run->trainer), saved = step;
    window w = {.since = cli_clock()};
    train_progress progress;
    int code = CLI_OK;

    train_progress_begin(&progress, run->o[TRAIN_QUIET].given, step);
    while (code == CLI_OK && step < run->steps && !run->done && !cli_interrupted()) {
        code = one_step(run, log, &progress, &w);
        step = attn_trainer_steps(run->trainer);
        if (code == CLI_OK && step % save_every == 0) {
            code = save(run);
            if (code == CLI_OK)
                code = save_model(run);
            saved = step;
        }
    }
    train_progress_clear(&progress);
    if (code == CLI_OK && saved != step)
        code = save(run);
    return code;
}

int train_go(train_run *run)
{
    train_log log = {0};
    int64_t from = attn_trainer_steps(run->trainer);
    int code = train_log_open(&log, run->folder, from), closed;

    if (code == CLI_OK) {
        cli_catch_signals();
        code = loop(run, &log);
    }
    closed = train_log_close(&log);
    if (code == CLI_OK)
        code = closed;
    if (code == CLI_OK)
        code = save_model(run);
    if (code == CLI_OK) {
        train_log_draw(&log, run->folder);
        train_look(run);
    }
    return code;
}
