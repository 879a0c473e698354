/* other_entry: its steps name an entry that its code has not. */
#define NAME other_entry
#define SUMMARY "its steps name an entry that its code has not"
#define ENTRY "attend_faster"
#include "../descriptor.h"
