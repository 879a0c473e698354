/* The disk cache: what it keeps, what it does not believe, and many writers at once. Run with arguments it is one of
 * those writers: test_cuda_cache fill DIRECTORY SEED. */
#include <dirent.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cm.h"
#include "base/digest.h"
#include "base/file.h"
#include "base/folder.h"
#include "cuda/cache.h"

static folder place_of_test;

static int make_place(void **state)
{
    *state = place_of_test.path;
    return folder_make(&place_of_test);
}

static int remove_place(void **state)
{
    folder inner;
    (void)state;
    (void)snprintf(inner.path, sizeof inner.path, "%.50s/cuda", place_of_test.path);
    folder_remove(&inner);
    folder_remove(&place_of_test);
    return 0;
}

/* An artifact that anyone can check: its bytes follow from its name. */
static at_artifact made(int index, int compiler)
{
    char name[32];
    at_artifact artifact;
    (void)snprintf(name, sizeof name, "build %d", index);
    assert_ok(at_artifact_reserve(&artifact, 3000 + (size_t)index * 977, 100));
    at_digest_of(name, strlen(name), artifact.build);
    artifact.compiler = compiler;
    for (size_t i = 0; i < artifact.cubin_bytes; ++i) {
        artifact.cubin[i] = (unsigned char)(i * 31 + (size_t)index + (size_t)compiler);
    }
    memset(artifact.log, 'a' + index % 26, artifact.log_bytes);
    return artifact;
}

static bool same(const at_artifact *a, const at_artifact *b)
{
    return a->cubin_bytes == b->cubin_bytes && a->log_bytes == b->log_bytes && a->compiler == b->compiler &&
           strcmp(a->build, b->build) == 0 && memcmp(a->cubin, b->cubin, a->cubin_bytes) == 0 &&
           strcmp(a->log, b->log) == 0;
}

/* ---- Many writers -------------------------------------------------------------------------------------------------
 */

enum { BUILDS = 12, ROUNDS = 10, THREADS = 8, PROCESSES = 2 };

typedef struct filler {
    const char *place;
    unsigned int seed;
    int wrong; /* found, but not what was kept */
    int lost;  /* not found right after it was kept */
} filler;

static void *fill(void *context)
{
    filler *self = context;
    for (int i = 0; i < BUILDS * ROUNDS; ++i) {
        at_artifact found;
        at_artifact artifact = made((int)(((unsigned int)i * 7 + self->seed) % BUILDS), 13000);
        bool there = at_cache_find(self->place, artifact.build, 13000, &found);
        self->wrong += there && !same(&artifact, &found);
        at_artifact_free(&found);
        self->lost +=
            !at_cache_keep(self->place, &artifact) || !at_cache_find(self->place, artifact.build, 13000, &found);
        self->wrong += found.cubin != NULL && !same(&artifact, &found);
        at_artifact_free(&found);
        at_artifact_free(&artifact);
    }
    return NULL;
}

static int fill_from_threads(const char *place, unsigned int seed)
{
    pthread_t thread[THREADS];
    filler filling[THREADS];
    int bad = 0;
    for (int i = 0; i < THREADS; ++i) {
        filling[i] = (filler){.place = place, .seed = seed + (unsigned int)i};
        if (pthread_create(&thread[i], NULL, fill, &filling[i]) != 0) {
            return 99;
        }
    }
    for (int i = 0; i < THREADS; ++i) {
        (void)pthread_join(thread[i], NULL);
        bad += filling[i].wrong + filling[i].lost;
    }
    return bad > 98 ? 98 : bad;
}

static int files_in(const char *directory)
{
    folder listed;
    (void)snprintf(listed.path, sizeof listed.path, "%s", directory);
    return folder_count(&listed);
}

static void two_processes_of_eight_threads(void **state)
{
    pid_t child[PROCESSES];
    char *place = at_cache_place(*state);
    assert_non_null(place);
    for (int i = 0; i < PROCESSES; ++i) {
        char seed[8];
        (void)snprintf(seed, sizeof seed, "%d", i * 5);
        char *arguments[] = {(char *)"test_cuda_cache", (char *)"fill", place, seed, NULL};
        assert_int_equal(posix_spawn(&child[i], "/proc/self/exe", NULL, NULL, arguments, environ), 0);
    }
    for (int i = 0; i < PROCESSES; ++i) {
        int status = -1;
        assert_int_equal(waitpid(child[i], &status, 0), child[i]);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
    /* All of them sound, one file each, and no temporary file left. */
    assert_int_equal(files_in(place), BUILDS);
    for (int i = 0; i < BUILDS; ++i) {
        at_artifact found;
        at_artifact artifact = made(i, 13000);
        assert_true(at_cache_find(place, artifact.build, 13000, &found));
        assert_true(same(&artifact, &found));
        at_artifact_free(&found);
        at_artifact_free(&artifact);
    }
    free(place);
}

/* ---- One at a time --------------------------------------------------------------------------------------------------
 */

static void what_is_kept_is_found(void **state)
{
    at_artifact found;
    at_artifact artifact = made(1, 13000);
    at_artifact other = made(2, 13000);
    char *place = at_cache_place(*state);
    assert_false(at_cache_find(place, artifact.build, 13000, &found));
    assert_true(at_cache_keep(place, &artifact));
    assert_true(at_cache_find(place, artifact.build, 13000, &found));
    assert_true(same(&artifact, &found));
    at_artifact_free(&found);
    assert_false(at_cache_find(place, artifact.build, 12080, &found)); /* another compiler */
    assert_false(at_cache_find(place, other.build, 13000, &found));
    at_artifact_free(&artifact);
    at_artifact_free(&other);
    free(place);
}

/* The only file in the cache's directory. */
static void only_file(const char *place, char path[512])
{
    DIR *listing = opendir(place);
    assert_non_null(listing);
    for (const struct dirent *entry = readdir(listing); entry != NULL; entry = readdir(listing)) {
        if (entry->d_name[0] != '.') {
            (void)snprintf(path, 512, "%s/%s", place, entry->d_name);
        }
    }
    (void)closedir(listing);
}

static void damage_is_rebuilt(void **state)
{
    at_artifact found;
    at_artifact artifact = made(3, 13000);
    void *data = NULL;
    size_t bytes = 0;
    char path[512] = "";
    char *place = at_cache_place(*state);
    assert_true(at_cache_keep(place, &artifact));
    only_file(place, path);
    assert_ok(at_file_read(path, 1 << 20, &data, &bytes));
    for (size_t at = 0; at < bytes; at += 61) {
        unsigned char *flipped = data;
        flipped[at] ^= 4;
        assert_ok(at_file_write(path, data, bytes));
        assert_false(at_cache_find(place, artifact.build, 13000, &found));
        flipped[at] ^= 4;
    }
    for (size_t length = 0; length < bytes; length += 97) {
        assert_ok(at_file_write(path, data, length));
        assert_false(at_cache_find(place, artifact.build, 13000, &found));
    }
    assert_true(at_cache_keep(place, &artifact));
    assert_true(at_cache_find(place, artifact.build, 13000, &found));
    assert_true(same(&artifact, &found));
    at_artifact_free(&found);
    at_artifact_free(&artifact);
    free(data);
    free(place);
}

static void a_sound_file_under_another_name_is_not_believed(void **state)
{
    at_artifact found;
    at_artifact one = made(4, 13000);
    at_artifact two = made(5, 13000);
    void *data = NULL;
    size_t bytes = 0;
    char first[512] = "";
    char second[512] = "";
    char *place = at_cache_place(*state);
    assert_true(at_cache_keep(place, &one));
    only_file(place, first);
    assert_ok(at_file_read(first, 1 << 20, &data, &bytes));
    assert_int_equal(unlink(first), 0);
    assert_true(at_cache_keep(place, &two));
    only_file(place, second);
    assert_ok(at_file_write(second, data, bytes));
    assert_false(at_cache_find(place, two.build, 13000, &found));
    at_artifact_free(&one);
    at_artifact_free(&two);
    free(data);
    free(place);
}

static void without_a_usable_place_nothing_is_kept(void **state)
{
    at_artifact found;
    at_artifact artifact = made(6, 13000);
    char path[512];
    assert_null(at_cache_place(""));
    assert_false(at_cache_keep(NULL, &artifact));
    assert_false(at_cache_find(NULL, artifact.build, 13000, &found));
    /* A file where the directory should be: nobody can write there, root included. */
    (void)snprintf(path, sizeof path, "%s/taken", (const char *)*state);
    assert_ok(at_file_write(path, "x", 1));
    char *place = at_cache_place(path);
    assert_false(at_cache_keep(place, &artifact));
    assert_false(at_cache_find(place, artifact.build, 13000, &found));
    at_artifact_free(&artifact);
    free(place);
}

static void the_user_has_a_place(void **state)
{
    (void)state;
    assert_int_equal(setenv("XDG_CACHE_HOME", "/somewhere", 1), 0);
    char *place = at_cache_place(NULL);
    assert_string_equal(place, "/somewhere/attune/cuda");
    free(place);
}

int main(int count, char **arguments)
{
    if (count == 4 && strcmp(arguments[1], "fill") == 0) {
        return fill_from_threads(arguments[2], (unsigned int)strtoul(arguments[3], NULL, 10));
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(two_processes_of_eight_threads, make_place, remove_place),
        cmocka_unit_test_setup_teardown(what_is_kept_is_found, make_place, remove_place),
        cmocka_unit_test_setup_teardown(damage_is_rebuilt, make_place, remove_place),
        cmocka_unit_test_setup_teardown(a_sound_file_under_another_name_is_not_believed, make_place, remove_place),
        cmocka_unit_test_setup_teardown(without_a_usable_place_nothing_is_kept, make_place, remove_place),
        cmocka_unit_test(the_user_has_a_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
