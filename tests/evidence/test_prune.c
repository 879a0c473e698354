/* What may go from an archive: neither the newest nor the best, and nothing else. */
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/folder.h"
#include "evidence/prune.h"
#include "judge/verdicts.h"

static void keep(const char *path, double us, const char *when, bool wrong)
{
    scene of = scene_of(15, 14);
    of.us = us;
    at_verdict *verdict = verdicts_make(&of);
    (void)snprintf(verdict->when, sizeof verdict->when, "%s", when);
    if (wrong) {
        verdict->stage[AT_STAGE_SANITY].status = ATTUNE_WRONG_RESULT;
    }
    assert_ok(at_verdict_judge(verdict));
    assert_ok(at_evidence_add(path, verdict));
    at_verdict_destroy(verdict);
}

static size_t prune(const char *path)
{
    at_archive archive;
    size_t removed;
    assert_ok(at_archive_open(path, "", &archive));
    assert_ok(at_archive_prune(&archive, &removed));
    at_archive_close(&archive);
    return removed;
}

static bool holds(const char *path, const char *when)
{
    at_evidence evidence;
    bool found = false;
    assert_ok(at_evidence_read(path, &evidence));
    for (size_t i = 0; i < evidence.count; ++i) {
        found = found || strcmp(evidence.entry[i].verdict->when, when) == 0;
    }
    at_evidence_close(&evidence);
    return found;
}

static void newest_and_best_stay(void **state)
{
    (void)state;
    folder f;
    assert_int_equal(folder_make(&f), 0);
    const char *path = folder_file(&f, "gate.json.gz");
    keep(path, 12, "2026-01-01T00:00:00Z", false);
    keep(path, 9, "2026-01-02T00:00:00Z", false); /* the best */
    keep(path, 11, "2026-01-03T00:00:00Z", false);
    keep(path, 10, "2026-01-04T00:00:00Z", false);
    keep(path, 12, "2026-01-05T00:00:00Z", false);
    assert_int_equal(prune(path), 3);
    assert_false(holds(path, "2026-01-01T00:00:00Z"));
    assert_true(holds(path, "2026-01-02T00:00:00Z"));
    assert_false(holds(path, "2026-01-03T00:00:00Z"));
    assert_false(holds(path, "2026-01-04T00:00:00Z"));
    assert_true(holds(path, "2026-01-05T00:00:00Z"));
    assert_int_equal(prune(path), 0);
    folder_remove(&f);
}

static void a_wrong_newest_keeps_what_was_right(void **state)
{
    (void)state;
    folder f;
    assert_int_equal(folder_make(&f), 0);
    const char *path = folder_file(&f, "gate.json");
    keep(path, 9, "2026-01-01T00:00:00Z", false);
    keep(path, 12, "2026-01-02T00:00:00Z", false);
    keep(path, 12, "2026-01-03T00:00:00Z", true);
    (void)prune(path);
    assert_true(holds(path, "2026-01-02T00:00:00Z"));
    assert_true(holds(path, "2026-01-03T00:00:00Z"));
    folder_remove(&f);
}

static void what_is_broken_stays(void **state)
{
    (void)state;
    folder f;
    void *data;
    size_t bytes;
    assert_int_equal(folder_make(&f), 0);
    const char *path = folder_file(&f, "gate.json");
    keep(path, 12, "2026-01-01T00:00:00Z", false);
    keep(path, 11, "2026-01-02T00:00:00Z", false);
    assert_ok(at_file_read(path, 1 << 26, &data, &bytes));
    *strstr(data, "2026-01-01") = '3';
    assert_ok(at_file_write(path, data, bytes));
    assert_int_equal(prune(path), 0);
    free(data);
    folder_remove(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(newest_and_best_stay),
        cmocka_unit_test(a_wrong_newest_keeps_what_was_right),
        cmocka_unit_test(what_is_broken_stays),
    };
    return cmocka_run_group_tests_name("prune", tests, NULL, NULL);
}
