/* window_off: a window shows one key too many on its left. */
#define WINDOW_SHIFT 1
#include "../attend.cuh"
