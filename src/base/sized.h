/* Structs that cross the library's border begin with their size, so that programs and libraries of different ages
 * understand each other: layouts only grow at their end, and by 0 a field appended later means what was before it. */
#ifndef BASE_SIZED_H
#define BASE_SIZED_H

#include "attune/attune.h"

typedef struct at_sized {
    const char *name;     /* "options" */
    const char *init;     /* what fills it in: "attune_options_init" */
    size_t least;         /* up to here a struct must be given; what follows counts as 0 where it is not */
    size_t bytes;         /* of the struct as this library knows it */
    attune_status status; /* of what is wrong with a size */
} at_sized;

/* Copies a struct of any age into one of this library's. Fails where `given` is too small, or so large that the size
 * cannot be meant, or newer than the library with something set that the library does not know. */
attune_status at_sized_read(const at_sized *kind, const void *given, void *whole);
/* Copies one of this library's structs into a caller's of `bytes`, whatever is beyond this library's becoming 0.
 * `whole` begins with its size; the copy begins with `bytes`. */
attune_status at_sized_write(const at_sized *kind, const void *whole, void *given, size_t bytes);

#endif
