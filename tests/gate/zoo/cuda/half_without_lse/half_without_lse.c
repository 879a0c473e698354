/* half_without_lse: without LSE half of the keys are dropped. */
#define NAME half_without_lse
#define SUMMARY "without LSE half of the keys are dropped"
#include "../descriptor.h"
