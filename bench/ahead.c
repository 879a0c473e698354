/* Code made ahead: every config of a CUDA kernel on some problems, compiled into the cache, so that a search on a
 * borrowed device compiles nothing there.
 *
 *     ATTUNE_CACHE=cache build/bench/ahead ARCH KERNEL PROBLEM...
 *
 * It needs a compiler and no device. What a problem's code depends on is the kernel's business: problems that differ in
 * sizes alone share theirs, and cost nothing the second time. A line for each problem on standard output. */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/status.h"
#include "base/threads.h"
#include "core/problem.h"
#include "cuda/cuda.h"
#include "evolve/space.h"
#include "library/catalogue.h"
#include "measure/clock.h"

typedef struct job {
    const attune_kernel *kernel;
    attune_target target;
    attune_problem problem;
    const at_space *space;
    atomic_int refused;
} job;

static void compile(void *context, int64_t item, void *scratch)
{
    job *on = context;
    at_cuda_usage usage;
    attune_config config;
    (void)scratch;
    at_space_config(on->space, (int)item, &config);
    if (at_cuda_inspect(on->kernel, &on->problem, &on->target, &config, getenv("ATTUNE_CACHE"), &usage) != ATTUNE_OK) {
        char text[AT_KERNEL_TEXT_MAX];
        at_space_print(on->space, (int)item, text);
        (void)fprintf(stderr, "ahead: %s: %s\n", text, attune_last_detail());
        (void)atomic_fetch_add(&on->refused, 1);
    }
}

static attune_status compile_problem(at_pool *pool, job *on, const char *text)
{
    at_clock clock = at_clock_monotonic();
    int64_t began_ns = clock.now_ns(clock.self);
    at_space *space;
    AT_FORWARD(attune_problem_parse(text, &on->problem));
    AT_FORWARD(at_space_open(on->kernel, &on->problem, &on->target, &space));
    on->space = space;
    atomic_store(&on->refused, 0);
    at_pool_run(pool, space->count, compile, on);
    (void)printf("%s: %d configs of %s of %" PRId64 " combinations over %d live parameters, %d refused, %.1f s\n", text,
                 space->count, space->kernel, space->total, at_space_live(space), atomic_load(&on->refused),
                 1e-9 * (double)(clock.now_ns(clock.self) - began_ns));
    (void)fflush(stdout);
    at_space_close(space);
    return ATTUNE_OK;
}

static attune_status run(char **word, int count)
{
    job on = {.kernel = at_catalogue_find(word[1])};
    at_pool *pool;
    AT_FAIL_IF(on.kernel == NULL || on.kernel->target != ATTUNE_TARGET_CUDA, ATTUNE_NOT_FOUND,
               "there is no CUDA kernel \"%s\"", word[1]);
    AT_FORWARD(at_cuda_typical(atoi(word[0]), &on.target));
    AT_FORWARD(at_pool_create(at_cpu_count(), 0, &pool));
    attune_status status = ATTUNE_OK;
    for (int i = 2; i < count && status == ATTUNE_OK; ++i) {
        status = compile_problem(pool, &on, word[i]);
    }
    at_pool_destroy(pool);
    return status;
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        (void)fprintf(stderr, "usage: ahead ARCH KERNEL PROBLEM...\n");
        return 2;
    }
    if (run(argv + 1, argc - 1) != ATTUNE_OK) {
        (void)fprintf(stderr, "ahead: %s\n", attune_last_detail());
        return 1;
    }
    return 0;
}
