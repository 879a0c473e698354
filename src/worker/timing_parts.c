/* What both ways of timing know of what is timed. */
#include "worker/timing.h"

size_t at_timing_call_bytes(const at_timing *timing)
{
    size_t bytes = 0;
    for (int role = 0; role <= ATTUNE_O; ++role) {
        bytes += timing->transformed.role[role].bytes;
    }
    return bytes;
}

double at_timing_share(const at_timing *timing, const attune_arm *arm)
{
    const attune_arm *first = &timing->wanted.arm[0]->arm; /* whose result was judged */
    return at_transform_share(&timing->wanted.problem, arm->traits | first->traits, arm != first);
}

attune_status at_timing_made(const at_timing *timing, int arm, attune_status status)
{
    if (status == ATTUNE_WRONG_RESULT && timing->wanted.wrong != NULL) {
        *timing->wanted.wrong = arm;
    }
    return status;
}
