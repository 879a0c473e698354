/* Any bytes are taken for ncu's table, or for its list of metrics, or refused; what was read has a diagnosis. */
#include <stdlib.h>
#include <string.h>

#include "judge/counters.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    at_counters counters = {.asked = true};
    char *metrics = NULL;
    char *text = strndup((const char *)data, size);
    if (at_counters_parse("fuzz", (const char *)data, size, &counters) == ATTUNE_OK) {
        at_counters_diagnose(&counters);
        if (counters.diagnosis[0] == '\0' || counters.count < 1 || counters.count > AT_VERDICT_COUNTERS ||
            counters.stalls > AT_VERDICT_STALLS) {
            abort();
        }
    }
    if (text != NULL && at_counters_choose(text, &metrics) == ATTUNE_OK) {
        free(metrics);
    }
    free(text);
    return 0;
}
