/* prints: calls a function of the system. */
#define NAME prints
#define SUMMARY "calls a function of the system"
#include "../descriptor.h"
