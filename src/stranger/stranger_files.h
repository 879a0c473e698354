/* A stranger's folder: its files, and what the system's compiler makes of them. */
#ifndef STRANGER_STRANGER_FILES_H
#define STRANGER_STRANGER_FILES_H

#include "attune/kernel.h"
#include "base/digest.h"
#include "base/embedded.h"
#include "base/scratch.h"

enum { AT_STRANGER_FILES_MAX = 24, AT_STRANGER_NAME_MAX = 64 };

typedef struct at_stranger_files {
    char *folder;
    char *descriptor; /* path of NAME.c, the one C file that is no kernel's */
    char *kernel;     /* path of NAME.kernel.c, or NULL */
    int count;        /* of the CUDA sources and what they include, by the names they are included by */
    at_embedded file[AT_STRANGER_FILES_MAX + 1];
    char name[AT_STRANGER_FILES_MAX][AT_STRANGER_NAME_MAX];
    char digest[AT_DIGEST_TEXT_MAX]; /* of the descriptor's, the kernel's and the sources' names and bytes */
    at_scratch place;                /* the public headers, objects */
} at_stranger_files;

/* Reads a folder. ATTUNE_NOT_FOUND where it has no descriptor, or more than one. Free with at_stranger_files_free, also
 * after an error. */
attune_status at_stranger_files_read(const char *folder, at_stranger_files *files);
void at_stranger_files_free(at_stranger_files *files);

/* How strangers' files are looked at. Compilers and descriptors run in processes of this program, which must know the
 * verb `sandbox`. */
typedef struct at_stranger_tools {
    const char *compiler; /* NULL: $CC, else cc */
    double patience_s;    /* for an answer of a descriptor; 0: 10 s */
} at_stranger_tools;

/* Compiles the descriptor, or the kernel for a tier, to an object in the temporary folder, and looks at it
 * (gate/object.h). The caller frees *path. ATTUNE_COMPILE_ERROR quotes the compiler. */
attune_status at_stranger_compile_descriptor(const at_stranger_files *files, const at_stranger_tools *tools,
                                             char **path);
attune_status at_stranger_compile_kernel(const at_stranger_files *files, const at_stranger_tools *tools, attune_isa isa,
                                         char **path);

#endif
