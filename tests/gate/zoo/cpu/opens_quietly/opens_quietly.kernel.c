/* opens_quietly: opens a file by a system call of its own. */
#define ENTRY attend_opens_quietly
#include "../system_call.h"

#define AFTER_ROW(args, item, scratch, out) (void)system_call(CALL_OPENAT, -100, (long)"/etc/hostname", 0);
#include "../attend.h"
