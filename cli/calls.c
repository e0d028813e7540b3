/* calls.c: inputs, scores and errors of a call of the library. */
#include "cli/calls.h"

#include <string.h>

#include "cli/arrays.h"

/* --- Inputs --------------------------------------------------------------------------------- */

int cli_call_input(cli_call *call, const char *path, const char *name, int strict, const char *what,
                   attn_view *view)
{
    static const char *const layouts[][2] = {
        [CALL_BHSD] = {"bhsd",
                       "batch, heads, rows, columns], or without leading axes, [rows, columns"},
        [CALL_BSHD] = {"bshd", "batch, rows, heads, columns] or [rows, heads, columns"},
        [CALL_SD] = {"sd", "rows, columns] or [batch, rows, columns"}};
    const attn_tensor *t = cli_pick(path, name, strict, what);
    attn_error err = {0};
    attn_status status;
    char text[256];

    if (!t)
        return CLI_FAILED;
    if (!cli_is_float(t->type))
        return cli_error("%s: %s is %s; expected f32, f16, bf16 or f64", path, what,
                         cli_tensor_text(text, t));
    if (t->rank < 2 || t->rank > 4 || (call->layout == CALL_SD && t->rank > 3))
        return cli_error("%s: %s is %s; --layout %s expects [%s]", path, what,
                         cli_tensor_text(text, t), layouts[call->layout][0],
                         layouts[call->layout][1]);
    status = attn_tensor_view(t, call->layout == CALL_BSHD, view, &err);
    if (status != ATTN_OK)
        return cli_failed(path, status, &err);
    if (call->layout == CALL_SD) { /* the first axis of rank 3 is the batch, not the heads */
        int64_t size = view->size[0], stride = view->stride[0];
        view->size[0] = view->size[1];
        view->stride[0] = view->stride[1];
        view->size[1] = size;
        view->stride[1] = stride;
    }
    if (view == &call->args.q)
        call->rank = t->rank;
    return 0;
}

int cli_call_fill(cli_call *call)
{
    attn_forward_args *a = &call->args;
    int code;

    call->heads = a->q.size[1];
    call->tq = a->q.size[2];
    call->tk = a->k.size[2];
    call->all_f64 =
        a->q.type == ATTN_F64 && a->k.type == ATTN_F64 && (a->v.type == ATTN_F64 || !call->v_path);
    if ((code = cli_fill_mask(call)) != 0)
        return code;
    a->has_scale = call->o[CALL_SCALE].given;
    a->scale = call->o[CALL_SCALE].number;
    a->softcap = call->o[CALL_SOFTCAP].number;
    return call->o[CALL_SINK].given ? cli_head_numbers(call, CALL_SINK, "sink", &a->sink) : 0;
}

/* --- Running -------------------------------------------------------------------------------- */

static void show_log(void *user, const char *text)
{
    (void)user;
    cli_note("%s", text);
}

attn_ctx *cli_call_context(const cli_call *call, cli_progress *progress)
{
    static const attn_kernel_set sets[] = {ATTN_SET_AUTO, ATTN_SET_SCALAR, ATTN_SET_NEON,
                                           ATTN_SET_AVX2, ATTN_SET_AVX512};
    attn_ctx_options options = ATTN_CTX_OPTIONS_INIT;
    attn_error err = {0};
    attn_ctx *ctx;
    attn_status status;

    progress->eager = call->o[CALL_PROGRESS].given;
    progress->quiet = call->o[CALL_QUIET].given;
    options.kernels = sets[call->o[CALL_KERNEL].integer];
    options.threads = (int)call->o[CALL_THREADS].integer;
    options.log = show_log;
    options.progress = cli_progress_step;
    options.progress_user = progress;
    status = attn_ctx_create(&options, &ctx, &err);
    if (status != ATTN_OK)
        cli_call_failed(call, call->options, CALL_OPTIONS, status, &err);
    return ctx;
}

void cli_call_note(const cli_call *call)
{
    const cli_value *o = call->o;

    if (!o[CALL_CAUSAL].given || o[CALL_Q_OFFSET].given || o[CALL_Q_OFFSETS].given ||
        o[CALL_QUIET].given || call->mask.segments || call->tq == call->tk)
        return;
    cli_note("note: %lld queries, %lld keys: query 0 stands at position 0, so that it sees key 0 "
             "only; --q-offset end lets the last query see all keys",
             (long long)call->tq, (long long)call->tk);
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

/* A text that starts with a field is shown with what the field came from. */
int cli_call_failed(const cli_call *call, const cli_option *table, size_t count, attn_status status,
                    const attn_error *err)
{
    const char *text = err->text, *other;
    char field[32] = "";
    size_t length;

    text += strncmp(text, "mask.", 5) == 0 ? 5 : strncmp(text, "options.", 8) == 0 ? 8 : 0;
    length = strspn(text, "abcdefghijklmnopqrstuvwxyz_");
    memcpy(field, text, length < sizeof field ? length : 0);
    if (length == 1 && strchr("qkv", field[0]))
        return cli_error("%s: %s",
                         field[0] == 'q'   ? call->q_path
                         : field[0] == 'k' ? call->k_path
                                           : call->v_path,
                         text);
    other = option_of_field(field);
    if (other)
        return cli_error("--%s: %s", other, text);
    for (char *p = field; *p; p++)
        *p = *p == '_' ? '-' : *p;
    for (size_t i = 0; i < count; i++)
        if (strcmp(table[i].name, field) == 0)
            return cli_error("--%s%s", field, text + length);
    return cli_failed(NULL, status, err);
}
