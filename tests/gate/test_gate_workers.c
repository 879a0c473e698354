/* Which program is started for what, and for how long a worker of sessions is kept. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cm.h"
#include "base/file.h"
#include "base/folder.h"
#include "gate/gate_speed.h"
#include "worker/worker.h"

static const char *const worker[] = {"/proc/self/exe", "worker", NULL};
static const char *const python[] = {"python", NULL};

/* ---- Commands ---------------------------------------------------------------------------------------------------- */

static const char *const *command_of(const at_gate *gate, at_gate_worker which)
{
    at_remote_options options;
    at_gate_remote_options(gate, which, &options);
    return options.command;
}

static void peers_of_python_are_in_python_and_nothing_else_is(void **state)
{
    (void)state;
    const char *const peers[] = {"cudnn", "torch:flash"};
    at_gate_options options = {.peer = peers, .peer_count = 2, .worker = worker, .python = python};
    at_gate gate = {.options = &options, .timer = {"python", "--validated"}};
    assert_ptr_equal(command_of(&gate, AT_WORKER_CANDIDATES), worker);
    assert_ptr_equal(command_of(&gate, AT_WORKER_PEERS), python);     /* which validates PyTorch's back ends */
    assert_ptr_equal(command_of(&gate, AT_WORKER_TIMER), gate.timer); /* which need not again */
    options.python = NULL;
    assert_ptr_equal(command_of(&gate, AT_WORKER_CANDIDATES), worker);
    assert_null(command_of(&gate, AT_WORKER_PEERS));
    assert_null(command_of(&gate, AT_WORKER_TIMER));
    options.python = python;
    options.peer_count = 1;
    for (int which = 0; which < AT_WORKER_COUNT; ++which) {
        assert_ptr_equal(command_of(&gate, (at_gate_worker)which), worker);
    }
}

/* ---- How long a worker lives ------------------------------------------------------------------------------------- */

/* Every worker adds a line to a file. */
static char starts[PATH_MAX];

static void note_start(void)
{
    const char *path = getenv("STARTS");
    FILE *file = path == NULL ? NULL : fopen(path, "a");
    if (file != NULL) {
        (void)fputs("started\n", file);
        (void)fclose(file);
    }
}

static size_t count_starts(void)
{
    void *text;
    size_t bytes;
    assert_ok(at_file_read(starts, 1 << 16, &text, &bytes));
    free(text);
    return bytes / strlen("started\n");
}

typedef struct scene {
    at_test_problem problem;
    at_gate_options options;
    at_gate gate;
    at_gate_candidate candidate;
    at_verdict *verdict;
    at_gate_entry entry;
    at_gate_table table;
    at_gate_bench bench;
    at_gate_timing timing;
} scene;

static void scene_open(scene *on)
{
    *on = (scene){.candidate = {.text = "cpu_tiled"}};
    assert_ok(at_test_problem_parse("b1,h1,s16,d16,fp32", &on->problem));
    assert_ok(at_verdict_create(&on->verdict));
    on->options =
        (at_gate_options){.problem = &on->problem, .problem_count = 1, .seed = 1, .threads = 1, .worker = worker};
    on->gate = (at_gate){.options = &on->options, .target_text = "cpu", .target = {.kind = ATTUNE_TARGET_CPU}};
    assert_ok(at_pool_create(1, 0, &on->gate.pool));
    assert_ok(at_case_cache_create(0, &on->gate.cache));
    on->entry = (at_gate_entry){.candidate = &on->candidate, .test = &on->problem, .verdict = on->verdict};
    on->table = (at_gate_table){.test = &on->problem, .entry = &on->entry, .count = 1};
    on->bench = (at_gate_bench){.table = &on->table, .entry = &on->entry, .arm_count = 1};
    on->bench.arm[0].name = on->candidate.text;
    on->bench.session.policy.processes = 1;
    assert_ok(at_gate_timing_workers(&on->gate, &on->timing));
}

static void scene_close(scene *on)
{
    if (on->bench.run_state != NULL) {
        on->bench.close_run(on->bench.run_state);
    }
    on->timing.close(on->timing.self);
    at_verdict_destroy(on->verdict);
    at_case_cache_destroy(on->gate.cache);
    at_pool_destroy(on->gate.pool);
}

/* One bench's part of a process, ended so. */
static void run_part(scene *on, attune_status ended)
{
    at_executor executor;
    assert_ok(on->timing.open(on->timing.self, &on->gate, &on->bench, &executor));
    assert_ok(executor.start(executor.self, 0));
    on->timing.leave(on->timing.self, ended);
}

static void a_process_is_kept_until_it_ends_or_fails(void **state)
{
    (void)state;
    scene on;
    scene_open(&on);
    run_part(&on, ATTUNE_OK);
    assert_int_equal(count_starts(), 1);
    run_part(&on, ATTUNE_OK); /* the next bench's part, in the same process */
    assert_int_equal(count_starts(), 1);
    run_part(&on, ATTUNE_WRONG_RESULT); /* what it has staged goes with it */
    assert_int_equal(count_starts(), 1);
    run_part(&on, ATTUNE_OK);
    assert_int_equal(count_starts(), 2);
    on.timing.end_process(on.timing.self);
    run_part(&on, ATTUNE_OK);
    assert_int_equal(count_starts(), 3);
    scene_close(&on);
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        note_start();
        return strcmp(argv[1], "worker") == 0 && attune_worker_serve(NULL) == ATTUNE_OK ? 0 : 5;
    }
    folder here;
    if (folder_make(&here) != 0 || setenv("STARTS", folder_path(&here, "starts", starts), 1) != 0) {
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(peers_of_python_are_in_python_and_nothing_else_is),
        cmocka_unit_test(a_process_is_kept_until_it_ends_or_fails),
    };
    int failed = cmocka_run_group_tests_name("gate.gate_workers", tests, NULL, NULL);
    folder_remove(&here);
    return failed;
}
