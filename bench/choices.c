/* The first config that a kernel's heuristic names, for problems on standard input, a line each, on a typical device of
 * an architecture. No device is needed.
 *
 *     build/bench/choices KERNEL ARCH < PROBLEMS > PROBLEM, CONFIG
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/config.h"
#include "cuda/cuda.h"
#include "library/catalogue.h"

static bool print_choice(const attune_kernel *kernel, const attune_target *target, const char *text)
{
    attune_problem problem;
    attune_config config;
    char params[AT_KERNEL_TEXT_MAX];
    if (attune_problem_parse(text, &problem) != ATTUNE_OK || !at_kernel_supports(kernel, &problem, target, NULL) ||
        !kernel->heuristic(&problem, target, 0, &config)) {
        (void)fprintf(stderr, "%s: %s does not run it\n", text, kernel->name);
        return false;
    }
    at_config_print(kernel, &config, params);
    (void)printf("%s\t%s\n", text, params + strlen(kernel->name) + 1);
    return true;
}

int main(int argc, char **argv)
{
    char line[256];
    bool all = true;
    attune_target target;
    const attune_kernel *kernel = argc == 3 ? at_catalogue_find(argv[1]) : NULL;
    if (kernel == NULL || at_cuda_typical(atoi(argv[2]), &target) != ATTUNE_OK) {
        (void)fprintf(stderr, "usage: choices KERNEL ARCH < PROBLEMS\n");
        return 2;
    }
    while (fgets(line, sizeof line, stdin) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        all = print_choice(kernel, &target, line) && all;
    }
    return all ? 0 : 1;
}
