/* translate_put.c: translations as lines, as JSON, with alignments and pictures. */
#include <string.h>

#include "cli/translate.h"

/* --- Alignment ------------------------------------------------------------------------------ */

/* Word pairs of one translation: source, target, weight. */
typedef struct pair_list {
    int64_t (*pairs)[2];
    float *weights;
    size_t count;
} pair_list;

/* Of each word said, the word that it looked at most; or all that it looked at enough. The ends of
 * both texts are no words. */
static pair_list align(const translate_job *job, const speaker_maps *m)
{
    int64_t rows = m->rows - m->row_ends, columns = m->columns - m->column_ends;
    float least = (float)job->o[TRANSLATE_ALIGN_LEAST].number;
    size_t room = (size_t)(rows * columns) + 1;
    pair_list list = {cli_take(room * sizeof *list.pairs), cli_take(room * sizeof *list.weights),
                      0};

    for (int64_t r = 0; r < rows; r++) {
        const float *row = m->cells + r * m->columns;
        int64_t best = 0;
        for (int64_t c = 1; c < columns; c++)
            best = row[c] > row[best] ? c : best;
        for (int64_t c = 0; c < columns; c++) {
            if (job->o[TRANSLATE_ALIGN_LEAST].given ? row[c] < least : c != best)
                continue;
            list.pairs[list.count][0] = c;
            list.pairs[list.count][1] = r;
            list.weights[list.count++] = row[c];
        }
    }
    return list;
}

static void put_pairs(const translate_job *job, FILE *f, const pair_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        fprintf(f, "%s%lld-%lld", i ? " " : "", (long long)list->pairs[i][0],
                (long long)list->pairs[i][1]);
        if (job->o[TRANSLATE_ALIGN_WEIGHTS].given)
            fprintf(f, ":%.4f", (double)list->weights[i]);
    }
}

static json_t *pairs_json(const pair_list *list)
{
    json_t *json = json_array();

    for (size_t i = 0; i < list->count; i++) {
        json_t *pair = json_array();
        json_array_append_new(pair, json_integer(list->pairs[i][0]));
        json_array_append_new(pair, json_integer(list->pairs[i][1]));
        json_array_append_new(pair, cli_json_number((double)list->weights[i], 6));
        json_array_append_new(json, pair);
    }
    return json;
}

static json_t *labels_json(const attn_label *labels, int64_t count)
{
    json_t *json = json_array();

    for (int64_t i = 0; i < count; i++)
        json_array_append_new(json, cli_json_bytes(labels[i].text, labels[i].size));
    return json;
}

/* --- Looking -------------------------------------------------------------------------------- */

/* Attention of the best translation, its end included. */
static int look(translate_job *job, const translate_line *line, speaker_by by, speaker_mean mean,
                speaker_maps *m)
{
    const translation *t = &line->best[0];
    int64_t count = t->count + t->ended;
    int32_t *ids = cli_take(((size_t)count + 1) * sizeof *ids);

    memcpy(ids, t->ids, (size_t)t->count * sizeof *ids);
    if (t->ended)
        ids[t->count] = job->s.end;
    return speaker_look(&job->s, line->source, line->source_count, ids, count, by, mean, m);
}

/* The picture in a file is of one line: --line, or the first that is not empty. */
static int draws(const translate_job *job, uint64_t number)
{
    if (!job->o[TRANSLATE_SPEAKER + SPEAKER_SHOW].given)
        return 0;
    if (speaker_shows_below(&job->s))
        return 1;
    if (job->o[TRANSLATE_LINE].given)
        return number == (uint64_t)job->o[TRANSLATE_LINE].integer;
    return job->drawn == 0 || job->interactive;
}

/* --- Text ----------------------------------------------------------------------------------- */

/* A translation is one line, whatever the model says. */
static char *text_of(translate_job *job, const translation *t, size_t *size)
{
    char *text = speaker_text(&job->s, t->ids, t->count, size);

    for (size_t i = 0; i < *size; i++)
        if (text[i] == '\n' || text[i] == '\r')
            text[i] = ' ';
    return text;
}

static void put_text(const translate_job *job, const char *text, size_t size)
{
    if (job->raw)
        fwrite(text, 1, size, job->out.file);
    else
        cli_put(job->out.file, text, size);
}

static void put_best(translate_job *job, const translate_line *line, uint64_t number)
{
    size_t size;

    if (job->o[TRANSLATE_SCORE].given) {
        fprintf(job->out.file, "%.4f", line->best[0].log_probability);
        return;
    }
    if (!job->o[TRANSLATE_N_BEST].given) {
        const char *text = line->best_count ? text_of(job, &line->best[0], &size) : "";
        put_text(job, text, line->best_count ? size : 0);
        return;
    }
    for (size_t i = 0; i < line->best_count; i++) {
        const char *text = text_of(job, &line->best[i], &size);
        fprintf(job->out.file, "%s%llu\t%.4f\t", i ? "\n" : "", (unsigned long long)number,
                line->best[i].score);
        put_text(job, text, size);
    }
    if (line->best_count == 0)
        fprintf(job->out.file, "%llu\t0.0000\t", (unsigned long long)number);
}

static json_t *hypothesis_json(translate_job *job, const translation *t)
{
    json_t *json = json_object(), *pieces = json_array(), *logs = json_array();
    size_t size;
    const char *text = text_of(job, t, &size);

    json_object_set_new(json, "text", cli_json_bytes(text, size));
    json_object_set_new(json, "score", cli_json_number(t->score, 6));
    json_object_set_new(json, "log_probability", cli_json_number(t->log_probability, 6));
    for (int64_t i = 0; i < t->count + t->ended; i++) {
        const char *piece =
            attn_tokenizer_piece(job->s.tokenizer, i < t->count ? t->ids[i] : job->s.end, NULL);
        json_array_append_new(pieces, cli_json_text(piece ? piece : ""));
        json_array_append_new(logs, cli_json_number(t->of_ids[i], 6));
    }
    json_object_set_new(json, "pieces", pieces);
    json_object_set_new(json, "log_probabilities", logs);
    if (!t->ended)
        json_object_set_new(json, "cut", json_true());
    return json;
}

/* --- Pictures ------------------------------------------------------------------------------- */

/* Source and translation; NUL ends neither. */
static const char *title_of(translate_job *job, const translate_line *line)
{
    size_t size, all;
    char *text = text_of(job, &line->best[0], &size), *title, *end;

    all = line->text.size + size + 16;
    title = end = cli_take(all);
    memcpy(end, line->text.text, line->text.size);
    end += line->text.size;
    end += snprintf(end, 16, "  \xe2\x86\x92  ");
    memcpy(end, text, size);
    for (char *c = title; c < end; c++)
        *c = *c ? *c : ' ';
    return title;
}

static int draw(translate_job *job, const translate_line *line, uint64_t number)
{
    speaker_maps m;
    int code;

    if (!draws(job, number) || line->source_count == 0)
        return CLI_OK;
    code = look(job, line, (speaker_by)job->s.o[SPEAKER_BY].integer, speaker_mean_of(&job->s), &m);
    if (code == CLI_OK)
        code = speaker_draw(&job->s, &m, title_of(job, line));
    job->drawn = number;
    return code;
}

/* --- Lines ---------------------------------------------------------------------------------- */

static void put_json(translate_job *job, json_t *json)
{
    json_dumpf(json, job->out.file, JSON_ENSURE_ASCII | JSON_REAL_PRECISION(12));
    json_decref(json);
}

static json_t *line_json(const translate_line *line, uint64_t number)
{
    json_t *json = json_object();

    json_object_set_new(json, "line", json_integer((json_int_t)number));
    json_object_set_new(json, "source", cli_json_bytes(line->text.text, line->text.size));
    return json;
}

static void put_line_json(translate_job *job, const translate_line *line, uint64_t number,
                          const pair_list *pairs, const speaker_maps *m)
{
    json_t *json = line_json(line, number), *list = json_array();

    json_object_set_new(json, "text", json_string(""));
    if (line->best_count > 0) {
        json_t *best = hypothesis_json(job, &line->best[0]);
        json_object_update(json, best);
        json_decref(best);
    }
    for (size_t i = 0; i < line->best_count && job->o[TRANSLATE_N_BEST].given; i++)
        json_array_append_new(list, hypothesis_json(job, &line->best[i]));
    if (job->o[TRANSLATE_N_BEST].given)
        json_object_set(json, "best", list);
    json_decref(list);
    if (pairs) {
        json_object_set_new(json, "alignment", pairs_json(pairs));
        json_object_set_new(json, "source_words",
                            labels_json(m->column_labels, m->columns - m->column_ends));
        json_object_set_new(json, "words", labels_json(m->row_labels, m->rows - m->row_ends));
    }
    put_json(job, json);
}

int translate_put(translate_job *job, const translate_line *line, uint64_t number)
{
    size_t mark = cli_mark();
    int aligns = job->o[TRANSLATE_ALIGN].given, json = job->s.o[SPEAKER_JSON].given;
    int beside = aligns && strcmp(job->o[TRANSLATE_ALIGN].text, "-") == 0;
    pair_list pairs = {NULL, NULL, 0};
    speaker_maps m = {0};
    int code = CLI_OK;

    if (aligns && line->source_count > 0) {
        const cli_value *by = &job->s.o[SPEAKER_BY];
        code = look(job, line, by->given ? (speaker_by)by->integer : SPEAKER_BLANKS,
                    SPEAKER_ONLY_MEAN, &m);
        if (code == CLI_OK)
            pairs = align(job, &m);
    }
    if (code != CLI_OK)
        return code;
    if (json)
        put_line_json(job, line, number, aligns ? &pairs : NULL, &m);
    else
        put_best(job, line, number);
    if (beside && !json) {
        fputc('\t', job->out.file);
        put_pairs(job, job->out.file, &pairs);
    }
    fputc('\n', job->out.file);
    if (aligns && !beside) {
        put_pairs(job, job->alignments.file, &pairs);
        fputc('\n', job->alignments.file);
    }
    code = draw(job, line, number);
    cli_release(mark);
    return code;
}
