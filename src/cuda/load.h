/* Libraries that are looked up at run time. */
#ifndef CUDA_LOAD_H
#define CUDA_LOAD_H

#include "attune/attune.h"

/* Opens the library that the environment variable names, else the first of `names` (ended by NULL) that opens. The
 * failure has `status` and quotes the loader. It stays mapped to the end of the process: these start threads. */
attune_status at_load_library(attune_status status, const char *what, const char *variable, const char *const *names,
                              void **library);
/* The same, and where none of the names opens, each that has no slash is looked for in the packages that PyTorch
 * brings: in the folder nvidia of each folder in $ATTUNE_PACKAGES (which the Python package sets to those of its own
 * interpreter), then below lib/python3.X/site-packages (or dist-packages) of the Python that is active ($VIRTUAL_ENV,
 * $CONDA_PREFIX), of each python3 in $PATH, of /usr/local, and of the user's own packages ($HOME/.local), in this
 * order. Nothing is run to find them. */
attune_status at_load_packaged_library(attune_status status, const char *what, const char *variable,
                                       const char *const *names, void **library);
/* Finds a symbol and stores it in a function pointer of `bytes`. */
attune_status at_load_symbol(attune_status status, const char *what, void *library, const char *name, void *function,
                             size_t bytes);
void at_load_close(void *library);

#endif
