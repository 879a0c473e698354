/* A kernel's code behind the model's words: MODEL_SOURCE is its source, MODEL_ENTRIES names the entries of its steps;
 * the rest is defined as for the device. What it waits for is in model.cc, which is compiled once for all kernels. */
#include "model.h"

#include MODEL_SOURCE

static_assert(ATTUNE_ARGS_MAPS == 4, "tensors lie where the host has them");

static void (*const entries[])(attune_args) = {MODEL_ENTRIES};

extern "C" void model_enter(int step, const void *args);

extern "C" void model_enter(int step, const void *args)
{
    entries[step](*static_cast<const attune_args *>(args));
}
