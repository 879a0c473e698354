/* illegal_address: reads where nothing is. */
#define NAME illegal_address
#define SUMMARY "reads where nothing is"
#include "../descriptor.h"
