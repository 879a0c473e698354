/* The safetensors format: a JSON header of named tensors, then their bytes, each byte belonging to exactly one. */
#ifndef CLI_SAFETENSORS_H
#define CLI_SAFETENSORS_H

#include "base/array.h"

typedef struct at_safetensors at_safetensors;

typedef struct at_named_array {
    const char *name;
    const char *type; /* the file's name of the dtype, "F16"; ignored by at_safetensors_write */
    at_array array;
} at_named_array;

typedef struct at_pair {
    const char *key, *value;
} at_pair;

/* Headers longer than this are refused, as the format's own library does. */
#define AT_SAFETENSORS_HEADER_MAX 100000000u

/* Reads the header of a file in memory, which must outlive the tensors: arrays are views into it. `what` names the file
 * in errors. Types that attune does not compute with (F64, I64, F8_E4M3, ...) are kept with dtype -1; U8 reads as
 * ATTUNE_BOOL. ATTUNE_CORRUPT where the header lies: sizes, offsets, order, gaps, overlaps, repeated names. */
attune_status at_safetensors_parse(const char *what, const void *file, size_t bytes, at_safetensors **tensors);
/* Reads a file; its bytes belong to the tensors. */
attune_status at_safetensors_read(const char *path, at_safetensors **tensors);
void at_safetensors_destroy(at_safetensors *tensors);

size_t at_safetensors_count(const at_safetensors *tensors);
/* The index-th tensor in the order of the data; belongs to the tensors. */
const at_named_array *at_safetensors_at(const at_safetensors *tensors, size_t index);
/* The tensor of exactly this name, or NULL. */
const at_named_array *at_safetensors_find(const at_safetensors *tensors, const char *name);
/* The value of a key of __metadata__, or NULL. */
const char *at_safetensors_metadata(const at_safetensors *tensors, const char *key);

/* Replaces the file whole or not at all. The same tensors and metadata, in whatever order they are given, make the same
 * bytes: larger elements first, so that all are aligned, then by name. */
attune_status at_safetensors_write(const char *path, const at_named_array *tensors, size_t count,
                                   const at_pair *metadata, size_t pairs);

#endif
