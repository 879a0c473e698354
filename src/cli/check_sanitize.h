/* attune check --sanitize: the same kernel on a few small cases below compute-sanitizer. */
#ifndef CLI_CHECK_SANITIZE_H
#define CLI_CHECK_SANITIZE_H

#include "cli/check_list.h"
#include "cli/cli.h"

/* Runs each tool over each problem of the list, one by one, and says what it found. *wrong: something that is the
 * kernel's fault. ATTUNE_NOT_FOUND where there is no compute-sanitizer. */
attune_status at_check_sanitize(const at_cli *cli, const at_check_list *list, bool *wrong);

#endif
