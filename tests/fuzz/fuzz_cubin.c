/* Any bytes as a cubin, as its compiler's log and as PTX: names stay within their bounds and are terminated, counts are
 * sane, and what cannot be read is refused with words. */
#include <stdlib.h>
#include <string.h>

#include "cuda/cubin.h"
#include "cuda/ptx.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void require(bool condition)
{
    if (!condition) {
        abort();
    }
}

static void check_names(const at_cubin *cubin)
{
    require(memchr(cubin->globals, '\0', sizeof cubin->globals) != NULL);
    require(memchr(cubin->undefined_name, '\0', sizeof cubin->undefined_name) != NULL);
    require(memchr(cubin->warning, '\0', sizeof cubin->warning) != NULL);
    require(cubin->entry_count >= 0 && cubin->entry_count <= AT_CUBIN_ENTRIES_MAX);
    for (int i = 0; i < cubin->entry_count; ++i) {
        require(memchr(cubin->entry[i].name, '\0', sizeof cubin->entry[i].name) != NULL);
        require(cubin->entry[i].smem_static >= 0 && cubin->entry[i].max_threads >= 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    at_cubin cubin;
    char name[8];
    char *text = malloc(bytes + 1);
    if (text == NULL) {
        return 0;
    }
    memcpy(text, data, bytes);
    text[bytes] = '\0';
    char digest[AT_DIGEST_TEXT_MAX];
    attune_status status = at_cubin_inspect(data, bytes, bytes % 2 == 1 ? text : NULL, &cubin);
    require(status == ATTUNE_OK || attune_last_detail()[0] != '\0');
    bool digested = at_cubin_code(data, bytes, bytes % 2 == 1 ? text : NULL, digest) == ATTUNE_OK;
    require(!digested || (status == ATTUNE_OK && strlen(digest) == AT_DIGEST_TEXT_MAX - 1));
    check_names(&cubin);
    if (at_ptx_uses_global(text, name, sizeof name)) {
        require(name[0] != '\0' && memchr(name, '\0', sizeof name) != NULL);
    }
    if (at_ptx_reads_special(text, name, sizeof name)) {
        require(name[0] == '%' && memchr(name, '\0', sizeof name) != NULL);
    }
    free(text);
    return 0;
}
