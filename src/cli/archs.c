#include "cli/archs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "cuda/cuda.h"

static attune_status add_arch(at_archs *archs, const char *text, size_t length)
{
    char name[16] = "";
    char *end = NULL;
    AT_FAIL_IF(archs->count == AT_ARCHS_MAX, ATTUNE_INVALID_ARGUMENT, "--arch: more than %d architectures",
               AT_ARCHS_MAX);
    AT_FAIL_IF(length == 0 || length >= sizeof name, ATTUNE_INVALID_ARGUMENT, "--arch: \"%.*s\" is no architecture",
               (int)length, text);
    memcpy(name, text, length);
    const char *number = strncmp(name, "sm_", 3) == 0 ? name + 3 : name;
    long arch = strtol(number, &end, 10);
    AT_FAIL_IF(end == number || (*end != '\0' && strcmp(end, "a") != 0) || arch < 0 || arch > 999,
               ATTUNE_INVALID_ARGUMENT, "--arch: \"%s\" is no architecture; 80, 86, 89, 90a, 100a and 120a are", name);
    attune_target *target = &archs->target[archs->count];
    attune_status status = at_cuda_typical((int)arch, target);
    if (status != ATTUNE_OK) {
        return at_fail_in(ATTUNE_INVALID_ARGUMENT, "--arch");
    }
    (void)snprintf(archs->name[archs->count], sizeof archs->name[0], "sm_%ld%s", arch,
                   target->arch_features != 0 ? "a" : "");
    ++archs->count;
    return ATTUNE_OK;
}

attune_status at_cli_archs(const char *list, at_archs *archs)
{
    *archs = (at_archs){0};
    while (*list != '\0') {
        size_t length = strcspn(list, ",");
        AT_FORWARD(add_arch(archs, list, length));
        list += length + (list[length] == ',');
    }
    AT_FAIL_IF(archs->count == 0, ATTUNE_INVALID_ARGUMENT, "--arch: \"\" is no architecture");
    return ATTUNE_OK;
}
