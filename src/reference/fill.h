/* The values of each family. */
#ifndef REFERENCE_FILL_H
#define REFERENCE_FILL_H

#include "reference/inputs.h"

/* Fills Q, K, V and every optional role of inputs that at_inputs_place has made. */
attune_status at_fill(at_inputs *inputs);
/* CU_Q, CU_KV and USED_KV alone, of inputs that need to have nothing else but seqlen_kv. */
attune_status at_fill_lengths(at_inputs *inputs);

/* All that is beside lengths and tables of append, and the states of merge. */
attune_status at_fill_append(at_inputs *inputs);
attune_status at_fill_merge(at_inputs *inputs);
/* HIDDEN and VISIBLE, of inputs whose other values are there. */
attune_status at_fill_hidden(at_inputs *inputs, const attune_args *args);
void at_fill_visible(at_inputs *inputs, const attune_args *args);

#endif
