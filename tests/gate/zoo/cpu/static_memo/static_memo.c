/* static_memo: remembers in a global where it was last. */
#define NAME static_memo
#define SUMMARY "remembers in a global where it was last"
#include "../descriptor.h"
