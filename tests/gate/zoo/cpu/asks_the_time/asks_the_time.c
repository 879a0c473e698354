/* asks_the_time: asks the kernel for the time by a system call of its own. */
#define NAME asks_the_time
#define SUMMARY "asks the kernel for the time by a system call of its own"
#include "../descriptor.h"
