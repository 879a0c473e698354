/* illegal_address: reads where nothing is. */
#define BEFORE(args, where, shared)                                                                                    \
    if (static_cast<volatile int *>(nullptr)[1 << 20] == 1) {                                                          \
        return;                                                                                                        \
    }
#include "../attend.cuh"
