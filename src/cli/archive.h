/* The archive that a verb's operand names. */
#ifndef CLI_ARCHIVE_H
#define CLI_ARCHIVE_H

#include "cli/cli.h"
#include "evidence/verify.h"

/* Opens [DIR], or `evidence`; compiled kernels lie in $ATTUNE_CACHE. With `by_source` only what changed is compiled
 * (evidence/verify.h). Close it in any case. */
attune_status at_cli_archive(const at_cli *cli, bool by_source, at_archive *archive);

#endif
