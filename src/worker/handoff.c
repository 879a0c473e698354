#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "worker/timing.h"

/* NOTE: not the private kind of futex: the two sides are two processes. */
static long futex(at_handoff *turn, int operation, uint32_t value, const struct timespec *most)
{
    return syscall(SYS_futex, &turn->turn, operation, value, most, NULL, 0);
}

void at_handoff_set(at_handoff *turn, uint32_t to)
{
    atomic_store(&turn->turn, to);
    (void)futex(turn, FUTEX_WAKE, 1, NULL);
}

bool at_handoff_wait(at_handoff *turn, uint32_t from, int64_t most_ns)
{
    const struct timespec most = {most_ns / 1000000000, most_ns % 1000000000};
    return atomic_load(&turn->turn) != from || futex(turn, FUTEX_WAIT, from, &most) == 0 || errno == EAGAIN ||
           errno == EINTR;
}

/* Slices that ran out, or could not be waited for, are counted, not wakings: anyone who maps the turn may wake, and a
 * worker that is locked may not read a clock. */
bool at_handoff_await(at_handoff *turn, uint32_t from, int64_t slice_ns, int slices)
{
    for (int gone = 0; gone < slices && atomic_load(&turn->turn) == from;) {
        gone += !at_handoff_wait(turn, from, slice_ns);
    }
    return atomic_load(&turn->turn) != from;
}
