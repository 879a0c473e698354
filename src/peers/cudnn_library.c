#include "peers/cudnn_library.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "cuda/load.h"

/* cuDNN's own account of its last error, on one line; "" where it has none. */
static void last_words(const at_cudnn *cudnn, char *text, size_t bytes)
{
    text[0] = '\0';
    cudnn->cudnnGetLastErrorString(text, bytes);
    text[bytes - 1] = '\0';
    for (char *c = text; *c != '\0'; ++c) {
        *c = *c == '\n' || *c == '\t' ? ' ' : *c;
    }
}

attune_status at_cudnn_check(const at_cudnn *cudnn, unsigned int error, attune_status status, const char *what)
{
    char more[384];
    if (error == AT_CUDNN_SUCCESS) {
        return ATTUNE_OK;
    }
    last_words(cudnn, more, sizeof more);
    return at_fail(status, "cuDNN %s, %s: %s%s%s", cudnn->version_text, what, cudnn->cudnnGetErrorString(error),
                   more[0] != '\0' ? ": " : "", more);
}

static attune_status resolve(at_cudnn *cudnn)
{
#define ITEM(name, result, parameters)                                                                                 \
    AT_FORWARD(at_load_symbol(ATTUNE_NOT_FOUND, "cuDNN", cudnn->library, #name, &cudnn->name, sizeof cudnn->name));
    AT_CUDNN_ITEMS(ITEM)
#undef ITEM
    return ATTUNE_OK;
}

static attune_status open_table(at_cudnn *cudnn)
{
    static const char *const names[] = {"libcudnn.so.9", "/usr/local/cuda/lib64/libcudnn.so.9", NULL};
    AT_FORWARD(at_load_packaged_library(ATTUNE_NOT_FOUND, "cuDNN", "ATTUNE_CUDNN", names, &cudnn->library));
    AT_FORWARD(resolve(cudnn));
    cudnn->version = (int)cudnn->cudnnGetVersion();
    (void)snprintf(cudnn->version_text, sizeof cudnn->version_text, "%d.%d.%d", cudnn->version / 10000,
                   cudnn->version / 100 % 100, cudnn->version % 100);
    AT_FAIL_IF(cudnn->version < AT_CUDNN_OLDEST, ATTUNE_NOT_FOUND, "cuDNN %s is too old: %d.%d or later is needed",
               cudnn->version_text, AT_CUDNN_OLDEST / 10000, AT_CUDNN_OLDEST / 100 % 100);
    return ATTUNE_OK;
}

attune_status at_cudnn_open(at_cudnn **cudnn)
{
    *cudnn = NULL;
    at_cudnn *made = calloc(1, sizeof *made);
    AT_FAIL_IF(made == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for cuDNN's table");
    attune_status status = open_table(made);
    if (status != ATTUNE_OK) {
        at_cudnn_close(made);
        return status;
    }
    *cudnn = made;
    return ATTUNE_OK;
}

attune_status at_cudnn_start(at_cudnn *cudnn)
{
    return at_cudnn_check(cudnn, cudnn->cudnnCreate(&cudnn->handle), ATTUNE_DEVICE_ERROR, "starting");
}

void at_cudnn_close(at_cudnn *cudnn)
{
    if (cudnn == NULL) {
        return;
    }
    if (cudnn->handle != NULL) {
        (void)cudnn->cudnnDestroy(cudnn->handle);
    }
    at_load_close(cudnn->library);
    free(cudnn);
}
