/* attune worker: what the gate starts to hold a device. Not for people. */
#include "worker/worker.h"
#include "cli/cli.h"

static int run(const at_cli *cli)
{
    if (cli->operand_count > 0) {
        return at_cli_usage(cli, "no arguments are taken");
    }
    attune_status status = attune_worker_serve(NULL);
    return status == ATTUNE_OK ? AT_EXIT_OK : at_cli_fail(cli, status);
}

const at_verb at_verb_worker = {
    .name = "worker",
    .arguments = "",
    .summary = "hold a device for the gate (started by it)",
    .help = "Serves the gate's protocol on standard input and output: one JSON object a line, until \"quit\" or the "
            "end of\n"
            "input. `attune gate` starts as many of these as it needs; docs/gate.md describes the protocol.\n",
    .examples = "  echo '{\"id\":1,\"op\":\"hello\",\"protocol\":1,\"arena\":0}' | attune worker\n",
    .run = run,
};
