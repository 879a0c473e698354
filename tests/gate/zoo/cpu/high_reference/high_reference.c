/* high_reference: 2^8 of headroom above the maximum, so that fp16 loses the weights of a tail beside one large one. */
#define NAME high_reference
#define SUMMARY "2^8 of headroom above the maximum, so that fp16 loses the weights of a tail beside one large one"
#include "../descriptor.h"
