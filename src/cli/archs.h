/* Architectures to compile for, where no device need be. */
#ifndef CLI_ARCHS_H
#define CLI_ARCHS_H

#include "attune/kernel.h"

enum { AT_ARCHS_MAX = 8 };

typedef struct at_archs {
    int count;
    attune_target target[AT_ARCHS_MAX]; /* typical devices */
    char name[AT_ARCHS_MAX][16];        /* "sm_90a" */
} at_archs;

/* Reads "80,90a,sm_120": the letter is implied. ATTUNE_INVALID_ARGUMENT lists those that are known. */
attune_status at_cli_archs(const char *list, at_archs *archs);

#endif
