/* Kernels of the zoo as proposals: each goes the way that an answer goes behind the scan of its words: compiler,
 * questions, first launch, and where all of them let it pass the gate. Workers are the including program itself. */
#ifndef TESTS_EVOLVE_ZOO_PROPOSED_H
#define TESTS_EVOLVE_ZOO_PROPOSED_H

#include "gate/zoo_folders.h"

#include <unistd.h>

#include "evolve/code_machine.h"

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

/* The sources of a folder, without those of folders in it. */
static void put_folder(at_sources *sources, const char *folder)
{
    static const char *const ends[] = {".c", ".h", ".cu", ".cuh"};
    struct dirent **entry;
    const int entries = scandir(folder, &entry, NULL, alphasort);
    assert_true(entries > 0);
    for (int i = 0; i < entries; ++i) {
        char path[800];
        const char *const dot = strrchr(entry[i]->d_name, '.');
        (void)snprintf(path, sizeof path, "%.500s/%.200s", folder, entry[i]->d_name);
        for (size_t k = 0; dot != NULL && k < sizeof ends / sizeof *ends; ++k) {
            if (strcmp(dot, ends[k]) == 0) {
                put_file(sources, path, entry[i]->d_name);
            }
        }
        free(entry[i]);
    }
    free(entry);
}

/* A kernel's folder, with what its part of the zoo shares. */
static void read_animal(const zoo_animal *animal, at_sources *sources)
{
    char path[600];
    *sources = (at_sources){.count = 0};
    (void)snprintf(path, sizeof path, "%.500s/..", animal->folder);
    put_folder(sources, path);
    (void)snprintf(path, sizeof path, "%.500s/../../cuda/frame.h", animal->folder);
    if (access(path, R_OK) == 0) { /* both parts' */
        put_file(sources, path, "frame.h");
    }
    put_folder(sources, animal->folder);
}

static at_code_bench *open_bench(const at_test_problem *problem, const at_gate_options *gate, at_pool *pool)
{
    at_code_bench_options machine = {
        .problem = problem,
        .problem_count = 1,
        .seed = 5,
        .gate = gate,
        .pool = pool,
        .worker = {.command = gate->worker, .target = gate->target, .threads = gate->threads}};
    at_device *device;
    at_code_bench *bench;
    assert_ok(at_remote_open(&machine.worker, &device));
    machine.target = device->target;
    device->ops->close(device);
    assert_ok(at_code_bench_open(&machine, &bench));
    return bench;
}

/* Whether it is proven, beside `honest`; `why` says what stopped it else. */
static bool passes(at_code_bench *bench, const zoo_animal *animal, const zoo_animal *honest, char why[AT_CODE_WHY_MAX])
{
    at_sources sources, first;
    at_event_made made = {.id = 1};
    at_event_gate gate = {.right = AT_NOT_RUN};
    const at_code_machine machine = at_code_bench_machine(bench);
    read_animal(animal, &sources);
    read_animal(honest, &first);
    const at_code_side side = {1, &sources, ""}, before = {0, &first, ""};
    assert_ok(machine.make(machine.self, &side, &made));
    if (made.refused == AT_RAN) {
        assert_ok(machine.prove(machine.self, &side, &before, &gate));
    }
    at_sources_free(&first);
    at_sources_free(&sources);
    (void)snprintf(why, AT_CODE_WHY_MAX, "%s: %.400s",
                   made.refused == AT_RAN ? "the gate" : at_names_of_refused[made.refused],
                   made.refused == AT_RAN ? gate.why : made.why);
    return gate.right == AT_PASS;
}

static const zoo_animal *find_animal(const zoo_animal *kernels, const char *name)
{
    const zoo_animal *one = kernels;
    while (strcmp(one->name, name) != 0) {
        assert_true((++one)->name[0] != '\0');
    }
    return one;
}

/* One kernel through all of it: none is proven but the honest ones. */
static void propose_animal(const zoo_animal *animal, const zoo_animal *honest, const at_gate_options *gate,
                           at_pool *pool)
{
    at_test_problem problem;
    char why[AT_CODE_WHY_MAX] = "";
    assert_ok(at_test_problem_parse(animal->problem, &problem));
    at_code_bench *bench = open_bench(&problem, gate, pool);
    const bool proven = passes(bench, animal, honest, why);
    at_code_bench_close(bench);
    print_message("%s: %s\n", animal->name, why);
    if (proven != zoo_is_honest(animal)) {
        fail_msg("%s is %sproven: %s", animal->name, proven ? "" : "not ", why);
    }
}

#endif
