/* changes_input: scales Q where it lies, as if it were its own. */
#define ENTRY attend_changes_input
#define BEFORE_ROW(args, item, scratch)                                                                                \
    for (int c = 0; c < (args)->head_dim_qk; ++c) {                                                                    \
        store(&t[ATTUNE_Q], q + c, 0.5f * load(&t[ATTUNE_Q], q + c));                                                  \
    }
#define SCALE_BY 2.0f
#include "../attend.h"
