/* A bench in workers: where an arm is a folder with code for a CPU, or Python's, every arm has a process of its own,
 * that of such a folder locked for it, and samples are taken as the gate takes those of candidates. */
#ifndef CLI_BENCH_WORKERS_H
#define CLI_BENCH_WORKERS_H

#include "cli/bench_arms.h"
#include "core/problem.h"
#include "measure/interleave.h"

typedef struct at_bench_workers_options {
    const char *target; /* as at_remote_options has it */
    const char *isa;
    int threads;
    at_pool *pool; /* for the reference */
    const at_interleave *how;
} at_bench_workers_options;

/* Whether a name is one of Python's or, where arms run on a CPU, that of a folder whose kernel is for one. One that
 * cannot be opened is none. */
bool at_bench_wants_workers(const at_arm_names *names, attune_target_kind target);
/* Opens, judges and times all arms on a problem. `setup` receives what at_bench_setup_open would say of them, without
 * anything that is opened, and needs no closing; `samples` has a place for each arm that is ready, in order, freed with
 * at_samples_free, also after an error. */
attune_status at_bench_workers_run(const at_bench_workers_options *options, const at_test_problem *test,
                                   const at_arm_names *names, at_bench_setup *setup, at_samples *samples);

#endif
