/* Arms: whatever can be timed, of one type for all who time: attune_arm (attune/gate.h), a plan, a peer or what a
 * program brings, made for one problem on one device and taking every call that the problem allows. Those of our own
 * say something as their account, "" where their name says all. measure knows arms, not kernels. */
#ifndef MEASURE_ARM_H
#define MEASURE_ARM_H

#include "attune/gate.h"

/* An arm on the buffers of one call. Belongs, with what it points to, to whoever made it. */
typedef struct at_bound {
    const attune_arm *arm;
    const attune_call *call; /* what the arm is run with; NULL: it needs none */
    int calls;               /* that one run of it makes, such as a graph's; times are of one call */
    /* Waits for all that was enqueued; called once at the end of each sample, inside the time. NULL: a run is complete
     * on return. */
    attune_status (*finish)(void *self);
    void *finish_self;
} at_bound;

/* Runs it once, to its end. */
static inline attune_status at_bound_run(const at_bound *bound)
{
    attune_status status = bound->arm->run(bound->arm->self, bound->call);
    return status == ATTUNE_OK && bound->finish != NULL ? bound->finish(bound->finish_self) : status;
}

/* Closes and clears; one that is all zeros is fine. */
static inline void at_arm_close(attune_arm *arm)
{
    if (arm->close != NULL) {
        arm->close(arm->self);
    }
    *arm = (attune_arm){0};
}

#endif
