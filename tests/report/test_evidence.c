/* Evidence as a page: its form, its marks, and words that stay words. */
#include "base/file.h"
#include "base/folder.h"
#include "cli/command.h"
#include "evidence/evidence.h"
#include "judge/verdicts.h"
#include "report/evidence.h"

static folder f;

static int make(void **state)
{
    (void)state;
    return folder_make(&f);
}

static int clean(void **state)
{
    (void)state;
    folder_remove(&f);
    return 0;
}

/* A verdict in the folder, of a problem, after a change. */
static void keep(const char *kernel, const char *problem, void (*change)(at_verdict *verdict))
{
    char path[PATH_MAX];
    scene of = scene_of(12, 14);
    at_verdict *verdict = verdicts_make(&of);
    (void)snprintf(verdict->kernel, sizeof verdict->kernel, "%s", kernel);
    (void)snprintf(verdict->problem, sizeof verdict->problem, "%s", problem);
    if (change != NULL) {
        change(verdict);
    }
    assert_ok(at_verdict_judge(verdict));
    assert_ok(at_evidence_add(folder_path(&f, "some.json", path), verdict));
    at_verdict_destroy(verdict);
}

static char *page_of(void)
{
    at_archive archive;
    char *page;
    size_t bytes;
    assert_ok(at_archive_open(f.path, "", &archive));
    assert_ok(at_report_evidence_page(&archive, 0, &page, &bytes));
    assert_int_equal(strlen(page), bytes);
    at_archive_close(&archive);
    return page;
}

static int count_of(const char *text, const char *words)
{
    int count = 0;
    for (; (text = strstr(text, words)) != NULL; ++text) {
        ++count;
    }
    return count;
}

static void holds(const char *text, const char *words)
{
    if (strstr(text, words) == NULL) {
        fail_msg("the page lacks \"%s\"", words);
    }
}

/* Every element that begins ends, in order, and nothing but elements begins with "<": the page is XML too. */
static void is_well_formed(const char *page)
{
    enum { DEEPEST = 16, LONGEST = 16 };
    char open[DEEPEST][LONGEST];
    int depth = 0;
    assert_memory_equal(page, "<!DOCTYPE html>\n", 16);
    for (const char *at = page + 15; (at = strchr(at, '<')) != NULL; ++at) {
        const char *end = strchr(at, '>');
        assert_non_null(end);
        bool closes = at[1] == '/';
        const char *tag = at + (closes ? 2 : 1);
        int length = (int)strcspn(tag, " />\n");
        assert_in_range(length, 1, LONGEST - 1);
        if (closes) {
            if (depth == 0 || strncmp(open[depth - 1], tag, (size_t)length) != 0 || open[depth - 1][length] != '\0') {
                fail_msg("%.*s ends and has not begun", length, tag);
            }
            --depth;
        } else if (end[-1] != '/') {
            assert_in_range(depth, 0, DEEPEST - 1);
            (void)snprintf(open[depth++], LONGEST, "%.*s", length, tag);
        }
    }
    assert_int_equal(depth, 0);
    assert_int_equal(count_of(page, "<script"), count_of(page, "<script>\n"));
    assert_null(strstr(page, "http"));
    assert_null(strstr(page, "src="));
    assert_null(strstr(page, "nan"));
}

static void every_verdict_has_its_marks(void **state)
{
    (void)state;
    static const char *const kernels[] = {"tiled:BLOCK_M=64,BLOCK_N=64", "wmma:WARPS=2"};
    static const char *const problems[] = {"b1,h8,s512,d64,fp16", "b1,h8,s1024,d64,fp16", "b1,h8,s512,d64,fp16,causal"};
    for (int i = 0; i < 6; ++i) {
        keep(kernels[i % 2], problems[i / 2], NULL);
    }
    char *page = page_of();
    is_well_formed(page);
    assert_int_equal(count_of(page, "<circle class=\"mark\""), 6 + 2 * 6); /* small; speed, and roofline */
    assert_int_equal(count_of(page, "<svg class=\"bar\""), 6);             /* a row each of the summary */
    assert_int_equal(count_of(page, "<svg role"), 2 + 2 + 1 + 3);          /* masks; questions, devices, problems */
    assert_int_equal(count_of(page, "<table class=\"rows\">"), 3);
    assert_int_equal(count_of(page, "<table class=\"sort\">"), 1);
    assert_true(strstr(page, "<h2>Summary</h2>") < strstr(page, "<details>"));
    assert_int_equal(count_of(page, "<tr><td>NVIDIA_<wbr/>H200</td>"), 6); /* wraps where it is long */
    holds(page, "<h3>NVIDIA_H200, head dim 64, no mask: h8,d64,fp16</h3>");
    holds(page, "<h3>NVIDIA_H200, head dim 64, causal: h8,d64,fp16,causal</h3>");
    holds(page, "tiled, b1,h8,s1024,d64,fp16:");
    holds(page, "6 verdicts: 0 fresh, ");
    free(page);
}

static void floors(at_verdict *verdict)
{
    for (int mode = 0; mode < AT_MODE_COUNT; ++mode) {
        verdict->session.policy.floor_us[mode] = 0.536870912; /* at 1000 TFLOP/s */
    }
}

static void cold_floors(at_verdict *verdict)
{
    floors(verdict);
    verdict->session.policy.floor_us[AT_MODE_COLD] = 2.097152; /* 2 MiB at 1 TB/s */
}

static void ceilings_are_those_of_the_evidence(void **state)
{
    (void)state;
    keep("tiled", "b1,h8,s512,d64,fp16", NULL);
    char *page = page_of();
    holds(page, "records no ceilings");
    free(page);
    keep("tiled", "b1,h8,s512,d64,fp16", floors);
    page = page_of();
    holds(page, "fp16: 1000 TFLOP/s");
    holds(page, "no slope is drawn");
    free(page);
    keep("tiled", "b1,h8,s512,d64,fp16", cold_floors);
    page = page_of();
    is_well_formed(page);
    holds(page, "1.000 TB/s");
    free(page);
}

static void name_badly(at_verdict *verdict)
{
    (void)snprintf(verdict->arm[1].name, sizeof verdict->arm[1].name, "py:<script>&\"a'.py:f");
    (void)snprintf(verdict->target.model, sizeof verdict->target.model, "<b>&\"\x01");
    (void)snprintf(verdict->wrong_kernel.detail, AT_SENTENCE_MAX, "</pre><i>");
    verdict->stage[AT_STAGE_CORRECTNESS].status = ATTUNE_WRONG_RESULT;
    (void)snprintf(verdict->stage[AT_STAGE_CORRECTNESS].detail, AT_SENTENCE_MAX, "</pre><i>");
}

static void words_stay_words(void **state)
{
    (void)state;
    keep("<u>tiled</u>:A=1", "b1,h8,s512,d64,fp16", name_badly);
    char *page = page_of();
    is_well_formed(page);
    holds(page, "py:&lt;script&gt;&amp;&quot;a'.py:f");
    holds(page, "&lt;b&gt;&amp;&quot;");
    holds(page, "&lt;u&gt;tiled&lt;/u&gt;");
    holds(page, "&lt;/pre&gt;&lt;i&gt;");
    free(page);
}

static void never_time(at_verdict *verdict)
{
    at_session_close(&verdict->session);
    verdict->stage[AT_STAGE_SPEED] = (at_stage_run){0};
    verdict->stage[AT_STAGE_LAUNCH].status = ATTUNE_UNSUPPORTED;
}

static void what_was_not_timed_has_a_row_and_no_mark(void **state)
{
    (void)state;
    keep("tiled", "b1,h8,s512,d64,fp16", never_time);
    char *page = page_of();
    is_well_formed(page);
    assert_int_equal(count_of(page, "class=\"mark\""), 0);
    holds(page, "Nothing was timed.");
    holds(page, "<td>tiled</td>");
    free(page);
}

/* What is wrong is said as the text form says it. */
static void same_as_text(const char *path)
{
    outcome text = COMMAND("report", path), page = COMMAND("report", path, "--format", "html");
    assert_int_equal(page.code, text.code);
    assert_string_equal(page.err, text.err);
    outcome_free(&text);
    outcome_free(&page);
}

static void errors_are_those_of_the_text(void **state)
{
    (void)state;
    char path[PATH_MAX];
    same_as_text(f.path);
    same_as_text("/nowhere");
    char *page = page_of();
    is_well_formed(page);
    holds(page, "0 verdicts");
    free(page);
    keep("tiled", "b1,h8,s512,d64,fp16", NULL);
    assert_ok(at_file_write(folder_path(&f, "other.json", path), "{}", 2));
    same_as_text(f.path);
    page = page_of();
    is_well_formed(page);
    holds(page, "field &quot;format&quot; is nothing");
    holds(page, "1 broken");
    free(page);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make, clean)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_verdict_has_its_marks),
        TEST(ceilings_are_those_of_the_evidence),
        TEST(words_stay_words),
        TEST(what_was_not_timed_has_a_row_and_no_mark),
        TEST(errors_are_those_of_the_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
