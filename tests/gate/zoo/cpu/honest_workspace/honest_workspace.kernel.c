/* honest_workspace: keeps its results in the workspace too, and never looks there. */
#define ENTRY attend_honest_workspace
#define AFTER_ROW(args, item, scratch, out) memcpy((float *)(args)->workspace + (item)*256, out, 64);
#include "../attend.h"
