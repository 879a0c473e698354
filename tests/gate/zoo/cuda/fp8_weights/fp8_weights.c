/* fp8_weights: the weights of the softmax are rounded to the three bits of an fp8. */
#define NAME fp8_weights
#define SUMMARY "the weights of the softmax are rounded to the three bits of an fp8"
#include "../descriptor.h"
