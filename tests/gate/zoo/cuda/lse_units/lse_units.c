/* lse_units: LSE is given in units of log2. */
#define NAME lse_units
#define SUMMARY "LSE is given in units of log2"
#include "../descriptor.h"
