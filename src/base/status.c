#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* What the analyser sees of these is for their callers. */
#undef at_fail
#undef at_fail_in

enum { DETAIL_MAX = 1024 };

static _Thread_local char detail[DETAIL_MAX];

static const char *const status_text[ATTUNE_STATUS_COUNT] = {
    [ATTUNE_OK] = "ok",
    [ATTUNE_INVALID_ARGUMENT] = "invalid argument",
    [ATTUNE_INVALID_PROBLEM] = "invalid problem",
    [ATTUNE_UNSUPPORTED] = "unsupported",
    [ATTUNE_NOT_FOUND] = "not found",
    [ATTUNE_OUT_OF_MEMORY] = "out of memory",
    [ATTUNE_WORKSPACE_TOO_SMALL] = "workspace too small",
    [ATTUNE_IO_ERROR] = "input or output failed",
    [ATTUNE_CORRUPT] = "corrupt data",
    [ATTUNE_NO_DEVICE] = "no usable device",
    [ATTUNE_DEVICE_ERROR] = "the device failed",
    [ATTUNE_COMPILE_ERROR] = "compilation failed",
    [ATTUNE_INTERRUPTED] = "interrupted",
    [ATTUNE_WRONG_RESULT] = "wrong result",
    [ATTUNE_INTERNAL] = "internal error",
};

const char *attune_status_string(attune_status status)
{
    if ((int)status < 0 || status >= ATTUNE_STATUS_COUNT) {
        return "unknown status";
    }
    return status_text[status];
}

const char *attune_last_detail(void)
{
    return detail;
}

attune_status at_fail(attune_status status, const char *format, ...)
{
    /* Arguments may point into the old detail, so the new one is written beside it first. */
    char text[DETAIL_MAX] = "";
    va_list list;
    va_start(list, format);
    (void)vsnprintf(text, sizeof text, format, list);
    va_end(list);
    memcpy(detail, text, sizeof detail);
    return status;
}

attune_status at_fail_in(attune_status status, const char *format, ...)
{
    char text[DETAIL_MAX] = "";
    va_list list;
    va_start(list, format);
    int used = vsnprintf(text, sizeof text, format, list);
    va_end(list);
    size_t at = used < 0 ? 0 : (size_t)used < sizeof text - 3 ? (size_t)used : sizeof text - 3;
    size_t kept = strnlen(detail, sizeof text - at - 3);
    memcpy(text + at, ": ", 2);
    memcpy(text + at + 2, detail, kept);
    text[at + 2 + kept] = '\0';
    memcpy(detail, text, sizeof detail);
    return status;
}
