/* json.h: JSON from a file, with limits that jansson does not have; private to the layers that read
 * it. */
#ifndef ATTN_IO_JSON_H
#define ATTN_IO_JSON_H

#include "include/attn/attn.h"

#include <jansson.h>

/* Parses one JSON object or array and gives a new reference. Before any tree is made the text is
 * scanned: nesting is at most 64 deep, and containers and commas together, which bound the number
 * of values, at most `max_values`. Duplicate keys, NUL in strings and bytes after the value are
 * errors. `base` is the place of the text in the file, for messages. */
attn_status attn__json_load(const char *text, size_t size, uint64_t base, size_t max_values,
                            json_t **out, attn_error *err);

#endif
