/* reads_a_file: draws in how long the machine has run. */
#define NAME reads_a_file
#define SUMMARY "draws in how long the machine has run"
#include "../descriptor.h"
