/* Verdicts of before digests of code existed get theirs where the tree gives what they were of, and no others do. The
 * tree is this one, its objects' digests are this build's. */
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/folder.h"
#include "cpu/cpu.h"
#include "cpu/source.h"
#include "cuda/cuda.h"
#include "cuda/fixture.h"
#include "evidence/evidence.h"
#include "judge/verdicts.h"
#include "library/catalogue.h"
#include "library/wisdom.h"

#define COMMIT "0123456789abcdef"

int carry_evidence(int count, char **argument); /* the tool's main */

typedef struct files {
    folder in, wisdom, cache, cubins;
    at_verdict *verdict; /* as the old gate left it: without the digest of its code */
} files;

static files *open_files(void)
{
    scene of = scene_of(11.5, 12);
    of.processes = 2;
    files *on = calloc(1, sizeof *on);
    assert_non_null(on);
    assert_int_equal(folder_make(&on->in), 0);
    assert_int_equal(folder_make(&on->wisdom), 0);
    assert_int_equal(folder_make(&on->cache), 0);
    assert_true(snprintf(on->cubins.path, sizeof on->cubins.path, "%.40s/cuda", on->cache.path) > 0);
    assert_int_equal(mkdir(on->cubins.path, 0700), 0);
    on->verdict = verdicts_make(&of);
    return on;
}

static void close_files(files *on)
{
    folder_remove(&on->cubins);
    folder_remove(&on->cache);
    folder_remove(&on->wisdom);
    folder_remove(&on->in);
    at_verdict_destroy(on->verdict);
    free(on);
}

/* The verdict as the only one of a plain file, and a proven row that names it. */
static void keep(files *on)
{
    char *text, digest[AT_DIGEST_TEXT_MAX];
    assert_ok(at_verdict_judge(on->verdict));
    assert_ok(at_verdict_print(on->verdict, &text, digest));
    free(text);
    assert_ok(at_evidence_add(folder_file(&on->in, "kernel.json"), on->verdict));
    const at_wisdom_row row = {AT_PROVEN, "fwd,bh8,g1,sq512,skv512,d64,dv64,fp16", "cuda/NVIDIA_H200/90a",
                               on->verdict->kernel, digest};
    assert_ok(at_wisdom_file_add(folder_file(&on->wisdom, "mine.wisdom"), &row));
}

static int carry(files *on)
{
    char *const argument[] = {"carry_evidence",
                              on->in.path,
                              on->wisdom.path,
                              COMMIT,
                              ATTUNE_SOURCE_DIR,
                              on->cache.path,
                              ATTUNE_BINARY_DIR "/cpu_codes.c"};
    return carry_evidence(7, (char **)argument);
}

/* What the file has now: the digest of its code, where it is from, all else as before; and the row names it still. */
static void expect_carried(files *on, const char *code, const char *commit)
{
    at_evidence evidence;
    at_wisdom *wisdom;
    char *before, *after, digest[AT_DIGEST_TEXT_MAX];
    assert_int_equal(access(folder_file(&on->in, "kernel.json"), F_OK), -1);
    assert_ok(at_evidence_read(folder_file(&on->in, "kernel.json.gz"), &evidence));
    assert_int_equal(evidence.count, 1);
    assert_string_equal(evidence.entry[0].what, "");
    assert_string_equal(evidence.entry[0].verdict->build.code, code);
    assert_string_equal(evidence.entry[0].verdict->build.carried, commit);
    assert_ok(at_wisdom_create(&wisdom));
    assert_ok(at_wisdom_file_read(folder_file(&on->wisdom, "mine.wisdom"), wisdom));
    assert_int_equal(at_wisdom_count(wisdom), 1);
    assert_string_equal(at_wisdom_at(wisdom, 0)->verdict, evidence.entry[0].digest);
    (void)snprintf(on->verdict->build.code, sizeof on->verdict->build.code, "%s", code);
    (void)snprintf(on->verdict->build.carried, sizeof on->verdict->build.carried, "%s", commit);
    assert_ok(at_verdict_print(on->verdict, &before, digest));
    assert_ok(at_verdict_print(evidence.entry[0].verdict, &after, digest));
    assert_string_equal(before, after);
    free(before);
    free(after);
    at_wisdom_destroy(wisdom);
    at_evidence_close(&evidence);
}

static char other(char digit)
{
    return digit == '0' ? '1' : '0';
}

static files *open_cpu(char code[AT_DIGEST_TEXT_MAX])
{
    files *on = open_files();
    at_build_facts *build = &on->verdict->build;
    assert_ok(at_cpu_probe(ATTUNE_ISA_BASELINE, 2, &on->verdict->target));
    (void)snprintf(on->verdict->kernel, sizeof on->verdict->kernel, "cpu_tiled:BLOCK_M=8");
    (void)snprintf(build->compiler, sizeof build->compiler, "%s", at_cpu_compiler());
    assert_ok(at_cpu_source_digest("cpu_tiled", build->source));
    assert_ok(at_cpu_code_digest("cpu_tiled", ATTUNE_ISA_BASELINE, code));
    return on;
}

static void the_code_of_a_cpu_kernel_is_carried(void **state)
{
    (void)state;
    char code[AT_DIGEST_TEXT_MAX];
    files *on = open_cpu(code);
    keep(on);
    assert_int_equal(carry(on), 0);
    expect_carried(on, code, COMMIT);
    assert_int_equal(carry(on), 0); /* what was carried stays so */
    expect_carried(on, code, COMMIT);
    close_files(on);
}

static void another_source_compiler_or_kernel_is_not_carried(void **state)
{
    (void)state;
    for (int change = 0; change < 3; ++change) {
        char code[AT_DIGEST_TEXT_MAX];
        files *on = open_cpu(code);
        if (change == 0) {
            on->verdict->build.source[0] = other(on->verdict->build.source[0]);
        } else if (change == 1) {
            (void)snprintf(on->verdict->build.compiler, sizeof on->verdict->build.compiler, "gcc 2.7.2");
        } else {
            (void)snprintf(on->verdict->kernel, sizeof on->verdict->kernel, "cpu_decode");
        }
        keep(on);
        assert_int_equal(carry(on), 0);
        expect_carried(on, "", "");
        close_files(on);
    }
}

static void a_digest_of_its_own_stays(void **state)
{
    (void)state;
    char code[AT_DIGEST_TEXT_MAX];
    files *on = open_cpu(code);
    memset(on->verdict->build.code, 'c', AT_DIGEST_TEXT_MAX - 1);
    memcpy(code, on->verdict->build.code, sizeof code);
    keep(on);
    assert_int_equal(carry(on), 0);
    expect_carried(on, code, "");
    close_files(on);
}

/* Fills the cache as `attune verify` of that tree does; false where there is no compiler. */
static bool make_cubin(files *on, at_cuda_usage *usage)
{
    const attune_kernel *kernel = at_catalogue_find("minimal");
    at_nvrtc *nvrtc = fixture_compiler();
    attune_problem problem;
    attune_config config;
    if (nvrtc == NULL) {
        return false;
    }
    at_nvrtc_close(nvrtc);
    assert_ok(attune_problem_parse(on->verdict->problem, &problem));
    assert_true(kernel->heuristic(&problem, &on->verdict->target, 0, &config));
    at_config_print(kernel, &config, on->verdict->kernel);
    assert_ok(at_cuda_inspect(kernel, &problem, &on->verdict->target, &config, on->cache.path, usage));
    memcpy(on->verdict->build.cubin, usage->cubin, sizeof usage->cubin);
    return true;
}

static void a_cubin_is_carried_where_the_tree_gives_it_again(void **state)
{
    (void)state;
    at_cuda_usage usage;
    files *same = open_files(), *changed = open_files();
    bool compiled = make_cubin(same, &usage) && make_cubin(changed, &usage);
    if (compiled) {
        keep(same);
        assert_int_equal(carry(same), 0);
        expect_carried(same, usage.runs, COMMIT);
        changed->verdict->build.cubin[0] = other(changed->verdict->build.cubin[0]);
        keep(changed);
        assert_int_equal(carry(changed), 0);
        expect_carried(changed, "", "");
    }
    close_files(same);
    close_files(changed);
    if (!compiled) {
        skip();
    }
}

static void what_cannot_be_read_is_an_error(void **state)
{
    (void)state;
    char code[AT_DIGEST_TEXT_MAX];
    files *on = open_cpu(code);
    keep(on);
    assert_int_equal(carry_evidence(2, (char *[]){"carry_evidence", on->in.path}), 2);
    assert_int_equal(rmdir(on->cubins.path), 0);
    assert_int_equal(carry(on), 1);
    assert_int_equal(access(folder_file(&on->in, "kernel.json"), F_OK), 0); /* as it was */
    assert_int_equal(folder_count(&on->in), 1);
    close_files(on);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_code_of_a_cpu_kernel_is_carried),
        cmocka_unit_test(another_source_compiler_or_kernel_is_not_carried),
        cmocka_unit_test(a_digest_of_its_own_stays),
        cmocka_unit_test(a_cubin_is_carried_where_the_tree_gives_it_again),
        cmocka_unit_test(what_cannot_be_read_is_an_error),
    };
    return cmocka_run_group_tests_name("tools.carry_evidence", tests, NULL, NULL);
}
