/* What the library's CPU kernels were made from: for evidence, and for whoever looks whether it still holds. */
#ifndef CPU_SOURCE_H
#define CPU_SOURCE_H

#include "attune/attune.h"
#include "base/digest.h"
#include "base/embedded.h"

/* The sources of kernels/cpu: NAME.kernel.c and the headers of device/; ended by a NULL name. Written by the build. */
extern const at_embedded at_cpu_sources[];

/* The compiler that made them: "gcc 12.2.0". */
const char *at_cpu_compiler(void);
/* The digest of a kernel's source and of every header that it could include; comments and blanks do not change it.
 * ATTUNE_NOT_FOUND for a kernel that is not the library's. */
attune_status at_cpu_source_digest(const char *kernel, char digest[AT_DIGEST_TEXT_MAX]);

#endif
