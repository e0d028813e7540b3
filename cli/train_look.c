/* train_look.c: the attention of a trained model on one held-out sequence: all weights of the
 * decoder to the source (without a source: to what it said before) in a file, and as a picture. */
#include <string.h>

#include "cli/console.h"
#include "cli/training.h"
#include "include/attn/viz.h"

enum { MOST_TOKENS = 64 };

typedef struct look_job {
    train_run *run;
    int64_t layers, heads, queries, keys;
    attn_batch batch;
    const int64_t *starts; /* of the source and the target: 0 and their lengths */
    float *weights;        /* [layers, heads, queries, keys] */
} look_job;

static int64_t length_of(const int64_t *starts, int64_t i)
{
    return starts ? starts[i + 1] - starts[i] : 0;
}

/* The longest sequence that can be read in a picture; the first of them. */
static int64_t choose(const attn_corpus *c)
{
    int64_t best = -1, most = 0;

    for (int64_t i = 0; i < c->count; i++) {
        int64_t n = length_of(c->target_starts, i) + length_of(c->source_starts, i);

        if (n > most && length_of(c->target_starts, i) <= MOST_TOKENS &&
            length_of(c->source_starts, i) <= MOST_TOKENS) {
            best = i;
            most = n;
        }
    }
    return best;
}

static int prepare(look_job *j, int64_t which)
{
    const attn_corpus *c = &j->run->data.held_out;
    const attn_model_config *m = attn_model_get_config(j->run->model);
    int64_t *starts = cli_take(4 * sizeof *starts);

    starts[1] = length_of(c->source_starts, which);
    starts[3] = length_of(c->target_starts, which);
    j->starts = starts;
    j->layers = m->decoder_layers;
    j->heads = m->heads;
    j->queries = starts[3];
    j->keys = c->source_starts ? starts[1] : starts[3];
    j->batch.segments = 1;
    j->batch.target = c->target + c->target_starts[which];
    j->batch.target_starts = starts + 2;
    if (c->source_starts) {
        j->batch.source = c->source + c->source_starts[which];
        j->batch.source_starts = starts;
    }
    j->weights =
        cli_take((size_t)(j->layers * j->heads * j->queries * j->keys) * sizeof *j->weights);
    return j->layers > 0;
}

static attn_status forward(look_job *j, attn_error *err)
{
    attn_batch_limits limits = ATTN_BATCH_LIMITS_INIT;
    attn_pass pass = ATTN_PASS_INIT;
    attn_look *looks = cli_take((size_t)j->layers * sizeof *looks);
    size_t size;
    attn_status status;

    limits.segments = 1;
    limits.source_tokens = limits.longest_source = j->starts[1];
    limits.target_tokens = limits.longest_target = j->starts[3];
    for (int64_t i = 0; i < j->layers; i++) {
        looks[i].decoder = 1;
        looks[i].cross = j->batch.source != NULL;
        looks[i].layer = i;
        looks[i].weights = attn_view_bhsd(j->weights + i * j->heads * j->queries * j->keys,
                                          ATTN_F32, 1, j->heads, j->queries, j->keys);
    }
    status = attn_model_plan(j->run->model, &limits, 0, &size, err);
    if (status != ATTN_OK)
        return status;
    pass.batch = &j->batch;
    pass.arena = cli_take(size);
    pass.arena_size = size;
    pass.looks = looks;
    pass.look_count = (size_t)j->layers;
    return attn_model_forward(j->run->model, &pass, err);
}

/* Ids as text, or NULL for text's own tokens, which nobody knows by number. */
static const attn_label *labels(const look_job *j, const int32_t *ids, int64_t count)
{
    enum { SIZE = 16 };
    attn_label *label = cli_take((size_t)count * sizeof *label);

    if (!j->run->o[TRAIN_TASK].given)
        return NULL;
    for (int64_t i = 0; i < count; i++) {
        char *text = cli_take(SIZE);

        label[i].size = (size_t)snprintf(text, SIZE, "%ld", (long)ids[i]);
        label[i].text = text;
    }
    return label;
}

static attn_status draw(const look_job *j, const char *path, attn_error *err)
{
    attn_figure figure = ATTN_FIGURE_INIT;
    const attn_panel none = ATTN_PANEL_INIT;
    size_t count = (size_t)(j->layers * j->heads);
    attn_panel *panels = cli_take(count * sizeof *panels);

    for (size_t i = 0; i < count; i++) {
        panels[i] = none;
        panels[i].layer = (int64_t)i / j->heads;
        panels[i].head = (int64_t)i % j->heads;
        panels[i].cells = attn_view_bhsd(j->weights + (int64_t)i * j->queries * j->keys, ATTN_F32,
                                         1, 1, j->queries, j->keys);
    }
    figure.kind = ATTN_FIGURE_GRID;
    figure.title = j->batch.source ? "Attention of the decoder to the source"
                                   : "Attention of the decoder to what came before";
    figure.panels = panels;
    figure.panel_count = count;
    figure.query_title = "target";
    figure.key_title = j->batch.source ? "source" : "target";
    figure.query_tokens = labels(j, j->batch.target, j->queries);
    figure.key_tokens = labels(j, j->batch.source ? j->batch.source : j->batch.target, j->keys);
    return attn_figure_write(NULL, &figure, ATTN_PICTURE_PNG, path, err);
}

static attn_status write_weights(const look_job *j, const char *path, attn_error *err)
{
    attn_tensor t = {.name = "weights", .type = ATTN_F32, .rank = 4, .data = j->weights};
    const int64_t size[4] = {j->layers, j->heads, j->queries, j->keys};
    int64_t stride = 1;

    for (int i = 3; i >= 0; i--) {
        t.size[i] = size[i];
        t.stride[i] = stride;
        stride *= size[i];
    }
    return attn_file_write(NULL, path, ATTN_FORMAT_SAFETENSORS, &t, 1, NULL, NULL, 0, err);
}

void train_look(train_run *run)
{
    look_job j = {.run = run, .batch = ATTN_BATCH_INIT};
    size_t mark = cli_mark(), size = strlen(run->folder) + 32;
    int64_t which = choose(&run->data.held_out);
    attn_error err = {ATTN_OK, 0, ""};
    char *path = cli_take(size);
    attn_status status = ATTN_OK;

    if (which >= 0 && prepare(&j, which)) {
        status = forward(&j, &err);
        snprintf(path, size, "%s/attention.safetensors", run->folder);
        if (status == ATTN_OK)
            status = write_weights(&j, path, &err);
        snprintf(path, size, "%s/attention.png", run->folder);
        if (status == ATTN_OK)
            status = draw(&j, path, &err);
        if (status != ATTN_OK)
            cli_note("no picture of the attention: %s", err.text);
    }
    cli_release(mark);
}
