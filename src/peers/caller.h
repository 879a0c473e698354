/* What a caller brings as a peer: arms that a program, or a host language, offers through attune_arm_hooks. */
#ifndef PEERS_CALLER_H
#define PEERS_CALLER_H

#include "attune/gate.h"
#include "attune/kernel.h"
#include "measure/arm.h"

/* Opens the caller's arm of this name for a problem on a target. ATTUNE_NOT_FOUND where
 * the name is none of the caller's; ATTUNE_INVALID_ARGUMENT where its arm lacks what it must have; else what the caller
 * reported. `hooks` must outlive the arm. */
attune_status at_caller_arm(const attune_arm_hooks *hooks, const char *name, const attune_problem *problem,
                            const attune_target *target, attune_arm *arm);

#endif
