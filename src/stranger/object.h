/* A stranger's shared object, looked at before anything of it is loaded: loading must run none of its code and give it
 * nothing that it could keep between calls. */
#ifndef STRANGER_OBJECT_H
#define STRANGER_OBJECT_H

#include <stdbool.h>
#include <stddef.h>

#include "attune/attune.h"

/* What an object may want of the process that loads it. */
typedef enum at_object_kind {
    AT_OBJECT_KERNEL,    /* a CPU kernel: functions of libm and the memory functions; no data that can change */
    AT_OBJECT_DESCRIPTOR /* a descriptor: whatever libc has, and data that can change */
} at_object_kind;

/* ATTUNE_OK for an object of this machine without constructors, destructors, indirect functions, thread-local data,
 * other objects that it needs, search paths and relocations of the code; and within what its kind allows.
 * ATTUNE_COMPILE_ERROR says what there is; ATTUNE_CORRUPT that it is no sound object: every offset, size and index is
 * checked, so any bytes may be given. */
attune_status at_object_check(const char *what, const void *data, size_t bytes, at_object_kind kind);

#endif
