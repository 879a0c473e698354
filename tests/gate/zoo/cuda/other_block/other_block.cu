/* other_block: its steps launch more threads than its code is compiled for. */
#include "../attend.cuh"
