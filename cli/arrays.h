/* arrays.h: tensors of files as the commands need them: picked by name, read as numbers, described.
 */
#ifndef ATTN_CLI_ARRAYS_H
#define ATTN_CLI_ARRAYS_H

#include <jansson.h>

#include "include/attn/io.h"

/* Opens a file, each path once; it stays open until cli_close_files. NULL after a message. */
attn_file *cli_open(const char *path);
void cli_close_files(void);

/* The only tensor of a file, or the one called `name` if it holds several (or if `strict`).
 * `asked` says in the message who wants it: "--keep". NULL after a message. */
const attn_tensor *cli_pick(const char *path, const char *name, int strict, const char *asked);

/* Number of elements, and the i-th in C order. Numbers: f16, bf16, f32, f64 and all integers.
 * Integers: 0 if the type is no integer or the value does not fit. */
int64_t cli_count(const attn_tensor *tensor);
double cli_number_at(const attn_tensor *tensor, int64_t i);
int cli_integer_at(const attn_tensor *tensor, int64_t i, int64_t *out);
int cli_is_float(attn_type type);

/* "f16 [1, 32, 8192, 128]", into a buffer of 256 bytes, which is returned. */
const char *cli_tensor_text(char *buffer, const attn_tensor *tensor);
json_t *cli_shape_json(const attn_tensor *tensor);

/* Whether a file can be made beside `path`, or CLI_FAILED after a message: better to fail now than
 * after an hour of work. */
int cli_check_folder(const char *path);

/* The format a path's ending asks for; ATTN_FORMAT_AUTO if it asks for none. */
attn_format cli_ending(const char *path);
const char *cli_format_name(attn_format format);

#endif
