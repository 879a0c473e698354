/* opens_quietly: opens a file by a system call of its own. */
#define NAME opens_quietly
#define SUMMARY "opens a file by a system call of its own"
#include "../descriptor.h"
