/* Compiling ahead, by real processes: this program itself is their worker. Where there is no run-time compiler, that is
 * what every job says. */
#include <stdlib.h>
#include <unistd.h>

#include "base/cm.h"
#include "base/file.h"
#include "base/folder.h"
#include "cuda/cuda.h"
#include "cuda/nvrtc.h"
#include "evolve/compilers.h"
#include "worker/worker.h"

static const char *const worker[] = {"/proc/self/exe", "worker", NULL};

static at_compilers *open_with(const char *const *command, int count, double longest_s)
{
    at_compilers *made;
    at_compilers_options options = {.worker = command, .count = count, .longest_s = longest_s};
    assert_ok(at_cuda_typical(90, &options.target));
    options.target.device = 0;
    assert_ok(at_compilers_open(&options, &made));
    return made;
}

static at_compiled compile(at_compilers *on, const char *kernel, const char *problem_text)
{
    attune_problem problem;
    at_compiled got;
    int job;
    assert_ok(attune_problem_parse(problem_text, &problem));
    assert_ok(at_compilers_add(on, kernel, &problem, false, &job));
    assert_ok(at_compilers_wait(on, job, &got));
    return got;
}

static bool has_compiler(void)
{
    at_nvrtc *nvrtc;
    bool has = at_nvrtc_open(&nvrtc) == ATTUNE_OK;
    if (has) {
        at_nvrtc_close(nvrtc);
    }
    return has;
}

/* Several at once, each with its own digests; equal jobs give equal code. */
static void jobs_are_compiled_and_told_apart(void **state)
{
    (void)state;
    at_compilers *on = open_with(worker, 2, 0);
    static const char *const kernels[] = {"tiled:BLOCK_M=32,BLOCK_N=32,ROWS=2,MIN_BLOCKS=1",
                                          "tiled:BLOCK_M=32,BLOCK_N=64,ROWS=2,MIN_BLOCKS=1",
                                          "tiled:BLOCK_M=32,BLOCK_N=32,ROWS=2,MIN_BLOCKS=1"};
    attune_problem problem;
    at_compiled got[3];
    int job[3];
    assert_ok(attune_problem_parse("b1,h8,s512,d64,fp16", &problem));
    for (int i = 0; i < 3; ++i) {
        assert_ok(at_compilers_add(on, kernels[i], &problem, i == 1, &job[i]));
        assert_int_equal(job[i], i);
    }
    for (int i = 2; i >= 0; --i) { /* in any order, and as often as one likes */
        assert_ok(at_compilers_wait(on, job[i], &got[i]));
        assert_ok(at_compilers_wait(on, job[i], &got[i]));
    }
    if (has_compiler()) {
        assert_string_equal(got[0].why, "");
        assert_int_equal(got[0].status, ATTUNE_OK);
        assert_true(got[0].build.registers > 0 && got[0].build.blocks_sm > 0);
        assert_string_not_equal(got[0].build.cubin, got[1].build.cubin);
        assert_string_equal(got[0].build.cubin, got[2].build.cubin);
    } else {
        assert_int_not_equal(got[0].status, ATTUNE_OK);
    }
    at_compilers_close(on);
}

/* Tiles that are too large are refused with their numbers, before they reach a compiler. */
static void what_cannot_be_made_says_why(void **state)
{
    (void)state;
    at_compilers *on = open_with(worker, 1, 0);
    at_compiled got =
        compile(on, "wmma:WARPS=8,BLOCK_N=128,FRAGMENT_M=32,TENSOR_CORES=1,SPLITS=8,STAGES=2", "b1,h8,s512,d256,fp16");
    assert_int_equal(got.status, ATTUNE_UNSUPPORTED);
    assert_non_null(strstr(got.why, "at most"));
    assert_int_equal(compile(on, "no_such_kernel", "b1,h8,s512,d64,fp16").status, ATTUNE_NOT_FOUND);
    assert_int_equal(compile(on, "cpu_tiled", "b1,h8,s512,d64,fp16").status, ATTUNE_NOT_FOUND);
    assert_int_equal(compile(on, "tiled:BLOCK_M=7", "b1,h8,s512,d64,fp16").status, ATTUNE_INVALID_ARGUMENT);
    at_compilers_close(on);
}

/* A compiler that hangs costs its process; the next job has another one. */
static void who_hangs_is_ended(void **state)
{
    (void)state;
    static const char *const mute[] = {"/proc/self/exe", "mute", NULL};
    at_compilers *on = open_with(mute, 1, 0.3);
    for (int i = 0; i < 2; ++i) {
        at_compiled got = compile(on, "tiled", "b1,h8,s512,d64,fp16");
        assert_int_equal(got.status, ATTUNE_DEVICE_ERROR);
        assert_non_null(strstr(got.why, "no answer within"));
    }
    at_compilers_close(on);
}

static void who_is_not_there_is_reported(void **state)
{
    (void)state;
    static const char *const nobody[] = {"/no/such/program", NULL};
    at_compilers *on = open_with(nobody, 1, 0);
    at_compiled got = compile(on, "tiled", "b1,h8,s512,d64,fp16");
    assert_int_not_equal(got.status, ATTUNE_OK);
    assert_non_null(strstr(got.why, "/no/such/program"));
    assert_fails(at_compilers_wait(on, 7, &got), ATTUNE_INVALID_ARGUMENT, "no job 7");
    at_compilers_close(on);
    at_compilers_close(NULL);
}

static void an_interrupt_ends_the_wait(void **state)
{
    (void)state;
    static const char *const mute[] = {"/proc/self/exe", "mute", NULL};
    attune_problem problem;
    at_compiled got;
    int job;
    at_compilers *on = open_with(mute, 1, 5);
    assert_ok(attune_problem_parse("b1,h8,s512,d64,fp16", &problem));
    assert_ok(at_compilers_add(on, "tiled", &problem, false, &job));
    at_file_interrupt();
    assert_fails(at_compilers_wait(on, job, &got), ATTUNE_INTERRUPTED, "interrupted");
    at_compilers_close(on);
    at_file_resume();
}

/* Answers the greeting, and then nothing. */
static int be_mute(void)
{
    char line[256];
    if (fgets(line, sizeof line, stdin) != NULL) {
        (void)puts("{\"id\":1,\"ok\":{\"protocol\":1}}");
        (void)fflush(stdout);
    }
    return pause();
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        return strcmp(argv[1], "mute") == 0 ? be_mute() : (int)attune_worker_serve(NULL);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jobs_are_compiled_and_told_apart),
        cmocka_unit_test(what_cannot_be_made_says_why),
        cmocka_unit_test(who_hangs_is_ended),
        cmocka_unit_test(who_is_not_there_is_reported),
        cmocka_unit_test(an_interrupt_ends_the_wait),
    };
    return cmocka_run_group_tests_name("evolve.compilers", tests, NULL, NULL);
}
