/* Tests against a driver that only remembers: it is found once, and forgets before each test. */
#ifndef TESTS_CUDA_DRIVEN_H
#define TESTS_CUDA_DRIVEN_H

#include <dlfcn.h>

#include "cuda/device.h"
#include "cuda/fake_driver.h"
#include "cuda/fixture.h"

static fake_record *fake; /* what the driver was asked, and what it answers */
static fake_record driven_untouched;
static bool has_compiler;

/* Setup of a group. */
static int driven_find(void **state)
{
    (void)state;
    void *library = dlopen(ATTUNE_FAKE_DRIVER, RTLD_NOW | RTLD_LOCAL);
    fake = library == NULL ? NULL : dlsym(library, "fake");
    if (fake == NULL || setenv("ATTUNE_LIBCUDA", ATTUNE_FAKE_DRIVER, 1) != 0) {
        return -1;
    }
    driven_untouched = *fake;
    at_nvrtc *nvrtc = fixture_compiler();
    has_compiler = nvrtc != NULL;
    at_nvrtc_close(nvrtc);
    return 0;
}

/* Setup of each test: the driver as it was found, and a plain fixture. */
static int driven_forget(void **state)
{
    (void)state;
    *fake = driven_untouched;
    fake->set_current(NULL);
    fixture = (fixture_says){.threads = 128, .cluster = 1, .entry = "entry"};
    return 0;
}

/* A kernel for it: writes the scale it was given. */
static const char driven_source[] =
    FIXTURE_ENTRY("static_cast<float *>(args.tensor[ATTUNE_O].data)[threadIdx.x] = args.scale;");

#endif
