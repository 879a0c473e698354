/* no_entry: its code has no function of the name that is looked for. */
#define ENTRY attend_another
#include "../attend.h"
