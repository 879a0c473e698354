#include "base/status.h"
#include "cli/cli.h"
#include "stranger/stranger.h"

attune_status at_cli_options(const at_cli *cli, attune_options *options)
{
    int64_t threads;
    AT_FORWARD(at_cli_integer(cli, "--threads", 1, 1024, 0, &threads));
    attune_options_init(options);
    options->target = at_cli_text(cli, "--target");
    options->kernel = at_cli_text(cli, "--kernel");
    options->isa = at_cli_text(cli, "--isa");
    options->wisdom = at_cli_text(cli, "--wisdom");
    options->threads = (int32_t)threads;
    return ATTUNE_OK;
}

attune_status at_cli_context(const at_cli *cli, attune_context **context)
{
    attune_options options;
    AT_FORWARD(at_cli_options(cli, &options));
    AT_FAIL_IF(options.kernel != NULL && at_stranger_is_meant(options.kernel), ATTUNE_INVALID_ARGUMENT,
               "--kernel %s: nothing of a folder's runs in this process; info, check, gate, evolve, export and bench "
               "--arms take one",
               options.kernel);
    AT_FORWARD(attune_context_create(&options, context));
    size_t skipped = attune_wisdom_skipped(*context);
    if (skipped > 0) {
        at_cli_say(cli, "%zu corrupt line%s of wisdom skipped", skipped, skipped == 1 ? "" : "s");
    }
    return ATTUNE_OK;
}
