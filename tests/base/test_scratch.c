#include "base/cm.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/scratch.h"

static char home[] = "/tmp/test_scratch-XXXXXX";

static bool is_there(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0;
}

static void make_old(const char *path)
{
    const struct timespec old[2] = {{1000000, 0}, {1000000, 0}};
    assert_int_equal(utimensat(AT_FDCWD, path, old, 0), 0);
}

static void put_things_into(const char *path)
{
    char name[256];
    (void)snprintf(name, sizeof name, "%s/below", path);
    assert_ok(at_directory_make(name));
    (void)snprintf(name, sizeof name, "%s/below/file", path);
    assert_ok(at_file_write(name, "x", 1));
}

static void it_goes_with_all_that_is_in_it(void **state)
{
    (void)state;
    at_scratch made;
    char path[256];
    assert_ok(at_scratch_make(&made));
    assert_memory_equal(made.path, home, strlen(home));
    (void)snprintf(path, sizeof path, "%s", made.path);
    put_things_into(path);
    at_scratch_remove(&made);
    assert_false(is_there(path));
    assert_null(made.path);
    at_scratch_remove(&made);
}

/* Made by a process that ended without a word; its path comes through a pipe. */
static void leave_one_behind(char path[256])
{
    int ends[2];
    int code = 0;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        at_scratch made;
        bool well = at_scratch_make(&made) == ATTUNE_OK && write(ends[1], made.path, strlen(made.path) + 1) > 0;
        _exit(well ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &code, 0), child);
    assert_int_equal(code, 0);
    assert_true(read(ends[0], path, 256) > 0);
    (void)close(ends[0]);
    (void)close(ends[1]);
}

static void what_was_left_behind_is_removed(void **state)
{
    (void)state;
    at_scratch held, next;
    char left[256], young[256], other[256];
    leave_one_behind(left);
    put_things_into(left);
    make_old(left);
    leave_one_behind(young); /* perhaps its maker is about to lock it */
    assert_ok(at_scratch_make(&held));
    make_old(held.path);
    (void)snprintf(other, sizeof other, "%s/attune-others", home); /* nothing says that it is ours */
    assert_ok(at_directory_make(other));
    make_old(other);
    assert_false(is_there(left)); /* gone when `held` was made */
    assert_ok(at_scratch_make(&next));
    assert_true(is_there(young) && is_there(held.path) && is_there(other));
    make_old(young);
    at_scratch_remove(&next);
    assert_ok(at_scratch_make(&next));
    assert_false(is_there(young));
    at_scratch_remove(&next);
    at_scratch_remove(&held);
    assert_int_equal(rmdir(other), 0);
}

static void nowhere_is_an_error(void **state)
{
    (void)state;
    at_scratch made;
    assert_int_equal(setenv("TMPDIR", "/no/such/folder", 1), 0);
    assert_fails(at_scratch_make(&made), ATTUNE_IO_ERROR, "/no/such/folder");
    assert_null(made.path);
    assert_int_equal(setenv("TMPDIR", home, 1), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_goes_with_all_that_is_in_it),
        cmocka_unit_test(what_was_left_behind_is_removed),
        cmocka_unit_test(nowhere_is_an_error),
    };
    if (mkdtemp(home) == NULL || setenv("TMPDIR", home, 1) != 0) {
        return 1;
    }
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return rmdir(home) == 0 ? failed : failed + 1;
}
