/* other_abi: it was written for another layout of the arguments. */
#define ABI 77
#include "../plain.h"
