/* How failures travel: a status is returned, what happened is said once, in this thread's detail. */
#ifndef BASE_STATUS_H
#define BASE_STATUS_H

#include "attune/attune.h"

/* Sets the thread's detail (printf style) and returns `status`. */
attune_status at_fail(attune_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Puts "context: " before the thread's detail and returns `status` unchanged; for callers that know more. */
attune_status at_fail_in(attune_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));
#if defined(__clang_analyzer__)
/* The analyser reads one source at a time, and would otherwise follow paths on which a failure is no failure. */
#define at_fail(status, ...) ((void)(at_fail)((status), __VA_ARGS__), (status))
#define at_fail_in(status, ...) ((void)(at_fail_in)((status), __VA_ARGS__), (status))
#endif

#define AT_FAIL_IF(condition, status, ...)                                                                             \
    do {                                                                                                               \
        if (condition) {                                                                                               \
            return at_fail((status), __VA_ARGS__);                                                                     \
        }                                                                                                              \
    } while (0)

#define AT_FORWARD(call)                                                                                               \
    do {                                                                                                               \
        attune_status at_status_ = (call);                                                                             \
        if (at_status_ != ATTUNE_OK) {                                                                                 \
            return at_status_;                                                                                         \
        }                                                                                                              \
    } while (0)

#endif
