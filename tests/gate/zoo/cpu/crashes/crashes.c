/* crashes: reads where nothing is. */
#define NAME crashes
#define SUMMARY "reads where nothing is"
#include "../descriptor.h"
