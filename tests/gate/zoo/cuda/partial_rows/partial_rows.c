/* partial_rows: every sixty-fourth row is left unwritten. */
#define NAME partial_rows
#define SUMMARY "every sixty-fourth row is left unwritten"
#include "../descriptor.h"
