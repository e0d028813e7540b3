/* commands.h: the commands main.c knows. */
#ifndef ATTN_CLI_COMMANDS_H
#define ATTN_CLI_COMMANDS_H

#include "cli/options.h"

extern const cli_command cli_run_command, cli_show_command, cli_info_command, cli_bench_command;
extern const cli_command cli_vocab_command, cli_tokenize_command, cli_train_command,
    cli_score_command, cli_export_command, cli_translate_command, cli_generate_command;

#endif
