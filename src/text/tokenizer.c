/* tokenizer.c: the object: opening, what it knows of its tokens, saving. */
#include "src/text/tokenizer.h"

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/base/sink.h"
#include "src/io/file.h"

#include <string.h>

enum { DEFAULT_MAX_BYTES = 32 << 20, DEFAULT_MAX_VALUES = 2000000 };

static attn_status take_options(const attn_tokenizer_options *given, attn_tokenizer_options *o,
                                attn_error *err)
{
    const attn_tokenizer_options none = ATTN_TOKENIZER_OPTIONS_INIT;

    *o = none;
    if (given &&
        (given->struct_size < sizeof given->struct_size || given->struct_size > sizeof *given))
        return attn__fail(err, ATTN_E_ARGUMENT, 0,
                          "options: struct_size %zu is not of this version", given->struct_size);
    if (given)
        memcpy(o, given, given->struct_size);
    if (o->max_bytes == 0)
        o->max_bytes = DEFAULT_MAX_BYTES;
    if (o->max_values == 0)
        o->max_values = DEFAULT_MAX_VALUES;
    return ATTN_OK;
}

static void give_context(attn_tokenizer *t, const attn_ctx *ctx)
{
    t->ctx = ctx;
    t->json.ctx = t->added.ctx = t->before.ctx = t->after.ctx = ctx;
    attn__strings_init(&t->texts, ctx);
    attn__strings_init(&t->model.names, ctx);
    t->model.pairs.ctx = ctx;
    t->raw_tree.steps.ctx = t->raw_tree.ends.ctx = ctx;
    t->normal_tree.steps.ctx = t->normal_tree.ends.ctx = ctx;
}

static attn_status open_bytes(const attn_ctx *ctx, const void *bytes, size_t size,
                              const attn_tokenizer_options *o, attn_tokenizer **out,
                              attn_error *err)
{
    attn_tokenizer *t;
    attn_status st;

    if (size > o->max_bytes)
        return attn__fail(err, ATTN_E_FORMAT, 0, "%zu bytes, over the limit of %zu", size,
                          o->max_bytes);
    t = attn__new(ctx, sizeof *t);
    if (!t)
        return attn__fail(err, ATTN_E_MEMORY, 0, "tokenizer");
    give_context(t, ctx);
    if (!attn__buffer_put(&t->json, bytes, size))
        st = attn__fail(err, ATTN_E_MEMORY, 0, "copy of the file");
    else
        st = attn__read_tokenizer(t, o->max_values, err);
    if (st == ATTN_OK)
        *out = t;
    else
        attn_tokenizer_close(t);
    return st;
}

attn_status attn_tokenizer_open_memory(const attn_ctx *ctx, const void *bytes, size_t size,
                                       const attn_tokenizer_options *options, attn_tokenizer **out,
                                       attn_error *err)
{
    attn_tokenizer_options o;

    *out = NULL;
    if (!bytes && size > 0)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "bytes: NULL with a size");
    TRY(take_options(options, &o, err));
    return open_bytes(ctx, bytes, size, &o, out, err);
}

attn_status attn_tokenizer_open(const attn_ctx *ctx, const char *path,
                                const attn_tokenizer_options *options, attn_tokenizer **out,
                                attn_error *err)
{
    attn_error inner = {ATTN_OK, 0, ""};
    attn_tokenizer_options o;
    attn_file file;
    attn_status st;

    *out = NULL;
    if (!path)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "path: NULL");
    TRY(take_options(options, &o, err));
    memset(&file, 0, sizeof file);
    file.ctx = ctx;
    st = attn__file_load(&file, path, &inner);
    if (st == ATTN_OK)
        st = open_bytes(ctx, file.bytes, file.size, &o, out, &inner);
    attn__file_unload(&file);
    return st == ATTN_OK ? st : attn__fail_path(err, path, &inner);
}

void attn_tokenizer_close(attn_tokenizer *t)
{
    if (!t)
        return;
    attn__buffer_free(&t->json);
    attn__strings_free(&t->texts);
    attn__free(t->ctx, t->spelt);
    attn__free(t->ctx, t->spoken);
    attn__free(t->ctx, t->special);
    attn__free(t->ctx, t->text_ids);
    attn__buffer_free(&t->added);
    attn__tree_free(&t->raw_tree);
    attn__tree_free(&t->normal_tree);
    attn__pattern_free(t->word);
    attn__steps_free(t->ctx, &t->normalizer);
    attn__steps_free(t->ctx, &t->splitter);
    attn__steps_free(t->ctx, &t->decoder);
    attn__bpe_free(t->ctx, &t->model);
    attn__buffer_free(&t->before);
    attn__buffer_free(&t->after);
    attn__free(t->ctx, t);
}

const char *attn_tokenizer_json(const attn_tokenizer *t, size_t *size)
{
    if (size)
        *size = t->json.size;
    return t->json.data;
}

attn_status attn_tokenizer_save(const attn_tokenizer *t, const char *path, attn_error *err)
{
    attn_error inner = {ATTN_OK, 0, ""};
    attn__sink sink;
    attn_status st;

    if (!path)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "path: NULL");
    st = attn__sink_open(&sink, t->ctx, path, &inner);
    if (st == ATTN_OK) {
        attn__sink_put(&sink, t->json.data, t->json.size);
        st = attn__sink_commit(&sink, &inner);
    }
    attn__sink_close(&sink);
    return st == ATTN_OK ? st : attn__fail_path(err, path, &inner);
}

int32_t attn_tokenizer_size(const attn_tokenizer *t)
{
    return (int32_t)t->id_count;
}

const char *attn_tokenizer_piece(const attn_tokenizer *t, int32_t id, size_t *size)
{
    if (id < 0 || (size_t)id >= t->id_count || t->spelt[id] == ATTN__NONE)
        return NULL;
    return attn__strings_get(&t->texts, t->spelt[id], size);
}

int32_t attn_tokenizer_find(const attn_tokenizer *t, const char *piece, size_t size)
{
    uint32_t number = attn__strings_find(&t->texts, piece, size);

    if (number == ATTN__NONE || t->text_ids[number] == ATTN__NONE)
        return -1;
    return (int32_t)t->text_ids[number];
}

int attn_tokenizer_is_special(const attn_tokenizer *t, int32_t id)
{
    return id >= 0 && (size_t)id < t->id_count && t->special[id];
}
