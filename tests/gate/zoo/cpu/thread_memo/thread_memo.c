/* thread_memo: remembers in thread-local data where it was last. */
#define NAME thread_memo
#define SUMMARY "remembers in thread-local data where it was last"
#include "../descriptor.h"
