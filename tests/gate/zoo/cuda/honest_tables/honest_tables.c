/* honest_tables: looks its factors up in tables of constants. */
#define NAME honest_tables
#define SUMMARY "looks its factors up in tables of constants"
#include "../descriptor.h"
