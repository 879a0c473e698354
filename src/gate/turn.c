#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "gate/timing.h"

/* NOTE: not the private kind of futex: the two sides are two processes. */
static void futex(at_turn *turn, int operation, uint32_t value, const struct timespec *most)
{
    (void)syscall(SYS_futex, &turn->turn, operation, value, most, NULL, 0);
}

void at_turn_set(at_turn *turn, uint32_t to)
{
    atomic_store(&turn->turn, to);
    futex(turn, FUTEX_WAKE, 1, NULL);
}

void at_turn_wait(at_turn *turn, uint32_t from, int64_t most_ns)
{
    const struct timespec most = {most_ns / 1000000000, most_ns % 1000000000};
    if (atomic_load(&turn->turn) == from) {
        futex(turn, FUTEX_WAIT, from, &most);
    }
}
