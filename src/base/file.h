/* Files: read whole, replaced whole or not at all, and where a user's files belong. */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "attune/attune.h"

/* Reads a whole file (or pipe) of at most `limit` bytes into memory that the caller frees, 64-byte aligned and with a
 * zero behind its last byte. ATTUNE_NOT_FOUND if there is none, ATTUNE_IO_ERROR if it cannot be read, and
 * ATTUNE_INVALID_ARGUMENT if it is larger than the limit. */
attune_status at_file_read(const char *path, size_t limit, void **data, size_t *bytes);

/* Writes a file under a temporary name in the same directory; commit syncs and renames it, so that the path always
 * holds the old content or the new. Permissions of a file that is replaced are kept, and symbolic links followed. What
 * is no regular file (a pipe, /dev/null) is written straight. */
typedef struct at_writer at_writer;

attune_status at_writer_open(const char *path, at_writer **writer);
/* After a failure the writer can only be abandoned (or committed, which fails likewise). */
attune_status at_writer_add(at_writer *writer, const void *data, size_t bytes);
/* Ends and frees the writer, whether it succeeds or not; on failure the temporary file is gone. */
attune_status at_writer_commit(at_writer *writer);
/* Removes the temporary file and frees the writer. NULL is fine. */
void at_writer_abandon(at_writer *writer);
/* Whether at_writer_open would succeed, for those who ask before the work whose result they will write; leaves nothing
 * behind. */
attune_status at_writer_check(const char *path);
/* All of it in one call. */
attune_status at_file_write(const char *path, const void *data, size_t bytes);

/* Whether two paths are the same text, or lead to the same regular file. */
bool at_file_same(const char *a, const char *b);

/* Asks all readers and writers of the process to stop at the next opportunity with ATTUNE_INTERRUPTED, leaving nothing
 * half-written behind. For signal handlers, and async-signal-safe. NOTE: the flag behind it is the one piece of mutable
 * state that the process shares; signals have nothing else to reach. */
void at_file_interrupt(void);
bool at_file_interrupted(void);
/* Forgets an interrupt that was dealt with, so that a result can still be saved. */
void at_file_resume(void);

/* Makes the directory and those above it that are missing. */
attune_status at_directory_make(const char *path);
/* Whether the directory, or where it is missing the nearest one above it that is not, can be written to; makes none. */
attune_status at_directory_check(const char *path);

/* Where the XDG base directory specification puts a program's files. */
typedef enum at_place {
    AT_PLACE_CACHE, /* $XDG_CACHE_HOME/attune, else ~/.cache/attune */
    AT_PLACE_DATA,  /* $XDG_DATA_HOME/attune, else ~/.local/share/attune */
    AT_PLACE_CONFIG /* $XDG_CONFIG_HOME/attune, else ~/.config/attune */
} at_place;

/* The path of `name` (NULL: the directory itself) in such a place, for the caller to free. Nothing is created. Relative
 * values of the variables are ignored, as the specification wants; ATTUNE_NOT_FOUND if there is no home either. */
attune_status at_path_user(at_place place, const char *name, char **path);

#endif
