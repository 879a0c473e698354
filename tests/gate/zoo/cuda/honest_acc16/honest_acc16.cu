/* honest_acc16: O is summed up in fp16, and the descriptor says so. */
#include "device/element.cuh"

/* As a tensor core does: sixteen keys, then the sum is rounded. */
#define SUMMED(value) (j % 16 == 15 ? to_float(from_float<fp16>(value)) : (value))
#include "../attend.cuh"
