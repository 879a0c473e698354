/* constructor: has code that would run when it is loaded. */
#define NAME constructor
#define SUMMARY "has code that would run when it is loaded"
#include "../descriptor.h"
