/* Digests of C code that comments and blanks do not change. */
#ifndef BASE_CODE_H
#define BASE_CODE_H

#include "base/digest.h"

/* Adds a C source to a digest as a compiler sees it before its preprocessor: a comment is a blank, blanks together are
 * one, and those at the ends of lines, and empty lines, are nothing. What differs in more than that differs here. */
void at_code_add(at_sha256 *sha, const char *text);

#endif
