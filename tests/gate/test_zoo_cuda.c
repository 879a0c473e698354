/* The zoo for GPUs, as far as it goes without one: every kernel's descriptor is questioned and its source compiled for
 * a typical device. Those that must not build do not, for the right reason; all others do, and then wait for
 * `tools/test-gpu.sh DIR zoo`. Sandboxes are this program itself. */
#include "gate/zoo_folders.h"

#include "base/status.h"
#include "cli/cli.h"
#include "cuda/cache.h"
#include "cuda/cuda.h"
#include "cuda/provide.h"
#include "stranger/stranger.h"

static zoo_animal animals[ZOO_MOST];
static at_provider provider;

static attune_status build(const zoo_animal *animal)
{
    at_stranger *stranger;
    at_recipe recipe;
    at_artifact artifact;
    attune_problem problem;
    attune_target target;
    assert_ok(at_cuda_typical(90, &target));
    assert_ok(attune_problem_parse(animal->problem, &problem));
    AT_FORWARD(at_stranger_open(animal->folder, NULL, &stranger));
    attune_status status = at_stranger_recipe(stranger, &problem, &target, "", &recipe);
    status = status == ATTUNE_OK ? at_provide(&provider, &recipe, &target, &artifact, NULL) : status;
    if (status == ATTUNE_OK) {
        at_artifact_free(&artifact);
    }
    at_stranger_close(stranger);
    return status;
}

static void animal_builds_or_not(void **state)
{
    const zoo_animal *animal = *state;
    if (provider.nvrtc == NULL) {
        print_message("no run-time compiler\n");
        skip();
    }
    if (build(animal) == ATTUNE_OK) {
        if (strstr(animal->expect, "build: ") != NULL) {
            fail_msg("%s builds, expected\n%s", animal->name, animal->expect);
        }
    } else if (!zoo_expects(animal, "build", attune_last_detail())) {
        fail_msg("%s: expected\n%sbut building it says: %s", animal->name, animal->expect, attune_last_detail());
    }
}

/* Each says in its first line what it is, and what is expected of it is of a stage that there is. */
static void every_folder_says_what_it_expects(void **state)
{
    static const char *const begin[] = {"right", "build: ", "launch: ", "sanity: ", "correctness: "};
    int honest = 0;
    int bad = 0;
    (void)state;
    for (const zoo_animal *animal = animals; animal->name[0] != '\0'; ++animal) {
        bool known = false;
        for (size_t i = 0; i < sizeof begin / sizeof begin[0]; ++i) {
            known |= strncmp(animal->expect, begin[i], strlen(begin[i])) == 0;
        }
        assert_true(known);
        honest += zoo_is_honest(animal);
        bad += !zoo_is_honest(animal);
    }
    assert_true(bad >= 20);
    assert_true(honest >= 6);
}

int main(int argc, char **argv)
{
    struct CMUnitTest tests[ZOO_MOST + 1] = {cmocka_unit_test(every_folder_says_what_it_expects)};
    if (argc > 1) {
        return at_cli_main(argc, (const char *const *)argv, stdout, stderr);
    }
    int count = zoo_read_all("cuda", "b1,h8,s512,d64,fp16", animals);
    for (int i = 0; i < count; ++i) {
        tests[i + 1] = (struct CMUnitTest){animals[i].name, animal_builds_or_not, NULL, NULL, &animals[i]};
    }
    provider.cache = at_cache_place(ATTUNE_KERNEL_CACHE);
    if (at_nvrtc_open(&provider.nvrtc) != ATTUNE_OK) {
        provider.nvrtc = NULL;
    }
    int failed = _cmocka_run_group_tests("zoo_cuda", tests, (size_t)count + 1, NULL, NULL);
    at_nvrtc_close(provider.nvrtc);
    free(provider.cache);
    return failed;
}
