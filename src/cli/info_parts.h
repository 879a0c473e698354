/* What the files of `attune info` share. */
#ifndef CLI_INFO_PARTS_H
#define CLI_INFO_PARTS_H

#include "cli/archs.h"
#include "cli/cli.h"
#include "cli/info_facts.h"
#include "stranger/stranger.h"

typedef struct at_info {
    const at_cli *cli;
    at_facts *facts;
    attune_context *context;
    const attune_target *target;
    const char *problem_text; /* NULL: no problem was asked about */
    attune_problem problem;
    const char *kernel_text; /* that was named, or NULL */
    at_found_kernel found;   /* its */
    at_archs archs;          /* of --arch */
    const char *subject;     /* of facts about configs: "config", or an architecture */
} at_info;

/* The parameters of the kernel that was named. */
void at_info_parameters(const at_info *all);
/* Its configs on the target, compiled where it is one of CUDA's. ATTUNE_COMPILE_ERROR where none that fits compiles. */
attune_status at_info_configs(const at_info *all);

#endif
