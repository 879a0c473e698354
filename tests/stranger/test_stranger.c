/* Strangers: folders, what is made of them, and what is asked. Sandboxes are this program itself. */
#include "base/cm.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/folder.h"
#include "cli/cli.h"
#include "core/config.h"
#include "cuda/build.h"
#include "cuda/cuda.h"
#include "gate/zoo_folders.h"
#include "stranger/stranger.h"
#include "worker/remote.h"

static folder here;

static void put(const char *name, const char *text)
{
    assert_ok(at_file_write(folder_file(&here, name), text, strlen(text)));
}

/* Folders within the folder; one that is not there is fine. */
static void remove_below(const char *name)
{
    folder below;
    (void)snprintf(below.path, sizeof below.path, "%.50s/%.10s", here.path, name);
    folder_remove(&below);
}

static void fresh(void)
{
    remove_below("parts");
    remove_below("tmp");
    folder_remove(&here);
    assert_int_equal(folder_make(&here), 0);
}

/* A descriptor of one parameter, for a CPU or for CUDA ("mine.cu"). */
static void put_descriptor(const char *name, bool cuda)
{
    char text[4096];
    (void)snprintf(
        text, sizeof text,
        "#include \"attune/kernel.h\"\n"
        "static const int32_t values[] = {1, 2, 4, 8};\n"
        "static const attune_param params[] = {{\"ROWS\", values, 4, 0}};\n"
        "static bool supports(const attune_problem *p, const attune_target *t, attune_reason *r)\n"
        "{ (void)t; return p->head_dim_qk <= 64 || attune_refuse(r, \"head_dim_qk %%d: at most 64\", p->head_dim_qk); "
        "}\n"
        "static bool valid(const attune_problem *p, const attune_target *t, const attune_config *c, attune_reason *r)\n"
        "{ (void)p; (void)t; return c->value[0] != 8 || attune_refuse(r, \"ROWS 8 is too many\"); }\n"
        "static void resources(const attune_problem *p, const attune_target *t, const attune_config *c,\n"
        "                      attune_resources *n)\n"
        "{ (void)p; (void)t; *n = (attune_resources){.threads = 32, .scratch_bytes = c->value[0] == 4 ? 1 << 20 : 64,\n"
        "  .smem_bytes = c->value[0] == 4 ? 1 << 20 : 64, .workspace = attune_term_const(0)}; }\n"
        "static bool heuristic(const attune_problem *p, const attune_target *t, int32_t i, attune_config *c)\n"
        "{ static const int32_t order[] = {8, 4, 2, 1}; (void)p; (void)t;\n"
        "  if (i < 0 || i > 3) return false; c->value[0] = order[i]; return true; }\n"
        "static void steps(const attune_problem *p, const attune_target *t, const attune_config *c, attune_steps *s)\n"
        "{ (void)p; (void)t; (void)c; s->count = 1; s->step[0] = (attune_step){.kind = ATTUNE_STEP_KERNEL,\n"
        "  .as.kernel = {.entry = \"mine\", .grid = {attune_term_const(1), attune_term_const(1), "
        "attune_term_const(1)},\n"
        "  .block = {32, 1, 1}, .cluster = {1, 1, 1}, .smem = attune_term_const(0)}}; }\n"
        "static const attune_capability can[] = {ATTUNE_CAN_FORWARD(0, ATTUNE_BIT(ATTUNE_STEP_KERNEL))};\n"
        "extern const attune_kernel at_kernel_mine;\n"
        "const attune_kernel at_kernel_mine = {.size = sizeof(attune_kernel), .abi = ATTUNE_ABI, .target = %s,\n"
        "  .name = \"mine\", .summary = \"a test's\", .param_count = 1, .params = params, .can = can,\n"
        "  .can_count = 1, .supports = supports,\n"
        "  .valid = valid, .resources = resources, .heuristic = heuristic, .steps = steps, %s};\n",
        cuda ? "ATTUNE_TARGET_CUDA" : "ATTUNE_TARGET_CPU", cuda ? ".source = \"mine.cu\"" : "");
    put(name, text);
}

/* The source that goes with it on a CPU. */
static void put_kernel(void)
{
    put("mine.kernel.c", "#include \"attune/kernel.h\"\n"
                         "void ATTUNE_TIER(attend_mine)(const attune_args *a, int64_t i, void *s);\n"
                         "void ATTUNE_TIER(attend_mine)(const attune_args *a, int64_t i, void *s)\n"
                         "{ (void)a; (void)i; (void)s; }\n");
}

static at_stranger *opened(void)
{
    at_stranger *stranger;
    assert_ok(at_stranger_open(here.path, NULL, &stranger));
    return stranger;
}

static attune_status asked(at_stranger *stranger, const char *problem_text, const char *params, at_recipe *recipe)
{
    attune_problem problem;
    attune_target target = {.size = sizeof target, .kind = ATTUNE_TARGET_CPU, .model = "any", .threads = 2};
    if (at_stranger_kernel(stranger)->target == ATTUNE_TARGET_CUDA) {
        assert_ok(at_cuda_typical(90, &target));
    }
    assert_ok(attune_problem_parse(problem_text, &problem));
    return at_stranger_recipe(stranger, &problem, &target, params, recipe);
}

/* A folder that was written for ABI 2 is refused with a sentence that says what to change. */
static void folders_of_abi_2(void **state)
{
    static const struct {
        const char *from, *to, *words;
    } edits[] = {
        {".abi = ATTUNE_ABI", ".abi = 2", "and 3 are needed: since ABI 2 a descriptor states"},
        {".can = can,", "", "can: 1 ... 8 rows that state what it computes are needed, 0 are given: since ABI 2"},
        {"p->head_dim_qk <= 64", "p->causal", "This attune is ABI 3: since ABI 2 a descriptor states"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof edits / sizeof edits[0]; ++i) {
        at_stranger *stranger;
        void *text;
        size_t bytes;
        char edited[8192];
        fresh();
        put_descriptor("mine.c", false);
        put_kernel();
        assert_ok(at_file_read(folder_file(&here, "mine.c"), sizeof edited, &text, &bytes));
        const char *at = strstr(text, edits[i].from);
        assert_non_null(at);
        (void)snprintf(edited, sizeof edited, "%.*s%s%s", (int)(at - (char *)text), (char *)text, edits[i].to,
                       at + strlen(edits[i].from));
        free(text);
        put("mine.c", edited);
        attune_status status = at_stranger_open(here.path, NULL, &stranger);
        if (status == ATTUNE_OK || strstr(attune_last_detail(), edits[i].words) == NULL ||
            strstr(attune_last_detail(), "docs/kernels.md, \"From ABI 2 to 3\"") == NULL) {
            fail_msg("%s: \"%s\"", edits[i].words, attune_last_detail());
        }
    }
}

static void folders_that_are_none(void **state)
{
    at_stranger *stranger;
    const char *params;
    (void)state;
    fresh();
    assert_fails(at_stranger_open("/no/such/folder", NULL, &stranger), ATTUNE_NOT_FOUND, "/no/such/folder");
    assert_null(stranger);
    assert_fails(at_stranger_find("/no/such/folder:A=1", NULL, &stranger, &params), ATTUNE_NOT_FOUND, "no folder");
    assert_fails(at_stranger_open(here.path, NULL, &stranger), ATTUNE_NOT_FOUND, "has no descriptor");
    put_descriptor("mine.c", false);
    assert_fails(at_stranger_open(here.path, NULL, &stranger), ATTUNE_INVALID_ARGUMENT, "there is no NAME.kernel.c");
    put("other.c", "");
    assert_fails(at_stranger_open(here.path, NULL, &stranger), ATTUNE_INVALID_ARGUMENT, "more than one descriptor");
    fresh();
    put_descriptor("mine.c", true);
    put("yours.cu", "");
    assert_fails(at_stranger_open(here.path, NULL, &stranger), ATTUNE_INVALID_ARGUMENT,
                 "'mine.cu', which is not there");
}

static void configs_are_asked_for_until_one_fits(void **state)
{
    at_recipe recipe;
    at_stranger *stranger;
    const char *params;
    char text[200];
    (void)state;
    fresh();
    put_descriptor("mine.c", false);
    put_kernel();
    (void)snprintf(text, sizeof text, "%s:ROWS=1", here.path);
    assert_true(at_stranger_is_meant(text));
    assert_false(at_stranger_is_meant("tiled"));
    assert_ok(at_stranger_find(text, NULL, &stranger, &params));
    assert_string_equal(params, "ROWS=1");
    assert_string_equal(at_stranger_kernel(stranger)->name, "mine");
    assert_ok(asked(stranger, "b1,h1,s8,d64,fp16", "", &recipe));
    assert_int_equal(recipe.config.value[0], 2); /* 8 is not valid, 4 wants too much */
    assert_true(recipe.sources[0].size > 1000);
    assert_ok(asked(stranger, "b1,h1,s8,d64,fp16", params, &recipe));
    assert_int_equal(recipe.config.value[0], 1);
    assert_fails(asked(stranger, "b1,h1,s8,d64,fp16", "ROWS=8", &recipe), ATTUNE_UNSUPPORTED, "ROWS 8 is too many");
    assert_fails(asked(stranger, "b1,h1,s8,d64,fp16", "ROWS=4", &recipe), ATTUNE_UNSUPPORTED, "scratch 1048576");
    assert_fails(asked(stranger, "b1,h1,s8,d64,fp16", "ROWS=3", &recipe), ATTUNE_INVALID_ARGUMENT, "ROWS cannot be");
    assert_fails(asked(stranger, "b1,h1,s8,d96,fp16", "", &recipe), ATTUNE_UNSUPPORTED, "head_dim_qk 96: at most 64");
    at_stranger_close(stranger);
}

/* A descriptor that counts what it is asked says something else each time; what it said first of a problem stands. */
static void each_question_is_put_once(void **state)
{
    static const char honest[] = "c->value[0] = order[i]; return true;";
    static const char counts[] = "static int n; c->value[0] = n++ == 0 ? 2 : 1; return true;";
    at_recipe recipe;
    void *text;
    size_t bytes;
    char changed[4096];
    (void)state;
    fresh();
    put_descriptor("mine.c", false);
    put_kernel();
    assert_ok(at_file_read(folder_file(&here, "mine.c"), sizeof changed, &text, &bytes));
    const char *at = strstr(text, honest);
    assert_non_null(at);
    (void)snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - (const char *)text), (const char *)text, counts,
                   at + strlen(honest));
    put("mine.c", changed);
    free(text);
    at_stranger *stranger = opened();
    for (int i = 0; i < 3; ++i) {
        assert_ok(asked(stranger, "b1,h1,s8,d64,fp16", "", &recipe));
        assert_int_equal(recipe.config.value[0], 2);
        assert_ok(asked(stranger, "b1,h1,s9,d64,fp16", "", &recipe));
        assert_int_equal(recipe.config.value[0], 1);
    }
    at_stranger_close(stranger);
}

/* A worker that was not opened for a confined has no sandbox: it takes nobody's code. */
static void code_runs_only_where_it_is_expected(void **state)
{
    static const char *const command[] = {"/proc/self/exe", "worker", NULL};
    attune_problem problem;
    attune_plan *plan = NULL;
    (void)state;
    fresh();
    put_descriptor("mine.c", false);
    put_kernel();
    at_stranger *stranger = opened();
    assert_ok(attune_problem_parse("b1,h1,s8,d64,fp16", &problem));
    for (int confined = 0; confined < 2; ++confined) {
        const at_remote_options options = {
            .command = command, .target = "cpu", .threads = 1, .confined = confined != 0};
        at_device *worker;
        assert_ok(at_remote_open(&options, &worker));
        if (confined) {
            assert_ok(at_stranger_plan(stranger, worker, &problem, "", &plan));
        } else {
            assert_fails(at_stranger_plan(stranger, worker, &problem, "", &plan), ATTUNE_UNSUPPORTED,
                         "runs in a worker that was opened for it");
        }
        attune_plan_destroy(plan);
        worker->ops->close(worker);
    }
    at_stranger_close(stranger);
}

/* A worker tells kernels of one name and config apart by all that their recipes say: once a source and a later version
 * of it were one arm, and each was timed against itself. */
static void kernels_of_one_name_are_two_arms(void **state)
{
    static const char *const command[] = {"/proc/self/exe", "worker", NULL};
    const at_remote_options options = {.command = command, .target = "cpu", .threads = 1, .confined = true};
    at_device *worker;
    attune_plan *plan[3];
    at_recipe recipe[3];
    (void)state;
    fresh();
    put_descriptor("mine.c", false);
    put_kernel();
    at_stranger *stranger = opened();
    assert_ok(at_remote_open(&options, &worker));
    assert_ok(asked(stranger, "b1,h1,s8,d64,fp16", "", &recipe[0]));
    attune_kernel other = *recipe[0].kernel;
    other.summary = "a later version";
    recipe[1] = recipe[2] = recipe[0];
    recipe[1].kernel = &other;
    for (int i = 0; i < 3; ++i) {
        at_loaded *loaded;
        assert_ok(worker->ops->load(worker, &recipe[i], &loaded));
        assert_ok(at_plan_bind(&recipe[i].problem, loaded, AT_ORIGIN_NAMED, &plan[i]));
    }
    assert_int_not_equal(at_remote_arm(plan[0]), at_remote_arm(plan[1]));
    assert_int_equal(at_remote_arm(plan[0]), at_remote_arm(plan[2]));
    for (int i = 0; i < 3; ++i) {
        attune_plan_destroy(plan[i]);
    }
    worker->ops->close(worker);
    at_stranger_close(stranger);
}

static bool has_source(const at_recipe *recipe, const char *name)
{
    for (const at_embedded *file = recipe->sources; file->name != NULL; ++file) {
        if (strcmp(file->name, name) == 0) {
            return true;
        }
    }
    return false;
}

static void sources_bring_what_they_include(void **state)
{
    char digest[AT_DIGEST_TEXT_MAX];
    char below[PATH_MAX];
    at_recipe recipe;
    (void)state;
    fresh();
    assert_int_equal(mkdir(folder_path(&here, "parts", below), 0700), 0);
    put_descriptor("mine.c", true);
    put("mine.cu", "#include \"parts/one.cuh\"\n#include \"device/ptx.cuh\"\n#include \"/etc/hostname\"\n");
    put("parts/one.cuh", "#include \"parts/two.cuh\"\n");
    put("parts/two.cuh", "");
    put("parts/three.cuh", "");
    at_stranger *stranger = opened();
    assert_ok(asked(stranger, "b1,h1,s8,d64,fp16", "", &recipe));
    assert_true(has_source(&recipe, "mine.cu") && has_source(&recipe, "parts/one.cuh"));
    assert_true(has_source(&recipe, "parts/two.cuh") && has_source(&recipe, "device/ptx.cuh"));
    assert_false(has_source(&recipe, "parts/three.cuh"));
    assert_false(has_source(&recipe, "/etc/hostname"));
    (void)snprintf(digest, sizeof digest, "%s", at_stranger_digest(stranger));
    at_stranger_close(stranger);
    put("parts/three.cuh", "changed");
    stranger = opened();
    assert_string_equal(at_stranger_digest(stranger), digest);
    at_stranger_close(stranger);
    put("parts/two.cuh", "/* changed */");
    stranger = opened();
    assert_string_not_equal(at_stranger_digest(stranger), digest);
    at_stranger_close(stranger);
}

static void digest_of(char digest[AT_DIGEST_TEXT_MAX])
{
    at_stranger *stranger = opened();
    (void)snprintf(digest, AT_DIGEST_TEXT_MAX, "%s", at_stranger_digest(stranger));
    at_stranger_close(stranger);
}

/* So do those of a CPU, wherever the file is that they include. */
static void headers_of_a_cpu_kernel_are_its_own(void **state)
{
    char before[AT_DIGEST_TEXT_MAX], after[AT_DIGEST_TEXT_MAX], below[PATH_MAX];
    at_stranger *stranger;
    (void)state;
    fresh();
    assert_int_equal(mkdir(folder_path(&here, "parts", below), 0700), 0);
    put_descriptor("mine.c", false);
    put("mine.kernel.c", "#include \"parts/one.h\"\n#include \"attune/kernel.h\"\n");
    put("parts/one.h", "#include \"../two.h\"\n#include \"one.h\"\n");
    put("two.h", "");
    digest_of(before);
    put("three.h", "");
    digest_of(after);
    assert_string_equal(before, after);
    put("two.h", "/* changed */");
    digest_of(after);
    assert_string_not_equal(before, after);
    put("two.h", "__asm__(\".incbin \\\"/etc/hostname\\\"\");");
    assert_fails(at_stranger_open(here.path, NULL, &stranger), ATTUNE_COMPILE_ERROR, "incbin");
}

static void dates_are_refused(void **state)
{
    static const char *const macros[] = {"__DATE__", "__TIME__", "__TIMESTAMP__"};
    at_recipe recipe;
    char text[200];
    (void)state;
    for (size_t i = 0; i < sizeof macros / sizeof macros[0]; ++i) {
        fresh();
        put_descriptor("mine.c", false);
        (void)snprintf(text, sizeof text, "const char *f(void);\nconst char *f(void) { return %s; }\n", macros[i]);
        put("mine.kernel.c", text);
        at_stranger *stranger = opened();
        assert_fails(asked(stranger, "b1,h1,s8,d64,fp16", "", &recipe), ATTUNE_COMPILE_ERROR, macros[i]);
        at_stranger_close(stranger);
    }
}

/* Where there is no sandbox, nothing of a stranger's is run, not even through a compiler. */
static void no_sandbox_no_strangers(void **state)
{
    at_stranger *stranger;
    const at_stranger_tools tools = {.compiler = "/no/such/compiler"};
    (void)state;
    fresh();
    put_descriptor("mine.c", true);
    put("mine.cu", "");
    assert_int_equal(setenv("ATTUNE_SECCOMP", "/no/such/library", 1), 0);
    assert_fails(at_stranger_open(here.path, NULL, &stranger), ATTUNE_UNSUPPORTED, "libseccomp");
    assert_int_equal(unsetenv("ATTUNE_SECCOMP"), 0);
    assert_fails(at_stranger_open(here.path, &tools, &stranger), ATTUNE_COMPILE_ERROR, "/no/such/compiler");
}

/* A compiler that is ended removes nothing: what it makes goes with the folder that is ours. */
static void compilers_have_a_folder_of_ours(void **state)
{
    at_stranger *stranger;
    char path[PATH_MAX];
    (void)state;
    fresh();
    const at_stranger_tools tools = {.compiler = folder_path(&here, "cc", path)};
    put_descriptor("mine.c", true);
    put("mine.cu", "");
    put("cc", "#!/bin/sh\necho \"in $TMPDIR\"\nexit 1\n");
    assert_int_equal(chmod(path, 0700), 0);
    assert_fails(at_stranger_open(here.path, &tools, &stranger), ATTUNE_COMPILE_ERROR, "in /tmp/attune-");
}

/* Some systems' compilers check stacks and sizes unasked, by functions that no kernel may call. */
static void compilers_that_check_by_default(void **state)
{
    char path[PATH_MAX];
    at_stranger *stranger;
    at_recipe recipe;
    (void)state;
    fresh();
    const at_stranger_tools tools = {.compiler = folder_path(&here, "cc", path)};
    put_descriptor("mine.c", false);
    put("mine.kernel.c", "#include <string.h>\n#include \"attune/kernel.h\"\n"
                         "void ATTUNE_TIER(mine)(const attune_args *args, int64_t item, void *scratch);\n"
                         "void ATTUNE_TIER(mine)(const attune_args *args, int64_t item, void *scratch)\n"
                         "{ char text[64]; memcpy(text, scratch, (size_t)item); "
                         "memcpy(args->tensor[0].data, text, (size_t)item); }\n");
    put("cc", "#!/bin/sh\nexec cc -fstack-protector-all -D_FORTIFY_SOURCE=2 \"$@\"\n");
    assert_int_equal(chmod(path, 0700), 0);
    assert_ok(at_stranger_open(here.path, &tools, &stranger));
    assert_ok(asked(stranger, "b1,h1,s8,d64,fp32", "", &recipe));
    at_stranger_close(stranger);
}

/* Folders of ours in a temporary directory's place, before and after. */
static void nothing_is_left_behind(void **state)
{
    char place[PATH_MAX];
    (void)state;
    fresh();
    put_descriptor("mine.c", true);
    put("mine.cu", "");
    assert_int_equal(mkdir(folder_path(&here, "tmp", place), 0700), 0);
    assert_int_equal(setenv("TMPDIR", place, 1), 0);
    at_stranger *stranger = opened();
    folder inside;
    (void)snprintf(inside.path, sizeof inside.path, "%.60s", place);
    assert_int_equal(folder_count(&inside), 1);
    at_stranger_close(stranger);
    assert_int_equal(folder_count(&inside), 0);
    assert_int_equal(unsetenv("TMPDIR"), 0);
}

static int make_folder(void **state)
{
    (void)state;
    return folder_make(&here);
}

static int drop_folder(void **state)
{
    (void)state;
    remove_below("parts");
    remove_below("tmp");
    folder_remove(&here);
    return 0;
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(folders_of_abi_2),
        cmocka_unit_test(folders_that_are_none),
        cmocka_unit_test(configs_are_asked_for_until_one_fits),
        cmocka_unit_test(each_question_is_put_once),
        cmocka_unit_test(code_runs_only_where_it_is_expected),
        cmocka_unit_test(kernels_of_one_name_are_two_arms),
        cmocka_unit_test(sources_bring_what_they_include),
        cmocka_unit_test(headers_of_a_cpu_kernel_are_its_own),
        cmocka_unit_test(dates_are_refused),
        cmocka_unit_test(no_sandbox_no_strangers),
        cmocka_unit_test(compilers_have_a_folder_of_ours),
        cmocka_unit_test(compilers_that_check_by_default),
        cmocka_unit_test(nothing_is_left_behind),
    };
    if (argc > 1) {
        return at_cli_main(argc, (const char *const *)argv, stdout, stderr);
    }
    zoo_calm_sanitizers();
    return cmocka_run_group_tests_name("stranger", tests, make_folder, drop_folder);
}
