/* score.c: `attn score`: BLEU and chrF of translations. */
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/console.h"
#include "include/attn/text.h"

enum { SCORE_PLUS, SCORE_SENTENCES, SCORE_DIGITS, SCORE_JSON, SCORE_OPTIONS };

static const cli_option score_options[SCORE_OPTIONS] = {
    [SCORE_PLUS] = {"Scores", "chrf++", 0, CLI_FLAG, "", "chrF2++ too, which counts words", 0, 0},
    [SCORE_SENTENCES] = {NULL, "sentences", 0, CLI_FLAG, "",
                         "the scores of each line alone, in place of those of all", 0, 0},
    [SCORE_DIGITS] = {"Output", "digits", 'w', CLI_INTEGER, "N", "digits after the point (1)", 0,
                      17},
    [SCORE_JSON] = {NULL, "json", 0, CLI_FLAG, "", "JSON, one object a line", 0, 0},
};

/* One file read line by line. */
typedef struct score_input {
    const char *name;
    FILE *file;
    char *line;
    size_t room, size;
    size_t lines;
} score_input;

typedef struct score_job {
    const cli_value *o;
    int digits;
    score_input *inputs; /* the hypotheses, then the references */
    size_t count;
    attn_scorer *scorer;
} score_job;

/* --- Output --------------------------------------------------------------------------------- */

static json_t *integers_json(const int64_t *x, size_t n)
{
    json_t *list = json_array();

    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, json_integer(x[i]));
    return list;
}

static json_t *bleu_json(const attn_scores *s)
{
    json_t *json = json_object(), *list = json_array();

    for (size_t i = 0; i < 4; i++)
        json_array_append_new(list, json_real(s->precisions[i]));
    json_object_set_new(json, "score", json_real(s->bleu));
    json_object_set_new(json, "precisions", list);
    json_object_set_new(json, "matches", integers_json(s->matches, 4));
    json_object_set_new(json, "totals", integers_json(s->totals, 4));
    json_object_set_new(json, "brevity_penalty", json_real(s->brevity));
    json_object_set_new(json, "hypothesis_words", json_integer(s->hypothesis_words));
    json_object_set_new(json, "reference_words", json_integer(s->reference_words));
    return json;
}

static void print_json(const score_job *job, const attn_scores *s)
{
    json_t *json = json_object();

    json_object_set_new(json, "bleu", bleu_json(s));
    json_object_set_new(json, "chrf2", json_real(s->chrf));
    if (job->o[SCORE_PLUS].given)
        json_object_set_new(json, "chrf2++", json_real(s->chrf_words));
    json_object_set_new(json, "segments", json_integer(s->segments));
    json_object_set_new(json, "references", json_integer((json_int_t)job->count - 1));
    if (s->malformed)
        json_object_set_new(json, "malformed", json_integer(s->malformed));
    cli_print_json(json);
}

/* Signatures in sacreBLEU's form; the version says whose number it is. */
static void print_total(const score_job *job, const attn_scores *s)
{
    int digits = job->digits;
    const double *p = s->precisions;
    double ratio =
        s->reference_words ? (double)s->hypothesis_words / (double)s->reference_words : 0;

    cli_print("BLEU|nrefs:%zu|case:mixed|eff:no|tok:13a|smooth:exp|version:attn-%s = %.*f "
              "%.1f/%.1f/%.1f/%.1f (BP = %.3f ratio = %.3f hyp_len = %lld ref_len = %lld)",
              job->count - 1, attn_version(), digits, s->bleu, p[0], p[1], p[2], p[3], s->brevity,
              ratio, (long long)s->hypothesis_words, (long long)s->reference_words);
    cli_print("chrF2|nrefs:%zu|case:mixed|eff:yes|nc:6|nw:0|space:no|version:attn-%s = %.*f",
              job->count - 1, attn_version(), digits, s->chrf);
    if (job->o[SCORE_PLUS].given)
        cli_print("chrF2++|nrefs:%zu|case:mixed|eff:yes|nc:6|nw:2|space:no|version:attn-%s = %.*f",
                  job->count - 1, attn_version(), digits, s->chrf_words);
}

static void print_alone(const score_job *job, const attn_scores *s)
{
    int digits = job->digits;

    if (job->o[SCORE_JSON].given)
        print_json(job, s);
    else if (job->o[SCORE_PLUS].given)
        printf("%.*f\t%.*f\t%.*f\n", digits, s->bleu, digits, s->chrf, digits, s->chrf_words);
    else
        printf("%.*f\t%.*f\n", digits, s->bleu, digits, s->chrf);
}

/* --- Input ---------------------------------------------------------------------------------- */

/* 1: a line; 0: the end; -1 after a message. Only \n ends a line. */
static int next_line(score_input *in)
{
    ptrdiff_t n;

    errno = 0;
    n = getline(&in->line, &in->room, in->file);
    if (n < 0 && feof(in->file) && !ferror(in->file))
        return 0;
    if (n < 0) {
        cli_error("%s: %s", in->name, strerror(errno ? errno : ENOMEM));
        return -1;
    }
    in->size = (size_t)n - (in->line[n - 1] == '\n');
    in->lines++;
    return 1;
}

/* Files of unequal length: counts the rest of the longer one. */
static int unequal(score_job *job, size_t other)
{
    score_input *h = &job->inputs[0], *r = &job->inputs[other];
    int more;

    while ((more = next_line(h)) > 0)
        ;
    while (more == 0 && (more = next_line(r)) > 0)
        more = 0;
    return more < 0 ? CLI_FAILED
                    : cli_error("%s has %zu lines and %s has %zu; expected as many", h->name,
                                h->lines, r->name, r->lines);
}

/* 1: a line of every file; 0: all have ended; -1 after a message. */
static int next_lines(score_job *job)
{
    int first = next_line(&job->inputs[0]);

    for (size_t i = 1; i < job->count && first >= 0; i++) {
        int more = next_line(&job->inputs[i]);
        if (more < 0)
            return -1;
        if (more != first) {
            unequal(job, i);
            return -1;
        }
    }
    return first;
}

static int add_lines(score_job *job)
{
    const char **texts = cli_take(job->count * sizeof *texts);
    size_t *sizes = cli_take(job->count * sizeof *sizes);
    attn_scores alone = ATTN_SCORES_INIT;
    attn_error err = {0};
    int more;

    while ((more = next_lines(job)) > 0) {
        attn_status status;
        for (size_t i = 0; i < job->count; i++) {
            texts[i] = job->inputs[i].line;
            sizes[i] = job->inputs[i].size;
        }
        status = attn_scorer_add(job->scorer, texts[0], sizes[0], texts + 1, sizes + 1,
                                 job->count - 1, &alone, &err);
        if (status != ATTN_OK) {
            char place[32];
            snprintf(place, sizeof place, "line %zu", job->inputs[0].lines);
            return cli_failed(place, status, &err);
        }
        if (job->o[SCORE_SENTENCES].given)
            print_alone(job, &alone);
    }
    return more < 0 ? CLI_FAILED : CLI_OK;
}

static int score_all(score_job *job)
{
    attn_scores total = ATTN_SCORES_INIT;
    attn_error err = {0};
    attn_status status = attn_scorer_create(NULL, &job->scorer, &err);
    int code;

    if (status != ATTN_OK)
        return cli_failed(NULL, status, &err);
    code = add_lines(job);
    if (code != CLI_OK)
        return code;
    status = attn_scorer_total(job->scorer, &total, &err);
    if (status != ATTN_OK)
        return cli_failed(NULL, status, &err);
    if (total.segments == 0)
        return cli_error("%s: no lines, so there is no score", job->inputs[0].name);
    if (total.malformed)
        cli_note("%lld of %lld lines hold bytes that are not UTF-8; they count as U+FFFD",
                 (long long)total.malformed, (long long)total.segments);
    if (job->o[SCORE_SENTENCES].given)
        return CLI_OK;
    if (job->o[SCORE_JSON].given)
        print_json(job, &total);
    else
        print_total(job, &total);
    return CLI_OK;
}

/* --- Command -------------------------------------------------------------------------------- */

static int open_inputs(score_job *job, char **paths)
{
    const char *from_stdin = NULL;

    for (size_t i = 0; i < job->count; i++) {
        score_input *in = &job->inputs[i];
        int dash = strcmp(paths[i], "-") == 0;
        if (dash && from_stdin)
            return cli_usage("only one of the files can be '-', standard input");
        if (dash)
            from_stdin = paths[i];
        in->name = dash ? "standard input" : paths[i];
        in->file = dash ? stdin : fopen(paths[i], "rb");
        if (!in->file)
            return cli_error("%s: %s", in->name, strerror(errno));
    }
    return CLI_OK;
}

static int score_main(const cli_value *values, char **operands, size_t operand_count)
{
    score_job job = {values, 1, NULL, operand_count, NULL};
    int code;

    if (operand_count < 2)
        return cli_usage("which files? The translations, then one reference or more");
    if (values[SCORE_DIGITS].given)
        job.digits = (int)values[SCORE_DIGITS].integer;
    job.inputs = cli_take(job.count * sizeof *job.inputs);
    code = open_inputs(&job, operands);
    if (code == CLI_OK)
        code = score_all(&job);
    for (size_t i = 0; i < job.count; i++) {
        free(job.inputs[i].line);
        if (job.inputs[i].file && job.inputs[i].file != stdin)
            fclose(job.inputs[i].file);
    }
    attn_scorer_destroy(job.scorer);
    return code;
}

const cli_command cli_score_command = {
    .name = "score",
    .title = "attn score",
    .summary = "BLEU and chrF of translations, as sacreBLEU gives them",
    .usage = "attn score TRANSLATIONS REFERENCES [REFERENCES...] [options]",
    .about = "Compares the lines of the first file ('-': standard input) with the same lines of "
             "the others. BLEU: words of mteval-v13a, exponential smoothing. chrF: characters up "
             "to order 6. The numbers are those of `sacrebleu REFERENCES -i TRANSLATIONS -m bleu "
             "chrf`.",
    .examples = "attn score output.txt reference.txt\n"
                "attn translate -m models/en-de test.en | attn score - test.de --chrf++\n"
                "attn score output.txt first.txt second.txt --json\n"
                "attn score output.txt reference.txt --sentences | sort -n | head",
    .options = score_options,
    .option_count = SCORE_OPTIONS,
    .main = score_main,
};
