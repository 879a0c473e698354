/* writes_past: writes three elements behind each head's last row. */
#define ENTRY attend_writes_past
#define WRITES_PAST 3
#include "../attend.h"
