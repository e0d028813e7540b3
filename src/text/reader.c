/* reader.c: tokenizer.json as a whole, and the fields of its objects. */
#include "src/text/reader.h"

#include "src/base/mem.h"
#include "src/io/json.h"

#include <string.h>

attn_status attn__no_memory(attn_error *err)
{
    return attn__fail(err, ATTN_E_MEMORY, 0, "tokenizer");
}

char *attn__copy_text(const attn_ctx *ctx, const char *text, size_t size)
{
    char *copy = attn__alloc(ctx, size + 1);

    if (!copy)
        return NULL;
    if (size)
        memcpy(copy, text, size);
    copy[size] = '\0';
    return copy;
}

/* --- Fields --------------------------------------------------------------------------------- */

static bool is_among(const char *name, const char *names)
{
    size_t n = strlen(name);

    for (const char *at = names; n > 0 && (at = strstr(at, name)) != NULL; at += n)
        if ((at == names || at[-1] == ' ') && (at[n] == ' ' || at[n] == '\0'))
            return true;
    return false;
}

attn_status attn__fields(const json_t *object, const char *where, const char *names,
                         attn_error *err)
{
    json_t *fields = (json_t *)(uintptr_t)object; /* jansson's iterators take it, unchanged */
    const char *name;
    json_t *value;

    if (!json_is_object(object))
        return attn__fail(err, ATTN_E_FORMAT, 0, "%s: not an object", where);
    json_object_foreach(fields, name, value) if (!is_among(name, names)) return attn__fail(
        err, ATTN_E_FORMAT, 0, "%s: unknown field '%.60s'", where, name);
    return ATTN_OK;
}

static const json_t *field(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);

    return json_is_null(value) ? NULL : value;
}

attn_status attn__field_bool(const json_t *object, const char *where, const char *name, bool *value,
                             attn_error *err)
{
    const json_t *f = field(object, name);

    if (f && !json_is_boolean(f))
        return attn__fail(err, ATTN_E_FORMAT, 0, "%s: '%s' is neither true nor false", where, name);
    if (f)
        *value = json_is_true(f);
    return ATTN_OK;
}

attn_status attn__field_text(const json_t *object, const char *where, const char *name, bool needed,
                             const char **text, size_t *size, attn_error *err)
{
    const json_t *f = field(object, name);

    *text = NULL;
    *size = 0;
    if (!f && !needed)
        return ATTN_OK;
    if (!f || !json_is_string(f))
        return attn__fail(err, ATTN_E_FORMAT, 0, "%s: '%s' is %s", where, name,
                          f ? "not a string" : "missing");
    *text = json_string_value(f);
    *size = json_string_length(f);
    return ATTN_OK;
}

attn_status attn__field_size(const json_t *object, const char *where, const char *name, bool needed,
                             size_t most, size_t *value, attn_error *err)
{
    const json_t *f = field(object, name);

    if (!f && !needed)
        return ATTN_OK;
    if (!f || !json_is_integer(f) || json_integer_value(f) < 0 ||
        (uint64_t)json_integer_value(f) > most)
        return attn__fail(err, ATTN_E_FORMAT, 0, "%s: '%s' is no whole number of 0 to %zu", where,
                          name, most);
    *value = (size_t)json_integer_value(f);
    return ATTN_OK;
}

attn_status attn__field_array(const json_t *object, const char *where, const char *name,
                              const json_t **array, attn_error *err)
{
    *array = field(object, name);
    if (!*array || !json_is_array(*array))
        return attn__fail(err, ATTN_E_FORMAT, 0, "%s: '%s' is %s", where, name,
                          *array ? "not an array" : "missing");
    return ATTN_OK;
}

/* --- The file ------------------------------------------------------------------------------- */

static attn_status read_root(attn_tokenizer *t, const json_t *root, attn_error *err)
{
    TRY(attn__fields(root, "tokenizer.json",
                     "version truncation padding added_tokens normalizer pre_tokenizer "
                     "post_processor decoder model",
                     err));
    TRY(attn__read_steps(t, root, err));
    TRY(attn__read_model(t, root, err));
    TRY(attn__read_added(t, root, err));
    return attn__read_frame(t, root, err);
}

attn_status attn__read_tokenizer(attn_tokenizer *t, size_t max_values, attn_error *err)
{
    json_t *root;
    attn_status st;

    TRY(attn__json_load(t->json.data, t->json.size, 0, max_values, &root, err));
    st = read_root(t, root, err);
    json_decref(root);
    return st;
}
