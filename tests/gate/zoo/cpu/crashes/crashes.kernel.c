/* crashes: reads where nothing is. */
#define ENTRY attend_crashes
#define BEFORE_ROW(args, item, scratch) ((volatile char *)(scratch))[0] = ((volatile char *)0)[item];
#include "../attend.h"
