/* A folder's sources in memory: what a proposer was given, and what it answered. Nobody vouches for either: names are
 * checked, nothing is followed out of a folder, and there are limits. */
#ifndef EVOLVE_PROPOSER_FILES_H
#define EVOLVE_PROPOSER_FILES_H

#include <stddef.h>

#include "base/digest.h"
#include "base/text.h"

enum {
    AT_SOURCES_MAX = 48,
    AT_SOURCE_NAME_MAX = 96,
    AT_SOURCE_BYTES_MAX = 1 << 20,  /* of one file */
    AT_SOURCES_BYTES_MAX = 4 << 20, /* of all */
    AT_SOURCE_DEPTH_MAX = 3         /* folders within folders */
};

typedef struct at_source_file {
    char name[AT_SOURCE_NAME_MAX]; /* relative, with slashes */
    char *data;                    /* ends with a zero that is not counted */
    size_t bytes;
} at_source_file;

/* Ascending by name. Begins as {0}; release with at_sources_free. */
typedef struct at_sources {
    int count;
    at_source_file file[AT_SOURCES_MAX];
} at_sources;

/* Whether a name may be a source's: relative, of letters, digits, '_', '-', '.' and '/', without hidden parts and "..",
 * and ending in .c, .h, .cu or .cuh. ATTUNE_INVALID_ARGUMENT says what is wrong. */
attune_status at_source_name_check(const char *name);
/* Adds a file or replaces the one of that name; copies. ATTUNE_INVALID_ARGUMENT for names and sizes beyond the limits.
 */
attune_status at_sources_put(at_sources *sources, const char *name, const char *data, size_t bytes);
/* Does nothing where there is none. */
void at_sources_remove(at_sources *sources, const char *name);
/* NULL where there is none. */
const at_source_file *at_sources_find(const at_sources *sources, const char *name);
void at_sources_free(at_sources *sources);
attune_status at_sources_copy(const at_sources *from, at_sources *to);
/* Of names and bytes. */
void at_sources_digest(const at_sources *sources, char digest[AT_DIGEST_TEXT_MAX]);

/* Reads the folder's sources; other files and hidden folders are passed over. ATTUNE_INVALID_ARGUMENT for what is
 * beyond the limits, and for a symbolic link, a pipe or a device in a source's place: none is opened. */
attune_status at_sources_read(const char *folder, at_sources *sources);
/* Writes them into a folder, which is made where it is missing and should hold nothing else. */
attune_status at_sources_write(const at_sources *sources, const char *folder);

/* The same text without C comments; line breaks stay. What is in strings and characters is no comment. */
attune_status at_source_strip(const char *data, size_t bytes, at_text *stripped);
/* Looks for what no kernel may have, comments and strings of text aside: clocks, identities of the processor, exits,
 * assembler on a CPU, and includes that lead out of the folder. `allow` has words that are let through, blanks between;
 * NULL for none. ATTUNE_COMPILE_ERROR names the file, the line and the word. */
attune_status at_sources_scan(const at_sources *sources, const char *allow);

#endif
