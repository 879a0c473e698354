/* How values are drawn and stored, whatever the family. */
#ifndef REFERENCE_VALUES_H
#define REFERENCE_VALUES_H

#include "base/random.h"
#include "reference/inputs.h"

/* A random stream for each row of each role, so that values depend neither on layout nor on order. */
at_random at_fill_stream(const at_inputs *inputs, attune_role role, int64_t batch, int64_t head, int64_t row);
/* Stores values in the role's dtype, `at` bytes from its first element. */
void at_fill_store(const at_inputs *inputs, attune_role role, size_t at, const float *values, int64_t count);

#endif
