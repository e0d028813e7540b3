/* console.h: what the program says and holds: messages, tables, JSON lines, progress, memory.
 *
 * Whatever is printed may hold names that came from files. Every human-readable line therefore goes
 * through one function that escapes what could drive a terminal; JSON goes out as plain ASCII. */
#ifndef ATTN_CLI_CONSOLE_H
#define ATTN_CLI_CONSOLE_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "include/attn/attn.h"

#if defined(__GNUC__)
#define CLI_PRINTF(f, a) __attribute__((format(printf, f, a)))
#else
#define CLI_PRINTF(f, a)
#endif

/* Exit codes; a signal n gives 128 + n. */
enum { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2 };

/* The words before every message: "attn run". The text is kept, not copied. */
void cli_name(const char *name);

/* One line on stderr, "attn run: ...", escaped. Each takes a progress bar away first. cli_error
 * returns CLI_FAILED and cli_usage CLI_USAGE, so that a function can end with them; cli_usage adds
 * where to find help. */
int cli_error(const char *format, ...) CLI_PRINTF(1, 2);
int cli_usage(const char *format, ...) CLI_PRINTF(1, 2);
void cli_note(const char *format, ...) CLI_PRINTF(1, 2);

/* cli_error about a failed library call. `subject` is named first, unless it is NULL: opening and
 * writing name their file themselves. */
int cli_failed(const char *subject, attn_status status, const attn_error *err);

/* One line on stdout, escaped. */
void cli_print(const char *format, ...) CLI_PRINTF(1, 2);

/* Text of any bytes, escaped as messages are but for line ends and tabs, which stay. */
void cli_put(FILE *f, const char *text, size_t size);

/* One JSON object a line on stdout, flushed. Takes the reference. */
void cli_print_json(json_t *object);

/* A JSON string; bytes that are not UTF-8 are escaped as in messages. Never NULL. */
json_t *cli_json_text(const char *text);
json_t *cli_json_bytes(const char *text, size_t size);

/* A JSON number of `digits` decimals; null if it is not finite. */
json_t *cli_json_number(double value, int digits);

/* Flushes and closes stdout. `code` if all went well, else a message and CLI_FAILED. */
int cli_finish(int code);

/* Seconds of a clock that only goes forward. */
double cli_clock(void);

/* Zeroed memory, aligned to 64 bytes, until cli_release; ends the program when there is none.
 * cli_try gives memory that is not touched before use, or NULL. */
void *cli_take(size_t size);
void *cli_try(size_t size);

/* cli_release(cli_mark()) frees what was taken since the mark; a mark of 0, everything. */
size_t cli_mark(void);
void cli_release(size_t mark);

/* Products of sizes: 0 if a size is negative or the result does not fit, else 1. */
int cli_bytes(const int64_t *size, int count, size_t element, size_t *out);

/* "512 B", "8.0 MB": into a buffer of 32 bytes, which is returned. */
const char *cli_size_text(char *buffer, uint64_t bytes);

/* Progress of one long call: a bar with the time left on a terminal, lines now and then in a log.
 */
typedef struct cli_progress {
    int eager; /* show at once, not only when the work turns out long */
    int quiet;
    double start, shown;
    int used;
} cli_progress;

/* An attn_progress_fn; `user` is a cli_progress. Cancels once a signal has come. */
int cli_progress_step(void *user, uint64_t done, uint64_t total);
void cli_progress_begin(cli_progress *progress);
void cli_progress_end(cli_progress *progress);

/* From now on SIGINT, SIGTERM and SIGHUP are noted, so that a computation ends early and no
 * temporary file stays behind; a second signal ends the program at once. cli_interrupted is the
 * signal that came, or 0; cli_die_of_signal ends the program by it. */
void cli_catch_signals(void);
int cli_interrupted(void);
void cli_die_of_signal(void);

#endif
