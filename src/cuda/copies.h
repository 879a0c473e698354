/* A pass over PTX that has asynchronous copies arrive as late as they may: who reads before the wait that ends his copy
 * finds what was there before, and who waits as he must finds the same as ever. */
#ifndef CUDA_COPIES_H
#define CUDA_COPIES_H

#include "base/text.h"

typedef struct at_copies {
    int copies;   /* that wait now */
    bool shares;  /* a word of shared memory says where they are, for functions that copy */
    bool unknown; /* there are others, which could not be read and are as they were */
} at_copies;

/* Appends the PTX, which is plain (cuda/ptx.h), to `to`; each thread's cp.async is put down in the thread's own memory,
 * and done where it waits for it: by wait_group, wait_all or an arrival at an mbarrier. Of more than 128 under way any
 * may be done at once. */
at_copies at_ptx_copy_late(const char *ptx, at_text *to);

#endif
