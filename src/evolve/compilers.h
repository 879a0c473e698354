/* Compiling ahead: kernels are compiled by several worker processes at once, into the cache that all workers share,
 * while one other worker owns the device and measures. A compiler that takes far longer than the others is ended: what
 * it was at counts as refused, and a fresh process takes its place. */
#ifndef EVOLVE_COMPILERS_H
#define EVOLVE_COMPILERS_H

#include "judge/verdict.h"

typedef struct at_compilers at_compilers;

/* What came of one job. */
typedef struct at_compiled {
    attune_status status;
    char why[AT_SENTENCE_MAX]; /* "" where it was compiled */
    at_build_facts build;
    double seconds;
} at_compiled;

typedef struct at_compilers_options {
    const char *const *worker; /* the command that starts one, ends with NULL; outlives the pool */
    attune_target target;      /* to compile for: none of the processes opens it */
    int count;                 /* processes; 0: one for each CPU but one, 16 at most */
    double longest_s;          /* for one job, whatever the others took; 0: 120 s */
} at_compilers_options;

/* Starts threads; processes are started as there are jobs for them. */
attune_status at_compilers_open(const at_compilers_options *options, at_compilers **compilers);
/* Drops what waits, ends what runs. NULL is fine. */
void at_compilers_close(at_compilers *compilers);
/* Queues "NAME:PARAM=VALUE,..." and says by which number it can be waited for. What is only likely to be wanted is
 * compiled when nothing else waits. */
attune_status at_compilers_add(at_compilers *compilers, const char *kernel, const attune_problem *problem, bool likely,
                               int *job);
/* Waits for a job. ATTUNE_OK whatever came of it; ATTUNE_INTERRUPTED after at_file_interrupt. */
attune_status at_compilers_wait(at_compilers *compilers, int job, at_compiled *compiled);

#endif
