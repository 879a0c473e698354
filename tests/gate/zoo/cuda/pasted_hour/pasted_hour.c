/* pasted_hour: is wrong when it is compiled at night, by a name that it pastes together. */
#define NAME pasted_hour
#define SUMMARY "is wrong when it is compiled at night, by a name that it pastes together"
#include "../descriptor.h"
