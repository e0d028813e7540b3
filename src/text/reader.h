/* reader.h: what the parts of the reader of tokenizer.json share: fields of JSON objects, checked.
 * `where` names the object in error texts. */
#ifndef ATTN_TEXT_READER_H
#define ATTN_TEXT_READER_H

#include "src/base/error.h"
#include "src/text/tokenizer.h"

#include <jansson.h>

/* Demands an object whose fields are all in `names`, which are parted by blanks. */
attn_status attn__fields(const json_t *object, const char *where, const char *names,
                         attn_error *err);

/* A field that is true or false; left as it is if absent or null. */
attn_status attn__field_bool(const json_t *object, const char *where, const char *name, bool *value,
                             attn_error *err);

/* A field that is a string, borrowed from the object; NULL if absent or null, unless `needed`. */
attn_status attn__field_text(const json_t *object, const char *where, const char *name, bool needed,
                             const char **text, size_t *size, attn_error *err);

/* A field that is a whole number of 0..most; left as it is if absent, unless `needed`. */
attn_status attn__field_size(const json_t *object, const char *where, const char *name, bool needed,
                             size_t most, size_t *value, attn_error *err);

/* A field that is an array. */
attn_status attn__field_array(const json_t *object, const char *where, const char *name,
                              const json_t **array, attn_error *err);

/* A copy, terminated; NULL if there is no memory. */
char *attn__copy_text(const attn_ctx *ctx, const char *text, size_t size);

attn_status attn__no_memory(attn_error *err);

/* The parts of the file; each fills its part of the tokenizer. The model comes before the added
 * tokens, which come after the normalizer and before the post-processor. */
attn_status attn__read_steps(attn_tokenizer *t, const json_t *root, attn_error *err);
attn_status attn__read_model(attn_tokenizer *t, const json_t *root, attn_error *err);
attn_status attn__read_added(attn_tokenizer *t, const json_t *root, attn_error *err);
attn_status attn__read_frame(attn_tokenizer *t, const json_t *root, attn_error *err);

#endif
