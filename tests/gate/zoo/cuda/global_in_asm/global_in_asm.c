/* global_in_asm: counts its calls in a global that only its assembler declares. */
#define NAME global_in_asm
#define SUMMARY "counts its calls in a global that only its assembler declares"
#include "../descriptor.h"
