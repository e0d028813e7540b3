/* test_nn_golden.c: whole Transformers of many kinds against PyTorch in float64
 * (tests/golden/nn.py): hidden states and the gradient of every parameter. */
#include "include/attn/io.h"
#include "include/attn/nn.h"
#include "tests/expect.h"

#include <math.h>
#include <string.h>

#define FILE_NAME "tests/golden/nn.safetensors"

static const int64_t source_starts[] = {0, 4, 5, 5, 11}, target_starts[] = {0, 3, 8, 10, 11};

static const attn_tensor *find(const attn_file *file, const char *name, const char *what)
{
    char full[160];
    const attn_tensor *t;

    snprintf(full, sizeof full, "%s/%s", name, what);
    t = attn_file_find(file, full);
    CHECK_MSG(t != NULL, "no %s", full);
    return t;
}

static double element(const attn_tensor *t, int64_t i)
{
    return t->type == ATTN_F64 ? ((const double *)t->data)[i] : (double)((const float *)t->data)[i];
}

/* FIELDS of the script, in order. */
static attn_model_config options(const attn_file *file, const char *name, attn_type type)
{
    const attn_tensor *t = find(file, name, "options");
    attn_model_config c = ATTN_MODEL_CONFIG_INIT;
    double x[64];

    CHECK(t->size[1] == 41);
    for (int64_t i = 0; i < 41; i++)
        x[i] = element(t, i);
    c.type = type;
    c.stack = (attn_stack)x[0];
    c.vocabulary = (int64_t)x[1];
    c.source_vocabulary = (int64_t)x[2];
    c.encoder_layers = (int64_t)x[3];
    c.decoder_layers = (int64_t)x[4];
    c.d = (int64_t)x[5];
    c.ff = (int64_t)x[6];
    c.heads = (int64_t)x[7];
    c.kv_heads = (int64_t)x[8];
    c.dk = (int64_t)x[9];
    c.dv = (int64_t)x[10];
    c.biases = (int)x[11];
    c.norm = (attn_norm)x[12];
    c.place = (attn_place)x[13];
    c.norm_eps = x[14];
    c.norm_no_bias = (int)x[15];
    c.norm_plus_one = (int)x[16];
    c.final_norm = (attn_choice)x[17];
    c.embedding_norm = (attn_choice)x[18];
    c.activation = (attn_activation)x[19];
    c.gated = (int)x[20];
    c.positions = (attn_positions)x[21];
    c.position_offset = (int64_t)x[22];
    c.max_positions = (int64_t)x[23];
    c.position_base = x[24];
    c.rotary = (int64_t)x[25];
    c.t5_buckets = (int64_t)x[26];
    c.t5_max_distance = (int64_t)x[27];
    c.tie_embeddings = (int)x[28];
    c.tie_output = (int)x[29];
    c.embedding_scale = x[30];
    c.output_bias = (int)x[31];
    c.output = ATTN_NO;
    c.qk_norm = (attn_qk_norm)x[33];
    c.qk_temperature = (int)x[34];
    c.has_attention_scale = (int)x[35];
    c.attention_scale = x[36];
    c.softcap = x[37];
    c.score = (attn_score)x[38];
    c.start = (attn_start)x[39];
    c.start_token = (int64_t)x[40];
    return c;
}

/* Copies the file's tensor of this parameter ("w" or "g") into a block. */
static void put(const attn_view *v, int64_t i, double x)
{
    if (v->type == ATTN_F64)
        ((double *)v->data)[i] = x;
    else
        ((float *)v->data)[i] = (float)x;
}

static double get(const attn_view *v, int64_t i)
{
    return v->type == ATTN_F64 ? ((const double *)v->data)[i] : (double)((const float *)v->data)[i];
}

static const attn_tensor *tensor_of(const attn_file *file, const char *name, const char *kind,
                                    const attn_param *p)
{
    char what[120];
    const attn_tensor *t;

    snprintf(what, sizeof what, "%s/%s", kind, p->name);
    t = find(file, name, what);
    CHECK_MSG(t->rank == p->rank && t->size[0] == p->size[0] &&
                  (p->rank == 1 || t->size[1] == p->size[1]),
              "%s: other sizes", what);
    return t;
}

static attn_model *load(const attn_file *file, const char *name, attn_type type, int threads)
{
    attn_model_config c = options(file, name, type);
    attn_model *m;
    attn_error err = {0};

    CHECK_MSG(attn_model_create(ctx_for(ATTN_SET_AUTO, threads), &c, 1, &m, &err) == ATTN_OK,
              "%s: %s", name, err.text);
    for (size_t i = 0; i < attn_model_param_count(m); i++) {
        const attn_param *p = attn_model_param(m, i);
        attn_view v = attn_param_view(m, p, attn_model_weights(m));
        const attn_tensor *t = tensor_of(file, name, "w", p);

        for (int64_t j = 0; j < p->count; j++)
            put(&v, j, element(t, j));
    }
    return m;
}

/* Largest difference of norms, relative: |got - want| / |want|. */
typedef struct distance {
    double difference, size;
} distance;

static void measure(distance *d, double got, double want)
{
    d->difference += (got - want) * (got - want);
    d->size += want * want;
}

static double relative(const distance *d)
{
    return sqrt(d->difference) / (sqrt(d->size) + 1e-300);
}

/* Each tensor within `bound` of its own norm, or of the whole gradient's where it is small. */
static void check_gradients(const attn_file *file, const char *name, const attn_model *m,
                            const void *gradients, double bound)
{
    distance all = {0, 0};

    for (int round = 0; round < 2; round++)
        for (size_t i = 0; i < attn_model_param_count(m); i++) {
            const attn_param *p = attn_model_param(m, i);
            attn_view v = attn_param_view(m, p, gradients);
            const attn_tensor *t = tensor_of(file, name, "g", p);
            distance one = {0, 0};

            for (int64_t j = 0; j < p->count; j++)
                measure(round ? &one : &all, get(&v, j), element(t, j));
            CHECK_MSG(!round ||
                          sqrt(one.difference) <= bound * (sqrt(one.size) + 1e-2 * sqrt(all.size)),
                      "%s: gradient of %s differs by %g of %g", name, p->name, sqrt(one.difference),
                      sqrt(one.size));
        }
    print_message("%s: gradients differ by %.2g\n", name, relative(&all));
}

static void run(const attn_file *file, const char *name, attn_type type, int flags, double bound)
{
    attn_model *m = load(file, name, type, 2);
    attn_batch batch = ATTN_BATCH_INIT;
    attn_batch_limits limits = ATTN_BATCH_LIMITS_INIT;
    attn_pass pass = ATTN_PASS_INIT;
    arena memory = {0};
    attn_error err = {0};
    const attn_tensor *hidden = find(file, name, "hidden"), *d = find(file, name, "dhidden");
    distance out = {0, 0};
    size_t bytes = (size_t)attn_model_elements(m) * attn_type_size(type);
    void *gradients = arena_get(&memory, bytes);

    batch.segments = limits.segments = 4;
    batch.source = find(file, name, "source")->data;
    batch.source_starts = source_starts;
    batch.target = find(file, name, "target")->data;
    batch.target_starts = target_starts;
    limits.source_tokens = limits.target_tokens = 11;
    limits.longest_source = 6;
    limits.longest_target = 5;
    pass.batch = &batch;
    pass.flags = flags;
    CHECK(attn_model_plan(m, &limits, flags, &pass.arena_size, NULL) == ATTN_OK);
    pass.arena = arena_get(&memory, pass.arena_size);
    memset(pass.arena, 0xff, pass.arena_size);
    CHECK_MSG(attn_model_forward(m, &pass, &err) == ATTN_OK, "%s: %s", name, err.text);
    for (int64_t i = 0; i < hidden->size[0] * hidden->size[1]; i++)
        measure(&out, get(&pass.hidden, i), element(hidden, i));
    CHECK_MSG(relative(&out) <= bound, "%s: hidden states differ by %g", name, relative(&out));
    for (int64_t i = 0; i < hidden->size[0] * hidden->size[1]; i++)
        put(&pass.hidden, i, element(d, i));
    memset(gradients, 0, bytes);
    CHECK_MSG(attn_model_backward(m, &pass, &pass.hidden, gradients, &err) == ATTN_OK, "%s: %s",
              name, err.text);
    check_gradients(file, name, m, gradients, bound);
    arena_reset(&memory);
    attn_model_destroy(m);
}

static void all_cases(attn_type type, int flags, double bound)
{
    static const char *const names[] = {"paper",  "pre",      "widths",   "llama",
                                        "gemma",  "t5",       "bert",     "alibi",
                                        "cosine", "qk_layer", "additive", "joined"};
    attn_file *file = NULL;
    attn_error err = {0};

    CHECK_MSG(attn_file_open(NULL, FILE_NAME, NULL, &file, &err) == ATTN_OK, "%s", err.text);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        run(file, names[i], type, flags, bound);
    attn_file_close(file);
}

static void in_f64(void **state)
{
    (void)state;
    all_cases(ATTN_F64, ATTN_PASS_BACKWARD, 2e-12);
}

static void in_f64_computed_again(void **state)
{
    (void)state;
    all_cases(ATTN_F64, ATTN_PASS_BACKWARD | ATTN_PASS_RECOMPUTE, 2e-12);
}

static void in_f32(void **state)
{
    (void)state;
    all_cases(ATTN_F32, ATTN_PASS_BACKWARD, 2e-5);
}

int main(int argc, char **argv)
{
    static const test_case tests[] = {
        {"f64 against PyTorch", in_f64, 0},
        {"f64 with recomputation", in_f64_computed_again, 0},
        {"f32 against PyTorch's f64", in_f32, 0},
    };

    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
