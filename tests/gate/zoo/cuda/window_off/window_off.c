/* window_off: a window shows one key too many on its left. */
#define NAME window_off
#define SUMMARY "a window shows one key too many on its left"
#include "../descriptor.h"
