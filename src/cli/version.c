#include "cli/cli.h"

static int run(const at_cli *cli)
{
    if (cli->operand_count > 0) {
        return at_cli_usage(cli, "%s: there is nothing to be named", cli->operand[0]);
    }
    (void)fprintf(cli->out, "attune %s\n", attune_version_string());
    return AT_EXIT_OK;
}

const at_verb at_verb_version = {
    .name = "version",
    .arguments = "",
    .summary = "print the version",
    .help = "Prints the version of the command, which is that of the library it is linked with.\n",
    .examples = "  attune version\n",
    .run = run,
};
