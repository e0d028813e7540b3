/* train.c: `attn train`: options, data, model; train_run.c has the loop. */
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/commands.h"
#include "cli/console.h"
#include "cli/training.h"

#define MOST 1e9

static const cli_option train_options[TRAIN_OPTIONS] = {
    [TRAIN_OUT] = {"Run", "out", 'o', CLI_TEXT, "FOLDER",
                   "where checkpoints, log.csv and loss.png go; made if it is missing", 0, 0},
    [TRAIN_RESUME] =
        {NULL, "resume", 0, CLI_FLAG, "",
         "go on from the newest whole checkpoint in FOLDER, with the options of its run; "
         "the result has the bits of a run that was never interrupted",
         0, 0},
    [TRAIN_STEPS] = {NULL, "steps", 0, CLI_INTEGER, "N", "steps in all (default 2000)", 1, MOST},
    [TRAIN_THREADS] = {NULL, "threads", 0, CLI_INTEGER, "N",
                       "threads to use (default: one a usable CPU); changes no bit", 0, 1024},
    [TRAIN_KERNEL] = {NULL, "kernel", 0, CLI_CHOICE, "auto|scalar|neon|avx2|avx512",
                      "instruction set (default auto: the best here)", 0, 0},
    [TRAIN_SAVE_EVERY] =
        {NULL, "save-every", 0, CLI_INTEGER, "N",
         "steps between checkpoints (default 500); one is also saved at the end and "
         "on Ctrl-C",
         1, MOST},
    [TRAIN_KEEP] = {NULL, "keep", 0, CLI_INTEGER, "N",
                    "newest checkpoints that stay (default 2); 0: all", 0, MOST},
    [TRAIN_LOG_EVERY] = {NULL, "log-every", 0, CLI_INTEGER, "N",
                         "steps between lines of log.csv (default 20)", 1, MOST},
    [TRAIN_JSON] = {NULL, "json", 0, CLI_FLAG, "", "one JSON object an evaluation", 0, 0},
    [TRAIN_QUIET] = {NULL, "quiet", 'q', CLI_FLAG, "", "no progress on standard error", 0, 0},
    [TRAIN_TASK] =
        {"What to learn", "task", 0, CLI_CHOICE, "copy|reverse|sort|recall|complete",
         "sequences of symbols drawn from the seed. recall: the value that follows a key "
         "among pairs; complete: the one of several patterns that is shown in part. "
         "Training ends early once every held-out sequence is right",
         0, 0},
    [TRAIN_SYMBOLS] = {NULL, "symbols", 0, CLI_INTEGER, "N", "different symbols (default 20)", 2,
                       512},
    [TRAIN_SHORTEST] = {NULL, "shortest", 0, CLI_INTEGER, "N",
                        "symbols, pairs or patterns of the shortest sequence (default 4, 2, 2)", 1,
                        512},
    [TRAIN_LONGEST] = {NULL, "longest", 0, CLI_INTEGER, "N",
                       "and of the longest (default 16, 8, 6)", 1, 512},
    [TRAIN_EXAMPLES] = {NULL, "examples", 0, CLI_INTEGER, "N",
                        "sequences to train on (default 50000)", 1, 1e7},
    [TRAIN_SOURCE] = {NULL, "source", 0, CLI_TEXT, "FILE",
                      "text, one sentence a line, whose translation is in --target", 0, 0},
    [TRAIN_TARGET] = {NULL, "target", 0, CLI_TEXT, "FILE",
                      "text, one sentence a line; without --source a decoder alone learns to go on "
                      "with it",
                      0, 0},
    [TRAIN_TOKENIZER] = {NULL, "tokenizer", 0, CLI_TEXT, "FILE",
                         "tokenizer.json for both, with </s>, <|endoftext|> or [SEP] to end a line",
                         0, 0},
    [TRAIN_MAX_TOKENS] = {NULL, "max-tokens", 0, CLI_INTEGER, "N",
                          "lines of more tokens are left out (default 256)", 2, 1e6},
    [TRAIN_HELD_OUT] = {NULL, "held-out", 0, CLI_INTEGER, "N",
                        "other sequences to try the model on (default 500; of text about so many "
                        "lines, a fifth of all at most)",
                        1, 1e6},
    [TRAIN_VALID_SOURCE] = {NULL, "valid-source", 0, CLI_TEXT, "FILE",
                            "text to try the model on, in place of lines of --source", 0, 0},
    [TRAIN_VALID_TARGET] = {NULL, "valid-target", 0, CLI_TEXT, "FILE",
                            "and its translation; no line of --target is held out then", 0, 0},
    [TRAIN_D] = {"Model", "d", 0, CLI_INTEGER, "N", "width (default 64; text: 256)", 1, 65536},
    [TRAIN_FF] = {NULL, "ff", 0, CLI_INTEGER, "N", "width of feed-forward layers (default 4 d)", 1,
                  1e6},
    [TRAIN_HEADS] = {NULL, "heads", 0, CLI_INTEGER, "N", "heads (default 4; text: 8)", 1, 4096},
    [TRAIN_LAYERS] = {NULL, "layers", 0, CLI_TEXT, "N[,N]",
                      "layers of the encoder, and of the decoder (default 2; text: 3)", 0, 0},
    [TRAIN_NORM] = {NULL, "norm", 0, CLI_CHOICE, "pre|post",
                    "where norms stand (default pre; the paper: post)", 0, 0},
    [TRAIN_POSITIONS] = {NULL, "positions", 0, CLI_CHOICE, "sinusoidal|learned|rotary",
                         "how tokens know where they are (default sinusoidal)", 0, 0},
    [TRAIN_DROPOUT] = {NULL, "dropout", 0, CLI_NUMBER, "P",
                       "of embeddings and of what layers add (default 0; text: 0.1)", 0, 0.99},
    [TRAIN_SCHEDULE] = {"Learning", "schedule", 0, CLI_CHOICE, "constant|noam|inverse_sqrt|cosine",
                        "of the rate (default cosine, down to a hundredth)", 0, 0},
    [TRAIN_RATE] = {NULL, "rate", 0, CLI_NUMBER, "X",
                    "highest rate (default 0.001); noam: a factor (default 1)", 0, 1e6},
    [TRAIN_WARMUP] = {NULL, "warmup", 0, CLI_INTEGER, "N",
                      "steps of its rise (default 200, or a tenth of the length)", 0, MOST},
    [TRAIN_LENGTH] = {NULL, "length", 0, CLI_INTEGER, "N",
                      "step at which the cosine is down (default: --steps)", 1, MOST},
    [TRAIN_BATCH] = {NULL, "batch", 0, CLI_INTEGER, "N",
                     "tokens a step, of source and of target (default 2048)", 1, MOST},
    [TRAIN_PART] = {NULL, "part", 0, CLI_INTEGER, "N",
                    "tokens at a time (default all): less memory, the same step", 1, MOST},
    [TRAIN_BUCKET] = {NULL, "bucket", 0, CLI_INTEGER, "N",
                      "sequences of like length go together: their lengths divided by N agree", 1,
                      MOST},
    [TRAIN_SMOOTHING] = {NULL, "smoothing", 0, CLI_NUMBER, "E",
                         "label smoothing (default 0; text: 0.1)", 0, 0.99},
    [TRAIN_MIX] = {NULL, "mix", 0, CLI_FLAG, "",
                   "smooth with all symbols (as PyTorch), not with the others", 0, 0},
    [TRAIN_DECAY] = {NULL, "decay", 0, CLI_NUMBER, "X", "of weights, AdamW (default 0)", 0, 1e3},
    [TRAIN_CLIP] = {NULL, "clip", 0, CLI_NUMBER, "X",
                    "largest norm of the gradient (default 1; 0: any)", 0, 1e9},
    [TRAIN_AVERAGE] = {NULL, "average", 0, CLI_NUMBER, "X",
                       "evaluate an average of the weights that keeps X of itself each step", 0,
                       0.999999},
    [TRAIN_EVALUATE] = {NULL, "evaluate-every", 0, CLI_INTEGER, "N",
                        "steps between evaluations (default 200)", 1, MOST},
    [TRAIN_PATIENCE] = {NULL, "patience", 0, CLI_INTEGER, "N",
                        "stop after so many evaluations without a smaller nll", 1, MOST},
    [TRAIN_SEED] = {NULL, "seed", 0, CLI_INTEGER, "N",
                    "of data, first weights, order and dropout (default 1)", 0, MOST},
};

static int64_t integer(const cli_value *v, int64_t otherwise)
{
    return v->given ? v->integer : otherwise;
}

static double number(const cli_value *v, double otherwise)
{
    return v->given ? v->number : otherwise;
}

/* --- Model and trainer ------------------------------------------------------------------------ */

static int read_layers(const cli_value *v, int64_t otherwise, attn_model_config *c)
{
    int64_t *layers;
    size_t n;

    c->encoder_layers = c->decoder_layers = otherwise;
    if (!v->given)
        return CLI_OK;
    n = cli_read_integers(v->text, &layers);
    if (n < 1 || n > 2 || layers[0] < 1 || layers[n - 1] < 1)
        return cli_usage("--layers: '%s' is not N or N,N", v->text);
    c->encoder_layers = layers[0];
    c->decoder_layers = layers[n - 1];
    return CLI_OK;
}

static int make_model(train_run *run)
{
    static const attn_positions positions[] = {ATTN_POSITIONS_PAPER, ATTN_POSITIONS_LEARNED,
                                               ATTN_POSITIONS_ROTARY};
    const cli_value *o = run->o;
    int text = !o[TRAIN_TASK].given;
    attn_model_config c = ATTN_MODEL_CONFIG_INIT;
    attn_error err = {ATTN_OK, 0, ""};
    int code;

    c.vocabulary = run->data.vocabulary;
    c.stack = run->data.corpus.source_starts ? ATTN_STACK_ENCODER_DECODER : ATTN_STACK_DECODER;
    c.d = integer(&o[TRAIN_D], text ? 256 : 64);
    c.ff = integer(&o[TRAIN_FF], 0);
    c.heads = integer(&o[TRAIN_HEADS], text ? 8 : 4);
    c.place = o[TRAIN_NORM].given && o[TRAIN_NORM].integer == 1 ? ATTN_PLACE_POST : ATTN_PLACE_PRE;
    c.positions = positions[o[TRAIN_POSITIONS].integer];
    c.biases = ATTN_BIAS_ALL;
    c.dropout = number(&o[TRAIN_DROPOUT], text ? 0.1 : 0);
    c.tie_embeddings = c.tie_output = 1;
    code = read_layers(&o[TRAIN_LAYERS], text ? 3 : 2, &c);
    if (c.stack == ATTN_STACK_DECODER)
        c.encoder_layers = c.tie_embeddings = 0;
    if (code != CLI_OK)
        return code;
    if (attn_model_create(run->ctx, &c, (uint64_t)integer(&o[TRAIN_SEED], 1), &run->model, &err) !=
        ATTN_OK)
        return cli_failed(NULL, err.status, &err);
    return CLI_OK;
}

static int make_trainer(train_run *run)
{
    const cli_value *o = run->o;
    attn_trainer_options t = ATTN_TRAINER_OPTIONS_INIT;
    attn_error err = {ATTN_OK, 0, ""};

    t.corpus = run->data.corpus;
    t.seed = (uint64_t)integer(&o[TRAIN_SEED], 1);
    t.batch_tokens = integer(&o[TRAIN_BATCH], 2048);
    t.part_tokens = integer(&o[TRAIN_PART], t.batch_tokens);
    t.bucket = integer(&o[TRAIN_BUCKET], 0);
    t.schedule.kind = o[TRAIN_SCHEDULE].given ? (attn_schedule_kind)o[TRAIN_SCHEDULE].integer
                                              : ATTN_SCHEDULE_COSINE;
    t.schedule.rate = number(&o[TRAIN_RATE], t.schedule.kind == ATTN_SCHEDULE_NOAM ? 1 : 0.001);
    t.schedule.steps = o[TRAIN_LENGTH].integer;
    t.schedule.warmup =
        integer(&o[TRAIN_WARMUP], t.schedule.steps < 2000 ? t.schedule.steps / 10 : 200);
    t.schedule.last = t.schedule.rate / 100;
    t.schedule.d = attn_model_get_config(run->model)->d;
    t.epsilon = number(&o[TRAIN_SMOOTHING], o[TRAIN_TASK].given ? 0 : 0.1);
    t.smoothing = o[TRAIN_MIX].given ? ATTN_SMOOTH_MIX : ATTN_SMOOTH_OTHERS;
    t.decay = number(&o[TRAIN_DECAY], 0);
    t.max_norm = number(&o[TRAIN_CLIP], 1);
    t.average = number(&o[TRAIN_AVERAGE], 0);
    if (attn_trainer_create(run->model, &t, &run->trainer, &err) != ATTN_OK)
        return cli_failed(NULL, err.status, &err);
    return CLI_OK;
}

/* --- Resuming --------------------------------------------------------------------------------- */

/* Fills the options of the run from the checkpoint; the command line must not say otherwise. */
static int take_options(const attn_checkpoint *c, cli_value *o)
{
    for (size_t i = TRAIN_OF_RUN; i < TRAIN_OPTIONS; i++) {
        const cli_option *option = &train_options[i];
        size_t size = strlen(option->name) + 16;
        char *key = cli_take(size), *word;
        const char *text;
        cli_value read[TRAIN_OPTIONS] = {{0}};
        size_t operands;
        int help, code;

        snprintf(key, size, "option.%s", option->name);
        text = attn_checkpoint_value(c, key);
        if (o[i].given && (!text || strcmp(text, o[i].text) != 0))
            return cli_usage("--%s: the run in the folder has %s", option->name,
                             text ? text : "the default");
        if (!text)
            continue;
        size = strlen(option->name) + strlen(text) + 4;
        word = cli_take(size);
        snprintf(word, size, option->kind == CLI_FLAG ? "--%s" : "--%s=%s", option->name, text);
        code = cli_parse(&cli_train_command, &word, 1, read, &operands, &help);
        if (code)
            return code;
        o[i] = read[i];
    }
    return CLI_OK;
}

static int restore(train_run *run, const attn_checkpoint *c)
{
    const char *best = attn_checkpoint_value(c, "run.best");
    const char *worse = attn_checkpoint_value(c, "run.worse");
    const char *since = attn_checkpoint_value(c, "run.since");
    const char *done = attn_checkpoint_value(c, "run.done");
    attn_error err = {ATTN_OK, 0, ""};

    if (attn_trainer_restore(run->trainer, c, &err) != ATTN_OK)
        return cli_failed(run->folder, err.status, &err);
    if (best)
        run->best = strtod(best, NULL);
    if (worse)
        run->worse = strtoll(worse, NULL, 10);
    if (since)
        (void)sscanf(since, "%la %la %" SCNd64 " %" SCNd64, &run->since.loss, &run->since.nll,
                     &run->since.tokens, &run->since.right);
    run->done = done && strcmp(done, "1") == 0;
    return CLI_OK;
}

/* --- Main ------------------------------------------------------------------------------------- */

static void log_line(void *user, const char *text)
{
    (void)user;
    cli_note("%s", text);
}

static int make_context(train_run *run)
{
    attn_ctx_options options = ATTN_CTX_OPTIONS_INIT;
    attn_error err = {ATTN_OK, 0, ""};

    options.threads = (int)integer(&run->o[TRAIN_THREADS], 0);
    options.kernels = (attn_kernel_set)run->o[TRAIN_KERNEL].integer;
    options.log = log_line;
    if (attn_ctx_create(&options, &run->ctx, &err) != ATTN_OK)
        return cli_failed(NULL, err.status, &err);
    return CLI_OK;
}

/* A new run must not mix with an old one. */
static int check_folder(const train_run *run, int resumes)
{
    attn_error err = {ATTN_OK, 0, ""};
    size_t count;

    if (attn_checkpoint_list(run->ctx, run->folder, NULL, 0, &count, &err) != ATTN_OK)
        return cli_failed(run->folder, err.status, &err);
    if (count > 0 && !resumes)
        return cli_usage("%s holds a run already: --resume, or another folder", run->folder);
    return CLI_OK;
}

static int make_folder(const train_run *run)
{
    if (mkdir(run->folder, 0777) != 0 && errno != EEXIST)
        return cli_error("%s: %s", run->folder, strerror(errno));
    return CLI_OK;
}

static int check_data(const cli_value *o)
{
    static const int of_text[] = {TRAIN_SOURCE,     TRAIN_TARGET,       TRAIN_TOKENIZER,
                                  TRAIN_MAX_TOKENS, TRAIN_VALID_SOURCE, TRAIN_VALID_TARGET};

    if (!o[TRAIN_TASK].given && !o[TRAIN_TARGET].given)
        return cli_usage("what to learn? --task NAME, or --target FILE and --tokenizer FILE");
    if (!o[TRAIN_TASK].given && !o[TRAIN_TOKENIZER].given)
        return cli_usage("text wants --tokenizer FILE; attn vocab makes one");
    for (size_t i = 0; o[TRAIN_TASK].given && i < sizeof of_text / sizeof *of_text; i++)
        if (o[of_text[i]].given)
            return cli_usage("--task and --%s exclude each other", train_options[of_text[i]].name);
    if (o[TRAIN_VALID_TARGET].given && o[TRAIN_HELD_OUT].given)
        return cli_usage("--valid-target and --held-out exclude each other");
    if (o[TRAIN_VALID_SOURCE].given && !o[TRAIN_VALID_TARGET].given)
        return cli_usage("--valid-source wants --valid-target");
    if (o[TRAIN_VALID_TARGET].given && o[TRAIN_VALID_SOURCE].given != o[TRAIN_SOURCE].given)
        return cli_usage(
            "--valid-target wants --valid-source where --source is given, and only there");
    return CLI_OK;
}

static int prepare(train_run *run, cli_value *o)
{
    attn_checkpoint *c = NULL;
    attn_error err = {ATTN_OK, 0, ""};
    int code = check_folder(run, o[TRAIN_RESUME].given);

    if (code == CLI_OK && o[TRAIN_RESUME].given) {
        if (attn_checkpoint_open(run->ctx, run->folder, -1, &c, &err) != ATTN_OK)
            return cli_failed(NULL, err.status, &err);
        code = take_options(c, o);
    }
    if (code == CLI_OK)
        code = check_data(o);
    if (code == CLI_OK)
        code =
            o[TRAIN_TASK].given ? train_make_task(o, &run->data) : train_read_text(o, &run->data);
    if (code == CLI_OK)
        code = make_model(run);
    if (code == CLI_OK)
        code = make_trainer(run);
    if (code == CLI_OK && c)
        code = restore(run, c);
    if (code == CLI_OK)
        code = make_folder(run);
    if (code == CLI_OK && o[TRAIN_TOKENIZER].given && !c)
        code = train_keep_tokenizer(o, run->folder);
    attn_checkpoint_close(c);
    return code;
}

static void say_begin(const train_run *run)
{
    const attn_model_config *c = attn_model_get_config(run->model);

    if (run->o[TRAIN_QUIET].given || run->o[TRAIN_JSON].given)
        return;
    cli_print("%lld parameters, %lld sequences, %lld held out, step %lld of %lld",
              (long long)attn_model_config_parameters(c), (long long)run->data.corpus.count,
              (long long)run->data.held_out.count, (long long)attn_trainer_steps(run->trainer),
              (long long)run->steps);
}

/* The length of the schedule stays what it was when the run began, however far it is taken. */
static void set_length(cli_value *v, int64_t steps)
{
    enum { SIZE = 32 };
    char *text;

    if (v->given)
        return;
    text = cli_take(SIZE);
    snprintf(text, SIZE, "%lld", (long long)steps);
    *v = (cli_value){.given = 1, .text = text, .integer = steps};
}

static int train_main(const cli_value *given, char **operands, size_t count)
{
    cli_value o[TRAIN_OPTIONS];
    train_run run = {.o = o, .best = (double)INFINITY};
    int code;

    memcpy(o, given, sizeof o);
    if (count > 0)
        return cli_usage("'%s' is not expected", operands[0]);
    if (!o[TRAIN_OUT].given)
        return cli_usage("where to? -o FOLDER");
    run.folder = o[TRAIN_OUT].text;
    run.steps = integer(&o[TRAIN_STEPS], 2000);
    if (!o[TRAIN_RESUME].given)
        set_length(&o[TRAIN_LENGTH], run.steps);
    code = make_context(&run);
    if (code == CLI_OK)
        code = prepare(&run, o);
    if (code == CLI_OK) {
        say_begin(&run);
        code = train_go(&run);
    }
    attn_trainer_destroy(run.trainer);
    attn_model_destroy(run.model);
    attn_ctx_destroy(run.ctx);
    if (cli_interrupted()) {
        if (code == CLI_OK)
            cli_note("stopped; attn train --resume -o %s goes on", run.folder);
        cli_finish(code);
        cli_die_of_signal();
    }
    return code;
}

const cli_command cli_train_command = {
    .name = "train",
    .title = "attn train",
    .summary = "train a Transformer",
    .usage = "attn train -o FOLDER --task NAME [options]\n"
             "attn train -o FOLDER --source FILE --target FILE --tokenizer FILE [options]\n"
             "attn train -o FOLDER --resume [--steps N]",
    .about =
        "Trains a Transformer and keeps checkpoints, a log and a picture of the loss in FOLDER. "
        "The same options give the same weights, bit for bit, on any number of threads and "
        "however often the run is interrupted and resumed.",
    .examples = "attn train -o run --task reverse\n"
                "attn train -o ende --source en.txt --target de.txt --tokenizer tokenizer.json\n"
                "attn train -o run --resume --steps 6000\n"
                "attn train -o run --task sort --longest 24 --d 128 --layers 3 --dropout 0.1",
    .options = train_options,
    .option_count = TRAIN_OPTIONS,
    .main = train_main,
};
