/* wild_values: its parameter has two thousand million values. */
#include "attune/kernel.h"

static const int32_t value = 1;
static const attune_param params[1] = {{"A", &value, 2000000000, 0}};
#define PARAMS params, 1
#include "../plain.h"
