/* Whether evidence still holds: fresh, stale, unchecked and broken, and archives of it. */
#include <stdlib.h>

#include "base/file.h"
#include "base/folder.h"
#include "cpu/cpu.h"
#include "cpu/source.h"
#include "cuda/compiler.h"
#include "cuda/cuda.h"
#include "cuda/provide.h"
#include "evidence/verify.h"
#include "judge/verdicts.h"
#include "library/catalogue.h"

static at_evidence_entry judged(const char *kernel)
{
    scene of = scene_of(11.5, 12);
    of.processes = 2;
    at_evidence_entry entry = {.verdict = verdicts_make(&of)};
    (void)snprintf(entry.verdict->kernel, AT_KERNEL_TEXT_MAX, "%s", kernel);
    assert_ok(at_verdict_judge(entry.verdict));
    return entry;
}

static void expect(at_evidence_entry *entry, at_freshness state, const char *words)
{
    at_record record = {0};
    assert_ok(at_verify(entry, ATTUNE_KERNEL_CACHE, &record));
    if (record.state != state || strstr(record.why, words) == NULL) {
        fail_msg("%s: \"%s\", expected %s: \"%s\"", at_freshness_name(record.state), record.why,
                 at_freshness_name(state), words);
    }
}

static char changed(char digit)
{
    return digit == '0' ? '1' : '0';
}

/* ---- CPU --------------------------------------------------------------------------------------------------------- */

static void cpu_kernels_are_bound_to_their_code(void **state)
{
    (void)state;
    at_evidence_entry entry = judged("cpu_tiled");
    at_verdict *verdict = entry.verdict;
    const attune_kernel *kernel = at_catalogue_find("cpu_tiled");
    attune_problem problem;
    attune_config config;
    assert_ok(at_cpu_probe(ATTUNE_ISA_BASELINE, 2, &verdict->target));
    assert_ok(attune_problem_parse(verdict->problem, &problem));
    assert_true(kernel->heuristic(&problem, &verdict->target, 0, &config));
    at_config_print(kernel, &config, verdict->kernel);
    assert_ok(at_cpu_source_digest("cpu_tiled", verdict->build.source));
    (void)snprintf(verdict->build.compiler, sizeof verdict->build.compiler, "%s", at_cpu_compiler());
    expect(&entry, AT_FRESH, "");
    assert_ok(at_cpu_code_digest("cpu_tiled", ATTUNE_ISA_BASELINE, verdict->build.code));
    expect(&entry, AT_FRESH, "");
    verdict->build.code[0] = changed(verdict->build.code[0]);
    expect(&entry, AT_UNCHECKED, "built with other options");
    verdict->build.source[0] = changed(verdict->build.source[0]);
    expect(&entry, AT_STALE, "today's source gives the code");
    assert_ok(at_cpu_code_digest("cpu_tiled", ATTUNE_ISA_BASELINE, verdict->build.code));
    expect(&entry, AT_FRESH, ""); /* another source, the same code */
    verdict->build.code[0] = '\0';
    expect(&entry, AT_STALE, "its source has changed");
    (void)snprintf(verdict->build.compiler, sizeof verdict->build.compiler, "tcc 0.9");
    expect(&entry, AT_UNCHECKED, "it was compiled by tcc 0.9");
    (void)snprintf(verdict->kernel, sizeof verdict->kernel, "cpu_tiled:BLOCK_M=63");
    expect(&entry, AT_STALE, "BLOCK_M");
    at_verdict_destroy(verdict);
}

/* ---- CUDA -------------------------------------------------------------------------------------------------------- */

static void cuda_kernels_are_bound_to_their_code(void **state)
{
    (void)state;
    if (nvrtc == NULL) {
        skip();
    }
    at_evidence_entry entry = judged("tiled");
    at_verdict *verdict = entry.verdict;
    const attune_kernel *kernel = at_catalogue_find("tiled");
    attune_problem problem;
    attune_config config;
    at_cuda_usage usage;
    verdict->target.compiler = nvrtc->version;
    assert_ok(attune_problem_parse(verdict->problem, &problem));
    assert_true(kernel->heuristic(&problem, &verdict->target, 0, &config));
    at_config_print(kernel, &config, verdict->kernel);
    assert_ok(at_cuda_inspect(kernel, &problem, &verdict->target, &config, ATTUNE_KERNEL_CACHE, &usage));
    memcpy(verdict->build.cubin, usage.cubin, sizeof usage.cubin);
    verdict->build.threads = usage.threads;
    verdict->build.smem_bytes = usage.smem_bytes;
    expect(&entry, AT_FRESH, "");
    verdict->build.cubin[0] = changed(verdict->build.cubin[0]);
    expect(&entry, AT_STALE, "today's source gives the code");
    memcpy(verdict->build.code, usage.runs, sizeof usage.runs);
    expect(&entry, AT_FRESH, ""); /* another file, the same code */
    verdict->build.threads *= 2;
    expect(&entry, AT_STALE, "in blocks of");
    verdict->build.threads /= 2;
    verdict->build.code[0] = changed(verdict->build.code[0]);
    expect(&entry, AT_STALE, "today's source gives the code");
    memcpy(verdict->build.source, usage.build, sizeof usage.build);
    expect(&entry, AT_UNCHECKED, "the source is the same: another build of the compiler");
    verdict->target.compiler = 12080;
    expect(&entry, AT_UNCHECKED, "nvrtc 12.8 made its code");
    at_verdict_destroy(verdict);
}

static char *with_comments(const char *text)
{
    char *more;
    const char *line = strchr(strstr(text, "#include"), '\n') + 1;
    assert_true(asprintf(&more, "// one\n\n%.*s/* two\n */\n\n%s\n\n// the end\n", (int)(line - text), text, line) > 0);
    return more;
}

static void digest_of_code(const attune_kernel *kernel, const char *text, char digest[AT_DIGEST_TEXT_MAX])
{
    at_embedded *files;
    attune_target target = fixture_target(90);
    attune_problem problem;
    attune_config config;
    at_recipe recipe;
    at_build build;
    at_artifact artifact;
    int count = 0;
    while (at_cuda_sources[count].name != NULL) {
        ++count;
    }
    files = calloc((size_t)count + 1, sizeof *files);
    assert_non_null(files);
    for (int i = 0; i < count; ++i) {
        files[i] = at_cuda_sources[i];
        if (strcmp(files[i].name, kernel->source) == 0 && text != NULL) {
            files[i].data = (const unsigned char *)text;
            files[i].size = strlen(text);
        }
    }
    assert_ok(attune_problem_parse("b1,h8,s512,d64,fp16", &problem));
    assert_true(kernel->heuristic(&problem, &target, 0, &config));
    at_recipe_ask(kernel, &problem, &target, &config, &recipe);
    recipe.sources = files;
    assert_ok(at_build_gather(&recipe, &target, &build));
    assert_ok(at_compile(nvrtc, &build, &artifact));
    at_digest_of(artifact.cubin, artifact.cubin_bytes, digest);
    at_artifact_free(&artifact);
    free(files);
}

static void comments_and_blank_lines_do_not_change_cubins(void **state)
{
    (void)state;
    char plain[AT_DIGEST_TEXT_MAX], commented[AT_DIGEST_TEXT_MAX], changed[AT_DIGEST_TEXT_MAX];
    const attune_kernel *kernel = at_catalogue_find("minimal");
    const at_embedded *file = at_cuda_sources;
    if (nvrtc == NULL) {
        skip();
    }
    while (strcmp(file->name, kernel->source) != 0) {
        ++file;
    }
    char *text = with_comments((const char *)file->data);
    digest_of_code(kernel, NULL, plain);
    digest_of_code(kernel, text, commented);
    assert_string_equal(plain, commented);
    free(text);
    assert_true(asprintf(&text, "%s\nextern \"C\" __global__ void other() {}\n", (const char *)file->data) > 0);
    digest_of_code(kernel, text, changed);
    assert_string_not_equal(plain, changed);
    free(text);
}

/* ---- Whatever the target ----------------------------------------------------------------------------------------- */

static void other_findings_are_broken(void **state)
{
    (void)state;
    at_evidence_entry entry = judged("tiled");
    at_verdict *verdict = entry.verdict;
    verdict->right = AT_FAIL;
    expect(&entry, AT_BROKEN, "recorded as right: fail");
    verdict->speed[1].ratio[AT_MODE_WARM].median_r *= 1.001;
    expect(&entry, AT_BROKEN, "do not give the recorded warm against torch:flash");
    verdict->finding[AT_STAGE_SANITY].outcome = AT_FAIL;
    expect(&entry, AT_BROKEN, "the stage sanity is recorded as fail, and is pass");
    verdict->control[AT_CONTROL_TWIN].outcome = AT_FAIL;
    expect(&entry, AT_BROKEN, "the control twin");
    verdict->session.block[0].us[0][0] = 0;
    expect(&entry, AT_BROKEN, "a sample of");
    at_verdict_destroy(verdict);
}

static void what_cannot_be_made_here_is_said(void **state)
{
    (void)state;
    at_evidence_entry entry = judged("nosuch:A=1");
    expect(&entry, AT_STALE, "there is no kernel nosuch");
    if (at_catalogue_left_out("cutlass") != NULL) { /* as in builds without CUTLASS's headers */
        (void)snprintf(entry.verdict->kernel, sizeof entry.verdict->kernel, "cutlass:OPCLASS=1");
        expect(&entry, AT_UNCHECKED, "this build is without kernel cutlass: it is built ahead");
    }
    entry.verdict->stranger = true;
    expect(&entry, AT_UNCHECKED, "a stranger's");
    at_verdict_destroy(entry.verdict);
    at_evidence_entry broken = {.status = ATTUNE_CORRUPT, .what = "file: verdict 3 was changed"};
    expect(&broken, AT_BROKEN, "verdict 3 was changed");
}

/* ---- Archives ---------------------------------------------------------------------------------------------------- */

static void keep(const folder *f, const char *kernel, const char *problem, const char *when)
{
    at_evidence_entry entry = judged(kernel);
    char path[PATH_MAX];
    entry.verdict->options.quick = strstr(kernel, "QUICK") != NULL;
    assert_ok(at_verdict_judge(entry.verdict));
    (void)snprintf(entry.verdict->problem, ATTUNE_PROBLEM_TEXT_MAX, "%s", problem);
    (void)snprintf(entry.verdict->when, sizeof entry.verdict->when, "%s", when);
    assert_ok(at_evidence_add(folder_path(f, strchr(kernel, 'b') != NULL ? "b.json" : "a.json", path), entry.verdict));
    at_verdict_destroy(entry.verdict);
}

static void archives_are_in_order_and_know_the_newest(void **state)
{
    (void)state;
    folder f;
    at_archive archive;
    char path[PATH_MAX];
    assert_int_equal(folder_make(&f), 0);
    keep(&f, "b:X=2", "b1,h1,s64,d64,fp16", "2026-03-01T00:00:00Z");
    keep(&f, "a:X=1", "b1,h1,s64,d64,fp16", "2026-02-01T00:00:00Z");
    keep(&f, "a:X=2", "b1,h1,s64,d64,fp16", "2026-01-01T00:00:00Z");
    keep(&f, "a:X=1", "b1,h1,s32,d64,fp16", "2026-01-01T00:00:00Z");
    keep(&f, "a:QUICK=1", "b1,h1,s64,d64,fp16", "2026-04-01T00:00:00Z");
    keep(&f, "b:QUICK=1", "b1,h1,s32,d64,fp16", "2026-04-01T00:00:00Z");
    assert_ok(at_file_write(folder_path(&f, "c.json", path), "{}", 2));
    assert_ok(at_archive_open(f.path, "", &archive));
    assert_int_equal(archive.count, 7);
    assert_int_equal(archive.record[0].state, AT_BROKEN);
    assert_null(archive.record[0].entry);
    static const struct {
        const char *kernel, *problem, *when;
        bool newest;
    } order[] = {
        {"a:X=1", "b1,h1,s32,d64,fp16", "2026-01-01T00:00:00Z", true},
        {"a:X=2", "b1,h1,s64,d64,fp16", "2026-01-01T00:00:00Z", false},
        {"a:X=1", "b1,h1,s64,d64,fp16", "2026-02-01T00:00:00Z", true},
        {"a:QUICK=1", "b1,h1,s64,d64,fp16", "2026-04-01T00:00:00Z", false},
        {"b:QUICK=1", "b1,h1,s32,d64,fp16", "2026-04-01T00:00:00Z", true},
        {"b:X=2", "b1,h1,s64,d64,fp16", "2026-03-01T00:00:00Z", true},
    };
    for (size_t i = 0; i < 6; ++i) {
        const at_record *record = &archive.record[i + 1];
        assert_string_equal(record->entry->verdict->kernel, order[i].kernel);
        assert_string_equal(record->entry->verdict->problem, order[i].problem);
        assert_string_equal(record->entry->verdict->when, order[i].when);
        assert_int_equal(record->newest, order[i].newest);
        assert_int_equal(record->state, AT_STALE);
    }
    at_archive_close(&archive);
    assert_fails(at_archive_open("/nowhere", "", &archive), ATTUNE_NOT_FOUND, "/nowhere");
    folder_remove(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cpu_kernels_are_bound_to_their_code),
        cmocka_unit_test(cuda_kernels_are_bound_to_their_code),
        cmocka_unit_test(comments_and_blank_lines_do_not_change_cubins),
        cmocka_unit_test(other_findings_are_broken),
        cmocka_unit_test(what_cannot_be_made_here_is_said),
        cmocka_unit_test(archives_are_in_order_and_know_the_newest),
    };
    return cmocka_run_group_tests(tests, open_compiler, close_compiler);
}
