/* A few rows of a result, looked at where the whole would take too long: after each sample that is timed. */
#ifndef REFERENCE_SPOT_H
#define REFERENCE_SPOT_H

#include <stdbool.h>

#include "base/random.h"
#include "reference/reference.h"

enum { AT_SPOT_ROWS = 4 };

typedef struct at_spot {
    at_pool *pool;
    bool acc16;   /* the kernel accumulates in fp16 */
    double share; /* 0: the rules decide; else how far a row may be off the reference, as a share of its largest */
} at_spot;

/* Draws rows of the call and compares O, which `args` has with the inputs, with the fp64 reference: by the rules of a
 * single case, which grant twice what they do elsewhere, since so few rows say less about what is usual.
 * ATTUNE_WRONG_RESULT names the rule and the row. A call without rows is right. */
attune_status at_spot_check(const at_spot *spot, const attune_args *args, at_random *random);

#endif
