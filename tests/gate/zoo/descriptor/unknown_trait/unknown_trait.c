/* unknown_trait: it has a trait that nobody knows. */
#define TRAITS 0x4000
#include "../plain.h"
