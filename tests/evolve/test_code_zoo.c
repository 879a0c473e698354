/* The CPU zoo as proposals. Workers and sandboxes are this program itself. */
#include "evolve/zoo_proposed.h"

#include "cli/cli.h"
#include "worker/worker.h"

static zoo_animal kernels[ZOO_MOST];
static at_pool *pool;

static void animal_is_proposed(void **state)
{
    static const char *const worker[] = {"/proc/self/exe", "worker", NULL};
    const zoo_animal *animal = *state;
    /* A busy machine must not make others look as if they hung. */
    const bool hangs = strstr(animal->expect, "no answer within") != NULL;
    const at_gate_options gate = {.worker = worker,
                                  .target = "cpu",
                                  .threads = 2,
                                  .seed = 1,
                                  .must = 0.95,
                                  .cases = 8,
                                  .quick = true,
                                  .patience_s = hangs ? 20 : 3600};
    if (zoo_is_beyond_sanitizers(animal)) {
        skip();
    }
    propose_animal(animal, find_animal(kernels, "honest_plain"), &gate, pool);
}

/* Sanitizers look for what any of them shows. */
#ifdef ATTUNE_SANITIZED
enum { STEP = 8 };
#else
enum { STEP = 1 };
#endif

int main(int argc, char **argv)
{
    struct CMUnitTest tests[ZOO_MOST];
    if (argc > 1) {
        return at_cli_main(argc, (const char *const *)argv, stdout, stderr);
    }
    zoo_calm_sanitizers();
    assert_ok(at_pool_create(2, ATTUNE_SCRATCH_MAX, &pool));
    const int animals = zoo_read_all("cpu", "b1,h2,s64,d64,fp16", kernels);
    int count = 0;
    for (int i = 0; i < animals; i += STEP) { /* of the honest ones, who are timed too, one */
        if (zoo_is_honest(&kernels[i]) && strcmp(kernels[i].name, "honest_libm") != 0) {
            continue;
        }
        tests[count++] = (struct CMUnitTest){kernels[i].name, animal_is_proposed, NULL, NULL, &kernels[i]};
    }
    const int failed = _cmocka_run_group_tests("zoo", tests, (size_t)count, NULL, NULL);
    at_pool_destroy(pool);
    return failed;
}
