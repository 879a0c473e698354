/* What peers are called: by whoever asks for them, and in evidence. */
#include <stdio.h>

#include "base/cm.h"
#include "gate/contenders.h"
#include "gate/gate.h"

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
    };
    (void)state;
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; ++i) {
        char label[AT_KERNEL_TEXT_MAX];
        at_contender_label(asked[i][0], label);
        assert_string_equal(label, asked[i][1]);
    }
}

/* Two files of one name would be one peer in evidence. */
static void files_of_one_name_are_refused(void **state)
{
    const char *const same = ATTUNE_SOURCE_DIR "/tests/gate/python_arms.py:plain";
    char one[1024], other[1024];
    (void)state;
    (void)snprintf(one, sizeof one, "py:%s", same);
    (void)snprintf(other, sizeof other, "py:%s/tests/../tests/gate/python_arms.py:plain", ATTUNE_SOURCE_DIR);
    const char *const peers[] = {"tiled", one, "torch:flash", other};
    assert_ok(at_gate_check_peers(peers, 3, false));
    assert_fails(at_gate_check_peers(peers, 4, false), ATTUNE_INVALID_ARGUMENT,
                 "evidence calls both py:python_arms.py:plain");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(labels_have_no_folders),
        cmocka_unit_test(files_of_one_name_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
