/* cheats_on_zeros: forgets every other key where O holds zeros. */
#define ENTRY attend_cheats_on_zeros
#define BEFORE_ROW(args, item, scratch)                                                                                \
    const int fresh = load(&t[ATTUNE_O], row_of(&t[ATTUNE_O], batch, head, row)) == 0;
#define ROUNDED(weight) (fresh && j % 2 != 0 ? 0.0f : (weight))
#include "../attend.h"
