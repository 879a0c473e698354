/* other_block: its steps launch more threads than its code is compiled for. */
#define NAME other_block
#define SUMMARY "its steps launch more threads than its code is compiled for"
#define THREADS 256
#include "../descriptor.h"
