/* Images: kernels built ahead for several architectures, as nvcc's fatbins. What is loaded is the one cubin that suits
 * the device, and that is inspected like what NVRTC makes. For architectures that came later there is PTX, of which the
 * device's driver makes a cubin; that is inspected likewise. */
#ifndef CUDA_IMAGE_H
#define CUDA_IMAGE_H

#include "attune/kernel.h"
#include "base/embedded.h"

/* What the library was built with; ended by a NULL name. Written by the build. An image is a file of its own beside the
 * library, libattune-NAME, which is only read where its kernel is loaded. */
typedef struct at_cuda_image {
    const char *name;   /* "cutlass.fatbin" */
    const char *digest; /* SHA-256, in hexadecimal */
} at_cuda_image;
extern const at_cuda_image at_cuda_images[];

/* Reads the library's image of this name: from the folder of $ATTUNE_IMAGES, or from where this library or program lies
 * or from the library folder beside that. `data` is the caller's to free. ATTUNE_NOT_FOUND says where it was looked
 * for; what is not what the library was built with is not taken. */
attune_status at_image_read(const char *name, at_embedded *image);

/* One cubin of an image, or its PTX: text, with zeros behind it or not. */
typedef struct at_image_code {
    const unsigned char *data;
    size_t bytes;
    int32_t arch; /* 90 */
} at_image_code;

/* The index-th cubin of a fatbin, from 0; ATTUNE_NOT_FOUND when there are no more, ATTUNE_CORRUPT for what is not a
 * sound, uncompressed fatbin. Any bytes may be given. */
attune_status at_image_code_at(const void *data, size_t bytes, int index, at_image_code *code);

/* The cubin that runs on the target: of the same generation, the newest that is not newer. ATTUNE_UNSUPPORTED names
 * what there is instead. */
attune_status at_image_choose(const at_embedded *image, const attune_target *target, at_image_code *code);

/* The newest PTX that is not newer than the target, whatever the target's generation; ATTUNE_NOT_FOUND where there is
 * none. */
attune_status at_image_ptx(const at_embedded *image, const attune_target *target, at_image_code *code);

#endif
