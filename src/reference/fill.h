/* The values of each family. */
#ifndef REFERENCE_FILL_H
#define REFERENCE_FILL_H

#include "base/random.h"
#include "reference/inputs.h"

/* Fills Q, K, V and every optional role of inputs that at_inputs_place has made. */
attune_status at_fill(at_inputs *inputs);

/* A random stream for each row of each role, so that values depend neither on layout nor on order. */
at_random at_fill_stream(const at_inputs *inputs, attune_role role, int64_t batch, int64_t head, int64_t row);
/* Stores values in the role's dtype, `at` bytes from its first element. */
void at_fill_store(const at_inputs *inputs, attune_role role, size_t at, const float *values, int64_t count);

/* All that is beside lengths and tables of append, and the states of merge. */
attune_status at_fill_append(at_inputs *inputs);
attune_status at_fill_merge(at_inputs *inputs);
/* HIDDEN and VISIBLE, of inputs whose other values are there. */
attune_status at_fill_hidden(at_inputs *inputs, const attune_args *args);
void at_fill_visible(at_inputs *inputs, const attune_args *args);

#endif
