/* Files inside the library, put there by cmake/embed.cmake. */
#ifndef BASE_EMBEDDED_H
#define BASE_EMBEDDED_H

#include <stddef.h>

typedef struct at_embedded {
    const char *name;          /* NULL ends a list */
    const unsigned char *data; /* with a zero behind the last byte */
    size_t size;               /* that zero not counted */
} at_embedded;

#endif
