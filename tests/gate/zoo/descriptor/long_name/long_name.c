/* long_name: its name has a million letters. */
static const char letters[1000001] = {[0 ... 999999] = 0x61};
#define NAME letters
#include "../plain.h"
