/* many_params: it has more parameters than there may be. */
#include "attune/kernel.h"

static const attune_param params[1];
#define PARAMS params, 1000000
#include "../plain.h"
