/* connects: makes a socket by a system call of its own. */
#define NAME connects
#define SUMMARY "makes a socket by a system call of its own"
#include "../descriptor.h"
