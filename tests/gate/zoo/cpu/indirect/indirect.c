/* indirect: has a function that the loader chooses by running code. */
#define NAME indirect
#define SUMMARY "has a function that the loader chooses by running code"
#include "../descriptor.h"
