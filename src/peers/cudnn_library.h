/* cuDNN, looked up at run time: $ATTUNE_CUDNN, else the loader's path, else PyTorch's packages. */
#ifndef PEERS_CUDNN_LIBRARY_H
#define PEERS_CUDNN_LIBRARY_H

#include "attune/attune.h"
#include "peers/cudnn_types.h"

#define AT_CUDNN_OLDEST 90100 /* 10000 * major + 100 * minor + patch */

typedef struct at_cudnn {
    void *library;
    int version;           /* as AT_CUDNN_OLDEST */
    char version_text[24]; /* "9.19.0" */
    at_cudnn_handle handle;
#define ITEM(name, result, parameters) result(*name) parameters;
    AT_CUDNN_ITEMS(ITEM)
#undef ITEM
} at_cudnn;

/* Loads the library and resolves the table, without a handle: needs no device. ATTUNE_NOT_FOUND, with the reason, where
 * it is not available or too old. */
attune_status at_cudnn_open(at_cudnn **cudnn);
/* Makes the handle, in the context that is current. */
attune_status at_cudnn_start(at_cudnn *cudnn);
/* In the context the handle was made in, if there is one. NULL is fine. */
void at_cudnn_close(at_cudnn *cudnn);

/* ATTUNE_OK for AT_CUDNN_SUCCESS; else `status`, with what was being done and what cuDNN says of it. */
attune_status at_cudnn_check(const at_cudnn *cudnn, unsigned int error, attune_status status, const char *what);

#endif
