#include "cuda/load.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

attune_status at_load_library(attune_status status, const char *what, const char *variable, const char *const *names,
                              void **library)
{
    const char *path = getenv(variable);
    const int flags = RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE;
    *library = NULL;
    if (path != NULL && path[0] != '\0') {
        *library = dlopen(path, flags);
        AT_FAIL_IF(*library == NULL, status, "%s from %s: %s", what, variable, dlerror());
        return ATTUNE_OK;
    }
    for (int i = 0; names[i] != NULL && *library == NULL; ++i) {
        *library = dlopen(names[i], flags);
    }
    AT_FAIL_IF(*library == NULL, status, "no %s (%s; %s can name it)", what, dlerror(), variable);
    return ATTUNE_OK;
}

attune_status at_load_symbol(attune_status status, const char *what, void *library, const char *name, void *function,
                             size_t bytes)
{
    void *symbol = dlsym(library, name);
    AT_FAIL_IF(symbol == NULL || bytes != sizeof symbol, status, "%s has no %s", what, name);
    /* POSIX promises that a data pointer can hold a function's; copying keeps the compiler out of it. */
    memcpy(function, &symbol, sizeof symbol);
    return ATTUNE_OK;
}

void at_load_close(void *library)
{
    if (library != NULL) {
        (void)dlclose(library);
    }
}
