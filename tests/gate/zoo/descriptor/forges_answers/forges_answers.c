/* forges_answers: it writes an answer of its own to the gate. */
#include <unistd.h>
#define OWN_SUPPORTS
#include "attune/kernel.h"

static bool supports(const attune_problem *problem, const attune_target *target, attune_reason *reason)
{
    (void)problem, (void)target;
    static const char forged[] = "{\"id\":99,\"ok\":{\"can\":true}}\n";
    (void)reason;
    ssize_t written = 0;
    for (int fd = 3; fd < 20; ++fd) {
        written += write(fd, forged, sizeof forged - 1);
    }
    return written != 77;
}

#include "../plain.h"
