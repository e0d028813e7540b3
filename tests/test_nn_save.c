/* test_nn_save.c: models in files: every field and every bit comes back; files that do not fit are
 * refused; every failing allocation is survived. */
#define _XOPEN_SOURCE 700
#include "include/attn/io.h"
#include "tests/nn_step.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[64];

static void make_path(void)
{
    int fd;

    strcpy(path, "/tmp/attn-nn-save-XXXXXX");
    fd = mkstemp(path);
    CHECK(fd >= 0);
    close(fd);
}

static attn_status load(attn_model **m, attn_error *err)
{
    return attn_model_load(ctx_for(ATTN_SET_AUTO, 1), path, m, err);
}

static void there_and_back(void **state)
{
    (void)state;
    make_path();
    for (int i = 0; i < STEP_VARIANTS; i++) {
        attn_model_config c = step_config(i);
        attn_model *m, *back = NULL;
        attn_error err = {0};
        size_t bytes;

        c.norm_eps = 1e-6 / 3;
        c.type = i % 2 ? ATTN_F64 : ATTN_F32;
        m = step_model(&c, 1, (uint64_t)i);
        bytes = (size_t)attn_model_elements(m) * attn_type_size(c.type);
        CHECK_MSG(attn_model_save(m, NULL, path, &err) == ATTN_OK, "%s", err.text);
        CHECK_MSG(load(&back, &err) == ATTN_OK, "%s", err.text);
        CHECK(memcmp(attn_model_get_config(m), attn_model_get_config(back), sizeof c) == 0);
        CHECK(attn_model_elements(m) == attn_model_elements(back));
        CHECK(memcmp(attn_model_weights(m), attn_model_weights(back), bytes) == 0);
        attn_model_destroy(m);
        attn_model_destroy(back);
    }
    remove(path);
}

static void from_memory(void **state)
{
    attn_model_config c = step_config(2);
    attn_model *m = step_model(&c, 1, 1), *back = NULL;
    size_t size, bytes = (size_t)attn_model_elements(m) * sizeof(float);
    arena memory = {0};
    char *copy = arena_get(&memory, 1 << 20);
    FILE *f;

    (void)state;
    make_path();
    CHECK(attn_model_save(m, NULL, path, NULL) == ATTN_OK);
    f = fopen(path, "rb");
    CHECK(f != NULL);
    size = fread(copy, 1, 1 << 20, f);
    fclose(f);
    CHECK(attn_model_load_memory(ctx_for(ATTN_SET_AUTO, 1), copy, size, &back, NULL) == ATTN_OK);
    memset(copy, 0, size);
    CHECK(memcmp(attn_model_weights(m), attn_model_weights(back), bytes) == 0);
    attn_model_destroy(m);
    attn_model_destroy(back);
    arena_reset(&memory);
    remove(path);
}

/* Another block of the same layout, an average for example. */
static void other_blocks(void **state)
{
    attn_model_config c = step_config(3);
    attn_model *m = step_model(&c, 1, 1), *back = NULL;
    size_t bytes = (size_t)attn_model_elements(m) * sizeof(float);
    arena memory = {0};
    float *block = arena_get(&memory, bytes);

    (void)state;
    make_path();
    for (size_t i = 0; i < bytes / sizeof *block; i++)
        block[i] = (float)i;
    CHECK(attn_model_save(m, block, path, NULL) == ATTN_OK);
    CHECK(load(&back, NULL) == ATTN_OK);
    for (size_t i = 0; i < attn_model_param_count(m); i++) {
        const attn_param *p = attn_model_param(m, i);
        CHECK(memcmp((float *)attn_model_weights(back) + p->offset, block + p->offset,
                     (size_t)p->count * sizeof *block) == 0);
    }
    attn_model_destroy(m);
    attn_model_destroy(back);
    arena_reset(&memory);
    remove(path);
}

/* --- Half-wide files -------------------------------------------------------------------------- */

static double weight(const attn_model *m, int64_t i)
{
    const void *w = attn_model_weights(m);

    return attn_model_get_config(m)->type == ATTN_F64 ? ((const double *)w)[i]
                                                      : (double)((const float *)w)[i];
}

static long file_size(void)
{
    FILE *f = fopen(path, "rb");
    long size;

    CHECK(f != NULL);
    CHECK(fseek(f, 0, SEEK_END) == 0);
    size = ftell(f);
    fclose(f);
    return size;
}

/* All of `back` is the nearest to `m` that `type` has, so that saving it again loses nothing. */
static void check_nearest(const attn_model *m, const attn_model *back, attn_type type)
{
    double half = type == ATTN_F16 ? 0x1p-11 : 0x1p-8, least = type == ATTN_F16 ? 0x1p-25 : 1e-40;
    attn_model *again = NULL;

    for (size_t k = 0; k < attn_model_param_count(m); k++) {
        const attn_param *p = attn_model_param(m, k);
        for (int64_t i = p->offset; i < p->offset + p->count; i++) {
            double x = weight(m, i), y = weight(back, i);
            double bound = fabs(x) * half * (1 + 0x1p-20) + least;
            CHECK_MSG(fabs(x - y) <= bound, "%s: %.9g became %.9g", p->name, x, y);
        }
    }
    CHECK(attn_model_save_as(back, NULL, type, path, NULL) == ATTN_OK);
    CHECK(load(&again, NULL) == ATTN_OK);
    CHECK(memcmp(attn_model_weights(back), attn_model_weights(again),
                 (size_t)attn_model_elements(m) * attn_type_size(attn_model_get_config(m)->type)) ==
          0);
    attn_model_destroy(again);
}

static void narrow_files(void **state)
{
    (void)state;
    make_path();
    for (int i = 0; i < STEP_VARIANTS; i++) {
        attn_type type = i & 2 ? ATTN_F16 : ATTN_BF16;
        attn_model_config c = step_config(i);
        attn_model *m, *back = NULL;
        attn_error err = {0};
        int64_t saved = attn_model_config_parameters(&c) * (i % 2 ? 6 : 2);
        long wide;

        c.type = i % 2 ? ATTN_F64 : ATTN_F32;
        m = step_model(&c, 1, (uint64_t)i);
        CHECK(attn_model_save(m, NULL, path, NULL) == ATTN_OK);
        wide = file_size();
        CHECK_MSG(attn_model_save_as(m, NULL, type, path, &err) == ATTN_OK, "%s", err.text);
        CHECK(labs(wide - file_size() - (long)saved) < 8 * (long)attn_model_param_count(m));
        CHECK_MSG(load(&back, &err) == ATTN_OK, "%s", err.text);
        CHECK(memcmp(attn_model_get_config(m), attn_model_get_config(back), sizeof c) == 0);
        check_nearest(m, back, type);
        attn_model_destroy(m);
        attn_model_destroy(back);
    }
    remove(path);
}

/* Ties go to even, small ones do not vanish, infinities and NaN stay what they are; what is finite
 * and would not be is refused, and the file that was there stays. */
static void narrow_values(void **state)
{
    static const struct {
        double x, f16, bf16;
    } cases[] = {
        {1 + 0x1p-11, 1, 1},         {1 + 3 * 0x1p-11, 1 + 0x1p-9, 1},
        {1 + 0x1p-8, 1 + 0x1p-8, 1}, {1 + 3 * 0x1p-8, 1 + 3 * 0x1p-8, 1 + 0x1p-6},
        {0x1p-24, 0x1p-24, 0x1p-24}, {-0x1p-26, 0, -0x1p-26},
        {65504, 65504, 65536},       {(double)INFINITY, (double)INFINITY, (double)INFINITY},
    };
    attn_model_config c = step_config(0);

    (void)state;
    make_path();
    for (int wide = 0; wide < 2; wide++) {
        attn_model *m, *back = NULL;
        attn_error err = {0};
        long size;

        c.type = wide ? ATTN_F64 : ATTN_F32;
        m = step_model(&c, 1, 1);
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            if (wide)
                ((double *)attn_model_weights(m))[i] = cases[i].x;
            else
                ((float *)attn_model_weights(m))[i] = (float)cases[i].x;
        }
        for (int type = 0; type < 2; type++) {
            CHECK(attn_model_save_as(m, NULL, type ? ATTN_BF16 : ATTN_F16, path, NULL) == ATTN_OK);
            CHECK(load(&back, NULL) == ATTN_OK);
            for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                double want = type ? cases[i].bf16 : cases[i].f16;
                CHECK_MSG(weight(back, (int64_t)i) == want, "%.9g became %.9g, expected %.9g",
                          cases[i].x, weight(back, (int64_t)i), want);
            }
            attn_model_destroy(back);
        }
        size = file_size();
        if (wide)
            ((double *)attn_model_weights(m))[2] = 65520;
        else
            ((float *)attn_model_weights(m))[2] = 65520;
        CHECK(attn_model_save_as(m, NULL, ATTN_F16, path, &err) == ATTN_E_ARGUMENT);
        CHECK_MSG(strstr(err.text, "embedding.weight: element 2") != NULL, "%s", err.text);
        CHECK(file_size() == size);
        if (wide) {
            ((double *)attn_model_weights(m))[2] = 1e300;
            CHECK(attn_model_save_as(m, NULL, ATTN_BF16, path, &err) == ATTN_E_ARGUMENT);
            CHECK(file_size() == size);
        }
        attn_model_destroy(m);
    }
    remove(path);
}

/* The file's tensors and metadata with one change; loading must fail and say `text`. */
typedef struct forged {
    attn_tensor tensor[200];
    const char *key[80], *value[80];
    size_t tensors, pairs;
} forged;

static void read_all(forged *f, const attn_file *file)
{
    f->tensors = attn_file_count(file);
    f->pairs = attn_file_meta_count(file);
    CHECK(f->tensors < 200 && f->pairs < 80);
    for (size_t i = 0; i < f->tensors; i++)
        f->tensor[i] = *attn_file_tensor(file, i);
    for (size_t i = 0; i < f->pairs; i++) {
        f->key[i] = attn_file_meta_key(file, i);
        f->value[i] = attn_file_meta(file, f->key[i]);
    }
}

static const char **pair(forged *f, const char *key)
{
    for (size_t i = 0; i < f->pairs; i++)
        if (strcmp(f->key[i], key) == 0)
            return &f->value[i];
    CHECK_MSG(0, "no %s", key);
    return NULL;
}

static void refuse(const forged *f, const char *what)
{
    char copy[80];
    attn_error err = {0};
    attn_model *m = NULL;
    attn_status st;

    snprintf(copy, sizeof copy, "%s.forged", path);
    CHECK_MSG(attn_file_write(NULL, copy, ATTN_FORMAT_SAFETENSORS, f->tensor, f->tensors, f->key,
                              f->value, f->pairs, &err) == ATTN_OK,
              "%s: %s", what, err.text);
    st = attn_model_load(ctx_for(ATTN_SET_AUTO, 1), copy, &m, &err);
    CHECK_MSG(st == ATTN_E_FORMAT && err.status == st && !m, "%s: status %d: %s", what, (int)st,
              err.text);
    CHECK_MSG(strstr(err.text, what) != NULL, "expected %s: %s", what, err.text);
    remove(copy);
}

static void files_that_do_not_fit(void **state)
{
    static const char *const changes[][3] = {
        {"attn.format", "transformer 9", "attn.format"},
        {"attn.d", "24", "parameters"},
        {"attn.d", "20x", "attn.d"},
        {"attn.d", "", "attn.d"},
        {"attn.d", "99999999999999999999", "attn.d"},
        {"attn.d", "-4", "d: -4"},
        {"attn.heads", "0x10", "attn.heads"},
        {"attn.norm_eps", "nan", "attn.norm_eps"},
        {"attn.norm_eps", "1e-5.", "attn.norm_eps"},
        {"attn.stack", "9", "stack"},
        {"attn.stack", "4294967296", "attn.stack"},
        {"attn.type", "1", "type"},
        {"attn.type", "3", "embedding.weight"},
        {"attn.decoder_layers", "1", "parameters"},
        {"attn.decoder_layers", "3", "parameters"},
        {"attn.ff", "16777216", "parameters"},
    };
    attn_model_config c = step_config(0);
    attn_model *m = step_model(&c, 1, 1);
    attn_file *file = NULL;
    forged f;

    (void)state;
    make_path();
    CHECK(attn_model_save(m, NULL, path, NULL) == ATTN_OK);
    CHECK(attn_file_open(NULL, path, NULL, &file, NULL) == ATTN_OK);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        read_all(&f, file);
        *pair(&f, changes[i][0]) = changes[i][1];
        refuse(&f, changes[i][2]);
    }
    read_all(&f, file);
    f.key[f.pairs] = "attn.extra";
    f.value[f.pairs++] = "1";
    refuse(&f, "attn.extra");
    read_all(&f, file);
    f.tensors--;
    refuse(&f, "parameters");
    read_all(&f, file);
    f.tensor[3].name = "another";
    refuse(&f, "no such tensor");
    read_all(&f, file);
    f.tensor[3].type = ATTN_I32; /* as wide as f32 */
    refuse(&f, f.tensor[3].name);
    read_all(&f, file);
    f.tensor[f.tensors] = f.tensor[0];
    f.tensor[f.tensors].size[0] = 0;
    f.tensor[f.tensors++].name = "stray";
    refuse(&f, "stray");
    attn_file_close(file);
    attn_model_destroy(m);
    remove(path);
}

/* A pair of someone else's does no harm. */
static void foreign_metadata(void **state)
{
    attn_model_config c = step_config(0);
    attn_model *m = step_model(&c, 1, 1), *back = NULL;
    attn_file *file = NULL;
    forged f;
    char copy[80];

    (void)state;
    make_path();
    snprintf(copy, sizeof copy, "%s.more", path);
    CHECK(attn_model_save(m, NULL, path, NULL) == ATTN_OK);
    CHECK(attn_file_open(NULL, path, NULL, &file, NULL) == ATTN_OK);
    read_all(&f, file);
    f.key[f.pairs] = "author";
    f.value[f.pairs++] = "someone";
    CHECK(attn_file_write(NULL, copy, ATTN_FORMAT_SAFETENSORS, f.tensor, f.tensors, f.key, f.value,
                          f.pairs, NULL) == ATTN_OK);
    CHECK(attn_model_load(ctx_for(ATTN_SET_AUTO, 1), copy, &back, NULL) == ATTN_OK);
    attn_model_destroy(back);
    attn_model_destroy(m);
    attn_file_close(file);
    remove(copy);
    remove(path);
}

/* Fails the n-th allocation. */
typedef struct rationed {
    int64_t left, live;
} rationed;

static void *ration(void *user, size_t size, size_t align)
{
    rationed *r = user;

    if (r->left-- <= 0)
        return NULL;
    r->live++;
    return aligned_alloc(align, (size + align - 1) / align * align);
}

static void give_back(void *user, void *memory)
{
    ((rationed *)user)->live--;
    free(memory);
}

static void allocations_that_fail(void **state)
{
    attn_model_config c = step_config(1);
    rationed r = {1000, 0};
    attn_ctx_options o = ATTN_CTX_OPTIONS_INIT;
    attn_ctx *ctx;
    int64_t base, made = 0;

    (void)state;
    make_path();
    o.threads = 1;
    o.alloc = ration;
    o.free = give_back;
    o.alloc_user = &r;
    CHECK(attn_ctx_create(&o, &ctx, NULL) == ATTN_OK);
    base = r.live;
    for (int64_t n = 0; n < 60 && made < 4; n++) {
        attn_model *m = NULL, *back = NULL;
        attn_status st;

        r.left = n;
        st = attn_model_create(ctx, &c, 1, &m, NULL);
        CHECK(st == (m ? ATTN_OK : ATTN_E_MEMORY));
        if (m)
            st = attn_model_save_as(m, NULL, n % 2 ? ATTN_F16 : c.type, path, NULL);
        CHECK(st == ATTN_OK || st == ATTN_E_MEMORY);
        if (m && st == ATTN_OK) {
            st = attn_model_load(ctx, path, &back, NULL);
            CHECK(st == (back ? ATTN_OK : ATTN_E_MEMORY));
            made += back != NULL;
        }
        attn_model_destroy(m);
        attn_model_destroy(back);
        CHECK_MSG(r.live == base, "%lld pieces of memory lost", (long long)(r.live - base));
    }
    CHECK(made == 4);
    attn_ctx_destroy(ctx);
    remove(path);
}

static void wrong_arguments(void **state)
{
    attn_model_config c = step_config(0);
    attn_model *m = NULL;
    const attn_ctx *ctx = ctx_for(ATTN_SET_AUTO, 1);

    (void)state;
    CHECK(attn_model_save(NULL, NULL, "x", NULL) == ATTN_E_ARGUMENT);
    CHECK(attn_model_save_as(NULL, NULL, ATTN_F16, "x", NULL) == ATTN_E_ARGUMENT);
    CHECK(attn_model_create(ctx, &c, 1, &m, NULL) == ATTN_OK);
    CHECK(attn_model_save_as(m, NULL, ATTN_F16, NULL, NULL) == ATTN_E_ARGUMENT);
    CHECK(attn_model_save_as(m, NULL, ATTN_I8, "x", NULL) == ATTN_E_ARGUMENT);
    CHECK(attn_model_save_as(m, NULL, ATTN_F64, "x", NULL) == ATTN_E_ARGUMENT);
    attn_model_destroy(m);
    CHECK(attn_model_load(ctx, NULL, &m, NULL) == ATTN_E_ARGUMENT);
    CHECK(attn_model_load(NULL, "x", &m, NULL) == ATTN_E_ARGUMENT);
    CHECK(attn_model_load(ctx, "x", NULL, NULL) == ATTN_E_ARGUMENT);
    CHECK(attn_model_load(ctx, "/no/such/file", &m, NULL) == ATTN_E_IO && !m);
    CHECK(attn_model_load_memory(ctx, NULL, 8, &m, NULL) == ATTN_E_ARGUMENT && !m);
    CHECK(attn_model_load_memory(ctx, "12345678", 8, &m, NULL) == ATTN_E_FORMAT && !m);
}

int main(int argc, char **argv)
{
    static const test_case tests[] = {
        {"there and back", there_and_back, 0},
        {"from memory", from_memory, 0},
        {"other blocks", other_blocks, 0},
        {"narrow files", narrow_files, 0},
        {"narrow values", narrow_values, 0},
        {"files that do not fit", files_that_do_not_fit, 0},
        {"foreign metadata", foreign_metadata, 0},
        {"allocations that fail", allocations_that_fail, 0},
        {"wrong arguments", wrong_arguments, 0},
    };

    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
