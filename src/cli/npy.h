/* NumPy's .npy files, versions 1 to 3: little-endian f2, f4, i4, b1 and u1 in C order. */
#ifndef CLI_NPY_H
#define CLI_NPY_H

#include <stdbool.h>

#include "base/array.h"

/* How to read what the format cannot say. */
typedef struct at_npy_options {
    bool v2_is_bf16; /* "<V2" (two bytes of unknown meaning, as ml_dtypes' bfloat16 is saved) is bf16 */
} at_npy_options;

/* Makes *array a view into the file's bytes. `what` names the file in errors. u1 reads as ATTUNE_BOOL. ATTUNE_CORRUPT
 * if the file is not what it says it is, ATTUNE_UNSUPPORTED if its type, order or endianness is none of ours; the
 * detail says how to convert it. NULL options are the defaults. */
attune_status at_npy_parse(const char *what, const void *file, size_t bytes, const at_npy_options *options,
                           at_array *array);
/* Reads a file into *file, which the caller frees after the view. */
attune_status at_npy_read(const char *path, const at_npy_options *options, void **file, at_array *array);
/* Replaces the file whole or not at all. bf16 is written as "<V2". */
attune_status at_npy_write(const char *path, const at_array *array);

#endif
