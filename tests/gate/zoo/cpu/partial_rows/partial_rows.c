/* partial_rows: every seventh row is left unwritten. */
#define NAME partial_rows
#define SUMMARY "every seventh row is left unwritten"
#include "../descriptor.h"
