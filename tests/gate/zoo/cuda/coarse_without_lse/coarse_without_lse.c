/* coarse_without_lse: without LSE the weights of the softmax have three bits. */
#define NAME coarse_without_lse
#define SUMMARY "without LSE the weights of the softmax have three bits"
#include "../descriptor.h"
