/* run.c: `attn run`: attention over arrays in files. */
#include "cli/run.h"

#include <string.h>

#include "cli/arrays.h"
#include "cli/commands.h"
#include "cli/console.h"

const cli_option run_options[RUN_OPTIONS] = {
    [RUN_OUT] = {"Output", "out", 'o', CLI_TEXT, "FILE",
                 "the output; the ending decides: .npy, .npz, .safetensors", 0, 0},
    [RUN_OUT_TYPE] = {NULL, "out-type", 0, CLI_CHOICE, "f32|f16|bf16|f64",
                      "type of the output (default: that of q)", 0, 0},
    [RUN_LSE] = {NULL, "lse", 0, CLI_TEXT, "FILE",
                 "natural logarithm of every row's sum of weights; like "
                 "every output it may share one .npz or .safetensors file",
                 0, 0},
    [RUN_WEIGHTS] = {NULL, "weights", 0, CLI_TEXT, "FILE",
                     "the attention weights [batch, heads, queries, keys]", 0, 0},
    [RUN_WEIGHTS_HEADS] = {NULL, "weights-heads", 0, CLI_TEXT, "A:B",
                           "only of heads A to B-1, or of one head A", 0, 0},
    [RUN_WEIGHTS_TYPE] = {NULL, "weights-type", 0, CLI_CHOICE, "f32|f16|bf16|f64",
                          "type of the weights (default f32)", 0, 0},
    [RUN_PARTIAL] = {NULL, "partial", 0, CLI_TEXT, "FILE",
                     "instead of the output, the record (out, sum, max) of "
                     "these keys, to go on from with --start",
                     0, 0},
    [RUN_PLAN] = {NULL, "plan", 0, CLI_FLAG, "", "say what would run, and run nothing", 0, 0},
    [RUN_JSON] = {NULL, "json", 0, CLI_FLAG, "", "summary as one line of JSON", 0, 0},
    [RUN_DROPOUT] = {"Dropout", "dropout", 0, CLI_NUMBER, "P",
                     "drop weights with this probability, 0 <= P < 1; needs --seed", 0, 1},
    [RUN_SEED] = {NULL, "seed", 0, CLI_TEXT, "N", "seed of the dropout, 0 to 2^64-1", 0, 0},
    [RUN_DROPOUT_BATCH] = {NULL, "dropout-batch", 0, CLI_INTEGER, "N",
                           "number of the first sequence in the dropout pattern", 0, 0},
    [RUN_DROPOUT_HEAD] = {NULL, "dropout-head", 0, CLI_INTEGER, "N",
                          "number of the first head in the dropout pattern", 0, 0},
    [RUN_START] = {"Input", "start", 0, CLI_TEXT, "FILE",
                   "go on from the --partial record of keys at lower positions", 0, 0},
    [RUN_V] = {NULL, "v", 0, CLI_TEXT, "NAME", "tensor of the values (default v)", 0, 0},
    CALL_ROWS(RUN_CALL, NULL, "scale"),
};

/* --- Inputs --------------------------------------------------------------------------------- */

static int read_inputs(run_job *job, char **paths, size_t count)
{
    static const char *const names[] = {"q", "k", "v"};
    cli_call *c = &job->call;
    const char *given[] = {c->o[CALL_Q].text, c->o[CALL_K].text, job->o[RUN_V].text};
    attn_view *const views[] = {&c->args.q, &c->args.k, &c->args.v};

    if (count != 1 && count != 3)
        return cli_usage("%zu input files; expected three (Q K V) or one that holds q, k and v",
                         count);
    for (size_t i = 0; i < 3; i++) {
        const char *name = given[i];
        int code = cli_call_input(c, paths[count == 3 ? i : 0], name ? name : names[i],
                                  count == 1 || name, names[i], views[i]);
        if (code)
            return code;
    }
    c->q_path = paths[0];
    c->k_path = paths[count == 3 ? 1 : 0];
    c->v_path = paths[count == 3 ? 2 : 0];
    return 0;
}

static int read_dropout(run_job *job)
{
    const cli_value *o = job->o;
    attn_forward_args *a = &job->call.args;

    a->dropout = o[RUN_DROPOUT].number;
    a->dropout_batch = o[RUN_DROPOUT_BATCH].integer;
    a->dropout_head = o[RUN_DROPOUT_HEAD].integer;
    if (a->dropout >= 1)
        return cli_usage("--dropout: %s is not below 1", o[RUN_DROPOUT].text);
    if (a->dropout > 0 && !o[RUN_SEED].given)
        return cli_usage("--dropout needs --seed N, so that the run can be repeated");
    if (o[RUN_SEED].given && !cli_read_unsigned(o[RUN_SEED].text, &a->dropout_seed))
        return cli_usage("--seed: '%s' is not an integer from 0 to 2^64-1", o[RUN_SEED].text);
    return 0;
}

/* --- Summary -------------------------------------------------------------------------------- */

static json_t *view_json(const attn_view *v, const char *path)
{
    json_t *shape = json_array(), *json = json_object();

    for (int i = 0; i < 4; i++)
        json_array_append_new(shape, json_integer(v->size[i]));
    if (path)
        json_object_set_new(json, "file", cli_json_text(path));
    json_object_set_new(json, "type", json_string(attn_type_name(v->type)));
    json_object_set_new(json, "shape", shape);
    return json;
}

static void print_json_summary(const run_job *job, const attn_plan *plan, double seconds)
{
    json_t *json = json_object();
    double flops = 2 * cli_call_pairs(&job->call) *
                   (double)(job->call.args.q.size[3] + job->call.args.v.size[3]);

    json_object_set_new(json, "q", view_json(&job->call.args.q, job->call.q_path));
    json_object_set_new(json, "k", view_json(&job->call.args.k, job->call.k_path));
    json_object_set_new(json, "v", view_json(&job->call.args.v, job->call.v_path));
    for (size_t i = 0; i < job->output_count; i++) {
        const run_output *out = &job->outputs[i];
        json_t *o = json_object();
        if (out->path)
            json_object_set_new(o, "file", cli_json_text(out->path));
        json_object_set_new(o, "type", json_string(attn_type_name(out->tensor.type)));
        json_object_set_new(o, "shape", cli_shape_json(&out->tensor));
        json_object_set_new(json, out->tensor.name, o);
    }
    json_object_set_new(json, "kernel", json_string(attn_kernel_set_name(plan->kernels)));
    json_object_set_new(json, "path", json_string(plan->path));
    json_object_set_new(json, "why", cli_json_text(plan->why));
    json_object_set_new(json, "threads", json_integer(plan->threads));
    json_object_set_new(json, "workspace", json_integer((json_int_t)plan->workspace_size));
    if (seconds > 0) {
        json_object_set_new(json, "ms", cli_json_number(seconds * 1e3, 4));
        json_object_set_new(json, "gflops", cli_json_number(flops / seconds / 1e9, 3));
    }
    cli_print_json(json);
}

static void print_summary(const run_job *job, const attn_plan *plan, double seconds)
{
    double flops = 2 * cli_call_pairs(&job->call) *
                   (double)(job->call.args.q.size[3] + job->call.args.v.size[3]);
    char text[256], size[32];

    for (size_t i = 0; i < job->output_count; i++)
        cli_print("%-8s %s%s%s", job->outputs[i].tensor.name,
                  cli_tensor_text(text, &job->outputs[i].tensor), job->outputs[i].path ? "  " : "",
                  job->outputs[i].path ? job->outputs[i].path : "");
    cli_print("kernel   %s, %s: %s", attn_kernel_set_name(plan->kernels), plan->path, plan->why);
    cli_print("threads  %d, workspace %s", plan->threads,
              cli_size_text(size, plan->workspace_size));
    if (seconds > 0)
        cli_print("time     %.3f ms, %.1f GFLOP/s", seconds * 1e3, flops / seconds / 1e9);
}

/* --- The command ---------------------------------------------------------------------------- */

static int library_failed(const run_job *job, attn_status status, const attn_error *err)
{
    return cli_call_failed(&job->call, run_options, RUN_OPTIONS, status, err);
}

static int compute(run_job *job, const attn_ctx *ctx, cli_progress *progress)
{
    const int only_plan = job->o[RUN_PLAN].given;
    attn_plan plan = ATTN_PLAN_INIT;
    attn_error err = {0};
    attn_status status = attn_forward_plan(ctx, &job->call.args, &plan, &err);
    double start;
    int code;

    if (status != ATTN_OK)
        return library_failed(job, status, &err);
    cli_call_note(&job->call);
    start = cli_clock();
    if (!only_plan) {
        cli_progress_begin(progress);
        status = attn_forward(ctx, &job->call.args, &err);
        cli_progress_end(progress);
    }
    start = only_plan ? 0 : cli_clock() - start;
    if (cli_interrupted())
        return cli_error("interrupted; nothing was written");
    if (status != ATTN_OK)
        return library_failed(job, status, &err);
    code = only_plan ? 0 : run_write_outputs(job);
    if (code || job->call.o[CALL_QUIET].given)
        return code;
    if (job->o[RUN_JSON].given)
        print_json_summary(job, &plan, start);
    else
        print_summary(job, &plan, start);
    return 0;
}

/* Everything that needs no context: so that mistakes show before threads are made. */
static int prepare(run_job *job, char **paths, size_t count)
{
    attn_forward_args empty = ATTN_FORWARD_ARGS_INIT;
    int code;

    job->call.args = empty;
    job->call.layout = (call_layout)job->call.o[CALL_LAYOUT].integer;
    if ((code = read_inputs(job, paths, count)) != 0 || (code = cli_call_fill(&job->call)) != 0 ||
        (code = read_dropout(job)) != 0 || (code = run_read_start(job)) != 0)
        return code;
    return run_make_outputs(job);
}

static int run_main(const cli_value *values, char **operands, size_t operand_count)
{
    cli_progress progress = {0};
    run_job *job = cli_take(sizeof *job);
    attn_ctx *ctx = NULL;
    int code;

    cli_catch_signals();
    job->o = values;
    job->call.o = values + RUN_CALL;
    job->call.options = run_options + RUN_CALL;
    code = prepare(job, operands, operand_count);
    if (!code) {
        ctx = cli_call_context(&job->call, &progress);
        code = ctx ? compute(job, ctx, &progress) : CLI_FAILED;
    }
    attn_ctx_destroy(ctx);
    cli_close_files();
    if (cli_interrupted())
        cli_die_of_signal();
    return code;
}

const cli_command cli_run_command = {
    .name = "run",
    .title = "attn run",
    .summary = "attention over arrays in .npy, .npz and .safetensors files",
    .usage = "attn run Q.npy K.npy V.npy -o O.npy [options]\n"
             "attn run QKV.npz -o out.npz [options]",
    .about =
        "Computes O = softmax(scale * Q K^T, capped, plus bias, where allowed) V. Query heads may "
        "be "
        "a multiple of the key heads. Inputs are mapped, not copied; outputs appear under their "
        "names only when they are complete. A file that holds several tensors must hold one of "
        "the option's name (keep, bias, sink, ...).",
    .examples = "attn run Q.npy K.npy V.npy -o O.npy\n"
                "attn run Q.npy K.npy V.npy -o O.npy --causal --q-offset end --window 255,0\n"
                "attn run QKV.npz -o out.npz --lse out.npz --weights W.npy --weights-heads 0:2\n"
                "attn run qkv.safetensors --q query --k key --v value --layout bshd -o O.npz\n"
                "attn run Q.npy K.npy V.npy --alibi auto --softcap 30 --sink 0.5 --plan",
    .options = run_options,
    .option_count = RUN_OPTIONS,
    .main = run_main,
};
