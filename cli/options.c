/* options.c: parsing of command lines by a table, help made from the same table. */
#include "cli/options.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/console.h"

/* --- Numbers -------------------------------------------------------------------------------- */

int cli_read_integer(const char *text, int64_t *out)
{
    char *end;
    long long n;

    if (!isdigit((unsigned char)text[text[0] == '-' || text[0] == '+']))
        return 0;
    errno = 0;
    n = strtoll(text, &end, 10);
    *out = n;
    return errno == 0 && *end == '\0';
}

int cli_read_unsigned(const char *text, uint64_t *out)
{
    char *end;
    unsigned long long n;

    if (!isdigit((unsigned char)text[0]))
        return 0;
    errno = 0;
    n = strtoull(text, &end, 10);
    *out = n;
    return errno == 0 && *end == '\0';
}

int cli_read_number(const char *text, double *out)
{
    char *end;

    if (text[0] == '\0' || isspace((unsigned char)text[0]))
        return 0;
    *out = strtod(text, &end);
    return end != text && *end == '\0' && !isnan(*out);
}

/* Calls `read` for each part between commas; the parts are cut out of a copy. */
static size_t read_list(const char *text, size_t size, void **out,
                        int (*read)(const char *part, void *item))
{
    size_t length = strlen(text), count = 1;
    char *copy = cli_take(length + 1), *part = copy, *item;

    memcpy(copy, text, length);
    for (size_t i = 0; i < length; i++)
        count += text[i] == ',';
    *out = item = cli_take(count * size);
    for (size_t i = 0; i < count; i++, item += size) {
        char *comma = strchr(part, ',');
        if (comma)
            *comma = '\0';
        if (!read(part, item))
            return 0;
        part = comma ? comma + 1 : part;
    }
    return count;
}

static int read_integer_item(const char *part, void *item)
{
    return cli_read_integer(part, item);
}

static int read_number_item(const char *part, void *item)
{
    return cli_read_number(part, item);
}

size_t cli_read_integers(const char *text, int64_t **out)
{
    void *items;
    size_t n = read_list(text, sizeof **out, &items, read_integer_item);

    *out = items;
    return n;
}

size_t cli_read_numbers(const char *text, double **out)
{
    void *items;
    size_t n = read_list(text, sizeof **out, &items, read_number_item);

    *out = items;
    return n;
}

/* --- Suggestions ---------------------------------------------------------------------------- */

enum { MAX_WORD = 40 };

/* Edits (insert, delete, change, swap of neighbours) that make a into b. */
static size_t edit_distance(const char *a, const char *b)
{
    size_t row[3][MAX_WORD + 1];
    size_t na = strlen(a), nb = strlen(b);

    if (na > MAX_WORD || nb > MAX_WORD)
        return MAX_WORD;
    for (size_t j = 0; j <= nb; j++)
        row[0][j] = j;
    for (size_t i = 1; i <= na; i++) {
        size_t *now = row[i % 3], *above = row[(i + 2) % 3], *before = row[(i + 1) % 3];
        now[0] = i;
        for (size_t j = 1; j <= nb; j++) {
            size_t d = above[j - 1] + (a[i - 1] != b[j - 1]);
            d = above[j] + 1 < d ? above[j] + 1 : d;
            d = now[j - 1] + 1 < d ? now[j - 1] + 1 : d;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                d = before[j - 2] + 1 < d ? before[j - 2] + 1 : d;
            now[j] = d;
        }
    }
    return row[na % 3][nb];
}

const char *cli_nearest(const char *word, const char *(*candidate)(const void *user, size_t i),
                        const void *user)
{
    const char *best = NULL, *c;
    size_t length = strlen(word), limit = 1 + length / 3, best_distance = limit + 1;

    for (size_t i = 0; (c = candidate(user, i)) != NULL; i++) {
        size_t d = edit_distance(word, c);
        /* A beginning is as good as one edit: --thr means --threads. */
        if (length >= 2 && strncmp(word, c, length) == 0)
            d = d > 1 ? 1 : d;
        if (d < best_distance) {
            best = c;
            best_distance = d;
        }
    }
    return best;
}

static const char *option_name(const void *user, size_t i)
{
    const cli_command *c = user;

    return i < c->option_count ? c->options[i].name : i == c->option_count ? "help" : NULL;
}

/* --- Parsing -------------------------------------------------------------------------------- */

/* Place of a word in "a|b|c"; -1 if it is not there. */
static int64_t choice_index(const char *choices, const char *word)
{
    size_t n = strlen(word);

    for (int64_t i = 0; choices; i++) {
        const char *bar = strchr(choices, '|');
        size_t length = bar ? (size_t)(bar - choices) : strlen(choices);
        if (length == n && strncmp(choices, word, n) == 0)
            return i;
        choices = bar ? bar + 1 : NULL;
    }
    return -1;
}

static int out_of_range(const cli_option *o, double x)
{
    return (o->least != 0 || o->most != 0) && (x < o->least || x > o->most);
}

static int set_value(const cli_option *o, const char *text, cli_value *v)
{
    v->given = 1;
    v->text = text;
    switch (o->kind) {
    case CLI_INTEGER:
        if (!cli_read_integer(text, &v->integer))
            return cli_usage("--%s: '%s' is not an integer", o->name, text);
        if (out_of_range(o, (double)v->integer))
            return cli_usage("--%s: %s is outside %.0f..%.0f", o->name, text, o->least, o->most);
        return 0;
    case CLI_NUMBER:
        if (!cli_read_number(text, &v->number) || isinf(v->number))
            return cli_usage("--%s: '%s' is not a finite number", o->name, text);
        if (out_of_range(o, v->number))
            return cli_usage("--%s: %s is outside %g..%g", o->name, text, o->least, o->most);
        return 0;
    case CLI_CHOICE:
        v->integer = choice_index(o->value, text);
        if (v->integer < 0)
            return cli_usage("--%s: '%s' is none of %s", o->name, text, o->value);
        return 0;
    case CLI_TEXT:
        if (text[0] == '\0')
            return cli_usage("--%s: the value is empty; expected %s", o->name, o->value);
        return 0;
    case CLI_FLAG:
        break;
    }
    return 0;
}

static const cli_option *find_option(const cli_command *c, const char *name, size_t length)
{
    for (size_t i = 0; i < c->option_count; i++) {
        const cli_option *o = &c->options[i];
        if (strlen(o->name) == length && strncmp(o->name, name, length) == 0)
            return o;
    }
    return NULL;
}

static const cli_option *find_letter(const cli_command *c, char letter)
{
    for (size_t i = 0; i < c->option_count; i++)
        if (c->options[i].letter == letter)
            return &c->options[i];
    return NULL;
}

static int unknown_option(const cli_command *c, const char *word)
{
    char name[MAX_WORD + 1];
    size_t n = strcspn(word, "=");
    const char *near = NULL;

    if (strncmp(word, "--", 2) == 0 && n - 2 <= MAX_WORD) {
        memcpy(name, word + 2, n - 2);
        name[n - 2] = '\0';
        near = cli_nearest(name, option_name, c);
    }
    if (near)
        return cli_usage("unknown option '%.*s'; did you mean --%s?", (int)n, word, near);
    return cli_usage("unknown option '%.*s'", (int)n, word);
}

/* Takes the option at words[*at], and its value, which may be the next word. */
static int take_option(const cli_command *c, char **words, size_t count, size_t *at,
                       cli_value *values)
{
    const char *word = words[*at], *value = NULL;
    const cli_option *o;

    if (word[1] == '-') {
        size_t n = strcspn(word + 2, "=");
        o = find_option(c, word + 2, n);
        value = word[2 + n] == '=' ? word + 3 + n : NULL;
    } else {
        o = find_letter(c, word[1]);
        value = word[2] == '=' ? word + 3 : word[2] ? word + 2 : NULL;
    }
    if (!o)
        return unknown_option(c, word);
    if (o->kind == CLI_FLAG)
        return value ? cli_usage("--%s takes no value, but got '%s'", o->name, value)
                     : set_value(o, "", &values[o - c->options]);
    if (!value) {
        const char *next = *at + 1 < count ? words[*at + 1] : NULL;
        if (!next)
            return cli_usage("--%s needs a value: %s", o->name, o->value);
        if (strncmp(next, "--", 2) == 0)
            return cli_usage("--%s needs a value (%s), but '%s' follows; if that is the value, "
                             "write --%s=%s",
                             o->name, o->value, next, o->name, next);
        value = next;
        ++*at;
    }
    return set_value(o, value, &values[o - c->options]);
}

int cli_parse(const cli_command *command, char **words, size_t word_count, cli_value *values,
              size_t *operand_count, int *help)
{
    size_t kept = 0, end = word_count;

    *help = 0;
    for (size_t i = 0; i < end; i++) {
        if (strcmp(words[i], "--") == 0) {
            end = i;
            break;
        }
        if (strcmp(words[i], "--help") == 0 || strcmp(words[i], "-h") == 0) {
            *help = 1;
            return 0;
        }
    }
    for (size_t i = 0; i < end; i++) {
        if (words[i][0] == '-' && words[i][1] != '\0') {
            int code = take_option(command, words, end, &i, values);
            if (code)
                return code;
        } else {
            words[kept++] = words[i];
        }
    }
    for (size_t i = end + 1; i < word_count; i++)
        words[kept++] = words[i];
    *operand_count = kept;
    return 0;
}

/* --- Help ----------------------------------------------------------------------------------- */

enum { HELP_COLUMN = 26, HELP_WIDTH = 80 };

/* Prints lines parted by \n, all but the first after `indent` spaces. */
static void print_lines(const char *text, int indent)
{
    while (*text) {
        size_t n = strcspn(text, "\n");
        printf("%.*s\n", (int)n, text);
        text += n + (text[n] == '\n');
        if (*text && *text != '\n')
            printf("%*s", indent, "");
    }
}

/* Prints words in lines of HELP_WIDTH, from column `indent` on; the cursor is there already. */
static void print_words(const char *text, int indent)
{
    int column = indent;

    while (*text) {
        int n = (int)strcspn(text, " \n");
        if (column > indent && column + 1 + n > HELP_WIDTH) {
            printf("\n%*s", indent, "");
            column = indent;
        }
        column += printf("%s%.*s", column > indent ? " " : "", n, text);
        text += n + (text[n] != '\0');
    }
    printf("\n");
}

static void print_option(const cli_option *o)
{
    char left[160];
    int n;

    if (o->group)
        printf("\n%s:\n", o->group);
    n = snprintf(left, sizeof left, "  %c%c%s --%s%s%s", o->letter ? '-' : ' ',
                 o->letter ? o->letter : ' ', o->letter ? "," : " ", o->name,
                 o->kind == CLI_FLAG ? "" : " ", o->kind == CLI_FLAG ? "" : o->value);
    if (n >= HELP_COLUMN)
        printf("%s\n%*s", left, HELP_COLUMN, "");
    else
        printf("%-*s", HELP_COLUMN, left);
    print_words(o->help, HELP_COLUMN);
}

void cli_help(const cli_command *command)
{
    printf("usage: ");
    print_lines(command->usage, 7);
    printf("\n");
    print_words(command->about, 0);
    for (size_t i = 0; i < command->option_count; i++)
        print_option(&command->options[i]);
    printf("  -h, --help              this text\n");
    printf("\nExamples:\n  ");
    print_lines(command->examples, 2);
}
