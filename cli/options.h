/* options.h: one table of options drives parsing, --help and the messages about mistakes. */
#ifndef ATTN_CLI_OPTIONS_H
#define ATTN_CLI_OPTIONS_H

#include <stddef.h>
#include <stdint.h>

typedef enum cli_kind {
    CLI_FLAG,    /* no value */
    CLI_INTEGER, /* least <= value <= most */
    CLI_NUMBER,  /* finite, least <= value <= most; any if both are 0 */
    CLI_TEXT,
    CLI_CHOICE /* `value` is "a|b|c"; the parsed integer is the place in it */
} cli_kind;

typedef struct cli_option {
    const char *group; /* heading above this option in --help, or NULL */
    const char *name;  /* without the dashes */
    char letter;       /* short form, or 0 */
    cli_kind kind;
    const char *value; /* what --help calls the value */
    const char *help;  /* wrapped when shown, as `about` below */
    double least, most;
} cli_option;

/* What the command line said about the option at the same place of the table. Without it: 0. */
typedef struct cli_value {
    int given;
    const char *text;
    int64_t integer;
    double number;
} cli_value;

enum { CLI_MAX_OPTIONS = 64 };

typedef struct cli_command {
    const char *name;    /* "run" */
    const char *title;   /* "attn run", before messages */
    const char *summary; /* one line */
    const char *usage;   /* lines parted by \n */
    const char *about;
    const char *examples;
    const cli_option *options;
    size_t option_count;
    int (*main)(const cli_value *values, char **operands, size_t operand_count);
} cli_command;

/* Parses the words after the command's name. Operands are moved to the front of `words`, in their
 * order. Returns 0, or an exit code after a message; *help is set if --help is asked for. */
int cli_parse(const cli_command *command, char **words, size_t word_count, cli_value *values,
              size_t *operand_count, int *help);

void cli_help(const cli_command *command);

/* The candidate a mistyped word is closest to, or NULL if none is close. */
const char *cli_nearest(const char *word, const char *(*candidate)(const void *user, size_t i),
                        const void *user);

/* Reads a whole decimal integer, or a finite or infinite number; 0 if the text is none. */
int cli_read_integer(const char *text, int64_t *out);
int cli_read_unsigned(const char *text, uint64_t *out);
int cli_read_number(const char *text, double *out);

/* Reads "1,2,3" into memory from cli_take. Returns the count, 0 if the text is no such list. */
size_t cli_read_integers(const char *text, int64_t **out);
size_t cli_read_numbers(const char *text, double **out);

#endif
