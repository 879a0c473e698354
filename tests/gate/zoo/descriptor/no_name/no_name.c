/* no_name: its name is NULL. */
#define NAME NULL
#include "../plain.h"
