#include "cli/archive.h"

#include <stdlib.h>

#include "base/status.h"

attune_status at_cli_archive(const at_cli *cli, at_archive *archive)
{
    *archive = (at_archive){0};
    AT_FAIL_IF(cli->operand_count > 1, ATTUNE_INVALID_ARGUMENT, "one directory or file of evidence is read, not %d",
               cli->operand_count);
    return at_archive_open(cli->operand_count == 1 ? cli->operand[0] : "evidence", getenv("ATTUNE_CACHE"), archive);
}
