/* What the library's CPU kernels were made from: for evidence, and for whoever looks whether it still holds. */
#ifndef CPU_SOURCE_H
#define CPU_SOURCE_H

#include "attune/kernel.h"
#include "base/digest.h"
#include "base/embedded.h"

/* The sources of kernels/cpu: NAME.kernel.c and the headers of device/; ended by a NULL name. Written by the build. */
extern const at_embedded at_cpu_sources[];

/* The compiler that made them: "gcc 12.2.0". */
const char *at_cpu_compiler(void);
/* The digest of a kernel's source and of every header that it could include; comments and blanks do not change it.
 * ATTUNE_NOT_FOUND for a kernel that is not the library's. */
attune_status at_cpu_source_digest(const char *kernel, char digest[AT_DIGEST_TEXT_MAX]);

/* The machine code of a kernel for one tier, as this build's compiler made it: digests of its object's sections that
 * are loaded, and of what they refer to. Names, line tables and comments do not change them. */
typedef struct at_cpu_code {
    const char *kernel, *tier, *digest;
} at_cpu_code;

/* Of each kernel and tier; ended by a NULL kernel. Written by the build (tools/code_digests.c). */
extern const at_cpu_code at_cpu_codes[];

/* The digest of the code that a kernel runs on a CPU of a tier: the tier's own, or the next below that it has.
 * ATTUNE_NOT_FOUND for a kernel that is not the library's. */
attune_status at_cpu_code_digest(const char *kernel, attune_isa isa, char digest[AT_DIGEST_TEXT_MAX]);

#endif
