/* export.c: `attn export`: from the folder of a run the model and tokenizer that programs load. */
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/console.h"
#include "include/attn/nn.h"
#include "include/attn/text.h"

enum { EXPORT_OUT, EXPORT_TYPE, EXPORT_JSON, EXPORT_QUIET, EXPORT_OPTIONS };

static const cli_option export_options[EXPORT_OPTIONS] = {
    [EXPORT_OUT] = {"Output", "out", 'o', CLI_TEXT, "FOLDER",
                    "gets model.safetensors and tokenizer.json; made if it is missing", 0, 0},
    [EXPORT_TYPE] = {NULL, "type", 0, CLI_CHOICE, "f16|bf16|f32",
                     "of the weights in the file (default f16); models compute in f32 whatever "
                     "the file has",
                     0, 0},
    [EXPORT_JSON] = {NULL, "json", 0, CLI_FLAG, "", "summary as one line of JSON", 0, 0},
    [EXPORT_QUIET] = {NULL, "quiet", 'q', CLI_FLAG, "", "no summary", 0, 0},
};

static const attn_type types[] = {ATTN_F16, ATTN_BF16, ATTN_F32};

typedef struct export_job {
    const cli_value *o;
    const char *from, *to;
    attn_type type;
} export_job;

static const char *path_in(const char *folder, const char *name)
{
    size_t size = strlen(folder) + strlen(name) + 2;
    char *path = cli_take(size);

    snprintf(path, size, "%s/%s", folder, name);
    return path;
}

/* A run goes on from its checkpoints, but its model should stay what it was. */
static int make_folder(const export_job *job)
{
    struct stat from, to;

    if (mkdir(job->to, 0777) != 0 && errno != EEXIST)
        return cli_error("%s: %s", job->to, strerror(errno));
    if (stat(job->from, &from) == 0 && stat(job->to, &to) == 0 && from.st_dev == to.st_dev &&
        from.st_ino == to.st_ino)
        return cli_usage("%s is the folder of the run itself: -o another one", job->to);
    return CLI_OK;
}

/* Runs on tasks have no tokenizer. */
static int copy_tokenizer(const export_job *job, int *copied)
{
    const char *path = path_in(job->from, "tokenizer.json");
    attn_tokenizer *tokenizer;
    attn_error err = {ATTN_OK, 0, ""};
    attn_status st;

    *copied = 0;
    if (access(path, F_OK) != 0 && errno == ENOENT)
        return CLI_OK;
    st = attn_tokenizer_open(NULL, path, NULL, &tokenizer, &err);
    if (st == ATTN_OK)
        st = attn_tokenizer_save(tokenizer, path_in(job->to, "tokenizer.json"), &err);
    attn_tokenizer_close(tokenizer);
    *copied = st == ATTN_OK;
    return st == ATTN_OK ? CLI_OK : cli_failed(NULL, st, &err);
}

static void report(const export_job *job, const attn_model *model, const char *path, int copied)
{
    int64_t parameters = attn_model_config_parameters(attn_model_get_config(model));
    struct stat s = {0};
    char size[32];

    (void)stat(path, &s);
    if (job->o[EXPORT_JSON].given) {
        json_t *json = json_object();
        json_object_set_new(json, "file", cli_json_text(path));
        json_object_set_new(json, "parameters", json_integer(parameters));
        json_object_set_new(json, "type", json_string(attn_type_name(job->type)));
        json_object_set_new(json, "bytes", json_integer(s.st_size));
        json_object_set_new(json, "tokenizer", json_boolean(copied));
        cli_print_json(json);
        return;
    }
    if (!job->o[EXPORT_QUIET].given)
        cli_print("%s  %lld parameters, %s, %s%s", path, (long long)parameters,
                  attn_type_name(job->type), cli_size_text(size, (uint64_t)s.st_size),
                  copied ? "; tokenizer.json beside it" : "; the run has no tokenizer");
}

/* The model last: where it is, the folder is whole. */
static int export_model(const export_job *job, const attn_model *model)
{
    const char *path = path_in(job->to, "model.safetensors");
    attn_error err = {ATTN_OK, 0, ""};
    int copied, code = make_folder(job);

    if (code == CLI_OK)
        code = copy_tokenizer(job, &copied);
    if (code != CLI_OK)
        return code;
    if (attn_model_save_as(model, NULL, job->type, path, &err) != ATTN_OK)
        return cli_failed(NULL, err.status, &err);
    report(job, model, path, copied);
    return CLI_OK;
}

static int export_main(const cli_value *o, char **operands, size_t count)
{
    export_job job = {.o = o, .to = o[EXPORT_OUT].text, .type = types[o[EXPORT_TYPE].integer]};
    attn_ctx_options options = ATTN_CTX_OPTIONS_INIT;
    attn_error err = {ATTN_OK, 0, ""};
    attn_model *model = NULL;
    attn_ctx *ctx = NULL;
    attn_status st;
    int code;

    if (count != 1)
        return cli_usage(count ? "one run at a time" : "which run? Name its folder");
    if (!job.to)
        return cli_usage("where to? -o FOLDER");
    job.from = operands[0];
    options.threads = 1;
    st = attn_ctx_create(&options, &ctx, &err);
    if (st == ATTN_OK)
        st = attn_model_load(ctx, path_in(job.from, "model.safetensors"), &model, &err);
    code = st == ATTN_OK ? export_model(&job, model) : cli_failed(NULL, st, &err);
    attn_model_destroy(model);
    attn_ctx_destroy(ctx);
    return code;
}

const cli_command cli_export_command = {
    .name = "export",
    .title = "attn export",
    .summary = "a trained model for use: half the size, with its tokenizer",
    .usage = "attn export RUN -o FOLDER [options]",
    .about =
        "Takes the model of a run's folder (attn train): as it was when the run ended, was "
        "stopped, or saved its newest checkpoint; the average of weights if the run has one. The "
        "configuration is in the metadata of model.safetensors. RUN may also be a folder that "
        "was exported.",
    .examples = "attn export run -o model\n"
                "attn export run -o model --type f32",
    .options = export_options,
    .option_count = EXPORT_OPTIONS,
    .main = export_main,
};
