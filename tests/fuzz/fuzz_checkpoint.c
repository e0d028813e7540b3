/* fuzz_checkpoint.c: folders of checkpoints made of any bytes, and a trainer that takes over what
 * opens. The input is a byte, a manifest, "--part--", and the file of every part that the manifest
 * names. An odd first byte puts the checksums right, so that what lies behind them is reached too.
 * Seeds: tests/fuzz/corpus/checkpoint. */
#define _POSIX_C_SOURCE 200809L
#include "include/attn/io.h"
#include "include/attn/train.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int fsync(int fd) /* waits for no disk */
{
    (void)fd;
    return 0;
}

#define PLACE "step-000000000001"
#define CUT "--part--"

static void demand(int holds)
{
    if (!holds)
        abort();
}

/* A run of a very small model, and a folder in which the checkpoints lie. */
static attn_ctx *ctx;
static attn_trainer *trainer;
static char folder[32];

static void begin(void)
{
    static const int32_t ids[] = {1, 2, 0, 2, 0};
    static const int64_t starts[] = {0, 3, 5};
    attn_ctx_options options = ATTN_CTX_OPTIONS_INIT;
    attn_model_config c = ATTN_MODEL_CONFIG_INIT;
    attn_trainer_options o = ATTN_TRAINER_OPTIONS_INIT;
    static attn_model *model;

    options.threads = 1;
    demand(attn_ctx_create(&options, &ctx, NULL) == ATTN_OK);
    c.stack = ATTN_STACK_DECODER;
    c.vocabulary = 3;
    c.decoder_layers = 1;
    c.d = c.ff = 2;
    c.heads = 1;
    c.tie_output = 1;
    demand(attn_model_create(ctx, &c, 1, &model, NULL) == ATTN_OK);
    o.corpus = (attn_corpus){2, NULL, NULL, ids, starts};
    o.schedule.rate = 1e-3;
    demand(attn_trainer_create(model, &o, &trainer, NULL) == ATTN_OK);
    strcpy(folder, "/dev/shm/attn-fuzz-XXXXXX"); /* memory, where there is such a folder */
    if (mkdtemp(folder))
        return;
    strcpy(folder, "/tmp/attn-fuzz-XXXXXX");
    demand(mkdtemp(folder) != NULL);
}

static void put(const char *name, const void *bytes, size_t size)
{
    char path[256];
    FILE *f;

    snprintf(path, sizeof path, "%s/" PLACE "/%s.safetensors", folder, name);
    f = fopen(path, "wb");
    if (!f)
        return; /* a part's name may be any text */
    demand(fwrite(bytes, 1, size, f) == size && fclose(f) == 0);
}

static void clear(const attn_file *manifest)
{
    char path[256];

    for (size_t i = 0; manifest && i < attn_file_meta_count(manifest); i++) {
        const char *key = attn_file_meta_key(manifest, i);

        if (strncmp(key, "attn.part.", 10) != 0 || strlen(key) > 80 || strchr(key, '/'))
            continue;
        snprintf(path, sizeof path, "%s/" PLACE "/%s.safetensors", folder, key + 10);
        remove(path);
    }
    snprintf(path, sizeof path, "%s/" PLACE "/manifest.safetensors", folder);
    remove(path);
    snprintf(path, sizeof path, "%s/" PLACE, folder);
    rmdir(path);
    demand(rmdir(folder) == 0);
}

/* The manifest again with the checksums that its parts have, and its own. */
static void mend(const attn_file *manifest, const uint8_t *part, size_t size)
{
    enum { MOST = 64 };
    const char *keys[MOST], *values[MOST];
    char right[48], check[16], path[256];
    size_t count = attn_file_meta_count(manifest), at = MOST;
    uLong sum = crc32_z(0, NULL, 0);

    if (count > MOST)
        return;
    snprintf(right, sizeof right, "%zu %08lx", size, crc32_z(0, part, size));
    for (size_t i = 0; i < count; i++) { /* in order of keys */
        keys[i] = attn_file_meta_key(manifest, i);
        values[i] = attn_file_meta(manifest, keys[i]);
        if (strncmp(keys[i], "attn.part.", 10) == 0)
            values[i] = right;
        if (strcmp(keys[i], "attn.check") == 0) {
            at = i;
            continue;
        }
        sum = crc32_z(sum, (const Bytef *)keys[i], strlen(keys[i]) + 1);
        sum = crc32_z(sum, (const Bytef *)values[i], strlen(values[i]) + 1);
    }
    snprintf(check, sizeof check, "%08lx", sum);
    if (at < MOST)
        values[at] = check;
    snprintf(path, sizeof path, "%s/" PLACE "/manifest.safetensors", folder);
    demand(attn_file_write(NULL, path, ATTN_FORMAT_SAFETENSORS, NULL, 0, keys, values, count,
                           NULL) == ATTN_OK);
}

static void look(void)
{
    attn_checkpoint *c = NULL;
    attn_error err = {ATTN_OK, 0, ""};
    int64_t step, before = attn_trainer_steps(trainer);
    size_t count;
    attn_status st = attn_checkpoint_open(ctx, folder, -1, &c, &err);

    demand(attn_checkpoint_list(ctx, folder, &step, 1, &count, NULL) == ATTN_OK && count <= 1);
    if (st != ATTN_OK) {
        demand((st == ATTN_E_FORMAT || st == ATTN_E_IO) && err.status == st && err.text[0] && !c);
        return;
    }
    demand(attn_checkpoint_step(c) == 1 && strstr(attn_checkpoint_path(c), PLACE) != NULL);
    st = attn_trainer_restore(trainer, c, &err);
    attn_checkpoint_close(c);
    if (st != ATTN_OK) {
        demand(st == ATTN_E_FORMAT && err.text[0] && attn_trainer_steps(trainer) == before);
        return;
    }
    st = attn_trainer_step(trainer, NULL, &err); /* the weights may be anything, NaN too */
    demand(st == ATTN_OK || st == ATTN_E_ARGUMENT);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *part = data + size;
    attn_file_options options = ATTN_FILE_OPTIONS_INIT;
    attn_file *manifest = NULL;
    char path[256];
    size_t rest;

    if (size < 1)
        return 0;
    if (!trainer)
        begin();
    for (size_t i = 1; i + sizeof CUT - 1 <= size; i++)
        if (memcmp(data + i, CUT, sizeof CUT - 1) == 0) {
            part = data + i;
            break;
        }
    rest = (size_t)(data + size - part);
    size = (size_t)(part - data);
    part += rest ? sizeof CUT - 1 : 0;
    rest -= rest ? sizeof CUT - 1 : 0;
    mkdir(folder, 0700);
    snprintf(path, sizeof path, "%s/" PLACE, folder);
    demand(mkdir(path, 0700) == 0);
    put("manifest", data + 1, size - 1);
    options.format = ATTN_FORMAT_SAFETENSORS;
    if (attn_file_open_memory(NULL, data + 1, size - 1, &options, &manifest, NULL) == ATTN_OK) {
        for (size_t i = 0; i < attn_file_meta_count(manifest); i++) {
            const char *key = attn_file_meta_key(manifest, i);
            if (strncmp(key, "attn.part.", 10) == 0 && strlen(key) <= 80 && !strchr(key, '/') &&
                strcmp(key, "attn.part.manifest") != 0)
                put(key + 10, part, rest);
        }
        if (data[0] % 2)
            mend(manifest, part, rest);
    }
    look();
    clear(manifest);
    attn_file_close(manifest);
    return 0;
}
