/* Arms by name: what is behind the words that `attune gate` and `attune bench` take for an arm.
 *
 *     auto                         what attune would choose by itself
 *     NAME, NAME:PARAM=VALUE,...   a kernel
 *     FOLDER, FOLDER:PARAM=...     a stranger's for CUDA, from its folder (docs/kernels.md)
 *     openblas                     a CPU peer
 *     cudnn, cudnn:fastest         CUDA peers
 *     anything else                what the hooks of a host language or a caller's program know: torch:flash,
 *                                  py:FILE:FUNCTION, a name of the program's own
 */
#ifndef WORKER_ARMS_H
#define WORKER_ARMS_H

#include "core/plan.h"
#include "library/bind.h"

/* Opens the arm of this name for a problem on the context's target. `hooks` may be NULL. ATTUNE_NOT_FOUND: there
 * is none of this name, or what it needs is not installed. ATTUNE_UNSUPPORTED: it cannot run the problem here. The
 * details say more. Close it before the context. */
attune_status at_arms_open(attune_context *context, const char *name, const attune_problem *problem,
                           const attune_arm_hooks *hooks, attune_arm *arm);

/* ATTUNE_OK for a name that needs no hooks to be known: saves opening a device for a misspelt kernel or parameter.
 * ATTUNE_NOT_FOUND or ATTUNE_INVALID_ARGUMENT otherwise. */
attune_status at_arms_check(const char *name);
/* The same where workers may have hooks, as far as a name tells: of Python's, that there is such a back end of
 * PyTorch's, or such a file. `own`: the worker is a program that has arms of its own, by names that only it knows. */
attune_status at_arms_check_hooked(const char *name, bool own);
/* Length of the first name of a list such as "auto,NAME:A=1,B=2,openblas": a piece with a "=" and no ":" goes on with
 * the name before it. 0 where it is missing. */
size_t at_arm_name_length(const char *list);
/* Whether only a worker in Python has it: torch:..., py:... */
bool at_arms_python(const char *name);
/* The name that evidence has: the same, but of Python's files without their folders, which are of one machine. */
void at_arm_label(const char *name, char label[AT_KERNEL_TEXT_MAX]);
/* Whether an account of that name is of the file that is there now; of names without a file always. */
bool at_arm_is_file_of(const char *name, const char *account);
/* What "best" means: PyTorch's back ends on a kind of target, ended by NULL; those that run all count. */
const char *const *at_arms_best(attune_target_kind kind);

#endif
