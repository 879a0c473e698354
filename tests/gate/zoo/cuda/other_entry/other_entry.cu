/* other_entry: its steps name an entry that its code has not. */
#include "../attend.cuh"
