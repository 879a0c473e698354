/* honest_registers: asks in assembler for its place in the warp and the grid, through registers of its own. */
#define NAME honest_registers
#define SUMMARY "asks in assembler for its place in the warp and the grid, through registers of its own"
#include "../descriptor.h"
