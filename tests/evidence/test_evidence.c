/* Evidence as files: all that goes in comes out, what was changed is seen, and nothing is half-written. */
#include <math.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/folder.h"
#include "evidence/evidence.h"
#include "evidence/verify.h"
#include "judge/verdicts.h"
#include "wire/json.h"

static at_verdict *judged(double first_us, double second_us)
{
    scene of = scene_of(first_us, second_us);
    of.processes = 2;
    at_verdict *verdict = verdicts_make(&of);
    verdict->suite.failures = 1;
    verdict->suite.failure[0] = (at_failure){.index = 4, .status = ATTUNE_WRONG_RESULT, .what = "\"quoted\"\n"};
    verdict->suite.refusals = 1;
    verdict->suite.refusal[0] = (at_refusal){.index = 9, .why = "no sinks"};
    verdict->absent_count = 1;
    verdict->absent[0] = (at_arm_facts){.name = "openblas", .account = "not here"};
    verdict->counters = (at_counters){.asked = true, .count = 1, .stalls = 1, .diagnosis = "waits for memory"};
    verdict->counters.counter[0] = (at_counter){"dram_read_bytes", 1.5e6};
    verdict->counters.stall[0] = (at_counter){"long_scoreboard", 41.5};
    verdict->sanitizer_count = 2;
    verdict->sanitizer[0] = (at_sanitizer_finding){.tool = "memcheck", .account = "not here"};
    verdict->sanitizer[1] =
        (at_sanitizer_finding){.tool = "racecheck", .ran = true, .reports = 3, .first = "Race", .account = "rings"};
    verdict->session.policy.floor_us[0] = 2.5;
    verdict->session.block[2].sm_mhz = 1755;
    assert_ok(at_verdict_judge(verdict));
    return verdict;
}

static char *text_of(const at_verdict *verdict, size_t *bytes)
{
    char *one, *all, digest[AT_DIGEST_TEXT_MAX];
    assert_ok(at_verdict_print(verdict, &one, digest));
    assert_true(asprintf(&all, "{\"format\":\"attune evidence\",\"version\":2,\"verdicts\":[\n%s\n]}", one) > 0);
    free(one);
    *bytes = strlen(all);
    return all;
}

/* By the text, which holds every field; what the tables forget is looked for below. */
static void verdicts_read_back_as_they_were(void **state)
{
    (void)state;
    at_verdict *verdict = judged(11.5, 12);
    at_evidence evidence;
    char *first, *second, digest[AT_DIGEST_TEXT_MAX], again[AT_DIGEST_TEXT_MAX];
    size_t bytes;
    char *text = text_of(verdict, &bytes);
    assert_ok(at_evidence_parse("text", text, bytes, &evidence));
    assert_int_equal(evidence.count, 1);
    assert_string_equal(evidence.entry[0].what, "");
    const at_verdict *read = evidence.entry[0].verdict;
    assert_ok(at_verdict_print(verdict, &first, digest));
    assert_ok(at_verdict_print(read, &second, again));
    assert_string_equal(first, second);
    assert_string_equal(digest, again);
    assert_string_equal(digest, evidence.entry[0].digest);
    assert_memory_equal(&read->target, &verdict->target, sizeof read->target);
    assert_memory_equal(&read->build, &verdict->build, sizeof read->build);
    assert_memory_equal(&read->options, &verdict->options, sizeof read->options);
    assert_memory_equal(&read->suite.margins, &verdict->suite.margins, sizeof read->suite.margins);
    assert_memory_equal(&read->session.policy.floor_us, &verdict->session.policy.floor_us,
                        sizeof read->session.policy.floor_us);
    assert_memory_equal(read->session.block, verdict->session.block,
                        verdict->session.block_count * sizeof read->session.block[0]);
    assert_memory_equal(read->session.clocks, verdict->session.clocks,
                        verdict->session.clocks_count * sizeof read->session.clocks[0]);
    assert_int_equal(read->sanitizer_count, 2);
    assert_memory_equal(read->sanitizer, verdict->sanitizer, sizeof read->sanitizer);
    assert_non_null(strstr(read->finding[AT_STAGE_CORRECTNESS].sentence,
                           "; memcheck: not checked; racecheck: reports that decide nothing"));
    assert_memory_equal(read->finding, verdict->finding, sizeof read->finding);
    assert_string_equal(read->suite.failure[0].what, "\"quoted\"\n");
    assert_string_equal(read->arm[3].account, "account of arm 3");
    assert_int_equal(read->session.arm[3].twin_of, 2);
    assert_true(read->counters.asked && read->counters.counter[0].value == 1.5e6);
    free(first);
    free(second);
    free(text);
    at_evidence_close(&evidence);
    at_verdict_destroy(verdict);
}

static void a_verdict_without_a_session_reads_back(void **state)
{
    (void)state;
    at_verdict *verdict;
    at_evidence evidence;
    size_t bytes;
    assert_ok(at_verdict_create(&verdict));
    (void)snprintf(verdict->kernel, sizeof verdict->kernel, "bad");
    (void)snprintf(verdict->problem, sizeof verdict->problem, "b1,h1,s64,d64,fp32");
    (void)snprintf(verdict->target.model, sizeof verdict->target.model, "Some_CPU");
    verdict->options.must = 0.95;
    verdict->stage[AT_STAGE_BUILD] = (at_stage_run){.ran = true, .status = ATTUNE_COMPILE_ERROR};
    (void)snprintf(verdict->stage[0].detail, AT_SENTENCE_MAX, "na\xefve \x80");
    assert_ok(at_verdict_judge(verdict));
    char *text = text_of(verdict, &bytes);
    assert_ok(at_evidence_parse("text", text, bytes, &evidence));
    assert_string_equal(evidence.entry[0].what, "");
    assert_string_equal(evidence.entry[0].verdict->stage[0].detail, "na?ve ?");
    assert_int_equal(evidence.entry[0].verdict->right, AT_FAIL);
    at_evidence_close(&evidence);
    free(text);
    at_verdict_destroy(verdict);
}

/* One digit of one sample. */
static void what_was_changed_is_seen(void **state)
{
    (void)state;
    at_verdict *verdict = judged(11.5, 12);
    at_evidence evidence;
    size_t bytes;
    char *text = text_of(verdict, &bytes);
    char *sample = strstr(text, "\"ns\":[[") + strlen("\"ns\":[[");
    *sample = *sample == '9' ? '8' : '9';
    assert_ok(at_evidence_parse("text", text, bytes, &evidence));
    assert_int_equal(evidence.entry[0].status, ATTUNE_CORRUPT);
    assert_non_null(strstr(evidence.entry[0].what, "text: verdict 1 was changed: its digest"));
    assert_null(evidence.entry[0].verdict);
    at_evidence_close(&evidence);
    free(text);
    at_verdict_destroy(verdict);
}

/* Texts that no gate wrote, in tests/evidence/corrupt_evidence: NAME.json, and in NAME.txt the words of the refusal. */
static void golden_corrupt_files_are_refused_with_reasons(void **state)
{
    (void)state;
    char **files;
    size_t count, kept = 0;
    assert_ok(at_evidence_find(ATTUNE_SOURCE_DIR "/tests/evidence/corrupt_evidence", &files, &count));
    for (size_t i = 0; i < count; ++i) {
        at_evidence evidence;
        char path[PATH_MAX];
        void *words;
        size_t bytes;
        (void)snprintf(path, sizeof path, "%.*s.txt", (int)(strlen(files[i]) - strlen(".json")), files[i]);
        assert_ok(at_file_read(path, 4096, &words, &bytes));
        ((char *)words)[strcspn(words, "\n")] = '\0';
        attune_status status = at_evidence_read(files[i], &evidence);
        const char *what = status != ATTUNE_OK  ? attune_last_detail()
                           : evidence.count > 0 ? evidence.entry[0].what
                                                : "read without complaint";
        if (strstr(what, words) == NULL) {
            fail_msg("%s: \"%s\" lacks \"%s\"", files[i], what, (const char *)words);
        }
        ++kept;
        at_evidence_close(&evidence);
        free(words);
        free(files[i]);
    }
    free(files);
    assert_true(kept >= 10);
}

/* A file as version 1 wrote it: whatever changes here, what lies in repositories must stay readable, and true. */
static void old_files_stay_readable(void **state)
{
    (void)state;
    at_evidence evidence;
    at_record record = {0};
    assert_ok(at_evidence_read(ATTUNE_SOURCE_DIR "/tests/evidence/evidence_1.json", &evidence));
    assert_int_equal(evidence.count, 1);
    assert_string_equal(evidence.entry[0].what, "");
    assert_ok(at_verify(&evidence.entry[0], "", &record));
    assert_string_equal(record.why, "there is no kernel k");
    at_evidence_close(&evidence);
}

/* Version 2 has the same samples in fewer bytes. */
static void versions_say_the_same(void **state)
{
    (void)state;
    at_evidence one, two;
    size_t bytes;
    assert_ok(at_evidence_read(ATTUNE_SOURCE_DIR "/tests/evidence/evidence_1.json", &one));
    char *text = text_of(one.entry[0].verdict, &bytes);
    assert_null(strstr(text, "\"us\":"));
    assert_ok(at_evidence_parse("text", text, bytes, &two));
    const at_session *then = &one.entry[0].verdict->session, *now = &two.entry[0].verdict->session;
    assert_int_equal(then->block_count, now->block_count);
    assert_memory_equal(then->block, now->block, then->block_count * sizeof *then->block);
    free(text);
    at_evidence_close(&one);
    at_evidence_close(&two);
}

/* Whole numbers of a unit are only for samples that are such. */
static void samples_lose_nothing(void **state)
{
    static const double samples[][2] = {{11.5, 12.25},     {123460, 99990},          {1.0 / 3, 12}, {11.5, HUGE_VAL},
                                        {0.001, 99999999}, {11.500000000000002, 11}, {-0.25, 1e300}};
    (void)state;
    for (size_t i = 0; i < sizeof samples / sizeof samples[0]; ++i) {
        at_verdict *verdict = judged(11.5, 12);
        at_evidence evidence;
        size_t bytes;
        verdict->session.block[0].us[0][0] = samples[i][0];
        verdict->session.block[0].us[1][1] = samples[i][1];
        char *text = text_of(verdict, &bytes);
        assert_ok(at_evidence_parse("text", text, bytes, &evidence));
        assert_string_equal(evidence.entry[0].what, "");
        assert_memory_equal(evidence.entry[0].verdict->session.block, verdict->session.block,
                            verdict->session.block_count * sizeof *verdict->session.block);
        free(text);
        at_evidence_close(&evidence);
        at_verdict_destroy(verdict);
    }
}

static size_t same_bytes(const unsigned char *a, const unsigned char *b, size_t most)
{
    size_t same = 0;
    while (same < most && a[same] == b[same]) {
        ++same;
    }
    return same;
}

/* What a repository must keep of a new version of a file is about the new verdict. */
static void compressed_files_keep_their_beginning(void **state)
{
    (void)state;
    folder f;
    at_evidence evidence;
    void *before, *after;
    size_t bytes, more;
    at_verdict *one = judged(11.5, 12), *two = judged(9, 9);
    assert_int_equal(folder_make(&f), 0);
    const char *path = folder_file(&f, "gate.json.gz");
    assert_ok(at_evidence_add(path, one));
    assert_ok(at_file_read(path, 1 << 26, &before, &bytes));
    assert_ok(at_evidence_add(path, two));
    assert_ok(at_file_read(path, 1 << 26, &after, &more));
    assert_memory_equal(after, "\x1f\x8b", 2);
    assert_true(same_bytes(before, after, bytes) > bytes - 32);
    assert_ok(at_evidence_read(path, &evidence));
    assert_int_equal(evidence.count, 2);
    assert_string_equal(evidence.entry[0].what, "");
    assert_string_equal(evidence.entry[1].what, "");
    free(before);
    free(after);
    at_evidence_close(&evidence);
    at_verdict_destroy(one);
    at_verdict_destroy(two);
    folder_remove(&f);
}

static void files_grow_verdict_by_verdict(void **state)
{
    (void)state;
    folder f;
    at_evidence evidence;
    at_verdict *one = judged(11.5, 12), *two = judged(9, 9);
    assert_int_equal(folder_make(&f), 0);
    const char *path = folder_file(&f, "gate.json");
    assert_ok(at_evidence_add(path, one));
    assert_ok(at_evidence_add(path, two));
    assert_ok(at_evidence_read(path, &evidence));
    assert_int_equal(evidence.count, 2);
    assert_int_equal(evidence.entry[0].verdict->speed[1].outcome, one->speed[1].outcome);
    assert_int_equal(evidence.entry[1].verdict->fast, AT_FAIL);
    assert_string_not_equal(evidence.entry[0].digest, evidence.entry[1].digest);
    assert_int_equal(folder_count(&f), 1);
    at_evidence_close(&evidence);
    at_verdict_destroy(one);
    at_verdict_destroy(two);
    folder_remove(&f);
}

static void what_is_no_evidence_is_left_alone(void **state)
{
    (void)state;
    folder f;
    void *data;
    size_t bytes;
    at_verdict *verdict = judged(11.5, 12);
    assert_int_equal(folder_make(&f), 0);
    const char *path = folder_file(&f, "notes.json");
    assert_ok(at_file_write(path, "{\"mine\":1}", 10));
    assert_fails(at_evidence_add(path, verdict), ATTUNE_CORRUPT, "field \"format\" is nothing");
    assert_ok(at_file_read(path, 100, &data, &bytes));
    assert_string_equal(data, "{\"mine\":1}");
    free(data);
    assert_fails(at_evidence_add("/nowhere/at/all.json", verdict), ATTUNE_NOT_FOUND, "/nowhere/at");
    at_verdict_destroy(verdict);
    folder_remove(&f);
}

static void kernels_have_their_places(void **state)
{
    (void)state;
    folder f;
    char path[PATH_MAX], **files;
    size_t count;
    at_verdict *verdict = judged(11.5, 12);
    assert_int_equal(folder_make(&f), 0);
    assert_ok(at_evidence_keep(f.path, verdict));
    assert_ok(at_evidence_find(f.path, &files, &count));
    assert_int_equal(count, 1);
    assert_string_equal(files[0], folder_path(&f, "NVIDIA_H200/tiled.json.gz", path));
    assert_int_equal(unlink(files[0]), 0);
    assert_int_equal(rmdir(folder_path(&f, "NVIDIA_H200", path)), 0);
    free(files[0]);
    free(files);
    assert_fails(at_evidence_find(folder_path(&f, "not", path), &files, &count), ATTUNE_NOT_FOUND, "not");
    at_verdict_destroy(verdict);
    folder_remove(&f);
}

/* Every member by its name, but for the target's (attune_target has them) and names that are data. */
static void look_for_members(const json_t *object, const char *page)
{
    static const char *const data[] = {"target", "versions", "values", "stalls", "calls"};
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)object, key, value)
    {
        bool is_data = false;
        char quoted[64];
        (void)snprintf(quoted, sizeof quoted, "`%s`", key);
        if (strstr(page, quoted) == NULL) {
            fail_msg("docs/evidence.md does not name the member %s", quoted);
        }
        for (size_t i = 0; i < sizeof data / sizeof data[0]; ++i) {
            is_data = is_data || strcmp(key, data[i]) == 0;
        }
        if (!is_data) {
            look_for_members(json_is_array(value) ? json_array_get(value, 0) : value, page);
        }
    }
}

static void every_member_is_documented(void **state)
{
    (void)state;
    at_verdict *verdict = judged(11.5, 12);
    json_t *object;
    void *page;
    size_t bytes;
    char *text = text_of(verdict, &bytes);
    assert_ok(at_json_parse("text", text, bytes, &object));
    assert_ok(at_file_read(ATTUNE_SOURCE_DIR "/docs/evidence.md", 1 << 20, &page, &bytes));
    look_for_members(object, page);
    json_decref(object);
    free(page);
    free(text);
    at_verdict_destroy(verdict);
}

/* Ten kernels, four problems, three peers, two modes, eight processes, sized by the peer's time: a few megabytes. */
static void evidence_is_compact(void **state)
{
    (void)state;
    scene of = scene_of(11.5, 12);
    of.pairs = 400;
    at_verdict *verdict = verdicts_make(&of);
    char *text, digest[AT_DIGEST_TEXT_MAX];
    assert_ok(at_verdict_judge(verdict));
    assert_ok(at_verdict_print(verdict, &text, digest));
    assert_true(strlen(text) < 8 * 2 * 400 * 4 * 9);
    free(text);
    at_verdict_destroy(verdict);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(verdicts_read_back_as_they_were),
        cmocka_unit_test(a_verdict_without_a_session_reads_back),
        cmocka_unit_test(what_was_changed_is_seen),
        cmocka_unit_test(golden_corrupt_files_are_refused_with_reasons),
        cmocka_unit_test(old_files_stay_readable),
        cmocka_unit_test(versions_say_the_same),
        cmocka_unit_test(samples_lose_nothing),
        cmocka_unit_test(compressed_files_keep_their_beginning),
        cmocka_unit_test(files_grow_verdict_by_verdict),
        cmocka_unit_test(what_is_no_evidence_is_left_alone),
        cmocka_unit_test(kernels_have_their_places),
        cmocka_unit_test(every_member_is_documented),
        cmocka_unit_test(evidence_is_compact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
