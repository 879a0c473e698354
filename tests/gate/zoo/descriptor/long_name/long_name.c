/* long_name: its name has four thousand letters. */
static const char letters[4001] = {[0 ... 3999] = 0x61};
#define NAME letters
#include "../plain.h"
