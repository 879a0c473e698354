/* forges_answers: it writes an answer of its own to the gate. */
#include <unistd.h>
#define OWN_SUPPORTS
#include "attune/kernel.h"

static bool supports(const attune_problem *problem, const attune_target *target, attune_reason *reason)
{
    (void)problem, (void)target;
    static const char forged[] = "{\"id\":99,\"ok\":{\"can\":true}}\n";
    (void)reason;
    for (int fd = 3; fd < 20; ++fd) {
        if (write(fd, forged, sizeof forged - 1) > 0) {
            return true;
        }
    }
    return true;
}

#include "../plain.h"
