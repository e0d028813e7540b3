/* state.c: a trainer's checkpoints. */
#include "src/train/trainer.h"

#include "src/base/error.h"
#include "src/base/mem.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define PREFIX "trainer."

enum { MAX_PAIRS = 128, VALUE_SIZE = 32 };

/* What must agree between the run that saved and the one that restores, then the place. */
enum { CORPUS, SEED, BATCH, BUCKET, STEP, EPOCH, POSITION, NUMBERS, MUST_AGREE = STEP };

static const char *const number_keys[NUMBERS] = {
    PREFIX "corpus", PREFIX "seed",  PREFIX "batch_tokens", PREFIX "bucket",
    PREFIX "step",   PREFIX "epoch", PREFIX "position",
};

static const char *const part_names[] = {"weights", "adam_m", "adam_v", "average"};
enum { PARTS = sizeof part_names / sizeof *part_names };

/* CRC-32 of all ids and starts: not to find damage, but to know a corpus again. */
static uint64_t corpus_number(const attn_corpus *c)
{
    size_t starts = ((size_t)c->count + 1) * sizeof *c->target_starts;
    uLong sum = crc32_z(0, (const void *)c->target_starts, starts);

    sum = crc32_z(sum, (const void *)c->target,
                  (size_t)c->target_starts[c->count] * sizeof *c->target);
    if (!c->source_starts)
        return sum;
    sum = crc32_z(sum, (const void *)c->source_starts, starts);
    return crc32_z(sum, (const void *)c->source,
                   (size_t)c->source_starts[c->count] * sizeof *c->source);
}

static void numbers_of(const attn_trainer *t, uint64_t numbers[NUMBERS])
{
    numbers[CORPUS] = corpus_number(&t->options.corpus);
    numbers[SEED] = t->options.seed;
    numbers[BATCH] = (uint64_t)t->options.batch_tokens;
    numbers[BUCKET] = (uint64_t)t->options.bucket;
    numbers[STEP] = (uint64_t)t->step;
    numbers[EPOCH] = (uint64_t)t->epoch;
    numbers[POSITION] = (uint64_t)t->position;
}

static void *block_of(const attn_trainer *t, size_t part)
{
    void *const blocks[PARTS] = {attn_model_weights(t->model), t->m, t->v, t->average};

    return blocks[part];
}

/* --- Saving --------------------------------------------------------------------------------- */

static void fill_tensors(const attn_trainer *t, const void *block, attn_tensor *tensors)
{
    for (size_t i = 0; i < attn_model_param_count(t->model); i++) {
        const attn_param *p = attn_model_param(t->model, i);
        attn_tensor *to = &tensors[i];
        int64_t stride = 1;

        *to = (attn_tensor){.name = p->name, .type = t->type, .rank = p->rank};
        for (int r = p->rank - 1; r >= 0; r--) {
            to->size[r] = p->size[r];
            to->stride[r] = stride;
            stride *= p->size[r];
        }
        to->data = (const char *)block + (size_t)p->offset * attn_type_size(t->type);
    }
}

static attn_status save(const attn_trainer *t, attn_checkpoint_save_args *a, attn_error *err)
{
    size_t count = attn_model_param_count(t->model), bytes;
    attn_checkpoint_part parts[PARTS] = {{0}};
    attn_tensor *tensors;
    attn_status st;

    tensors = attn__mul(count, PARTS * sizeof *tensors, &bytes) ? attn__alloc(t->ctx, bytes) : NULL;
    if (!tensors)
        return attn__fail(err, ATTN_E_MEMORY, 0, "list of tensors");
    for (size_t i = 0; i < PARTS && block_of(t, i); i++) { /* the last may be missing */
        fill_tensors(t, block_of(t, i), tensors + i * count);
        parts[i].name = part_names[i];
        parts[i].tensors = tensors + i * count;
        parts[i].count = count;
        a->part_count++;
    }
    a->parts = parts;
    st = attn_checkpoint_save(t->ctx, a, err);
    attn__free(t->ctx, tensors);
    return st;
}

attn_status attn_trainer_save(attn_trainer *t, const char *folder, int64_t keep,
                              const char *const *keys, const char *const *values, size_t pair_count,
                              attn_error *err)
{
    attn_checkpoint_save_args a = ATTN_CHECKPOINT_SAVE_ARGS_INIT;
    const char *all_keys[NUMBERS + MAX_PAIRS], *all_values[NUMBERS + MAX_PAIRS];
    char text[NUMBERS][VALUE_SIZE];
    uint64_t numbers[NUMBERS];

    if (!t)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "trainer: NULL");
    if (pair_count > MAX_PAIRS || (pair_count > 0 && (!keys || !values)))
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "pairs: %zu or NULL, expected %d at most",
                          pair_count, (int)MAX_PAIRS);
    numbers_of(t, numbers);
    for (size_t i = 0; i < NUMBERS; i++) {
        snprintf(text[i], sizeof text[i], "%" PRIu64, numbers[i]);
        all_keys[i] = number_keys[i];
        all_values[i] = text[i];
    }
    for (size_t i = 0; i < pair_count; i++) {
        if (keys[i] && strncmp(keys[i], PREFIX, sizeof PREFIX - 1) == 0)
            return attn__fail(err, ATTN_E_ARGUMENT, 0, "keys: number %zu begins with %s", i,
                              PREFIX);
        all_keys[NUMBERS + i] = keys[i];
        all_values[NUMBERS + i] = values[i];
    }
    a.folder = folder;
    a.step = t->step;
    a.keys = all_keys;
    a.values = all_values;
    a.pair_count = NUMBERS + pair_count;
    a.keep = keep;
    return save(t, &a, err);
}

/* --- Restoring ------------------------------------------------------------------------------ */

/* Its tensors are those of the model, each of the same shape. */
static attn_status check_part(const attn_trainer *t, const attn_file *file, const char *name,
                              attn_error *err)
{
    if (!file)
        return attn__fail(err, ATTN_E_FORMAT, 0, "checkpoint: it has no %s", name);
    if (attn_file_count(file) != attn_model_param_count(t->model))
        return attn__fail(err, ATTN_E_FORMAT, 0, "checkpoint: %zu tensors in %s, the model has %zu",
                          attn_file_count(file), name, attn_model_param_count(t->model));
    for (size_t i = 0; i < attn_model_param_count(t->model); i++) {
        const attn_param *p = attn_model_param(t->model, i);
        const attn_tensor *x = attn_file_find(file, p->name);
        bool same = x && x->type == t->type && x->rank == p->rank;

        for (int r = 0; same && r < p->rank; r++)
            same = x->size[r] == p->size[r];
        if (!same)
            return attn__fail(err, ATTN_E_FORMAT, 0,
                              "checkpoint: %s of %s is missing or of another shape or type",
                              p->name, name);
    }
    return ATTN_OK;
}

static void take_part(const attn_trainer *t, const attn_file *file, void *block)
{
    for (size_t i = 0; i < attn_model_param_count(t->model); i++) {
        const attn_param *p = attn_model_param(t->model, i);
        size_t size = attn_type_size(t->type);

        memcpy((char *)block + (size_t)p->offset * size, attn_file_find(file, p->name)->data,
               (size_t)p->count * size);
    }
}

static attn_status read_number(const attn_checkpoint *c, size_t i, uint64_t *out, attn_error *err)
{
    const char *text = attn_checkpoint_value(c, number_keys[i]);
    char *end;

    if (!text || *text < '0' || *text > '9')
        return attn__fail(err, ATTN_E_FORMAT, 0, "checkpoint: %s is not there", number_keys[i]);
    errno = 0;
    *out = strtoull(text, &end, 10);
    if (errno || *end)
        return attn__fail(err, ATTN_E_FORMAT, 0, "checkpoint: %s is no number", number_keys[i]);
    return ATTN_OK;
}

static attn_status check_numbers(attn_trainer *t, const attn_checkpoint *c, uint64_t read[NUMBERS],
                                 attn_error *err)
{
    uint64_t mine[NUMBERS];

    numbers_of(t, mine);
    for (size_t i = 0; i < NUMBERS; i++) {
        TRY(read_number(c, i, &read[i], err));
        if (i < MUST_AGREE && read[i] != mine[i])
            return attn__fail(err, ATTN_E_FORMAT, 0,
                              "checkpoint: of another run: its %s is %" PRIu64 ", not %" PRIu64,
                              number_keys[i] + sizeof PREFIX - 1, read[i], mine[i]);
    }
    if (read[STEP] > INT64_MAX || read[EPOCH] > INT64_MAX)
        return attn__fail(err, ATTN_E_FORMAT, 0, "checkpoint: its place is no place");
    attn__batches_epoch(&t->batches, (int64_t)read[EPOCH]);
    if (read[POSITION] >= (uint64_t)t->batches.count)
        return attn__fail(err, ATTN_E_FORMAT, 0, "checkpoint: position %" PRIu64 " of %lld batches",
                          read[POSITION], (long long)t->batches.count);
    return ATTN_OK;
}

attn_status attn_trainer_restore(attn_trainer *t, const attn_checkpoint *checkpoint,
                                 attn_error *err)
{
    uint64_t read[NUMBERS];
    size_t parts = 0;

    if (!t || !checkpoint)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "trainer or checkpoint: NULL");
    TRY(check_numbers(t, checkpoint, read, err));
    for (; parts < PARTS && block_of(t, parts); parts++)
        TRY(check_part(t, attn_checkpoint_find(checkpoint, part_names[parts]), part_names[parts],
                       err));
    for (size_t i = 0; i < parts; i++)
        take_part(t, attn_checkpoint_find(checkpoint, part_names[i]), block_of(t, i));
    memset(t->gradients, 0, t->bytes);
    t->step = (int64_t)read[STEP];
    t->epoch = (int64_t)read[EPOCH];
    t->position = (int64_t)read[POSITION];
    return ATTN_OK;
}
