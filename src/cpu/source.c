#include "cpu/source.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/code.h"
#include "base/status.h"
#include "core/target.h"

const char *at_cpu_compiler(void)
{
#if defined(__clang__)
    return "clang " __clang_version__;
#else
    return "gcc " __VERSION__;
#endif
}

attune_status at_cpu_source_digest(const char *kernel, char digest[AT_DIGEST_TEXT_MAX])
{
    unsigned char bytes[AT_DIGEST_BYTES];
    char wanted[80];
    at_sha256 sha;
    bool found = false;
    (void)snprintf(wanted, sizeof wanted, "%s.kernel.c", kernel);
    at_sha256_init(&sha);
    for (const at_embedded *file = at_cpu_sources; file->name != NULL; ++file) {
        bool own = strcmp(file->name, wanted) == 0;
        found = found || own;
        if (own || strncmp(file->name, "device/", strlen("device/")) == 0) {
            at_sha256_add(&sha, file->name, strlen(file->name) + 1);
            at_code_add(&sha, (const char *)file->data);
        }
    }
    AT_FAIL_IF(!found, ATTUNE_NOT_FOUND, "%s is not among the library's CPU kernels", kernel);
    at_sha256_end(&sha, bytes);
    at_digest_text(bytes, digest);
    return ATTUNE_OK;
}

static const char *find_code(const char *kernel, const char *tier)
{
    for (const at_cpu_code *code = at_cpu_codes; code->kernel != NULL; ++code) {
        if (strcmp(code->kernel, kernel) == 0 && strcmp(code->tier, tier) == 0) {
            return code->digest;
        }
    }
    return NULL;
}

attune_status at_cpu_code_digest(const char *kernel, attune_isa isa, char digest[AT_DIGEST_TEXT_MAX])
{
    for (int tier = (int)isa; tier >= 0; --tier) {
        const char *found = find_code(kernel, at_isa_name((attune_isa)tier));
        if (found != NULL) {
            (void)snprintf(digest, AT_DIGEST_TEXT_MAX, "%s", found);
            return ATTUNE_OK;
        }
    }
    return at_fail(ATTUNE_NOT_FOUND, "%s has no code for a CPU of tier %s", kernel, at_isa_name(isa));
}
