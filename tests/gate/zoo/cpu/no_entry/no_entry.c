/* no_entry: its code has no function of the name that is looked for. */
#define NAME no_entry
#define SUMMARY "its code has no function of the name that is looked for"
#include "../descriptor.h"
