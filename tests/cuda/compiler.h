/* A run-time compiler for a group of tests: NULL where this machine has none. */
#ifndef TESTS_CUDA_COMPILER_H
#define TESTS_CUDA_COMPILER_H

#include "cuda/fixture.h"

static at_nvrtc *nvrtc;

static int open_compiler(void **state)
{
    (void)state;
    nvrtc = fixture_compiler();
    return 0;
}

static int close_compiler(void **state)
{
    (void)state;
    at_nvrtc_close(nvrtc);
    return 0;
}

#endif
