#include "measure/others.h"

#include <ctype.h>
#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/status.h"

/* One processor's line, "cpu3 user nice system idle iowait irq softirq steal ...": all of it but what was idle. */
static double busy_ticks(const char *line)
{
    enum { USER, NICE, SYSTEM, IDLE, IOWAIT, IRQ, SOFTIRQ, STEAL, COLUMNS };
    double sum = 0;
    char *end = NULL;
    for (int column = USER; column < COLUMNS; ++column) {
        unsigned long long ticks = strtoull(line, &end, 10);
        if (end == line) {
            break;
        }
        sum += column == IDLE || column == IOWAIT ? 0.0 : (double)ticks;
        line = end;
    }
    return sum;
}

double at_busy_in(const char *text, bool (*allowed)(void *self, int cpu), void *self)
{
    double ticks = -1;
    for (const char *line = text; line != NULL && *line != '\0'; line = strchr(line, '\n')) {
        line += *line == '\n';
        bool one = strncmp(line, "cpu", 3) == 0 && isdigit((unsigned char)line[3]); /* "cpu " is all of them */
        char *rest = NULL;
        long cpu = one ? strtol(line + 3, &rest, 10) : -1;
        if (cpu >= 0 && cpu <= INT_MAX && allowed(self, (int)cpu)) {
            ticks = (ticks < 0 ? 0 : ticks) + busy_ticks(rest);
        }
    }
    long hertz = sysconf(_SC_CLK_TCK);
    return ticks < 0 || hertz <= 0 ? -1 : ticks / (double)hertz;
}

static bool is_ours(void *self, int cpu)
{
    const cpu_set_t *set = self;
    return cpu < CPU_SETSIZE && CPU_ISSET(cpu, set);
}

double at_busy_s(void)
{
    enum { MOST = 4 << 20 };
    cpu_set_t set;
    void *text;
    size_t bytes;
    if (sched_getaffinity(0, sizeof set, &set) != 0 || at_file_read("/proc/stat", MOST, &text, &bytes) != ATTUNE_OK) {
        return -1;
    }
    double seconds = at_busy_in(text, is_ours, &set);
    free(text);
    return seconds;
}

bool at_others_disturb(double threads, int cpus)
{
    static const double least = 0.25, share = 0.01;
    return threads > least + share * cpus;
}
