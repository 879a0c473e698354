/* The values of each family. */
#ifndef REFERENCE_FILL_H
#define REFERENCE_FILL_H

#include "reference/inputs.h"

/* Fills Q, K, V and every optional role of inputs that at_inputs_place has made. */
attune_status at_fill(at_inputs *inputs);

#endif
