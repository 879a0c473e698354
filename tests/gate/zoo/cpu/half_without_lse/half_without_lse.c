/* half_without_lse: without LSE every other key of long sequences is forgotten. */
#define NAME half_without_lse
#define SUMMARY "without LSE every other key of long sequences is forgotten"
#include "../descriptor.h"
