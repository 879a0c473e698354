/* hangs: waits for something that does not come. */
#define NAME hangs
#define SUMMARY "waits for something that does not come"
#include "../descriptor.h"
