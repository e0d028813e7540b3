/* speaker.c: opening a model that says text; text to ids and back. */
#include "cli/speaker.h"

#include <string.h>
#include <sys/stat.h>

/* --- Opening -------------------------------------------------------------------------------- */

static void log_line(void *user, const char *text)
{
    (void)user;
    cli_note("%s", text);
}

/* Long calls end when a signal has come. */
static int keep_going(void *user, uint64_t done, uint64_t total)
{
    (void)user;
    (void)done;
    (void)total;
    return cli_interrupted() != 0;
}

static char *join(const char *folder, size_t size, const char *name)
{
    size_t all = size + strlen(name) + 2;
    char *path = cli_take(all);

    snprintf(path, all, "%.*s/%s", (int)size, folder, name);
    return path;
}

/* A folder with both files, or a model's file that has the tokenizer beside it. */
static int find_files(speaker *s)
{
    const char *given = s->o[SPEAKER_MODEL].text, *slash;
    struct stat about;
    size_t size;

    if (!s->o[SPEAKER_MODEL].given)
        return cli_usage("which model? -m FOLDER");
    size = strlen(given);
    if (stat(given, &about) == 0 && !S_ISDIR(about.st_mode)) {
        slash = strrchr(given, '/');
        s->model_path = cli_take(size + 1);
        memcpy(s->model_path, given, size);
        s->tokenizer_path = slash ? join(given, (size_t)(slash - given), "tokenizer.json")
                                  : join(".", 1, "tokenizer.json");
    } else {
        while (size > 1 && given[size - 1] == '/')
            size--;
        s->model_path = join(given, size, "model.safetensors");
        s->tokenizer_path = join(given, size, "tokenizer.json");
    }
    if (s->o[SPEAKER_TOKENIZER].given) {
        size = strlen(s->o[SPEAKER_TOKENIZER].text);
        s->tokenizer_path = cli_take(size + 1);
        memcpy(s->tokenizer_path, s->o[SPEAKER_TOKENIZER].text, size);
    }
    return CLI_OK;
}

static int open_context(speaker *s)
{
    attn_ctx_options options = ATTN_CTX_OPTIONS_INIT;
    attn_error err = {0};

    options.threads = (int)s->o[SPEAKER_THREADS].integer;
    options.kernels = (attn_kernel_set)s->o[SPEAKER_KERNEL].integer;
    options.log = log_line;
    options.progress = keep_going;
    if (attn_ctx_create(&options, &s->ctx, &err) != ATTN_OK)
        return cli_failed(NULL, err.status, &err);
    return CLI_OK;
}

static int open_model(speaker *s, attn_stack stack)
{
    attn_error err = {0};

    if (attn_model_load(s->ctx, s->model_path, &s->model, &err) != ATTN_OK)
        return cli_failed(NULL, err.status, &err);
    s->config = attn_model_get_config(s->model);
    if (s->config->stack == stack)
        return CLI_OK;
    if (stack == ATTN_STACK_ENCODER_DECODER)
        return cli_error("%s: %s", s->model_path,
                         s->config->stack == ATTN_STACK_DECODER
                             ? "a decoder alone, which reads no source; attn generate goes on with "
                               "a text by it"
                             : "an encoder alone, which says nothing");
    return cli_error("%s: %s", s->model_path,
                     s->config->stack == ATTN_STACK_ENCODER_DECODER
                         ? "an encoder and a decoder; attn translate is for it"
                         : "an encoder alone, which says nothing");
}

/* What attn train ends lines with; special tokens but it are never said. */
static int find_special(speaker *s)
{
    static const char *const ends[] = {"</s>", "<|endoftext|>", "[SEP]"};
    int32_t size = attn_tokenizer_size(s->tokenizer);

    s->end = -1;
    for (size_t i = 0; i < sizeof ends / sizeof *ends && s->end < 0; i++)
        s->end = attn_tokenizer_find(s->tokenizer, ends[i], strlen(ends[i]));
    if (s->end < 0)
        return cli_error("%s: it has none of the tokens </s>, <|endoftext|>, [SEP], one of which "
                         "ends a text",
                         s->tokenizer_path);
    s->banned = cli_take(((size_t)size + 1) * sizeof *s->banned);
    for (int32_t id = 0; id < size; id++)
        if (id != s->end && (!attn_tokenizer_piece(s->tokenizer, id, NULL) ||
                             attn_tokenizer_is_special(s->tokenizer, id)))
            s->banned[s->banned_count++] = id;
    return CLI_OK;
}

static int open_tokenizer(speaker *s)
{
    const attn_model_config *c = s->config;
    attn_error err = {0};
    int32_t size;

    if (attn_tokenizer_open(NULL, s->tokenizer_path, NULL, &s->tokenizer, &err) != ATTN_OK)
        return cli_failed(NULL, err.status, &err);
    size = attn_tokenizer_size(s->tokenizer);
    if (c->vocabulary != size || (c->encoder_layers > 0 && c->source_vocabulary != size))
        return cli_error("%s has %ld tokens and %s knows %lld; expected as many: is it the "
                         "tokenizer of this model?",
                         s->tokenizer_path, (long)size, s->model_path,
                         (long long)(c->vocabulary != size ? c->vocabulary : c->source_vocabulary));
    if (attn_text_encoder_create(s->tokenizer, &s->encoder, &err) != ATTN_OK ||
        attn_text_decoder_create(s->tokenizer, ATTN_DECODE_LOSSY | ATTN_DECODE_SKIP_SPECIAL,
                                 &s->decoder, &err) != ATTN_OK)
        return cli_failed(NULL, err.status, &err);
    return find_special(s);
}

static int open_generator(speaker *s, int64_t hypotheses, int64_t positions)
{
    static const attn_type types[] = {ATTN_F32, ATTN_F16, ATTN_BF16, ATTN_I8};
    attn_generator_options g = ATTN_GENERATOR_OPTIONS_INIT;
    attn_error err = {0};

    g.weights = types[s->o[SPEAKER_WEIGHTS].integer];
    if (!s->o[SPEAKER_WEIGHTS].given)
        g.weights = s->config->type;
    g.hypotheses = hypotheses;
    g.positions = positions;
    if (attn_generator_create(s->model, &g, &s->generator, &err) != ATTN_OK)
        return cli_failed(s->model_path, err.status, &err);
    return CLI_OK;
}

int speaker_open(speaker *s, attn_stack stack, int64_t hypotheses, int64_t positions)
{
    int code = find_files(s);

    if (code == CLI_OK)
        code = open_context(s);
    if (code == CLI_OK)
        code = open_model(s, stack);
    if (code == CLI_OK)
        code = open_tokenizer(s);
    if (code == CLI_OK)
        code = speaker_check_show(s);
    if (code == CLI_OK)
        code = open_generator(s, hypotheses, positions);
    return code;
}

void speaker_close(speaker *s)
{
    attn_generator_destroy(s->generator);
    attn_text_decoder_destroy(s->decoder);
    attn_text_encoder_destroy(s->encoder);
    attn_tokenizer_close(s->tokenizer);
    attn_model_destroy(s->model);
    attn_ctx_destroy(s->ctx);
}

void speaker_limits(const speaker *s, attn_generate_options *g)
{
    g->ends = &s->end;
    g->end_count = 1;
    g->banned = s->banned;
    g->banned_count = s->banned_count;
    g->longest = s->o[SPEAKER_LONGEST].integer;
    g->shortest = s->o[SPEAKER_SHORTEST].integer;
    g->no_repeat = s->o[SPEAKER_NO_REPEAT].integer;
}

/* --- Text ----------------------------------------------------------------------------------- */

int speaker_encode(speaker *s, const char *what, const char *text, size_t size, int32_t **ids,
                   int64_t *count)
{
    attn_error err = {0};
    const int32_t *found;
    size_t n;

    if (attn_text_encode(s->encoder, text, size, 0, &found, &n, &err) != ATTN_OK)
        return cli_failed(what, err.status, &err);
    *ids = cli_take((n + 1) * sizeof **ids);
    if (n > 0)
        memcpy(*ids, found, n * sizeof **ids);
    *count = (int64_t)n;
    return CLI_OK;
}

char *speaker_text(speaker *s, const int32_t *ids, int64_t count, size_t *size)
{
    attn_error err = {0};
    const char *text = "";
    char *copy;

    *size = 0;
    if (attn_text_decode(s->decoder, ids, (size_t)count, 1, &text, size, &err) != ATTN_OK)
        cli_failed(s->tokenizer_path, err.status, &err);
    copy = cli_take(*size + 1);
    if (*size > 0)
        memcpy(copy, text, *size);
    return copy;
}
