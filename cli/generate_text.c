/* generate_text.c: `attn generate`: a decoder goes on with text. */
#define _POSIX_C_SOURCE 200809L

#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/speaker.h"

enum {
    GENERATE_SAMPLES,
    GENERATE_TEMPERATURE,
    GENERATE_TOP_K,
    GENERATE_TOP_P,
    GENERATE_SEED,
    GENERATE_NO_PROMPT,
    GENERATE_SPEAKER, /* the options of speaker.h */
    GENERATE_OPTIONS = GENERATE_SPEAKER + SPEAKER_OPTIONS
};

static const cli_option generate_options[GENERATE_OPTIONS] = {
    SPEAKER_ROWS(GENERATE_SPEAKER),
    [GENERATE_SAMPLES] = {"Choice (without any of these: always the most probable token)",
                          "samples", 0, CLI_INTEGER, "N", "as many different texts of each prompt",
                          1, 1024},
    [GENERATE_TEMPERATURE] = {NULL, "temperature", 0, CLI_NUMBER, "X",
                              "draw the next token by its probability; below 1 likely ones more "
                              "often, above 1 less (default 1)",
                              1e-6, 1e6},
    [GENERATE_TOP_K] = {NULL, "top-k", 0, CLI_INTEGER, "N", "of the N most probable only", 1, 1e9},
    [GENERATE_TOP_P] = {NULL, "top-p", 0, CLI_NUMBER, "P",
                        "of the fewest that together have this probability", 1e-9, 1},
    [GENERATE_SEED] = {NULL, "seed", 0, CLI_INTEGER, "N",
                       "of the draws (default 1); the same seed, the same texts", 0, 1e15},
    [GENERATE_NO_PROMPT] = {NULL, "no-prompt", 0, CLI_FLAG, "",
                            "print only what is said, not the prompt before it", 0, 0},
};

typedef struct generate_job {
    const cli_value *o;
    speaker s;
    const char *prompt;
    int32_t *ids; /* of the prompt */
    int64_t count;
    int samples; /* tokens are drawn */
    int streams; /* text goes out token by token */
    int drawn;
    uint64_t tokens;
    attn_status status; /* of decoding the stream */
} generate_job;

static void put(const char *text, size_t size)
{
    if (isatty(STDOUT_FILENO))
        cli_put(stdout, text, size);
    else
        fwrite(text, 1, size, stdout);
}

/* --- As it is made -------------------------------------------------------------------------- */

static int token_said(void *user, int64_t source, int64_t number, int32_t token)
{
    generate_job *job = user;
    const char *text;
    size_t size;

    (void)source;
    (void)number;
    if (!job->streams || token == job->s.end)
        return cli_interrupted() != 0;
    job->status = attn_text_decode(job->s.decoder, &token, 1, 0, &text, &size, NULL);
    if (job->status != ATTN_OK)
        return 1;
    put(text, size);
    return cli_interrupted() != 0 || fflush(stdout) != 0;
}

/* Bytes that wait for others, which will not come now. */
static int end_stream(generate_job *job)
{
    const char *text;
    size_t size;
    attn_error err = {0};

    if (attn_text_decode(job->s.decoder, NULL, 0, 1, &text, &size, &err) != ATTN_OK)
        return cli_failed(NULL, err.status, &err);
    put(text, size);
    putchar('\n');
    return CLI_OK;
}

/* --- When it is done ------------------------------------------------------------------------ */

static void print_json(generate_job *job, size_t sample, const attn_hypothesis *h)
{
    json_t *json = json_object(), *pieces = json_array(), *logs = json_array();
    size_t size;
    const char *text = speaker_text(&job->s, h->tokens, h->count, &size);

    json_object_set_new(json, "prompt", cli_json_text(job->prompt));
    if (job->samples)
        json_object_set_new(json, "sample", json_integer((json_int_t)sample));
    json_object_set_new(json, "text", cli_json_bytes(text, size));
    json_object_set_new(json, "log_probability", cli_json_number(h->log_probability, 6));
    for (int64_t i = 0; i < h->count + (h->end >= 0); i++) {
        const char *piece =
            attn_tokenizer_piece(job->s.tokenizer, i < h->count ? h->tokens[i] : h->end, NULL);
        json_array_append_new(pieces, cli_json_text(piece ? piece : ""));
        json_array_append_new(logs, cli_json_number(h->of_tokens[i], 6));
    }
    json_object_set_new(json, "pieces", pieces);
    json_object_set_new(json, "log_probabilities", logs);
    if (h->end < 0)
        json_object_set_new(json, "cut", json_true());
    cli_print_json(json);
}

static void print_text(generate_job *job, const attn_hypothesis *h)
{
    int64_t before = job->o[GENERATE_NO_PROMPT].given ? 0 : job->count, all = before + h->count;
    int32_t *ids = cli_take(((size_t)all + 1) * sizeof *ids);
    size_t size;
    const char *text;

    if (before > 0)
        memcpy(ids, job->ids, (size_t)before * sizeof *ids);
    if (h->count > 0)
        memcpy(ids + before, h->tokens, (size_t)h->count * sizeof *ids);
    text = speaker_text(&job->s, ids, all, &size);
    put(text, size);
    putchar('\n');
}

/* What the first text looked at, its prompt included. */
static int draw(generate_job *job, const attn_hypothesis *h)
{
    int64_t count = job->count + h->count + (h->end >= 0);
    int32_t *ids = cli_take(((size_t)count + 1) * sizeof *ids);
    int below = speaker_shows_below(&job->s);
    speaker_maps m;
    size_t size;
    int code;

    if (!job->o[GENERATE_SPEAKER + SPEAKER_SHOW].given || (job->drawn && !below))
        return CLI_OK;
    job->drawn = 1;
    if (job->count > 0)
        memcpy(ids, job->ids, (size_t)job->count * sizeof *ids);
    if (h->count > 0)
        memcpy(ids + job->count, h->tokens, (size_t)h->count * sizeof *ids);
    if (h->end >= 0)
        ids[count - 1] = h->end;
    code = speaker_look(&job->s, NULL, 0, ids, count, (speaker_by)job->s.o[SPEAKER_BY].integer,
                        speaker_mean_of(&job->s), &m);
    if (code == CLI_OK)
        code = speaker_draw(&job->s, &m, speaker_text(&job->s, ids, count, &size));
    return code;
}

/* Copies of what attn_generate hands out: pictures use its generator again. */
typedef struct outcome {
    generate_job *job;
    attn_hypothesis *texts;
    size_t count;
} outcome;

static int texts_done(void *user, int64_t source, const attn_hypothesis *h, size_t count)
{
    outcome *out = user;

    (void)source;
    out->texts = cli_take(count * sizeof *out->texts);
    out->count = count;
    for (size_t i = 0; i < count; i++) {
        size_t n = (size_t)h[i].count, scored = n + (h[i].end >= 0);
        int32_t *ids = cli_take((n + 1) * sizeof *ids);
        double *logs = cli_take((scored + 1) * sizeof *logs);
        if (n > 0)
            memcpy(ids, h[i].tokens, n * sizeof *ids);
        if (scored > 0)
            memcpy(logs, h[i].of_tokens, scored * sizeof *logs);
        out->texts[i] = h[i];
        out->texts[i].tokens = ids;
        out->texts[i].of_tokens = logs;
        out->job->tokens += scored;
    }
    return 0;
}

static int outcome_token(void *user, int64_t source, int64_t number, int32_t token)
{
    return token_said(((outcome *)user)->job, source, number, token);
}

static int print_all(generate_job *job, const outcome *out)
{
    int code = job->streams ? end_stream(job) : CLI_OK;

    for (size_t i = 0; i < out->count && code == CLI_OK; i++) {
        if (job->s.o[SPEAKER_JSON].given)
            print_json(job, i, &out->texts[i]);
        else if (!job->streams)
            print_text(job, &out->texts[i]);
        code = draw(job, &out->texts[i]);
    }
    return code;
}

/* --- Prompts -------------------------------------------------------------------------------- */

static void generate_limits(const generate_job *job, attn_generate_options *g)
{
    const cli_value *o = job->o;

    speaker_limits(&job->s, g);
    g->sample = job->samples;
    g->beam = o[GENERATE_SAMPLES].given ? o[GENERATE_SAMPLES].integer : 1;
    g->temperature = o[GENERATE_TEMPERATURE].number;
    g->top_k = o[GENERATE_TOP_K].integer;
    g->top_p = o[GENERATE_TOP_P].number;
    g->seed = o[GENERATE_SEED].given ? (uint64_t)o[GENERATE_SEED].integer : 1;
}

static int go_on(generate_job *job, const char *prompt, int64_t number)
{
    attn_generate_options g = ATTN_GENERATE_OPTIONS_INIT;
    attn_batch batch = ATTN_BATCH_INIT;
    outcome out = {.job = job};
    int64_t starts[2] = {0, 0};
    attn_error err = {0};
    size_t mark = cli_mark();
    int code;

    job->prompt = prompt;
    code = speaker_encode(&job->s, "prompt", prompt, strlen(prompt), &job->ids, &job->count);
    if (code != CLI_OK)
        return code;
    if (job->count == 0 && job->s.config->start == ATTN_START_NONE)
        return cli_error("%s: needs a prompt to begin with", job->s.model_path);
    starts[1] = job->count;
    batch.segments = 1;
    batch.first_segment = number;
    batch.target = job->ids;
    batch.target_starts = starts;
    generate_limits(job, &g);
    g.done = texts_done;
    g.token = outcome_token;
    g.user = &out;
    /* The prompt by way of its ids, so that blanks and characters join as they do in a text. */
    for (int64_t i = 0; job->streams && !job->o[GENERATE_NO_PROMPT].given && i < job->count; i++)
        token_said(job, 0, 0, job->ids[i]);
    if (attn_generate(job->s.generator, &batch, &g, &err) != ATTN_OK) {
        if (job->streams)
            putchar('\n');
        return cli_interrupted() || ferror(stdout) ? CLI_FAILED
                                                   : cli_failed("prompt", err.status, &err);
    }
    code = print_all(job, &out);
    cli_release(mark);
    return code;
}

static int generate_all(generate_job *job, char **prompts, size_t count)
{
    double start = cli_clock(), seconds;
    int code = CLI_OK;

    for (size_t i = 0; i < count && code == CLI_OK; i++)
        code = go_on(job, prompts[i], (int64_t)i);
    seconds = cli_clock() - start;
    if (code == CLI_OK && !job->s.o[SPEAKER_QUIET].given && isatty(STDERR_FILENO))
        cli_note("%llu tokens in %.1f s: %.0f tokens/s", (unsigned long long)job->tokens, seconds,
                 (double)job->tokens / seconds);
    return code;
}

static int generate_main(const cli_value *o, char **operands, size_t count)
{
    static char none[] = "";
    char *nothing[] = {none};
    generate_job job = {.o = o, .s.o = o + GENERATE_SPEAKER};
    int code;

    for (int i = GENERATE_SAMPLES; i <= GENERATE_SEED; i++)
        job.samples |= o[i].given;
    if (job.s.o[SPEAKER_SHOW].given && strcmp(job.s.o[SPEAKER_SHOW].text, "-") == 0 &&
        job.s.o[SPEAKER_JSON].given)
        return cli_usage("--show - does not go with --json");
    cli_catch_signals();
    job.streams = !job.s.o[SPEAKER_JSON].given &&
                  !(o[GENERATE_SAMPLES].given && o[GENERATE_SAMPLES].integer > 1);
    code = speaker_open(&job.s, ATTN_STACK_DECODER,
                        o[GENERATE_SAMPLES].integer > 256 ? o[GENERATE_SAMPLES].integer : 0, 0);
    if (code == CLI_OK)
        code = count ? generate_all(&job, operands, count) : generate_all(&job, nothing, 1);
    speaker_close(&job.s);
    if (cli_interrupted())
        cli_die_of_signal();
    return code;
}

const cli_command cli_generate_command = {
    .name = "generate",
    .title = "attn generate",
    .summary = "go on with a text by a decoder alone",
    .usage = "attn generate -m FOLDER [PROMPT...] [options]",
    .about = "Goes on with each prompt until the text ends. Text appears as it is made, whole "
             "characters at a time. Equal words give equal texts on any number of threads.",
    .examples = "attn generate -m models/en 'To insert a table'\n"
                "attn generate -m models/en 'Click' --samples 5 --temperature 0.8 --seed 7\n"
                "attn generate -m models/en --top-p 0.9 --max-length 40 --json\n"
                "attn generate -m models/en 'The file could not' --show heads.html",
    .options = generate_options,
    .option_count = GENERATE_OPTIONS,
    .main = generate_main,
};
