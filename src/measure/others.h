/* Whether others worked on this machine's processors meanwhile. A CPU that is shared is not what its kernels are
 * measured on, and who is slowed down more by company is no matter of chance. */
#ifndef MEASURE_OTHERS_H
#define MEASURE_OTHERS_H

#include <stdbool.h>

/* Seconds of work of all processes on the processors that this one may use, since the machine started; negative where
 * the system does not report. Good to some hundredths of a second a processor. */
double at_busy_s(void);
/* As read from a text like Linux's /proc/stat; `allowed(self, cpu)` says which processors count. */
double at_busy_in(const char *text, bool (*allowed)(void *self, int cpu), void *self);

/* Whether work of others, in threads that had work on average, is more than a session of so many processors bears. */
bool at_others_disturb(double threads, int cpus);

#endif
