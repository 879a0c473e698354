#include "base/cm.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "base/file.h"
#include "base/home.h"

static void assert_content(const char *path, const void *content, size_t bytes)
{
    void *data;
    size_t got;
    assert_ok(at_file_read(path, SIZE_MAX, &data, &got));
    assert_int_equal(got, bytes);
    assert_memory_equal(data, content, bytes);
    assert_int_equal(((char *)data)[got], 0);
    assert_int_equal((uintptr_t)data % 64, 0);
    free(data);
}

static void what_is_written_is_read(void **state)
{
    (void)state;
    const char *path = folder_file(&home, "a");
    assert_ok(at_file_write(path, "one\0two", 7));
    assert_content(path, "one\0two", 7);
    assert_ok(at_file_write(path, "", 0));
    assert_content(path, "", 0);
    size_t bytes = (3 << 20) + 17; /* several pieces */
    unsigned char *large = malloc(bytes);
    assert_non_null(large);
    for (size_t i = 0; i < bytes; i++) {
        large[i] = (unsigned char)(i * 31 >> 3);
    }
    assert_ok(at_file_write(path, large, bytes));
    assert_content(path, large, bytes);
    free(large);
    assert_int_equal(folder_count(&home), 1);
}

static void reading_keeps_to_the_limit(void **state)
{
    (void)state;
    const char *path = folder_file(&home, "a");
    assert_ok(at_file_write(path, "12345", 5));
    void *data;
    size_t bytes;
    assert_ok(at_file_read(path, 5, &data, &bytes));
    free(data);
    assert_fails(at_file_read(path, 4, &data, &bytes), ATTUNE_INVALID_ARGUMENT, "has 5 bytes, at most 4 are allowed");
    assert_null(data);
    assert_int_equal(bytes, 0);
    /* A file that does not report its size, larger than any piece. */
    assert_fails(at_file_read("/dev/zero", 3 << 20, &data, &bytes), ATTUNE_INVALID_ARGUMENT, "larger than the 3145728");
}

static void reading_names_what_is_wrong(void **state)
{
    (void)state;
    void *data;
    size_t bytes;
    assert_fails(at_file_read(folder_file(&home, "no"), 10, &data, &bytes), ATTUNE_NOT_FOUND, "/no: cannot be opened");
    assert_fails(at_file_read(home.path, 10, &data, &bytes), ATTUNE_IO_ERROR, "it is a directory");
    assert_ok(at_file_write(folder_file(&home, "a"), "x", 1));
    assert_fails(at_file_read(folder_file(&home, "a/b"), 10, &data, &bytes), ATTUNE_NOT_FOUND, "a/b");
}

static void pipes_are_read_to_their_end(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    char *text = malloc(20000);
    assert_non_null(text);
    memset(text, 'p', 20000); /* more than a first guess at its size */
    assert_int_equal(write(ends[1], text, 20000), 20000);
    (void)close(ends[1]);
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", ends[0]);
    assert_content(path, text, 20000);
    free(text);
    (void)close(ends[0]);
}

static void pipes_and_devices_are_written_straight(void **state)
{
    (void)state;
    struct stat info;
    assert_ok(at_file_write("/dev/null", "x", 1));
    assert_int_equal(stat("/dev/null", &info), 0);
    assert_true(S_ISCHR(info.st_mode)); /* and was not replaced by a file */
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    char path[64], got[4] = "";
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", ends[1]);
    assert_ok(at_file_write(path, "abc", 3));
    assert_int_equal(read(ends[0], got, 3), 3);
    assert_string_equal(got, "abc");
    (void)close(ends[0]);
    (void)close(ends[1]);
}

static void a_full_disk_is_an_error(void **state)
{
    (void)state;
    assert_fails(at_file_write("/dev/full", "x", 1), ATTUNE_IO_ERROR, "/dev/full: cannot be written: No space left");
}

static void a_file_that_cannot_grow_is_left_as_it_was(void **state)
{
    (void)state;
    const char *path = folder_file(&home, "a");
    assert_ok(at_file_write(path, "old", 3));
    struct rlimit before, tiny;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    tiny = before;
    tiny.rlim_cur = 1000; /* a short write first, then EFBIG */
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &tiny), 0);
    char *large = calloc(1, 100000);
    assert_non_null(large);
    attune_status status = at_file_write(path, large, 100000);
    (void)setrlimit(RLIMIT_FSIZE, &before);
    (void)signal(SIGXFSZ, handler);
    free(large);
    assert_fails(status, ATTUNE_IO_ERROR, "File too large");
    assert_content(path, "old", 3);
    assert_int_equal(folder_count(&home), 1);
}

static void abandoned_writers_leave_nothing(void **state)
{
    (void)state;
    const char *path = folder_file(&home, "a");
    assert_ok(at_file_write(path, "old", 3));
    at_writer *writer;
    assert_ok(at_writer_open(path, &writer));
    assert_ok(at_writer_add(writer, "new", 3));
    assert_int_equal(folder_count(&home), 2); /* beside it, not over it */
    assert_content(path, "old", 3);
    at_writer_abandon(writer);
    at_writer_abandon(NULL);
    assert_int_equal(folder_count(&home), 1);
    assert_content(path, "old", 3);
}

static void interrupts_leave_nothing(void **state)
{
    (void)state;
    const char *path = folder_file(&home, "a");
    assert_ok(at_file_write(path, "old", 3));
    at_writer *writer;
    assert_ok(at_writer_open(path, &writer));
    assert_ok(at_writer_add(writer, "new", 3));
    at_file_interrupt();
    assert_true(at_file_interrupted());
    assert_fails(at_writer_add(writer, "er", 2), ATTUNE_INTERRUPTED, "interrupted while writing");
    at_file_resume();
    /* A failed writer stays failed. */
    assert_int_equal(at_writer_add(writer, "er", 2), ATTUNE_INTERRUPTED);
    assert_int_equal(at_writer_commit(writer), ATTUNE_INTERRUPTED);
    assert_int_equal(folder_count(&home), 1);
    assert_content(path, "old", 3);

    assert_ok(at_writer_open(path, &writer)); /* after the last byte, before the rename */
    assert_ok(at_writer_add(writer, "new", 3));
    at_file_interrupt();
    assert_fails(at_writer_commit(writer), ATTUNE_INTERRUPTED, "interrupted while writing");
    void *data;
    size_t bytes;
    assert_fails(at_file_read(path, 10, &data, &bytes), ATTUNE_INTERRUPTED, "interrupted while reading");
    at_file_resume();
    assert_int_equal(folder_count(&home), 1);
    assert_content(path, "old", 3);
}

static void on_signal(int number)
{
    (void)number;
    at_file_interrupt();
}

/* Opening waits for a writer; only the signal ends that. */
static void a_pipe_that_nobody_writes_to_can_be_left(void **state)
{
    (void)state;
    void *data;
    size_t bytes;
    const char *path = folder_file(&home, "pipe");
    const struct itimerval every = {{0, 20000}, {0, 20000}}, never = {{0, 0}, {0, 0}};
    struct sigaction stop = {.sa_handler = on_signal}, before;
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(sigaction(SIGALRM, &stop, &before), 0);
    assert_int_equal(setitimer(ITIMER_REAL, &every, NULL), 0);
    assert_fails(at_file_read(path, 10, &data, &bytes), ATTUNE_INTERRUPTED, "interrupted while opening");
    assert_int_equal(setitimer(ITIMER_REAL, &never, NULL), 0);
    assert_int_equal(sigaction(SIGALRM, &before, NULL), 0);
    at_file_resume();
}

/* In the child: writes without end until the signal stops it; the exit code shows how it ended. */
static void write_until_stopped(const char *path, int ready)
{
    struct sigaction action = {.sa_handler = on_signal};
    (void)sigaction(SIGINT, &action, NULL);
    static unsigned char block[1 << 16];
    at_writer *writer;
    attune_status status = at_writer_open(path, &writer);
    for (int i = 0; status == ATTUNE_OK; i++) {
        status = at_writer_add(writer, block, sizeof block);
        if (i == 10) {
            (void)!write(ready, "r", 1);
        }
        if (i % 64 == 63) {
            at_writer_abandon(writer); /* keep the disk's use small */
            status = at_writer_open(path, &writer);
        }
    }
    _exit(at_writer_commit(writer) == ATTUNE_INTERRUPTED ? 42 : 1);
}

static void a_signal_in_the_middle_of_a_write_leaves_nothing(void **state)
{
    (void)state;
    const char *path = folder_file(&home, "a");
    assert_ok(at_file_write(path, "old", 3));
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        write_until_stopped(path, ready[1]);
    }
    char letter;
    assert_int_equal(read(ready[0], &letter, 1), 1); /* it is writing now */
    assert_int_equal(kill(child, SIGINT), 0);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 42);
    assert_int_equal(folder_count(&home), 1);
    assert_content(path, "old", 3);
    (void)close(ready[0]);
    (void)close(ready[1]);
}

static void permissions_and_links_are_kept(void **state)
{
    (void)state;
    char target[PATH_MAX], link[PATH_MAX];
    (void)folder_path(&home, "target", target);
    (void)folder_path(&home, "link", link);
    assert_ok(at_file_write(target, "old", 3));
    assert_int_equal(chmod(target, 0640), 0);
    assert_int_equal(symlink("target", link), 0);
    assert_ok(at_file_write(link, "new", 3));
    struct stat info;
    assert_int_equal(lstat(link, &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    assert_int_equal(stat(target, &info), 0);
    assert_int_equal(info.st_mode & 07777, 0640);
    assert_content(target, "new", 3);
    /* A new file gets what the process's mask leaves. */
    mode_t mask = umask(027);
    attune_status status = at_file_write(folder_file(&home, "fresh"), "x", 1);
    (void)umask(mask);
    assert_ok(status);
    assert_int_equal(stat(home.file, &info), 0);
    assert_int_equal(info.st_mode & 07777, 0640);
}

static void unwritable_places_are_named(void **state)
{
    (void)state;
    assert_fails(at_file_write(folder_file(&home, "no/such/a"), "x", 1), ATTUNE_NOT_FOUND,
                 "its directory does not exist");
    assert_fails(at_file_write(home.path, "x", 1), ATTUNE_IO_ERROR, "it is a directory");
    assert_fails(at_file_write("", "x", 1), ATTUNE_INVALID_ARGUMENT, "empty");
    /* Nobody, root included, creates files in /proc. */
    assert_fails(at_file_write("/proc/attune-test", "x", 1), ATTUNE_NOT_FOUND, "/proc/attune-test: cannot be written");
    assert_int_equal(folder_count(&home), 0);
}

static void what_can_be_written_is_known_before(void **state)
{
    (void)state;
    const char *path = folder_file(&home, "a");
    assert_ok(at_writer_check(path));
    assert_int_equal(folder_count(&home), 0);
    assert_ok(at_file_write(path, "old", 3));
    assert_ok(at_writer_check(path));
    assert_content(path, "old", 3);
    assert_int_equal(folder_count(&home), 1);
    assert_ok(at_writer_check("/dev/null"));
    assert_fails(at_writer_check(folder_file(&home, "no/such/a")), ATTUNE_NOT_FOUND, "its directory does not exist");
    assert_fails(at_writer_check(home.path), ATTUNE_IO_ERROR, "it is a directory");
    assert_fails(at_writer_check("/proc/attune-test"), ATTUNE_NOT_FOUND, "/proc/attune-test: cannot be written");
    path = folder_file(&home, "pipe");
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_ok(at_writer_check(path)); /* and does not wait for a reader */
}

/* Permissions do not bind root: a child gives it up first. */
static void a_forbidden_file_and_folder_are_refused(void **state)
{
    (void)state;
    char file[PATH_MAX], fresh[PATH_MAX];
    (void)folder_path(&home, "a", file);
    (void)folder_path(&home, "b", fresh);
    assert_ok(at_file_write(file, "old", 3));
    assert_int_equal(chmod(file, 0444), 0);
    assert_int_equal(chmod(home.path, 0777), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) {
            _exit(1);
        }
        bool refused = at_file_write(file, "new", 3) == ATTUNE_IO_ERROR &&
                       strstr(attune_last_detail(), "Permission denied") != NULL;
        (void)!chmod(home.path, 0555);
        _exit(refused ? 42 : 2);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(WEXITSTATUS(status), 42);
    assert_int_equal(chmod(home.path, 0555), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) {
            _exit(1);
        }
        _exit(at_file_write(fresh, "new", 3) == ATTUNE_IO_ERROR ? 42 : 2);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(WEXITSTATUS(status), 42);
    assert_content(file, "old", 3);
    assert_int_equal(folder_count(&home), 1);
}

static void long_names_have_room_for_the_temporary(void **state)
{
    (void)state;
    char name[256];
    memset(name, 'n', 255);
    name[255] = '\0';
    assert_ok(at_file_write(folder_file(&home, name), "x", 1));
    assert_content(home.file, "x", 1);
}

static void relative_paths_work(void **state)
{
    (void)state;
    char before[PATH_MAX];
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(home.path), 0);
    attune_status status = at_file_write("plain", "x", 1);
    assert_int_equal(chdir(before), 0);
    assert_ok(status);
    assert_content(folder_file(&home, "plain"), "x", 1);
}

static void directories_are_made_with_their_parents(void **state)
{
    (void)state;
    struct stat info;
    char deep[PATH_MAX];
    (void)folder_path(&home, "x/y//z/", deep);
    assert_ok(at_directory_check(deep));
    assert_int_equal(stat(folder_file(&home, "x"), &info), -1); /* which makes none */
    assert_ok(at_directory_make(deep));
    assert_ok(at_directory_check(deep));
    assert_ok(at_directory_make(deep));
    assert_int_equal(stat(deep, &info), 0);
    assert_true(S_ISDIR(info.st_mode));
    assert_ok(at_file_write(folder_file(&home, "f"), "x", 1));
    assert_fails(at_directory_make(folder_file(&home, "f")), ATTUNE_IO_ERROR, "something else has its name");
    assert_fails(at_directory_make(folder_file(&home, "f/g")), ATTUNE_IO_ERROR, "cannot be made");
    assert_fails(at_directory_make(""), ATTUNE_INVALID_ARGUMENT, "empty");
    assert_fails(at_directory_check(folder_file(&home, "f")), ATTUNE_IO_ERROR, "something else has its name");
    assert_fails(at_directory_check(folder_file(&home, "f/g")), ATTUNE_IO_ERROR, "something else has its name");
    assert_fails(at_directory_check(""), ATTUNE_INVALID_ARGUMENT, "empty");
    (void)rmdir(folder_file(&home, "x/y/z"));
    (void)rmdir(folder_file(&home, "x/y"));
    (void)rmdir(folder_file(&home, "x"));
}

static void assert_place(at_place place, const char *name, const char *expected)
{
    char *path;
    assert_ok(at_path_user(place, name, &path));
    assert_string_equal(path, expected);
    free(path);
}

static void user_places_follow_xdg(void **state)
{
    (void)state;
    (void)setenv("HOME", "/home/somebody", 1);
    (void)unsetenv("XDG_CACHE_HOME");
    (void)setenv("XDG_DATA_HOME", "/data", 1);
    (void)setenv("XDG_CONFIG_HOME", "relative", 1);
    assert_place(AT_PLACE_CACHE, "kernels", "/home/somebody/.cache/attune/kernels");
    assert_place(AT_PLACE_DATA, NULL, "/data/attune");
    assert_place(AT_PLACE_CONFIG, NULL, "/home/somebody/.config/attune");
    (void)unsetenv("HOME");
    char *path;
    assert_fails(at_path_user(AT_PLACE_CACHE, NULL, &path), ATTUNE_NOT_FOUND, "$XDG_CACHE_HOME");
    assert_null(path);
    assert_place(AT_PLACE_DATA, "w", "/data/attune/w");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_is_written_is_read),
        TEST(reading_keeps_to_the_limit),
        TEST(reading_names_what_is_wrong),
        TEST(pipes_are_read_to_their_end),
        TEST(pipes_and_devices_are_written_straight),
        TEST(a_full_disk_is_an_error),
        TEST(a_file_that_cannot_grow_is_left_as_it_was),
        TEST(abandoned_writers_leave_nothing),
        TEST(interrupts_leave_nothing),
        TEST(a_pipe_that_nobody_writes_to_can_be_left),
        TEST(a_signal_in_the_middle_of_a_write_leaves_nothing),
        TEST(permissions_and_links_are_kept),
        TEST(what_can_be_written_is_known_before),
        TEST(unwritable_places_are_named),
        TEST(a_forbidden_file_and_folder_are_refused),
        TEST(long_names_have_room_for_the_temporary),
        TEST(relative_paths_work),
        TEST(directories_are_made_with_their_parents),
        TEST(user_places_follow_xdg),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
