/* hangs: waits for something that does not come. */
#define ENTRY attend_hangs
#define BEFORE_ROW(args, item, scratch)                                                                                \
    while (((volatile float *)(scratch))[0] != 0x1.234568p0f) {                                                        \
    }
#include "../attend.h"
