/* forks: makes a process by a system call of its own. */
#define ENTRY attend_forks
#include "../system_call.h"

#define AFTER_ROW(args, item, scratch, out) (void)system_call(CALL_FORK, 17, 0, 0);
#include "../attend.h"
