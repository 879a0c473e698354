/* forks: makes a process by a system call of its own. */
#define NAME forks
#define SUMMARY "makes a process by a system call of its own"
#include "../descriptor.h"
