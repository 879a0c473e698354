/* strikes_at: is wrong for one second in sixteen, by the device's timer. */
#define NAME strikes_at
#define SUMMARY "is wrong for one second in sixteen, by the device's timer"
#include "../descriptor.h"
