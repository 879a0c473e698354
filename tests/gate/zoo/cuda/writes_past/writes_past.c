/* writes_past: writes an element behind the last row of O. */
#define NAME writes_past
#define SUMMARY "writes an element behind the last row of O"
#include "../descriptor.h"
