/* Temporary folders that do not outlive their makers for long. A process that is killed cannot clean up; the lock that
 * it held on its folder is gone with it, and the next process that makes one removes what has no owner. */
#ifndef BASE_SCRATCH_H
#define BASE_SCRATCH_H

#include "attune/attune.h"

typedef struct at_scratch {
    char *path; /* NULL: there is none */
    int lock;
} at_scratch;

/* Makes a folder in $TMPDIR, else /tmp. ATTUNE_IO_ERROR where that is not possible. */
attune_status at_scratch_make(at_scratch *made);
/* Removes it and everything in it. Fine with what was never made, as {0} is. */
void at_scratch_remove(at_scratch *made);
/* Removes a folder and everything in it, as far as that can be done; follows no links. */
void at_directory_remove(const char *folder);

#endif
