/* Many standard normals at once. */
#ifndef REFERENCE_NORMALS_H
#define REFERENCE_NORMALS_H

#include "base/random.h"

/* Both values of each Box-Muller pair; the same on every processor. */
void at_normals(at_random *random, int64_t count, float *values);

#endif
