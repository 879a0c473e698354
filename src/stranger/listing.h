/* What a compiler made of a stranger's kernel, as text for its assembler, and what may not be in it. */
#ifndef STRANGER_LISTING_H
#define STRANGER_LISTING_H

#include "attune/attune.h"

/* ATTUNE_COMPILE_ERROR where the listing has an instruction that tells the kernel when, where or how often it runs
 * (dice, numbers of processors, counters), or keeps a state beyond its registers (segments, protection keys); or one
 * that can hide such (data among code, macros, conditions). The detail names it and begins with `what`. */
attune_status at_listing_check(const char *what, const char *listing);

#endif
