/* A fresh folder for each test: TEST(name) in the list of tests. An interrupt that a test asked for ends with it. */
#ifndef TESTS_BASE_HOME_H
#define TESTS_BASE_HOME_H

#include "base/cm.h"

#include "base/file.h"
#include "base/folder.h"

static folder home;

static int set_up(void **state)
{
    (void)state;
    at_file_resume();
    return folder_make(&home);
}

static int tear_down(void **state)
{
    (void)state;
    at_file_resume();
    folder_remove(&home);
    return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

#endif
