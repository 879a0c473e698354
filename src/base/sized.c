#include "base/sized.h"

#include <string.h>

#include "base/status.h"

/* A size beyond this many times what is known was never set: nothing there is looked at. */
enum { GROWTH_MOST = 4 };

static attune_status check_size(const at_sized *kind, size_t size)
{
    AT_FAIL_IF(size < kind->least || size / GROWTH_MOST > kind->bytes, kind->status,
               "%s.size is %zu: %zu is what this library has, and at least %zu is needed; %s sets it", kind->name, size,
               kind->bytes, kind->least, kind->init);
    return ATTUNE_OK;
}

attune_status at_sized_read(const at_sized *kind, const void *given, void *whole)
{
    const unsigned char *from = given;
    size_t size;
    memcpy(&size, given, sizeof size);
    AT_FORWARD(check_size(kind, size));
    for (size_t i = kind->bytes; i < size; ++i) {
        AT_FAIL_IF(from[i] != 0, ATTUNE_UNSUPPORTED,
                   "%s.size is %zu, and byte %zu is set: this library (%s) knows the first %zu bytes, so the program "
                   "asks for something newer",
                   kind->name, size, i, attune_version_string(), kind->bytes);
    }
    size_t common = size < kind->bytes ? size : kind->bytes;
    memset(whole, 0, kind->bytes);
    memcpy(whole, given, common);
    memcpy(whole, &kind->bytes, sizeof kind->bytes);
    return ATTUNE_OK;
}

attune_status at_sized_write(const at_sized *kind, const void *whole, void *given, size_t bytes)
{
    AT_FORWARD(check_size(kind, bytes));
    memset(given, 0, bytes);
    memcpy(given, whole, bytes < kind->bytes ? bytes : kind->bytes);
    memcpy(given, &bytes, sizeof bytes);
    return ATTUNE_OK;
}
