/* What peers are called: by whoever asks for them, and in evidence. */
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "base/cm.h"
#include "base/digest.h"
#include "base/file.h"
#include "base/folder.h"
#include "gate/gate.h"
#include "judge/verdict.h"
#include "worker/arms.h"

static void labels_have_no_folders(void **state)
{
    static const char *const asked[][2] = {
        {"cudnn", "cudnn"},
        {"torch:flash", "torch:flash"},
        {"tiled:BLOCK_M=64,ROWS=2", "tiled:BLOCK_M=64,ROWS=2"},
        {"own/arm", "own/arm"}, /* a program's own name */
        {"py:file.py:mine", "py:file.py:mine"},
        {"py:./file.py:mine", "py:file.py:mine"},
        {"py:/home/someone/else/file.py:mine", "py:file.py:mine"},
        {"py:C:/file.py:mine", "py:file.py:mine"},
        {"py:file.py:a/b", "py:file.py:a/b"},
        {"py:nothing", "py:nothing"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; ++i) {
        char label[AT_KERNEL_TEXT_MAX];
        at_arm_label(asked[i][0], label);
        assert_string_equal(label, asked[i][1]);
    }
}

/* Two files of one name would be one peer in evidence. */
static void files_of_one_name_are_refused(void **state)
{
    const char *const same = ATTUNE_SOURCE_DIR "/tests/worker/python_arms.py:plain";
    char one[1024], other[1024];
    (void)state;
    (void)snprintf(one, sizeof one, "py:%s", same);
    (void)snprintf(other, sizeof other, "py:%s/tests/../tests/worker/python_arms.py:plain", ATTUNE_SOURCE_DIR);
    const char *const peers[] = {"tiled", one, "torch:flash", other};
    assert_ok(at_gate_check_peers(peers, 3, false));
    assert_fails(at_gate_check_peers(peers, 4, false), ATTUNE_INVALID_ARGUMENT,
                 "evidence calls both py:python_arms.py:plain");
}

/* What was judged beside one file does not answer for another of its name, nor for what it says today. */
static void an_account_is_of_one_file(void **state)
{
    folder here;
    char path[PATH_MAX], name[PATH_MAX + 32], account[256], digest[AT_DIGEST_TEXT_MAX];
    (void)state;
    assert_int_equal(folder_make(&here), 0);
    folder_path(&here, "file.py", path);
    (void)snprintf(name, sizeof name, "py:%s:mine", path);
    at_digest_of("one", 3, digest);
    (void)snprintf(account, sizeof account, "torch 2.11, cuDNN 91900; file.py sha256:%s", digest);
    assert_false(at_arm_is_file_of(name, account)); /* there is none */
    assert_ok(at_file_write(path, "one", 3));
    assert_true(at_arm_is_file_of(name, account));
    assert_ok(at_file_write(path, "two", 3));
    assert_false(at_arm_is_file_of(name, account));
    assert_true(at_arm_is_file_of("cudnn", account));
    (void)unlink(path);
    folder_remove(&here);
}

static void verdicts_have_labels(void **state)
{
    const at_session_part arm[] = {{"tiled", AT_PART_CANDIDATE, 0}, {"py:/some/where/file.py:mine", AT_PART_PEER, 0}};
    at_session_policy policy;
    at_session session;
    at_verdict *verdict = NULL;
    (void)state;
    at_session_policy_init(&policy, 1);
    assert_ok(at_session_open(&policy, arm, 2, &session));
    assert_ok(at_verdict_create(&verdict));
    assert_ok(at_verdict_session(verdict, &session, NULL, 0));
    assert_string_equal(verdict->arm[0].name, "tiled");
    assert_string_equal(verdict->arm[1].name, "py:file.py:mine");
    assert_string_equal(verdict->session.arm[1].name, "py:file.py:mine");
    at_verdict_destroy(verdict);
    at_session_close(&session);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(labels_have_no_folders),
        cmocka_unit_test(files_of_one_name_are_refused),
        cmocka_unit_test(an_account_is_of_one_file),
        cmocka_unit_test(verdicts_have_labels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
