#include "cli/archive.h"

#include <stdlib.h>

#include "base/status.h"
#include "cli/progress.h"

static void show_progress(void *self, double done)
{
    at_progress_update(self, done);
}

attune_status at_cli_archive(const at_cli *cli, bool by_source, at_archive *archive)
{
    at_progress progress;
    const at_archive_options options = {
        .cache = getenv("ATTUNE_CACHE"), .by_source = by_source, .progress = show_progress, .self = &progress};
    *archive = (at_archive){0};
    AT_FAIL_IF(cli->operand_count > 1, ATTUNE_INVALID_ARGUMENT, "one directory or file of evidence is read, not %d",
               cli->operand_count);
    at_progress_start(&progress, cli->err, "looking at evidence");
    attune_status status =
        at_archive_open_with(cli->operand_count == 1 ? cli->operand[0] : "evidence", &options, archive);
    at_progress_end(&progress);
    return status;
}
