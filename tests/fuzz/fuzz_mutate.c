/* Any bytes as a kernel's source: changed, or nothing to change. The first eight are the draw. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "evolve/mutate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    uint64_t draw = 0;
    if (bytes < sizeof draw) {
        return 0;
    }
    memcpy(&draw, data, sizeof draw);
    char *changed, idea[160], *source = strndup((const char *)data + sizeof draw, bytes - sizeof draw);
    if (source != NULL && at_mutate(source, (uint32_t)draw, draw, &changed, idea, sizeof idea) != ATTUNE_OK &&
        changed != NULL) {
        abort();
    }
    free(source != NULL ? changed : NULL);
    free(source);
    return 0;
}
