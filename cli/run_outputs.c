/* run_outputs.c: the arrays that `attn run` writes, and the record it starts from. */
#define _POSIX_C_SOURCE 200809L

#include "cli/run.h"

#include <string.h>
#include <unistd.h>

#include "cli/arrays.h"
#include "cli/console.h"

/* Axes of a view [b, h, n, d] in the order in which they lie in a file laid out and ranked as q. */
static int file_axes(call_layout layout, int rank, int axes[4])
{
    static const int orders[][4] = {
        [CALL_BHSD] = {0, 1, 2, 3}, [CALL_BSHD] = {0, 2, 1, 3}, [CALL_SD] = {1, 0, 2, 3}};
    const int *order = orders[layout];
    int n = 0;

    /* Missing axes are missing in front. Rank 2 is [rows, columns] in every layout. */
    for (int i = 4 - rank; i < 4; i++)
        axes[n++] = rank == 2 ? i : order[i];
    return n;
}

/* --- Places --------------------------------------------------------------------------------- */

static int check_place(const run_job *job, int option, attn_type type)
{
    const char *path = job->o[option].text, *flag = run_options[option].name;
    attn_format format = cli_ending(path);

    if (format == ATTN_FORMAT_AUTO)
        return cli_usage("--%s: '%s' should end in .npy, .npz or .safetensors", flag, path);
    if (type == ATTN_BF16 && format != ATTN_FORMAT_SAFETENSORS)
        return cli_usage("--%s: .%s files cannot hold bf16; write %s to a .safetensors file, or "
                         "choose another type (--%s f32)",
                         flag, cli_format_name(format),
                         option == RUN_WEIGHTS ? "weights" : "the output",
                         option == RUN_WEIGHTS ? "weights-type" : "out-type");
    for (size_t i = 0; format == ATTN_FORMAT_NPY && i < job->output_count; i++)
        if (job->outputs[i].path && strcmp(job->outputs[i].path, path) == 0)
            return cli_usage("--%s: '%s' is already the file of '%s', and .npy holds one array; "
                             "name another file, or use .npz or .safetensors",
                             flag, path, job->outputs[i].tensor.name);
    return cli_check_folder(path);
}

/* --- Arrays --------------------------------------------------------------------------------- */

static void *output_memory(const char *name, const attn_tensor *t)
{
    char text[256], size_text[32];
    size_t bytes;
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    void *memory = NULL;

    if (!cli_bytes(t->size, t->rank, attn_type_size(t->type), &bytes)) {
        cli_error("%s %s is too large", name, cli_tensor_text(text, t));
        return NULL;
    }
    /* The system would hand out more than there is, and end the program when it is used. */
    if (pages <= 0 || page <= 0 || bytes / (size_t)page <= (size_t)pages)
        memory = cli_try(bytes);
    if (!memory)
        cli_error("%s %s needs %s of memory, more than this machine can give", name,
                  cli_tensor_text(text, t), cli_size_text(size_text, bytes));
    return memory;
}

/* One array with the axes `axes` of [b, h, n, d] in file order, and the view of it. */
static int make_output(run_job *job, int option, const char *name, attn_type type,
                       const int64_t size[4], const int *axes, int rank, attn_view *view)
{
    run_output *out = &job->outputs[job->output_count];
    attn_tensor *t = &out->tensor;
    int64_t stride = 1;

    out->path = job->o[option].text;
    t->name = name;
    t->type = type;
    t->rank = rank;
    for (int i = 0; i < rank; i++)
        t->size[i] = size[axes[i]];
    t->data = view->data = output_memory(name, t);
    if (!view->data)
        return CLI_FAILED;
    view->type = type;
    for (int i = rank - 1; i >= 0; i--) {
        t->stride[i] = view->stride[axes[i]] = stride;
        stride *= t->size[i];
    }
    for (int axis = 0; axis < 4; axis++) {
        int present = 0;
        view->size[axis] = size[axis];
        for (int i = 0; i < rank; i++)
            present |= axes[i] == axis;
        if (!present)
            view->stride[axis] = stride;
    }
    job->output_count++;
    return 0;
}

static attn_type chosen_type(const cli_value *value, attn_type otherwise)
{
    static const attn_type types[] = {ATTN_F32, ATTN_F16, ATTN_BF16, ATTN_F64};

    return value->given ? types[value->integer] : otherwise;
}

static int make_out(run_job *job, const int *axes)
{
    attn_type type = chosen_type(&job->o[RUN_OUT_TYPE], job->call.args.q.type);
    const int64_t size[4] = {job->call.args.q.size[0], job->call.heads, job->call.tq,
                             job->call.args.v.size[3]};
    int code = job->o[RUN_OUT].given ? check_place(job, RUN_OUT, type) : 0;

    /* A plan is asked about the output, whether or not it has a file. */
    if (code || (!job->o[RUN_OUT].given && !job->o[RUN_PLAN].given) || job->call.args.partial)
        return code;
    return make_output(job, RUN_OUT, "out", type, size, axes, job->call.rank, &job->call.args.out);
}

/* Like the output, without its columns. */
static int make_lse(run_job *job, const int *axes)
{
    attn_type type = job->call.all_f64 ? ATTN_F64 : ATTN_F32;
    const int64_t size[4] = {job->call.args.q.size[0], job->call.heads, job->call.tq, 1};
    int code = job->o[RUN_LSE].given ? check_place(job, RUN_LSE, type) : 0;

    if (code || !job->o[RUN_LSE].given)
        return code;
    return make_output(job, RUN_LSE, "lse", type, size, axes, job->call.rank - 1,
                       &job->call.args.lse);
}

static int weights_heads(const run_job *job, int64_t *first, int64_t *end)
{
    const char *text = job->o[RUN_WEIGHTS_HEADS].text;
    char copy[64];
    char *colon;

    *first = 0;
    *end = job->call.heads;
    if (!text)
        return 0;
    memset(copy, 0, sizeof copy);
    memcpy(copy, text, strlen(text) < sizeof copy ? strlen(text) : sizeof copy - 1);
    colon = strchr(copy, ':');
    if (colon)
        *colon = '\0';
    if (!cli_read_integer(copy, first) || (colon && !cli_read_integer(colon + 1, end)))
        return cli_usage("--weights-heads: '%s' should be A:B (heads A to B-1) or one head", text);
    if (!colon)
        *end = *first + (*first < job->call.heads);
    if (*first < 0 || *first >= *end || *end > job->call.heads)
        return cli_error("--weights-heads: %s is no range within the %lld heads of q", text,
                         (long long)job->call.heads);
    return 0;
}

/* [batch, heads, queries, keys]; axes that q's file does not have are left out here too. */
static int make_weights(run_job *job)
{
    attn_type type =
        chosen_type(&job->o[RUN_WEIGHTS_TYPE], job->call.all_f64 ? ATTN_F64 : ATTN_F32);
    call_layout order = job->call.layout == CALL_SD ? CALL_SD : CALL_BHSD;
    const attn_mask *m = &job->call.mask;
    int64_t end, size[4] = {job->call.sequences, 0, job->call.tq, job->call.tk};
    int axes[4], code, rank = m->segments ? 4 : job->call.rank;

    if (!job->o[RUN_WEIGHTS].given)
        return job->o[RUN_WEIGHTS_HEADS].given ? cli_usage("--weights-heads needs --weights FILE")
                                               : 0;
    if ((code = check_place(job, RUN_WEIGHTS, type)) != 0 ||
        (code = weights_heads(job, &job->call.args.weights_head, &end)) != 0)
        return code;
    size[1] = end - job->call.args.weights_head;
    if (m->segments)
        size[2] = size[3] = 0;
    for (int64_t s = 0; s < m->segments; s++) {
        int64_t q = m->q_starts[s + 1] - m->q_starts[s], k = m->k_starts[s + 1] - m->k_starts[s];
        size[2] = q > size[2] ? q : size[2];
        size[3] = k > size[3] ? k : size[3];
    }
    rank = file_axes(rank == 4 ? CALL_BHSD : order, rank, axes);
    return make_output(job, RUN_WEIGHTS, "weights", type, size, axes, rank,
                       &job->call.args.weights);
}

/* The record out, sum, max, always [batch, heads, rows, columns]. */
static int make_partial(run_job *job)
{
    static const int axes[4] = {0, 1, 2, 3};
    attn_type type = job->call.all_f64 ? ATTN_F64 : ATTN_F32;
    int64_t size[4] = {job->call.args.q.size[0], job->call.heads, job->call.tq,
                       job->call.args.v.size[3]};
    int code;

    if (!job->o[RUN_PARTIAL].given)
        return 0;
    if (job->o[RUN_OUT].given || job->o[RUN_LSE].given || job->o[RUN_WEIGHTS].given)
        return cli_usage("--partial takes the place of --out, --lse and --weights");
    if (cli_ending(job->o[RUN_PARTIAL].text) == ATTN_FORMAT_NPY)
        return cli_usage(
            "--partial: a record holds three arrays; write a .npz or .safetensors file");
    code = check_place(job, RUN_PARTIAL, type);
    if (!code)
        code = make_output(job, RUN_PARTIAL, "out", type, size, axes, 4, &job->partial.out);
    size[3] = 1;
    if (!code)
        code = make_output(job, RUN_PARTIAL, "sum", type, size, axes, 4, &job->partial.sum);
    if (!code)
        code = make_output(job, RUN_PARTIAL, "max", type, size, axes, 4, &job->partial.max);
    job->call.args.partial = &job->partial;
    return code;
}

int run_make_outputs(run_job *job)
{
    int axes[4], code;

    if (!job->o[RUN_OUT].given && !job->o[RUN_LSE].given && !job->o[RUN_WEIGHTS].given &&
        !job->o[RUN_PARTIAL].given && !job->o[RUN_PLAN].given)
        return cli_usage("no output: -o FILE, --lse FILE, --weights FILE or --partial FILE");
    file_axes(job->call.layout, job->call.rank, axes);
    if ((code = make_partial(job)) != 0 || (code = make_out(job, axes)) != 0 ||
        (code = make_lse(job, axes)) != 0)
        return code;
    return make_weights(job);
}

int run_read_start(run_job *job)
{
    static const char *const names[] = {"out", "sum", "max"};
    attn_view *const views[] = {&job->start.out, &job->start.sum, &job->start.max};
    const char *path = job->o[RUN_START].text;

    if (!path)
        return 0;
    for (size_t i = 0; i < 3; i++) {
        attn_error err = {0};
        const attn_tensor *t = cli_pick(path, names[i], 1, "--start");
        attn_status status = t ? attn_tensor_view(t, 0, views[i], &err) : ATTN_OK;
        if (!t)
            return CLI_FAILED;
        if (status != ATTN_OK)
            return cli_failed(path, status, &err);
    }
    job->call.args.start = &job->start;
    return 0;
}

int run_write_outputs(const run_job *job)
{
    for (size_t i = 0; i < job->output_count; i++) {
        attn_tensor together[RUN_MAX_OUTPUTS];
        const char *path = job->outputs[i].path;
        attn_error err = {0};
        attn_status status;
        size_t n = 0;
        int written = 0;

        for (size_t j = 0; j < i; j++)
            written |= strcmp(job->outputs[j].path, path) == 0;
        if (written)
            continue;
        for (size_t j = i; j < job->output_count; j++)
            if (strcmp(job->outputs[j].path, path) == 0)
                together[n++] = job->outputs[j].tensor;
        status = attn_file_write(NULL, path, ATTN_FORMAT_AUTO, together, n, NULL, NULL, 0, &err);
        if (status != ATTN_OK)
            return cli_failed(NULL, status, &err);
    }
    return 0;
}
