/* translate.c: `attn translate`: lines of text in another language, or the scores of given ones. */
#define _POSIX_C_SOURCE 200809L

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/translate.h"

enum {
    WINDOW = 4096,   /* lines that are sorted by length and decoded together */
    SCORED = 1 << 13 /* tokens scored at a time */
};

static const cli_option translate_options[TRANSLATE_OPTIONS] = {
    SPEAKER_ROWS(TRANSLATE_SPEAKER),
    [TRANSLATE_OUT] = {"Text", "out", 'o', CLI_TEXT, "FILE",
                       "the translations, one a line; appears when all are done (default: standard "
                       "output, as they are made)",
                       0, 0},
    [TRANSLATE_BEAM] = {"Search", "beam", 0, CLI_INTEGER, "N",
                        "hypotheses of a sentence (default 4); 1 is greedy search", 1, 1024},
    [TRANSLATE_N_BEST] = {NULL, "n-best", 0, CLI_INTEGER, "N",
                          "the N best of a sentence, each a line: number of the sentence, score, "
                          "text, parted by tabs",
                          1, 1024},
    [TRANSLATE_PENALTY] = {NULL, "length-penalty", 0, CLI_CHOICE, "none|gnmt|power",
                           "the score is the log-probability divided by 1, by ((5 + n) / 6)^alpha "
                           "(default: the paper's) or by n^alpha, of n tokens",
                           0, 0},
    [TRANSLATE_ALPHA] = {NULL, "alpha", 0, CLI_NUMBER, "X",
                         "of the length penalty (default 0.6; power: 1)", 0, 100},
    [TRANSLATE_END_COUNTED] = {NULL, "end-counted", 0, CLI_FLAG, "",
                               "the end is one of the n tokens", 0, 0},
    [TRANSLATE_STOP] = {NULL, "stop", 0, CLI_CHOICE, "bound|count",
                        "a sentence is done when nothing better can come (default), or as soon as "
                        "--beam hypotheses have ended",
                        0, 0},
    [TRANSLATE_PREFIX] = {NULL, "prefix", 0, CLI_TEXT, "TEXT", "every translation begins with it",
                          0, 0},
    [TRANSLATE_SCORE] =
        {NULL, "score", 0, CLI_TEXT, "FILE",
         "translate nothing: the log-probability (natural) of each line of FILE as "
         "the translation of the same line of the input; --align and --show are of it",
         0, 0},
    [TRANSLATE_BATCH] = {NULL, "batch", 0, CLI_INTEGER, "N",
                         "tokens of hypotheses kept at a time (default 32768): less memory or more "
                         "speed, the same output",
                         1, 1e9},
    [TRANSLATE_ALIGN] = {"Alignment", "align", 0, CLI_TEXT, "FILE",
                         "for each translation a line of pairs i-j: word i of the source is what "
                         "word j looked at most, by the mean of --heads, words as blanks part them "
                         "(or --by); - puts them after the translation and a tab",
                         0, 0},
    [TRANSLATE_ALIGN_WEIGHTS] = {NULL, "align-weights", 0, CLI_FLAG, "",
                                 "pairs with their weights: i-j:0.8312", 0, 0},
    [TRANSLATE_ALIGN_LEAST] = {NULL, "align-least", 0, CLI_NUMBER, "X",
                               "all pairs of at least this weight, not the heaviest of each word",
                               0, 1},
    [TRANSLATE_LINE] =
        {NULL, "line", 0, CLI_INTEGER, "N",
         "the line whose attention --show FILE draws (default: the first that is not empty)", 1,
         1e12},
};

/* --- Source --------------------------------------------------------------------------------- */

static int is_empty(const char *text, size_t size)
{
    while (size > 0 && (text[size - 1] == ' ' || text[size - 1] == '\t' || text[size - 1] == '\r'))
        size--;
    return size == 0;
}

/* Ids and the end, as attn train saw sources; more than the model has positions are cut off. */
static int encode_line(translate_job *job, translate_line *line, uint64_t number, int even_empty)
{
    const attn_model_config *c = job->s.config;
    char what[32];
    int code;

    line->source_count = 0;
    if (!even_empty && is_empty(line->text.text, line->text.size))
        return CLI_OK;
    snprintf(what, sizeof what, "line %llu", (unsigned long long)number);
    code = speaker_encode(&job->s, what, line->text.text, line->text.size, &line->source,
                          &line->source_count);
    if (code != CLI_OK)
        return code;
    if (line->source_count == 0 && !even_empty)
        return CLI_OK;
    line->source[line->source_count++] = job->s.end;
    if (c->positions != ATTN_POSITIONS_LEARNED || line->source_count <= c->max_positions)
        return CLI_OK;
    cli_note("%s: %lld tokens; the model reads the first %lld", what, (long long)line->source_count,
             (long long)c->max_positions);
    line->source_count = c->max_positions;
    line->source[line->source_count - 1] = job->s.end;
    return CLI_OK;
}

/* --- Translating ---------------------------------------------------------------------------- */

/* A window while it is worked on: lines that have something to translate. */
typedef struct window {
    translate_job *job;
    translate_line *lines;
    size_t count;
    size_t *of; /* line of each sequence of the batch */
    uint64_t done, bytes_before;
} window;

static void keep(translation *t, const attn_hypothesis *h)
{
    size_t count = (size_t)h->count;

    t->count = h->count;
    t->ended = h->end >= 0;
    t->score = h->score;
    t->log_probability = h->log_probability;
    t->ids = cli_take((count + 1) * sizeof *t->ids);
    t->of_ids = cli_take((count + 1) * sizeof *t->of_ids);
    if (count > 0)
        memcpy(t->ids, h->tokens, count * sizeof *t->ids);
    memcpy(t->of_ids, h->of_tokens, (count + (size_t)t->ended) * sizeof *t->of_ids);
}

static int sentence_done(void *user, int64_t source, const attn_hypothesis *hypotheses,
                         size_t count)
{
    window *w = user;
    translate_job *job = w->job;
    translate_line *line = &w->lines[w->of[source]];

    line->best = cli_take(count * sizeof *line->best);
    line->best_count = count;
    for (size_t i = 0; i < count; i++)
        keep(&line->best[i], &hypotheses[i]);
    if (count > 0)
        job->tokens += (uint64_t)(line->best[0].count + line->best[0].ended);
    w->done += line->text.size + 1;
    if (job->input.total == 0)
        return cli_interrupted() != 0;
    return cli_progress_step(&job->progress, w->bytes_before + w->done, job->input.total);
}

/* The sequences of a window; 0 if there are none. */
static int64_t make_batch(window *w, attn_batch *b)
{
    const translate_job *job = w->job;
    size_t tokens = 0, prefix = (size_t)job->prefix_count;
    int32_t *source, *target;
    int64_t *starts, *target_starts;

    for (size_t i = 0; i < w->count; i++)
        tokens += (size_t)w->lines[i].source_count;
    w->of = cli_take((w->count + 1) * sizeof *w->of);
    source = cli_take((tokens + 1) * sizeof *source);
    starts = cli_take((w->count + 1) * sizeof *starts);
    target = cli_take((w->count * prefix + 1) * sizeof *target);
    target_starts = cli_take((w->count + 1) * sizeof *target_starts);
    for (size_t i = 0; i < w->count; i++) {
        const translate_line *line = &w->lines[i];
        int64_t n = b->segments;
        if (line->source_count == 0)
            continue;
        memcpy(source + starts[n], line->source, (size_t)line->source_count * sizeof *source);
        if (prefix > 0)
            memcpy(target + target_starts[n], job->prefix, prefix * sizeof *target);
        starts[n + 1] = starts[n] + line->source_count;
        target_starts[n + 1] = target_starts[n] + job->prefix_count;
        w->of[b->segments++] = i;
    }
    b->source = source;
    b->source_starts = starts;
    if (prefix > 0) {
        b->target = target;
        b->target_starts = target_starts;
    }
    return b->segments;
}

static void search_options(translate_job *job, attn_generate_options *g)
{
    static const attn_length_penalty kinds[] = {ATTN_LENGTH_NONE, ATTN_LENGTH_GNMT,
                                                ATTN_LENGTH_POWER};
    const cli_value *o = job->o;

    g->beam = o[TRANSLATE_BEAM].given ? o[TRANSLATE_BEAM].integer : 4;
    g->best = o[TRANSLATE_N_BEST].given ? o[TRANSLATE_N_BEST].integer : 1;
    g->penalty =
        o[TRANSLATE_PENALTY].given ? kinds[o[TRANSLATE_PENALTY].integer] : ATTN_LENGTH_GNMT;
    g->alpha = g->penalty == ATTN_LENGTH_POWER ? 1 : 0.6;
    if (o[TRANSLATE_ALPHA].given)
        g->alpha = o[TRANSLATE_ALPHA].number;
    g->end_counted = o[TRANSLATE_END_COUNTED].given;
    g->stop = (attn_stop)o[TRANSLATE_STOP].integer;
    speaker_limits(&job->s, g);
}

static int failed_window(const window *w, uint64_t first, const attn_error *err)
{
    char what[64];

    if (cli_interrupted())
        return CLI_FAILED;
    snprintf(what, sizeof what, w->count == 1 ? "line %llu" : "lines %llu to %llu",
             (unsigned long long)first, (unsigned long long)(first + w->count - 1));
    return cli_failed(what, err->status, err);
}

static int translate_window(window *w, uint64_t first)
{
    translate_job *job = w->job;
    attn_batch batch = ATTN_BATCH_INIT;
    attn_generate_options g = ATTN_GENERATE_OPTIONS_INIT;
    attn_error err = {0};
    int code = CLI_OK;

    for (size_t i = 0; i < w->count && code == CLI_OK; i++)
        code = encode_line(job, &w->lines[i], first + i, 0);
    if (code != CLI_OK)
        return code;
    search_options(job, &g);
    g.done = sentence_done;
    g.user = w;
    if (make_batch(w, &batch) > 0 && attn_generate(job->s.generator, &batch, &g, &err) != ATTN_OK)
        return failed_window(w, first, &err);
    cli_progress_end(&job->progress); /* a bar would stand in the text */
    for (size_t i = 0; i < w->count && code == CLI_OK; i++)
        code = translate_put(job, &w->lines[i], first + i);
    return code;
}

/* --- Scoring -------------------------------------------------------------------------------- */

/* Lines from..to of a window as one batch, and their scores printed. */
static int score_lines(window *w, translation *given, size_t from, size_t to, uint64_t first)
{
    translate_job *job = w->job;
    attn_batch batch = ATTN_BATCH_INIT;
    attn_score_args args = ATTN_SCORE_ARGS_INIT;
    attn_error err = {0};
    window part = {.job = job, .lines = w->lines + from, .count = to - from};
    int32_t *target;
    int64_t *starts = cli_take((part.count + 1) * sizeof *starts);
    int code = CLI_OK;

    for (size_t i = 0; i < part.count; i++)
        starts[i + 1] = starts[i] + given[from + i].count + 1;
    target = cli_take((size_t)starts[part.count] * sizeof *target);
    args.of_tokens = cli_take((size_t)starts[part.count] * sizeof *args.of_tokens);
    args.sums = cli_take(part.count * sizeof *args.sums);
    for (size_t i = 0; i < part.count; i++) {
        const translation *t = &given[from + i];
        memcpy(target + starts[i], t->ids, (size_t)(t->count + 1) * sizeof *target);
    }
    make_batch(&part, &batch);
    batch.target = target;
    batch.target_starts = starts;
    args.batch = &batch;
    if (attn_generate_score(job->s.generator, &args, &err) != ATTN_OK)
        return failed_window(&part, first + from, &err);
    for (size_t i = 0; i < part.count && code == CLI_OK; i++) {
        translation *t = &given[from + i];
        t->of_ids = args.of_tokens + starts[i];
        t->score = t->log_probability = args.sums[i];
        part.lines[i].best = t;
        part.lines[i].best_count = 1;
        code = translate_put(job, &part.lines[i], first + from + i);
    }
    return code;
}

static int unequal(const translate_job *job)
{
    return cli_error("%s and %s have different numbers of lines; expected as many", job->input.name,
                     job->references.name);
}

static int score_window(window *w, uint64_t first)
{
    translate_job *job = w->job;
    cli_line *lines = cli_take(w->count * sizeof *lines);
    translation *given = cli_take(w->count * sizeof *given);
    ptrdiff_t got = cli_lines_take(&job->references, w->count, w->count, lines);
    int64_t tokens = 0;
    int code = CLI_OK;

    if (got < 0)
        return CLI_FAILED;
    if ((size_t)got != w->count)
        return unequal(job);
    for (size_t i = 0; i < w->count && code == CLI_OK; i++) {
        code = encode_line(job, &w->lines[i], first + i, 1);
        if (code == CLI_OK)
            code = speaker_encode(&job->s, job->references.name, lines[i].text, lines[i].size,
                                  &given[i].ids, &given[i].count);
        if (code == CLI_OK)
            given[i].ids[given[i].count] = job->s.end;
        given[i].ended = 1;
    }
    for (size_t from = 0, to = 0; to < w->count && code == CLI_OK; from = to) {
        for (tokens = 0; to < w->count && (to == from || tokens < SCORED); to++)
            tokens += w->lines[to].source_count + given[to].count + 1;
        code = score_lines(w, given, from, to, first);
        job->tokens += (uint64_t)tokens;
    }
    return code;
}

/* --- The whole input ------------------------------------------------------------------------ */

static void prompt(const translate_job *job)
{
    if (job->interactive && isatty(STDERR_FILENO)) {
        fputs("> ", stderr);
        fflush(stderr);
    }
}

static int each_window(translate_job *job)
{
    cli_line *lines = cli_take(WINDOW * sizeof *lines);
    int code = CLI_OK, scores = job->o[TRANSLATE_SCORE].given;

    while (code == CLI_OK) {
        size_t mark = cli_mark();
        window w = {.job = job, .bytes_before = job->input.taken};
        uint64_t first = job->input.number + 1;
        ptrdiff_t got;
        prompt(job);
        got = cli_lines_take(&job->input, 1, job->interactive ? 1 : WINDOW, lines);
        if (got <= 0)
            return got < 0 ? CLI_FAILED : CLI_OK;
        w.count = (size_t)got;
        w.lines = cli_take(w.count * sizeof *w.lines);
        for (size_t i = 0; i < w.count; i++) {
            w.lines[i].text = lines[i];
            if (lines[i].size > 0 && lines[i].text[lines[i].size - 1] == '\r')
                w.lines[i].text.size--;
        }
        code = scores ? score_window(&w, first) : translate_window(&w, first);
        if (code == CLI_OK)
            code = cli_sink_flush(&job->out);
        job->lines += w.count;
        cli_release(mark);
    }
    return code;
}

static void say_totals(const translate_job *job)
{
    double seconds = cli_clock() - job->start;

    if (job->interactive || job->s.o[SPEAKER_QUIET].given || !isatty(STDERR_FILENO))
        return;
    cli_note("%llu lines, %llu tokens in %.1f s: %.0f tokens/s", (unsigned long long)job->lines,
             (unsigned long long)job->tokens, seconds, (double)job->tokens / seconds);
}

static int translate_all(translate_job *job)
{
    cli_line extra;
    int code;

    if (job->interactive && isatty(STDERR_FILENO) && !job->s.o[SPEAKER_QUIET].given)
        cli_note("a sentence a line, then Enter; Ctrl-D ends");
    job->start = cli_clock();
    cli_progress_begin(&job->progress);
    code = each_window(job);
    cli_progress_end(&job->progress);
    if (job->interactive && isatty(STDERR_FILENO))
        fputc('\n', stderr);
    if (code == CLI_OK && job->o[TRANSLATE_SCORE].given &&
        cli_lines_take(&job->references, 1, 1, &extra) != 0)
        code = unequal(job);
    if (code == CLI_OK && job->o[TRANSLATE_LINE].given && job->drawn == 0)
        code = cli_error("--line %lld: the input has %llu lines%s",
                         (long long)job->o[TRANSLATE_LINE].integer, (unsigned long long)job->lines,
                         (uint64_t)job->o[TRANSLATE_LINE].integer <= job->lines
                             ? ", and that one is empty"
                             : "");
    if (code == CLI_OK)
        say_totals(job);
    return code;
}

/* --- The command ---------------------------------------------------------------------------- */

static int check(const cli_value *o, size_t operands)
{
    static const int searching[] = {TRANSLATE_BEAM,  TRANSLATE_N_BEST,      TRANSLATE_PENALTY,
                                    TRANSLATE_ALPHA, TRANSLATE_END_COUNTED, TRANSLATE_STOP,
                                    TRANSLATE_PREFIX};
    const cli_value *s = o + TRANSLATE_SPEAKER;
    int64_t beam = o[TRANSLATE_BEAM].given ? o[TRANSLATE_BEAM].integer : 4;

    if (operands > 1)
        return cli_usage("%zu files; expected one, or none for standard input", operands);
    for (size_t i = 0; i < sizeof searching / sizeof *searching; i++)
        if (o[TRANSLATE_SCORE].given && o[searching[i]].given)
            return cli_usage("--%s does not go with --score", translate_options[searching[i]].name);
    if (o[TRANSLATE_N_BEST].given && o[TRANSLATE_N_BEST].integer > beam)
        return cli_usage("--n-best %lld: at most --beam, %lld",
                         (long long)o[TRANSLATE_N_BEST].integer, (long long)beam);
    if (o[TRANSLATE_ALPHA].given && o[TRANSLATE_PENALTY].given && o[TRANSLATE_PENALTY].integer == 0)
        return cli_usage("--alpha does not go with --length-penalty none");
    if ((o[TRANSLATE_ALIGN_WEIGHTS].given || o[TRANSLATE_ALIGN_LEAST].given) &&
        !o[TRANSLATE_ALIGN].given)
        return cli_usage("--align-weights and --align-least need --align");
    if (o[TRANSLATE_ALIGN].given && o[TRANSLATE_N_BEST].given && !s[SPEAKER_JSON].given)
        return cli_usage("--align does not go with --n-best, unless in --json");
    if (o[TRANSLATE_LINE].given &&
        (!s[SPEAKER_SHOW].given || strcmp(s[SPEAKER_SHOW].text, "-") == 0))
        return cli_usage("--line needs --show FILE");
    if (s[SPEAKER_SHOW].given && strcmp(s[SPEAKER_SHOW].text, "-") == 0 &&
        (s[SPEAKER_JSON].given || o[TRANSLATE_OUT].given))
        return cli_usage("--show - does not go with --json and --out");
    return CLI_OK;
}

static int open_all(translate_job *job, const char *path)
{
    const cli_value *o = job->o;
    int64_t beam = o[TRANSLATE_BEAM].given ? o[TRANSLATE_BEAM].integer : 4;
    const char *align = o[TRANSLATE_ALIGN].text;
    int code = speaker_open(&job->s, ATTN_STACK_ENCODER_DECODER, beam > 256 ? beam : 0,
                            o[TRANSLATE_BATCH].integer);

    if (code == CLI_OK && o[TRANSLATE_PREFIX].given)
        code = speaker_encode(&job->s, "--prefix", o[TRANSLATE_PREFIX].text,
                              strlen(o[TRANSLATE_PREFIX].text), &job->prefix, &job->prefix_count);
    if (code == CLI_OK)
        code = cli_lines_open(&job->input, path ? path : "-");
    if (code == CLI_OK && o[TRANSLATE_SCORE].given)
        code = cli_lines_open(&job->references, o[TRANSLATE_SCORE].text);
    if (code == CLI_OK && align && strcmp(align, "-") != 0)
        code = cli_sink_begin(&job->alignments, align);
    if (code == CLI_OK)
        code = cli_sink_begin(&job->out, o[TRANSLATE_OUT].text);
    return code;
}

static int translate_main(const cli_value *o, char **operands, size_t count)
{
    translate_job job = {.o = o};
    int code = check(o, count), ended;

    if (code != CLI_OK)
        return code;
    cli_catch_signals();
    job.s.o = o + TRANSLATE_SPEAKER;
    job.input.fd = job.references.fd = -1;
    job.interactive = count == 0 && isatty(STDIN_FILENO);
    job.raw = o[TRANSLATE_OUT].given || !isatty(STDOUT_FILENO);
    job.progress.quiet = job.s.o[SPEAKER_QUIET].given;
    code = open_all(&job, count ? operands[0] : NULL);
    if (code == CLI_OK)
        code = translate_all(&job);
    ended = cli_sink_end(&job.alignments, code == CLI_OK);
    code = code == CLI_OK ? ended : code;
    ended = cli_sink_end(&job.out, code == CLI_OK);
    code = code == CLI_OK ? ended : code;
    cli_lines_close(&job.input);
    cli_lines_close(&job.references);
    speaker_close(&job.s);
    if (cli_interrupted())
        cli_die_of_signal();
    return code;
}

const cli_command cli_translate_command = {
    .name = "translate",
    .title = "attn translate",
    .summary = "translate text, line by line, and show what each word looked at",
    .usage = "attn translate -m FOLDER [TEXT] [-o FILE] [options]\n"
             "attn translate -m FOLDER SOURCE --score TRANSLATION",
    .about =
        "Translates each line of a file, of a pipe, or, at a terminal, as it is typed. Every line "
        "gives one line; an empty one stays empty. Translations do not depend on the lines around "
        "them, on threads or on --batch.",
    .examples =
        "attn translate -m models/en-de\n"
        "echo 'The file could not be saved.' | attn translate -m models/en-de --show -\n"
        "attn translate -m models/en-de test.en -o test.out && attn score test.out test.de\n"
        "attn translate -m models/en-de test.en --line 3 --show map.html\n"
        "attn translate -m models/en-de test.en --n-best 4 --length-penalty power\n"
        "attn translate -m models/en-de test.en --align - --heads 2.1",
    .options = translate_options,
    .option_count = TRANSLATE_OPTIONS,
    .main = translate_main,
};
