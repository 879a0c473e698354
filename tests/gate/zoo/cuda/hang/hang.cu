/* hang: waits for something that does not come. */
#define BEFORE(args, where, shared)                                                                                    \
    while (*static_cast<volatile attune_i32 *>(args.tensor[ATTUNE_Q].data) != 0x7fc12345) {                            \
    }
#include "../attend.cuh"
