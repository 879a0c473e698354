/* What compute-sanitizer sees of a kernel while `attune check` runs a few small cases of it. */
#ifndef JUDGE_SANITIZER_H
#define JUDGE_SANITIZER_H

#include "core/problem.h"

/* memcheck: accesses out of bounds or misaligned; initcheck: global memory that is read and was never written;
 * racecheck: shared memory that warps use without a barrier between them. */
typedef enum at_sanitizer_tool { AT_MEMCHECK, AT_INITCHECK, AT_RACECHECK, AT_SANITIZER_TOOLS } at_sanitizer_tool;

const char *at_sanitizer_name(at_sanitizer_tool tool);
/* NULL, or why what this tool reports decides nothing by itself. */
const char *at_sanitizer_excuse(at_sanitizer_tool tool);

enum { AT_SANITIZER_SEEN = 256 };
typedef struct at_sanitizer_finding {
    int reports;                   /* lines that report an error or a hazard */
    char first[AT_SANITIZER_SEEN]; /* the first of them */
} at_sanitizer_finding;

/* Where compute-sanitizer is: $ATTUNE_SANITIZER, else in PATH, else in /usr/local/cuda/bin. ATTUNE_NOT_FOUND says where
 * it was looked for. For the caller to free. */
attune_status at_sanitizer_find(char **sanitizer);
/* A problem of the same features that a sanitizer gets through: at most 2 key/value heads and 100 rows. */
attune_problem at_sanitizer_problem(const attune_problem *problem);
/* Runs `command` (words, ends with NULL) below the sanitizer. ATTUNE_UNSUPPORTED where the sanitizer did not run it to
 * its end, with what was said. */
attune_status at_sanitizer_run(const char *sanitizer, at_sanitizer_tool tool, const char *const *command,
                               at_sanitizer_finding *finding);

#endif
