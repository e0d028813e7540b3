/* tokenize.c: `attn tokenize`: text to ids or pieces, and ids to text. */
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/console.h"
#include "include/attn/text.h"

enum {
    TOKENIZE_PIECES,
    TOKENIZE_JSON,
    TOKENIZE_WHOLE,
    TOKENIZE_SPECIAL,
    TOKENIZE_FRAME,
    TOKENIZE_DECODE,
    TOKENIZE_SKIP_SPECIAL,
    TOKENIZE_LOSSY,
    TOKENIZE_OPTIONS
};

static const cli_option tokenize_options[TOKENIZE_OPTIONS] = {
    [TOKENIZE_PIECES] = {"Output", "pieces", 0, CLI_FLAG, "", "pieces of text in place of ids", 0,
                         0},
    [TOKENIZE_JSON] = {NULL, "json", 0, CLI_FLAG, "",
                       "one JSON object a line, with ids and pieces (or, with --decode, text)", 0,
                       0},
    [TOKENIZE_WHOLE] = {"Input", "whole", 0, CLI_FLAG, "",
                        "each input is one text, its line ends are part of it", 0, 0},
    [TOKENIZE_SPECIAL] = {NULL, "special", 0, CLI_FLAG, "",
                          "special tokens that are spelt out in the text count as such", 0, 0},
    [TOKENIZE_FRAME] = {NULL, "frame", 0, CLI_FLAG, "",
                        "add what the file puts around each text, as <s> and </s>", 0, 0},
    [TOKENIZE_DECODE] = {"Decoding", "decode", 0, CLI_FLAG, "",
                         "the input is ids, each line a text; prints the texts", 0, 0},
    [TOKENIZE_SKIP_SPECIAL] = {NULL, "skip-special", 0, CLI_FLAG, "", "leave special tokens out", 0,
                               0},
    [TOKENIZE_LOSSY] = {NULL, "lossy", 0, CLI_FLAG, "", "U+FFFD for bytes that are not UTF-8", 0,
                        0},
};

typedef struct tokenize_job {
    const cli_value *o;
    const attn_tokenizer *tokenizer;
    attn_text_encoder *encoder;
    attn_text_decoder *decoder;
    int raw; /* texts go out as they are: standard output is no terminal */
} tokenize_job;

/* --- Text to ids ---------------------------------------------------------------------------- */

/* The piece as a C string; tokens hold no zero bytes. */
static const char *piece_of(const tokenize_job *job, int32_t id)
{
    const char *piece = attn_tokenizer_piece(job->tokenizer, id, NULL);

    return piece ? piece : "";
}

static void print_ids_json(const tokenize_job *job, const int32_t *ids, size_t count)
{
    json_t *json = json_object(), *numbers = json_array(), *pieces = json_array();

    for (size_t i = 0; i < count; i++) {
        json_array_append_new(numbers, json_integer(ids[i]));
        json_array_append_new(pieces, cli_json_text(piece_of(job, ids[i])));
    }
    json_object_set_new(json, "ids", numbers);
    json_object_set_new(json, "pieces", pieces);
    cli_print_json(json);
}

/* One line, parted by blanks; it is put together first, since printing escapes whole lines. */
static void print_ids(const tokenize_job *job, const int32_t *ids, size_t count)
{
    int pieces = job->o[TOKENIZE_PIECES].given;
    size_t mark = cli_mark(), size = 1, at = 0;
    char *line;

    for (size_t i = 0; i < count; i++)
        size += pieces ? strlen(piece_of(job, ids[i])) + 1 : 12;
    line = cli_take(size);
    for (size_t i = 0; i < count; i++) {
        size_t room = size - at;
        const char *blank = i ? " " : "";
        int n = pieces ? snprintf(line + at, room, "%s%s", blank, piece_of(job, ids[i]))
                       : snprintf(line + at, room, "%s%d", blank, (int)ids[i]);
        at += (size_t)n;
    }
    cli_print("%s", line);
    cli_release(mark);
}

static int encode(const tokenize_job *job, const char *name, const char *text, size_t size)
{
    unsigned flags = (job->o[TOKENIZE_SPECIAL].given ? (unsigned)ATTN_ENCODE_SPECIAL : 0) |
                     (job->o[TOKENIZE_FRAME].given ? (unsigned)ATTN_ENCODE_FRAME : 0);
    attn_error err = {0};
    const int32_t *ids;
    size_t count;
    attn_status status = attn_text_encode(job->encoder, text, size, flags, &ids, &count, &err);

    if (status != ATTN_OK)
        return cli_failed(name, status, &err);
    if (job->o[TOKENIZE_JSON].given)
        print_ids_json(job, ids, count);
    else
        print_ids(job, ids, count);
    return CLI_OK;
}

/* --- Ids to text ---------------------------------------------------------------------------- */

/* Reads ids that blanks or commas part; the count, or -1 after a message. */
static ptrdiff_t read_ids(const char *name, size_t line, const char *text, size_t size,
                          int32_t *ids)
{
    const char *at = text, *end = text + size;
    ptrdiff_t count = 0;

    while ((at += strspn(at, " ,\t\r\n")) < end) {
        char word[24];
        size_t n = strcspn(at, " ,\t\r\n");
        int64_t id = -1;
        snprintf(word, sizeof word, "%.*s", n < sizeof word ? (int)n : (int)sizeof word - 1, at);
        if (n == 0 || n >= sizeof word || !cli_read_integer(word, &id) || id < 0 ||
            id > INT32_MAX) {
            cli_error("%s: line %zu: '%s' is no id", name, line, word);
            return -1;
        }
        ids[count++] = (int32_t)id;
        at += n;
    }
    return count;
}

static void print_text(const tokenize_job *job, const char *text, size_t size)
{
    char *copy = cli_take(size + 1);

    memcpy(copy, text, size);
    if (job->o[TOKENIZE_JSON].given) {
        json_t *json = json_object();
        json_object_set_new(json, "text", cli_json_text(copy));
        cli_print_json(json);
    } else if (job->raw) {
        fwrite(text, 1, size, stdout);
        fputc('\n', stdout);
    } else {
        cli_print("%s", copy);
    }
}

static int decode(const tokenize_job *job, const char *name, size_t line, const char *text,
                  size_t size)
{
    size_t mark = cli_mark(), bytes;
    int32_t *ids = cli_take((size / 2 + 1) * sizeof *ids);
    ptrdiff_t count = read_ids(name, line, text, size, ids);
    attn_error err = {0};
    const char *out;
    attn_status status;

    if (count < 0)
        return CLI_FAILED;
    for (ptrdiff_t i = 0; i < count; i++)
        if (!attn_tokenizer_piece(job->tokenizer, ids[i], NULL))
            return cli_error("%s: line %zu: no token has id %d", name, line, (int)ids[i]);
    status = attn_text_decode(job->decoder, ids, (size_t)count, 1, &out, &bytes, &err);
    if (status != ATTN_OK)
        return cli_failed(name, status, &err);
    print_text(job, out, bytes);
    cli_release(mark);
    return CLI_OK;
}

/* --- Input ---------------------------------------------------------------------------------- */

/* Appends lines until the end, in memory of getline's kind; -1 if reading failed. */
static ptrdiff_t read_whole(FILE *f, char **text)
{
    size_t size = 0, room = 0;

    *text = NULL;
    for (;;) {
        if (room - size < 2) {
            size_t more = room ? room * 2 : 1 << 16;
            char *grown = realloc(*text, more);
            if (!grown)
                return -1;
            *text = grown;
            room = more;
        }
        size += fread(*text + size, 1, room - size - 1, f);
        if (ferror(f))
            return -1;
        (*text)[size] = '\0';
        if (feof(f))
            return (ptrdiff_t)size;
    }
}

static int one_text(const tokenize_job *job, const char *name, size_t line, const char *text,
                    size_t size)
{
    return job->decoder ? decode(job, name, line, text, size) : encode(job, name, text, size);
}

static int each_line(const tokenize_job *job, const char *name, FILE *f)
{
    int whole = job->o[TOKENIZE_WHOLE].given, code = CLI_OK;
    char *text = NULL;
    size_t room = 0;
    ptrdiff_t size = 0;

    errno = 0;
    for (size_t line = 1; code == CLI_OK; line++) {
        size = whole ? read_whole(f, &text) : getline(&text, &room, f);
        if (size < 0)
            break;
        if (!whole && size > 0 && text[size - 1] == '\n')
            size--;
        text[size] = '\0';
        code = one_text(job, name, line, text, (size_t)size);
        if (whole)
            break;
    }
    if (code == CLI_OK && (ferror(f) || (size < 0 && !feof(f))))
        code = cli_error("%s: %s", name, strerror(errno ? errno : ENOMEM));
    free(text);
    return code;
}

static int each_file(const tokenize_job *job, char **paths, size_t count)
{
    int code = CLI_OK;

    if (count == 0)
        return each_line(job, "standard input", stdin);
    for (size_t i = 0; i < count && code == CLI_OK; i++) {
        FILE *f = strcmp(paths[i], "-") == 0 ? stdin : fopen(paths[i], "rb");
        if (!f)
            return cli_error("%s: %s", paths[i], strerror(errno));
        code = each_line(job, f == stdin ? "standard input" : paths[i], f);
        if (f != stdin)
            fclose(f);
    }
    return code;
}

/* --- Command -------------------------------------------------------------------------------- */

static int run(tokenize_job *job, char **paths, size_t count)
{
    unsigned flags =
        (job->o[TOKENIZE_SKIP_SPECIAL].given ? (unsigned)ATTN_DECODE_SKIP_SPECIAL : 0) |
        (job->o[TOKENIZE_LOSSY].given ? (unsigned)ATTN_DECODE_LOSSY : 0);
    attn_error err = {0};
    attn_status status;
    int code;

    if (job->o[TOKENIZE_DECODE].given)
        status = attn_text_decoder_create(job->tokenizer, flags, &job->decoder, &err);
    else
        status = attn_text_encoder_create(job->tokenizer, &job->encoder, &err);
    code = status == ATTN_OK ? each_file(job, paths, count) : cli_failed(NULL, status, &err);
    attn_text_decoder_destroy(job->decoder);
    attn_text_encoder_destroy(job->encoder);
    return code;
}

static int tokenize_main(const cli_value *values, char **operands, size_t operand_count)
{
    static const int encoding[] = {TOKENIZE_PIECES, TOKENIZE_SPECIAL, TOKENIZE_FRAME};
    static const int decoding[] = {TOKENIZE_SKIP_SPECIAL, TOKENIZE_LOSSY};
    tokenize_job job = {values, NULL, NULL, NULL, !isatty(STDOUT_FILENO)};
    attn_tokenizer *t = NULL;
    attn_error err = {0};
    attn_status status;
    int code;

    if (operand_count == 0)
        return cli_usage("which tokenizer? The first operand is a tokenizer.json");
    for (size_t i = 0; i < sizeof encoding / sizeof *encoding; i++)
        if (values[TOKENIZE_DECODE].given && values[encoding[i]].given)
            return cli_usage("--%s does not go with --decode", tokenize_options[encoding[i]].name);
    for (size_t i = 0; i < sizeof decoding / sizeof *decoding; i++)
        if (!values[TOKENIZE_DECODE].given && values[decoding[i]].given)
            return cli_usage("--%s needs --decode", tokenize_options[decoding[i]].name);
    status = attn_tokenizer_open(NULL, operands[0], NULL, &t, &err);
    if (status != ATTN_OK)
        return cli_failed(NULL, status, &err);
    job.tokenizer = t;
    code = run(&job, operands + 1, operand_count - 1);
    attn_tokenizer_close(t);
    return code;
}

const cli_command cli_tokenize_command = {
    .name = "tokenize",
    .title = "attn tokenize",
    .summary = "text to ids or pieces by a tokenizer.json, and ids to text",
    .usage = "attn tokenize tokenizer.json [TEXT...] [options]\n"
             "attn tokenize tokenizer.json --decode [IDS...] [options]",
    .about = "Reads files, or standard input. Each line is one text and gives one line, unless "
             "--whole says otherwise. Ids are those of Hugging Face's tokenizers, but special "
             "tokens in the text are text unless --special allows them.",
    .examples = "attn tokenize tokenizer.json corpus.txt\n"
                "echo 'Hello there' | attn tokenize tokenizer.json --pieces\n"
                "attn tokenize tokenizer.json corpus.txt --frame --json\n"
                "attn tokenize tokenizer.json ids.txt --decode",
    .options = tokenize_options,
    .option_count = TOKENIZE_OPTIONS,
    .main = tokenize_main,
};
