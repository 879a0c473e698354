/* Arms: whatever can be timed, of one type for all who time: attune_arm (attune/gate.h), a plan, a peer or what a
 * program brings, made for one problem on one device and taking every call that the problem allows. Those of our own
 * say something as their account, "" where their name says all. measure knows arms, not kernels. */
#ifndef MEASURE_ARM_H
#define MEASURE_ARM_H

#include "attune/gate.h"
#include "measure/clock.h"

/* An arm on the buffers of one call. Belongs, with what it points to, to whoever made it. */
typedef struct at_bound {
    const attune_arm *arm;
    const attune_call *call; /* what the arm is run with; NULL: it needs none */
    int calls;               /* that one run of it makes, such as a graph's; times are of one call */
    /* Times so many runs together, to their end, by a clock of its own such as a device's events; no sample is then
     * shorter than least_ns, which that clock tells well enough. NULL: a run is complete on return, and whoever times
     * has the clock. */
    attune_status (*time)(void *self, int64_t runs, double *ns);
    void *time_self;
    int64_t least_ns;
} at_bound;

/* Times so many runs together: nanoseconds of all, by its own clock or else this one. */
attune_status at_bound_time(const at_bound *bound, const at_clock *clock, int64_t runs, double *ns);

/* Closes and clears; one that is all zeros is fine. */
static inline void at_arm_close(attune_arm *arm)
{
    if (arm->close != NULL) {
        arm->close(arm->self);
    }
    *arm = (attune_arm){0};
}

#endif
