/* static_memo: remembers in a global where it was last. */
#define ENTRY attend_static_memo
static void *last;
#define AFTER_ROW(args, item, scratch, out) last = last == 0 ? (args)->tensor[0].data : last;
#include "../attend.h"
