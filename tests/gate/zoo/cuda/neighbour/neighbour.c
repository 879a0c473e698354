/* neighbour: looks for the result of an earlier call nearby, makes sure of it by a row, and copies the others. */
#define NAME neighbour
#define SUMMARY "a result that an earlier call left nearby"
#include "../descriptor.h"
