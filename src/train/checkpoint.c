/* checkpoint.c: saves and opens checkpoints; train.h has their layout and promises.
 *
 * The manifest is a safetensors file without tensors, so that its reader is one that hostile files
 * have been tried on already. Its keys:
 *
 *     attn.checkpoint   "1", the version of the layout
 *     attn.step         "1000"
 *     attn.part.NAME    "SIZE CRC": bytes of the file in decimal, CRC-32 in eight hex digits
 *     attn.check        CRC-32 of all other keys and values in order of keys, each with its NUL
 *
 * and the caller's, which must not begin with "attn.". */
#include "include/attn/train.h"

#include "src/base/ctx.h"
#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/io/file.h"
#include "src/train/folder.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#define PREFIX "attn."
#define PART_KEY PREFIX "part."
#define CHECK_KEY PREFIX "check"

enum { MAX_PARTS = 16, MAX_PAIRS = 256, MAX_PART_NAME = 64, VALUE_SIZE = 48 };

/* A line in the log of the context. */
static void tell(const attn_ctx *ctx, const char *format, ...) ATTN__PRINTF(2, 3);

static void tell(const attn_ctx *ctx, const char *format, ...)
{
    char line[400];
    va_list args;

    if (!ctx || !ctx->log)
        return;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    ctx->log(ctx->log_user, line);
}

static uint32_t crc(uint32_t before, const void *bytes, size_t size)
{
    return (uint32_t)crc32_z(before, bytes, size);
}

static uint32_t crc_text(uint32_t before, const char *text)
{
    return crc(before, text, strlen(text) + 1);
}

/* --- Saving --------------------------------------------------------------------------------- */

typedef struct save_call {
    const attn_ctx *ctx;
    const attn_checkpoint_save_args *args;
    attn__saved saved;
    char *path; /* of the checkpoint's folder */
    const char *keys[MAX_PARTS + MAX_PAIRS + 3], *values[MAX_PARTS + MAX_PAIRS + 3];
    size_t pairs;
    char part_keys[MAX_PARTS][sizeof PART_KEY + MAX_PART_NAME];
    char part_values[MAX_PARTS][VALUE_SIZE];
    char step[VALUE_SIZE], check[VALUE_SIZE];
} save_call;

static bool is_part_name(const char *name)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
    size_t n = name ? strlen(name) : 0;

    return n > 0 && n <= MAX_PART_NAME && strspn(name, letters) == n &&
           strcmp(name, "manifest") != 0;
}

static attn_status check_save(const attn_checkpoint_save_args *a, attn_error *err)
{
    if (!a || a->struct_size != sizeof *a)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "args: NULL or of another version");
    if (!a->folder || !*a->folder)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "folder: none");
    if (a->step < 0 || a->keep < 0)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s is negative", a->step < 0 ? "step" : "keep");
    if (a->part_count == 0 || a->part_count > MAX_PARTS || !a->parts)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "parts: %zu, expected 1 to %d", a->part_count,
                          (int)MAX_PARTS);
    if (a->pair_count > MAX_PAIRS || (a->pair_count > 0 && (!a->keys || !a->values)))
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "pairs: %zu or NULL, expected %d at most",
                          a->pair_count, (int)MAX_PAIRS);
    for (size_t i = 0; i < a->part_count; i++) {
        if (!is_part_name(a->parts[i].name))
            return attn__fail(err, ATTN_E_ARGUMENT, 0, "parts: name of number %zu", i);
        for (size_t j = 0; j < i; j++)
            if (strcmp(a->parts[i].name, a->parts[j].name) == 0)
                return attn__fail(err, ATTN_E_ARGUMENT, 0, "parts: '%s' twice", a->parts[i].name);
    }
    for (size_t i = 0; i < a->pair_count; i++)
        if (!a->keys[i] || !a->values[i] || strncmp(a->keys[i], PREFIX, sizeof PREFIX - 1) == 0)
            return attn__fail(err, ATTN_E_ARGUMENT, 0, "keys: number %zu is NULL or begins with %s",
                              i, PREFIX);
    return ATTN_OK;
}

static attn_status write_part(save_call *c, size_t i, attn_error *err)
{
    const attn_checkpoint_part *part = &c->args->parts[i];
    char *path = attn__join(c->ctx, c->path, part->name, ".safetensors");
    attn_file *file = NULL;
    attn_status st;

    if (!path)
        return attn__fail(err, ATTN_E_MEMORY, 0, "name of a file");
    st = attn_file_write(c->ctx, path, ATTN_FORMAT_SAFETENSORS, part->tensors, part->count,
                         part->keys, part->values, part->meta_count, err);
    if (st == ATTN_OK) /* as the system holds it, which is what a reader will get */
        st = attn_file_open(c->ctx, path, NULL, &file, err);
    if (st == ATTN_OK) {
        snprintf(c->part_keys[i], sizeof c->part_keys[i], PART_KEY "%s", part->name);
        snprintf(c->part_values[i], sizeof c->part_values[i], "%zu %08" PRIx32, file->size,
                 crc(0, file->bytes, file->size));
        c->keys[c->pairs] = c->part_keys[i];
        c->values[c->pairs++] = c->part_values[i];
    }
    attn_file_close(file);
    attn__free(c->ctx, path);
    return st;
}

/* The i-th key in order; there are few. */
static size_t smallest_after(const save_call *c, const char *last)
{
    size_t best = c->pairs;

    for (size_t i = 0; i < c->pairs; i++)
        if ((!last || strcmp(c->keys[i], last) > 0) &&
            (best == c->pairs || strcmp(c->keys[i], c->keys[best]) < 0))
            best = i;
    return best;
}

static attn_status write_manifest(save_call *c, attn_error *err)
{
    char *path = attn__join(c->ctx, c->path, ATTN__MANIFEST, "");
    const char *last = NULL;
    uint32_t sum = 0;
    attn_status st;

    if (!path)
        return attn__fail(err, ATTN_E_MEMORY, 0, "name of a file");
    for (size_t i = 0; i < c->args->pair_count; i++) {
        c->keys[c->pairs] = c->args->keys[i];
        c->values[c->pairs++] = c->args->values[i];
    }
    c->keys[c->pairs] = PREFIX "checkpoint";
    c->values[c->pairs++] = "1";
    snprintf(c->step, sizeof c->step, "%" PRId64, c->args->step);
    c->keys[c->pairs] = PREFIX "step";
    c->values[c->pairs++] = c->step;
    for (size_t i; (i = smallest_after(c, last)) < c->pairs; last = c->keys[i])
        sum = crc_text(crc_text(sum, c->keys[i]), c->values[i]);
    snprintf(c->check, sizeof c->check, "%08" PRIx32, sum);
    c->keys[c->pairs] = CHECK_KEY;
    c->values[c->pairs++] = c->check;
    st = attn_file_write(c->ctx, path, ATTN_FORMAT_SAFETENSORS, NULL, 0, c->keys, c->values,
                         c->pairs, err);
    attn__free(c->ctx, path);
    return st;
}

/* A folder whose name is new. */
static attn_status make_place(save_call *c, attn_error *err)
{
    const char *folder = c->args->folder;
    char name[attn__saved_name_size];
    attn__saved *list;
    size_t count;
    attn_status st;

    TRY(attn__make_folder(folder, true, err));
    TRY(attn__list_saved(c->ctx, folder, &list, &count, err));
    c->saved = (attn__saved){c->args->step, 0, false};
    for (size_t i = 0; i < count; i++)
        if (list[i].step == c->saved.step && list[i].again >= c->saved.again)
            c->saved.again = list[i].again + 1;
    attn__free(c->ctx, list);
    attn__saved_name(name, &c->saved);
    c->path = attn__join(c->ctx, folder, name, "");
    if (!c->path)
        return attn__fail(err, ATTN_E_MEMORY, 0, "name of the folder");
    if ((st = attn__make_folder(c->path, false, err)) == ATTN_OK)
        return ATTN_OK;
    attn__free(c->ctx, c->path); /* not ours to clean up */
    c->path = NULL;
    return st;
}

/* Removes what is older than the checkpoint just saved, but for keep - 1 with a manifest. */
static void remove_older(const save_call *c)
{
    int64_t left = c->args->keep - 1;
    attn__saved *list;
    size_t count;
    attn_error why;

    if (attn__list_saved(c->ctx, c->args->folder, &list, &count, &why) != ATTN_OK) {
        tell(c->ctx, "%s: older checkpoints stay: %s", c->args->folder, why.text);
        return;
    }
    while (count-- > 0) {
        const attn__saved *s = &list[count];
        char name[attn__saved_name_size], *path;

        if (s->step > c->saved.step || (s->step == c->saved.step && s->again >= c->saved.again))
            continue;
        if (s->manifest && (c->args->keep == 0 || left-- > 0))
            continue;
        attn__saved_name(name, s);
        if ((path = attn__join(c->ctx, c->args->folder, name, "")) &&
            attn__remove_saved(c->ctx, path, &why) != ATTN_OK)
            tell(c->ctx, "%s: %s", path, why.text);
        attn__free(c->ctx, path);
    }
    attn__free(c->ctx, list);
}

static attn_status save(save_call *c, attn_error *err)
{
    TRY(make_place(c, err));
    TRY(attn__sync_folder(c->args->folder, err)); /* the name of the folder, before what is in it */
    for (size_t i = 0; i < c->args->part_count; i++)
        TRY(write_part(c, i, err));
    return write_manifest(c, err);
}

attn_status attn_checkpoint_save(const attn_ctx *ctx, const attn_checkpoint_save_args *args,
                                 attn_error *err)
{
    attn_error inner = {ATTN_OK, 0, ""};
    save_call *c;
    attn_status st;

    TRY(check_save(args, err));
    c = attn__new(ctx, sizeof *c);
    if (!c)
        return attn__fail(err, ATTN_E_MEMORY, 0, "a checkpoint");
    c->ctx = ctx;
    c->args = args;
    st = save(c, &inner);
    if (st == ATTN_OK)
        remove_older(c);
    else if (c->path)
        (void)attn__remove_saved(ctx, c->path, NULL);
    attn__free(ctx, c->path);
    attn__free(ctx, c);
    return st == ATTN_OK ? st : attn__fail_path(err, args->folder, &inner);
}

/* --- Opening -------------------------------------------------------------------------------- */

typedef struct opened_part {
    char name[MAX_PART_NAME + 1];
    attn_file *file;
} opened_part;

struct attn_checkpoint {
    const attn_ctx *ctx;
    char *path;
    int64_t step;
    attn_file *manifest;
    opened_part parts[MAX_PARTS];
    size_t part_count;
};

static attn_status damaged(attn_error *err, const char *what, const char *how)
{
    return attn__fail(err, ATTN_E_FORMAT, 0, "%s: %s", what, how);
}

static attn_status check_manifest(attn_checkpoint *c, const attn__saved *saved, attn_error *err)
{
    const attn_file *m = c->manifest;
    const char *check = attn_file_meta(m, CHECK_KEY), *step = attn_file_meta(m, PREFIX "step");
    const char *version = attn_file_meta(m, PREFIX "checkpoint");
    char wanted[VALUE_SIZE];
    uint32_t sum = 0;

    if (!check || !step || !version)
        return damaged(err, ATTN__MANIFEST, "not of a checkpoint");
    for (size_t i = 0; i < attn_file_meta_count(m); i++) { /* in order of keys */
        const char *key = attn_file_meta_key(m, i);

        if (strcmp(key, CHECK_KEY) != 0)
            sum = crc_text(crc_text(sum, key), attn_file_meta(m, key));
    }
    snprintf(wanted, sizeof wanted, "%08" PRIx32, sum);
    if (strcmp(check, wanted) != 0)
        return damaged(err, ATTN__MANIFEST, "its checksum does not agree");
    if (strcmp(version, "1") != 0)
        return damaged(err, ATTN__MANIFEST, "of a later version");
    snprintf(wanted, sizeof wanted, "%" PRId64, saved->step);
    if (strcmp(step, wanted) != 0)
        return damaged(err, ATTN__MANIFEST, "of another step");
    return ATTN_OK;
}

static attn_status open_part(attn_checkpoint *c, const char *name, const char *value,
                             attn_error *err)
{
    opened_part *part = &c->parts[c->part_count];
    char found[VALUE_SIZE];
    char *path;
    attn_status st;

    if (!is_part_name(name) || c->part_count == MAX_PARTS)
        return damaged(err, ATTN__MANIFEST, "names of parts");
    path = attn__join(c->ctx, c->path, name, ".safetensors");
    if (!path)
        return attn__fail(err, ATTN_E_MEMORY, 0, "name of a file");
    st = attn_file_open(c->ctx, path, NULL, &part->file, err);
    attn__free(c->ctx, path);
    if (st != ATTN_OK)
        return st;
    snprintf(part->name, sizeof part->name, "%s", name);
    c->part_count++;
    snprintf(found, sizeof found, "%zu %08" PRIx32, part->file->size,
             crc(0, part->file->bytes, part->file->size));
    return strcmp(found, value) == 0 ? ATTN_OK
                                     : damaged(err, name, "size or checksum does not agree");
}

static attn_status open_saved(attn_checkpoint *c, const char *folder, const attn__saved *saved,
                              attn_error *err)
{
    char name[attn__saved_name_size], *path;
    attn_status st;

    attn__saved_name(name, saved);
    c->step = saved->step;
    c->path = attn__join(c->ctx, folder, name, "");
    path = c->path ? attn__join(c->ctx, c->path, ATTN__MANIFEST, "") : NULL;
    if (!path)
        return attn__fail(err, ATTN_E_MEMORY, 0, "name of a file");
    st = attn_file_open(c->ctx, path, NULL, &c->manifest, err);
    attn__free(c->ctx, path);
    if (st != ATTN_OK)
        return st;
    TRY(check_manifest(c, saved, err));
    for (size_t i = 0; i < attn_file_meta_count(c->manifest); i++) {
        const char *key = attn_file_meta_key(c->manifest, i);

        if (strncmp(key, PART_KEY, sizeof PART_KEY - 1) == 0)
            TRY(open_part(c, key + sizeof PART_KEY - 1, attn_file_meta(c->manifest, key), err));
    }
    return ATTN_OK;
}

static void close_all(attn_checkpoint *c)
{
    for (size_t i = 0; i < c->part_count; i++)
        attn_file_close(c->parts[i].file);
    c->part_count = 0;
    attn_file_close(c->manifest);
    c->manifest = NULL;
    attn__free(c->ctx, c->path);
    c->path = NULL;
}

/* Newest first, until one is whole. */
static attn_status open_newest(attn_checkpoint *c, const char *folder, int64_t step,
                               const attn__saved *list, size_t count, attn_error *err)
{
    bool any = false;
    attn_status st;

    for (size_t i = count; i-- > 0;) {
        attn_error why = {ATTN_OK, 0, ""};
        char name[attn__saved_name_size];

        if (!list[i].manifest || (step >= 0 && list[i].step != step))
            continue;
        st = open_saved(c, folder, &list[i], &why);
        if (st == ATTN_OK)
            return st;
        close_all(c);
        if (st == ATTN_E_MEMORY) {
            if (err)
                *err = why;
            return st;
        }
        attn__saved_name(name, &list[i]);
        tell(c->ctx, "%s is damaged and passed over: %s", name, why.text);
        if (!any)
            attn__fail(err, ATTN_E_FORMAT, 0, "no whole checkpoint; %s: %s", name, why.text);
        any = true;
    }
    return any ? ATTN_E_FORMAT : attn__fail(err, ATTN_E_IO, 0, "no checkpoint");
}

attn_status attn_checkpoint_open(const attn_ctx *ctx, const char *folder, int64_t step,
                                 attn_checkpoint **out, attn_error *err)
{
    attn_error inner = {ATTN_OK, 0, ""};
    attn__saved *list = NULL;
    attn_checkpoint *c;
    size_t count;
    attn_status st;

    if (!out)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "out: NULL");
    *out = NULL;
    if (!folder)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "folder: NULL");
    c = attn__new(ctx, sizeof *c);
    if (!c)
        return attn__fail(err, ATTN_E_MEMORY, 0, "a checkpoint");
    c->ctx = ctx;
    st = attn__list_saved(ctx, folder, &list, &count, &inner);
    if (st == ATTN_OK)
        st = open_newest(c, folder, step, list, count, &inner);
    attn__free(ctx, list);
    if (st == ATTN_OK) {
        *out = c;
        return ATTN_OK;
    }
    attn_checkpoint_close(c);
    return attn__fail_path(err, folder, &inner);
}

void attn_checkpoint_close(attn_checkpoint *c)
{
    if (!c)
        return;
    close_all(c);
    attn__free(c->ctx, c);
}

int64_t attn_checkpoint_step(const attn_checkpoint *c)
{
    return c->step;
}

const char *attn_checkpoint_path(const attn_checkpoint *c)
{
    return c->path;
}

const attn_file *attn_checkpoint_find(const attn_checkpoint *c, const char *part)
{
    for (size_t i = 0; part && i < c->part_count; i++)
        if (strcmp(c->parts[i].name, part) == 0)
            return c->parts[i].file;
    return NULL;
}

const char *attn_checkpoint_value(const attn_checkpoint *c, const char *key)
{
    return key ? attn_file_meta(c->manifest, key) : NULL;
}

attn_status attn_checkpoint_list(const attn_ctx *ctx, const char *folder, int64_t *steps,
                                 size_t room, size_t *count, attn_error *err)
{
    attn__saved *list;
    size_t n, found = 0;

    if (!folder || !count || (!steps && room > 0))
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "folder, steps or count: NULL");
    TRY(attn__list_saved(ctx, folder, &list, &n, err));
    for (size_t pass = 0; pass < 2; pass++) {
        size_t skip = found > room ? found - room : 0, at = 0;
        int64_t last = -1;

        for (size_t i = 0; i < n; i++) {
            if (!list[i].manifest || list[i].step == last)
                continue;
            last = list[i].step;
            if (pass == 1 && at >= skip)
                steps[at - skip] = last;
            at++;
        }
        found = at;
    }
    attn__free(ctx, list);
    *count = found;
    return ATTN_OK;
}
