/* The zoo as proposals on a device: ATTUNE_ZOO_PART=K/N takes each N-th kernel from the K-th on (1 to N), for several
 * at a time; ATTUNE_ZOO_PART=alone those that are to be alone on the device, or a kernel by its name. Without it, all.
 */
#include "evolve/zoo_proposed.h"

#include <limits.h>
#include <unistd.h>

#include "cli/cli.h"
#include "worker/worker.h"

static zoo_animal kernels[ZOO_MOST];
static at_pool *pool;

static void animal_is_proposed(void **state)
{
    static const char *const worker[] = {"/proc/self/exe", "worker", NULL};
    const at_gate_options gate = {
        .worker = worker, .target = "cuda", .threads = 2, .seed = 1, .must = 0.95, .cases = 24, .quick = true};
    propose_animal(*state, find_animal(kernels, "honest_tiled"), &gate, pool);
}

/* Whether this call is to judge the n-th. */
static bool is_mine(int n, const zoo_animal *animal)
{
    const char *const part = getenv("ATTUNE_ZOO_PART");
    if (part == NULL) {
        return true;
    }
    const char *const slash = strchr(part, '/');
    if (slash == NULL) {
        return strcmp(part, "alone") == 0 ? animal->alone : strcmp(part, animal->name) == 0;
    }
    const int of = atoi(slash + 1);
    assert_true(of > 0);
    return !animal->alone && n % of == atoi(part) - 1;
}

int main(int argc, char **argv)
{
    struct CMUnitTest tests[ZOO_MOST];
    char here[PATH_MAX], where[PATH_MAX + 8];
    if (argc > 1) {
        return at_cli_main(argc, (const char *const *)argv, stdout, stderr);
    }
    const ssize_t length = readlink("/proc/self/exe", here, sizeof here - 1);
    assert_true(length > 0);
    here[length] = '\0';
    *strrchr(here, '/') = '\0';
    (void)snprintf(where, sizeof where, "%s/zoo", here);
    assert_ok(at_pool_create(2, ATTUNE_SCRATCH_MAX, &pool));
    const int animals = zoo_read_from(where, "b1,h8,s512,d64,fp16", kernels);
    int count = 0;
    for (int i = 0; i < animals; ++i) { /* of the honest ones, who are timed too, one */
        const bool judged = !zoo_is_honest(&kernels[i]) || strcmp(kernels[i].name, "honest_tiled") == 0;
        if (judged && is_mine(i, &kernels[i])) {
            tests[count++] = (struct CMUnitTest){kernels[i].name, animal_is_proposed, NULL, NULL, &kernels[i]};
        }
    }
    const int failed = _cmocka_run_group_tests("proposed", tests, (size_t)count, NULL, NULL);
    at_pool_destroy(pool);
    return failed;
}
