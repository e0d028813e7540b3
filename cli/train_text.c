/* train_text.c: sequences from files of text, one a line. */
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/console.h"
#include "cli/training.h"
#include "include/attn/text.h"

#define ALL INT64_MAX

/* Ids that grow. */
typedef struct id_list {
    int32_t *ids;
    size_t count, room;
} id_list;

/* A side of the pairs: lines of a file, one after the other. */
typedef struct text_side {
    id_list ids;
    int64_t *starts; /* [lines + 1] */
    size_t lines, room;
} text_side;

typedef struct text_job {
    attn_tokenizer *tokenizer;
    attn_text_encoder *encoder;
    int32_t end; /* closes every sequence */
} text_job;

static void *grow(void *memory, size_t count, size_t *room, size_t size)
{
    size_t more = *room ? 2 * *room : 1024;
    char *bigger;

    if (count < *room)
        return memory;
    bigger = cli_take(more * size); /* what is left behind is freed at the end of the program */
    if (count > 0)
        memcpy(bigger, memory, count * size);
    *room = more;
    return bigger;
}

static void add_id(id_list *list, int32_t id)
{
    list->ids = grow(list->ids, list->count, &list->room, sizeof *list->ids);
    list->ids[list->count++] = id;
}

static int add_line(const text_job *job, text_side *side, const char *path, const char *line,
                    size_t size)
{
    attn_error err = {ATTN_OK, 0, ""};
    const int32_t *ids;
    size_t count;
    attn_status st = attn_text_encode(job->encoder, line, size, 0, &ids, &count, &err);

    if (st != ATTN_OK)
        return cli_failed(path, st, &err);
    for (size_t i = 0; i < count; i++)
        add_id(&side->ids, ids[i]);
    add_id(&side->ids, job->end);
    side->starts = grow(side->starts, side->lines + 1, &side->room, sizeof *side->starts);
    side->starts[++side->lines] = (int64_t)side->ids.count;
    return CLI_OK;
}

static int read_side(const text_job *job, const char *path, text_side *side)
{
    FILE *f = fopen(path, "r");
    char *line = NULL;
    size_t room = 0;
    ssize_t n;
    int code = CLI_OK;

    if (!f)
        return cli_error("%s: %s", path, strerror(errno));
    side->starts = grow(side->starts, 0, &side->room, sizeof *side->starts);
    while (code == CLI_OK && (n = getline(&line, &room, f)) >= 0) {
        while (n > 0 && (line[n - 1] == '\n' || line[n - 1] == '\r'))
            n--;
        code = add_line(job, side, path, line, (size_t)n);
    }
    if (code == CLI_OK && ferror(f))
        code = cli_error("%s: %s", path, strerror(errno));
    free(line);
    fclose(f);
    return code;
}

/* --- Choosing lines --------------------------------------------------------------------------- */

static int64_t length_of(const text_side *side, size_t i)
{
    return side->starts[i + 1] - side->starts[i];
}

/* Whether a line is tried on, not trained on: about `out` of `all` are, by the hash of the line's
 * number. */
static int is_held_out(size_t i, size_t all, int64_t out, uint64_t seed)
{
    uint64_t z = (i + 1) * 0x9e3779b97f4a7c15u + seed * 0xd1342543de82ef95u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z ^= z >> 27;
    return (double)(z >> 11) * 0x1p-53 * (double)all < (double)out;
}

typedef struct chosen {
    const unsigned char *of; /* of each line: 0 left out, 1 trained on, 2 tried on */
    unsigned char which;
} chosen;

static void copy_side(const text_side *from, chosen c, const int32_t **ids, const int64_t **starts,
                      int64_t *count)
{
    int64_t tokens = 0, n = 0, *s;
    int32_t *to;

    for (size_t i = 0; i < from->lines; i++)
        if (c.of[i] == c.which) {
            tokens += length_of(from, i);
            n++;
        }
    to = cli_take(((size_t)tokens + 1) * sizeof *to);
    s = cli_take(((size_t)n + 1) * sizeof *s);
    *ids = to;
    *starts = s;
    *count = n;
    for (size_t i = 0; i < from->lines; i++) {
        if (c.of[i] != c.which)
            continue;
        memcpy(to, from->ids.ids + from->starts[i], (size_t)length_of(from, i) * sizeof *to);
        to += length_of(from, i);
        s[1] = s[0] + length_of(from, i);
        s++;
    }
}

/* The lines that are neither empty nor too long: `out` of them are tried on, the others trained on;
 * all of them if out is `ALL`. */
static unsigned char *choose(const cli_value *o, const char *path, const text_side *source,
                             const text_side *target, int64_t out)
{
    int64_t most = o[TRAIN_MAX_TOKENS].given ? o[TRAIN_MAX_TOKENS].integer : 256;
    uint64_t seed = o[TRAIN_SEED].given ? (uint64_t)o[TRAIN_SEED].integer : 1;
    unsigned char *of = cli_take(target->lines + 1);
    size_t left_out = 0;

    for (size_t i = 0; i < target->lines; i++) {
        int64_t n = length_of(target, i), m = source->lines ? length_of(source, i) : n;

        of[i] = out == ALL || is_held_out(i, target->lines, out, seed) ? 2 : 1;
        if (n > most || m > most || n < 2 || m < 2)
            of[i] = 0;
        left_out += of[i] == 0;
    }
    if (left_out > 0)
        cli_note("%s: %zu of %zu lines are empty or have over %lld tokens, and are left out", path,
                 left_out, target->lines, (long long)most);
    return of;
}

static int take(const char *path, const text_side *source, const text_side *target, chosen pick,
                attn_corpus *c)
{
    copy_side(target, pick, &c->target, &c->target_starts, &c->count);
    if (source->lines > 0)
        copy_side(source, pick, &c->source, &c->source_starts, &c->count);
    if (c->count == 0)
        return cli_error("%s: no lines are left to %s", path,
                         pick.which == 1 ? "train on" : "try the model on");
    return CLI_OK;
}

/* --- The whole -------------------------------------------------------------------------------- */

static int open_tokenizer(const cli_value *o, text_job *job)
{
    static const char *const ends[] = {"</s>", "<|endoftext|>", "[SEP]"};
    attn_error err = {ATTN_OK, 0, ""};
    attn_status st =
        attn_tokenizer_open(NULL, o[TRAIN_TOKENIZER].text, NULL, &job->tokenizer, &err);

    if (st == ATTN_OK)
        st = attn_text_encoder_create(job->tokenizer, &job->encoder, &err);
    if (st != ATTN_OK)
        return cli_failed(NULL, st, &err);
    job->end = -1;
    for (size_t i = 0; i < sizeof ends / sizeof *ends && job->end < 0; i++)
        job->end = attn_tokenizer_find(job->tokenizer, ends[i], strlen(ends[i]));
    if (job->end < 0)
        return cli_error("%s: it has none of the tokens </s>, <|endoftext|>, [SEP] to end a line "
                         "with; attn vocab --special '</s>' makes one",
                         o[TRAIN_TOKENIZER].text);
    return CLI_OK;
}

/* Both sides, of as many lines; `from` may be NULL. */
static int read_pair(const text_job *job, const char *from, const char *to, text_side *source,
                     text_side *target)
{
    int code = read_side(job, to, target);

    if (code != CLI_OK || !from)
        return code;
    code = read_side(job, from, source);
    if (code == CLI_OK && source->lines != target->lines)
        code = cli_error("%s has %zu lines, %s has %zu", from, source->lines, to, target->lines);
    return code;
}

static int read_all(const cli_value *o, text_job *job, train_data *data)
{
    text_side source = {0}, target = {0}, valid_source = {0}, valid_target = {0};
    const char *path = o[TRAIN_TARGET].text, *valid_path = o[TRAIN_VALID_TARGET].text;
    int64_t out = o[TRAIN_HELD_OUT].given ? o[TRAIN_HELD_OUT].integer : 500;
    unsigned char *of;
    int code = open_tokenizer(o, job);

    if (code == CLI_OK)
        code = read_pair(job, o[TRAIN_SOURCE].text, path, &source, &target);
    if (code == CLI_OK && valid_path)
        code = read_pair(job, o[TRAIN_VALID_SOURCE].text, valid_path, &valid_source, &valid_target);
    if (code != CLI_OK)
        return code;
    data->vocabulary = attn_tokenizer_size(job->tokenizer);
    if (out > (int64_t)(target.lines / 5) + 1)
        out = (int64_t)(target.lines / 5) + 1;
    of = choose(o, path, &source, &target, valid_path ? 0 : out);
    code = take(path, &source, &target, (chosen){of, 1}, &data->corpus);
    if (code != CLI_OK)
        return code;
    if (!valid_path)
        return take(path, &source, &target, (chosen){of, 2}, &data->held_out);
    of = choose(o, valid_path, &valid_source, &valid_target, ALL);
    return take(valid_path, &valid_source, &valid_target, (chosen){of, 2}, &data->held_out);
}

int train_read_text(const cli_value *o, train_data *data)
{
    text_job job = {0};
    int code = read_all(o, &job, data);

    attn_text_encoder_destroy(job.encoder);
    attn_tokenizer_close(job.tokenizer);
    return code;
}

int train_keep_tokenizer(const cli_value *o, const char *folder)
{
    attn_tokenizer *tokenizer;
    attn_error err = {ATTN_OK, 0, ""};
    size_t size = strlen(folder) + 24;
    char *path = cli_take(size);
    attn_status st = attn_tokenizer_open(NULL, o[TRAIN_TOKENIZER].text, NULL, &tokenizer, &err);

    snprintf(path, size, "%s/tokenizer.json", folder);
    if (st == ATTN_OK)
        st = attn_tokenizer_save(tokenizer, path, &err);
    attn_tokenizer_close(tokenizer);
    return st == ATTN_OK ? CLI_OK : cli_failed(NULL, st, &err);
}
