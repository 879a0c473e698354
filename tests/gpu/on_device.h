/* The state of a group of device tests: a context of the first GPU. */
#ifndef TESTS_GPU_ON_DEVICE_H
#define TESTS_GPU_ON_DEVICE_H

#include "base/cm.h"

#include "attune/attune.h"

static int open_device(void **state)
{
    attune_options options;
    attune_options_init(&options);
    options.target = "cuda";
    attune_context *context = NULL;
    assert_ok(attune_context_create(&options, &context));
    *state = context;
    return 0;
}

static int close_device(void **state)
{
    attune_context_destroy(*state);
    return 0;
}

#endif
