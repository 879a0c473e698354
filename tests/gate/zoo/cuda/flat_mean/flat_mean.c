/* flat_mean: gives the mean of V where the first logits look flat. */
#define NAME flat_mean
#define SUMMARY "gives the mean of V where the first logits look flat"
#include "../descriptor.h"
