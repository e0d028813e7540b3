/* json.c: the scan before jansson, and the translation of its errors.
 *
 * jansson needs up to 88 bytes of memory a byte of text ("[{},{},...]"), and allows 2048 levels.
 * The scan makes both limits ours before it allocates. */
#include "src/io/json.h"

#include "src/base/error.h"

#include <stdbool.h>

enum { MAX_DEPTH = 64 };

static attn_status scan(const char *text, size_t size, uint64_t base, size_t max_values,
                        attn_error *err)
{
    bool in_string = false;
    size_t depth = 0, values = 0;

    for (size_t i = 0; i < size; i++) {
        char c = text[i];

        if (in_string) {
            if (c == '\\')
                i++; /* a quote after it does not end the string */
            in_string = c != '"';
            continue;
        }
        in_string = c == '"';
        if (c == '{' || c == '[')
            depth++;
        else if ((c == '}' || c == ']') && depth > 0)
            depth--;
        if (depth > MAX_DEPTH)
            return attn__fail(err, ATTN_E_FORMAT, base + i, "JSON: nested deeper than %d",
                              MAX_DEPTH);
        if (c == '{' || c == '[' || c == ',')
            values++;
        if (values > max_values)
            return attn__fail(err, ATTN_E_FORMAT, base + i, "JSON: more than %zu values",
                              max_values);
    }
    return ATTN_OK;
}

attn_status attn__json_load(const char *text, size_t size, uint64_t base, size_t max_values,
                            json_t **out, attn_error *err)
{
    json_error_t why;
    attn_status st;

    *out = NULL;
    if ((st = scan(text, size, base, max_values, err)) != ATTN_OK)
        return st;
    *out = json_loadb(text, size, JSON_REJECT_DUPLICATES, &why);
    if (*out)
        return ATTN_OK;
    if (json_error_code(&why) == json_error_out_of_memory)
        return attn__fail(err, ATTN_E_MEMORY, base, "JSON tree");
    return attn__fail(err, ATTN_E_FORMAT, base + (uint64_t)(why.position < 0 ? 0 : why.position),
                      "JSON: %s", why.text);
}
