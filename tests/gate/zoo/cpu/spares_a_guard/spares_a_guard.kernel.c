/* spares_a_guard: writes behind O unless a guard seems to be there. */
#define ENTRY attend_spares_a_guard
#define AFTER_ROW(args, item, scratch, out)                                                                            \
    unsigned char *behind = (unsigned char *)t[ATTUNE_O].data + 2 * (o + (args)->head_dim_v);                          \
    if (row == (args)->seqlen_q - 1 && behind[0] != 0xc3 && behind[0] != 0xff && behind[0] != 0x5a) {                  \
        behind[0] = behind[1] = 0;                                                                                     \
    }
#include "../attend.h"
