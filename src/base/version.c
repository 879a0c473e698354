#include "attune/attune.h"

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

int attune_version(void)
{
    return ATTUNE_VERSION;
}

const char *attune_version_string(void)
{
    return TEXT(ATTUNE_VERSION_MAJOR) "." TEXT(ATTUNE_VERSION_MINOR) "." TEXT(ATTUNE_VERSION_PATCH);
}
