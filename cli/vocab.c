/* vocab.c: `attn vocab`: a vocabulary of byte pairs from text files. */
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/commands.h"
#include "cli/console.h"
#include "include/attn/text.h"

enum {
    VOCAB_OUT,
    VOCAB_JSON,
    VOCAB_SIZE,
    VOCAB_KIND,
    VOCAB_SPECIAL,
    VOCAB_MIN_COUNT,
    VOCAB_PATTERN,
    VOCAB_FORM,
    VOCAB_CHARACTERS,
    VOCAB_PROGRESS,
    VOCAB_QUIET,
    VOCAB_OPTIONS
};

static const cli_option vocab_options[VOCAB_OPTIONS] = {
    [VOCAB_OUT] = {"Output", "out", 'o', CLI_TEXT, "FILE", "the tokenizer.json", 0, 0},
    [VOCAB_JSON] = {NULL, "json", 0, CLI_FLAG, "", "summary as one line of JSON", 0, 0},
    [VOCAB_SIZE] = {"Vocabulary", "size", 0, CLI_INTEGER, "N",
                    "tokens in all, special ones included (default 16384)", 1, 1000000},
    [VOCAB_KIND] =
        {NULL, "kind", 0, CLI_CHOICE, "bytes|words",
         "bytes (default): pieces of bytes, a space belongs to the word behind it; words: "
         "pieces of characters, U+2581 before each word, bytes for rare characters",
         0, 0},
    [VOCAB_SPECIAL] = {NULL, "special", 0, CLI_TEXT, "LIST",
                       "special tokens, parted by commas; they get the first ids", 0, 0},
    [VOCAB_MIN_COUNT] = {NULL, "min-count", 0, CLI_INTEGER, "N",
                         "pairs (and, of words, characters) seen less often are left out "
                         "(default 2)",
                         1, 1e15},
    [VOCAB_PATTERN] = {NULL, "pattern", 0, CLI_TEXT, "REGEX",
                       "of bytes: what a word is (default: GPT-2's pattern)", 0, 0},
    [VOCAB_FORM] = {NULL, "form", 0, CLI_CHOICE, "as-is|nfc|nfkc",
                    "normal form of all text, in training and later (default as-is)", 0, 0},
    [VOCAB_CHARACTERS] = {NULL, "characters", 0, CLI_INTEGER, "N",
                          "of words: keep so many different characters, the most frequent", 1,
                          1000000},
    [VOCAB_PROGRESS] = {"Messages", "progress", 0, CLI_FLAG, "",
                        "show progress from the start, not only when it takes long", 0, 0},
    [VOCAB_QUIET] = {NULL, "quiet", 0, CLI_FLAG, "", "no summary and no progress", 0, 0},
};

typedef struct vocab_job {
    const cli_value *o;
    attn_vocab *vocab;
    cli_progress progress;
    uint64_t bytes, total; /* read, and in all as far as known */
} vocab_job;

/* --- Options -------------------------------------------------------------------------------- */

/* Cuts "a,b" at its commas into a list. */
static size_t read_special(const char *text, const char *const **out)
{
    size_t length = strlen(text), count = 1;
    char *copy = cli_take(length + 1);
    const char **list;

    memcpy(copy, text, length);
    for (size_t i = 0; i < length; i++)
        count += text[i] == ',';
    list = cli_take(count * sizeof *list);
    for (size_t i = 0; i < count; i++) {
        list[i] = copy;
        copy += strcspn(copy, ",");
        *copy++ = '\0';
    }
    *out = list;
    return count;
}

static void take_options(const cli_value *o, attn_vocab_options *options)
{
    options->kind = (attn_vocab_kind)o[VOCAB_KIND].integer;
    options->size = (int32_t)o[VOCAB_SIZE].integer;
    options->min_count = (uint64_t)o[VOCAB_MIN_COUNT].integer;
    options->pattern = o[VOCAB_PATTERN].text;
    options->form = (attn_text_form)o[VOCAB_FORM].integer;
    options->max_characters = (int32_t)o[VOCAB_CHARACTERS].integer;
    if (o[VOCAB_SPECIAL].given)
        options->special_count = read_special(o[VOCAB_SPECIAL].text, &options->special);
}

/* --- Reading -------------------------------------------------------------------------------- */

static uint64_t size_of(const char *path)
{
    struct stat s;

    return stat(path, &s) == 0 && S_ISREG(s.st_mode) ? (uint64_t)s.st_size : 0;
}

static int read_stream(vocab_job *job, const char *name, FILE *f)
{
    enum { CHUNK = 1 << 18 };
    size_t mark = cli_mark(), n;
    char *chunk = cli_take(CHUNK);
    attn_error err = {0};
    int code = CLI_OK;

    while (code == CLI_OK && (n = fread(chunk, 1, CHUNK, f)) > 0) {
        attn_status status = attn_vocab_add(job->vocab, chunk, n, &err);
        job->bytes += n;
        if (status != ATTN_OK)
            code = cli_failed(name, status, &err);
        else if (cli_progress_step(&job->progress, job->bytes,
                                   job->total > job->bytes ? job->total : job->bytes))
            code = cli_error("interrupted; nothing was written");
    }
    if (code == CLI_OK && ferror(f))
        code = cli_error("%s: %s", name, strerror(errno));
    if (code == CLI_OK && attn_vocab_cut(job->vocab, &err) != ATTN_OK)
        code = cli_failed(name, err.status, &err);
    cli_release(mark);
    return code;
}

static int read_file(vocab_job *job, const char *path)
{
    FILE *f;
    int code;

    if (strcmp(path, "-") == 0)
        return read_stream(job, "standard input", stdin);
    f = fopen(path, "rb");
    if (!f)
        return cli_error("%s: %s", path, strerror(errno));
    code = read_stream(job, path, f);
    fclose(f);
    return code;
}

/* --- Result --------------------------------------------------------------------------------- */

static void report(const vocab_job *job, const attn_tokenizer *t, size_t files, double seconds)
{
    const char *path = job->o[VOCAB_OUT].text;
    char size[32];

    if (job->o[VOCAB_JSON].given) {
        json_t *json = json_object();
        json_object_set_new(json, "file", cli_json_text(path));
        json_object_set_new(json, "tokens", json_integer(attn_tokenizer_size(t)));
        json_object_set_new(json, "bytes", json_integer((json_int_t)job->bytes));
        json_object_set_new(json, "seconds", cli_json_number(seconds, 3));
        cli_print_json(json);
        return;
    }
    if (job->o[VOCAB_QUIET].given)
        return;
    cli_print("vocab    %d tokens  %s", (int)attn_tokenizer_size(t), path);
    cli_print("text     %s in %zu %s", cli_size_text(size, job->bytes), files,
              files == 1 ? "file" : "files");
    cli_print("time     %.1f s", seconds);
}

static int train(vocab_job *job, size_t files, double start)
{
    attn_tokenizer *t = NULL;
    attn_error err = {0};
    attn_status status;

    cli_progress_begin(&job->progress);
    status = attn_vocab_train(job->vocab, &t, &err);
    cli_progress_end(&job->progress);
    if (status == ATTN_E_CANCELLED)
        return cli_error("interrupted; nothing was written");
    if (status == ATTN_OK)
        status = attn_tokenizer_save(t, job->o[VOCAB_OUT].text, &err);
    if (status == ATTN_OK)
        report(job, t, files, cli_clock() - start);
    attn_tokenizer_close(t);
    return status == ATTN_OK ? CLI_OK : cli_failed(NULL, status, &err);
}

static int run(vocab_job *job, const attn_ctx *ctx, char **paths, size_t count)
{
    attn_vocab_options options = ATTN_VOCAB_OPTIONS_INIT;
    double start = cli_clock();
    attn_error err = {0};
    attn_status status;
    int code = CLI_OK;

    take_options(job->o, &options);
    status = attn_vocab_create(ctx, &options, &job->vocab, &err);
    if (status == ATTN_E_MEMORY)
        return cli_failed(NULL, status, &err);
    if (status != ATTN_OK)
        return cli_usage("%s", err.text);
    for (size_t i = 0; i < count; i++)
        job->total += size_of(paths[i]);
    cli_progress_begin(&job->progress);
    for (size_t i = 0; i < count && code == CLI_OK; i++)
        code = read_file(job, paths[i]);
    cli_progress_end(&job->progress);
    if (code == CLI_OK)
        code = train(job, count, start);
    attn_vocab_destroy(job->vocab);
    return code;
}

static int vocab_main(const cli_value *values, char **operands, size_t operand_count)
{
    attn_ctx_options options = ATTN_CTX_OPTIONS_INIT;
    attn_error err = {0};
    vocab_job job = {values, NULL, {0}, 0, 0};
    attn_ctx *ctx;
    attn_status status;
    int code;

    if (operand_count == 0)
        return cli_usage("which text? Name files, or - for standard input");
    if (!values[VOCAB_OUT].given)
        return cli_usage("where to? -o FILE names the tokenizer.json to write");
    job.progress.eager = values[VOCAB_PROGRESS].given;
    job.progress.quiet = values[VOCAB_QUIET].given;
    cli_catch_signals();
    options.threads = 1;
    options.progress = cli_progress_step;
    options.progress_user = &job.progress;
    status = attn_ctx_create(&options, &ctx, &err);
    if (status != ATTN_OK)
        return cli_failed(NULL, status, &err);
    code = run(&job, ctx, operands, operand_count);
    attn_ctx_destroy(ctx);
    if (cli_interrupted())
        cli_die_of_signal();
    return code;
}

const cli_command cli_vocab_command = {
    .name = "vocab",
    .title = "attn vocab",
    .summary = "train a vocabulary of byte pairs on text",
    .usage = "attn vocab TEXT... -o tokenizer.json [options]",
    .about =
        "Counts words and joins the most frequent pair of neighbours again and again. The file is "
        "one that attn tokenize and Hugging Face's tokenizers read, with the same ids. The same "
        "text gives the same file.",
    .examples =
        "attn vocab corpus.txt -o tokenizer.json\n"
        "attn vocab de.txt en.txt -o tokenizer.json --size 8000 --special '<s>,</s>,<pad>'\n"
        "attn vocab corpus.txt -o tokenizer.json --kind words --form nfkc\n"
        "zcat corpus.gz | attn vocab - -o tokenizer.json",
    .options = vocab_options,
    .option_count = VOCAB_OPTIONS,
    .main = vocab_main,
};
