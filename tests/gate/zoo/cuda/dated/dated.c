/* dated: is wrong when it is compiled on another day than today. */
#define NAME dated
#define SUMMARY "is wrong when it is compiled on another day than today"
#include "../descriptor.h"
