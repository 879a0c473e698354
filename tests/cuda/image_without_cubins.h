/* An image as a device sees it that came after its cubins. */
#ifndef TESTS_CUDA_IMAGE_WITHOUT_CUBINS_H
#define TESTS_CUDA_IMAGE_WITHOUT_CUBINS_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/embedded.h"

/* A copy of a fatbin, for the caller to free, whose cubins are of a kind that nobody knows; NULL without memory. */
static inline unsigned char *image_without_cubins(const at_embedded *image)
{
    enum { HEAD = 16, CUBIN = 2, UNKNOWN = 99 };
    unsigned char *copy = malloc(image->size);
    if (copy == NULL) {
        return NULL;
    }
    memcpy(copy, image->data, image->size);
    for (size_t at = HEAD; at < image->size;) {
        uint16_t kind = 0;
        uint32_t head = 0;
        uint64_t bytes = 0;
        memcpy(&kind, copy + at, sizeof kind);
        memcpy(&head, copy + at + 4, sizeof head);
        memcpy(&bytes, copy + at + 8, sizeof bytes);
        kind = kind == CUBIN ? UNKNOWN : kind;
        memcpy(copy + at, &kind, sizeof kind);
        at += head + bytes;
    }
    return copy;
}

#endif
