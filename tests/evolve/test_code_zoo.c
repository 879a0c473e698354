/* The zoo as proposals: each kernel of the CPU zoo (tests/gate/zoo_folders.h) goes the way that an answer goes behind
 * the scan of its words: compiler, questions, first launch, and where all of them let it pass the gate. None is proven
 * but the honest ones. Workers and sandboxes are this program itself. */
#include "gate/zoo_folders.h"

#include "cli/cli.h"
#include "evolve/code_machine.h"
#include "worker/worker.h"

static zoo_animal kernels[ZOO_MOST];
static at_pool *pool;

/* A file of the zoo as one of a folder that stands alone: what it includes is beside it. */
static void put_file(at_sources *sources, const char *path, const char *name)
{
    static const char *const out[] = {"../cuda/", "../"};
    void *data;
    size_t bytes;
    assert_ok(at_file_read(path, 1 << 20, &data, &bytes));
    char *text = data;
    for (size_t i = 0; i < sizeof out / sizeof *out; ++i) {
        const size_t length = strlen(out[i]);
        for (char *at; (at = strstr(text, out[i])) != NULL;) {
            memmove(at, at + length, strlen(at + length) + 1);
        }
    }
    assert_ok(at_sources_put(sources, name, text, strlen(text)));
    free(data);
}

static void read_animal(const zoo_animal *animal, at_sources *sources)
{
    static const char *const shared[] = {"cpu/attend.h",      "cpu/counts.h",      "cpu/descriptor.h",
                                         "cpu/mapped_memo.h", "cpu/system_call.h", "cuda/frame.h"};
    struct dirent **entry;
    char path[800];
    *sources = (at_sources){.count = 0};
    for (size_t i = 0; i < sizeof shared / sizeof *shared; ++i) {
        (void)snprintf(path, sizeof path, "%s/zoo/%s", ATTUNE_BINARY_DIR, shared[i]);
        put_file(sources, path, strchr(shared[i], '/') + 1);
    }
    const int entries = scandir(animal->folder, &entry, NULL, alphasort);
    for (int i = 0; i < entries; ++i) {
        const size_t length = strlen(entry[i]->d_name);
        (void)snprintf(path, sizeof path, "%s/%.200s", animal->folder, entry[i]->d_name);
        if (length > 2 && strcmp(entry[i]->d_name + length - 2, ".c") == 0) {
            put_file(sources, path, entry[i]->d_name);
        }
        free(entry[i]);
    }
    free(entry);
}

static const zoo_animal *find_animal(const char *name)
{
    const zoo_animal *one = kernels;
    while (strcmp(one->name, name) != 0) {
        assert_true((++one)->name[0] != '\0');
    }
    return one;
}

static at_code_bench *open_bench(const at_test_problem *problem, const at_gate_options *gate)
{
    at_code_bench_options machine = {.problem = problem,
                                     .problem_count = 1,
                                     .seed = 5,
                                     .gate = gate,
                                     .pool = pool,
                                     .worker = {.command = gate->worker, .target = "cpu", .threads = gate->threads}};
    at_device *device;
    at_code_bench *bench;
    assert_ok(at_remote_open(&machine.worker, &device));
    machine.target = device->target;
    device->ops->close(device);
    assert_ok(at_code_bench_open(&machine, &bench));
    return bench;
}

/* Whether it is proven; `why` says what stopped it else. */
static bool passes(at_code_bench *bench, const at_sources *sources, char why[AT_CODE_WHY_MAX])
{
    at_sources first;
    at_event_made made = {.id = 1};
    at_event_gate gate = {.right = AT_NOT_RUN};
    const at_code_machine machine = at_code_bench_machine(bench);
    const at_code_side side = {1, sources, ""};
    assert_ok(machine.make(machine.self, &side, &made));
    if (made.refused != AT_RAN) {
        (void)snprintf(why, AT_CODE_WHY_MAX, "%s: %.400s", at_names_of_refused[made.refused], made.why);
        return false;
    }
    read_animal(find_animal("honest_plain"), &first);
    const at_code_side before = {0, &first, ""};
    assert_ok(machine.prove(machine.self, &side, &before, &gate));
    at_sources_free(&first);
    (void)snprintf(why, AT_CODE_WHY_MAX, "the gate: %.400s", gate.why);
    return gate.right == AT_PASS;
}

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
    at_test_problem problem;
    at_sources sources;
    char why[AT_CODE_WHY_MAX] = "";
    if (zoo_is_beyond_sanitizers(animal)) {
        skip();
    }
    assert_ok(at_test_problem_parse(animal->problem, &problem));
    read_animal(animal, &sources);
    at_code_bench *bench = open_bench(&problem, &gate);
    const bool proven = passes(bench, &sources, why);
    at_code_bench_close(bench);
    at_sources_free(&sources);
    print_message("%s: %s\n", animal->name, why);
    if (proven != zoo_is_honest(animal)) {
        fail_msg("%s is %sproven: %s", animal->name, proven ? "" : "not ", why);
    }
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
