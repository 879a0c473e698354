/* What compute-sanitizer sees of a kernel while `attune check` runs a few small cases of it. */
#ifndef JUDGE_SANITIZER_H
#define JUDGE_SANITIZER_H

#include "core/problem.h"

/* memcheck: accesses out of bounds or misaligned; initcheck: global memory that is read and was never written;
 * racecheck: shared memory that warps use without a barrier between them. */
typedef enum at_sanitizer_tool { AT_MEMCHECK, AT_INITCHECK, AT_RACECHECK, AT_SANITIZER_TOOLS } at_sanitizer_tool;

enum { AT_SANITIZER_SEEN = 256, AT_SANITIZER_PATIENCE_S = 280 };

/* What came of one tool. */
typedef struct at_sanitizer_finding {
    char tool[16];
    bool ran;                            /* the tool ran the cases to their end, or reported something */
    int32_t reports;                     /* lines that report an error or a hazard */
    char first[AT_SANITIZER_SEEN];       /* the first of them */
    char account[2 * AT_SANITIZER_SEEN]; /* why it did not run, or why what this tool reports of this kernel decides
                                            nothing; "" where its reports are the kernel's fault */
} at_sanitizer_finding;

/* NULL, or why what this tool reports of this kernel ("NAME:PARAM=VALUE,..."; NULL: not known) decides nothing: the
 * exceptions of the library's own kernels are a table of sanitizer.c. */
const char *at_sanitizer_excuse(at_sanitizer_tool tool, const char *kernel);
/* The kernel that exception number `index` is for; NULL behind the last. */
const char *at_sanitizer_excepted(int index);

/* Where compute-sanitizer is: $ATTUNE_SANITIZER, else in PATH, else in /usr/local/cuda/bin. ATTUNE_NOT_FOUND says where
 * it was looked for. For the caller to free. */
attune_status at_sanitizer_find(char **sanitizer);
/* A problem of the same features that a sanitizer gets through: at most 2 key/value heads, 100 rows
 * and as many keys, more for few rows: up to 1,100. */
attune_problem at_sanitizer_problem(const attune_problem *problem);
/* Runs `command` (words, ends with NULL), which runs `kernel`, below the sanitizer, at most so long. A tool that did
 * not get to its end and reported nothing has not run: the account says why. */
void at_sanitizer_run(const char *sanitizer, at_sanitizer_tool tool, const char *kernel, const char *const *command,
                      double patience_s, at_sanitizer_finding *finding);
/* The finding of a tool that cannot be run, for the reason of the last error. */
void at_sanitizer_miss(at_sanitizer_tool tool, at_sanitizer_finding *finding);

/* Whether the kernel is at fault. */
bool at_sanitizer_refutes(const at_sanitizer_finding *finding);
/* "memcheck: nothing", "racecheck: 2 reports, the first: ...; decides nothing: ...", "initcheck: not checked: ...". */
enum { AT_SANITIZER_SENTENCE = 1024 };
const char *at_sanitizer_print(const at_sanitizer_finding *finding, char text[AT_SANITIZER_SENTENCE]);

#endif
