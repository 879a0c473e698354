/* lse_units: LSE is given in units of log2. */
#define LSE_UNIT 1.4426950f
#include "../attend.cuh"
