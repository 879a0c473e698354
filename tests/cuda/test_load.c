/* Libraries are found where the environment says, where the loader looks, and among the packages that PyTorch brings,
 * in this order. The library of these tests is a link to one that every machine has, under a name that no loader knows.
 */
#include <dlfcn.h>
#include <link.h>

#include "base/cm.h"
#include "base/file.h"
#include "base/folder.h"
#include "cuda/load.h"

#define NAME "libattune_packaged.so.7"
#define VARIABLE "ATTUNE_TEST_LIBRARY"
#define WHEEL_13 "lib/python3.12/site-packages/nvidia/cu13/lib"
#define WHEEL_12 "lib64/python3.9/dist-packages/nvidia/cuda_nvrtc/lib"

static const char *const names[] = {"libattune_packaged.so.8", NAME, NULL};
static folder place;

static int set_up(void **state)
{
    (void)state;
    return folder_make(&place);
}

static int clean_up(void **state)
{
    (void)state;
    folder_remove(&place);
    return 0;
}

/* The test's folder is the only place where anything is: HOME/.local and PATH lie in it. */
static int forget(void **state)
{
    char path[PATH_MAX];
    (void)state;
    return unsetenv(VARIABLE) | unsetenv("ATTUNE_PACKAGES") | unsetenv("VIRTUAL_ENV") | unsetenv("CONDA_PREFIX") |
           setenv("HOME", folder_path(&place, "nobody", path), 1) |
           setenv("PATH", folder_path(&place, "nowhere", path), 1);
}

static void link_to(const char *target, const char *folder_name, const char *name)
{
    char path[PATH_MAX];
    char link_path[PATH_MAX + 64];
    assert_ok(at_directory_make(folder_path(&place, folder_name, path)));
    (void)snprintf(link_path, sizeof link_path, "%s/%s", path, name);
    assert_int_equal(symlink(target, link_path), 0);
}

/* What a wheel has below its prefix: a link to the machine's libm. */
static void install(const char *prefix, const char *wheel)
{
    char where[PATH_MAX];
    struct link_map *map = NULL;
    void *libm = dlopen("libm.so.6", RTLD_NOW);
    assert_non_null(libm);
    assert_int_equal(dlinfo(libm, RTLD_DI_LINKMAP, &map), 0);
    (void)snprintf(where, sizeof where, "%s/%s", prefix, wheel);
    link_to(map->l_name, where, NAME);
    (void)dlclose(libm);
}

static void found(void)
{
    void *library = NULL;
    double (*cosine)(double) = NULL;
    assert_ok(at_load_packaged_library(ATTUNE_UNSUPPORTED, "the library", VARIABLE, names, &library));
    assert_ok(at_load_symbol(ATTUNE_UNSUPPORTED, "the library", library, "cos", &cosine, sizeof cosine));
    assert_true(cosine(0) == 1);
    at_load_close(library);
}

static void not_found(const char *words)
{
    void *library = &library;
    assert_fails(at_load_packaged_library(ATTUNE_UNSUPPORTED, "the library", VARIABLE, names, &library),
                 ATTUNE_UNSUPPORTED, words);
    assert_null(library);
}

static void set_variable(const char *variable, const char *in_folder)
{
    char path[PATH_MAX];
    assert_int_equal(setenv(variable, folder_path(&place, in_folder, path), 1), 0);
}

static void nowhere(void **state)
{
    (void)state;
    not_found("among the packages of a Python");
    not_found(VARIABLE " can name it");
    assert_int_equal(setenv("PATH", "", 1) | unsetenv("HOME"), 0);
    not_found(names[1]);
    assert_int_equal(setenv("PATH", "::relative:", 1) | setenv("VIRTUAL_ENV", "relative", 1), 0);
    not_found(names[1]);
    char *endless = malloc(3 * PATH_MAX);
    assert_non_null(endless);
    memset(endless, '*', 3 * PATH_MAX);
    endless[0] = '/';
    endless[3 * PATH_MAX - 1] = '\0';
    assert_int_equal(setenv("PATH", endless, 1) | setenv("VIRTUAL_ENV", endless, 1) | setenv("HOME", endless, 1), 0);
    assert_int_equal(setenv("ATTUNE_PACKAGES", endless, 1), 0);
    not_found(names[1]);
    free(endless);
}

static void in_a_folder_that_is_listed(void **state)
{
    char path[PATH_MAX];
    char folders[2 * PATH_MAX];
    (void)state;
    install("packages [2]*", "nvidia/cu13/lib");
    (void)snprintf(folders, sizeof folders, "relative::/no/such:%s", folder_path(&place, "packages [2]*", path));
    assert_int_equal(setenv("ATTUNE_PACKAGES", folders + strlen("relative::/no/such:"), 1), 0);
    found();
    assert_int_equal(setenv("ATTUNE_PACKAGES", folders, 1), 0);
    found();
    assert_int_equal(setenv("ATTUNE_PACKAGES", "relative::/no/such", 1), 0);
    not_found(names[1]);
}

static void in_the_active_environment(void **state)
{
    (void)state;
    install("venv [1]*", WHEEL_13); /* a name that glob would read otherwise */
    set_variable("VIRTUAL_ENV", "venv [1]*");
    found();
    assert_int_equal(unsetenv("VIRTUAL_ENV"), 0);
    not_found(names[1]);
    set_variable("CONDA_PREFIX", "venv [1]*");
    found();
}

static void around_a_python_in_the_path(void **state)
{
    char path[PATH_MAX];
    char folders[2 * PATH_MAX];
    (void)state;
    install("conda", WHEEL_12);
    (void)snprintf(folders, sizeof folders, "/no/such:%s", folder_path(&place, "conda/bin", path));
    assert_int_equal(setenv("PATH", folders, 1), 0);
    not_found(names[1]); /* no python3 is there yet */
    link_to("/bin/sh", "conda/bin", "python3");
    found();
}

/* A python3 that leads elsewhere: the packages beside what it leads to. */
static void behind_a_link(void **state)
{
    char path[PATH_MAX];
    (void)state;
    install("base", WHEEL_12);
    assert_ok(at_directory_make(folder_path(&place, "base/bin", path)));
    assert_ok(at_file_write(folder_path(&place, "base/bin/python3.9", path), "", 0));
    assert_int_equal(chmod(path, 0755), 0);
    link_to(path, "links", "python3");
    set_variable("PATH", "links");
    found();
}

static void among_the_users_packages(void **state)
{
    (void)state;
    install("user/.local", WHEEL_12);
    set_variable("HOME", "user");
    found();
}

static void the_environment_decides_alone(void **state)
{
    char path[PATH_MAX];
    (void)state;
    set_variable("HOME", "user"); /* where there is one, as the test before has seen */
    found();
    assert_int_equal(setenv(VARIABLE, "/no/such/library.so", 1), 0);
    not_found("/no/such/library.so");
    assert_int_equal(setenv("HOME", "/", 1), 0);
    (void)snprintf(path, sizeof path, "%s/user/.local/" WHEEL_12 "/" NAME, place.path);
    assert_int_equal(setenv(VARIABLE, path, 1), 0);
    found();
}

/* What is no library is passed over for the next place. */
static void what_does_not_open(void **state)
{
    char path[PATH_MAX];
    (void)state;
    assert_ok(at_directory_make(folder_path(&place, "broken/" WHEEL_13, path)));
    assert_ok(at_file_write(folder_path(&place, "broken/" WHEEL_13 "/" NAME, path), "no library", 10));
    set_variable("VIRTUAL_ENV", "broken");
    not_found(names[1]);
    set_variable("HOME", "user");
    found();
}

/* Libraries that no package brings are not looked for in them. */
static void only_where_asked(void **state)
{
    void *library = NULL;
    (void)state;
    set_variable("HOME", "user");
    assert_fails(at_load_library(ATTUNE_NO_DEVICE, "the library", VARIABLE, names, &library), ATTUNE_NO_DEVICE,
                 names[1]);
}

#define TEST(name) cmocka_unit_test_setup(name, forget)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(nowhere),
        TEST(in_a_folder_that_is_listed),
        TEST(in_the_active_environment),
        TEST(around_a_python_in_the_path),
        TEST(behind_a_link),
        TEST(among_the_users_packages),
        TEST(the_environment_decides_alone),
        TEST(what_does_not_open),
        TEST(only_where_asked),
    };
    return cmocka_run_group_tests(tests, set_up, clean_up);
}
