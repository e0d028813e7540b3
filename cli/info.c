/* info.c: `attn info`: what this machine can run, and what files hold. */
#define _POSIX_C_SOURCE 200809L

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "cli/arrays.h"
#include "cli/commands.h"
#include "cli/console.h"

enum { INFO_JSON, INFO_OPTIONS };

static const cli_option info_options[INFO_OPTIONS] = {
    [INFO_JSON] = {"Options", "json", 0, CLI_FLAG, "",
                   "one line of JSON a file, or for the machine", 0, 0},
};

/* --- Machine -------------------------------------------------------------------------------- */

/* The processor's own name where the system tells it (Linux on x86), else the architecture. */
static const char *processor_name(char *buffer, size_t size)
{
    FILE *f = fopen("/proc/cpuinfo", "r");
    struct utsname system;
    char line[256];
    int found = 0;

    while (f && !found && fgets(line, sizeof line, f)) {
        char *colon = strchr(line, ':');
        if (colon && strncmp(line, "model name", 10) == 0) {
            line[strcspn(line, "\n")] = '\0';
            snprintf(buffer, size, "%s", colon + 1 + (colon[1] == ' '));
            found = 1;
        }
    }
    if (f)
        fclose(f);
    if (!found)
        snprintf(buffer, size, "%s", uname(&system) == 0 ? system.machine : "unknown");
    return buffer;
}

/* Why a set cannot run here, in the library's words; "" if it can. */
static const char *why_not(attn_kernel_set set, attn_error *err)
{
    attn_ctx_options options = ATTN_CTX_OPTIONS_INIT;
    attn_ctx *ctx;
    const char *colon;

    memset(err, 0, sizeof *err);
    options.kernels = set;
    options.threads = 1;
    if (attn_ctx_create(&options, &ctx, err) == ATTN_OK)
        attn_ctx_destroy(ctx);
    /* The text starts with the field that asked for the set. */
    colon = strstr(err->text, ": ");
    return colon ? colon + 2 : err->text;
}

static const attn_kernel_set sets[] = {ATTN_SET_SCALAR, ATTN_SET_NEON, ATTN_SET_AVX2,
                                       ATTN_SET_AVX512};
enum { SET_COUNT = sizeof sets / sizeof *sets };

static void print_machine(const attn_ctx *ctx)
{
    char text[256];
    attn_error err;

    cli_print("attn       %s", attn_version());
    cli_print("processor  %s", processor_name(text, sizeof text));
    cli_print("threads    %d usable", attn_ctx_threads(ctx));
    for (size_t i = 0; i < SET_COUNT; i++) {
        const char *reason = why_not(sets[i], &err);
        cli_print("%s%-8s %s", i ? "           " : "kernels    ", attn_kernel_set_name(sets[i]),
                  sets[i] == attn_ctx_kernels(ctx) ? "available, the default here"
                  : reason[0]                      ? reason
                                                   : "available");
    }
}

static void print_machine_json(const attn_ctx *ctx)
{
    json_t *json = json_object(), *list = json_array();
    char text[256];
    attn_error err;

    json_object_set_new(json, "version", json_string(attn_version()));
    json_object_set_new(json, "processor", cli_json_text(processor_name(text, sizeof text)));
    json_object_set_new(json, "threads", json_integer(attn_ctx_threads(ctx)));
    json_object_set_new(json, "kernel", json_string(attn_kernel_set_name(attn_ctx_kernels(ctx))));
    for (size_t i = 0; i < SET_COUNT; i++) {
        const char *reason = why_not(sets[i], &err);
        json_t *set = json_object();
        json_object_set_new(set, "name", json_string(attn_kernel_set_name(sets[i])));
        json_object_set_new(set, "available", json_boolean(reason[0] == '\0'));
        if (reason[0])
            json_object_set_new(set, "why", cli_json_text(reason));
        json_array_append_new(list, set);
    }
    json_object_set_new(json, "kernels", list);
    cli_print_json(json);
}

static int machine(int as_json)
{
    attn_error err = {0};
    attn_ctx *ctx;
    attn_status status = attn_ctx_create(NULL, &ctx, &err);

    if (status != ATTN_OK)
        return cli_failed(NULL, status, &err);
    if (as_json)
        print_machine_json(ctx);
    else
        print_machine(ctx);
    attn_ctx_destroy(ctx);
    return 0;
}

/* --- Files ---------------------------------------------------------------------------------- */

static uint64_t tensor_bytes(const attn_tensor *t)
{
    return (uint64_t)cli_count(t) * attn_type_size(t->type);
}

static void print_file(const char *path, const attn_file *file)
{
    size_t count = attn_file_count(file), metas = attn_file_meta_count(file);
    int widest_name = 0, widest_shape = 0;
    char text[256], size[32];
    uint64_t total = 0;

    for (size_t i = 0; i < count; i++) {
        const attn_tensor *t = attn_file_tensor(file, i);
        int name = (int)strlen(t->name), shape = (int)strlen(cli_tensor_text(text, t));
        widest_name = name > widest_name ? name : widest_name;
        widest_shape = shape > widest_shape ? shape : widest_shape;
        total += tensor_bytes(t);
    }
    widest_name = widest_name > 60 ? 60 : widest_name;
    cli_print("%s: %s, %zu %s, %s", path, cli_format_name(attn_file_format(file)), count,
              count == 1 ? "tensor" : "tensors", cli_size_text(size, total));
    for (size_t i = 0; i < count; i++) {
        const attn_tensor *t = attn_file_tensor(file, i);
        cli_print("  %-*s%s%-*s  %s", widest_name, t->name, widest_name ? "  " : "", widest_shape,
                  cli_tensor_text(text, t), cli_size_text(size, tensor_bytes(t)));
    }
    for (size_t i = 0; i < metas; i++) {
        const char *key = attn_file_meta_key(file, i);
        cli_print("  %s = %s", key, attn_file_meta(file, key));
    }
}

static void print_file_json(const char *path, const attn_file *file)
{
    json_t *json = json_object(), *tensors = json_array();

    json_object_set_new(json, "file", cli_json_text(path));
    json_object_set_new(json, "format", json_string(cli_format_name(attn_file_format(file))));
    for (size_t i = 0; i < attn_file_count(file); i++) {
        const attn_tensor *t = attn_file_tensor(file, i);
        json_t *o = json_object();
        json_object_set_new(o, "name", cli_json_text(t->name));
        json_object_set_new(o, "type", json_string(attn_type_name(t->type)));
        json_object_set_new(o, "shape", cli_shape_json(t));
        json_object_set_new(o, "bytes", json_integer((json_int_t)tensor_bytes(t)));
        json_array_append_new(tensors, o);
    }
    json_object_set_new(json, "tensors", tensors);
    if (attn_file_meta_count(file) > 0) {
        json_t *meta = json_object();
        for (size_t i = 0; i < attn_file_meta_count(file); i++) {
            const char *key = attn_file_meta_key(file, i);
            json_object_set_new(meta, key, cli_json_text(attn_file_meta(file, key)));
        }
        json_object_set_new(json, "metadata", meta);
    }
    cli_print_json(json);
}

static int info_main(const cli_value *values, char **operands, size_t operand_count)
{
    int as_json = values[INFO_JSON].given, code = 0;

    if (operand_count == 0)
        return machine(as_json);
    for (size_t i = 0; i < operand_count; i++) {
        attn_file *file = cli_open(operands[i]);
        if (!file)
            code = CLI_FAILED; /* said already; the other files are still of interest */
        else if (as_json)
            print_file_json(operands[i], file);
        else
            print_file(operands[i], file);
        cli_close_files();
    }
    return code;
}

const cli_command cli_info_command = {
    .name = "info",
    .title = "attn info",
    .summary = "this machine and its instruction sets, or what files hold",
    .usage = "attn info [--json] [FILE...]",
    .about =
        "Without a file: version, processor, usable threads, and which kernel sets can run here, "
        "or why not. With files: their format, tensors and metadata.",
    .examples = "attn info\n"
                "attn info Q.npy model.safetensors\n"
                "attn info --json QKV.npz",
    .options = info_options,
    .option_count = INFO_OPTIONS,
    .main = info_main,
};
