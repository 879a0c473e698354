/* What goes into a cubin, gathered before anything is compiled. */
#ifndef CUDA_BUILD_H
#define CUDA_BUILD_H

#include "base/digest.h"
#include "core/recipe.h"

enum { AT_BUILD_OPTIONS_MAX = 80, AT_BUILD_OPTION_BYTES = 96, AT_BUILD_HEADERS_MAX = 32 };

/* The library's own sources and device headers; ended by a NULL name. Written by the build. */
extern const at_embedded at_cuda_sources[];

typedef struct at_build {
    at_embedded source;
    int header_count;
    const char *header_name[AT_BUILD_HEADERS_MAX]; /* as included */
    const char *header_text[AT_BUILD_HEADERS_MAX];
    int option_count;
    char option[AT_BUILD_OPTIONS_MAX][AT_BUILD_OPTION_BYTES];
    char digest[AT_DIGEST_TEXT_MAX]; /* of all the above and ATTUNE_ABI: everything but the compiler */
    char names[AT_BUILD_HEADERS_MAX][64];
} at_build;

/* Gathers the source, the headers it reaches and the options for a recipe, whose sources must outlive the build. Ones
 * that are not the library's are looked at by at_build_outside. */
attune_status at_build_gather(const at_recipe *recipe, const attune_target *target, at_build *build);

/* Copies the name of the next #include "..." at or behind `text`, and returns what follows it; NULL where there is
 * none. Names that do not fit are passed over. */
const char *at_build_next_include(const char *text, char *name, size_t bytes);

#endif
