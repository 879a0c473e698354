/* early_return: returns where O seems to be written already. */
#define BEFORE(args, where, shared)                                                                                    \
    if (!isnan(to_float(row_of<element>(args.tensor[ATTUNE_O], where.batch, where.head, where.first_row)[0]))) {       \
        return;                                                                                                        \
    }
#include "../attend.cuh"
