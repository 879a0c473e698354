/* Any bytes as a stranger's shared object: refused with words, or fine, and never read beyond their end. */
#include <stdint.h>
#include <stdlib.h>

#include "stranger/object.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (at_object_check("object", data, bytes, AT_OBJECT_KERNEL) == ATTUNE_OK &&
        at_object_check("object", data, bytes, AT_OBJECT_DESCRIPTOR) != ATTUNE_OK) {
        abort(); /* what a kernel may have, a descriptor may have */
    }
    return 0;
}
