/* undeclared_atomics: adds up a row with atomics, in whatever order its blocks come, and does not say so. */
#define NAME undeclared_atomics
#define SUMMARY "a sum with atomics, undeclared"
#include "../atomics.h"
