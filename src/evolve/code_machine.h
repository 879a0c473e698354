/* A search for code on a real machine: sources are written into folders and go the way of strangers' kernels, their
 * parameters are searched by the engine's own search, and two sources race: on a CPU each in a worker of its own,
 * sample by sample; on a GPU, which two processes would share, in one. */
#ifndef EVOLVE_CODE_MACHINE_H
#define EVOLVE_CODE_MACHINE_H

#include "base/threads.h"
#include "evolve/code.h"
#include "gate/gate.h"
#include "worker/remote.h"

typedef struct at_code_bench at_code_bench;

typedef struct at_code_bench_options {
    const at_test_problem *problem; /* the first is raced on; all must be supported, and are judged by the gate */
    int problem_count;
    at_remote_options worker; /* without `confined` */
    attune_target target;
    at_pool *pool;
    const char *strategy; /* of parameters; NULL: the default */
    uint64_t seed;
    bool counters;               /* ask the hardware's about each source that is tuned: seconds each */
    const at_gate_options *gate; /* how the winner is judged: candidates, peers and problems are not read */
} at_code_bench_options;

attune_status at_code_bench_open(const at_code_bench_options *options, at_code_bench **bench);
void at_code_bench_close(at_code_bench *bench);
at_code_machine at_code_bench_machine(at_code_bench *bench);
/* For attune-try: compiled, launched on inputs of a few public seeds, and about how long that took. `self` is the
 * bench. */
attune_status at_code_bench_try(void *self, const at_sources *candidate, at_text *answer);

/* A kernel's sources as a folder holds them: those of a folder, or of one of the library's own, written so that it is a
 * folder's. ATTUNE_UNSUPPORTED for what cannot be. */
attune_status at_code_sources_of(const char *kernel, at_sources *sources);

#endif
