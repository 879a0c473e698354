/* A stranger: a kernel that came as a folder, of which nobody here knows anything. Its descriptor answers from a
 * process of its own (gate/question.h); its source is compiled by us; what it says is data, checked, and believed only
 * where a stage of the gate has seen it. docs/kernels.md says what a folder must have. */
#ifndef STRANGER_STRANGER_H
#define STRANGER_STRANGER_H

#include <stdbool.h>

#include "core/plan.h"
#include "stranger/stranger_files.h"

typedef struct at_stranger at_stranger;

/* Compiles the descriptor and asks it what it is. NULL tools are the defaults. ATTUNE_UNSUPPORTED where no sandbox is
 * to be had; ATTUNE_COMPILE_ERROR, ATTUNE_CORRUPT, ATTUNE_INVALID_ARGUMENT where the folder is at fault. */
attune_status at_stranger_open(const char *folder, const at_stranger_tools *tools, at_stranger **stranger);
/* Whether a kernel's text is that of a stranger, "FOLDER" or "FOLDER:PARAM=VALUE,...": a folder has a slash in it, or
 * is there under a name that the catalogue has not. */
bool at_stranger_is_meant(const char *text);
/* Opens the folder of such a text; *params points at what follows the colon, "" if nothing, which the kernel has. */
attune_status at_stranger_find(const char *text, const at_stranger_tools *tools, at_stranger **stranger,
                               const char **params);
/* NULL is fine. */
void at_stranger_close(at_stranger *stranger);

/* What a person's text for a kernel means, wherever one is asked for: one of the library's by its name, or a
 * folder. The texts point into `text`. Release with at_found_kernel_close, also after an error. */
typedef struct at_found_kernel {
    const attune_kernel *kernel;
    const char *params;    /* "PARAM=VALUE,...", "" for none */
    at_stranger *stranger; /* NULL for the library's own */
} at_found_kernel;

attune_status at_kernel_find(const char *text, const at_stranger_tools *tools, at_found_kernel *found);
void at_found_kernel_close(at_found_kernel *found);

/* The kernel, to be asked as any other (core/descriptor.h), by several threads too. Belongs to the stranger. */
const attune_kernel *at_stranger_kernel(const at_stranger *stranger);
/* Of all files that it brought. */
const char *at_stranger_digest(const at_stranger *stranger);

/* Asks for a recipe: `params` is "PARAM=VALUE,...", with the first config that fits for those not named ("" for all).
 * A CPU kernel is compiled for the target's tier. The recipe's texts and sources belong to the stranger.
 * ATTUNE_UNSUPPORTED where the descriptor or the target refuses; other failures are the descriptor's. */
attune_status at_stranger_recipe(at_stranger *stranger, const attune_problem *problem, const attune_target *target,
                                 const char *params, at_recipe *recipe);
/* A plan of that recipe on a device in a worker, or one that needs no at_device_ops.unload. */
attune_status at_stranger_plan(at_stranger *stranger, at_device *device, const attune_problem *problem,
                               const char *params, attune_plan **plan);

#endif
