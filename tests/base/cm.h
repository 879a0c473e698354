/* cmocka with what it needs included first, and checks of a status and of the words of its detail. */
#ifndef TESTS_BASE_CM_H
#define TESTS_BASE_CM_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "attune/attune.h"

/* Options of a plan. */
#define WITH_EFFORT(value) (&(attune_plan_options){.size = sizeof(attune_plan_options), .effort = (value)})
#define WITH_KERNEL(text) (&(attune_plan_options){.size = sizeof(attune_plan_options), .kernel = (text)})

/* The call succeeds; if not, its detail is shown. */
#define assert_ok(call)                                                                                                \
    do {                                                                                                               \
        attune_status got_ = (call);                                                                                   \
        if (got_ != ATTUNE_OK) {                                                                                       \
            fail_msg("%s: %s: %s", #call, attune_status_string(got_), attune_last_detail());                           \
        }                                                                                                              \
    } while (0)

/* The call fails with this status, and its detail contains the words. */
#define assert_fails(call, status, words)                                                                              \
    do {                                                                                                               \
        attune_status got_ = (call);                                                                                   \
        if (got_ != (status) || strstr(attune_last_detail(), (words)) == NULL) {                                       \
            fail_msg("%s: %s, expected %s: \"%s\" lacks \"%s\"", #call, attune_status_string(got_),                    \
                     attune_status_string(status), attune_last_detail(), (words));                                     \
        }                                                                                                              \
    } while (0)

#endif
