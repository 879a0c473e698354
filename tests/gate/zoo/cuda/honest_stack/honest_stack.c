/* honest_stack: keeps a table on its stack, and reads only what it wrote. */
#define NAME honest_stack
#define SUMMARY "keeps a table on its stack, and reads only what it wrote"
#include "../descriptor.h"
