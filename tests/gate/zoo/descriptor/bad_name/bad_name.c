/* bad_name: its name is a path. */
#define NAME "../../etc/passwd"
#include "../plain.h"
