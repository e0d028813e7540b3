/* main.c: the attn program: finds the command, parses its words, runs it, and ends cleanly. */
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/console.h"

static const cli_command *const commands[] = {
    &cli_run_command,       &cli_show_command,     &cli_vocab_command, &cli_tokenize_command,
    &cli_info_command,      &cli_bench_command,    &cli_train_command, &cli_export_command,
    &cli_translate_command, &cli_generate_command, &cli_score_command};
enum { COMMAND_COUNT = sizeof commands / sizeof *commands };

static void print_help(void)
{
    printf(
        "usage: attn COMMAND [options] [files]\n"
        "       attn COMMAND --help\n"
        "\n"
        "Exact attention on CPUs: O = softmax(scale * Q K^T, capped, plus bias, where allowed) V\n"
        "\n"
        "Commands:\n");
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        printf("  %-10s %s\n", commands[i]->name, commands[i]->summary);
    printf("\n"
           "  -h, --help     this text\n"
           "      --version  the version of the library\n"
           "\n"
           "Examples:\n"
           "  attn run Q.npy K.npy V.npy -o O.npy --causal\n"
           "  attn show weights.npy --causal -o map.html\n"
           "  attn vocab corpus.txt -o tokenizer.json\n"
           "  attn info Q.npy\n"
           "  attn bench --hq 12 --nq 512 --dk 64\n"
           "  attn train -o run --task reverse\n"
           "  attn translate -m models/en-de\n"
           "  attn score output.txt reference.txt\n"
           "\n"
           "Exit codes:\n"
           "  0      success\n"
           "  1      a computation, a file or the output failed\n"
           "  2      the command line was not understood\n"
           "  128+n  ended by signal n\n");
}

static const char *command_name(const void *user, size_t i)
{
    static const char *const also[] = {"help", "--help", "--version"};

    (void)user;
    if (i < COMMAND_COUNT)
        return commands[i]->name;
    i -= COMMAND_COUNT;
    return i < sizeof also / sizeof *also ? also[i] : NULL;
}

static const cli_command *find_command(const char *word)
{
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        if (strcmp(commands[i]->name, word) == 0)
            return commands[i];
    return NULL;
}

static int unknown_command(const char *word)
{
    const char *near = cli_nearest(word, command_name, NULL);

    if (near)
        return cli_usage("unknown command '%s'; did you mean '%s'?", word, near);
    return cli_usage("unknown command '%s'", word);
}

/* A file opened while descriptor 0, 1 or 2 is closed would take its place, and messages would go
 * into it. A placeholder that cannot be written to keeps the place, and writing still fails. */
static int keep_standard_streams(void)
{
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", O_RDONLY) != fd)
            return 0;
    return 1;
}

static int run_command(const cli_command *command, char **words, size_t count)
{
    cli_value values[CLI_MAX_OPTIONS] = {{0}};
    size_t operands;
    int help, code;

    cli_name(command->title);
    code = cli_parse(command, words, count, values, &operands, &help);
    if (code)
        return code;
    if (!help)
        return command->main(values, words, operands);
    cli_help(command);
    return CLI_OK;
}

static int dispatch(int argc, char **argv)
{
    const cli_command *command;

    if (argc < 2)
        return cli_usage(
            "which command? One of: run, show, vocab, tokenize, info, bench, train, export, "
            "translate, generate, score");
    if (strcmp(argv[1], "--version") == 0) {
        printf("attn %s\n", attn_version());
        return CLI_OK;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        (strcmp(argv[1], "help") == 0 && argc == 2)) {
        print_help();
        return CLI_OK;
    }
    if (strcmp(argv[1], "help") == 0) {
        command = find_command(argv[2]);
        if (!command)
            return unknown_command(argv[2]);
        cli_help(command);
        return CLI_OK;
    }
    command = find_command(argv[1]);
    if (!command)
        return unknown_command(argv[1]);
    return run_command(command, argv + 2, (size_t)argc - 2);
}

int main(int argc, char **argv)
{
    int code;

    if (!keep_standard_streams())
        return CLI_FAILED;
    code = dispatch(argc, argv);
    cli_release(0);
    return cli_finish(code);
}
