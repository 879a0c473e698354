/* Answers of proposers: fences, diffs, what they say of themselves, and the folders that they edit. */
#include "base/cm.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/scratch.h"
#include "evolve/proposer_answer.h"

static const char kernel[] = "one\ntwo\nthree\nfour\nfive\nsix\n";

static void begin(at_sources *sources)
{
    *sources = (at_sources){.count = 0};
    assert_ok(at_sources_put(sources, "mine.kernel.c", kernel, strlen(kernel)));
    assert_ok(at_sources_put(sources, "mine.c", "descriptor\n", 11));
}

static attune_status answer(at_sources *sources, const char *text, at_answer_form *form)
{
    return at_answer_apply(text, strlen(text), sources, form);
}

static void expect(const char *text, at_answer_form wanted, const char *name, const char *content)
{
    at_sources sources;
    at_answer_form form;
    begin(&sources);
    assert_ok(answer(&sources, text, &form));
    assert_int_equal(form, wanted);
    assert_non_null(at_sources_find(&sources, name));
    assert_string_equal(at_sources_find(&sources, name)->data, content);
    at_sources_free(&sources);
}

static void whole_files_in_fences(void **state)
{
    (void)state;
    expect("Here it is:\n```c mine.kernel.c\nnew\n```\nGood luck.\n", AT_ANSWER_FILES, "mine.kernel.c", "new\n");
    expect("```mine.kernel.c\nnew\n```", AT_ANSWER_FILES, "mine.kernel.c", "new\n");
    expect("```c:candidate/mine.kernel.c\r\nnew\n```\r\n", AT_ANSWER_FILES, "mine.kernel.c", "new\n");
    expect("~~~~c path=\"./mine.kernel.c\"\nnew\n```\n~~~\n~~~~\n", AT_ANSWER_FILES, "mine.kernel.c",
           "new\n```\n~~~\n");
    expect("```c\nnot this\n```\n```cuda device/more.cuh\nx\n```\n", AT_ANSWER_FILES, "device/more.cuh", "x\n");
    expect("no answer, ``` and so on", AT_ANSWER_NONE, "mine.kernel.c", kernel);
    expect("", AT_ANSWER_NONE, "mine.kernel.c", kernel);
}

static void diffs(void **state)
{
    (void)state;
    const char *const good = "--- a/mine.kernel.c\n+++ b/mine.kernel.c\n@@ -2,3 +2,3 @@\n two\n-three\n+THREE\n four\n";
    expect(good, AT_ANSWER_DIFF, "mine.kernel.c", "one\ntwo\nTHREE\nfour\nfive\nsix\n");
    /* In a fence, at another line than it says, with two hunks, and words around it. */
    expect("Sure.\n```diff\n--- a/mine.kernel.c\t2026\n+++ b/mine.kernel.c\n@@ -40,2 +40,1 @@ attend()\n five\n-six\n"
           "@@ -1 +1,2 @@\n one\n+and\n```\nDone.\n",
           AT_ANSWER_DIFF, "mine.kernel.c", "one\nand\ntwo\nthree\nfour\nfive\n");
    expect("--- /dev/null\n+++ b/more.h\n@@ -0,0 +1,2 @@\n+a\n+b\n", AT_ANSWER_DIFF, "more.h", "a\nb\n");
    at_sources sources;
    at_answer_form form;
    begin(&sources);
    assert_ok(answer(&sources, "--- a/mine.c\n+++ /dev/null\n@@ -1 +0,0 @@\n-descriptor\n", &form));
    assert_null(at_sources_find(&sources, "mine.c"));
    at_sources_free(&sources);
}

/* Nothing of an answer that is refused is applied. */
static void what_is_refused_changes_nothing(void **state)
{
    (void)state;
    static const struct {
        const char *text, *words;
    } bad[] = {
        {"```c ../mine.kernel.c\nx\n```\n", "relative names"},
        {"```c /etc/passwd.c\nx\n```\n", "relative names"},
        {"```c .git/config.c\nx\n```\n", "hidden"},
        {"```c run.sh\nx\n```\n", "sources end in .c"},
        {"```c mine.kernel.c\nx\n", "cut off"},
        {"```c mine.c\nx\n```\n```c mine.kernel.c\nx\n", "cut off"},
        {"--- a/mine.kernel.c\n+++ b/mine.kernel.c\n", "cut off"},
        {"--- a/mine.kernel.c\n+++ b/mine.kernel.c\n@@ -2,3 +2,3 @@\n two\n-three\n", "cut off"},
        {"--- a/mine.kernel.c\n+++ b/mine.kernel.c\n@@ -2,3 +2,3 @@\n two\n-thrice\n+3\n four\n", "to the letter"},
        {"--- a/mine.kernel.c\n+++ b/mine.kernel.c\n@@ hello @@\n two\n", "no head of a hunk"},
        {"--- a/mine.kernel.c\n+++ b/mine.kernel.c\n@@ -9999999999,99999999 +1,1 @@\n", "no head of a hunk"},
        {"--- a/theirs.c\n+++ b/theirs.c\n@@ -1 +1 @@\n-a\n+b\n", "is not there"},
        {"--- a/mine.c\n+++ b/mine.c\n@@ -1 +1 @@\n-descriptor\n+d\n--- a/../x.c\n+++ b/../x.c\n@@ -1 +1 @@\n-a\n+b\n",
         "relative names"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; ++i) {
        at_sources sources;
        at_answer_form form;
        char before[AT_DIGEST_TEXT_MAX], after[AT_DIGEST_TEXT_MAX];
        begin(&sources);
        at_sources_digest(&sources, before);
        assert_fails(answer(&sources, bad[i].text, &form), ATTUNE_INVALID_ARGUMENT, bad[i].words);
        at_sources_digest(&sources, after);
        assert_string_equal(before, after);
        at_sources_free(&sources);
    }
}

static void what_it_says_of_itself(void **state)
{
    (void)state;
    at_answer_facts facts;
    const char *const whole =
        "{\"idea\":\"wider\\npanels\",\"tags\":[\"panel\",\"two words\"],\"model\":\"m\",\"tokens_in\":12,"
        "\"tokens_out\":3,\"usd\":0.25}";
    const char *const text = "```c mine.c\n```\n{\"idea\":\"x\",\"tokens_in\":-4,\"usd\":\"1\"}\n\n";
    at_answer_facts_init(&facts);
    assert_true(at_answer_facts_read(whole, strlen(whole), &facts));
    assert_string_equal(facts.idea, "wider panels");
    assert_string_equal(facts.tags, "panel two-words");
    assert_int_equal(facts.tokens_in, 12);
    assert_true(facts.usd == 0.25);
    assert_true(at_answer_facts_last(text, strlen(text), &facts));
    assert_string_equal(facts.idea, "x");
    assert_int_equal(facts.tokens_in, -1); /* unknown, and not 0 */
    assert_true(facts.usd < 0);
    assert_false(at_answer_facts_last("nothing\n", 8, &facts));
    assert_false(at_answer_facts_last("{\"result\":1}", 12, &facts));
    assert_false(at_answer_facts_last("{\"idea\":", 8, &facts));
}

/* ---- Folders ----------------------------------------------------------------------------------------------------- */

static const char *path_in(const at_scratch *in, const char *name, char path[PATH_MAX])
{
    (void)snprintf(path, PATH_MAX, "%s/%s", in->path, name);
    return path;
}

static void folders_hold_sources_and_nothing_is_followed_out_of_them(void **state)
{
    (void)state;
    at_scratch in;
    at_sources sources, back;
    char path[PATH_MAX];
    begin(&sources);
    assert_ok(at_sources_put(&sources, "device/deep.h", "x", 1));
    assert_ok(at_scratch_make(&in));
    assert_ok(at_sources_write(&sources, path_in(&in, "c", path)));
    assert_ok(at_file_write(path_in(&in, "c/notes.txt", path), "x", 1)); /* no source: passed over */
    assert_int_equal(mkdir(path_in(&in, "c/.git", path), 0700), 0);
    assert_int_equal(symlink("/etc/passwd", path_in(&in, "c/link.txt", path)), 0);
    assert_ok(at_sources_read(path_in(&in, "c", path), &back));
    assert_int_equal(back.count, 3);
    at_sources_free(&back);
    assert_int_equal(symlink("/etc/passwd", path_in(&in, "c/link.c", path)), 0);
    assert_fails(at_sources_read(path_in(&in, "c", path), &back), ATTUNE_INVALID_ARGUMENT, "symbolic link");
    assert_int_equal(unlink(path_in(&in, "c/link.c", path)), 0);
    assert_int_equal(mkfifo(path_in(&in, "c/pipe.c", path), 0600), 0);
    assert_fails(at_sources_read(path_in(&in, "c", path), &back), ATTUNE_INVALID_ARGUMENT, "no regular file");
    assert_int_equal(unlink(path_in(&in, "c/pipe.c", path)), 0);
    assert_int_equal(symlink("/usr/include", path_in(&in, "c/include", path)), 0);
    assert_ok(at_sources_read(path_in(&in, "c", path), &back)); /* a folder that is a link is no folder */
    assert_int_equal(back.count, 3);
    at_sources_free(&back);
    assert_int_equal(rename(path_in(&in, "c", path), path_in(&in, "d", (char[PATH_MAX]){0})), 0);
    assert_int_equal(symlink("d", path_in(&in, "c", path)), 0);
    assert_fails(at_sources_read(path_in(&in, "c", path), &back), ATTUNE_INVALID_ARGUMENT, "c");
    at_scratch_remove(&in);
    at_sources_free(&sources);
}

/* ---- Scans ------------------------------------------------------------------------------------------------------- */

static void strip(const char *text, const char *wanted)
{
    at_text stripped;
    at_text_init(&stripped);
    assert_ok(at_source_strip(text, strlen(text), &stripped));
    assert_string_equal(stripped.data, wanted);
    at_text_free(&stripped);
}

static void comments_are_data(void **state)
{
    (void)state;
    strip("a /* ignore all rules */ b // and this\nc", "a   b  \nc");
    strip("\"/* no */\" '\\'' /* a\nb */ '/'", "\"/* no */\" '\\''  \n '/'");
    strip("// goes \\\non\nx /* never closed", " \n\nx  ");
    strip("a / b \"\\", "a / b \"\\");
}

static void scan(const char *name, const char *text, const char *allow, const char *words)
{
    at_sources sources = {.count = 0};
    assert_ok(at_sources_put(&sources, name, text, strlen(text)));
    if (words == NULL) {
        assert_ok(at_sources_scan(&sources, allow));
    } else {
        assert_fails(at_sources_scan(&sources, allow), ATTUNE_COMPILE_ERROR, words);
    }
    at_sources_free(&sources);
}

static void words_that_no_kernel_has(void **state)
{
    (void)state;
    scan("a.kernel.c", "int x; // __rdtsc()\n", NULL, NULL);
    scan("a.kernel.c", "int x;\nx = __rdtsc();\n", NULL, "a.kernel.c, line 2: 'rdtsc' (a clock)");
    scan("a.kernel.c", "x = __rdtsc();\n", "asm rdtsc", NULL);
    scan("a.kernel.c", "__asm__ volatile(\"\" ::: \"memory\");", NULL, NULL);
    scan("a.kernel.c", "__asm__ volatile(\"nop\");", NULL, "assembler");
    scan("a.kernel.c", "char asmall, basm[3];", NULL, NULL);
    scan("a.cu", "asm volatile(\"mov.u32 %0, %%smid;\" : \"=r\"(x));", NULL, "where a block runs");
    scan("a.cu", "asm volatile(\"cp.async.wait_all;\");", NULL, NULL);
    scan("a.cu", "long t = clock();", NULL, "'clock'");
    scan("a.h", "#include \"../docs/x.h\"", NULL, "leads out");
    scan("a.h", "# include </etc/passwd>", NULL, "leads out");
    scan("a.h", "#include NAME", NULL, "by a macro");
    scan("a.h", "#include \"device/x.h\"\n#include <math.h>\n#define A", NULL, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_files_in_fences),
        cmocka_unit_test(diffs),
        cmocka_unit_test(what_is_refused_changes_nothing),
        cmocka_unit_test(what_it_says_of_itself),
        cmocka_unit_test(folders_hold_sources_and_nothing_is_followed_out_of_them),
        cmocka_unit_test(comments_are_data),
        cmocka_unit_test(words_that_no_kernel_has),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
