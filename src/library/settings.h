/* Options and environment, resolved and checked: what a context is made with. */
#ifndef LIBRARY_SETTINGS_H
#define LIBRARY_SETTINGS_H

#include <stdbool.h>

#include "attune/kernel.h"
#include "base/threads.h"

typedef struct at_settings {
    bool target_given; /* by option or environment; else the first backend that opens is taken */
    attune_target_kind target;
    int device; /* CUDA ordinal */
    attune_isa isa;
    at_pool_options pool; /* its cpus are the settings' */
    int *cpus;
    char *kernel;            /* "NAME[:PARAM=VALUE,...]" that plans are held to, or NULL */
    const char *kernel_from; /* "options.kernel" or "ATTUNE_KERNEL" */
    char *wisdom;            /* a file to read, or NULL */
    const char *wisdom_from; /* "options.wisdom" or "ATTUNE_WISDOM" */
    char *pack;              /* a file of compiled kernels to read, or NULL */
    char *cache;             /* directory for compiled kernels, or NULL where the machine offers none */
} at_settings;

/* An option that is given outranks its variable, which is then not looked at. `options` may be NULL. Errors name the
 * option or the variable, its value and what is allowed. */
attune_status at_settings_resolve(const attune_options *options, at_settings *settings);
void at_settings_free(at_settings *settings);

#endif
