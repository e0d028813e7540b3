/* console.c: messages, JSON lines, progress and memory of the program. */
#define _POSIX_C_SOURCE 200809L

#include "cli/console.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>
#include <utf8proc.h>

static const char *program = "attn";
static int bar_shown; /* a progress bar occupies the line of the cursor */
static volatile sig_atomic_t signal_seen;

/* --- Lines ---------------------------------------------------------------------------------- */

/* Controls (C0, DEL, C1), line and paragraph separators, and marks that turn the direction of text:
 * in a name they could move the cursor, change the clipboard or show another name. */
static int is_harmful(utf8proc_int32_t c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x61c || (c >= 0x200b && c <= 0x200f) ||
           (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069) || c == 0xfeff;
}

/* `kept` are harmful characters of ASCII that stay. */
static void put_escaped(FILE *f, const char *text, size_t size, const char *kept)
{
    const unsigned char *s = (const unsigned char *)text, *end = s + size;

    while (s < end) {
        utf8proc_int32_t c;
        utf8proc_ssize_t n = utf8proc_iterate(s, end - s, &c);

        if (n <= 0) {
            fprintf(f, "\\x%02x", *s);
            s++;
        } else {
            if (is_harmful(c) && !(c > 0 && c < 0x80 && strchr(kept, c)))
                fprintf(f, c < 0x80 ? "\\x%02x" : "\\u%04x", (unsigned)c);
            else
                fwrite(s, 1, (size_t)n, f);
            s += n;
        }
    }
}

void cli_put(FILE *f, const char *text, size_t size)
{
    put_escaped(f, text, size, "\n\t");
}

static void put_line(FILE *f, const char *prefix, const char *format, va_list args)
{
    char few[512], *text = few;
    va_list again;
    int n;

    va_copy(again, args);
    n = vsnprintf(few, sizeof few, format, args);
    if (n >= (int)sizeof few && (text = malloc((size_t)n + 1)) != NULL)
        vsnprintf(text, (size_t)n + 1, format, again);
    va_end(again);
    if (prefix)
        fprintf(f, "%s: ", prefix);
    put_escaped(f, text ? text : few, strlen(text ? text : few), "");
    fputc('\n', f);
    if (text != few)
        free(text);
}

static void hide_bar(void)
{
    if (bar_shown)
        fputs("\r\033[K", stderr);
    bar_shown = 0;
}

void cli_name(const char *name)
{
    program = name;
}

int cli_error(const char *format, ...)
{
    va_list args;

    hide_bar();
    va_start(args, format);
    put_line(stderr, program, format, args);
    va_end(args);
    return CLI_FAILED;
}

int cli_usage(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    put_line(stderr, program, format, args);
    va_end(args);
    fprintf(stderr, "Try '%s --help'.\n", program);
    return CLI_USAGE;
}

void cli_note(const char *format, ...)
{
    va_list args;

    hide_bar();
    va_start(args, format);
    put_line(stderr, program, format, args);
    va_end(args);
}

int cli_failed(const char *subject, attn_status status, const attn_error *err)
{
    const char *text = err && err->text[0] ? err->text : attn_status_text(status);
    const char *colon = subject ? ": " : "";

    if (!subject)
        subject = "";
    if (err && err->offset)
        return cli_error("%s%s%s (at byte %llu)", subject, colon, text,
                         (unsigned long long)err->offset);
    return cli_error("%s%s%s", subject, colon, text);
}

void cli_print(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    put_line(stdout, NULL, format, args);
    va_end(args);
}

/* --- JSON ----------------------------------------------------------------------------------- */

void cli_print_json(json_t *object)
{
    json_dumpf(object, stdout, JSON_ENSURE_ASCII | JSON_REAL_PRECISION(12));
    fputc('\n', stdout);
    fflush(stdout);
    json_decref(object);
}

json_t *cli_json_text(const char *text)
{
    return cli_json_bytes(text, strlen(text));
}

json_t *cli_json_bytes(const char *text, size_t size)
{
    json_t *json = json_stringn(text, size);
    char *escaped = NULL;
    size_t escaped_size = 0;
    FILE *f;

    if (json)
        return json;
    f = open_memstream(&escaped, &escaped_size);
    if (!f)
        return json_null();
    put_escaped(f, text, size, "");
    fclose(f);
    json = json_string(escaped);
    free(escaped);
    return json ? json : json_null();
}

json_t *cli_json_number(double value, int digits)
{
    double unit = pow(10, digits);

    if (!isfinite(value))
        return json_null();
    return json_real(fabs(value) < 1e9 ? round(value * unit) / unit : value);
}

int cli_finish(int code)
{
    int bad = ferror(stdout) || fflush(stdout) != 0;

    if (bad || fclose(stdout) != 0)
        return cli_error("standard output: %s", errno ? strerror(errno) : "write failed");
    return code;
}

double cli_clock(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* --- Memory --------------------------------------------------------------------------------- */

/* A block starts with this header, padded to keep the caller's part aligned. */
typedef struct block {
    struct block *below;
    size_t number; /* blocks in the stack up to this one */
} block;

enum { BLOCK_ALIGN = 64 };

static block *stack;

void *cli_try(size_t size)
{
    block *b;

    if (size > SIZE_MAX - 2 * BLOCK_ALIGN)
        return NULL;
    /* aligned_alloc wants a multiple of the alignment */
    b = aligned_alloc(BLOCK_ALIGN, (size + 2 * BLOCK_ALIGN - 1) / BLOCK_ALIGN * BLOCK_ALIGN);
    if (!b)
        return NULL;
    b->below = stack;
    b->number = stack ? stack->number + 1 : 1;
    stack = b;
    return (char *)b + BLOCK_ALIGN;
}

void *cli_take(size_t size)
{
    void *p = cli_try(size);

    if (!p) {
        cli_error("out of memory");
        exit(CLI_FAILED);
    }
    return memset(p, 0, size);
}

size_t cli_mark(void)
{
    return stack ? stack->number : 0;
}

void cli_release(size_t mark)
{
    while (stack && stack->number > mark) {
        block *b = stack;
        stack = b->below;
        free(b);
    }
}

int cli_bytes(const int64_t *size, int count, size_t element, size_t *out)
{
    *out = element;
    for (int i = 0; i < count; i++) {
        if (size[i] < 0)
            return 0;
        if (size[i] > 0 && *out > SIZE_MAX / 4 / (uint64_t)size[i])
            return 0;
        *out *= (size_t)size[i];
    }
    return 1;
}

const char *cli_size_text(char *buffer, uint64_t bytes)
{
    static const char *const unit[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
    double x = (double)bytes;
    size_t u = 0;

    for (; x >= 999.95 && u < 6; u++)
        x /= 1000;
    snprintf(buffer, 32, u ? "%.1f %s" : "%.0f %s", x, unit[u]);
    return buffer;
}

/* --- Signals -------------------------------------------------------------------------------- */

static void note_signal(int number)
{
    signal_seen = number;
}

/* Touching a mapped input that another process has cut short. Nothing can go on from here. */
static void file_vanished(int number)
{
    static const char text[] = "attn: an input file became shorter while it was being read\n";

    (void)!write(STDERR_FILENO, text, sizeof text - 1); /* nothing could be done if it failed */
    _exit(128 + number);
}

void cli_catch_signals(void)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action;

    memset(&action, 0, sizeof action);
    sigemptyset(&action.sa_mask);
    action.sa_handler = file_vanished;
    sigaction(SIGBUS, &action, NULL);
    action.sa_handler = note_signal;
    action.sa_flags = (int)(SA_RESETHAND | SA_RESTART);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct sigaction old;
        /* A shell that starts us in the background or under nohup ignores some of them for us. */
        if (sigaction(numbers[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            sigaction(numbers[i], &action, NULL);
    }
}

int cli_interrupted(void)
{
    return (int)signal_seen;
}

void cli_die_of_signal(void)
{
    int number = (int)signal_seen;

    hide_bar();
    fflush(stdout);
    signal(number, SIG_DFL);
    raise(number);
    _exit(128 + number);
}

/* --- Progress ------------------------------------------------------------------------------- */

enum {
    BAR_DELAY = 1,  /* seconds of work before a bar appears */
    LOG_PERIOD = 10 /* seconds between lines in a log */
};

static int is_terminal(void)
{
    const char *term = getenv("TERM");

    return isatty(STDERR_FILENO) && term && strcmp(term, "dumb") != 0;
}

static int columns(void)
{
    struct winsize w;

    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col >= 40)
        return w.ws_col < 100 ? w.ws_col : 100;
    return w.ws_col ? 40 : 80;
}

static void time_text(char *buffer, size_t size, double seconds)
{
    long s = seconds > 1e8 ? 100000000 : (long)(seconds + 0.5);

    if (s < 100)
        snprintf(buffer, size, "%ld s", s);
    else if (s < 6000)
        snprintf(buffer, size, "%ld min %02ld s", s / 60, s % 60);
    else
        snprintf(buffer, size, "%ld h %02ld min", s / 3600, s / 60 % 60);
}

static void draw_bar(double part, const char *left)
{
    char cells[101];
    int width = columns() - 32;
    int full = (int)(part * width);

    memset(cells, '.', sizeof cells);
    memset(cells, '#', (size_t)full);
    cells[width] = '\0';
    fprintf(stderr, "\r%3.0f %% [%s] %s left\033[K", 100 * part, cells, left);
    fflush(stderr);
    bar_shown = 1;
}

void cli_progress_begin(cli_progress *progress)
{
    progress->start = progress->shown = cli_clock();
    progress->used = 0;
}

int cli_progress_step(void *user, uint64_t done, uint64_t total)
{
    cli_progress *p = user;
    double now = cli_clock(), part = total ? (double)done / (double)total : 1;
    int bar = is_terminal();
    double delay = p->eager ? 0 : bar ? BAR_DELAY : LOG_PERIOD;
    double period = bar ? 0.1 : p->eager ? 1 : LOG_PERIOD;
    char left[32];

    if (signal_seen)
        return 1;
    if (p->quiet || done == 0 || now - p->start < delay || (p->used && now - p->shown < period))
        return 0;
    p->shown = now;
    p->used = 1;
    part = part > 1 ? 1 : part;
    time_text(left, sizeof left, (now - p->start) * (1 / part - 1));
    if (bar)
        draw_bar(part, left);
    else
        cli_note("%.0f %% done, %s left", 100 * part, left);
    return 0;
}

void cli_progress_end(cli_progress *progress)
{
    progress->used = 0;
    hide_bar();
}
