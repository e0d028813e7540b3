/* run.c: `attn run`: attention over arrays in files. */
#include "cli/run.h"

#include <string.h>

#include "cli/arrays.h"
#include "cli/commands.h"
#include "cli/console.h"

#define LIST "N,N,...|FILE"

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
    [RUN_START] = {"Input", "start", 0, CLI_TEXT, "FILE",
                   "go on from the --partial record of keys at lower positions", 0, 0},
    [RUN_LAYOUT] = {NULL, "layout", 0, CLI_CHOICE, "bhsd|bshd|sd",
                    "axes of the files: [batch, heads, rows, columns] (default), "
                    "[batch, rows, heads, columns], or one head: [rows, columns] "
                    "or [batch, rows, columns]; leading axes may be missing",
                    0, 0},
    [RUN_Q] = {NULL, "q", 0, CLI_TEXT, "NAME", "tensor of the queries (default q)", 0, 0},
    [RUN_K] = {NULL, "k", 0, CLI_TEXT, "NAME", "tensor of the keys (default k)", 0, 0},
    [RUN_V] = {NULL, "v", 0, CLI_TEXT, "NAME", "tensor of the values (default v)", 0, 0},
    [RUN_SCALE] = {"Scores", "scale", 0, CLI_NUMBER, "X",
                   "factor of q.k (default 1 / square root of q's columns); "
                   "0 gives the mean of the values",
                   0, 0},
    [RUN_SOFTCAP] = {NULL, "softcap", 0, CLI_NUMBER, "X",
                     "scores become X tanh(score / X); 0: none", 0, 1e300},
    [RUN_SINK] = {NULL, "sink", 0, CLI_TEXT, "X,X,...|FILE",
                  "one more score a head in the denominator: one number, "
                  "one a head, or a file [heads] or [batch, heads]",
                  0, 0},
    [RUN_DROPOUT] = {NULL, "dropout", 0, CLI_NUMBER, "P",
                     "drop weights with this probability, 0 <= P < 1; needs --seed", 0, 1},
    [RUN_SEED] = {NULL, "seed", 0, CLI_TEXT, "N", "seed of the dropout, 0 to 2^64-1", 0, 0},
    [RUN_DROPOUT_BATCH] = {NULL, "dropout-batch", 0, CLI_INTEGER, "N",
                           "number of the first sequence in the dropout pattern", 0, 0},
    [RUN_DROPOUT_HEAD] = {NULL, "dropout-head", 0, CLI_INTEGER, "N",
                          "number of the first head in the dropout pattern", 0, 0},
    [RUN_CAUSAL] = {"Positions (query row i stands at q-offset + i, key row j at k-offset + j)",
                    "causal", 0, CLI_FLAG, "",
                    "no query sees keys at later positions. Query 0 stands at "
                    "position 0 unless --q-offset says otherwise",
                    0, 0},
    [RUN_WINDOW] = {NULL, "window", 0, CLI_TEXT, "LEFT,RIGHT",
                    "keys before and after a query's own position that it sees; "
                    "-1: no limit. The key at its own position always counts",
                    0, 0},
    [RUN_Q_OFFSET] = {NULL, "q-offset", 0, CLI_TEXT, "N|end",
                      "position of query row 0 (default 0); end: the last query of "
                      "every sequence stands where its last key stands",
                      0, 0},
    [RUN_Q_OFFSETS] = {NULL, "q-offsets", 0, CLI_TEXT, LIST, "plus one number a sequence", 0, 0},
    [RUN_K_OFFSET] = {NULL, "k-offset", 0, CLI_INTEGER, "N", "position of key row 0 (default 0)", 0,
                      0},
    [RUN_K_OFFSETS] = {NULL, "k-offsets", 0, CLI_TEXT, LIST, "plus one number a sequence", 0, 0},
    [RUN_K_START] = {NULL, "k-start", 0, CLI_TEXT, LIST,
                     "first key row that exists, a sequence (left padding)", 0, 0},
    [RUN_K_COUNT] = {NULL, "k-count", 0, CLI_TEXT, LIST, "key rows that exist from there", 0, 0},
    [RUN_Q_COUNT] = {NULL, "q-count", 0, CLI_TEXT, LIST,
                     "query rows that exist; the others give zeros", 0, 0},
    [RUN_SEGMENTS] = {NULL, "segments", 0, CLI_TEXT, "Q,Q,...[:K,K,...]",
                      "packed batch: first row of every sequence in q, and in k, "
                      "each list ending with the number of rows",
                      0, 0},
    [RUN_KEEP] = {"Masks (arrays of up to four axes [batch, heads, queries, keys]; 1 repeats)",
                  "keep", 0, CLI_TEXT, "FILE", "u8 or bool; non-zero: may be attended", 0, 0},
    [RUN_DROP] = {NULL, "drop", 0, CLI_TEXT, "FILE",
                  "the opposite, as torch.nn.MultiheadAttention has it", 0, 0},
    [RUN_BIAS] = {NULL, "bias", 0, CLI_TEXT, "FILE", "added to the scores; -inf masks", 0, 0},
    [RUN_ALIBI] = {NULL, "alibi", 0, CLI_TEXT, "auto|X,X,...|FILE",
                   "slopes a head: score - slope |distance of positions|", 0, 0},
    [RUN_BLOCKS] = {NULL, "blocks", 0, CLI_TEXT, "FILE",
                    "key blocks that query blocks may see: integers start, "
                    "index, q_block and k_block in one .npz or .safetensors",
                    0, 0},
    [RUN_THREADS] = {"Execution", "threads", 0, CLI_INTEGER, "N",
                     "threads to use (default: one a usable CPU)", 0, 1024},
    [RUN_KERNEL] = {NULL, "kernel", 0, CLI_CHOICE, "auto|scalar|neon|avx2|avx512",
                    "instruction set (default auto: the best here)", 0, 0},
    [RUN_PLAN] = {NULL, "plan", 0, CLI_FLAG, "", "say what would run, and run nothing", 0, 0},
    [RUN_JSON] = {NULL, "json", 0, CLI_FLAG, "", "summary as one line of JSON", 0, 0},
    [RUN_PROGRESS] = {NULL, "progress", 0, CLI_FLAG, "",
                      "show progress from the start (default: when it takes long)", 0, 0},
    [RUN_QUIET] = {NULL, "quiet", 0, CLI_FLAG, "", "no summary, notes or progress", 0, 0},
};

/* --- Inputs --------------------------------------------------------------------------------- */

static int input_view(const run_call *c, const attn_tensor *t, const char *path, const char *what,
                      attn_view *view)
{
    static const char *const layouts[][2] = {
        [RUN_BHSD] = {"bhsd",
                      "batch, heads, rows, columns], or without leading axes, [rows, columns"},
        [RUN_BSHD] = {"bshd", "batch, rows, heads, columns] or [rows, heads, columns"},
        [RUN_SD] = {"sd", "rows, columns] or [batch, rows, columns"}};
    attn_error err = {0};
    attn_status status;
    char text[256];

    if (!cli_is_float(t->type))
        return cli_error("%s: %s is %s; expected f32, f16, bf16 or f64", path, what,
                         cli_tensor_text(text, t));
    if (t->rank < 2 || t->rank > 4 || (c->layout == RUN_SD && t->rank > 3))
        return cli_error("%s: %s is %s; --layout %s expects [%s]", path, what,
                         cli_tensor_text(text, t), layouts[c->layout][0], layouts[c->layout][1]);
    status = attn_tensor_view(t, c->layout == RUN_BSHD, view, &err);
    if (status != ATTN_OK)
        return cli_failed(path, status, &err);
    if (c->layout == RUN_SD) { /* the first axis of rank 3 is the batch, not the heads */
        int64_t size = view->size[0], stride = view->stride[0];
        view->size[0] = view->size[1];
        view->stride[0] = view->stride[1];
        view->size[1] = size;
        view->stride[1] = stride;
    }
    return 0;
}

static int read_inputs(run_call *c, char **paths, size_t count)
{
    static const struct {
        int option;
        const char *name;
    } which[] = {{RUN_Q, "q"}, {RUN_K, "k"}, {RUN_V, "v"}};
    attn_view *const views[] = {&c->args.q, &c->args.k, &c->args.v};

    if (count != 1 && count != 3)
        return cli_usage("%zu input files; expected three (Q K V) or one that holds q, k and v",
                         count);
    for (size_t i = 0; i < 3; i++) {
        const char *path = paths[count == 3 ? i : 0], *name = c->o[which[i].option].text;
        const attn_tensor *t =
            cli_pick(path, name ? name : which[i].name, count == 1 || name, which[i].name);
        int code = t ? input_view(c, t, path, which[i].name, views[i]) : CLI_FAILED;
        if (code)
            return code;
        if (i == 0)
            c->rank = t->rank;
    }
    c->q_path = paths[0];
    c->k_path = paths[count == 3 ? 1 : 0];
    c->v_path = paths[count == 3 ? 2 : 0];
    c->heads = c->args.q.size[1];
    c->tq = c->args.q.size[2];
    c->tk = c->args.k.size[2];
    c->all_f64 =
        c->args.q.type == ATTN_F64 && c->args.k.type == ATTN_F64 && c->args.v.type == ATTN_F64;
    return 0;
}

static int read_scores(run_call *c)
{
    const cli_value *o = c->o;
    attn_forward_args *a = &c->args;

    a->has_scale = o[RUN_SCALE].given;
    a->scale = o[RUN_SCALE].number;
    a->softcap = o[RUN_SOFTCAP].number;
    a->dropout = o[RUN_DROPOUT].number;
    a->dropout_batch = o[RUN_DROPOUT_BATCH].integer;
    a->dropout_head = o[RUN_DROPOUT_HEAD].integer;
    if (a->dropout >= 1)
        return cli_usage("--dropout: %s is not below 1", o[RUN_DROPOUT].text);
    if (a->dropout > 0 && !o[RUN_SEED].given)
        return cli_usage("--dropout needs --seed N, so that the run can be repeated");
    if (o[RUN_SEED].given && !cli_read_unsigned(o[RUN_SEED].text, &a->dropout_seed))
        return cli_usage("--seed: '%s' is not an integer from 0 to 2^64-1", o[RUN_SEED].text);
    return o[RUN_SINK].given ? run_head_numbers(c, RUN_SINK, "sink", &a->sink) : 0;
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

static void print_json_summary(const run_call *c, const attn_plan *plan, double seconds)
{
    json_t *json = json_object();
    double flops = 2 * run_pairs(c) * (double)(c->args.q.size[3] + c->args.v.size[3]);

    json_object_set_new(json, "q", view_json(&c->args.q, c->q_path));
    json_object_set_new(json, "k", view_json(&c->args.k, c->k_path));
    json_object_set_new(json, "v", view_json(&c->args.v, c->v_path));
    for (size_t i = 0; i < c->output_count; i++) {
        const run_output *out = &c->outputs[i];
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

static void print_summary(const run_call *c, const attn_plan *plan, double seconds)
{
    double flops = 2 * run_pairs(c) * (double)(c->args.q.size[3] + c->args.v.size[3]);
    char text[256], size[32];

    for (size_t i = 0; i < c->output_count; i++)
        cli_print("%-8s %s%s%s", c->outputs[i].tensor.name,
                  cli_tensor_text(text, &c->outputs[i].tensor), c->outputs[i].path ? "  " : "",
                  c->outputs[i].path ? c->outputs[i].path : "");
    cli_print("kernel   %s, %s: %s", attn_kernel_set_name(plan->kernels), plan->path, plan->why);
    cli_print("threads  %d, workspace %s", plan->threads,
              cli_size_text(size, plan->workspace_size));
    if (seconds > 0)
        cli_print("time     %.3f ms, %.1f GFLOP/s", seconds * 1e3, flops / seconds / 1e9);
}

/* The most frequent surprise: which of two unequal ends causal masks align. */
static void note_alignment(const run_call *c)
{
    if (!c->o[RUN_CAUSAL].given || c->o[RUN_Q_OFFSET].given || c->o[RUN_Q_OFFSETS].given ||
        c->o[RUN_QUIET].given || c->mask.segments || c->tq == c->tk)
        return;
    cli_note("note: %lld queries, %lld keys: query 0 stands at position 0, so that it sees key 0 "
             "only; --q-offset end lets the last query see all keys",
             (long long)c->tq, (long long)c->tk);
}

/* --- Errors --------------------------------------------------------------------------------- */

/* Fields that an option of another name fills. */
static const char *option_of_field(const char *field)
{
    static const char *const others[][2] = {{"q_starts", "segments"},  {"k_starts", "segments"},
                                            {"window_left", "window"}, {"window_right", "window"},
                                            {"dropout_seed", "seed"},  {"kernels", "kernel"}};

    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(field, others[i][0]) == 0)
            return others[i][1];
    return NULL;
}

/* The library names its own fields; the user knows options and files. A text that starts with a
 * field is shown with what the field came from. */
static int library_failed(const run_call *c, attn_status status, const attn_error *err)
{
    const char *text = err->text, *other;
    char field[32] = "";
    size_t length;

    text += strncmp(text, "mask.", 5) == 0 ? 5 : strncmp(text, "options.", 8) == 0 ? 8 : 0;
    length = strspn(text, "abcdefghijklmnopqrstuvwxyz_");
    memcpy(field, text, length < sizeof field ? length : 0);
    if (length == 1 && strchr("qkv", field[0]))
        return cli_error("%s: %s",
                         field[0] == 'q'   ? c->q_path
                         : field[0] == 'k' ? c->k_path
                                           : c->v_path,
                         text);
    other = option_of_field(field);
    if (other)
        return cli_error("--%s: %s", other, text);
    for (char *p = field; *p; p++)
        *p = *p == '_' ? '-' : *p;
    for (size_t i = 0; i < RUN_OPTIONS; i++)
        if (strcmp(run_options[i].name, field) == 0)
            return cli_error("--%s%s", field, text + length);
    return cli_failed(NULL, status, err);
}

/* --- The command ---------------------------------------------------------------------------- */

static void show_log(void *user, const char *text)
{
    (void)user;
    cli_note("%s", text);
}

static int compute(run_call *c, const attn_ctx *ctx, cli_progress *progress)
{
    const int only_plan = c->o[RUN_PLAN].given;
    attn_plan plan = ATTN_PLAN_INIT;
    attn_error err = {0};
    attn_status status = attn_forward_plan(ctx, &c->args, &plan, &err);
    double start;
    int code;

    if (status != ATTN_OK)
        return library_failed(c, status, &err);
    note_alignment(c);
    start = cli_clock();
    if (!only_plan) {
        cli_progress_begin(progress);
        status = attn_forward(ctx, &c->args, &err);
        cli_progress_end(progress);
    }
    start = only_plan ? 0 : cli_clock() - start;
    if (cli_interrupted())
        return cli_error("interrupted; nothing was written");
    if (status != ATTN_OK)
        return library_failed(c, status, &err);
    code = only_plan ? 0 : run_write_outputs(c);
    if (code || c->o[RUN_QUIET].given)
        return code;
    if (c->o[RUN_JSON].given)
        print_json_summary(c, &plan, start);
    else
        print_summary(c, &plan, start);
    return 0;
}

/* Everything that needs no context: so that mistakes show before threads are made. */
static int prepare(run_call *c, char **paths, size_t count)
{
    attn_forward_args empty = ATTN_FORWARD_ARGS_INIT;
    int code;

    c->args = empty;
    c->layout = (run_layout)c->o[RUN_LAYOUT].integer;
    if ((code = read_inputs(c, paths, count)) != 0 || (code = run_fill_mask(c)) != 0 ||
        (code = read_scores(c)) != 0 || (code = run_read_start(c)) != 0)
        return code;
    return run_make_outputs(c);
}

static int run_main(const cli_value *values, char **operands, size_t operand_count)
{
    static const attn_kernel_set sets[] = {ATTN_SET_AUTO, ATTN_SET_SCALAR, ATTN_SET_NEON,
                                           ATTN_SET_AVX2, ATTN_SET_AVX512};
    cli_progress progress = {.eager = values[RUN_PROGRESS].given, .quiet = values[RUN_QUIET].given};
    attn_ctx_options options = ATTN_CTX_OPTIONS_INIT;
    run_call *call = cli_take(sizeof *call);
    attn_error err = {0};
    attn_ctx *ctx = NULL;
    attn_status status;
    int code;

    cli_catch_signals();
    call->o = values;
    options.kernels = sets[values[RUN_KERNEL].integer];
    options.threads = (int)values[RUN_THREADS].integer;
    options.log = show_log;
    options.progress = cli_progress_step;
    options.progress_user = &progress;
    code = prepare(call, operands, operand_count);
    if (!code) {
        status = attn_ctx_create(&options, &ctx, &err);
        code =
            status == ATTN_OK ? compute(call, ctx, &progress) : library_failed(call, status, &err);
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
