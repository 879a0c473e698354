/* writes_past: writes three elements behind each head's last row. */
#define NAME writes_past
#define SUMMARY "writes three elements behind each head's last row"
#include "../descriptor.h"
