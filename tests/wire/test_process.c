/* What a process that is started finds open. */
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cm.h"
#include "wire/process.h"

typedef int (*closing)(posix_spawn_file_actions_t *actions, int first);

/* Whether a child finds the descriptor `number` open. */
static bool is_open_in_a_child(closing close_from, int number)
{
    char text[64];
    char *const command[] = {"sh", "-c", text, NULL};
    int status = -1;
    pid_t child;
    posix_spawn_file_actions_t actions;
    (void)snprintf(text, sizeof text, "test -e /proc/self/fd/%d", number);
    assert_int_equal(posix_spawn_file_actions_init(&actions), 0);
    if (close_from != NULL) {
        assert_int_equal(close_from(&actions, STDERR_FILENO + 1), 0);
    }
    assert_int_equal(posix_spawnp(&child, command[0], &actions, NULL, command, environ), 0);
    assert_int_equal(posix_spawn_file_actions_destroy(&actions), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status) == 0;
}

static void descriptors_are_closed(void **state)
{
    static const closing ways[] = {at_process_close_from, at_process_close_listed};
    (void)state;
    int number = open("/dev/null", O_RDONLY);
    assert_true(number >= 0);
    int far = fcntl(number, F_DUPFD, 200);
    assert_true(far >= 200);
    assert_true(is_open_in_a_child(NULL, far));
    for (int i = 0; i < 2; ++i) {
        assert_false(is_open_in_a_child(ways[i], number));
        assert_false(is_open_in_a_child(ways[i], far));
        assert_true(is_open_in_a_child(ways[i], STDERR_FILENO));
    }
    (void)close(number);
    (void)close(far);
}

static void ends_have_words(void **state)
{
    char text[160];
    (void)state;
    assert_string_equal(at_process_end(11, text), "was ended by signal 11 (Segmentation fault)");
    assert_string_equal(at_process_end(3 << 8, text), "ended by itself with exit code 3");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(descriptors_are_closed), cmocka_unit_test(ends_have_words)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
