/* attune export, and planning with what it wrote on a machine that has no compiler. */
#include <dlfcn.h>

#include "base/cm.h"
#include "base/file.h"
#include "base/folder.h"
#include "cli/command.h"
#include "cuda/fake_driver.h"
#include "cuda/nvrtc.h"

static folder here;

static int make(void **state)
{
    (void)state;
    return folder_make(&here);
}

static int clear(void **state)
{
    (void)state;
    folder_remove(&here);
    return 0;
}

static void fails_with(outcome result, int code, const char *said)
{
    if (result.code != code || strstr(result.err, said) == NULL) {
        fail_msg("code %d, \"%s\" lacks \"%s\"", result.code, result.err, said);
    }
    outcome_free(&result);
}

static void bad_command_lines(void **state)
{
    (void)state;
    fails_with(COMMAND("export", "-o", "x"), AT_EXIT_USAGE, "no PROBLEM");
    fails_with(COMMAND("export", "b1,h1,s8,d64,fp16"), AT_EXIT_USAGE, "-o FILE is needed");
    fails_with(COMMAND("export", "--arch", "90", "-o", "x", "b1,wrong"), AT_EXIT_USAGE, "wrong");
    fails_with(COMMAND("export", "--arch", "75", "-o", "x", "b1,h1,s8,d64,fp16"), AT_EXIT_USAGE, "architecture 75");
    fails_with(COMMAND("export", "--arch", "90,", "--arch", "80", "-o", "x", "b1,h1,s8,d64,fp16"), AT_EXIT_USAGE,
               "--arch");
    fails_with(COMMAND("export", "--arch", "sm_90b", "-o", "x", "b1,h1,s8,d64,fp16"), AT_EXIT_USAGE, "sm_90b");
    fails_with(COMMAND("export", "--arch", ",", "-o", "x", "b1,h1,s8,d64,fp16"), AT_EXIT_USAGE, "no architecture");
    fails_with(COMMAND("export", "--arch", "90", "--kernel", "no_such", "-o", "x", "b1,h1,s8,d64,fp16"), AT_EXIT_USAGE,
               "no_such");
}

static attune_status plan(const char *pack, const char *problem_text)
{
    attune_options options;
    attune_context *context = NULL;
    attune_plan *made = NULL;
    attune_problem problem;
    attune_options_init(&options);
    options.target = "cuda";
    options.kernel = "minimal";
    options.cache = here.path;
    options.pack = pack;
    assert_ok(attune_problem_parse(problem_text, &problem));
    attune_status status = attune_context_create(&options, &context);
    if (status == ATTUNE_OK) {
        status = attune_plan_create(context, &problem, NULL, &made);
    }
    attune_plan_destroy(made);
    attune_context_destroy(context);
    return status;
}

static void a_pack_stands_in_for_the_compiler(void **state)
{
    at_nvrtc *nvrtc = NULL;
    (void)state;
    if (at_nvrtc_open(&nvrtc) != ATTUNE_OK) {
        skip();
    }
    const int compiler = nvrtc->version;
    at_nvrtc_close(nvrtc);
    const char *pack = folder_file(&here, "both.pack");
    assert_int_equal(setenv("ATTUNE_CACHE", "", 1), 0);
    outcome result = COMMAND("export", "--arch", "sm_80,90a", "--configs", "1", "--kernel", "minimal", "--format",
                             "tsv", "-o", pack, "b1,h8,s512,d64,fp16");
    assert_string_equal(result.err, "");
    assert_int_equal(result.code, AT_EXIT_OK);
    assert_string_equal(result.out, "problem\tarch\tkernel\n"
                                    "b1,h8,s512,d64,fp16\t80\tminimal:ROWS=4\n"
                                    "b1,h8,s512,d64,fp16\t90\tminimal:ROWS=4\n");
    outcome_free(&result);
    assert_int_equal(setenv("ATTUNE_LIBCUDA", ATTUNE_FAKE_DRIVER, 1), 0);
    assert_int_equal(setenv("ATTUNE_NVRTC", "/no/such/nvrtc", 1), 0);
    assert_ok(plan(pack, "b1,h8,s512,d64,fp16"));
    assert_ok(plan(pack, "b3,h2,s99,d64,fp16")); /* other sizes, the same code */
    fake_record *fake = dlsym(dlopen(ATTUNE_FAKE_DRIVER, RTLD_NOW | RTLD_LOCAL), "fake");
    assert_non_null(fake);
    const int version = fake->version;
    fake->version = (compiler / 1000 - 1) * 1000 + 90; /* of an earlier major version than what wrote the pack */
    assert_fails(plan(pack, "b1,h8,s512,d64,fp16"), ATTUNE_COMPILE_ERROR, "the pack has no code for this problem");
    fake->version = compiler / 1000 * 1000;
    assert_ok(plan(pack, "b1,h8,s512,d64,fp16"));
    fake->version = version;
    assert_fails(plan(pack, "b1,h8,s512,d64,bf16"), ATTUNE_COMPILE_ERROR, "the pack has no code for this problem");
    assert_fails(plan(NULL, "b1,h8,s512,d64,fp16"), ATTUNE_COMPILE_ERROR, "attune export");
    assert_fails(plan("/no/such/pack", "b1,h8,s512,d64,fp16"), ATTUNE_NOT_FOUND, "/no/such/pack");
    assert_ok(at_file_write(folder_file(&here, "bad.pack"), "attunepk", 8));
    assert_fails(plan(folder_file(&here, "bad.pack"), "b1,h8,s512,d64,fp16"), ATTUNE_CORRUPT, "bad.pack");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_command_lines),
        cmocka_unit_test_setup_teardown(a_pack_stands_in_for_the_compiler, make, clear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
